//! Packed structs (format chapter 22, 4.11 and 4.12).

use std::borrow::Cow;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};

use super::chunks::{self, Chunk, ChunkedValues, sizes};
use super::leaf::{LeafValues, PageValues};
use super::levels::PageLevels;
use super::options::ColumnOptions;
use super::{EncodedPage, fixed_size_list, full_zip, message};
use crate::proto::lance::encodings21::CompressiveEncoding;
use crate::v2_1::ValueShape;
use crate::{Error, FileVersion, Result};

/// Two rows must fit a chunk.
const MAX_ROW_BYTES: usize = 4092;

/// Joins the fields of struct arrays.
pub fn join(arrays: &[ArrayRef], fields: &[ValueShape], levels: Option<&[u16]>) -> Result<Vec<PageValues>> {
    let mut out = Vec::with_capacity(fields.len());
    for (number, shape) in fields.iter().enumerate() {
        let (mut children, mut row) = (Vec::with_capacity(arrays.len()), 0);
        for array in arrays {
            let (column, name) = child_of(array, number)?;
            let is_valid = |i: usize| {
                levels
                    .and_then(|l| l.get(row + i))
                    .is_none_or(|&level| level == 0)
            };
            let has_null = column
                .logical_nulls()
                .is_some_and(|nulls| nulls.iter().enumerate().any(|(i, valid)| !valid && is_valid(i)));
            if has_null {
                return Err(Error::unsupported(format!(
                    "the field '{name}' of a packed struct has nulls, which packed structs cannot hold: fill them, or \
                     remove the metadata key lance-encoding:packed"
                )));
            }
            row += column.len();
            children.push(column);
        }
        if *shape == (ValueShape::Fixed { bits: 1 }) {
            return Err(Error::invalid_input(
                "PackedStruct field widths must be positive byte widths: a packed struct cannot hold booleans",
            ));
        }
        let values = PageValues::new(&children, shape, levels)?;
        out.push(values.ok_or_else(|| Error::invalid_input("a dictionary in a packed struct"))?);
    }
    Ok(out)
}

fn child_of(array: &ArrayRef, number: usize) -> Result<(ArrayRef, &str)> {
    let parent = array.as_struct_opt();
    let child = parent.and_then(|s| {
        Some((
            s.columns().get(number)?.clone(),
            s.fields().get(number)?.name().as_str(),
        ))
    });
    child.ok_or_else(|| Error::invalid_input("arrays of one column differ in type"))
}

/// Encodes a page: rows of fixed width in chunks, others zipped.
pub fn encode(
    fields: &[PageValues],
    levels: &PageLevels,
    options: &ColumnOptions,
) -> Result<Option<EncodedPage>> {
    if let Some(widths) = fixed_widths(fields) {
        return Ok(chunks::mini_block(
            chunked(fields, &widths, options.max_chunk_values)?,
            None,
            levels,
            options.version,
        ));
    }
    if options.version < FileVersion::V2_2 {
        return Err(Error::unsupported(
            "Variable packed struct encoding is not enabled by the selected file format: use version 2.2",
        ));
    }
    zipped(fields, levels, options).map(Some)
}

/// Rows of a page that has more levels than chunks can hold.
pub fn zipped(fields: &[PageValues], levels: &PageLevels, options: &ColumnOptions) -> Result<EncodedPage> {
    if fixed_widths(fields).is_some() {
        return Err(Error::unsupported(
            "Packed struct per-value compression should not be used for fixed-width-only structs: a row has more null or \
             empty lists than a chunk can hold",
        ));
    }
    let columns = columns(fields, options)?;
    let codec = message::variable_packed_struct(columns.iter().map(Column::message).collect());
    let mut rows = LeafValues::empty(32, false);
    let null_levels = levels.of_values();
    for row in 0..levels.values() {
        if null_levels
            .and_then(|l| l.get(row))
            .is_none_or(|&level| level == 0)
        {
            columns
                .iter()
                .try_for_each(|column| column.push(row, &mut rows.bytes))?;
        }
        rows.offsets.push(rows.bytes.len() as i64);
    }
    full_zip::zip(&rows, codec, levels)
}

/// Bytes of each field, if all are plain fixed width.
fn fixed_widths(fields: &[PageValues]) -> Option<Vec<usize>> {
    let width = |field: &PageValues| match field {
        PageValues::Fixed { width, .. } => Some(*width),
        _ => None,
    };
    fields.iter().map(width).collect()
}

fn chunked(fields: &[PageValues], widths: &[usize], most: usize) -> Result<ChunkedValues> {
    let stride: usize = widths.iter().sum();
    if stride > MAX_ROW_BYTES {
        return Err(Error::unsupported(format!(
            "a packed struct of {stride} bytes a row, but at most {MAX_ROW_BYTES} can be packed: remove the metadata key \
             lance-encoding:packed"
        )));
    }
    let rows = match (fields.first(), widths.first()) {
        (Some(PageValues::Fixed { bytes, .. }), Some(width)) => bytes.len() / width,
        _ => 0,
    };
    let mut data = Vec::with_capacity(rows * stride);
    for row in 0..rows {
        fields
            .iter()
            .for_each(|field| data.extend_from_slice(field.value(row)));
    }
    let n = super::fixed::flat_chunk_values(stride, most);
    let chunk = |values| Chunk {
        values,
        sizes: sizes(values * stride, 0),
    };
    Ok(ChunkedValues {
        codec: message::packed_struct(widths),
        num_buffers: 1,
        chunks: super::fixed::chunk_lens(rows, n).map(chunk).collect(),
        data,
    })
}

/// A field with its codec.
enum Column<'a> {
    Fixed {
        width: usize,
        bytes: Cow<'a, [u8]>,
        codec: CompressiveEncoding,
    },
    Variable {
        values: Cow<'a, LeafValues>,
        codec: CompressiveEncoding,
    },
    Packed(Vec<Column<'a>>),
}

fn columns<'a>(fields: &'a [PageValues], options: &ColumnOptions) -> Result<Vec<Column<'a>>> {
    let pairs = fields.iter().zip(&options.fields);
    pairs
        .map(|(field, options)| Column::new(field, options))
        .collect()
}

/// Bits of the length in front of a row within a row.
const ROW_LENGTH_BITS: u64 = 32;

impl<'a> Column<'a> {
    fn new(field: &'a PageValues, options: &ColumnOptions) -> Result<Self> {
        Ok(match field {
            PageValues::Fixed { width, bytes } => Self::Fixed {
                width: *width,
                bytes: bytes.into(),
                codec: message::flat(*width as u64 * 8),
            },
            PageValues::Lists(lists) => {
                let (width, cells) = fixed_size_list::cells(lists)?;
                Self::Fixed {
                    width,
                    bytes: cells.into(),
                    codec: fixed_size_list::codec(lists),
                }
            }
            PageValues::Variable(values) => {
                let (values, codec) = full_zip::code(values, values.longest(), options)?;
                Self::Variable { values, codec }
            }
            PageValues::Packed(fields) => Self::Packed(columns(fields, options)?),
            _ => return Err(Error::unsupported("Unsupported data type in a packed struct")),
        })
    }

    fn message(&self) -> message::PackedField {
        match self {
            Self::Fixed { width, codec, .. } => message::PackedField::Fixed(codec.clone(), *width as u64 * 8),
            Self::Variable { values, codec } => {
                message::PackedField::Variable(codec.clone(), values.offset_bits.into())
            }
            Self::Packed(columns) => {
                let row = message::variable_packed_struct(columns.iter().map(Self::message).collect());
                message::PackedField::Variable(row, ROW_LENGTH_BITS)
            }
        }
    }

    fn push(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Packed(columns) => {
                let start = out.len();
                out.extend([0; ROW_LENGTH_BITS as usize / 8]);
                let body = out.len();
                columns.iter().try_for_each(|column| column.push(row, out))?;
                let length = u32::try_from(out.len() - body)
                    .map_err(|_| Error::unsupported("more than 4 GiB in a row of a packed struct"))?;
                if let Some(place) = out.get_mut(start..body) {
                    place.copy_from_slice(&length.to_le_bytes());
                }
            }
            Self::Fixed { width, bytes, .. } => {
                out.extend_from_slice(bytes.get(row * width..(row + 1) * width).unwrap_or_default());
            }
            Self::Variable { values, .. } => {
                let value = values.value(row);
                let length = (value.len() as u64).to_le_bytes();
                out.extend(length.into_iter().take(usize::from(values.offset_bits / 8)));
                out.extend_from_slice(value);
            }
        }
        Ok(())
    }
}
