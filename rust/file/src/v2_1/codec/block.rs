//! Codecs of one opaque buffer: levels and dictionaries.

use glaive_codec::bitpack::{Lane, inline, out_of_line};
use glaive_codec::variable::{VariableBlock, block};
use glaive_codec::{general, rle};

use super::*;

/// Dictionaries are held in memory as a whole.
const MAX_DICTIONARY_BYTES: usize = 1 << 30;

/// A codec of one opaque buffer.
#[derive(Debug)]
pub enum BlockCodec {
    Flat { bits: u32 },
    InlineBitpacking { bits: u32 },
    OutOfLineBitpacking { bits: u32, width: usize },
    Rle { bits: u32 },
    Variable { offset_bits: u8 },
    General(general::Scheme, Box<BlockCodec>),
}

impl BlockCodec {
    /// Checks a tree in the block position.
    pub fn parse(encoding: &CompressiveEncoding) -> Result<Self> {
        Self::parse_at(encoding, 0)
    }

    /// Uncompressed levels.
    pub fn raw_levels() -> Self {
        Self::Flat { bits: 16 }
    }

    fn parse_at(encoding: &CompressiveEncoding, depth: usize) -> Result<Self> {
        let encoding = compression(encoding)?;
        let bits =
            |bits: u64| u32::try_from(bits).map_err(|_| Error::corrupt(format!("values of {bits} bits")));
        match encoding {
            Compression::Flat(_) => Ok(Self::Flat {
                bits: bits(flat_bits(encoding)?)?,
            }),
            Compression::InlineBitpacking(packing) if packing.values.is_none() => {
                Ok(Self::InlineBitpacking {
                    bits: bits(packing.uncompressed_bits_per_value)?,
                })
            }
            Compression::OutOfLineBitpacking(packing) => {
                let width = bits(flat_bits(child(packing.values.as_deref())?)?)? as usize;
                Ok(Self::OutOfLineBitpacking {
                    bits: bits(packing.uncompressed_bits_per_value)?,
                    width,
                })
            }
            Compression::Rle(rle) => {
                expect_bits(
                    flat_bits(child(rle.run_lengths.as_deref())?)?,
                    8,
                    "RLE run length",
                )?;
                Ok(Self::Rle {
                    bits: bits(flat_bits(child(rle.values.as_deref())?)?)?,
                })
            }
            Compression::Variable(variable) if variable.values.is_none() => {
                match flat_bits(child(variable.offsets.as_deref())?)? {
                    32 => Ok(Self::Variable { offset_bits: 32 }),
                    64 => Ok(Self::Variable { offset_bits: 64 }),
                    other => Err(Error::corrupt(format!("offsets of {other} bits"))),
                }
            }
            Compression::General(general) if depth < MAX_DEPTH => {
                let inner = Self::parse_at(boxed_child(&general.values)?, depth + 1)?;
                Ok(Self::General(
                    scheme(general.compression.as_ref())?,
                    Box::new(inner),
                ))
            }
            other => illegal(other, "block"),
        }
    }

    fn max_len(&self, n: usize) -> usize {
        match self {
            Self::Flat { bits } => (*bits as usize).saturating_mul(n).div_ceil(8),
            Self::InlineBitpacking { bits } => *bits as usize * 129,
            Self::OutOfLineBitpacking { bits, .. } => {
                (*bits as usize).saturating_mul(n.next_multiple_of(1024)) / 8
            }
            Self::Rle { bits } => (*bits as usize / 8 + 1).saturating_mul(n).saturating_add(8),
            Self::Variable { .. } | Self::General(..) => MAX_DICTIONARY_BYTES,
        }
    }

    /// Decodes `n` fixed-width values; `out` has that length.
    pub fn decode_lanes<T: Lane>(&self, buffer: &[u8], n: usize, out: &mut [T]) -> Result<()> {
        let expect = |bits: u32| expect_bits(u64::from(bits), T::BITS as u32, "block");
        match self {
            Self::Flat { bits } => {
                expect(*bits)?;
                if buffer.len() != n * T::BYTES {
                    return Err(Error::corrupt(format!(
                        "{} bytes for {n} values of {bits} bits",
                        buffer.len()
                    )));
                }
                T::copy_from_le(buffer, out);
                Ok(())
            }
            Self::InlineBitpacking { bits } => {
                expect(*bits)?;
                Ok(inline::decode(buffer, n, out)?)
            }
            Self::OutOfLineBitpacking { bits, width } => {
                expect(*bits)?;
                Ok(out_of_line::decode(buffer, *width, n, out)?)
            }
            Self::Rle { bits } => {
                expect(*bits)?;
                Ok(rle::decode_block(buffer, n, out)?)
            }
            Self::General(scheme, inner) => {
                let mut plain = Vec::new();
                general::decompress(*scheme, buffer, inner.max_len(n), &mut plain)?;
                inner.decode_lanes(&plain, n, out)
            }
            Self::Variable { .. } => Err(Error::corrupt("variable-width encoding of fixed-width values")),
        }
    }

    /// Decodes `n` values of a dictionary of this shape.
    pub fn decode_values(&self, shape: &ValueShape, buffer: &[u8], n: usize) -> Result<Values> {
        let mut values = Values::new(shape, 0);
        match (self, shape) {
            (Self::General(scheme, inner), _) => {
                let mut plain = Vec::new();
                general::decompress(*scheme, buffer, inner.max_len(n), &mut plain)?;
                return inner.decode_values(shape, &plain, n);
            }
            (
                Self::Variable { offset_bits },
                ValueShape::Variable {
                    offset_bits: expected,
                },
            ) => {
                expect_bits(u64::from(*offset_bits), u32::from(*expected), "dictionary")?;
                values.push_chunk(&decode_block(buffer, *offset_bits, n)?)?;
            }
            (Self::Flat { bits }, ValueShape::Fixed { bits: expected }) => {
                expect_bits(u64::from(*bits), *expected, "dictionary")?;
                let all = 0..n as u64;
                decode_flat(*expected, buffer, n, std::slice::from_ref(&all), &mut values)?;
            }
            (_, ValueShape::Fixed { bits }) => {
                // The smallest encoding of n values is an RLE run of 255 in one byte and a value.
                if n / 255 > buffer.len().saturating_mul(1024) {
                    return Err(Error::corrupt(format!(
                        "{} bytes cannot hold {n} values",
                        buffer.len()
                    )));
                }
                with_lane!(*bits, T => self.decode_lanes(buffer, n, values.grow::<T>(n)?))?;
            }
            _ => return Err(Error::corrupt("dictionary codec and column do not fit")),
        }
        Ok(values)
    }

    /// Decodes `n` levels.
    pub fn decode_levels(&self, buffer: &[u8], n: usize) -> Result<Vec<u16>> {
        // No codec holds more levels than 255 a byte, and bit-packing holds 1,024 of width 0 in a word.
        if n / 1024 > buffer.len().saturating_mul(255).saturating_add(64) && !self.may_be_empty() {
            return Err(Error::corrupt(format!(
                "{} bytes cannot hold {n} levels",
                buffer.len()
            )));
        }
        let mut levels = vec![0u16; n];
        self.decode_lanes(buffer, n, &mut levels)?;
        Ok(levels)
    }

    /// Whether any number of zeros takes no byte.
    fn may_be_empty(&self) -> bool {
        matches!(self, Self::OutOfLineBitpacking { width: 0, .. })
    }

    /// The number of levels, where the codec tells it.
    pub fn level_count(&self, buffer: &[u8]) -> Result<Option<u64>> {
        match self {
            Self::Rle { bits: 16 } => Ok(Some(rle::block_value_count::<u16>(buffer)?)),
            _ => Ok(None),
        }
    }
}

/// Parses a dictionary of variable-width values whose offsets must be as wide as its description says.
fn decode_block(buffer: &[u8], offset_bits: u8, n: usize) -> Result<VariableBlock<'_>> {
    let values = block::decode(buffer, n)?;
    expect_bits(
        u64::from(values.offset_bits()),
        u32::from(offset_bits),
        "dictionary",
    )?;
    Ok(values)
}
