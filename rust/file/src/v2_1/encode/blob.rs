//! Blob pages: descriptors of values that were written already (format chapter 21, 7.1).

use arrow_array::ArrayRef;

use super::leaf::PageValues;
use super::levels::PageLevels;
use super::options::ColumnOptions;
use super::{EncodedPage, layer_kinds, packed};
use crate::proto::lance::encodings21::{BlobLayout, PageLayout, page_layout::Layout};
use crate::v2_1::ValueShape;
use crate::{Error, Result};

/// Encodes a page of structs of position and size; the levels of its nulls go into their positions.
pub fn encode(
    arrays: &[ArrayRef],
    shape: &ValueShape,
    levels: &PageLevels,
    options: &ColumnOptions,
) -> Result<EncodedPage> {
    let wrong = || Error::invalid_input("blob descriptors are pairs of integers outside of lists");
    let values = PageValues::new(arrays, shape, levels.of_values())?;
    let Some(PageValues::Packed(mut parts)) = values else {
        return Err(wrong());
    };
    let [
        PageValues::Fixed { bytes: positions, .. },
        PageValues::Fixed { bytes: sizes, .. },
    ] = parts.as_mut_slice()
    else {
        return Err(wrong());
    };
    let positions = positions.as_chunks_mut::<8>().0.iter_mut();
    let sizes = sizes.as_chunks_mut::<8>().0.iter_mut();
    for ((position, size), level) in positions.zip(sizes).zip(levels.def().unwrap_or_default()) {
        if *level > 0 {
            (*position, *size) = ((u64::from(*level) << 16).to_le_bytes(), [0; 8]);
        }
    }
    let page = packed::encode(&parts, &PageLevels::all_valid(levels.values()), options)?;
    let page = page.ok_or_else(wrong)?;
    let layout = BlobLayout {
        inner_layout: Some(Box::new(page.layout)),
        layers: layer_kinds(levels),
    };
    Ok(EncodedPage {
        layout: PageLayout {
            layout: Some(Layout::BlobLayout(Box::new(layout))),
        },
        buffers: page.buffers,
    })
}
