//! Compressing many values at once.
//!
//! The next code depends on the length of the one before: a chain of loads and compares of some twenty cycles a code, while
//! the core could do four of them side by side. So a block of values is cut in four parts that are compressed in turn, one
//! code each. A step has no branch on what it finds, ends of values included.

use super::SymbolTable;
use super::encode::{Matcher, word_at};
use crate::error::{Result, invalid};

/// Parts of a block.
const LANES: usize = 4;
/// Bytes of a part, about.
const LANE_BYTES: usize = 16 << 10;

impl SymbolTable {
    /// Appends the codes of the values that `offsets` cut from `bytes` to `out`, and after each value the length of `out` to
    /// `ends`.
    ///
    /// # Errors
    /// Invalid if the offsets decrease or reach outside of `bytes`.
    pub fn compress_all(
        &self,
        offsets: &[i64],
        bytes: &[u8],
        out: &mut Vec<u8>,
        ends: &mut Vec<i64>,
    ) -> Result<()> {
        let offsets = checked(offsets, bytes)?;
        let (mut codes, mut code_ends) = (Vec::new(), Vec::new());
        let mut rest = offsets.as_slice();
        while rest.len() > 1 {
            let mut parts: [&[usize]; LANES] = [&[]; LANES];
            for part in &mut parts {
                (*part, rest) = cut(rest);
            }
            self.compress_parts(parts, bytes, &mut codes, &mut code_ends, |codes, lens| {
                ends.extend(lens.iter().map(|len| (out.len() + len) as i64));
                out.extend_from_slice(codes);
            });
        }
        Ok(())
    }

    /// Compresses the parts of one block and hands out the codes of each with the ends of its values.
    fn compress_parts(
        &self,
        parts: [&[usize]; LANES],
        bytes: &[u8],
        codes: &mut Vec<u8>,
        ends: &mut Vec<usize>,
        mut append: impl FnMut(&[u8], &[usize]),
    ) {
        let needed = parts.iter().map(|part| room(part)).sum::<usize>();
        codes.resize(needed.max(codes.len()), 0);
        let needed = parts.iter().map(|part| part.len()).sum::<usize>();
        ends.resize(needed.max(ends.len()), 0);
        let (mut codes, mut ends) = (codes.as_mut_slice(), ends.as_mut_slice());
        let mut lanes = parts.map(|part| {
            let (own_codes, other_codes) = std::mem::take(&mut codes).split_at_mut(room(part));
            let (own_ends, other_ends) = std::mem::take(&mut ends).split_at_mut(part.len());
            (codes, ends) = (other_codes, other_ends);
            Lane::new(bytes, part, own_codes, own_ends)
        });
        if self.is_coded() {
            let matcher = self.matcher();
            while lanes.iter().all(|lane| !lane.is_done()) {
                lanes.iter_mut().for_each(|lane| lane.step(matcher));
            }
            for lane in &mut lanes {
                while !lane.is_done() {
                    lane.step(matcher);
                }
            }
        } else {
            lanes.iter_mut().for_each(Lane::copy);
        }
        for lane in &lanes {
            let ends = lane.ends.get(..lane.value).unwrap_or_default();
            append(lane.codes.get(..lane.len).unwrap_or_default(), ends);
        }
    }
}

/// The offsets as numbers, in order and inside of `bytes`.
fn checked(offsets: &[i64], bytes: &[u8]) -> Result<Vec<usize>> {
    let inside = |&last: &i64| usize::try_from(last).is_ok_and(|last| last <= bytes.len());
    if !offsets.is_sorted()
        || offsets.first().is_some_and(|&first| first < 0)
        || !offsets.last().is_none_or(inside)
    {
        return invalid("offsets decrease or reach outside of the bytes");
    }
    Ok(offsets.iter().map(|&offset| offset as usize).collect())
}

/// The offsets of the next part, at least one value if there is any, and those of the rest.
fn cut(offsets: &[usize]) -> (&[usize], &[usize]) {
    let Some(&first) = offsets.first() else {
        return (&[], &[]);
    };
    let fit = offsets.partition_point(|&offset| offset <= first + LANE_BYTES);
    let end = fit.max(2).min(offsets.len());
    // The last offset of a part is the first of the next.
    offsets.get(..end).zip(offsets.get(end - 1..)).unwrap_or_default()
}

/// Bytes that the codes of a part may take, and two more: each step writes two.
fn room(part: &[usize]) -> usize {
    match part {
        [first, .., last] => 2 * (last - first) + 2,
        _ => 2,
    }
}

/// One part of a block on its way.
struct Lane<'a> {
    bytes: &'a [u8],
    /// Where each value ends in `bytes`.
    value_ends: &'a [usize],
    /// Next byte.
    position: usize,
    /// Value it belongs to.
    value: usize,
    codes: &'a mut [u8],
    /// Codes so far.
    len: usize,
    /// Where each value ends in `codes`.
    ends: &'a mut [usize],
}

impl<'a> Lane<'a> {
    fn new(bytes: &'a [u8], offsets: &'a [usize], codes: &'a mut [u8], ends: &'a mut [usize]) -> Self {
        Self {
            bytes,
            value_ends: offsets.get(1..).unwrap_or_default(),
            position: offsets.first().copied().unwrap_or(0),
            value: 0,
            codes,
            len: 0,
            ends,
        }
    }

    fn is_done(&self) -> bool {
        self.value >= self.value_ends.len()
    }

    /// Writes one code, or ends an empty value.
    #[inline(always)]
    fn step(&mut self, matcher: &Matcher) {
        let Some((&value_end, end)) = self.value_ends.get(self.value).zip(self.ends.get_mut(self.value))
        else {
            return;
        };
        let left = value_end - self.position;
        let word = word_at(self.bytes, self.position);
        let found = matcher.find_side_by_side(word, left);
        if let Some(slot) = self
            .codes
            .get_mut(self.len..)
            .and_then(|rest| rest.first_chunk_mut())
        {
            // Both bytes are written; an escape keeps the second.
            *slot = [found.code(), word as u8];
        }
        let some = usize::from(left > 0);
        self.len += some + (some & usize::from(found.is_escape()));
        self.position += some * found.len();
        *end = self.len;
        self.value += usize::from(self.position >= value_end);
    }

    /// Takes the bytes as they are.
    fn copy(&mut self) {
        let (first, last) = (
            self.position,
            self.value_ends.last().copied().unwrap_or(self.position),
        );
        let bytes = self.bytes.get(first..last).unwrap_or_default();
        if let Some(codes) = self.codes.get_mut(..bytes.len()) {
            codes.copy_from_slice(bytes);
        }
        for (end, value_end) in self.ends.iter_mut().zip(self.value_ends) {
            *end = value_end - first;
        }
        (self.len, self.value) = (bytes.len(), self.value_ends.len());
    }
}
