//! Which bytes are read: the tail on open, the pages of a scan, one chunk for one row.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use glaive_file::io::ReadAt;
use glaive_file::{FileReader, FileVersion, ReadOptions, Rows};

use crate::support::{MemoryFile, options, write};

fn file() -> (Arc<MemoryFile>, FileReader) {
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..100_000).map(|i| i * 31 % 1_000_003),
    ));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..100_000).map(|i| format!("value {}", i * 7)),
    ));
    let long = |i| format!("{i:06}{}", "w".repeat(256));
    let wide: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(long)));
    let batch = RecordBatch::try_from_iter([("ints", ints), ("text", text), ("wide", wide)]).unwrap();
    let file = MemoryFile::new(write(&[batch], options(FileVersion::V2_2)).unwrap());
    let reader = FileReader::open(file.clone()).unwrap();
    (file, reader)
}

#[test]
fn open_reads_the_tail_only() {
    let (file, _) = file();
    assert_eq!(file.stats().calls, 1);
    assert!(file.stats().bytes <= 64 * 1024 + 64);
}

#[test]
fn a_projection_reads_its_own_pages_once() {
    let (file, reader) = file();
    file.ranges.lock().unwrap().clear();
    reader
        .read(Some(&["ints"]), Rows::Range(0..100_000), &ReadOptions::default())
        .unwrap();
    let pages: u64 = reader
        .tail()
        .column(0)
        .unwrap()
        .pages
        .iter()
        .flat_map(|p| &p.buffers)
        .map(|b| b.size)
        .sum();
    let read: u64 = file.ranges.lock().unwrap().iter().map(|r| r.end - r.start).sum();
    assert_eq!(read, pages);
}

#[test]
fn one_row_of_a_mini_block_page_reads_one_chunk() {
    let (file, reader) = file();
    let take = |row| {
        reader
            .read(Some(&["ints"]), Rows::Indices(&[row]), &ReadOptions::default())
            .unwrap()
    };
    take(50_000);
    // Chunk words are known now.
    file.ranges.lock().unwrap().clear();
    take(70_000);
    let ranges = file.ranges.lock().unwrap().clone();
    assert_eq!(ranges.len(), 1);
    assert!(ranges[0].end - ranges[0].start < 4096, "{ranges:?}");
}

#[test]
fn one_row_of_a_variable_full_zip_page_reads_two_index_entries_and_the_value() {
    let (file, reader) = file();
    file.ranges.lock().unwrap().clear();
    reader
        .read(Some(&["wide"]), Rows::Indices(&[1]), &ReadOptions::default())
        .unwrap();
    let ranges = file.ranges.lock().unwrap().clone();
    assert_eq!(ranges.len(), 2);
    assert_eq!(ranges[0].end - ranges[0].start, 8);
    assert!(ranges[1].end - ranges[1].start <= 4 + 262);
}
