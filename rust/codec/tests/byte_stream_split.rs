//! Byte streams against the formula of the format.

use glaive_codec::byte_stream_split::{decode, encode};
use proptest::prelude::*;

fn check(width: usize, values: &[u8]) {
    let n = values.len() / width;
    let mut streams = vec![];
    encode(width, values, &mut streams).unwrap();
    let naive: Vec<u8> = (0..values.len()).map(|k| values[k % n * width + k / n]).collect();
    assert_eq!(streams, naive);
    let mut out = vec![0; values.len()];
    decode(width, &streams, &mut out).unwrap();
    assert_eq!(out, values);
}

proptest! {
    #[test]
    fn streams_round_trip(mut values in prop::collection::vec(any::<u8>(), 0..900)) {
        values.truncate(values.len() / 8 * 8);
        check(4, &values);
        check(8, &values);
    }
}

#[test]
fn boundary_counts_round_trip() {
    for n in [0, 1, 15, 16, 17, 1023, 1024, 1025] {
        for width in [4, 8] {
            check(
                width,
                &(0..n * width).map(|i| (i * 7 % 251) as u8).collect::<Vec<_>>(),
            );
        }
    }
}

#[test]
fn wrong_lengths_and_widths_are_errors() {
    assert!(decode(4, &[0; 7], &mut [0; 7]).is_err() && decode(4, &[0; 8], &mut [0; 4]).is_err());
    assert!(decode(8, &[0; 12], &mut [0; 12]).is_err() && decode(2, &[0; 8], &mut [0; 8]).is_err());
    assert!(encode(8, &[0; 12], &mut vec![]).is_err() && encode(0, &[], &mut vec![]).is_err());
}
