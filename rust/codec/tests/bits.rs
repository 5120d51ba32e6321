//! Bitmaps against a `Vec<bool>`.

use glaive_codec::bits::{copy_bits, count_set_bits, fill_bits, get_bit, levels_to_bitmap};
use proptest::prelude::*;

fn bitmap(bits: &[bool]) -> Vec<u8> {
    let mut bytes = vec![0u8; bits.len().div_ceil(8)];
    for (i, &bit) in bits.iter().enumerate() {
        bytes[i / 8] |= u8::from(bit) << (i % 8);
    }
    bytes
}

proptest! {
    #[test]
    fn copying_appends_exactly_the_bits(
        src in prop::collection::vec(any::<u8>(), 0..300),
        dst in prop::collection::vec(any::<bool>(), 0..70),
        start in 0usize..200,
        n in 0usize..2100,
    ) {
        let (mut bytes, mut len) = (bitmap(&dst), dst.len());
        copy_bits(&src, start, &mut bytes, &mut len, n);
        let mut expected = dst;
        expected.extend((start..start + n).map(|i| get_bit(&src, i)));
        prop_assert_eq!(len, expected.len());
        prop_assert_eq!(bytes, bitmap(&expected));
    }

    #[test]
    fn levels_become_validity(
        levels in prop::collection::vec(0u16..5, 0..1200),
        dst in prop::collection::vec(any::<bool>(), 0..20),
        max_valid in 0u16..6,
    ) {
        let (mut bytes, mut len) = (bitmap(&dst), dst.len());
        let nulls = levels_to_bitmap(&levels, max_valid, &mut bytes, &mut len);
        let mut expected = dst;
        expected.extend(levels.iter().map(|&l| l <= max_valid));
        prop_assert_eq!(nulls, levels.iter().filter(|&&l| l > max_valid).count());
        prop_assert_eq!(len, expected.len());
        prop_assert_eq!(bytes, bitmap(&expected));
    }

    #[test]
    fn filling_repeats_a_bit(
        dst in prop::collection::vec(any::<bool>(), 0..20),
        value in any::<bool>(),
        n in 0usize..300,
    ) {
        let (mut bytes, mut len) = (bitmap(&dst), dst.len());
        fill_bits(value, &mut bytes, &mut len, n);
        let mut expected = dst;
        expected.extend(vec![value; n]);
        prop_assert_eq!(len, expected.len());
        prop_assert_eq!(bytes, bitmap(&expected));
    }

    #[test]
    fn counting_matches_single_bits(
        src in prop::collection::vec(any::<u8>(), 0..100),
        offset in 0usize..900,
        len in 0usize..900,
    ) {
        let expected = (offset..offset + len).filter(|&i| get_bit(&src, i)).count();
        prop_assert_eq!(count_set_bits(&src, offset, len), expected);
    }
}

#[test]
fn bits_past_the_end_are_zero() {
    assert!(get_bit(&[0xff], 7) && !get_bit(&[0xff], 8) && !get_bit(&[], usize::MAX));
    let (mut bytes, mut len) = (vec![], 0);
    copy_bits(&[0xff], 4, &mut bytes, &mut len, 20);
    assert_eq!((bytes, len), (vec![0x0f, 0, 0], 20));
}
