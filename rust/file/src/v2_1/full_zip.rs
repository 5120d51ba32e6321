//! Full-zip pages: levels and value side by side, each row addressable (format chapter 21, 5).
//!
//! ```text
//! fixed width      control word | value                        without lists: row i at i * (word + value bytes)
//! variable width   control word | u32 or u64 length | bytes     row i at entry i of the row index, buffer 1
//! ```
//!
//! The control word is `rep << bits_def | def`, in 0, 1, 2 or 4 bytes. A null or empty list is a control word alone. A null value
//! occupies its value bytes in the fixed form, and nothing but the control word in the variable form.

use std::ops::Range;

use bytes::Bytes;
use glaive_codec::ByteCursor;

use super::codec::{Pending, ValueCodec};
use super::layers::{ColumnPath, Layers};
use super::levels::SlotLevels;
use super::sink::{ColumnSink, Values};
use super::{ValueShape, ranges};
use crate::container::PageInfo;
use crate::proto::lance::encodings21::{FullZipLayout, full_zip_layout::Details};
use crate::{Error, Result};

/// How a full-zip page is laid out.
#[derive(Debug)]
pub struct FullZipPage {
    layers: Layers,
    codec: ValueCodec,
    control: Control,
    cell: Cell,
    /// Bytes of one entry of the row index, if there is one.
    index_bytes: Option<u64>,
    num_slots: u64,
    /// Shape of the values, which are not keys even if the column's are.
    shape: ValueShape,
}

/// Control words: their size, and the levels in them.
#[derive(Debug, Clone, Copy)]
struct Control {
    bytes: usize,
    bits_rep: u32,
    bits_def: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// Bytes of one value.
    Fixed(usize),
    /// Bytes of the length in front of a value.
    Variable(usize),
}

impl FullZipPage {
    /// Checks a layout against its page and column.
    pub fn parse(
        layout: &FullZipLayout,
        page: &PageInfo,
        shape: &ValueShape,
        path: &ColumnPath,
    ) -> Result<Self> {
        let shape = shape.of_items();
        let layers = Layers::parse(&layout.layers, path)?;
        let control = Control::parse(layout)?;
        if (layers.max_rep() > 0) != (control.bits_rep > 0) {
            return Err(Error::corrupt(format!(
                "repetition levels of {} bits in a column of {} lists",
                control.bits_rep,
                layers.max_rep()
            )));
        }
        let codec = layout
            .value_compression
            .as_ref()
            .ok_or_else(|| Error::corrupt("value codec is missing"))?;
        let codec = ValueCodec::parse(codec, shape)?;
        if layers.max_rep() == 0 && u64::from(layout.num_items) != page.length {
            return Err(Error::corrupt(format!(
                "{} slots in a page of {} rows",
                layout.num_items, page.length
            )));
        }
        let cell = match layout.details {
            Some(Details::BitsPerValue(bits)) => fixed_cell(bits, shape, &codec)?,
            Some(Details::BitsPerOffset(bits @ (32 | 64))) if codec.is_variable() => {
                Cell::Variable(bits as usize / 8)
            }
            other => {
                return Err(Error::corrupt(format!(
                    "value width {other:?} does not fit the codec"
                )));
            }
        };
        if cell == Cell::Fixed(0) && control.bytes == 0 {
            return Err(Error::corrupt(
                "cells without bytes, and no levels that say they are null",
            ));
        }
        let index_bytes = match cell {
            Cell::Fixed(_) if control.bits_rep == 0 => None,
            _ => Some(index_bytes(page)?),
        };
        let this = Self {
            layers,
            codec,
            control,
            cell,
            index_bytes,
            num_slots: layout.num_items.into(),
            shape: shape.clone(),
        };
        this.check_size(page)?;
        Ok(this)
    }

    /// Without a row index, positions follow from the size of a cell.
    fn check_size(&self, page: &PageInfo) -> Result<()> {
        let size = page
            .buffers
            .first()
            .ok_or_else(|| Error::corrupt("zipped stream is missing"))?
            .size;
        if self.index_bytes.is_none() && page.length.checked_mul(self.stride()) != Some(size) {
            return Err(Error::corrupt(format!(
                "{size} bytes for {} cells of {} bytes",
                page.length,
                self.stride()
            )));
        }
        Ok(())
    }

    /// Bytes of one fixed-width cell with its control word.
    fn stride(&self) -> u64 {
        match self.cell {
            Cell::Fixed(bytes) => (self.control.bytes + bytes) as u64,
            Cell::Variable(_) => 0,
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

    /// Ranges of the row index that `rows` need; none where positions follow from the size of a cell.
    pub fn index_ranges(&self, page: &PageInfo, rows: &[Range<u64>]) -> Result<Vec<Range<u64>>> {
        let Some(width) = self.index_bytes else {
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
        let Some(width) = self.index_bytes else {
            return rows
                .iter()
                .map(|r| stream.slice(r.start * self.stride(), r.end * self.stride()))
                .collect();
        };
        let width = width as usize;
        let ends = index.iter().map(|part| {
            let (first, last) = (part.get(..width), part.get(part.len().saturating_sub(width)..));
            stream.slice(entry(first)?, entry(last)?)
        });
        ends.collect()
    }

    /// Appends the rows whose bytes were read: one element of `parts` for each range of rows.
    pub fn decode(
        &self,
        rows: &[Range<u64>],
        parts: &[Bytes],
        page_rows: u64,
        out: &mut ColumnSink,
    ) -> Result<()> {
        if !matches!(out.values, Values::Dictionary(_)) {
            return self.decode_values(rows, parts, page_rows, out);
        }
        let keyed = std::mem::replace(&mut out.values, Values::new(&self.shape, 0));
        let decoded = self.decode_values(rows, parts, page_rows, out);
        let plain = std::mem::replace(&mut out.values, keyed);
        decoded?;
        match &mut out.values {
            Values::Dictionary(keyed) => keyed.push_values(&plain),
            _ => Ok(()),
        }
    }

    fn decode_values(
        &self,
        rows: &[Range<u64>],
        parts: &[Bytes],
        page_rows: u64,
        out: &mut ColumnSink,
    ) -> Result<()> {
        let whole = ranges::is_all(rows, page_rows);
        for (range, part) in rows.iter().zip(parts) {
            let n = usize::try_from(range.end - range.start).map_err(|_| Error::corrupt("page too long"))?;
            let slots = self.decode_part(n, part, out)?;
            if whole && slots as u64 != self.num_slots {
                return Err(Error::corrupt(format!(
                    "{slots} slots, the page says {}",
                    self.num_slots
                )));
            }
        }
        Ok(())
    }

    /// Appends `n` rows, all that `part` holds; returns the number of their slots.
    fn decode_part(&self, n: usize, part: &Bytes, out: &mut ColumnSink) -> Result<usize> {
        if self.control.bytes > 0 {
            return self.decode_slots(n, part, out);
        }
        out.structure.push_valid(n);
        match self.cell {
            Cell::Fixed(_) => self.codec.decode_cells(n, part, &mut out.values)?,
            Cell::Variable(length_bytes) => self.decode_lengths(n, length_bytes, part, &mut out.values)?,
        }
        Ok(n)
    }

    /// Walks `n` cells without control words.
    fn decode_lengths(&self, n: usize, length_bytes: usize, part: &Bytes, out: &mut Values) -> Result<()> {
        let mut cursor = ByteCursor::new(part);
        let mut pending = Pending::default();
        for _ in 0..n {
            let cell = take_cell(length_bytes, &mut cursor)?;
            self.codec.decode_value(cell, &mut pending, out)?;
        }
        cursor.expect_end()?;
        self.codec.finish(&mut pending, out)
    }

    /// Walks all slots of `n` rows; returns their number.
    fn decode_slots(&self, n: usize, part: &Bytes, out: &mut ColumnSink) -> Result<usize> {
        let mut cursor = ByteCursor::new(part);
        let (mut rep, mut def) = (
            Vec::with_capacity(n.min(part.len())),
            Vec::with_capacity(n.min(part.len())),
        );
        let mut pending = Pending::default();
        while cursor.remaining() > 0 {
            let (slot_rep, slot_def) = self.control.read(&mut cursor)?;
            rep.push(slot_rep);
            def.push(slot_def);
            if slot_def <= self.layers.max_visible() {
                self.decode_value(slot_def, &mut cursor, &mut pending, &mut out.values)?;
            }
        }
        self.codec.finish(&mut pending, &mut out.values)?;
        let slots = def.len();
        let rep = (self.layers.max_rep() > 0).then_some(rep);
        let def = (self.control.bits_def > 0).then_some(def);
        if rep
            .as_ref()
            .and_then(|r| r.first())
            .is_some_and(|r| *r != self.layers.max_rep())
        {
            return Err(Error::corrupt("the row index points into the middle of a row"));
        }
        let levels = SlotLevels::new(&self.layers, rep, def, slots)?;
        if levels.rows_started(&self.layers) != n {
            return Err(Error::corrupt(format!(
                "{} rows where {n} are expected",
                levels.rows_started(&self.layers)
            )));
        }
        levels.push(&self.layers, &(0..slots), out);
        Ok(slots)
    }

    fn decode_value(
        &self,
        def: u16,
        cursor: &mut ByteCursor<'_>,
        pending: &mut Pending,
        out: &mut Values,
    ) -> Result<()> {
        match self.cell {
            Cell::Fixed(width) => self.codec.decode_cell(cursor.take(width)?, out),
            Cell::Variable(_) if def > 0 => self.codec.decode_null(pending, out),
            Cell::Variable(length_bytes) => {
                let cell = take_cell(length_bytes, cursor)?;
                self.codec.decode_value(cell, pending, out)
            }
        }
    }
}

/// The next cell of variable width: its length, then its bytes.
pub fn take_cell<'a>(length_bytes: usize, cursor: &mut ByteCursor<'a>) -> Result<&'a [u8]> {
    let length = match length_bytes {
        4 => u64::from(cursor.u32()?),
        _ => cursor.u64()?,
    };
    let length = usize::try_from(length).map_err(|_| Error::corrupt("value too long"))?;
    Ok(cursor.take(length)?)
}

impl Control {
    fn parse(layout: &FullZipLayout) -> Result<Self> {
        let (bits_rep, bits_def) = (layout.bits_rep, layout.bits_def);
        if bits_rep > 16 || bits_def > 16 {
            return Err(Error::corrupt(format!(
                "levels of {bits_rep} and {bits_def} bits"
            )));
        }
        let bytes = match bits_rep + bits_def {
            0 => 0,
            1..=8 => 1,
            9..=16 => 2,
            _ => 4,
        };
        Ok(Self {
            bytes,
            bits_rep,
            bits_def,
        })
    }

    /// The repetition and definition level of the next slot.
    fn read(self, cursor: &mut ByteCursor<'_>) -> Result<(u16, u16)> {
        let word = match self.bytes {
            0 => 0,
            1 => u32::from(cursor.u8()?),
            2 => u32::from(cursor.u16()?),
            _ => cursor.u32()?,
        };
        let rep = word >> self.bits_def;
        if rep >> self.bits_rep != 0 {
            return Err(Error::corrupt(format!(
                "control word {word:#x} for levels of {} and {} bits",
                self.bits_rep, self.bits_def
            )));
        }
        let def = word & ((1 << self.bits_def) - 1);
        Ok((rep as u16, def as u16))
    }
}

fn fixed_cell(bits: u32, shape: &ValueShape, codec: &ValueCodec) -> Result<Cell> {
    match codec.cell_bytes(shape) {
        Some(bytes) if bytes as u64 * 8 == u64::from(bits) => Ok(Cell::Fixed(bytes)),
        expected => Err(Error::corrupt(format!(
            "cells of {bits} bits where {expected:?} bytes are expected"
        ))),
    }
}

/// Width of an entry of the row index.
fn index_bytes(page: &PageInfo) -> Result<u64> {
    let index = page
        .buffers
        .get(1)
        .ok_or_else(|| Error::corrupt("row index is missing"))?;
    let entries = page
        .length
        .checked_add(1)
        .ok_or_else(|| Error::corrupt("page too long"))?;
    let width = index.size / entries;
    if index.size % entries != 0 || !matches!(width, 1 | 2 | 4 | 8) {
        return Err(Error::corrupt(format!(
            "row index of {} bytes for {} rows",
            index.size, page.length
        )));
    }
    Ok(width)
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
