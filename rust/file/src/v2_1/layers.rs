//! Layers: which nodes of a column's path consumed definition levels (format chapter 21, 2.1, 3.1 and 3.2).
//!
//! ```text
//! path       struct s  ->  int32 a          (s nullable, a nullable)
//! layers     [NULLABLE_ITEM a, NULLABLE_ITEM s]          leaf first
//! levels     0 = value, 1 = a is null, 2 = s is null     a layer is valid where level < its own level
//! ```

use crate::proto::lance::encodings21::RepDefLayer;
use crate::{Error, Result};

/// The layers of a page of a column without lists, checked against the column's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// Leaf first: the level that means "null here", or `None` where the page has no null.
    null_levels: Vec<Option<u16>>,
    max_def: u16,
}

impl Layers {
    /// Parses the layers of a page; `depth` is the number of nodes on the path, leaf included.
    pub fn parse(layers: &[i32], depth: usize) -> Result<Self> {
        if layers.len() != depth {
            return Err(Error::corrupt(format!(
                "page with {} layers in a column whose path has {depth} nodes",
                layers.len()
            )));
        }
        let mut max_def = 0u16;
        let mut null_levels = Vec::with_capacity(depth);
        for &layer in layers {
            null_levels.push(match RepDefLayer::try_from(layer) {
                Ok(RepDefLayer::RepdefAllValidItem) => None,
                Ok(RepDefLayer::RepdefNullableItem) => {
                    max_def = max_def
                        .checked_add(1)
                        .ok_or_else(|| Error::corrupt("too many layers"))?;
                    Some(max_def)
                }
                Ok(RepDefLayer::RepdefUnspecified) | Err(_) => {
                    return Err(Error::corrupt(format!("unknown layer kind {layer}")));
                }
                Ok(list) => {
                    return Err(Error::corrupt(format!(
                        "layer {} in a column without lists",
                        list.as_str_name()
                    )));
                }
            });
        }
        Ok(Self { null_levels, max_def })
    }

    /// The largest definition level.
    pub fn max_def(&self) -> u16 {
        self.max_def
    }

    /// Leaf first: the level that means "null here".
    pub fn null_levels(&self) -> &[Option<u16>] {
        &self.null_levels
    }

    /// Whether the page is `[NULLABLE_ITEM]`: one layer, the leaf, which can be null.
    pub fn is_single_nullable(&self) -> bool {
        matches!(self.null_levels.as_slice(), [Some(_)])
    }

    /// Refuses levels that no layer owns.
    pub fn check(&self, levels: &[u16]) -> Result<()> {
        let max = levels.iter().copied().fold(0, u16::max);
        if max > self.max_def {
            return Err(Error::corrupt(format!(
                "definition level {max}, but the layers end at {}",
                self.max_def
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_numbered_leaf_first() {
        let layers = Layers::parse(&[3, 1, 3], 3).unwrap();
        assert_eq!(layers.null_levels(), &[Some(1), None, Some(2)]);
        assert_eq!(layers.max_def(), 2);
        assert!(layers.check(&[0, 1, 2]).is_ok());
        assert!(layers.check(&[3]).is_err());
    }

    #[test]
    fn wrong_layers_are_refused() {
        assert!(Layers::parse(&[3], 2).is_err());
        assert!(Layers::parse(&[0], 1).is_err());
        assert!(Layers::parse(&[7], 1).is_err());
        assert!(Layers::parse(&[2], 1).is_err());
    }
}
