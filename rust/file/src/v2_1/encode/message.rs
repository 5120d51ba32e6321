//! Building codec messages.

use glaive_codec::general;

use crate::proto::lance::encodings21::compressive_encoding::Compression;
use crate::proto::lance::encodings21::variable_packed_struct::FieldEncoding;
use crate::proto::lance::encodings21::variable_packed_struct::field_encoding::Layout;
use crate::proto::lance::encodings21::{
    BufferCompression, ByteStreamSplit, CompressionScheme, CompressiveEncoding, FixedSizeList, Flat, Fsst,
    General, InlineBitpacking, OutOfLineBitpacking, PackedStruct, Rle, Variable, VariablePackedStruct,
};

fn wrap(compression: Compression) -> CompressiveEncoding {
    CompressiveEncoding {
        compression: Some(compression),
    }
}

/// Plain values of `bits` bits.
pub fn flat(bits: u64) -> CompressiveEncoding {
    wrap(Compression::Flat(Flat {
        bits_per_value: bits,
        data: None,
    }))
}

/// Blocks of 1,024 values, each with its width in front.
pub fn inline_bitpacking(bits: u64) -> CompressiveEncoding {
    wrap(Compression::InlineBitpacking(InlineBitpacking {
        uncompressed_bits_per_value: bits,
        values: None,
    }))
}

/// Blocks of 1,024 values of one width.
pub fn out_of_line_bitpacking(bits: u64, width: u64) -> CompressiveEncoding {
    let values = Some(Box::new(flat(width)));
    wrap(Compression::OutOfLineBitpacking(Box::new(OutOfLineBitpacking {
        uncompressed_bits_per_value: bits,
        values,
    })))
}

/// Values and u8 run lengths.
pub fn rle(bits: u64) -> CompressiveEncoding {
    let (values, run_lengths) = (Some(Box::new(flat(bits))), Some(Box::new(flat(8))));
    wrap(Compression::Rle(Box::new(Rle { values, run_lengths })))
}

/// Streams of the bytes of numbers.
pub fn byte_stream_split(bits: u64) -> CompressiveEncoding {
    let values = Some(Box::new(flat(bits)));
    wrap(Compression::ByteStreamSplit(Box::new(ByteStreamSplit { values })))
}

/// Offsets and bytes.
pub fn variable(offset_bits: u8) -> CompressiveEncoding {
    let offsets = Some(Box::new(flat(u64::from(offset_bits))));
    wrap(Compression::Variable(Box::new(Variable {
        offsets,
        values: None,
    })))
}

/// FSST-coded bytes.
pub fn fsst(symbol_table: Vec<u8>, offset_bits: u8) -> CompressiveEncoding {
    let values = Some(Box::new(variable(offset_bits)));
    wrap(Compression::Fsst(Box::new(Fsst {
        symbol_table: symbol_table.into(),
        values,
    })))
}

/// A list of `items_per_value` items, which have a bitmap or are all valid.
pub fn fixed_size_list(
    items_per_value: u64,
    has_validity: bool,
    items: CompressiveEncoding,
) -> CompressiveEncoding {
    let values = Some(Box::new(items));
    wrap(Compression::FixedSizeList(Box::new(FixedSizeList {
        items_per_value,
        values,
        has_validity,
    })))
}

/// Rows of fixed-width fields of these bytes.
pub fn packed_struct(widths: &[usize]) -> CompressiveEncoding {
    let total: usize = widths.iter().sum();
    wrap(Compression::PackedStruct(Box::new(PackedStruct {
        bits_per_value: widths.iter().map(|width| *width as u64 * 8).collect(),
        values: Some(Box::new(flat(total as u64 * 8))),
    })))
}

/// A field of a packed row: its codec, and the bits of its cell or of the length in front.
pub enum PackedField {
    /// Fixed width.
    Fixed(CompressiveEncoding, u64),
    /// Variable width.
    Variable(CompressiveEncoding, u64),
}

/// Rows with fields of variable width.
pub fn variable_packed_struct(fields: Vec<PackedField>) -> CompressiveEncoding {
    let field = |field| match field {
        PackedField::Fixed(value, bits) => (value, Layout::BitsPerValue(bits)),
        PackedField::Variable(value, bits) => (value, Layout::BitsPerLength(bits)),
    };
    let fields = fields
        .into_iter()
        .map(field)
        .map(|(value, layout)| FieldEncoding {
            value: Some(value),
            layout: Some(layout),
        });
    wrap(Compression::VariablePackedStruct(VariablePackedStruct {
        fields: fields.collect(),
    }))
}

/// A general compressor around `inner`.
pub fn general(
    scheme: general::Scheme,
    level: Option<i32>,
    inner: CompressiveEncoding,
) -> CompressiveEncoding {
    let scheme = match scheme {
        general::Scheme::Lz4 => CompressionScheme::CompressionAlgorithmLz4,
        general::Scheme::Zstd => CompressionScheme::CompressionAlgorithmZstd,
    };
    let compression = Some(BufferCompression {
        scheme: scheme as i32,
        level,
    });
    wrap(Compression::General(Box::new(General {
        compression,
        values: Some(Box::new(inner)),
    })))
}
