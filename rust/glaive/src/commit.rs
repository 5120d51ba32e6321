//! The one way in which a version comes to be (format chapter 31, 1).
//!
//! A commit catches up with every version since the read version, checks its transaction against each of theirs,
//! writes the transaction file, builds the manifest from the *latest* one, and creates it under a name that must not
//! exist. Losing that race starts over. Everything written before the manifest is invisible.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chrono::Utc;
use glaive_file::io::{Durability, Storage};
use glaive_file::{Error, ErrorKind, FileVersion, Result};
use rand::RngExt;

use crate::cleanup::after_commit;
use crate::lock::CommitLease;
use crate::manifest::{
    DETACHED, DataFile, FeatureFlags, Fragment, HINT, Manifest, ManifestFile, VERSIONS, feature_flags,
    has_covering_fields, this_writer,
};
use crate::transaction::{Operation, Transaction, check_conflict, transaction_path};
use crate::versions::VersionStore;

/// Attempts before a commit gives up.
const ATTEMPTS: u32 = 20;

/// How long losing attempts may go on.
const RETRY_TIME: Duration = Duration::from_secs(30);

/// What a commit made.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) manifest: Manifest,
    pub(crate) index_section: Option<Bytes>,
}

/// A commit that failed, and whether the files of the operation may be in use all the same.
#[derive(Debug)]
pub(crate) struct CommitFailure {
    pub(crate) error: Error,
    /// The manifest may have been written: nothing may be removed.
    pub(crate) status_unknown: bool,
}

impl From<Error> for CommitFailure {
    fn from(error: Error) -> Self {
        Self {
            error,
            status_unknown: false,
        }
    }
}

/// Commits the first version of a table.
///
/// # Errors
/// Already exists if another writer was faster.
pub(crate) fn commit_new(
    store: &VersionStore,
    transaction: &Transaction,
) -> Result<Committed, CommitFailure> {
    let manifest = first_manifest(transaction)?;
    let attempt = Attempt {
        store,
        transaction,
        manifest,
        index_section: None,
    };
    match attempt.run()? {
        Some(committed) => Ok(committed),
        None => Err(already_exists(store.storage.uri()).into()),
    }
}

/// Commits the first version of a clone, whose number is that of its source.
///
/// # Errors
/// Already exists if another writer was faster.
pub(crate) fn commit_clone(
    store: &VersionStore,
    mut manifest: Manifest,
    index_section: Option<Bytes>,
    flags: FeatureFlags,
    transaction: &Transaction,
) -> Result<Committed, CommitFailure> {
    flags.check_writable()?;
    stamp(&mut manifest, index_section.as_ref(), transaction, flags)?;
    let attempt = Attempt {
        store,
        transaction,
        manifest,
        index_section,
    };
    match attempt.run()? {
        Some(committed) => Ok(committed),
        None => Err(already_exists(store.storage.uri()).into()),
    }
}

/// Commits a version on top of the latest one.
///
/// # Errors
/// Commit conflict; `base` is the attached version that the operation was computed from.
pub(crate) fn commit(
    store: &VersionStore,
    base: &Manifest,
    transaction: &Transaction,
) -> Result<Committed, CommitFailure> {
    if base.version & DETACHED != 0 {
        return Err(
            Error::invalid_input("a detached version cannot be written to; open an attached one").into(),
        );
    }
    let started = Instant::now();
    let mut backoff = Backoff::default();
    let mut seen = base.version;
    for attempt in 0..ATTEMPTS {
        let (store, newest) = store.refreshed()?;
        let latest = catch_up(&store, newest, &mut seen, transaction)?;
        let (manifest, index_section) = next_manifest(&latest, transaction)?;
        let run = Attempt {
            store: &store,
            transaction,
            manifest,
            index_section,
        };
        match run.run()? {
            Some(committed) => {
                after_commit(&store, &committed.manifest);
                return Ok(committed);
            }
            None if started.elapsed() > RETRY_TIME => break,
            None => backoff.sleep(attempt, started),
        }
    }
    Err(used_up(seen + 1, started.elapsed()).into())
}

pub(crate) fn already_exists(uri: &str) -> Error {
    Error::already_exists(format!(
        "Dataset already exists: {uri}; use mode \"append\" or \"overwrite\""
    ))
}

fn used_up(version: u64, elapsed: Duration) -> Error {
    let text = if elapsed > RETRY_TIME {
        format!(
            "Too many concurrent writers. No commit succeeded in {} s",
            elapsed.as_secs()
        )
    } else {
        format!(
            "Commit conflict for version {version}: Failed to commit the transaction after {ATTEMPTS} retries"
        )
    };
    Error::new(ErrorKind::CommitConflict { retryable: true }, text)
}

/// Checks the transaction against every version after `seen` and returns the latest.
///
/// A version in between whose transaction is gone could hide any change, so it is a conflict.
fn catch_up(store: &VersionStore, latest: u64, seen: &mut u64, ours: &Transaction) -> Result<ManifestFile> {
    let mut last = None;
    for version in *seen + 1..=latest {
        let (file, theirs) = load_committed(store, version)?;
        check_conflict(ours, &theirs, version)?;
        last = Some(file);
    }
    let file = last.map_or_else(|| store.load(latest), Ok)?;
    file.manifest.flags.check_writable()?;
    *seen = latest;
    Ok(file)
}

/// A version that another writer committed, with its transaction.
fn load_committed(store: &VersionStore, version: u64) -> Result<(ManifestFile, Transaction)> {
    let load = || {
        let file = store.load(version)?;
        let transaction = store.transaction_of(&file)?;
        Ok((file, transaction))
    };
    load().map_err(|e: Error| match e.kind() {
        ErrorKind::NotFound => Error::new(
            ErrorKind::CommitConflict { retryable: true },
            format!(
                "Retryable commit conflict for version {version}: its transaction is no longer there, so changes \
                 since the version that was read cannot be checked; retry on the latest version"
            ),
        )
        .with_source(e),
        _ => e,
    })
}

/// Slots of 1.1 times the first attempt's duration; more slots with every attempt.
#[derive(Default)]
struct Backoff {
    unit: Option<Duration>,
}

impl Backoff {
    fn sleep(&mut self, attempt: u32, started: Instant) {
        let unit = *self.unit.get_or_insert_with(|| started.elapsed().mul_f64(1.1));
        let slots = 1u32 << (attempt + 2).min(7);
        let left = RETRY_TIME.saturating_sub(started.elapsed());
        std::thread::sleep((unit * rand::rng().random_range(0..slots)).min(left));
    }
}

/// One try to create one version.
struct Attempt<'a> {
    store: &'a VersionStore,
    transaction: &'a Transaction,
    manifest: Manifest,
    index_section: Option<Bytes>,
}

impl Attempt<'_> {
    /// `None` if another writer was faster.
    fn run(self) -> Result<Option<Committed>, CommitFailure> {
        let storage = self.store.storage.as_ref();
        let transaction_file = transaction_path(&self.transaction.file_name())?;
        let bytes = ManifestFile::encode(&self.manifest, self.index_section.as_ref(), self.transaction)?;
        storage.put(&transaction_file, &self.transaction.encode())?;
        let version = self.manifest.version;
        let Some(lease) = self.acquire(&transaction_file)? else {
            return Ok(None);
        };
        let created = storage.put_if_absent(&self.store.naming.path(version), &bytes);
        let landed = match created {
            Ok(()) => Ok(true),
            Err(error) => self.verify(error, &transaction_file),
        };
        let released = lease.map_or(Ok(()), |lease| lease.release(matches!(landed, Ok(true))));
        if !landed? {
            return Ok(None);
        }
        write_hint(storage, version);
        // The version is there, whatever the lock says.
        released.map_err(|error| CommitFailure {
            error,
            status_unknown: true,
        })?;
        Ok(Some(Committed {
            manifest: self.manifest,
            index_section: self.index_section,
        }))
    }

    /// The lock, where the table has one; `None` if another writer holds it.
    fn acquire(&self, transaction_file: &str) -> Result<Option<Option<Box<dyn CommitLease>>>> {
        let Some(lock) = &self.store.lock else {
            return Ok(Some(None));
        };
        lock.acquire(self.manifest.version)
            .map(|lease| Some(Some(lease)))
            .or_else(|e| {
                // Garbage if it stays; cleanup removes it.
                let _ = self.store.storage.delete(transaction_file);
                match e.kind() {
                    ErrorKind::CommitConflict { retryable: true } => Ok(None),
                    _ => Err(e),
                }
            })
    }

    /// Finds out after a failed creation whether it was our manifest that is there.
    fn verify(&self, error: Error, transaction_file: &str) -> Result<bool, CommitFailure> {
        let version = self.manifest.version;
        let path = self.store.naming.path(version);
        let exists = error.kind() == ErrorKind::AlreadyExists;
        let theirs = match self.store.storage.exists(&path) {
            Ok(false) if !exists => None,
            _ => match self
                .store
                .load(version)
                .and_then(|file| self.store.transaction_of(&file))
            {
                Ok(transaction) => Some(transaction),
                Err(cause) => return Err(status_unknown(version, cause)),
            },
        };
        if theirs.is_some_and(|theirs| theirs.uuid == self.transaction.uuid) {
            // What failed may have been the sync.
            if self.store.storage.durability() == Durability::Disk {
                let synced = self.store.storage.sync_directory(VERSIONS);
                synced.map_err(|cause| status_unknown(version, cause))?;
            }
            return Ok(true);
        }
        // Garbage if it stays; cleanup removes it.
        let _ = self.store.storage.delete(transaction_file);
        if exists { Ok(false) } else { Err(error.into()) }
    }
}

fn status_unknown(version: u64, cause: Error) -> CommitFailure {
    let error = Error::new(
        ErrorKind::Io,
        format!("commit status unknown: version {version} may have been written; check the latest version"),
    );
    CommitFailure {
        error: error.with_source(cause),
        status_unknown: true,
    }
}

/// The hint saves a listing on other stores. It may be wrong or missing, so a failure to write it is none.
fn write_hint(storage: &dyn Storage, version: u64) {
    let hint = format!("{{\"version\":{version}}}");
    // Not worth a sync either.
    let _ = match storage.with_durability(Durability::Process) {
        Some(quick) => quick.put(HINT, hint.as_bytes()),
        None => storage.put(HINT, hint.as_bytes()),
    };
}

/// Version 1 from an overwrite of nothing.
fn first_manifest(transaction: &Transaction) -> Result<Manifest> {
    let Operation::Overwrite {
        data_version,
        initial_bases,
        ..
    } = &transaction.operation
    else {
        return Err(Error::invalid_input("a table is made by an Overwrite"));
    };
    let empty = Manifest {
        version: 1,
        schema: glaive_file::Schema::default(),
        fragments: Vec::new(),
        timestamp: Utc::now(),
        flags: FeatureFlags::default(),
        max_fragment_id: None,
        transaction_file: String::new(),
        writer_version: None,
        next_row_id: 0,
        data_version: data_version.unwrap_or(FileVersion::DEFAULT),
        config: BTreeMap::new(),
        table_metadata: BTreeMap::new(),
        base_paths: initial_bases.clone(),
        branch: None,
        tag: String::new(),
        max_allocated_field_id: None,
    };
    finish(empty, None, transaction, FeatureFlags::default())
}

/// The manifest after `latest` (format chapter 31, 4), and its index section.
fn next_manifest(latest: &ManifestFile, transaction: &Transaction) -> Result<(Manifest, Option<Bytes>)> {
    let previous = &latest.manifest;
    let version = previous.version + 1;
    if version & DETACHED != 0 {
        return Err(Error::invalid_input("the table has used up all versions"));
    }
    let index_section = match &transaction.operation {
        Operation::Overwrite { .. } => None,
        _ => latest.index_section.clone(),
    };
    let next = Manifest {
        version,
        ..previous.clone()
    };
    let manifest = finish(next, index_section.as_ref(), transaction, previous.flags)?;
    Ok((manifest, index_section))
}

/// Applies the operation and sets everything that every commit sets.
fn finish(
    mut manifest: Manifest,
    index_section: Option<&Bytes>,
    transaction: &Transaction,
    previous: FeatureFlags,
) -> Result<Manifest> {
    apply(&mut manifest, &transaction.operation)?;
    for fragment in &mut manifest.fragments {
        if fragment.files.iter().any(DataFile::is_dead) {
            Arc::make_mut(fragment).files.retain(|file| !file.is_dead());
        }
    }
    manifest.fragments.sort_by_key(|fragment| fragment.id);
    let highest = manifest.fragments.last().map(|fragment| fragment.id);
    manifest.max_fragment_id = manifest.max_fragment_id.max(highest);
    stamp(&mut manifest, index_section, transaction, previous)?;
    Ok(manifest)
}

/// Sets what says who wrote the version, when and how, and checks the whole.
fn stamp(
    manifest: &mut Manifest,
    index_section: Option<&Bytes>,
    transaction: &Transaction,
    previous: FeatureFlags,
) -> Result<()> {
    manifest.timestamp = Utc::now();
    manifest.writer_version = Some(this_writer());
    manifest.transaction_file = transaction.file_name();
    manifest.tag.clone_from(&transaction.tag);
    let covering = index_section.is_some_and(has_covering_fields);
    manifest.flags = FeatureFlags::of_next(manifest, covering, previous);
    manifest.check()
}

fn apply(manifest: &mut Manifest, operation: &Operation) -> Result<()> {
    match operation {
        Operation::Append { fragments } => add_fragments(manifest, fragments),
        Operation::Overwrite {
            fragments,
            schema,
            config_upsert_values,
            data_version,
            ..
        } => {
            let next_id = manifest.next_fragment_id()?;
            manifest.max_fragment_id = next_id.checked_sub(1).or(manifest.max_fragment_id);
            manifest.fragments.clear();
            manifest.schema = schema.clone();
            manifest.config.extend(config_upsert_values.clone());
            manifest.data_version = data_version.unwrap_or(manifest.data_version);
            add_fragments(manifest, fragments)
        }
        Operation::Other(_) | Operation::Unknown => Err(Error::unsupported(format!(
            "committing the operation {:?}",
            operation.kind()
        ))),
    }
}

/// Gives new fragments their ids.
fn add_fragments(manifest: &mut Manifest, fragments: &[Fragment]) -> Result<()> {
    if manifest.flags.writer & feature_flags::STABLE_ROW_IDS != 0 {
        return Err(Error::unsupported(
            "adding rows to a table with stable row ids is not supported",
        ));
    }
    let mut next_id = manifest.next_fragment_id()?;
    for fragment in fragments {
        if fragment.deletion_file.is_some() {
            return Err(Error::invalid_input("a new fragment cannot have a deletion file"));
        }
        manifest.fragments.push(Arc::new(Fragment {
            id: next_id,
            ..fragment.clone()
        }));
        next_id = next_id
            .checked_add(1)
            .ok_or_else(|| Error::invalid_input("the table has used up all fragment ids"))?;
    }
    Ok(())
}
