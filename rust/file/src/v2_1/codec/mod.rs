//! Codec trees (format chapter 22): which codec is legal in which position, and decoding through them.
//!
//! The same message means different bytes in each position. Here: **mini-block** (the buffers of a chunk),
//! **per value** (one cell of a full-zip page) and **block** (levels, dictionaries). Counts are never in the codec;
//! they come from the layout, and every output is bounded by them.

mod block;
mod mini_block;
mod value;

use std::ops::Range;

use glaive_codec::fsst::SymbolTable;
use glaive_codec::general;

use super::ValueShape;
use super::sink::Values;
use crate::lanes::with_lane;
use crate::proto::lance::encodings21::compressive_encoding::Compression;
use crate::proto::lance::encodings21::{BufferCompression, CompressionScheme, CompressiveEncoding};
use crate::{Context, Error, Result};

pub use block::BlockCodec;
pub use mini_block::MiniBlockCodec;
pub use value::{Pending, ValueCodec};

/// How deep trees may nest; writers need three.
const MAX_DEPTH: usize = 8;

/// Chunks of 2.2 can be large, but not larger than this after decompression.
const MAX_CHUNK_BYTES: usize = 1 << 30;

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
fn expect_variable(encoding: &CompressiveEncoding, shape: &ValueShape) -> Result<()> {
    let Compression::Variable(variable) = compression(encoding)? else {
        return illegal(compression(encoding)?, "variable-width");
    };
    if variable.values.is_some() {
        return Err(Error::unsupported("compressed bytes inside a variable encoding"));
    }
    match shape {
        ValueShape::Variable { offset_bits } => {
            let bits = flat_bits(child(variable.offsets.as_deref())?).context(|| "offsets")?;
            expect_bits(bits, u32::from(*offset_bits), "variable")
        }
        _ => Err(Error::corrupt("variable encoding in a fixed-width column")),
    }
}

fn parse_fsst(fsst: &crate::proto::lance::encodings21::Fsst, shape: &ValueShape) -> Result<Box<SymbolTable>> {
    expect_variable(boxed_child(&fsst.values)?, shape)?;
    Ok(Box::new(
        SymbolTable::parse(&fsst.symbol_table).context(|| "FSST symbol table")?,
    ))
}

fn fixed_bits(shape: &ValueShape, encoding: &Compression) -> Result<u32> {
    match shape {
        ValueShape::Fixed { bits } => Ok(*bits),
        _ => Err(Error::corrupt(format!(
            "{} encoding in a column without fixed width",
            name(encoding)
        ))),
    }
}

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
