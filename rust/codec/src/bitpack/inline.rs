//! `InlineBitpacking`: the width in front of one block (format chapter 22, 4.3).
//!
//! ```text
//! width W as one T-bit word | 128 * W bytes of packed values        1 <= n <= 1024 values, zero-padded to 1024
//! ```

use super::{BLOCK_LEN, Lane, bit_width, pack_prefix, unpack_one, unpack_prefix};
use crate::error::{Result, corrupt, invalid};

/// Appends the values as one block of the least width.
///
/// # Panics
/// If there are more than 1024 values.
pub fn encode<T: Lane>(values: &[T], out: &mut Vec<u8>) {
    encode_with_width(values, bit_width(values), out);
}

/// Appends the values as one block of the given width; see [`pack_block`](super::pack_block) for values above it.
///
/// # Panics
/// If there are more than 1024 values.
pub fn encode_with_width<T: Lane>(values: &[T], width: usize, out: &mut Vec<u8>) {
    assert!(
        values.len() <= BLOCK_LEN,
        "a block holds {BLOCK_LEN} values, not {}",
        values.len()
    );
    let width = width.min(T::BITS);
    T::from_u64_truncated(width as u64).write_le(out);
    pack_prefix(width, values, out);
}

/// Bytes of an encoded block of this width.
pub const fn encoded_len<T: Lane>(width: usize) -> usize {
    T::BYTES + super::packed_len(width)
}

/// The width in front of a block.
///
/// # Errors
/// Corrupt if the header is cut short or names a width above `T::BITS`.
pub fn width_of<T: Lane>(buf: &[u8]) -> Result<usize> {
    split::<T>(buf).map(|(width, _)| width)
}

/// Decodes the `n` values of a block into `out`, whose length is `n`.
///
/// # Errors
/// Corrupt if `n > 1024` or the buffer is not exactly header and block (no bytes at all are legal for `n == 0`); invalid
/// if `out.len() != n`.
pub fn decode<T: Lane>(buf: &[u8], n: usize, out: &mut [T]) -> Result<()> {
    if out.len() != n {
        return invalid(format!("output of {} values for {n} packed ones", out.len()));
    }
    check_count(n)?;
    if n == 0 && buf.is_empty() {
        return Ok(());
    }
    let (width, packed) = split::<T>(buf)?;
    unpack_prefix(width, packed, out)
}

/// Decodes one of the `n` values.
///
/// # Errors
/// As [`decode`], and invalid if `index >= n`.
pub fn decode_one<T: Lane>(buf: &[u8], n: usize, index: usize) -> Result<T> {
    check_count(n)?;
    if index >= n {
        return invalid(format!("value {index} of {n} packed values"));
    }
    let (width, packed) = split::<T>(buf)?;
    unpack_one(width, packed, index)
}

/// Decodes the values at `indices` into `out`, which has one slot for each: cheaper than [`decode`] for a few of them.
///
/// # Errors
/// As [`decode_one`].
pub fn decode_some<T: Lane>(buf: &[u8], n: usize, indices: &[usize], out: &mut [T]) -> Result<()> {
    if out.len() != indices.len() {
        return invalid(format!(
            "output of {} values for {} indices",
            out.len(),
            indices.len()
        ));
    }
    for (value, &index) in out.iter_mut().zip(indices) {
        *value = decode_one(buf, n, index)?;
    }
    Ok(())
}

fn check_count(n: usize) -> Result<()> {
    if n > BLOCK_LEN {
        return corrupt(format!(
            "{n} bit-packed values in one block, at most {BLOCK_LEN} fit"
        ));
    }
    Ok(())
}

fn split<T: Lane>(buf: &[u8]) -> Result<(usize, &[u8])> {
    let (Some(width), Some(packed)) = (T::read_le(buf), buf.get(T::BYTES..)) else {
        return corrupt(format!(
            "bit-packed block of {} bytes has no width header",
            buf.len()
        ));
    };
    match usize::try_from(width.to_u64()) {
        Ok(width) if width <= T::BITS => Ok((width, packed)),
        _ => corrupt(format!("bit width {width:?} of {}-bit values", T::BITS)),
    }
}
