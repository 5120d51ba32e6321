//! Files of versions that this reader does not read say which they are, and what to do.

use glaive_file::{Error, ErrorKind, FileReader, FileVersion, ReadOptions, Rows};

use crate::support::{MemoryFile, options, write};

fn read(bytes: Vec<u8>) -> Error {
    let read = || {
        let reader = FileReader::open(MemoryFile::new(bytes))?;
        reader.read(None, Rows::Range(0..3), &ReadOptions::default())
    };
    read().unwrap_err()
}

fn file(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/versions/");
    std::fs::read([path, name, ".lance"].concat()).unwrap()
}

#[test]
fn known_versions_are_named() {
    let preliminary = [
        "memory.lance",
        "a preliminary form of file version 2.1",
        "0.17 to 0.32",
        "version 2.0",
    ];
    for (name, words) in [
        (
            "pylance-0.10.18-experimental",
            &["memory.lance", "footer of 48 bytes", "pylance 0.10"][..],
        ),
        ("pylance-0.17.0-2.1", &preliminary),
        ("pylance-0.18.2-2.1", &preliminary),
        ("pylance-0.19.2-2.1", &preliminary),
        ("pylance-0.32.1-2.1", &preliminary),
        (
            "pylance-14.0.2-2.3",
            &["memory.lance", "version 2.3 is unstable", "use version 2.2"],
        ),
    ] {
        let error = read(file(name));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
        let text = error.to_string();
        for word in words {
            assert!(text.contains(word), "{name}: {text}");
        }
    }
}

#[test]
fn unknown_versions_are_named() {
    let batch = crate::support::small_batch();
    let bytes = write(&[batch], options(FileVersion::V2_2)).unwrap();
    for (major, minor) in [(2u16, 4u16), (3, 0), (1, 0), (0, 4), (u16::MAX, 7)] {
        let mut bytes = bytes.clone();
        let at = bytes.len() - 8;
        bytes[at..at + 2].copy_from_slice(&major.to_le_bytes());
        bytes[at + 2..at + 4].copy_from_slice(&minor.to_le_bytes());
        let error = read(bytes);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(
            text.contains(&format!("({major}, {minor})")) && text.contains("2.2"),
            "{text}"
        );
    }
    // Pages of 2.3 under the footer of 2.2.
    let mut bytes = file("pylance-14.0.2-2.3");
    let at = bytes.len() - 6;
    bytes[at] = 2;
    let text = read(bytes).to_string();
    assert!(
        text.contains("file version 2.3, which is unstable; write version 2.2"),
        "{text}"
    );
}
