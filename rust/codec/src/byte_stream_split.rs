//! Byte stream split of 4- and 8-byte values (format chapter 22, 4.8).
//!
//! All first bytes of the `n` values, then all second bytes, and so on: `out[i * w + j] = in[j * n + i]`. Nothing is
//! saved; a general compressor around it finds more in bytes of the same kind.

use crate::error::{CodecError, Result, corrupt, invalid};

/// Values turned at once: each stream gives one vector register.
const STEP: usize = 16;

/// Appends the streams of `values`, values of `width` bytes (4 or 8).
///
/// # Errors
/// Unsupported for another width, invalid if the length is no multiple of it.
pub fn encode(width: usize, values: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if !check_width(width)?.divides(values.len()) {
        return invalid(format!("{} bytes are no values of {width} bytes", values.len()));
    }
    let start = out.len();
    out.resize(start + values.len(), 0);
    let streams = out.get_mut(start..).unwrap_or_default();
    match width {
        4 => split::<4>(values, streams),
        _ => split::<8>(values, streams),
    }
    Ok(())
}

/// Puts the values of `width` bytes (4 or 8) back together. `out` has the length of `buf`.
///
/// # Errors
/// Unsupported for another width, corrupt if the length is no multiple of the width or not that of the output.
pub fn decode(width: usize, buf: &[u8], out: &mut [u8]) -> Result<()> {
    if !check_width(width)?.divides(buf.len()) || buf.len() != out.len() {
        return corrupt(format!(
            "{} bytes of split streams for {} bytes of {width}-byte values",
            buf.len(),
            out.len()
        ));
    }
    match width {
        4 => join::<4>(buf, out),
        _ => join::<8>(buf, out),
    }
    Ok(())
}

struct Width(usize);

impl Width {
    fn divides(&self, len: usize) -> bool {
        len.is_multiple_of(self.0)
    }
}

fn check_width(width: usize) -> Result<Width> {
    match width {
        4 | 8 => Ok(Width(width)),
        _ => Err(CodecError::Unsupported(format!(
            "byte stream split of {width}-byte values, only 4 and 8 are known"
        ))),
    }
}

fn split<const W: usize>(values: &[u8], streams: &mut [u8]) {
    let (values, _) = values.as_chunks::<W>();
    for (j, stream) in streams.chunks_exact_mut(values.len().max(1)).enumerate() {
        for (byte, value) in stream.iter_mut().zip(values) {
            *byte = value.get(j).copied().unwrap_or(0);
        }
    }
}

fn join<const W: usize>(streams: &[u8], out: &mut [u8]) {
    let (values, _) = out.as_chunks_mut::<W>();
    let n = values.len();
    let streams: [&[u8]; W] = std::array::from_fn(|j| streams.get(j * n..(j + 1) * n).unwrap_or_default());
    let (blocks, tail) = values.as_chunks_mut::<STEP>();
    let done = blocks.len() * STEP;
    for (b, block) in blocks.iter_mut().enumerate() {
        let rows = streams.map(|s| {
            s.get(b * STEP..)
                .and_then(|s| s.first_chunk().copied())
                .unwrap_or_default()
        });
        transpose(&rows, block);
    }
    for (i, value) in tail.iter_mut().enumerate() {
        *value = streams.map(|s| s.get(done + i).copied().unwrap_or(0));
    }
}

/// Constant bounds: the compiler unrolls this into byte interleaves.
#[inline(always)]
fn transpose<const W: usize>(rows: &[[u8; STEP]; W], out: &mut [[u8; W]; STEP]) {
    for (i, value) in out.iter_mut().enumerate() {
        for (byte, row) in value.iter_mut().zip(rows) {
            *byte = row.get(i).copied().unwrap_or(0);
        }
    }
}
