//! Bit packing in FastLanes order (format chapter 22, 4.2).
//!
//! A *block* is 1024 values of `T` bits (8, 16, 32 or 64) packed to `W` bits each, `0 <= W <= T`: exactly `128 * W` bytes,
//! whatever `T` is. The block is made of `L = 1024 / T` lanes; each lane is its own stream of `T` values ("rows"), and word
//! `k` of all lanes lie side by side, so one instruction works on many lanes:
//!
//! ```text
//! index(row, lane) = ORDER[row / 8] * 16 + (row % 8) * 128 + lane        ORDER = [0, 4, 2, 6, 1, 5, 3, 7]
//! word k of lane l = word number k * L + l of the block
//! row r            = bits r * W .. (r + 1) * W of its lane, low bits first; it may straddle two words of the lane
//! ```
//!
//! In memory a row of values and a word of all lanes are both 128 consecutive bytes, for every `T`. Values are packed as
//! their unsigned bit pattern: no reference value, no zig-zag.
//!
//! [`inline`] puts the width in front of each block, [`out_of_line`] packs any number of values with a width kept elsewhere.
//! [`stream`] is another form, without blocks, of old files.

pub mod inline;
mod kernels;
pub mod out_of_line;
pub mod stream;

use crate::error::{Result, corrupt};
pub use kernels::Lane;

/// Values in a block.
pub const BLOCK_LEN: usize = 1024;

/// Bytes of a block packed to `width` bits a value.
pub const fn packed_len(width: usize) -> usize {
    width * (BLOCK_LEN / 8)
}

/// The least width that holds every value: the bit length of their OR.
pub fn bit_width<T: Lane>(values: &[T]) -> usize {
    T::BITS - T::leading_zeros(values.iter().fold(T::default(), |all, &value| all | value))
}

/// Packs a block to `width` bits a value and appends its `128 * width` bytes to `out`.
///
/// Bits of a value above `width` are dropped; a `width` above `T::BITS` counts as `T::BITS`.
pub fn pack_block<T: Lane>(width: usize, input: &[T; BLOCK_LEN], out: &mut Vec<u8>) {
    let width = width.min(T::BITS);
    let start = out.len();
    out.resize(start + packed_len(width), 0);
    T::pack(width, input, out.get_mut(start..).unwrap_or_default());
}

/// Unpacks a block of `width` bits a value.
///
/// # Errors
/// Corrupt if `width > T::BITS` or `packed` is not exactly `128 * width` bytes.
pub fn unpack_block<T: Lane>(width: usize, packed: &[u8], out: &mut [T; BLOCK_LEN]) -> Result<()> {
    check_block::<T>(width, packed)?;
    T::unpack(width, packed, out);
    Ok(())
}

/// Unpacks the value at `index` of a block without touching the others.
///
/// # Errors
/// Corrupt as in [`unpack_block`], or if `index` is not in the block.
pub fn unpack_one<T: Lane>(width: usize, packed: &[u8], index: usize) -> Result<T> {
    check_block::<T>(width, packed)?;
    if index >= BLOCK_LEN {
        return corrupt(format!(
            "index {index} is outside the {BLOCK_LEN} values of a block"
        ));
    }
    Ok(T::unpack_one(width, packed, index))
}

/// Unpacks the first `out.len() <= 1024` values of a block.
fn unpack_prefix<T: Lane>(width: usize, packed: &[u8], out: &mut [T]) -> Result<()> {
    if let Ok(whole) = <&mut [T; BLOCK_LEN]>::try_from(&mut *out) {
        return unpack_block(width, packed, whole);
    }
    let mut block = [T::default(); BLOCK_LEN];
    unpack_block(width, packed, &mut block)?;
    match block.get(..out.len()) {
        Some(prefix) => out.copy_from_slice(prefix),
        None => return corrupt(format!("{} values asked of a block of {BLOCK_LEN}", out.len())),
    }
    Ok(())
}

/// Packs up to 1024 values; missing ones are zero.
fn pack_prefix<T: Lane>(width: usize, values: &[T], out: &mut Vec<u8>) {
    if let Ok(whole) = <&[T; BLOCK_LEN]>::try_from(values) {
        return pack_block(width, whole, out);
    }
    let mut block = [T::default(); BLOCK_LEN];
    for (slot, value) in block.iter_mut().zip(values) {
        *slot = *value;
    }
    pack_block(width, &block, out);
}

fn check_block<T: Lane>(width: usize, packed: &[u8]) -> Result<()> {
    if width > T::BITS {
        return corrupt(format!("bit width {width} of {}-bit values", T::BITS));
    }
    if packed.len() != packed_len(width) {
        return corrupt(format!(
            "block of width {width} has {} bytes, expected {}",
            packed.len(),
            packed_len(width)
        ));
    }
    Ok(())
}
