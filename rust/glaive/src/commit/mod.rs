//! The one way in which a version comes to be (format chapter 31, 1).
//!
//! A commit catches up with every version since the read version, checks its transaction against each of theirs,
//! perhaps changes it to fit, writes the transaction file, builds the manifest from the *latest* one, and creates it
//! under a name that must not exist. Losing that race starts over. Everything written before the manifest is invisible.

mod attempt;
mod next;
mod rebase;

use std::time::{Duration, Instant};

use glaive_file::{Error, ErrorKind, Result};
use rand::RngExt;
use roaring::RoaringTreemap;

use crate::cleanup::after_commit;
use crate::manifest::{DETACHED, FeatureFlags, IndexSection, Manifest, ManifestFile, Naming};
use crate::transaction::conflict::{Ours, Rebase, check_conflict};
use crate::transaction::{OperationKind, Transaction};
use crate::versions::VersionStore;
use attempt::Attempt;
use next::Next;
use rebase::Rebased;

pub(crate) use rebase::affected_offsets;

/// How to commit.
#[derive(Debug, Clone)]
pub struct CommitOptions {
    /// Attempts before a commit gives up; at least one is made. An overwrite with 0 replaces exactly the version that
    /// was read, or fails.
    pub max_retries: u32,
    /// How long losing attempts may go on.
    pub retry_timeout: Duration,
    /// Addresses (fragment id << 32 | offset) of all rows that a Delete or Update deletes. With them, concurrent
    /// changes of other rows in the same fragments are merged.
    pub affected_rows: Option<RoaringTreemap>,
    /// Makes a version outside of the history, from the version that was read. Nothing is checked against others.
    pub detached: bool,
    /// Names manifests of a new table so that the newest sorts first.
    pub enable_v2_manifest_paths: bool,
}

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            max_retries: 20,
            retry_timeout: Duration::from_secs(30),
            affected_rows: None,
            detached: false,
            enable_v2_manifest_paths: true,
        }
    }
}

/// What a commit made.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) manifest: Manifest,
    pub(crate) indices: IndexSection,
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
    commit_first(store, transaction, next::first(transaction)?)
}

fn commit_first(
    store: &VersionStore,
    transaction: &Transaction,
    next: Next,
) -> Result<Committed, CommitFailure> {
    let attempt = Attempt {
        store,
        transaction,
        next,
    };
    match attempt.run()? {
        Some(committed) => Ok(committed),
        None => Err(already_exists(store.storage.uri()).into()),
    }
}

/// Commits a version on top of the latest one.
///
/// # Errors
/// Commit conflict; not found if the transaction was read from a version that never was.
pub(crate) fn commit(
    store: &VersionStore,
    transaction: &Transaction,
    options: &CommitOptions,
) -> Result<Committed, CommitFailure> {
    if transaction.read_version & DETACHED != 0 {
        return Err(
            Error::invalid_input("a detached version cannot be written to; open an attached one").into(),
        );
    }
    let base = read_version(store, transaction.read_version)?;
    let commit = Commit {
        store,
        transaction,
        options,
        base: base.as_ref(),
    };
    match options.detached {
        true => commit.detached(),
        false => commit.attached(),
    }
}

/// The version that an operation was computed from; `None` if cleanup removed it.
fn read_version(store: &VersionStore, version: u64) -> Result<Option<ManifestFile>> {
    match store.load(version) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() != ErrorKind::NotFound || version > store.latest()? => Err(error),
        Err(_) => Ok(None),
    }
}

/// Commits the first version of a clone, whose number is that of its source.
///
/// # Errors
/// Already exists if another writer was faster.
pub(crate) fn commit_clone(
    store: &VersionStore,
    manifest: Manifest,
    indices: IndexSection,
    flags: FeatureFlags,
    transaction: &Transaction,
) -> Result<Committed, CommitFailure> {
    flags.check_writable()?;
    commit_first(
        store,
        transaction,
        next::clone(manifest, indices, transaction, flags)?,
    )
}

pub(crate) fn already_exists(uri: &str) -> Error {
    Error::already_exists(format!(
        "Dataset already exists: {uri}; use mode \"append\" or \"overwrite\""
    ))
}

struct Commit<'a> {
    store: &'a VersionStore,
    transaction: &'a Transaction,
    options: &'a CommitOptions,
    base: Option<&'a ManifestFile>,
}

impl Commit<'_> {
    fn attached(&self) -> Result<Committed, CommitFailure> {
        let started = Instant::now();
        let mut backoff = Backoff::default();
        let mut progress = Progress {
            seen: self.transaction.read_version,
            rebase: Rebase::default(),
        };
        let strict = self.is_strict_overwrite();
        for attempt in 0..self.options.max_retries.max(1) {
            // Manifests may have been renamed since the table was opened.
            let (store, newest) = self.store.refreshed()?;
            let commit = Commit {
                store: &store,
                ..*self
            };
            let latest = if strict {
                commit.base_itself()?
            } else {
                commit.catch_up(newest, &mut progress)?
            };
            if let Some(committed) = commit.attempt(&latest, &progress.rebase)? {
                after_commit(&store, &committed.manifest);
                return Ok(committed);
            }
            if started.elapsed() > self.options.retry_timeout {
                break;
            }
            backoff.sleep(attempt, started, self.options.retry_timeout);
        }
        Err(self.used_up(progress.seen + 1, started.elapsed()).into())
    }

    fn attempt(&self, latest: &ManifestFile, rebase: &Rebase) -> Result<Option<Committed>, CommitFailure> {
        let affected = self.options.affected_rows.as_ref();
        let base = self.base.map(|file| &file.manifest);
        let mut rebased = Rebased::new(self.transaction, base, affected, rebase, latest, self.store)?;
        let next = next::after(latest, &rebased, self.store)?;
        let attempt = Attempt {
            store: self.store,
            transaction: &rebased.transaction,
            next,
        };
        let result = attempt.run();
        if matches!(
            &result,
            Ok(Some(_))
                | Err(CommitFailure {
                    status_unknown: true,
                    ..
                })
        ) {
            rebased.keep_files();
        }
        result
    }

    /// A version outside of the history.
    fn detached(&self) -> Result<Committed, CommitFailure> {
        if self.store.naming == Naming::V1 {
            return Err(Error::invalid_input(
                "detached versions need the V2 names of manifests; migrate the table first",
            )
            .into());
        }
        let base = self.base_itself()?;
        for _ in 0..self.options.max_retries.max(1) {
            let rebased = Rebased::new(
                self.transaction,
                None,
                None,
                &Rebase::default(),
                &base,
                self.store,
            )?;
            let mut next = next::after(&base, &rebased, self.store)?;
            next.manifest.version = rand::rng().random::<u64>() | DETACHED;
            let attempt = Attempt {
                store: self.store,
                transaction: self.transaction,
                next,
            };
            if let Some(committed) = attempt.run()? {
                return Ok(committed);
            }
        }
        Err(self.used_up(DETACHED, Duration::ZERO).into())
    }

    fn is_strict_overwrite(&self) -> bool {
        self.options.max_retries == 0 && self.transaction.operation.kind() == OperationKind::Overwrite
    }

    fn base_itself(&self) -> Result<ManifestFile> {
        let file = self.base.cloned().ok_or_else(|| {
            Error::not_found(format!("version {} was removed", self.transaction.read_version))
        })?;
        file.manifest.flags.check_writable()?;
        Ok(file)
    }

    fn used_up(&self, version: u64, elapsed: Duration) -> Error {
        let text = if elapsed > self.options.retry_timeout {
            let seconds = elapsed.as_secs();
            format!("Too many concurrent writers. No commit succeeded in {seconds} s; please retry")
        } else {
            format!(
                "Commit conflict for version {version}: Failed to commit the transaction after {} retries",
                self.options.max_retries
            )
        };
        Error::new(ErrorKind::CommitConflict { retryable: true }, text)
    }

    /// Checks the transaction against every version that has not been seen and returns the latest.
    ///
    /// A version in between whose transaction is gone could hide any change, so it is a conflict for every operation.
    fn catch_up(&self, latest: u64, progress: &mut Progress) -> Result<ManifestFile> {
        let ours = Ours {
            operation: &self.transaction.operation,
            base: self.base.map(|file| &file.manifest),
            affected_rows: self.options.affected_rows.as_ref(),
        };
        let mut last = None;
        for version in progress.seen + 1..=latest {
            let (file, theirs) = load_committed(self.store, version)?;
            progress.rebase.merge(check_conflict(&ours, &theirs, version)?);
            last = Some(file);
        }
        let file = last.map_or_else(|| self.store.load(latest), Ok)?;
        file.manifest.flags.check_writable()?;
        progress.seen = latest;
        Ok(file)
    }
}

/// How far a commit has looked.
struct Progress {
    /// The last version whose transaction was checked.
    seen: u64,
    /// What the checks ask for.
    rebase: Rebase,
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

/// Sleeps a random number of slots of 1.1 times the first attempt's duration; more slots with every attempt.
#[derive(Default)]
pub(crate) struct Backoff {
    unit: Option<Duration>,
}

impl Backoff {
    /// Sleeps after attempt number `attempt`, counted from 0, but not beyond `limit` after `started`.
    pub(crate) fn sleep(&mut self, attempt: u32, started: Instant, limit: Duration) {
        let unit = *self.unit.get_or_insert_with(|| started.elapsed().mul_f64(1.1));
        let slots = 1u32 << (attempt + 2).min(7);
        let left = limit.saturating_sub(started.elapsed());
        std::thread::sleep((unit * rand::rng().random_range(0..slots)).min(left));
    }
}
