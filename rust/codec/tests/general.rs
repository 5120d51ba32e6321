//! zstd and lz4 payloads, honest and not.

use glaive_codec::general::{Scheme, compress, decompress, uncompressed_len};
use proptest::prelude::*;

const SCHEMES: [Scheme; 2] = [Scheme::Lz4, Scheme::Zstd];

fn packed(scheme: Scheme, level: Option<i32>, input: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    compress(scheme, level, input, &mut out).unwrap();
    out
}

fn unpacked(scheme: Scheme, input: &[u8], max_len: usize) -> glaive_codec::Result<Vec<u8>> {
    let mut out = b"before".to_vec();
    decompress(scheme, input, max_len, &mut out)?;
    assert_eq!(&out[..6], b"before");
    Ok(out.split_off(6))
}

proptest! {
    #[test]
    fn payloads_round_trip(input in prop::collection::vec(0u8..4, 0..3000), level in -5i32..12) {
        for scheme in SCHEMES {
            let payload = packed(scheme, Some(level), &input);
            prop_assert_eq!(uncompressed_len(scheme, &payload), Ok(Some(input.len() as u64)));
            prop_assert_eq!(unpacked(scheme, &payload, input.len()), Ok(input.clone()));
            if let Some(less) = input.len().checked_sub(1) {
                prop_assert!(unpacked(scheme, &payload, less).is_err());
            }
        }
    }

    #[test]
    fn changed_payloads_decode_or_fail(
        input in prop::collection::vec(0u8..4, 0..300),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        for scheme in SCHEMES {
            let mut payload = packed(scheme, None, &input);
            let at = at.index(payload.len());
            payload[at] = to;
            if let Ok(out) = unpacked(scheme, &payload, 1 << 20) {
                prop_assert!(out.len() <= 1 << 20);
            }
            let _ = unpacked(scheme, &payload[..cut.index(payload.len())], 1 << 20);
        }
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for scheme in SCHEMES {
            let _ = unpacked(scheme, &bytes, 1 << 16);
        }
        let bare = [&[0x28, 0xb5, 0x2f, 0xfd][..], &bytes].concat();
        let _ = unpacked(Scheme::Zstd, &bare, 1 << 16);
    }
}

#[test]
fn default_zstd_levels_agree() {
    let input: Vec<u8> = (0..9000u32).flat_map(|i| (i % 500).to_le_bytes()).collect();
    let default = packed(Scheme::Zstd, None, &input);
    assert_eq!(default, packed(Scheme::Zstd, Some(0), &input));
    assert_eq!(default, packed(Scheme::Zstd, Some(3), &input));
    assert!(
        default != packed(Scheme::Zstd, Some(-20), &input),
        "the level counts"
    );
}

#[test]
fn a_bare_zstd_frame_is_read_within_its_bound() {
    let input = vec![7u8; 5000];
    let bare = packed(Scheme::Zstd, None, &input).split_off(8);
    assert_eq!(uncompressed_len(Scheme::Zstd, &bare), Ok(None));
    assert_eq!(unpacked(Scheme::Zstd, &bare, 5000), Ok(input));
    assert!(unpacked(Scheme::Zstd, &bare, 4999).is_err());
    assert!(
        unpacked(Scheme::Zstd, &bare[..bare.len() - 1], 5000).is_err(),
        "cut"
    );
}

#[test]
fn an_empty_zstd_payload_is_empty_and_an_empty_lz4_payload_is_corrupt() {
    assert_eq!(unpacked(Scheme::Zstd, &[], 0), Ok(vec![]));
    assert!(unpacked(Scheme::Zstd, &[1, 2, 3], 10).is_err());
    assert!(unpacked(Scheme::Lz4, &[], 0).is_err() && unpacked(Scheme::Lz4, &[0, 0, 0], 0).is_err());
}

#[test]
fn a_length_no_payload_can_reach_is_refused_before_allocating() {
    for scheme in SCHEMES {
        let mut payload = packed(scheme, None, b"abc");
        payload[3] = 0xff;
        if scheme == Scheme::Zstd {
            payload[5] = 1;
        }
        assert!(unpacked(scheme, &payload, usize::MAX).is_err());
    }
}

#[test]
fn a_length_that_is_not_the_content_is_corrupt() {
    for scheme in SCHEMES {
        for wrong in [2, 4] {
            let mut payload = packed(scheme, None, b"abc");
            payload[0] = wrong;
            assert!(unpacked(scheme, &payload, 100).is_err());
        }
    }
}
