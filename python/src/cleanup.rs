//! Cleanup of old versions, migration, locks.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use glaive::cleanup::{CleanupPolicy, CleanupStats, time_before};
use glaive::{CommitLease, CommitLock, Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset::PyDataset;
use crate::errors::{During, run_at};

/// Path, kind, bytes, whether it goes, whether no version names it, why.
type FileRow = (String, &'static str, u64, bool, bool, String);

/// Counts, files, branches.
type Plan<'py> = (Bound<'py, PyDict>, Vec<FileRow>, BTreeSet<String>);

fn policy(
    older_than_us: Option<i64>,
    retain_versions: Option<u64>,
    versions: Option<Vec<u64>>,
    delete_unverified: bool,
    error_if_tagged_old_versions: bool,
    delete_rate_limit: Option<u64>,
) -> CleanupPolicy {
    CleanupPolicy {
        before: older_than_us.map(|us| time_before(TimeDelta::microseconds(us))),
        retain_versions,
        versions,
        delete_unverified,
        error_if_tagged_old_versions,
        delete_rate_limit,
        ..CleanupPolicy::default()
    }
}

fn stats_dict<'py>(py: Python<'py>, stats: &CleanupStats) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (name, count) in [
        ("bytes_removed", stats.bytes_removed),
        ("old_versions", stats.old_versions),
        ("data_files_removed", stats.data_files_removed),
        ("transaction_files_removed", stats.transaction_files_removed),
        ("index_files_removed", stats.index_files_removed),
        ("deletion_files_removed", stats.deletion_files_removed),
        ("failed_deletes", stats.failed_deletes),
    ] {
        out.set_item(name, count)?;
    }
    Ok(out)
}

/// Removes old versions and returns the counts.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "arguments of a Python function")]
pub fn cleanup<'py>(
    py: Python<'py>,
    dataset: &PyDataset,
    older_than_us: Option<i64>,
    retain_versions: Option<u64>,
    versions: Option<Vec<u64>>,
    delete_unverified: bool,
    error_if_tagged_old_versions: bool,
    delete_rate_limit: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let policy = policy(
        older_than_us,
        retain_versions,
        versions,
        delete_unverified,
        error_if_tagged_old_versions,
        delete_rate_limit,
    );
    let stats = run_at(py, dataset.0.uri(), During::Write, || {
        dataset.0.cleanup(&policy, &mut |done, total| match &progress {
            None => Ok(()),
            Some(object) => Python::attach(|py| object.call1(py, (done, total)).map(|_| ()))
                .map_err(|raised| passed_on(ErrorKind::Io, raised)),
        })
    })?;
    stats_dict(py, &stats)
}

/// What a cleanup would do.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "arguments of a Python function")]
pub fn plan_cleanup<'py>(
    py: Python<'py>,
    dataset: &PyDataset,
    older_than_us: Option<i64>,
    retain_versions: Option<u64>,
    versions: Option<Vec<u64>>,
    delete_unverified: bool,
    error_if_tagged_old_versions: bool,
    delete_rate_limit: Option<u64>,
) -> PyResult<Plan<'py>> {
    let policy = policy(
        older_than_us,
        retain_versions,
        versions,
        delete_unverified,
        error_if_tagged_old_versions,
        delete_rate_limit,
    );
    let plan = run_at(py, dataset.0.uri(), During::Write, || {
        dataset.0.plan_cleanup(&policy)
    })?;
    let row = |file: &glaive::cleanup::PlannedFile| {
        let unverified = file.reason == glaive::cleanup::Reason::Unverified;
        let removed = file.reason.is_removed();
        let kind = file.kind.as_str();
        (
            file.path.clone(),
            kind,
            file.size,
            removed,
            unverified,
            file.reason.to_string(),
        )
    };
    let files = plan.files.iter().map(row).collect();
    let branches = plan.branches.iter().cloned().collect();
    Ok((stats_dict(py, &plan.stats())?, files, branches))
}

/// Renames the manifests of an early writer.
#[pyfunction]
pub fn migrate_manifest_paths_v2(py: Python<'_>, dataset: &PyDataset) -> PyResult<PyDataset> {
    run_at(py, dataset.0.uri(), During::Write, || {
        dataset.0.migrate_manifest_paths_v2()
    })
    .map(PyDataset)
}

/// The numbers of all versions.
#[pyfunction]
pub fn version_numbers(py: Python<'_>, dataset: &PyDataset) -> PyResult<Vec<u64>> {
    run_at(py, dataset.0.uri(), During::Open, || dataset.0.version_numbers())
}

fn passed_on(kind: ErrorKind, raised: PyErr) -> Error {
    Error::new(kind, raised.to_string()).with_source(raised)
}

/// A callable that makes a context manager for a version.
#[derive(Debug)]
pub struct PyCommitLock(pub Py<PyAny>);

struct PyLease(Py<PyAny>);

fn is_conflict(py: Python<'_>, raised: &PyErr) -> bool {
    let class = py
        .import("glaive.commit")
        .and_then(|module| module.getattr("CommitConflictError"));
    class.is_ok_and(|class| raised.matches(py, class).unwrap_or(false))
}

impl CommitLock for PyCommitLock {
    fn acquire(&self, version: u64) -> Result<Box<dyn CommitLease>> {
        Python::attach(|py| {
            let enter = || {
                let manager = self.0.call1(py, (version,))?;
                manager.call_method0(py, "__enter__")?;
                Ok(manager)
            };
            let manager = enter().map_err(|raised: PyErr| match is_conflict(py, &raised) {
                true => passed_on(ErrorKind::CommitConflict { retryable: true }, raised),
                false => passed_on(ErrorKind::Io, raised),
            })?;
            Ok(Box::new(PyLease(manager)) as Box<dyn CommitLease>)
        })
    }
}

impl CommitLease for PyLease {
    fn release(self: Box<Self>, success: bool) -> Result<()> {
        Python::attach(|py| {
            let none = || py.None();
            if success {
                let exit = self.0.call_method1(py, "__exit__", (none(), none(), none()));
                return exit
                    .map(|_| ())
                    .map_err(|raised| passed_on(ErrorKind::Io, raised));
            }
            let lost = crate::errors::lost_race(py);
            let (class, value) = (lost.get_type(py).unbind(), lost.value(py).clone().unbind());
            // The manager may raise what it is told; the outcome of the commit says it better.
            let _ = self.0.call_method1(py, "__exit__", (class, value, none()));
            Ok(())
        })
    }
}
