//! Constant pages: all null, or one value repeated (format chapter 21, 6).

use super::leaf::{LeafValues, PageValues};
use super::levels::{LevelCodec, PageLevels};
use super::{EncodedPage, layer_kinds};
use crate::FileVersion;
use crate::proto::lance::encodings21::{
    CompressiveEncoding, ConstantLayout, PageLayout, RepDefLayer, page_layout::Layout,
};

/// The longest value that stands in the layout itself.
const MAX_INLINE: usize = 32;

fn page(layout: ConstantLayout, buffers: Vec<Vec<u8>>) -> EncodedPage {
    EncodedPage {
        layout: PageLayout {
            layout: Some(Layout::ConstantLayout(layout)),
        },
        buffers,
    }
}

/// A page without values.
pub fn all_null(levels: &PageLevels, version: FileVersion) -> EncodedPage {
    let mut layout = ConstantLayout {
        layers: layer_kinds(levels),
        ..Default::default()
    };
    if let [_] = levels.layers() {
        return page(layout, Vec::new());
    }
    if version < FileVersion::V2_2 {
        return page(layout, vec![raw(levels.rep()), raw(levels.def())]);
    }
    let (rep_codec, rep) = compressed(levels.rep(), version);
    let (def_codec, def) = compressed(levels.def(), version);
    layout.num_rep_values = levels.rep().map_or(0, |l| l.len() as u64);
    layout.num_def_values = levels.def().map_or(0, |l| l.len() as u64);
    layout.rep_compression = rep_codec;
    layout.def_compression = def_codec;
    page(layout, vec![rep, def])
}

fn raw(levels: Option<&[u16]>) -> Vec<u8> {
    levels
        .unwrap_or_default()
        .iter()
        .flat_map(|l| l.to_le_bytes())
        .collect()
}

fn compressed(levels: Option<&[u16]>, version: FileVersion) -> (Option<CompressiveEncoding>, Vec<u8>) {
    let Some(levels) = levels else {
        return (None, Vec::new());
    };
    let codec = LevelCodec::choose(levels, &[levels.len()], version);
    let mut buffer = Vec::new();
    codec.encode(levels, &mut buffer);
    // An empty buffer would mean an absent stream.
    match buffer.is_empty() {
        true => (Some(LevelCodec::Flat.message()), raw(Some(levels))),
        false => (Some(codec.message()), buffer),
    }
}

/// A page of structs without fields.
pub fn empty_structs() -> EncodedPage {
    let layers = vec![RepDefLayer::RepdefNullableItem as i32];
    let layout = ConstantLayout {
        layers,
        ..Default::default()
    };
    page(layout, Vec::new())
}

/// A page whose valid values are all the same (2.2).
pub fn scalar(values: &PageValues, levels: &PageLevels) -> Option<EncodedPage> {
    let mut layout = ConstantLayout {
        layers: layer_kinds(levels),
        ..Default::default()
    };
    let mut buffers = Vec::new();
    match constant(values, levels.of_values())? {
        Scalar::Fixed(value) if value.len() <= MAX_INLINE => layout.inline_value = Some(value.into()),
        Scalar::Fixed(value) => buffers.push(arrow_buffers(&[&value])),
        Scalar::Variable { offset_bits, value } => {
            let width = usize::from(offset_bits / 8);
            let mut offsets = vec![0; width];
            offsets.extend((value.len() as u64).to_le_bytes().into_iter().take(width));
            buffers.push(arrow_buffers(&[&offsets, value]));
        }
    }
    if levels.rep().is_some() || levels.def().is_some() {
        buffers.push(raw(levels.rep()));
        buffers.push(raw(levels.def()));
    }
    Some(page(layout, buffers))
}

enum Scalar<'a> {
    Fixed(Vec<u8>),
    Variable { offset_bits: u8, value: &'a [u8] },
}

/// The value of all valid slots, if there is just one.
fn constant<'a>(values: &'a PageValues, levels: Option<&[u16]>) -> Option<Scalar<'a>> {
    match values {
        PageValues::Null
        | PageValues::EmptyStruct
        | PageValues::Lists(_)
        | PageValues::Dictionary(_)
        | PageValues::Packed(_) => None,
        PageValues::Bits { bits, len } => {
            let bit = |i: usize| bits.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1);
            let value = only((0..*len).map(bit), levels)?;
            Some(Scalar::Fixed(vec![u8::from(value)]))
        }
        PageValues::Fixed { width, bytes } => {
            Some(Scalar::Fixed(only(bytes.chunks_exact(*width), levels)?.to_vec()))
        }
        PageValues::Variable(values) => {
            let LeafValues { offset_bits, .. } = *values;
            Some(Scalar::Variable {
                offset_bits,
                value: only(values.iter(), levels)?,
            })
        }
    }
}

fn only<T: PartialEq>(values: impl Iterator<Item = T>, levels: Option<&[u16]>) -> Option<T> {
    let mut first = None;
    for (row, value) in values.enumerate() {
        if levels.is_some_and(|levels| levels.get(row).is_some_and(|&level| level != 0)) {
            continue;
        }
        match &first {
            None => first = Some(value),
            Some(known) if *known == value => {}
            Some(_) => return None,
        }
    }
    first
}

/// `u32 n; u32 len[n]; bytes`: the Arrow buffers of an array of length 1.
fn arrow_buffers(buffers: &[&[u8]]) -> Vec<u8> {
    let mut out = (buffers.len() as u32).to_le_bytes().to_vec();
    buffers
        .iter()
        .for_each(|b| out.extend_from_slice(&(b.len() as u32).to_le_bytes()));
    buffers.iter().for_each(|b| out.extend_from_slice(b));
    out
}
