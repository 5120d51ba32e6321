//! Pages of list offsets (format chapter 20, 7).
//!
//! ```text
//! rows      [1, 2]  null  []  [3, 4, 5]      num_items = 5, A = 6
//! offsets     2      8    2      5           8 >= A: null, ends at 8 - 6 = 2
//! ```
//!
//! Offsets count items from the first item of the page; items of the page come after those of all earlier pages. A null list may
//! span items, which mean nothing.

use std::ops::Range;

use super::node::Buffers;
use super::parts::{Parts, Requests};
use super::source::Source;
use crate::proto::lance::encodings as pb;
use crate::{Context, Error, Result};

/// The offsets of a page.
#[derive(Debug)]
pub struct ListPage {
    offsets: Source,
    adjustment: u64,
    num_items: u64,
    /// Items of the earlier pages.
    first_item: u64,
}

/// Some lists of a column.
#[derive(Debug, Default)]
pub struct Lists {
    /// Items of each list; 0 for a null.
    pub lengths: Vec<usize>,
    /// Whether each list is valid.
    pub valid: Vec<bool>,
    /// Where the items are: ascending, disjoint, not empty.
    pub items: Vec<Range<u64>>,
}

impl ListPage {
    /// Checks the encoding of `n` lists.
    pub fn parse(list: &pb::List, n: u64, first_item: u64, buffers: Buffers<'_>) -> Result<Self> {
        let offsets = buffers
            .source(list.offsets.as_deref(), n)
            .and_then(|source| source.expect_bits(64))
            .context(|| "list offsets")?;
        if list.null_offset_adjustment <= list.num_items {
            return Err(Error::corrupt(format!(
                "null offset adjustment {} of a page with {} list items",
                list.null_offset_adjustment, list.num_items
            )));
        }
        first_item
            .checked_add(list.num_items)
            .ok_or_else(|| Error::corrupt("the number of list items overflows"))?;
        Ok(Self {
            offsets,
            adjustment: list.null_offset_adjustment,
            num_items: list.num_items,
            first_item,
        })
    }

    /// Items of this page and the earlier ones.
    pub fn end_item(&self) -> u64 {
        self.first_item + self.num_items
    }

    fn offset_rows(range: &Range<u64>) -> Range<u64> {
        range.start.saturating_sub(1)..range.end
    }

    /// The offsets of `rows` and the one before.
    pub fn request(&self, rows: &[Range<u64>], out: &mut Requests) -> Result<()> {
        rows.iter()
            .try_for_each(|range| self.offsets.request(&Self::offset_rows(range), out))
    }

    /// Appends `rows`.
    pub fn decode(&self, rows: &[Range<u64>], parts: &mut Parts<'_>, out: &mut Lists) -> Result<()> {
        for range in rows {
            let bytes = self.offsets.take(&Self::offset_rows(range), parts)?;
            let words = bytes.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w));
            let mut words = words.map(|word| match word >= self.adjustment {
                true => (false, word - self.adjustment),
                false => (true, word),
            });
            let mut start = match range.start {
                0 => 0,
                _ => words.next().map_or(0, |(_, end)| end),
            };
            for (valid, end) in words {
                if end < start || end > self.num_items {
                    return Err(Error::corrupt(format!(
                        "list offsets {start} and {end} in a page of {} items",
                        self.num_items
                    )));
                }
                out.push(valid, self.first_item + start..self.first_item + end)?;
                start = end;
            }
        }
        Ok(())
    }
}

impl Lists {
    fn push(&mut self, valid: bool, items: Range<u64>) -> Result<()> {
        self.valid.push(valid);
        if !valid || items.is_empty() {
            self.lengths.push(0);
            return Ok(());
        }
        let length = usize::try_from(items.end - items.start).map_err(|_| Error::corrupt("list too long"))?;
        self.lengths.push(length);
        match self.items.last_mut() {
            Some(last) if last.end == items.start => last.end = items.end,
            _ => self.items.push(items),
        }
        Ok(())
    }
}
