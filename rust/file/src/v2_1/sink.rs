//! Where decoded values go: growing, aligned buffers that become Arrow arrays without a copy.

use std::ops::Range;

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use glaive_codec::bits;
use glaive_codec::variable::VariableValues;

use super::ValueShape;
use super::layers::Layers;
use crate::{Error, Result};

/// Decoded values and validity of some rows of one column.
#[derive(Debug)]
pub struct ColumnSink {
    /// One value a slot; the content at null slots has no meaning.
    pub values: Values,
    /// Validity of every node of the path, leaf first.
    pub layers: Vec<LayerValidity>,
    /// Slots decoded so far.
    pub len: usize,
}

impl ColumnSink {
    /// An empty sink for a leaf of this shape below `depth - 1` structs, with room for `rows`.
    pub fn new(shape: ValueShape, depth: usize, rows: usize) -> Self {
        let layers = (0..depth).map(|_| LayerValidity::default()).collect();
        Self {
            values: Values::new(shape, rows),
            layers,
            len: 0,
        }
    }

    /// Notes `n` slots that are valid at every layer.
    pub fn push_valid(&mut self, n: usize) {
        for layer in &mut self.layers {
            layer.push_valid(n);
        }
        self.len += n;
    }

    /// Notes slots with these checked definition levels.
    pub fn push_levels(&mut self, layers: &Layers, levels: &[u16]) {
        for (sink, null_level) in self.layers.iter_mut().zip(layers.null_levels()) {
            match null_level {
                Some(null) => sink.push_levels(levels, null - 1),
                None => sink.push_valid(levels.len()),
            }
        }
        self.len += levels.len();
    }
}

/// Validity of one node of a path: a bitmap that does not exist before the first null.
#[derive(Debug, Default)]
pub struct LayerValidity {
    bits: Vec<u8>,
    len: usize,
    nulls: usize,
}

impl LayerValidity {
    fn push_valid(&mut self, n: usize) {
        if self.nulls > 0 {
            fill_ones(&mut self.bits, self.len, n);
        }
        self.len += n;
    }

    fn push_levels(&mut self, levels: &[u16], max_valid: u16) {
        if self.nulls == 0 {
            if levels.iter().all(|&level| level <= max_valid) {
                self.len += levels.len();
                return;
            }
            self.bits.clear();
            fill_ones(&mut self.bits, 0, self.len);
        }
        self.nulls += bits::levels_to_bitmap(levels, max_valid, &mut self.bits, &mut self.len);
    }

    /// Whether any row is null.
    pub fn has_nulls(&self) -> bool {
        self.nulls > 0
    }

    /// The Arrow validity; `None` without nulls.
    pub fn finish(&self) -> Option<NullBuffer> {
        if self.nulls == 0 {
            return None;
        }
        let mut aligned = MutableBuffer::with_capacity(self.bits.len());
        aligned.extend_from_slice(&self.bits);
        Some(NullBuffer::new(BooleanBuffer::new(aligned.into(), 0, self.len)))
    }
}

/// Sets the bits `len..len + n` of a bitmap that ends at bit `len`.
fn fill_ones(bits: &mut Vec<u8>, len: usize, n: usize) {
    let end = len + n;
    if let (Some(last), rest @ 1..) = (bits.last_mut(), len % 8) {
        *last |= 0xff << rest;
    }
    bits.resize(end.div_ceil(8), 0xff);
    if let (Some(last), rest @ 1..) = (bits.last_mut(), end % 8) {
        *last &= (1 << rest) - 1;
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
}

/// Fixed-width values: collected, or shared with the bytes that were read.
#[derive(Debug)]
pub enum FixedData {
    /// Collected from several places.
    Owned(MutableBuffer),
    /// A slice of the read buffer: nothing was copied.
    Shared(Buffer),
}

impl Values {
    /// No values yet, with room for `rows`.
    pub fn new(shape: ValueShape, rows: usize) -> Self {
        match shape {
            ValueShape::Null => Self::Null,
            ValueShape::Fixed { bits: 1 } => Self::Bits {
                bits: Vec::with_capacity(rows.div_ceil(8)),
                len: 0,
            },
            ValueShape::Fixed { bits } => {
                let width = bits as usize / 8;
                let data = FixedData::Owned(MutableBuffer::with_capacity(rows.saturating_mul(width)));
                Self::Fixed { width, data }
            }
            ValueShape::Variable { offset_bits: 32 } => {
                let mut offsets = MutableBuffer::with_capacity((rows + 1) * 4);
                offsets.push(0i32);
                Self::Variable {
                    offsets: Offsets::I32(offsets),
                    data: MutableBuffer::new(0),
                }
            }
            ValueShape::Variable { .. } => {
                let mut offsets = MutableBuffer::with_capacity((rows + 1) * 8);
                offsets.push(0i64);
                Self::Variable {
                    offsets: Offsets::I64(offsets),
                    data: MutableBuffer::new(0),
                }
            }
        }
    }

    /// Appends `n` values of zero or empty bytes: what stands at null slots.
    pub fn push_default(&mut self, n: usize) -> Result<()> {
        match self {
            Self::Null => {}
            Self::Bits { bits, len } => {
                *len += n;
                bits.resize(len.div_ceil(8), 0);
            }
            Self::Fixed { width, data } => {
                let bytes = n.checked_mul(*width).ok_or_else(too_large)?;
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
            Self::Null => {}
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
                let data = data.owned();
                data.reserve(n.checked_mul(*width).ok_or_else(too_large)?);
                (0..n).for_each(|_| data.extend_from_slice(value));
            }
            Self::Variable { offsets, data } => {
                let total = n.checked_mul(value.len()).ok_or_else(too_large)?;
                offsets.push_repeated(data.len(), value.len(), n)?;
                data.reserve(total);
                (0..n).for_each(|_| data.extend_from_slice(value));
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
        offsets.push_repeated(data.len(), value.len(), 1)?;
        data.extend_from_slice(value);
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
        let data = data.owned();
        let old = data.len() / size_of::<T>();
        data.resize(data.len() + n * size_of::<T>(), 0);
        data.typed_data_mut::<T>().get_mut(old..).ok_or_else(too_large)
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
    /// kept when they are the first.
    pub fn push_cells(&mut self, bytes: &bytes::Bytes) -> Result<()> {
        match self {
            Self::Bits { bits, len } => {
                for byte in bytes {
                    bits::copy_bits(&[*byte], 0, bits, len, 1);
                }
                Ok(())
            }
            Self::Fixed { data, .. } if data.is_empty() && bytes.as_ptr().align_offset(64) == 0 => {
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

    /// Appends all values of a chunk or dictionary.
    pub fn push_chunk(&mut self, chunk: &VariableValues<'_>) -> Result<()> {
        let Self::Variable { offsets, data } = self else {
            return Err(Error::corrupt("variable-width values in a fixed-width column"));
        };
        offsets.push_chunk(data.len(), chunk)?;
        data.extend_from_slice(chunk.data());
        Ok(())
    }

    /// Removes all values, keeping the memory.
    pub fn clear(&mut self) {
        match self {
            Self::Null => {}
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

    /// The bytes of value `index` of a variable-width or whole-byte column.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        match self {
            Self::Fixed { width, data } => data.as_slice().get(index * width..(index + 1) * width),
            Self::Variable { offsets, data } => {
                data.as_slice().get(offsets.get(index)?..offsets.get(index + 1)?)
            }
            Self::Null | Self::Bits { .. } => None,
        }
    }
}

impl FixedData {
    fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Owned(data) => data.as_slice(),
            Self::Shared(data) => data.as_slice(),
        }
    }

    /// Buffer to append to; shared bytes are copied first.
    pub(super) fn owned(&mut self) -> &mut MutableBuffer {
        let copy = match self {
            Self::Owned(_) => None,
            Self::Shared(shared) => {
                let mut copy = MutableBuffer::with_capacity(shared.len() * 2);
                copy.extend_from_slice(shared.as_slice());
                Some(copy)
            }
        };
        if let Some(copy) = copy {
            *self = Self::Owned(copy);
        }
        match self {
            Self::Owned(data) => data,
            Self::Shared(_) => unreachable!("replaced by an owned copy above"),
        }
    }

    /// The Arrow buffer.
    pub fn into_buffer(self) -> Buffer {
        match self {
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
        match self {
            Self::I32(offsets) => {
                let mut ends: Vec<i32> = Vec::with_capacity(chunk.len());
                chunk
                    .append_offsets_to(base, &mut ends)
                    .map_err(|_| offsets_overflow())?;
                offsets.extend_from_slice(&ends);
            }
            Self::I64(offsets) => {
                let mut ends: Vec<i64> = Vec::with_capacity(chunk.len());
                chunk
                    .append_offsets_to(base, &mut ends)
                    .map_err(|_| offsets_overflow())?;
                offsets.extend_from_slice(&ends);
            }
        }
        Ok(())
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
    fn validity_appears_with_the_first_null() {
        let mut layer = LayerValidity::default();
        layer.push_valid(3);
        assert!(layer.finish().is_none());
        layer.push_levels(&[0, 1, 0], 0);
        layer.push_valid(9);
        let nulls = layer.finish().unwrap();
        assert_eq!(nulls.len(), 15);
        assert_eq!(
            nulls.iter().map(u8::from).collect::<Vec<_>>(),
            [1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
        );
    }

    #[test]
    fn repeated_booleans() {
        let mut values = Values::new(ValueShape::Fixed { bits: 1 }, 0);
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
        let mut values = Values::new(ValueShape::Variable { offset_bits: 32 }, 2);
        values.push_bytes(b"ab").unwrap();
        values.push_variable(&[2u32, 2, 5], b"xxcde").unwrap();
        assert_eq!(values.value(0).unwrap(), b"ab");
        assert_eq!(values.value(1).unwrap(), b"");
        assert_eq!(values.value(2).unwrap(), b"cde");
    }
}
