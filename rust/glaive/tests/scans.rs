//! What a scan of a table reads, and how it is cut into batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use glaive::{BatchSize, Dataset, ScanOptions, WriteParams};
use glaive_file::io::{LocalStorage, Storage};
use glaive_file::{FileReader, FileVersion};

use crate::support::{Place, stream};

const COLUMNS: usize = 3000;
const WANTED: usize = 1234;

fn column(i: usize) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values((0..50).map(|row| (row * i) as i32)))
}

/// Path of the only data file of a table, relative to it.
fn data_file(place: &Place) -> String {
    let names = place.names("data");
    assert_eq!(names.len(), 1);
    format!("data/{}", names[0])
}

fn reader(place: &Place) -> FileReader {
    let storage = LocalStorage::from_uri(&place.uri()).unwrap();
    FileReader::open(storage.open_reader(&data_file(place)).unwrap()).unwrap()
}

#[test]
fn one_of_many_columns_is_read_alone() {
    for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
        let place = Place::new();
        let columns = (0..COLUMNS).map(|i| (format!("c{i}"), column(i)));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let params = WriteParams {
            data_storage_version: Some(version),
            ..WriteParams::default()
        };
        Dataset::write(place.uri().as_str(), stream(batch), &params).unwrap();

        // The metadata of all other columns cannot be decoded.
        let file = reader(&place);
        let path = format!("{}/{}", place.uri(), data_file(&place));
        let mut bytes = std::fs::read(&path).unwrap();
        for (i, entry) in file.tail().column_table().unwrap().iter().enumerate() {
            if i != WANTED {
                let range = entry.range();
                bytes[range.start as usize..range.end as usize].fill(0xff);
            }
        }
        std::fs::write(&path, &bytes).unwrap();

        let dataset = place.open();
        let opened = dataset.io_stats();
        let scan = |name: &str| {
            let options = ScanOptions {
                columns: Some(vec![name.to_owned()]),
                ..ScanOptions::default()
            };
            dataset.scan(options).unwrap().next_batch()
        };
        let found = scan(&format!("c{WANTED}")).unwrap().unwrap();
        assert_eq!(found.column(0), &column(WANTED));
        let read = dataset.io_stats();
        let tail = bytes.len() as u64 - file.tail().global_buffers()[0].position;
        let page = file.tail().column(WANTED as u32).unwrap().stored_bytes();
        // The first read of the tail begins at a multiple of 64.
        let most = tail.max(64 * 1024) + 64 + page;
        assert!(
            read.bytes - opened.bytes <= most,
            "{} bytes of {version}, at most {most}",
            read.bytes - opened.bytes
        );
        assert!(read.calls - opened.calls <= 4);
        let name = [format!("c{WANTED}")];
        let taken = dataset.take(&[49], Some(&name)).unwrap();
        assert_eq!(taken.column(0), &column(WANTED).slice(49, 1));
        assert!(scan("c7").is_err(), "the others are broken");
    }
}

#[test]
fn batches_are_exact_and_never_cross_fragments() {
    let place = Place::new();
    let rows = 100_000;
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..rows).map(|i| format!("text {i}")),
    ));
    let columns = [
        ("a", numbers.clone()),
        ("b", texts.clone()),
        ("c", numbers.clone()),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let params = WriteParams {
        max_rows_per_file: 30_001,
        ..WriteParams::default()
    };
    Dataset::write(place.uri().as_str(), stream(batch), &params).unwrap();
    let dataset = place.open();
    let fragments: Vec<usize> = dataset
        .fragments()
        .iter()
        .map(|fragment| fragment.count_rows().unwrap() as usize)
        .collect();
    assert_eq!(fragments, [30_001, 30_001, 30_001, 9997]);
    for size in [1000, 8192, 30_000, 30_001, 1 << 40] {
        let expected: Vec<usize> = fragments
            .iter()
            .flat_map(|&rows| {
                let whole = std::iter::repeat_n(size, rows / size);
                whole.chain(Some(rows % size).filter(|&rest| rest > 0))
            })
            .collect();
        for readahead in [None, Some(0), Some(1), Some(4), Some(usize::MAX)] {
            let options = ScanOptions {
                batch_size: BatchSize::Rows(size),
                readahead,
                ..ScanOptions::default()
            };
            let (mut found, mut start) = (Vec::new(), 0);
            for batch in dataset.scan(options).unwrap() {
                let batch = batch.unwrap();
                assert_eq!(batch.column(0), &numbers.slice(start, batch.num_rows()));
                assert_eq!(batch.column(1), &texts.slice(start, batch.num_rows()));
                start += batch.num_rows();
                found.push(batch.num_rows());
            }
            assert_eq!(found, expected, "{size}, {readahead:?}");
        }
    }
}

#[test]
fn a_scan_reads_no_byte_twice() {
    let place = Place::new();
    let rows = 800_000_i32;
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..rows).map(|i| i.wrapping_mul(7919) % 1_000_003),
    ));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|i| {
        format!(
            "{:032x}",
            u128::from(i as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_0a5b_1c0d_3b27)
        )
    })));
    let batch = RecordBatch::try_from_iter([("a", numbers), ("b", texts)]).unwrap();
    Dataset::write(place.uri().as_str(), stream(batch), &WriteParams::default()).unwrap();
    let pages: usize = (0..2)
        .map(|column| reader(&place).tail().column(column).unwrap().pages.len())
        .sum();
    assert!(pages > 2, "a file of several pages");
    let size = std::fs::metadata(format!("{}/{}", place.uri(), data_file(&place)))
        .unwrap()
        .len();
    let dataset = place.open();
    let opened = dataset.io_stats().bytes;
    let options = ScanOptions {
        batch_size: BatchSize::Large,
        ..ScanOptions::default()
    };
    let batches: Vec<_> = dataset
        .scan(options)
        .unwrap()
        .map(|batch| batch.unwrap())
        .collect();
    let windows = batches.len() as u64;
    assert!(windows > 1);
    let read = dataset.io_stats().bytes - opened;
    // The tail is read with pages before it; windows may share a chunk a column, and small gaps are read.
    let most = size + 64 * 1024 + windows * 2 * (32 + 8) * 1024;
    assert!(
        (size / 2..=most).contains(&read),
        "{read} of {size} bytes in {windows} windows"
    );
}
