//! Packed structs: the fields of a row side by side in one column (format chapter 22, 4.11 and 4.12).
//!
//! ```text
//! fixed      every field in whole bytes, no padding
//! variable   the same, where strings, binaries and fixed-size lists come in:
//!            fixed field: its cell | variable field: u32 or u64 length, bytes
//!            a packed struct in it, of the variable form itself, is a variable field: u32 or u64 length, row
//! ```
//!
//! Nulls of the struct are levels; its fields have none. The variable form is for full-zip pages of 2.2 only.

use std::ops::Range;

use glaive_codec::ByteCursor;

use super::ValueShape;
use super::codec::{Pending, ValueCodec};
use super::full_zip::take_cell;
use super::sink::Values;
use crate::proto::lance::encodings21::compressive_encoding::Compression;
use crate::proto::lance::encodings21::variable_packed_struct::field_encoding::Layout;
use crate::proto::lance::encodings21::{PackedStruct, VariablePackedStruct};
use crate::{Context, Error, Result};

/// Rows of fixed-width fields: bytes of each.
#[derive(Debug)]
pub struct FixedRow(Vec<usize>);

impl FixedRow {
    /// Checks the description of rows against the fields of the column.
    pub fn parse(packed: &PackedStruct, shape: &ValueShape) -> Result<Self> {
        let fields = fields_of(shape)?;
        let total = match packed.values.as_deref().and_then(|v| v.compression.as_ref()) {
            Some(Compression::Flat(flat)) if flat.data.is_none() => flat.bits_per_value,
            _ => return Err(Error::corrupt("the rows of a packed struct are not plain")),
        };
        let found = &packed.bits_per_value;
        if found.len() != fields.len()
            || found.iter().try_fold(0, |sum: u64, w| sum.checked_add(*w)) != Some(total)
        {
            return Err(Error::corrupt(format!(
                "a packed struct of {} fields, with widths {found:?} in rows of {total} bits",
                fields.len()
            )));
        }
        let width = |(field, bits): (&ValueShape, &u64)| match field {
            ValueShape::Fixed { bits: expected } if u64::from(*expected) == *bits && bits % 8 == 0 => {
                Ok(*expected as usize / 8)
            }
            _ => Err(Error::corrupt(format!(
                "a field of {bits} bits in a packed struct, where {field:?} is expected"
            ))),
        };
        fields
            .iter()
            .zip(found)
            .map(width)
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Bytes of a row.
    pub fn bytes(&self) -> usize {
        self.0.iter().sum()
    }

    /// Appends the rows `wanted` of `n`.
    pub fn decode_chunk(&self, rows: &[u8], n: usize, wanted: &[Range<u64>], out: &mut Values) -> Result<()> {
        let stride = self.bytes();
        if n.checked_mul(stride) != Some(rows.len()) {
            return Err(Error::corrupt(format!(
                "{} bytes for {n} packed rows of {stride} bytes",
                rows.len()
            )));
        }
        let mut start = 0;
        for (field, width) in parts(out)?.iter_mut().zip(&self.0) {
            for row in wanted.iter().cloned().flatten() {
                let at = row as usize * stride + start;
                let value = rows.get(at..at + width);
                field.push_fixed(value.ok_or_else(|| Error::corrupt("rows beyond the chunk"))?)?;
            }
            start += width;
        }
        Ok(())
    }
}

/// Rows with fields of variable width.
#[derive(Debug)]
pub struct VariableRow(Vec<RowField>);

#[derive(Debug)]
struct RowField {
    codec: ValueCodec,
    cell: Cell,
}

#[derive(Debug, Clone, Copy)]
enum Cell {
    /// Bytes of the field.
    Fixed(usize),
    /// Bytes of the length in front.
    Variable(usize),
}

impl VariableRow {
    /// Checks the description of rows against the fields of the column.
    pub fn parse(packed: &VariablePackedStruct, shape: &ValueShape) -> Result<Self> {
        let fields = fields_of(shape)?;
        if packed.fields.len() != fields.len() {
            return Err(Error::corrupt(format!(
                "a packed struct of {} fields in a column of {}",
                packed.fields.len(),
                fields.len()
            )));
        }
        let field = |(number, (encoding, shape)): (usize, (&_, &ValueShape))| {
            RowField::parse(encoding, shape).context(|| format!("packed field {number}"))
        };
        let all = packed.fields.iter().zip(fields).enumerate();
        all.map(field).collect::<Result<_>>().map(Self)
    }

    /// Appends one row. A row without any byte, which is that of a null struct, holds empty values.
    pub fn decode(&self, row: &[u8], scratch: &mut Pending, out: &mut Values) -> Result<()> {
        if row.is_empty() {
            return out.push_default(1);
        }
        let mut cursor = ByteCursor::new(row);
        for (field, values) in self.0.iter().zip(parts(out)?) {
            match field.cell {
                Cell::Fixed(bytes) => field.codec.decode_cell(cursor.take(bytes)?, values)?,
                Cell::Variable(length_bytes) => {
                    let cell = take_cell(length_bytes, &mut cursor)?;
                    field.codec.decode_value(cell, scratch, values)?;
                    field.codec.finish(scratch, values)?;
                }
            }
        }
        Ok(cursor.expect_end()?)
    }
}

impl RowField {
    fn parse(
        encoding: &crate::proto::lance::encodings21::variable_packed_struct::FieldEncoding,
        shape: &ValueShape,
    ) -> Result<Self> {
        let codec = encoding
            .value
            .as_ref()
            .ok_or_else(|| Error::corrupt("value codec is missing"))?;
        let codec = ValueCodec::parse(codec, shape)?;
        let cell = match encoding.layout {
            Some(Layout::BitsPerValue(bits)) => match codec.cell_bytes(shape) {
                Some(bytes) if bytes as u64 * 8 == bits && *shape != (ValueShape::Fixed { bits: 1 }) => {
                    Cell::Fixed(bytes)
                }
                _ => return Err(Error::corrupt(format!("a field of {bits} bits"))),
            },
            Some(Layout::BitsPerLength(bits @ (32 | 64))) if codec.is_variable() => {
                Cell::Variable(bits as usize / 8)
            }
            other => return Err(Error::corrupt(format!("width {other:?} does not fit the codec"))),
        };
        Ok(Self { codec, cell })
    }
}

fn fields_of(shape: &ValueShape) -> Result<&[ValueShape]> {
    match shape {
        ValueShape::Packed(fields) => Ok(fields),
        _ => Err(Error::corrupt(
            "a packed struct encoding in a column of another type",
        )),
    }
}

fn parts(out: &mut Values) -> Result<&mut [Values]> {
    match out {
        Values::Packed(fields) => Ok(fields),
        _ => Err(Error::corrupt("packed rows in a column of another type")),
    }
}
