//! Fixed-width values of one buffer: flat, and the two bit-packed forms of old writers (format chapter 20, 4.1, 10.1, 10.2).
//!
//! ```text
//! flat 1                  a bitmap
//! flat 8k                 value i at bytes i * k ..
//! bitpacked W -> T        value i at bits i * W .. of the buffer
//! bitpacked_for_non_neg   chunks of 1,024 values, 128 * W bytes each, in FastLanes order; the last chunk is padded
//! ```

use std::ops::Range;

use bytes::Bytes;
use glaive_codec::bitpack::{self, BLOCK_LEN, Lane};

use super::parts::{Parts, Requests};
use super::sink::check_expanded;
use crate::container::BufferRange;
use crate::lanes::with_lane;
use crate::{Error, Result};

/// A buffer of `len` values of fixed width.
#[derive(Debug, Clone)]
pub struct Source {
    buffer: BufferRange,
    packing: Packing,
    len: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Bits,
    Bytes(u64),
    Stream { width: usize, bits: u64, signed: bool },
    FastLanes { width: usize, bits: u64 },
}

impl Source {
    /// `len` flat values of `bits` bits: 1 or whole bytes.
    pub fn flat(buffer: BufferRange, bits: u64, len: u64) -> Result<Self> {
        let packing = match bits {
            1 => Packing::Bits,
            bits if bits > 0 && bits % 8 == 0 => Packing::Bytes(bits / 8),
            _ => return Err(Error::corrupt(format!("flat encoding of {bits} bits a value"))),
        };
        Self::checked(buffer, packing, len)
    }

    /// `len` values in a stream of `width` bits each, `bits` when unpacked.
    pub fn stream(buffer: BufferRange, width: u64, bits: u64, signed: bool, len: u64) -> Result<Self> {
        if width == 0 {
            return Err(Error::corrupt("bit-packed values of 0 bits"));
        }
        let width = packed_width(width, bits)?;
        Self::checked(buffer, Packing::Stream { width, bits, signed }, len)
    }

    /// `len` values in chunks of 1,024.
    pub fn fast_lanes(buffer: BufferRange, width: u64, bits: u64, len: u64) -> Result<Self> {
        let width = packed_width(width, bits)?;
        Self::checked(buffer, Packing::FastLanes { width, bits }, len)
    }

    fn checked(buffer: BufferRange, packing: Packing, len: u64) -> Result<Self> {
        let source = Self { buffer, packing, len };
        let expected = source.end_byte(len);
        if u128::from(buffer.size) < expected {
            return Err(Error::corrupt(format!(
                "a buffer of {} bytes for {len} values of {} bits needs {expected}",
                buffer.size,
                source.bits()
            )));
        }
        Ok(source)
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bits of an unpacked value.
    pub fn bits(&self) -> u64 {
        match self.packing {
            Packing::Bits => 1,
            Packing::Bytes(bytes) => bytes.saturating_mul(8),
            Packing::Stream { bits, .. } | Packing::FastLanes { bits, .. } => bits,
        }
    }

    /// Fails unless values have `bits` bits.
    pub fn expect_bits(self, bits: u64) -> Result<Self> {
        if self.bits() == bits {
            return Ok(self);
        }
        Err(Error::corrupt(format!(
            "values of {} bits where {bits} are expected",
            self.bits()
        )))
    }

    /// Where the first `values` values end.
    fn end_byte(&self, values: u64) -> u128 {
        let values = u128::from(values);
        match self.packing {
            Packing::Bits => values.div_ceil(8),
            Packing::Bytes(width) => values * u128::from(width),
            Packing::Stream { width, .. } => (values * width as u128).div_ceil(8),
            Packing::FastLanes { width, .. } => values.div_ceil(1024) * 128 * width as u128,
        }
    }

    /// Where the bytes of value `row` start.
    fn start_byte(&self, row: u64) -> u128 {
        let row = u128::from(row);
        match self.packing {
            Packing::Bits => row / 8,
            Packing::Bytes(width) => row * u128::from(width),
            Packing::Stream { width, .. } => row * width as u128 / 8,
            Packing::FastLanes { width, .. } => row / 1024 * 128 * width as u128,
        }
    }

    /// Bytes of the buffer that hold `rows`.
    fn byte_range(&self, rows: &Range<u64>) -> Result<Range<u64>> {
        if rows.end > self.len || rows.start > rows.end {
            return Err(Error::corrupt(format!(
                "values {}..{} of a buffer of {}",
                rows.start, rows.end, self.len
            )));
        }
        if rows.is_empty() {
            return self.buffer.slice(0, 0);
        }
        let inside = |byte: u128| u64::try_from(byte).map_err(|_| Error::corrupt("buffer too long"));
        self.buffer.slice(
            inside(self.start_byte(rows.start))?,
            inside(self.end_byte(rows.end))?,
        )
    }

    /// Asks for the bytes of `rows`.
    pub fn request(&self, rows: &Range<u64>, out: &mut Requests) -> Result<()> {
        out.push(self.byte_range(rows)?);
        Ok(())
    }

    /// Takes the bytes of `rows`, unpacked to whole bytes a value. Bitmaps stay as they are: see [`Self::take_bits`].
    pub fn take(&self, rows: &Range<u64>, parts: &mut Parts) -> Result<Bytes> {
        let part = parts.next(&self.byte_range(rows)?)?;
        let n = usize::try_from(rows.end - rows.start).map_err(|_| Error::corrupt("too many values"))?;
        if matches!(self.packing, Packing::Stream { .. } | Packing::FastLanes { .. }) {
            check_expanded(n.checked_mul(8))?;
        }
        match self.packing {
            Packing::Bits | Packing::Bytes(_) => Ok(part),
            Packing::Stream { width, bits, signed } => {
                let first_bit = (rows.start as u128 * width as u128 % 8) as usize;
                with_lane!(bits, T => unpack_stream::<T>(&part, first_bit, width, signed, n))
            }
            Packing::FastLanes { width, bits } => {
                with_lane!(bits, T => unpack_chunks::<T>(&part, (rows.start % 1024) as usize, width, n))
            }
        }
    }

    /// Takes the bitmap of `rows` and the position of the first bit in it.
    pub fn take_bits(&self, rows: &Range<u64>, parts: &mut Parts) -> Result<(Bytes, usize)> {
        Ok((self.take(rows, parts)?, (rows.start % 8) as usize))
    }
}

fn packed_width(width: u64, bits: u64) -> Result<usize> {
    match usize::try_from(width) {
        Ok(packed) if matches!(bits, 8 | 16 | 32 | 64) && width <= bits => Ok(packed),
        _ => Err(Error::corrupt(format!(
            "values of {bits} bits packed to {width} bits"
        ))),
    }
}

fn unpack_stream<T: Lane>(
    part: &[u8],
    first_bit: usize,
    width: usize,
    signed: bool,
    n: usize,
) -> Result<Bytes> {
    let mut values = vec![T::default(); n];
    bitpack::stream::decode(part, first_bit, width, signed, &mut values)?;
    Ok(to_bytes(&values))
}

/// Unpacks the chunks of `part` and keeps `n` values from `skip` on.
fn unpack_chunks<T: Lane>(part: &[u8], skip: usize, width: usize, n: usize) -> Result<Bytes> {
    let chunks = (skip + n).div_ceil(BLOCK_LEN);
    let chunk_bytes = bitpack::packed_len(width);
    let mut values = Vec::with_capacity(chunks * BLOCK_LEN);
    let mut block = [T::default(); BLOCK_LEN];
    for i in 0..chunks {
        let packed = part.get(i * chunk_bytes..(i + 1) * chunk_bytes);
        let packed = packed.ok_or_else(|| Error::corrupt("bit-packed chunk is cut short"))?;
        bitpack::unpack_block(width, packed, &mut block)?;
        values.extend_from_slice(&block);
    }
    let wanted = values.get(skip..skip + n);
    Ok(to_bytes(wanted.ok_or_else(|| Error::corrupt("too few chunks"))?))
}

fn to_bytes<T: Lane>(values: &[T]) -> Bytes {
    let mut out = Vec::with_capacity(size_of_val(values));
    T::extend_le(values, &mut out);
    out.into()
}
