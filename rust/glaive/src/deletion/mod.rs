//! Deleted rows of a fragment (format chapter 30, 8).
//!
//! A deletion file lists the physical offsets of all deleted rows, either as an Arrow IPC file with one column of
//! unsorted `u32`, or as a portable Roaring bitmap. In memory both are a bitmap.

mod arrow_file;

use std::ops::Range;

use bytes::Bytes;
use glaive_file::io::Storage;
use glaive_file::{Error, Result};
use roaring::RoaringBitmap;

use crate::manifest::{DeletionFile, DeletionFileType};

/// The deleted row offsets of one fragment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeletionVector(RoaringBitmap);

impl DeletionVector {
    /// Decodes a deletion file of a fragment with `physical_rows` rows.
    ///
    /// # Errors
    /// Corrupt: a malformed file, an offset beyond the fragment, or another count than the manifest says.
    pub fn decode(file: &DeletionFile, bytes: &Bytes, physical_rows: u64) -> Result<Self> {
        let deleted = match file.file_type {
            DeletionFileType::Arrow => arrow_file::decode(bytes, physical_rows)?,
            DeletionFileType::Bitmap => RoaringBitmap::deserialize_from(bytes.as_ref())
                .map_err(|e| Error::corrupt(format!("malformed bitmap: {e}")))?,
        };
        if deleted.max().is_some_and(|max| u64::from(max) >= physical_rows) {
            return Err(Error::corrupt(format!(
                "a deleted row is not among the {physical_rows} rows"
            )));
        }
        match file.num_deleted_rows {
            Some(expected) if expected != deleted.len() => Err(Error::corrupt(format!(
                "{} rows are deleted, but the manifest says {expected}",
                deleted.len()
            ))),
            _ => Ok(Self(deleted)),
        }
    }

    /// The deleted offsets.
    pub(crate) fn bitmap(&self) -> &RoaringBitmap {
        &self.0
    }

    /// Number of deleted rows.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether no row is deleted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the row at a physical offset is deleted.
    pub fn contains(&self, offset: u32) -> bool {
        self.0.contains(offset)
    }

    /// The deleted offsets of a physical range, ascending.
    pub fn iter_range(&self, range: &Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let range = range.clone();
        let mut offsets = self.0.iter();
        offsets.advance_to(u32::try_from(range.start).unwrap_or(u32::MAX));
        offsets
            .map(u64::from)
            .take_while(move |offset| range.contains(offset))
    }

    /// The physical offset of the live row number `position`, counted from 0.
    ///
    /// The answer is the smallest offset with more than `position` live rows up to it.
    pub fn physical_offset(&self, position: u64) -> u64 {
        let live_up_to = |offset: u64| match u32::try_from(offset) {
            Ok(offset) => u64::from(offset) + 1 - self.0.rank(offset),
            Err(_) => offset + 1 - self.0.len(),
        };
        let (mut low, mut high) = (position, position + self.0.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if live_up_to(middle) > position {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Whether a row of a physical range is deleted.
    pub fn intersects(&self, range: &Range<u64>) -> bool {
        let (Ok(start), Some(last)) = (u32::try_from(range.start), range.end.checked_sub(1)) else {
            return false;
        };
        range.start < range.end
            && self
                .0
                .range_cardinality(start..=u32::try_from(last).unwrap_or(u32::MAX))
                > 0
    }
}

impl From<RoaringBitmap> for DeletionVector {
    fn from(offsets: RoaringBitmap) -> Self {
        Self(offsets)
    }
}

/// From so many deleted rows on, other writers store a bitmap.
const BITMAP_FROM: u64 = 5000;

impl DeletionFileType {
    /// How a first deletion of so many rows is stored.
    pub fn for_rows(rows: u64) -> Self {
        if rows < BITMAP_FROM {
            Self::Arrow
        } else {
            Self::Bitmap
        }
    }
}

/// Writes the deletion file of a fragment under a new name, computed from version `read_version`.
///
/// # Errors
/// I/O.
pub(crate) fn write_deletions(
    storage: &dyn Storage,
    fragment: u32,
    read_version: u64,
    deletions: &DeletionVector,
    file_type: DeletionFileType,
) -> Result<DeletionFile> {
    let file = DeletionFile {
        file_type,
        read_version,
        id: rand::random(),
        num_deleted_rows: Some(deletions.len()),
        base_id: None,
    };
    let bytes = match file_type {
        DeletionFileType::Arrow => arrow_file::encode(&deletions.0)?,
        DeletionFileType::Bitmap => bitmap_bytes(&deletions.0)?,
    };
    storage.put_if_absent(&file.path(fragment), &bytes)?;
    Ok(file)
}

fn bitmap_bytes(offsets: &RoaringBitmap) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(offsets.serialized_size());
    offsets.serialize_into(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_positions_skip_deleted_rows() {
        let deleted = [0, 1, 5, 9];
        let vector = DeletionVector(deleted.into_iter().collect());
        let live: Vec<u64> = (0..20)
            .filter(|row| !deleted.contains(row))
            .map(u64::from)
            .collect();
        for (position, physical) in live.iter().enumerate() {
            assert_eq!(vector.physical_offset(position as u64), *physical);
        }
        assert_eq!(DeletionVector::default().physical_offset(7), 7);
        assert!(vector.intersects(&(4..6)) && !vector.intersects(&(2..5)) && !vector.intersects(&(5..5)));
        assert!(!vector.intersects(&(10..1 << 33)));
    }
}
