//! Building encoding trees.

use prost::Message;

use crate::proto::lance::encodings as pb;
use crate::proto::lance::encodings::array_encoding::ArrayEncoding as Tree;
use crate::proto::lance::encodings::nullable::{AllNull, NoNull, Nullability, SomeNull};

fn wrap(tree: Tree) -> pb::ArrayEncoding {
    pb::ArrayEncoding {
        array_encoding: Some(tree),
    }
}

/// The serialized message.
pub fn bytes_of(encoding: &pb::ArrayEncoding) -> Vec<u8> {
    encoding.encode_to_vec()
}

/// A buffer of the page.
pub fn buffer(index: u32) -> pb::Buffer {
    pb::Buffer {
        buffer_index: index,
        buffer_type: pb::buffer::BufferType::Page as i32,
    }
}

/// Values of `bits` bits in a buffer of the page.
pub fn flat(bits: u64, index: u32) -> pb::ArrayEncoding {
    flat_compressed(bits, index, None)
}

/// Values of `bits` bits, perhaps compressed.
pub fn flat_compressed(bits: u64, index: u32, compression: Option<pb::Compression>) -> pb::ArrayEncoding {
    wrap(Tree::Flat(pb::Flat {
        bits_per_value: bits,
        buffer: Some(buffer(index)),
        compression,
    }))
}

fn nullable(nullability: Nullability) -> pb::ArrayEncoding {
    wrap(Tree::Nullable(Box::new(pb::Nullable {
        nullability: Some(nullability),
    })))
}

/// Values without nulls.
pub fn no_nulls(values: pb::ArrayEncoding) -> pb::ArrayEncoding {
    nullable(Nullability::NoNulls(Box::new(NoNull {
        values: Some(Box::new(values)),
    })))
}

/// Values beside a bitmap.
pub fn some_nulls(validity: pb::ArrayEncoding, values: pb::ArrayEncoding) -> pb::ArrayEncoding {
    nullable(Nullability::SomeNulls(Box::new(SomeNull {
        validity: Some(Box::new(validity)),
        values: Some(Box::new(values)),
    })))
}

/// Nothing but nulls.
pub fn all_nulls() -> pb::ArrayEncoding {
    nullable(Nullability::AllNulls(AllNull {}))
}

/// Lists of `dimension` items.
pub fn fixed_size_list(dimension: u32, items: pb::ArrayEncoding) -> pb::ArrayEncoding {
    wrap(Tree::FixedSizeList(Box::new(pb::FixedSizeList {
        dimension,
        items: Some(Box::new(items)),
        has_validity: false,
    })))
}

/// A struct header.
pub fn structure() -> pb::ArrayEncoding {
    wrap(Tree::Struct(pb::SimpleStruct {}))
}

/// List offsets in a buffer of the page.
pub fn list(offsets: u32, num_items: u64) -> pb::ArrayEncoding {
    wrap(Tree::List(Box::new(pb::List {
        offsets: Some(Box::new(no_nulls(flat(64, offsets)))),
        null_offset_adjustment: num_items + 1,
        num_items,
    })))
}

/// Strings of `total` bytes.
pub fn binary(offsets: u32, bytes: pb::ArrayEncoding, total: u64) -> pb::ArrayEncoding {
    wrap(Tree::Binary(Box::new(pb::Binary {
        indices: Some(Box::new(no_nulls(flat(64, offsets)))),
        bytes: Some(Box::new(bytes)),
        null_adjustment: total + 1,
    })))
}

/// FSST-coded strings.
pub fn fsst(binary: pb::ArrayEncoding, symbol_table: Vec<u8>) -> pb::ArrayEncoding {
    wrap(Tree::Fsst(Box::new(pb::Fsst {
        binary: Some(Box::new(binary)),
        symbol_table: symbol_table.into(),
    })))
}

/// Indices of `bits` bits and the items they point at.
pub fn dictionary(bits: u64, indices: u32, items: pb::ArrayEncoding, num_items: u32) -> pb::ArrayEncoding {
    wrap(Tree::Dictionary(Box::new(pb::Dictionary {
        indices: Some(Box::new(no_nulls(flat(bits, indices)))),
        items: Some(Box::new(items)),
        num_dictionary_items: num_items,
    })))
}

/// Rows of fields side by side.
pub fn packed_struct(inner: Vec<pb::ArrayEncoding>, rows: u32) -> pb::ArrayEncoding {
    wrap(Tree::PackedStruct(pb::PackedStruct {
        inner,
        buffer: Some(buffer(rows)),
    }))
}
