//! Finding and reading the versions of a table.

use std::sync::Arc;

use bytes::Bytes;
use glaive_file::io::Storage;
use glaive_file::{Context, Error, ErrorKind, Result};

use crate::lock::CommitLock;
use crate::manifest::{MAX_MANIFEST_BYTES, ManifestFile, Naming, VERSIONS, attached_versions};
use crate::transaction::{Transaction, transaction_path};

/// Largest transaction file that is read.
const MAX_TRANSACTION_BYTES: u64 = 4 << 30;

/// The manifests of one table.
#[derive(Debug, Clone)]
pub(crate) struct VersionStore {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) naming: Naming,
    pub(crate) lock: Option<Arc<dyn CommitLock>>,
}

impl VersionStore {
    pub(crate) fn new(storage: Arc<dyn Storage>, naming: Naming) -> Self {
        Self {
            storage,
            naming,
            lock: None,
        }
    }

    /// The table at a storage; `None` if there is no version.
    pub(crate) fn find(storage: &Arc<dyn Storage>) -> Result<Option<(Self, Vec<u64>)>> {
        let names = storage.list_names(VERSIONS)?;
        let found = attached_versions(names.iter().map(String::as_str))?;
        Ok(found.map(|(naming, versions)| (Self::new(storage.clone(), naming), versions)))
    }

    /// All attached versions, ascending.
    pub(crate) fn list(&self) -> Result<Vec<u64>> {
        Ok(Self::find(&self.storage)?.map_or_else(Vec::new, |(_, versions)| versions))
    }

    /// This store with the naming that the table has now, and the newest version.
    pub(crate) fn refreshed(&self) -> Result<(Self, u64)> {
        let found = Self::find(&self.storage)?;
        let (store, versions) = found.ok_or_else(|| not_found(self.storage.as_ref()))?;
        let latest = versions.last().copied();
        let latest = latest.ok_or_else(|| not_found(self.storage.as_ref()))?;
        let lock = self.lock.clone();
        Ok((Self { lock, ..store }, latest))
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
        let read = |naming: Naming| {
            let path = naming.path(version);
            let bytes = self.storage.read(&path, MAX_MANIFEST_BYTES)?;
            Ok((path, bytes))
        };
        // The table may have been migrated from one naming to the other since this was made.
        let found = read(self.naming).or_else(|e: Error| match e.kind() {
            ErrorKind::NotFound => read(self.naming.other()),
            _ => Err(e),
        });
        let (path, bytes) = found.map_err(|e| match e.kind() {
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

/// Gives all manifests names of the second scheme (format chapter 30, 4.1). Can be repeated, also after it was
/// interrupted. No writer may be at work.
///
/// # Errors
/// Corrupt if a version has two manifests that differ.
pub(crate) fn migrate_to_v2(storage: &dyn Storage) -> Result<()> {
    for name in storage.list_names(VERSIONS)? {
        let Some((Naming::V1, version)) = Naming::parse(&name) else {
            continue;
        };
        let (old, new) = (Naming::V1.path(version), Naming::V2.path(version));
        let bytes = storage.read(&old, MAX_MANIFEST_BYTES)?;
        match storage.put_if_absent(&new, &bytes) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                if storage.read(&new, MAX_MANIFEST_BYTES)? != bytes {
                    return Err(Error::corrupt(format!(
                        "'{old}' and '{new}' are different manifests of version {version}; remove the wrong one"
                    )));
                }
            }
            other => other?,
        }
        storage.delete(&old)?;
    }
    Ok(())
}

/// The error for a place without table.
pub(crate) fn not_found(storage: &dyn Storage) -> Error {
    let uri = storage.uri();
    Error::not_found(format!(
        "Dataset at path {uri} was not found: {VERSIONS} has no manifest"
    ))
}
