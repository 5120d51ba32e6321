//! The two feature words (format chapter 30, 9).
//!
//! A reader must refuse a manifest whose reader word has a bit that it does not know or support, a writer likewise
//! with the writer word. Some bits must be equal in both words; those and a few others stay once set.

use glaive_file::{Error, Result};

use super::Manifest;

/// A fragment has a deletion file.
pub const DELETION_FILES: u64 = 1 << 0;
/// Rows keep their id when they move.
pub const STABLE_ROW_IDS: u64 = 1 << 1;
/// Deprecated; carries no meaning beside `data_format`.
pub const V2_FORMAT: u64 = 1 << 2;
/// The config map is not empty.
pub const TABLE_CONFIG: u64 = 1 << 3;
/// Files live under other base paths.
pub const BASE_PATHS: u64 = 1 << 4;
/// Transactions are inline only.
pub const NO_TRANSACTION_FILES: u64 = 1 << 5;
/// Cells of data files are replaced by overlay files.
pub const DATA_OVERLAYS: u64 = 1 << 6;
/// An index stores columns that it is not keyed by.
pub const COVERING_COLUMNS: u64 = 1 << 7;
/// Data files of several 2.x versions.
pub const MIXED_FILE_VERSIONS: u64 = 1 << 8;
/// A tagged fragment reuse index.
pub const TAGGED_FRAGMENT_REUSE: u64 = 1 << 10;
/// Row ids and version stamps live in hidden columns.
pub const LINEAGE_COLUMNS: u64 = 1 << 11;
/// Blob files are managed by the table.
pub const MANAGED_BLOBS: u64 = 1 << 14;
/// Field ids are never used again.
pub const UNIQUE_FIELD_IDS: u64 = 1 << 15;
/// Zone statistics.
pub const ZONE_STATISTICS: u64 = 1 << 16;

/// Bits of the reader word that this engine reads.
pub const READABLE: u64 = DELETION_FILES
    | STABLE_ROW_IDS
    | V2_FORMAT
    | TABLE_CONFIG
    | BASE_PATHS
    | NO_TRANSACTION_FILES
    | COVERING_COLUMNS
    | MIXED_FILE_VERSIONS
    | LINEAGE_COLUMNS;

/// Bits of the writer word that this engine can write on top of.
///
/// Stable row ids pass this check: the operations that would have to assign ids refuse them by name.
pub const WRITABLE: u64 = READABLE & !LINEAGE_COLUMNS;

/// Bits that must be equal in both words, in the order of the checks.
const PAIRED: [(u64, &str); 4] = [
    (TAGGED_FRAGMENT_REUSE, "tagged fragment reuse index"),
    (MIXED_FILE_VERSIONS, "mixed data file versions"),
    (MANAGED_BLOBS, "managed blobs"),
    (ZONE_STATISTICS, "zone statistics"),
];

/// Bits that stay in both words once they are set.
const STICKY: u64 = TAGGED_FRAGMENT_REUSE | MIXED_FILE_VERSIONS | MANAGED_BLOBS | ZONE_STATISTICS;

/// The reader word and the writer word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeatureFlags {
    /// Features that a reader must know.
    pub reader: u64,
    /// Features that a writer must know.
    pub writer: u64,
}

impl FeatureFlags {
    /// Consistency of the words and the support for reading, in the order of the format's checks.
    ///
    /// # Errors
    /// Corrupt for contradictory words; unsupported, naming the bits, for a table that cannot be read.
    pub fn check_readable(self, has_max_allocated_field_id: bool) -> Result<()> {
        for (bit, name) in PAIRED {
            if (self.reader ^ self.writer) & bit != 0 {
                return Err(Error::corrupt(format!(
                    "feature '{name}' is set in one of the two feature words only"
                )));
            }
        }
        let unique_ids = self.writer & UNIQUE_FIELD_IDS != 0;
        if unique_ids != has_max_allocated_field_id || self.reader & UNIQUE_FIELD_IDS != 0 {
            return Err(Error::corrupt(
                "the feature words and max_allocated_field_id contradict each other",
            ));
        }
        match self.reader & !READABLE {
            0 => Ok(()),
            bits => Err(Error::unsupported(format!(
                "Not supported: the table cannot be read by this version: it uses {}",
                describe(bits)
            ))),
        }
    }

    /// Support for writing the next version.
    ///
    /// # Errors
    /// Unsupported, naming the bits.
    pub fn check_writable(self) -> Result<()> {
        match self.writer & !WRITABLE {
            0 => Ok(()),
            bits => Err(Error::unsupported(format!(
                "Not supported: the table cannot be written by this version: it uses {}",
                describe(bits)
            ))),
        }
    }

    /// The words of a manifest that is about to be written: from its content, with what must stay.
    ///
    /// `covering`: whether an index of the version has covering columns.
    pub fn of_next(manifest: &Manifest, covering: bool, previous: Self) -> Self {
        let has_overlays = manifest.fragments.iter().any(|f| !f.rest.overlays.is_empty());
        let has_lineage = manifest.fragments.iter().any(|f| f.has_lineage_columns());
        let has_deletions = manifest.fragments.iter().any(|f| f.deletion_file.is_some());
        let has_row_ids = manifest
            .fragments
            .iter()
            .any(|f| f.rest.row_id_sequence.is_some());
        let is_mixed = manifest
            .data_files()
            .any(|file| file.version != manifest.data_version);
        let both = bit(has_deletions, DELETION_FILES)
            | bit(has_row_ids, STABLE_ROW_IDS)
            | bit(!manifest.base_paths.is_empty(), BASE_PATHS)
            | bit(has_overlays, DATA_OVERLAYS)
            | bit(is_mixed, MIXED_FILE_VERSIONS)
            | bit(has_lineage, LINEAGE_COLUMNS)
            | bit(covering, COVERING_COLUMNS);
        let kept = (previous.reader | previous.writer) & (STICKY | STABLE_ROW_IDS);
        let writer = bit(!manifest.config.is_empty(), TABLE_CONFIG)
            | bit(manifest.transaction_file.is_empty(), NO_TRANSACTION_FILES)
            | bit(manifest.max_allocated_field_id.is_some(), UNIQUE_FIELD_IDS);
        Self {
            reader: both | kept,
            writer: both | kept | writer,
        }
    }
}

fn bit(condition: bool, flag: u64) -> u64 {
    if condition { flag } else { 0 }
}

/// The bits by number, with names where there is one.
fn describe(bits: u64) -> String {
    let name = |bit: u64| match 1u64 << bit {
        DATA_OVERLAYS => " (data overlay files)",
        TAGGED_FRAGMENT_REUSE => " (tagged fragment reuse index)",
        LINEAGE_COLUMNS => " (row lineage in hidden columns)",
        MANAGED_BLOBS => " (managed blobs)",
        UNIQUE_FIELD_IDS => " (non-reusable field ids)",
        ZONE_STATISTICS => " (zone statistics)",
        _ => "",
    };
    let bits: Vec<_> = (0..64)
        .filter(|bit| bits >> bit & 1 == 1)
        .map(|bit| format!("feature bit {bit}{}", name(bit)))
        .collect();
    bits.join(", ")
}
