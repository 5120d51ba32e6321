//! Where decoded values go: growing, aligned buffers that become Arrow arrays without a copy.

use std::ops::Range;

use arrow_buffer::{ArrowNativeType, Buffer, MutableBuffer};
use glaive_codec::bits;
use glaive_codec::fsst::SymbolTable;
use glaive_codec::variable::VariableValues;

use super::ValueShape;
use super::dictionary_column::DictionaryValues;
use super::layers::ColumnPath;
use super::unravel::{Structure, Validity, fill_ones};
use crate::{Error, Result};

/// Decoded values and structure of some rows of one column.
#[derive(Debug)]
pub struct ColumnSink {
    /// One value a visible slot; the content at null slots has no meaning.
    pub values: Values,
    /// Validity and offsets of every node of the path.
    pub structure: Structure,
    /// Chunks of mini-block pages that were decoded.
    pub chunks: u64,
}

impl ColumnSink {
    /// An empty sink for a leaf of this shape at the end of this path, with room for `rows`.
    pub fn new(shape: &ValueShape, path: &ColumnPath, rows: usize) -> Self {
        Self {
            values: Values::new(shape, rows),
            structure: Structure::new(path),
            chunks: 0,
        }
    }
}

/// Offsets of variable-width values, in the width of their Arrow type.
#[derive(Debug)]
pub enum Offsets {
    /// utf8 and binary.
    I32(MutableBuffer),
    /// large_utf8 and large_binary.
    I64(MutableBuffer),
}

/// Decoded values of one column.
#[derive(Debug)]
pub enum Values {
    /// The null type.
    Null,
    /// Booleans.
    Bits {
        /// Least significant bit first.
        bits: Vec<u8>,
        /// Number of values.
        len: usize,
    },
    /// Fixed width of whole bytes.
    Fixed {
        /// Bytes of one value.
        width: usize,
        /// The values.
        data: FixedData,
    },
    /// Variable width.
    Variable {
        /// One more than values; the first is 0.
        offsets: Offsets,
        /// The concatenated values.
        data: MutableBuffer,
    },
    /// Keys of an Arrow dictionary and its items.
    Dictionary(Box<DictionaryValues>),
    /// Structs without fields.
    EmptyStruct,
    /// The fields of packed structs.
    Packed(Vec<Values>),
    /// Fixed-size lists, perhaps nested.
    FixedSizeList {
        /// The lists, outermost first.
        levels: Vec<ListLevel>,
        /// The innermost items.
        items: Box<Values>,
    },
}

/// One level of nested fixed-size lists.
#[derive(Debug)]
pub struct ListLevel {
    /// Items of one list.
    pub dimension: usize,
    /// Items of one value of the column: the product of all dimensions down to here.
    pub items_per_value: usize,
    /// Validity of the items.
    pub validity: Validity,
}

/// Fixed-width values: collected, or shared with the bytes that were read.
#[derive(Debug)]
pub enum FixedData {
    /// Nothing yet.
    Empty {
        /// Bytes that all rows will take, by the caller's count.
        expected: usize,
    },
    /// Collected from several places.
    Owned(MutableBuffer),
    /// A slice of the read buffer: nothing was copied.
    Shared(Buffer),
}

impl Values {
    /// No values yet, with room for `rows`.
    pub fn new(shape: &ValueShape, rows: usize) -> Self {
        match shape {
            ValueShape::Null => Self::Null,
            ValueShape::EmptyStruct => Self::EmptyStruct,
            ValueShape::Packed(fields) => {
                Self::Packed(fields.iter().map(|field| Self::new(field, rows)).collect())
            }
            ValueShape::Dictionary {
                key_bits,
                signed,
                value,
            } => Self::Dictionary(Box::new(DictionaryValues::new(*key_bits, *signed, value, rows))),
            ValueShape::Fixed { bits: 1 } => Self::Bits {
                bits: Vec::with_capacity(capacity(rows.div_ceil(8), 1)),
                len: 0,
            },
            ValueShape::Fixed { bits } => {
                let width = *bits as usize / 8;
                let data = FixedData::Empty {
                    expected: rows.saturating_mul(width),
                };
                Self::Fixed { width, data }
            }
            ValueShape::Variable { offset_bits: 32 } => {
                let mut offsets = MutableBuffer::with_capacity(capacity(rows, 4) + 4);
                offsets.push(0i32);
                Self::Variable {
                    offsets: Offsets::I32(offsets),
                    data: MutableBuffer::new(0),
                }
            }
            ValueShape::Variable { .. } => {
                let mut offsets = MutableBuffer::with_capacity(capacity(rows, 8) + 8);
                offsets.push(0i64);
                Self::Variable {
                    offsets: Offsets::I64(offsets),
                    data: MutableBuffer::new(0),
                }
            }
            ValueShape::FixedSizeList { dimensions, bits } => {
                let mut items_per_value = 1;
                let level = |dimension: &u32| {
                    let dimension = *dimension as usize;
                    items_per_value *= dimension;
                    ListLevel {
                        dimension,
                        items_per_value,
                        validity: Validity::default(),
                    }
                };
                let levels = dimensions.iter().map(level).collect();
                let items = Self::new(
                    &ValueShape::Fixed { bits: *bits },
                    rows.saturating_mul(items_per_value),
                );
                Self::FixedSizeList {
                    levels,
                    items: Box::new(items),
                }
            }
        }
    }

    /// Makes room for about so many bytes of variable-width values.
    pub fn reserve_bytes(&mut self, bytes: usize) {
        if let Self::Variable { data, .. } = self {
            data.reserve(bytes.min(MOST_RESERVED));
        }
    }

    /// Appends `n` values of zero or empty bytes: what stands at null slots.
    pub fn push_default(&mut self, n: usize) -> Result<()> {
        match self {
            Self::Null | Self::EmptyStruct => {}
            Self::Packed(fields) => fields.iter_mut().try_for_each(|field| field.push_default(n))?,
            Self::Dictionary(keyed) => keyed.push_default(n)?,
            Self::Bits { bits, len } => {
                *len += n;
                bits.resize(len.div_ceil(8), 0);
            }
            Self::FixedSizeList { levels, items } => {
                let mut total = 0;
                for level in levels {
                    total = expansion(n, level.items_per_value)?;
                    level.validity.push_valid(total);
                }
                items.push_default(total)?;
            }
            Self::Fixed { width, data } => {
                let bytes = expansion(n, *width)?;
                let data = data.owned();
                data.resize(data.len() + bytes, 0);
            }
            Self::Variable { offsets, data } => offsets.push_repeated(data.len(), 0, n)?,
        }
        Ok(())
    }

    /// Appends `n` copies of one value.
    pub fn push_repeated(&mut self, value: &[u8], n: usize) -> Result<()> {
        match self {
            Self::Null | Self::EmptyStruct => {}
            Self::Dictionary(keyed) => keyed.push_repeated(value, n)?,
            Self::Bits { bits, len } => {
                if value.first().is_some_and(|b| b & 1 == 1) {
                    fill_ones(bits, *len, n);
                    *len += n;
                } else {
                    *len += n;
                    bits.resize(len.div_ceil(8), 0);
                }
            }
            Self::Fixed { width, data } => {
                debug_assert_eq!(value.len(), *width);
                let bytes = expansion(n, *width)?;
                let data = data.owned();
                data.reserve(bytes);
                (0..n).for_each(|_| data.extend_from_slice(value));
            }
            Self::Variable { offsets, data } => {
                let total = expansion(n, value.len())?;
                offsets.push_repeated(data.len(), value.len(), n)?;
                data.reserve(total);
                (0..n).for_each(|_| data.extend_from_slice(value));
            }
            Self::FixedSizeList { .. } | Self::Packed(_) => {
                return Err(Error::corrupt("a constant fixed-size list or packed struct"));
            }
        }
        Ok(())
    }

    /// Appends variable-width values given by their offsets into `bytes`, the first of which need not be 0.
    pub fn push_variable<O: ArrowNativeType>(&mut self, starts: &[O], bytes: &[u8]) -> Result<()> {
        let Self::Variable { offsets, data } = self else {
            return Err(Error::corrupt("variable-width values in a fixed-width column"));
        };
        let (Some(first), Some(last)) = (starts.first(), starts.last()) else {
            return Ok(());
        };
        let base = first.as_usize();
        let part = bytes
            .get(base..last.as_usize())
            .ok_or_else(|| Error::corrupt("value outside its buffer"))?;
        offsets.push_lengths(data.len(), base, starts)?;
        data.extend_from_slice(part);
        Ok(())
    }

    /// Appends one variable-width value.
    pub fn push_bytes(&mut self, value: &[u8]) -> Result<()> {
        let Self::Variable { offsets, data } = self else {
            return Err(Error::corrupt("variable-width value in a fixed-width column"));
        };
        offsets.push_end(data.len() + value.len())?;
        data.extend_from_slice(value);
        Ok(())
    }

    /// Appends the strings of `n` FSST values whose codes lie one after the other.
    pub fn push_fsst(
        &mut self,
        table: &SymbolTable,
        codes: &[u8],
        code_ends: impl Iterator<Item = usize>,
        n: usize,
    ) -> Result<()> {
        let Self::Variable { offsets, data } = self else {
            return Err(Error::corrupt("variable-width values in a fixed-width column"));
        };
        let base = data.len();
        let append = |bytes: &[u8]| data.extend_from_slice(bytes);
        match offsets {
            Offsets::I32(offsets) => {
                let ends = grown::<i32>(offsets, n)?;
                table.decompress_all(codes, code_ends, base, ends, append)?;
            }
            Offsets::I64(offsets) => {
                let ends = grown::<i64>(offsets, n)?;
                table.decompress_all(codes, code_ends, base, ends, append)?;
            }
        }
        Ok(())
    }

    /// Makes room for `n` zeroed values of type `T` and returns it; `T` must have the column's width.
    pub fn grow<T: ArrowNativeType>(&mut self, n: usize) -> Result<&mut [T]> {
        let Self::Fixed { width, data } = self else {
            return Err(Error::corrupt("fixed-width values in a column of another kind"));
        };
        if *width != size_of::<T>() {
            return Err(Error::corrupt(format!(
                "values of {} bytes in a column of {width}",
                size_of::<T>()
            )));
        }
        grown(data.owned(), n)
    }

    /// Appends fixed-width values as they are.
    pub fn push_fixed(&mut self, bytes: &[u8]) -> Result<()> {
        let Self::Fixed { data, .. } = self else {
            return Err(Error::corrupt("fixed-width values in a column of another kind"));
        };
        data.owned().extend_from_slice(bytes);
        Ok(())
    }

    /// Appends full-zip cells without control words: fixed-width values, or booleans of one byte each. The bytes themselves are
    /// kept when they are all that is expected.
    pub fn push_cells(&mut self, bytes: &bytes::Bytes) -> Result<()> {
        match self {
            Self::Bits { bits, len } => {
                for byte in bytes {
                    bits::copy_bits(&[*byte], 0, bits, len, 1);
                }
                Ok(())
            }
            Self::Fixed { data, .. } if data.expects(bytes) => {
                *data = FixedData::Shared(Buffer::from(bytes.clone()));
                Ok(())
            }
            _ => self.push_fixed(bytes),
        }
    }

    /// Appends the bits `range` of a bitmap.
    pub fn push_bits(&mut self, source: &[u8], range: Range<usize>) -> Result<()> {
        let Self::Bits { bits, len } = self else {
            return Err(Error::corrupt("booleans in a column of another kind"));
        };
        bits::copy_bits(source, range.start, bits, len, range.end - range.start);
        Ok(())
    }

    /// Number of values of a fixed-width or variable-width column.
    pub fn count(&self) -> usize {
        match self {
            Self::Bits { len, .. } => *len,
            Self::Fixed { width, data } => data.as_slice().len() / width,
            Self::Variable { offsets, .. } => offsets.len(),
            _ => 0,
        }
    }

    /// Appends all values of a chunk or dictionary.
    pub fn push_chunk(&mut self, chunk: &VariableValues<'_>) -> Result<()> {
        let Self::Variable { offsets, data } = self else {
            return Err(Error::corrupt("variable-width values in a fixed-width column"));
        };
        offsets.push_chunk(data.len(), chunk)?;
        data.extend_from_slice(chunk.data());
        Ok(())
    }

    /// Removes all values of a scratch memory of indices or dictionary values, keeping the memory.
    pub fn clear(&mut self) {
        match self {
            Self::Null
            | Self::EmptyStruct
            | Self::FixedSizeList { .. }
            | Self::Packed(_)
            | Self::Dictionary(_) => {}
            Self::Bits { bits, len } => {
                bits.clear();
                *len = 0;
            }
            Self::Fixed { data, .. } => data.owned().clear(),
            Self::Variable { offsets, data } => {
                offsets.clear();
                data.clear();
            }
        }
    }

    /// The bytes of value `index` of a fixed-width or variable-width column; a boolean is one byte.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        match self {
            Self::Fixed { width, data } => data.as_slice().get(index * width..(index + 1) * width),
            Self::Variable { offsets, data } => {
                data.as_slice().get(offsets.get(index)?..offsets.get(index + 1)?)
            }
            Self::Bits { bits, len } if index < *len => match bits::get_bit(bits, index) {
                true => Some(&[1]),
                false => Some(&[0]),
            },
            _ => None,
        }
    }
}

impl FixedData {
    /// Whether these bytes are all there will be, and can stand in an Arrow array as they are.
    fn expects(&self, bytes: &[u8]) -> bool {
        matches!(self, Self::Empty { expected } if *expected == bytes.len())
            && bytes.as_ptr().align_offset(64) == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Empty { .. } => &[],
            Self::Owned(data) => data.as_slice(),
            Self::Shared(data) => data.as_slice(),
        }
    }

    /// Buffer to append to; shared bytes are copied first.
    pub(super) fn owned(&mut self) -> &mut MutableBuffer {
        let fresh = match self {
            Self::Owned(_) => None,
            Self::Empty { expected } => Some(MutableBuffer::with_capacity(capacity(*expected, 1))),
            Self::Shared(shared) => {
                let mut copy = MutableBuffer::with_capacity(shared.len() * 2);
                copy.extend_from_slice(shared.as_slice());
                Some(copy)
            }
        };
        if let Some(fresh) = fresh {
            *self = Self::Owned(fresh);
        }
        match self {
            Self::Owned(data) => data,
            Self::Empty { .. } | Self::Shared(_) => unreachable!("replaced by an owned buffer above"),
        }
    }

    /// The Arrow buffer.
    pub fn into_buffer(self) -> Buffer {
        match self {
            Self::Empty { .. } => MutableBuffer::new(0).into(),
            Self::Owned(data) => data.into(),
            Self::Shared(data) => data,
        }
    }
}

impl Offsets {
    /// Offset number `index`.
    pub fn get(&self, index: usize) -> Option<usize> {
        match self {
            Self::I32(offsets) => offsets.typed_data::<i32>().get(index).map(|o| o.as_usize()),
            Self::I64(offsets) => offsets.typed_data::<i64>().get(index).map(|o| o.as_usize()),
        }
    }

    /// Number of values.
    fn len(&self) -> usize {
        match self {
            Self::I32(offsets) => offsets.len() / 4 - 1,
            Self::I64(offsets) => offsets.len() / 8 - 1,
        }
    }

    /// Appends `n` values of `length` bytes each, the first of which starts at `start`.
    fn push_repeated(&mut self, start: usize, length: usize, n: usize) -> Result<()> {
        let end = length
            .checked_mul(n)
            .and_then(|l| l.checked_add(start))
            .ok_or_else(too_large)?;
        match self {
            Self::I32(offsets) => {
                i32::try_from(end).map_err(|_| offsets_overflow())?;
                // Truncation is excluded by the check of the largest offset.
                offsets.extend((1..=n).map(|i| (start + i * length) as i32));
            }
            Self::I64(offsets) => offsets.extend((1..=n).map(|i| (start + i * length) as i64)),
        }
        Ok(())
    }

    /// Appends the ends of values whose source offsets are `starts` (first = `base`); bytes go to `start`.
    fn push_lengths<O: ArrowNativeType>(&mut self, start: usize, base: usize, starts: &[O]) -> Result<()> {
        let Some((last, ends)) = starts.last().zip(starts.get(1..)) else {
            return Ok(());
        };
        let end = last
            .as_usize()
            .checked_sub(base)
            .and_then(|l| l.checked_add(start))
            .ok_or_else(too_large)?;
        match self {
            Self::I32(offsets) => {
                i32::try_from(end).map_err(|_| offsets_overflow())?;
                offsets.extend(ends.iter().map(|o| (start + (o.as_usize() - base)) as i32));
            }
            Self::I64(offsets) => offsets.extend(ends.iter().map(|o| (start + (o.as_usize() - base)) as i64)),
        }
        Ok(())
    }

    /// Appends the end of one value.
    pub(super) fn push_end(&mut self, end: usize) -> Result<()> {
        match self {
            Self::I32(offsets) => offsets.push(i32::try_from(end).map_err(|_| offsets_overflow())?),
            Self::I64(offsets) => offsets.push(end as i64),
        }
        Ok(())
    }

    /// Appends the ends of a chunk's values, whose bytes go to `start`.
    fn push_chunk(&mut self, start: usize, chunk: &VariableValues<'_>) -> Result<()> {
        let base = i64::try_from(start).map_err(|_| offsets_overflow())?;
        let stored = match self {
            Self::I32(offsets) => chunk.store_ends(base, grown::<i32>(offsets, chunk.len())?),
            Self::I64(offsets) => chunk.store_ends(base, grown::<i64>(offsets, chunk.len())?),
        };
        stored.map_err(|_| offsets_overflow())
    }

    /// Removes all but the first offset, 0.
    fn clear(&mut self) {
        match self {
            Self::I32(offsets) => offsets.truncate(4),
            Self::I64(offsets) => offsets.truncate(8),
        }
    }

    /// The Arrow buffer.
    pub fn into_buffer(self) -> Buffer {
        match self {
            Self::I32(offsets) | Self::I64(offsets) => offsets.into(),
        }
    }
}

/// Makes room for `n` values and returns it, zeroed.
fn grown<T: ArrowNativeType>(buffer: &mut MutableBuffer, n: usize) -> Result<&mut [T]> {
    let old = buffer.len() / size_of::<T>();
    buffer.resize(buffer.len() + n * size_of::<T>(), 0);
    buffer.typed_data_mut::<T>().get_mut(old..).ok_or_else(too_large)
}

/// Memory to reserve for `n` items of `width` bytes. A count in a damaged file may be anything, so that more than this is
/// only taken when the values are really there.
fn capacity(n: usize, width: usize) -> usize {
    n.saturating_mul(width).min(MOST_RESERVED)
}

/// Bytes to reserve at most on the word of a file.
const MOST_RESERVED: usize = 64 << 20;

/// Bytes of `n` copies of a value of `width` bytes; a page of a few bytes can ask for any number of them.
pub(super) fn expansion(n: usize, width: usize) -> Result<usize> {
    n.checked_mul(width)
        .filter(|&bytes| bytes <= 1 << 32)
        .ok_or_else(|| {
            Error::unsupported(format!(
                "{n} copies of a value of {width} bytes in one batch: read fewer rows at a time"
            ))
        })
}

fn too_large() -> Error {
    Error::unsupported("more values than this machine can address")
}

pub(super) fn offsets_overflow() -> Error {
    Error::unsupported("more than 2 GiB of string or binary bytes in one batch: read fewer rows at a time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_booleans() {
        let mut values = Values::new(&ValueShape::Fixed { bits: 1 }, 0);
        values.push_repeated(&[1], 11).unwrap();
        values.push_repeated(&[0], 3).unwrap();
        values.push_repeated(&[1], 2).unwrap();
        let Values::Bits { bits, len } = values else {
            panic!()
        };
        assert_eq!((bits, len), (vec![0xff, 0b1100_0111], 16));
    }

    #[test]
    fn small_offsets_refuse_more_than_two_gib() {
        let mut offsets = Offsets::I32(MutableBuffer::new(0));
        assert!(offsets.push_repeated(usize::MAX, 1, 1).is_err());
        assert!(offsets.push_repeated(0, 1 << 20, 1 << 11).is_err());
        assert!(offsets.push_repeated(0, 1 << 20, 2047).is_ok());
    }

    #[test]
    fn offsets_are_rebased() {
        let mut values = Values::new(&ValueShape::Variable { offset_bits: 32 }, 2);
        values.push_bytes(b"ab").unwrap();
        values.push_variable(&[2u32, 2, 5], b"xxcde").unwrap();
        assert_eq!(values.value(0).unwrap(), b"ab");
        assert_eq!(values.value(1).unwrap(), b"");
        assert_eq!(values.value(2).unwrap(), b"cde");
    }
}
