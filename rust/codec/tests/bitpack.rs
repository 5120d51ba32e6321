//! Bit packing against the bit order written down value by value.

use glaive_codec::bitpack::{self, BLOCK_LEN, Lane, inline, out_of_line};
use proptest::prelude::*;

const ORDER: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];
const SIZES: [usize; 10] = [0, 1, 2, 127, 128, 1023, 1024, 1025, 2048, 3000];

/// Format chapter 22, 4.2, one bit at a time.
fn naive_pack<T: Lane>(width: usize, values: &[T]) -> Vec<u8> {
    let lanes = 1024 / T::BITS;
    let mut packed = vec![0u8; 128 * width];
    for row in 0..T::BITS {
        for lane in 0..lanes {
            let index = ORDER[row / 8] * 16 + (row % 8) * 128 + lane;
            let value = values.get(index).map_or(0, |v| v.to_u64());
            for bit in (0..width).filter(|bit| value >> bit & 1 == 1) {
                let position = row * width + bit;
                let word = position / T::BITS * lanes + lane;
                let in_block = word * T::BITS + position % T::BITS;
                packed[in_block / 8] |= 1 << (in_block % 8);
            }
        }
    }
    packed
}

/// Values that need at most `width` bits.
fn sample<T: Lane>(n: usize, width: usize, seed: u64) -> Vec<T> {
    let mut state = seed | 1;
    let mask = u64::MAX.checked_shr(64 - width as u32).unwrap_or(0);
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        T::from_u64_truncated((state ^ state >> 29) & mask)
    };
    (0..n).map(|_| next()).collect()
}

fn every_width<T: Lane>() {
    for width in 0..=T::BITS {
        let values = sample::<T>(BLOCK_LEN, width, width as u64);
        let block: &[T; BLOCK_LEN] = values.as_slice().try_into().unwrap();
        let mut packed = vec![0xee];
        bitpack::pack_block(width, block, &mut packed);
        assert_eq!(
            packed[1..],
            naive_pack(width, &values),
            "{} bits, width {width}",
            T::BITS
        );

        let mut unpacked = [T::MAX; BLOCK_LEN];
        bitpack::unpack_block(width, &packed[1..], &mut unpacked).unwrap();
        assert_eq!(unpacked, *block, "{} bits, width {width}", T::BITS);
        for index in (0..BLOCK_LEN).step_by(7) {
            assert_eq!(
                bitpack::unpack_one::<T>(width, &packed[1..], index),
                Ok(block[index])
            );
        }
    }
}

#[test]
fn every_width_follows_the_bit_order() {
    every_width::<u8>();
    every_width::<u16>();
    every_width::<u32>();
    every_width::<u64>();
}

fn bits_above_the_width_are_dropped<T: Lane>() {
    let mut packed = vec![];
    bitpack::pack_block(3, &[T::MAX; BLOCK_LEN], &mut packed);
    let mut unpacked = [T::default(); BLOCK_LEN];
    bitpack::unpack_block(3, &packed, &mut unpacked).unwrap();
    assert_eq!(unpacked, [T::from_u64_truncated(7); BLOCK_LEN]);
}

#[test]
fn oversized_values_are_masked() {
    bits_above_the_width_are_dropped::<u8>();
    bits_above_the_width_are_dropped::<u16>();
    bits_above_the_width_are_dropped::<u32>();
    bits_above_the_width_are_dropped::<u64>();
}

fn inline_round_trip<T: Lane>() {
    for n in SIZES.into_iter().filter(|&n| n <= BLOCK_LEN) {
        for width in 0..=T::BITS {
            let values = sample::<T>(n, width, n as u64);
            let mut buf = vec![];
            inline::encode(&values, &mut buf);
            assert_eq!(buf.len(), inline::encoded_len::<T>(bitpack::bit_width(&values)));
            assert_eq!(inline::width_of::<T>(&buf), Ok(bitpack::bit_width(&values)));
            let mut out = vec![T::MAX; n];
            inline::decode(&buf, n, &mut out).unwrap();
            assert_eq!(out, values);
            let indices: Vec<usize> = (0..n).rev().step_by(50).collect();
            let mut some = vec![T::default(); indices.len()];
            inline::decode_some(&buf, n, &indices, &mut some).unwrap();
            assert_eq!(some, indices.iter().map(|&i| values[i]).collect::<Vec<_>>());
            assert!(inline::decode_one::<T>(&buf, n, n).is_err());
        }
    }
}

#[test]
fn inline_blocks_round_trip() {
    inline_round_trip::<u8>();
    inline_round_trip::<u16>();
    inline_round_trip::<u32>();
    inline_round_trip::<u64>();
}

#[test]
fn a_wider_header_than_needed_is_legal() {
    let mut buf = vec![];
    inline::encode_with_width::<u32>(&[5, 6, 7], 32, &mut buf);
    let mut out = [0u32; 3];
    inline::decode(&buf, 3, &mut out).unwrap();
    assert_eq!(out, [5, 6, 7]);
}

#[test]
fn damaged_inline_blocks_are_errors() {
    let mut buf = vec![];
    inline::encode::<u16>(&[1, 2, 3], &mut buf);
    let decode = |buf: &[u8], n: usize| inline::decode::<u16>(buf, n, &mut vec![0; n]);
    assert!(decode(&[], 0).is_ok() && decode(&buf, 0).is_ok());
    assert!(decode(&[], 3).is_err(), "no header");
    assert!(decode(&buf[..1], 3).is_err(), "half a header");
    assert!(decode(&buf[..buf.len() - 2], 3).is_err(), "short block");
    assert!(decode(&[&buf[..], &[0, 0]].concat(), 3).is_err(), "long block");
    assert!(decode(&buf, 1025).is_err(), "more values than a block has");
    assert!(
        decode(&[&[17, 0][..], &[0; 17 * 128]].concat(), 3).is_err(),
        "width above the type"
    );
    assert!(
        inline::decode::<u16>(&buf, 3, &mut [0; 2]).is_err(),
        "output of another length"
    );
    assert!(
        inline::decode::<u64>(&[0xff; 8], 3, &mut [0; 3]).is_err(),
        "enormous width"
    );
}

fn out_of_line_round_trip<T: Lane>() {
    for n in SIZES {
        for width in (0..=T::BITS).step_by(3) {
            let values = sample::<T>(n, width, n as u64);
            let mut buf = vec![];
            out_of_line::encode(&values, width, &mut buf);
            assert_eq!(buf.len(), out_of_line::encoded_len::<T>(width, n));
            let mut out = vec![T::MAX; n];
            out_of_line::decode(&buf, width, n, &mut out).unwrap();
            assert_eq!(out, values);

            // The other tail is legal as well.
            let whole = n / BLOCK_LEN * BLOCK_LEN;
            let mut padded = values.clone();
            padded.resize(n.next_multiple_of(BLOCK_LEN), T::default());
            let packed: Vec<u8> = padded
                .chunks(BLOCK_LEN)
                .flat_map(|b| naive_pack(width, b))
                .collect();
            let mut raw = packed[..whole / 8 * width].to_vec();
            T::extend_le(&values[whole..], &mut raw);
            for other in [packed, raw] {
                // A padded tail as long as the plain one would be read as plain.
                if other.len() == buf.len() && other != buf {
                    continue;
                }
                let mut out = vec![T::MAX; n];
                out_of_line::decode(&other, width, n, &mut out).unwrap();
                assert_eq!(out, values);
            }
        }
    }
}

#[test]
fn out_of_line_blocks_round_trip() {
    out_of_line_round_trip::<u8>();
    out_of_line_round_trip::<u16>();
    out_of_line_round_trip::<u32>();
    out_of_line_round_trip::<u64>();
}

#[test]
fn tails_of_the_format_example() {
    for (levels, bytes) in [(1024, 128), (36, 72), (176, 128)] {
        assert_eq!(out_of_line::encoded_len::<u16>(1, levels), bytes);
    }
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(
        bytes in prop::collection::vec(any::<u8>(), 0..700),
        width in 0usize..70,
        n in 0usize..1300,
    ) {
        let _ = inline::decode::<u8>(&bytes, n, &mut vec![0; n]);
        let _ = inline::decode::<u64>(&bytes, n, &mut vec![0; n]);
        let _ = inline::decode_one::<u16>(&bytes, n, n / 2);
        let _ = out_of_line::decode::<u16>(&bytes, width, n, &mut vec![0; n]);
        let _ = out_of_line::decode::<u32>(&bytes, width, n, &mut vec![0; n]);
    }
}
