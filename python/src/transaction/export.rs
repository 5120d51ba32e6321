//! Operations for Python: plain values under the names of the dataclasses' fields.

use std::collections::BTreeMap;

use glaive::manifest::{Fragment, Index};
use glaive::proto::lance::table::data_overlay_file::Coverage;
use glaive::proto::lance::table::{self as pb, transaction as op};
use glaive::transaction::{Operation, Update, UpdateConfig, UpdateMap, UpdateMode};
use glaive::{Error, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use roaring::RoaringBitmap;

use crate::arrow;
use crate::dataset::field_trees;
use crate::errors::{During, to_py};
use crate::fragment::{data_file_dict, fragment_dict};

/// Class name and fields of an operation. One that cannot be shown has the name of the base class and no field.
pub fn operation<'py>(py: Python<'py>, operation: &Operation) -> PyResult<(String, Bound<'py, PyDict>)> {
    let out = PyDict::new(py);
    let set = |name: &str, value: Bound<'py, PyAny>| out.set_item(name, value);
    let list = |name: &str, fragments: &[Fragment]| set(name, fragment_list(py, fragments)?);
    match operation {
        Operation::Append { fragments } => list("fragments", fragments)?,
        Operation::Delete {
            updated_fragments,
            deleted_fragment_ids,
            predicate,
        } => {
            list("updated_fragments", updated_fragments)?;
            out.set_item("deleted_fragment_ids", deleted_fragment_ids)?;
            out.set_item("predicate", predicate)?;
        }
        Operation::Overwrite {
            fragments,
            schema,
            initial_bases,
            ..
        } => {
            list("fragments", fragments)?;
            set("new_schema", schema_pair(py, schema)?)?;
            set("initial_bases", bases(py, initial_bases)?)?;
        }
        Operation::CreateIndex {
            new_indices,
            removed_indices,
        } => {
            set("new_indices", indices(py, new_indices)?)?;
            set("removed_indices", indices(py, removed_indices)?)?;
        }
        Operation::Merge {
            fragments,
            schema,
            preserves_nullability,
        } => {
            list("fragments", fragments)?;
            set("schema", schema_pair(py, schema)?)?;
            out.set_item("preserves_nullability", preserves_nullability)?;
        }
        Operation::Restore { version } => out.set_item("version", version)?,
        Operation::ReserveFragments { num_fragments } => out.set_item("num_fragments", num_fragments)?,
        Operation::Project {
            schema,
            preserves_nullability,
        } => {
            set("schema", schema_pair(py, schema)?)?;
            out.set_item("preserves_nullability", preserves_nullability)?;
        }
        Operation::UpdateBases { new_bases } => set("new_bases", bases(py, new_bases)?)?,
        Operation::Clone(clone) => set_clone(&out, clone)?,
        Operation::Update(update) => set_update(py, &out, update)?,
        Operation::UpdateConfig(update) => set_config(&out, update)?,
        Operation::Rewrite { .. } => set_rewrite(py, &out, operation)?,
        Operation::DataReplacement { replacements } => {
            let groups = PyList::empty(py);
            for group in replacements {
                groups.append((group.fragment_id, data_file_dict(py, &group.new_file)?))?;
            }
            out.set_item("replacements", groups)?;
        }
        Operation::DataOverlay(overlay) => out.set_item("groups", overlays(py, overlay)?)?,
        Operation::UpdateMemWalState(_) | Operation::Unknown => {}
    }
    Ok((operation.kind().to_string(), out))
}

fn fragment_list<'py>(py: Python<'py>, fragments: &[Fragment]) -> PyResult<Bound<'py, PyAny>> {
    let out = PyList::empty(py);
    for fragment in fragments {
        let rows = fragment.physical_rows.unwrap_or(0);
        let deleted = fragment.num_deleted_rows().unwrap_or(0);
        out.append(fragment_dict(py, fragment, Some(rows), Some(deleted))?)?;
    }
    Ok(out.into_any())
}

/// Row ids or version stamps: bytes, or "column" where they are a hidden column.
pub fn meta<'py>(py: Python<'py>, inline: Option<&[u8]>) -> PyResult<Bound<'py, PyAny>> {
    match inline {
        Some(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        None => Ok("column".into_pyobject(py)?.into_any()),
    }
}

/// Arrow schema and id trees.
fn schema_pair<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyAny>> {
    let trees = field_trees(py, schema.fields.iter().map(AsRef::as_ref))?;
    let arrow = arrow::export_schema(py, schema.to_arrow().into())?;
    Ok((arrow, trees).into_pyobject(py)?.into_any())
}

fn bases<'py>(py: Python<'py>, bases: &[pb::BasePath]) -> PyResult<Bound<'py, PyAny>> {
    let out = PyList::empty(py);
    for base in bases {
        let fields = PyDict::new(py);
        fields.set_item("path", &base.path)?;
        fields.set_item("name", &base.name)?;
        fields.set_item("is_dataset_root", base.is_dataset_root)?;
        fields.set_item("id", base.id)?;
        out.append(fields)?;
    }
    Ok(out.into_any())
}

fn indices<'py>(py: Python<'py>, indices: &[Index]) -> PyResult<Bound<'py, PyAny>> {
    let out = PyList::empty(py);
    for index in indices {
        out.append(index_dict(py, index)?)?;
    }
    Ok(out.into_any())
}

/// The fields of an index segment.
pub fn index_dict<'py>(py: Python<'py>, index: &Index) -> PyResult<Bound<'py, PyDict>> {
    let metadata = index.metadata();
    let out = PyDict::new(py);
    out.set_item("uuid", index.uuid().to_string())?;
    out.set_item("name", &metadata.name)?;
    out.set_item("fields", &metadata.fields)?;
    out.set_item("dataset_version", metadata.dataset_version)?;
    let fragments = index
        .fragments()
        .map(|fragments| fragments.iter().collect::<Vec<_>>());
    out.set_item("fragment_ids", fragments)?;
    out.set_item("index_version", metadata.index_version.unwrap_or(0))?;
    out.set_item("created_at_ms", metadata.created_at)?;
    out.set_item("base_id", metadata.base_id)?;
    let files = metadata.files.iter();
    let files: Vec<_> = files.map(|file| (&file.path, file.size_bytes)).collect();
    out.set_item("files", files)?;
    let details = metadata.index_details.as_ref();
    let details = details.map(|any| (&any.type_url, PyBytes::new(py, &any.value)));
    out.set_item("index_details", details)?;
    out.set_item("covering_fields", &metadata.covering_fields)?;
    Ok(out)
}

fn set_clone(out: &Bound<'_, PyDict>, clone: &op::Clone) -> PyResult<()> {
    out.set_item("is_shallow", clone.is_shallow)?;
    out.set_item("ref_name", &clone.ref_name)?;
    out.set_item("ref_version", clone.ref_version)?;
    out.set_item("ref_path", &clone.ref_path)?;
    out.set_item("branch_name", &clone.branch_name)
}

fn set_update<'py>(py: Python<'py>, out: &Bound<'py, PyDict>, update: &Update) -> PyResult<()> {
    let mode = match update.mode {
        Some(UpdateMode::RewriteRows) => "rewrite_rows",
        Some(UpdateMode::RewriteColumns) => "rewrite_columns",
        None => "",
    };
    out.set_item("removed_fragment_ids", &update.removed_fragment_ids)?;
    out.set_item("updated_fragments", fragment_list(py, &update.updated_fragments)?)?;
    out.set_item("new_fragments", fragment_list(py, &update.new_fragments)?)?;
    out.set_item("fields_modified", &update.fields_modified)?;
    let preserving = &update.fields_for_preserving_frag_bitmap;
    out.set_item("fields_for_preserving_frag_bitmap", preserving)?;
    out.set_item("update_mode", mode)?;
    let offsets = update.updated_fragment_offsets.iter();
    let offsets: BTreeMap<_, _> = offsets
        .map(|(id, bytes)| (*id, PyBytes::new(py, bytes)))
        .collect();
    out.set_item(
        "updated_fragment_offsets",
        Some(offsets).filter(|map| !map.is_empty()),
    )
}

fn set_config(out: &Bound<'_, PyDict>, update: &UpdateConfig) -> PyResult<()> {
    let pair = |map: &UpdateMap| (map.updates.clone(), map.replace);
    out.set_item("config_updates", update.config.as_ref().map(pair))?;
    out.set_item("table_metadata_updates", update.table_metadata.as_ref().map(pair))?;
    out.set_item(
        "schema_metadata_updates",
        update.schema_metadata.as_ref().map(pair),
    )?;
    let fields = update.field_metadata.iter();
    let fields: BTreeMap<_, _> = fields.map(|(id, map)| (*id, pair(map))).collect();
    out.set_item("field_metadata_updates", fields)
}

fn set_rewrite<'py>(py: Python<'py>, out: &Bound<'py, PyDict>, operation: &Operation) -> PyResult<()> {
    let Operation::Rewrite {
        groups,
        rewritten_indices,
    } = operation
    else {
        return Ok(());
    };
    let pairs = PyList::empty(py);
    for group in groups {
        let old = fragment_list(py, &group.old_fragments)?;
        pairs.append((old, fragment_list(py, &group.new_fragments)?))?;
    }
    out.set_item("groups", pairs)?;
    let rewritten = rewritten_indices.iter().map(|index| {
        (
            index.old_id.to_string(),
            index.new_id.to_string(),
            &index.details.type_url,
            PyBytes::new(py, &index.details.value),
            index.version,
        )
    });
    out.set_item("rewritten_indices", rewritten.collect::<Vec<_>>())
}

/// Fragment id and overlays, each a file, its offsets and the version that committed it.
fn overlays<'py>(py: Python<'py>, overlay: &op::DataOverlay) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for group in &overlay.groups {
        let files = PyList::empty(py);
        for file in &group.overlays {
            let stored = file.data_file.clone().unwrap_or_default();
            let data_file = glaive::manifest::DataFile::from_proto(stored);
            let data_file = data_file.map_err(|error| to_py(py, &error, During::Other))?;
            let version = Some(file.committed_version).filter(|version| *version > 0);
            files.append((
                data_file_dict(py, &data_file)?,
                coverage(py, file.coverage.as_ref())?,
                version,
            ))?;
        }
        out.append((group.fragment_id, files))?;
    }
    Ok(out)
}

fn coverage<'py>(py: Python<'py>, coverage: Option<&Coverage>) -> PyResult<Bound<'py, PyAny>> {
    let offsets = |bytes: &[u8]| -> PyResult<Vec<u32>> {
        let bitmap = RoaringBitmap::deserialize_from(bytes);
        let bitmap =
            bitmap.map_err(|e| to_py(py, &Error::corrupt(format!("overlay: {e}")), During::Other))?;
        Ok(bitmap.iter().collect())
    };
    Ok(match coverage {
        Some(Coverage::SharedOffsetBitmap(bytes)) => offsets(bytes)?.into_pyobject(py)?.into_any(),
        Some(Coverage::FieldCoverage(fields)) => {
            let lists = fields.offset_bitmaps.iter().map(|bytes| offsets(bytes));
            lists.collect::<PyResult<Vec<_>>>()?.into_pyobject(py)?.into_any()
        }
        None => PyList::empty(py).into_any(),
    })
}
