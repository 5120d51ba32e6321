//! Committing transactions, and reading them back.

use std::collections::BTreeMap;
use std::sync::Arc;

use glaive_file::io::{LocalStorage, Storage};
use glaive_file::{Error, Result};

use super::{Dataset, OpenOptions};
use crate::commit::{CommitFailure, CommitOptions, Committed, commit, commit_new};
use crate::manifest::{DataFile, Fragment, Naming};
use crate::storages::Storages;
use crate::transaction::{Operation, Transaction};
use crate::versions::VersionStore;
use crate::write::WriteDestination;

impl Dataset {
    /// Commits a transaction and returns the version that it made. This handle does not move.
    ///
    /// # Errors
    /// Commit conflict, retryable or not; not found for a read version that never was; invalid input for an operation
    /// that does not fit the table; unsupported for operations that this engine only carries. An I/O error with
    /// `commit status unknown` leaves all files in place.
    pub fn commit(&self, transaction: &Transaction, options: &CommitOptions) -> Result<Self> {
        let transaction = prepared(transaction, self)?;
        let committed = commit(self.store(), &transaction, options);
        Self::concluded(self.store().clone(), committed)
    }

    /// Commits a transaction at a place. An overwrite makes the table where there is none.
    ///
    /// # Errors
    /// As [`Dataset::commit`]; not found if there is no table and the operation is not an overwrite.
    pub fn commit_to<'a>(
        destination: impl Into<WriteDestination<'a>>,
        transaction: &Transaction,
        options: &CommitOptions,
    ) -> Result<Self> {
        let uri = match destination.into() {
            WriteDestination::Dataset(dataset) => return dataset.commit(transaction, options),
            WriteDestination::Uri(uri) => uri,
        };
        let storage: Arc<dyn Storage> = Arc::new(LocalStorage::from_uri(uri)?);
        match Self::find(&storage, OpenOptions::default())? {
            Some(dataset) => dataset.commit(transaction, options),
            None => create(&storage, transaction, options),
        }
    }

    /// Commits the fragments of several appends as one version, and returns it with the transaction that made it.
    ///
    /// # Errors
    /// Invalid input for no transaction; unsupported for another operation than Append; as [`Dataset::commit`].
    pub fn commit_batch<'a>(
        destination: impl Into<WriteDestination<'a>>,
        transactions: &[Transaction],
        options: &CommitOptions,
    ) -> Result<(Self, Transaction)> {
        let merged = merge_appends(transactions)?;
        let dataset = Self::commit_to(destination, &merged, options)?;
        Ok((dataset, merged))
    }

    /// The transactions of the newest versions up to this one, newest first; `None` for a version without.
    pub fn recent_transactions(&self, count: usize) -> Result<Vec<Option<Transaction>>> {
        let versions = self.store().list()?;
        let newest = versions
            .iter()
            .rev()
            .filter(|version| **version <= self.version());
        newest
            .take(count)
            .map(|version| self.read_transaction(*version))
            .collect()
    }

    /// Makes this version current, as a new version.
    ///
    /// # Errors
    /// As [`Dataset::commit`].
    pub fn restore(&self, properties: BTreeMap<String, String>) -> Result<Self> {
        let version = self.version();
        let transaction = Transaction {
            properties,
            ..Transaction::new(self.latest_version()?, Operation::Restore { version })
        };
        self.commit(&transaction, &CommitOptions::default())
    }

    /// Commits an operation that was computed from this version.
    pub(super) fn commit_own(
        &self,
        operation: Operation,
        properties: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let transaction = Transaction {
            properties: properties.clone(),
            ..Transaction::new(self.version(), operation)
        };
        self.commit(&transaction, &CommitOptions::default())
    }

    fn concluded(store: VersionStore, committed: Result<Committed, CommitFailure>) -> Result<Self> {
        match committed {
            Ok(Committed { manifest, indices }) => Ok(Self::new(store, manifest, indices)),
            Err(CommitFailure { error, .. }) => Err(error),
        }
    }
}

fn create(storage: &Arc<dyn Storage>, transaction: &Transaction, options: &CommitOptions) -> Result<Dataset> {
    if options.detached {
        return Err(Error::invalid_input(
            "a new table cannot start with a detached version",
        ));
    }
    let naming = match options.enable_v2_manifest_paths {
        true => Naming::V2,
        false => Naming::V1,
    };
    let store = VersionStore::new(storage.clone(), naming);
    let mut transaction = transaction.clone();
    transaction.read_version = 0;
    let places = Storages::of_root(storage);
    fill_sizes(&mut transaction.operation, &places)?;
    let committed = commit_new(&store, &transaction);
    Dataset::concluded(store, committed)
}

fn merge_appends(transactions: &[Transaction]) -> Result<Transaction> {
    let Some(first) = transactions.first() else {
        return Err(Error::invalid_input("No transactions to commit"));
    };
    let mut merged = Transaction::new(first.read_version, Operation::Unknown);
    let mut all = Vec::new();
    for transaction in transactions {
        let Operation::Append { fragments } = &transaction.operation else {
            return Err(Error::unsupported(
                "Not supported: Only append transactions are supported in batch commits",
            ));
        };
        all.extend(fragments.iter().cloned());
        // The oldest read version sees all that any of them missed.
        merged.read_version = merged.read_version.min(transaction.read_version);
        merged.properties.extend(transaction.properties.clone());
    }
    merged.operation = Operation::Append { fragments: all };
    Ok(merged)
}

/// The transaction with what only the table and the files can tell: the version of an Overwrite or Restore that was
/// computed from none, and the sizes of files. New columns must have the rows of their fragment.
fn prepared(transaction: &Transaction, dataset: &Dataset) -> Result<Transaction> {
    let mut transaction = transaction.clone();
    let operation = &transaction.operation;
    if transaction.read_version == 0
        && matches!(operation, Operation::Overwrite { .. } | Operation::Restore { .. })
    {
        transaction.read_version = dataset.latest_version()?;
    }
    fill_sizes(&mut transaction.operation, dataset.storages())?;
    if let Operation::DataReplacement { replacements } = &transaction.operation {
        for group in replacements {
            let rows = dataset.cache().rows_of(dataset.storages(), &group.new_file)?;
            let fragment = u32::try_from(group.fragment_id).ok();
            let Some(fragment) = fragment.and_then(|id| dataset.fragment(id)) else {
                continue;
            };
            let expected = fragment.physical_rows()?;
            if rows != expected {
                return Err(Error::invalid_input(format!(
                    "the file '{}' has {rows} rows, but fragment {} has {expected}",
                    group.new_file.path, group.fragment_id
                )));
            }
        }
    }
    Ok(transaction)
}

fn fill_sizes(operation: &mut Operation, storages: &Storages) -> Result<()> {
    for file in new_files(operation) {
        if file.size.is_none() {
            let (storage, path) = storages.of_data_file(file)?;
            file.size = Some(storage.size(&path)?).filter(|size| *size > 0);
        }
    }
    Ok(())
}

/// The data files that an operation may add.
fn new_files(operation: &mut Operation) -> Vec<&mut DataFile> {
    fn of(fragments: &mut [Fragment]) -> Vec<&mut DataFile> {
        fragments
            .iter_mut()
            .flat_map(|fragment| &mut fragment.files)
            .collect()
    }
    match operation {
        Operation::Append { fragments }
        | Operation::Overwrite { fragments, .. }
        | Operation::Merge { fragments, .. } => of(fragments),
        Operation::Rewrite { groups, .. } => {
            let new = groups.iter_mut().flat_map(|group| &mut group.new_fragments);
            new.flat_map(|fragment| &mut fragment.files).collect()
        }
        Operation::Update(update) => {
            let mut files = of(&mut update.new_fragments);
            files.extend(of(&mut update.updated_fragments));
            files
        }
        Operation::DataReplacement { replacements } => {
            replacements.iter_mut().map(|group| &mut group.new_file).collect()
        }
        _ => Vec::new(),
    }
}
