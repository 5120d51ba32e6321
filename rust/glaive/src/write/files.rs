//! Cutting a stream of batches into data files.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{DataType, Schema as ArrowSchema};
use glaive_file::blob::side_file_directory;
use glaive_file::io::Storage;
use glaive_file::{
    Context, EncodingDefaults, Error, Field, FileVersion, FileWriter, Result, Schema, WriterOptions, json,
};

use super::blobs::{self, Targets};
use super::{WriteParams, WriteProgress};
use crate::dataset::Dataset;
use crate::manifest::{DataFile, Fragment};
use crate::proto::lance::table::BasePath;

/// Data files written so far. Dropped without [`WrittenFiles::keep`], they are removed.
pub(super) struct WrittenFiles {
    storage: Arc<dyn Storage>,
    /// Also the side files of data files.
    paths: Arc<Mutex<Vec<String>>>,
    /// Where blobs outside of the table may lie.
    bases: Vec<BasePath>,
}

impl WrittenFiles {
    pub(super) fn new(storage: &Arc<dyn Storage>) -> Self {
        Self {
            storage: storage.clone(),
            paths: Arc::default(),
            bases: Vec::new(),
        }
    }

    /// Files of an existing table.
    pub(super) fn of(dataset: &Dataset) -> Self {
        let mut files = Self::new(&dataset.store().storage);
        files.bases.clone_from(&dataset.manifest().base_paths);
        files
    }

    fn push(&self, path: String) {
        self.paths
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(path);
    }

    /// The files belong to a version now, or may do so.
    pub(super) fn keep(self) {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for WrittenFiles {
    fn drop(&mut self) {
        for path in self.paths.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Nothing can be done about a failure; cleanup removes what stays.
            let _ = self.storage.delete(path);
            let directory = path.rsplit_once('/').filter(|_| path.ends_with(".blob"));
            if let Some((directory, _)) = directory {
                // Fails while another side file is there, which comes later.
                let _ = self.storage.remove_empty_directory(directory);
            }
        }
    }
}

/// Writes new fragments.
pub(super) struct FragmentWriter<'a> {
    /// Fields of every file, with the ids of the table.
    schema: Schema,
    version: FileVersion,
    params: &'a WriteParams,
    defaults: EncodingDefaults,
    written: &'a mut WrittenFiles,
    fragments: Vec<Fragment>,
    current: Option<Current>,
    /// Rows taken so far.
    rows: u64,
    arrow: Arc<ArrowSchema>,
}

struct Current {
    writer: FileWriter,
    name: String,
    rows: u64,
}

impl<'a> FragmentWriter<'a> {
    pub(super) fn new(
        schema: Schema,
        version: FileVersion,
        params: &'a WriteParams,
        written: &'a mut WrittenFiles,
    ) -> Self {
        let schema = schema.blobs_to_write();
        let arrow = Arc::new(schema.to_arrow());
        let (defaults, warnings) = EncodingDefaults::from_environment();
        if let Some(warn) = &params.on_warning {
            warnings.iter().for_each(|text| warn(text));
        }
        Self {
            schema,
            version,
            params,
            defaults,
            written,
            fragments: Vec::new(),
            current: None,
            rows: 0,
            arrow,
        }
    }

    /// Writes the whole stream. A stream without rows makes no fragment.
    pub(super) fn write_all(mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<Vec<Fragment>> {
        for batch in reader {
            let batch = self.conform(&batch?)?;
            self.rows += batch.num_rows() as u64;
            self.write(batch)?;
        }
        self.finish_file()?;
        Ok(self.fragments)
    }

    /// The batch with exactly the types of the file: view types and names of list items may differ, and JSON may be text.
    fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let batch = &*json::encode_batch(&self.schema, batch, self.rows)?;
        let columns = self
            .schema
            .fields
            .iter()
            .zip(self.arrow.fields())
            .map(|(field, target)| {
                let column = batch.column_by_name(&field.name);
                let column = column.ok_or_else(|| {
                    Error::schema_mismatch(format!("a batch lacks the column '{}'", field.name))
                })?;
                let column = &blobs::conform(field, column).context(|| format!("column '{}'", field.name))?;
                let column =
                    conform(column, target.data_type()).context(|| format!("column '{}'", field.name))?;
                check_nulls(field, &column, &field.name)?;
                Ok(column)
            });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            self.arrow.clone(),
            columns,
            &options,
        )?)
    }

    fn write(&mut self, mut batch: RecordBatch) -> Result<()> {
        if self.schema.fields.is_empty() {
            return Ok(());
        }
        while batch.num_rows() > 0 {
            let mut current = match self.current.take() {
                Some(current) => current,
                None => self.start_file()?,
            };
            let room = usize::try_from(self.params.max_rows_per_file - current.rows).unwrap_or(usize::MAX);
            let rows = batch.num_rows().min(room);
            current
                .writer
                .write(&batch.slice(0, rows))
                .context(|| current.name.as_str())?;
            current.rows += rows as u64;
            batch = batch.slice(rows, batch.num_rows() - rows);
            let is_full = current.rows >= self.params.max_rows_per_file
                || current.writer.bytes_written() >= self.params.max_bytes_per_file;
            self.current = Some(current);
            if is_full {
                self.finish_file()?;
            }
        }
        Ok(())
    }

    fn start_file(&mut self) -> Result<Current> {
        let name = file_name();
        let path = format!("data/{name}");
        let sink = self.written.storage.create_writer(&path)?;
        self.written.push(path.clone());
        let options = WriterOptions {
            version: self.version,
            data_cache_bytes: self.params.data_cache_bytes,
            alignment: self.params.alignment,
            defaults: self.defaults.clone(),
            ..WriterOptions::default()
        };
        let writer = FileWriter::create(sink, self.schema.clone(), options)?;
        let targets = Targets {
            storage: self.written.storage.clone(),
            directory: side_file_directory(&path)?.to_string(),
            written: self.written.paths.clone(),
            external: self.params.external_blobs,
            bases: self.written.bases.clone(),
        };
        let writer = writer.with_blob_targets(Box::new(targets), self.params.blob_pack_file_size_threshold);
        if let (Some(warn), [], None) = (&self.params.on_warning, self.fragments.as_slice(), &self.current) {
            writer.warnings().iter().for_each(|text| warn(text));
        }
        self.progress(|progress| progress.begin(&Fragment::new(Vec::new(), 0)))?;
        Ok(Current {
            writer,
            name,
            rows: 0,
        })
    }

    fn finish_file(&mut self) -> Result<()> {
        let Some(Current { writer, name, .. }) = self.current.take() else {
            return Ok(());
        };
        let summary = writer.finish().context(|| name.as_str())?;
        let file = DataFile {
            path: name,
            fields: summary.fields,
            column_indices: summary.column_indices,
            version: summary.version,
            size: Some(summary.size_bytes),
            base_id: None,
            unknown: bytes::Bytes::new(),
        };
        let fragment = Fragment::new(vec![file], summary.num_rows);
        self.progress(|progress| progress.complete(&fragment))?;
        self.fragments.push(fragment);
        Ok(())
    }

    fn progress(&self, call: impl FnOnce(&dyn WriteProgress) -> Result<()>) -> Result<()> {
        self.params.progress.as_deref().map_or(Ok(()), call)
    }
}

/// A new file name (format chapter 30, 1): three random bytes in binary spread the names over an object store's key
/// space, the other thirteen of a UUID follow in hex.
fn file_name() -> String {
    let uuid = uuid::Uuid::new_v4();
    let (spread, rest) = uuid.as_bytes().split_at(3);
    let spread: String = spread.iter().map(|byte| format!("{byte:08b}")).collect();
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{spread}{rest}.lance")
}

/// The array as `target`. The logical types are equal, so nothing but layout and names changes.
fn conform(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(array.clone());
    }
    Ok(arrow_cast::cast(array, target)?)
}

/// Fails for a null where the field, or one in it, must not be null. A null struct has no children to check.
pub(crate) fn check_nulls(field: &Field, array: &ArrayRef, path: &str) -> Result<()> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    if nulls.is_some() && !field.nullable {
        return Err(Error::invalid_input(format!(
            "The field `{path}` contained null values even though the field is marked non-null in the schema: it is \
             declared as non-nullable but contains null values"
        )));
    }
    let Some(parent) = array.as_struct_opt() else {
        return Ok(());
    };
    for (child, column) in field.children.iter().zip(parent.columns()) {
        let column = match &nulls {
            None => column.clone(),
            Some(nulls) => {
                let valid = arrow_array::BooleanArray::new(nulls.inner().clone(), None);
                arrow_select::filter::filter(column, &valid)?
            }
        };
        check_nulls(child, &column, &format!("{path}.{}", child.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{FixedSizeListArray, Int64Array, ListArray};
    use arrow_schema::Field as ArrowField;

    use super::*;

    #[test]
    fn items_take_the_name_and_nullability_of_the_table() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let given = Arc::new(ArrowField::new("element", DataType::Int64, false));
        let kept = Arc::new(
            ArrowField::new("item", DataType::Int64, true)
                .with_metadata([("k".to_string(), "v".to_string())].into()),
        );
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(given.clone(), 2, values.clone(), None));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths([1, 3]);
        let list: ArrayRef = Arc::new(ListArray::new(given, offsets, values, None));
        for (array, target) in [
            (fixed, DataType::FixedSizeList(kept.clone(), 2)),
            (list, DataType::List(kept)),
        ] {
            let conformed = conform(&array, &target).unwrap();
            assert_eq!(conformed.data_type(), &target);
            assert_eq!(conformed.len(), 2);
        }
    }

    #[test]
    fn nulls_below_a_null_struct_are_no_fault() {
        let strict = ArrowField::new("x", DataType::Int64, false);
        let arrow = ArrowField::new("s", DataType::Struct(vec![strict.clone()].into()), true);
        let schema = Schema::try_from_arrow(&ArrowSchema::new(vec![arrow])).unwrap();
        let field = schema.fields.first().unwrap();
        let check = |x: Vec<Option<i64>>, valid: Vec<bool>| {
            let x: ArrayRef = Arc::new(x.into_iter().collect::<arrow_array::PrimitiveArray<Int64Type>>());
            let loose = strict.clone().with_nullable(true);
            let nulls = arrow_buffer::NullBuffer::from(valid);
            let array = arrow_array::StructArray::new(vec![loose].into(), vec![x], Some(nulls));
            check_nulls(field, &(Arc::new(array) as ArrayRef), "s")
        };
        check(vec![Some(1), None], vec![true, false]).unwrap();
        let error = check(vec![Some(1), None], vec![true, true]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("The field `s.x` contained null values"),
            "{error}"
        );
    }

    #[test]
    fn names_are_24_binary_digits_and_26_hex_digits() {
        let name = file_name();
        let (binary, hex) = name.strip_suffix(".lance").unwrap().split_at(24);
        assert!(binary.chars().all(|c| matches!(c, '0' | '1')), "{name}");
        assert!(
            hex.len() == 26 && hex.chars().all(|c| c.is_ascii_hexdigit()),
            "{name}"
        );
        assert_ne!(name, file_name());
    }
}
