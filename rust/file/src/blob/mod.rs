//! Values of blob columns: where they are, reading and writing them (format chapter 21, 7).
//!
//! A page of a blob column holds *descriptors*. What a descriptor points at is a range of bytes:
//!
//! | kind | name | bytes are in |
//! |---|---|---|
//! | 0 | inline | the data file itself |
//! | 1 | packed | a side file that several values share |
//! | 2 | dedicated | a side file of its own |
//! | 3 | external | an object that a URI names, absolute or below a base path of the table |
//! | 4, 5 | managed | objects that the table manages; not supported |
//!
//! A side file is known by its id only, from which its name follows ([`side_file_name`]): no path is ever taken from the data
//! for bytes that belong to the table.

mod descriptors;
mod read;
mod write;

use std::fmt::Debug;
use std::sync::Arc;

use crate::io::{FileSink, ReadAt};
use crate::{Error, Result};

pub use descriptors::{BlobPlace, BlobValue, values_of};
pub use read::{BlobHandle, BlobSource};
pub(crate) use read::{as_asked, described};
pub(crate) use write::BlobWriter;

/// Opens files beside a data file that hold its blobs.
pub trait BlobFiles: Debug + Send + Sync {
    /// The side file of that id, which is not 0.
    ///
    /// # Errors
    /// Not found.
    fn side_file(&self, id: u32) -> Result<Arc<dyn ReadAt>>;

    /// The object of an external blob: `uri` is absolute if `base` is 0, else below the base path of that id.
    ///
    /// # Errors
    /// Not found; unsupported for stores that this engine does not know.
    fn external(&self, base: u32, uri: &str) -> Result<Arc<dyn ReadAt>>;
}

/// How a writer stores blobs that do not go into the data file.
pub trait BlobTargets: Send {
    /// Starts the side file of that id.
    fn create_side_file(&mut self, id: u32) -> Result<Box<dyn FileSink>>;

    /// What to do with a blob that is given by its URI.
    ///
    /// # Errors
    /// Invalid input for a URI that may not be stored.
    fn external(&mut self, uri: &str) -> Result<External>;
}

/// A blob that was given by its URI.
#[derive(Debug)]
pub enum External {
    /// The URI is stored: below the base path of that id, or an absolute one if it is 0.
    Reference {
        /// Id of the base path.
        base: u32,
        /// What is stored.
        uri: String,
    },
    /// The bytes are copied.
    Ingest(Arc<dyn ReadAt>),
}

/// Name of a side file: the 32 bits of its id, the lowest first, so that names spread over the key space of a store.
pub fn side_file_name(id: u32) -> String {
    format!("{:032b}.blob", id.reverse_bits())
}

/// Directory of the side files of a data file.
///
/// # Errors
/// Corrupt for a data file whose name does not end in `.lance`.
pub fn side_file_directory(data_file: &str) -> Result<&str> {
    let stem = data_file.strip_suffix(".lance");
    stem.filter(|stem| !stem.is_empty() && !stem.ends_with('/'))
        .ok_or_else(|| {
            Error::corrupt(format!(
                "'{data_file}' has side files, but its name does not end in .lance"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_reversed_bits() {
        assert_eq!(side_file_name(1), format!("1{}.blob", "0".repeat(31)));
        assert_eq!(side_file_name(2), format!("01{}.blob", "0".repeat(30)));
        assert_eq!(side_file_name(u32::MAX), format!("{}.blob", "1".repeat(32)));
    }

    #[test]
    fn the_directory_is_the_stem() {
        assert_eq!(side_file_directory("data/a.lance").unwrap(), "data/a");
        for bad in ["data/a", "data/.lance", ".lance", "a.lance.x"] {
            assert!(side_file_directory(bad).is_err(), "{bad}");
        }
    }
}
