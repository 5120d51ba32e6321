//! Scans: every byte read once, every page decoded once, batches in order and of their size, and no more read ahead than allowed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::*;
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use glaive_file::batches::BatchSize;
use glaive_file::scan::{FileScan, Wanted};
use glaive_file::{DecodeStats, FileReader, FileVersion, WriterOptions};

use crate::support::{MemoryFile, mix, options, write};

const COLUMNS: usize = 6;

/// Integers, words of few, texts, wide texts, lists, vectors.
fn batch(rows: usize, seed: usize) -> RecordBatch {
    let text = |width: usize| -> ArrayRef {
        let value = |i: usize| format!("{:x}{}", mix(i + seed), "-".repeat(i % 5 + width));
        Arc::new(StringArray::from_iter_values((0..rows).map(value)))
    };
    let few = (0..rows).map(|i| format!("one of a few names: {}", mix(i) % 50));
    let offsets = OffsetBuffer::from_lengths((0..rows).map(|i| i % 4));
    let items = Int32Array::from_iter_values((0..*offsets.last().unwrap()).map(|i| i % 1000));
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let floats = Float32Array::from_iter_values((0..rows * 72).map(|i| (mix(i + seed) % 1000) as f32));
    let float = Arc::new(Field::new("item", DataType::Float32, true));
    let columns: [(&str, ArrayRef); COLUMNS] = [
        (
            "number",
            Arc::new(Int64Array::from_iter_values(
                (seed..seed + rows).map(|i| i as i64),
            )),
        ),
        ("few", Arc::new(StringArray::from_iter_values(few))),
        ("text", text(8)),
        ("wide", text(260)),
        (
            "list",
            Arc::new(ListArray::new(item, offsets, Arc::new(items), None)),
        ),
        (
            "vector",
            Arc::new(FixedSizeListArray::new(float, 72, Arc::new(floats), None)),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// A file of these batches. With `paged`, every batch is a page of every column.
fn file(batches: &[RecordBatch], version: FileVersion, paged: bool) -> Arc<MemoryFile> {
    let options = WriterOptions {
        data_cache_bytes: paged.then_some(1),
        ..options(version)
    };
    MemoryFile::new(write(batches, options).unwrap())
}

fn open(file: &Arc<MemoryFile>) -> Arc<FileReader> {
    let reader = Arc::new(FileReader::open(file.clone()).unwrap());
    file.take_rounds();
    reader
}

fn scan(reader: &Arc<FileReader>, size: BatchSize, readahead: Option<usize>) -> FileScan {
    let schema = reader.schema().unwrap().clone();
    let rows = Wanted::Range(0..reader.num_rows().unwrap());
    FileScan::new(reader.clone(), schema, rows, size, readahead).unwrap()
}

/// How often each byte of each page buffer was read: (column, page, buffer) to (bytes read, bytes it has).
fn reads(file: &MemoryFile, reader: &FileReader) -> BTreeMap<(u32, usize, usize), (u64, u64)> {
    let mut buffers = BTreeMap::new();
    for column in 0..reader.tail().num_columns() {
        for page in &reader.tail().column(column).unwrap().pages {
            for (at, buffer) in page.buffers.iter().enumerate() {
                buffers.insert(buffer.position, (buffer.size, (column, page.number, at)));
            }
        }
    }
    let mut read: BTreeMap<_, _> = buffers.values().map(|(size, key)| (*key, (0, *size))).collect();
    for range in file.take_rounds().into_iter().flatten() {
        let (position, (size, key)) = buffers.range(..=range.start).next_back().unwrap();
        assert!(range.end <= position + size, "a read lies in one buffer");
        read.get_mut(key).unwrap().0 += range.end - range.start;
    }
    read
}

fn pages(reader: &FileReader) -> u64 {
    let columns = 0..reader.tail().num_columns();
    columns
        .map(|c| reader.tail().column(c).unwrap().pages.len() as u64)
        .sum()
}

/// Chunks that decoding the whole file at once takes.
fn chunks(file: &Arc<MemoryFile>) -> u64 {
    let reader = open(file);
    let all = glaive_file::Rows::Range(0..reader.num_rows().unwrap());
    reader.read(None, all, &Default::default()).unwrap();
    file.take_rounds();
    assert_eq!(reader.decode_stats().pages, pages(&reader));
    reader.decode_stats().chunks
}

#[test]
fn windows_of_pages_read_and_decode_everything_once() {
    let batches: Vec<_> = (0..24).map(|i| batch(3000, i * 3000)).collect();
    for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
        let file = file(&batches, version, true);
        let once = chunks(&file);
        for readahead in [None, Some(0), Some(3)] {
            let reader = open(&file);
            let found: Vec<_> = scan(&reader, BatchSize::Large, readahead)
                .map(|batch| batch.unwrap())
                .collect();
            assert!(found.len() > 2, "a scan of several windows");
            let rows: Vec<_> = found.iter().map(RecordBatch::num_rows).collect();
            assert!(rows.iter().all(|rows| rows % 3000 == 0), "{rows:?}");
            let expected = concat_batches(&batches[0].schema(), &batches).unwrap();
            assert_eq!(concat_batches(&found[0].schema(), &found).unwrap(), expected);
            let stats = DecodeStats {
                pages: pages(&reader),
                chunks: once,
            };
            assert_eq!(reader.decode_stats(), stats, "{version} {readahead:?}");
            for (buffer, (read, size)) in reads(&file, &reader) {
                // Whole pages need no row index.
                let is_index = version > FileVersion::V2_0 && (buffer.0, buffer.2) == (3, 1);
                let expected = if is_index { 0 } else { size };
                assert_eq!(read, expected, "buffer {buffer:?} of {version}, {readahead:?}");
            }
        }
    }
}

#[test]
fn windows_inside_of_pages_share_one_chunk_a_column() {
    let batches = [batch(25_000, 0), batch(25_000, 25_000)];
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let file = file(&batches, version, true);
        let once = chunks(&file);
        let mut most_windows = 0;
        for size in [BatchSize::Large, BatchSize::Rows(1000), BatchSize::Rows(8192)] {
            for readahead in [None, Some(1), Some(16)] {
                let reader = open(&file);
                let found: Vec<_> = scan(&reader, size, readahead).map(|b| b.unwrap()).collect();
                let batches = found.len() as u64;
                let stats = reader.decode_stats();
                // One that crosses the border of the pages counts twice.
                let windows = stats.pages / COLUMNS as u64;
                assert_eq!(
                    stats.pages % COLUMNS as u64,
                    0,
                    "each window reads each column once"
                );
                assert!(windows > 1 && windows <= batches + 1, "{windows} windows");
                // The wide columns have no chunks.
                let shared = (COLUMNS as u64 - 2) * (windows - 1);
                assert!(
                    (once..=once + shared).contains(&stats.chunks),
                    "{stats:?}, once {once}, {windows} windows"
                );
                check_reads(&file, &reader, windows);
                most_windows = most_windows.max(windows);
            }
        }
        assert_eq!(most_windows, 50, "a batch a window");
    }
}

/// What a page is read with is read once; of the rest, at most a chunk or an index entry a window twice.
fn check_reads(file: &MemoryFile, reader: &FileReader, windows: u64) {
    const CHUNK: u64 = 32 * 1024;
    for (buffer, (read, size)) in reads(file, reader) {
        let (column, _, at) = buffer;
        let limit = match (column, at) {
            (3, 1) => size + 8 * (windows - 1),
            (3, _) | (5, _) => size,
            (_, 1) => size + CHUNK * (windows - 1),
            _ => size,
        };
        assert!(
            (size..=limit).contains(&read),
            "buffer {buffer:?}: {read} of {size} bytes in {windows} windows"
        );
    }
}

#[test]
fn batches_have_their_size_and_order() {
    let rows = 50_001;
    let batches = [batch(20_000, 0), batch(1, 20_000), batch(30_000, 20_001)];
    let all = concat_batches(&batches[0].schema(), &batches).unwrap();
    for version in [FileVersion::V2_0, FileVersion::V2_2] {
        let file = file(&batches, version, true);
        for size in [1, 1000, 8192, 50_000, 1 << 40] {
            for readahead in [None, Some(0), Some(2), Some(usize::MAX)] {
                // Few columns, so that one row a batch ends.
                let reader = open(&file);
                let names: &[&str] = if size == 1 {
                    &["number"]
                } else {
                    &["number", "text"]
                };
                let schema = Arc::new(reader.schema().unwrap().project(names).unwrap());
                let end = if size == 1 { 500 } else { rows };
                let wanted = Wanted::Range(0..end as u64);
                let scan = FileScan::new(reader, schema, wanted, BatchSize::Rows(size), readahead);
                let mut start = 0;
                for batch in scan.unwrap() {
                    let batch = batch.unwrap();
                    assert_eq!(batch.num_rows(), size.min(end - start));
                    assert_eq!(batch.column(0), &all.column(0).slice(start, batch.num_rows()));
                    start += batch.num_rows();
                }
                assert_eq!(start, end);
            }
        }
    }
}

#[test]
fn no_more_is_read_ahead_than_allowed() {
    // Wide vectors are read exactly row by row; the numbers beside them make the scan worth threads.
    const ROWS: usize = 30_000;
    let vector = batch(ROWS, 0).column(5).clone();
    let number: ArrayRef = Arc::new(Int32Array::from_iter_values(0..ROWS as i32));
    let names: Vec<_> = (0..12).map(|i| format!("n{i}")).collect();
    let mut fields = vec![Field::new("vector", vector.data_type().clone(), true)];
    fields.extend(names.iter().map(|name| Field::new(name, DataType::Int32, true)));
    let mut arrays = vec![vector];
    arrays.extend(names.iter().map(|_| number.clone()));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let file = file(&[batch], FileVersion::V2_2, false);
    for size in [500, 1024, 3000] {
        for readahead in [0, 1, 2, 3, 5, 16] {
            let reader = open(&file);
            let mut scan = scan(&reader, BatchSize::Rows(size), Some(readahead));
            let mut read = 0;
            for taken in 1..=4 {
                scan.next().unwrap().unwrap();
                std::thread::sleep(Duration::from_millis(20));
                read += reads(&file, &reader)[&(0, 0, 0)].0;
                let rows = (size * (taken + readahead)).min(ROWS) as u64;
                assert!(
                    read <= rows * 72 * 4,
                    "{} rows of {size} read for {taken} batches and {readahead} ahead",
                    read / (72 * 4)
                );
            }
            drop(scan);
        }
    }
}
