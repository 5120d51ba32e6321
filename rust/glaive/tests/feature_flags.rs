//! The feature words, bit by bit.

use glaive::ErrorKind;
use glaive::manifest::FeatureFlags;

/// Bits that must be equal in both words.
const PAIRED: [u32; 4] = [8, 10, 14, 16];

/// Bits that this engine reads and writes.
const SUPPORTED: [u32; 9] = [0, 1, 2, 3, 4, 5, 7, 8, 11];

fn words(reader: u64, writer: u64) -> FeatureFlags {
    FeatureFlags { reader, writer }
}

#[test]
fn each_reader_bit() {
    for bit in 0..64 {
        let kind = words(1 << bit, 0).check_readable(false).err().map(|e| e.kind());
        let expected = match bit {
            15 => Some(ErrorKind::Corrupt),
            _ if PAIRED.contains(&bit) => Some(ErrorKind::Corrupt),
            _ if SUPPORTED.contains(&bit) => None,
            _ => Some(ErrorKind::Unsupported),
        };
        assert_eq!(kind, expected, "bit {bit}");
    }
}

#[test]
fn each_bit_in_both_words() {
    for bit in (0..64).filter(|bit| *bit != 15) {
        let result = words(1 << bit, 1 << bit).check_readable(false);
        assert_eq!(result.is_ok(), SUPPORTED.contains(&bit), "bit {bit}");
        if let Err(e) = result {
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.to_string().contains(&format!("feature bit {bit}")), "{e}");
        }
    }
}

#[test]
fn writer_bits_do_not_matter_for_reading() {
    for bit in (0..64).filter(|bit| *bit != 15 && !PAIRED.contains(bit)) {
        let flags = words(0, 1 << bit);
        flags.check_readable(false).unwrap();
        let writable = SUPPORTED.contains(&bit) && bit != 11;
        let result = flags.check_writable();
        assert_eq!(result.is_ok(), writable, "bit {bit}");
        assert!(
            result.is_ok()
                || result
                    .unwrap_err()
                    .to_string()
                    .contains("cannot be written by this version")
        );
    }
}

#[test]
fn unique_field_ids_need_their_counter() {
    words(0, 1 << 15).check_readable(true).unwrap();
    for (flags, has_counter) in [
        (words(0, 1 << 15), false),
        (words(0, 0), true),
        (words(1 << 15, 1 << 15), true),
    ] {
        assert_eq!(
            flags.check_readable(has_counter).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
    }
    assert!(words(0, 1 << 15).check_writable().is_err());
}
