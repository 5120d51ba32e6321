//! `Variable`: offsets and concatenated bytes (format chapter 22, 4.5).
//!
//! Two layouts carry the same thing, `n + 1` offsets of 32 or 64 bits and the bytes they cut:
//! [`mini_block`] (one chunk of a page) and [`block`] (a dictionary). Both decode to [`VariableValues`].

pub mod block;
pub mod mini_block;

use std::ops::Range;

use crate::error::{CodecError, Result, corrupt, invalid};

pub use block::VariableBlock;
pub use mini_block::VariableChunk;

/// Type of an Arrow offset buffer: `i32` or `i64`.
pub trait Offset: Copy + Default + TryFrom<u64> + Into<i64> + 'static {
    /// Width in bits.
    const BITS: u8;
    /// The low bits of a number already known to fit.
    #[doc(hidden)]
    fn from_i64_truncated(value: i64) -> Self;
}

impl Offset for i32 {
    const BITS: u8 = 32;
    #[inline]
    fn from_i64_truncated(value: i64) -> Self {
        value as i32
    }
}

impl Offset for i64 {
    const BITS: u8 = 64;
    #[inline]
    fn from_i64_truncated(value: i64) -> Self {
        value
    }
}

/// Variable-width values that borrow from their buffer. All offsets were checked: they do not decrease and stay inside.
#[derive(Debug, Clone, Copy)]
pub struct VariableValues<'a> {
    offsets: OffsetTable<'a>,
    /// The data, `first offset .. last offset`.
    data: &'a [u8],
}

/// The `n + 1` offsets as they lie in the buffer, unaligned.
#[derive(Debug, Clone, Copy)]
enum OffsetTable<'a> {
    Narrow(&'a [[u8; 4]]),
    Wide(&'a [[u8; 8]]),
}

impl<'a> OffsetTable<'a> {
    /// `n + 1` offsets at the start of `bytes`, and the number of bytes they take.
    fn parse(bytes: &'a [u8], offset_bits: u8, n: usize) -> Result<(Self, usize)> {
        let width = offset_width(offset_bits)?;
        let len = n.checked_add(1).and_then(|count| count.checked_mul(width));
        let Some((len, table)) = len.and_then(|len| Some((len, bytes.get(..len)?))) else {
            return corrupt(format!(
                "{} bytes cannot hold the {offset_bits}-bit offsets of {n} values",
                bytes.len()
            ));
        };
        let table = match width {
            4 => Self::Narrow(table.as_chunks().0),
            _ => Self::Wide(table.as_chunks().0),
        };
        Ok((table, len))
    }

    fn slice(&self, range: Range<usize>) -> Option<Self> {
        Some(match self {
            Self::Narrow(table) => Self::Narrow(table.get(range).filter(|part| !part.is_empty())?),
            Self::Wide(table) => Self::Wide(table.get(range).filter(|part| !part.is_empty())?),
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Narrow(table) => table.len(),
            Self::Wide(table) => table.len(),
        }
    }

    fn get(&self, i: usize) -> Option<u64> {
        match self {
            Self::Narrow(table) => table.get(i).map(|o| u64::from(u32::from_le_bytes(*o))),
            Self::Wide(table) => table.get(i).map(|o| u64::from_le_bytes(*o)),
        }
    }

    fn first(&self) -> u64 {
        self.get(0).unwrap_or(0)
    }

    fn last(&self) -> u64 {
        self.get(self.len() - 1).unwrap_or(0)
    }

    fn is_sorted(&self) -> bool {
        // No early exit, so that the loop vectorises: a bad table is the rare case.
        match self {
            Self::Narrow(table) => pairs(table).fold(true, |ok, (a, b)| {
                ok & (u32::from_le_bytes(*a) <= u32::from_le_bytes(*b))
            }),
            Self::Wide(table) => pairs(table).fold(true, |ok, (a, b)| {
                ok & (u64::from_le_bytes(*a) <= u64::from_le_bytes(*b))
            }),
        }
    }
}

fn pairs<T>(table: &[T]) -> impl Iterator<Item = (&T, &T)> {
    table.iter().zip(table.iter().skip(1))
}

impl<'a> VariableValues<'a> {
    /// `source` is what the offsets index into.
    fn new(offsets: OffsetTable<'a>, source: &'a [u8]) -> Result<Self> {
        if !offsets.is_sorted() {
            return corrupt("offsets of variable-width values decrease");
        }
        let range = (usize::try_from(offsets.first()), usize::try_from(offsets.last()));
        let data = match range {
            (Ok(first), Ok(last)) => source.get(first..last),
            _ => None,
        };
        match data {
            Some(data) => Ok(Self { offsets, data }),
            None => corrupt(format!(
                "offset {} is past the end of {} bytes",
                offsets.last(),
                source.len()
            )),
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Width of the offsets in the buffer: 32 or 64.
    pub fn offset_bits(&self) -> u8 {
        match self.offsets {
            OffsetTable::Narrow(_) => 32,
            OffsetTable::Wide(_) => 64,
        }
    }

    /// The bytes of all values, one after the other.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The bytes of value `i`; empty if there is no such value.
    #[inline]
    pub fn value(&self, i: usize) -> &'a [u8] {
        self.get(i).unwrap_or_default()
    }

    /// The bytes of value `i`, or `None` if there is no such value.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&'a [u8]> {
        let first = self.offsets.first();
        let start = self.offsets.get(i)? - first;
        let end = self.offsets.get(i.checked_add(1)?)? - first;
        // Both are at most data.len(), which is a usize.
        self.data.get(start as usize..end as usize)
    }

    /// The values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let values = *self;
        (0..self.len()).map(move |i| values.value(i))
    }

    /// The values `range`.
    ///
    /// # Errors
    /// Invalid if there are fewer.
    pub fn slice(&self, range: Range<usize>) -> Result<Self> {
        let cut = || {
            let offsets = self.offsets.slice(range.start..range.end.checked_add(1)?)?;
            // Both are at most data.len(), which is a usize.
            let start = (offsets.first() - self.offsets.first()) as usize;
            let end = (offsets.last() - self.offsets.first()) as usize;
            let data = self.data.get(start..end)?;
            Some(Self { offsets, data })
        };
        match cut() {
            Some(part) => Ok(part),
            None => invalid(format!("values {range:?} of {}", self.len())),
        }
    }

    /// Where each value ends in [`Self::data`].
    pub fn ends(&self) -> impl Iterator<Item = usize> + use<'a> {
        let (offsets, first) = (self.offsets, self.offsets.first());
        (1..offsets.len()).map(move |i| (offsets.get(i).unwrap_or(first) - first) as usize)
    }

    /// Stores the end offset of every value in `out`, which has `len()` places, as if `data()` were appended at byte `base`
    /// of the output.
    ///
    /// # Errors
    /// Invalid if `base` is negative, the last offset does not fit `O` or `out` has another length.
    pub fn store_ends<O: Offset>(&self, base: i64, out: &mut [O]) -> Result<()> {
        let end = u64::try_from(base)
            .ok()
            .and_then(|base| base.checked_add(self.data.len() as u64));
        if end.and_then(|end| O::try_from(end).ok()).is_none() {
            return invalid(format!(
                "{} bytes after the first {base} overflow {}-bit offsets",
                self.data.len(),
                O::BITS
            ));
        }
        if out.len() != self.len() {
            return invalid(format!(
                "{} places for the ends of {} values",
                out.len(),
                self.len()
            ));
        }
        let shift = base.wrapping_sub(self.offsets.first() as i64);
        match self.offsets {
            OffsetTable::Narrow(table) => {
                for (end, o) in out.iter_mut().zip(table.iter().skip(1)) {
                    let offset = i64::from(u32::from_le_bytes(*o));
                    *end = O::from_i64_truncated(offset.wrapping_add(shift));
                }
            }
            OffsetTable::Wide(table) => {
                for (end, o) in out.iter_mut().zip(table.iter().skip(1)) {
                    *end = O::from_i64_truncated(i64::from_le_bytes(*o).wrapping_add(shift));
                }
            }
        }
        Ok(())
    }
}

fn offset_width(offset_bits: u8) -> Result<usize> {
    match offset_bits {
        32 => Ok(4),
        64 => Ok(8),
        other => Err(CodecError::Unsupported(format!(
            "offsets of {other} bits, only 32 and 64 are known"
        ))),
    }
}

/// The bytes between the first and the last offset of a window of an Arrow offset buffer.
fn window<'a, O: Offset>(offsets: &[O], bytes: &'a [u8]) -> Result<&'a [u8]> {
    if pairs(offsets).any(|(a, b)| (*a).into() > (*b).into()) {
        return invalid("offsets decrease");
    }
    let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
        return invalid("no offsets: n values have n + 1");
    };
    let range = usize::try_from(first.into())
        .ok()
        .zip(usize::try_from(last.into()).ok());
    match range.and_then(|(first, last)| bytes.get(first..last)) {
        Some(data) => Ok(data),
        None => invalid(format!(
            "offsets {}..{} of {} bytes",
            first.into(),
            last.into(),
            bytes.len()
        )),
    }
}

/// Appends the offsets, moved so that the first is `first`.
fn write_offsets<O: Offset>(width: usize, offsets: &[O], first: usize, out: &mut Vec<u8>) -> Result<()> {
    let origin = offsets.first().map_or(0, |&o| o.into());
    let moved = offsets.iter().map(|&o| (o.into() - origin) as u64 + first as u64);
    let last = offsets.last().map_or(0, |&o| o.into() - origin) as u64 + first as u64;
    if width == 4 {
        if u32::try_from(last).is_err() {
            return invalid(format!("offset {last} does not fit 32 bits"));
        }
        out.extend(moved.flat_map(|o| (o as u32).to_le_bytes()));
    } else {
        out.extend(moved.flat_map(u64::to_le_bytes));
    }
    Ok(())
}
