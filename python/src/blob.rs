//! Blobs of rows: `_glaive.BlobHandle`, and reading many at once.

use std::ops::Range;

use glaive::{Dataset, Error, ErrorKind, Result, RowSelection};
use glaive_file::blob::BlobHandle;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{During, run_at};

/// One blob, read in parts.
#[pyclass(module = "glaive._glaive", name = "BlobHandle", frozen)]
pub struct PyBlobHandle {
    blob: BlobHandle,
    /// The dataset, for messages.
    place: String,
}

#[pymethods]
impl PyBlobHandle {
    /// Bytes of the blob.
    #[getter]
    fn size(&self) -> u64 {
        self.blob.size()
    }

    /// The bytes from `start` to `end`.
    fn read<'py>(&self, py: Python<'py>, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = run_at(py, &self.place, During::Other, || self.blob.read(start..end))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Parts given as (offset, length).
    fn read_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(u64, u64)>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let parts = run_at(py, &self.place, During::Other, || {
            let ranges = ranges.into_iter().map(range_of).collect::<Result<Vec<_>>>()?;
            self.blob.read_parts(&ranges)
        })?;
        Ok(parts.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }
}

fn range_of((offset, length): (u64, u64)) -> Result<Range<u64>> {
    let end = offset.checked_add(length);
    end.map(|end| offset..end)
        .ok_or_else(|| Error::invalid_input(format!("{length} bytes at {offset} end beyond 64 bits")))
}

fn selection<'a>(selector: &str, rows: &'a [u64]) -> Result<RowSelection<'a>> {
    match selector {
        "indices" => Ok(RowSelection::Positions(rows)),
        "addresses" => Ok(RowSelection::Addresses(rows)),
        "ids" => Ok(RowSelection::Ids(rows)),
        _ => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("selector must be one of 'ids', 'addresses', or 'indices', got \"{selector}\""),
        )),
    }
}

/// Address and handle; None for a null.
pub type Taken = (u64, Option<PyBlobHandle>);
/// Address and bytes; None for a null.
pub type ReadBlob<'py> = (u64, Option<Bound<'py, PyBytes>>);
/// Number of the request, address and bytes; None for a null.
pub type ReadRange<'py> = (usize, u64, Option<Bound<'py, PyBytes>>);

pub fn take(
    py: Python<'_>,
    dataset: &Dataset,
    column: &str,
    rows: &[u64],
    selector: &str,
) -> PyResult<Vec<Taken>> {
    let place = dataset.uri();
    let taken = run_at(py, place, During::Other, || {
        dataset.take_blobs(column, selection(selector, rows)?)
    })?;
    let handle = |blob| PyBlobHandle {
        blob,
        place: place.to_owned(),
    };
    Ok(taken
        .into_iter()
        .map(|taken| (taken.address, taken.blob.map(handle)))
        .collect())
}

pub fn read<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    column: &str,
    rows: &[u64],
    selector: &str,
    preserve_order: bool,
) -> PyResult<Vec<ReadBlob<'py>>> {
    let parts = run_at(py, dataset.uri(), During::Other, || {
        dataset.read_blobs(column, selection(selector, rows)?, preserve_order)
    })?;
    let part = |part: &glaive::blobs::BlobPart| {
        (
            part.address,
            part.bytes.as_ref().map(|bytes| PyBytes::new(py, bytes)),
        )
    };
    Ok(parts.iter().map(part).collect())
}

pub fn read_ranges<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    column: &str,
    requests: Vec<(u64, u64, u64)>,
    selector: &str,
) -> PyResult<Vec<ReadRange<'py>>> {
    let parts = run_at(py, dataset.uri(), During::Other, || {
        let rows: Vec<u64> = requests.iter().map(|request| request.0).collect();
        let ranges = requests
            .iter()
            .map(|(_, offset, length)| range_of((*offset, *length)));
        let ranges = ranges.collect::<Result<Vec<_>>>()?;
        dataset.read_blob_ranges(column, selection(selector, &rows)?, &ranges)
    })?;
    let part = |(number, part): (usize, &glaive::blobs::BlobPart)| {
        let bytes = part.bytes.as_ref().map(|bytes| PyBytes::new(py, bytes));
        (number, part.address, bytes)
    };
    Ok(parts.iter().enumerate().map(part).collect())
}
