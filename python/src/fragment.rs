//! Fragments as dicts, in the form of `FragmentMetadata.to_json`.

use glaive::manifest::{DataFile, DeletionFile, DeletionFileType, Fragment};
use glaive::proto::lance::table as pb;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::transaction::meta;

/// A fragment in the form of `FragmentMetadata.to_json`.
pub fn fragment_dict<'py>(
    py: Python<'py>,
    fragment: &Fragment,
    physical_rows: Option<u64>,
    deleted_rows: Option<u64>,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("id", fragment.id)?;
    let files = fragment.files.iter().map(|file| data_file_dict(py, file));
    out.set_item("files", files.collect::<PyResult<Vec<_>>>()?)?;
    out.set_item("physical_rows", physical_rows)?;
    let deletions = fragment.deletion_file.as_ref();
    let deletions = deletions.map(|file| deletion_file_dict(py, file, deleted_rows));
    out.set_item("deletion_file", deletions.transpose()?)?;
    set_lineage(py, &out, fragment)?;
    Ok(out)
}

/// Row ids and version stamps, if the fragment has them.
fn set_lineage<'py>(py: Python<'py>, out: &Bound<'py, PyDict>, fragment: &Fragment) -> PyResult<()> {
    use pb::data_fragment::{CreatedAtVersionSequence, LastUpdatedAtVersionSequence, RowIdSequence};
    let rest = &fragment.rest;
    let row_ids = rest.row_id_sequence.as_ref().map(|ids| match ids {
        RowIdSequence::InlineRowIds(bytes) => meta(py, Some(bytes)),
        RowIdSequence::ColumnRowIds(_) => meta(py, None),
    });
    let created = rest
        .created_at_version_sequence
        .as_ref()
        .map(|versions| match versions {
            CreatedAtVersionSequence::InlineCreatedAtVersions(bytes) => meta(py, Some(bytes)),
            CreatedAtVersionSequence::ColumnCreatedAtVersions(_) => meta(py, None),
        });
    let updated = rest
        .last_updated_at_version_sequence
        .as_ref()
        .map(|versions| match versions {
            LastUpdatedAtVersionSequence::InlineLastUpdatedAtVersions(bytes) => meta(py, Some(bytes)),
            LastUpdatedAtVersionSequence::ColumnLastUpdatedAtVersions(_) => meta(py, None),
        });
    out.set_item("row_id_meta", row_ids.transpose()?)?;
    out.set_item("created_at_version_meta", created.transpose()?)?;
    out.set_item("last_updated_at_version_meta", updated.transpose()?)
}

pub fn data_file_dict<'py>(py: Python<'py>, file: &DataFile) -> PyResult<Bound<'py, PyDict>> {
    let (major, minor) = file.version.manifest_numbers();
    let out = PyDict::new(py);
    out.set_item("path", &file.path)?;
    out.set_item("fields", &file.fields)?;
    out.set_item("column_indices", &file.column_indices)?;
    out.set_item("file_major_version", major)?;
    out.set_item("file_minor_version", minor)?;
    out.set_item("file_size_bytes", file.size)?;
    out.set_item("base_id", file.base_id)?;
    Ok(out)
}

fn deletion_file_dict<'py>(
    py: Python<'py>,
    file: &DeletionFile,
    deleted_rows: Option<u64>,
) -> PyResult<Bound<'py, PyDict>> {
    let kind = match file.file_type {
        DeletionFileType::Arrow => "array",
        DeletionFileType::Bitmap => "bitmap",
    };
    let out = PyDict::new(py);
    out.set_item("read_version", file.read_version)?;
    out.set_item("id", file.id)?;
    out.set_item("file_type", kind)?;
    out.set_item("num_deleted_rows", deleted_rows)?;
    out.set_item("base_id", file.base_id)?;
    Ok(out)
}
