//! Full-zip pages: each value with its control word, addressable by itself (format chapter 21, 5).

use glaive_codec::general::{self, Scheme};

use super::leaf::LeafValues;
use super::levels::PageLevels;
use super::{EncodedPage, layer_kinds, message};
use crate::proto::lance::encodings21::{
    CompressiveEncoding, FullZipLayout, PageLayout, full_zip_layout::Details, page_layout::Layout,
};
use crate::{Error, Result};

/// Values longer than this are compressed one by one, if that pays.
const ZSTD_MIN_LONGEST: usize = 32 * 1024;

/// Fixed-width values of `width` bytes.
pub fn fixed(width: usize, bytes: &[u8], levels: &PageLevels) -> Result<EncodedPage> {
    let control = Control::new(levels);
    let mut stream = Vec::with_capacity(bytes.len() + levels.len() * control.bytes);
    for (row, value) in bytes.chunks_exact(width).enumerate() {
        control.push(row, &mut stream);
        stream.extend_from_slice(value);
    }
    let details =
        Details::BitsPerValue(u32::try_from(width * 8).map_err(|_| Error::invalid_input("values too wide"))?);
    page(
        &control,
        levels,
        details,
        message::flat(width as u64 * 8),
        vec![stream],
    )
}

/// Variable-width values; `coded` is their FSST form, if that is smaller.
pub fn variable(
    values: &LeafValues,
    coded: Option<(LeafValues, CompressiveEncoding)>,
    longest: usize,
    levels: &PageLevels,
) -> Result<EncodedPage> {
    if longest > ZSTD_MIN_LONGEST
        && let Some(zipped) = zstd(values)?
    {
        let codec = message::general(Scheme::Zstd, message::variable(values.offset_bits));
        return zip(&zipped, codec, levels);
    }
    match coded {
        Some((coded, codec)) => zip(&coded, codec, levels),
        None => zip(values, message::variable(values.offset_bits), levels),
    }
}

/// Every value compressed by itself, unless that saves less than a tenth.
fn zstd(values: &LeafValues) -> Result<Option<LeafValues>> {
    let mut out = LeafValues {
        offsets: Vec::with_capacity(values.offsets.len()),
        bytes: Vec::new(),
        offset_bits: values.offset_bits,
        utf8: values.utf8,
    };
    out.offsets.push(0);
    let mut plain = 0;
    for value in values.iter() {
        general::compress(Scheme::Zstd, None, value, &mut out.bytes)?;
        out.offsets.push(out.bytes.len() as i64);
        plain += value.len();
        // Pictures and other compressed data: the first megabyte tells.
        if plain > 1 << 20 && out.bytes.len() > plain / 10 * 9 {
            return Ok(None);
        }
    }
    Ok((out.bytes.len() <= plain / 10 * 9).then_some(out))
}

fn zip(values: &LeafValues, codec: CompressiveEncoding, levels: &PageLevels) -> Result<EncodedPage> {
    let control = Control::new(levels);
    // pylance takes the width of the length for that of the offsets it builds, so large types need 64 bits.
    let wide = values.offset_bits == 64 || values.bytes.len() > u32::MAX as usize;
    let mut stream = Vec::with_capacity(values.bytes.len() + values.len() * (control.bytes + 4));
    let mut starts = Vec::with_capacity(values.len() + 1);
    for (row, value) in values.iter().enumerate() {
        starts.push(stream.len() as u64);
        if control.push(row, &mut stream) {
            match wide {
                true => stream.extend_from_slice(&(value.len() as u64).to_le_bytes()),
                false => stream.extend_from_slice(&(value.len() as u32).to_le_bytes()),
            }
            stream.extend_from_slice(value);
        }
    }
    starts.push(stream.len() as u64);
    let index = row_index(&starts, stream.len());
    let details = Details::BitsPerOffset(if wide { 64 } else { 32 });
    page(&control, levels, details, codec, vec![stream, index])
}

/// Positions in the narrowest width that holds the last one.
fn row_index(starts: &[u64], end: usize) -> Vec<u8> {
    let width = match end {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    starts
        .iter()
        .flat_map(|start| start.to_le_bytes().into_iter().take(width))
        .collect()
}

fn page(
    control: &Control<'_>,
    levels: &PageLevels,
    details: Details,
    codec: CompressiveEncoding,
    buffers: Vec<Vec<u8>>,
) -> Result<EncodedPage> {
    let items =
        u32::try_from(levels.len()).map_err(|_| Error::invalid_input("more than 2^32 - 1 rows in a page"))?;
    let layout = FullZipLayout {
        bits_rep: 0,
        bits_def: control.bits,
        num_items: items,
        num_visible_items: items,
        value_compression: Some(codec),
        layers: layer_kinds(levels),
        details: Some(details),
    };
    Ok(EncodedPage {
        layout: PageLayout {
            layout: Some(Layout::FullZipLayout(layout)),
        },
        buffers,
    })
}

/// Control words: the definition level in as few bytes as hold it.
struct Control<'a> {
    levels: Option<&'a [u16]>,
    bits: u32,
    bytes: usize,
}

impl<'a> Control<'a> {
    fn new(levels: &'a PageLevels) -> Self {
        let bits = u16::BITS - levels.max().leading_zeros();
        let bytes = match bits {
            0 => 0,
            1..=8 => 1,
            _ => 2,
        };
        Self {
            levels: levels.levels().filter(|_| bits > 0),
            bits,
            bytes,
        }
    }

    /// Appends the word of a row; returns whether the row has a value.
    fn push(&self, row: usize, stream: &mut Vec<u8>) -> bool {
        let Some(levels) = self.levels else { return true };
        let level = levels.get(row).copied().unwrap_or_default();
        stream.extend(level.to_le_bytes().into_iter().take(self.bytes));
        level == 0
    }
}
