//! Fragments, data files and deletion files as a manifest lists them (format chapter 30, 7 and 8.1).

use std::sync::Arc;

use bytes::Bytes;
use glaive_file::{Error, FileVersion, Result};
use prost::Message;

use super::wire::{messages, put_message, unknown_fields};
use crate::proto::lance::table as pb;

/// Field numbers of `DataFragment`. Those of earlier drafts, 6, 8 and 10, count as unknown.
const KNOWN: [u32; 13] = [1, FILES, 3, 4, 5, 7, 9, 11, 12, 13, 14, 15, 16];

/// Field number of the data files.
const FILES: u32 = 2;

/// Field numbers of `DataFile`.
const KNOWN_OF_FILE: [u32; 7] = [1, 2, 3, 4, 5, 6, 7];

/// Replaces the id of a column whose values were superseded.
pub const TOMBSTONE: i32 = -2;

/// A horizontal slice of a table: files with the same rows and disjoint columns, and the rows deleted since.
#[derive(Debug, Clone, PartialEq)]
pub struct Fragment {
    /// Unique in the table, never used again.
    pub id: u32,
    /// Data files; each has all rows.
    pub files: Vec<DataFile>,
    /// Rows that are gone.
    pub deletion_file: Option<DeletionFile>,
    /// Rows in each file, deleted ones included. `None`: an early writer did not say.
    pub physical_rows: Option<u64>,
    /// The message without the fields above: row ids, version stamps, overlays, metadata.
    pub rest: pb::DataFragment,
    /// Stored fields that this engine does not know.
    pub unknown: Bytes,
}

/// One data file of a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Relative to the `data` directory of its base.
    pub path: String,
    /// Field id of each column; negative ids are skipped.
    pub fields: Vec<i32>,
    /// Column number of each id in `fields`; empty for 0.1.
    pub column_indices: Vec<i32>,
    /// Format of the file.
    pub version: FileVersion,
    /// Bytes, if known.
    pub size: Option<u64>,
    /// Base path that holds the file; `None` for the table itself.
    pub base_id: Option<u32>,
    /// Stored fields that this engine does not know.
    pub unknown: Bytes,
}

/// How a deletion file is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionFileType {
    /// Arrow IPC file with one column of row offsets.
    Arrow,
    /// Roaring bitmap of row offsets.
    Bitmap,
}

/// Where the deleted rows of a fragment are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionFile {
    /// How the rows are stored.
    pub file_type: DeletionFileType,
    /// Version that the deletion was computed from.
    pub read_version: u64,
    /// Random part of the name.
    pub id: u64,
    /// Deleted rows, if known.
    pub num_deleted_rows: Option<u64>,
    /// Base path that holds the file; `None` for the table itself.
    pub base_id: Option<u32>,
}

impl Fragment {
    /// A new fragment, whose id is assigned on commit.
    pub fn new(files: Vec<DataFile>, physical_rows: u64) -> Self {
        let rest = pb::DataFragment::default();
        Self {
            id: 0,
            files,
            deletion_file: None,
            physical_rows: Some(physical_rows),
            rest,
            unknown: Bytes::new(),
        }
    }

    /// Deleted rows; 0 without deletion file, `None` if the manifest does not say.
    pub fn num_deleted_rows(&self) -> Option<u64> {
        self.deletion_file
            .as_ref()
            .map_or(Some(0), |file| file.num_deleted_rows)
    }

    /// Whether row ids or version stamps are stored in hidden columns.
    pub fn has_lineage_columns(&self) -> bool {
        use pb::data_fragment::{CreatedAtVersionSequence, LastUpdatedAtVersionSequence, RowIdSequence};
        matches!(self.rest.row_id_sequence, Some(RowIdSequence::ColumnRowIds(_)))
            || matches!(
                self.rest.created_at_version_sequence,
                Some(CreatedAtVersionSequence::ColumnCreatedAtVersions(_))
            )
            || matches!(
                self.rest.last_updated_at_version_sequence,
                Some(LastUpdatedAtVersionSequence::ColumnLastUpdatedAtVersions(_))
            )
    }

    /// Reads the message and checks it by itself.
    ///
    /// # Errors
    /// Corrupt, naming the fragment and what is wrong.
    pub fn from_proto(mut stored: pb::DataFragment) -> Result<Self> {
        let place = |e: Error| e.context(format!("fragment {}", stored.id));
        let id =
            u32::try_from(stored.id).map_err(|_| place(Error::corrupt("the id does not fit 32 bits")))?;
        let files = std::mem::take(&mut stored.files);
        let files = files
            .into_iter()
            .map(DataFile::from_proto)
            .collect::<Result<Vec<_>>>()
            .map_err(place)?;
        let deletion_file = stored.deletion_file.take().map(DeletionFile::from_proto);
        let deletion_file = deletion_file.transpose().map_err(place)?;
        let physical_rows = Some(std::mem::take(&mut stored.physical_rows)).filter(|rows| *rows > 0);
        stored.id = 0;
        let fragment = Self {
            id,
            files,
            deletion_file,
            physical_rows,
            rest: stored,
            unknown: Bytes::new(),
        };
        fragment
            .check()
            .map_err(|e| e.context(format!("fragment {id}")))?;
        Ok(fragment)
    }

    /// Checks the fragment by itself.
    pub(crate) fn check(&self) -> Result<()> {
        let rows = self.physical_rows.unwrap_or(u64::from(u32::MAX));
        if rows > 1 << 32 {
            return Err(Error::corrupt(format!(
                "{rows} rows; a fragment has at most 2^32"
            )));
        }
        if self.num_deleted_rows().is_some_and(|deleted| deleted > rows) {
            return Err(Error::corrupt("more rows are deleted than there are"));
        }
        let mut ids: Vec<i32> = self
            .files
            .iter()
            .flat_map(|f| &f.fields)
            .copied()
            .filter(|id| *id >= 0)
            .collect();
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair.first() == pair.last()) {
            Some(pair) => Err(Error::corrupt(format!(
                "field {pair:?} is in two columns of the fragment"
            ))),
            None => Ok(()),
        }
    }

    /// Whether a field was stored that this engine does not know.
    pub(super) fn has_unknown(&self) -> bool {
        !self.unknown.is_empty() || self.files.iter().any(|file| !file.unknown.is_empty())
    }

    /// The bytes of the stored form, with the fields that this engine does not know.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut message = self.to_proto();
        let files = std::mem::take(&mut message.files);
        let mut out = message.encode_to_vec();
        for (file, stored) in self.files.iter().zip(files) {
            let mut bytes = stored.encode_to_vec();
            bytes.extend_from_slice(&file.unknown);
            put_message(&mut out, FILES, &bytes);
        }
        out.extend_from_slice(&self.unknown);
        out
    }

    /// Takes over what this engine does not know of a former state of the fragment, where this one has nothing.
    pub(crate) fn inherit_unknown(&mut self, former: &Self) {
        if self.unknown.is_empty() {
            self.unknown = former.unknown.clone();
        }
        for file in self.files.iter_mut().filter(|file| file.unknown.is_empty()) {
            let same = |old: &&DataFile| (&old.path, old.base_id) == (&file.path, file.base_id);
            if let Some(old) = former.files.iter().find(same) {
                file.unknown = old.unknown.clone();
            }
        }
    }

    /// The stored form.
    pub fn to_proto(&self) -> pb::DataFragment {
        pb::DataFragment {
            id: self.id.into(),
            files: self.files.iter().map(DataFile::to_proto).collect(),
            deletion_file: self.deletion_file.as_ref().map(DeletionFile::to_proto),
            physical_rows: self.physical_rows.unwrap_or(0),
            ..self.rest.clone()
        }
    }
}

impl DataFile {
    /// Whether no column of the file is alive.
    pub fn is_dead(&self) -> bool {
        self.fields.iter().all(|id| *id == TOMBSTONE)
    }

    /// Reads the message and checks it by itself.
    ///
    /// # Errors
    /// Corrupt, naming the file and what is wrong.
    pub fn from_proto(stored: pb::DataFile) -> Result<Self> {
        let place = |e: Error| e.context(format!("data file '{}'", stored.path));
        let version =
            FileVersion::from_manifest_numbers(stored.file_major_version, stored.file_minor_version);
        let version = version.map_err(place)?;
        check_columns(&stored, version).map_err(place)?;
        check_relative(&stored.path).map_err(place)?;
        Ok(Self {
            path: stored.path,
            fields: stored.fields,
            column_indices: stored.column_indices,
            version,
            size: Some(stored.file_size_bytes).filter(|size| *size > 0),
            base_id: stored.base_id,
            unknown: Bytes::new(),
        })
    }

    /// The stored form.
    pub fn to_proto(&self) -> pb::DataFile {
        let (file_major_version, file_minor_version) = self.version.manifest_numbers();
        pb::DataFile {
            path: self.path.clone(),
            fields: self.fields.clone(),
            column_indices: self.column_indices.clone(),
            file_major_version,
            file_minor_version,
            file_size_bytes: self.size.unwrap_or(0),
            base_id: self.base_id,
        }
    }
}

impl DeletionFile {
    /// Path below the root of its base.
    pub fn path(&self, fragment: u32) -> String {
        let suffix = match self.file_type {
            DeletionFileType::Arrow => "arrow",
            DeletionFileType::Bitmap => "bin",
        };
        format!("_deletions/{fragment}-{}-{}.{suffix}", self.read_version, self.id)
    }

    fn from_proto(stored: pb::DeletionFile) -> Result<Self> {
        use pb::deletion_file::DeletionFileType as Stored;
        let file_type = match Stored::try_from(stored.file_type) {
            Ok(Stored::ArrowArray) => DeletionFileType::Arrow,
            Ok(Stored::Bitmap) => DeletionFileType::Bitmap,
            Err(_) => {
                return Err(Error::corrupt(format!(
                    "unknown deletion file type {}",
                    stored.file_type
                )));
            }
        };
        Ok(Self {
            file_type,
            read_version: stored.read_version,
            id: stored.id,
            num_deleted_rows: Some(stored.num_deleted_rows).filter(|rows| *rows > 0),
            base_id: stored.base_id,
        })
    }

    fn to_proto(&self) -> pb::DeletionFile {
        use pb::deletion_file::DeletionFileType as Stored;
        let file_type = match self.file_type {
            DeletionFileType::Arrow => Stored::ArrowArray,
            DeletionFileType::Bitmap => Stored::Bitmap,
        };
        pb::DeletionFile {
            file_type: file_type.into(),
            read_version: self.read_version,
            id: self.id,
            num_deleted_rows: self.num_deleted_rows.unwrap_or(0),
            base_id: self.base_id,
        }
    }
}

/// Takes the fields that this engine does not know from the stored message of a fragment.
pub(super) fn keep_unknown(fragment: &mut Arc<Fragment>, stored: &Bytes) -> Result<()> {
    let unknown = unknown_fields(stored, &KNOWN)?;
    let files = messages(stored, FILES)?;
    let of_files = files.iter().map(|file| unknown_fields(file, &KNOWN_OF_FILE));
    let of_files = of_files.collect::<Result<Vec<_>>>()?;
    if unknown.is_empty() && of_files.iter().all(Bytes::is_empty) {
        return Ok(());
    }
    let fragment = Arc::make_mut(fragment);
    fragment.unknown = unknown;
    for (file, unknown) in fragment.files.iter_mut().zip(of_files) {
        file.unknown = unknown;
    }
    Ok(())
}

fn check_columns(stored: &pb::DataFile, version: FileVersion) -> Result<()> {
    if stored.fields.is_empty() {
        return Err(Error::corrupt("the file lists no field"));
    }
    if version.is_legacy() {
        return Ok(());
    }
    if stored.fields.len() != stored.column_indices.len() {
        let (fields, columns) = (stored.fields.len(), stored.column_indices.len());
        return Err(Error::corrupt(format!(
            "{fields} fields but {columns} column indices"
        )));
    }
    let mut columns: Vec<i32> = stored
        .column_indices
        .iter()
        .copied()
        .filter(|column| *column != -1)
        .collect();
    columns.sort_unstable();
    match columns.windows(2).any(|pair| pair.first() == pair.last())
        || columns.first() < Some(&0) && !columns.is_empty()
    {
        true => Err(Error::corrupt("a column index is negative or occurs twice")),
        false => Ok(()),
    }
}

/// Paths come from the manifest and must not leave the directory of their base.
fn check_relative(path: &str) -> Result<()> {
    let bad = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains('\0');
    match path.split('/').any(bad) {
        true => Err(Error::corrupt("not a relative path")),
        false => Ok(()),
    }
}
