//! Arrow dictionary columns: keys in the width of their type, and one dictionary a page (format chapter 22, 5).
//!
//! Arrays of one page may bring different dictionaries; they are merged, so that equal items are one. Null items are left out,
//! because their rows are null already.

use std::hash::BuildHasher;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::chunks::{self, Items};
use super::leaf::{PageValues, fill_nulls};
use super::levels::PageLevels;
use super::options::ColumnOptions;
use super::{EncodedPage, dictionary, fixed};
use crate::v2_1::ValueShape;
use crate::{Error, Result};

/// The keys of a page and the items they stand for.
#[derive(Debug)]
pub struct DictionaryPage {
    /// Bytes of one key.
    width: usize,
    /// Keys in order of the rows.
    keys: Vec<u8>,
    /// The items: of fixed or variable width.
    items: Box<PageValues>,
    count: usize,
}

impl DictionaryPage {
    /// Joins dictionary arrays; `None` if they have more than `max_items` items together.
    pub fn join(
        arrays: &[ArrayRef],
        width: usize,
        max_items: u64,
        shape: &ValueShape,
        levels: Option<&[u16]>,
    ) -> Result<Option<Self>> {
        let max_items = usize::try_from(max_items).unwrap_or(usize::MAX);
        let parts = arrays
            .iter()
            .map(|a| Part::new(a, max_items))
            .collect::<Result<Vec<_>>>()?;
        let Some((items, count, numbers)) = merge(&parts, shape, max_items)? else {
            return Ok(None);
        };
        let rows: usize = parts.iter().map(|p| p.keys.len()).sum();
        let mut keys = Vec::with_capacity(rows * width);
        for (part, numbers) in parts.iter().zip(numbers) {
            match width {
                1 => push_keys::<1>(&part.keys, numbers.as_deref(), &mut keys),
                2 => push_keys::<2>(&part.keys, numbers.as_deref(), &mut keys),
                4 => push_keys::<4>(&part.keys, numbers.as_deref(), &mut keys),
                _ => push_keys::<8>(&part.keys, numbers.as_deref(), &mut keys),
            }
        }
        if let Some(levels) = levels {
            fill_nulls(width, &mut keys, levels);
        }
        let items = Box::new(items);
        Ok(Some(Self {
            width,
            keys,
            items,
            count,
        }))
    }

    /// Encodes the page; `None` as for [`chunks::mini_block`].
    pub fn encode(&self, levels: &PageLevels, options: &ColumnOptions) -> Result<Option<EncodedPage>> {
        let items: Items = dictionary::encode_values(&self.items, self.count, options)?;
        let indices = fixed::plan(self.width, &self.keys, options).encode(&self.keys)?;
        Ok(chunks::mini_block(indices, Some(items), levels, options.version))
    }
}

/// Appends keys of `W` bytes, which `numbers` may replace.
fn push_keys<const W: usize>(keys: &[usize], numbers: Option<&[usize]>, out: &mut Vec<u8>) {
    for &key in keys {
        let number = numbers.map_or(key, |n| n.get(key).copied().unwrap_or_default());
        if let Some(bytes) = (number as u64).to_le_bytes().first_chunk::<W>() {
            out.extend_from_slice(bytes);
        }
    }
}

/// One array: its keys, and the items they can reach.
struct Part {
    keys: Vec<usize>,
    items: ArrayRef,
}

impl Part {
    fn new(array: &ArrayRef, max_items: usize) -> Result<Self> {
        let array = array
            .as_any_dictionary_opt()
            .ok_or_else(|| Error::invalid_input("arrays of one column differ in type"))?;
        let items = array.values();
        let keys = match items.len() {
            0 => vec![0; array.keys().len()],
            _ => array.normalized_keys(),
        };
        let items = items.slice(0, items.len().min(max_items));
        Ok(Self { keys, items })
    }
}

/// Items, their number, and for each part where its items went; `None` stands for "they kept their numbers".
type Merged = (PageValues, usize, Vec<Option<Vec<usize>>>);

fn merge(parts: &[Part], shape: &ValueShape, max_items: usize) -> Result<Option<Merged>> {
    let values = |arrays: &[ArrayRef]| {
        PageValues::new(arrays, shape, None)?
            .ok_or_else(|| Error::invalid_input("a dictionary of dictionaries"))
    };
    let Some(first) = parts.first() else {
        return Ok(Some((values(&[])?, 0, Vec::new())));
    };
    let same = |part: &Part| part.items.to_data().ptr_eq(&first.items.to_data());
    if first.items.null_count() == 0 && parts.iter().all(same) {
        let items = values(std::slice::from_ref(&first.items))?;
        return Ok(Some((items, first.items.len(), vec![None; parts.len()])));
    }
    let arrays: Vec<ArrayRef> = parts.iter().map(|p| p.items.clone()).collect();
    let all = values(&arrays)?;
    let hasher = FixedState::default();
    let mut table: HashTable<(usize, usize)> = HashTable::new();
    let (mut kept, mut numbers, mut place) = (Vec::new(), Vec::with_capacity(parts.len()), 0);
    for part in parts {
        let mut of_part = Vec::with_capacity(part.items.len());
        for index in 0..part.items.len() {
            let item = all.value(place + index);
            let hash = hasher.hash_one(item);
            let known = match part.items.is_null(index) {
                true => Some(0),
                false => table
                    .find(hash, |(at, _)| all.value(*at) == item)
                    .map(|(_, number)| *number),
            };
            of_part.push(known.unwrap_or_else(|| {
                table.insert_unique(hash, (place + index, kept.len()), |(at, _)| {
                    hasher.hash_one(all.value(*at))
                });
                kept.push(place + index);
                kept.len() - 1
            }));
        }
        place += part.items.len();
        numbers.push(Some(of_part));
    }
    Ok((kept.len() <= max_items).then(|| (all.take(&kept), kept.len(), numbers)))
}
