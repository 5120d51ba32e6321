//! Packed structs: row after row; and the descriptors of blob columns, which look the same (format chapter 20, 5.2 and 9).

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::page::PageBuffers;
use super::{fixed, message};
use crate::proto::lance::encodings::ArrayEncoding;
use crate::schema::Field;
use crate::v2_0::decode::byte_width;
use crate::{Error, Result};

/// Fails unless all children have a fixed width of whole bytes.
pub fn check_fields(field: &Field) -> Result<()> {
    let refuse = |child: &Field| {
        Err(Error::unsupported(format!(
            "Unsupported data type: {} in the packed struct '{}': packed fields of version 2.0 have a fixed width of whole \
             bytes",
            child.data_type(),
            field.name
        )))
    };
    match field
        .children
        .iter()
        .find(|c| byte_width(&c.data_type()).is_none())
    {
        Some(child) => refuse(child),
        None if field.children.is_empty() => Err(Error::unsupported("a packed struct without fields")),
        None => Ok(()),
    }
}

/// Fails if a packed value or an item of one is null.
pub fn check_no_nulls(array: &ArrayRef) -> Result<()> {
    if array.null_count() > 0 {
        return Err(Error::invalid_input(
            "a packed struct holds nulls, which file version 2.0 cannot store; use file version 2.1 or later",
        ));
    }
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().try_for_each(check_no_nulls),
        DataType::FixedSizeList(..) => check_no_nulls(&fixed::list_items(array)),
        _ => Ok(()),
    }
}

/// Encodes a struct array row by row.
pub fn encode(array: &ArrayRef, buffers: &mut PageBuffers) -> Result<ArrayEncoding> {
    let array = array.as_struct();
    let mut inner = Vec::with_capacity(array.num_columns());
    let mut columns = Vec::with_capacity(array.num_columns());
    for column in array.columns() {
        let (encoding, bytes) = field(column)?;
        let width = byte_width(column.data_type());
        inner.push(encoding);
        columns.push((
            bytes,
            width.ok_or_else(|| Error::unsupported("packed field without a width"))?,
        ));
    }
    let row_width: usize = columns.iter().map(|(_, width)| width).sum();
    let mut rows = Vec::with_capacity(row_width * array.len());
    for row in 0..array.len() {
        for (bytes, width) in &columns {
            let value = bytes.get(row * width..(row + 1) * width);
            rows.extend_from_slice(value.ok_or_else(|| Error::invalid_input("packed field too short"))?);
        }
    }
    let rows = buffers.add(rows);
    Ok(message::packed_struct(inner, rows))
}

/// The description of a field, as if it were alone, and its bytes.
fn field(column: &ArrayRef) -> Result<(ArrayEncoding, arrow_buffer::Buffer)> {
    if let DataType::FixedSizeList(_, dimension) = column.data_type() {
        let (items, bytes) = field(&fixed::list_items(column))?;
        let list = message::fixed_size_list(dimension.unsigned_abs(), items);
        return Ok((message::no_nulls(list), bytes));
    }
    let (bytes, width) = fixed::value_bytes(column)?;
    Ok((message::no_nulls(message::flat(width as u64 * 8, 0)), bytes))
}

/// Encodes positions and sizes.
pub fn encode_blobs(descriptors: &[[u64; 2]], buffers: &mut PageBuffers) -> ArrayEncoding {
    let words: Vec<u64> = descriptors.iter().flatten().copied().collect();
    let rows = buffers.add(words);
    let number = || message::no_nulls(message::flat(64, 0));
    message::packed_struct(vec![number(), number()], rows)
}
