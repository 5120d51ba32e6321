//! The levels of a page, numbered from the marks of its slots, and the codecs that store them (format chapter 21, 3).

use glaive_codec::bitpack::{bit_width, inline, out_of_line};
use glaive_codec::rle;

use super::message;
use super::shred::{Mark, Shredded};
use crate::FileVersion;
use crate::leaves::LeafField;
use crate::proto::lance::encodings21::{CompressiveEncoding, RepDefLayer};
use crate::schema::Field;
use crate::v2_1::NodeKind;

/// Levels of a page and what they mean.
#[derive(Debug, Clone)]
pub struct PageLevels {
    /// Leaf first.
    layers: Vec<RepDefLayer>,
    rep: Option<Vec<u16>>,
    def: Option<Vec<u16>>,
    /// Definition levels of the visible slots, if not all slots are visible.
    visible: Option<Vec<u16>>,
    slots: usize,
    values: usize,
    null_values: usize,
    rows: usize,
}

/// What a page has at one node.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    null: bool,
    empty: bool,
}

impl PageLevels {
    /// Numbers the levels of shredded rows.
    pub fn number(shredded: &Shredded, top: &Field, leaf: &LeafField, rows: usize, only: bool) -> Self {
        let nodes: Vec<NodeKind> = leaf.nodes.iter().rev().copied().collect();
        let mut seen = seen_at(shredded, &nodes);
        if !only {
            force_levels(&mut seen, top, leaf, &nodes);
        }
        allow_hidden_lists(&mut seen, &nodes);
        let mut table = vec![0u16; nodes.len() * 2 + 1];
        let mut layers = Vec::with_capacity(nodes.len());
        let mut level = 0;
        for (depth, (node, seen)) in nodes.iter().zip(&seen).enumerate().rev() {
            for (used, mark) in [(seen.null, Mark::null(depth)), (seen.empty, Mark::empty(depth))] {
                if let (true, Some(slot)) = (used, table.get_mut(mark.index())) {
                    level += 1;
                    *slot = level;
                }
            }
            layers.push(layer_kind(*node, *seen));
        }
        let slots = shredded.marks.len();
        let values = slots - shredded.closed.iter().filter(|closed| **closed).count();
        let number = |mark: &Mark| table.get(mark.index()).copied().unwrap_or_default();
        let def: Option<Vec<u16>> = (level > 0).then(|| shredded.marks.iter().map(number).collect());
        let rep = nodes.contains(&NodeKind::List).then(|| shredded.rep.clone());
        let visible: Option<Vec<u16>> = def.as_ref().filter(|_| values < slots).map(|def| {
            def.iter()
                .zip(&shredded.closed)
                .filter(|(_, closed)| !**closed)
                .map(|(level, _)| *level)
                .collect()
        });
        let null_values = visible
            .as_ref()
            .or(def.as_ref())
            .map_or(0, |v| v.iter().filter(|&&l| l != 0).count());
        Self {
            layers,
            rep,
            def,
            visible,
            slots,
            values,
            null_values,
            rows,
        }
    }

    /// Levels of a column without nulls and lists.
    pub fn all_valid(rows: usize) -> Self {
        Self {
            layers: vec![RepDefLayer::RepdefAllValidItem],
            rep: None,
            def: None,
            visible: None,
            slots: rows,
            values: rows,
            null_values: 0,
            rows,
        }
    }

    /// Layers, leaf first.
    pub fn layers(&self) -> &[RepDefLayer] {
        &self.layers
    }

    /// Repetition levels, in columns with lists.
    pub fn rep(&self) -> Option<&[u16]> {
        self.rep.as_deref()
    }

    /// Definition levels, unless all layers are without nulls and empty lists.
    pub fn def(&self) -> Option<&[u16]> {
        self.def.as_deref()
    }

    /// Definition levels of the values; `None` when all values are valid.
    pub fn of_values(&self) -> Option<&[u16]> {
        match self.values < self.slots {
            true => self.visible.as_deref(),
            false => self.def(),
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Number of values: slots that are visible.
    pub fn values(&self) -> usize {
        self.values
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether no slot has a value.
    pub fn all_null(&self) -> bool {
        self.null_values == self.values
    }

    /// The largest repetition level that can occur: the number of lists.
    pub fn max_rep(&self) -> u16 {
        self.layers.iter().filter(|layer| !is_item(layer)).count() as u16
    }

    /// The largest level of a slot that owns a value.
    pub fn max_visible(&self) -> u16 {
        let items = self.layers.iter().take_while(|layer| is_item(layer));
        items
            .filter(|l| matches!(l, RepDefLayer::RepdefNullableItem))
            .count() as u16
    }

    /// Ends of the slots of chunks with these numbers of values. A chunk ends right after its last value; the last takes the
    /// rest.
    pub fn cut(&self, chunks: impl ExactSizeIterator<Item = usize>) -> Vec<usize> {
        let last = chunks.len().saturating_sub(1);
        let (mut slot, max_visible) = (0, self.max_visible());
        let ends = chunks.enumerate().map(|(number, values)| {
            if number == last {
                slot = self.slots;
            } else if self.values == self.slots {
                slot += values;
            } else {
                let rest = self
                    .def
                    .as_deref()
                    .and_then(|def| def.get(slot..))
                    .unwrap_or_default();
                let mut visible = rest
                    .iter()
                    .enumerate()
                    .filter(|(_, level)| **level <= max_visible);
                slot += visible
                    .nth(values.saturating_sub(1))
                    .map_or(rest.len(), |(i, _)| i + 1);
            }
            slot
        });
        ends.collect()
    }
}

fn is_item(layer: &RepDefLayer) -> bool {
    matches!(
        layer,
        RepDefLayer::RepdefAllValidItem | RepDefLayer::RepdefNullableItem
    )
}

/// Which nulls and empty lists a page has, by node from the top.
fn seen_at(shredded: &Shredded, nodes: &[NodeKind]) -> Vec<Seen> {
    let mut used = vec![false; nodes.len() * 2 + 1];
    for mark in &shredded.marks {
        if let Some(used) = used.get_mut(mark.index()) {
            *used = true;
        }
    }
    let used = |mark: Mark| used.get(mark.index()).copied().unwrap_or_default();
    let mut seen: Vec<Seen> = (0..nodes.len())
        .map(|d| Seen {
            null: used(Mark::null(d)),
            empty: used(Mark::empty(d)),
        })
        .collect();
    for (depth, seen) in seen.iter_mut().enumerate() {
        seen.null |= shredded.hidden_lists.contains(&depth);
    }
    seen
}

/// A list below a nullable struct must be able to be null or empty, whatever lists lie between: pylance counts the nulls of the
/// struct wrongly otherwise (format chapter 21, 3.1).
fn allow_hidden_lists(seen: &mut [Seen], nodes: &[NodeKind]) {
    let mut below_nullable = false;
    for (node, seen) in nodes.iter().zip(seen) {
        match node {
            NodeKind::List => seen.null |= below_nullable && !seen.empty,
            _ => below_nullable |= seen.null,
        }
    }
}

/// pylance counts rows wrongly where the pages of a column do not agree about a struct above a list, or about a fixed-size list
/// of structs. Such nodes take a level on every page (format chapter 21, 3.1). So do all structs around a packed one, and that
/// itself: where its fields cannot be null, pylance takes the nulls of some pages for theirs.
fn force_levels(seen: &mut [Seen], top: &Field, leaf: &LeafField, nodes: &[NodeKind]) {
    let mut field = top;
    for (depth, (node, seen)) in nodes.iter().zip(seen).enumerate() {
        let forced = match node {
            NodeKind::Item if leaf.field.is_packed() && nodes.len() > 1 => true,
            NodeKind::Item => nodes.iter().skip(depth + 1).any(|n| *n == NodeKind::List),
            NodeKind::Repeated(_) => true,
            NodeKind::List => false,
        };
        seen.null |= forced && field.nullable;
        match leaf.steps.get(depth).and_then(|&step| field.children.get(step)) {
            Some(child) => field = child,
            None => break,
        }
    }
}

fn layer_kind(node: NodeKind, seen: Seen) -> RepDefLayer {
    match (node, seen.null, seen.empty) {
        (NodeKind::List, false, false) => RepDefLayer::RepdefAllValidList,
        (NodeKind::List, true, false) => RepDefLayer::RepdefNullableList,
        (NodeKind::List, false, true) => RepDefLayer::RepdefEmptyableList,
        (NodeKind::List, true, true) => RepDefLayer::RepdefNullAndEmptyList,
        (_, false, _) => RepDefLayer::RepdefAllValidItem,
        (_, true, _) => RepDefLayer::RepdefNullableItem,
    }
}

/// A block codec of levels: one for the whole page, applied to the levels of each chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelCodec {
    Flat,
    Inline,
    OutOfLine { width: usize },
    Rle,
}

impl LevelCodec {
    /// The smallest codec for levels that are cut at `chunk_ends`. Run-length levels are 2.2 only.
    pub fn choose(levels: &[u16], chunk_ends: &[usize], version: FileVersion) -> Self {
        let width = bit_width(levels);
        // An inline block holds 1,024 levels.
        let packed = match levels.len() {
            0..=1024 => Self::Inline,
            _ => Self::OutOfLine { width },
        };
        let mut candidates = vec![packed, Self::Flat];
        if version >= FileVersion::V2_2 {
            candidates.insert(0, Self::Rle);
        }
        let size = |codec: &Self| -> usize {
            let starts = std::iter::once(&0).chain(chunk_ends);
            let chunks = starts
                .zip(chunk_ends)
                .map(|(start, end)| levels.get(*start..*end).unwrap_or_default());
            chunks.map(|chunk| codec.encoded_len(chunk)).sum()
        };
        candidates.into_iter().min_by_key(size).unwrap_or(Self::Flat)
    }

    fn encoded_len(self, levels: &[u16]) -> usize {
        match self {
            Self::Flat => levels.len() * 2,
            Self::Inline => 2 + 128 * bit_width(levels),
            Self::OutOfLine { width } => out_of_line::encoded_len::<u16>(width, levels.len()),
            Self::Rle => 8 + 3 * rle::entry_count(levels),
        }
    }

    /// How a reader is told about the codec.
    pub fn message(self) -> CompressiveEncoding {
        match self {
            Self::Flat => message::flat(16),
            Self::Inline => message::inline_bitpacking(16),
            Self::OutOfLine { width } => message::out_of_line_bitpacking(16, width as u64),
            Self::Rle => message::rle(16),
        }
    }

    /// Appends the levels of one chunk.
    pub fn encode(self, levels: &[u16], out: &mut Vec<u8>) {
        match self {
            Self::Flat => levels
                .iter()
                .for_each(|l| out.extend_from_slice(&l.to_le_bytes())),
            Self::Inline => inline::encode(levels, out),
            Self::OutOfLine { width } => out_of_line::encode(levels, width, out),
            Self::Rle => rle::encode_block(levels, out),
        }
    }
}
