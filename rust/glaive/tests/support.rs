//! Vectors, and small tables.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int64Array, LargeBinaryArray, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use glaive::{BatchSize, Dataset, OpenOptions, ScanOptions, WriteMode, WriteParams};
use serde_json::Value;

/// Reads a vector file of `tests/data/table`.
pub fn vectors(name: &str) -> Value {
    let path = format!(
        "{}/../../tests/data/table/{name}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// All manifest vectors.
pub fn manifest_vectors() -> Vec<Value> {
    let list = |name| vectors(name).as_array().unwrap().clone();
    [list("manifests_ops"), list("manifests_misc")].concat()
}

/// Decodes a hex string.
pub fn hex(value: &Value) -> Bytes {
    let text = value.as_str().unwrap();
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// The manifest file of a vector.
pub fn manifest_bytes(name: &str) -> Bytes {
    let vector = manifest_vectors()
        .into_iter()
        .find(|vector| vector["name"] == name)
        .unwrap();
    hex(&vector["hex"])
}

/// A directory for one table.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn uri(&self) -> String {
        self.directory
            .path()
            .join("t.lance")
            .to_str()
            .unwrap()
            .to_string()
    }

    /// Names in a directory of the table, sorted.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(format!("{}/{directory}", self.uri()));
        let mut names: Vec<_> = entries
            .map(|entries| {
                entries
                    .map(|e| e.unwrap().file_name().into_string().unwrap())
                    .collect()
            })
            .unwrap_or_default();
        names.sort();
        names
    }

    pub fn open(&self) -> Dataset {
        Dataset::open(&self.uri(), OpenOptions::default()).unwrap()
    }
}

/// Columns `a: int64` with the values, and `b: string` with their text.
pub fn rows(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let values: Vec<i64> = values.into_iter().collect();
    let texts: StringArray = values.iter().map(|value| Some(value.to_string())).collect();
    let columns: Vec<(&str, ArrayRef)> =
        vec![("a", Arc::new(Int64Array::from(values))), ("b", Arc::new(texts))];
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.into_iter().map(|(_, c)| c).collect(),
    )
    .unwrap()
}

/// A column `b` of blobs of these sizes, in the first form.
pub fn blobs(sizes: &[usize]) -> RecordBatch {
    let metadata = [("lance-encoding:blob".to_string(), "true".to_string())];
    let field = Field::new("b", DataType::LargeBinary, true).with_metadata(metadata.into());
    let values = (0u8..).zip(sizes).map(|(n, size)| vec![n; *size]);
    let values: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values(values));
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![values]).unwrap()
}

/// One batch as a stream.
pub fn stream(batch: RecordBatch) -> Box<dyn RecordBatchReader + Send> {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}

/// Several batches as a stream.
pub fn streams(schema: SchemaRef, batches: Vec<RecordBatch>) -> Box<dyn RecordBatchReader + Send> {
    Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema))
}

/// Parameters that differ from the default in the mode only.
pub fn mode(mode: WriteMode) -> WriteParams {
    WriteParams {
        mode,
        ..WriteParams::default()
    }
}

/// An empty batch's schema with one column.
pub fn one_column(name: &str, data_type: DataType, nullable: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, data_type, nullable)]))
}

/// All values of an int64 column, by a scan.
pub fn ints(dataset: &Dataset, column: &str) -> Vec<Option<i64>> {
    let options = ScanOptions {
        columns: Some(vec![column.to_string()]),
        batch_size: BatchSize::Large,
        ..ScanOptions::default()
    };
    let mut out = Vec::new();
    for batch in dataset.scan(options).unwrap() {
        out.extend(int_column(&batch.unwrap(), 0));
    }
    out
}

/// The values of an int64 column of a batch.
pub fn int_column(batch: &RecordBatch, number: usize) -> Vec<Option<i64>> {
    batch
        .column(number)
        .as_any()
        .downcast_ref::<Int64Array>()
        .unwrap()
        .iter()
        .collect()
}
