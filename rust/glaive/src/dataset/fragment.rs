//! A fragment of a snapshot.

use std::sync::Arc;

use arrow_array::RecordBatch;
use glaive_file::Result;

use super::Dataset;
use crate::deletion::DeletionVector;
use crate::manifest::Fragment;
use crate::scan::{Scan, ScanOptions};

/// A fragment and the snapshot that it belongs to.
#[derive(Debug, Clone)]
pub struct FragmentHandle {
    dataset: Dataset,
    metadata: Arc<Fragment>,
}

impl FragmentHandle {
    pub(super) fn new(dataset: Dataset, metadata: Arc<Fragment>) -> Self {
        Self { dataset, metadata }
    }

    /// Id of the fragment.
    pub fn id(&self) -> u32 {
        self.metadata.id
    }

    /// What the manifest says about it.
    pub fn metadata(&self) -> &Fragment {
        &self.metadata
    }

    /// The snapshot.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Rows in each data file, deleted ones included.
    pub fn physical_rows(&self) -> Result<u64> {
        self.dataset
            .cache()
            .physical_rows(self.dataset.storages(), &self.metadata)
    }

    /// The deleted rows; `None` if the fragment has no deletion file.
    pub fn deletions(&self) -> Result<Option<Arc<DeletionVector>>> {
        let physical_rows = self.physical_rows()?;
        self.dataset
            .cache()
            .deletions(self.dataset.storages(), &self.metadata, physical_rows)
    }

    /// Live rows.
    pub fn count_rows(&self) -> Result<u64> {
        let deleted = match self.metadata.num_deleted_rows() {
            Some(deleted) => deleted,
            None => self.deletions()?.map_or(0, |deletions| deletions.len()),
        };
        Ok(self.physical_rows()?.saturating_sub(deleted))
    }

    /// Scans the live rows; `options.fragment_ids` is replaced.
    pub fn scan(&self, options: ScanOptions) -> Result<Scan> {
        self.dataset.scan(ScanOptions {
            fragment_ids: Some(vec![self.id()]),
            ..options
        })
    }

    /// Rows by position among the live rows of the fragment; see [`Dataset::take`].
    pub fn take(&self, positions: &[u64], columns: Option<&[String]>) -> Result<RecordBatch> {
        crate::take::take(&self.dataset, std::slice::from_ref(self), positions, columns)
    }
}
