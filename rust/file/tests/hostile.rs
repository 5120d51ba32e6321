//! Damaged files give errors that say what is wrong; nothing panics and nothing is allocated from an unchecked number.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::Schema;
use glaive_file::{ErrorKind, FileReader, FileVersion, ReadOptions, Rows};

use crate::support::{MemoryFile, options, write};

fn file(version: FileVersion) -> Vec<u8> {
    let ints: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..3000).map(|i| (i % 7 != 0).then_some(i)),
    ));
    let few: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..3000).map(|i| ["a", "bb"][i % 2]),
    ));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..3000).map(|i| format!("value number {i}")),
    ));
    let wide: ArrayRef = Arc::new(StringArray::from_iter(
        (0..3000).map(|i| (i % 3 > 0).then(|| "w".repeat(250 + i % 9))),
    ));
    let batch =
        RecordBatch::try_from_iter([("ints", ints), ("few", few), ("text", text), ("wide", wide)]).unwrap();
    write(&[batch], options(version)).unwrap()
}

/// Opens and reads everything.
fn read_all(bytes: Vec<u8>) -> glaive_file::Result<usize> {
    let reader = FileReader::open(MemoryFile::new(bytes))?;
    // A damaged count may be large; what is read is bounded by the file.
    let n = reader.num_rows()?.min(10_000);
    let batch = reader.read(None, Rows::Range(0..n), &ReadOptions { threads: 1 })?;
    reader.read(None, Rows::Indices(&[0, n / 2]), &ReadOptions { threads: 1 })?;
    Ok(batch.num_rows())
}

#[test]
fn every_truncation_is_refused() {
    let bytes = file(FileVersion::V2_2);
    for len in (0..bytes.len())
        .step_by(97)
        .chain([0, 1, 39, 40, bytes.len() - 1])
    {
        let error = read_all(bytes[..len].to_vec()).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
            "{len}: {error}"
        );
        assert!(error.to_string().contains("memory.lance"), "{error}");
    }
}

#[test]
fn flipped_bytes_never_panic() {
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let bytes = file(version);
        assert_eq!(read_all(bytes.clone()).unwrap(), 3000);
        // All of the metadata, and samples of the pages.
        let tail = bytes.len().saturating_sub(3000);
        for position in (0..tail).step_by(61).chain(tail..bytes.len()) {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[position] ^= flip;
                // Either is fine: bytes of values are not protected by a checksum.
                let _ = read_all(damaged);
            }
        }
    }
}

#[test]
fn the_error_names_file_column_and_page() {
    let mut bytes = file(FileVersion::V2_2);
    // Chunk words of the first page of the first column: one more chunk size than there is.
    bytes[0] ^= 0x10;
    let error = read_all(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(
        text.starts_with("memory.lance: column 'ints': page 0: chunk metadata"),
        "{text}"
    );
}

/// The bytes that `column` of the special columns takes in a file of its own.
fn file_of_special(column: usize, version: FileVersion) -> Option<Vec<u8>> {
    let nulls = NullBuffer::from_iter((0..40).map(|i| i % 5 > 0));
    let columns = crate::special_columns::columns(40, &Some(nulls), version);
    let (field, array) = columns.into_iter().nth(column)?;
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap();
    Some(write(&[batch], options(version)).unwrap())
}

#[test]
fn flipped_bytes_of_dictionaries_and_structs_never_panic() {
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let mut column = 0;
        while let Some(bytes) = file_of_special(column, version) {
            column += 1;
            assert_eq!(read_all(bytes.clone()).unwrap(), 40);
            let tail = bytes.len().saturating_sub(700);
            let step = (tail / 200).max(1);
            for position in (0..tail).step_by(step).chain(tail..bytes.len()) {
                for flip in [0x01, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[position] ^= flip;
                    let _ = read_all(damaged);
                }
            }
        }
        assert!(column > 10);
    }
}
