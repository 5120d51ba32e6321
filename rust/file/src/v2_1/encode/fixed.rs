//! Fixed-width values in chunks: plain, bit-packed or run-length coded (format chapter 22, 8.2 and 8.6).

use glaive_codec::bitpack::{Lane, bit_width, inline};
use glaive_codec::rle;

use super::chunks::{Chunk, ChunkedValues, sizes};
use super::leaf::fill_nulls;
use super::message;
use super::options::{Bss, ColumnOptions, Compression};
use crate::Result;

/// Plain chunks stay below 8 KiB with their header.
pub const MAX_CHUNK_BYTES: usize = 8186;

/// Bytes of a chunk of split values: 1,024 of 4 bytes, 512 of 8.
const SPLIT_CHUNK_BYTES: usize = 4096;

/// Values of a bit-packed chunk: one block.
const BLOCK: usize = 1024;

/// The codec chosen for a page of fixed-width values, and its size.
#[derive(Debug)]
pub struct FixedPlan<'a> {
    width: usize,
    options: &'a ColumnOptions,
    codec: Codec,
    encoded_len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Flat,
    Inline,
    Rle,
    ByteStreamSplit,
}

/// Chooses the smallest codec for values of `width` bytes that the options allow.
pub fn plan<'a>(width: usize, bytes: &[u8], options: &'a ColumnOptions) -> FixedPlan<'a> {
    let fixed = |codec| FixedPlan {
        width,
        options,
        codec,
        encoded_len: bytes.len(),
    };
    match options.compression {
        Compression::None => return fixed(Codec::Flat),
        Compression::Auto => {}
        _ if splits(width, bytes, options.bss) => return fixed(Codec::ByteStreamSplit),
        _ => {}
    }
    let mut candidates = match width {
        1 => costs::<u8>(bytes),
        2 => costs::<u16>(bytes),
        4 => costs::<u32>(bytes),
        8 => costs::<u64>(bytes),
        _ => vec![(bytes.len(), Codec::Flat)],
    };
    if let Some(threshold) = options.rle_threshold {
        let runs = runs(width, bytes) as f64;
        let values = (bytes.len() / width) as f64;
        candidates.retain(|(_, codec)| *codec != Codec::Rle || runs < values * threshold);
    }
    let (encoded_len, codec) = candidates
        .into_iter()
        .min_by_key(|c| c.0)
        .unwrap_or((bytes.len(), Codec::Flat));
    FixedPlan {
        width,
        options,
        codec,
        encoded_len,
    }
}

/// Sizes by codec (run lengths are counted in blocks, so slightly too high); on a tie the first decodes fastest.
fn costs<T: Lane>(bytes: &[u8]) -> Vec<(usize, Codec)> {
    let (mut inline, mut entries) = (0, 0);
    for_blocks::<T>(bytes, |block| {
        inline += T::BYTES + 128 * bit_width(block);
        entries += rle::entry_count(block);
    });
    vec![
        (bytes.len(), Codec::Flat),
        (entries * (T::BYTES + 1), Codec::Rle),
        (inline, Codec::Inline),
    ]
}

/// Runs of equal values.
fn runs(width: usize, bytes: &[u8]) -> usize {
    let next = bytes.get(width..).unwrap_or_default().chunks_exact(width);
    1 + bytes
        .chunks_exact(width)
        .zip(next)
        .filter(|(a, b)| a != b)
        .count()
}

/// Values whose bytes are looked at for their entropy.
const ENTROPY_SAMPLE: usize = 64;

/// Whether numbers are split into streams of their bytes, which a general compressor then shortens.
fn splits(width: usize, bytes: &[u8], bss: Bss) -> bool {
    if !matches!(width, 4 | 8) {
        return false;
    }
    let sample = bytes
        .get(..bytes.len().min(ENTROPY_SAMPLE * width))
        .unwrap_or_default();
    let entropy = |place: usize| {
        let mut counts = [0u32; 256];
        let stream = sample.iter().skip(place).step_by(width);
        for &byte in stream {
            if let Some(count) = counts.get_mut(usize::from(byte)) {
                *count += 1;
            }
        }
        let n = (sample.len() / width).max(1) as f64;
        let shares = counts.iter().filter(|c| **c > 0).map(|c| f64::from(*c) / n);
        shares.map(|share| -share * share.log2()).sum::<f64>()
    };
    match bss {
        Bss::Off => false,
        Bss::On => true,
        Bss::Auto => (0..width).map(entropy).sum::<f64>() / (width as f64) < 4.0,
    }
}

impl FixedPlan<'_> {
    /// Bytes of the encoded values.
    pub fn encoded_len(&self) -> usize {
        self.encoded_len
    }

    /// Encodes the values that the plan was made for.
    pub fn encode(&self, bytes: &[u8]) -> Result<ChunkedValues> {
        let plain = match self.width {
            1 => self.encode_lanes::<u8>(bytes),
            2 => self.encode_lanes::<u16>(bytes),
            4 => self.encode_lanes::<u32>(bytes),
            8 => self.encode_lanes::<u64>(bytes),
            _ => flat(self.width, bytes, self.options.max_chunk_values),
        };
        plain.compressed(self.options)
    }

    fn encode_lanes<T: Lane>(&self, bytes: &[u8]) -> ChunkedValues {
        let most = self.options.max_chunk_values;
        match self.codec {
            Codec::Flat => flat(self.width, bytes, most),
            Codec::Inline => inline_bitpacked::<T>(bytes, self.encoded_len),
            Codec::Rle => run_lengths::<T>(bytes, self.encoded_len, most),
            Codec::ByteStreamSplit => split_bytes(self.width, bytes, most),
        }
    }
}

/// Encodes u32 indices. Where `null_levels` are not 0, any index will do.
pub fn encode_indices(
    indices: &[u32],
    null_levels: Option<&[u16]>,
    options: &ColumnOptions,
) -> Result<ChunkedValues> {
    let mut bytes: Vec<u8> = indices.iter().flat_map(|i| i.to_le_bytes()).collect();
    if let Some(levels) = null_levels {
        fill_nulls(4, &mut bytes, levels);
    }
    plan(4, &bytes, options).encode(&bytes)
}

/// Encodes booleans: plain bits. Chunks are of whole bytes.
pub fn encode_bits(bits: &[u8], len: usize, most: usize) -> ChunkedValues {
    let chunks = chunk_lens(len, most.max(8))
        .map(|n| Chunk {
            values: n,
            sizes: sizes(n.div_ceil(8), 0),
        })
        .collect();
    let data = bits.get(..len.div_ceil(8)).unwrap_or_default().to_vec();
    ChunkedValues {
        codec: message::flat(1),
        num_buffers: 1,
        chunks,
        data,
    }
}

/// Plain values of `width` bytes that make a chunk, up to `most`.
pub fn flat_chunk_values(width: usize, most: usize) -> usize {
    let mut n = 2;
    while n * 2 * width < MAX_CHUNK_BYTES && n < most {
        n *= 2;
    }
    n
}

fn flat(width: usize, bytes: &[u8], most: usize) -> ChunkedValues {
    let n = flat_chunk_values(width, most);
    let chunks = chunk_lens(bytes.len() / width, n)
        .map(|n| Chunk {
            values: n,
            sizes: sizes(n * width, 0),
        })
        .collect();
    ChunkedValues {
        codec: message::flat(width as u64 * 8),
        num_buffers: 1,
        chunks,
        data: bytes.to_vec(),
    }
}

/// Chunks of 4 KiB, each with the streams of its own values.
fn split_bytes(width: usize, bytes: &[u8], most: usize) -> ChunkedValues {
    let chunk_bytes = SPLIT_CHUNK_BYTES.min(most * width);
    let mut data = Vec::with_capacity(bytes.len());
    let mut chunks = Vec::with_capacity(bytes.len() / chunk_bytes + 1);
    for part in bytes.chunks(chunk_bytes) {
        let n = part.len() / width;
        for place in 0..width {
            data.extend(part.iter().skip(place).step_by(width));
        }
        chunks.push(Chunk {
            values: n,
            sizes: sizes(n * width, 0),
        });
    }
    ChunkedValues {
        codec: message::byte_stream_split(width as u64 * 8),
        num_buffers: 1,
        chunks,
        data,
    }
}

fn inline_bitpacked<T: Lane>(bytes: &[u8], encoded_len: usize) -> ChunkedValues {
    let mut data = Vec::with_capacity(encoded_len);
    let mut chunks = Vec::with_capacity(bytes.len() / (BLOCK * T::BYTES) + 1);
    for_blocks::<T>(bytes, |block| {
        let start = data.len();
        inline::encode(block, &mut data);
        chunks.push(Chunk {
            values: block.len(),
            sizes: sizes(data.len() - start, 0),
        });
    });
    ChunkedValues {
        codec: message::inline_bitpacking(T::BITS as u64),
        num_buffers: 1,
        chunks,
        data,
    }
}

/// Run-length chunks: up to `most` values, as many as have their runs below the limit of a chunk.
fn run_lengths<T: Lane>(bytes: &[u8], encoded_len: usize, most: usize) -> ChunkedValues {
    let mut data = Vec::with_capacity(encoded_len);
    let mut chunks = Vec::new();
    let (mut values, mut lengths) = (Vec::new(), Vec::new());
    let mut block = vec![T::default(); most];
    let mut rest = bytes;
    while rest.len() >= T::BYTES {
        let mut n = most.min(rest.len() / T::BYTES);
        T::copy_from_le(rest, block.get_mut(..n).unwrap_or_default());
        while rle::entry_count(block.get(..n).unwrap_or_default()) * (T::BYTES + 1) > MAX_CHUNK_BYTES {
            n = if n.is_power_of_two() {
                n / 2
            } else {
                1 << n.ilog2()
            };
        }
        values.clear();
        lengths.clear();
        rle::encode(block.get(..n).unwrap_or_default(), &mut values, &mut lengths);
        data.extend_from_slice(&values);
        data.extend_from_slice(&lengths);
        chunks.push(Chunk {
            values: n,
            sizes: sizes(values.len(), lengths.len()),
        });
        rest = rest.get(n * T::BYTES..).unwrap_or_default();
    }
    ChunkedValues {
        codec: message::rle(T::BITS as u64),
        num_buffers: 2,
        chunks,
        data,
    }
}

/// Calls `f` with the values of each block of 1,024; the last may be shorter.
fn for_blocks<T: Lane>(bytes: &[u8], mut f: impl FnMut(&[T])) {
    let mut block = [T::default(); BLOCK];
    for part in bytes.chunks(BLOCK * T::BYTES) {
        let n = part.len() / T::BYTES;
        if let Some(values) = block.get_mut(..n) {
            T::copy_from_le(part, values);
            f(values);
        }
    }
}

/// Lengths of chunks of `n` values; the last holds the rest.
pub fn chunk_lens(total: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..total).step_by(n).map(move |start| n.min(total - start))
}
