//! Run-length encoding of fixed-width values (format chapter 22, 4.7).
//!
//! ```text
//! mini-block: buffer 0 = m run values of T bits | buffer 1 = m run lengths of u8, each >= 1
//! block:      u64 size of the run values | run values | run lengths
//! ```
//!
//! A run above 255 values is split, full pieces first. In a mini-block the run lengths may add up to more than `n`: older
//! writers let the last run of a chunk reach into the next one. A block must match exactly.

use crate::bitpack::Lane;
use crate::error::{CodecError, Result, corrupt, invalid};

/// The longest run of one entry.
pub const MAX_RUN: usize = u8::MAX as usize;
/// Bytes of the size in front of the block form.
const BLOCK_HEADER: usize = 8;
/// A run is first written as this many values at once, when there is room.
const STRIDE: usize = 16;

/// Number of runs of equal values.
pub fn run_count<T: Lane>(values: &[T]) -> usize {
    let changes: usize = values
        .iter()
        .zip(values.iter().skip(1))
        .map(|(a, b)| usize::from(a != b))
        .sum();
    changes + usize::from(!values.is_empty())
}

/// Number of entries that [`encode`] writes: runs, cut at 255 values. Each takes `T::BYTES + 1` bytes.
pub fn entry_count<T: Lane>(values: &[T]) -> usize {
    values
        .chunk_by(|a, b| a == b)
        .map(|run| run.len().div_ceil(MAX_RUN))
        .sum()
}

/// Appends the two buffers of a mini-block.
pub fn encode<T: Lane>(values: &[T], run_values: &mut Vec<u8>, run_lengths: &mut Vec<u8>) {
    for run in values.chunk_by(|a, b| a == b) {
        for piece in run.chunks(MAX_RUN) {
            if let Some(value) = piece.first() {
                value.write_le(run_values);
                run_lengths.push(piece.len() as u8);
            }
        }
    }
}

/// Appends the block form.
pub fn encode_block<T: Lane>(values: &[T], out: &mut Vec<u8>) {
    let (mut run_values, mut run_lengths) = (Vec::new(), Vec::new());
    encode(values, &mut run_values, &mut run_lengths);
    out.extend_from_slice(&(run_values.len() as u64).to_le_bytes());
    out.append(&mut run_values);
    out.append(&mut run_lengths);
}

/// Expands the two buffers of a mini-block to `n` values in `out`, whose length is `n`. Whatever is beyond `n` is ignored.
///
/// # Errors
/// Corrupt if the buffers disagree on the number of runs, a run needed is empty, or the runs end before `n`; invalid if
/// `out.len() != n`.
pub fn decode<T: Lane>(run_values: &[u8], run_lengths: &[u8], n: usize, out: &mut [T]) -> Result<()> {
    check_output(n, out.len())?;
    check_runs::<T>(run_values, run_lengths)?;
    expand(run_values, run_lengths, out).map(drop)
}

/// Expands the block form to exactly `n` values in `out`, whose length is `n`.
///
/// # Errors
/// As [`decode`], and corrupt if the runs go beyond `n` or the size in front is not in the block.
pub fn decode_block<T: Lane>(buf: &[u8], n: usize, out: &mut [T]) -> Result<()> {
    check_output(n, out.len())?;
    let (run_values, run_lengths) = split_block::<T>(buf)?;
    let end = expand(run_values, run_lengths, out)?;
    if end.entries != run_lengths.len() || end.surplus > 0 {
        return corrupt(format!("runs of a block hold more than its {n} values"));
    }
    Ok(())
}

/// Number of values in the block form: the sum of its run lengths.
///
/// # Errors
/// Corrupt if the size in front is not in the block or the run values and lengths disagree on the number of runs.
pub fn block_value_count<T: Lane>(buf: &[u8]) -> Result<u64> {
    let (_, run_lengths) = split_block::<T>(buf)?;
    Ok(run_lengths.iter().map(|&len| u64::from(len)).sum())
}

/// How far an expansion read.
struct End {
    /// Entries used.
    entries: usize,
    /// Values of the last entry that had no place.
    surplus: usize,
}

fn expand<T: Lane>(run_values: &[u8], run_lengths: &[u8], out: &mut [T]) -> Result<End> {
    let n = out.len();
    let mut rest = out;
    let mut entries = 0;
    let mut surplus = 0;
    for (value, &len) in run_values.chunks_exact(T::BYTES).zip(run_lengths) {
        if rest.is_empty() {
            break;
        }
        if len == 0 {
            return corrupt(format!("run {entries} is empty"));
        }
        let value = T::read_le(value).unwrap_or_default();
        let len = usize::from(len);
        let taken = len.min(rest.len());
        surplus = len - taken;
        fill(rest, taken, value);
        rest = rest.split_at_mut_checked(taken).unwrap_or_default().1;
        entries += 1;
    }
    if !rest.is_empty() {
        return corrupt(format!("runs hold {} values, expected {n}", n - rest.len()));
    }
    Ok(End { entries, surplus })
}

/// Writes `len` values, and possibly more behind them that a later run overwrites: short runs cost one wide store.
#[inline(always)]
fn fill<T: Lane>(out: &mut [T], len: usize, value: T) {
    if let (true, Some(head)) = (len <= STRIDE, out.first_chunk_mut::<STRIDE>()) {
        *head = [value; STRIDE];
    } else if let Some(run) = out.get_mut(..len) {
        run.fill(value);
    }
}

fn check_output(n: usize, len: usize) -> Result<()> {
    if len != n {
        return invalid(format!("output of {len} values for {n} run-length encoded ones"));
    }
    Ok(())
}

fn check_runs<T: Lane>(run_values: &[u8], run_lengths: &[u8]) -> Result<()> {
    if Some(run_values.len()) != run_lengths.len().checked_mul(T::BYTES) {
        return corrupt(format!(
            "{} bytes of {}-bit run values for {} run lengths",
            run_values.len(),
            T::BITS,
            run_lengths.len()
        ));
    }
    Ok(())
}

fn split_block<T: Lane>(buf: &[u8]) -> Result<(&[u8], &[u8])> {
    let parts = u64::read_le(buf).and_then(|size| {
        let rest = buf.get(BLOCK_HEADER..)?;
        rest.split_at_checked(usize::try_from(size).ok()?)
    });
    let (run_values, run_lengths) = parts
        .ok_or_else(|| CodecError::Corrupt(format!("run values exceed the block of {} bytes", buf.len())))?;
    check_runs::<T>(run_values, run_lengths)?;
    Ok((run_values, run_lengths))
}
