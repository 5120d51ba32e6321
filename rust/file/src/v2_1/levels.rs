//! The levels of some slots of a page, and the slots of given rows (format chapter 21, 4.6).

use std::ops::Range;

use super::ColumnSink;
use super::layers::Layers;
use crate::{Error, Result};

/// Decoded and checked levels of consecutive slots; a stream is absent where all its levels would be 0.
#[derive(Debug, Default)]
pub struct SlotLevels {
    /// Repetition levels.
    pub rep: Option<Vec<u16>>,
    /// Definition levels.
    pub def: Option<Vec<u16>>,
    /// Number of slots.
    pub len: usize,
}

impl SlotLevels {
    /// Checks levels against the layers of their page.
    pub fn new(layers: &Layers, rep: Option<Vec<u16>>, def: Option<Vec<u16>>, len: usize) -> Result<Self> {
        if let Some(rep) = &rep {
            layers.check_rep(rep)?;
        }
        if let Some(def) = &def {
            layers.check_def(def)?;
        }
        if [&rep, &def]
            .into_iter()
            .flatten()
            .any(|levels| levels.len() != len)
        {
            return Err(Error::corrupt(
                "repetition and definition levels differ in number",
            ));
        }
        Ok(Self { rep, def, len })
    }

    /// Slots of `rows`, when slot 0 belongs to row `first_row` or, if it starts no row, to the one before.
    pub fn slots_of(&self, layers: &Layers, first_row: u64, rows: &[Range<u64>]) -> Vec<Range<usize>> {
        let Some(rep) = &self.rep else {
            return super::ranges::clip(rows, first_row..first_row + self.len as u64)
                .into_iter()
                .map(|r| r.start as usize..r.end as usize)
                .collect();
        };
        let starts: Vec<usize> = (0..)
            .zip(rep)
            .filter(|(_, r)| **r == layers.max_rep())
            .map(|(i, _)| i)
            .collect();
        let slot = |row: u64| match row.checked_sub(first_row) {
            None => 0,
            Some(nth) => starts
                .get(usize::try_from(nth).unwrap_or(usize::MAX))
                .copied()
                .unwrap_or(self.len),
        };
        let ranges = rows
            .iter()
            .filter(|r| r.end >= first_row)
            .map(|r| slot(r.start)..slot(r.end));
        ranges.filter(|r| r.start < r.end).collect()
    }

    /// Rows that start in these slots.
    pub fn rows_started(&self, layers: &Layers) -> usize {
        match &self.rep {
            Some(rep) => rep.iter().filter(|&&r| r == layers.max_rep()).count(),
            None => self.len,
        }
    }

    /// Number of values of the first `slots` slots.
    pub fn values_before(&self, layers: &Layers, slots: usize) -> usize {
        layers.count_visible(self.def.as_deref().and_then(|def| def.get(..slots)), slots)
    }

    /// Appends slots to the structure of a column.
    pub fn push(&self, layers: &Layers, slots: &Range<usize>, out: &mut ColumnSink) {
        let def = self.def.as_deref().and_then(|def| def.get(slots.clone()));
        match (&self.rep, def) {
            (Some(rep), def) => {
                out.structure
                    .push_slots(layers, rep.get(slots.clone()).unwrap_or_default(), def)
            }
            (None, Some(def)) => out.structure.push_def(layers, def),
            (None, None) => out.structure.push_valid(slots.end - slots.start),
        }
    }

    /// The values of slots, which are consecutive too.
    pub fn values_of(&self, layers: &Layers, slots: &Range<usize>) -> Range<u64> {
        let start = self.values_before(layers, slots.start);
        let def = self.def.as_deref().and_then(|def| def.get(slots.clone()));
        let n = layers.count_visible(def, slots.end - slots.start);
        start as u64..(start + n) as u64
    }
}
