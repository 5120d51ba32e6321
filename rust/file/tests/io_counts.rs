//! Which bytes are read: the tail on open, and for one row what format chapter 21, 11 allows: exact calls and exact ranges.
//!
//! What a row needs is worked out here from the page metadata, by other means than the reader's.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::concat::concat_batches;
use glaive_file::container::PageInfo;
use glaive_file::proto::lance::encodings21::{PageLayout, page_layout::Layout};
use glaive_file::{FileReader, FileVersion, ReadOptions, Rows};
use prost::Message;

use crate::support::{MemoryFile, mix, options, strings, write};

/// Rows of a page; the file has two.
const N: usize = 20_000;
/// A list of more items than a chunk holds.
const LONG: usize = 5000;

/// What the first page of a column is, and of how many leaf columns it consists.
struct Case {
    name: &'static str,
    layout: &'static str,
    leaves: usize,
}

const fn case(name: &'static str, layout: &'static str, leaves: usize) -> Case {
    Case { name, layout, leaves }
}

const CASES: [Case; 25] = [
    case("flat", "mini-block", 1),
    case("nulls", "mini-block", 1),
    case("text", "mini-block", 1),
    case("few", "mini-block with dictionary", 1),
    case("keys", "mini-block with dictionary", 1),
    case("vector", "mini-block", 1),
    case("list", "mini-block with lists", 1),
    case("long", "mini-block with lists", 1),
    case("deep", "mini-block with lists", 1),
    case("words", "mini-block with lists with dictionary", 1),
    case("struct", "mini-block", 2),
    case("structs", "mini-block with lists", 2),
    case("packed", "mini-block", 1),
    case("embedding", "full-zip", 1),
    case("embedding_nulls", "full-zip", 1),
    case("embeddings", "full-zip with index", 1),
    case("wide", "full-zip with index", 1),
    case("wide_nulls", "full-zip with index", 1),
    case("wides", "full-zip with index", 1),
    case("wides_deep", "full-zip with index", 1),
    case("zipped", "full-zip", 1),
    case("constant", "constant", 1),
    case("constant_nulls", "constant with levels", 1),
    case("all_null", "constant", 1),
    case("empty_lists", "constant with levels", 1),
];

fn ints(n: usize) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(
        (0..n).map(|i| (mix(i) % 100_000) as i32),
    ))
}

fn texts(n: usize) -> ArrayRef {
    Arc::new(strings(n, &None, |i| format!("value {:x}", mix(i))))
}

fn wides(n: usize, nulls: &Option<NullBuffer>) -> ArrayRef {
    Arc::new(strings(n, nulls, |i| {
        format!("{:x}{}", mix(i), "w".repeat(256 + i % 40))
    }))
}

fn vectors(n: usize, size: i32, nulls: Option<NullBuffer>) -> ArrayRef {
    let items = Float32Array::from_iter_values((0..n * size as usize).map(|i| (mix(i) % 9999) as f32 / 7.0));
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    Arc::new(FixedSizeListArray::new(item, size, Arc::new(items), nulls))
}

/// Lists of 0, 1, 2, 0, 1, 2, .. items.
fn lists(rows: usize, items: impl FnOnce(usize) -> ArrayRef) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths((0..rows).map(|i| i % 3));
    let items = items(*offsets.last().unwrap() as usize);
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    Arc::new(ListArray::new(item, offsets, items, None))
}

/// Every thousandth list is longer than a chunk.
fn long_lists(rows: usize) -> ArrayRef {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in 0..rows {
        let items = if row % 1000 == 500 { LONG } else { row % 3 };
        (0..items).for_each(|i| lists.values().append_value((mix(row + i) % 5000) as i32));
        lists.append(row % 7 > 0);
    }
    Arc::new(lists.finish())
}

fn structs(n: usize) -> ArrayRef {
    let field = |name: &str, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
    let columns = vec![ints(n), texts(n)];
    let fields = Fields::from(vec![field("a", &columns[0]), field("b", &columns[1])]);
    Arc::new(StructArray::new(fields, columns, None))
}

fn pairs(n: usize) -> ArrayRef {
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int32, false),
        Field::new("b", DataType::Int32, false),
    ]);
    Arc::new(StructArray::new(fields, vec![ints(n), ints(n)], None))
}

fn array(name: &str) -> ArrayRef {
    let third = Some(NullBuffer::from_iter((0..N).map(|i| i % 3 > 0)));
    let few = || strings(N, &None, |i| format!("one of a few names: {}", i % 40));
    match name {
        "flat" | "zipped" => ints(N),
        "nulls" => Arc::new(Int32Array::new((0..N as i32).collect::<Vec<_>>().into(), third)),
        "text" => texts(N),
        "few" => Arc::new(few()),
        "keys" => Arc::new(few().iter().collect::<DictionaryArray<Int16Type>>()),
        "vector" => vectors(N, 4, None),
        "list" => lists(N, ints),
        "long" => long_lists(N),
        "deep" => lists(N, |n| lists(n, texts)),
        "words" => lists(N, |n| {
            Arc::new(strings(n, &None, |i| format!("the word number {}", i % 30)))
        }),
        "struct" => structs(N),
        "structs" => lists(N, structs),
        "packed" => pairs(N),
        "embedding" => vectors(N, 64, None),
        "embedding_nulls" => vectors(N, 64, third),
        "embeddings" => lists(N, |n| vectors(n, 64, None)),
        "wide" => wides(N, &None),
        "wide_nulls" => wides(N, &third),
        "wides" => lists(N, |n| wides(n, &None)),
        "wides_deep" => lists(N, |n| lists(n, |n| wides(n, &None))),
        "constant" => Arc::new(Int32Array::from(vec![7; N])),
        "constant_nulls" => Arc::new(Int32Array::new(vec![7; N].into(), third)),
        "all_null" => new_null_array(&DataType::Int64, N),
        "empty_lists" => {
            let item = Arc::new(Field::new("item", DataType::Int32, true));
            let offsets = OffsetBuffer::from_lengths(vec![0; N]);
            Arc::new(ListArray::new(
                item,
                offsets,
                new_empty_array(&DataType::Int32),
                third,
            ))
        }
        other => panic!("no column {other}"),
    }
}

fn metadata(name: &str) -> HashMap<String, String> {
    match name {
        "packed" => [("lance-encoding:packed".to_owned(), "true".to_owned())].into(),
        "zipped" => [(
            "lance-encoding:structural-encoding".to_owned(),
            "fullzip".to_owned(),
        )]
        .into(),
        _ => HashMap::new(),
    }
}

/// The cases of a version: 2.1 stores constants as mini-blocks.
fn cases(version: FileVersion) -> impl Iterator<Item = &'static Case> {
    CASES
        .iter()
        .filter(move |case| version > FileVersion::V2_1 || !case.name.starts_with("constant"))
}

/// A file of two equal pages a column.
fn file(version: FileVersion) -> (Vec<u8>, RecordBatch) {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for case in cases(version) {
        let array = array(case.name);
        fields
            .push(Field::new(case.name, array.data_type().clone(), true).with_metadata(metadata(case.name)));
        arrays.push(array);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let options = glaive_file::WriterOptions {
        data_cache_bytes: Some(1),
        ..options(version)
    };
    let bytes = write(&[batch.clone(), batch.clone()], options).unwrap();
    let all = concat_batches(&batch.schema(), [&batch, &batch]).unwrap();
    (bytes, all)
}

/// The ranges that one row of a page needs: cold, and when what is kept is known.
#[derive(Default)]
struct Needs {
    layout: String,
    init: Vec<Range<u64>>,
    index: Vec<Range<u64>>,
    data: Vec<Range<u64>>,
    chunks: usize,
}

impl Needs {
    fn rounds(&self, cold: bool) -> Vec<Vec<Range<u64>>> {
        let init = if cold { self.init.clone() } else { Vec::new() };
        let rounds = [init, self.index.clone(), self.data.clone()];
        rounds.into_iter().filter(|round| !round.is_empty()).collect()
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn needs(file: &MemoryFile, page: &PageInfo, row: u64) -> Needs {
    let layout = PageLayout::decode(page.layout.clone()).unwrap().layout.unwrap();
    let buffer = |i: usize| page.buffers[i].range();
    match layout {
        Layout::MiniBlockLayout(layout) => {
            let (lists, dictionary) = (layout.rep_compression.is_some(), layout.dictionary.is_some());
            let width = if layout.has_large_chunk { 4 } else { 2 };
            let words = file.slice(buffer(0)).chunks(width).map(little_endian);
            let mut chunks = Vec::new();
            let (mut start, mut values) = (buffer(1).start, 0);
            for word in words {
                let end = start + ((word >> 4) + 1) * 8;
                let in_chunk = match word & 15 {
                    0 => layout.num_items - values,
                    log => 1 << log,
                };
                chunks.push((values..values + in_chunk, start..end));
                (start, values) = (end, values + in_chunk);
            }
            let holds = match lists {
                false => chunks.iter().map(|(values, _)| values.contains(&row)).collect(),
                true => chunks_of_row(file.slice(buffer(page.buffers.len() - 1)), row),
            };
            let mine: Vec<_> = chunks
                .iter()
                .zip(holds)
                .filter(|(_, holds)| *holds)
                .map(|((_, bytes), _)| bytes.clone())
                .collect();
            let name = |what: bool, name| if what { name } else { "" };
            Needs {
                layout: format!(
                    "mini-block{}{}",
                    name(lists, " with lists"),
                    name(dictionary, " with dictionary")
                ),
                init: std::iter::once(0)
                    .chain(2..page.buffers.len())
                    .map(buffer)
                    .collect(),
                data: std::iter::once(mine[0].start..mine.last().unwrap().end).collect(),
                chunks: mine.len(),
                ..Needs::default()
            }
        }
        Layout::FullZipLayout(_) => {
            let stream = buffer(0);
            if page.buffers.len() == 1 {
                let stride = page.buffers[0].size / page.length;
                let start = stream.start + row * stride;
                return Needs {
                    layout: "full-zip".into(),
                    data: std::iter::once(start..start + stride).collect(),
                    ..Needs::default()
                };
            }
            let width = page.buffers[1].size / (page.length + 1);
            let start = buffer(1).start + row * width;
            let entry = |at: u64| stream.start + little_endian(file.slice(at..at + width));
            Needs {
                layout: "full-zip with index".into(),
                index: std::iter::once(start..start + 2 * width).collect(),
                data: std::iter::once(entry(start)..entry(start + width)).collect(),
                ..Needs::default()
            }
        }
        Layout::ConstantLayout(_) => Needs {
            layout: format!(
                "constant{}",
                if page.buffers.is_empty() {
                    ""
                } else {
                    " with levels"
                }
            ),
            init: (0..page.buffers.len()).map(buffer).collect(),
            ..Needs::default()
        },
        Layout::BlobLayout(_) => panic!("a blob page"),
    }
}

/// Which chunks hold slots of a row, by the repetition index: rows that end in a chunk, slots of one that goes on.
fn chunks_of_row(index: &[u8], row: u64) -> Vec<bool> {
    let mut next = 0;
    let chunks = index.chunks(16).map(|entry| {
        let (ends, goes_on) = (little_endian(&entry[..8]), little_endian(&entry[8..]) > 0);
        let rows = next..next + ends + u64::from(goes_on);
        next += ends;
        rows.contains(&row)
    });
    chunks.collect()
}

/// Rounds of several leaves that are read together.
fn together(leaves: &[Needs], cold: bool) -> Vec<Vec<Range<u64>>> {
    let mut rounds: Vec<Vec<Range<u64>>> = Vec::new();
    for leaf in leaves {
        for (at, round) in leaf.rounds(cold).into_iter().enumerate() {
            rounds.resize(rounds.len().max(at + 1), Vec::new());
            rounds[at].extend(round);
        }
    }
    rounds
}

fn one_row(version: FileVersion) {
    let (bytes, expected) = file(version);
    let mut first_column = 0;
    for case in cases(version) {
        let columns = first_column..first_column + case.leaves as u32;
        first_column = columns.end;
        let mut most_chunks = 0;
        for (page, row) in [(0, 0), (0, 501), (0, 4096), (1, 9500), (1, N as u64 - 1)] {
            let file = MemoryFile::new(bytes.clone());
            let reader = FileReader::open(file.clone()).unwrap();
            let place = format!("{} of {version}, row {row} of page {page}", case.name);
            let read = |row: u64| {
                file.take_rounds();
                let row = page as u64 * N as u64 + row;
                let batch = reader.read(Some(&[case.name]), Rows::Indices(&[row]), &ReadOptions::default());
                let column = expected.column_by_name(case.name).unwrap().slice(row as usize, 1);
                assert_eq!(batch.unwrap().column(0), &column, "{place}");
                file.take_rounds()
            };
            let needs_of = |row: u64| -> Vec<Needs> {
                let leaves = columns.clone().map(|column| {
                    let info = reader.tail().column(column).unwrap();
                    assert_eq!(info.pages.len(), 2, "{place}");
                    let needs = needs(&file, &info.pages[page], row);
                    assert_eq!(needs.layout, case.layout, "{place}");
                    needs
                });
                leaves.collect()
            };
            let cold = needs_of(row);
            most_chunks = most_chunks.max(cold.iter().map(|n| n.chunks).max().unwrap());
            assert_eq!(read(row), together(&cold, true), "cold: {place}");
            assert_eq!(read(row), together(&cold, false), "again: {place}");
            assert_eq!(read(7), together(&needs_of(7), false), "warm: {place}");
        }
        let expected_chunks = match case.name {
            "long" => 2..=usize::MAX,
            name if case.layout.starts_with("mini-block with lists") && name != "long" => 1..=2,
            _ if case.layout.starts_with("mini-block") => 1..=1,
            _ => 0..=0,
        };
        assert!(
            expected_chunks.contains(&most_chunks),
            "{}: {most_chunks}",
            case.name
        );
    }
}

#[test]
fn one_row_reads_exactly_what_it_needs_2_1() {
    one_row(FileVersion::V2_1);
}

#[test]
fn one_row_reads_exactly_what_it_needs_2_2() {
    one_row(FileVersion::V2_2);
}

#[test]
fn a_packed_struct_with_strings_is_read_by_its_row() {
    let metadata = [("lance-encoding:packed".to_owned(), "true".to_owned())];
    let field = Field::new("p", structs(1).data_type().clone(), true).with_metadata(metadata.into());
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![structs(N)]).unwrap();
    let file = MemoryFile::new(write(&[batch], options(FileVersion::V2_2)).unwrap());
    let reader = FileReader::open(file.clone()).unwrap();
    let page = reader.tail().column(0).unwrap().pages[0].clone();
    for row in [0, 700, N as u64 - 1] {
        file.take_rounds();
        reader
            .read(None, Rows::Indices(&[row]), &ReadOptions::default())
            .unwrap();
        let needs = needs(&file, &page, row);
        assert_eq!(needs.layout, "full-zip with index");
        assert_eq!(file.take_rounds(), needs.rounds(true));
    }
}

#[test]
fn open_reads_the_tail_only() {
    let (bytes, _) = file(FileVersion::V2_2);
    let length = bytes.len() as u64;
    let file = MemoryFile::new(bytes);
    FileReader::open(file.clone()).unwrap();
    let rounds = file.take_rounds();
    assert_eq!(rounds.len(), 1);
    let tail = (length - 64 * 1024) / 64 * 64..length;
    assert_eq!(rounds[0], std::slice::from_ref(&tail));
}

#[test]
fn a_projection_reads_its_own_pages_once() {
    let (bytes, _) = file(FileVersion::V2_2);
    let file = MemoryFile::new(bytes);
    let reader = FileReader::open(file.clone()).unwrap();
    file.take_rounds();
    reader
        .read(
            Some(&["flat"]),
            Rows::Range(0..2 * N as u64),
            &ReadOptions::default(),
        )
        .unwrap();
    let pages = &reader.tail().column(0).unwrap().pages;
    let buffers: Vec<_> = pages.iter().flat_map(|p| &p.buffers).map(|b| b.range()).collect();
    assert_eq!(file.take_rounds(), [buffers]);
}
