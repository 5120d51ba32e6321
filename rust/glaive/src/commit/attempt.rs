//! One try to create one version (format chapter 31, 1 and 7).

use glaive_file::io::{Durability, Storage};
use glaive_file::{Error, ErrorKind, Result};
use prost::Message;

use super::next::Next;
use super::{CommitFailure, Committed};
use crate::lock::CommitLease;
use crate::manifest::{HINT, ManifestFile, VERSIONS};
use crate::proto::lance::table as pb;
use crate::transaction::{Transaction, transaction_path};
use crate::versions::VersionStore;

/// Looks at a version whose creation failed, before giving up.
const VERIFICATIONS: u32 = 3;

pub(super) struct Attempt<'a> {
    pub(super) store: &'a VersionStore,
    pub(super) transaction: &'a Transaction,
    pub(super) next: Next,
}

/// Whose transaction made the version.
enum Owner {
    Nobody,
    Other,
    Us,
}

impl Attempt<'_> {
    /// `None` if another writer was faster.
    pub(super) fn run(self) -> Result<Option<Committed>, CommitFailure> {
        let storage = self.store.storage.as_ref();
        let transaction_file = TransactionFile::write(storage, self.transaction)?;
        let bytes = ManifestFile::encode(&self.next.manifest, &self.next.indices, self.transaction)?;
        let version = self.next.manifest.version;
        let Some(lease) = self.acquire(&transaction_file)? else {
            return Ok(None);
        };
        let landed = match storage.put_if_absent(&self.store.naming.path(version), &bytes) {
            Ok(()) => Ok(true),
            Err(error) => self.verify(error, &transaction_file),
        };
        let released = lease.map_or(Ok(()), |lease| lease.release(matches!(landed, Ok(true))));
        if !landed? {
            return Ok(None);
        }
        if version & crate::manifest::DETACHED == 0 {
            write_hint(storage, version);
        }
        // The version is there, whatever the lock says.
        released.map_err(|error| CommitFailure {
            error,
            status_unknown: true,
        })?;
        Ok(Some(Committed {
            manifest: self.next.manifest,
            indices: self.next.indices,
        }))
    }

    /// The lock, where the table has one; `None` if another writer holds it.
    fn acquire(
        &self,
        transaction_file: &TransactionFile<'_>,
    ) -> Result<Option<Option<Box<dyn CommitLease>>>> {
        let Some(lock) = &self.store.lock else {
            return Ok(Some(None));
        };
        let acquired = lock.acquire(self.next.manifest.version);
        acquired.map(|lease| Some(Some(lease))).or_else(|e| {
            transaction_file.remove();
            match e.kind() {
                ErrorKind::CommitConflict { retryable: true } => Ok(None),
                _ => Err(e),
            }
        })
    }

    /// Finds out after a failed creation whether it was our manifest that is there: the answer to a request that
    /// succeeded may have been lost.
    fn verify(&self, error: Error, transaction_file: &TransactionFile<'_>) -> Result<bool, CommitFailure> {
        let exists = error.kind() == ErrorKind::AlreadyExists;
        let mut cause = None;
        for _ in 0..VERIFICATIONS {
            match self.owner() {
                Ok(Owner::Us) => {
                    // What failed may have been the sync.
                    if self.store.storage.durability() == Durability::Disk {
                        let synced = self.store.storage.sync_directory(VERSIONS);
                        synced.map_err(|cause| status_unknown(self.next.manifest.version, cause))?;
                    }
                    return Ok(true);
                }
                Ok(Owner::Other) => {
                    transaction_file.remove();
                    return Ok(false);
                }
                // What another writer removed again is a lost race, too.
                Ok(Owner::Nobody) if exists => {
                    transaction_file.remove();
                    return Ok(false);
                }
                Ok(Owner::Nobody) => {
                    transaction_file.remove();
                    return Err(error.into());
                }
                Err(failure) => cause = Some(failure),
            }
        }
        Err(status_unknown(self.next.manifest.version, cause.unwrap_or(error)))
    }

    fn owner(&self) -> Result<Owner> {
        let version = self.next.manifest.version;
        if !self.store.storage.exists(&self.store.naming.path(version))? {
            return Ok(Owner::Nobody);
        }
        let stored = self.store.stored_transaction(&self.store.load(version)?)?;
        let own = self.transaction.to_proto();
        Ok(match pb::Transaction::decode(stored) {
            Ok(stored) if stored == own => Owner::Us,
            _ => Owner::Other,
        })
    }
}

/// The transaction file of one attempt.
struct TransactionFile<'a> {
    storage: &'a dyn Storage,
    path: String,
    /// Whether this attempt made it. A transaction that is committed twice has one file only.
    is_new: bool,
}

impl<'a> TransactionFile<'a> {
    fn write(storage: &'a dyn Storage, transaction: &Transaction) -> Result<Self> {
        transaction.check_uuid()?;
        let path = transaction_path(&transaction.file_name())?;
        let bytes = transaction.encode();
        let is_new = match storage.put_if_absent(&path, &bytes) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                storage.put(&path, &bytes)?;
                false
            }
            // It may have been written all the same; the name is ours alone.
            Err(_) => {
                storage.put(&path, &bytes)?;
                true
            }
        };
        Ok(Self {
            storage,
            path,
            is_new,
        })
    }

    /// Garbage if it stays; cleanup removes it.
    fn remove(&self) {
        if self.is_new {
            let _ = self.storage.delete(&self.path);
        }
    }
}

fn status_unknown(version: u64, cause: Error) -> CommitFailure {
    let error = Error::new(
        ErrorKind::Io,
        format!(
            "commit status unknown: version {version} may have been written; read the latest version and look for \
             the transaction before doing the work again"
        ),
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
