//! The loops over 128-byte rows: one row of values, one word of every lane.
#![expect(
    clippy::indexing_slicing,
    reason = "rows and words are below the lengths checked by the callers in mod.rs"
)]

use std::ops::{BitAnd, BitOr, BitOrAssign, Shl, Shr};

use super::BLOCK_LEN;

/// Bytes of one row of values and of one word of all lanes.
const ROW_BYTES: usize = 128;
const ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];

mod sealed {
    pub trait Sealed {}
}

/// An unsigned integer that bit packing works on: `u8`, `u16`, `u32` or `u64`.
pub trait Lane:
    sealed::Sealed
    + Copy
    + Default
    + Eq
    + Ord
    + std::fmt::Debug
    + std::hash::Hash
    + Send
    + Sync
    + 'static
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitOrAssign
    + Shl<usize, Output = Self>
    + Shr<usize, Output = Self>
{
    /// Width of the type in bits.
    const BITS: usize;
    /// Width of the type in bytes.
    const BYTES: usize = Self::BITS / 8;
    /// Lanes of a block.
    const LANES: usize = BLOCK_LEN / Self::BITS;
    /// The value with all bits set.
    const MAX: Self;

    /// Number of zero bits above the highest one.
    fn leading_zeros(self) -> usize;
    /// The first [`Lane::BYTES`] bytes of `bytes` as a little-endian value; `None` if they are not there.
    fn read_le(bytes: &[u8]) -> Option<Self>;
    /// Appends the little-endian bytes.
    fn write_le(self, out: &mut Vec<u8>);
    /// Fills `out` from little-endian `bytes` (as many values as both have).
    fn copy_from_le(bytes: &[u8], out: &mut [Self]);
    /// Appends the little-endian bytes of `values`.
    fn extend_le(values: &[Self], out: &mut Vec<u8>);
    /// The value, zero-extended.
    fn to_u64(self) -> u64;
    /// The low bits of `value`.
    fn from_u64_truncated(value: u64) -> Self;

    #[doc(hidden)]
    fn word(row: &[u8; ROW_BYTES], lane: usize) -> Self;
    #[doc(hidden)]
    fn set_word(self, row: &mut [u8; ROW_BYTES], lane: usize);
    #[doc(hidden)]
    fn pack(width: usize, input: &[Self; BLOCK_LEN], packed: &mut [u8]);
    #[doc(hidden)]
    fn unpack(width: usize, packed: &[u8], out: &mut [Self; BLOCK_LEN]);
    #[doc(hidden)]
    fn unpack_one(width: usize, packed: &[u8], index: usize) -> Self;
}

macro_rules! lane {
    ($type:ty) => {
        impl sealed::Sealed for $type {}

        impl Lane for $type {
            const BITS: usize = <$type>::BITS as usize;
            const MAX: Self = <$type>::MAX;

            #[inline]
            fn leading_zeros(self) -> usize {
                <$type>::leading_zeros(self) as usize
            }
            #[inline]
            fn read_le(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|b| <$type>::from_le_bytes(*b))
            }
            #[inline]
            fn write_le(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn copy_from_le(bytes: &[u8], out: &mut [Self]) {
                let (words, _) = bytes.as_chunks();
                for (value, word) in out.iter_mut().zip(words) {
                    *value = <$type>::from_le_bytes(*word);
                }
            }
            fn extend_le(values: &[Self], out: &mut Vec<u8>) {
                let start = out.len();
                out.resize(start + size_of_val(values), 0);
                let (words, _) = out[start..].as_chunks_mut();
                for (word, value) in words.iter_mut().zip(values) {
                    *word = value.to_le_bytes();
                }
            }
            #[inline]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline]
            fn from_u64_truncated(value: u64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn word(row: &[u8; ROW_BYTES], lane: usize) -> Self {
                <$type>::from_le_bytes(row.as_chunks().0[lane])
            }
            #[inline(always)]
            fn set_word(self, row: &mut [u8; ROW_BYTES], lane: usize) {
                row.as_chunks_mut().0[lane] = self.to_le_bytes();
            }
            fn pack(width: usize, input: &[Self; BLOCK_LEN], packed: &mut [u8]) {
                pack(width, input, packed);
            }
            fn unpack(width: usize, packed: &[u8], out: &mut [Self; BLOCK_LEN]) {
                unpack(width, packed, out);
            }
            fn unpack_one(width: usize, packed: &[u8], index: usize) -> Self {
                unpack_one(width, packed, index)
            }
        }
    };
}

lane!(u8);
lane!(u16);
lane!(u32);
lane!(u64);

/// Index of the first value of a row; the values of the other lanes follow it.
#[inline(always)]
fn row_start(row: usize) -> usize {
    ORDER[row / 8] * 16 + (row % 8) * 128
}

/// Row and lane of a value: the inverse of `index(row, lane)`.
fn row_and_lane<T: Lane>(index: usize) -> (usize, usize) {
    let column = index % 128;
    // ORDER is its own inverse.
    let group = ORDER[column / T::LANES * T::LANES / 16];
    (group * 8 + index / 128, column % T::LANES)
}

#[inline(always)]
fn low_mask<T: Lane>(width: usize) -> T {
    if width == 0 {
        T::default()
    } else {
        T::MAX >> (T::BITS - width)
    }
}

/// Repeats the body for every row of `T`, the row a constant.
macro_rules! for_each_row {
    ($row:ident, $body:block) => {
        for_each_row!($row, $body,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63)
    };
    ($row:ident, $body:block, $($n:literal)*) => {
        $({
            const $row: usize = $n;
            if const { $row < T::BITS } $body
        })*
    };
}

/// Calls `$kernel::<T, W>` for the width given at run time, 1 to 64.
macro_rules! with_width {
    ($width:expr, $kernel:ident($($arg:expr),*)) => {
        with_width!($width, $kernel($($arg),*),
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
            33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64)
    };
    ($width:expr, $kernel:ident $args:tt, $($w:literal)*) => {
        match $width {
            $($w if const { $w <= T::BITS } => $kernel::<T, $w> $args,)*
            _ => {}
        }
    };
}

#[inline(always)]
fn unpack<T: Lane>(width: usize, packed: &[u8], out: &mut [T; BLOCK_LEN]) {
    if width == 0 {
        out.fill(T::default());
        return;
    }
    let (words, _) = packed.as_chunks();
    with_width!(width, unpack_width(words, out));
}

/// The loop over lanes becomes vector code; its body has no branch left, all shifts are constants.
fn unpack_width<T: Lane, const W: usize>(words: &[[u8; ROW_BYTES]], out: &mut [T; BLOCK_LEN]) {
    let words = &words[..W];
    let mask = low_mask::<T>(W);
    for lane in 0..T::LANES {
        for_each_row!(ROW, {
            let (word, shift) = (ROW * W / T::BITS, ROW * W % T::BITS);
            let mut value = T::word(&words[word], lane) >> shift;
            if shift + W > T::BITS {
                value |= T::word(&words[word + 1], lane) << (T::BITS - shift);
            }
            out[row_start(ROW) + lane] = value & mask;
        });
    }
}

#[inline(always)]
fn pack<T: Lane>(width: usize, input: &[T; BLOCK_LEN], packed: &mut [u8]) {
    let (words, _) = packed.as_chunks_mut();
    with_width!(width, pack_width(input, words));
}

fn pack_width<T: Lane, const W: usize>(input: &[T; BLOCK_LEN], words: &mut [[u8; ROW_BYTES]]) {
    let words = &mut words[..W];
    let mask = low_mask::<T>(W);
    for lane in 0..T::LANES {
        let mut bits = T::default();
        for_each_row!(ROW, {
            let (word, shift) = (ROW * W / T::BITS, ROW * W % T::BITS);
            let value = input[row_start(ROW) + lane] & mask;
            bits |= value << shift;
            if shift + W >= T::BITS {
                bits.set_word(&mut words[word], lane);
                bits = if shift + W > T::BITS {
                    value >> (T::BITS - shift)
                } else {
                    T::default()
                };
            }
        });
    }
}

fn unpack_one<T: Lane>(width: usize, packed: &[u8], index: usize) -> T {
    if width == 0 {
        return T::default();
    }
    let (row, lane) = row_and_lane::<T>(index);
    let (words, _) = packed.as_chunks::<ROW_BYTES>();
    let (word, shift) = (row * width / T::BITS, row * width % T::BITS);
    let mut value = T::word(&words[word], lane) >> shift;
    if shift + width > T::BITS {
        value |= T::word(&words[word + 1], lane) << (T::BITS - shift);
    }
    value & low_mask(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inverse<T: Lane>() {
        for row in 0..T::BITS {
            for lane in 0..T::LANES {
                assert_eq!(row_and_lane::<T>(row_start(row) + lane), (row, lane));
            }
        }
    }

    #[test]
    fn row_and_lane_inverts_the_order() {
        inverse::<u8>();
        inverse::<u16>();
        inverse::<u32>();
        inverse::<u64>();
    }
}
