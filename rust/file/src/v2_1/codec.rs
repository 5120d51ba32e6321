//! Codec trees (format chapter 22): which codec is legal in which position, and decoding through them.
//!
//! The same message means different bytes in each position. Here: **mini-block** (the buffers of a chunk),
//! **per value** (one cell of a full-zip page) and **block** (levels, dictionaries). Counts are never in the codec;
//! they come from the layout, and every output is bounded by them.

use std::ops::Range;

use glaive_codec::bitpack::{Lane, inline, out_of_line};
use glaive_codec::fsst::SymbolTable;
use glaive_codec::variable::{VariableBlock, VariableChunk, VariableValues, block};
use glaive_codec::{byte_stream_split, general, rle};

use super::ValueShape;
use super::sink::Values;
use crate::proto::lance::encodings21::compressive_encoding::Compression;
use crate::proto::lance::encodings21::{BufferCompression, CompressionScheme, CompressiveEncoding};
use crate::{Context, Error, Result};

/// How deep trees may nest; writers need three.
const MAX_DEPTH: usize = 8;

/// Runs `$body` with `$lane` naming the unsigned integer of `$bits` bits.
macro_rules! with_lane {
    ($bits:expr, $lane:ident => $body:expr) => {
        match $bits {
            8 => {
                type $lane = u8;
                $body
            }
            16 => {
                type $lane = u16;
                $body
            }
            32 => {
                type $lane = u32;
                $body
            }
            64 => {
                type $lane = u64;
                $body
            }
            other => Err(Error::corrupt(format!("integers of {other} bits"))),
        }
    };
}

/// A codec of mini-block chunks.
#[derive(Debug)]
pub enum MiniBlockCodec {
    Flat,
    InlineBitpacking,
    ByteStreamSplit,
    Rle,
    Variable,
    Fsst(Box<SymbolTable>),
    /// Buffer 0 of the inner codec is compressed.
    General(general::Scheme, Box<MiniBlockCodec>),
}

/// A codec of single full-zip cells.
#[derive(Debug)]
pub enum ValueCodec {
    /// The cell is the value, fixed width.
    Flat,
    /// The cell is the value, variable width.
    Variable,
    Fsst(Box<SymbolTable>),
    General(general::Scheme),
}

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

fn compression(encoding: &CompressiveEncoding) -> Result<&Compression> {
    encoding
        .compression
        .as_ref()
        .ok_or_else(|| Error::corrupt("unknown encoding: no known codec is set"))
}

fn child(encoding: Option<&CompressiveEncoding>) -> Result<&Compression> {
    compression(encoding.ok_or_else(|| Error::corrupt("a codec lacks its child"))?)
}

fn boxed_child(encoding: &Option<Box<CompressiveEncoding>>) -> Result<&CompressiveEncoding> {
    encoding
        .as_deref()
        .ok_or_else(|| Error::corrupt("a codec lacks its child"))
}

fn flat_bits(encoding: &Compression) -> Result<u64> {
    match encoding {
        Compression::Flat(flat) if flat.data.is_none() => Ok(flat.bits_per_value),
        other => Err(Error::corrupt(format!("{} where flat is expected", name(other)))),
    }
}

fn scheme(compression: Option<&BufferCompression>) -> Result<general::Scheme> {
    match compression.map(BufferCompression::scheme_checked) {
        Some(Some(CompressionScheme::CompressionAlgorithmLz4)) => Ok(general::Scheme::Lz4),
        Some(Some(CompressionScheme::CompressionAlgorithmZstd)) => Ok(general::Scheme::Zstd),
        _ => Err(Error::unsupported("unknown general compression scheme")),
    }
}

impl BufferCompression {
    fn scheme_checked(&self) -> Option<CompressionScheme> {
        CompressionScheme::try_from(self.scheme).ok()
    }
}

fn name(encoding: &Compression) -> &'static str {
    match encoding {
        Compression::Flat(_) => "flat",
        Compression::Variable(_) => "variable",
        Compression::Constant(_) => "constant",
        Compression::OutOfLineBitpacking(_) => "out-of-line bit-packing",
        Compression::InlineBitpacking(_) => "inline bit-packing",
        Compression::Fsst(_) => "FSST",
        Compression::Dictionary(_) => "dictionary",
        Compression::Rle(_) => "RLE",
        Compression::ByteStreamSplit(_) => "byte-stream-split",
        Compression::General(_) => "general",
        Compression::FixedSizeList(_) => "fixed-size list",
        Compression::PackedStruct(_) => "packed struct",
        Compression::VariablePackedStruct(_) => "variable packed struct",
    }
}

fn illegal<T>(encoding: &Compression, position: &str) -> Result<T> {
    Err(Error::unsupported(format!(
        "{} encoding in the {position} position",
        name(encoding)
    )))
}

fn expect_bits(found: u64, expected: u32, codec: &str) -> Result<()> {
    if found == u64::from(expected) {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{codec} encoding of {found} bits in a column of {expected} bits"
    )))
}

/// Checks `Variable(Flat(w))` against the column's offsets.
fn expect_variable(encoding: &CompressiveEncoding, shape: ValueShape) -> Result<()> {
    let Compression::Variable(variable) = compression(encoding)? else {
        return illegal(compression(encoding)?, "variable-width");
    };
    if variable.values.is_some() {
        return Err(Error::unsupported("compressed bytes inside a variable encoding"));
    }
    match shape {
        ValueShape::Variable { offset_bits } => {
            let bits = flat_bits(child(variable.offsets.as_deref())?).context(|| "offsets")?;
            expect_bits(bits, u32::from(offset_bits), "variable")
        }
        _ => Err(Error::corrupt("variable encoding in a fixed-width column")),
    }
}

fn parse_fsst(fsst: &crate::proto::lance::encodings21::Fsst, shape: ValueShape) -> Result<Box<SymbolTable>> {
    expect_variable(boxed_child(&fsst.values)?, shape)?;
    Ok(Box::new(
        SymbolTable::parse(&fsst.symbol_table).context(|| "FSST symbol table")?,
    ))
}

fn fixed_bits(shape: ValueShape, encoding: &Compression) -> Result<u32> {
    match shape {
        ValueShape::Fixed { bits } => Ok(bits),
        _ => Err(Error::corrupt(format!(
            "{} encoding in a column without fixed width",
            name(encoding)
        ))),
    }
}

impl MiniBlockCodec {
    /// Checks a tree in the mini-block position of a column of this shape.
    pub fn parse(encoding: &CompressiveEncoding, shape: ValueShape) -> Result<Self> {
        Self::parse_at(encoding, shape, 0)
    }

    fn parse_at(encoding: &CompressiveEncoding, shape: ValueShape, depth: usize) -> Result<Self> {
        let encoding_ref = compression(encoding)?;
        let bits = || fixed_bits(shape, encoding_ref);
        match encoding_ref {
            Compression::Flat(_) => {
                expect_bits(flat_bits(encoding_ref)?, bits()?, "flat")?;
                Ok(Self::Flat)
            }
            Compression::InlineBitpacking(packing) if packing.values.is_none() => {
                expect_bits(packing.uncompressed_bits_per_value, bits()?, "bit-packing")?;
                with_lane!(bits()?, T => Ok(T::BITS))?;
                Ok(Self::InlineBitpacking)
            }
            Compression::ByteStreamSplit(split) => {
                expect_bits(
                    flat_bits(child(split.values.as_deref())?)?,
                    bits()?,
                    "byte-stream-split",
                )?;
                match bits()? {
                    32 | 64 => Ok(Self::ByteStreamSplit),
                    other => Err(Error::corrupt(format!("byte-stream-split of {other} bits"))),
                }
            }
            Compression::Rle(rle) => {
                expect_bits(flat_bits(child(rle.values.as_deref())?)?, bits()?, "RLE")?;
                expect_bits(
                    flat_bits(child(rle.run_lengths.as_deref())?)?,
                    8,
                    "RLE run length",
                )?;
                with_lane!(bits()?, T => Ok(T::BITS))?;
                Ok(Self::Rle)
            }
            Compression::Variable(_) => expect_variable(encoding, shape).map(|()| Self::Variable),
            Compression::Fsst(fsst) => Ok(Self::Fsst(parse_fsst(fsst, shape)?)),
            Compression::General(general) if depth < MAX_DEPTH => {
                let inner = Self::parse_at(boxed_child(&general.values)?, shape, depth + 1)?;
                Ok(Self::General(
                    scheme(general.compression.as_ref())?,
                    Box::new(inner),
                ))
            }
            other => illegal(other, "mini-block"),
        }
    }

    /// Value buffers of a chunk.
    pub fn num_buffers(&self) -> usize {
        match self {
            Self::Rle => 2,
            Self::General(_, inner) => inner.num_buffers(),
            _ => 1,
        }
    }

    /// Largest number of bytes that buffer 0 of `n` values can honestly have; bounds a decompression.
    fn max_buffer_len(&self, shape: ValueShape, n: usize) -> usize {
        match (self, shape) {
            (Self::InlineBitpacking, ValueShape::Fixed { bits }) => (bits / 8 + 128 * bits) as usize,
            (Self::General(..), _) | (_, ValueShape::Variable { .. }) | (_, ValueShape::Null) => {
                MAX_CHUNK_BYTES
            }
            (_, ValueShape::Fixed { bits }) => (bits as usize).saturating_mul(n).div_ceil(8),
        }
    }

    /// Decodes the values `wanted` of a chunk of `n` values and appends them.
    pub fn decode(
        &self,
        shape: ValueShape,
        buffers: &[&[u8]],
        n: usize,
        wanted: &[Range<u64>],
        out: &mut Values,
    ) -> Result<()> {
        let first = buffers
            .first()
            .copied()
            .ok_or_else(|| Error::corrupt("a chunk without value buffers"))?;
        match (self, shape) {
            (Self::General(scheme, inner), _) => {
                let mut plain = Vec::new();
                general::decompress(*scheme, first, inner.max_buffer_len(shape, n), &mut plain)?;
                let mut buffers = buffers.to_vec();
                if let Some(buffer) = buffers.first_mut() {
                    *buffer = &plain;
                }
                inner.decode(shape, &buffers, n, wanted, out)
            }
            (Self::Flat, ValueShape::Fixed { bits }) => decode_flat(bits, first, n, wanted, out),
            (Self::InlineBitpacking, ValueShape::Fixed { bits }) => with_lane!(bits, T => {
                decode_lanes::<T>(n, wanted, out, |values| Ok(inline::decode(first, n, values)?))
            }),
            (Self::Rle, ValueShape::Fixed { bits }) => with_lane!(bits, T => {
                let lengths = buffers.get(1).copied().ok_or_else(|| Error::corrupt("RLE without run lengths"))?;
                decode_lanes::<T>(n, wanted, out, |values| Ok(rle::decode(first, lengths, n, values)?))
            }),
            (Self::ByteStreamSplit, ValueShape::Fixed { bits }) => with_lane!(bits, T => {
                decode_lanes::<T>(n, wanted, out, |values| split_bytes::<T>(first, values))
            }),
            (Self::Variable, ValueShape::Variable { offset_bits }) => {
                push_variable(&VariableChunk::parse(first, offset_bits, n)?, wanted, out)
            }
            (Self::Fsst(table), ValueShape::Variable { offset_bits }) => {
                push_fsst(table, &VariableChunk::parse(first, offset_bits, n)?, wanted, out)
            }
            _ => Err(Error::corrupt("codec and column do not fit")),
        }
    }
}

/// Chunks of 2.2 can be large, but not larger than this after decompression.
const MAX_CHUNK_BYTES: usize = 1 << 30;

/// Dictionaries are held in memory as a whole.
const MAX_DICTIONARY_BYTES: usize = 1 << 30;

fn decode_flat(bits: u32, buffer: &[u8], n: usize, wanted: &[Range<u64>], out: &mut Values) -> Result<()> {
    let expected = (n as u64).saturating_mul(u64::from(bits)).div_ceil(8);
    if buffer.len() as u64 != expected {
        return Err(Error::corrupt(format!(
            "{} bytes for {n} values of {bits} bits",
            buffer.len()
        )));
    }
    for range in wanted {
        let (start, end) = (range.start as usize, range.end as usize);
        if bits == 1 {
            out.push_bits(buffer, start..end)?;
            continue;
        }
        let width = bits as usize / 8;
        let part = buffer.get(start * width..end * width);
        out.push_fixed(part.ok_or_else(|| Error::corrupt("values beyond the chunk"))?)?;
    }
    Ok(())
}

/// Decodes a whole chunk: straight into the output when all of it is wanted, through scratch memory otherwise.
fn decode_lanes<T: Lane + arrow_buffer::ArrowNativeType>(
    n: usize,
    wanted: &[Range<u64>],
    out: &mut Values,
    decode: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<()> {
    if super::ranges::is_all(wanted, n as u64) {
        return decode(out.grow::<T>(n)?);
    }
    let mut scratch = vec![T::default(); n];
    decode(&mut scratch)?;
    for range in wanted {
        let part = scratch.get(range.start as usize..range.end as usize);
        let part = part.ok_or_else(|| Error::corrupt("values beyond the chunk"))?;
        out.grow::<T>(part.len())?.copy_from_slice(part);
    }
    Ok(())
}

fn push_variable(chunk: &VariableValues<'_>, wanted: &[Range<u64>], out: &mut Values) -> Result<()> {
    if super::ranges::is_all(wanted, chunk.len() as u64) {
        return out.push_chunk(chunk);
    }
    for i in wanted.iter().cloned().flatten() {
        out.push_bytes(chunk.value(i as usize))?;
    }
    Ok(())
}

fn push_fsst(
    table: &SymbolTable,
    chunk: &VariableValues<'_>,
    wanted: &[Range<u64>],
    out: &mut Values,
) -> Result<()> {
    if super::ranges::is_all(wanted, chunk.len() as u64) {
        let mut bytes = Vec::new();
        let mut offsets: Vec<i64> = Vec::with_capacity(chunk.len() + 1);
        offsets.push(0);
        table.decompress_all(chunk.iter(), &mut bytes, &mut offsets)?;
        return out.push_variable(&offsets, &bytes);
    }
    let mut scratch = Vec::new();
    for i in wanted.iter().cloned().flatten() {
        scratch.clear();
        table.decompress(chunk.value(i as usize), &mut scratch)?;
        out.push_bytes(&scratch)?;
    }
    Ok(())
}

impl ValueCodec {
    /// Checks a tree in the per-value position of a column of this shape.
    pub fn parse(encoding: &CompressiveEncoding, shape: ValueShape) -> Result<Self> {
        match compression(encoding)? {
            // Booleans are widened to a byte in full-zip pages.
            flat @ Compression::Flat(_) => {
                let bits = match fixed_bits(shape, flat)? {
                    1 => 8,
                    bits => bits,
                };
                expect_bits(flat_bits(flat)?, bits, "flat")?;
                Ok(Self::Flat)
            }
            Compression::Variable(_) => expect_variable(encoding, shape).map(|()| Self::Variable),
            Compression::Fsst(fsst) => Ok(Self::Fsst(parse_fsst(fsst, shape)?)),
            // The tree inside is informative only.
            Compression::General(general) if matches!(shape, ValueShape::Variable { .. }) => {
                Ok(Self::General(scheme(general.compression.as_ref())?))
            }
            other => illegal(other, "per-value"),
        }
    }

    /// Whether cells are fixed-width values.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Flat)
    }

    /// Decodes one variable-width cell and appends the value.
    pub fn decode_value(&self, cell: &[u8], scratch: &mut Vec<u8>, out: &mut Values) -> Result<()> {
        scratch.clear();
        match self {
            Self::Flat | Self::Variable => return out.push_bytes(cell),
            Self::Fsst(table) => table.decompress(cell, scratch)?,
            Self::General(scheme) => general::decompress(*scheme, cell, MAX_CHUNK_BYTES, scratch)?,
        }
        out.push_bytes(scratch)
    }
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
    pub fn decode_values(&self, shape: ValueShape, buffer: &[u8], n: usize) -> Result<Values> {
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
                expect_bits(u64::from(*offset_bits), u32::from(expected), "dictionary")?;
                values.push_chunk(&decode_block(buffer, *offset_bits, n)?)?;
            }
            (Self::Flat { bits }, ValueShape::Fixed { bits: expected }) => {
                expect_bits(u64::from(*bits), expected, "dictionary")?;
                decode_flat(
                    expected,
                    buffer,
                    n,
                    std::slice::from_ref(&(0..n as u64)),
                    &mut values,
                )?;
            }
            (_, ValueShape::Fixed { bits }) => {
                // The smallest encoding of n values is an RLE run of 255 in one byte and a value.
                if n / 255 > buffer.len().saturating_mul(1024) {
                    return Err(Error::corrupt(format!(
                        "{} bytes cannot hold {n} values",
                        buffer.len()
                    )));
                }
                with_lane!(bits, T => self.decode_lanes(buffer, n, values.grow::<T>(n)?))?;
            }
            _ => return Err(Error::corrupt("dictionary codec and column do not fit")),
        }
        Ok(values)
    }
}

/// Joins the byte streams of a chunk.
fn split_bytes<T: Lane>(buffer: &[u8], out: &mut [T]) -> Result<()> {
    let mut joined = vec![0; out.len() * T::BYTES];
    byte_stream_split::decode(T::BYTES, buffer, &mut joined)?;
    T::copy_from_le(&joined, out);
    Ok(())
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

/// Decodes `n` levels.
pub fn decode_levels(codec: &BlockCodec, buffer: &[u8], n: usize) -> Result<Vec<u16>> {
    let mut levels = vec![0u16; n];
    codec.decode_lanes(buffer, n, &mut levels)?;
    Ok(levels)
}
