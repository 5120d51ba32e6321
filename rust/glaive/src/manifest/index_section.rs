//! The index section of a manifest (format chapter 31, 8). Its entries are checked, and otherwise carried as bytes.

use std::collections::HashSet;

use bytes::Bytes;
use glaive_file::{Error, Result};
use prost::Message;

use super::Manifest;
use crate::proto::lance::table as pb;

/// Checks the entries of an index section against its manifest.
///
/// # Errors
/// Corrupt, naming the index.
pub(super) fn check(bytes: &Bytes, manifest: &Manifest) -> Result<()> {
    let section = pb::IndexSection::decode(bytes.clone())?;
    section.indices.iter().try_for_each(|entry| {
        check_entry(entry, manifest).map_err(|e| e.context(format!("index '{}'", entry.name)))
    })
}

fn check_entry(entry: &pb::IndexMetadata, manifest: &Manifest) -> Result<()> {
    if entry.uuid.as_ref().is_none_or(|id| id.uuid.len() != 16) {
        return Err(Error::corrupt("the uuid does not have 16 bytes"));
    }
    let bitmap = entry.fragment_bitmap.as_ref();
    if !bitmap.is_empty() && roaring::RoaringBitmap::deserialize_from(bitmap).is_err() {
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
    let known = |base: u32| manifest.base_paths.iter().any(|path| path.id == base);
    match entry.base_id {
        Some(base) if !known(base) => Err(Error::corrupt(format!("unknown base path {base}"))),
        _ => Ok(()),
    }
}

/// Whether an index of a checked section stores columns that it is not keyed by.
pub fn has_covering_fields(section: &Bytes) -> bool {
    pb::IndexSection::decode(section.clone()).is_ok_and(|section| {
        section
            .indices
            .iter()
            .any(|entry| !entry.covering_fields.is_empty())
    })
}
