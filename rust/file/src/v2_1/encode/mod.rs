//! Encoding one page: choosing a layout and codecs, and writing its buffers (format chapters 21, 9 and 22, 8).
//!
//! Readers accept any legal choice, so the order here is about size and speed only:
//!
//! 1. nothing but nulls, or (2.2) one value: a constant page;
//! 2. few distinct values: mini-block with a dictionary;
//! 3. wide values: full-zip;
//! 4. else mini-block with the smallest of run-length, bit-packing, FSST and plain values.

mod blob;
mod chunks;
mod constant;
mod dictionary;
mod dictionary_column;
mod fixed;
mod fixed_size_list;
mod full_zip;
mod leaf;
mod levels;
mod message;
mod options;
mod packed;
mod shred;
mod variable;

use arrow_array::ArrayRef;

use crate::leaves::{LeafField, empty_struct};
use crate::proto::lance::encodings21::PageLayout;
use crate::schema::{BlobForm, Field};
use crate::v2_1::ValueShape;
use crate::{FileVersion, Result};

use leaf::PageValues;
use levels::PageLevels;
use options::Structural;

pub use leaf::value_bytes;
pub use options::{ColumnOptions, DictValues, ZSTD_LEVELS};
pub use shred::null_in_required;

/// Values at least this long go to full-zip pages.
const FULL_ZIP_BYTES: usize = 256;

/// A page's layout and buffers.
#[derive(Debug)]
pub struct EncodedPage {
    /// How the buffers are to be read.
    pub layout: PageLayout,
    /// In index order.
    pub buffers: Vec<Vec<u8>>,
}

/// Encodes the column of one leaf for some rows of a top-level field. `None` if the rows have so many levels that they need
/// several pages; a single row always makes a page.
///
/// `only` tells that no other page of the column has to agree about its layers.
pub fn encode_page(
    roots: &[ArrayRef],
    top: &Field,
    leaf: &LeafField,
    options: &ColumnOptions,
    only: bool,
) -> Result<Option<EncodedPage>> {
    let version = options.version;
    let (levels, arrays) = shred::shred(roots, top, leaf, only)?;
    if leaf.shape == ValueShape::EmptyStruct {
        return match levels.def() {
            Some(_) => Err(empty_struct(&leaf.field.name)),
            None => Ok(Some(constant::empty_structs())),
        };
    }
    if leaf.field.blob_form() == Some(BlobForm::V1) {
        return blob::encode(&arrays, &leaf.shape, &levels, options).map(Some);
    }
    if levels.all_null() {
        return Ok(Some(constant::all_null(&levels, version)));
    }
    let Some(values) = PageValues::new(&arrays, &leaf.shape, levels.of_values())? else {
        return Ok(None);
    };
    if version >= FileVersion::V2_2
        && let Some(page) = constant::scalar(&values, &levels)
    {
        return Ok(Some(page));
    }
    match encode_values(&values, &levels, options)? {
        None if levels.rows() <= 1 => full_zip::any(&values, &levels, options).map(Some),
        page => Ok(page),
    }
}

fn encode_values(
    values: &PageValues,
    levels: &PageLevels,
    options: &ColumnOptions,
) -> Result<Option<EncodedPage>> {
    let version = options.version;
    match values {
        PageValues::Null | PageValues::EmptyStruct => Ok(Some(constant::all_null(levels, version))),
        PageValues::Bits { .. } if options.structural == Structural::FullZip => {
            full_zip::any(values, levels, options).map(Some)
        }
        PageValues::Bits { bits, len } => {
            let chunks = fixed::encode_bits(bits, *len, options.max_chunk_values).compressed(options)?;
            Ok(chunks::mini_block(chunks, None, levels, version))
        }
        PageValues::Fixed { width, bytes } => encode_fixed(*width, bytes, levels, options),
        PageValues::Variable(values) => variable::encode(values, levels, options),
        PageValues::Lists(lists) => fixed_size_list::encode(lists, levels, options),
        PageValues::Dictionary(page) => page.encode(levels, options),
        PageValues::Packed(fields) => packed::encode(fields, levels, options),
    }
}

fn encode_fixed(
    width: usize,
    bytes: &[u8],
    levels: &PageLevels,
    options: &ColumnOptions,
) -> Result<Option<EncodedPage>> {
    let zipped = match options.structural {
        Structural::Auto => width >= FULL_ZIP_BYTES,
        // Two values must fit a chunk.
        Structural::MiniBlock => width * 2 >= fixed::MAX_CHUNK_BYTES,
        Structural::FullZip => true,
    };
    let plain = fixed::plan(width, bytes, options);
    if let Some(dictionary) = dictionary::of_fixed(width, bytes, plain.encoded_len(), options)? {
        return Ok(chunks::mini_block(
            dictionary.indices,
            Some(dictionary.items),
            levels,
            options.version,
        ));
    }
    if zipped {
        return full_zip::fixed(width, bytes, message::flat(width as u64 * 8), levels).map(Some);
    }
    Ok(chunks::mini_block(
        plain.encode(bytes)?,
        None,
        levels,
        options.version,
    ))
}

/// Layers of a page, leaf first.
fn layer_kinds(levels: &PageLevels) -> Vec<i32> {
    levels.layers().iter().map(|kind| *kind as i32).collect()
}
