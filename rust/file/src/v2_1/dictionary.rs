//! Dictionary pages: indices in the chunks, the distinct values once (format chapter 22, 5).

use arrow_buffer::{ArrowNativeType, MutableBuffer};

use super::sink::{FixedData, Offsets, Values};
use crate::{Error, Result};

/// The distinct values of a page.
#[derive(Debug)]
pub struct Dictionary {
    values: Values,
    items: usize,
    /// All items, padded to the same length, if all are short: copying one is then a load and a store or two.
    short: Short,
}

#[derive(Debug)]
enum Short {
    To16(Vec<Padded<16>>),
    To32(Vec<Padded<32>>),
    None,
}

#[derive(Debug, Clone, Copy)]
struct Padded<const S: usize> {
    bytes: [u8; S],
    len: usize,
}

impl Dictionary {
    /// A dictionary of decoded values.
    pub fn new(values: Values, items: usize) -> Self {
        let short = match padded::<16>(&values, items) {
            Some(short) => Short::To16(short),
            None => padded::<32>(&values, items).map_or(Short::None, Short::To32),
        };
        Self { values, items, short }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items
    }

    /// The bytes of an item.
    pub fn item(&self, index: usize) -> Result<&[u8]> {
        self.values.value(index).ok_or_else(|| self.outside(index))
    }

    /// The error for an index that no item has.
    pub fn outside(&self, index: usize) -> Error {
        Error::corrupt(format!(
            "dictionary index {index}, but there are {} items",
            self.items
        ))
    }

    /// Mean length of an item of variable width.
    pub fn mean_len(&self) -> usize {
        match &self.values {
            Values::Variable { data, .. } => data.len() / self.items.max(1),
            _ => 0,
        }
    }

    /// Appends the item of every index to `out`; `indices` are unsigned integers of 8 to 64 bits.
    pub fn gather(&self, indices: &Values, out: &mut Values) -> Result<()> {
        let Values::Fixed { width, data } = indices else {
            return Err(Error::corrupt("dictionary indices are not integers"));
        };
        let FixedData::Owned(data) = data else {
            return Ok(());
        };
        match width {
            1 => self.gather_by(data.typed_data::<u8>(), out),
            2 => self.gather_by(data.typed_data::<u16>(), out),
            4 => self.gather_by(data.typed_data::<u32>(), out),
            _ => self.gather_by(data.typed_data::<u64>(), out),
        }
    }

    fn gather_by<I: ArrowNativeType + Ord>(&self, indices: &[I], out: &mut Values) -> Result<()> {
        let Some(largest) = indices.iter().max() else {
            return Ok(());
        };
        if largest.to_usize().is_none_or(|largest| largest >= self.items) {
            return Err(Error::corrupt(format!(
                "dictionary index {largest:?}, but there are {} items",
                self.items
            )));
        }
        match (&self.values, out) {
            (
                Values::Variable { offsets, data },
                Values::Variable {
                    offsets: ends,
                    data: bytes,
                },
            ) => match &self.short {
                Short::To16(items) => gather_short(items, indices, ends, bytes),
                Short::To32(items) => gather_short(items, indices, ends, bytes),
                Short::None => gather_long(offsets, data, indices, ends, bytes),
            },
            (Values::Fixed { width, data }, Values::Fixed { data: out, .. }) => match width {
                8 => gather_fixed::<8, I>(data, indices, out),
                16 => gather_fixed::<16, I>(data, indices, out),
                _ => Err(Error::corrupt(format!("dictionary of values of {width} bytes"))),
            },
            _ => Err(Error::corrupt("dictionary and column do not fit")),
        }
    }
}

fn outside() -> Error {
    Error::corrupt("dictionary index behind the last item")
}

fn gather_short<const S: usize, I: ArrowNativeType>(
    items: &[Padded<S>],
    indices: &[I],
    ends: &mut Offsets,
    bytes: &mut MutableBuffer,
) -> Result<()> {
    // Room for items of full length; what they do not use is cut off below.
    let most = indices
        .len()
        .checked_mul(S)
        .and_then(|n| n.checked_add(bytes.len()));
    match (ends, most) {
        (Offsets::I32(ends), Some(most)) if i32::try_from(most).is_ok() => {
            copy_short::<S, I, i32>(items, indices, ends, bytes)
        }
        (Offsets::I64(ends), Some(_)) => copy_short::<S, I, i64>(items, indices, ends, bytes),
        (ends, _) => {
            for index in indices {
                let item = items.get(index.as_usize()).ok_or_else(outside)?;
                bytes.extend_from_slice(item.bytes.get(..item.len).unwrap_or_default());
                ends.push_end(bytes.len())?;
            }
            Ok(())
        }
    }
}

/// Calls `f` with every index; `indices` are unsigned integers of 8 to 64 bits.
pub fn for_each_index(indices: &Values, f: impl FnMut(usize) -> Result<()>) -> Result<()> {
    let Values::Fixed { width, data } = indices else {
        return Err(Error::corrupt("dictionary indices are not integers"));
    };
    let FixedData::Owned(data) = data else {
        return Ok(());
    };
    match width {
        1 => data
            .typed_data::<u8>()
            .iter()
            .map(|i| i.as_usize())
            .try_for_each(f),
        2 => data
            .typed_data::<u16>()
            .iter()
            .map(|i| i.as_usize())
            .try_for_each(f),
        4 => data
            .typed_data::<u32>()
            .iter()
            .map(|i| i.as_usize())
            .try_for_each(f),
        _ => data
            .typed_data::<u64>()
            .iter()
            .map(|i| i.as_usize())
            .try_for_each(f),
    }
}

fn copy_short<const S: usize, I: ArrowNativeType, O: ArrowNativeType>(
    items: &[Padded<S>],
    indices: &[I],
    ends: &mut MutableBuffer,
    bytes: &mut MutableBuffer,
) -> Result<()> {
    let (mut position, first_end) = (bytes.len(), ends.len());
    bytes.resize(position + indices.len() * S, 0);
    ends.resize(first_end + indices.len() * size_of::<O>(), 0);
    let ends = ends
        .typed_data_mut::<O>()
        .get_mut(first_end / size_of::<O>()..)
        .unwrap_or_default();
    let out = bytes.as_slice_mut();
    for (end, index) in ends.iter_mut().zip(indices) {
        let item = items.get(index.as_usize()).ok_or_else(outside)?;
        let target = out.get_mut(position..).and_then(|out| out.first_chunk_mut::<S>());
        *target.ok_or_else(outside)? = item.bytes;
        position += item.len;
        *end = O::usize_as(position);
    }
    bytes.truncate(position);
    Ok(())
}

fn gather_long<I: ArrowNativeType>(
    starts: &Offsets,
    items: &MutableBuffer,
    indices: &[I],
    ends: &mut Offsets,
    bytes: &mut MutableBuffer,
) -> Result<()> {
    for index in indices {
        let index = index.as_usize();
        let span = starts.get(index).zip(starts.get(index + 1));
        let item = span.and_then(|(start, end)| items.as_slice().get(start..end));
        bytes.extend_from_slice(item.ok_or_else(outside)?);
        ends.push_end(bytes.len())?;
    }
    Ok(())
}

fn gather_fixed<const W: usize, I: ArrowNativeType>(
    items: &FixedData,
    indices: &[I],
    out: &mut FixedData,
) -> Result<()> {
    let items = items.as_slice().as_chunks::<W>().0;
    let out = out.owned();
    let start = out.len();
    out.resize(start + indices.len() * W, 0);
    let out = out.as_slice_mut().get_mut(start..).unwrap_or_default();
    for (target, index) in out.as_chunks_mut::<W>().0.iter_mut().zip(indices) {
        *target = *items.get(index.as_usize()).ok_or_else(outside)?;
    }
    Ok(())
}

/// The items padded to `S` bytes, if none is longer.
fn padded<const S: usize>(values: &Values, items: usize) -> Option<Vec<Padded<S>>> {
    let Values::Variable { .. } = values else {
        return None;
    };
    let pad = |index| {
        let item = values.value(index)?;
        let mut bytes = [0; S];
        bytes.get_mut(..item.len())?.copy_from_slice(item);
        Some(Padded {
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
        for long in [
            &b"sixteen bytes!!!"[..],
            b"more than sixteen bytes",
            b"more than thirty-two bytes, a whole sentence",
        ] {
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
