//! Encoding one page: choosing a layout and codecs, and writing its buffers (format chapters 21, 9 and 22, 8).
//!
//! Readers accept any legal choice, so the order here is about size and speed only:
//!
//! 1. nothing but nulls, or (2.2) one value: a constant page;
//! 2. few distinct values: mini-block with a dictionary;
//! 3. wide values: full-zip;
//! 4. else mini-block with the smallest of run-length, bit-packing, FSST and plain values.

mod chunks;
mod constant;
mod dictionary;
mod fixed;
mod full_zip;
mod leaf;
mod levels;
pub(crate) mod message;
mod variable;

use crate::proto::lance::encodings21::{PageLayout, RepDefLayer};
use crate::{FileVersion, Result};

pub use leaf::{LeafPiece, PageValues};
pub use levels::PageLevels;

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

/// Encodes the values and levels of one page; `levels` has one entry a value.
pub fn encode_page(values: &PageValues, levels: &PageLevels, version: FileVersion) -> Result<EncodedPage> {
    if levels.all_null() {
        return Ok(constant::all_null(levels, version));
    }
    if version >= FileVersion::V2_2
        && let Some(page) = constant::scalar(values, levels)
    {
        return Ok(page);
    }
    match values {
        PageValues::Null => Ok(constant::all_null(levels, version)),
        PageValues::Bits { bits, len } => Ok(chunks::mini_block(
            fixed::encode_bits(bits, *len),
            None,
            levels,
            version,
        )),
        PageValues::Fixed { width, bytes } => encode_fixed(*width, bytes, levels, version),
        PageValues::Variable(values) => variable::encode(values, levels, version),
    }
}

fn encode_fixed(
    width: usize,
    bytes: &[u8],
    levels: &PageLevels,
    version: FileVersion,
) -> Result<EncodedPage> {
    if width >= FULL_ZIP_BYTES {
        return full_zip::fixed(width, bytes, levels);
    }
    let plain = fixed::plan(width, bytes);
    if let Some(dictionary) = dictionary::of_fixed(width, bytes, plain.encoded_len(), version) {
        return Ok(chunks::mini_block(
            dictionary.indices,
            Some(dictionary.items),
            levels,
            version,
        ));
    }
    Ok(chunks::mini_block(plain.encode(bytes), None, levels, version))
}

/// Layers of a page: leaf first, nullable where the page has nulls.
fn layer_kinds(levels: &PageLevels) -> Vec<i32> {
    let kind = |nullable: &bool| match nullable {
        true => RepDefLayer::RepdefNullableItem as i32,
        false => RepDefLayer::RepdefAllValidItem as i32,
    };
    levels.nullable().iter().map(kind).collect()
}
