//! Dictionaries: few distinct strings, and Arrow dictionary columns (format chapter 20, 6.2 and 8).
//!
//! The type of the column tells the two apart. In a string column index 0 is null and index `i` is item `i - 1`. In an Arrow
//! dictionary column index `i` is item `i`, and a null row points at an item that is null; files of pylance 0.16 have a
//! validity bitmap beside the indices.

use std::ops::Range;
use std::sync::OnceLock;

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::node::{Buffers, Node, is_variable, length, tree};
use super::parts::{Parts, Requests};
use super::sink::{Sink, check_expanded, fixed_bits};
use super::source::Source;
use crate::proto::lance::encodings as pb;
use crate::proto::lance::encodings::array_encoding::ArrayEncoding as Tree;
use crate::proto::lance::encodings::nullable::Nullability;
use crate::{Context, Error, Result};

/// Indices and the items they point at.
#[derive(Debug)]
pub struct Dictionary {
    indices: Source,
    validity: Option<Source>,
    items: Box<Node>,
    num_items: u64,
    item_type: DataType,
    /// Index from which on indices of a signed type are negative.
    negative_from: u64,
    /// Whether 0 means null: in string columns.
    one_based: bool,
    /// The items, which every read of the page needs.
    decoded: OnceLock<ArrayRef>,
}

impl Dictionary {
    /// Checks the encoding of `n` values of a string or dictionary type.
    pub fn parse(
        dictionary: &pb::Dictionary,
        n: u64,
        data_type: &DataType,
        buffers: Buffers<'_>,
    ) -> Result<Self> {
        let (indices, validity) =
            parse_indices(dictionary.indices.as_deref(), n, buffers).context(|| "dictionary indices")?;
        let (item_type, negative_from) = match data_type {
            DataType::Dictionary(index, item) => {
                let bits = fixed_bits(index).unwrap_or(0);
                let signed = index.is_signed_integer();
                (item.as_ref(), index_limit(&indices, bits, signed)?)
            }
            text => (text, index_limit(&indices, indices.bits(), false)?),
        };
        let num_items = u64::from(dictionary.num_dictionary_items);
        let items = Node::parse(dictionary.items.as_deref(), num_items, item_type, buffers)
            .context(|| "dictionary items")?;
        if matches!(items, Node::Dictionary(_) | Node::Packed(_)) {
            return Err(Error::corrupt("a dictionary of dictionaries or structs"));
        }
        Ok(Self {
            indices,
            validity,
            items: Box::new(items),
            num_items,
            item_type: item_type.clone(),
            negative_from,
            one_based: is_variable(data_type),
            decoded: OnceLock::new(),
        })
    }

    fn all_items(&self) -> Vec<Range<u64>> {
        std::iter::once(0..self.num_items)
            .filter(|all| !all.is_empty())
            .collect()
    }

    /// Indices; and the items unless they are known.
    pub fn request(&self, rows: &[Range<u64>], out: &mut Requests) -> Result<()> {
        for range in rows {
            if let Some(validity) = &self.validity {
                validity.request(range, out)?;
            }
            self.indices.request(range, out)?;
        }
        match self.decoded.get() {
            Some(_) => Ok(()),
            None => self.items.request(&self.all_items(), true, out),
        }
    }

    /// Appends `rows`.
    pub fn decode(&self, rows: &[Range<u64>], parts: &mut Parts<'_>, out: &mut Sink) -> Result<()> {
        let mut pieces = Vec::with_capacity(rows.len());
        for range in rows {
            pieces.push(self.take_indices(range, parts)?);
        }
        let items = self.items(parts).context(|| "dictionary items")?;
        for (range, piece) in rows.iter().zip(&pieces) {
            match self.one_based {
                true => push_strings(items, piece, out)?,
                false => push_keys(items, piece, length(range)?, out)?,
            }
        }
        Ok(())
    }

    fn items(&self, parts: &mut Parts<'_>) -> Result<&ArrayRef> {
        if let Some(items) = self.decoded.get() {
            return Ok(items);
        }
        let mut sink = Sink::new(&self.item_type, 0)?;
        let (rows, mut second) = (self.all_items(), Parts::new(&[]));
        self.items.decode(&rows, true, parts, &mut second, &mut sink)?;
        let items = sink.finish()?;
        Ok(self.decoded.get_or_init(|| items))
    }

    /// The indices of a range of rows; `None` for a null.
    fn take_indices(&self, range: &Range<u64>, parts: &mut Parts<'_>) -> Result<Vec<Option<u64>>> {
        let validity = match &self.validity {
            Some(validity) => Some(validity.take_bits(range, parts)?),
            None => None,
        };
        let bytes = self.indices.take(range, parts)?;
        let width = (self.indices.bits() / 8) as usize;
        let is_valid = |i: usize| {
            validity
                .as_ref()
                .is_none_or(|(bitmap, start)| glaive_codec::bits::get_bit(bitmap, start + i))
        };
        let shift = u64::from(self.one_based);
        let limit = (self.num_items + shift).min(self.negative_from);
        let index = |(i, bytes): (usize, &[u8])| {
            if !is_valid(i) {
                return Ok(None);
            }
            let word = bytes.iter().rev().fold(0, |word, &b| word << 8 | u64::from(b));
            if word >= limit {
                return Err(Error::corrupt(format!(
                    "dictionary index {word} in row {} of a page with {} items",
                    range.start + i as u64,
                    self.num_items
                )));
            }
            Ok(word.checked_sub(shift))
        };
        bytes.chunks_exact(width).enumerate().map(index).collect()
    }
}

fn index_limit(indices: &Source, bits: u64, signed: bool) -> Result<u64> {
    if indices.bits() != bits || !matches!(bits, 8 | 16 | 32 | 64) {
        return Err(Error::corrupt(format!(
            "dictionary indices of {} bits in a column of {bits}",
            indices.bits()
        )));
    }
    Ok(if signed { 1 << (bits - 1) } else { u64::MAX })
}

fn parse_indices(
    encoding: Option<&pb::ArrayEncoding>,
    n: u64,
    buffers: Buffers<'_>,
) -> Result<(Source, Option<Source>)> {
    if let Tree::Nullable(nullable) = tree(encoding)?
        && let Some(Nullability::SomeNulls(some)) = &nullable.nullability
    {
        let validity = buffers.source(some.validity.as_deref(), n)?.expect_bits(1)?;
        return Ok((buffers.source(some.values.as_deref(), n)?, Some(validity)));
    }
    Ok((buffers.source(encoding, n)?, None))
}

/// The values of a string or binary array.
fn byte_values(items: &ArrayRef) -> Vec<Option<&[u8]>> {
    fn collect<T: ByteArrayType>(items: &ArrayRef) -> Vec<Option<&[u8]>> {
        let array = items.as_bytes::<T>();
        array.iter().map(|value| value.map(AsRef::as_ref)).collect()
    }
    match items.data_type() {
        DataType::Utf8 => collect::<Utf8Type>(items),
        DataType::LargeUtf8 => collect::<LargeUtf8Type>(items),
        DataType::Binary => collect::<BinaryType>(items),
        DataType::LargeBinary => collect::<LargeBinaryType>(items),
        _ => Vec::new(),
    }
}

/// Appends the strings that the indices name.
fn push_strings(items: &ArrayRef, indices: &[Option<u64>], out: &mut Sink) -> Result<()> {
    let items = byte_values(items);
    let value = |index: &Option<u64>| items.get((*index)? as usize).copied().flatten();
    let total = indices
        .iter()
        .filter_map(value)
        .try_fold(0usize, |sum, v| sum.checked_add(v.len()));
    let (mut ends, mut bytes) = (
        Vec::with_capacity(indices.len()),
        Vec::with_capacity(check_expanded(total)?),
    );
    for index in indices {
        bytes.extend_from_slice(value(index).unwrap_or_default());
        ends.push(bytes.len() as u64);
    }
    let valid: BooleanBuffer = indices.iter().map(|index| value(index).is_some()).collect();
    out.push_validity_bits(valid.values(), valid.offset(), valid.len());
    out.push_variable(&ends, &bytes)
}

/// Appends a dictionary array of the same indices; rows that point at a null item become null.
fn push_keys(items: &ArrayRef, indices: &[Option<u64>], rows: usize, out: &mut Sink) -> Result<()> {
    let DataType::Dictionary(index_type, _) = out.data_type() else {
        return Err(Error::corrupt("dictionary encoding in a column of another type"));
    };
    let valid: BooleanBuffer = indices
        .iter()
        .map(|index| index.is_some_and(|i| items.is_valid(i.as_usize())))
        .collect();
    let keys = indices.iter().map(|index| index.unwrap_or(0));
    let keys = match fixed_bits(index_type) {
        Some(8) => Buffer::from_vec(keys.map(|k| k as u8).collect::<Vec<_>>()),
        Some(16) => Buffer::from_vec(keys.map(|k| k as u16).collect::<Vec<_>>()),
        Some(32) => Buffer::from_vec(keys.map(|k| k as u32).collect::<Vec<_>>()),
        _ => Buffer::from_vec(keys.collect::<Vec<_>>()),
    };
    let data = ArrayData::builder(out.data_type().clone())
        .len(rows)
        .nulls(Some(NullBuffer::new(valid)).filter(|n| n.null_count() > 0))
        .add_buffer(keys)
        .add_child_data(items.to_data())
        .build()
        .map_err(|e| Error::corrupt(e.to_string()))?;
    out.push_dictionary(make_array(data))
}
