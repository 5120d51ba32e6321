//! Selections of rows: sorted, disjoint, non-empty ranges.

use std::ops::Range;

/// The parts of `rows` inside `window`, relative to its start.
pub fn clip(rows: &[Range<u64>], window: Range<u64>) -> Vec<Range<u64>> {
    let first = rows.partition_point(|r| r.end <= window.start);
    let inside = rows.iter().skip(first).take_while(|r| r.start < window.end);
    inside
        .map(|r| r.start.max(window.start) - window.start..r.end.min(window.end) - window.start)
        .collect()
}

/// Rows in all ranges.
pub fn count(rows: &[Range<u64>]) -> u64 {
    rows.iter().map(|r| r.end - r.start).sum()
}

/// Whether the ranges are exactly `0..length`.
pub fn is_all(rows: &[Range<u64>], length: u64) -> bool {
    matches!(rows, [only] if only.start == 0 && only.end == length)
}

/// Joins ranges that touch.
pub fn from_indices(indices: &[u64]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &index in indices {
        match ranges.last_mut() {
            Some(last) if last.end == index => last.end += 1,
            _ => ranges.push(index..index + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_keeps_what_is_inside() {
        let rows = [0..3, 5..9, 12..13];
        assert_eq!(clip(&rows, 2..6), vec![0..1, 3..4]);
        assert_eq!(clip(&rows, 9..12), vec![]);
        assert_eq!(clip(&rows, 0..100), rows.to_vec());
    }

    #[test]
    fn neighbours_become_one_range() {
        assert_eq!(from_indices(&[1, 2, 3, 7, 9, 10]), vec![1..4, 7..8, 9..11]);
    }
}
