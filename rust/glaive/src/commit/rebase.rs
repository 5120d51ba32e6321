//! Changing our operation so that it can follow what others committed (format chapter 31, 6.1).
//!
//! A deletion file lists all deleted rows of its fragment. If another writer deleted rows of the same fragment
//! meanwhile, ours would bring them back, so both sets are merged into a new file, unless they share a row.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use glaive_file::io::Storage;
use glaive_file::{Context, Error, ErrorKind, Result};
use roaring::{RoaringBitmap, RoaringTreemap};

use crate::data_file::FileCache;
use crate::deletion::{DeletionVector, write_deletions};
use crate::manifest::{DeletionFileType, Fragment, Manifest, ManifestFile};
use crate::storages::Storages;
use crate::transaction::conflict::Rebase;
use crate::transaction::{Operation, Transaction};
use crate::versions::VersionStore;

/// A transaction that fits the latest version, and what building its manifest must know.
pub(super) struct Rebased<'a> {
    pub(super) transaction: Cow<'a, Transaction>,
    /// For new indices, by position: fragments that they no longer cover.
    pub(super) uncovered: BTreeMap<usize, RoaringBitmap>,
    /// The version that the operation was computed from.
    pub(super) base: Option<&'a Manifest>,
    files: NewFiles,
}

/// Deletion files of one attempt. Dropped without being kept, they are removed.
struct NewFiles {
    storage: Arc<dyn Storage>,
    paths: Vec<String>,
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for path in &self.paths {
            // Nothing can be done about a failure; cleanup removes what stays.
            let _ = self.storage.delete(path);
        }
    }
}

impl<'a> Rebased<'a> {
    /// Applies what the conflict checks asked for, on top of `latest`.
    pub(super) fn new(
        transaction: &'a Transaction,
        base: Option<&'a Manifest>,
        affected_rows: Option<&RoaringTreemap>,
        rebase: &Rebase,
        latest: &ManifestFile,
        store: &VersionStore,
    ) -> Result<Self> {
        let mut rebased = Self {
            transaction: Cow::Borrowed(transaction),
            uncovered: rebase.uncovered.clone(),
            base,
            files: NewFiles {
                storage: store.storage.clone(),
                paths: Vec::new(),
            },
        };
        if rebase.deletions.is_empty() {
            return Ok(rebased);
        }
        let affected_rows =
            affected_rows.ok_or_else(|| lost_rows("the rows that ours changes are not known"))?;
        let mut own = transaction.clone();
        own.read_version = latest.manifest.version;
        for id in &rebase.deletions {
            rebased
                .merge_deletions(&mut own.operation, *id, affected_rows, &latest.manifest)
                .context(|| format!("fragment {id}"))?;
        }
        rebased.transaction = Cow::Owned(own);
        Ok(rebased)
    }

    /// The files belong to a version now, or may do so.
    pub(super) fn keep_files(&mut self) {
        self.files.paths.clear();
    }

    fn merge_deletions(
        &mut self,
        operation: &mut Operation,
        id: u32,
        affected_rows: &RoaringTreemap,
        latest: &Manifest,
    ) -> Result<()> {
        let storages = Storages::of(&self.files.storage, latest);
        let current = latest
            .fragment(id)
            .ok_or_else(|| lost_rows("the fragment was removed"))?;
        let cache = FileCache::default();
        let rows = cache.physical_rows(&storages, current)?;
        let existing = cache.deletions(&storages, current, rows)?.unwrap_or_default();
        let own = affected_offsets(affected_rows, id);
        if !existing.bitmap().is_disjoint(&own) {
            let first = (existing.bitmap() & &own).min().unwrap_or(0);
            return Err(lost_rows(&format!(
                "both modified rows at addresses such as {id}:{first}"
            )));
        }
        let merged = DeletionVector::from(existing.bitmap() | &own);
        if merged.len() >= rows {
            remove_fragment(operation, id);
            return Ok(());
        }
        let kind = DeletionFileType::Bitmap;
        let file = write_deletions(self.files.storage.as_ref(), id, latest.version, &merged, kind)?;
        self.files.paths.push(file.path(id));
        let mut updated = updated_fragments(operation).iter_mut();
        if let Some(fragment) = updated.find(|fragment| fragment.id == id) {
            fragment.deletion_file = Some(file);
        }
        Ok(())
    }
}

fn lost_rows(reason: &str) -> Error {
    Error::new(
        ErrorKind::CommitConflict { retryable: true },
        format!("Retryable commit conflict: {reason}. Please retry on the latest version"),
    )
}

/// The offsets of one fragment among row addresses.
pub(crate) fn affected_offsets(rows: &RoaringTreemap, fragment: u32) -> RoaringBitmap {
    let mut bitmaps = rows.bitmaps();
    bitmaps
        .find(|(id, _)| *id == fragment)
        .map(|(_, offsets)| offsets.clone())
        .unwrap_or_default()
}

fn updated_fragments(operation: &mut Operation) -> &mut [Fragment] {
    match operation {
        Operation::Delete {
            updated_fragments, ..
        } => updated_fragments,
        Operation::Update(update) => &mut update.updated_fragments,
        _ => &mut [],
    }
}

/// A fragment that lost its last row goes.
fn remove_fragment(operation: &mut Operation, id: u32) {
    match operation {
        Operation::Delete {
            updated_fragments,
            deleted_fragment_ids,
            ..
        } => {
            updated_fragments.retain(|fragment| fragment.id != id);
            deleted_fragment_ids.push(id.into());
        }
        Operation::Update(update) => {
            update.updated_fragments.retain(|fragment| fragment.id != id);
            update.removed_fragment_ids.push(id.into());
        }
        _ => {}
    }
}
