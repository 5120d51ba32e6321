//! Variable-width values of one mini-block chunk (format chapter 22, 4.5).
//!
//! ```text
//! n + 1 offsets of w = 4 or 8 bytes, relative to the start of the buffer; the first is w * (n + 1)
//! the bytes of the values
//! pad bytes 0x48 up to a multiple of w
//! ```

use super::{Offset, OffsetTable, VariableValues, offset_width, window, write_offsets};
use crate::error::{Result, corrupt};

const PAD: u8 = 0x48;

/// The decoded values of a chunk.
pub type VariableChunk<'a> = VariableValues<'a>;

/// Appends a chunk. `offsets` is a window of `n + 1` entries of an Arrow offset buffer, `bytes` the buffer it cuts;
/// `offset_bits` (32 or 64) is the width written.
///
/// # Errors
/// Invalid if the offsets decrease, leave `bytes`, or do not fit the width.
pub fn encode<O: Offset>(offset_bits: u8, offsets: &[O], bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let width = offset_width(offset_bits)?;
    let data = window(offsets, bytes)?;
    let table = width * offsets.len();
    let padded = (table + data.len()).next_multiple_of(width);
    let end = out.len() + padded;
    out.reserve(padded);
    write_offsets(width, offsets, table, out)?;
    out.extend_from_slice(data);
    out.resize(end, PAD);
    Ok(())
}

/// Bytes that [`encode`] appends for `n` values of `data_len` bytes together.
pub fn encoded_len(offset_bits: u8, n: usize, data_len: usize) -> usize {
    let width = usize::from(offset_bits) / 8;
    (width * (n + 1) + data_len).next_multiple_of(width.max(1))
}

impl<'a> VariableChunk<'a> {
    /// Checks a chunk of `n` values with offsets of 32 or 64 bits. Pad bytes and a gap between offsets and values may be
    /// anything.
    ///
    /// # Errors
    /// Corrupt if the length is no multiple of the offset width, the table is cut short, or the offsets point into the
    /// table, decrease, or leave the buffer.
    pub fn parse(buf: &'a [u8], offset_bits: u8, n: usize) -> Result<Self> {
        let width = offset_width(offset_bits)?;
        if !buf.len().is_multiple_of(width) {
            return corrupt(format!(
                "chunk of {} bytes is no multiple of the offset width {width}",
                buf.len()
            ));
        }
        let (offsets, table_len) = OffsetTable::parse(buf, offset_bits, n)?;
        if offsets.first() < table_len as u64 {
            return corrupt(format!(
                "first offset {} points into the {table_len} bytes of offsets",
                offsets.first()
            ));
        }
        Self::new(offsets, buf)
    }
}
