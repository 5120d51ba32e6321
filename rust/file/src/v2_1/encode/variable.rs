//! Variable-width values: dictionary, FSST or plain; in chunks when narrow, zipped when wide (format chapter 22, 8).

use glaive_codec::fsst::SymbolTable;
use glaive_codec::variable::mini_block;

use super::chunks::{self, Chunk, ChunkedValues, sizes};
use super::leaf::LeafValues;
use super::levels::PageLevels;
use super::{EncodedPage, FULL_ZIP_BYTES, dictionary, full_zip, message};
use crate::proto::lance::encodings21::CompressiveEncoding;
use crate::{FileVersion, Result};

/// Offsets and bytes of a chunk stay below this where two values allow it.
const CHUNK_TARGET: usize = 4096;

/// Values of a chunk at most.
const MAX_CHUNK_VALUES: usize = 2048;

/// FSST pays for its symbol table of 2,312 bytes only from here.
const FSST_MIN_BYTES: usize = 32 * 1024;

/// Values shorter than this leave FSST nothing to find.
const FSST_MIN_LONGEST: usize = 5;

/// Encodes a page of variable-width values.
pub fn encode(values: &LeafValues, levels: &PageLevels, version: FileVersion) -> Result<Option<EncodedPage>> {
    if let Some(dictionary) = dictionary::of_variable(values, version)? {
        return Ok(chunks::mini_block(
            dictionary.indices,
            Some(dictionary.items),
            levels,
            version,
        ));
    }
    let longest = values.longest();
    let coded = if values.utf8 { fsst(values, longest) } else { None };
    if longest >= FULL_ZIP_BYTES {
        return full_zip::variable(values, coded, longest, levels).map(Some);
    }
    let chunked = match &coded {
        Some((coded, codec)) => chunk(coded, codec.clone())?,
        None => chunk(values, message::variable(values.offset_bits))?,
    };
    Ok(chunks::mini_block(chunked, None, levels, version))
}

/// FSST-coded values, if that saves space.
fn fsst(values: &LeafValues, longest: usize) -> Option<(LeafValues, CompressiveEncoding)> {
    if values.bytes.len() < FSST_MIN_BYTES || longest < FSST_MIN_LONGEST {
        return None;
    }
    let table = SymbolTable::train(values.iter());
    let mut bytes = Vec::with_capacity(values.bytes.len() / 2);
    let mut offsets = Vec::with_capacity(values.offsets.len());
    offsets.push(0);
    for value in values.iter() {
        table.compress(value, &mut bytes);
        offsets.push(bytes.len() as i64);
    }
    let table = table.to_bytes();
    if bytes.len() + table.len() >= values.bytes.len() {
        return None;
    }
    let codec = message::fsst(table.to_vec(), values.offset_bits);
    Some((
        LeafValues {
            offsets,
            bytes,
            offset_bits: values.offset_bits,
            utf8: values.utf8,
        },
        codec,
    ))
}

fn chunk(values: &LeafValues, codec: CompressiveEncoding) -> Result<ChunkedValues> {
    let mut data =
        Vec::with_capacity(values.bytes.len() + values.offsets.len() * usize::from(values.offset_bits / 8));
    let mut chunks = Vec::new();
    let mut rest = values.offsets.as_slice();
    while rest.len() > 1 {
        let n = chunk_len(rest, usize::from(values.offset_bits / 8));
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

/// Values of the next chunk: all that are left if they fit, else the largest power of two that does, at least 2.
fn chunk_len(offsets: &[i64], width: usize) -> usize {
    let left = offsets.len() - 1;
    let size = |n: usize| {
        let bytes = offsets
            .get(n)
            .zip(offsets.first())
            .map_or(i64::MAX, |(end, start)| end - start);
        (bytes as usize).saturating_add(width * (n + 1))
    };
    if left <= MAX_CHUNK_VALUES && (left <= 2 || size(left) <= CHUNK_TARGET) {
        return left;
    }
    let mut n = 2;
    while n * 2 <= MAX_CHUNK_VALUES && n * 2 < left && size(n * 2) <= CHUNK_TARGET {
        n *= 2;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_powers_of_two_and_the_rest() {
        let short: Vec<i64> = (0..=5000).map(|i| i * 2).collect();
        assert_eq!(chunk_len(&short, 4), 512);
        assert_eq!(chunk_len(&short[4800..], 4), 200);
        let long: Vec<i64> = (0..=5).map(|i| i * 250 * 16).collect();
        assert_eq!(chunk_len(&long, 4), 2);
        assert_eq!(chunk_len(&[0, 7], 4), 1);
        assert_eq!(chunk_len(&[0, 9000, 18000], 4), 2);
        assert_eq!(chunk_len(&[0, 9000, 18000, 27000], 4), 2);
    }
}
