//! The kernels beside the crates `fastlanes` and `fsst-rs`, on the same packed words and the same codes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a benchmark fails by panicking"
)]

use std::hint::black_box;
use std::mem::MaybeUninit;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fastlanes::BitPacking;
use fsst::{Decompressor, Symbol};
use glaive_bench::Random;
use glaive_codec::bitpack::{self, BLOCK_LEN};
use glaive_codec::fsst::SymbolTable;

const BLOCKS: usize = 32;

/// Packs and unpacks with both; `$words` is `1024 * $width / bits of $t`.
macro_rules! bitpack {
    ($c:expr, $t:ty, $width:literal, $words:literal) => {{
        let mut random = Random::new($width);
        let mut value = || random.below(1 << $width.min(31)) as $t;
        let blocks: Vec<[$t; BLOCK_LEN]> = (0..BLOCKS).map(|_| std::array::from_fn(|_| value())).collect();
        let name = format!("rivals/u{}/{}", <$t>::BITS, $width);
        let mut group = $c.benchmark_group(name);
        group.throughput(Throughput::Bytes(size_of_val(&blocks[..]) as u64));
        let mut packed = Vec::new();
        group.bench_function("pack/glaive", |b| {
            b.iter(|| {
                packed.clear();
                for block in black_box(&blocks) {
                    bitpack::pack_block($width, block, &mut packed);
                }
            });
        });
        let mut words = vec![[0; $words]; BLOCKS];
        group.bench_function("pack/fastlanes", |b| {
            b.iter(|| {
                for (block, words) in black_box(&blocks).iter().zip(&mut words) {
                    <$t>::pack::<$width, $words>(block, words);
                }
            });
        });
        packed.clear();
        for (block, words) in blocks.iter().zip(&mut words) {
            bitpack::pack_block($width, block, &mut packed);
            <$t>::pack::<$width, $words>(block, words);
        }
        let bytes: Vec<u8> = words.iter().flatten().flat_map(|w| w.to_le_bytes()).collect();
        assert!(packed == bytes);
        let mut out = blocks.clone();
        group.bench_function("unpack/glaive", |b| {
            b.iter(|| {
                let packed = black_box(&packed).chunks(bitpack::packed_len($width));
                for (block, packed) in out.iter_mut().zip(packed) {
                    bitpack::unpack_block($width, packed, block).unwrap();
                }
            });
        });
        group.bench_function("unpack/fastlanes", |b| {
            b.iter(|| {
                for (block, words) in out.iter_mut().zip(black_box(&words)) {
                    <$t>::unpack::<$width, $words>(words, block);
                }
            });
        });
    }};
}

fn bench_bitpack(c: &mut Criterion) {
    bitpack!(c, u8, 3, 384);
    bitpack!(c, u16, 5, 320);
    bitpack!(c, u16, 11, 704);
    bitpack!(c, u32, 7, 224);
    bitpack!(c, u32, 17, 544);
    bitpack!(c, u64, 13, 208);
    bitpack!(c, u64, 37, 592);
}

/// A text and its codes.
struct Coded {
    table: SymbolTable,
    text_len: usize,
    codes: Vec<u8>,
    code_ends: Vec<usize>,
}

fn coded((offsets, bytes): (Vec<i32>, Vec<u8>)) -> Coded {
    let offsets: Vec<i64> = offsets.into_iter().map(i64::from).collect();
    let values = offsets.windows(2).map(|w| &bytes[w[0] as usize..w[1] as usize]);
    let table = SymbolTable::train(values);
    let (mut codes, mut ends) = (vec![], vec![]);
    table
        .compress_all(&offsets, &bytes, &mut codes, &mut ends)
        .unwrap();
    let code_ends = ends.into_iter().map(|end| end as usize).collect();
    Coded {
        table,
        text_len: bytes.len(),
        codes,
        code_ends,
    }
}

/// The table in the form of the other crate.
fn symbols(table: &SymbolTable) -> ([Symbol; 255], [u8; 255]) {
    let (bytes, n) = (table.to_bytes(), table.symbol_count());
    let symbol = |i: usize| match bytes[8..8 + 8 * n].as_chunks::<8>().0.get(i) {
        Some(symbol) => Symbol::from_slice(symbol),
        None => Symbol::from_u8(0),
    };
    let len = |i: usize| if i < n { bytes[8 + 8 * n + i] } else { 1 };
    (std::array::from_fn(symbol), std::array::from_fn(len))
}

fn fsst(c: &mut Criterion, name: &str, coded: &Coded) {
    let Coded {
        table,
        codes,
        code_ends,
        ..
    } = coded;
    let (symbols, lengths) = symbols(table);
    let rival = Decompressor::new(&symbols, &lengths);
    let mut group = c.benchmark_group(format!("rivals/fsst/{name}"));
    group.throughput(Throughput::Bytes(coded.text_len as u64));
    let (mut out, mut ends) = (Vec::new(), vec![0i32; code_ends.len()]);
    group.bench_function("values/glaive", |b| {
        b.iter(|| {
            out.clear();
            let append = |bytes: &[u8]| out.extend_from_slice(bytes);
            let code_ends = black_box(code_ends).iter().copied();
            table
                .decompress_all(codes, code_ends, 0, &mut ends, append)
                .unwrap();
        });
    });
    let mut room = vec![MaybeUninit::uninit(); coded.text_len + 8 * codes.len() + 64];
    group.bench_function("values/fsst-rs", |b| {
        b.iter(|| {
            let (mut start, mut len) = (0, 0);
            for (end, out_end) in black_box(code_ends).iter().zip(&mut ends) {
                len += rival.decompress_into(&codes[start..*end], &mut room[len..]);
                (start, *out_end) = (*end, len as i32);
            }
        });
    });
    group.bench_function("one long value/glaive", |b| {
        b.iter(|| {
            out.clear();
            table.decompress(black_box(codes), &mut out).unwrap();
        });
    });
    group.bench_function("one long value/fsst-rs", |b| {
        b.iter(|| rival.decompress_into(black_box(codes), &mut room));
    });
}

fn bench_fsst(c: &mut Criterion) {
    fsst(c, "sentences", &coded(glaive_bench::sentences(8000)));
    fsst(c, "urls", &coded(glaive_bench::urls(8000)));
}

criterion_group!(benches, bench_bitpack, bench_fsst);
criterion_main!(benches);
