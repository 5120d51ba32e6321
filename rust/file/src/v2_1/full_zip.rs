//! Full-zip pages: level and value side by side, each row addressable (format chapter 21, 5).
//!
//! ```text
//! fixed width      control word | value                       row i at i * (word + value bytes)
//! variable width   control word | u32 or u64 length | bytes    row i at entry i of the row index, buffer 1
//! ```
//!
//! The control word holds the definition level, in 0, 1, 2 or 4 bytes. A null occupies its value bytes in the
//! fixed form, and nothing but the control word in the variable form.

use std::ops::Range;

use bytes::Bytes;
use glaive_codec::ByteCursor;

use super::codec::ValueCodec;
use super::layers::Layers;
use super::{ColumnSink, ValueShape};
use crate::container::PageInfo;
use crate::proto::lance::encodings21::{FullZipLayout, full_zip_layout::Details};
use crate::{Error, Result};

/// How a full-zip page is laid out.
#[derive(Debug)]
pub struct FullZipPage {
    layers: Layers,
    codec: ValueCodec,
    control_bytes: usize,
    bits_def: u32,
    cell: Cell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// Bytes of one value.
    Fixed(usize),
    /// Bytes of the length in front of a value, and of one entry of the row index.
    Variable { length_bytes: usize, index_bytes: u64 },
}

impl FullZipPage {
    /// Checks a layout against its page and column.
    pub fn parse(layout: &FullZipLayout, page: &PageInfo, shape: ValueShape, depth: usize) -> Result<Self> {
        let layers = Layers::parse(&layout.layers, depth)?;
        if layout.bits_rep != 0 {
            return Err(Error::corrupt("repetition levels in a column without lists"));
        }
        if layout.bits_def > 16 {
            return Err(Error::corrupt(format!(
                "definition levels of {} bits",
                layout.bits_def
            )));
        }
        let control_bytes = match layout.bits_def {
            0 => 0,
            1..=8 => 1,
            _ => 2,
        };
        let codec = layout
            .value_compression
            .as_ref()
            .ok_or_else(|| Error::corrupt("value codec is missing"))?;
        let codec = ValueCodec::parse(codec, shape)?;
        if u64::from(layout.num_items) != page.length || layout.num_visible_items != layout.num_items {
            return Err(Error::corrupt(format!(
                "{} slots, {} of them visible, in a page of {} rows",
                layout.num_items, layout.num_visible_items, page.length
            )));
        }
        let cell = match layout.details {
            Some(Details::BitsPerValue(bits)) => fixed_cell(bits, shape, &codec)?,
            Some(Details::BitsPerOffset(bits)) => variable_cell(bits, page, &codec)?,
            None => return Err(Error::corrupt("neither value width nor offset width is given")),
        };
        let this = Self {
            layers,
            codec,
            control_bytes,
            bits_def: layout.bits_def,
            cell,
        };
        this.check_buffers(page)?;
        Ok(this)
    }

    fn check_buffers(&self, page: &PageInfo) -> Result<()> {
        let (Cell::Fixed(_), [zipped, ..]) = (self.cell, page.buffers.as_slice()) else {
            return if page.buffers.len() >= 2 {
                Ok(())
            } else {
                Err(Error::corrupt("row index is missing"))
            };
        };
        match page.length.checked_mul(self.stride()) {
            Some(expected) if expected == zipped.size => Ok(()),
            _ => Err(Error::corrupt(format!(
                "{} bytes for {} cells of {} bytes",
                zipped.size,
                page.length,
                self.stride()
            ))),
        }
    }

    /// Bytes of one fixed-width cell with its control word.
    fn stride(&self) -> u64 {
        match self.cell {
            Cell::Fixed(bytes) => (self.control_bytes + bytes) as u64,
            Cell::Variable { .. } => 0,
        }
    }

    /// The whole zipped stream, which needs no row index.
    pub fn whole_stream(&self, page: &PageInfo) -> Result<Vec<Range<u64>>> {
        let stream = page
            .buffers
            .first()
            .ok_or_else(|| Error::corrupt("zipped stream is missing"))?;
        Ok(vec![stream.range()])
    }

    /// Ranges of the row index that `rows` need; none for fixed-width cells.
    pub fn index_ranges(&self, page: &PageInfo, rows: &[Range<u64>]) -> Result<Vec<Range<u64>>> {
        let Cell::Variable {
            index_bytes: width, ..
        } = self.cell
        else {
            return Ok(Vec::new());
        };
        let index = page
            .buffers
            .get(1)
            .ok_or_else(|| Error::corrupt("row index is missing"))?;
        rows.iter()
            .map(|r| index.slice(r.start * width, (r.end + 1) * width))
            .collect()
    }

    /// Ranges of the zipped stream that hold `rows`, given the parts of the row index.
    pub fn stream_ranges(
        &self,
        page: &PageInfo,
        rows: &[Range<u64>],
        index: &[Bytes],
    ) -> Result<Vec<Range<u64>>> {
        let stream = page
            .buffers
            .first()
            .ok_or_else(|| Error::corrupt("zipped stream is missing"))?;
        match self.cell {
            Cell::Fixed(_) => rows
                .iter()
                .map(|r| stream.slice(r.start * self.stride(), r.end * self.stride()))
                .collect(),
            Cell::Variable { index_bytes, .. } => {
                let width = index_bytes as usize;
                let ends = index.iter().map(|part| {
                    let (first, last) = (part.get(..width), part.get(part.len().saturating_sub(width)..));
                    stream.slice(entry(first)?, entry(last)?)
                });
                ends.collect()
            }
        }
    }

    /// Appends the rows whose bytes were read: one element of `parts` for each range of rows.
    pub fn decode(&self, rows: &[Range<u64>], parts: &[Bytes], out: &mut ColumnSink) -> Result<()> {
        for (range, part) in rows.iter().zip(parts) {
            let n = usize::try_from(range.end - range.start).map_err(|_| Error::corrupt("page too long"))?;
            match self.cell {
                Cell::Fixed(_) if self.control_bytes == 0 => {
                    out.push_valid(n);
                    out.values.push_cells(part)?;
                }
                Cell::Fixed(width) => self.decode_fixed(width, n, part, out)?,
                Cell::Variable { length_bytes, .. } => self.decode_variable(length_bytes, n, part, out)?,
            }
        }
        Ok(())
    }

    fn decode_fixed(&self, width: usize, n: usize, part: &Bytes, out: &mut ColumnSink) -> Result<()> {
        let mut levels = Vec::with_capacity(n);
        let mut cursor = ByteCursor::new(part);
        for _ in 0..n {
            levels.push(self.level(&mut cursor)?);
            out.values.push_cells(&part.slice_ref(cursor.take(width)?))?;
        }
        self.push_levels(&levels, out)
    }

    fn decode_variable(
        &self,
        length_bytes: usize,
        n: usize,
        part: &[u8],
        out: &mut ColumnSink,
    ) -> Result<()> {
        let mut levels = Vec::with_capacity(n);
        let mut cursor = ByteCursor::new(part);
        let mut scratch = Vec::new();
        for _ in 0..n {
            let level = self.level(&mut cursor)?;
            levels.push(level);
            if level > 0 {
                out.values.push_default(1)?;
                continue;
            }
            let length = if length_bytes == 4 {
                u64::from(cursor.u32()?)
            } else {
                cursor.u64()?
            };
            let length = usize::try_from(length).map_err(|_| Error::corrupt("value too long"))?;
            self.codec
                .decode_value(cursor.take(length)?, &mut scratch, &mut out.values)?;
        }
        cursor.expect_end()?;
        self.push_levels(&levels, out)
    }

    fn push_levels(&self, levels: &[u16], out: &mut ColumnSink) -> Result<()> {
        if self.control_bytes == 0 {
            out.push_valid(levels.len());
            return Ok(());
        }
        self.layers.check(levels)?;
        out.push_levels(&self.layers, levels);
        Ok(())
    }

    fn level(&self, cursor: &mut ByteCursor<'_>) -> Result<u16> {
        let word = match self.control_bytes {
            0 => return Ok(0),
            1 => u16::from(cursor.u8()?),
            _ => cursor.u16()?,
        };
        if self.bits_def < 16 && word >> self.bits_def != 0 {
            return Err(Error::corrupt(format!(
                "control word {word:#x} in a page of {}-bit levels",
                self.bits_def
            )));
        }
        Ok(word)
    }
}

fn fixed_cell(bits: u32, shape: ValueShape, codec: &ValueCodec) -> Result<Cell> {
    // Booleans are widened to a byte here.
    let expected = match shape {
        ValueShape::Fixed { bits: 1 } => 8,
        ValueShape::Fixed { bits } => bits,
        _ => return Err(Error::corrupt("fixed-width cells in a variable-width column")),
    };
    if bits != expected || !codec.is_fixed() {
        return Err(Error::corrupt(format!(
            "cells of {bits} bits in a column of {expected}"
        )));
    }
    Ok(Cell::Fixed(bits as usize / 8))
}

fn variable_cell(bits: u32, page: &PageInfo, codec: &ValueCodec) -> Result<Cell> {
    if !matches!(bits, 32 | 64) || codec.is_fixed() {
        return Err(Error::corrupt(format!(
            "variable-width cells with lengths of {bits} bits"
        )));
    }
    let index = page
        .buffers
        .get(1)
        .ok_or_else(|| Error::corrupt("row index is missing"))?;
    let entries = page
        .length
        .checked_add(1)
        .ok_or_else(|| Error::corrupt("page too long"))?;
    let index_bytes = index.size / entries;
    if index.size % entries != 0 || !matches!(index_bytes, 1 | 2 | 4 | 8) {
        return Err(Error::corrupt(format!(
            "row index of {} bytes for {} rows",
            index.size, page.length
        )));
    }
    Ok(Cell::Variable {
        length_bytes: bits as usize / 8,
        index_bytes,
    })
}

/// A little-endian entry of the row index.
fn entry(bytes: Option<&[u8]>) -> Result<u64> {
    let bytes = bytes
        .filter(|b| !b.is_empty())
        .ok_or_else(|| Error::corrupt("row index too short"))?;
    Ok(bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte)))
}
