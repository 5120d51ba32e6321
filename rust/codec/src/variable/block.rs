//! Variable-width values in the block position: a dictionary of strings (format chapter 22, 4.5).
//!
//! ```text
//! w bytes          the number 32 or 64: 8 * w
//! w bytes          start = 2 * w + w * (n + 1)
//! w * (n + 1)      offsets relative to start; the first is 0
//! from start       the bytes of the values
//! ```
//!
//! Older writers packed the header: u8 bits, then n and start as u32 (bits = 32) or u64 (bits = 64). They are told apart by
//! bytes 1 to 3, which are zero in the current form.

use super::{Offset, OffsetTable, VariableValues, offset_width, window, write_offsets};
use crate::cursor::ByteCursor;
use crate::error::{Result, corrupt, invalid};

/// The decoded values of a block.
pub type VariableBlock<'a> = VariableValues<'a>;

/// Appends a block. `offsets` is a window of `n + 1` entries of an Arrow offset buffer, `bytes` the buffer it cuts;
/// `offset_bits` (32 or 64) is the width written.
///
/// # Errors
/// Invalid if the offsets decrease, leave `bytes`, or do not fit the width.
pub fn encode<O: Offset>(offset_bits: u8, offsets: &[O], bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let width = offset_width(offset_bits)?;
    let data = window(offsets, bytes)?;
    let start = width * (offsets.len() + 2);
    if width == 4 {
        let Ok(start) = u32::try_from(start) else {
            return invalid(format!("{} offsets of 32 bits in one block", offsets.len()));
        };
        out.extend_from_slice(&32u32.to_le_bytes());
        out.extend_from_slice(&start.to_le_bytes());
    } else {
        out.extend_from_slice(&64u64.to_le_bytes());
        out.extend_from_slice(&(start as u64).to_le_bytes());
    }
    write_offsets(width, offsets, 0, out)?;
    out.extend_from_slice(data);
    Ok(())
}

/// Checks a block of `n` values; the offset width is in the block.
///
/// # Errors
/// Corrupt if the header contradicts `n`, or the offsets do not start at 0, decrease, or leave the block.
pub fn decode(buf: &[u8], n: usize) -> Result<VariableBlock<'_>> {
    let header = Header::read(buf, n)?;
    let (table, source) = match buf.split_at_checked(header.start) {
        Some((head, source)) => (head.get(header.len..).unwrap_or_default(), source),
        None => return corrupt(format!("values start at byte {} of {}", header.start, buf.len())),
    };
    let (offsets, table_len) = OffsetTable::parse(table, header.offset_bits, n)?;
    if table_len != table.len() {
        return corrupt(format!(
            "{} bytes of offsets for {n} values, expected {table_len}",
            table.len()
        ));
    }
    if offsets.first() != 0 {
        return corrupt(format!("first offset of a block is {}, not 0", offsets.first()));
    }
    VariableValues::new(offsets, source)
}

struct Header {
    offset_bits: u8,
    /// Bytes of the header.
    len: usize,
    /// Where the value bytes start.
    start: usize,
}

impl Header {
    fn read(buf: &[u8], n: usize) -> Result<Self> {
        let mut cursor = ByteCursor::new(buf);
        let (bits, count, start) = match buf {
            [32, 0, 0, 0, ..] => (cursor.u32()?.into(), None, cursor.u32()?.into()),
            [64, 0, 0, 0, ..] => (cursor.u64()?, None, cursor.u64()?),
            [32, ..] => (
                cursor.u8()?.into(),
                Some(cursor.u32()?.into()),
                cursor.u32()?.into(),
            ),
            [64, ..] => (cursor.u8()?.into(), Some(cursor.u64()?), cursor.u64()?),
            _ => {
                return corrupt(format!(
                    "block starts with {:?}, not an offset width",
                    buf.first()
                ));
            }
        };
        if count.is_some_and(|count| count != n as u64) {
            return corrupt(format!(
                "block of {} values where {n} are expected",
                count.unwrap_or(0)
            ));
        }
        let (Ok(offset_bits @ (32 | 64)), Ok(start)) = (u8::try_from(bits), usize::try_from(start)) else {
            return corrupt(format!(
                "block header with offsets of {bits} bits and values at byte {start}"
            ));
        };
        Ok(Self {
            offset_bits,
            len: cursor.position(),
            start,
        })
    }
}
