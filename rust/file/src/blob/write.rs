//! Writing the bytes of blobs on their way to a page, which then holds descriptors only.
//!
//! ```text
//! more than the dedicated threshold    a side file of its own
//! more than the inline threshold       the current pack: a side file that is closed before it grows beyond its threshold
//! else                                 the data file
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, OffsetSizeTrait, StringArray, StructArray,
    UInt8Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::{DataType, FieldRef};

use super::{BlobTargets, External};
use crate::container::ContainerWriter;
use crate::io::{FileSink, ReadAt, read_range};
use crate::schema::{BlobForm, Field};
use crate::{Context, Error, Result};

/// Values longer than this leave the data file.
const INLINE_BYTES: u64 = 64 << 10;

/// Values longer than this get a side file of their own.
const DEDICATED_BYTES: u64 = 4 << 20;

/// Bytes of a shared side file.
const PACK_BYTES: u64 = 1 << 30;

/// Bytes of an external object that are copied at a time.
const COPY_BYTES: u64 = 8 << 20;

/// Sizes at which values move from one place to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Thresholds {
    inline: u64,
    dedicated: u64,
    pack: u64,
}

impl Thresholds {
    /// The metadata of a field; `pack` replaces the default for shared side files.
    ///
    /// # Errors
    /// Invalid input for text that is no number, or 0 where a positive one is needed.
    fn of(field: &Field, pack: Option<u64>) -> Result<Self> {
        let number = |name: &str, default: u64, least: u64| {
            let key = format!("lance-encoding:blob-{name}-size-threshold");
            let Some(text) = field.metadata.get(&key) else {
                return Ok(default);
            };
            let expected = match least {
                0 => "a non-negative integer that fits in 64 bits",
                _ => "a positive integer",
            };
            text.parse().ok().filter(|n| *n >= least).ok_or_else(|| {
                Error::invalid_input(format!(
                    "Invalid blob threshold metadata {key}=\"{text}\" for field '{}'; expected {expected}",
                    field.name
                ))
            })
        };
        Ok(Self {
            inline: number("inline", INLINE_BYTES, 0)?,
            dedicated: number("dedicated", DEDICATED_BYTES, 1)?,
            pack: number("pack-file", pack.unwrap_or(PACK_BYTES), 1)?,
        })
    }
}

/// Writes blobs of one data file.
#[derive(Default)]
pub(crate) struct BlobWriter {
    targets: Option<Box<dyn BlobTargets>>,
    pack: Option<Pack>,
    /// Bytes of a shared side file, unless a field says otherwise.
    pack_bytes: Option<u64>,
    /// Side files so far; ids count from 1.
    num_side_files: u32,
}

impl std::fmt::Debug for BlobWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobWriter")
            .field("num_side_files", &self.num_side_files)
            .finish_non_exhaustive()
    }
}

/// The side file that values share.
struct Pack {
    id: u32,
    sink: Box<dyn FileSink>,
    len: u64,
}

/// A blob that is to be stored.
enum Content<'a> {
    Bytes(&'a [u8]),
    Object(&'a dyn ReadAt, std::ops::Range<u64>),
}

/// Where it is then.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    kind: u8,
    position: u64,
    size: u64,
    id: u32,
}

impl BlobWriter {
    /// Where blobs go that leave the data file.
    pub fn set_targets(&mut self, targets: Box<dyn BlobTargets>, pack_bytes: Option<u64>) {
        self.targets = Some(targets);
        self.pack_bytes = pack_bytes;
    }

    /// Checks the metadata of all blob fields.
    pub fn check(field: &Arc<Field>) -> Result<()> {
        let mut result = Ok(());
        field.walk(&mut |node| {
            if result.is_ok() && node.blob_form() == Some(BlobForm::V2) {
                result = Thresholds::of(node, None).map(drop);
            }
        });
        result
    }

    /// The array with descriptors in place of blobs, whose bytes are written. `outer`: entries that a null above hides.
    pub fn replace(
        &mut self,
        field: &Field,
        array: &ArrayRef,
        outer: Option<&NullBuffer>,
        container: &mut ContainerWriter,
    ) -> Result<ArrayRef> {
        let valid = NullBuffer::union(array.nulls(), outer);
        match field.blob_form() {
            Some(BlobForm::V1) => return first_form(array, valid, container),
            Some(BlobForm::V2) => return self.second_form(field, array, valid, container),
            None if !field.holds_blobs() => return Ok(array.clone()),
            None => {}
        }
        match array.data_type() {
            DataType::Struct(_) => {
                self.replace_in_struct(field, array.as_struct(), valid.as_ref(), container)
            }
            DataType::List(_) => {
                self.replace_in_list(field, array.as_list::<i32>(), valid.as_ref(), container)
            }
            DataType::LargeList(_) => {
                self.replace_in_list(field, array.as_list::<i64>(), valid.as_ref(), container)
            }
            DataType::FixedSizeList(item, size) => {
                let list = array.as_fixed_size_list();
                let valid = valid.map(|valid| valid.expand(usize::try_from(*size).unwrap_or(0)));
                let child = only_child(field)?;
                let items = self.replace(child, list.values(), valid.as_ref(), container)?;
                let item = retyped(item, &items);
                let nulls = list.nulls().cloned();
                Ok(Arc::new(FixedSizeListArray::try_new(item, *size, items, nulls)?))
            }
            other => Err(Error::unsupported(format!("blobs in a column of type {other}"))),
        }
    }

    fn replace_in_struct(
        &mut self,
        field: &Field,
        array: &StructArray,
        valid: Option<&NullBuffer>,
        container: &mut ContainerWriter,
    ) -> Result<ArrayRef> {
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for child in &field.children {
            let found = array.fields().find(&child.name);
            let column = found.and_then(|(at, arrow)| Some((array.columns().get(at)?, arrow)));
            let (column, arrow) = column.ok_or_else(|| {
                Error::schema_mismatch(format!("a struct lacks the field '{}'", child.name))
            })?;
            let column = self
                .replace(child, column, valid, container)
                .context(|| format!("'{}'", child.name))?;
            fields.push(retyped(arrow, &column));
            columns.push(column);
        }
        let nulls = array.nulls().cloned();
        Ok(Arc::new(StructArray::try_new_with_length(
            fields.into(),
            columns,
            nulls,
            array.len(),
        )?))
    }

    fn replace_in_list<O: OffsetSizeTrait>(
        &mut self,
        field: &Field,
        array: &GenericListArray<O>,
        valid: Option<&NullBuffer>,
        container: &mut ContainerWriter,
    ) -> Result<ArrayRef> {
        let child = only_child(field)?;
        let used = used_items(array, valid);
        let items = self.replace(child, array.values(), Some(&used), container)?;
        let (DataType::List(item) | DataType::LargeList(item)) = array.data_type() else {
            return Err(Error::schema_mismatch("a list of another type"));
        };
        let nulls = array.nulls().cloned();
        let offsets = array.offsets().clone();
        Ok(Arc::new(GenericListArray::<O>::try_new(
            retyped(item, &items),
            offsets,
            items,
            nulls,
        )?))
    }

    fn second_form(
        &mut self,
        field: &Field,
        array: &ArrayRef,
        valid: Option<NullBuffer>,
        container: &mut ContainerWriter,
    ) -> Result<ArrayRef> {
        let thresholds = Thresholds::of(field, self.pack_bytes)?;
        let rows = Given::new(array)?;
        let n = array.len();
        let (mut places, mut uris) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for row in 0..n {
            let (mut place, mut stored_uri) = (Place::default(), String::new());
            if valid.as_ref().is_none_or(|valid| valid.is_valid(row)) {
                let located =
                    |e: Error| Error::new(e.kind(), format!("Blob v2 field '{}' row {row} {e}", field.name));
                match rows.get(row).map_err(located)? {
                    GivenBlob::Data(bytes) => {
                        place = self.store(&thresholds, &Content::Bytes(bytes), container)?;
                    }
                    GivenBlob::Uri(uri, range) => {
                        (place, stored_uri) = self.store_external(&thresholds, uri, range, container)?;
                    }
                }
            }
            places.push(place);
            uris.push(stored_uri);
        }
        descriptors(&places, uris, valid)
    }

    fn store_external(
        &mut self,
        thresholds: &Thresholds,
        uri: &str,
        range: Option<(u64, u64)>,
        container: &mut ContainerWriter,
    ) -> Result<(Place, String)> {
        match self.targets()?.external(uri)? {
            External::Reference { base, uri } => {
                let (position, size) = range.unwrap_or((0, 0));
                let place = Place {
                    kind: 3,
                    position,
                    size,
                    id: base,
                };
                Ok((place, uri))
            }
            External::Ingest(object) => {
                let range = match range {
                    None => Some(0..object.len()),
                    Some((start, size)) => start.checked_add(size).map(|end| start..end),
                };
                let range = range.filter(|range| range.end <= object.len()).ok_or_else(|| {
                    Error::invalid_input(format!(
                        "the range of '{uri}' is outside of the object, which has {} bytes",
                        object.len()
                    ))
                })?;
                let place = self.store(thresholds, &Content::Object(object.as_ref(), range), container)?;
                Ok((place, String::new()))
            }
        }
    }

    fn targets(&mut self) -> Result<&mut (dyn BlobTargets + 'static)> {
        self.targets.as_deref_mut().ok_or_else(|| {
            Error::unsupported(
                "blob v2 columns are written through a table, which has a place for blobs outside of the data file",
            )
        })
    }

    fn store(
        &mut self,
        thresholds: &Thresholds,
        content: &Content<'_>,
        container: &mut ContainerWriter,
    ) -> Result<Place> {
        // A stand-alone file could not be read back whole.
        self.targets()?;
        let size = content.len();
        let place = Place {
            size,
            ..Place::default()
        };
        if size > thresholds.dedicated {
            let (id, mut sink) = self.create_side_file()?;
            content.write(&mut |bytes| sink.write_all(bytes))?;
            sink.finish()?;
            return Ok(Place { kind: 2, id, ..place });
        }
        if size > thresholds.inline {
            let pack = self.pack_for(size, thresholds.pack)?;
            let (id, position) = (pack.id, pack.len);
            content.write(&mut |bytes| pack.sink.write_all(bytes))?;
            pack.len += size;
            return Ok(Place {
                kind: 1,
                position,
                id,
                ..place
            });
        }
        let mut position = container.position();
        if size > 0 {
            let mut whole = Vec::new();
            position = container.write_payload(content.whole(&mut whole)?)?;
        }
        Ok(Place { position, ..place })
    }

    /// The pack that takes another `size` bytes.
    fn pack_for(&mut self, size: u64, limit: u64) -> Result<&mut Pack> {
        if self
            .pack
            .as_ref()
            .is_some_and(|pack| pack.len.saturating_add(size) > limit)
        {
            self.finish_pack()?;
        }
        if self.pack.is_none() {
            let (id, sink) = self.create_side_file()?;
            self.pack = Some(Pack { id, sink, len: 0 });
        }
        self.pack
            .as_mut()
            .ok_or_else(|| Error::invalid_input("a side file was not started"))
    }

    fn create_side_file(&mut self) -> Result<(u32, Box<dyn FileSink>)> {
        let id = self.num_side_files.checked_add(1);
        let id = id.ok_or_else(|| Error::invalid_input("more blobs than side file ids in one data file"))?;
        let sink = self.targets()?.create_side_file(id)?;
        self.num_side_files = id;
        Ok((id, sink))
    }

    fn finish_pack(&mut self) -> Result<()> {
        self.pack.take().map_or(Ok(()), |pack| pack.sink.finish())
    }

    /// Completes the side files.
    pub fn finish(mut self) -> Result<()> {
        self.finish_pack()
    }
}

impl Content<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Object(_, range) => range.end - range.start,
        }
    }

    fn write(&self, out: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Self::Bytes(bytes) => out(bytes),
            Self::Object(object, range) => {
                let mut start = range.start;
                while start < range.end {
                    let end = range.end.min(start.saturating_add(COPY_BYTES));
                    out(&read_range(*object, start..end)?)?;
                    start = end;
                }
                Ok(())
            }
        }
    }

    /// All bytes at once: of values that go into the data file.
    fn whole<'b>(&'b self, memory: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        if let Self::Bytes(bytes) = self {
            return Ok(bytes);
        }
        self.write(&mut |bytes| {
            memory.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(memory)
    }
}

/// Rows of a blob v2 column as a caller gives them.
struct Given<'a> {
    data: &'a arrow_array::LargeBinaryArray,
    uri: Option<&'a StringArray>,
    position: Option<&'a UInt64Array>,
    size: Option<&'a UInt64Array>,
}

enum GivenBlob<'a> {
    Data(&'a [u8]),
    Uri(&'a str, Option<(u64, u64)>),
}

impl<'a> Given<'a> {
    fn new(array: &'a ArrayRef) -> Result<Self> {
        let parts = array.as_struct_opt();
        let column = |name: &str| parts.and_then(|parts| parts.column_by_name(name));
        let number = |name: &str| column(name).and_then(|column| column.as_primitive_opt::<UInt64Type>());
        let data = column("data").and_then(|column| column.as_binary_opt::<i64>());
        Ok(Self {
            data: data.ok_or_else(|| {
                Error::schema_mismatch(format!(
                    "a blob v2 column is a struct with data: large_binary, not {}",
                    array.data_type()
                ))
            })?,
            uri: column("uri").and_then(|column| column.as_string_opt::<i32>()),
            position: number("position"),
            size: number("size"),
        })
    }

    /// # Errors
    /// Invalid input; the text goes on after "row n".
    fn get(&self, row: usize) -> Result<GivenBlob<'a>> {
        let number = |column: Option<&UInt64Array>| {
            column
                .filter(|column| column.is_valid(row))
                .map(|column| column.value(row))
        };
        let data = self.data.is_valid(row).then(|| self.data.value(row));
        let uri = self.uri.filter(|uri| uri.is_valid(row)).map(|uri| uri.value(row));
        let fault = match (data, uri, number(self.position), number(self.size)) {
            (Some(bytes), None, None, None) => return Ok(GivenBlob::Data(bytes)),
            (None, Some(uri), None, None) if !uri.is_empty() => return Ok(GivenBlob::Uri(uri, None)),
            (None, Some(uri), Some(start), Some(size)) if size > 0 && !uri.is_empty() => {
                return Ok(GivenBlob::Uri(uri, Some((start, size))));
            }
            (_, _, Some(_), None) | (_, _, None, Some(_)) => {
                "must set both `position` and `size`, or neither"
            }
            (_, None, Some(_), Some(_)) => "sets `position` and `size` but `uri` is null",
            (None, Some(""), ..) => "has an empty `uri`",
            (None, Some(_), Some(_), Some(_)) => "external range `size` must be greater than zero",
            _ => "must set exactly one of `data` and `uri`",
        };
        Err(Error::invalid_input(fault))
    }
}

/// The values of a column of the first form go to the data file.
fn first_form(
    array: &ArrayRef,
    valid: Option<NullBuffer>,
    container: &mut ContainerWriter,
) -> Result<ArrayRef> {
    let values = array.as_binary_opt::<i64>().ok_or_else(|| {
        Error::schema_mismatch(format!("blobs of type {}, not large_binary", array.data_type()))
    })?;
    let (mut positions, mut sizes) = (Vec::with_capacity(array.len()), Vec::with_capacity(array.len()));
    for row in 0..values.len() {
        let is_valid = valid.as_ref().is_none_or(|valid| valid.is_valid(row));
        let value = if is_valid { values.value(row) } else { &[] };
        positions.push(if value.is_empty() {
            0
        } else {
            container.write_payload(value)?
        });
        sizes.push(value.len() as u64);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(positions)),
        Arc::new(UInt64Array::from(sizes)),
    ];
    let fields = BlobForm::V1.parts_as_fields();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields,
        columns,
        valid,
        array.len(),
    )?))
}

fn descriptors(places: &[Place], uris: Vec<String>, valid: Option<NullBuffer>) -> Result<ArrayRef> {
    let numbers = |pick: fn(&Place) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(places.iter().map(pick)))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt8Array::from_iter_values(
            places.iter().map(|place| place.kind),
        )),
        numbers(|place| place.position),
        numbers(|place| place.size),
        Arc::new(UInt32Array::from_iter_values(places.iter().map(|place| place.id))),
        Arc::new(StringArray::from(uris)),
    ];
    let fields = BlobForm::V2.parts_as_fields();
    Ok(Arc::new(StructArray::try_new_with_length(
        fields,
        columns,
        valid,
        places.len(),
    )?))
}

/// Which items of lists some valid list holds; only those are stored.
fn used_items<O: OffsetSizeTrait>(array: &GenericListArray<O>, valid: Option<&NullBuffer>) -> NullBuffer {
    let mut used = BooleanBufferBuilder::new(array.values().len());
    used.append_n(array.values().len(), false);
    for (row, span) in array.offsets().windows(2).enumerate() {
        if let ([start, end], true) = (span, valid.is_none_or(|valid| valid.is_valid(row))) {
            (start.as_usize()..end.as_usize()).for_each(|item| used.set_bit(item, true));
        }
    }
    NullBuffer::new(used.finish())
}

fn only_child(field: &Field) -> Result<&Arc<Field>> {
    let child = field.children.first();
    child.ok_or_else(|| Error::schema_mismatch("a list without an item field"))
}

/// The field with the type of its new array; descriptors of hidden entries may be null.
fn retyped(field: &FieldRef, array: &ArrayRef) -> FieldRef {
    let nullable = field.is_nullable() || array.null_count() > 0;
    let field = field.as_ref().clone().with_data_type(array.data_type().clone());
    Arc::new(field.with_nullable(nullable))
}
