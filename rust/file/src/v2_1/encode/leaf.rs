//! Leaf values on their way to a page: Arrow arrays, joined and stripped of what stands at null slots.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef, GenericByteArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use glaive_codec::bits;

use super::dictionary_column::DictionaryPage;
use super::packed;
use crate::v2_1::ValueShape;
use crate::v2_1::dictionary_column::max_items;
use crate::{Error, Result};

/// Variable-width values: offsets from 0 and their bytes.
#[derive(Debug, Clone)]
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
    /// No values.
    pub fn empty(offset_bits: u8, utf8: bool) -> Self {
        Self {
            offsets: vec![0],
            bytes: Vec::new(),
            offset_bits,
            utf8,
        }
    }

    /// Appends a value.
    pub fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.offsets.push(self.bytes.len() as i64);
    }

    /// One value.
    pub fn value(&self, index: usize) -> &[u8] {
        let ends = self.offsets.get(index).zip(self.offsets.get(index + 1));
        ends.and_then(|(start, end)| self.bytes.get(start.as_usize()..end.as_usize()))
            .unwrap_or_default()
    }

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

/// The values of one page; null slots hold zero bits, no bytes, or the value before them.
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
    /// Fixed-size lists of fixed-width items.
    Lists(ListValues),
    /// Keys of a dictionary and its items.
    Dictionary(DictionaryPage),
    /// Structs without fields.
    EmptyStruct,
    /// The fields of packed structs.
    Packed(Vec<PageValues>),
}

/// Fixed-size lists, perhaps nested.
#[derive(Debug)]
pub struct ListValues {
    /// Outermost first: items of each list, and the validity of those items, if any is null in a valid row.
    pub levels: Vec<(u32, Option<Vec<u8>>)>,
    /// Bits of one innermost item.
    pub bits: u32,
    /// The innermost items.
    pub items: Vec<u8>,
    /// Number of values.
    pub len: usize,
}

impl PageValues {
    /// Joins the leaf arrays of a page; `null_levels` are the levels of the same values, if not all are 0. `None` if the
    /// arrays have more dictionary items than keys can tell apart, so that they need several pages.
    pub fn new(arrays: &[ArrayRef], shape: &ValueShape, null_levels: Option<&[u16]>) -> Result<Option<Self>> {
        Ok(Some(match shape {
            ValueShape::Null => Self::Null,
            ValueShape::EmptyStruct => Self::EmptyStruct,
            ValueShape::Dictionary {
                key_bits,
                signed,
                value,
            } => {
                let max_items = max_items(*key_bits, *signed);
                let width = *key_bits as usize / 8;
                return Ok(
                    DictionaryPage::join(arrays, width, max_items, value, null_levels)?.map(Self::Dictionary),
                );
            }
            ValueShape::Packed(fields) => Self::Packed(packed::join(arrays, fields, null_levels)?),
            ValueShape::Fixed { bits: 1 } => join_bits(arrays, null_levels),
            ValueShape::Fixed { bits } => {
                let width = *bits as usize / 8;
                Self::Fixed {
                    width,
                    bytes: join_fixed(width, arrays, null_levels)?,
                }
            }
            ValueShape::Variable { offset_bits } => join_variable(*offset_bits, arrays, null_levels)?,
            ValueShape::FixedSizeList { dimensions, bits } => {
                Self::Lists(join_lists(dimensions, *bits, arrays, null_levels)?)
            }
        }))
    }

    /// The bytes of a value of fixed or variable width; a boolean is one byte.
    pub fn value(&self, index: usize) -> &[u8] {
        match self {
            Self::Bits { bits, len } => match index < *len && bits::get_bit(bits, index) {
                true => &[1],
                false => &[0],
            },
            Self::Fixed { width, bytes } => bytes.get(index * width..(index + 1) * width).unwrap_or_default(),
            Self::Variable(values) => values.value(index),
            _ => &[],
        }
    }

    /// Values of fixed or variable width at these places.
    pub fn take(&self, places: &[usize]) -> Self {
        match self {
            Self::Bits { .. } => {
                let (mut bits, mut len) = (Vec::with_capacity(places.len().div_ceil(8)), 0);
                for &place in places {
                    bits::fill_bits(self.value(place) == [1], &mut bits, &mut len, 1);
                }
                Self::Bits { bits, len }
            }
            Self::Variable(values) => {
                let mut taken = LeafValues::empty(values.offset_bits, values.utf8);
                places.iter().for_each(|&place| taken.push(values.value(place)));
                Self::Variable(taken)
            }
            Self::Fixed { width, .. } => Self::Fixed {
                width: *width,
                bytes: places
                    .iter()
                    .flat_map(|&place| self.value(place))
                    .copied()
                    .collect(),
            },
            _ => Self::Null,
        }
    }
}

fn join_bits(arrays: &[ArrayRef], levels: Option<&[u16]>) -> PageValues {
    let (mut joined, mut len) = (Vec::new(), 0);
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
    if let Some(levels) = levels {
        let (mut valid, mut valid_len) = (Vec::with_capacity(joined.len()), 0);
        bits::levels_to_bitmap(levels, 0, &mut valid, &mut valid_len);
        joined
            .iter_mut()
            .zip(valid)
            .for_each(|(byte, valid)| *byte &= valid);
    }
    PageValues::Bits { bits: joined, len }
}

fn join_fixed(width: usize, arrays: &[ArrayRef], levels: Option<&[u16]>) -> Result<Vec<u8>> {
    let total: usize = arrays.iter().map(|a| a.len()).sum();
    let mut bytes = Vec::with_capacity(total * width);
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
    if let Some(levels) = levels {
        fill_nulls(width, &mut bytes, levels);
    }
    Ok(bytes)
}

/// Joins lists. Items of null rows are left out of the validity.
fn join_lists(
    dimensions: &[u32],
    bits: u32,
    arrays: &[ArrayRef],
    levels: Option<&[u16]>,
) -> Result<ListValues> {
    let len = arrays.iter().map(|a| a.len()).sum();
    let mut inner: Vec<ArrayRef> = arrays.to_vec();
    let mut out = Vec::with_capacity(dimensions.len());
    let mut per_value = 1;
    for &dimension in dimensions {
        let below = |list: &ArrayRef| {
            let list = list
                .as_fixed_size_list_opt()
                .ok_or_else(|| Error::invalid_input("arrays differ in type"))?;
            Ok(list.values().slice(0, list.len() * dimension as usize))
        };
        inner = inner.iter().map(below).collect::<Result<_>>()?;
        per_value *= dimension as usize;
        out.push((dimension, item_validity(&inner, per_value, levels)));
    }
    let item_levels: Option<Vec<u16>> = levels.map(|levels| {
        levels
            .iter()
            .flat_map(|l| std::iter::repeat_n(*l, per_value))
            .collect()
    });
    let items = match bits {
        1 => match join_bits(&inner, item_levels.as_deref()) {
            PageValues::Bits { bits, .. } => bits,
            _ => Vec::new(),
        },
        _ => join_fixed(bits as usize / 8, &inner, item_levels.as_deref())?,
    };
    Ok(ListValues {
        levels: out,
        bits,
        items,
        len,
    })
}

/// Validity of the items of valid rows; `None` if none of them is null.
fn item_validity(items: &[ArrayRef], per_value: usize, levels: Option<&[u16]>) -> Option<Vec<u8>> {
    let (mut bitmap, mut len, mut nulls) = (Vec::new(), 0, false);
    for array in items {
        let offset = len;
        let hidden = |i: usize| {
            levels
                .and_then(|l| l.get((offset + i) / per_value))
                .is_some_and(|&level| level != 0)
        };
        match array.nulls() {
            None => bits::fill_bits(true, &mut bitmap, &mut len, array.len()),
            Some(valid) => {
                nulls |= valid.iter().enumerate().any(|(i, valid)| !valid && !hidden(i));
                bits::copy_bits(
                    valid.validity(),
                    valid.offset(),
                    &mut bitmap,
                    &mut len,
                    valid.len(),
                );
            }
        }
    }
    nulls.then_some(bitmap)
}

/// Nulls in a row that take a value: as many as one run length counts.
const MOST_FILLED: u8 = 255;

/// Null slots may hold anything in Arrow. They take the value before them, so that nulls do not interrupt runs; a long row of
/// nulls becomes zeros, which pack best, and so do wide values.
pub fn fill_nulls(width: usize, bytes: &mut [u8], levels: &[u16]) {
    fn repeat<const W: usize>(bytes: &mut [u8], levels: &[u16]) {
        let (mut last, mut filled) = ([0; W], 0);
        for (value, &level) in bytes.as_chunks_mut::<W>().0.iter_mut().zip(levels) {
            if level == 0 {
                (last, filled) = (*value, 0);
                continue;
            }
            match filled {
                MOST_FILLED => last = [0; W],
                _ => filled += 1,
            }
            *value = last;
        }
    }
    match width {
        1 => repeat::<1>(bytes, levels),
        2 => repeat::<2>(bytes, levels),
        4 => repeat::<4>(bytes, levels),
        8 => repeat::<8>(bytes, levels),
        16 => repeat::<16>(bytes, levels),
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

fn join_variable(offset_bits: u8, arrays: &[ArrayRef], mut levels: Option<&[u16]>) -> Result<PageValues> {
    let total: usize = arrays.iter().map(|a| a.len()).sum();
    let offsets = Vec::with_capacity(total + 1);
    let mut values = LeafValues {
        offsets,
        bytes: Vec::new(),
        offset_bits,
        utf8: false,
    };
    values.offsets.push(0);
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

/// Bytes of the values below an array, without validity: the measure of a page's size.
pub fn value_bytes(array: &ArrayRef, steps: &[usize]) -> usize {
    let Some((step, rest)) = steps.split_first() else {
        return leaf_bytes(array);
    };
    let lists = |offsets: Option<(usize, usize)>, values: &ArrayRef| {
        let (first, last) = offsets.unwrap_or_default();
        // Four bytes a list stand for its levels.
        array.len() * 4 + value_bytes(&values.slice(first, last - first), rest)
    };
    match array.data_type() {
        DataType::Struct(_) => array
            .as_struct()
            .columns()
            .get(*step)
            .map_or(0, |child| value_bytes(child, rest)),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            lists(ends(list.value_offsets()), list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            lists(ends(list.value_offsets()), list.values())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
            lists(ends(map.value_offsets()), &entries)
        }
        DataType::FixedSizeList(..) => value_bytes(array.as_fixed_size_list().values(), rest),
        _ => 0,
    }
}

fn ends<O: ArrowNativeType>(offsets: &[O]) -> Option<(usize, usize)> {
    Some((offsets.first()?.as_usize(), offsets.last()?.as_usize()))
}

fn leaf_bytes(array: &ArrayRef) -> usize {
    let rows = array.len();
    if let Some(packed) = array.as_struct_opt() {
        return packed.columns().iter().map(leaf_bytes).sum();
    }
    match ValueShape::of(array.data_type()) {
        Ok(ValueShape::Variable { offset_bits }) => {
            let (first, last) = span(array).unwrap_or_default();
            last - first + rows * usize::from(offset_bits / 8)
        }
        Ok(shape) => (shape.fixed_bits().unwrap_or_default() as usize)
            .saturating_mul(rows)
            .div_ceil(8),
        // Views, which have no shape of their own: an estimate.
        Err(_) => array.get_buffer_memory_size().min(rows.saturating_mul(1024)),
    }
}

/// First and last offset of a variable-width array.
fn span(array: &ArrayRef) -> Option<(usize, usize)> {
    match array.data_type() {
        DataType::Utf8 => ends(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => ends(array.as_string::<i64>().value_offsets()),
        DataType::Binary => ends(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => ends(array.as_binary::<i64>().value_offsets()),
        _ => None,
    }
}
