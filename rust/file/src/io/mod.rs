//! Where bytes live: whole objects through [`Storage`], ranges of one object through [`ReadAt`], new objects through
//! [`FileSink`].
//!
//! Decoders name byte ranges and get [`Bytes`]; nothing else in the engine does I/O. Paths are relative to the root of
//! the storage, with `/` between names.

mod fault;
mod local;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;

pub use local::LocalStorage;

use crate::{Error, Result};

/// Gap in bytes up to which two ranges are read by one call: reading 4 KiB too much costs less than a call.
pub const COALESCE_GAP: u64 = 4 * 1024;

/// Most bytes that ranges are joined to; a single larger range is still one call.
pub const COALESCE_LIMIT: u64 = 64 * 1024 * 1024;

/// An object found by [`Storage::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the root.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Time of the last change.
    pub modified: SystemTime,
}

/// What a write survives once it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The end of the process: the operating system has the bytes.
    #[default]
    Process,
    /// A power loss: files and the directories that name them are synced before a call returns. On a local disk
    /// that costs a wait for the device at every file and directory.
    Disk,
}

impl std::str::FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "process" => Ok(Self::Process),
            "disk" => Ok(Self::Disk),
            _ => Err(Error::invalid_input(format!(
                "Invalid durability {text}; use process or disk"
            ))),
        }
    }
}

/// What has been read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IoStats {
    /// Reads asked of the operating system or store, after coalescing.
    pub calls: u64,
    /// Bytes that those reads covered.
    pub bytes: u64,
}

/// Counts reads; shared by all readers of a storage.
#[derive(Debug, Default)]
pub struct IoCounter {
    calls: AtomicU64,
    bytes: AtomicU64,
}

impl IoCounter {
    /// Adds one read.
    pub fn add(&self, bytes: u64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn get(&self) -> IoStats {
        IoStats {
            calls: self.calls.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// A directory or bucket prefix that holds one table.
///
/// All paths are relative to it; a path with an empty, `.` or `..` part or a leading `/` is refused.
pub trait Storage: Send + Sync + Debug {
    /// The location as a caller named it.
    fn uri(&self) -> &str;

    /// The location in a form that does not depend on the process, as base paths store it.
    fn location(&self) -> String {
        self.uri().to_owned()
    }

    /// Whether a location names this place, also by another spelling.
    fn is_at(&self, location: &str) -> bool {
        self.location().trim_end_matches('/') == location.trim_end_matches('/')
    }

    /// Another place, reached with the settings of this one.
    ///
    /// # Errors
    /// Unsupported for a scheme without store.
    fn sibling(&self, uri: &str) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(LocalStorage::from_uri(uri)?))
    }

    /// The same place with another durability; `None` where the store has no choice.
    fn with_durability(&self, _durability: Durability) -> Option<Arc<dyn Storage>> {
        None
    }

    /// What an acknowledged write survives.
    fn durability(&self) -> Durability {
        Durability::Process
    }

    /// Makes creations and removals in a directory survive a power loss, where that has to be asked for.
    fn sync_directory(&self, _path: &str) -> Result<()> {
        Ok(())
    }

    /// Reads ranges of one object; see [`ReadAt::read_ranges`].
    fn read_ranges(&self, path: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.open_reader(path)?.read_ranges(ranges)
    }

    /// Reads a whole object of at most `limit` bytes.
    fn read(&self, path: &str, limit: u64) -> Result<Bytes> {
        let reader = self.open_reader(path)?;
        if reader.len() > limit {
            return Err(Error::corrupt(format!(
                "'{path}' has {} bytes; at most {limit} are read",
                reader.len()
            )));
        }
        read_range(reader.as_ref(), 0..reader.len())
    }

    /// Size in bytes.
    ///
    /// # Errors
    /// Not found.
    fn size(&self, path: &str) -> Result<u64>;

    /// Whether the object exists.
    fn exists(&self, path: &str) -> Result<bool>;

    /// All objects below a directory at any depth, in no particular order. A missing directory is empty.
    fn list(&self, directory: &str) -> Result<Vec<Entry>>;

    /// Names of the objects directly in a directory: [`Storage::list`] without sizes, times or depth.
    fn list_names(&self, directory: &str) -> Result<Vec<String>>;

    /// Writes or replaces an object; a reader sees the old or the new bytes, never a part.
    fn put(&self, path: &str, bytes: &[u8]) -> Result<()>;

    /// Writes an object that must not exist; a reader sees nothing or all of it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`] if it exists, whoever wrote it.
    fn put_if_absent(&self, path: &str, bytes: &[u8]) -> Result<()>;

    /// Removes an object.
    ///
    /// # Errors
    /// Not found.
    fn delete(&self, path: &str) -> Result<()>;

    /// Removes a directory without entries, where the store has directories.
    fn remove_empty_directory(&self, _path: &str) -> Result<()> {
        Ok(())
    }

    /// Opens an object for ranged reads. Its size is taken once, here.
    fn open_reader(&self, path: &str) -> Result<Arc<dyn ReadAt>>;

    /// Starts a new object under a name that nobody else uses.
    ///
    /// # Errors
    /// [`crate::ErrorKind::AlreadyExists`].
    fn create_writer(&self, path: &str) -> Result<Box<dyn FileSink>>;

    /// Reads of all readers opened here.
    fn stats(&self) -> IoStats;
}

/// Ranged reads of one object.
pub trait ReadAt: Send + Sync + Debug {
    /// Size in bytes.
    fn len(&self) -> u64;

    /// Whether the object has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Path for messages.
    fn path(&self) -> &str;

    /// The bytes of each range, in the order asked.
    ///
    /// Near ranges share one read and one allocation. The byte at file offset `o` lies at a memory address congruent
    /// to `o` modulo 64, so a buffer that is aligned in the file is aligned in memory.
    ///
    /// # Errors
    /// Corrupt for a range that does not lie inside the object, before anything is allocated.
    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// Reads of this object.
    fn stats(&self) -> IoStats;
}

/// Reads one range.
pub fn read_range(source: &dyn ReadAt, range: Range<u64>) -> Result<Bytes> {
    let mut parts = source.read_ranges(&[range])?;
    parts
        .pop()
        .ok_or_else(|| Error::corrupt(format!("'{}': the store returned no bytes", source.path())))
}

/// A new object. Dropped without [`FileSink::finish`], it is removed.
pub trait FileSink: Send {
    /// Appends bytes.
    fn write_all(&mut self, bytes: &[u8]) -> Result<()>;

    /// Completes the object and makes it visible.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// One read that serves several ranges.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) range: Range<u64>,
    /// Positions in the list of ranges.
    pub(crate) members: Vec<usize>,
}

/// Joins ranges that are nearer than [`COALESCE_GAP`], up to [`COALESCE_LIMIT`] bytes.
pub(crate) fn coalesce(ranges: &[Range<u64>]) -> Vec<Group> {
    let mut order: Vec<(usize, &Range<u64>)> = ranges.iter().enumerate().collect();
    order.sort_by_key(|(_, range)| (range.start, range.end));
    let mut groups: Vec<Group> = Vec::new();
    for (at, range) in order {
        match groups.last_mut() {
            Some(group) if joins(&group.range, range) => {
                group.range.end = group.range.end.max(range.end);
                group.members.push(at);
            }
            _ => groups.push(Group {
                range: range.clone(),
                members: vec![at],
            }),
        }
    }
    groups
}

fn joins(group: &Range<u64>, range: &Range<u64>) -> bool {
    range.start <= group.end.saturating_add(COALESCE_GAP)
        && (range.end <= group.end || range.end - group.start <= COALESCE_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_join_in_any_order() {
        let groups = coalesce(&[10_000..10_010, 0..10, 20..30, 5..25]);
        assert_eq!(
            groups,
            [
                Group {
                    range: 0..30,
                    members: vec![1, 3, 2]
                },
                Group {
                    range: 10_000..10_010,
                    members: vec![0]
                },
            ]
        );
    }

    #[test]
    fn the_gap_and_the_limit_separate() {
        assert_eq!(coalesce(&[0..10, 10 + COALESCE_GAP..5000]).len(), 1);
        assert_eq!(coalesce(&[0..10, 11 + COALESCE_GAP..5000]).len(), 2);
        assert_eq!(
            coalesce(&[0..COALESCE_LIMIT, COALESCE_LIMIT..COALESCE_LIMIT + 1]).len(),
            2
        );
        assert!(coalesce(&[]).is_empty());
    }
}
