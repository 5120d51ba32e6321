//! Definition levels of a page, from the validity of the nodes on its path (format chapter 21, 3.3).

use arrow_buffer::NullBuffer;
use glaive_codec::bitpack::{bit_width, inline, out_of_line};
use glaive_codec::rle;

use super::message;
use crate::FileVersion;
use crate::proto::lance::encodings21::CompressiveEncoding;

/// Definition levels of a page and what they mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLevels {
    /// Leaf first: whether the page has nulls at this node.
    nullable: Vec<bool>,
    /// One level a slot; `None` when there is no null at all.
    levels: Option<Vec<u16>>,
    len: usize,
    nulls: usize,
}

impl PageLevels {
    /// Levels of a page made of pieces; each piece has its rows and its validity by node, leaf first.
    pub fn new<'a>(
        depth: usize,
        pieces: impl Iterator<Item = (usize, &'a [Option<NullBuffer>])> + Clone,
    ) -> Self {
        let has_nulls = |node: &Option<NullBuffer>| node.as_ref().is_some_and(|n| n.null_count() > 0);
        let mut nullable = vec![false; depth];
        let mut len = 0;
        for (rows, nodes) in pieces.clone() {
            len += rows;
            for (nullable, node) in nullable.iter_mut().zip(nodes) {
                *nullable |= has_nulls(node);
            }
        }
        if !nullable.contains(&true) {
            return Self {
                nullable,
                levels: None,
                len,
                nulls: 0,
            };
        }
        let mut levels = Vec::with_capacity(len);
        for (rows, nodes) in pieces {
            let start = levels.len();
            levels.resize(start + rows, 0u16);
            // Leaf first, so that an outer null overwrites what lies below it.
            let own_level = nodes.iter().zip(&nullable).filter(|(_, nullable)| **nullable);
            for (level, (node, _)) in (1u16..).zip(own_level) {
                let Some(node) = node else { continue };
                for (slot, valid) in levels.iter_mut().skip(start).zip(node.iter()) {
                    *slot = if valid { *slot } else { level };
                }
            }
        }
        let nulls = levels.iter().filter(|&&level| level != 0).count();
        Self {
            nullable,
            levels: Some(levels),
            len,
            nulls,
        }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Leaf first: whether the page has nulls at this node.
    pub fn nullable(&self) -> &[bool] {
        &self.nullable
    }

    /// The levels; `None` when all slots are valid.
    pub fn levels(&self) -> Option<&[u16]> {
        self.levels.as_deref()
    }

    /// Whether no slot has a value.
    pub fn all_null(&self) -> bool {
        self.nulls == self.len
    }

    /// The largest level that occurs.
    pub fn max(&self) -> u16 {
        self.levels()
            .unwrap_or_default()
            .iter()
            .copied()
            .fold(0, u16::max)
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
    /// The smallest codec for levels that are cut after `chunk_ends`. Run-length levels are 2.2 only.
    pub fn choose(levels: &[u16], chunk_lens: &[usize], version: FileVersion) -> Self {
        let width = bit_width(levels);
        let packed = match levels.len() {
            0..=1024 => Self::Inline,
            _ => Self::OutOfLine { width },
        };
        let mut candidates = vec![packed, Self::Flat];
        if version >= FileVersion::V2_2 {
            candidates.insert(0, Self::Rle);
        }
        let size = |codec: &Self| -> usize {
            let mut rest = levels;
            let cut = |&len: &usize| {
                let (chunk, tail) = rest.split_at_checked(len).unwrap_or((rest, &[]));
                rest = tail;
                codec.encoded_len(chunk)
            };
            chunk_lens.iter().map(cut).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn nulls(bits: &[u8]) -> Option<NullBuffer> {
        Some(bits.iter().map(|&b| b == 1).collect::<Vec<_>>().into())
    }

    #[test]
    fn the_outermost_null_names_the_level() {
        let nodes = [nulls(&[1, 0, 1, 0]), nulls(&[1, 1, 0, 0])];
        let levels = PageLevels::new(2, [(4, &nodes[..])].into_iter());
        assert_eq!(levels.levels().unwrap(), &[0, 1, 2, 2]);
        assert!(!levels.all_null());
    }

    #[test]
    fn a_node_without_nulls_takes_no_level() {
        let nodes = [nulls(&[1, 1]), nulls(&[1, 0])];
        let levels = PageLevels::new(2, [(2, &nodes[..])].into_iter());
        assert_eq!(levels.nullable(), &[false, true]);
        assert_eq!(levels.levels().unwrap(), &[0, 1]);
    }
}
