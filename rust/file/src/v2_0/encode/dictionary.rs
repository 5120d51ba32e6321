//! Dictionaries: few distinct strings, and Arrow dictionary columns (format chapter 20, 6.2 and 8).

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_schema::DataType;

use super::page::{PageBuffers, concat};
use super::strings::{self, Strings};
use super::{fixed, message};
use crate::proto::lance::encodings::ArrayEncoding;
use crate::v2_0::decode::{fixed_bits, is_variable};
use crate::{Error, Result};

/// A dictionary of strings; `None` if the page has fewer than `threshold` rows, or as many distinct values, or more than indices
/// of one byte can tell apart.
pub fn encode_strings(
    strings: &Strings,
    threshold: usize,
    buffers: &mut PageBuffers,
) -> Option<ArrayEncoding> {
    if strings.len() < threshold {
        return None;
    }
    let mut numbers: HashMap<&[u8], u8> = HashMap::with_capacity(threshold.min(256));
    let (mut ends, mut bytes) = (Vec::new(), Vec::new());
    let mut indices = Vec::with_capacity(strings.len());
    for value in strings.iter() {
        let Some(value) = value else {
            indices.push(0);
            continue;
        };
        let number = match numbers.get(value) {
            Some(number) => *number,
            None => {
                let number = u8::try_from(numbers.len() + 1).ok()?;
                if numbers.len() + 1 >= threshold {
                    return None;
                }
                numbers.insert(value, number);
                bytes.extend_from_slice(value);
                ends.push(bytes.len() as u64);
                number
            }
        };
        indices.push(number);
    }
    // A dictionary has at least one item: null, if there is no value.
    let valid = if ends.is_empty() { vec![false] } else { Vec::new() };
    ends.resize(ends.len().max(1), 0);
    let items = Strings {
        ends,
        valid,
        bytes: bytes.into(),
    };
    let indices = buffers.add(indices);
    let num_items = items.len() as u32;
    Some(message::dictionary(
        8,
        indices,
        strings::encode_plain(&items, buffers),
        num_items,
    ))
}

/// An Arrow dictionary array; null rows point at an item that is null.
pub fn encode_arrow(array: &ArrayRef, buffers: &mut PageBuffers) -> Result<ArrayEncoding> {
    let array = array.as_any_dictionary();
    let bits = fixed_bits(array.keys().data_type()).unwrap_or(0);
    let mut items = array.values().clone();
    let mut indices: Vec<u64> = match items.is_empty() {
        // All rows are null.
        true => vec![0; array.len()],
        false => array.normalized_keys().into_iter().map(|k| k as u64).collect(),
    };
    if array.nulls().is_some_and(|nulls| nulls.null_count() > 0) {
        let null_item = (0..items.len()).find(|i| items.is_null(*i));
        if null_item.is_none() {
            items = concat(&[items.clone(), new_null_array(items.data_type(), 1)])?;
        }
        let null_item = null_item.unwrap_or(items.len() - 1) as u64;
        for (row, index) in indices.iter_mut().enumerate() {
            if array.is_null(row) {
                *index = null_item;
            }
        }
    }
    let num_items = u32::try_from(items.len())
        .map_err(|_| Error::invalid_input("a dictionary of more than 2^32 - 1 values"))?;
    let signed = array.keys().data_type().is_signed_integer();
    let limit = if signed { bits - 1 } else { bits };
    if let Some(index) = indices.iter().find(|index| limit < 64 && **index >> limit != 0) {
        return Err(Error::invalid_input(format!(
            "dictionary index {index} does not fit indices of type {}: with a null among {num_items} values a wider index \
             type is needed",
            array.keys().data_type()
        )));
    }
    let width = (bits / 8) as usize;
    let mut bytes = Vec::with_capacity(indices.len() * width);
    for index in indices {
        bytes.extend_from_slice(index.to_le_bytes().get(..width).unwrap_or_default());
    }
    let indices = buffers.add(bytes);
    let items = encode_items(&items, buffers)?;
    Ok(message::dictionary(bits, indices, items, num_items))
}

fn encode_items(items: &ArrayRef, buffers: &mut PageBuffers) -> Result<ArrayEncoding> {
    match items.data_type() {
        text if is_variable(text) => {
            let strings = Strings::join(std::slice::from_ref(items));
            Ok(strings::encode_plain(&strings, buffers))
        }
        DataType::Dictionary(..) => Err(Error::unsupported("a dictionary of dictionaries")),
        _ => fixed::encode(items, buffers),
    }
}
