//! The state of a table at one version: schema, fragments, maps and counters (format chapter 30).
//!
//! A manifest knows nothing of pages or scans. What this engine does not model yet stays in its protobuf form, so
//! that writing the next version loses nothing.

pub mod feature_flags;
mod fragment;
mod framing;
pub mod indices;
mod names;
mod wire;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use glaive_file::{Error, FileVersion, Result, Schema};
use prost::Message;

pub use feature_flags::FeatureFlags;
pub use fragment::{DataFile, DeletionFile, DeletionFileType, Fragment, TOMBSTONE};
pub use framing::ManifestFile;
pub use indices::{Index, IndexSection};
pub use names::{DETACHED, HINT, Naming, VERSIONS, attached_versions};

use crate::proto::lance::table as pb;
use wire::{messages, put_message, unknown_fields};

/// Field numbers of `Manifest`.
const KNOWN: [u32; 26] = [
    1, FRAGMENTS, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
];

/// Field number of the fragments.
const FRAGMENTS: u32 = 2;

/// Largest manifest file that is read.
pub const MAX_MANIFEST_BYTES: u64 = 4 << 30;

/// One version of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Version number, from 1.
    pub version: u64,
    /// Fields with ids, and schema metadata.
    pub schema: Schema,
    /// Fragments in stored order.
    pub fragments: Vec<Arc<Fragment>>,
    /// Wall clock of the commit, in UTC.
    pub timestamp: DateTime<Utc>,
    /// Feature words.
    pub flags: FeatureFlags,
    /// Highest fragment id ever used or reserved; `None` if there never was one.
    pub max_fragment_id: Option<u32>,
    /// Name inside `_transactions`; may be empty.
    pub transaction_file: String,
    /// Who wrote it.
    pub writer_version: Option<pb::manifest::WriterVersion>,
    /// Next unused stable row id.
    pub next_row_id: u64,
    /// Version of new data files when a writer names none.
    pub data_version: FileVersion,
    /// Table config.
    pub config: BTreeMap<String, String>,
    /// Free metadata of the table.
    pub table_metadata: BTreeMap<String, String>,
    /// Other places that hold files of this table.
    pub base_paths: Vec<pb::BasePath>,
    /// Branch name; `None` for main.
    pub branch: Option<String>,
    /// Copy of the transaction's tag; unused.
    pub tag: String,
    /// Largest field id ever used, in tables that never use one again.
    pub max_allocated_field_id: Option<i32>,
    /// Stored fields that this engine does not know.
    pub unknown: Bytes,
}

impl Manifest {
    /// All data files of all fragments.
    pub fn data_files(&self) -> impl Iterator<Item = &DataFile> {
        self.fragments.iter().flat_map(|fragment| &fragment.files)
    }

    /// The fragment of that id.
    pub fn fragment(&self, id: u32) -> Option<&Arc<Fragment>> {
        self.fragments.iter().find(|fragment| fragment.id == id)
    }

    /// The highest fragment id that was ever used or reserved.
    pub fn highest_fragment_id(&self) -> Option<u32> {
        let ids = self.fragments.iter().map(|fragment| fragment.id);
        ids.max().max(self.max_fragment_id)
    }

    /// The largest field id of the schema and the data files; -1 if there is none. New fields get larger ones.
    pub fn highest_field_id(&self) -> i32 {
        let of_files = self
            .data_files()
            .flat_map(|file| file.fields.iter().copied())
            .max();
        let of_schema = self.schema.max_field_id();
        let used = of_files.max(of_schema).max(self.max_allocated_field_id);
        used.unwrap_or(-1).max(-1)
    }

    /// The first id for a new fragment.
    ///
    /// # Errors
    /// Invalid input if the ids are used up.
    pub fn next_fragment_id(&self) -> Result<u32> {
        match self.highest_fragment_id() {
            None => Ok(0),
            Some(id) => id
                .checked_add(1)
                .ok_or_else(|| Error::invalid_input("the table has used up all fragment ids")),
        }
    }

    /// Reads the message and makes the checks of format chapter 30, 16, in the order of its feature checks first.
    ///
    /// # Errors
    /// Corrupt, naming what is wrong; unsupported for features and files of another kind.
    pub fn from_proto(stored: pb::Manifest) -> Result<Self> {
        let flags = FeatureFlags {
            reader: stored.reader_feature_flags,
            writer: stored.writer_feature_flags,
        };
        flags.check_readable(stored.max_allocated_field_id.is_some())?;
        if stored.fragment_tree.is_some() {
            return Err(Error::unsupported(
                "Not supported: the table keeps its fragments in a tree",
            ));
        }
        if stored.blob_dataset_version != 0 {
            return Err(Error::unsupported(
                "Not supported: the blob columns are in a second dataset (blob dataset)",
            ));
        }
        let schema = Schema::from_proto(&stored.fields, &stored.schema_metadata)?;
        let fragments = stored
            .fragments
            .into_iter()
            .map(|f| Fragment::from_proto(f).map(Arc::new));
        let fragments = fragments.collect::<Result<Vec<_>>>()?;
        let data_version = data_version(stored.data_format.as_ref(), flags, &fragments)?;
        let manifest = Self {
            version: stored.version,
            schema,
            fragments,
            timestamp: timestamp(stored.timestamp)?,
            flags,
            max_fragment_id: stored.max_fragment_id,
            transaction_file: stored.transaction_file,
            writer_version: stored.writer_version,
            next_row_id: stored.next_row_id,
            data_version,
            config: stored.config,
            table_metadata: stored.table_metadata,
            base_paths: stored.base_paths,
            branch: stored.branch,
            tag: stored.tag,
            max_allocated_field_id: stored.max_allocated_field_id,
            unknown: Bytes::new(),
        };
        manifest.check()?;
        Ok(manifest)
    }

    /// Takes the fields that this engine does not know from the stored message that the manifest was made from.
    pub(super) fn keep_unknown(&mut self, stored: &Bytes) -> Result<()> {
        self.unknown = unknown_fields(stored, &KNOWN)?;
        for (fragment, stored) in self.fragments.iter_mut().zip(messages(stored, FRAGMENTS)?) {
            fragment::keep_unknown(fragment, &stored)?;
        }
        Ok(())
    }

    /// The bytes of `message`, which is the stored form of this manifest, with the fields that this engine does not
    /// know.
    pub(super) fn encode(&self, mut message: pb::Manifest) -> Vec<u8> {
        if !self.fragments.iter().any(|fragment| fragment.has_unknown()) {
            let mut out = message.encode_to_vec();
            out.extend_from_slice(&self.unknown);
            return out;
        }
        message.fragments.clear();
        let mut out = message.encode_to_vec();
        for fragment in &self.fragments {
            put_message(&mut out, FRAGMENTS, &fragment.encode());
        }
        out.extend_from_slice(&self.unknown);
        out
    }

    /// Checks what concerns more than one fragment; also before a manifest is written.
    pub(crate) fn check(&self) -> Result<()> {
        let mut ids = HashSet::new();
        if let Some(fragment) = self.fragments.iter().find(|fragment| !ids.insert(fragment.id)) {
            return Err(Error::corrupt(format!(
                "two fragments have the id {}",
                fragment.id
            )));
        }
        let mut bases = HashSet::new();
        if let Some(base) = self.base_paths.iter().find(|base| !bases.insert(base.id)) {
            return Err(Error::corrupt(format!("two base paths have the id {}", base.id)));
        }
        for fragment in &self.fragments {
            let of_files = fragment.files.iter().filter_map(|file| file.base_id);
            let of_deletions = fragment.deletion_file.iter().filter_map(|file| file.base_id);
            if let Some(base) = of_files.chain(of_deletions).find(|base| !bases.contains(base)) {
                return Err(Error::corrupt(format!(
                    "fragment {}: unknown base path {base}",
                    fragment.id
                )));
            }
            let stable = self.flags.reader & feature_flags::STABLE_ROW_IDS != 0;
            if stable && fragment.rest.row_id_sequence.is_none() {
                return Err(Error::corrupt(format!(
                    "fragment {} has no row ids, but the table has",
                    fragment.id
                )));
            }
        }
        self.check_file_versions()
    }

    /// Which file versions may stand side by side (format chapter 30, 10).
    fn check_file_versions(&self) -> Result<()> {
        let mixed = self.flags.reader & feature_flags::MIXED_FILE_VERSIONS != 0;
        let legacy = self.data_files().filter(|file| file.version.is_legacy()).count();
        let all = self.data_files().count();
        if self.data_version.is_legacy() && mixed {
            return Err(Error::corrupt("data format 0.1 cannot be mixed with others"));
        }
        if !self.data_version.is_legacy() && legacy > 0 {
            return Err(Error::corrupt(
                "data files of version 0.1 in a table of a later version",
            ));
        }
        let differs = |file: &DataFile| file.version != self.data_version;
        if !self.data_version.is_legacy() && !mixed && all > 0 && self.data_files().any(differs) {
            return Err(Error::corrupt(format!(
                "data files of another version than {} without the feature 'mixed data file versions'",
                self.data_version
            )));
        }
        Ok(())
    }

    /// The stored form, without the positions of sections.
    pub fn to_proto(&self) -> pb::Manifest {
        pb::Manifest {
            fields: stored_fields(&self.schema),
            fragments: self
                .fragments
                .iter()
                .map(|fragment| fragment.to_proto())
                .collect(),
            version: self.version,
            schema_metadata: self.schema.metadata_to_proto(),
            timestamp: Some(prost_types::Timestamp {
                seconds: self.timestamp.timestamp(),
                nanos: i32::try_from(self.timestamp.timestamp_subsec_nanos()).unwrap_or(0),
            }),
            tag: self.tag.clone(),
            reader_feature_flags: self.flags.reader,
            writer_feature_flags: self.flags.writer,
            max_fragment_id: self.max_fragment_id,
            transaction_file: self.transaction_file.clone(),
            writer_version: self.writer_version.clone(),
            next_row_id: self.next_row_id,
            data_format: Some(pb::manifest::DataStorageFormat {
                file_format: "lance".to_string(),
                version: self.data_version.to_string(),
            }),
            config: self.config.clone(),
            base_paths: self.base_paths.clone(),
            table_metadata: self.table_metadata.clone(),
            branch: self.branch.clone(),
            max_allocated_field_id: self.max_allocated_field_id,
            ..Default::default()
        }
    }
}

/// Who writes manifests here.
pub fn this_writer() -> pb::manifest::WriterVersion {
    pb::manifest::WriterVersion {
        library: "glaive".to_string(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        prerelease: None,
        build_metadata: None,
    }
}

/// The declared version of data files, or what the files say where an early writer declared none.
fn data_version(
    declared: Option<&pb::manifest::DataStorageFormat>,
    flags: FeatureFlags,
    fragments: &[Arc<Fragment>],
) -> Result<FileVersion> {
    let of_files = fragments
        .iter()
        .flat_map(|fragment| &fragment.files)
        .map(|file| file.version);
    let of_files: HashSet<FileVersion> = of_files.collect();
    let declared = match declared {
        None => None,
        Some(format) if format.file_format == "lance" => {
            Some(FileVersion::from_manifest_str(&format.version)?)
        }
        Some(format) => {
            return Err(Error::corrupt(format!(
                "data file format '{}'",
                format.file_format
            )));
        }
    };
    let mut versions = of_files.iter().copied();
    match (declared, versions.next(), versions.next()) {
        // Writers around 0.16 declared 0.1 for tables of later files.
        (Some(FileVersion::V0_1), Some(only), None) | (None, Some(only), None) => Ok(only),
        (Some(version), ..) => Ok(version),
        (None, None, _) if flags.writer & feature_flags::V2_FORMAT != 0 => Ok(FileVersion::DEFAULT),
        (None, None, _) => Ok(FileVersion::V0_1),
        (None, Some(_), Some(_)) => Err(Error::corrupt(
            "no data format declared, and files of several versions",
        )),
    }
}

fn timestamp(stored: Option<prost_types::Timestamp>) -> Result<DateTime<Utc>> {
    let stored = stored.unwrap_or_default();
    u32::try_from(stored.nanos)
        .ok()
        .and_then(|nanos| DateTime::from_timestamp(stored.seconds, nanos))
        .ok_or_else(|| Error::corrupt(format!("timestamp of {} s, {} ns", stored.seconds, stored.nanos)))
}

/// The fields of a table. Dictionary columns carry a dictionary message without content (format chapter 30, 3.4), which old readers ask
/// for; in a data file they do not.
fn stored_fields(schema: &Schema) -> Vec<glaive_file::proto::lance::file::Field> {
    let mut fields = schema.to_proto();
    for field in &mut fields {
        if field.logical_type.starts_with("dict:") {
            field.dictionary.get_or_insert_default();
        }
    }
    fields
}
