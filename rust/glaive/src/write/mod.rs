//! Writing a stream of batches as a new table, more fragments, or a replacement.

mod append_schema;
mod blobs;
mod files;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use glaive_file::container::Alignment;
use glaive_file::io::{Durability, LocalStorage, Storage};
use glaive_file::{Error, FileVersion, Result, Schema};

use crate::cleanup::AutoCleanup;
use crate::commit::{CommitFailure, CommitOptions, Committed, already_exists, commit, commit_new};
use crate::dataset::{Dataset, OpenOptions, with_durability};
use crate::lock::CommitLock;
use crate::manifest::{DETACHED, Fragment, Naming};
use crate::projection::RESERVED;
use crate::transaction::{Operation, Transaction};
use crate::versions::VersionStore;
use append_schema::fields_for_append;
pub use blobs::ExternalBlobs;
pub(crate) use files::check_nulls;
use files::{FragmentWriter, WrittenFiles};

/// What to do with a table that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Fail.
    #[default]
    Create,
    /// Add rows. A missing table is created.
    Append,
    /// Replace rows and schema. A missing table is created.
    Overwrite,
}

impl std::str::FromStr for WriteMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "create" => Ok(Self::Create),
            "append" => Ok(Self::Append),
            "overwrite" => Ok(Self::Overwrite),
            _ => Err(Error::invalid_input(format!(
                "Invalid mode {text}; use create, append or overwrite"
            ))),
        }
    }
}

/// Hears of every data file. An error stops the write.
pub trait WriteProgress: Send + Sync {
    /// A file was started; the fragment has neither id nor files.
    fn begin(&self, fragment: &Fragment) -> Result<()>;

    /// A file is complete; the fragment has its file and rows, but no id.
    fn complete(&self, fragment: &Fragment) -> Result<()>;
}

/// Hears of what a write does otherwise than asked.
pub type WarningListener = dyn Fn(&str) + Send + Sync;

/// How to write.
#[derive(Clone)]
pub struct WriteParams {
    /// What to do with a table that exists.
    pub mode: WriteMode,
    /// Files are cut at exactly so many rows. At least 1.
    pub max_rows_per_file: u64,
    /// A file is ended after the batch that takes it to so many bytes.
    pub max_bytes_per_file: u64,
    /// Format of the new files. `None`: that of the table, 2.2 for a new one.
    pub data_storage_version: Option<FileVersion>,
    /// Names manifests of a new table so that the newest sorts first.
    pub enable_v2_manifest_paths: bool,
    /// Gives the rows of a new table ids that survive moves. Not supported yet.
    pub enable_stable_row_ids: bool,
    /// Stored with the transaction.
    pub transaction_properties: BTreeMap<String, String>,
    /// Merged into the config of a new or overwritten table.
    pub config_upsert_values: BTreeMap<String, String>,
    /// Bytes that the file writer collects before it writes pages. `None`: 8 MiB a column.
    pub data_cache_bytes: Option<u64>,
    /// Where the buffers of the files start.
    pub alignment: Alignment,
    /// What to do with blobs that are given by a URI.
    pub external_blobs: ExternalBlobs,
    /// Bytes of a file that blobs share, unless their field says otherwise. `None`: 1 GiB.
    pub blob_pack_file_size_threshold: Option<u64>,
    /// What an acknowledged version survives. `None`: as the snapshot that is written to, else the end of the process.
    pub durability: Option<Durability>,
    /// Held while the version is created. `None`: that of the snapshot that is written to.
    pub commit_lock: Option<Arc<dyn CommitLock>>,
    /// Cleanup that is stored with a new table.
    pub auto_cleanup: Option<AutoCleanup>,
    /// Hears of every file.
    pub progress: Option<Arc<dyn WriteProgress>>,
    /// Hears once of each metadata value of a field, and each environment variable, that could not be used.
    pub on_warning: Option<Arc<WarningListener>>,
}

impl Default for WriteParams {
    fn default() -> Self {
        Self {
            mode: WriteMode::default(),
            max_rows_per_file: 1 << 20,
            max_bytes_per_file: 90 << 30,
            data_storage_version: None,
            enable_v2_manifest_paths: true,
            enable_stable_row_ids: false,
            transaction_properties: BTreeMap::new(),
            config_upsert_values: BTreeMap::new(),
            data_cache_bytes: None,
            alignment: Alignment::default(),
            external_blobs: ExternalBlobs::default(),
            blob_pack_file_size_threshold: None,
            durability: None,
            commit_lock: None,
            auto_cleanup: None,
            progress: None,
            on_warning: None,
        }
    }
}

impl fmt::Debug for WriteParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteParams")
            .field("mode", &self.mode)
            .field("max_rows_per_file", &self.max_rows_per_file)
            .field("data_storage_version", &self.data_storage_version)
            .finish_non_exhaustive()
    }
}

/// Where to write.
#[derive(Debug, Clone, Copy)]
pub enum WriteDestination<'a> {
    /// A location; an existing table is read at its latest version.
    Uri(&'a str),
    /// A snapshot: the write is based on its version.
    Dataset(&'a Dataset),
}

impl<'a> From<&'a str> for WriteDestination<'a> {
    fn from(uri: &'a str) -> Self {
        Self::Uri(uri)
    }
}

impl<'a> From<&'a Dataset> for WriteDestination<'a> {
    fn from(dataset: &'a Dataset) -> Self {
        Self::Dataset(dataset)
    }
}

impl Dataset {
    /// Writes a stream of batches and returns the new version.
    ///
    /// # Errors
    /// Already exists (mode create); schema mismatch (mode append); invalid input for bad names, parameters or nulls;
    /// unsupported types and versions; commit conflict. The files that were written are removed, and the former
    /// version stays.
    pub fn write<'a>(
        destination: impl Into<WriteDestination<'a>>,
        reader: Box<dyn RecordBatchReader + Send>,
        params: &WriteParams,
    ) -> Result<Self> {
        params.check()?;
        let (storage, existing) = match destination.into() {
            WriteDestination::Uri(uri) => {
                let storage: Arc<dyn Storage> = Arc::new(LocalStorage::from_uri(uri)?);
                let storage = with_durability(&storage, params.durability)?;
                let existing = Self::find(&storage, OpenOptions::default())?;
                (storage, existing)
            }
            WriteDestination::Dataset(dataset) => (dataset.store().storage.clone(), Some(dataset.clone())),
        };
        let settings = |dataset: Self| dataset.with_settings(params.durability, params.commit_lock.clone());
        match (params.mode, existing.map(settings).transpose()?) {
            (WriteMode::Create, Some(dataset)) => Err(already_exists(dataset.uri())),
            (_, None) => create(&storage, reader, params),
            (WriteMode::Append, Some(dataset)) => append(&dataset, reader, params),
            (WriteMode::Overwrite, Some(dataset)) => overwrite(&dataset, reader, params),
        }
    }
}

impl WriteParams {
    fn check(&self) -> Result<()> {
        if self.max_rows_per_file == 0 || self.max_bytes_per_file == 0 {
            return Err(Error::invalid_input(
                "max_rows_per_file and max_bytes_per_file must be at least 1",
            ));
        }
        // Row offsets are 32 bits wide.
        if self.max_rows_per_file > 1 << 32 {
            return Err(Error::invalid_input("max_rows_per_file must be at most 2^32"));
        }
        Ok(())
    }

    fn transaction(&self, read_version: u64, operation: Operation) -> Transaction {
        let properties = self.transaction_properties.clone();
        Transaction {
            properties,
            ..Transaction::new(read_version, operation)
        }
    }
}

fn create(
    storage: &Arc<dyn Storage>,
    reader: Box<dyn RecordBatchReader + Send>,
    params: &WriteParams,
) -> Result<Dataset> {
    if params.enable_stable_row_ids {
        return Err(Error::unsupported(
            "creating a table with stable row ids is not supported",
        ));
    }
    let naming = if params.enable_v2_manifest_paths {
        Naming::V2
    } else {
        Naming::V1
    };
    let version = params.data_storage_version.unwrap_or_default();
    let schema = new_schema(&reader, version)?;
    let mut written = WrittenFiles::new(storage);
    let mut operation = stage_overwrite(schema, version, reader, params, &mut written)?;
    if let (
        Operation::Overwrite {
            config_upsert_values, ..
        },
        Some(cleanup),
    ) = (&mut operation, params.auto_cleanup)
    {
        config_upsert_values.extend(cleanup.config());
    }
    let store = VersionStore {
        lock: params.commit_lock.clone(),
        ..VersionStore::new(storage.clone(), naming)
    };
    let committed = commit_new(&store, &params.transaction(0, operation));
    conclude(store, written, committed)
}

fn append(
    dataset: &Dataset,
    reader: Box<dyn RecordBatchReader + Send>,
    params: &WriteParams,
) -> Result<Dataset> {
    check_can_add_rows(dataset)?;
    let of_table = dataset.data_storage_version();
    let version = params.data_storage_version.unwrap_or(of_table);
    if version.is_legacy() != of_table.is_legacy() {
        return Err(Error::invalid_input(
            "V1 and V2 storage versions cannot be mixed in one table",
        ));
    }
    blobs::check_form(dataset.schema(), version)?;
    let given = given_schema(&reader, version)?;
    let fields = fields_for_append(dataset.schema(), &given)?;
    if fields.is_empty() && !dataset.schema().fields.is_empty() {
        return Err(Error::schema_mismatch(
            "Append with different schema: the data has no column of the table",
        ));
    }
    let schema = Schema {
        fields,
        metadata: dataset.schema().metadata.clone(),
    };
    check_schema(&schema, version)?;
    let mut written = WrittenFiles::of(dataset);
    let fragments = FragmentWriter::new(schema, version, params, &mut written).write_all(reader)?;
    let transaction = params.transaction(dataset.version(), Operation::Append { fragments });
    let committed = commit(dataset.store(), &transaction, &CommitOptions::default());
    conclude(dataset.store().clone(), written, committed)
}

fn overwrite(
    dataset: &Dataset,
    reader: Box<dyn RecordBatchReader + Send>,
    params: &WriteParams,
) -> Result<Dataset> {
    check_can_add_rows(dataset)?;
    let version = params
        .data_storage_version
        .unwrap_or(dataset.data_storage_version());
    let schema = new_schema(&reader, version)?;
    let mut written = WrittenFiles::of(dataset);
    let operation = stage_overwrite(schema, version, reader, params, &mut written)?;
    let transaction = params.transaction(dataset.version(), operation);
    let committed = commit(dataset.store(), &transaction, &CommitOptions::default());
    conclude(dataset.store().clone(), written, committed)
}

/// Writes the files of a new or replaced table.
fn stage_overwrite(
    schema: Schema,
    version: FileVersion,
    reader: Box<dyn RecordBatchReader + Send>,
    params: &WriteParams,
    written: &mut WrittenFiles,
) -> Result<Operation> {
    check_schema(&schema, version)?;
    let fragments = FragmentWriter::new(schema.clone(), version, params, written).write_all(reader)?;
    Ok(Operation::Overwrite {
        fragments,
        schema,
        config_upsert_values: params.config_upsert_values.clone(),
        initial_bases: Vec::new(),
        data_version: Some(version),
    })
}

/// Before anything is written: the table must be one that this engine can write to.
fn check_can_add_rows(dataset: &Dataset) -> Result<()> {
    if dataset.version() & DETACHED != 0 {
        return Err(Error::invalid_input(
            "a detached version cannot be written to; open an attached one",
        ));
    }
    dataset.manifest().flags.check_writable()?;
    if dataset.has_stable_row_ids() {
        return Err(Error::unsupported(
            "adding rows to a table with stable row ids is not supported",
        ));
    }
    Ok(())
}

/// The schema of incoming data, with blobs in the form that files of that version hold.
fn given_schema(reader: &(impl RecordBatchReader + ?Sized), version: FileVersion) -> Result<Schema> {
    match version >= FileVersion::V2_2 {
        true => Schema::try_from_arrow(&blobs::promote(&reader.schema())),
        false => Schema::try_from_arrow(&reader.schema()),
    }
}

fn new_schema(reader: &(impl RecordBatchReader + ?Sized), version: FileVersion) -> Result<Schema> {
    let schema = given_schema(reader, version)?;
    match schema
        .fields
        .iter()
        .find(|field| RESERVED.contains(&field.name.as_str()))
    {
        None => Ok(schema),
        Some(field) => Err(Error::invalid_input(format!(
            "The column {} is a reserved name and cannot be used in a Lance dataset",
            field.name
        ))),
    }
}

fn check_schema(schema: &Schema, version: FileVersion) -> Result<()> {
    version.check_writable()?;
    blobs::check_form(schema, version)?;
    schema.check_writable(version)
}

/// Keeps the files of a commit that landed, or may have.
fn conclude(
    store: VersionStore,
    written: WrittenFiles,
    committed: Result<Committed, CommitFailure>,
) -> Result<Dataset> {
    match committed {
        Ok(Committed { manifest, indices }) => {
            written.keep();
            Ok(Dataset::new(store, manifest, indices))
        }
        Err(CommitFailure {
            error,
            status_unknown,
        }) => {
            if status_unknown {
                written.keep();
            }
            Err(error)
        }
    }
}
