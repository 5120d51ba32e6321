//! Operations from Python: attributes of the dataclasses.

use std::collections::BTreeMap;
use std::sync::Arc;

use glaive::manifest::{DataFile, Fragment, Index};
use glaive::proto::lance::table as pb;
use glaive::transaction::{
    DataReplacementGroup, Operation, RewriteGroup, RewrittenIndex, Update, UpdateConfig, UpdateMap,
    UpdateMode, stored_uuid,
};
use glaive::{Error, Field, Result, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use roaring::RoaringBitmap;
use uuid::Uuid;

use crate::arrow;
use crate::errors::{During, to_py};

#[derive(FromPyObject)]
struct DataFileIn {
    path: String,
    fields: Vec<i32>,
    column_indices: Vec<i32>,
    file_major_version: u32,
    file_minor_version: u32,
    file_size_bytes: Option<u64>,
    base_id: Option<u32>,
}

#[derive(FromPyObject)]
struct DeletionFileIn {
    read_version: u64,
    id: u64,
    file_type: String,
    num_deleted_rows: u64,
    base_id: Option<u32>,
}

/// Row ids or version stamps; without bytes they are a hidden column.
#[derive(FromPyObject)]
struct MetaIn {
    inline: Option<Vec<u8>>,
}

#[derive(FromPyObject)]
struct FragmentIn {
    id: u64,
    files: Vec<DataFileIn>,
    physical_rows: Option<u64>,
    deletion_file: Option<DeletionFileIn>,
    row_id_meta: Option<MetaIn>,
    created_at_version_meta: Option<MetaIn>,
    last_updated_at_version_meta: Option<MetaIn>,
    overlays: Vec<Py<PyAny>>,
}

#[derive(FromPyObject)]
struct IndexFileIn {
    path: String,
    size_bytes: u64,
}

#[derive(FromPyObject)]
struct IndexIn {
    uuid: String,
    name: String,
    fields: Vec<i32>,
    dataset_version: u64,
    fragment_ids: Py<PyAny>,
    index_version: i32,
    _created_at_ms: Option<u64>,
    base_id: Option<u32>,
    files: Option<Vec<IndexFileIn>>,
    index_details: Option<(String, Vec<u8>)>,
    covering_fields: Vec<i32>,
}

#[derive(FromPyObject)]
struct MapIn {
    updates: BTreeMap<String, Option<String>>,
    replace: bool,
}

#[derive(FromPyObject)]
struct BaseIn {
    path: String,
    name: Option<String>,
    is_dataset_root: bool,
    id: u32,
}

#[derive(FromPyObject)]
struct GroupIn {
    old_fragments: Vec<FragmentIn>,
    new_fragments: Vec<FragmentIn>,
}

#[derive(FromPyObject)]
struct RewrittenIn {
    old_id: String,
    new_id: String,
    new_details_type_url: String,
    new_details_value: Vec<u8>,
    new_index_version: u32,
}

#[derive(FromPyObject)]
struct ReplacementIn {
    fragment_id: u64,
    new_file: DataFileIn,
}

/// The operation of that class name.
pub fn operation(kind: &str, object: &Bound<'_, PyAny>) -> PyResult<Operation> {
    let py = object.py();
    let get = |name: &str| object.getattr(name);
    let fragments = |name: &str| fragments(py, get(name)?.extract()?);
    Ok(match kind {
        "Append" => Operation::Append {
            fragments: fragments("fragments")?,
        },
        "Delete" => Operation::Delete {
            updated_fragments: fragments("updated_fragments")?,
            deleted_fragment_ids: get("deleted_fragment_ids")?.extract()?,
            predicate: get("predicate")?.extract()?,
        },
        "Overwrite" => Operation::Overwrite {
            fragments: fragments("fragments")?,
            schema: schema(&get("new_schema")?)?,
            config_upsert_values: BTreeMap::new(),
            initial_bases: bases(get("initial_bases")?.extract()?),
            data_version: None,
        },
        "CreateIndex" => Operation::CreateIndex {
            new_indices: indices(&get("new_indices")?)?,
            removed_indices: indices(&get("removed_indices")?)?,
        },
        "Rewrite" => rewrite(object)?,
        "Merge" => Operation::Merge {
            fragments: fragments("fragments")?,
            schema: schema(&get("schema")?)?,
            preserves_nullability: get("preserves_nullability")?.extract()?,
        },
        "Restore" => Operation::Restore {
            version: get("version")?.extract()?,
        },
        "ReserveFragments" => Operation::ReserveFragments {
            num_fragments: get("num_fragments")?.extract()?,
        },
        "Update" => Operation::Update(update(object)?),
        "Project" => Operation::Project {
            schema: schema(&get("schema")?)?,
            preserves_nullability: get("preserves_nullability")?.extract()?,
        },
        "UpdateConfig" => Operation::UpdateConfig(update_config(object)?),
        "DataReplacement" => data_replacement(object)?,
        "UpdateBases" => Operation::UpdateBases {
            new_bases: bases(get("new_bases")?.extract()?),
        },
        _ => {
            let error = Error::unsupported(format!("Not supported: committing the operation {kind}"));
            return Err(to_py(py, &error, During::Write));
        }
    })
}

fn checked<T>(py: Python<'_>, result: Result<T>) -> PyResult<T> {
    result.map_err(|error| to_py(py, &error, During::Write))
}

fn fragments(py: Python<'_>, list: Vec<FragmentIn>) -> PyResult<Vec<Fragment>> {
    let fragments = list
        .into_iter()
        .map(|fragment| Fragment::from_proto(fragment.into_proto()?));
    checked(py, fragments.collect())
}

impl FragmentIn {
    fn into_proto(self) -> Result<pb::DataFragment> {
        use pb::data_fragment::{CreatedAtVersionSequence, LastUpdatedAtVersionSequence, RowIdSequence};
        if !self.overlays.is_empty() {
            return Err(Error::unsupported("Not supported: fragments with overlays"));
        }
        let hidden = pb::RowLineageColumn::default;
        let row_ids = self.row_id_meta.map(|meta| match meta.inline {
            Some(bytes) => RowIdSequence::InlineRowIds(bytes.into()),
            None => RowIdSequence::ColumnRowIds(hidden()),
        });
        let created = self.created_at_version_meta.map(|meta| match meta.inline {
            Some(bytes) => CreatedAtVersionSequence::InlineCreatedAtVersions(bytes.into()),
            None => CreatedAtVersionSequence::ColumnCreatedAtVersions(hidden()),
        });
        let updated = self.last_updated_at_version_meta.map(|meta| match meta.inline {
            Some(bytes) => LastUpdatedAtVersionSequence::InlineLastUpdatedAtVersions(bytes.into()),
            None => LastUpdatedAtVersionSequence::ColumnLastUpdatedAtVersions(hidden()),
        });
        Ok(pb::DataFragment {
            id: self.id,
            files: self.files.into_iter().map(DataFileIn::into_proto).collect(),
            deletion_file: self.deletion_file.map(DeletionFileIn::into_proto).transpose()?,
            physical_rows: self.physical_rows.unwrap_or(0),
            row_id_sequence: row_ids,
            created_at_version_sequence: created,
            last_updated_at_version_sequence: updated,
            ..pb::DataFragment::default()
        })
    }
}

impl DataFileIn {
    fn into_proto(self) -> pb::DataFile {
        pb::DataFile {
            path: self.path,
            fields: self.fields,
            column_indices: self.column_indices,
            file_major_version: self.file_major_version,
            file_minor_version: self.file_minor_version,
            file_size_bytes: self.file_size_bytes.unwrap_or(0),
            base_id: self.base_id,
        }
    }
}

impl DeletionFileIn {
    fn into_proto(self) -> Result<pb::DeletionFile> {
        use pb::deletion_file::DeletionFileType;
        let file_type = match self.file_type.as_str() {
            "array" => DeletionFileType::ArrowArray,
            "bitmap" => DeletionFileType::Bitmap,
            other => {
                return Err(Error::invalid_input(format!(
                    "file_type must be 'array' or 'bitmap', not '{other}'"
                )));
            }
        };
        Ok(pb::DeletionFile {
            file_type: file_type.into(),
            read_version: self.read_version,
            id: self.id,
            num_deleted_rows: self.num_deleted_rows,
            base_id: self.base_id,
        })
    }
}

/// A `LanceSchema`, or an Arrow schema whose fields are numbered as in a new table.
fn schema(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let py = object.py();
    if !object.hasattr("to_pyarrow")? {
        return checked(py, Schema::try_from_arrow(&*arrow::import_schema(object)?));
    }
    let arrow_schema = arrow::import_schema(&object.call_method0("to_pyarrow")?)?;
    let mut schema = checked(py, Schema::try_from_arrow(&arrow_schema))?;
    set_ids(&mut schema.fields, &object.call_method0("fields")?)?;
    Ok(schema)
}

/// Takes the ids of `LanceField`s, which have the same tree.
fn set_ids(fields: &mut [Arc<Field>], given: &Bound<'_, PyAny>) -> PyResult<()> {
    let given: Vec<Bound<'_, PyAny>> = given.extract()?;
    if given.len() != fields.len() {
        return Err(PyValueError::new_err(
            "the fields of the LanceSchema do not fit its Arrow schema",
        ));
    }
    for (field, given) in fields.iter_mut().zip(given) {
        let field = Arc::make_mut(field);
        field.id = given.call_method0("id")?.extract()?;
        set_ids(&mut field.children, &given.call_method0("children")?)?;
    }
    Ok(())
}

fn bases(list: Option<Vec<BaseIn>>) -> Vec<pb::BasePath> {
    let bases = list.into_iter().flatten();
    bases
        .map(|base| pb::BasePath {
            id: base.id,
            name: base.name,
            is_dataset_root: base.is_dataset_root,
            path: base.path,
        })
        .collect()
}

fn uuid_of(text: &str) -> Result<Uuid> {
    Uuid::parse_str(text).map_err(|_| Error::invalid_input(format!("'{text}' is not a uuid")))
}

fn indices(list: &Bound<'_, PyAny>) -> PyResult<Vec<Index>> {
    let py = list.py();
    let list: Vec<IndexIn> = list.extract()?;
    list.into_iter().map(|index| index.into_engine(py)).collect()
}

impl IndexIn {
    fn into_engine(self, py: Python<'_>) -> PyResult<Index> {
        let fragments = self.fragment_ids.bind(py).try_iter()?;
        let fragments = fragments
            .map(|id| id?.extract::<u32>())
            .collect::<PyResult<RoaringBitmap>>()?;
        let mut bitmap = Vec::with_capacity(fragments.serialized_size());
        fragments.serialize_into(&mut bitmap)?;
        let file = |file: IndexFileIn| pb::IndexFile {
            path: file.path,
            size_bytes: file.size_bytes,
        };
        let metadata = pb::IndexMetadata {
            uuid: Some(stored_uuid(checked(py, uuid_of(&self.uuid))?)),
            fields: self.fields,
            name: self.name,
            dataset_version: self.dataset_version,
            fragment_bitmap: bitmap.into(),
            index_details: self
                .index_details
                .map(|(type_url, value)| prost_types::Any { type_url, value }),
            index_version: Some(self.index_version),
            created_at: self._created_at_ms,
            base_id: self.base_id,
            files: self.files.into_iter().flatten().map(file).collect(),
            covering_fields: self.covering_fields,
            ..pb::IndexMetadata::default()
        };
        checked(py, Index::new(metadata))
    }
}

fn rewrite(object: &Bound<'_, PyAny>) -> PyResult<Operation> {
    let py = object.py();
    let groups: Vec<GroupIn> = object.getattr("groups")?.extract()?;
    let groups = groups.into_iter().map(|group| {
        Ok(RewriteGroup {
            old_fragments: fragments(py, group.old_fragments)?,
            new_fragments: fragments(py, group.new_fragments)?,
        })
    });
    let groups = groups.collect::<PyResult<_>>()?;
    let rewritten: Vec<RewrittenIn> = object.getattr("rewritten_indices")?.extract()?;
    let rewritten = rewritten.into_iter().map(|index| {
        Ok(RewrittenIndex {
            old_id: uuid_of(&index.old_id)?,
            new_id: uuid_of(&index.new_id)?,
            details: prost_types::Any {
                type_url: index.new_details_type_url,
                value: index.new_details_value,
            },
            version: index.new_index_version,
            files: Vec::new(),
        })
    });
    Ok(Operation::Rewrite {
        groups,
        rewritten_indices: checked(py, rewritten.collect())?,
    })
}

fn update(object: &Bound<'_, PyAny>) -> PyResult<Update> {
    let py = object.py();
    let get = |name: &str| object.getattr(name);
    let mode: String = get("update_mode")?.extract()?;
    let offsets: Option<BTreeMap<u64, Vec<u8>>> = get("updated_fragment_offsets")?.extract()?;
    let offsets = offsets.into_iter().flatten();
    Ok(Update {
        removed_fragment_ids: get("removed_fragment_ids")?.extract()?,
        updated_fragments: fragments(py, get("updated_fragments")?.extract()?)?,
        new_fragments: fragments(py, get("new_fragments")?.extract()?)?,
        fields_modified: get("fields_modified")?.extract()?,
        fields_for_preserving_frag_bitmap: get("fields_for_preserving_frag_bitmap")?.extract()?,
        mode: update_mode(&mode)?,
        updated_fragment_offsets: offsets.map(|(id, bytes)| (id, bytes.into())).collect(),
        ..Update::default()
    })
}

fn update_mode(text: &str) -> PyResult<Option<UpdateMode>> {
    match text {
        "" => Ok(None),
        "rewrite_rows" => Ok(Some(UpdateMode::RewriteRows)),
        "rewrite_columns" => Ok(Some(UpdateMode::RewriteColumns)),
        _ => Err(PyValueError::new_err(format!(
            "update_mode must be 'rewrite_rows' or 'rewrite_columns', not '{text}'"
        ))),
    }
}

fn update_config(object: &Bound<'_, PyAny>) -> PyResult<UpdateConfig> {
    let map = |name: &str| -> PyResult<Option<UpdateMap>> {
        let map: Option<MapIn> = object.getattr(name)?.extract()?;
        Ok(map.map(MapIn::into_engine))
    };
    let fields: Option<BTreeMap<i32, MapIn>> = object.getattr("field_metadata_updates")?.extract()?;
    let fields = fields.into_iter().flatten();
    Ok(UpdateConfig {
        config: map("config_updates")?,
        table_metadata: map("table_metadata_updates")?,
        schema_metadata: map("schema_metadata_updates")?,
        field_metadata: fields.map(|(id, map)| (id, map.into_engine())).collect(),
    })
}

impl MapIn {
    fn into_engine(self) -> UpdateMap {
        UpdateMap {
            updates: self.updates,
            replace: self.replace,
        }
    }
}

fn data_replacement(object: &Bound<'_, PyAny>) -> PyResult<Operation> {
    let list: Vec<ReplacementIn> = object.getattr("replacements")?.extract()?;
    let replacements = list.into_iter().map(|group| {
        Ok(DataReplacementGroup {
            fragment_id: group.fragment_id,
            new_file: DataFile::from_proto(group.new_file.into_proto())?,
        })
    });
    Ok(Operation::DataReplacement {
        replacements: checked(object.py(), replacements.collect())?,
    })
}
