//! Locks around commits, for stores that cannot create a manifest only if it is absent (format chapter 31, 7).
//!
//! All writers of a table must use the same lock. Where the store can refuse to replace, it still does.

use std::fmt::Debug;

use glaive_file::Result;

/// Lets one writer at a time create a version.
pub trait CommitLock: Send + Sync + Debug {
    /// Takes the lock for a version. Held until it is released.
    ///
    /// # Errors
    /// Commit conflict if another writer has the lock: the commit is tried again. Any other error ends it.
    fn acquire(&self, version: u64) -> Result<Box<dyn CommitLease>>;
}

/// A lock that is held.
pub trait CommitLease {
    /// Gives the lock back; `success` tells whether the version was created.
    ///
    /// # Errors
    /// What the lock says. A version that was created stands.
    fn release(self: Box<Self>, success: bool) -> Result<()>;
}
