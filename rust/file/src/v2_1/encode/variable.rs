//! Variable-width values: dictionary, FSST or plain; in chunks when narrow, zipped when wide (format chapter 22, 8).

use std::borrow::Cow;

use glaive_codec::fsst::SymbolTable;
use glaive_codec::variable::mini_block;

use super::chunks::{self, Chunk, ChunkedValues, sizes};
use super::leaf::LeafValues;
use super::levels::PageLevels;
use super::options::{ColumnOptions, Compression, Structural};
use super::{EncodedPage, FULL_ZIP_BYTES, dictionary, full_zip, message};
use crate::proto::lance::encodings21::CompressiveEncoding;
use crate::{FileVersion, Result};

/// FSST pays for its symbol table of 2,312 bytes only from here.
const FSST_MIN_BYTES: usize = 32 * 1024;

/// Values shorter than this leave FSST nothing to find.
const FSST_MIN_LONGEST: usize = 5;

/// Encodes a page of variable-width values.
pub fn encode(
    values: &LeafValues,
    levels: &PageLevels,
    options: &ColumnOptions,
) -> Result<Option<EncodedPage>> {
    if let Some(dictionary) = dictionary::of_variable(values, levels.of_values(), options)? {
        return Ok(chunks::mini_block(
            dictionary.indices,
            Some(dictionary.items),
            levels,
            options.version,
        ));
    }
    let longest = values.longest();
    let zipped = match options.structural {
        Structural::Auto => longest >= FULL_ZIP_BYTES,
        // Two values must fit a chunk.
        Structural::MiniBlock => longest * 2 + 1024 > chunk_limit(options),
        Structural::FullZip => true,
    };
    if zipped {
        return full_zip::variable(values, longest, levels, options).map(Some);
    }
    let (coded, codec) = fsst(values, longest, options)?;
    let chunked = chunk(&coded, codec, options)?.compressed(options)?;
    Ok(chunks::mini_block(chunked, None, levels, options.version))
}

/// Bytes that a chunk can have.
fn chunk_limit(options: &ColumnOptions) -> usize {
    match options.version >= FileVersion::V2_2 {
        true => 1 << 29,
        false => 32 << 10,
    }
}

/// FSST-coded values if that saves space or is asked for, else the values as they are.
pub fn fsst<'a>(
    values: &'a LeafValues,
    longest: usize,
    options: &ColumnOptions,
) -> Result<(Cow<'a, LeafValues>, CompressiveEncoding)> {
    let plain = || (Cow::Borrowed(values), message::variable(values.offset_bits));
    let pays = values.bytes.len() >= FSST_MIN_BYTES && longest >= FSST_MIN_LONGEST;
    match options.compression {
        Compression::Auto if values.utf8 && pays => {}
        Compression::Fsst if pays => {}
        Compression::Fsst => return Ok(stored(values)),
        _ => return Ok(plain()),
    }
    let table = SymbolTable::train(values.iter());
    let mut coded = LeafValues::empty(values.offset_bits, values.utf8);
    coded.bytes.reserve(values.bytes.len() / 2);
    coded.offsets.reserve(values.len());
    table.compress_all(
        &values.offsets,
        &values.bytes,
        &mut coded.bytes,
        &mut coded.offsets,
    )?;
    let table = table.to_bytes();
    if coded.bytes.len() + table.len() < values.bytes.len() {
        let codec = message::fsst(table.to_vec(), values.offset_bits);
        return Ok((Cow::Owned(coded), codec));
    }
    Ok(match options.compression {
        Compression::Fsst => stored(values),
        _ => plain(),
    })
}

/// An FSST page whose table says that the values stand as they are.
fn stored(values: &LeafValues) -> (Cow<'_, LeafValues>, CompressiveEncoding) {
    let table = SymbolTable::stored().to_bytes().to_vec();
    (Cow::Borrowed(values), message::fsst(table, values.offset_bits))
}

fn chunk(values: &LeafValues, codec: CompressiveEncoding, options: &ColumnOptions) -> Result<ChunkedValues> {
    let limits = ChunkLimits {
        values: (options.max_chunk_values / 2).max(2),
        bytes: usize::try_from(options.chunk_bytes).unwrap_or(0),
    };
    let mut data =
        Vec::with_capacity(values.bytes.len() + values.offsets.len() * usize::from(values.offset_bits / 8));
    let mut chunks = Vec::new();
    let mut rest = values.offsets.as_slice();
    while rest.len() > 1 {
        let n = chunk_len(rest, usize::from(values.offset_bits / 8), &limits);
        let start = data.len();
        let window = rest.get(..=n).unwrap_or(rest);
        mini_block::encode(values.offset_bits, window, &values.bytes, &mut data)?;
        chunks.push(Chunk {
            values: n,
            sizes: sizes(data.len() - start, 0),
        });
        rest = rest.get(n..).unwrap_or_default();
    }
    Ok(ChunkedValues {
        codec,
        num_buffers: 1,
        chunks,
        data,
    })
}

/// What a chunk stays below, if it has more than two values.
struct ChunkLimits {
    values: usize,
    /// Offsets and bytes.
    bytes: usize,
}

/// Values of the next chunk: all that are left if they fit, else the largest power of two that does, at least 2.
fn chunk_len(offsets: &[i64], width: usize, limits: &ChunkLimits) -> usize {
    let left = offsets.len() - 1;
    let size = |n: usize| {
        let bytes = offsets
            .get(n)
            .zip(offsets.first())
            .map_or(i64::MAX, |(end, start)| end - start);
        (bytes as usize).saturating_add(width * (n + 1))
    };
    if left <= limits.values && (left <= 2 || size(left) <= limits.bytes) {
        return left;
    }
    let mut n = 2;
    while n * 2 <= limits.values && n * 2 < left && size(n * 2) <= limits.bytes {
        n *= 2;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ChunkLimits = ChunkLimits {
        values: 2048,
        bytes: 4096,
    };

    #[test]
    fn chunks_are_powers_of_two_and_the_rest() {
        let short: Vec<i64> = (0..=5000).map(|i| i * 2).collect();
        assert_eq!(chunk_len(&short, 4, &LIMITS), 512);
        assert_eq!(chunk_len(&short[4800..], 4, &LIMITS), 200);
        let long: Vec<i64> = (0..=5).map(|i| i * 250 * 16).collect();
        assert_eq!(chunk_len(&long, 4, &LIMITS), 2);
        assert_eq!(chunk_len(&[0, 7], 4, &LIMITS), 1);
        assert_eq!(chunk_len(&[0, 9000, 18000], 4, &LIMITS), 2);
        assert_eq!(chunk_len(&[0, 9000, 18000, 27000], 4, &LIMITS), 2);
    }
}
