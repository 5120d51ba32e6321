//! Where the files of a table lie: its own root, or another base path (format chapter 30, 15.1).

use std::sync::Arc;

use glaive_file::io::{LocalStorage, Storage};
use glaive_file::{Context, Error, Result};

use crate::manifest::{DataFile, DeletionFile, Manifest};
use crate::proto::lance::table::BasePath;

/// The root of a table and its base paths.
#[derive(Debug, Clone)]
pub(crate) struct Storages {
    root: Arc<dyn Storage>,
    bases: Vec<BasePath>,
}

impl Storages {
    /// The places that a manifest names. Bases are opened when a file in them is.
    pub(crate) fn of(root: &Arc<dyn Storage>, manifest: &Manifest) -> Self {
        Self::new(root.clone(), manifest.base_paths.clone())
    }

    pub(crate) fn new(root: Arc<dyn Storage>, bases: Vec<BasePath>) -> Self {
        Self { root, bases }
    }

    /// A table without base paths.
    pub(crate) fn of_root(root: &Arc<dyn Storage>) -> Self {
        Self {
            root: root.clone(),
            bases: Vec::new(),
        }
    }

    /// Storage and path of a data file.
    pub(crate) fn of_data_file(&self, file: &DataFile) -> Result<(Arc<dyn Storage>, String)> {
        let below_data = format!("data/{}", file.path);
        let Some(id) = file.base_id else {
            return Ok((self.root.clone(), below_data));
        };
        let (storage, is_root) = self.base(id)?;
        Ok((storage, if is_root { below_data } else { file.path.clone() }))
    }

    /// Storage and path of the deletion file of a fragment.
    pub(crate) fn of_deletion_file(
        &self,
        file: &DeletionFile,
        fragment: u32,
    ) -> Result<(Arc<dyn Storage>, String)> {
        let path = file.path(fragment);
        let Some(id) = file.base_id else {
            return Ok((self.root.clone(), path));
        };
        match self.base(id)? {
            (storage, true) => Ok((storage, path)),
            _ => Err(Error::corrupt(format!(
                "base path {id} holds a deletion file but is no table"
            ))),
        }
    }

    /// A base path, and whether it is the root of a table.
    pub(crate) fn base(&self, id: u32) -> Result<(Arc<dyn Storage>, bool)> {
        let base = self.bases.iter().find(|base| base.id == id);
        let base = base.ok_or_else(|| Error::corrupt(format!("unknown base path {id}")))?;
        let storage = LocalStorage::from_uri(&base.path).context(|| format!("base path {id}"))?;
        Ok((Arc::new(storage), base.is_dataset_root))
    }
}
