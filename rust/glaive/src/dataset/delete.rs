//! Deleting rows by address (format chapter 30, 8 and chapter 31, 4.2).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use glaive_file::{Error, ErrorKind, Result};
use roaring::{RoaringBitmap, RoaringTreemap};

use super::{Dataset, FragmentHandle};
use crate::commit::{Backoff, CommitOptions, affected_offsets};
use crate::deletion::{DeletionVector, write_deletions};
use crate::manifest::{DeletionFileType, Fragment};
use crate::transaction::{Operation, Transaction};

/// How often and how long a change of rows is computed anew when another writer was faster.
#[derive(Debug, Clone, Copy)]
pub struct RetryOptions {
    /// Computations after the first.
    pub conflict_retries: u32,
    /// Time for all of them.
    pub retry_timeout: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            conflict_retries: 10,
            retry_timeout: Duration::from_secs(30),
        }
    }
}

/// A version without some rows.
#[derive(Debug, Clone)]
pub struct Deleted {
    /// The new version.
    pub dataset: Dataset,
    /// How many rows it lost.
    pub num_deleted_rows: u64,
}

impl Dataset {
    /// Deletes the rows at addresses (fragment id << 32 | physical offset) of this version. Rows that are deleted
    /// already, or do not exist, are left out. `predicate` says for readers of the history which rows these are.
    ///
    /// # Errors
    /// Commit conflict, retryable if another writer changed the same rows: addresses are those of this version only.
    pub fn delete_rows(
        &self,
        rows: &RoaringTreemap,
        predicate: &str,
        properties: &BTreeMap<String, String>,
    ) -> Result<Deleted> {
        let staged = self.stage_delete(rows, predicate)?;
        let num_deleted_rows = staged.affected_rows.len();
        let transaction = Transaction {
            properties: properties.clone(),
            ..Transaction::new(self.version(), staged.operation)
        };
        let options = CommitOptions {
            affected_rows: Some(staged.affected_rows),
            ..CommitOptions::default()
        };
        let dataset = self.commit(&transaction, &options)?;
        Ok(Deleted {
            dataset,
            num_deleted_rows,
        })
    }

    /// Deletes the rows that `select` names, and asks it again for the latest version if another writer changed them.
    ///
    /// # Errors
    /// `Too many concurrent writers` if that happens too often; commit conflict; what `select` returns.
    pub fn delete_where(
        &self,
        predicate: &str,
        properties: &BTreeMap<String, String>,
        retry: RetryOptions,
        select: impl Fn(&Self) -> Result<RoaringTreemap>,
    ) -> Result<Deleted> {
        let started = Instant::now();
        let mut backoff = Backoff::default();
        let mut dataset = self.clone();
        for attempt in 0.. {
            match dataset.delete_rows(&select(&dataset)?, predicate, properties) {
                Err(error) if error.kind() == (ErrorKind::CommitConflict { retryable: true }) => {
                    if attempt >= retry.conflict_retries || started.elapsed() > retry.retry_timeout {
                        return Err(contention(attempt, error));
                    }
                }
                result => return result,
            }
            backoff.sleep(attempt, started, retry.retry_timeout);
            dataset = dataset.checkout_latest()?;
        }
        Err(contention(
            retry.conflict_retries,
            Error::invalid_input("no attempt was made"),
        ))
    }

    fn stage_delete(&self, rows: &RoaringTreemap, predicate: &str) -> Result<StagedDelete> {
        let mut updated_fragments = Vec::new();
        let mut deleted_fragment_ids = Vec::new();
        let mut affected_rows = RoaringTreemap::new();
        for fragment in self.fragments() {
            let offsets = fragment.live_offsets(affected_offsets(rows, fragment.id()))?;
            if offsets.is_empty() {
                continue;
            }
            let base = u64::from(fragment.id()) << 32;
            affected_rows.extend(offsets.iter().map(|offset| base | u64::from(offset)));
            match fragment.delete_rows(offsets)? {
                Some(updated) => updated_fragments.push(updated),
                None => deleted_fragment_ids.push(fragment.id().into()),
            }
        }
        let operation = Operation::Delete {
            updated_fragments,
            deleted_fragment_ids,
            predicate: predicate.to_string(),
        };
        Ok(StagedDelete {
            operation,
            affected_rows,
        })
    }
}

struct StagedDelete {
    operation: Operation,
    affected_rows: RoaringTreemap,
}

fn contention(attempts: u32, cause: Error) -> Error {
    let text = format!("Too many concurrent writers. Attempted {attempts} retries. Please retry: {cause}");
    Error::new(ErrorKind::CommitConflict { retryable: true }, text).with_source(cause)
}

impl FragmentHandle {
    /// Writes a deletion file with these physical offsets besides those that are deleted, and returns the fragment as
    /// it is then; `None` if no row is left. Nothing is committed. Offsets of deleted rows count as deleted; unchanged
    /// if there is nothing new.
    ///
    /// # Errors
    /// Invalid input for an offset beyond the end.
    pub fn delete_rows(&self, offsets: RoaringBitmap) -> Result<Option<Fragment>> {
        let rows = self.physical_rows()?;
        if let Some(offset) = offsets.max().filter(|offset| u64::from(*offset) >= rows) {
            return Err(Error::invalid_input(format!(
                "offset {offset} is beyond the end of fragment {} with {rows} rows",
                self.id()
            )));
        }
        let before = self.deletions()?.unwrap_or_default();
        let all = DeletionVector::from(before.bitmap() | offsets);
        if all.len() == before.len() {
            return Ok(Some(self.metadata().clone()));
        }
        if all.len() >= rows {
            return Ok(None);
        }
        let dataset = self.dataset();
        let storage = dataset.store().storage.as_ref();
        let kind = DeletionFileType::for_rows(all.len());
        let file = write_deletions(storage, self.id(), dataset.version(), &all, kind)?;
        Ok(Some(Fragment {
            deletion_file: Some(file),
            ..self.metadata().clone()
        }))
    }

    /// Those of the offsets that are rows of the fragment and not deleted.
    fn live_offsets(&self, mut offsets: RoaringBitmap) -> Result<RoaringBitmap> {
        if let Ok(rows) = u32::try_from(self.physical_rows()?) {
            offsets.remove_range(rows..);
        }
        Ok(match self.deletions()? {
            Some(deletions) => offsets - deletions.bitmap(),
            None => offsets,
        })
    }
}
