//! Pages of few distinct values: the distinct values once, and an index for each row (format chapter 22, 5 and 8.3).

use glaive_codec::general::{self, Scheme};
use glaive_codec::variable::block;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::{BuildHasher, RandomState};

use super::chunks::{ChunkedValues, Items};
use super::fixed;
use super::leaf::{LeafValues, PageValues};
use super::message;
use super::options::{ColumnOptions, DictValues};
use crate::proto::lance::encodings21::CompressiveEncoding;
use crate::{Error, FileVersion, Result};

/// A page with its dictionary.
#[derive(Debug)]
pub struct Dictionary {
    /// Encoded indices.
    pub indices: ChunkedValues,
    /// Encoded items.
    pub items: Items,
}

/// A dictionary of strings or binaries, if it saves space. Slots whose `null_levels` are not 0 need no item.
pub fn of_variable(
    values: &LeafValues,
    null_levels: Option<&[u16]>,
    options: &ColumnOptions,
) -> Result<Option<Dictionary>> {
    let offset_bytes = usize::from(values.offset_bits / 8);
    // What the page would take otherwise: FSST halves text, and an offset a value is stored in any case.
    let plain = values.bytes.len() / if values.utf8 { 2 } else { 1 } + offset_bytes * values.len();
    let raw = values.bytes.len() + offset_bytes * values.len();
    let limits = Limits::new(values.len(), raw, plain, options);
    let Some(found) = distinct(values.iter(), null_levels, offset_bytes, &limits) else {
        return Ok(None);
    };
    let mut offsets = Vec::with_capacity(found.items.len() + 1);
    offsets.push(0i64);
    let mut bytes = Vec::with_capacity(found.item_bytes);
    for item in &found.items {
        bytes.extend_from_slice(item);
        offsets.push(bytes.len() as i64);
    }
    let mut plain = Vec::new();
    block::encode(values.offset_bits, &offsets, &bytes, &mut plain)?;
    let items = encode_items(
        message::variable(values.offset_bits),
        plain,
        found.items.len(),
        options,
    )?;
    Ok(Some(Dictionary {
        indices: fixed::encode_indices(&found.indices, null_levels, options)?,
        items,
    }))
}

/// A dictionary of 64-bit (2.2) or 128-bit values, if it takes less than `plain` bytes.
pub fn of_fixed(
    width: usize,
    bytes: &[u8],
    plain: usize,
    options: &ColumnOptions,
) -> Result<Option<Dictionary>> {
    let eligible = width == 16 || (width == 8 && options.version >= FileVersion::V2_2);
    let limits = Limits::new(bytes.len() / width, bytes.len(), plain, options);
    let found = match eligible {
        true => distinct(bytes.chunks_exact(width), None, 0, &limits),
        false => None,
    };
    let Some(found) = found else { return Ok(None) };
    let items = encode_items(
        message::flat(width as u64 * 8),
        found.items.concat(),
        found.items.len(),
        options,
    )?;
    Ok(Some(Dictionary {
        indices: fixed::encode_indices(&found.indices, None, options)?,
        items,
    }))
}

/// Items of fixed or variable width.
pub fn encode_values(items: &PageValues, count: usize, options: &ColumnOptions) -> Result<Items> {
    let (codec, plain) = match items {
        PageValues::Bits { bits, .. } => (message::flat(1), bits.clone()),
        PageValues::Fixed { width, bytes } => (message::flat(*width as u64 * 8), bytes.clone()),
        PageValues::Variable(values) => {
            let mut plain = Vec::new();
            block::encode(values.offset_bits, &values.offsets, &values.bytes, &mut plain)?;
            (message::variable(values.offset_bits), plain)
        }
        _ => return Err(Error::unsupported("Unsupported data type: dictionary values")),
    };
    encode_items(codec, plain, count, options)
}

/// 2.1 stores items as they are; 2.2 may compress them.
fn encode_items(
    codec: CompressiveEncoding,
    plain: Vec<u8>,
    count: usize,
    options: &ColumnOptions,
) -> Result<Items> {
    let wanted = match options.dict_values {
        _ if options.version < FileVersion::V2_2 => None,
        DictValues::None => None,
        DictValues::Auto => Some((Scheme::Zstd, None)),
        DictValues::General(scheme, level) => Some((scheme, level)),
    };
    if let Some((scheme, level)) = wanted {
        let mut buffer = Vec::new();
        general::compress(scheme, level, &plain, &mut buffer)?;
        if buffer.len() < plain.len() || options.dict_values != DictValues::Auto {
            let codec = message::general(scheme, level, codec);
            return Ok(Items { codec, count, buffer });
        }
    }
    Ok(Items {
        codec,
        count,
        buffer: plain,
    })
}

/// What a dictionary must stay below.
struct Limits {
    /// Values that a page has at least.
    values: usize,
    items: usize,
    item_bytes: usize,
    /// Bytes of the page: with this many for each index, and at most so many in all.
    index_bits: Option<usize>,
    bytes: usize,
}

impl Limits {
    /// For `n` values that take `raw` bytes as they are and `plain` in another encoding.
    fn new(n: usize, raw: usize, plain: usize, options: &ColumnOptions) -> Self {
        let (index_bits, bytes) = match options.dict_size_ratio {
            // The rule of the format's own writer: indices of 32 bits.
            Some(ratio) => (Some(32), (raw as f64 * ratio) as usize),
            None => (None, plain),
        };
        Self {
            values: options.dict_min_values,
            items: options.dict_max_items.min(n / options.dict_divisor),
            item_bytes: options.dict_max_bytes,
            index_bits,
            bytes,
        }
    }
}

struct Distinct<'a> {
    /// In order of first appearance.
    items: Vec<&'a [u8]>,
    indices: Vec<u32>,
    item_bytes: usize,
}

/// Numbers the distinct values, or gives up as soon as a limit is passed.
fn distinct<'a>(
    values: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    null_levels: Option<&[u16]>,
    item_overhead: usize,
    limits: &Limits,
) -> Option<Distinct<'a>> {
    let n = values.len();
    if n < limits.values || sample_is_distinct(values.clone()) {
        return None;
    }
    let hasher = foldhash::fast::FixedState::default();
    let mut table: HashTable<u32> = HashTable::new();
    let mut found = Distinct {
        items: Vec::new(),
        indices: Vec::with_capacity(n),
        item_bytes: 0,
    };
    for (slot, value) in values.enumerate() {
        if null_levels.is_some_and(|levels| levels.get(slot).is_some_and(|&level| level != 0)) {
            found.indices.push(0);
            continue;
        }
        let items = &found.items;
        let same = |&i: &u32| items.get(i as usize).is_some_and(|item| *item == value);
        let rehash = |&i: &u32| hasher.hash_one(items.get(i as usize).copied().unwrap_or_default());
        match table.entry(hasher.hash_one(value), same, rehash) {
            Entry::Occupied(known) => found.indices.push(*known.get()),
            Entry::Vacant(slot) => {
                let index = found.items.len() as u32;
                slot.insert(index);
                found.indices.push(index);
                found.item_bytes += value.len() + item_overhead;
                found.items.push(value);
                let bits = limits
                    .index_bits
                    .unwrap_or(found.items.len().ilog2() as usize + 1);
                let cost = found.item_bytes + n / 8 * bits;
                if found.items.len() > limits.items
                    || found.item_bytes > limits.item_bytes
                    || cost >= limits.bytes
                {
                    return None;
                }
            }
        }
    }
    // An index needs an item.
    (!found.items.is_empty()).then_some(found)
}

/// Whether nearly all of a sample of 32 runs of 128 values differ: then building a table is wasted work.
fn sample_is_distinct<'a>(values: impl ExactSizeIterator<Item = &'a [u8]>) -> bool {
    const RUN: usize = 128;
    let n = values.len();
    if n < 32 * RUN {
        return false;
    }
    let state = RandomState::new();
    let stride = n / 32;
    let mut hashes: Vec<u64> = values
        .enumerate()
        .filter(|(i, _)| i % stride < RUN)
        .map(|(_, v)| state.hash_one(v))
        .collect();
    let total = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.len() * 100 >= total * 98
}
