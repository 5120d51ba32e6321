//! A plain bit stream, as files of version 2.0 by old writers hold it (format chapter 20, 10.1).
//!
//! Value `i` occupies bits `i * W .. (i + 1) * W` of the buffer, low bits first; bit `k` of the buffer is bit `k % 8` of byte
//! `k / 8`. There are no blocks and no padding except up to the last byte.

use super::Lane;
use crate::error::{Result, corrupt};

/// Bytes that hold `n` values of `width` bits from bit `first_bit` of the first byte on.
pub fn encoded_len(width: usize, first_bit: usize, n: usize) -> Option<usize> {
    Some(width.checked_mul(n)?.checked_add(first_bit)?.div_ceil(8))
}

/// Decodes `out.len()` values of `width` bits, the first of which starts at bit `first_bit < 8` of `buf`. Values are extended
/// from `width` to `T::BITS` bits with zeros, or with their sign.
///
/// # Errors
/// Corrupt if `width` is 0 or above `T::BITS`, or `buf` is too short.
pub fn decode<T: Lane>(
    buf: &[u8],
    first_bit: usize,
    width: usize,
    signed: bool,
    out: &mut [T],
) -> Result<()> {
    if width == 0 || width > T::BITS {
        return corrupt(format!("bit width {width} of {}-bit values", T::BITS));
    }
    match encoded_len(width, first_bit, out.len()) {
        Some(len) if len <= buf.len() => {}
        _ => {
            return corrupt(format!(
                "{} bytes are too few for {} values of {width} bits",
                buf.len(),
                out.len()
            ));
        }
    }
    let mask = u64::MAX >> (64 - width);
    let sign = if signed { 1u64 << (width - 1) } else { 0 };
    let mut bit = first_bit;
    for value in out {
        let word = word_at(buf, bit / 8) >> (bit % 8);
        let raw = word as u64 & mask;
        // Flipping the sign bit and subtracting it again fills all bits above it.
        *value = T::from_u64_truncated((raw ^ sign).wrapping_sub(sign));
        bit += width;
    }
    Ok(())
}

/// Up to 16 bytes from `start`; those behind the end read as 0.
fn word_at(buf: &[u8], start: usize) -> u128 {
    let rest = buf.get(start..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk() {
        return u128::from_le_bytes(*bytes);
    }
    rest.iter()
        .take(16)
        .rev()
        .fold(0, |word, &byte| word << 8 | u128::from(byte))
}
