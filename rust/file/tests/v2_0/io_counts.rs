//! One row of one column: how many reads, and how many bytes.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Fields, Schema};
use glaive_file::{FileReader, FileVersion, ReadOptions, Rows};

use crate::support::{MemoryFile, options, write};

const N: usize = 60_000;

fn lists_of(items: ArrayRef, length: usize) -> ArrayRef {
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    let offsets = arrow_buffer::OffsetBuffer::from_lengths(vec![length; items.len() / length]);
    Arc::new(ListArray::new(item, offsets, items, None))
}

fn file() -> (Arc<MemoryFile>, FileReader) {
    let ints = |n: usize| Arc::new(Int32Array::from_iter_values(0..n as i32)) as ArrayRef;
    let texts = |n: usize| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            (0..n).map(|i| format!("value number {i:06}")),
        ))
    };
    let nulls: ArrayRef = Arc::new(Int32Array::from_iter(
        (0..N as i32).map(|i| (i % 3 > 0).then_some(i)),
    ));
    let few: ArrayRef = Arc::new(StringArray::from_iter_values((0..N).map(|i| ["a", "bb"][i % 2])));
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Int32, true),
    ]);
    let pair: ArrayRef = Arc::new(StructArray::new(fields, vec![ints(N), ints(N)], None));
    let blobs: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values((0..N).map(|i| [i as u8; 5])));
    let columns = [
        ("flat", ints(N)),
        ("nulls", nulls),
        ("all_null", arrow_array::new_null_array(&DataType::Int64, N)),
        ("text", texts(N)),
        ("few", few),
        ("list", lists_of(ints(N * 2), 2)),
        ("texts", lists_of(texts(N * 2), 2)),
        ("deep", lists_of(lists_of(texts(N * 4), 2), 2)),
        ("packed", pair),
        ("blob", blobs),
    ];
    let field = |(name, array): &(&str, ArrayRef)| {
        let field = Field::new(*name, array.data_type().clone(), true);
        match *name {
            "packed" | "blob" => {
                field.with_metadata([(format!("lance-encoding:{name}"), "true".to_owned())].into())
            }
            _ => field,
        }
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::new(schema), arrays).unwrap();
    let file = MemoryFile::new(write(&[batch], options(FileVersion::V2_0)).unwrap());
    let reader = FileReader::open(file.clone()).unwrap();
    (file, reader)
}

/// A range of a buffer: column, buffer, first byte, length.
type Part = (u32, usize, u64, u64);

/// The ranges that one row of a column takes, each round one call.
fn rounds(file: &MemoryFile, reader: &FileReader, column: &str, row: u64) -> Vec<Vec<Range<u64>>> {
    file.take_rounds();
    reader
        .read(Some(&[column]), Rows::Indices(&[row]), &ReadOptions::default())
        .unwrap();
    file.take_rounds()
}

fn ranges(reader: &FileReader, rounds: &[&[Part]]) -> Vec<Vec<Range<u64>>> {
    let range = |&(column, buffer, start, length): &Part| {
        let [page] = &reader.tail().column(column).unwrap().pages[..] else {
            panic!("column {column} has several pages");
        };
        let start = page.buffers[buffer].position + start;
        start..start + length
    };
    rounds
        .iter()
        .map(|round| round.iter().map(range).collect())
        .collect()
}

#[test]
fn one_row_reads_what_it_needs() {
    let (file, reader) = file();
    let row = 30_000;
    // Strings lie side by side: two end offsets give the bounds of one, and that of the one before its start.
    const TEXT: u64 = 19;
    let cases: &[(&str, &[&[Part]])] = &[
        ("flat", &[&[(0, 0, 4 * row, 4)]]),
        ("nulls", &[&[(1, 0, row / 8, 1), (1, 1, 4 * row, 4)]]),
        ("all_null", &[]),
        (
            "text",
            &[&[(3, 0, 8 * (row - 1), 16)], &[(3, 1, TEXT * row, TEXT)]],
        ),
        ("list", &[&[(5, 0, 8 * (row - 1), 16)], &[(6, 0, 4 * 2 * row, 8)]]),
        (
            "texts",
            &[
                &[(7, 0, 8 * (row - 1), 16)],
                &[(8, 0, 8 * (2 * row - 1), 24)],
                &[(8, 1, TEXT * 2 * row, TEXT * 2)],
            ],
        ),
        (
            "deep",
            &[
                &[(9, 0, 8 * (row - 1), 16)],
                &[(10, 0, 8 * (2 * row - 1), 24)],
                &[(11, 0, 8 * (4 * row - 1), 40)],
                &[(11, 1, TEXT * 4 * row, TEXT * 4)],
            ],
        ),
        ("packed", &[&[(12, 0, 8 * row, 8)]]),
    ];
    for (column, expected) in cases {
        let expected = ranges(&reader, expected);
        assert_eq!(rounds(&file, &reader, column, row), expected, "{column}, cold");
        assert_eq!(rounds(&file, &reader, column, row), expected, "{column}, warm");
    }
    // A description, and the bytes themselves, which lie outside of the pages.
    let lengths: Vec<_> = rounds(&file, &reader, "blob", row)
        .into_iter()
        .flatten()
        .map(|range| range.end - range.start)
        .collect();
    assert_eq!(lengths, [16, 5]);
}

#[test]
fn the_first_row_has_no_offset_before_it() {
    let (file, reader) = file();
    let expected = ranges(&reader, &[&[(3, 0, 0, 8)], &[(3, 1, 0, 19)]]);
    assert_eq!(rounds(&file, &reader, "text", 0), expected);
}

#[test]
fn a_dictionary_is_read_once() {
    let (file, reader) = file();
    // One index, two end offsets, three bytes.
    let expected = ranges(&reader, &[&[(4, 0, 30_000, 1), (4, 1, 0, 16), (4, 2, 0, 3)]]);
    assert_eq!(rounds(&file, &reader, "few", 30_000), expected);
    let expected = ranges(&reader, &[&[(4, 0, 7, 1)]]);
    assert_eq!(rounds(&file, &reader, "few", 7), expected);
}

#[test]
fn a_scan_reads_every_page_once_in_one_round_a_level() {
    let (file, reader) = file();
    for (name, columns) in [("flat", 0..1), ("text", 3..4), ("texts", 7..9)] {
        file.ranges.lock().unwrap().clear();
        reader
            .read(Some(&[name]), Rows::Range(0..N as u64), &ReadOptions::default())
            .unwrap();
        let read: u64 = file.ranges.lock().unwrap().iter().map(|r| r.end - r.start).sum();
        let stored: u64 = columns
            .flat_map(|column| reader.tail().column(column).unwrap().pages.clone())
            .flat_map(|page| page.buffers)
            .map(|buffer| buffer.size)
            .sum();
        assert_eq!(read, stored, "{name}");
    }
}
