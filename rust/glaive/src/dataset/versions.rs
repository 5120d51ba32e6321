//! The history of a table.

use chrono::{DateTime, Utc};
use glaive_file::{Error, ErrorKind, Result};

use crate::manifest::{Manifest, ManifestFile};
use crate::versions::VersionStore;

/// One version of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionInfo {
    /// Version number.
    pub version: u64,
    /// Wall clock of the commit.
    pub timestamp: DateTime<Utc>,
    /// What it holds.
    pub summary: VersionSummary,
}

/// Counts of a version, from its manifest alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VersionSummary {
    /// Fragments.
    pub total_fragments: u64,
    /// Data files.
    pub total_data_files: u64,
    /// Bytes of the data files, where known.
    pub total_files_size: u64,
    /// Deletion files.
    pub total_deletion_files: u64,
    /// Rows in data files, deleted ones included.
    pub total_data_file_rows: u64,
    /// Deleted rows.
    pub total_deletion_file_rows: u64,
    /// Live rows.
    pub total_rows: u64,
}

impl VersionInfo {
    /// The entry of a manifest.
    pub fn of(manifest: &Manifest) -> Self {
        let mut summary = VersionSummary::default();
        for fragment in &manifest.fragments {
            let rows = fragment.physical_rows.unwrap_or(0);
            let deleted = fragment.num_deleted_rows().unwrap_or(0);
            summary.total_fragments += 1;
            summary.total_data_files += fragment.files.len() as u64;
            summary.total_deletion_files += u64::from(fragment.deletion_file.is_some());
            add(&mut summary.total_data_file_rows, rows);
            add(&mut summary.total_deletion_file_rows, deleted);
            add(&mut summary.total_rows, rows.saturating_sub(deleted));
            fragment
                .files
                .iter()
                .for_each(|file| add(&mut summary.total_files_size, file.size.unwrap_or(0)));
        }
        Self {
            version: manifest.version,
            timestamp: manifest.timestamp,
            summary,
        }
    }
}

fn add(sum: &mut u64, value: u64) {
    *sum = sum.saturating_add(value);
}

/// All versions, ascending. A version that cleanup removes meanwhile is left out.
pub(super) fn list(store: &VersionStore) -> Result<Vec<VersionInfo>> {
    let infos = store
        .list()?
        .into_iter()
        .map(|version| match store.load(version) {
            Ok(file) => Ok(Some(VersionInfo::of(&file.manifest))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        });
    infos.filter_map(Result::transpose).collect()
}

/// The greatest version whose timestamp lies before `time`.
///
/// Clocks of writers differ, so timestamps need not ascend: every version counts, newest first.
pub(super) fn as_of(store: &VersionStore, versions: &[u64], time: DateTime<Utc>) -> Result<ManifestFile> {
    for version in versions.iter().rev() {
        let file = store.load(*version)?;
        if file.manifest.timestamp < time {
            return Ok(file);
        }
    }
    Err(Error::invalid_input(format!(
        "{time} is earlier than the first version of this dataset"
    )))
}
