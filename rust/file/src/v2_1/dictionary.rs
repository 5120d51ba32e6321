//! Dictionary pages: indices in the chunks, the distinct values once (format chapter 22, 5).

use arrow_buffer::MutableBuffer;

use super::sink::{FixedData, Offsets, Values};
use crate::{Error, Result};

/// Items up to this length are copied as a block of this length, which is one load and one store.
const SHORT: usize = 16;

/// The distinct values of a page.
#[derive(Debug)]
pub struct Dictionary {
    values: Values,
    items: usize,
    /// All items, padded, if none is longer than [`SHORT`].
    short: Option<Vec<ShortItem>>,
}

#[derive(Debug, Clone, Copy)]
struct ShortItem {
    bytes: [u8; SHORT],
    len: usize,
}

impl Dictionary {
    /// A dictionary of decoded values.
    pub fn new(values: Values, items: usize) -> Self {
        let short = short_items(&values, items);
        Self { values, items, short }
    }

    /// Appends the item of every index to `out`; `indices` are unsigned integers of 8 to 64 bits.
    pub fn gather(&self, indices: &Values, out: &mut Values) -> Result<()> {
        let Values::Fixed { width, data } = indices else {
            return Err(Error::corrupt("dictionary indices are not integers"));
        };
        let bytes = data.as_slice();
        match width {
            1 => self.gather_by(bytes.iter().map(|&i| usize::from(i)), out),
            2 => self.gather_by(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|i| usize::from(u16::from_le_bytes(*i))),
                out,
            ),
            4 => self.gather_by(
                bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|i| u32::from_le_bytes(*i) as usize),
                out,
            ),
            _ => {
                let wide = bytes.as_chunks().0.iter().map(|i| u64::from_le_bytes(*i));
                self.gather_by(wide.map(|i| usize::try_from(i).unwrap_or(usize::MAX)), out)
            }
        }
    }

    fn gather_by(
        &self,
        indices: impl ExactSizeIterator<Item = usize> + Clone,
        out: &mut Values,
    ) -> Result<()> {
        match (&self.values, out) {
            (
                Values::Variable { offsets, data },
                Values::Variable {
                    offsets: ends,
                    data: bytes,
                },
            ) => match (&self.short, ends) {
                (Some(items), Offsets::I32(ends)) => self.gather_short(items, indices, ends, bytes, |end| {
                    i32::try_from(end).map_err(|_| super::sink::offsets_overflow())
                }),
                (Some(items), Offsets::I64(ends)) => {
                    self.gather_short(items, indices, ends, bytes, |end| Ok(end as i64))
                }
                (None, ends) => self.gather_long(offsets, data, indices, ends, bytes),
            },
            (Values::Fixed { width, data }, Values::Fixed { data: out, .. }) => match width {
                8 => self.gather_fixed::<8>(data, indices, out),
                16 => self.gather_fixed::<16>(data, indices, out),
                _ => Err(Error::corrupt(format!("dictionary of values of {width} bytes"))),
            },
            _ => Err(Error::corrupt("dictionary and column do not fit")),
        }
    }

    fn outside(&self, index: usize) -> Error {
        Error::corrupt(format!(
            "dictionary index {index}, but there are {} items",
            self.items
        ))
    }

    fn gather_short<O: arrow_buffer::ArrowNativeType>(
        &self,
        items: &[ShortItem],
        indices: impl ExactSizeIterator<Item = usize> + Clone,
        ends: &mut MutableBuffer,
        bytes: &mut MutableBuffer,
        to_offset: impl Fn(usize) -> Result<O>,
    ) -> Result<()> {
        let (start, first_end, n) = (bytes.len(), ends.len(), indices.len());
        let mut total = 0;
        for index in indices.clone() {
            total += items.get(index).ok_or_else(|| self.outside(index))?.len;
        }
        // The largest offset; all others are below it.
        to_offset(start + total)?;
        // Room for the padding of the last item.
        bytes.resize(start + total + SHORT, 0);
        ends.resize(first_end + n * size_of::<O>(), 0);
        let ends = ends
            .typed_data_mut::<O>()
            .get_mut(first_end / size_of::<O>()..)
            .unwrap_or_default();
        let mut position = start;
        for (end, index) in ends.iter_mut().zip(indices) {
            let target = bytes.as_slice_mut().get_mut(position..position + SHORT);
            if let (Some(item), Some(target)) = (items.get(index), target) {
                target.copy_from_slice(&item.bytes);
                position += item.len;
            }
            *end = O::usize_as(position);
        }
        bytes.truncate(start + total);
        Ok(())
    }

    fn gather_long(
        &self,
        starts: &Offsets,
        items: &MutableBuffer,
        indices: impl Iterator<Item = usize>,
        ends: &mut Offsets,
        bytes: &mut MutableBuffer,
    ) -> Result<()> {
        for index in indices {
            let span = starts.get(index).zip(starts.get(index + 1));
            let item = span.and_then(|(start, end)| items.as_slice().get(start..end));
            bytes.extend_from_slice(item.ok_or_else(|| self.outside(index))?);
            ends.push_end(bytes.len())?;
        }
        Ok(())
    }

    fn gather_fixed<const W: usize>(
        &self,
        items: &FixedData,
        indices: impl ExactSizeIterator<Item = usize>,
        out: &mut FixedData,
    ) -> Result<()> {
        let items = items.as_slice().as_chunks::<W>().0;
        let out = out.owned();
        let start = out.len();
        out.resize(start + indices.len() * W, 0);
        let out = out.as_slice_mut().get_mut(start..).unwrap_or_default();
        for (target, index) in out.as_chunks_mut::<W>().0.iter_mut().zip(indices) {
            *target = *items.get(index).ok_or_else(|| self.outside(index))?;
        }
        Ok(())
    }
}

fn short_items(values: &Values, items: usize) -> Option<Vec<ShortItem>> {
    let Values::Variable { .. } = values else {
        return None;
    };
    let pad = |index| {
        let item = values.value(index)?;
        let mut bytes = [0; SHORT];
        bytes.get_mut(..item.len())?.copy_from_slice(item);
        Some(ShortItem {
            bytes,
            len: item.len(),
        })
    };
    (0..items).map(pad).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v2_1::ValueShape;

    const TEXT: &ValueShape = &ValueShape::Variable { offset_bits: 32 };

    fn dictionary(items: &[&[u8]]) -> Dictionary {
        let mut values = Values::new(TEXT, 0);
        items.iter().for_each(|item| values.push_bytes(item).unwrap());
        Dictionary::new(values, items.len())
    }

    fn indices(of: &[u16]) -> Values {
        let mut values = Values::new(&ValueShape::Fixed { bits: 16 }, 0);
        values.grow::<u16>(of.len()).unwrap().copy_from_slice(of);
        values
    }

    #[test]
    fn short_and_long_items_are_gathered_alike() {
        for long in [&b"sixteen bytes!!!"[..], b"more than sixteen bytes"] {
            let mut out = Values::new(TEXT, 0);
            out.push_bytes(b"before").unwrap();
            dictionary(&[b"", b"a", long])
                .gather(&indices(&[2, 0, 1, 2]), &mut out)
                .unwrap();
            let found: Vec<_> = (0..5).map(|i| out.value(i).unwrap()).collect();
            assert_eq!(found, [b"before", long, b"", b"a", long]);
            assert!(out.value(5).is_none());
        }
    }

    #[test]
    fn an_index_beyond_the_items_is_refused() {
        let error = dictionary(&[b"a"])
            .gather(&indices(&[0, 1]), &mut Values::new(TEXT, 0))
            .unwrap_err();
        assert!(error.to_string().contains("dictionary index 1"));
    }
}
