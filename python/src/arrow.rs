//! Arrow data across the border: the C Data Interface both ways, without a copy.
//!
//! Arrays that come in may be aligned to 8 bytes only, as the interface allows; the import of the `arrow` crates
//! aligns such buffers.

use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_buffer::NullBuffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyAny;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};

use crate::errors::{During, of_stream, raise, to_py};

/// A stream of batches that can move between threads.
pub type Stream = Box<dyn RecordBatchReader + Send>;

/// Takes over an object with `__arrow_c_stream__`, or a batch with `__arrow_c_array__`.
pub fn import_stream(data: &Bound<'_, PyAny>) -> PyResult<Stream> {
    if data.hasattr("__arrow_c_stream__")? {
        return data.extract::<PyRecordBatchReader>()?.into_reader();
    }
    let batch = import_batch(data)?;
    let schema = batch.schema();
    Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
}

/// Takes over an object with `__arrow_c_array__`.
pub fn import_batch(batch: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    Ok(batch.extract::<PyRecordBatch>()?.into_inner())
}

/// Takes over an object with `__arrow_c_schema__`.
pub fn import_schema(schema: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    Ok(schema.extract::<PySchema>()?.into_inner())
}

/// A `pyarrow.Schema`.
pub fn export_schema(py: Python<'_>, schema: SchemaRef) -> PyResult<Bound<'_, PyAny>> {
    check_schema(py, &schema)?;
    PySchema::new(schema).into_pyarrow(py)
}

/// A `pyarrow.Field`.
pub fn export_field(py: Python<'_>, field: FieldRef) -> PyResult<Bound<'_, PyAny>> {
    export_schema(py, Schema::new([field]).into())?.call_method1("field", (0,))
}

/// A `pyarrow.RecordBatch` over the same buffers.
pub fn export_batch(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyAny>> {
    check_schema(py, batch.schema_ref())?;
    PyRecordBatch::new(batch).into_pyarrow(py)
}

/// A `pyarrow.RecordBatchReader` that pulls from `stream`; errors name `place`.
pub fn export_stream(py: Python<'_>, stream: Stream, place: String) -> PyResult<Bound<'_, PyAny>> {
    check_schema(py, &stream.schema())?;
    PyRecordBatchReader::new(Box::new(Exported { stream, place })).into_pyarrow(py)
}

/// A `pyarrow.Table` over the same buffers.
pub fn export_table(
    py: Python<'_>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
) -> PyResult<Bound<'_, PyAny>> {
    let stream = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    export_stream(py, Box::new(stream), String::new())?.call_method0("read_all")
}

/// Names and time zones end at a NUL byte in the C Data Interface: what holds one cannot cross.
fn check_schema(py: Python<'_>, schema: &SchemaRef) -> PyResult<()> {
    match schema.fields().iter().find(|field| holds_nul(field)) {
        None => Ok(()),
        Some(field) => Err(nul_byte(py, field)),
    }
}

fn nul_byte(py: Python<'_>, field: &Field) -> PyErr {
    let text = format!(
        "column {:?}: a name or time zone contains a NUL byte",
        field.name()
    );
    raise(py, "CorruptFileError", text)
}

fn holds_nul(field: &Field) -> bool {
    field.name().contains('\0')
        || match field.data_type() {
            DataType::Timestamp(_, Some(zone)) => zone.contains('\0'),
            DataType::Struct(fields) => fields.iter().any(|child| holds_nul(child)),
            DataType::List(child)
            | DataType::LargeList(child)
            | DataType::FixedSizeList(child, _)
            | DataType::Map(child, _) => holds_nul(child),
            _ => false,
        }
}

/// A stream for C: errors become texts that name the place and hold no NUL byte.
struct Exported {
    stream: Stream,
    place: String,
}

impl Iterator for Exported {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.stream.next()?;
        Some(item.map_err(|error| {
            let text = of_stream(error, &self.place).to_string().replace('\0', "\\0");
            ArrowError::ExternalError(text.into())
        }))
    }
}

impl RecordBatchReader for Exported {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

/// Addresses of all buffers of a batch, column by column, validity first, parents before children; 0 stands for a
/// buffer that is left out.
pub fn buffer_addresses(batch: &RecordBatch) -> Vec<usize> {
    let mut out = Vec::new();
    for column in batch.columns() {
        collect_addresses(&column.to_data(), &mut out);
    }
    out
}

fn collect_addresses(data: &ArrayData, out: &mut Vec<usize>) {
    out.push(
        data.nulls()
            .map_or(0, |nulls| validity_address(nulls, data.offset())),
    );
    out.extend(data.buffers().iter().map(|buffer| buffer.as_ptr() as usize));
    for child in data.child_data() {
        collect_addresses(child, out);
    }
}

/// Where the bitmap starts that is handed out: it shares the offset of its array, or starts at a byte of its own.
fn validity_address(nulls: &NullBuffer, array_offset: usize) -> usize {
    let bytes_before = if nulls.offset() == array_offset {
        0
    } else {
        nulls.offset() / 8
    };
    nulls.validity().as_ptr() as usize + bytes_before
}

/// Collects a stream, which must not hold the interpreter while it works; errors name `place`.
pub fn collect(py: Python<'_>, stream: Stream, place: &str) -> PyResult<Vec<RecordBatch>> {
    py.detach(|| stream.collect::<Result<Vec<_>, _>>())
        .map_err(|error| to_py(py, &of_stream(error, place), During::Other))
}
