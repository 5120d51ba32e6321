//! Transactions between Python and the engine.
//!
//! Python holds an operation as a dataclass whose attributes have the names of pylance. It arrives as its class name
//! and itself, and leaves as its class name and a dict of plain values.

mod export;
mod import;

use std::collections::BTreeMap;
use std::time::Duration;

use glaive::transaction::Transaction;
use glaive::{CommitOptions, Dataset, Error, Result, WriteDestination};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset::{Destination, PyDataset};
use crate::errors::{During, run_at, to_py};
pub use export::{index_dict, meta};

/// Read version (0: the latest, where the operation allows it), uuid, properties, class name of the operation, the operation.
pub type TransactionIn<'py> = (u64, String, BTreeMap<String, String>, String, Bound<'py, PyAny>);

/// As [`TransactionIn`], the operation as a dict.
pub type TransactionOut<'py> = (u64, String, BTreeMap<String, String>, String, Bound<'py, PyDict>);

/// A transaction of Python.
fn import_transaction(row: &TransactionIn<'_>) -> PyResult<Transaction> {
    let (read_version, uuid, properties, kind, operation) = row;
    Ok(Transaction {
        read_version: *read_version,
        uuid: uuid.clone(),
        properties: properties.clone(),
        operation: import::operation(kind, operation)?,
        tag: String::new(),
    })
}

/// A transaction for Python.
pub fn export_transaction<'py>(py: Python<'py>, transaction: &Transaction) -> PyResult<TransactionOut<'py>> {
    let (kind, operation) = export::operation(py, &transaction.operation)?;
    Ok((
        transaction.read_version,
        transaction.uuid.clone(),
        transaction.properties.clone(),
        kind,
        operation,
    ))
}

/// How to commit.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    max_retries: u32,
    detached: bool,
    enable_v2_manifest_paths: bool,
    timeout_seconds: f64,
}

impl Options {
    fn to_engine(&self) -> Result<CommitOptions> {
        let timeout = Duration::try_from_secs_f64(self.timeout_seconds)
            .map_err(|_| Error::invalid_input("commit_timeout must not be negative"))?;
        let defaults = CommitOptions::default();
        Ok(CommitOptions {
            max_retries: self.max_retries,
            detached: self.detached,
            enable_v2_manifest_paths: self.enable_v2_manifest_paths,
            retry_timeout: defaults.retry_timeout.min(timeout),
            ..defaults
        })
    }
}

impl Destination {
    fn place(&self) -> String {
        match self {
            Self::Uri(uri) => uri.clone(),
            Self::Dataset(dataset) => dataset.get().0.uri().to_owned(),
        }
    }

    fn to_engine(&self) -> WriteDestination<'_> {
        match self {
            Self::Uri(uri) => WriteDestination::Uri(uri),
            Self::Dataset(dataset) => WriteDestination::Dataset(&dataset.get().0),
        }
    }
}

/// Commits a transaction and returns the version that it made.
#[pyfunction]
pub fn commit(
    py: Python<'_>,
    destination: Destination,
    transaction: TransactionIn<'_>,
    options: Options,
) -> PyResult<PyDataset> {
    let transaction = import_transaction(&transaction)?;
    let options = options
        .to_engine()
        .map_err(|error| to_py(py, &error, During::Write))?;
    let committed = run_at(py, &destination.place(), During::Write, || {
        Dataset::commit_to(destination.to_engine(), &transaction, &options)
    });
    committed.map(PyDataset)
}

/// Commits several appends as one version; returns it and the transaction that made it.
#[pyfunction]
pub fn commit_batch<'py>(
    py: Python<'py>,
    destination: Destination,
    transactions: Vec<TransactionIn<'py>>,
    options: Options,
) -> PyResult<(PyDataset, TransactionOut<'py>)> {
    let transactions = transactions.iter().map(|row| import_transaction(row));
    let transactions = transactions.collect::<PyResult<Vec<_>>>()?;
    let options = options
        .to_engine()
        .map_err(|error| to_py(py, &error, During::Write))?;
    let (dataset, merged) = run_at(py, &destination.place(), During::Write, || {
        Dataset::commit_batch(destination.to_engine(), &transactions, &options)
    })?;
    Ok((PyDataset(dataset), export_transaction(py, &merged)?))
}
