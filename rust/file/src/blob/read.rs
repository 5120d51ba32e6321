//! Reading the bytes of blobs.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, StringArray, StructArray, UInt8Array, UInt32Array, UInt64Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Fields};
use bytes::Bytes;

use super::descriptors::{BlobPlace, BlobValue, values_of};
use crate::io::{COALESCE_LIMIT, ReadAt, read_range};
use crate::reader::FileReader;
use crate::schema::{BlobForm, Field};
use crate::{Context, Error, Result};

/// Files that one round of reads keeps open.
const MAX_OPEN_FILES: usize = 64;

/// Descriptors as a field asks for them: the bytes, or the parts it names.
pub(crate) fn as_asked(field: &Field, reader: &FileReader, array: &ArrayRef) -> Result<ArrayRef> {
    match field.data_type() {
        DataType::LargeBinary => read_values(reader, &values_of(array)?),
        DataType::Struct(_) => described(field, array),
        other => Err(Error::unsupported(format!(
            "a blob column cannot be read as {other}"
        ))),
    }
}

/// Stored descriptors as the struct that a field asks for.
pub(crate) fn described(field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(Error::corrupt("blob descriptors in a column of another type"));
    };
    parts_of(field, &fields, &in_form(field, array)?)
}

/// The descriptors in the form that the field asks for.
fn in_form(field: &Field, array: &ArrayRef) -> Result<StructArray> {
    let stored = array
        .as_struct_opt()
        .ok_or_else(|| Error::corrupt("blob descriptors are no structs"))?;
    match (field.blob_form(), stored.num_columns()) {
        (Some(BlobForm::V2), 2) => promoted(stored),
        (Some(BlobForm::V1), 5) => Err(Error::unsupported(
            "the file holds blobs of the second form, the table knows the column as the first; read it with \
             blob_handling=\"all_binary\"",
        )),
        _ => Ok(stored.clone()),
    }
}

/// Descriptors of the first form as inline blobs of the second.
fn promoted(array: &StructArray) -> Result<StructArray> {
    let values = values_of(&(Arc::new(array.clone()) as ArrayRef))?;
    let number = |pick: fn(&BlobValue) -> u64| -> ArrayRef {
        let numbers = values.iter().map(|value| value.as_ref().map_or(0, pick));
        Arc::new(UInt64Array::from_iter_values(numbers))
    };
    let n = array.len();
    let valid: BooleanBuffer = values.iter().map(Option::is_some).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt8Array::from(vec![0; n])),
        number(|value| value.position),
        number(|value| value.size.unwrap_or(0)),
        Arc::new(UInt32Array::from(vec![0; n])),
        Arc::new(StringArray::from(vec![""; n])),
    ];
    let parts = BlobForm::V2.parts_as_fields();
    Ok(StructArray::try_new_with_length(
        parts,
        columns,
        Some(NullBuffer::new(valid)),
        n,
    )?)
}

/// The named parts of descriptors.
fn parts_of(field: &Field, fields: &Fields, stored: &StructArray) -> Result<ArrayRef> {
    let part = |part: &arrow_schema::FieldRef| {
        stored.column_by_name(part.name()).cloned().ok_or_else(|| {
            Error::invalid_input(format!("blob '{}' has no part '{}'", field.name, part.name()))
        })
    };
    let columns = fields.iter().map(part).collect::<Result<Vec<_>>>()?;
    let nulls = stored.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
    let array = StructArray::try_new_with_length(fields.clone(), columns, nulls, stored.len());
    Ok(Arc::new(array.map_err(|e| Error::corrupt(e.to_string()))?))
}

/// The bytes of all values. Each is one read, near ones of a file share one, and what has been read but not yet copied stays
/// below one read of [`COALESCE_LIMIT`] or one value.
fn read_values(reader: &FileReader, values: &[Option<BlobValue>]) -> Result<ArrayRef> {
    if values.iter().all(Option::is_none) {
        return Ok(new_null_array(&DataType::LargeBinary, values.len()));
    }
    let mut out = LargeBinaryBuilder::with_capacity(values.len(), 0);
    let mut round = Round::new(reader);
    for value in values {
        round.add(value.as_ref())?;
        if round.bytes >= COALESCE_LIMIT || round.files.len() >= MAX_OPEN_FILES {
            round.read(&mut out)?;
        }
    }
    round.read(&mut out)?;
    Ok(Arc::new(out.finish()))
}

/// Values that are read together.
struct Round<'a> {
    reader: &'a FileReader,
    /// Open objects and what is wanted of them.
    files: Vec<(BlobPlace, Object, Vec<Range<u64>>)>,
    /// For each row the file and the number of its range there; `None`: null.
    rows: Vec<Option<(usize, usize)>>,
    bytes: u64,
    /// Bytes taken so far of each object that belongs to the data file.
    taken: HashMap<BlobPlace, u64>,
}

impl<'a> Round<'a> {
    fn new(reader: &'a FileReader) -> Self {
        Self {
            reader,
            files: Vec::new(),
            rows: Vec::new(),
            bytes: 0,
            taken: HashMap::new(),
        }
    }

    fn add(&mut self, value: Option<&BlobValue>) -> Result<()> {
        let Some(value) = value else {
            self.rows.push(None);
            return Ok(());
        };
        let place = match value.size {
            // Nothing has to be opened for an empty value.
            Some(0) => BlobPlace::Own,
            _ => value.place.clone(),
        };
        let file = match self.files.iter().position(|(known, ..)| *known == place) {
            Some(file) => file,
            None => {
                let object = Object::open(self.reader, &place)?;
                self.files.push((place.clone(), object, Vec::new()));
                self.files.len() - 1
            }
        };
        let Some((_, object, ranges)) = self.files.get_mut(file) else {
            return Err(Error::corrupt("a blob without a file"));
        };
        let range = object.range_of(value)?;
        let size = range.end - range.start;
        if !matches!(place, BlobPlace::External { .. }) {
            // Values do not share bytes, so that together they are smaller than their file.
            let taken = self.taken.entry(place).or_default();
            *taken = taken.saturating_add(size);
            if *taken > object.end {
                return Err(
                    Error::corrupt("blob values that are larger than their file together")
                        .context(object.source.path()),
                );
            }
        }
        self.bytes = self.bytes.saturating_add(size);
        self.rows.push(Some((file, ranges.len())));
        ranges.push(range);
        Ok(())
    }

    /// Reads what was added and appends it.
    fn read(&mut self, out: &mut LargeBinaryBuilder) -> Result<()> {
        let files = std::mem::take(&mut self.files);
        let read = |(_, object, ranges): &(BlobPlace, Object, Vec<Range<u64>>)| object.read(ranges);
        let parts = files.iter().map(read).collect::<Result<Vec<_>>>()?;
        for row in self.rows.drain(..) {
            match row.and_then(|(file, range)| parts.get(file)?.get(range)) {
                Some(bytes) => out.append_value(bytes),
                None => out.append_null(),
            }
        }
        self.bytes = 0;
        Ok(())
    }
}

/// An open object that holds blobs.
#[derive(Debug, Clone)]
struct Object {
    source: Arc<dyn ReadAt>,
    /// Where the bytes of blobs end.
    end: u64,
}

impl Object {
    fn open(reader: &FileReader, place: &BlobPlace) -> Result<Self> {
        let files = || {
            reader.blob_files().ok_or_else(|| {
                Error::unsupported("blobs outside of the data file can only be read through their table")
                    .context(reader.path())
            })
        };
        let source = match place {
            BlobPlace::Own => {
                return Ok(Self {
                    source: reader.source().clone(),
                    end: reader.tail().footer().column_meta_start,
                });
            }
            BlobPlace::Side(id) => files()?.side_file(*id)?,
            BlobPlace::External { base, uri } => files()?
                .external(*base, uri)
                .context(|| format!("external blob '{uri}'"))?,
        };
        let end = source.len();
        Ok(Self { source, end })
    }

    /// The bytes of a value.
    fn range_of(&self, value: &BlobValue) -> Result<Range<u64>> {
        let end = match value.size {
            Some(0) => return Ok(0..0),
            Some(size) => value.position.checked_add(size),
            None => Some(self.end),
        };
        let range = end.map(|end| value.position..end);
        range
            .filter(|range| range.start <= range.end && range.end <= self.end)
            .ok_or_else(|| {
                Error::corrupt(format!(
                    "a blob of {} bytes at {}, but the bytes of blobs end at {}",
                    value.size.map_or("all".to_string(), |size| size.to_string()),
                    value.position,
                    self.end
                ))
                .context(self.source.path())
            })
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let wanted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
        if wanted.is_empty() {
            return Ok(vec![Bytes::new(); ranges.len()]);
        }
        let mut parts = self.source.read_ranges(&wanted)?.into_iter();
        let part = |range: &Range<u64>| match range.is_empty() {
            true => Bytes::new(),
            false => parts.next().unwrap_or_default(),
        };
        Ok(ranges.iter().map(part).collect())
    }
}

/// Makes handles of the blobs of a data file. Those of one object share it, so that it is opened once.
#[derive(Debug)]
pub struct BlobSource {
    reader: Arc<FileReader>,
    objects: HashMap<BlobPlace, Arc<OnceLock<Object>>>,
}

impl BlobSource {
    /// The blobs of this file.
    pub fn new(reader: Arc<FileReader>) -> Self {
        Self {
            reader,
            objects: HashMap::new(),
        }
    }

    /// A handle of a value.
    ///
    /// # Errors
    /// Corrupt for a range outside of the data file; as opening an external object whose size is not stored.
    pub fn handle(&mut self, value: BlobValue) -> Result<BlobHandle> {
        let object = self.objects.entry(value.place.clone()).or_default().clone();
        let mut handle = BlobHandle {
            reader: self.reader.clone(),
            value,
            object,
            size: 0,
        };
        handle.size = match (&handle.value.place, handle.value.size) {
            (_, Some(0)) => 0,
            (BlobPlace::Side(_) | BlobPlace::External { .. }, Some(size)) => size,
            _ => {
                let (_, range) = handle.object()?;
                range.end - range.start
            }
        };
        Ok(handle)
    }
}

/// One blob, read in parts. Its file is opened at the first read.
#[derive(Debug)]
pub struct BlobHandle {
    reader: Arc<FileReader>,
    value: BlobValue,
    object: Arc<OnceLock<Object>>,
    size: u64,
}

impl BlobHandle {
    /// Bytes of the blob.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads a part of the blob.
    ///
    /// # Errors
    /// Invalid input for a part outside of the blob; not found or corrupt if its file is missing or too short.
    pub fn read(&self, part: Range<u64>) -> Result<Bytes> {
        self.check(&part)?;
        if part.is_empty() {
            return Ok(Bytes::new());
        }
        let (object, whole) = self.object()?;
        read_range(
            object.source.as_ref(),
            whole.start + part.start..whole.start + part.end,
        )
    }

    /// Reads parts, near ones by one read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_parts(&self, parts: &[Range<u64>]) -> Result<Vec<Bytes>> {
        parts.iter().try_for_each(|part| self.check(part))?;
        if parts.iter().all(Range::is_empty) {
            return Ok(vec![Bytes::new(); parts.len()]);
        }
        let (object, whole) = self.object()?;
        let moved = |part: &Range<u64>| whole.start + part.start..whole.start + part.end;
        object.read(&parts.iter().map(moved).collect::<Vec<_>>())
    }

    fn check(&self, part: &Range<u64>) -> Result<()> {
        if part.start > part.end || part.end > self.size {
            return Err(Error::invalid_input(format!(
                "Blob range end {} exceeds blob size {}",
                part.end, self.size
            )));
        }
        Ok(())
    }

    fn object(&self) -> Result<(&Object, Range<u64>)> {
        let object = match self.object.get() {
            Some(object) => object,
            None => {
                let opened = Object::open(&self.reader, &self.value.place)?;
                self.object.get_or_init(|| opened)
            }
        };
        Ok((object, object.range_of(&self.value)?))
    }
}
