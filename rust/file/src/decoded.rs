//! Counting what is decoded, so that tests and benches can tell whether work is done twice.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What has been decoded so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecodeStats {
    /// Pages, once for each read that took rows of them.
    pub pages: u64,
    /// Chunks of mini-block pages, once for each read that took rows of them.
    pub chunks: u64,
}

/// Counts of one open file, which all its readers share.
#[derive(Debug, Default)]
pub(crate) struct DecodeCounter {
    pages: AtomicU64,
    chunks: AtomicU64,
}

impl DecodeCounter {
    /// Adds what one read of a column decoded.
    pub(crate) fn add(&self, pages: usize, chunks: u64) {
        self.pages.fetch_add(pages as u64, Relaxed);
        self.chunks.fetch_add(chunks, Relaxed);
    }

    /// The counts so far.
    pub(crate) fn get(&self) -> DecodeStats {
        DecodeStats {
            pages: self.pages.load(Relaxed),
            chunks: self.chunks.load(Relaxed),
        }
    }
}
