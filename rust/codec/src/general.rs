//! General compression of one buffer with zstd or lz4 (format chapter 22, 4.9).
//!
//! ```text
//! zstd: u64 uncompressed length | one zstd frame
//! lz4:  u32 uncompressed length | one raw lz4 block
//! ```
//!
//! Older writers wrote zstd without the length. Such a payload starts with the frame magic; a payload with a length could
//! only do so for an enormous length, told apart by the reserved bit of the frame header.
//!
//! The length in front comes from the file, so it is checked before anything is allocated: against what the caller can
//! use, and against the best ratio the compressor can reach.

use std::cell::RefCell;
use std::io::Read;

use zstd::bulk::{Compressor, Decompressor};

use crate::cursor::ByteCursor;
use crate::error::{CodecError, Result, corrupt, invalid};

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_RESERVED_BIT: u8 = 0x10;
/// Window of a bare zstd stream, the limit of the zstd command line tool: 128 MiB.
const ZSTD_MAX_WINDOW_LOG: u32 = 27;
/// A zstd block makes at most 128 KiB and takes at least 4 bytes.
const ZSTD_BLOCK: u64 = 128 << 10;
const ZSTD_MAX_RATIO: u64 = ZSTD_BLOCK / 4;
/// One byte of an lz4 block adds at most 255 bytes.
const LZ4_MAX_RATIO: u64 = 255;

/// A general compressor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// lz4 blocks; knows no levels.
    Lz4,
    /// zstd frames.
    Zstd,
}

/// Appends the compressed form of `input`. Without a level, and with level 0, zstd uses its default; lz4 ignores it.
///
/// # Errors
/// Invalid if an lz4 input is above 4 GiB or zstd refuses the level.
pub fn compress(scheme: Scheme, level: Option<i32>, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match scheme {
        Scheme::Lz4 => compress_lz4(input, out),
        Scheme::Zstd => compress_zstd(level.unwrap_or(0), input, out),
    }
}

/// Appends the decompressed form of `input`, at most `max_len` bytes.
///
/// # Errors
/// Corrupt if the payload is damaged or claims or holds more than `max_len` bytes.
pub fn decompress(scheme: Scheme, input: &[u8], max_len: usize, out: &mut Vec<u8>) -> Result<()> {
    match (scheme, uncompressed_len(scheme, input)?) {
        (Scheme::Lz4, len) => {
            decompress_lz4(input.get(4..).unwrap_or_default(), len.unwrap_or(0), max_len, out)
        }
        (Scheme::Zstd, Some(0)) if input.is_empty() => Ok(()),
        (Scheme::Zstd, Some(len)) => decompress_zstd(input.get(8..).unwrap_or_default(), len, max_len, out),
        (Scheme::Zstd, None) => decompress_bare_zstd(input, max_len, out),
    }
}

/// The uncompressed length a payload claims; `None` for a zstd stream without a length in front.
///
/// # Errors
/// Corrupt if the payload is shorter than its length field.
pub fn uncompressed_len(scheme: Scheme, input: &[u8]) -> Result<Option<u64>> {
    let mut cursor = ByteCursor::new(input);
    match scheme {
        Scheme::Lz4 => cursor.u32().map(|len| Some(len.into())),
        Scheme::Zstd if input.is_empty() => Ok(Some(0)),
        Scheme::Zstd if is_bare_zstd(input) => Ok(None),
        Scheme::Zstd => cursor.u64().map(Some),
    }
}

fn is_bare_zstd(input: &[u8]) -> bool {
    let magic = matches!(input, [a, b, c, d, flags, ..]
        if [*a, *b, *c, *d] == ZSTD_MAGIC && flags & ZSTD_RESERVED_BIT == 0);
    input.len() < 8 || magic
}

/// The length as a `usize`, if it is possible and wanted.
fn check_len(len: u64, possible: u64, max_len: usize) -> Result<usize> {
    match usize::try_from(len) {
        Ok(len_usize) if len_usize <= max_len && len <= possible => Ok(len_usize),
        _ => corrupt(format!(
            "compressed buffer claims {len} bytes, at most {} are possible",
            possible.min(max_len as u64)
        )),
    }
}

fn compress_lz4(input: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let Ok(len) = u32::try_from(input.len()) else {
        return invalid(format!("{} bytes are too many for one lz4 block", input.len()));
    };
    out.extend_from_slice(&len.to_le_bytes());
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(input.len()), 0);
    let written = lz4_flex::block::compress_into(input, out.get_mut(start..).unwrap_or_default())
        .map_err(|e| CodecError::Invalid(format!("lz4: {e}")))?;
    out.truncate(start + written);
    Ok(())
}

fn decompress_lz4(block: &[u8], len: u64, max_len: usize, out: &mut Vec<u8>) -> Result<()> {
    let possible = (block.len() as u64).saturating_mul(LZ4_MAX_RATIO);
    let len = check_len(len, possible, max_len)?;
    let start = out.len();
    out.resize(start + len, 0);
    let written = lz4_flex::block::decompress_into(block, out.get_mut(start..).unwrap_or_default())
        .map_err(|e| CodecError::Corrupt(format!("lz4: {e}")))?;
    expect_len(written, len)
}

thread_local! {
    // Contexts are dear to make and chunks are small.
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn compress_zstd(level: i32, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(&(input.len() as u64).to_le_bytes());
    let start = out.len();
    out.resize(start + zstd::zstd_safe::compress_bound(input.len()), 0);
    let frame = out.get_mut(start..).unwrap_or_default();
    let written = COMPRESSOR.with_borrow_mut(|slot| {
        let kept = slot.take().filter(|(kept_level, _)| *kept_level == level);
        let (_, compressor) = match kept {
            Some(kept) => slot.insert(kept),
            None => slot.insert((level, Compressor::new(level)?)),
        };
        compressor.compress_to_buffer(input, frame)
    });
    let written = written.map_err(|e| CodecError::Invalid(format!("zstd level {level}: {e}")))?;
    out.truncate(start + written);
    Ok(())
}

fn decompress_zstd(frame: &[u8], len: u64, max_len: usize, out: &mut Vec<u8>) -> Result<()> {
    let possible = (frame.len() as u64).saturating_mul(ZSTD_MAX_RATIO);
    let len = check_len(len, possible, max_len)?;
    let start = out.len();
    out.resize(start + len, 0);
    let output = out.get_mut(start..).unwrap_or_default();
    // Decoding a whole frame into its place needs no window buffer.
    let written = DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(kept) => kept,
            None => slot.insert(Decompressor::new()?),
        };
        decompressor.decompress_to_buffer(frame, output)
    });
    expect_len(written.map_err(corrupt_zstd)?, len)
}

fn decompress_bare_zstd(stream: &[u8], max_len: usize, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    // A frame mostly tells its length. If it turns out wrong, as for two frames in a row, the stream is read piece by piece.
    if let Ok(Some(len)) = zstd::zstd_safe::get_frame_content_size(stream) {
        match decompress_zstd(stream, len, max_len, out) {
            Ok(()) => return Ok(()),
            Err(_) => out.truncate(start),
        }
    }
    let mut decoder = zstd::stream::read::Decoder::new(stream).map_err(corrupt_zstd)?;
    decoder
        .window_log_max(ZSTD_MAX_WINDOW_LOG)
        .map_err(corrupt_zstd)?;
    let one_more = (max_len as u64).saturating_add(1);
    decoder.take(one_more).read_to_end(out).map_err(corrupt_zstd)?;
    if out.len() - start > max_len {
        return corrupt(format!("zstd stream holds more than {max_len} bytes"));
    }
    Ok(())
}

fn expect_len(written: usize, len: usize) -> Result<()> {
    if written != len {
        return corrupt(format!("compressed buffer holds {written} bytes, claims {len}"));
    }
    Ok(())
}

fn corrupt_zstd(error: std::io::Error) -> CodecError {
    CodecError::Corrupt(format!("zstd: {error}"))
}
