//! Operations in their stored form (format chapter 31, 2).

use std::collections::BTreeMap;

use bytes::Bytes;
use glaive_file::{Context, Error, Result, Schema};
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::{
    DataReplacementGroup, Operation, RewriteGroup, RewrittenIndex, Update, UpdateConfig, UpdateMap,
    UpdateMode,
};
use crate::manifest::{DataFile, Fragment, Index};
use crate::proto::lance::table::{self as pb, transaction as op};

impl Operation {
    /// Reads the stored form. `None` is an operation whose number is not known.
    ///
    /// # Errors
    /// Corrupt.
    pub fn from_proto(stored: Option<op::Operation>) -> Result<Self> {
        use op::Operation as Stored;
        let Some(stored) = stored else {
            return Ok(Self::Unknown);
        };
        Ok(match stored {
            Stored::Append(append) => Self::Append {
                fragments: fragments(append.fragments)?,
            },
            Stored::Delete(delete) => Self::Delete {
                updated_fragments: fragments(delete.updated_fragments)?,
                deleted_fragment_ids: delete.deleted_fragment_ids,
                predicate: delete.predicate,
            },
            Stored::Overwrite(overwrite) => Self::Overwrite {
                fragments: fragments(overwrite.fragments)?,
                schema: Schema::from_proto(&overwrite.schema, &overwrite.schema_metadata)?,
                config_upsert_values: overwrite.config_upsert_values,
                initial_bases: overwrite.initial_bases,
                data_version: None,
            },
            Stored::CreateIndex(create) => Self::CreateIndex {
                new_indices: indices(create.new_indices)?,
                removed_indices: indices(create.removed_indices)?,
            },
            Stored::Rewrite(rewrite) => rewrite_from_proto(rewrite)?,
            Stored::Merge(merge) => Self::Merge {
                fragments: fragments(merge.fragments)?,
                schema: Schema::from_proto(&merge.schema, &merge.schema_metadata)?,
                preserves_nullability: merge.preserves_nullability,
            },
            Stored::Restore(restore) => Self::Restore {
                version: restore.version,
            },
            Stored::ReserveFragments(reserve) => Self::ReserveFragments {
                num_fragments: reserve.num_fragments,
            },
            Stored::Update(update) => Self::Update(Update::from_proto(update)?),
            Stored::Project(project) => Self::Project {
                schema: Schema::from_proto(&project.schema, &BTreeMap::new())?,
                preserves_nullability: project.preserves_nullability,
            },
            Stored::UpdateConfig(update) => Self::UpdateConfig(UpdateConfig::from_proto(update)?),
            Stored::DataReplacement(replacement) => replacement_from_proto(replacement)?,
            Stored::DataOverlay(overlay) => Self::DataOverlay(checked_overlay(overlay)?),
            Stored::UpdateMemWalState(update) => Self::UpdateMemWalState(update),
            Stored::Clone(clone) => Self::Clone(clone),
            Stored::UpdateBases(update) => Self::UpdateBases {
                new_bases: update.new_bases,
            },
        })
    }

    /// The stored form.
    pub fn to_proto(&self) -> Option<op::Operation> {
        use op::Operation as Stored;
        Some(match self {
            Self::Append { fragments } => Stored::Append(op::Append {
                fragments: stored(fragments),
            }),
            Self::Delete {
                updated_fragments,
                deleted_fragment_ids,
                predicate,
            } => Stored::Delete(op::Delete {
                updated_fragments: stored(updated_fragments),
                deleted_fragment_ids: deleted_fragment_ids.clone(),
                predicate: predicate.clone(),
            }),
            Self::Overwrite {
                fragments,
                schema,
                config_upsert_values,
                initial_bases,
                ..
            } => Stored::Overwrite(op::Overwrite {
                fragments: stored(fragments),
                schema: schema.to_proto(),
                schema_metadata: BTreeMap::new(),
                config_upsert_values: config_upsert_values.clone(),
                initial_bases: initial_bases.clone(),
            }),
            Self::CreateIndex {
                new_indices,
                removed_indices,
            } => Stored::CreateIndex(op::CreateIndex {
                new_indices: stored_indices(new_indices),
                removed_indices: stored_indices(removed_indices),
            }),
            Self::Rewrite {
                groups,
                rewritten_indices,
            } => Stored::Rewrite(op::Rewrite {
                groups: groups.iter().map(RewriteGroup::to_proto).collect(),
                rewritten_indices: rewritten_indices.iter().map(RewrittenIndex::to_proto).collect(),
                ..Default::default()
            }),
            Self::Merge {
                fragments,
                schema,
                preserves_nullability,
            } => Stored::Merge(op::Merge {
                fragments: stored(fragments),
                schema: schema.to_proto(),
                schema_metadata: BTreeMap::new(),
                preserves_nullability: *preserves_nullability,
            }),
            Self::Restore { version } => Stored::Restore(op::Restore { version: *version }),
            Self::ReserveFragments { num_fragments } => Stored::ReserveFragments(op::ReserveFragments {
                num_fragments: *num_fragments,
            }),
            Self::Update(update) => Stored::Update(update.to_proto()),
            Self::Project {
                schema,
                preserves_nullability,
            } => Stored::Project(op::Project {
                schema: schema.to_proto(),
                preserves_nullability: *preserves_nullability,
            }),
            Self::UpdateConfig(update) => Stored::UpdateConfig(update.to_proto()),
            Self::DataReplacement { replacements } => Stored::DataReplacement(op::DataReplacement {
                replacements: replacements.iter().map(DataReplacementGroup::to_proto).collect(),
            }),
            Self::DataOverlay(overlay) => Stored::DataOverlay(overlay.clone()),
            Self::UpdateMemWalState(update) => Stored::UpdateMemWalState(update.clone()),
            Self::Clone(clone) => Stored::Clone(clone.clone()),
            Self::UpdateBases { new_bases } => Stored::UpdateBases(op::UpdateBases {
                new_bases: new_bases.clone(),
            }),
            Self::Unknown => return None,
        })
    }
}

fn fragments(list: Vec<pb::DataFragment>) -> Result<Vec<Fragment>> {
    list.into_iter().map(Fragment::from_proto).collect()
}

fn stored(list: &[Fragment]) -> Vec<pb::DataFragment> {
    list.iter().map(Fragment::to_proto).collect()
}

fn indices(list: Vec<pb::IndexMetadata>) -> Result<Vec<Index>> {
    list.into_iter().map(Index::new).collect()
}

fn stored_indices(list: &[Index]) -> Vec<pb::IndexMetadata> {
    list.iter().map(|index| index.metadata().clone()).collect()
}

/// The single group of early writers counts if there are no groups.
fn rewrite_from_proto(rewrite: op::Rewrite) -> Result<Operation> {
    let mut groups = rewrite
        .groups
        .into_iter()
        .map(|group| RewriteGroup::from_lists(group.old_fragments, group.new_fragments))
        .collect::<Result<Vec<_>>>()?;
    if groups.is_empty() && !rewrite.old_fragments.is_empty() {
        groups.push(RewriteGroup::from_lists(
            rewrite.old_fragments,
            rewrite.new_fragments,
        )?);
    }
    let rewritten = rewrite
        .rewritten_indices
        .into_iter()
        .map(RewrittenIndex::from_proto);
    Ok(Operation::Rewrite {
        groups,
        rewritten_indices: rewritten.collect::<Result<_>>().context(|| "rewritten index")?,
    })
}

fn replacement_from_proto(replacement: op::DataReplacement) -> Result<Operation> {
    let group = |group: op::DataReplacementGroup| {
        let new_file = group.new_file.ok_or_else(|| {
            Error::corrupt(format!(
                "the replacement in fragment {} has no file",
                group.fragment_id
            ))
        })?;
        Ok(DataReplacementGroup {
            fragment_id: group.fragment_id,
            new_file: DataFile::from_proto(new_file)?,
        })
    };
    let replacements = replacement.replacements.into_iter().map(group);
    Ok(Operation::DataReplacement {
        replacements: replacements.collect::<Result<_>>()?,
    })
}

fn checked_overlay(overlay: op::DataOverlay) -> Result<op::DataOverlay> {
    let mut files = overlay.groups.iter().flat_map(|group| &group.overlays);
    match files.any(|file| file.data_file.is_none()) {
        true => Err(Error::corrupt("an overlay has no data file")),
        false => Ok(overlay),
    }
}

impl RewriteGroup {
    fn from_lists(old: Vec<pb::DataFragment>, new: Vec<pb::DataFragment>) -> Result<Self> {
        Ok(Self {
            old_fragments: fragments(old)?,
            new_fragments: fragments(new)?,
        })
    }

    fn to_proto(&self) -> op::rewrite::RewriteGroup {
        op::rewrite::RewriteGroup {
            old_fragments: stored(&self.old_fragments),
            new_fragments: stored(&self.new_fragments),
        }
    }
}

impl RewrittenIndex {
    fn from_proto(stored: op::rewrite::RewrittenIndex) -> Result<Self> {
        let id = |id: Option<pb::Uuid>| {
            let bytes = id.ok_or_else(|| Error::corrupt("a uuid is missing"))?.uuid;
            Uuid::from_slice(&bytes).map_err(|_| Error::corrupt("a uuid does not have 16 bytes"))
        };
        let details = stored.new_index_details;
        Ok(Self {
            old_id: id(stored.old_id)?,
            new_id: id(stored.new_id)?,
            details: details.ok_or_else(|| Error::corrupt("the details are missing"))?,
            version: stored.new_index_version,
            files: stored.new_index_files,
        })
    }

    fn to_proto(&self) -> op::rewrite::RewrittenIndex {
        op::rewrite::RewrittenIndex {
            old_id: Some(stored_uuid(self.old_id)),
            new_id: Some(stored_uuid(self.new_id)),
            new_index_details: Some(self.details.clone()),
            new_index_version: self.version,
            new_index_files: self.files.clone(),
        }
    }
}

/// A uuid as a message.
pub fn stored_uuid(id: Uuid) -> pb::Uuid {
    pb::Uuid {
        uuid: Bytes::copy_from_slice(id.as_bytes()),
    }
}

impl Update {
    fn from_proto(stored: op::Update) -> Result<Self> {
        let mode = match op::UpdateMode::try_from(stored.update_mode) {
            Ok(op::UpdateMode::RewriteColumns) => UpdateMode::RewriteColumns,
            _ => UpdateMode::RewriteRows,
        };
        let mut offsets = stored.updated_fragment_offset_bitmaps;
        if offsets.is_empty() {
            for (id, list) in stored.updated_fragment_offsets {
                offsets.insert(id, bitmap_bytes(&list.values)?);
            }
        }
        Ok(Self {
            removed_fragment_ids: stored.removed_fragment_ids,
            updated_fragments: fragments(stored.updated_fragments)?,
            new_fragments: fragments(stored.new_fragments)?,
            fields_modified: stored.fields_modified,
            compacted_sstables: stored.compacted_sstables,
            fields_for_preserving_frag_bitmap: stored.fields_for_preserving_frag_bitmap,
            mode: Some(mode),
            inserted_rows: stored.inserted_rows,
            updated_fragment_offsets: offsets,
        })
    }

    fn to_proto(&self) -> op::Update {
        let mode = match self.mode {
            Some(UpdateMode::RewriteColumns) => op::UpdateMode::RewriteColumns,
            Some(UpdateMode::RewriteRows) | None => op::UpdateMode::RewriteRows,
        };
        op::Update {
            removed_fragment_ids: self.removed_fragment_ids.clone(),
            updated_fragments: stored(&self.updated_fragments),
            new_fragments: stored(&self.new_fragments),
            fields_modified: self.fields_modified.clone(),
            compacted_sstables: self.compacted_sstables.clone(),
            fields_for_preserving_frag_bitmap: self.fields_for_preserving_frag_bitmap.clone(),
            update_mode: mode.into(),
            inserted_rows: self.inserted_rows.clone(),
            updated_fragment_offsets: BTreeMap::new(),
            updated_fragment_offset_bitmaps: self.updated_fragment_offsets.clone(),
        }
    }
}

fn bitmap_bytes(offsets: &[u32]) -> Result<Bytes> {
    let bitmap: RoaringBitmap = offsets.iter().copied().collect();
    let mut out = Vec::with_capacity(bitmap.serialized_size());
    bitmap.serialize_into(&mut out).context(|| "offsets")?;
    Ok(out.into())
}

impl UpdateMap {
    fn from_proto(stored: op::UpdateMap) -> Self {
        let entries = stored.update_entries.into_iter();
        Self {
            updates: entries.map(|entry| (entry.key, entry.value)).collect(),
            replace: stored.replace,
        }
    }

    /// The whole map, as earlier writers stored it.
    fn replacing(map: BTreeMap<String, String>) -> Self {
        Self {
            updates: map.into_iter().map(|(key, value)| (key, Some(value))).collect(),
            replace: true,
        }
    }

    fn to_proto(&self) -> op::UpdateMap {
        let entry = |(key, value): (&String, &Option<String>)| op::UpdateMapEntry {
            key: key.clone(),
            value: value.clone(),
        };
        op::UpdateMap {
            update_entries: self.updates.iter().map(entry).collect(),
            replace: self.replace,
        }
    }
}

impl UpdateConfig {
    fn from_proto(stored: op::UpdateConfig) -> Result<Self> {
        let new = Self {
            config: stored.config_updates.map(UpdateMap::from_proto),
            table_metadata: stored.table_metadata_updates.map(UpdateMap::from_proto),
            schema_metadata: stored.schema_metadata_updates.map(UpdateMap::from_proto),
            field_metadata: stored
                .field_metadata_updates
                .into_iter()
                .map(|(id, map)| (id, UpdateMap::from_proto(map)))
                .collect(),
        };
        let old = Self::from_old_form(
            stored.upsert_values,
            stored.delete_keys,
            stored.schema_metadata,
            stored.field_metadata,
        )?;
        match (new == Self::default(), old == Self::default()) {
            (_, true) => Ok(new),
            (true, false) => Ok(old),
            (false, false) => Err(Error::corrupt(
                "an UpdateConfig has changes in the old and in the new form",
            )),
        }
    }

    fn from_old_form(
        upserts: BTreeMap<String, String>,
        deletes: Vec<String>,
        schema_metadata: BTreeMap<String, String>,
        field_metadata: BTreeMap<u32, op::update_config::FieldMetadataUpdate>,
    ) -> Result<Self> {
        let mut updates: BTreeMap<_, _> = deletes.into_iter().map(|key| (key, None)).collect();
        updates.extend(upserts.into_iter().map(|(key, value)| (key, Some(value))));
        let config = UpdateMap {
            updates,
            replace: false,
        };
        let fields = field_metadata.into_iter().map(|(id, update)| {
            let id = i32::try_from(id).map_err(|_| Error::corrupt(format!("field id {id}")))?;
            Ok((id, UpdateMap::replacing(update.metadata)))
        });
        Ok(Self {
            config: Some(config).filter(|config| !config.is_empty()),
            table_metadata: None,
            schema_metadata: Some(schema_metadata)
                .filter(|map| !map.is_empty())
                .map(UpdateMap::replacing),
            field_metadata: fields.collect::<Result<_>>()?,
        })
    }

    fn to_proto(&self) -> op::UpdateConfig {
        let map = |map: &Option<UpdateMap>| map.as_ref().map(UpdateMap::to_proto);
        op::UpdateConfig {
            config_updates: map(&self.config),
            table_metadata_updates: map(&self.table_metadata),
            schema_metadata_updates: map(&self.schema_metadata),
            field_metadata_updates: self
                .field_metadata
                .iter()
                .map(|(id, map)| (*id, map.to_proto()))
                .collect(),
            ..Default::default()
        }
    }
}

impl DataReplacementGroup {
    fn to_proto(&self) -> op::DataReplacementGroup {
        op::DataReplacementGroup {
            fragment_id: self.fragment_id,
            new_file: Some(self.new_file.to_proto()),
        }
    }
}
