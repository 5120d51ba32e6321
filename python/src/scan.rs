//! `_glaive.Scan`: batches that are read as they are asked for.

use std::sync::{Mutex, MutexGuard};

use arrow_schema::SchemaRef;
use pyo3::prelude::*;

use crate::arrow::{self, Stream};
use crate::errors::{During, of_stream, raise, to_py};

/// A stream of batches. It runs once.
#[pyclass(module = "glaive._glaive", frozen)]
pub struct Scan {
    schema: SchemaRef,
    stream: Mutex<Option<Stream>>,
    /// Where the rows come from, for messages.
    place: String,
}

impl Scan {
    /// Wraps a stream that has not been read yet.
    pub fn new(stream: Stream, place: String) -> Self {
        Self {
            schema: stream.schema(),
            stream: Mutex::new(Some(stream)),
            place,
        }
    }

    /// Only while the interpreter is not held: another thread may be reading.
    fn lock(&self) -> MutexGuard<'_, Option<Stream>> {
        self.stream
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the stream; nobody else can read it afterwards.
    fn take(&self, py: Python<'_>) -> PyResult<Stream> {
        py.detach(|| self.lock().take())
            .ok_or_else(|| raise(py, "InvalidInputError", "the result was read already".to_owned()))
    }
}

#[pymethods]
impl Scan {
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        arrow::export_schema(py, self.schema.clone())
    }

    /// The next batch; None at the end.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match py.detach(|| self.lock().as_mut().and_then(Iterator::next)) {
            None => Ok(None),
            Some(Ok(batch)) => arrow::export_batch(py, batch).map(Some),
            Some(Err(error)) => Err(to_py(py, &of_stream(error, &self.place), During::Other)),
        }
    }

    /// The rest as a stream.
    fn to_reader<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        arrow::export_stream(py, self.take(py)?, self.place.clone())
    }

    /// The rest as a table.
    fn to_table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let batches = arrow::collect(py, self.take(py)?, &self.place)?;
        arrow::export_table(py, self.schema.clone(), batches)
    }
}
