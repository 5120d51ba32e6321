//! Codecs on data that fits the cache. Throughput counts uncompressed bytes; each group has a memcpy of the same size.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a benchmark fails by panicking"
)]

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use glaive_bench::Random;
use glaive_codec::bitpack::{self, BLOCK_LEN, Lane};
use glaive_codec::fsst::SymbolTable;
use glaive_codec::general::{self, Scheme};
use glaive_codec::variable::{VariableChunk, mini_block};
use glaive_codec::{bits, byte_stream_split, rle};

const BLOCKS: usize = 32;

/// A group for `size` uncompressed bytes, with its memcpy.
fn group<'c>(c: &'c mut Criterion, name: &str, size: usize) -> BenchmarkGroup<'c, WallTime> {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Bytes(size as u64));
    let (src, mut dst) = (vec![1u8; size], vec![0u8; size]);
    group.bench_function("memcpy", |b| {
        b.iter(|| black_box(&mut dst).copy_from_slice(black_box(&src)))
    });
    group
}

fn bitpack_type<T: Lane>(c: &mut Criterion, widths: &[usize]) {
    let mut group = group(c, &format!("bitpack/u{}", T::BITS), BLOCKS * BLOCK_LEN * T::BYTES);
    for &width in widths {
        let mut random = Random::new(width as u64);
        let mut value = || T::from_u64_truncated(random.below(1 << width.min(31)));
        let blocks: Vec<[T; BLOCK_LEN]> = (0..BLOCKS).map(|_| std::array::from_fn(|_| value())).collect();
        let mut packed = vec![];
        group.bench_function(format!("pack/{width}"), |b| {
            b.iter(|| {
                packed.clear();
                for block in black_box(&blocks) {
                    bitpack::pack_block(width, block, &mut packed);
                }
            });
        });
        let mut out = blocks.clone();
        group.bench_function(format!("unpack/{width}"), |b| {
            b.iter(|| {
                for (block, packed) in out
                    .iter_mut()
                    .zip(black_box(&packed).chunks(bitpack::packed_len(width)))
                {
                    bitpack::unpack_block(width, packed, block).unwrap();
                }
            });
        });
    }
}

fn bench_bitpack(c: &mut Criterion) {
    bitpack_type::<u8>(c, &[1, 3, 7]);
    bitpack_type::<u16>(c, &[1, 5, 11]);
    bitpack_type::<u32>(c, &[1, 7, 17, 30]);
    bitpack_type::<u64>(c, &[3, 13, 37, 60]);
}

fn fsst_text(c: &mut Criterion, name: &str, (offsets, bytes): (Vec<i32>, Vec<u8>)) {
    let values: Vec<&[u8]> = offsets
        .windows(2)
        .map(|w| &bytes[w[0] as usize..w[1] as usize])
        .collect();
    let table = SymbolTable::train(values.iter().copied());
    let compressed: Vec<Vec<u8>> = values.iter().map(|value| compress(&table, value)).collect();
    let compressed_len: usize = compressed.iter().map(Vec::len).sum();
    eprintln!(
        "{name}: {} bytes to {compressed_len}, {:.2}",
        bytes.len(),
        bytes.len() as f64 / compressed_len as f64
    );

    let mut group = group(c, name, bytes.len());
    group.bench_function("train", |b| {
        b.iter(|| SymbolTable::train(black_box(&values).iter().copied()))
    });
    let mut out = Vec::new();
    group.bench_function("compress", |b| {
        b.iter(|| {
            out.clear();
            black_box(&values)
                .iter()
                .for_each(|value| table.compress(value, &mut out));
        });
    });
    let wide: Vec<i64> = offsets.iter().map(|&offset| offset.into()).collect();
    let (mut ends, mut out) = (Vec::new(), Vec::new());
    group.bench_function("compress_all", |b| {
        b.iter(|| {
            out.clear();
            ends.clear();
            table
                .compress_all(black_box(&wide), &bytes, &mut out, &mut ends)
                .unwrap();
        });
    });
    let code_ends: Vec<usize> = compressed
        .iter()
        .scan(0, |end, value| {
            *end += value.len();
            Some(*end)
        })
        .collect();
    let codes = compressed.concat();
    let (mut ends, mut out) = (vec![0i32; values.len()], Vec::new());
    group.bench_function("decompress_all", |b| {
        b.iter(|| {
            out.clear();
            let append = |bytes: &[u8]| out.extend_from_slice(bytes);
            table
                .decompress_all(black_box(&codes), code_ends.iter().copied(), 0, &mut ends, append)
                .unwrap();
        });
    });
    let long = compress(&table, &bytes);
    group.bench_function("decompress one long value", |b| {
        b.iter(|| {
            out.clear();
            table.decompress(black_box(&long), &mut out).unwrap();
        });
    });
}

fn compress(table: &SymbolTable, value: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    table.compress(value, &mut out);
    out
}

fn bench_fsst(c: &mut Criterion) {
    fsst_text(c, "fsst/sentences", glaive_bench::sentences(8000));
    fsst_text(c, "fsst/urls", glaive_bench::urls(8000));
}

fn bench_rle(c: &mut Criterion) {
    let n = BLOCKS * BLOCK_LEN;
    let mut group = group(c, "rle/u32", n * 4);
    for mean in [2, 8, 100] {
        let mut random = Random::new(mean);
        let mut values = Vec::new();
        while values.len() < n {
            let len = 1 + random.below(2 * mean - 1) as usize;
            values.extend(std::iter::repeat_n(random.below(1 << 20) as u32, len));
        }
        values.truncate(n);
        let (mut run_values, mut run_lengths) = (vec![], vec![]);
        group.bench_function(format!("encode/{mean}"), |b| {
            b.iter(|| {
                run_values.clear();
                run_lengths.clear();
                rle::encode(black_box(&values), &mut run_values, &mut run_lengths);
            });
        });
        let mut out = vec![0u32; n];
        group.bench_function(format!("decode/{mean}"), |b| {
            b.iter(|| rle::decode(black_box(&run_values), &run_lengths, n, &mut out).unwrap());
        });
    }
}

fn bench_byte_stream_split(c: &mut Criterion) {
    for (width, n) in [(4, 1024), (8, 512)] {
        let values = vec![7u8; BLOCKS * width * n];
        let mut group = group(c, &format!("byte_stream_split/{width}"), values.len());
        let (mut streams, mut out) = (vec![], values.clone());
        group.bench_function("encode", |b| {
            b.iter(|| {
                streams.clear();
                for chunk in black_box(&values).chunks(width * n) {
                    byte_stream_split::encode(width, chunk, &mut streams).unwrap();
                }
            });
        });
        group.bench_function("decode", |b| {
            b.iter(|| {
                for (chunk, out) in black_box(&streams)
                    .chunks(width * n)
                    .zip(out.chunks_mut(width * n))
                {
                    byte_stream_split::decode(width, chunk, out).unwrap();
                }
            });
        });
    }
}

fn bench_variable(c: &mut Criterion) {
    const CHUNK: usize = 64;
    let (offsets, bytes) = glaive_bench::sentences(8000);
    let mut group = group(c, "variable", bytes.len() + offsets.len() * 4);
    let mut chunks: Vec<Vec<u8>> = vec![];
    for window in offsets.windows(CHUNK + 1).step_by(CHUNK) {
        let mut chunk = vec![];
        mini_block::encode(32, window, &bytes, &mut chunk).unwrap();
        chunks.push(chunk);
    }
    let (mut out, mut ends) = (Vec::new(), vec![0i32; chunks.len() * CHUNK]);
    group.bench_function("decode", |b| {
        b.iter(|| {
            out.clear();
            for (chunk, ends) in black_box(&chunks).iter().zip(ends.chunks_mut(CHUNK)) {
                let values = VariableChunk::parse(chunk, 32, CHUNK).unwrap();
                values.store_ends(out.len() as i64, ends).unwrap();
                out.extend_from_slice(values.data());
            }
        });
    });
    let mut chunk = vec![];
    group.bench_function("encode", |b| {
        b.iter(|| {
            for window in black_box(&offsets).windows(CHUNK + 1).step_by(CHUNK) {
                chunk.clear();
                mini_block::encode(32, window, &bytes, &mut chunk).unwrap();
            }
        });
    });
}

fn bench_bits(c: &mut Criterion) {
    let mut random = Random::new(3);
    let levels: Vec<u16> = (0..BLOCKS * BLOCK_LEN).map(|_| random.below(2) as u16).collect();
    let mut out = vec![];
    {
        let mut group = group(c, "bits/levels", levels.len() * 2);
        for start in [0, 3] {
            group.bench_function(format!("levels_to_bitmap/{start}"), |b| {
                b.iter(|| {
                    out.clear();
                    out.resize(usize::from(start > 0), 0);
                    let mut len = start;
                    bits::levels_to_bitmap(black_box(&levels), 0, &mut out, &mut len)
                });
            });
        }
    }
    let bitmap = vec![0x5au8; BLOCKS * BLOCK_LEN];
    let mut group = group(c, "bits/bitmap", bitmap.len());
    for (from, to) in [(0, 0), (3, 0), (5, 3)] {
        group.bench_function(format!("copy_bits/{from}to{to}"), |b| {
            b.iter(|| {
                out.clear();
                out.resize(usize::from(to > 0), 0);
                let mut len = to;
                bits::copy_bits(
                    black_box(&bitmap),
                    from,
                    &mut out,
                    &mut len,
                    bitmap.len() * 8 - from,
                );
            });
        });
    }
    group.bench_function("count_set_bits", |b| {
        b.iter(|| bits::count_set_bits(black_box(&bitmap), 3, bitmap.len() * 8 - 3));
    });
}

fn bench_general(c: &mut Criterion) {
    let (_, bytes) = glaive_bench::sentences(8000);
    let mut group = group(c, "general", bytes.len());
    for (name, scheme) in [("lz4", Scheme::Lz4), ("zstd", Scheme::Zstd)] {
        let chunks: Vec<Vec<u8>> = bytes
            .chunks(8192)
            .map(|chunk| {
                let mut out = vec![];
                general::compress(scheme, None, chunk, &mut out).unwrap();
                out
            })
            .collect();
        let mut out = vec![];
        group.bench_function(format!("decompress/{name}"), |b| {
            b.iter(|| {
                for chunk in black_box(&chunks) {
                    out.clear();
                    general::decompress(scheme, chunk, 8192, &mut out).unwrap();
                }
            });
        });
    }
}

criterion_group! {
    name = codec;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30);
    targets = bench_bitpack, bench_fsst, bench_rle, bench_byte_stream_split, bench_variable, bench_bits, bench_general
}
criterion_main!(codec);
