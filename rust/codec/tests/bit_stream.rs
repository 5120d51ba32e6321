//! The bit stream of old files against the definition, one bit at a time (format chapter 20, 10.1).

use glaive_codec::bitpack::{Lane, stream};
use proptest::prelude::*;

/// Packs the low `width` bits of each value behind `first_bit` unused bits.
fn naive_pack(first_bit: usize, width: usize, values: &[u64]) -> Vec<u8> {
    let mut packed = vec![0u8; (first_bit + width * values.len()).div_ceil(8)];
    for (i, value) in values.iter().enumerate() {
        for bit in (0..width).filter(|bit| value >> bit & 1 == 1) {
            let position = first_bit + i * width + bit;
            packed[position / 8] |= 1 << (position % 8);
        }
    }
    packed
}

fn check<T: Lane>(first_bit: usize, width: usize, values: &[u64]) {
    let packed = naive_pack(first_bit, width, values);
    let mut out = vec![T::default(); values.len()];
    stream::decode(&packed, first_bit, width, false, &mut out).unwrap();
    let low = u64::MAX >> (64 - width);
    let expected: Vec<_> = values.iter().map(|v| T::from_u64_truncated(v & low)).collect();
    assert_eq!(out, expected);
    stream::decode(&packed, first_bit, width, true, &mut out).unwrap();
    let extend = |v: &u64| ((v << (64 - width)) as i64 >> (64 - width)) as u64;
    let expected: Vec<_> = values.iter().map(|v| T::from_u64_truncated(extend(v))).collect();
    assert_eq!(out, expected);
    if !packed.is_empty() {
        let short = &packed[..packed.len() - 1];
        assert!(stream::decode(short, first_bit, width, false, &mut out).is_err());
    }
}

proptest! {
    #[test]
    fn every_width_and_start(first_bit in 0usize..8, values in prop::collection::vec(any::<u64>(), 0..70)) {
        for width in 1..=64 {
            check::<u64>(first_bit, width, &values);
        }
        for width in 1..=32 {
            check::<u32>(first_bit, width, &values);
        }
        for width in 1..=16 {
            check::<u16>(first_bit, width, &values);
        }
        for width in 1..=8 {
            check::<u8>(first_bit, width, &values);
        }
    }
}

#[test]
fn the_example_of_the_chapter() {
    let mut out = [0u8; 3];
    stream::decode(&[0xae, 0x9a, 0x4c], 0, 7, false, &mut out).unwrap();
    assert_eq!(out, [46, 53, 50]);
    let mut out = [0u8; 1];
    stream::decode(&[0b11110], 0, 5, true, &mut out).unwrap();
    assert_eq!(out[0] as i8, -2);
}

#[test]
fn impossible_widths_are_refused() {
    let mut out = [0u8; 1];
    for width in [0, 9, usize::MAX] {
        assert!(stream::decode(&[0; 16], 0, width, false, &mut out).is_err());
    }
}
