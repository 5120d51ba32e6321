//! Columns of Arrow dictionaries (format chapter 22, 5).
//!
//! Each page brings its own items, and its chunks hold indices into them. The Arrow array has one dictionary for all pages, so
//! items are numbered anew: the same bytes are one item, whatever page they come from. As long as the keys can tell all items of
//! all pages apart, items keep their order, used or not; beyond that only those in use are kept.

use std::hash::BuildHasher;

use arrow_buffer::{Buffer, MutableBuffer};
use foldhash::quality::RandomState;
use hashbrown::HashTable;

use super::ValueShape;
use super::dictionary::{Dictionary, for_each_index};
use super::sink::{Values, expansion};
use crate::{Error, Result};

/// Keys and items of a dictionary array under construction.
#[derive(Debug)]
pub struct DictionaryValues {
    key_bytes: usize,
    /// Items that keys can tell apart.
    max_items: u64,
    keys: MutableBuffer,
    items: Values,
    /// Numbers of the items by their bytes; made when a second page comes.
    numbers: Option<HashTable<u64>>,
    /// With a seed: the items come from an untrusted file.
    hasher: RandomState,
}

/// The numbers of a page's items in the array.
#[derive(Debug)]
pub enum Mapping {
    /// The items of the page are those of the array.
    Same,
    /// By index; [`UNKNOWN`] until the item is used.
    Table(Vec<u64>),
}

const UNKNOWN: u64 = u64::MAX;

impl DictionaryValues {
    /// An empty array, with room for `rows` keys.
    pub fn new(key_bits: u32, signed: bool, value: &ValueShape, rows: usize) -> Self {
        let key_bytes = key_bits as usize / 8;
        let capacity = rows.saturating_mul(key_bytes).min(64 << 20);
        Self {
            key_bytes,
            max_items: max_items(key_bits, signed),
            keys: MutableBuffer::with_capacity(capacity),
            items: Values::new(value, 0),
            numbers: None,
            hasher: RandomState::default(),
        }
    }

    /// The keys, the items, and the number of items.
    pub fn finish(self) -> (Buffer, Values, usize) {
        let count = self.items.count();
        (self.keys.into(), self.items, count)
    }

    /// Appends `n` keys for null slots.
    pub fn push_default(&mut self, n: usize) -> Result<()> {
        let bytes = expansion(n, self.key_bytes)?;
        self.keys.resize(self.keys.len() + bytes, 0);
        Ok(())
    }

    /// Appends one value `n` times.
    pub fn push_repeated(&mut self, value: &[u8], n: usize) -> Result<()> {
        expansion(n, self.key_bytes)?;
        let key = self.number_of(value)?;
        (0..n).for_each(|_| self.push_key(key));
        Ok(())
    }

    /// Appends values that are stored without a dictionary.
    pub fn push_values(&mut self, values: &Values) -> Result<()> {
        for index in 0..values.count() {
            let key = self.number_of(values.value(index).unwrap_or_default())?;
            self.push_key(key);
        }
        Ok(())
    }

    /// Takes over the items of a page, as far as the keys reach.
    pub fn map(&mut self, page: &Dictionary) -> Result<Mapping> {
        let (known, new) = (self.items.count(), page.len());
        let all_fit = (known + new) as u64 <= self.max_items;
        if known == 0 && all_fit {
            for index in 0..new {
                self.items.push_repeated(page.item(index)?, 1)?;
            }
            self.numbers = None;
            return Ok(Mapping::Same);
        }
        let mut table = vec![UNKNOWN; new];
        if all_fit {
            for (index, number) in table.iter_mut().enumerate() {
                *number = self.number_of(page.item(index)?)?;
            }
        }
        Ok(Mapping::Table(table))
    }

    /// Appends the keys of indices into the items of a page.
    pub fn push_indices(&mut self, page: &Dictionary, mapping: &mut Mapping, indices: &Values) -> Result<()> {
        if let (Mapping::Same, Values::Fixed { width, data }) = (&*mapping, indices)
            && *width == self.key_bytes
        {
            for_each_index(indices, |index| match index < page.len() {
                true => Ok(()),
                false => Err(page.outside(index)),
            })?;
            self.keys.extend_from_slice(data.as_slice());
            return Ok(());
        }
        for_each_index(indices, |index| {
            let key = match mapping {
                Mapping::Same if index < page.len() => index as u64,
                Mapping::Same => return Err(page.outside(index)),
                Mapping::Table(table) => {
                    let number = table.get_mut(index).ok_or_else(|| page.outside(index))?;
                    if *number == UNKNOWN {
                        *number = self.number_of(page.item(index)?)?;
                    }
                    *number
                }
            };
            self.push_key(key);
            Ok(())
        })
    }

    fn push_key(&mut self, key: u64) {
        let bytes = key.to_le_bytes();
        self.keys
            .extend_from_slice(bytes.get(..self.key_bytes).unwrap_or(&bytes));
    }

    /// The number of an item, which is added if it is new.
    fn number_of(&mut self, item: &[u8]) -> Result<u64> {
        let Self {
            items,
            numbers,
            hasher,
            ..
        } = self;
        let numbers = numbers.get_or_insert_with(|| number_all(items, hasher));
        let same = |number: &u64| items.value(*number as usize) == Some(item);
        if let Some(known) = numbers.find(hasher.hash_one(item), same) {
            return Ok(*known);
        }
        let number = items.count() as u64;
        if number >= self.max_items {
            return Err(Error::unsupported(format!(
                "more than {number} distinct values in one batch of a dictionary column with keys of {} bits: read fewer \
                 rows at a time",
                self.key_bytes * 8
            )));
        }
        items.push_repeated(item, 1)?;
        numbers.insert_unique(hasher.hash_one(item), number, |number| {
            hasher.hash_one(items.value(*number as usize).unwrap_or_default())
        });
        Ok(number)
    }
}

/// Items that keys of this type can tell apart.
pub fn max_items(key_bits: u32, signed: bool) -> u64 {
    let bits = key_bits.saturating_sub(u32::from(signed));
    1u64.checked_shl(bits).unwrap_or(u64::MAX)
}

fn number_all(items: &Values, hasher: &RandomState) -> HashTable<u64> {
    let hash = |number: &u64| hasher.hash_one(items.value(*number as usize).unwrap_or_default());
    let mut numbers = HashTable::with_capacity(items.count());
    for number in 0..items.count() as u64 {
        let item = items.value(number as usize);
        let same = |known: &u64| items.value(*known as usize) == item;
        if numbers.find(hash(&number), same).is_none() {
            numbers.insert_unique(hash(&number), number, hash);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &ValueShape = &ValueShape::Variable { offset_bits: 32 };

    fn page(items: &[String]) -> Dictionary {
        let mut values = Values::new(TEXT, 0);
        items
            .iter()
            .for_each(|item| values.push_bytes(item.as_bytes()).unwrap());
        Dictionary::new(values, items.len())
    }

    fn indices(of: &[u16]) -> Values {
        let mut values = Values::new(&ValueShape::Fixed { bits: 16 }, 0);
        values.grow::<u16>(of.len()).unwrap().copy_from_slice(of);
        values
    }

    fn push(array: &mut DictionaryValues, items: &[String], of: &[u16]) -> Result<()> {
        let page = page(items);
        let mut mapping = array.map(&page)?;
        array.push_indices(&page, &mut mapping, &indices(of))
    }

    fn names(range: std::ops::Range<usize>) -> Vec<String> {
        range.map(|i| i.to_string()).collect()
    }

    #[test]
    fn items_of_pages_are_one_dictionary() {
        let mut array = DictionaryValues::new(8, true, TEXT, 0);
        push(&mut array, &names(0..3), &[2, 0]).unwrap();
        push(&mut array, &names(2..5), &[0, 2]).unwrap();
        array.push_default(1).unwrap();
        array.push_repeated(b"1", 2).unwrap();
        let (keys, items, count) = array.finish();
        assert_eq!(keys.as_slice(), [2, 0, 2, 4, 0, 1, 1]);
        assert_eq!((count, items.value(4)), (5, Some(&b"4"[..])));
    }

    #[test]
    fn only_items_in_use_are_kept_where_keys_are_short() {
        let mut array = DictionaryValues::new(8, true, TEXT, 0);
        push(&mut array, &names(0..100), &[99]).unwrap();
        push(&mut array, &names(100..200), &(0..28).collect::<Vec<_>>()).unwrap();
        let error = push(&mut array, &names(200..300), &[0]).unwrap_err();
        assert!(error.to_string().contains("more than 128 distinct values"));
    }

    #[test]
    fn an_index_beyond_the_items_is_refused() {
        let mut array = DictionaryValues::new(32, false, TEXT, 0);
        assert!(push(&mut array, &names(0..2), &[2]).is_err());
        assert!(push(&mut array, &names(2..4), &[2]).is_err());
    }
}
