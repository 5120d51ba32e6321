//! Blob pages: where the values are, not the values (format chapter 21, 7.1).
//!
//! ```text
//! inner page     (position u64, size u64) a row, itself without nulls
//! value          size > 0: bytes [position, position + size) of the file
//! empty          0, 0
//! null           size 0, position = definition level << 16 | repetition level
//! ```
//!
//! The definition level tells which node of the column's path is null, by the layers of the blob page. Only nulls carry levels,
//! so that columns with lists cannot be stored this way.

use std::sync::Arc;

use super::layers::{ColumnPath, Layers, NodeKind};
use super::sink::{ColumnSink, Values};
use super::{Page, ValueShape, has_lists};
use crate::container::PageInfo;
use crate::proto::lance::encodings21::{BlobLayout, RepDefLayer, page_layout::Layout};
use crate::schema::BlobForm;
use crate::{Context, Error, FileVersion, Result};

/// The nodes of the column of descriptors.
pub const PATH: &ColumnPath = &[NodeKind::Item];

/// A blob page.
#[derive(Debug)]
pub struct BlobPage {
    /// The page of positions and sizes.
    pub descriptors: Arc<Page>,
    /// Layers of the blob column.
    pub layers: Arc<Layers>,
}

impl BlobPage {
    /// Checks a layout against its page and column.
    pub fn parse(
        layout: BlobLayout,
        info: PageInfo,
        own_shape: &ValueShape,
        path: &ColumnPath,
        version: FileVersion,
    ) -> Result<Self> {
        if *own_shape != BlobForm::V1.shape()? {
            return Err(Error::corrupt("a blob page in a column that is no blob"));
        }
        if has_lists(path) {
            return Err(Error::unsupported(
                "lists of blobs (metadata key lance-encoding:blob in a list) cannot be read from this file version",
            ));
        }
        let layers = Arc::new(Layers::parse(&layout.layers, path)?);
        let inner = layout.inner_layout.and_then(|inner| inner.layout);
        let inner = inner.ok_or_else(|| Error::corrupt("a blob page without descriptors"))?;
        let own_layers = match &inner {
            Layout::MiniBlockLayout(inner) => &inner.layers,
            Layout::FullZipLayout(inner) => &inner.layers,
            _ => return Err(Error::corrupt("a blob page whose descriptors are no values")),
        };
        if *own_layers != [RepDefLayer::RepdefAllValidItem as i32] {
            return Err(Error::corrupt(format!(
                "layers {own_layers:?} of the descriptors of a blob page"
            )));
        }
        let descriptors = Page::of_layout(inner, info, own_shape, PATH, version);
        Ok(Self {
            descriptors: Arc::new(descriptors.context(|| "blob descriptors")?),
            layers,
        })
    }
}

/// Appends decoded descriptors to a column, their nulls as levels.
pub fn push(descriptors: &ColumnSink, layers: &Layers, out: &mut ColumnSink) -> Result<()> {
    let wrong = || Error::corrupt("descriptors of a blob page are no pairs of integers");
    let (positions, sizes) = match &descriptors.values {
        Values::Packed(parts) => match parts.as_slice() {
            [
                Values::Fixed { data: positions, .. },
                Values::Fixed { data: sizes, .. },
            ] => (positions.as_slice(), sizes.as_slice()),
            _ => return Err(wrong()),
        },
        _ => return Err(wrong()),
    };
    let Values::Packed(parts) = &mut out.values else {
        return Err(wrong());
    };
    let [own_positions, own_sizes] = parts.as_mut_slice() else {
        return Err(wrong());
    };
    let numbers = |bytes: &[u8]| -> Vec<u64> {
        let words = bytes.as_chunks::<8>().0.iter();
        words.map(|word| u64::from_le_bytes(*word)).collect()
    };
    let mut def = Vec::with_capacity(sizes.len() / 8);
    for (position, size) in numbers(positions).into_iter().zip(numbers(sizes)) {
        let level = match size {
            0 => null_level(position, layers)?,
            _ => 0,
        };
        def.push(level);
        own_positions.push_fixed(&(if level == 0 { position } else { 0 }).to_le_bytes())?;
        own_sizes.push_fixed(&size.to_le_bytes())?;
    }
    match layers.max_def() {
        0 => out.structure.push_valid(def.len()),
        _ => out.structure.push_def(layers, &def),
    }
    Ok(())
}

/// The definition level in the position of a value without bytes; 0 for an empty value.
fn null_level(position: u64, layers: &Layers) -> Result<u16> {
    let (def, rep) = (position >> 16, position & 0xffff);
    match u16::try_from(def) {
        Ok(level) if rep == 0 && level <= layers.max_def() => Ok(level),
        _ => Err(Error::corrupt(format!(
            "a blob without bytes at position {position:#x}: definition level {def} and repetition level {rep}, but the \
             layers end at {} and 0",
            layers.max_def()
        ))),
    }
}
