//! Tags and branches.

use std::collections::BTreeMap;

use glaive::refs::{Branch, Tag};
use glaive::{Dataset, Reference, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset::PyDataset;
use crate::errors::{During, run_at};

/// A version number, a tag, or a branch and a version of it.
#[derive(FromPyObject)]
pub enum PyReference {
    Version(u64),
    Tag(String),
    Branch(Option<String>, Option<u64>),
}

impl From<PyReference> for Reference {
    fn from(reference: PyReference) -> Self {
        match reference {
            PyReference::Version(version) => Self::Version(version),
            PyReference::Tag(tag) => Self::Tag(tag),
            PyReference::Branch(branch, version) => Self::Branch(branch, version),
        }
    }
}

fn run<T: Send>(
    py: Python<'_>,
    dataset: &PyDataset,
    work: impl FnOnce(&Dataset) -> Result<T> + Send,
) -> PyResult<T> {
    run_at(py, dataset.0.uri(), During::Ref, || work(&dataset.0))
}

/// Another version, by any of its names.
#[pyfunction]
pub fn checkout(py: Python<'_>, dataset: &PyDataset, reference: PyReference) -> PyResult<PyDataset> {
    run(py, dataset, |ds| ds.checkout(&reference.into())).map(PyDataset)
}

/// All tags by name.
#[pyfunction]
pub fn list_tags<'py>(
    py: Python<'py>,
    dataset: &PyDataset,
) -> PyResult<BTreeMap<String, Bound<'py, PyDict>>> {
    let tags = run(py, dataset, |ds| ds.tags()?.list())?;
    let dict = |(name, tag): (String, Tag)| Ok((name, tag_dict(py, &tag)?));
    tags.into_iter().map(dict).collect()
}

fn tag_dict<'py>(py: Python<'py>, tag: &Tag) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    let nanoseconds = |time: chrono::DateTime<chrono::Utc>| time.timestamp_nanos_opt();
    out.set_item("branch", &tag.branch)?;
    out.set_item("version", tag.version)?;
    out.set_item("created_at", tag.created_at().and_then(nanoseconds))?;
    out.set_item("updated_at", tag.updated_at().and_then(nanoseconds))?;
    out.set_item("manifest_size", tag.manifest_size)?;
    out.set_item("metadata", &tag.metadata)?;
    Ok(out)
}

/// The version that a tag names.
#[pyfunction]
pub fn tag_version(py: Python<'_>, dataset: &PyDataset, name: &str) -> PyResult<u64> {
    run(py, dataset, |ds| Ok(ds.tags()?.get(name)?.version))
}

/// Makes a tag.
#[pyfunction]
pub fn create_tag(py: Python<'_>, dataset: &PyDataset, name: &str, reference: PyReference) -> PyResult<()> {
    run(py, dataset, |ds| ds.tags()?.create(name, &reference.into()))
}

/// Moves a tag.
#[pyfunction]
pub fn update_tag(py: Python<'_>, dataset: &PyDataset, name: &str, reference: PyReference) -> PyResult<()> {
    run(py, dataset, |ds| ds.tags()?.update(name, &reference.into()))
}

/// Removes a tag.
#[pyfunction]
pub fn delete_tag(py: Python<'_>, dataset: &PyDataset, name: &str) -> PyResult<()> {
    run(py, dataset, |ds| ds.tags()?.delete(name))
}

/// Replaces the metadata of a tag.
#[pyfunction]
pub fn replace_tag_metadata(
    py: Python<'_>,
    dataset: &PyDataset,
    name: &str,
    metadata: BTreeMap<String, String>,
) -> PyResult<()> {
    run(py, dataset, |ds| ds.tags()?.replace_metadata(name, metadata))
}

/// All branches but main by name.
#[pyfunction]
pub fn list_branches<'py>(
    py: Python<'py>,
    dataset: &PyDataset,
) -> PyResult<BTreeMap<String, Bound<'py, PyDict>>> {
    let branches = run(py, dataset, |ds| ds.branches()?.list())?;
    let dict = |(name, branch): (String, Branch)| {
        let out = branch_dict(py, &name, &branch)?;
        Ok((name, out))
    };
    branches.into_iter().map(dict).collect()
}

fn branch_dict<'py>(py: Python<'py>, name: &str, branch: &Branch) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("parent_branch", &branch.parent_branch)?;
    out.set_item("branch_identifier", branch.identifier(name))?;
    out.set_item("parent_version", branch.parent_version)?;
    out.set_item("create_at", branch.created_at)?;
    out.set_item("manifest_size", branch.manifest_size)?;
    out.set_item("metadata", &branch.metadata)?;
    Ok(out)
}

/// Makes a branch and opens it.
#[pyfunction]
pub fn create_branch(
    py: Python<'_>,
    dataset: &PyDataset,
    name: &str,
    reference: PyReference,
) -> PyResult<PyDataset> {
    run(py, dataset, |ds| ds.branches()?.create(name, &reference.into())).map(PyDataset)
}

/// Removes a branch with its files.
#[pyfunction]
pub fn delete_branch(py: Python<'_>, dataset: &PyDataset, name: &str) -> PyResult<()> {
    run(py, dataset, |ds| ds.branches()?.delete(name))
}

/// Replaces the metadata of a branch.
#[pyfunction]
pub fn replace_branch_metadata(
    py: Python<'_>,
    dataset: &PyDataset,
    name: &str,
    metadata: BTreeMap<String, String>,
) -> PyResult<()> {
    run(py, dataset, |ds| ds.branches()?.replace_metadata(name, metadata))
}
