//! Fixed-size lists of fixed-width items (format chapter 22, 4.10).

use glaive_codec::bits;

use super::chunks::{self, Chunk, ChunkedValues, MAX_BUFFERS};
use super::leaf::ListValues;
use super::levels::PageLevels;
use super::options::{ColumnOptions, Structural};
use super::{EncodedPage, FULL_ZIP_BYTES, full_zip as zip, message};
use crate::proto::lance::encodings21::CompressiveEncoding;
use crate::{Error, FileVersion, Result};

/// Plain chunks stay below 8 KiB with their header, where two values allow it.
const MAX_CHUNK_BYTES: usize = 8186;

/// Encodes a page: narrow lists and lists of booleans in chunks, others zipped.
pub fn encode(
    lists: &ListValues,
    levels: &PageLevels,
    options: &ColumnOptions,
) -> Result<Option<EncodedPage>> {
    let version = options.version;
    let bits = items_per_value(lists) * lists.bits as usize;
    let narrow = match options.structural {
        // Cells are whole bytes.
        Structural::FullZip => lists.bits == 1,
        Structural::MiniBlock => bits / 4 < MAX_CHUNK_BYTES,
        Structural::Auto => lists.bits == 1 && version >= FileVersion::V2_2 || bits / 8 < FULL_ZIP_BYTES,
    };
    if narrow && buffer_count(lists) <= MAX_BUFFERS {
        return Ok(chunks::mini_block(
            chunked(lists, options.max_chunk_values),
            None,
            levels,
            version,
        ));
    }
    full_zip(lists, levels).map(Some)
}

/// Encodes a page of cells of whole bytes.
pub fn full_zip(lists: &ListValues, levels: &PageLevels) -> Result<EncodedPage> {
    let (width, cells) = cells(lists)?;
    zip::fixed(width, &cells, codec(lists), levels)
}

/// Bytes of a cell, and the cells: bitmaps and items of each row.
pub fn cells(lists: &ListValues) -> Result<(usize, Vec<u8>)> {
    let item_bits = items_per_value(lists) * lists.bits as usize;
    let has_nulls = lists.levels.iter().any(|(_, validity)| validity.is_some());
    if !item_bits.is_multiple_of(8) || (lists.bits == 1 && has_nulls) {
        return Err(Error::unsupported(format!(
            "fixed-size lists of {item_bits} booleans that are too wide for a chunk: use a multiple of 8 without null items"
        )));
    }
    let bitmaps: usize = counts(lists)
        .map(|(items, validity)| validity.map_or(0, |_| items.div_ceil(8)))
        .sum();
    let width = bitmaps + item_bits / 8;
    let mut cells = Vec::with_capacity(lists.len * width);
    for (row, items) in lists.items.chunks_exact(item_bits / 8).enumerate() {
        for (count, validity) in counts(lists) {
            push_bits(validity, row * count, count, &mut cells);
        }
        cells.extend_from_slice(items);
    }
    Ok((width, cells))
}

fn chunked(lists: &ListValues, most: usize) -> ChunkedValues {
    let per_value = items_per_value(lists) * lists.bits as usize;
    let bytes = |n: usize| {
        let bitmaps: usize = counts(lists)
            .map(|(items, v)| v.map_or(0, |_| (n * items).div_ceil(8)))
            .sum();
        bitmaps + (n * per_value).div_ceil(8)
    };
    let mut rows = 2;
    while rows * 2 <= most && bytes(rows * 2) < MAX_CHUNK_BYTES {
        rows *= 2;
    }
    let mut data = Vec::with_capacity(bytes(lists.len));
    let mut chunks = Vec::new();
    for start in (0..lists.len).step_by(rows) {
        let values = rows.min(lists.len - start);
        let mut sizes = Vec::with_capacity(MAX_BUFFERS);
        let buffers = counts(lists).filter(|(_, validity)| validity.is_some());
        for (bits, items) in buffers.chain(std::iter::once((per_value, Some(&lists.items)))) {
            let before = data.len();
            push_bits(items, start * bits, values * bits, &mut data);
            sizes.push(data.len() - before);
        }
        sizes.resize(MAX_BUFFERS, 0);
        chunks.push(Chunk {
            values,
            sizes: sizes.try_into().unwrap_or_default(),
        });
    }
    ChunkedValues {
        codec: codec(lists),
        num_buffers: buffer_count(lists),
        chunks,
        data,
    }
}

/// Innermost items of one value.
fn items_per_value(lists: &ListValues) -> usize {
    lists
        .levels
        .iter()
        .map(|(dimension, _)| *dimension as usize)
        .product()
}

fn buffer_count(lists: &ListValues) -> usize {
    lists
        .levels
        .iter()
        .filter(|(_, validity)| validity.is_some())
        .count()
        + 1
}

/// Items of one value down to each level, and their validity.
fn counts(lists: &ListValues) -> impl Iterator<Item = (usize, Option<&Vec<u8>>)> {
    let items = lists.levels.iter().scan(1, |items, (dimension, _)| {
        *items *= *dimension as usize;
        Some(*items)
    });
    items.zip(lists.levels.iter().map(|(_, validity)| validity.as_ref()))
}

/// Appends bits as whole bytes; nothing without a bitmap.
fn push_bits(source: Option<&Vec<u8>>, start: usize, n: usize, out: &mut Vec<u8>) {
    let Some(source) = source else { return };
    if start.is_multiple_of(8) && n.is_multiple_of(8) {
        out.extend_from_slice(source.get(start / 8..(start + n) / 8).unwrap_or_default());
        return;
    }
    let (mut part, mut len) = (Vec::with_capacity(n.div_ceil(8)), 0);
    bits::copy_bits(source, start, &mut part, &mut len, n);
    out.append(&mut part);
}

/// How a reader is told about the codec.
pub fn codec(lists: &ListValues) -> CompressiveEncoding {
    let wrap = |inner, (dimension, validity): &(u32, Option<Vec<u8>>)| {
        message::fixed_size_list(u64::from(*dimension), validity.is_some(), inner)
    };
    lists
        .levels
        .iter()
        .rev()
        .fold(message::flat(u64::from(lists.bits)), wrap)
}
