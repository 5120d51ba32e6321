//! Where decoded values of a column go: growing buffers that become one Arrow array.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, NullArray, StructArray, make_array, new_null_array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use bytes::Bytes;
use glaive_codec::bits;

use crate::{Error, Result};

/// Bytes of values at most that one read makes out of nothing: nulls without a buffer and repeated dictionary items.
pub const MAX_EXPANDED_BYTES: usize = 1 << 30;

/// No Arrow type needs a larger alignment.
const ALIGNMENT: usize = 16;

/// Decoded rows of one column.
#[derive(Debug)]
pub struct Sink {
    data_type: DataType,
    validity: Validity,
    values: Values,
    /// Rows whose values were appended.
    len: usize,
    /// Bytes that were made out of nothing.
    expanded: usize,
}

#[derive(Debug)]
enum Values {
    Null,
    Bits(Vec<u8>),
    Fixed { width: usize, data: FixedData },
    Variable { ends: Ends, data: MutableBuffer },
    FixedSizeList { dimension: usize, items: Box<Sink> },
    Struct(Vec<Sink>),
    Dictionary(Vec<ArrayRef>),
}

/// Fixed-width values: collected, or a part of the bytes that were read.
#[derive(Debug)]
enum FixedData {
    Owned(MutableBuffer),
    Shared(Buffer),
}

/// Offsets of variable-width values in the width of their type.
#[derive(Debug)]
enum Ends {
    I32(Vec<i32>),
    I64(Vec<i64>),
}

/// Validity of the rows; no bitmap exists before the first null.
#[derive(Debug, Default)]
struct Validity {
    bits: Vec<u8>,
    len: usize,
    nulls: usize,
}

impl Validity {
    fn push(&mut self, valid: bool, n: usize) {
        if valid && self.nulls == 0 {
            self.len += n;
            return;
        }
        self.materialize();
        fill(&mut self.bits, self.len, n, valid);
        self.len += n;
        self.nulls += if valid { 0 } else { n };
    }

    fn push_bits(&mut self, source: &[u8], start: usize, n: usize) {
        let nulls = n - bits::count_set_bits(source, start, n);
        if nulls == 0 {
            return self.push(true, n);
        }
        self.materialize();
        bits::copy_bits(source, start, &mut self.bits, &mut self.len, n);
        self.nulls += nulls;
    }

    fn materialize(&mut self) {
        if self.nulls == 0 {
            self.bits.clear();
            fill(&mut self.bits, 0, self.len, true);
        }
    }

    fn finish(&self) -> Option<NullBuffer> {
        (self.nulls > 0).then(|| NullBuffer::new(BooleanBuffer::new(aligned(&self.bits), 0, self.len)))
    }
}

/// Appends `n` equal bits to a bitmap of `len` bits.
fn fill(bitmap: &mut Vec<u8>, mut len: usize, n: usize, value: bool) {
    let head = n.min(len.wrapping_neg() % 8);
    let byte = if value { 0xff } else { 0 };
    bits::copy_bits(&[byte], 0, bitmap, &mut len, head);
    bitmap.resize((len + n - head).div_ceil(8), byte);
    if let (Some(last), rest @ 1..) = (bitmap.last_mut(), (len + n - head) % 8) {
        *last &= (1 << rest) - 1;
    }
}

fn aligned(bytes: &[u8]) -> Buffer {
    let mut buffer = MutableBuffer::with_capacity(bytes.len());
    buffer.extend_from_slice(bytes);
    buffer.into()
}

/// Bits of one fixed-width value of a leaf type; `None` for other types.
pub fn fixed_bits(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(width) => u64::try_from(*width).ok().filter(|w| *w > 0).map(|w| w * 8),
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Interval(_) => None,
        other => other.primitive_width().map(|width| width as u64 * 8),
    }
}

impl Sink {
    /// An empty sink with room for `rows`.
    ///
    /// # Errors
    /// `Unsupported` for a type that no single 2.0 column can hold.
    pub fn new(data_type: &DataType, rows: usize) -> Result<Self> {
        let values = match data_type {
            DataType::Null => Values::Null,
            DataType::Utf8 | DataType::Binary => Values::Variable {
                ends: Ends::I32(with_zero(rows)),
                data: MutableBuffer::new(0),
            },
            DataType::LargeUtf8 | DataType::LargeBinary => Values::Variable {
                ends: Ends::I64(with_zero(rows)),
                data: MutableBuffer::new(0),
            },
            DataType::FixedSizeList(item, dimension) => {
                let dimension = usize::try_from(*dimension).unwrap_or(0);
                Values::FixedSizeList {
                    dimension,
                    items: Box::new(Self::new(item.data_type(), 0)?),
                }
            }
            DataType::Struct(fields) => {
                let children = fields.iter().map(|field| Self::new(field.data_type(), rows));
                Values::Struct(children.collect::<Result<_>>()?)
            }
            DataType::Dictionary(..) => Values::Dictionary(Vec::new()),
            other => match fixed_bits(other) {
                Some(1) => Values::Bits(Vec::with_capacity(rows / 8 + 1)),
                Some(bits) => Values::Fixed {
                    width: (bits / 8) as usize,
                    data: FixedData::Owned(MutableBuffer::new(0)),
                },
                None => return Err(Error::unsupported(format!("Unsupported data type: {other}"))),
            },
        };
        Ok(Self {
            data_type: data_type.clone(),
            validity: Validity::default(),
            values,
            len: 0,
            expanded: 0,
        })
    }

    /// The type of the array.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Notes `n` rows as valid or null; their values are appended by another call.
    pub fn push_validity(&mut self, valid: bool, n: usize) {
        self.validity.push(valid, n);
    }

    /// Notes the validity of `n` rows, from bit `start` of a bitmap on.
    pub fn push_validity_bits(&mut self, source: &[u8], start: usize, n: usize) {
        self.validity.push_bits(source, start, n);
    }

    /// Appends `n` null rows, with values of zeros.
    ///
    /// # Errors
    /// `Unsupported` above [`MAX_EXPANDED_BYTES`].
    pub fn push_nulls(&mut self, n: usize) -> Result<()> {
        let end = self.len.checked_add(n).ok_or_else(too_large)?;
        let width = match &self.values {
            // The number of rows is all that the null type holds.
            Values::Null => {
                self.len = end;
                return Ok(());
            }
            Values::Fixed { width, .. } => *width,
            Values::Variable { .. } | Values::Dictionary(_) => 8,
            _ => 1,
        };
        let bytes = n.checked_mul(width).and_then(|b| b.checked_add(self.expanded));
        self.expanded = check_expanded(bytes)?;
        match &mut self.values {
            Values::Null => {}
            Values::Bits(bitmap) => fill(bitmap, self.len, n, false),
            Values::Fixed { width, data } => data.push_zeros(n * *width),
            Values::Variable { ends, data } => ends.push_empty(data.len(), n)?,
            Values::FixedSizeList { dimension, items } => {
                items.push_nulls(n.checked_mul(*dimension).ok_or_else(too_large)?)?;
            }
            Values::Struct(children) => children.iter_mut().try_for_each(|child| child.push_nulls(n))?,
            Values::Dictionary(pieces) => pieces.push(new_null_array(&self.data_type, n)),
        }
        if !matches!(self.values, Values::Dictionary(_)) {
            self.validity.push(false, n);
        }
        self.len = end;
        Ok(())
    }

    /// Appends `n` booleans from bit `start` of a bitmap on.
    pub fn push_bits(&mut self, source: &[u8], start: usize, n: usize) -> Result<()> {
        let Values::Bits(bitmap) = &mut self.values else {
            return Err(mismatch("booleans", &self.data_type));
        };
        let mut len = self.len;
        bits::copy_bits(source, start, bitmap, &mut len, n);
        self.len = len;
        Ok(())
    }

    /// Appends fixed-width values; the first ones are kept as they are when they lie well in memory.
    pub fn push_fixed(&mut self, bytes: &Bytes) -> Result<()> {
        let Values::Fixed { width, data } = &mut self.values else {
            return Err(mismatch("fixed-width values", &self.data_type));
        };
        self.len += bytes.len() / *width;
        if data.len() == 0 && bytes.as_ptr().align_offset(ALIGNMENT) == 0 {
            *data = FixedData::Shared(Buffer::from(bytes.clone()));
        } else {
            data.owned().extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Appends variable-width values that lie one after another in `bytes` and end at `value_ends`.
    pub fn push_variable(&mut self, value_ends: &[u64], bytes: &[u8]) -> Result<()> {
        let Values::Variable { ends, data } = &mut self.values else {
            return Err(mismatch("variable-width values", &self.data_type));
        };
        ends.push(data.len(), value_ends)?;
        data.extend_from_slice(bytes);
        self.len += value_ends.len();
        Ok(())
    }

    /// Appends a piece of a dictionary array.
    pub fn push_dictionary(&mut self, piece: ArrayRef) -> Result<()> {
        let Values::Dictionary(pieces) = &mut self.values else {
            return Err(mismatch("dictionary indices", &self.data_type));
        };
        self.len += piece.len();
        pieces.push(piece);
        Ok(())
    }

    /// The sink of the items of a fixed-size list, for `n` more lists.
    pub fn items(&mut self, n: usize) -> Result<&mut Self> {
        let Values::FixedSizeList { items, .. } = &mut self.values else {
            return Err(mismatch("fixed-size lists", &self.data_type));
        };
        self.len += n;
        Ok(items)
    }

    /// The sinks of the children of a struct, for `n` more rows.
    pub fn children(&mut self, n: usize) -> Result<&mut [Self]> {
        let Values::Struct(children) = &mut self.values else {
            return Err(mismatch("structs", &self.data_type));
        };
        self.len += n;
        Ok(children)
    }

    /// The Arrow array. The bytes come from an untrusted file: lengths, offsets and UTF-8 are validated.
    pub fn finish(self) -> Result<ArrayRef> {
        let nulls = self.validity.finish();
        let builder = ArrayData::builder(self.data_type.clone())
            .len(self.len)
            .nulls(nulls)
            .align_buffers(true);
        let builder = match self.values {
            Values::Null => return Ok(Arc::new(NullArray::new(self.len))),
            Values::Struct(children) => return finish_struct(&self.data_type, children, self.len),
            Values::Dictionary(pieces) => return concat(&self.data_type, &pieces),
            Values::Bits(bitmap) => builder.add_buffer(aligned(&bitmap)),
            Values::Fixed { data, .. } => builder.add_buffer(data.into_buffer()),
            Values::Variable { ends, data } => builder.add_buffer(ends.into_buffer()).add_buffer(data.into()),
            Values::FixedSizeList { items, .. } => builder.add_child_data(items.finish()?.to_data()),
        };
        Ok(make_array(
            builder.build().map_err(|e| Error::corrupt(e.to_string()))?,
        ))
    }
}

fn finish_struct(data_type: &DataType, children: Vec<Sink>, len: usize) -> Result<ArrayRef> {
    let DataType::Struct(fields) = data_type else {
        return Err(Error::corrupt("struct children outside of a struct"));
    };
    let children = children.into_iter().map(Sink::finish).collect::<Result<_>>()?;
    let array = StructArray::try_new_with_length(fields.clone(), children, None, len);
    Ok(Arc::new(array.map_err(|e| Error::corrupt(e.to_string()))?))
}

fn concat(data_type: &DataType, pieces: &[ArrayRef]) -> Result<ArrayRef> {
    match pieces {
        [] => Ok(new_null_array(data_type, 0)),
        [only] => Ok(only.clone()),
        _ => {
            let pieces = share_items(pieces);
            let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
            arrow_select::concat::concat(&pieces).map_err(|e| {
                Error::unsupported(format!(
                    "dictionaries of several pages cannot be joined ({e}): read fewer rows at a time"
                ))
            })
        }
    }
}

/// Dictionary arrays with the items of the one that has the most, if the items of all others begin those. Pages mostly have
/// the same dictionary, but for an item that is null, and joined they must not take several times the keys.
fn share_items(pieces: &[ArrayRef]) -> Vec<ArrayRef> {
    let items = |piece: &ArrayRef| Some(piece.as_any_dictionary_opt()?.values().clone());
    let longest = pieces.iter().filter_map(items).max_by_key(|items| items.len());
    let Some(longest) = longest else {
        return pieces.to_vec();
    };
    let shared = pieces.iter().map(|piece| {
        let dictionary = piece.as_any_dictionary_opt()?;
        let own = dictionary.values();
        let same = longest.slice(0, own.len()).to_data() == own.to_data();
        same.then(|| dictionary.with_values(longest.clone()))
    });
    let shared: Option<Vec<_>> = shared.collect();
    shared.unwrap_or_else(|| pieces.to_vec())
}

impl FixedData {
    fn len(&self) -> usize {
        match self {
            Self::Owned(data) => data.len(),
            Self::Shared(data) => data.len(),
        }
    }

    /// Zeros in fresh memory cost nothing before they are touched.
    fn push_zeros(&mut self, bytes: usize) {
        match self {
            Self::Owned(data) if data.is_empty() => *data = MutableBuffer::from_len_zeroed(bytes),
            _ => {
                let data = self.owned();
                data.resize(data.len() + bytes, 0);
            }
        }
    }

    /// Buffer to append to; shared bytes are copied first.
    fn owned(&mut self) -> &mut MutableBuffer {
        if let Self::Shared(shared) = self {
            let mut copy = MutableBuffer::with_capacity(shared.len() * 2);
            copy.extend_from_slice(shared.as_slice());
            *self = Self::Owned(copy);
        }
        match self {
            Self::Owned(data) => data,
            Self::Shared(_) => unreachable!("replaced by an owned copy above"),
        }
    }

    fn into_buffer(self) -> Buffer {
        match self {
            Self::Owned(data) => data.into(),
            Self::Shared(data) => data,
        }
    }
}

fn with_zero<T: Default>(rows: usize) -> Vec<T> {
    let mut ends = Vec::with_capacity(rows.saturating_add(1).min(1 << 24));
    ends.push(T::default());
    ends
}

impl Ends {
    fn push_empty(&mut self, end: usize, n: usize) -> Result<()> {
        match self {
            Self::I32(ends) => {
                let end = i32::try_from(end).map_err(|_| offsets_overflow())?;
                ends.resize(ends.len() + n, end);
            }
            Self::I64(ends) => ends.resize(ends.len() + n, end as i64),
        }
        Ok(())
    }

    /// Appends ends that ascend and count from `base`.
    fn push(&mut self, base: usize, value_ends: &[u64]) -> Result<()> {
        let last = value_ends.last().copied().unwrap_or(0);
        let end = last.checked_add(base as u64).ok_or_else(too_large)?;
        match self {
            Self::I32(ends) => {
                i32::try_from(end).map_err(|_| offsets_overflow())?;
                let base = base as i32;
                ends.extend(value_ends.iter().map(|e| base + *e as i32));
            }
            Self::I64(ends) => {
                let base = i64::try_from(base).map_err(|_| too_large())?;
                ends.extend(value_ends.iter().map(|e| base + *e as i64));
            }
        }
        Ok(())
    }

    fn into_buffer(self) -> Buffer {
        match self {
            Self::I32(ends) => Buffer::from_vec(ends),
            Self::I64(ends) => Buffer::from_vec(ends),
        }
    }
}

/// Refuses to make more bytes than any caller needs out of a few bytes of a file.
pub fn check_expanded(bytes: Option<usize>) -> Result<usize> {
    bytes.filter(|bytes| *bytes <= MAX_EXPANDED_BYTES).ok_or_else(|| {
        Error::unsupported(format!(
            "the rows decode to more than {MAX_EXPANDED_BYTES} bytes of nulls or repeated values: read fewer rows at a \
             time"
        ))
    })
}

fn mismatch(found: &str, data_type: &DataType) -> Error {
    Error::corrupt(format!("{found} in a column of {data_type}"))
}

fn too_large() -> Error {
    Error::unsupported("more values than this machine can address")
}

fn offsets_overflow() -> Error {
    Error::unsupported("more than 2 GiB of string or binary bytes in one batch: read fewer rows at a time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_appears_with_the_first_null() {
        let mut validity = Validity::default();
        validity.push(true, 3);
        validity.push_bits(&[0xff], 2, 5);
        assert!(validity.finish().is_none());
        validity.push_bits(&[0b101], 0, 3);
        validity.push(false, 2);
        validity.push(true, 9);
        let nulls = validity.finish().unwrap();
        let found: Vec<_> = nulls.iter().map(u8::from).collect();
        assert_eq!(
            found,
            [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1]
        );
    }

    #[test]
    fn nulls_without_bytes_are_bounded() {
        let mut sink = Sink::new(&DataType::Int64, 0).unwrap();
        assert!(sink.push_nulls(1 << 40).is_err());
        let list = DataType::new_fixed_size_list(DataType::Float64, i32::MAX, true);
        let mut sink = Sink::new(&list, 0).unwrap();
        assert!(sink.push_nulls(1 << 20).is_err());
        assert!(sink.push_nulls(usize::MAX).is_err());
    }
}
