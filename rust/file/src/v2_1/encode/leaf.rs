//! Leaf values on their way to a page: pieces of Arrow arrays, joined and stripped of what stands at null slots.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef, GenericByteArray};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;
use glaive_codec::bits;

use super::levels::PageLevels;
use crate::v2_1::ValueShape;
use crate::{Error, Result};

/// A run of rows of one leaf column, with the validity of all nodes on its path.
#[derive(Debug, Clone)]
pub struct LeafPiece {
    /// The leaf array; its own validity is also in `validity`.
    pub array: ArrayRef,
    /// Leaf first; the outermost node last.
    pub validity: Vec<Option<NullBuffer>>,
}

impl LeafPiece {
    /// Rows `[start, start + len)` of the piece.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Self {
        let part = |n: &Option<NullBuffer>| n.as_ref().map(|n| n.slice(start, len));
        Self {
            array: self.array.slice(start, len),
            validity: self.validity.iter().map(part).collect(),
        }
    }

    /// Bytes of the values, without validity: the measure of a page's size.
    pub fn value_bytes(&self) -> Result<usize> {
        let rows = self.array.len();
        Ok(match ValueShape::of(self.array.data_type())? {
            ValueShape::Null => 0,
            ValueShape::Fixed { bits } => (bits as usize).saturating_mul(rows).div_ceil(8),
            ValueShape::Variable { offset_bits } => {
                let (first, last) = span(&self.array)?;
                last - first + rows * usize::from(offset_bits / 8)
            }
        })
    }
}

/// Variable-width values: offsets from 0 and their bytes.
#[derive(Debug)]
pub struct LeafValues {
    /// One more than values; the first is 0.
    pub offsets: Vec<i64>,
    /// The values.
    pub bytes: Vec<u8>,
    /// Width of an offset in the column's type: 32 or 64.
    pub offset_bits: u8,
    /// Whether the type is text.
    pub utf8: bool,
}

impl LeafValues {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.offsets.windows(2).map(|w| match w {
            [start, end] => self
                .bytes
                .get(start.as_usize()..end.as_usize())
                .unwrap_or_default(),
            _ => &[],
        })
    }

    /// Length of the longest value.
    pub fn longest(&self) -> usize {
        self.offsets
            .windows(2)
            .map(|w| w.iter().rev().copied().reduce(|end, start| end - start))
            .max()
            .flatten()
            .unwrap_or(0) as usize
    }
}

/// The values of one page; null slots hold zero bits or no bytes.
#[derive(Debug)]
pub enum PageValues {
    /// The null type.
    Null,
    /// Booleans, least significant bit first.
    Bits {
        /// The bitmap.
        bits: Vec<u8>,
        /// Number of values.
        len: usize,
    },
    /// Fixed width of whole bytes.
    Fixed {
        /// Bytes of one value.
        width: usize,
        /// The values.
        bytes: Vec<u8>,
    },
    /// Variable width.
    Variable(LeafValues),
}

impl PageValues {
    /// Joins pieces of one column; `levels` belong to the same rows.
    pub fn new(pieces: &[LeafPiece], levels: &PageLevels) -> Result<Self> {
        let Some(first) = pieces.first() else {
            return Ok(Self::Null);
        };
        let shape = ValueShape::of(first.array.data_type())?;
        let arrays = pieces.iter().map(|p| &p.array);
        match shape {
            ValueShape::Null => Ok(Self::Null),
            ValueShape::Fixed { bits: 1 } => Ok(join_bits(arrays, levels)),
            ValueShape::Fixed { bits } => join_fixed(bits as usize / 8, arrays, levels),
            ValueShape::Variable { offset_bits } => join_variable(offset_bits, arrays, levels),
        }
    }
}

fn join_bits<'a>(arrays: impl Iterator<Item = &'a ArrayRef>, levels: &PageLevels) -> PageValues {
    let (mut joined, mut len) = (Vec::with_capacity(levels.len().div_ceil(8)), 0);
    for array in arrays {
        let values = array.as_boolean().values();
        bits::copy_bits(
            values.values(),
            values.offset(),
            &mut joined,
            &mut len,
            values.len(),
        );
    }
    if let Some(levels) = levels.levels() {
        let (mut valid, mut valid_len) = (Vec::with_capacity(joined.len()), 0);
        bits::levels_to_bitmap(levels, 0, &mut valid, &mut valid_len);
        joined
            .iter_mut()
            .zip(valid)
            .for_each(|(byte, valid)| *byte &= valid);
    }
    PageValues::Bits { bits: joined, len }
}

fn join_fixed<'a>(
    width: usize,
    arrays: impl Iterator<Item = &'a ArrayRef>,
    levels: &PageLevels,
) -> Result<PageValues> {
    let mut bytes = Vec::with_capacity(levels.len() * width);
    for array in arrays {
        let data = array.to_data();
        let start = data.offset() * width;
        let values = data
            .buffers()
            .first()
            .and_then(|b| b.as_slice().get(start..start + data.len() * width));
        bytes.extend_from_slice(
            values.ok_or_else(|| Error::invalid_input("an array is shorter than its length"))?,
        );
    }
    if let Some(levels) = levels.levels() {
        zero_nulls(width, &mut bytes, levels);
    }
    Ok(PageValues::Fixed { width, bytes })
}

/// Null slots may hold anything in Arrow; zeros pack best and give nothing away.
fn zero_nulls(width: usize, bytes: &mut [u8], levels: &[u16]) {
    fn mask<const W: usize>(bytes: &mut [u8], levels: &[u16]) {
        for (value, &level) in bytes.as_chunks_mut::<W>().0.iter_mut().zip(levels) {
            let keep = if level == 0 { 0xff } else { 0 };
            value.iter_mut().for_each(|b| *b &= keep);
        }
    }
    match width {
        1 => mask::<1>(bytes, levels),
        2 => mask::<2>(bytes, levels),
        4 => mask::<4>(bytes, levels),
        8 => mask::<8>(bytes, levels),
        16 => mask::<16>(bytes, levels),
        _ => {
            for (value, _) in bytes
                .chunks_exact_mut(width)
                .zip(levels)
                .filter(|(_, level)| **level != 0)
            {
                value.fill(0);
            }
        }
    }
}

fn join_variable<'a>(
    offset_bits: u8,
    arrays: impl Iterator<Item = &'a ArrayRef>,
    levels: &PageLevels,
) -> Result<PageValues> {
    let mut values = LeafValues {
        offsets: Vec::with_capacity(levels.len() + 1),
        bytes: Vec::new(),
        offset_bits,
        utf8: false,
    };
    values.offsets.push(0);
    let mut levels = levels.levels();
    for array in arrays {
        let (part, rest) = match levels {
            Some(levels) => levels
                .split_at_checked(array.len())
                .map_or((None, None), |(p, r)| (Some(p), Some(r))),
            None => (None, None),
        };
        levels = rest;
        match array.data_type() {
            DataType::Utf8 => append::<Utf8Type>(array, part, &mut values),
            DataType::LargeUtf8 => append::<LargeUtf8Type>(array, part, &mut values),
            DataType::Binary => append::<BinaryType>(array, part, &mut values),
            _ => append::<LargeBinaryType>(array, part, &mut values),
        }?;
        values.utf8 = matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8);
    }
    Ok(PageValues::Variable(values))
}

fn append<T: ByteArrayType>(array: &ArrayRef, levels: Option<&[u16]>, out: &mut LeafValues) -> Result<()> {
    let array = array
        .as_any()
        .downcast_ref::<GenericByteArray<T>>()
        .ok_or_else(|| Error::invalid_input("arrays of one column differ in type"))?;
    let offsets = array.value_offsets();
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else {
        return Ok(());
    };
    let (first, last) = (first.as_usize(), last.as_usize());
    let base = out.bytes.len();
    let bytes = array.value_data();
    let hidden = |levels: &[u16]| {
        let lengths = offsets.windows(2).map(|w| w.first() != w.last());
        lengths
            .zip(levels)
            .any(|(has_bytes, &level)| has_bytes && level != 0)
    };
    if !levels.is_some_and(hidden) {
        out.bytes
            .extend_from_slice(bytes.get(first..last).unwrap_or_default());
        out.offsets.extend(
            offsets
                .iter()
                .skip(1)
                .map(|o| (base + o.as_usize() - first) as i64),
        );
        return Ok(());
    }
    // Bytes behind a null slot are dropped.
    for (window, &level) in offsets.windows(2).zip(levels.unwrap_or_default()) {
        if let ([start, end], 0) = (window, level) {
            out.bytes
                .extend_from_slice(bytes.get(start.as_usize()..end.as_usize()).unwrap_or_default());
        }
        out.offsets.push(out.bytes.len() as i64);
    }
    Ok(())
}

/// First and last offset of a variable-width array.
fn span(array: &ArrayRef) -> Result<(usize, usize)> {
    fn ends<T: ByteArrayType>(array: &ArrayRef) -> Option<(usize, usize)> {
        let offsets = array
            .as_any()
            .downcast_ref::<GenericByteArray<T>>()?
            .value_offsets();
        Some((offsets.first()?.as_usize(), offsets.last()?.as_usize()))
    }
    let span = match array.data_type() {
        DataType::Utf8 => ends::<Utf8Type>(array),
        DataType::LargeUtf8 => ends::<LargeUtf8Type>(array),
        DataType::Binary => ends::<BinaryType>(array),
        _ => ends::<LargeBinaryType>(array),
    };
    span.ok_or_else(|| Error::invalid_input("an array without offsets"))
}
