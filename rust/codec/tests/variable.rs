//! Offsets and bytes, in both layouts.

use glaive_codec::variable::{self, Offset, VariableChunk, VariableValues, block, mini_block};
use proptest::prelude::*;

/// Arrow offsets that start at `base`, and a buffer with `base` foreign bytes in front.
fn arrow<O: Offset>(values: &[Vec<u8>], base: usize) -> (Vec<O>, Vec<u8>) {
    let mut bytes = vec![0xaa; base];
    let mut offsets = vec![O::try_from(base as u64).ok().unwrap()];
    for value in values {
        bytes.extend_from_slice(value);
        offsets.push(O::try_from(bytes.len() as u64).ok().unwrap());
    }
    bytes.push(0xbb);
    (offsets, bytes)
}

fn check(decoded: &VariableValues<'_>, values: &[Vec<u8>]) {
    assert_eq!(decoded.iter().collect::<Vec<_>>(), values);
    assert_eq!(decoded.data(), values.concat());
    assert_eq!((decoded.len(), decoded.get(values.len())), (values.len(), None));
    let (mut narrow, mut wide) = (vec![0; values.len()], vec![0; values.len()]);
    decoded.store_ends::<i32>(1000, &mut narrow).unwrap();
    decoded.store_ends::<i64>(1000, &mut wide).unwrap();
    assert_eq!(wide, arrow::<i64>(values, 1000).0[1..]);
    assert_eq!(narrow, arrow::<i32>(values, 1000).0[1..]);
    let ends: Vec<_> = decoded.ends().map(|end| end as i64 + 1000).collect();
    assert_eq!(ends, wide);
    for start in 0..=values.len().min(3) {
        for end in start..=values.len().min(5) {
            let part = decoded.slice(start..end).unwrap();
            assert_eq!(part.iter().collect::<Vec<_>>(), &values[start..end]);
            assert_eq!(part.data(), values[start..end].concat());
        }
    }
    assert!(decoded.slice(0..values.len() + 1).is_err());
}

fn round_trip<O: Offset>(values: &[Vec<u8>], offset_bits: u8) {
    let (offsets, bytes) = arrow::<O>(values, 5);
    let mut buf = vec![];
    mini_block::encode(offset_bits, &offsets, &bytes, &mut buf).unwrap();
    let data_len = values.iter().map(Vec::len).sum();
    assert_eq!(
        buf.len(),
        mini_block::encoded_len(offset_bits, values.len(), data_len)
    );
    check(
        &VariableChunk::parse(&buf, offset_bits, values.len()).unwrap(),
        values,
    );

    buf.clear();
    block::encode(offset_bits, &offsets, &bytes, &mut buf).unwrap();
    let decoded = block::decode(&buf, values.len()).unwrap();
    assert_eq!(decoded.offset_bits(), offset_bits);
    check(&decoded, values);
}

proptest! {
    #[test]
    fn values_round_trip(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..60)) {
        round_trip::<i32>(&values, 32);
        round_trip::<i32>(&values, 64);
        round_trip::<i64>(&values, 32);
        round_trip::<i64>(&values, 64);
    }

    #[test]
    fn any_bytes_parse_or_fail(bytes in prop::collection::vec(0u8..40, 0..120), n in 0usize..12) {
        for bits in [32, 64] {
            if let Ok(chunk) = VariableChunk::parse(&bytes, bits, n) {
                prop_assert_eq!(chunk.iter().map(<[u8]>::len).sum::<usize>(), chunk.data().len());
            }
        }
        let _ = block::decode(&bytes, n);
    }

    #[test]
    fn one_changed_byte_parses_or_fails(at in 0usize..72, to in any::<u8>()) {
        let (offsets, bytes) = arrow::<i32>(&[b"abc".to_vec(), vec![], b"defgh".to_vec()], 0);
        for bits in [32, 64] {
            let (mut chunk, mut whole) = (vec![], vec![]);
            mini_block::encode(bits, &offsets, &bytes, &mut chunk).unwrap();
            block::encode(bits, &offsets, &bytes, &mut whole).unwrap();
            for buf in [&mut chunk, &mut whole] {
                if let Some(byte) = buf.get_mut(at) {
                    *byte = to;
                }
            }
            if let Ok(chunk) = VariableChunk::parse(&chunk, bits, 3) {
                prop_assert_eq!(chunk.iter().count(), 3);
            }
            if let Ok(block) = block::decode(&whole, 3) {
                prop_assert_eq!(block.iter().count(), 3);
            }
        }
    }
}

#[test]
fn boundary_counts_round_trip() {
    for n in [0, 1, 1023, 1024, 1025] {
        let values: Vec<Vec<u8>> = (0..n).map(|i| vec![b'x'; i % 3]).collect();
        round_trip::<i32>(&values, 32);
        round_trip::<i64>(&values, 64);
    }
}

/// `n` u32 words, then bytes.
fn words(words: &[u32], rest: &[u8]) -> Vec<u8> {
    words
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .chain(rest.iter().copied())
        .collect()
}

#[test]
fn chunk_tolerances() {
    let gap = words(&[16, 18, 20], b"????abcd");
    assert_eq!(VariableChunk::parse(&gap, 32, 2).unwrap().data(), b"abcd");
    let extra = words(&[12, 14, 14], b"ab??????");
    assert_eq!(VariableChunk::parse(&extra, 32, 2).unwrap().value(0), b"ab");
}

#[test]
fn damaged_chunks_are_errors() {
    let parse = |buf: &[u8], n| VariableChunk::parse(buf, 32, n).map(|_| ());
    assert!(parse(&words(&[12, 13, 14], b"abcd"), 2).is_ok());
    assert!(
        parse(&words(&[12, 13, 14], b"abc"), 2).is_err(),
        "length no multiple of 4"
    );
    assert!(parse(&words(&[12, 13], b""), 2).is_err(), "short table");
    assert!(parse(&words(&[12], b""), usize::MAX).is_err(), "count overflows");
    assert!(
        parse(&words(&[11, 13, 14], b"abcd"), 2).is_err(),
        "first offset inside the table"
    );
    assert!(parse(&words(&[12, 14, 13], b"abcd"), 2).is_err(), "decreasing");
    assert!(parse(&words(&[12, 13, 17], b"abcd"), 2).is_err(), "past the end");
    assert!(
        parse(&words(&[17, 17, 17], b"abcd"), 2).is_err(),
        "empty value past the end"
    );
    assert!(
        VariableChunk::parse(&[0; 16], 16, 1).is_err(),
        "unknown offset width"
    );
}

#[test]
fn older_block_header() {
    let mut narrow = vec![32];
    narrow.extend(words(&[3, 9 + 16, 0, 3, 8, 12], b"redgreenblue"));
    let decoded = block::decode(&narrow, 3).unwrap();
    assert_eq!((decoded.offset_bits(), decoded.value(1)), (32, &b"green"[..]));
    assert!(block::decode(&narrow, 2).is_err());

    let mut wide = vec![64];
    wide.extend([2u64, 17 + 24, 0, 3, 8].iter().flat_map(|w| w.to_le_bytes()));
    wide.extend(b"redgreen");
    let decoded = block::decode(&wide, 2).unwrap();
    assert_eq!((decoded.offset_bits(), decoded.value(1)), (64, &b"green"[..]));
}

#[test]
fn damaged_blocks_are_errors() {
    let good = words(&[32, 24, 0, 3, 8, 12], b"redgreenblue");
    assert!(block::decode(&good, 3).is_ok());
    assert!(block::decode(&good, 2).is_err(), "fewer values than offsets");
    assert!(block::decode(&good, 4).is_err(), "more values than offsets");
    assert!(block::decode(&good[..good.len() - 1], 3).is_err(), "data cut");
    assert!(
        block::decode(&words(&[32, 24, 1, 3, 8, 12], b"redgreenblue"), 3).is_err(),
        "first offset"
    );
    assert!(
        block::decode(&words(&[32, 24, 0, 9, 8, 12], b"redgreenblue"), 3).is_err(),
        "decreasing"
    );
    assert!(
        block::decode(&words(&[16, 24, 0, 3, 8, 12], b"redgreenblue"), 3).is_err(),
        "width 16"
    );
    assert!(
        block::decode(&words(&[32, 4, 0], b""), 0).is_err(),
        "values inside the header"
    );
    assert!(block::decode(&[], 0).is_err(), "nothing");
}

#[test]
fn offsets_that_overflow_the_output_are_errors() {
    let buf = words(&[8, 10], b"ab??");
    let chunk = VariableChunk::parse(&buf, 32, 1).unwrap();
    let edge = i64::from(i32::MAX);
    let mut out = [0];
    chunk.store_ends::<i32>(edge - 2, &mut out).unwrap();
    assert_eq!(out, [i32::MAX]);
    assert!(chunk.store_ends::<i32>(edge - 1, &mut [0]).is_err());
    assert!(chunk.store_ends::<i64>(i64::MAX - 1, &mut [0]).is_err());
    assert!(chunk.store_ends::<i64>(-1, &mut [0]).is_err());
    assert!(chunk.store_ends::<i64>(0, &mut [0, 0]).is_err(), "another length");
}

#[test]
fn bad_arguments_of_the_encoder_are_errors() {
    let encode = |offsets: &[i32]| mini_block::encode(32, offsets, b"abc", &mut vec![]);
    assert!(encode(&[0, 3]).is_ok());
    assert!(encode(&[]).is_err() && encode(&[0, 2, 1]).is_err() && encode(&[-1, 2]).is_err());
    assert!(encode(&[0, 4]).is_err() && variable::block::encode(16, &[0i32, 1], b"a", &mut vec![]).is_err());
}
