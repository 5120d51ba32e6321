//! `_glaive.FileReader` and `_glaive.FileWriter`: single files.

use std::sync::{Arc, Mutex};

use glaive_file::container::{Alignment, BufferRange, PageInfo};
use glaive_file::io::{LocalStorage, Storage};
use glaive_file::proto::lance::encodings21::PageLayout;
use glaive_file::scan::{FileScan, Wanted};
use glaive_file::{
    BatchSize, EncodingDefaults, Error, FileReader, FileVersion, FileWriter, Result, Schema, WriterOptions,
};
use prost::Message;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrow;
use crate::errors::{During, raise, run_at, to_py, warn};
use crate::scan::Scan;

/// Position and size.
type Buffer = (u64, u64);
/// Buffers and a text of the encoding.
type Page = (Vec<Buffer>, String);

/// One file.
#[pyclass(module = "glaive._glaive", name = "FileReader", frozen)]
pub struct PyFileReader {
    path: String,
    reader: Arc<FileReader>,
    /// Of what is read: some columns, or all.
    schema: Arc<Schema>,
    num_rows: u64,
}

#[pymethods]
impl PyFileReader {
    #[new]
    #[pyo3(signature = (path, columns=None))]
    fn new(py: Python<'_>, path: &str, columns: Option<Vec<String>>) -> PyResult<Self> {
        // What is wrong here is the file or the projection: an OSError either way, as in pylance.
        run_at(py, path, During::Write, || Self::open(path, columns))
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.num_rows
    }

    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        arrow::export_schema(py, self.schema.to_arrow().into())
    }

    /// Layout of the file.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tail = self.reader.tail();
        let footer = tail.footer();
        let (major, minor) = footer.version.manifest_numbers();
        let global: Vec<Buffer> = tail.global_buffers().iter().map(buffer).collect();
        let global_bytes: u64 = global.iter().map(|(_, size)| size).sum();
        let out = PyDict::new(py);
        out.set_item("major_version", major)?;
        out.set_item("minor_version", minor)?;
        out.set_item("num_rows", self.num_rows)?;
        // Everything before the metadata that is no global buffer, padding included: pylance's definition.
        out.set_item(
            "num_data_bytes",
            footer.column_meta_start.saturating_sub(global_bytes),
        )?;
        out.set_item("num_column_metadata_bytes", tail.column_metadata_bytes())?;
        out.set_item("num_global_buffer_bytes", global_bytes)?;
        out.set_item("global_buffers", global)?;
        out.set_item("columns", self.run(py, || self.columns())?)?;
        Ok(out)
    }

    /// Rows of a range.
    fn read_range(
        &self,
        py: Python<'_>,
        start: u64,
        num_rows: u64,
        batch_size: usize,
        readahead: usize,
    ) -> PyResult<Scan> {
        let end = start.saturating_add(num_rows);
        if end > self.num_rows {
            let rows = self.num_rows;
            let text = format!(
                "{}: cannot read Range({start}..{end}) from columns with {rows} rows",
                self.path
            );
            return Err(raise(py, "InvalidInputError", text));
        }
        self.scan(py, Wanted::Range(start..end), batch_size, readahead)
    }

    /// Rows by position, ascending.
    fn take_rows(
        &self,
        py: Python<'_>,
        indices: Vec<u64>,
        batch_size: usize,
        readahead: usize,
    ) -> PyResult<Scan> {
        let not_ascending = indices.windows(2).any(|pair| matches!(pair, [a, b] if a >= b));
        let beyond = indices.last().filter(|last| **last >= self.num_rows);
        let fault = match beyond {
            _ if not_ascending => "Requested row indices are not strictly increasing".to_owned(),
            Some(last) => format!("cannot read row {last} from columns with {} rows", self.num_rows),
            None => return self.scan(py, Wanted::Indices(indices), batch_size, readahead),
        };
        Err(raise(py, "InvalidInputError", format!("{}: {fault}", self.path)))
    }

    /// A global buffer; 0 is the schema.
    fn read_global_buffer<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.run(py, || self.reader.read_global_buffer(index))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

impl PyFileReader {
    fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
        run_at(py, &self.path, During::Other, work)
    }

    fn open(path: &str, columns: Option<Vec<String>>) -> Result<Self> {
        let (storage, name) = storage_of(path)?;
        let reader = FileReader::open(storage.open_reader(name)?)?;
        let schema = match &columns {
            None => reader.schema()?.clone(),
            Some(names) => Arc::new(reader.schema()?.project(names)?),
        };
        let num_rows = reader.num_rows()?;
        Ok(Self {
            path: path.to_owned(),
            reader: Arc::new(reader),
            schema,
            num_rows,
        })
    }

    fn columns(&self) -> Result<Vec<(Vec<Buffer>, Vec<Page>)>> {
        let tail = self.reader.tail();
        let column = |number| {
            let column = tail.column(number)?;
            let pages = column.pages.iter().map(page).collect::<Result<_>>()?;
            Ok((column.buffers.iter().map(buffer).collect(), pages))
        };
        (0..tail.num_columns()).map(column).collect()
    }

    fn scan(&self, py: Python<'_>, wanted: Wanted, batch_size: usize, readahead: usize) -> PyResult<Scan> {
        let (reader, schema) = (self.reader.clone(), self.schema.clone());
        let size = BatchSize::Rows(batch_size);
        let scan = self.run(py, || {
            FileScan::new(reader, schema, wanted, size, Some(readahead))
        })?;
        Ok(Scan::new(Box::new(scan), self.path.clone()))
    }
}

fn buffer(range: &BufferRange) -> Buffer {
    (range.position, range.size)
}

fn page(page: &PageInfo) -> Result<Page> {
    let layout = PageLayout::decode(page.layout.clone())?;
    Ok((page.buffers.iter().map(buffer).collect(), format!("{layout:#?}")))
}

/// The directory of a file as a storage, and the file's name in it.
fn storage_of(path: &str) -> Result<(LocalStorage, &str)> {
    let (directory, name) = match path.rsplit_once('/') {
        None => (".", path),
        Some(("", name)) => ("/", name),
        Some(split) => split,
    };
    Ok((LocalStorage::from_uri(directory)?, name))
}

/// A file that is being written.
#[pyclass(module = "glaive._glaive", name = "FileWriter", frozen)]
pub struct PyFileWriter {
    path: String,
    writer: Mutex<Option<FileWriter>>,
}

#[pymethods]
impl PyFileWriter {
    #[new]
    #[pyo3(signature = (path, schema, version=None, data_cache_bytes=None, max_page_bytes=None,
        alignment=64))]
    fn new(
        py: Python<'_>,
        path: &str,
        schema: &Bound<'_, PyAny>,
        version: Option<&str>,
        data_cache_bytes: Option<u64>,
        max_page_bytes: Option<u64>,
        alignment: i64,
    ) -> PyResult<Self> {
        let schema = arrow::import_schema(schema)?;
        let (defaults, warnings) = EncodingDefaults::from_environment();
        let writer = run_at(py, path, During::Write, || {
            let (storage, name) = storage_of(path)?;
            let options = WriterOptions {
                version: parse_version(version)?,
                data_cache_bytes,
                max_page_bytes,
                alignment: alignment.try_into()?,
                defaults,
                ..WriterOptions::default()
            };
            FileWriter::create(
                storage.create_writer(name)?,
                Schema::try_from_arrow(&schema)?,
                options,
            )
        })?;
        // Python frames: `_open`, `write_batch` or `__init__`, then its caller.
        warn(py, &warnings, 3)?;
        warn(py, writer.warnings(), 3)?;
        Ok(Self {
            path: path.to_owned(),
            writer: Mutex::new(Some(writer)),
        })
    }

    /// Appends the batches of an Arrow stream or one batch.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let stream = arrow::import_stream(data)?;
        self.with(py, |writer| {
            for batch in stream {
                writer.write(&batch?)?;
            }
            Ok(())
        })
    }

    /// Adds an entry to the schema's metadata.
    fn add_schema_metadata(&self, py: Python<'_>, key: String, value: String) -> PyResult<()> {
        self.with(py, |writer| {
            writer.add_schema_metadata(key, value);
            Ok(())
        })
    }

    /// Adds a global buffer and returns its index.
    fn add_global_buffer(&self, py: Python<'_>, data: Vec<u8>) -> PyResult<u32> {
        self.with(py, |writer| writer.add_global_buffer(&data))
    }

    /// Completes the file and returns its rows.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        run_at(py, &self.path, During::Write, || {
            let writer = self.lock().take().ok_or_else(closed)?;
            Ok(writer.finish()?.num_rows)
        })
    }
}

impl PyFileWriter {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<FileWriter>> {
        self.writer
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut FileWriter) -> Result<T> + Send,
    ) -> PyResult<T> {
        run_at(py, &self.path, During::Write, || {
            work(self.lock().as_mut().ok_or_else(closed)?)
        })
    }
}

fn closed() -> Error {
    Error::invalid_input("the writer is closed")
}

/// A version as a caller names it; the default where none is given.
pub fn parse_version(version: Option<&str>) -> Result<FileVersion> {
    version.map_or(Ok(FileVersion::DEFAULT), str::parse)
}

/// Raises unless files of that version and alignment can be written.
#[pyfunction]
pub fn check_file_options(py: Python<'_>, version: Option<&str>, alignment: i64) -> PyResult<()> {
    let check = || {
        Alignment::try_from(alignment)?;
        parse_version(version)?.check_writable()
    };
    py.detach(check).map_err(|error| to_py(py, &error, During::Write))
}

/// Trees (id, Arrow field, children) as a new dataset numbers them.
#[pyfunction]
pub fn number_fields<'py>(
    py: Python<'py>,
    schema: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, pyo3::types::PyList>> {
    let arrow = arrow::import_schema(schema)?;
    let schema = Schema::try_from_arrow(&arrow).map_err(|error| to_py(py, &error, During::Other))?;
    crate::dataset::field_trees(py, schema.fields.iter().map(AsRef::as_ref))
}
