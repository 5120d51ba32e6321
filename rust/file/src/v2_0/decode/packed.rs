//! Packed structs: row after row, the fields side by side without padding (format chapter 20, 5.2).

use std::ops::Range;

use arrow_schema::{DataType, Fields};
use bytes::Bytes;

use super::node::{Buffers, Node, length};
use super::parts::{Parts, Requests};
use super::sink::{Sink, fixed_bits};
use super::source::Source;
use crate::proto::lance::encodings as pb;
use crate::{Context, Error, Result};

/// Rows of fields of fixed width.
#[derive(Debug)]
pub struct Packed {
    rows: Source,
    row_width: usize,
    /// Bytes of each field.
    widths: Vec<usize>,
}

impl Packed {
    /// Checks the encoding of `n` rows.
    pub fn parse(packed: &pb::PackedStruct, n: u64, fields: &Fields, buffers: Buffers<'_>) -> Result<Self> {
        if packed.inner.len() != fields.len() || fields.is_empty() {
            return Err(Error::corrupt(format!(
                "packed struct of {} fields in a column of {}",
                packed.inner.len(),
                fields.len()
            )));
        }
        let mut widths = Vec::with_capacity(fields.len());
        for (field, inner) in fields.iter().zip(&packed.inner) {
            if matches!(field.data_type(), DataType::Struct(_)) {
                // Writers of 2.0 did not stop at it, but their readers do.
                return Err(Error::unsupported(format!(
                    "the packed struct has the struct '{}' in it, which no reader of version 2.0 can take apart",
                    field.name()
                )));
            }
            // The buffers that the fields name have no meaning, so that no value is asked of them.
            let node = Node::parse(Some(inner), 0, field.data_type(), buffers);
            let width = node.and_then(|node| match byte_width(field.data_type()) {
                Some(width) if node.is_plain_fixed() => Ok(width),
                _ => Err(Error::corrupt(
                    "a packed field must be of whole bytes and without nulls",
                )),
            });
            widths.push(width.context(|| format!("packed field '{}'", field.name()))?);
        }
        let row_width = widths.iter().try_fold(0usize, |sum, w| sum.checked_add(*w));
        let row_width = row_width.ok_or_else(|| Error::corrupt("packed row too wide"))?;
        let bits = (row_width as u64)
            .checked_mul(8)
            .ok_or_else(|| Error::corrupt("packed row too wide"))?;
        let rows = Source::flat(buffers.get(packed.buffer.as_ref())?, bits, n)?;
        Ok(Self {
            rows,
            row_width,
            widths,
        })
    }

    /// The rows.
    pub fn request(&self, rows: &[Range<u64>], out: &mut Requests) -> Result<()> {
        rows.iter().try_for_each(|range| self.rows.request(range, out))
    }

    /// Appends `rows`.
    pub fn decode(&self, rows: &[Range<u64>], parts: &mut Parts<'_>, out: &mut Sink) -> Result<()> {
        for range in rows {
            let bytes = self.rows.take(range, parts)?;
            let n = length(range)?;
            out.push_validity(true, n);
            let mut start = 0;
            for (child, width) in out.children(n)?.iter_mut().zip(&self.widths) {
                let column = gather(&bytes, self.row_width, start, *width);
                push_whole(child, n, &column.into())?;
                start += width;
            }
        }
        Ok(())
    }
}

/// One field of all rows.
fn gather(rows: &[u8], row_width: usize, start: usize, width: usize) -> Vec<u8> {
    let mut column = Vec::with_capacity(rows.len() / row_width.max(1) * width);
    for row in rows.chunks_exact(row_width) {
        column.extend_from_slice(row.get(start..start + width).unwrap_or_default());
    }
    column
}

/// Appends valid values down to the items of fixed-size lists.
fn push_whole(out: &mut Sink, n: usize, bytes: &Bytes) -> Result<()> {
    out.push_validity(true, n);
    match *out.data_type() {
        DataType::FixedSizeList(_, dimension) => {
            let dimension = usize::try_from(dimension).unwrap_or(0);
            push_whole(out.items(n)?, n.saturating_mul(dimension), bytes)
        }
        _ => out.push_fixed(bytes),
    }
}

/// Bytes of a value of a type of whole bytes.
pub fn byte_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeList(item, dimension) => {
            byte_width(item.data_type())?.checked_mul(usize::try_from(*dimension).ok()?)
        }
        other => fixed_bits(other)
            .filter(|bits| bits % 8 == 0)
            .and_then(|bits| usize::try_from(bits / 8).ok()),
    }
}
