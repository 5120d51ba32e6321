//! Fixed-width values, booleans and fixed-size lists of them, with nulls beside (format chapter 20, 4).

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::DataType;

use super::message;
use super::page::PageBuffers;
use crate::proto::lance::encodings::ArrayEncoding;
use crate::v2_0::decode::fixed_bits;
use crate::{Error, Result};

/// Encodes an array: the validity, if any, before the values.
pub fn encode(array: &ArrayRef, buffers: &mut PageBuffers) -> Result<ArrayEncoding> {
    if array.is_empty() {
        return Ok(message::all_nulls());
    }
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    match nulls {
        Some(nulls) if nulls.null_count() == array.len() => Ok(message::all_nulls()),
        Some(nulls) => {
            let validity = buffers.add(nulls.inner().sliced());
            let values = encode_values(array, buffers)?;
            Ok(message::some_nulls(message::flat(1, validity), values))
        }
        None => Ok(message::no_nulls(encode_values(array, buffers)?)),
    }
}

fn encode_values(array: &ArrayRef, buffers: &mut PageBuffers) -> Result<ArrayEncoding> {
    match array.data_type() {
        DataType::Boolean => {
            let bits = buffers.add(array.as_boolean().values().sliced());
            Ok(message::flat(1, bits))
        }
        DataType::FixedSizeList(_, dimension) => {
            let items = encode(&list_items(array), buffers)?;
            Ok(message::fixed_size_list(dimension.unsigned_abs(), items))
        }
        _ => {
            let (values, width) = value_bytes(array)?;
            Ok(message::flat(width as u64 * 8, buffers.add(values)))
        }
    }
}

/// The items of the rows of an array of fixed-size lists.
pub fn list_items(array: &ArrayRef) -> ArrayRef {
    let lists = array.as_fixed_size_list();
    let dimension = usize::try_from(lists.value_length()).unwrap_or(0);
    let start = usize::try_from(lists.value_offset(0)).unwrap_or(0);
    lists.values().slice(start, lists.len() * dimension)
}

/// The values of a fixed-width array and the bytes of one.
pub fn value_bytes(array: &ArrayRef) -> Result<(Buffer, usize)> {
    let bits = fixed_bits(array.data_type()).filter(|bits| bits % 8 == 0);
    let data = array.to_data();
    let width = bits.and_then(|bits| usize::try_from(bits / 8).ok());
    match (width, data.buffers().first()) {
        (Some(width), Some(buffer)) if buffer.len() >= (data.offset() + data.len()) * width => {
            let values = buffer.slice_with_length(data.offset() * width, data.len() * width);
            Ok((values, width))
        }
        _ => Err(Error::invalid_input(format!(
            "an array of {} without its values",
            array.data_type()
        ))),
    }
}
