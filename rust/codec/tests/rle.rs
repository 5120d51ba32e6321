//! Run lengths against plain repetition.

use glaive_codec::bitpack::Lane;
use glaive_codec::rle;
use proptest::prelude::*;

fn check<T: Lane>(values: &[T]) {
    let (mut run_values, mut run_lengths) = (vec![], vec![]);
    rle::encode(values, &mut run_values, &mut run_lengths);
    assert_eq!(run_lengths.len(), rle::entry_count(values));
    assert_eq!(run_values.len(), run_lengths.len() * T::BYTES);
    let mut naive = vec![];
    for (value, &len) in run_values.chunks(T::BYTES).zip(&run_lengths) {
        naive.extend(vec![T::read_le(value).unwrap(); len.into()]);
    }
    assert_eq!(naive, values);

    let mut out = vec![T::MAX; values.len()];
    rle::decode(&run_values, &run_lengths, values.len(), &mut out).unwrap();
    assert_eq!(out, values);

    let mut block = vec![];
    rle::encode_block(values, &mut block);
    assert_eq!(rle::block_value_count::<T>(&block), Ok(values.len() as u64));
    let mut out = vec![T::MAX; values.len()];
    rle::decode_block(&block, values.len(), &mut out).unwrap();
    assert_eq!(out, values);
}

fn runs() -> impl Strategy<Value = Vec<u64>> {
    let run = (any::<u64>(), prop_oneof![1usize..4, 14usize..19, 250usize..600]);
    prop::collection::vec(run, 0..30).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(value, len)| vec![value; len])
            .collect()
    })
}

proptest! {
    #[test]
    fn runs_round_trip(values in runs()) {
        check::<u64>(&values);
        check::<u32>(&values.iter().map(|&v| v as u32).collect::<Vec<_>>());
        check::<u16>(&values.iter().map(|&v| v as u16 % 3).collect::<Vec<_>>());
        check::<u8>(&values.iter().map(|&v| v as u8 % 2).collect::<Vec<_>>());
        prop_assert_eq!(rle::run_count(&values), values.chunk_by(|a, b| a == b).count());
    }

    #[test]
    fn any_bytes_decode_or_fail(
        values in prop::collection::vec(any::<u8>(), 0..40),
        lengths in prop::collection::vec(0u8..20, 0..20),
        n in 0usize..100,
    ) {
        let _ = rle::decode::<u16>(&values, &lengths, n, &mut vec![0; n]);
        let _ = rle::decode_block::<u16>(&values, n, &mut vec![0; n]);
        let mut block = (values.len() as u64).to_le_bytes().to_vec();
        block.extend([&values[..], &lengths[..]].concat());
        let _ = rle::decode_block::<u8>(&block, n, &mut vec![0; n]);
    }
}

#[test]
fn boundary_counts_round_trip() {
    for n in [0, 1, 254, 255, 256, 510, 511, 1023, 1024, 1025] {
        check(&vec![7u32; n]);
        check(&(0..n as u32).collect::<Vec<_>>());
    }
}

#[test]
fn long_runs_are_split_full_pieces_first() {
    let (mut run_values, mut run_lengths) = (vec![], vec![]);
    rle::encode(&[9u8; 600], &mut run_values, &mut run_lengths);
    assert_eq!((run_values, run_lengths), (vec![9; 3], vec![255, 255, 90]));
}

#[test]
fn a_mini_block_tolerates_overshoot_and_a_block_does_not() {
    let mut out = [0u8; 5];
    rle::decode(&[1, 2, 3], &[3, 4, 0], 5, &mut out).unwrap();
    assert_eq!(out, [1, 1, 1, 2, 2]);
    let block = |lengths: &[u8]| {
        let mut buf = (lengths.len() as u64).to_le_bytes().to_vec();
        buf.extend(vec![1; lengths.len()]);
        buf.extend(lengths);
        rle::decode_block::<u8>(&buf, 5, &mut [0; 5])
    };
    assert!(block(&[2, 3]).is_ok());
    assert!(block(&[2, 4]).is_err() && block(&[2, 3, 1]).is_err() && block(&[2, 3, 0]).is_err());
    assert!(block(&[2, 2]).is_err() && block(&[0, 5]).is_err());
}

#[test]
fn damaged_runs_are_errors() {
    let decode = |values: &[u8], lengths: &[u8]| rle::decode::<u16>(values, lengths, 5, &mut [0; 5]);
    assert!(decode(&[1, 0], &[5]).is_ok());
    assert!(decode(&[1, 0], &[4]).is_err(), "too few values");
    assert!(decode(&[], &[]).is_err(), "none");
    assert!(decode(&[1, 0, 2, 0], &[0, 5]).is_err(), "empty run");
    assert!(decode(&[1, 0], &[3, 2]).is_err(), "counts differ");
    assert!(decode(&[1, 0, 2], &[5]).is_err(), "half a value");
    assert!(
        rle::decode::<u16>(&[1, 0], &[5], 5, &mut [0; 4]).is_err(),
        "output of another length"
    );
    let huge = [&u64::MAX.to_le_bytes()[..], &[1, 1]].concat();
    assert!(
        rle::decode_block::<u8>(&huge, 1, &mut [0]).is_err(),
        "size beyond the block"
    );
    assert!(rle::decode_block::<u8>(&[0; 7], 0, &mut []).is_err(), "no header");
}
