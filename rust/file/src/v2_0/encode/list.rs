//! List offsets (format chapter 20, 7).

use arrow_array::{Array, ArrayRef, BooleanArray, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::message;
use super::page::PageBuffers;
use crate::proto::lance::encodings::ArrayEncoding;
use crate::{Error, Result};

/// A run of lists; null lists have no items.
#[derive(Debug, Clone)]
pub struct ListPiece {
    lengths: Vec<u64>,
    nulls: Option<NullBuffer>,
}

impl ListPiece {
    /// The lists of an array and their items, without those that a null list hides.
    pub fn of<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> Result<(Self, ArrayRef)> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let is_valid = |i: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
        let offsets = array.offsets();
        let (start, end) = match (offsets.first(), offsets.last()) {
            (Some(start), Some(end)) => (start.as_usize(), end.as_usize()),
            _ => (0, 0),
        };
        let items = array.values().slice(start, end - start);
        let lengths: Vec<u64> = offsets.lengths().map(|length| length as u64).collect();
        if lengths.iter().enumerate().all(|(i, l)| *l == 0 || is_valid(i)) {
            return Ok((Self { lengths, nulls }, items));
        }
        let visible = lengths
            .iter()
            .enumerate()
            .flat_map(|(i, l)| std::iter::repeat_n(is_valid(i), *l as usize));
        let visible = BooleanArray::new(visible.collect::<BooleanBuffer>(), None);
        let items = arrow_select::filter::filter(&items, &visible)?;
        let shown = |(i, l): (usize, u64)| if is_valid(i) { l } else { 0 };
        let lengths = lengths.into_iter().enumerate().map(shown).collect();
        Ok((Self { lengths, nulls }, items))
    }

    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Lists `[start, start + len)`.
    pub fn slice(&self, start: usize, len: usize) -> Self {
        Self {
            lengths: self.lengths.get(start..start + len).unwrap_or_default().to_vec(),
            nulls: self.nulls.as_ref().map(|nulls| nulls.slice(start, len)),
        }
    }
}

/// Encodes the offsets of a page.
pub fn encode(pieces: &[&ListPiece], buffers: &mut PageBuffers) -> Result<ArrayEncoding> {
    let num_items = pieces
        .iter()
        .flat_map(|piece| &piece.lengths)
        .try_fold(0u64, |sum, l| sum.checked_add(*l))
        .ok_or_else(|| Error::invalid_input("too many list items"))?;
    let mut offsets = Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
    let mut end = 0;
    for piece in pieces {
        for (i, length) in piece.lengths.iter().enumerate() {
            end += length;
            let is_null = piece.nulls.as_ref().is_some_and(|nulls| nulls.is_null(i));
            offsets.push(if is_null { end + num_items + 1 } else { end });
        }
    }
    Ok(message::list(buffers.add(offsets), num_items))
}
