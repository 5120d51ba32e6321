//! What a transaction does (format chapter 31, 2).

use std::collections::BTreeMap;

use bytes::Bytes;
use glaive_file::{FileVersion, Schema};
use uuid::Uuid;

use crate::manifest::{DataFile, Fragment, Index};
use crate::proto::lance::table::{self as pb, transaction as op};

/// What a transaction does.
///
/// Fragments that an operation adds have the id 0, or an id that was reserved before.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Adds fragments.
    Append {
        /// New fragments.
        fragments: Vec<Fragment>,
    },
    /// Deletes rows.
    Delete {
        /// Fragments with their new deletion file. Only that file is taken from them.
        updated_fragments: Vec<Fragment>,
        /// Fragments that lost all rows. Unknown ids are ignored.
        deleted_fragment_ids: Vec<u64>,
        /// Which rows, as text; for readers of the history.
        predicate: String,
    },
    /// Replaces schema and fragments, or makes a new table.
    Overwrite {
        /// New fragments.
        fragments: Vec<Fragment>,
        /// New schema. Its metadata is not stored in the transaction.
        schema: Schema,
        /// Entries that are merged into the config.
        config_upsert_values: BTreeMap<String, String>,
        /// Base paths of a new table.
        initial_bases: Vec<pb::BasePath>,
        /// New default version of data files, if the writer named one. Not stored in the transaction.
        data_version: Option<FileVersion>,
    },
    /// Adds, replaces or drops segments of indices.
    CreateIndex {
        /// Added.
        new_indices: Vec<Index>,
        /// Removed, by uuid.
        removed_indices: Vec<Index>,
    },
    /// Stores the same rows in other fragments.
    Rewrite {
        /// Which fragments become which.
        groups: Vec<RewriteGroup>,
        /// Segments whose files were rewritten with them.
        rewritten_indices: Vec<RewrittenIndex>,
    },
    /// Adds columns, or replaces them under new ids.
    Merge {
        /// All fragments of the table.
        fragments: Vec<Fragment>,
        /// The whole schema. Its metadata is not stored in the transaction.
        schema: Schema,
        /// Whether rows staged before still fit the schema.
        preserves_nullability: bool,
    },
    /// Makes an old version current.
    Restore {
        /// Version to restore.
        version: u64,
    },
    /// Sets fragment ids aside.
    ReserveFragments {
        /// How many.
        num_fragments: u32,
    },
    /// Moves changed rows, or rewrites columns in place.
    Update(Update),
    /// Drops, renames or reorders columns, or changes their nullability.
    Project {
        /// The whole schema. Its metadata is not stored in the transaction.
        schema: Schema,
        /// Whether rows staged before still fit the schema.
        preserves_nullability: bool,
    },
    /// Edits the maps of the table.
    UpdateConfig(UpdateConfig),
    /// Replaces files of some columns.
    DataReplacement {
        /// One new file for each fragment.
        replacements: Vec<DataReplacementGroup>,
    },
    /// Replaces cells by overlay files. Carried; cannot be committed here.
    DataOverlay(op::DataOverlay),
    /// Moves the state of the log-structured write path. Carried; cannot be committed here.
    UpdateMemWalState(op::UpdateMemWalState),
    /// Makes a table from a version of another.
    Clone(op::Clone),
    /// Adds base paths.
    UpdateBases {
        /// New bases; id 0 asks for a free one.
        new_bases: Vec<pb::BasePath>,
    },
    /// A stored operation that this engine does not know.
    Unknown,
}

/// Fragments that become others with the same rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RewriteGroup {
    /// Replaced.
    pub old_fragments: Vec<Fragment>,
    /// In their place.
    pub new_fragments: Vec<Fragment>,
}

/// A segment of an index whose files were rewritten.
#[derive(Debug, Clone, PartialEq)]
pub struct RewrittenIndex {
    /// Segment that is replaced.
    pub old_id: Uuid,
    /// Its new uuid.
    pub new_id: Uuid,
    /// Kind of the index.
    pub details: prost_types::Any,
    /// Version of its format.
    pub version: u32,
    /// Its files; empty if not known.
    pub files: Vec<pb::IndexFile>,
}

/// How an update stores changed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMode {
    /// Changed rows are deleted where they were and written to new fragments.
    RewriteRows,
    /// Whole columns are written anew, and rows stay where they are.
    RewriteColumns,
}

/// Changed rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Update {
    /// Fragments that lost all rows. Unknown ids are ignored.
    pub removed_fragment_ids: Vec<u64>,
    /// Fragments as they are afterwards.
    pub updated_fragments: Vec<Fragment>,
    /// Moved and inserted rows.
    pub new_fragments: Vec<Fragment>,
    /// Fields that were rewritten in place.
    pub fields_modified: Vec<u32>,
    /// State of the log-structured write path.
    pub compacted_sstables: Vec<pb::CompactedSsTable>,
    /// Fields that a move of rows changed.
    pub fields_for_preserving_frag_bitmap: Vec<u32>,
    /// How rows were stored. `None`: the writer did not say; stored as `RewriteRows`.
    pub mode: Option<UpdateMode>,
    /// Keys of inserted rows, to find others that insert them too.
    pub inserted_rows: Option<op::KeyExistenceFilter>,
    /// Offsets of the rows that matched, as bitmaps by fragment.
    pub updated_fragment_offsets: BTreeMap<u64, Bytes>,
}

/// Changes of one map of strings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpdateMap {
    /// New value of each key; `None` deletes it.
    pub updates: BTreeMap<String, Option<String>>,
    /// Whether all other keys go.
    pub replace: bool,
}

/// Changes of the maps of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpdateConfig {
    /// Table config.
    pub config: Option<UpdateMap>,
    /// Table metadata.
    pub table_metadata: Option<UpdateMap>,
    /// Schema metadata.
    pub schema_metadata: Option<UpdateMap>,
    /// Field metadata by field id.
    pub field_metadata: BTreeMap<i32, UpdateMap>,
}

/// A file that replaces columns of one fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct DataReplacementGroup {
    /// Which fragment.
    pub fragment_id: u64,
    /// The file with the columns.
    pub new_file: DataFile,
}

impl UpdateMap {
    /// The map afterwards.
    pub fn apply(&self, map: &mut BTreeMap<String, String>) {
        if self.replace {
            map.clear();
        }
        for (key, value) in &self.updates {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.updates.is_empty() && !self.replace
    }
}

impl Operation {
    /// The fragment ids that the operation changes, deletes or replaces, in the order in which it names them.
    pub fn modified_fragment_ids(&self) -> Vec<u64> {
        let ids = |list: &[Fragment]| list.iter().map(|f| u64::from(f.id)).collect::<Vec<_>>();
        match self {
            Self::Delete {
                updated_fragments,
                deleted_fragment_ids,
                ..
            } => [ids(updated_fragments), deleted_fragment_ids.clone()].concat(),
            Self::Update(update) => [
                ids(&update.updated_fragments),
                update.removed_fragment_ids.clone(),
            ]
            .concat(),
            Self::Rewrite { groups, .. } => groups
                .iter()
                .flat_map(|group| ids(&group.old_fragments))
                .collect(),
            Self::Merge { fragments, .. } => ids(fragments),
            Self::DataReplacement { replacements } => replacements.iter().map(|r| r.fragment_id).collect(),
            Self::DataOverlay(overlay) => overlay.groups.iter().map(|group| group.fragment_id).collect(),
            _ => Vec::new(),
        }
    }

    /// The fragments that the operation keeps and changes.
    pub fn updated_fragments(&self) -> &[Fragment] {
        match self {
            Self::Delete {
                updated_fragments, ..
            }
            | Self::Update(Update {
                updated_fragments, ..
            }) => updated_fragments,
            _ => &[],
        }
    }

    /// The fragments that the operation takes away.
    pub fn removed_fragment_ids(&self) -> &[u64] {
        match self {
            Self::Delete {
                deleted_fragment_ids, ..
            } => deleted_fragment_ids,
            Self::Update(update) => &update.removed_fragment_ids,
            _ => &[],
        }
    }
}
