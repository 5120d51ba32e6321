//! Files of thousands of columns: opening one to read a column decodes nothing of the others.

use std::sync::Arc;

use arrow_array::*;
use glaive_file::{ErrorKind, FileReader, FileVersion, ReadOptions, Rows};

use crate::support::{MemoryFile, open, options, write};

const COLUMNS: usize = 3000;
const WANTED: usize = 1234;

fn column(i: usize) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values((0..50).map(|row| (row * i) as i32)))
}

/// A file in which only the metadata of the wanted column can be decoded.
fn poisoned(version: FileVersion) -> Vec<u8> {
    let columns = (0..COLUMNS).map(|i| (format!("column {i}"), column(i)));
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut bytes = write(&[batch], options(version)).unwrap();
    let table = open(bytes.clone()).tail().column_table().unwrap();
    assert_eq!(table.len(), COLUMNS);
    for (_, entry) in table.iter().enumerate().filter(|(i, _)| *i != WANTED) {
        let range = entry.range();
        bytes[range.start as usize..range.end as usize].fill(0xff);
    }
    bytes
}

#[test]
fn one_of_many_columns_is_read_alone() {
    for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
        let file = MemoryFile::new(poisoned(version));
        let reader = FileReader::open(file.clone()).unwrap();
        let opening = file.take_rounds();
        assert!(opening.len() <= 3, "{} reads to open {version}", opening.len());
        let tail: u64 = opening.iter().flatten().map(|r| r.end - r.start).sum();
        let first = reader.tail().global_buffers()[0].position;
        let length = reader.tail().file_size();
        assert!(tail <= (length - first).max(64 * 1024 + 64), "the tail alone");

        let name = format!("column {WANTED}");
        let read = |rows: Rows<'_>| reader.read(Some(&[&name]), rows, &ReadOptions::default());
        let batch = read(Rows::Range(0..50)).unwrap();
        assert_eq!(batch.column(0), &column(WANTED));
        let page = &reader.tail().column(WANTED as u32).unwrap().pages[0];
        let buffers: Vec<_> = page.buffers.iter().map(|buffer| buffer.range()).collect();
        assert_eq!(file.take_rounds(), [buffers], "{version}");
        assert_eq!(
            read(Rows::Indices(&[49])).unwrap().column(0),
            &column(WANTED).slice(49, 1)
        );

        let other = reader.read(Some(&["column 7"]), Rows::Range(0..50), &ReadOptions::default());
        assert_eq!(
            other.unwrap_err().kind(),
            ErrorKind::Corrupt,
            "the others are broken"
        );
    }
}
