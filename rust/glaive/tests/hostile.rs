//! Broken and hostile manifests give errors, never a panic.

use std::time::{Duration, Instant};

use bytes::Bytes;
use glaive::ErrorKind;
use glaive::manifest::{IndexSection, ManifestFile};
use glaive::proto::lance::table as pb;
use glaive::transaction::{Transaction, transaction_path};
use prost::Message;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{hex, manifest_bytes, manifest_vectors};

fn decode(bytes: Vec<u8>) -> glaive::Result<ManifestFile> {
    ManifestFile::decode(&Bytes::from(bytes))
}

#[test]
fn every_cut_is_an_error() {
    for vector in manifest_vectors() {
        let bytes = hex(&vector["hex"]);
        for cut in 0..bytes.len() {
            assert!(
                ManifestFile::decode(&bytes.slice(..cut)).is_err(),
                "{} cut at {cut}",
                vector["name"]
            );
        }
    }
}

#[test]
fn random_changes_never_panic() {
    let mut rng = StdRng::seed_from_u64(7);
    let until = Instant::now() + Duration::from_secs(3);
    let vectors: Vec<_> = manifest_vectors()
        .iter()
        .map(|vector| hex(&vector["hex"]))
        .collect();
    let mut refused = 0;
    while Instant::now() < until {
        let mut bytes = vectors[rng.random_range(0..vectors.len())].to_vec();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
        match decode(bytes) {
            Err(_) => refused += 1,
            Ok(file) => {
                let _ = file.transaction_section.map(Transaction::decode);
                let _ = file.manifest.to_proto();
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn the_footer_is_checked() {
    let bytes = manifest_bytes("ops-v1").to_vec();
    let end = bytes.len();
    let changed = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        decode(bytes).unwrap_err()
    };
    assert!(changed(end - 4, b"LANX").to_string().contains("LANC"));
    assert_eq!(changed(end - 8, &[1, 0]).kind(), ErrorKind::Unsupported);
    for position in [0, 1, end as u64, u64::MAX, u64::MAX - 3, 1 << 32] {
        assert_eq!(
            changed(end - 16, &position.to_le_bytes()).kind(),
            ErrorKind::Corrupt,
            "{position}"
        );
    }
    let longer = [&bytes[..end - 16], &[0], &bytes[end - 16..]].concat();
    assert!(
        decode(longer)
            .unwrap_err()
            .to_string()
            .contains("length does not match")
    );
}

#[test]
fn a_broken_inline_transaction_does_not_matter() {
    let mut bytes = manifest_bytes("ops-v2").to_vec();
    bytes[4..40].fill(0xff);
    let file = decode(bytes).unwrap();
    assert_eq!(file.manifest.version, 2);
    assert!(Transaction::decode(file.transaction_section.unwrap()).is_err());
}

#[test]
fn a_broken_index_section_is_an_error() {
    let mut bytes = manifest_bytes("ops-v12").to_vec();
    bytes[4..40].fill(0xff);
    assert!(decode(bytes).unwrap_err().to_string().contains("index section"));
}

/// A manifest of `ops-v4` (two fragments and more) after a change.
fn with(change: impl FnOnce(&mut pb::Manifest)) -> glaive::Result<glaive::manifest::Manifest> {
    let mut stored = decode(manifest_bytes("ops-v4").to_vec())
        .unwrap()
        .manifest
        .to_proto();
    change(&mut stored);
    glaive::manifest::Manifest::from_proto(stored)
}

#[test]
fn each_rule_of_the_manifest() {
    with(|_| {}).unwrap();
    type Change = fn(&mut pb::Manifest);
    let cases: [(&str, Change); 20] = [
        ("two fragments", |m| m.fragments[1].id = 0),
        ("does not fit 32 bits", |m| m.fragments[1].id = 1 << 32),
        ("at most 2^32", |m| m.fragments[0].physical_rows = (1 << 32) + 1),
        ("more rows are deleted", |m| {
            m.fragments[0].deletion_file.as_mut().unwrap().num_deleted_rows = 11
        }),
        ("unknown deletion file type 9", |m| {
            m.fragments[0].deletion_file.as_mut().unwrap().file_type = 9
        }),
        ("column indices", |m| {
            m.fragments[0].files[0].column_indices.clear()
        }),
        ("lists no field", |m| m.fragments[0].files[0].fields.clear()),
        ("occurs twice", |m| {
            m.fragments[0].files[0].column_indices = vec![1, 1]
        }),
        ("negative", |m| {
            m.fragments[0].files[0].column_indices = vec![0, -5]
        }),
        ("two columns of the fragment", |m| {
            m.fragments[0].files[0].fields = vec![1, 1]
        }),
        ("not a relative path", |m| {
            m.fragments[0].files[0].path = "../../etc/passwd".to_string()
        }),
        ("not a relative path", |m| {
            m.fragments[0].files[0].path = "/etc/passwd".to_string()
        }),
        ("not a relative path", |m| m.fragments[0].files[0].path.clear()),
        ("unknown data file version (7, 7)", |m| {
            (
                m.fragments[0].files[0].file_major_version,
                m.fragments[0].files[0].file_minor_version,
            ) = (7, 7)
        }),
        ("mixed data file versions", |m| {
            m.fragments[0].files[0].file_minor_version = 1
        }),
        ("version 0.1", |m| m.fragments[0].files[0].file_major_version = 0),
        ("unknown base path 3", |m| {
            m.fragments[0].files[0].base_id = Some(3)
        }),
        ("unknown data file version 'stable'", |m| {
            m.data_format.as_mut().unwrap().version = "stable".to_string()
        }),
        ("data file format 'parquet'", |m| {
            m.data_format.as_mut().unwrap().file_format = "parquet".to_string()
        }),
        ("timestamp", |m| m.timestamp.as_mut().unwrap().nanos = -1),
    ];
    for (text, change) in cases {
        let error = with(change).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(
            error.to_string().contains(text),
            "'{error}' does not say '{text}'"
        );
    }
    assert!(
        with(|m| m.reader_feature_flags |= 2)
            .unwrap_err()
            .to_string()
            .contains("has no row ids")
    );
    for change in [
        (|m| m.blob_dataset_version = 1) as Change,
        |m| m.fragment_tree = Some(Default::default()),
        |m| m.reader_feature_flags |= 1 << 40,
    ] {
        assert_eq!(with(change).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}

#[test]
fn each_rule_of_the_index_section() {
    let file = ManifestFile::decode(&manifest_bytes("ops-v12")).unwrap();
    let with = |change: fn(&mut pb::IndexMetadata)| {
        let stored = Bytes::from(file.indices.encode().unwrap());
        let mut section = pb::IndexSection::decode(stored).unwrap();
        change(&mut section.indices[0]);
        IndexSection::decode(&section.encode_to_vec().into())
    };
    type Change = fn(&mut pb::IndexMetadata);
    let cases: [(&str, Change); 5] = [
        ("16 bytes", |i| i.uuid = None),
        ("16 bytes", |i| {
            i.uuid = Some(pb::Uuid {
                uuid: vec![1; 15].into(),
            })
        }),
        ("bitmap", |i| i.fragment_bitmap = vec![1, 2, 3].into()),
        ("covering", |i| i.covering_fields = vec![0]),
        ("covering", |i| {
            (i.fields, i.covering_fields) = (vec![0, 3, 3], vec![3, 3])
        }),
    ];
    let check = |error: glaive::Error, text: &str| {
        let error = error.to_string();
        assert!(error.contains(text) && error.contains("a_idx"), "{error}");
    };
    for (text, change) in cases {
        check(with(change).unwrap_err(), text);
    }
    let lost = with(|i| i.base_id = Some(9)).unwrap();
    let transaction = Transaction::decode(file.transaction_section.clone().unwrap()).unwrap();
    let bytes = ManifestFile::encode(&file.manifest, &lost, &transaction).unwrap();
    check(decode(bytes).unwrap_err(), "unknown base path 9");
}

#[test]
fn transaction_files_stay_in_their_directory() {
    assert_eq!(transaction_path("1-a.txn").unwrap(), "_transactions/1-a.txn");
    for name in ["", "..", "../x", "a/b", "a\\b"] {
        assert_eq!(transaction_path(name).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
