//! Codecs of mini-block chunks.

use std::ops::Range;

use glaive_codec::bitpack::{Lane, inline};
use glaive_codec::fsst::SymbolTable;
use glaive_codec::variable::{VariableChunk, VariableValues};
use glaive_codec::{byte_stream_split, general, rle};

use super::*;
use crate::v2_1::fixed_size_list::ListCodec;
use crate::v2_1::packed::FixedRow;
use crate::v2_1::ranges;

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
    /// Plain items, with a bitmap for each level that has nulls.
    FixedSizeList(ListCodec),
    /// Rows of fixed-width fields.
    PackedStruct(FixedRow),
}

impl MiniBlockCodec {
    /// Checks a tree in the mini-block position of a column of this shape.
    pub fn parse(encoding: &CompressiveEncoding, shape: &ValueShape) -> Result<Self> {
        Self::parse_at(encoding, shape, 0)
    }

    fn parse_at(encoding: &CompressiveEncoding, shape: &ValueShape, depth: usize) -> Result<Self> {
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
            Compression::PackedStruct(packed) => Ok(Self::PackedStruct(FixedRow::parse(packed, shape)?)),
            Compression::FixedSizeList(_) => Ok(Self::FixedSizeList(ListCodec::parse(encoding, shape)?)),
            other => illegal(other, "mini-block"),
        }
    }

    /// About how much longer decoded values are than stored ones.
    pub fn expansion(&self) -> usize {
        match self {
            Self::Fsst(_) | Self::General(..) => 3,
            _ => 1,
        }
    }

    /// Value buffers of a chunk.
    pub fn num_buffers(&self) -> usize {
        match self {
            Self::Rle => 2,
            Self::General(_, inner) => inner.num_buffers(),
            Self::FixedSizeList(codec) => codec.num_buffers(),
            _ => 1,
        }
    }

    /// Largest number of bytes that buffer 0 of `n` values can honestly have; bounds a decompression.
    fn max_buffer_len(&self, shape: &ValueShape, n: usize) -> usize {
        match (self, shape) {
            (Self::InlineBitpacking, ValueShape::Fixed { bits }) => (bits / 8 + 128 * bits) as usize,
            (_, ValueShape::Fixed { bits }) if !matches!(self, Self::General(..)) => {
                (*bits as usize).saturating_mul(n).div_ceil(8)
            }
            _ => MAX_CHUNK_BYTES,
        }
    }

    /// Decodes the values `wanted` of a chunk of `n` values and appends them.
    pub fn decode(
        &self,
        shape: &ValueShape,
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
            (Self::Flat, ValueShape::Fixed { bits }) => decode_flat(*bits, first, n, wanted, out),
            (Self::PackedStruct(row), _) => row.decode_chunk(first, n, wanted, out),
            (Self::FixedSizeList(codec), _) => codec.decode_chunk(buffers, n, wanted, out),
            (Self::InlineBitpacking, ValueShape::Fixed { bits }) => with_lane!(*bits, T => {
                decode_lanes::<T>(n, wanted, out, |values| Ok(inline::decode(first, n, values)?))
            }),
            (Self::Rle, ValueShape::Fixed { bits }) => with_lane!(*bits, T => {
                let lengths = buffers.get(1).copied().ok_or_else(|| Error::corrupt("RLE without run lengths"))?;
                decode_lanes::<T>(n, wanted, out, |values| Ok(rle::decode(first, lengths, n, values)?))
            }),
            (Self::ByteStreamSplit, ValueShape::Fixed { bits }) => with_lane!(*bits, T => {
                decode_lanes::<T>(n, wanted, out, |values| split_bytes::<T>(first, values))
            }),
            (Self::Variable, ValueShape::Variable { offset_bits }) => {
                push_variable(&VariableChunk::parse(first, *offset_bits, n)?, wanted, out)
            }
            (Self::Fsst(table), ValueShape::Variable { offset_bits }) => {
                push_fsst(table, &VariableChunk::parse(first, *offset_bits, n)?, wanted, out)
            }
            _ => Err(Error::corrupt("codec and column do not fit")),
        }
    }
}

/// Decodes a whole chunk: straight into the output when all of it is wanted, through scratch memory otherwise.
fn decode_lanes<T: Lane + arrow_buffer::ArrowNativeType>(
    n: usize,
    wanted: &[Range<u64>],
    out: &mut Values,
    decode: impl FnOnce(&mut [T]) -> Result<()>,
) -> Result<()> {
    if ranges::is_all(wanted, n as u64) {
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
    for range in wanted {
        out.push_chunk(&chunk.slice(range.start as usize..range.end as usize)?)?;
    }
    Ok(())
}

fn push_fsst(
    table: &SymbolTable,
    chunk: &VariableValues<'_>,
    wanted: &[Range<u64>],
    out: &mut Values,
) -> Result<()> {
    for range in wanted {
        let part = chunk.slice(range.start as usize..range.end as usize)?;
        out.push_fsst(table, part.data(), part.ends(), part.len())?;
    }
    Ok(())
}

/// Joins the byte streams of a chunk.
fn split_bytes<T: Lane>(buffer: &[u8], out: &mut [T]) -> Result<()> {
    let mut joined = vec![0; out.len() * T::BYTES];
    byte_stream_split::decode(T::BYTES, buffer, &mut joined)?;
    T::copy_from_le(&joined, out);
    Ok(())
}
