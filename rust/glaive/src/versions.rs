//! Finding and reading the versions of a table.

use std::sync::Arc;

use bytes::Bytes;
use glaive_file::io::Storage;
use glaive_file::{Context, Error, ErrorKind, Result};

use crate::manifest::{MAX_MANIFEST_BYTES, ManifestFile, Naming, VERSIONS, attached_versions};
use crate::transaction::{Transaction, transaction_path};

/// Largest transaction file that is read.
const MAX_TRANSACTION_BYTES: u64 = 4 << 30;

/// The manifests of one table.
#[derive(Debug, Clone)]
pub(crate) struct VersionStore {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) naming: Naming,
}

impl VersionStore {
    /// The table at a storage; `None` if there is no version.
    pub(crate) fn find(storage: &Arc<dyn Storage>) -> Result<Option<(Self, Vec<u64>)>> {
        let names = storage.list_names(VERSIONS)?;
        let found = attached_versions(names.iter().map(String::as_str))?;
        Ok(found.map(|(naming, versions)| {
            (
                Self {
                    storage: storage.clone(),
                    naming,
                },
                versions,
            )
        }))
    }

    /// All attached versions, ascending.
    pub(crate) fn list(&self) -> Result<Vec<u64>> {
        Ok(Self::find(&self.storage)?.map_or_else(Vec::new, |(_, versions)| versions))
    }

    /// The newest version.
    pub(crate) fn latest(&self) -> Result<u64> {
        self.list()?
            .last()
            .copied()
            .ok_or_else(|| not_found(self.storage.as_ref()))
    }

    /// Reads a version; a detached one has the top bit set.
    ///
    /// # Errors
    /// Not found, corrupt, or unsupported.
    pub(crate) fn load(&self, version: u64) -> Result<ManifestFile> {
        let path = self.naming.path(version);
        let bytes = self
            .storage
            .read(&path, MAX_MANIFEST_BYTES)
            .map_err(|e| match e.kind() {
                ErrorKind::NotFound => self.version_not_found(version),
                _ => e,
            })?;
        let file = ManifestFile::decode(&bytes).context(|| path.as_str())?;
        if file.manifest.version != version {
            let text = format!("the manifest says version {}", file.manifest.version);
            return Err(Error::corrupt(text).context(path));
        }
        Ok(file)
    }

    fn version_not_found(&self, version: u64) -> Error {
        let path = self.naming.path(version);
        Error::not_found(format!(
            "Dataset at path {}/{path} was not found: no version {version}",
            self.storage.uri()
        ))
    }

    /// The transaction that made a version: inline, else from its file.
    ///
    /// # Errors
    /// Not found if the version carries neither.
    pub(crate) fn transaction_of(&self, file: &ManifestFile) -> Result<Transaction> {
        if let Some(bytes) = &file.transaction_section
            && let Ok(transaction) = Transaction::decode(bytes.clone())
        {
            return Ok(transaction);
        }
        Transaction::decode(self.transaction_file(file)?).context(|| file.manifest.transaction_file.as_str())
    }

    /// The bytes of the transaction that made a version: inline, else from its file.
    ///
    /// # Errors
    /// Not found if the version carries neither.
    pub(crate) fn stored_transaction(&self, file: &ManifestFile) -> Result<Bytes> {
        match &file.transaction_section {
            Some(bytes) => Ok(bytes.clone()),
            None => self.transaction_file(file),
        }
    }

    fn transaction_file(&self, file: &ManifestFile) -> Result<Bytes> {
        let version = file.manifest.version;
        let name = &file.manifest.transaction_file;
        if name.is_empty() {
            return Err(Error::not_found(format!(
                "Dataset version {version} does not have a transaction file"
            )));
        }
        let path = transaction_path(name)?;
        self.storage
            .read(&path, MAX_TRANSACTION_BYTES)
            .context(|| format!("version {version}"))
    }
}

/// The error for a place without table.
pub(crate) fn not_found(storage: &dyn Storage) -> Error {
    let uri = storage.uri();
    Error::not_found(format!(
        "Dataset at path {uri} was not found: {VERSIONS} has no manifest"
    ))
}
