//! `OutOfLineBitpacking`: whole blocks and a tail, the width kept in the description (format chapter 22, 4.4).
//!
//! ```text
//! n / 1024 blocks of 128 * W bytes | tail of t = n % 1024 values
//!     tail = t plain T-bit values, or one zero-padded block; plain when both have the same length
//! ```
//! The reader tells the two tails apart by the total length.

use super::{BLOCK_LEN, Lane, pack_block, pack_prefix, packed_len, unpack_block, unpack_prefix};
use crate::error::{CodecError, Result, corrupt, invalid};

/// Appends the values with `width` bits each; see [`pack_block`] for values above it. The tail is packed iff that is
/// shorter.
pub fn encode<T: Lane>(values: &[T], width: usize, out: &mut Vec<u8>) {
    let width = width.min(T::BITS);
    let (blocks, tail) = values.as_chunks::<BLOCK_LEN>();
    for block in blocks {
        pack_block(width, block, out);
    }
    if packed_len(width) < size_of_val(tail) {
        pack_prefix(width, tail, out);
    } else {
        T::extend_le(tail, out);
    }
}

/// Bytes that [`encode`] appends for `n` values.
pub fn encoded_len<T: Lane>(width: usize, n: usize) -> usize {
    let block = packed_len(width.min(T::BITS));
    (n / BLOCK_LEN) * block + block.min(n % BLOCK_LEN * T::BYTES)
}

/// Decodes `n` values of `width` bits into `out`, whose length is `n`.
///
/// # Errors
/// Corrupt if `width > T::BITS` or the length fits neither tail; invalid if `out.len() != n`.
pub fn decode<T: Lane>(buf: &[u8], width: usize, n: usize, out: &mut [T]) -> Result<()> {
    if out.len() != n {
        return invalid(format!("output of {} values for {n} packed ones", out.len()));
    }
    if width > T::BITS {
        return corrupt(format!("bit width {width} of {}-bit values", T::BITS));
    }
    let (blocks, tail) = out.as_chunks_mut::<BLOCK_LEN>();
    let packed_blocks = blocks.len() * packed_len(width);
    let wrong_length = || {
        CodecError::Corrupt(format!(
            "{} bytes cannot be {n} values of {width} bits in blocks of 1024",
            buf.len()
        ))
    };
    let (packed, rest) = buf.split_at_checked(packed_blocks).ok_or_else(wrong_length)?;
    if rest.len() == size_of_val(tail) {
        T::copy_from_le(rest, tail);
    } else if !tail.is_empty() && rest.len() == packed_len(width) {
        unpack_prefix(width, rest, tail)?;
    } else {
        return Err(wrong_length());
    }
    for (i, block) in blocks.iter_mut().enumerate() {
        let start = i * packed_len(width);
        unpack_block(
            width,
            packed.get(start..start + packed_len(width)).unwrap_or_default(),
            block,
        )?;
    }
    Ok(())
}
