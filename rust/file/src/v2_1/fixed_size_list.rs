//! Fixed-size lists of fixed-width items (format chapter 22, 4.10).
//!
//! Nulls of the outermost list are levels. Nulls of its items, and of inner lists, are bitmaps inside the value:
//!
//! ```text
//! mini-block   one buffer for each level with nulls, outermost first, over all rows of the chunk | the items
//! full-zip     each row: the bitmap of each level with nulls, in whole bytes | the items
//! ```

use std::ops::Range;

use bytes::Bytes;

use super::ValueShape;
use super::sink::{ListLevel, Values};
use crate::proto::lance::encodings21::CompressiveEncoding;
use crate::proto::lance::encodings21::compressive_encoding::Compression;
use crate::{Error, Result};

/// The codec tree of a fixed-size list.
#[derive(Debug)]
pub struct ListCodec {
    /// Outermost first: whether the items of that list have a bitmap.
    has_validity: Vec<bool>,
    /// All items are null, and no bytes are stored for them.
    all_null: bool,
    /// Items of one value down to each level.
    items_per_value: Vec<usize>,
    item_bits: usize,
}

impl ListCodec {
    /// Checks a tree of nested lists against the shape of its column.
    pub fn parse(encoding: &CompressiveEncoding, shape: &ValueShape) -> Result<Self> {
        let ValueShape::FixedSizeList { dimensions, bits } = shape else {
            return Err(Error::corrupt(
                "a fixed-size list encoding in a column of another type",
            ));
        };
        let mut this = Self {
            has_validity: vec![],
            all_null: false,
            items_per_value: vec![],
            item_bits: *bits as usize,
        };
        let (mut encoding, mut items) = (encoding, 1);
        for dimension in dimensions {
            let Some(Compression::FixedSizeList(list)) = &encoding.compression else {
                return Err(Error::corrupt("fewer fixed-size list encodings than lists"));
            };
            if list.items_per_value != u64::from(*dimension) {
                return Err(Error::corrupt(format!(
                    "fixed-size lists of {} items in a column of {dimension}",
                    list.items_per_value
                )));
            }
            items *= *dimension as usize;
            this.has_validity.push(list.has_validity);
            this.items_per_value.push(items);
            encoding = list
                .values
                .as_deref()
                .ok_or_else(|| Error::corrupt("a list encoding lacks its items"))?;
        }
        match &encoding.compression {
            Some(Compression::Flat(flat))
                if flat.data.is_none() && flat.bits_per_value == u64::from(*bits) =>
            {
                Ok(this)
            }
            Some(Compression::Constant(constant)) if constant.value.is_none() => {
                this.all_null = true;
                Ok(this)
            }
            _ => Err(Error::corrupt(format!(
                "the items of a fixed-size list are not plain values of {bits} bits"
            ))),
        }
    }

    /// Value buffers of a mini-block chunk.
    pub fn num_buffers(&self) -> usize {
        self.has_validity.iter().filter(|v| **v).count() + 1
    }

    /// Bytes of one full-zip cell, or `None` if it is no whole number of bytes.
    pub fn cell_bytes(&self) -> Option<usize> {
        let with_bitmap = self
            .items_per_value
            .iter()
            .zip(&self.has_validity)
            .filter(|(_, v)| **v);
        let bitmaps: usize = with_bitmap.map(|(items, _)| items.div_ceil(8)).sum();
        let bits = if self.all_null {
            0
        } else {
            self.items() * self.item_bits
        };
        bits.is_multiple_of(8).then_some(bitmaps + bits / 8)
    }

    /// Innermost items of one value.
    fn items(&self) -> usize {
        self.items_per_value.last().copied().unwrap_or(1)
    }

    /// Appends the values `wanted` of a chunk of `n` values.
    pub fn decode_chunk(
        &self,
        buffers: &[&[u8]],
        n: usize,
        wanted: &[Range<u64>],
        out: &mut Values,
    ) -> Result<()> {
        let (levels, items) = parts(out)?;
        let mut buffers = buffers.iter();
        let mut next = |bits: usize| match buffers.next() {
            Some(buffer) if buffer.len() == bits.div_ceil(8) => Ok(*buffer),
            _ => Err(Error::corrupt(format!(
                "a buffer of a fixed-size list has not the length of {bits} bits"
            ))),
        };
        for (level, has_validity) in levels.iter_mut().zip(&self.has_validity) {
            let per_value = level.items_per_value;
            let bitmap = if *has_validity {
                Some(next(n * per_value)?)
            } else {
                None
            };
            for range in wanted {
                let span = range.start as usize * per_value..range.end as usize * per_value;
                match bitmap {
                    Some(bitmap) => level.validity.push_bits(bitmap, span),
                    None => level.validity.push_valid(span.end - span.start),
                }
            }
        }
        let per_value = self.items();
        let bytes = if self.all_null {
            &[][..]
        } else {
            next(n * per_value * self.item_bits)?
        };
        for range in wanted {
            let span = range.start as usize * per_value..range.end as usize * per_value;
            if self.all_null {
                items.push_default(span.end - span.start)?;
            } else {
                push_items(items, self.item_bits, bytes, span)?;
            }
        }
        Ok(())
    }

    /// Appends full-zip cells that stand side by side without control words.
    pub fn decode_cells(&self, n: usize, cells: &Bytes, out: &mut Values) -> Result<()> {
        let cell = self
            .cell_bytes()
            .ok_or_else(|| Error::corrupt("cells that are no whole number of bytes"))?;
        if self.has_validity.contains(&true) || self.all_null {
            // A page of all-null items may have cells without any byte.
            return (0..n).try_for_each(|i| self.decode_cell(&cells.slice(i * cell..(i + 1) * cell), out));
        }
        let (levels, items) = parts(out)?;
        for level in levels {
            level.validity.push_valid(n * level.items_per_value);
        }
        match items {
            Values::Bits { .. } => items.push_bits(cells, 0..n * self.items()),
            _ => items.push_cells(cells),
        }
    }

    /// Appends one full-zip cell.
    pub fn decode_cell(&self, cell: &[u8], out: &mut Values) -> Result<()> {
        let (levels, items) = parts(out)?;
        let mut rest = cell;
        for (level, has_validity) in levels.iter_mut().zip(&self.has_validity) {
            let n = level.items_per_value;
            if !has_validity {
                level.validity.push_valid(n);
                continue;
            }
            let (bitmap, tail) = rest.split_at_checked(n.div_ceil(8)).ok_or_else(short_cell)?;
            level.validity.push_bits(bitmap, 0..n);
            rest = tail;
        }
        if self.all_null {
            return items.push_default(self.items());
        }
        if rest.len() * 8 != self.items() * self.item_bits {
            return Err(short_cell());
        }
        push_items(items, self.item_bits, rest, 0..self.items())
    }
}

fn short_cell() -> Error {
    Error::corrupt("a cell of a fixed-size list has the wrong length")
}

/// The parts of a sink of fixed-size lists.
fn parts(out: &mut Values) -> Result<(&mut [ListLevel], &mut Values)> {
    match out {
        Values::FixedSizeList { levels, items } => Ok((levels, items)),
        _ => Err(Error::corrupt("fixed-size lists in a column of another type")),
    }
}

fn push_items(items: &mut Values, bits: usize, bytes: &[u8], span: Range<usize>) -> Result<()> {
    if bits == 1 {
        return items.push_bits(bytes, span);
    }
    let part = bytes
        .get(span.start * bits / 8..span.end * bits / 8)
        .ok_or_else(short_cell)?;
    items.push_fixed(part)
}
