//! Blob columns: what is written where, what is read for it, and damaged descriptors.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Int32Array, LargeBinaryArray, ListArray, RecordBatch, StringArray, StructArray,
    UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use glaive_file::blob::{BlobFiles, BlobSource, BlobTargets, External, side_file_name, values_of};
use glaive_file::io::{FileSink, ReadAt};
use glaive_file::proto::lance::encodings21::page_layout::Layout;
use glaive_file::proto::lance::encodings21::{BlobLayout, ConstantLayout, MiniBlockLayout, PageLayout};
use glaive_file::{
    BlobHandling, Error, ErrorKind, FieldSource, FileReader, FileVersion, FileWriter, ReadOptions, Result,
    Rows, Schema, read_fields,
};

use prost::Message;

use crate::support::{MemoryFile, MemorySink, open, options, write};
use crate::vectors;

const KEY: &str = "lance-encoding:blob";

/// Side files in memory, and objects outside.
#[derive(Debug, Clone, Default)]
struct Beside(Arc<Mutex<BTreeMap<u32, MemorySinkOf>>>);

type MemorySinkOf = Arc<Mutex<Vec<u8>>>;

impl Beside {
    fn sizes(&self) -> Vec<(u32, usize)> {
        let files = self.0.lock().unwrap();
        files
            .iter()
            .map(|(id, bytes)| (*id, bytes.lock().unwrap().len()))
            .collect()
    }
}

impl BlobTargets for Beside {
    fn create_side_file(&mut self, id: u32) -> Result<Box<dyn FileSink>> {
        let sink = MemorySink::default();
        assert!(self.0.lock().unwrap().insert(id, sink.0.clone()).is_none());
        Ok(Box::new(sink))
    }

    fn external(&mut self, uri: &str) -> Result<External> {
        match uri.strip_prefix("copy:") {
            Some(text) => Ok(External::Ingest(MemoryFile::new(text.as_bytes().to_vec()))),
            None => Ok(External::Reference {
                base: 0,
                uri: uri.to_string(),
            }),
        }
    }
}

impl BlobFiles for Beside {
    fn side_file(&self, id: u32) -> Result<Arc<dyn ReadAt>> {
        match self.0.lock().unwrap().get(&id) {
            Some(bytes) => Ok(MemoryFile::new(bytes.lock().unwrap().clone())),
            None => Err(Error::new(ErrorKind::NotFound, format!("side file {id}"))),
        }
    }

    fn external(&self, base: u32, uri: &str) -> Result<Arc<dyn ReadAt>> {
        Ok(MemoryFile::new(format!("{base}:{uri}").into_bytes()))
    }
}

fn first_form(name: &str) -> Field {
    Field::new(name, DataType::LargeBinary, true)
        .with_metadata([(KEY.to_string(), "true".to_string())].into())
}

fn second_form(name: &str, keys: &[(&str, &str)]) -> Field {
    let parts = [
        ("data", DataType::LargeBinary),
        ("uri", DataType::Utf8),
        ("position", DataType::UInt64),
        ("size", DataType::UInt64),
    ];
    let parts = parts.map(|(name, data_type)| Field::new(name, data_type, true));
    let extension = [("ARROW:extension:name", "lance.blob.v2")];
    let keys = keys.iter().chain(&extension);
    Field::new(name, DataType::Struct(parts.to_vec().into()), true)
        .with_metadata(keys.map(|(k, v)| (k.to_string(), v.to_string())).collect())
}

enum Given {
    Null,
    Data(Vec<u8>),
    Uri(&'static str, Option<(u64, u64)>),
}

fn blob_array(rows: &[Given]) -> ArrayRef {
    let data: LargeBinaryArray = rows
        .iter()
        .map(|row| match row {
            Given::Data(bytes) => Some(bytes.as_slice()),
            _ => None,
        })
        .collect();
    let uri: StringArray = rows
        .iter()
        .map(|row| match row {
            Given::Uri(uri, _) => Some(*uri),
            _ => None,
        })
        .collect();
    let number = |pick: fn((u64, u64)) -> u64| -> UInt64Array {
        let part = |row: &Given| match row {
            Given::Uri(_, range) => range.map(pick),
            _ => None,
        };
        rows.iter().map(part).collect()
    };
    let DataType::Struct(fields) = second_form("b", &[]).data_type().clone() else {
        unreachable!()
    };
    let valid: Vec<bool> = rows.iter().map(|row| !matches!(row, Given::Null)).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(data),
        Arc::new(uri),
        Arc::new(number(|range| range.0)),
        Arc::new(number(|range| range.1)),
    ];
    Arc::new(StructArray::new(fields, columns, Some(NullBuffer::from(valid))))
}

fn batch(field: Field, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field])), vec![array]).unwrap()
}

/// Writes a file whose side files go into the answer.
fn write_beside(batches: &[RecordBatch]) -> Result<(Vec<u8>, Beside)> {
    let (sink, beside) = (MemorySink::default(), Beside::default());
    let schema = Schema::try_from_arrow(&batches[0].schema())?;
    let writer = FileWriter::create(Box::new(sink.clone()), schema, options(FileVersion::V2_2))?;
    let mut writer = writer.with_blob_targets(Box::new(beside.clone()), None);
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()?;
    let bytes = sink.0.lock().unwrap().clone();
    Ok((bytes, beside))
}

/// Rows of the only column of a file that was written for `field`.
fn read_as(reader: &FileReader, field: &Field, handling: BlobHandling, rows: Rows<'_>) -> Result<ArrayRef> {
    let schema = Schema::try_from_arrow(&ArrowSchema::new(vec![field.clone()]))?.view_blobs(handling);
    let columns = reader.own_columns()?;
    let source = FieldSource {
        reader,
        columns: &columns,
    };
    Ok(read_fields(&[source], &schema.fields, rows, &ReadOptions::default())?.remove(0))
}

/// Files with blobs of both forms, for mutations.
pub fn files() -> Vec<Vec<u8>> {
    let values: LargeBinaryArray = [Some(b"hello".as_slice()), None, Some(b""), Some(&[7; 300])]
        .into_iter()
        .collect();
    let values: ArrayRef = Arc::new(values);
    let mut files = Vec::new();
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        files.push(write(&[batch(first_form("b"), values.clone())], options(version)).unwrap());
        let nested = nested(values.clone());
        files.push(write(&[batch(nested.0, nested.1)], options(version)).unwrap());
    }
    let rows = [
        Given::Data(vec![1; 100]),
        Given::Null,
        Given::Data(vec![2; 70_000]),
        Given::Uri("file:///nowhere", Some((3, 4))),
    ];
    files.push(
        write_beside(&[batch(second_form("b", &[]), blob_array(&rows))])
            .unwrap()
            .0,
    );
    let written = vectors::load("blobs/files.json");
    let written = written.as_array().unwrap().iter();
    files.extend(written.map(|vector| vectors::unhex(&vector["file_hex"])));
    files
}

/// A struct around blobs whose second row is null.
fn nested(values: ArrayRef) -> (Field, ArrayRef) {
    let n = values.len();
    let fields = vec![Field::new("x", DataType::Int32, true), first_form("b")];
    let x: ArrayRef = Arc::new(Int32Array::from_iter_values(0..n as i32));
    let valid = NullBuffer::from((0..n).map(|i| i != 2).collect::<Vec<_>>());
    let array = StructArray::new(fields.clone().into(), vec![x, values], Some(valid));
    (
        Field::new("s", DataType::Struct(fields.into()), true),
        Arc::new(array),
    )
}

fn bytes_of(array: &ArrayRef) -> Vec<Option<&[u8]>> {
    array.as_binary::<i64>().iter().collect()
}

#[test]
fn the_first_form_round_trips_with_nulls_at_every_level() {
    let long = vec![9; 100_000];
    let values = [
        Some(b"hello".as_slice()),
        None,
        Some(b"gone"),
        Some(b""),
        Some(&long),
        Some(b"yy"),
    ];
    let array: ArrayRef = Arc::new(values.into_iter().collect::<LargeBinaryArray>());
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let reader = open(write(&[batch(first_form("b"), array.clone())], options(version)).unwrap());
        let found = reader
            .read(None, Rows::Range(0..6), &ReadOptions::default())
            .unwrap();
        assert_eq!(bytes_of(found.column(0)), values, "{version}");
        let one = reader
            .read(None, Rows::Indices(&[1, 4]), &ReadOptions::default())
            .unwrap();
        assert_eq!(bytes_of(one.column(0)), [values[1], values[4]], "{version}");
        let found = read_as(
            &reader,
            &first_form("b"),
            BlobHandling::Descriptors,
            Rows::Range(0..6),
        )
        .unwrap();
        let found = found.as_struct();
        assert_eq!(
            found.column(1).as_primitive::<UInt64Type>().values(),
            &[5, 0, 4, 0, 100_000, 2]
        );
        assert_eq!((found.null_count(), found.is_null(1)), (1, true), "{version}");

        let (field, array) = nested(array.clone());
        let reader = open(write(&[batch(field.clone(), array)], options(version)).unwrap());
        let found = reader
            .read(None, Rows::Range(0..6), &ReadOptions::default())
            .unwrap();
        let found = found.column(0).as_struct();
        let inner = found.column(1);
        assert_eq!(
            found.nulls().unwrap().iter().collect::<Vec<_>>(),
            [true, true, false, true, true, true]
        );
        let mut expected = values;
        expected[2] = None;
        assert_eq!(bytes_of(inner), expected, "{version}");
    }
}

#[test]
fn false_stores_an_ordinary_column() {
    let field = Field::new("b", DataType::LargeBinary, true)
        .with_metadata([(KEY.to_string(), "false".to_string())].into());
    let values: ArrayRef = Arc::new(LargeBinaryArray::from(vec![Some(b"a".as_slice()), None]));
    for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
        let reader = open(write(&[batch(field.clone(), values.clone())], options(version)).unwrap());
        assert!(
            reader.schema().unwrap().fields[0].metadata.is_empty(),
            "{version}"
        );
        assert!(!reader.tail().column(0).unwrap().is_blob);
        let found = reader
            .read(None, Rows::Range(0..2), &ReadOptions::default())
            .unwrap();
        assert_eq!(found.column(0), &values);
    }
}

#[test]
fn what_cannot_be_a_blob_is_refused_by_name() {
    let refused = |field: Field, version| {
        let schema = Schema::try_from_arrow(&ArrowSchema::new(vec![field])).unwrap();
        let sink = Box::new(MemorySink::default());
        let error = FileWriter::create(sink, schema, options(version)).unwrap_err();
        assert!(matches!(
            error.kind(),
            ErrorKind::Unsupported | ErrorKind::InvalidInput
        ));
        error.to_string()
    };
    let list = Field::new("l", DataType::List(first_form("item").into()), true);
    let text = refused(list, FileVersion::V2_1);
    assert!(
        text.contains("lists of blobs") && text.contains("blob v2"),
        "{text}"
    );
    let text = refused(second_form("b", &[]), FileVersion::V2_1);
    assert!(
        text.contains("Blob v2 requires file version >= 2.2 (got 2.1)"),
        "{text}"
    );
    let text = refused(first_form("b").with_data_type(DataType::Utf8), FileVersion::V2_1);
    assert!(text.contains("large_binary"), "{text}");
    for (key, value) in [("inline", "-1"), ("dedicated", "0"), ("pack-file", "many")] {
        let key = format!("lance-encoding:blob-{key}-size-threshold");
        let text = refused(second_form("b", &[(&key, value)]), FileVersion::V2_2);
        assert!(text.contains(&key) && text.contains(value), "{text}");
    }
    let error = write(
        &[batch(second_form("b", &[]), blob_array(&[Given::Data(vec![1])]))],
        options(FileVersion::V2_2),
    );
    assert!(error.unwrap_err().to_string().contains("through a table"));
}

#[test]
fn sizes_decide_where_the_second_form_goes() {
    let keys = [
        ("lance-encoding:blob-inline-size-threshold", "5"),
        ("lance-encoding:blob-dedicated-size-threshold", "10"),
        ("lance-encoding:blob-pack-file-size-threshold", "15"),
    ];
    let sizes = [5, 6, 11, 0, 8, 8];
    let mut rows: Vec<_> = sizes.iter().map(|n| Given::Data(vec![*n as u8; *n])).collect();
    rows.insert(3, Given::Null);
    rows.push(Given::Uri("http://somewhere/x", Some((2, 3))));
    rows.push(Given::Uri("copy:0123456", None));
    rows.push(Given::Uri("copy:0123456789abc", Some((1, 11))));
    let field = second_form("b", &keys);
    let (bytes, beside) = write_beside(&[batch(field.clone(), blob_array(&rows))]).unwrap();
    assert_eq!(beside.sizes(), [(1, 14), (2, 11), (3, 15), (4, 11)]);
    let reader = open(bytes).with_blob_files(Arc::new(beside));
    let n = rows.len() as u64;
    let found = read_as(&reader, &field, BlobHandling::Descriptors, Rows::Range(0..n)).unwrap();
    let parts = found.as_struct();
    let kinds = parts.column(0).as_primitive::<UInt8Type>().values();
    assert_eq!(kinds, &[0, 1, 2, 0, 0, 1, 1, 3, 1, 2]);
    assert_eq!(
        parts.column(3).as_primitive::<UInt32Type>().values(),
        &[0, 1, 2, 0, 0, 1, 3, 0, 3, 4]
    );
    assert_eq!(
        parts.column(1).as_primitive::<UInt64Type>().values()[5..],
        [6, 0, 2, 8, 0]
    );
    assert!(parts.is_null(3) && parts.null_count() == 1);
    let found = read_as(&reader, &field, BlobHandling::Bytes, Rows::Range(0..n)).unwrap();
    let mut expected: Vec<Option<Vec<u8>>> = sizes.iter().map(|n| Some(vec![*n as u8; *n])).collect();
    expected.insert(3, None);
    expected.push(Some(b"htt".to_vec()));
    expected.push(Some(b"0123456".to_vec()));
    expected.push(Some(b"123456789ab".to_vec()));
    assert_eq!(
        bytes_of(&found),
        expected.iter().map(Option::as_deref).collect::<Vec<_>>()
    );
}

#[test]
fn a_row_sets_data_or_uri() {
    let refuse = |row: Given, change: &dyn Fn(&mut Vec<ArrayRef>)| {
        let array = blob_array(&[row]);
        let (fields, mut columns, nulls) = array.as_struct().clone().into_parts();
        change(&mut columns);
        let array = Arc::new(StructArray::new(fields, columns, nulls));
        let error = write_beside(&[batch(second_form("b", &[]), array)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    let one = |n: u64| Arc::new(UInt64Array::from(vec![n])) as ArrayRef;
    let uri = || Arc::new(StringArray::from(vec!["u"])) as ArrayRef;
    for (row, change, expected) in [
        (
            Given::Data(vec![1]),
            Box::new(|c: &mut Vec<ArrayRef>| c[1] = uri()) as Box<dyn Fn(&mut Vec<ArrayRef>)>,
            "exactly one of",
        ),
        (
            Given::Uri("u", None),
            Box::new(|c: &mut Vec<ArrayRef>| c[2] = one(1)),
            "both `position` and `size`",
        ),
        (
            Given::Uri("u", Some((1, 0))),
            Box::new(|_: &mut Vec<ArrayRef>| ()),
            "greater than zero",
        ),
        (
            Given::Uri("", None),
            Box::new(|_: &mut Vec<ArrayRef>| ()),
            "empty `uri`",
        ),
        (
            Given::Data(vec![]),
            Box::new(|c: &mut Vec<ArrayRef>| {
                c[2] = one(1);
                c[3] = one(1)
            }),
            "`uri` is null",
        ),
    ] {
        let text = refuse(row, &*change);
        assert!(text.contains(expected) && text.contains("'b' row 0"), "{text}");
    }
}

#[test]
fn lists_of_the_second_form_round_trip() {
    let item = second_form("item", &[]);
    // The items of the null list are not stored.
    let rows = [
        Given::Data(vec![1; 70_000]),
        Given::Null,
        Given::Data(vec![9; 70_000]),
        Given::Data(vec![3]),
    ];
    let offsets = OffsetBuffer::from_lengths([2, 1, 0, 1]);
    let valid = NullBuffer::from(vec![true, false, true, true]);
    let list = ListArray::new(Arc::new(item.clone()), offsets, blob_array(&rows), Some(valid));
    let field = Field::new("l", DataType::List(item.into()), true);
    let (bytes, beside) = write_beside(&[batch(field.clone(), Arc::new(list))]).unwrap();
    assert_eq!(beside.sizes(), [(1, 70_000)]);
    let reader = open(bytes).with_blob_files(Arc::new(beside));
    let found = read_as(&reader, &field, BlobHandling::Bytes, Rows::Range(0..4)).unwrap();
    let found = found.as_list::<i32>();
    assert_eq!(found.offsets().as_ref(), [0, 2, 2, 2, 3]);
    assert!(found.is_null(1) && found.null_count() == 1);
    assert_eq!(
        bytes_of(found.values()),
        [Some([1; 70_000].as_slice()), None, Some(&[3])]
    );
}

#[test]
fn descriptors_are_read_without_payloads_and_one_blob_by_one_read() {
    let values: LargeBinaryArray = (0..50).map(|i| Some(vec![i as u8; 10_000])).collect();
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let written = write(
            &[batch(first_form("b"), Arc::new(values.clone()))],
            options(version),
        )
        .unwrap();
        let file = MemoryFile::new(written);
        let reader = FileReader::open(file.clone()).unwrap();
        file.ranges.lock().unwrap().clear();
        read_as(
            &reader,
            &first_form("b"),
            BlobHandling::Descriptors,
            Rows::Range(0..50),
        )
        .unwrap();
        let ranges = std::mem::take(&mut *file.ranges.lock().unwrap());
        let read: u64 = ranges.iter().map(|r| r.end - r.start).sum();
        assert!(read < 1000, "{version}: {ranges:?}");
        // Chunk words are known now: one chunk of descriptors, then the blob.
        read_as(
            &reader,
            &first_form("b"),
            BlobHandling::Bytes,
            Rows::Indices(&[7]),
        )
        .unwrap();
        let ranges = std::mem::take(&mut *file.ranges.lock().unwrap());
        assert_eq!(ranges.len(), 2, "{version}: {ranges:?}");
        assert_eq!(ranges[1].end - ranges[1].start, 10_000);
    }
}

#[test]
fn a_handle_reads_parts() {
    let rows = [
        Given::Data((0..100).collect()),
        Given::Data(vec![5; 70_000]),
        Given::Uri("abc", None),
    ];
    let field = second_form("b", &[]);
    let (bytes, beside) = write_beside(&[batch(field.clone(), blob_array(&rows))]).unwrap();
    let reader = Arc::new(open(bytes).with_blob_files(Arc::new(beside.clone())));
    let descriptors = read_as(&reader, &field, BlobHandling::Descriptors, Rows::Range(0..3)).unwrap();
    let values = values_of(&descriptors).unwrap();
    let handle = |row: usize| {
        BlobSource::new(reader.clone())
            .handle(values[row].clone().unwrap())
            .unwrap()
    };
    let own = handle(0);
    assert_eq!(
        (own.size(), own.read(10..13).unwrap().as_ref()),
        (100, [10, 11, 12].as_slice())
    );
    assert_eq!(
        own.read_parts(&[3..4, 0..0, 99..100]).unwrap(),
        [vec![3], vec![], vec![99]]
    );
    let error = own.read(90..101).unwrap_err();
    assert!(error.to_string().contains("exceeds blob size 100"), "{error}");
    assert_eq!(handle(1).read(69_999..70_000).unwrap().as_ref(), [5]);
    assert_eq!(handle(2).read(0..5).unwrap().as_ref(), b"0:abc");
    // A lost side file is noticed when it is read.
    beside.0.lock().unwrap().clear();
    let lost = handle(1);
    assert_eq!(lost.size(), 70_000);
    assert_eq!(lost.read(0..1).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Descriptors as damaged files could hold them.
fn descriptors(kind: u8, position: u64, size: u64, id: u32, uri: &str) -> ArrayRef {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("kind", Arc::new(arrow_array::UInt8Array::from(vec![kind]))),
        ("position", Arc::new(UInt64Array::from(vec![position]))),
        ("size", Arc::new(UInt64Array::from(vec![size]))),
        ("blob_id", Arc::new(arrow_array::UInt32Array::from(vec![id]))),
        ("blob_uri", Arc::new(StringArray::from(vec![uri]))),
    ];
    Arc::new(StructArray::from(RecordBatch::try_from_iter(columns).unwrap()))
}

#[test]
fn impossible_descriptors_are_refused() {
    let kind_of = |array: ArrayRef| values_of(&array).unwrap_err().kind();
    assert_eq!(kind_of(descriptors(1, 0, 5, 0, "")), ErrorKind::Corrupt);
    assert_eq!(kind_of(descriptors(2, 0, 5, 0, "")), ErrorKind::Corrupt);
    assert_eq!(kind_of(descriptors(3, 0, 5, 0, "")), ErrorKind::Corrupt);
    assert_eq!(kind_of(descriptors(6, 0, 5, 1, "")), ErrorKind::Corrupt);
    for kind in [4, 5] {
        let error = values_of(&descriptors(kind, 0, 5, 1, "_blobs/x.blob")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("managed"), "{error}");
    }
    let (bytes, beside) = write_beside(&[batch(
        second_form("b", &[]),
        blob_array(&[Given::Data(vec![1; 70_000])]),
    )])
    .unwrap();
    let reader = Arc::new(open(bytes).with_blob_files(Arc::new(beside)));
    let read = |array: ArrayRef| {
        let value = values_of(&array).unwrap().remove(0).unwrap();
        BlobSource::new(reader.clone()).handle(value)?.read(0..1)
    };
    for (position, size) in [(u64::MAX, 2), (1 << 40, 1), (0, 1 << 60)] {
        assert_eq!(
            read(descriptors(0, position, size, 0, "")).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
    }
    for (position, size) in [(u64::MAX, 2), (70_000, 1), (1, 70_000)] {
        assert_eq!(
            read(descriptors(1, position, size, 1, "")).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
    }
    assert_eq!(
        read(descriptors(1, 0, 1, 77, "")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn payloads_outside_of_the_file_are_refused() {
    let values: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values([[7u8; 300], [8u8; 300]]));
    let bytes = write(&[batch(first_form("b"), values)], options(FileVersion::V2_1)).unwrap();
    let size = 300u64.to_le_bytes();
    let at = bytes.windows(8).position(|word| word == size).unwrap();
    for (at, word) in [
        (at, 1u64 << 40),
        (at - 8, u64::MAX),
        (at - 8, bytes.len() as u64),
        (at, 1400),
    ] {
        let mut damaged = bytes.clone();
        damaged[at..at + 8].copy_from_slice(&word.to_le_bytes());
        let error = open(damaged)
            .read(None, Rows::Range(0..2), &ReadOptions::default())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("column 'b'"), "{error}");
    }
    // A null of a level that the page does not have.
    let mut damaged = bytes;
    damaged[at - 8..at].copy_from_slice(&(1u64 << 16).to_le_bytes());
    damaged[at..at + 8].fill(0);
    let error = open(damaged)
        .read(None, Rows::Range(0..2), &ReadOptions::default())
        .unwrap_err();
    assert!(error.to_string().contains("definition level 1"), "{error}");
}

#[test]
fn tables_of_pylance_read_as_stated() {
    for vector in vectors::load("blobs/files.json").as_array().unwrap() {
        let name = vector["name"].as_str().unwrap();
        let beside = Beside::default();
        for (name, bytes) in vector["side_files"].as_object().unwrap() {
            let id = (1..10).find(|id| side_file_name(*id) == *name).unwrap();
            let bytes = Arc::new(Mutex::new(vectors::unhex(bytes)));
            beside.0.lock().unwrap().insert(id, bytes);
        }
        let reader = open(vectors::unhex(&vector["file_hex"])).with_blob_files(Arc::new(beside));
        for (handling, expected) in [
            (BlobHandling::Descriptors, &vector["descriptors"]),
            (BlobHandling::Bytes, &vector["expected"]),
        ] {
            let schema = reader.schema().unwrap().view_blobs(handling);
            let columns = reader.own_columns().unwrap();
            let source = FieldSource {
                reader: &reader,
                columns: &columns,
            };
            let n = expected.as_array().unwrap().len();
            for rows in [Rows::Range(0..n as u64), Rows::Indices(&[0, 1, 3])] {
                let picked: Vec<usize> = match &rows {
                    Rows::Range(_) => (0..n).collect(),
                    Rows::Indices(picked) => picked.iter().map(|row| *row as usize).collect(),
                };
                let array = read_fields(&[source], &schema.fields, rows, &ReadOptions::default())
                    .unwrap()
                    .remove(0);
                for (at, row) in picked.into_iter().enumerate() {
                    assert_eq!(vectors::row(&array, at), expected[row], "{name}, row {row}");
                }
            }
        }
    }
}

type Change<'a> = &'a dyn Fn(&mut BlobLayout);

/// The blob page of a vector with another layout.
fn with_layout(change: impl Fn(&mut BlobLayout)) -> Result<RecordBatch> {
    let vectors = vectors::load("structural/pages_2.1.json");
    let mut vector = vectors
        .as_array()
        .unwrap()
        .iter()
        .find(|v| v["name"] == "blob_v1")
        .unwrap()
        .clone();
    let page = &mut vector["columns"][0]["pages"][0];
    let mut layout = PageLayout::decode(vectors::unhex(&page["layout_hex"]).as_slice()).unwrap();
    let Some(Layout::BlobLayout(blob)) = &mut layout.layout else {
        panic!("no blob page");
    };
    change(blob);
    let hex: String = layout
        .encode_to_vec()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    page["layout_hex"] = hex.into();
    open(vectors::file_of_pages(&vector)).read(None, Rows::Range(0..4), &ReadOptions::default())
}

#[test]
fn damaged_blob_layouts_are_refused() {
    assert_eq!(with_layout(|_| ()).unwrap().num_rows(), 4);
    let nested = |blob: &mut BlobLayout| {
        let inner = blob.clone();
        blob.inner_layout = Some(Box::new(PageLayout {
            layout: Some(Layout::BlobLayout(Box::new(inner))),
        }));
    };
    let constant = |blob: &mut BlobLayout| {
        let layers = vec![3];
        blob.inner_layout = Some(Box::new(PageLayout {
            layout: Some(Layout::ConstantLayout(ConstantLayout {
                layers,
                ..ConstantLayout::default()
            })),
        }));
    };
    fn mini_block(blob: &mut BlobLayout) -> &mut MiniBlockLayout {
        match &mut blob.inner_layout.as_mut().unwrap().layout {
            Some(Layout::MiniBlockLayout(inner)) => inner,
            _ => panic!("no mini-block"),
        }
    }
    let changes: [(&str, Change); 8] = [
        ("nested", &nested),
        ("constant", &constant),
        ("no inner layout", &|blob| blob.inner_layout = None),
        ("inner nulls", &|blob| mini_block(blob).layers = vec![3]),
        ("other values", &|blob| {
            mini_block(blob).value_compression = mini_block(blob).dictionary.clone()
        }),
        ("fewer rows", &|blob| mini_block(blob).num_items = 3),
        ("a list", &|blob| blob.layers = vec![3, 6]),
        ("no layer", &|blob| blob.layers.clear()),
    ];
    for (name, change) in changes {
        let error = with_layout(change).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
        let text = error.to_string();
        assert!(
            text.contains("column 'a'") && text.contains("page 0"),
            "{name}: {text}"
        );
    }
    // Nulls, but no layer that could hold them.
    let error = with_layout(|blob| blob.layers = vec![1]).unwrap_err();
    assert!(error.to_string().contains("definition level 1"), "{error}");
}
