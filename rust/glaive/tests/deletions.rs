//! Deletion files of other writers.

use bytes::Bytes;
use glaive::ErrorKind;
use glaive::deletion::DeletionVector;
use glaive::manifest::{DeletionFile, DeletionFileType};
use serde_json::Value;

use crate::support::{hex, vectors};

fn file(file_type: DeletionFileType, num_deleted_rows: Option<u64>) -> DeletionFile {
    DeletionFile {
        file_type,
        read_version: 1,
        id: 1,
        num_deleted_rows,
        base_id: None,
    }
}

fn file_type(vector: &Value) -> DeletionFileType {
    if vector["type"] == "BITMAP" {
        DeletionFileType::Bitmap
    } else {
        DeletionFileType::Arrow
    }
}

fn rows(vector: &Value) -> Vec<u64> {
    match vector["rows"].as_array() {
        Some(rows) => rows.iter().map(|row| row.as_u64().unwrap()).collect(),
        None => {
            let (first, last) = vector["rows"].as_str().unwrap().split_once("..=").unwrap();
            let last = last.split(' ').next().unwrap();
            (first.parse().unwrap()..=last.parse().unwrap()).collect()
        }
    }
}

#[test]
fn vectors_decode() {
    for vector in vectors("deletion_files").as_array().unwrap() {
        let (bytes, rows) = (hex(&vector["hex"]), rows(vector));
        let described = file(file_type(vector), Some(rows.len() as u64));
        let vector = DeletionVector::decode(&described, &bytes, 10_000).unwrap();
        assert_eq!(vector.iter_range(&(0..1 << 32)).collect::<Vec<_>>(), rows);
        assert_eq!(vector.len(), rows.len() as u64);
    }
}

#[test]
fn counts_and_rows_are_checked() {
    let all = vectors("deletion_files");
    for vector in all.as_array().unwrap() {
        let (bytes, rows, kind) = (hex(&vector["hex"]), rows(vector), file_type(vector));
        let decode = |count, physical| DeletionVector::decode(&file(kind, count), &bytes, physical);
        assert!(decode(None, 10_000).is_ok());
        let fault = decode(Some(rows.len() as u64 + 1), 10_000).unwrap_err();
        assert_eq!(fault.kind(), ErrorKind::Corrupt);
        assert_eq!(
            decode(None, *rows.last().unwrap()).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
    }
}

#[test]
fn runs_are_accepted() {
    let bitmap = [0x3b, 0x30, 0, 0, 1, 0, 0, 4, 0, 1, 0, 5, 0, 4, 0];
    let vector = DeletionVector::decode(
        &file(DeletionFileType::Bitmap, Some(5)),
        &Bytes::copy_from_slice(&bitmap),
        100,
    );
    assert_eq!(
        vector.unwrap().iter_range(&(0..100)).collect::<Vec<_>>(),
        [5, 6, 7, 8, 9]
    );
}

#[test]
fn mutated_files_never_panic() {
    for vector in vectors("deletion_files").as_array().unwrap() {
        let (bytes, described) = (hex(&vector["hex"]), file(file_type(vector), None));
        for cut in 0..bytes.len().min(800) {
            let _ = DeletionVector::decode(&described, &bytes.slice(..cut), 10_000);
        }
        for at in 0..bytes.len().min(800) {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.to_vec();
                changed[at] = value;
                let _ = DeletionVector::decode(&described, &changed.into(), 10_000);
            }
        }
    }
}
