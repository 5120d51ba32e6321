//! Layers: which nodes of a column's path consumed levels (format chapter 21, 2.1, 3.1 and 3.2).
//!
//! ```text
//! path       list l  ->  struct s  ->  int32 a
//! layers     [NULLABLE_ITEM a, NULLABLE_ITEM s, NULL_AND_EMPTY_LIST l]                leaf first
//! def        0 = value, 1 = a is null, 2 = s is null, 3 = l is null, 4 = l is empty
//! rep        1 = first slot of a row, 0 = a further item of the list
//! ```
//!
//! A slot is *visible*, that is, owns a leaf value, if its definition level belongs to a layer before the first list.

use crate::proto::lance::encodings21::RepDefLayer;
use crate::{Error, Result};

/// What a node on the path of a column means for its levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A leaf, a struct, or the entries of a map.
    Item,
    /// A list, a large list or a map.
    List,
    /// A fixed-size list of structs: every slot below it stands this many times.
    Repeated(u32),
}

/// The nodes of a column's path, leaf first.
pub type ColumnPath = [NodeKind];

/// Slots that stand for one row, or for one slot of the innermost list.
pub fn slots_per_row(path: &ColumnPath) -> u64 {
    let factor = |node: &NodeKind| match node {
        NodeKind::Repeated(n) => u64::from(*n),
        _ => 1,
    };
    path.iter().map(factor).product()
}

/// Whether the path has a list, so that pages have repetition levels.
pub fn has_lists(path: &ColumnPath) -> bool {
    path.contains(&NodeKind::List)
}

/// One layer of a page: the levels that mean something at this node, if the page has such slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// A leaf, struct or fixed-size list; `null` is the level of a null.
    Item {
        /// The level that means "null here".
        null: Option<u16>,
    },
    /// A list.
    List {
        /// The level of a null list.
        null: Option<u16>,
        /// The level of an empty list.
        empty: Option<u16>,
    },
}

/// The layers of a page, checked against the column's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// Leaf first.
    layers: Vec<Layer>,
    /// Lists at or before the layer that owns a level, by level; level 0 owns none.
    depths: Vec<u16>,
    max_rep: u16,
    max_visible: u16,
}

impl Layers {
    /// Parses the layers of a page of a column with this path.
    pub fn parse(layers: &[i32], path: &ColumnPath) -> Result<Self> {
        if layers.len() != path.len() {
            return Err(Error::corrupt(format!(
                "page with {} layers in a column whose path has {} nodes",
                layers.len(),
                path.len()
            )));
        }
        let mut this = Self {
            layers: Vec::with_capacity(path.len()),
            depths: vec![0],
            max_rep: 0,
            max_visible: 0,
        };
        for (&kind, node) in layers.iter().zip(path) {
            let kind = RepDefLayer::try_from(kind)
                .map_err(|_| Error::corrupt(format!("unknown layer kind {kind}")))?;
            this.push(kind, *node)?;
        }
        if this.max_rep == 0 {
            this.max_visible = this.max_def();
        }
        Ok(this)
    }

    fn push(&mut self, kind: RepDefLayer, node: NodeKind) -> Result<()> {
        use RepDefLayer::*;
        let (is_list, null, empty) = match kind {
            RepdefAllValidItem => (false, false, false),
            RepdefNullableItem => (false, true, false),
            RepdefAllValidList => (true, false, false),
            RepdefNullableList => (true, true, false),
            RepdefEmptyableList => (true, false, true),
            RepdefNullAndEmptyList => (true, true, true),
            RepdefUnspecified => return Err(Error::corrupt("unspecified layer kind")),
        };
        if is_list != (node == NodeKind::List) {
            return Err(Error::corrupt(format!(
                "layer {} at a node of kind {node:?}",
                kind.as_str_name()
            )));
        }
        if is_list {
            if self.max_rep == 0 {
                self.max_visible = self.max_def();
            }
            self.max_rep += 1;
        }
        let null = null.then(|| self.next_level());
        let empty = empty.then(|| self.next_level());
        self.layers.push(if is_list {
            Layer::List { null, empty }
        } else {
            Layer::Item { null }
        });
        Ok(())
    }

    fn next_level(&mut self) -> u16 {
        self.depths.push(self.max_rep);
        self.max_def()
    }

    /// The largest definition level. Paths are far shorter than 65,535 nodes: schemas nest only so deep.
    pub fn max_def(&self) -> u16 {
        u16::try_from(self.depths.len() - 1).unwrap_or(u16::MAX)
    }

    /// The largest repetition level, which starts a row: the number of lists.
    pub fn max_rep(&self) -> u16 {
        self.max_rep
    }

    /// Slots up to this definition level own a value.
    pub fn max_visible(&self) -> u16 {
        self.max_visible
    }

    /// The layers, leaf first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Number of lists at or before the layer that owns a level.
    pub fn depth_of(&self, level: u16) -> u16 {
        self.depths.get(usize::from(level)).copied().unwrap_or(u16::MAX)
    }

    /// Whether the page is `[NULLABLE_ITEM]`: one layer, the leaf, which can be null.
    pub fn is_single_nullable(&self) -> bool {
        matches!(self.layers.as_slice(), [Layer::Item { null: Some(_) }])
    }

    /// Refuses definition levels that no layer owns.
    pub fn check_def(&self, levels: &[u16]) -> Result<()> {
        let max = levels.iter().copied().fold(0, u16::max);
        if max > self.max_def() {
            return Err(Error::corrupt(format!(
                "definition level {max}, but the layers end at {}",
                self.max_def()
            )));
        }
        Ok(())
    }

    /// Refuses repetition levels above the number of lists.
    pub fn check_rep(&self, levels: &[u16]) -> Result<()> {
        let max = levels.iter().copied().fold(0, u16::max);
        if max > self.max_rep {
            return Err(Error::corrupt(format!(
                "repetition level {max} in a column of {} lists",
                self.max_rep
            )));
        }
        Ok(())
    }

    /// Number of slots that own a value.
    pub fn count_visible(&self, def: Option<&[u16]>, slots: usize) -> usize {
        match def {
            Some(def) if self.max_visible < self.max_def() => {
                def.iter().filter(|&&level| level <= self.max_visible).count()
            }
            _ => slots,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeKind::{Item, List};

    #[test]
    fn levels_are_numbered_leaf_first() {
        let layers = Layers::parse(&[3, 1, 3], &[Item, Item, Item]).unwrap();
        let null = |null| Layer::Item { null };
        assert_eq!(layers.layers(), &[null(Some(1)), null(None), null(Some(2))]);
        assert_eq!(
            (layers.max_def(), layers.max_visible(), layers.max_rep()),
            (2, 2, 0)
        );
        assert!(layers.check_def(&[0, 1, 2]).is_ok());
        assert!(layers.check_def(&[3]).is_err());
    }

    #[test]
    fn values_end_at_the_first_list() {
        // list<struct<l: list<int32>>>, leaf l.item (format chapter 21, 3.2).
        let layers = Layers::parse(&[3, 6, 3, 6], &[Item, List, Item, List]).unwrap();
        assert_eq!(
            (layers.max_def(), layers.max_visible(), layers.max_rep()),
            (6, 1, 2)
        );
        assert_eq!(
            (0..=6).map(|l| layers.depth_of(l)).collect::<Vec<_>>(),
            [0, 0, 1, 1, 1, 2, 2]
        );
        assert_eq!(layers.count_visible(Some(&[0, 1, 2, 3, 6]), 5), 2);
    }

    #[test]
    fn wrong_layers_are_refused() {
        assert!(Layers::parse(&[3], &[Item, Item]).is_err());
        assert!(Layers::parse(&[0], &[Item]).is_err());
        assert!(Layers::parse(&[7], &[Item]).is_err());
        assert!(Layers::parse(&[2], &[Item]).is_err());
        assert!(Layers::parse(&[3], &[List]).is_err());
    }
}
