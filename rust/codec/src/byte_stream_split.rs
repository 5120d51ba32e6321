//! Byte stream split of 4- and 8-byte values (format chapter 22, 4.8).
//!
//! All first bytes of the `n` values, then all second bytes, and so on: `out[i * w + j] = in[j * n + i]`. Nothing is
//! saved; a general compressor around it finds more in bytes of the same kind.
#![expect(
    clippy::indexing_slicing,
    reason = "the lengths of streams and values are checked before the loops"
)]

use crate::error::{CodecError, Result, corrupt, invalid};

/// 8-byte values joined at once, from two halves of 4 bytes.
const BLOCK: usize = 128;

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
        4 => split4(values, streams),
        _ => split8(values, streams),
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
        4 => join4(buf, out),
        _ => join8(buf, out),
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

fn split4(values: &[u8], streams: &mut [u8]) {
    let (values, _) = values.as_chunks();
    for (j, stream) in streams.chunks_exact_mut(values.len().max(1)).enumerate() {
        for (byte, value) in stream.iter_mut().zip(values) {
            *byte = (u32::from_le_bytes(*value) >> (8 * j)) as u8;
        }
    }
}

fn split8(values: &[u8], streams: &mut [u8]) {
    let (values, _) = values.as_chunks();
    for (j, stream) in streams.chunks_exact_mut(values.len().max(1)).enumerate() {
        for (byte, value) in stream.iter_mut().zip(values) {
            *byte = (u64::from_le_bytes(*value) >> (8 * j)) as u8;
        }
    }
}

fn join4(streams: &[u8], out: &mut [u8]) {
    let (values, _) = out.as_chunks_mut();
    let n = values.len();
    let streams = std::array::from_fn(|j| stream(streams, n, j, 0, n));
    interleave(streams, values);
}

fn join8(streams: &[u8], out: &mut [u8]) {
    let (values, _) = out.as_chunks_mut::<8>();
    let n = values.len();
    let (mut low, mut high) = ([[0; 4]; BLOCK], [[0; 4]; BLOCK]);
    for (b, block) in values.chunks_mut(BLOCK).enumerate() {
        let (start, len) = (b * BLOCK, block.len());
        interleave(
            std::array::from_fn(|j| stream(streams, n, j, start, len)),
            &mut low[..len],
        );
        interleave(
            std::array::from_fn(|j| stream(streams, n, j + 4, start, len)),
            &mut high[..len],
        );
        for ((value, low), high) in block.iter_mut().zip(&low).zip(&high) {
            let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
            *value = (u64::from(low) | u64::from(high) << 32).to_le_bytes();
        }
    }
}

/// `len` bytes of stream `j` of `n` bytes.
fn stream(streams: &[u8], n: usize, j: usize, start: usize, len: usize) -> &[u8] {
    &streams[j * n + start..][..len]
}

/// Value `i` from byte `i` of each stream, by shifts that become vector unpacking.
fn interleave(streams: [&[u8]; 4], out: &mut [[u8; 4]]) {
    let [a, b, c, d] = streams.map(|stream| &stream[..out.len()]);
    for (i, value) in out.iter_mut().enumerate() {
        let low = u16::from(a[i]) | u16::from(b[i]) << 8;
        let high = u16::from(c[i]) | u16::from(d[i]) << 8;
        *value = (u32::from(low) | u32::from(high) << 16).to_le_bytes();
    }
}
