//! The index section of a manifest (format chapter 31, 8): one entry for each segment of each index.
//!
//! An entry is checked, and otherwise carried as the bytes that it was stored in: most kinds of index are unknown here,
//! and must travel on unchanged. Only the bitmap of covered fragments is ever rewritten.

use std::collections::HashSet;

use bytes::Bytes;
use glaive_file::{Context, Error, Result};
use prost::Message;
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::Manifest;
use super::wire::{messages, put_message, unknown_fields};
use crate::proto::lance::table as pb;

/// The index that translates row addresses from before a compaction.
pub const FRAGMENT_REUSE: &str = "__lance_frag_reuse";

/// The state of the log-structured write path.
pub const MEM_WAL: &str = "__lance_mem_wal";

/// Field numbers of `IndexMetadata`.
const KNOWN: [u32; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];

/// One segment of an index.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    metadata: pb::IndexMetadata,
    stored: Bytes,
}

impl Index {
    /// An entry that has not been stored yet.
    ///
    /// # Errors
    /// Corrupt, naming the index and what is wrong with it.
    pub fn new(metadata: pb::IndexMetadata) -> Result<Self> {
        let stored = metadata.encode_to_vec().into();
        Self { metadata, stored }.checked()
    }

    /// Reads a stored `IndexMetadata`.
    ///
    /// # Errors
    /// Corrupt, naming the index and what is wrong with it.
    pub fn decode(stored: Bytes) -> Result<Self> {
        let metadata = pb::IndexMetadata::decode(stored.clone())?;
        Self { metadata, stored }.checked()
    }

    fn checked(self) -> Result<Self> {
        check_entry(&self.metadata).context(|| format!("index '{}'", self.metadata.name))?;
        Ok(self)
    }

    /// The entry of a clone: its files lie below the base path `base`, unless it names one already.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn with_base(&self, base: u32) -> Result<Self> {
        if self.metadata.base_id.is_some() {
            return Ok(self.clone());
        }
        // Fields that follow a message are part of it.
        let field = pb::IndexMetadata {
            base_id: Some(base),
            ..pb::IndexMetadata::default()
        };
        Self::decode([self.stored.as_ref(), &field.encode_to_vec()].concat().into())
    }

    /// What the entry says.
    pub fn metadata(&self) -> &pb::IndexMetadata {
        &self.metadata
    }

    /// The name of the index; all its segments share it.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Names the segment and its directory.
    pub fn uuid(&self) -> Uuid {
        let bytes = self.metadata.uuid.as_ref().map(|id| id.uuid.as_ref());
        bytes
            .and_then(|bytes| Uuid::from_slice(bytes).ok())
            .unwrap_or_default()
    }

    /// The fragments that the segment covers; `None` if the entry does not say. Some may be gone.
    pub fn fragments(&self) -> Option<RoaringBitmap> {
        let bytes = &self.metadata.fragment_bitmap;
        RoaringBitmap::deserialize_from(bytes.as_ref())
            .ok()
            .filter(|_| !bytes.is_empty())
    }

    /// Whether the entry is state of the table rather than an index over columns.
    pub fn is_system(&self) -> bool {
        [FRAGMENT_REUSE, MEM_WAL].contains(&self.name())
    }

    /// The entry with other covered fragments, and everything else as it was.
    pub(crate) fn with_fragments(&self, mut fragments: RoaringBitmap) -> Result<Self> {
        fragments.optimize();
        let mut bytes = Vec::with_capacity(fragments.serialized_size());
        fragments
            .serialize_into(&mut bytes)
            .context(|| "bitmap of fragments")?;
        let metadata = pb::IndexMetadata {
            fragment_bitmap: bytes.into(),
            ..self.metadata.clone()
        };
        self.with_metadata(metadata)
    }

    /// The entry with other known fields. Unknown ones stay.
    pub(crate) fn with_metadata(&self, metadata: pb::IndexMetadata) -> Result<Self> {
        let mut stored = metadata.encode_to_vec();
        stored.extend_from_slice(&unknown_fields(&self.stored, &KNOWN)?);
        let stored = stored.into();
        Self { metadata, stored }.checked()
    }
}

/// The entries of one version.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexSection {
    /// The segments of all indices.
    pub entries: Vec<Index>,
    unknown: Bytes,
}

impl IndexSection {
    /// Reads a stored `IndexSection`.
    ///
    /// # Errors
    /// Corrupt, naming the index.
    pub fn decode(stored: &Bytes) -> Result<Self> {
        let entries = messages(stored, 1)?;
        let entries = entries.into_iter().map(Index::decode).collect::<Result<_>>()?;
        let unknown = unknown_fields(stored, &[1])?;
        Ok(Self { entries, unknown })
    }

    /// The stored form; `None` if there is nothing to store.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for entry in &self.entries {
            put_message(&mut out, 1, &entry.stored);
        }
        out.extend_from_slice(&self.unknown);
        (!out.is_empty()).then_some(out)
    }

    /// Checks the entries against their manifest.
    ///
    /// # Errors
    /// Corrupt, naming the index.
    pub(crate) fn check(&self, manifest: &Manifest) -> Result<()> {
        let known = |base: u32| manifest.base_paths.iter().any(|path| path.id == base);
        for entry in &self.entries {
            if let Some(base) = entry.metadata.base_id
                && !known(base)
            {
                let error = Error::corrupt(format!("unknown base path {base}"));
                return Err(error.context(format!("index '{}'", entry.name())));
            }
        }
        Ok(())
    }

    /// Whether an index stores columns that it is not keyed by.
    pub fn has_covering_fields(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| !entry.metadata.covering_fields.is_empty())
    }

    /// Whether row addresses in index files may be from before a compaction.
    pub fn has_fragment_reuse(&self) -> bool {
        self.entries.iter().any(|entry| entry.name() == FRAGMENT_REUSE)
    }
}

fn check_entry(entry: &pb::IndexMetadata) -> Result<()> {
    if entry.uuid.as_ref().is_none_or(|id| id.uuid.len() != 16) {
        return Err(Error::corrupt("the uuid does not have 16 bytes"));
    }
    let bitmap = entry.fragment_bitmap.as_ref();
    if !bitmap.is_empty() && RoaringBitmap::deserialize_from(bitmap).is_err() {
        return Err(Error::corrupt("the bitmap of fragments is malformed"));
    }
    let covering = &entry.covering_fields;
    let distinct: HashSet<_> = covering.iter().collect();
    let trailing = covering.len() < entry.fields.len() && entry.fields.ends_with(covering);
    let legal = covering.is_empty() || (trailing && distinct.len() == covering.len());
    if !legal {
        return Err(Error::corrupt(
            "the covering fields are not the trailing part of its fields",
        ));
    }
    Ok(())
}
