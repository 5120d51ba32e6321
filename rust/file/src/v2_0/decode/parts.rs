//! Byte ranges that a decoder asks for, and the bytes that answer them.

use std::ops::Range;

use bytes::Bytes;

use crate::{Error, Result};

/// Ranges of a file, in the order in which a decoder will take the bytes. Empty ranges are not read.
#[derive(Debug, Default)]
pub struct Requests(Vec<Range<u64>>);

impl Requests {
    /// Asks for a range.
    pub fn push(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.0.push(range);
        }
    }

    /// The ranges.
    pub fn into_ranges(self) -> Vec<Range<u64>> {
        self.0
    }
}

/// The bytes of the ranges, taken in the same order.
#[derive(Debug)]
pub struct Parts<'a>(std::slice::Iter<'a, Bytes>);

impl<'a> Parts<'a> {
    /// The answers to some [`Requests`].
    pub fn new(parts: &'a [Bytes]) -> Self {
        Self(parts.iter())
    }

    /// The bytes of the next range, which must be `range`.
    pub fn next(&mut self, range: &Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        match self.0.next() {
            Some(part) if part.len() as u64 == range.end - range.start => Ok(part.clone()),
            _ => Err(Error::corrupt("bytes that the page needs were not read")),
        }
    }
}
