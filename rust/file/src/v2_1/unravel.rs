//! From levels back to validity and offsets (format chapter 21, 3.5).
//!
//! Slots are pushed in order, in pieces of any size that start at a row; each layer keeps what it needs to go on in the next
//! piece. Going leaf first, a list layer keeps only the slots at which one of its lists starts, and these are the slots of
//! the layers above it.

use arrow_buffer::{BooleanBuffer, MutableBuffer, NullBuffer};
use glaive_codec::bits;

use super::layers::{ColumnPath, Layer, Layers, NodeKind};

/// What the nodes of a column's path look like, leaf first.
#[derive(Debug)]
pub struct Structure {
    nodes: Vec<Node>,
}

/// One node under construction.
#[derive(Debug)]
enum Node {
    Item(Validity),
    Repeated {
        /// Items of one list.
        size: u32,
        /// Slots of the current list seen so far.
        seen: u32,
        validity: Validity,
    },
    List {
        /// Starts with 0; the last offset belongs to a list that may still grow.
        offsets: Vec<i64>,
        validity: Validity,
    },
}

/// A finished node.
#[derive(Debug, Clone, PartialEq)]
pub enum FinishedNode {
    /// A leaf or struct.
    Item(Option<NullBuffer>),
    /// A fixed-size list of structs.
    Repeated(u32, Option<NullBuffer>),
    /// A list: its offsets and validity.
    List(Vec<i64>, Option<NullBuffer>),
}

impl Structure {
    /// Nothing yet.
    pub fn new(path: &ColumnPath) -> Self {
        let node = |kind: &NodeKind| match kind {
            NodeKind::Item => Node::Item(Validity::default()),
            NodeKind::Repeated(size) => Node::Repeated {
                size: *size,
                seen: 0,
                validity: Validity::default(),
            },
            NodeKind::List => Node::List {
                offsets: vec![0],
                validity: Validity::default(),
            },
        };
        Self {
            nodes: path.iter().map(node).collect(),
        }
    }

    /// Notes `n` slots that are valid at every node of a path without lists.
    pub fn push_valid(&mut self, n: usize) {
        let mut slots = n;
        for node in &mut self.nodes {
            slots = match node {
                Node::Item(validity) => {
                    validity.push_valid(slots);
                    slots
                }
                Node::Repeated { size, seen, validity } => {
                    let (first, step) = phase(*size, *seen);
                    let kept = slots.saturating_sub(first).div_ceil(step);
                    *seen = advance(*size, *seen, slots);
                    validity.push_valid(kept);
                    kept
                }
                Node::List { .. } => slots,
            };
        }
    }

    /// Notes `n` nulls of a path of one node.
    pub fn push_null(&mut self, n: usize) {
        if let Some(Node::Item(validity)) = self.nodes.first_mut() {
            validity.push_nulls(n);
        }
    }

    /// Notes slots of a path without lists by their checked definition levels.
    pub fn push_def(&mut self, layers: &Layers, def: &[u16]) {
        let mut kept: Vec<u16>;
        let mut levels = def;
        for (node, layer) in self.nodes.iter_mut().zip(layers.layers()) {
            let Layer::Item { null } = layer else { continue };
            let validity = match node {
                Node::Item(validity) => validity,
                Node::Repeated { size, seen, validity } => {
                    let (first, step) = phase(*size, *seen);
                    *seen = advance(*size, *seen, levels.len());
                    kept = levels.iter().copied().skip(first).step_by(step).collect();
                    levels = &kept;
                    validity
                }
                Node::List { .. } => continue,
            };
            validity.push_levels(levels, *null);
        }
    }

    /// Notes slots of a path with lists by their checked levels; without definition levels all are valid.
    pub fn push_slots(&mut self, layers: &Layers, rep: &[u16], def: Option<&[u16]>) {
        if let ([Node::Item(items), Node::List { offsets, validity }], [item, list]) =
            (self.nodes.as_mut_slice(), layers.layers())
        {
            return push_list_of_leaves(
                layers.max_visible(),
                (items, item),
                (offsets, validity, list),
                rep,
                def,
            );
        }
        let level = |i: usize| def.and_then(|d| d.get(i)).copied().unwrap_or_default();
        let mut slots: Vec<(u16, u16)> = rep.iter().enumerate().map(|(i, &r)| (r, level(i))).collect();
        let mut lists = 0;
        let mut following = layers.layers();
        for node in &mut self.nodes {
            let Some((layer, rest)) = following.split_first() else {
                break;
            };
            following = rest;
            match (node, layer) {
                (Node::Item(validity), Layer::Item { null }) => {
                    let exists = slots.iter().filter(|(_, def)| layers.depth_of(*def) <= lists);
                    match null {
                        Some(null) => exists.for_each(|(_, def)| validity.push(def < null)),
                        None => validity.push_valid(exists.count()),
                    }
                }
                (Node::List { offsets, validity }, Layer::List { null, empty }) => {
                    lists += 1;
                    let levels = ListLevels::new(*null, *empty, rest);
                    slots.retain(|&slot| levels.push(slot, lists, offsets, validity));
                }
                _ => {}
            }
        }
    }

    /// Number of slots of the outermost node, which are rows.
    pub fn rows(&self) -> usize {
        match self.nodes.last() {
            Some(Node::Item(validity) | Node::Repeated { validity, .. } | Node::List { validity, .. }) => {
                validity.len
            }
            None => 0,
        }
    }

    /// The number of leaf values, and the nodes, leaf first.
    pub fn finish(self) -> (usize, Vec<FinishedNode>) {
        let values = match self.nodes.first() {
            Some(Node::Item(validity)) => validity.len,
            _ => 0,
        };
        let finish = |node| match node {
            Node::Item(validity) => FinishedNode::Item(validity.finish()),
            Node::Repeated { size, validity, .. } => FinishedNode::Repeated(size, validity.finish()),
            Node::List { offsets, validity } => FinishedNode::List(offsets, validity.finish()),
        };
        (values, self.nodes.into_iter().map(finish).collect())
    }
}

/// Notes slots of a list of leaves, the most frequent path with lists: one pass over each stream.
fn push_list_of_leaves(
    max_visible: u16,
    (items, item): (&mut Validity, &Layer),
    (offsets, lists, list): (&mut Vec<i64>, &mut Validity, &Layer),
    rep: &[u16],
    def: Option<&[u16]>,
) {
    let mut end = offsets.pop().unwrap_or_default();
    match def {
        None => {
            for &rep in rep {
                if rep != 0 {
                    offsets.push(end);
                }
                end += 1;
            }
            lists.push_valid(rep.iter().filter(|&&rep| rep != 0).count());
            items.push_valid(rep.len());
        }
        Some(def) => {
            for (&rep, &def) in rep.iter().zip(def) {
                if rep != 0 {
                    offsets.push(end);
                }
                end += i64::from(def <= max_visible);
            }
            let starts = || {
                rep.iter()
                    .zip(def)
                    .filter(|(rep, _)| **rep != 0)
                    .map(|(_, def)| *def)
            };
            match list {
                Layer::List { null: Some(null), .. } => starts().for_each(|def| lists.push(def != *null)),
                _ => lists.push_valid(starts().count()),
            }
            let visible: Vec<u16> = def.iter().copied().filter(|&def| def <= max_visible).collect();
            let null = match item {
                Layer::Item { null } => *null,
                Layer::List { .. } => None,
            };
            items.push_levels(&visible, null);
        }
    }
    offsets.push(end);
}

/// Of the slots below a fixed-size list, every `size`-th stands for the list: the first such slot, and the step.
fn phase(size: u32, seen: u32) -> (usize, usize) {
    let first = if seen == 0 { 0 } else { size - seen };
    (first as usize, size as usize)
}

fn advance(size: u32, seen: u32, slots: usize) -> u32 {
    ((u64::from(seen) + slots as u64) % u64::from(size)) as u32
}

/// The meaning of definition levels at a list layer.
struct ListLevels {
    null: Option<u16>,
    empty: Option<u16>,
    /// Levels in `(own, top]` mean that a struct right above hides the list; levels above `top` that it does not exist.
    own: u16,
    top: u16,
}

impl ListLevels {
    fn new(null: Option<u16>, empty: Option<u16>, above: &[Layer]) -> Self {
        let items = above.iter().map_while(|layer| match layer {
            Layer::Item { null } => Some(*null),
            Layer::List { .. } => None,
        });
        // Without levels of its own, the list's end where the first level above it begins.
        let first_above = above.iter().find_map(|layer| match layer {
            Layer::Item { null } => *null,
            Layer::List { null, empty } => null.or(*empty),
        });
        let own = empty
            .or(null)
            .unwrap_or_else(|| first_above.map_or(u16::MAX, |level| level - 1));
        let top = items.flatten().last().unwrap_or(own);
        Self {
            null,
            empty,
            own,
            top,
        }
    }

    /// Adds a slot; returns whether a list of this layer starts at it, so that the layers above see it.
    fn push(
        &self,
        (rep, def): (u16, u16),
        list: u16,
        offsets: &mut Vec<i64>,
        validity: &mut Validity,
    ) -> bool {
        if rep < list {
            if let Some(end) = offsets.last_mut() {
                *end += 1;
            }
            return false;
        }
        if def > self.top {
            return true;
        }
        let end = offsets.last().copied().unwrap_or_default();
        let is_null = Some(def) == self.null || def > self.own;
        validity.push(!is_null);
        offsets.push(end + i64::from(!is_null && Some(def) != self.empty));
        true
    }
}

/// A validity bitmap that does not exist before the first null.
#[derive(Debug, Default)]
pub struct Validity {
    bits: Vec<u8>,
    len: usize,
    nulls: usize,
}

impl Validity {
    fn push(&mut self, valid: bool) {
        match valid {
            true => self.push_valid(1),
            false => self.push_nulls(1),
        }
    }

    fn push_nulls(&mut self, n: usize) {
        self.start_bitmap();
        self.len += n;
        self.bits.resize(self.len.div_ceil(8), 0);
        self.nulls += n;
    }

    /// Notes `n` valid slots.
    pub fn push_valid(&mut self, n: usize) {
        if self.nulls > 0 {
            fill_ones(&mut self.bits, self.len, n);
        }
        self.len += n;
    }

    fn push_levels(&mut self, levels: &[u16], null: Option<u16>) {
        let Some(null) = null.filter(|&null| levels.iter().any(|&level| level >= null)) else {
            return self.push_valid(levels.len());
        };
        self.start_bitmap();
        self.nulls += bits::levels_to_bitmap(levels, null - 1, &mut self.bits, &mut self.len);
    }

    /// Notes the bits `range` of a bitmap of at least that length.
    pub fn push_bits(&mut self, source: &[u8], range: std::ops::Range<usize>) {
        let n = range.end - range.start;
        let valid = bits::count_set_bits(source, range.start, n);
        if valid == n {
            return self.push_valid(n);
        }
        self.start_bitmap();
        bits::copy_bits(source, range.start, &mut self.bits, &mut self.len, n);
        self.nulls += n - valid;
    }

    /// Makes the bitmap of the valid slots so far, before the first null.
    fn start_bitmap(&mut self) {
        if self.nulls == 0 {
            self.bits.clear();
            fill_ones(&mut self.bits, 0, self.len);
        }
    }

    /// The Arrow validity; `None` without nulls.
    pub fn finish(self) -> Option<NullBuffer> {
        if self.nulls == 0 {
            return None;
        }
        let mut aligned = MutableBuffer::with_capacity(self.bits.len());
        aligned.extend_from_slice(&self.bits);
        Some(NullBuffer::new(BooleanBuffer::new(aligned.into(), 0, self.len)))
    }
}

/// Sets the bits `len..len + n` of a bitmap that ends at bit `len`.
pub(super) fn fill_ones(bits: &mut Vec<u8>, len: usize, n: usize) {
    let end = len + n;
    if let (Some(last), rest @ 1..) = (bits.last_mut(), len % 8) {
        *last |= 0xff << rest;
    }
    bits.resize(end.div_ceil(8), 0xff);
    if let (Some(last), rest @ 1..) = (bits.last_mut(), end % 8) {
        *last &= (1 << rest) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeKind::{Item, List, Repeated};

    fn bits(nulls: &Option<NullBuffer>) -> Option<Vec<bool>> {
        nulls.as_ref().map(|n| n.iter().collect())
    }

    fn push_in_pieces(
        structure: &mut Structure,
        layers: &Layers,
        rep: &[u16],
        def: &[u16],
        pieces: &[usize],
    ) {
        let mut start = 0;
        for &end in pieces {
            structure.push_slots(layers, &rep[start..end], Some(&def[start..end]));
            start = end;
        }
    }

    #[test]
    fn validity_appears_with_the_first_null() {
        let mut validity = Validity::default();
        validity.push_valid(3);
        validity.push_levels(&[0, 1, 0], Some(1));
        validity.push_valid(9);
        let found = bits(&validity.finish()).unwrap();
        let expected = (0..15).map(|i| i != 4).collect::<Vec<_>>();
        assert_eq!(found, expected);
    }

    #[test]
    fn lists_in_one_piece_or_many() {
        // [1,null,3], null, [], [4], [5,6,7,8], [], [9] (format chapter 21, 3.4)
        let layers = Layers::parse(&[3, 6], &[Item, List]).unwrap();
        let rep = [1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1];
        let def = [0, 1, 0, 2, 3, 0, 0, 0, 0, 0, 3, 0];
        for pieces in [&[12][..], &[3, 12], &[1, 2, 7, 9, 12]] {
            let mut structure = Structure::new(&[Item, List]);
            push_in_pieces(&mut structure, &layers, &rep, &def, pieces);
            let (_, nodes) = structure.finish();
            let FinishedNode::Item(items) = &nodes[0] else {
                panic!()
            };
            assert_eq!(
                bits(items).unwrap(),
                [true, false, true, true, true, true, true, true, true]
            );
            let FinishedNode::List(offsets, lists) = &nodes[1] else {
                panic!()
            };
            assert_eq!(offsets, &[0, 3, 3, 3, 4, 8, 8, 9]);
            assert_eq!(bits(lists).unwrap(), [true, false, true, true, true, true, true]);
        }
    }

    #[test]
    fn three_levels_of_lists() {
        // [[[0,1],[],[2]],[[3]],[]] ; [] ; [[[4]]]
        let path = [Item, List, List, List];
        let layers = Layers::parse(&[1, 5, 5, 5], &path).unwrap();
        let mut structure = Structure::new(&path);
        structure.push_slots(
            &layers,
            &[3, 0, 1, 1, 2, 2, 3, 3],
            Some(&[0, 0, 1, 0, 0, 2, 3, 0]),
        );
        let (_, nodes) = structure.finish();
        let offsets = |i: usize| match &nodes[i] {
            FinishedNode::List(offsets, None) => offsets.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(offsets(1), [0, 2, 2, 3, 4, 5]);
        assert_eq!(offsets(2), [0, 3, 4, 4, 5]);
        assert_eq!(offsets(3), [0, 3, 3, 4]);
    }

    #[test]
    fn a_null_struct_hides_its_list() {
        // struct<l: list<int32>>: null, {[1,2]}, {[5]}, layers [1,4,3]
        let path = [Item, List, Item];
        let layers = Layers::parse(&[1, 4, 3], &path).unwrap();
        let mut structure = Structure::new(&path);
        structure.push_slots(&layers, &[1, 1, 0, 1], Some(&[2, 0, 0, 0]));
        let (_, nodes) = structure.finish();
        let FinishedNode::List(offsets, lists) = &nodes[1] else {
            panic!()
        };
        assert_eq!(
            (offsets.as_slice(), bits(lists).unwrap()),
            (&[0, 0, 2, 3][..], vec![false, true, true])
        );
        let FinishedNode::Item(structs) = &nodes[2] else {
            panic!()
        };
        assert_eq!(bits(structs).unwrap(), [false, true, true]);
    }

    #[test]
    fn fixed_size_lists_of_structs_take_every_nth_slot() {
        let path = [Item, Item, Repeated(3)];
        let layers = Layers::parse(&[3, 1, 3], &path).unwrap();
        for cut in 0..=6 {
            let mut structure = Structure::new(&path);
            structure.push_def(&layers, &[0, 1, 0, 2, 2, 2][..cut]);
            structure.push_def(&layers, &[0, 1, 0, 2, 2, 2][cut..]);
            structure.push_valid(3);
            assert_eq!(structure.rows(), 3);
            let (_, nodes) = structure.finish();
            let FinishedNode::Repeated(3, lists) = &nodes[2] else {
                panic!()
            };
            assert_eq!(bits(lists).unwrap(), [true, false, true], "cut at {cut}");
        }
    }
}
