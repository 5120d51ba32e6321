//! `_glaive.Dataset`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::RecordBatchReader;
use glaive::cleanup::AutoCleanup;
use glaive::manifest::Fragment;
use glaive::transaction::UpdateMap;
use glaive::{
    BatchSize, BlobHandling, ColumnAlteration, CommitLock, Dataset, Error, ErrorKind, ExternalBlobs, Field,
    FragmentHandle, OpenOptions, Result, ScanOptions, VersionInfo, WriteParams, WriteProgress,
};
use glaive_file::json;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use roaring::RoaringBitmap;

use crate::arrow;
use crate::blob;
use crate::cleanup::PyCommitLock;
use crate::errors::{During, located, raise, run_at, to_py, warn};
use crate::fragment::fragment_dict;
use crate::scan::Scan;
use crate::transaction::{TransactionOut, export_transaction, index_dict};

/// One version of a dataset.
#[pyclass(module = "glaive._glaive", name = "Dataset", frozen)]
pub struct PyDataset(pub Dataset);

/// New values by key, None for a key that goes.
type Updates = BTreeMap<String, Option<String>>;

/// Number, nanoseconds since the epoch, counts as text.
type VersionRow<'py> = (u64, i64, Bound<'py, PyDict>);

#[pymethods]
impl PyDataset {
    /// Opens the latest version, or the one given.
    #[staticmethod]
    #[pyo3(signature = (uri, version=None, commit_lock=None))]
    fn open(
        py: Python<'_>,
        uri: &str,
        version: Option<u64>,
        commit_lock: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options = OpenOptions {
            version,
            ..OpenOptions::default()
        };
        run_at(py, uri, During::Open, || {
            Dataset::open(uri, options)?.with_settings(None, commit_lock.map(lock))
        })
        .map(Self)
    }

    /// Writes an Arrow stream and returns the new version.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    #[pyo3(signature = (data, destination, *, mode, max_rows_per_file, max_bytes_per_file, data_cache_bytes, alignment,
        data_storage_version, enable_v2_manifest_paths, transaction_properties, progress, external_blobs,
        blob_pack_file_size_threshold, durability, commit_lock, auto_cleanup))]
    fn write(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        destination: Destination,
        mode: &str,
        max_rows_per_file: u64,
        max_bytes_per_file: u64,
        data_cache_bytes: Option<u64>,
        alignment: i64,
        data_storage_version: Option<&str>,
        enable_v2_manifest_paths: bool,
        transaction_properties: BTreeMap<String, String>,
        progress: Option<Py<PyAny>>,
        external_blobs: &str,
        blob_pack_file_size_threshold: Option<u64>,
        durability: Option<&str>,
        commit_lock: Option<Py<PyAny>>,
        auto_cleanup: Option<(u64, u64)>,
    ) -> PyResult<Self> {
        let stream = arrow::import_stream(data)?;
        let place = match &destination {
            Destination::Uri(uri) => uri.clone(),
            Destination::Dataset(dataset) => dataset.get().0.uri().to_owned(),
        };
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let sink = warnings.clone();
        let written = run_at(py, &place, During::Write, || {
            let params = WriteParams {
                mode: mode.parse()?,
                max_rows_per_file,
                max_bytes_per_file,
                data_storage_version: data_storage_version.map(str::parse).transpose()?,
                enable_v2_manifest_paths,
                transaction_properties,
                data_cache_bytes,
                alignment: alignment.try_into()?,
                external_blobs: parse_external(external_blobs)?,
                blob_pack_file_size_threshold,
                durability: durability.map(str::parse).transpose()?,
                commit_lock: commit_lock.map(lock),
                auto_cleanup: auto_cleanup.map(|(interval, seconds)| AutoCleanup {
                    interval,
                    older_than: Duration::from_secs(seconds),
                }),
                progress: progress.map(|object| Arc::new(Progress(object)) as Arc<dyn WriteProgress>),
                on_warning: Some(Arc::new(move |text| {
                    let mut texts = sink.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    texts.push(text.to_owned());
                })),
                ..WriteParams::default()
            };
            match &destination {
                Destination::Uri(uri) => Dataset::write(uri.as_str(), stream, &params),
                Destination::Dataset(dataset) => Dataset::write(&dataset.get().0, stream, &params),
            }
        })?;
        // Python frames: `write_dataset`, then its caller.
        let texts = warnings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        warn(py, &texts, 2)?;
        Ok(Self(written))
    }

    /// Where this branch of the dataset is.
    #[getter]
    fn uri(&self) -> &str {
        self.0.uri()
    }

    #[getter]
    fn branch(&self) -> Option<&str> {
        self.0.branch()
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.version()
    }

    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        arrow::export_schema(py, json::text_schema(self.0.schema()).into())
    }

    #[getter]
    fn data_storage_version(&self) -> String {
        self.0.data_storage_version().to_string()
    }

    /// The newest version, looked up now.
    fn latest_version(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, During::Open, || self.0.latest_version())
    }

    /// Number, nanoseconds since the epoch, summary.
    fn version_info<'py>(&self, py: Python<'py>) -> PyResult<VersionRow<'py>> {
        version_row(py, &self.0.version_info())
    }

    /// All versions, oldest first.
    fn versions<'py>(&self, py: Python<'py>) -> PyResult<Vec<VersionRow<'py>>> {
        let infos = self.run(py, During::Open, || self.0.versions())?;
        infos.iter().map(|info| version_row(py, info)).collect()
    }

    /// Another version.
    fn checkout_version(&self, py: Python<'_>, version: u64) -> PyResult<Self> {
        self.run(py, During::Open, || self.0.checkout_version(version))
            .map(Self)
    }

    /// The fragments as `FragmentMetadata.to_json` shows them.
    fn fragments<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.0
            .fragments()
            .iter()
            .map(|fragment| handle_dict(py, fragment))
            .collect()
    }

    /// Trees (id, Arrow field, children).
    fn field_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        field_trees(py, self.0.schema().fields.iter().map(AsRef::as_ref))
    }

    /// Live rows of the dataset or of some fragments.
    #[pyo3(signature = (fragment_ids=None))]
    fn count_rows(&self, py: Python<'_>, fragment_ids: Option<Vec<u32>>) -> PyResult<u64> {
        self.run(py, During::Other, || match fragment_ids {
            None => self.0.count_rows(),
            Some(ids) => count_rows_of(&self.0, &ids),
        })
    }

    /// A scan that can run once. `batch_size` None: batches as large as one read.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
    #[pyo3(signature = (*, columns, limit, offset, batch_size, fragment_ids, with_row_id, with_row_address, readahead,
        blobs_as_bytes))]
    fn scan(
        &self,
        py: Python<'_>,
        columns: Option<Vec<String>>,
        limit: Option<u64>,
        offset: Option<u64>,
        batch_size: Option<usize>,
        fragment_ids: Option<Vec<u32>>,
        with_row_id: bool,
        with_row_address: bool,
        readahead: Option<usize>,
        blobs_as_bytes: bool,
    ) -> PyResult<Scan> {
        let options = ScanOptions {
            columns,
            limit,
            offset,
            batch_size: batch_size.map_or(BatchSize::Large, BatchSize::Rows),
            fragment_ids,
            with_row_id,
            with_row_address,
            readahead,
            blobs: match blobs_as_bytes {
                true => BlobHandling::Bytes,
                false => BlobHandling::Descriptors,
            },
        };
        let scan = self.run(py, During::Other, || self.0.scan(options))?;
        Ok(Scan::new(Box::new(scan), self.0.uri().to_owned()))
    }

    /// Rows by position.
    #[pyo3(signature = (indices, columns=None))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        indices: Vec<u64>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let taken = py.detach(|| self.0.take(&indices, columns.as_deref()));
        match taken.map_err(|error| located(error, self.0.uri())) {
            Ok(batch) => arrow::export_batch(py, batch),
            Err(error) if error.kind() == ErrorKind::InvalidInput && self.is_beyond(py, &indices)? => {
                Err(raise(py, "OutOfBoundsError", error.to_string()))
            }
            Err(error) => Err(to_py(py, &error, During::Other)),
        }
    }

    /// Blobs by row as (row address, handle); None for a null. `selector`: ids, addresses or indices.
    fn take_blobs(
        &self,
        py: Python<'_>,
        column: &str,
        rows: Vec<u64>,
        selector: &str,
    ) -> PyResult<Vec<blob::Taken>> {
        blob::take(py, &self.0, column, &rows, selector)
    }

    /// Blobs by row as (row address, bytes); None for a null.
    fn read_blobs<'py>(
        &self,
        py: Python<'py>,
        column: &str,
        rows: Vec<u64>,
        selector: &str,
        preserve_order: bool,
    ) -> PyResult<Vec<blob::ReadBlob<'py>>> {
        blob::read(py, &self.0, column, &rows, selector, preserve_order)
    }

    /// Parts (row, offset, length) of blobs as (number of the request, row address, bytes); None for a null.
    fn read_blob_ranges<'py>(
        &self,
        py: Python<'py>,
        column: &str,
        requests: Vec<(u64, u64, u64)>,
        selector: &str,
    ) -> PyResult<Vec<blob::ReadRange<'py>>> {
        blob::read_ranges(py, &self.0, column, requests, selector)
    }

    #[getter]
    fn has_stable_row_ids(&self) -> bool {
        self.0.has_stable_row_ids()
    }

    #[getter]
    fn max_field_id(&self) -> i32 {
        self.0.manifest().highest_field_id()
    }

    fn config(&self) -> BTreeMap<String, String> {
        self.0.config().clone()
    }

    fn table_metadata(&self) -> BTreeMap<String, String> {
        self.0.table_metadata().clone()
    }

    /// The entries of the index section.
    fn indices<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let entries = self.0.indices().entries.iter();
        entries.map(|index| index_dict(py, index)).collect()
    }

    /// Names by field id, nested ones as paths.
    fn field_names(&self) -> HashMap<i32, String> {
        let mut names = HashMap::new();
        for field in &self.0.schema().fields {
            name_fields(field, "", &mut names);
        }
        names
    }

    /// The transaction that made a version; None if the version carries none.
    fn read_transaction<'py>(&self, py: Python<'py>, version: u64) -> PyResult<Option<TransactionOut<'py>>> {
        let transaction = self.run(py, During::Other, || self.0.read_transaction(version))?;
        transaction
            .map(|transaction| export_transaction(py, &transaction))
            .transpose()
    }

    /// The transactions of the newest versions, newest first.
    fn recent_transactions<'py>(
        &self,
        py: Python<'py>,
        count: usize,
    ) -> PyResult<Vec<Option<TransactionOut<'py>>>> {
        let recent = self.run(py, During::Other, || self.0.recent_transactions(count))?;
        let rows = recent.iter().map(|transaction| {
            let row = transaction
                .as_ref()
                .map(|transaction| export_transaction(py, transaction));
            row.transpose()
        });
        rows.collect()
    }

    /// Makes this version current.
    fn restore(&self, py: Python<'_>) -> PyResult<Self> {
        self.run(py, During::Write, || self.0.restore(BTreeMap::new()))
            .map(Self)
    }

    /// Edits one of the maps "config", "table_metadata" and "schema_metadata".
    fn update_map(&self, py: Python<'_>, map: &str, updates: Updates, replace: bool) -> PyResult<Self> {
        let update = UpdateMap { updates, replace };
        let updated = self.run(py, During::Write, || match map {
            "config" => self.0.update_config(update),
            "table_metadata" => self.0.update_table_metadata(update),
            "schema_metadata" => self.0.update_schema_metadata(update),
            _ => Err(Error::invalid_input(format!("no map '{map}'"))),
        });
        updated.map(Self)
    }

    /// Edits the metadata of fields by path.
    fn update_field_metadata(
        &self,
        py: Python<'_>,
        updates: BTreeMap<String, Updates>,
        replace: bool,
    ) -> PyResult<Self> {
        let updates = updates.into_iter();
        let updates = updates
            .map(|(path, updates)| (path, UpdateMap { updates, replace }))
            .collect();
        self.run(py, During::Write, || self.0.update_field_metadata(updates))
            .map(Self)
    }

    /// Drops columns.
    fn drop_columns(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Self> {
        self.run(py, During::Write, || self.0.drop_columns(&columns))
            .map(Self)
    }

    /// Renames columns or changes their nullability: path, name, nullable.
    fn alter_columns(
        &self,
        py: Python<'_>,
        alterations: Vec<(String, Option<String>, Option<bool>)>,
    ) -> PyResult<Self> {
        let alterations: Vec<_> = alterations
            .into_iter()
            .map(|(path, rename, nullable)| ColumnAlteration {
                path,
                rename,
                nullable,
            })
            .collect();
        self.run(py, During::Write, || self.0.alter_columns(&alterations))
            .map(Self)
    }

    /// Adds columns that are null in all rows.
    fn add_null_columns(&self, py: Python<'_>, schema: &Bound<'_, PyAny>) -> PyResult<Self> {
        let schema = arrow::import_schema(schema)?;
        self.run(py, During::Write, || self.0.add_null_columns(&schema))
            .map(Self)
    }

    /// Writes a deletion file for rows of a fragment; None if no row is left.
    fn delete_fragment_rows<'py>(
        &self,
        py: Python<'py>,
        fragment_id: u32,
        offsets: Vec<u32>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let offsets = RoaringBitmap::from_iter(offsets);
        let updated = self.run(py, During::Write, || {
            let fragment = self.0.fragment(fragment_id);
            let fragment =
                fragment.ok_or_else(|| Error::invalid_input(format!("no fragment {fragment_id}")))?;
            let rows = fragment.physical_rows()?;
            Ok((rows, fragment.delete_rows(offsets)?))
        })?;
        let (rows, Some(fragment)) = updated else {
            return Ok(None);
        };
        fragment_dict(py, &fragment, Some(rows), fragment.num_deleted_rows()).map(Some)
    }
}

fn lock(callable: Py<PyAny>) -> Arc<dyn CommitLock> {
    Arc::new(PyCommitLock(callable))
}

/// `outside_bases` is `reference` without a check of the place.
fn parse_external(text: &str) -> Result<ExternalBlobs> {
    match text {
        "reference" => Ok(ExternalBlobs::Reference { outside_bases: false }),
        "outside_bases" => Ok(ExternalBlobs::Reference { outside_bases: true }),
        "ingest" => Ok(ExternalBlobs::Ingest),
        _ => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("Invalid external blob mode: {text}"),
        )),
    }
}

impl PyDataset {
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        during: During,
        work: impl FnOnce() -> Result<T> + Send,
    ) -> PyResult<T> {
        run_at(py, self.0.uri(), during, work)
    }

    fn is_beyond(&self, py: Python<'_>, indices: &[u64]) -> PyResult<bool> {
        let rows = self.run(py, During::Other, || self.0.count_rows())?;
        Ok(indices.iter().any(|index| *index >= rows))
    }
}

/// Where to write.
#[derive(FromPyObject)]
pub enum Destination {
    Dataset(Py<PyDataset>),
    Uri(String),
}

/// Tells a Python object of every file: `begin` and `complete` get the fragment as a dict.
struct Progress(Py<PyAny>);

impl Progress {
    fn call(&self, method: &str, fragment: &Fragment) -> Result<()> {
        Python::attach(|py| {
            let rows = fragment.physical_rows.filter(|_| !fragment.files.is_empty());
            let metadata = fragment_dict(py, fragment, rows, None)?;
            self.0.call_method1(py, method, (metadata,)).map(|_| ())
        })
        .map_err(|raised: PyErr| Error::new(ErrorKind::Io, raised.to_string()).with_source(raised))
    }
}

impl WriteProgress for Progress {
    fn begin(&self, fragment: &Fragment) -> Result<()> {
        self.call("begin", fragment)
    }

    fn complete(&self, fragment: &Fragment) -> Result<()> {
        self.call("complete", fragment)
    }
}

fn count_rows_of(dataset: &Dataset, ids: &[u32]) -> Result<u64> {
    ids.iter().try_fold(0u64, |sum, id| {
        let rows = match dataset.fragment(*id) {
            Some(fragment) => fragment.count_rows()?,
            None => 0,
        };
        Ok(sum.saturating_add(rows))
    })
}

fn version_row<'py>(py: Python<'py>, info: &VersionInfo) -> PyResult<VersionRow<'py>> {
    let summary = &info.summary;
    let counts = PyDict::new(py);
    for (name, count) in [
        ("total_data_file_rows", summary.total_data_file_rows),
        ("total_data_files", summary.total_data_files),
        ("total_deletion_file_rows", summary.total_deletion_file_rows),
        ("total_deletion_files", summary.total_deletion_files),
        ("total_files_size", summary.total_files_size),
        ("total_fragments", summary.total_fragments),
        ("total_rows", summary.total_rows),
    ] {
        counts.set_item(name, count.to_string())?;
    }
    Ok((
        info.version,
        info.timestamp.timestamp_nanos_opt().unwrap_or(i64::MAX),
        counts,
    ))
}

fn handle_dict<'py>(py: Python<'py>, fragment: &FragmentHandle) -> PyResult<Bound<'py, PyDict>> {
    let metadata = fragment.metadata();
    let uri = fragment.dataset().uri();
    let counts = || Ok((fragment.physical_rows()?, fragment.count_rows()?));
    let (rows, live) = run_at(py, uri, During::Other, counts)?;
    fragment_dict(py, metadata, Some(rows), Some(rows.saturating_sub(live)))
}

/// Trees (id, Arrow field, children), in order.
pub fn field_trees<'py, 'a>(
    py: Python<'py>,
    fields: impl Iterator<Item = &'a Field>,
) -> PyResult<Bound<'py, PyList>> {
    let trees = PyList::empty(py);
    for field in fields {
        let children = field_trees(py, field.children.iter().map(AsRef::as_ref))?;
        trees.append((field.id, arrow::export_field(py, field.to_arrow())?, children))?;
    }
    Ok(trees)
}

fn name_fields(field: &glaive::Field, prefix: &str, names: &mut HashMap<i32, String>) {
    let path = format!("{prefix}{}", field.name);
    for child in &field.children {
        name_fields(child, &format!("{path}."), names);
    }
    names.insert(field.id, path);
}

/// The batches of a scan with the addresses that their buffers had before they were handed out.
#[pyfunction]
pub fn scan_and_addresses<'py>(
    py: Python<'py>,
    dataset: &PyDataset,
    columns: Option<Vec<String>>,
) -> PyResult<Vec<(Bound<'py, PyAny>, Vec<usize>)>> {
    let options = ScanOptions {
        columns,
        ..ScanOptions::default()
    };
    let scan: Box<dyn RecordBatchReader + Send> =
        Box::new(dataset.run(py, During::Other, || dataset.0.scan(options))?);
    let batches = arrow::collect(py, scan, dataset.0.uri())?;
    let pair = |batch| {
        let inside = arrow::buffer_addresses(&batch);
        Ok((arrow::export_batch(py, batch)?, inside))
    };
    batches.into_iter().map(pair).collect()
}
