//! Every type, null pattern, nesting and size, written and read in scans, parts and by row.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use glaive_file::{
    ErrorKind, FieldSource, FileReader, FileVersion, ReadOptions, Rows, WriterOptions, read_fields,
};

use crate::support::{PATTERNS, mix, nulls, open, options, primitive, strings, write};

const SIZES: [usize; 7] = [0, 1, 2, 1023, 1024, 1025, 70_000];

fn ints(n: usize, pattern: &str) -> ArrayRef {
    Arc::new(primitive::<Int32Type>(n, &nulls(pattern, n), |i| mix(i) as i32))
}

fn item(array: &ArrayRef) -> FieldRef {
    Arc::new(Field::new("item", array.data_type().clone(), true))
}

/// Lists of 0 to 3 items; `hidden` keeps items behind null lists.
fn lists(n: usize, pattern: &str, hidden: bool, items: impl Fn(usize) -> ArrayRef) -> ArrayRef {
    let nulls = nulls(pattern, n);
    let shown = |i: usize| hidden || nulls.as_ref().is_none_or(|v| v.is_valid(i));
    let lengths: Vec<usize> = (0..n)
        .map(|i| if shown(i) { (mix(i + 7) % 4) as usize } else { 0 })
        .collect();
    let items = items(lengths.iter().sum());
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(item(&items), offsets, items, nulls))
}

fn large_lists(n: usize, pattern: &str, items: impl Fn(usize) -> ArrayRef) -> ArrayRef {
    let small = lists(n, pattern, false, items);
    let small = small.as_any().downcast_ref::<ListArray>().unwrap();
    let offsets: ScalarBuffer<i64> = small.value_offsets().iter().map(|o| i64::from(*o)).collect();
    let items = small.values().clone();
    Arc::new(LargeListArray::new(
        item(&items),
        OffsetBuffer::new(offsets),
        items,
        small.nulls().cloned(),
    ))
}

fn fixed_lists(n: usize, pattern: &str, dimension: i32, items: ArrayRef) -> ArrayRef {
    let nulls = nulls(pattern, n);
    Arc::new(FixedSizeListArray::new(item(&items), dimension, items, nulls))
}

fn structs(n: usize, fields: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let (fields, arrays): (Vec<_>, Vec<_>) = fields
        .into_iter()
        .map(|(name, a)| (Field::new(name, a.data_type().clone(), true), a))
        .unzip();
    Arc::new(StructArray::try_new_with_length(Fields::from(fields), arrays, None, n).unwrap())
}

/// A field name, its metadata, and the array.
type Column = (String, Vec<(&'static str, &'static str)>, ArrayRef);

fn flat_columns(n: usize, pattern: &str) -> Vec<Column> {
    let v = &nulls(pattern, n);
    let mut out: Vec<Column> = Vec::new();
    let mut add = |name: &str, array: ArrayRef| out.push((name.to_owned(), vec![], array));
    add("null", Arc::new(NullArray::new(n)));
    let bools: BooleanBuffer = (0..n).map(|i| mix(i) & 1 == 1).collect();
    add("bool", Arc::new(BooleanArray::new(bools, v.clone())));
    add("i8", Arc::new(primitive::<Int8Type>(n, v, |i| mix(i) as i8)));
    add("u16", Arc::new(primitive::<UInt16Type>(n, v, |i| mix(i) as u16)));
    add("i32", Arc::new(primitive::<Int32Type>(n, v, |i| i as i32)));
    add("u64", Arc::new(primitive::<UInt64Type>(n, v, mix)));
    let f16 = |i| half::f16::from_bits(mix(i) as u16 & 0x7bff);
    add("f16", Arc::new(primitive::<Float16Type>(n, v, f16)));
    add(
        "f64",
        Arc::new(primitive::<Float64Type>(n, v, |i| (mix(i) as f64).sqrt())),
    );
    let zoned = primitive::<TimestampMicrosecondType>(n, v, |i| i as i64).with_timezone("Europe/Berlin");
    add("timestamp", Arc::new(zoned));
    let decimal = primitive::<Decimal128Type>(n, v, |i| mix(i) as i128 - (1 << 62));
    add(
        "decimal128",
        Arc::new(decimal.with_precision_and_scale(30, 4).unwrap()),
    );
    let decimal = primitive::<Decimal256Type>(n, v, |i| i256::from_i128(mix(i) as i128 * -3));
    add(
        "decimal256",
        Arc::new(decimal.with_precision_and_scale(60, -2).unwrap()),
    );
    for width in [1, 3, 300] {
        let bytes: Vec<u8> = (0..n * width).map(|i| mix(i / 2) as u8).collect();
        let array = FixedSizeBinaryArray::new(width as i32, bytes.into(), v.clone());
        add(&format!("fsb{width}"), Arc::new(array));
    }
    let floats = |k| Arc::new(primitive::<Float32Type>(k, &None, |i| mix(i) as f32)) as ArrayRef;
    add("embedding", fixed_lists(n, pattern, 8, floats(n * 8)));
    add(
        "fsl_null_items",
        fixed_lists(n, pattern, 3, ints(n * 3, "random")),
    );
    let bools: BooleanBuffer = (0..n * 3).map(|i| mix(i) & 1 == 1).collect();
    let bools = Arc::new(BooleanArray::new(bools, nulls("second", n * 3)));
    add("fsl_bool", fixed_lists(n, pattern, 3, bools));
    let inner = fixed_lists(n * 2, "random", 3, ints(n * 6, "random"));
    add("fsl_fsl", fixed_lists(n, pattern, 2, inner));
    out
}

fn string_columns(n: usize, pattern: &str) -> Vec<Column> {
    let v = &nulls(pattern, n);
    let unique = strings(n, v, |i| {
        format!("the quick brown fox {} jumps {}", mix(i) % 1000, i)
    });
    let mut out: Vec<Column> = Vec::new();
    for (name, metadata) in [
        ("plain", vec![]),
        ("none", vec![("lance-encoding:compression", "none")]),
        ("zstd", vec![("lance-encoding:compression", "zstd")]),
        (
            "zstd9",
            vec![
                ("lance-encoding:compression", "zstd"),
                ("lance-encoding:compression-level", "9"),
            ],
        ),
        ("lz4", vec![("lance-encoding:compression", "lz4")]),
        ("fsst", vec![("lance-encoding:compression", "fsst")]),
    ] {
        let binary = BinaryArray::from_iter(unique.iter().map(|v| v.map(str::as_bytes)));
        let large = LargeStringArray::from_iter(unique.iter());
        let large_binary = LargeBinaryArray::from_iter(unique.iter().map(|v| v.map(str::as_bytes)));
        out.push((format!("utf8_{name}"), metadata.clone(), Arc::new(unique.clone())));
        out.push((format!("large_utf8_{name}"), metadata.clone(), Arc::new(large)));
        out.push((format!("binary_{name}"), metadata.clone(), Arc::new(binary)));
        out.push((format!("large_binary_{name}"), metadata, Arc::new(large_binary)));
    }
    let mut add = |name: &str, array: ArrayRef| out.push((name.to_owned(), vec![], array));
    add(
        "few",
        Arc::new(strings(n, v, |i| ["a", "", "ccc"][mix(i) as usize % 3].into())),
    );
    add("distinct99", Arc::new(strings(n, v, |i| format!("k{}", i % 99))));
    add(
        "distinct100",
        Arc::new(strings(n, v, |i| format!("k{}", i % 100))),
    );
    add("empty", Arc::new(strings(n, v, |_| String::new())));
    add(
        "unicode",
        Arc::new(strings(n, v, |i| format!("äöü€😀{}", i % 17))),
    );
    let items = Arc::new(StringArray::from(vec![Some("x"), None, Some(""), Some("yy")]));
    let keys = primitive::<Int8Type>(n, v, |i| (mix(i) % 4) as i8);
    add("dictionary", Arc::new(DictionaryArray::new(keys, items)));
    let items = Arc::new(Float64Array::from(vec![0.5, 1.5]));
    let no_keys = Int16Array::from(vec![None; n]);
    let no_items = Arc::new(StringArray::from(Vec::<&str>::new()));
    add(
        "dictionary_empty",
        Arc::new(DictionaryArray::new(no_keys, no_items)),
    );
    let keys = primitive::<UInt32Type>(n, v, |i| (mix(i) % 2) as u32);
    add("dictionary_f64", Arc::new(DictionaryArray::new(keys, items)));
    let blob = (0..n).map(|i| {
        let valid = v.as_ref().is_none_or(|v| v.is_valid(i));
        valid.then(|| vec![i as u8; (mix(i) % 90) as usize])
    });
    out.push((
        "blob".to_owned(),
        vec![("lance-encoding:blob", "true")],
        Arc::new(LargeBinaryArray::from_iter(blob)),
    ));
    out
}

fn nested_columns(n: usize, pattern: &str) -> Vec<Column> {
    let text = |k: usize| Arc::new(strings(k, &nulls("random", k), |i| format!("s{}", i % 300))) as ArrayRef;
    let pair = |k: usize| structs(k, vec![("x", ints(k, "random")), ("y", text(k))]);
    let random_ints = |k: usize| ints(k, "random");
    let mut out: Vec<Column> = Vec::new();
    let mut add = |name: &str, array: ArrayRef| out.push((name.to_owned(), vec![], array));
    add("list", lists(n, pattern, false, random_ints));
    add("list_hidden", lists(n, pattern, true, random_ints));
    add("large_list", large_lists(n, pattern, text));
    add(
        "list_of_null",
        lists(n, pattern, false, |k| Arc::new(NullArray::new(k))),
    );
    add("list_struct", lists(n, pattern, false, pair));
    let inner = |k: usize| structs(k, vec![("l", lists(k, "second", false, text))]);
    add("list_struct_list", lists(n, pattern, true, inner));
    add(
        "list_fsl",
        lists(n, pattern, false, |k| {
            fixed_lists(k, "random", 2, ints(k * 2, "random"))
        }),
    );
    let deep = lists(n, pattern, false, |k| {
        large_lists(k, "random", |k| {
            lists(k, "second", false, |k| {
                lists(k, "first", false, |k| lists(k, "random", false, text))
            })
        })
    });
    add("list5", deep);
    let fields = vec![
        ("pair", pair(n)),
        ("list", lists(n, pattern, false, random_ints)),
        ("empty", structs(n, vec![])),
        ("flat", ints(n, pattern)),
    ];
    add("struct", structs(n, fields));
    let packed = vec![
        ("a", ints(n, "none")),
        (
            "b",
            Arc::new(primitive::<Int8Type>(n, &None, |i| i as i8)) as ArrayRef,
        ),
        ("c", fixed_lists(n, "none", 2, ints(n * 2, "none"))),
    ];
    out.push((
        "packed".to_owned(),
        vec![("lance-encoding:packed", "true")],
        structs(n, packed),
    ));
    out
}

fn batch(columns: Vec<Column>) -> RecordBatch {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns
        .into_iter()
        .map(|(name, metadata, array)| {
            let metadata: HashMap<_, _> = metadata
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect();
            let field = Field::new(name, array.data_type().clone(), true).with_metadata(metadata);
            (field, array)
        })
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn assert_equal(found: &RecordBatch, expected: &RecordBatch, what: &str) {
    for (i, field) in expected.schema().fields().iter().enumerate() {
        let (found, expected) = (found.column(i), expected.column(i));
        found.to_data().validate_full().unwrap();
        // Dictionaries may hold their values in another order.
        let (found, expected) = (logical(found), logical(expected));
        assert_eq!(&found, &expected, "{what}, column {}", field.name());
    }
}

fn logical(array: &ArrayRef) -> ArrayRef {
    match array.as_any_dictionary_opt() {
        Some(dictionary) if dictionary.values().is_empty() => {
            arrow_array::new_null_array(dictionary.values().data_type(), array.len())
        }
        Some(dictionary) => {
            let indices: UInt64Array = dictionary
                .normalized_keys()
                .iter()
                .enumerate()
                .map(|(i, key)| dictionary.is_valid(i).then_some(*key as u64))
                .collect();
            arrow_select::take::take(dictionary.values(), &indices, None).unwrap()
        }
        None => array.clone(),
    }
}

/// Scan, part and rows of the file equal the batch.
fn check(expected: &RecordBatch, bytes: Vec<u8>, what: &str) {
    let reader = open(bytes);
    let n = expected.num_rows() as u64;
    assert_eq!(reader.num_rows().unwrap(), n, "{what}");
    let read = |rows: Rows<'_>| reader.read(None, rows, &ReadOptions::default()).unwrap();
    let mut rows: Vec<u64> = vec![0, n / 3, n / 2, n / 2 + 1, n.saturating_sub(1)];
    rows.sort_unstable();
    rows.dedup();
    rows.retain(|&r| r < n);
    let indices = UInt64Array::from(rows.clone());
    let taken = take_record_batch(expected, &indices).unwrap();
    assert_equal(&read(Rows::Indices(&rows)), &taken, &format!("{what}, take"));
    assert_equal(&read(Rows::Range(0..n)), expected, &format!("{what}, scan"));
    let (start, end) = (n / 4, n - n / 5);
    let part = expected.slice(start as usize, (end - start) as usize);
    assert_equal(&read(Rows::Range(start..end)), &part, &format!("{what}, part"));
}

fn check_all(columns: impl Fn(usize, &str) -> Vec<Column>) {
    for pattern in PATTERNS {
        for n in SIZES {
            if n > 5000 && !matches!(pattern, "none" | "random") {
                continue;
            }
            let batch = batch(columns(n, pattern));
            let bytes = write(std::slice::from_ref(&batch), options(FileVersion::V2_0)).unwrap();
            check(&batch, bytes, &format!("{pattern}, {n} rows"));
        }
    }
    for (start, len) in [(3, 1500), (1, 1024), (13, 2), (2999, 1)] {
        let batch = batch(columns(3000, "random")).slice(start, len);
        let bytes = write(std::slice::from_ref(&batch), options(FileVersion::V2_0)).unwrap();
        check(&batch, bytes, &format!("slice {start}+{len}"));
    }
    let patterns = ["none", "random", "all", "none", "second"];
    let batches: Vec<_> = patterns
        .iter()
        .zip([1000, 1, 2048, 300, 1025])
        .map(|(pattern, n)| batch(columns(n, pattern)))
        .collect();
    // One page a batch, and pages of several batches.
    for cache in [1, 60_000] {
        let options = WriterOptions {
            data_cache_bytes: Some(cache),
            ..options(FileVersion::V2_0)
        };
        let bytes = write(&batches, options).unwrap();
        let all = concat_batches(&batches[0].schema(), &batches).unwrap();
        check(&all, bytes, &format!("pages of {cache} bytes"));
    }
}

#[test]
fn flat_types() {
    check_all(flat_columns);
}

#[test]
fn strings_and_dictionaries() {
    check_all(string_columns);
}

#[test]
fn nested_types() {
    check_all(nested_columns);
}

#[test]
fn values_of_a_megabyte() {
    let v = nulls("second", 7);
    let values = strings(7, &v, |i| "xyz".repeat(i << 19));
    let columns = ["none", "zstd", "lz4", "fsst"].map(|codec| {
        let metadata = vec![("lance-encoding:compression", codec)];
        (codec.to_owned(), metadata, Arc::new(values.clone()) as ArrayRef)
    });
    let batch = batch(columns.to_vec());
    let bytes = write(std::slice::from_ref(&batch), options(FileVersion::V2_0)).unwrap();
    check(&batch, bytes, "1 MB values");
}

fn tree_of(reader: &FileReader, column: u32, page: usize) -> String {
    use glaive_file::proto::lance::encodings as pb;
    use prost::Message;
    let layout = reader.tail().column(column).unwrap().pages[page].layout.clone();
    format!("{:?}", pb::ArrayEncoding::decode(layout).unwrap())
}

#[test]
fn the_writer_chooses_what_other_readers_know() {
    let batch = batch(string_columns(70_000, "none"));
    let bytes = write(std::slice::from_ref(&batch), options(FileVersion::V2_0)).unwrap();
    let reader = open(bytes);
    let tree = |name: &str| tree_of(&reader, batch.schema().index_of(name).unwrap() as u32, 0);
    for (name, marks) in [
        ("few", ["Dictionary", "null_adjustment: 5"]),
        ("distinct99", ["Dictionary", "num_dictionary_items: 99"]),
        ("distinct100", ["Binary", "bits_per_value: 64"]),
        ("utf8_zstd", ["Binary", "scheme: \"zstd\", level: None"]),
        (
            "large_binary_zstd9",
            ["Binary", "scheme: \"zstd\", level: Some(9)"],
        ),
        ("utf8_fsst", ["Fsst", "symbol_table"]),
        ("large_utf8_fsst", ["Binary", "compression: None"]),
        ("blob", ["PackedStruct", "bits_per_value: 64"]),
    ] {
        for mark in marks {
            let found = tree(name);
            let head = found.chars().take(400).collect::<String>();
            assert!(found.contains(mark), "{name} lacks {mark}: {head}");
        }
    }
    assert!(!tree("distinct100").contains("Dictionary"));
    // Fewer rows than distinct values would allow.
    let short = batch.slice(0, 99);
    let reader = open(write(&[short], options(FileVersion::V2_0)).unwrap());
    let few = batch.schema().index_of("few").unwrap() as u32;
    assert!(!tree_of(&reader, few, 0).contains("Dictionary"));
}

#[test]
fn pages_have_a_largest_size() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
    let batch = RecordBatch::try_from_iter([("a", values)]).unwrap();
    let options = |max| WriterOptions {
        max_page_bytes: Some(max),
        ..options(FileVersion::V2_0)
    };
    let reader = open(write(std::slice::from_ref(&batch), options(8_000)).unwrap());
    let pages = &reader.tail().column(0).unwrap().pages;
    assert_eq!(pages.len(), 10);
    assert!(pages.iter().all(|p| p.length == 1000 && p.priority == 0));
    let reader = open(write(&[batch.slice(0, 3)], options(1)).unwrap());
    assert_eq!(reader.tail().column(0).unwrap().pages.len(), 3);
    assert_eq!(
        write(&[batch], options(0)).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn every_field_owns_a_column() {
    let batch = batch(nested_columns(10, "none"));
    let schema = glaive_file::Schema::try_from_arrow(&batch.schema()).unwrap();
    let reader = open(write(&[batch], options(FileVersion::V2_0)).unwrap());
    // All fields but the three below the packed struct.
    let fields = schema.fields_pre_order().len() - 3;
    assert_eq!(reader.tail().num_columns() as usize, fields);
    assert_eq!(reader.own_columns().unwrap().len(), fields);
    assert_eq!(reader.tail().footer().version, FileVersion::V2_0);
}

#[test]
fn a_projection_below_structs() {
    let batch = batch(nested_columns(1000, "random"));
    let reader = open(write(std::slice::from_ref(&batch), options(FileVersion::V2_0)).unwrap());
    let read = |path: &str| {
        let batch = reader
            .read(Some(&[path]), Rows::Range(3..900), &ReadOptions::default())
            .unwrap();
        let column = batch.column(0).as_struct().clone();
        assert_eq!(column.num_columns(), 1, "{path}");
        column.column(0).clone()
    };
    let parent = |name: &str| {
        batch
            .column_by_name(name)
            .unwrap()
            .slice(3, 897)
            .as_struct()
            .clone()
    };
    assert_eq!(&read("packed.b"), parent("packed").column(1));
    assert_eq!(&read("struct.flat"), parent("struct").column(3));
    assert_eq!(&read("struct.list"), parent("struct").column(1));
}

fn refusal(columns: Vec<Column>) -> glaive_file::Error {
    write(&[batch(columns)], options(FileVersion::V2_0)).unwrap_err()
}

#[test]
fn what_the_version_cannot_store_is_refused() {
    let one = |array: ArrayRef, metadata: &[(&'static str, &'static str)]| {
        refusal(vec![("c".to_owned(), metadata.to_vec(), array)])
    };
    let a = ints(4, "none");
    let fields = Fields::from(vec![Field::new("a", DataType::Int32, true)]);
    let null_struct = |pattern| -> ArrayRef {
        Arc::new(StructArray::new(
            fields.clone(),
            vec![a.clone()],
            nulls(pattern, 4),
        ))
    };
    let error = one(null_struct("first"), &[]);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains("use file version 2.1 or later"),
        "{error}"
    );
    assert!(error.to_string().contains("column 'c'"), "{error}");

    let packed = &[("lance-encoding:packed", "true")];
    let error = one(structs(4, vec![("a", ints(4, "first"))]), packed);
    assert!(error.to_string().contains("packed struct holds nulls"), "{error}");
    let text = Arc::new(StringArray::from(vec!["a"; 4])) as ArrayRef;
    let error = one(structs(4, vec![("a", text.clone())]), packed);
    assert!(error.to_string().contains("fixed width"), "{error}");

    let error = one(text, &[("lance-encoding:compression", "brotli")]);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("brotli"), "{error}");

    let error = one(fixed_lists(2, "none", 2, null_struct("none")), &[]);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("2.2"), "{error}");

    // 128 items and a null need 129 indices.
    let items = StringArray::from_iter_values((0..128).map(|i| i.to_string()));
    let keys = Int8Array::from(vec![Some(0), None]);
    let error = one(Arc::new(DictionaryArray::new(keys, Arc::new(items))), &[]);
    assert!(error.to_string().contains("wider index type"), "{error}");
}

#[test]
fn a_null_struct_behind_a_null_list_is_no_fault() {
    let fields = Fields::from(vec![Field::new("a", DataType::Int32, true)]);
    let items: ArrayRef = Arc::new(StructArray::new(fields, vec![ints(4, "none")], nulls("last", 4)));
    let offsets = OffsetBuffer::from_lengths([3, 1]);
    let list = ListArray::new(item(&items), offsets, items, nulls("last", 2));
    let batch = batch(vec![("c".to_owned(), vec![], Arc::new(list))]);
    let bytes = write(std::slice::from_ref(&batch), options(FileVersion::V2_0)).unwrap();
    check(&batch, bytes, "hidden null struct");
}

#[test]
fn files_of_two_versions_serve_one_read() {
    let batch = batch(nested_columns(500, "random"));
    let new_type = ("new".to_owned(), vec![], ints(500, "second"));
    let later = self::batch(vec![new_type]);
    let old = open(write(std::slice::from_ref(&batch), options(FileVersion::V2_0)).unwrap());
    let new = open(write(std::slice::from_ref(&later), options(FileVersion::V2_2)).unwrap());
    let old_columns = old.own_columns().unwrap();
    let new_columns = HashMap::from([(1000, 0)]);
    let mut added = new.schema().unwrap().fields[0].as_ref().clone();
    added.id = 1000;
    let mut fields = old.schema().unwrap().fields.clone();
    fields.insert(1, Arc::new(added));
    let sources = [
        FieldSource {
            reader: &new,
            columns: &new_columns,
        },
        FieldSource {
            reader: &old,
            columns: &old_columns,
        },
    ];
    let arrays = read_fields(&sources, &fields, Rows::Range(10..400), &ReadOptions::default()).unwrap();
    assert_eq!(&arrays[0], &batch.column(0).slice(10, 390));
    assert_eq!(&arrays[1], &later.column(0).slice(10, 390));
    assert_eq!(&arrays[2], &batch.column(1).slice(10, 390));
}

#[test]
fn items_of_empty_lists_have_an_empty_page() {
    let text = |k: usize| Arc::new(strings(k, &None, |i| i.to_string())) as ArrayRef;
    let nothing = |items: ArrayRef| -> ArrayRef {
        let offsets = OffsetBuffer::from_lengths([0, 0]);
        Arc::new(ListArray::new(item(&items), offsets, items, nulls("last", 2)))
    };
    let pair = structs(
        0,
        vec![("x", ints(0, "none")), ("y", nothing(text(0)).slice(0, 0))],
    );
    let columns = vec![
        ("a".to_owned(), vec![], nothing(ints(0, "none"))),
        ("b".to_owned(), vec![], nothing(nothing(text(0)).slice(0, 0))),
        ("c".to_owned(), vec![], nothing(pair)),
    ];
    let batch = batch(columns);
    let bytes = write(std::slice::from_ref(&batch), options(FileVersion::V2_0)).unwrap();
    let reader = open(bytes.clone());
    for column in 0..reader.tail().num_columns() {
        assert_eq!(reader.tail().column(column).unwrap().pages.len(), 1, "{column}");
    }
    check(&batch, bytes, "empty lists");
    let empty = open(write(&[batch.slice(0, 0)], options(FileVersion::V2_0)).unwrap());
    let pages = (0..empty.tail().num_columns()).map(|c| empty.tail().column(c).unwrap().pages.len());
    // Only the struct header has its page.
    assert_eq!(pages.sum::<usize>(), 1);
}

#[test]
fn thresholds_of_dictionaries() {
    let column = |distinct: usize| {
        let text = strings(2000, &nulls("random", 2000), |i| format!("k{}", i % distinct));
        RecordBatch::try_from_iter_with_nullable([("t", Arc::new(text) as ArrayRef, true)]).unwrap()
    };
    for threshold in [0, 1, 2, 100, 254, 255, 256, 257, 1000, usize::MAX] {
        for distinct in [1, 99, 253, 254, 255, 256, 900] {
            let batch = column(distinct);
            let mut options = options(FileVersion::V2_0);
            options.defaults.dict_threshold = threshold;
            let reader = open(write(std::slice::from_ref(&batch), options).unwrap());
            let page = &reader.tail().column(0).unwrap().pages[0];
            // Indices of one byte, of which 0 is null.
            let expected = threshold <= 2000 && distinct < threshold && distinct < 256;
            assert_eq!(page.buffers[0].size == 2000, expected, "{threshold}, {distinct}");
            let read = reader
                .read(None, Rows::Range(0..2000), &ReadOptions::default())
                .unwrap();
            assert_eq!(read, batch, "{threshold}, {distinct}");
        }
    }
}

#[test]
fn pages_of_one_dictionary_keep_its_keys() {
    // 100 items in each of five pages: more than keys of 8 bits, were they joined one after another.
    let items: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..100).map(|i| format!("item {i}")),
    ));
    let page = |null: bool| {
        let keys = Int8Array::from_iter((0..1000).map(|i| (!null || i % 7 > 0).then_some((i % 100) as i8)));
        let array: ArrayRef = Arc::new(DictionaryArray::new(keys, items.clone()));
        RecordBatch::try_from_iter_with_nullable([("d", array, true)]).unwrap()
    };
    let batches: Vec<_> = [false, true, true, false, true].into_iter().map(page).collect();
    let options = WriterOptions {
        data_cache_bytes: Some(1),
        ..options(FileVersion::V2_0)
    };
    let reader = open(write(&batches, options).unwrap());
    assert_eq!(reader.tail().column(0).unwrap().pages.len(), 5);
    let found = reader
        .read(None, Rows::Range(0..5000), &ReadOptions::default())
        .unwrap();
    for (i, batch) in batches.iter().enumerate() {
        let found = found.column(0).slice(i * 1000, 1000);
        let strings = |array: &ArrayRef| -> Vec<Option<String>> {
            let array = array.as_any().downcast_ref::<DictionaryArray<types::Int8Type>>();
            let array = array.unwrap().downcast_dict::<StringArray>().unwrap();
            array.into_iter().map(|text| text.map(str::to_owned)).collect()
        };
        assert_eq!(strings(&found), strings(batch.column(0)), "page {i}");
    }
}
