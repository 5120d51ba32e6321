//! Every type, null pattern and size around the block limits, written and read in scans and by row.

use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, i256};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use glaive_file::environment::DictValues;
use glaive_file::{EncodingDefaults, FileVersion, ReadOptions, Rows, WriterOptions};

use crate::special_columns;
use crate::support::{PATTERNS, mix, nulls, open, options, primitive, strings, write};

const SIZES: [usize; 8] = [0, 1, 2, 1023, 1024, 1025, 4097, 70_000];
const VERSIONS: [FileVersion; 2] = [FileVersion::V2_1, FileVersion::V2_2];

fn string_column(n: usize, nulls: &Option<NullBuffer>, value: impl Fn(usize) -> String) -> ArrayRef {
    Arc::new(strings(n, nulls, value))
}

/// One column for each type and distribution.
fn columns(n: usize, v: Option<NullBuffer>) -> Vec<(&'static str, ArrayRef)> {
    let mut out: Vec<(&'static str, ArrayRef)> = vec![
        ("null", Arc::new(NullArray::new(n))),
        (
            "bool",
            Arc::new(BooleanArray::new(
                (0..n).map(|i| mix(i) & 1 == 1).collect(),
                v.clone(),
            )),
        ),
        (
            "bool_constant",
            Arc::new(BooleanArray::new((0..n).map(|_| true).collect(), v.clone())),
        ),
        ("i8", Arc::new(primitive::<Int8Type>(n, &v, |i| mix(i) as i8))),
        (
            "u8_small",
            Arc::new(primitive::<UInt8Type>(n, &v, |i| (mix(i) % 7) as u8)),
        ),
        (
            "i16",
            Arc::new(primitive::<Int16Type>(n, &v, |i| (mix(i) % 300) as i16 - 100)),
        ),
        ("u16", Arc::new(primitive::<UInt16Type>(n, &v, |i| mix(i) as u16))),
        ("i32", Arc::new(primitive::<Int32Type>(n, &v, |i| i as i32))),
        (
            "i32_runs",
            Arc::new(primitive::<Int32Type>(n, &v, |i| (i / 700) as i32 * 1_000_003)),
        ),
        ("u32", Arc::new(primitive::<UInt32Type>(n, &v, |i| mix(i) as u32))),
        ("i64", Arc::new(primitive::<Int64Type>(n, &v, |i| mix(i) as i64))),
        (
            "i64_few",
            Arc::new(primitive::<Int64Type>(n, &v, |i| {
                (mix(mix(i) as usize % 50)) as i64
            })),
        ),
        ("i64_constant", Arc::new(primitive::<Int64Type>(n, &v, |_| -5))),
        ("u64", Arc::new(primitive::<UInt64Type>(n, &v, |i| mix(i) >> 40))),
        (
            "f16",
            Arc::new(primitive::<Float16Type>(n, &v, |i| {
                half::f16::from_bits(mix(i) as u16 & 0x7bff)
            })),
        ),
        (
            "f32",
            Arc::new(primitive::<Float32Type>(n, &v, |i| (mix(i) % 1000) as f32 / 10.0)),
        ),
        (
            "f64",
            Arc::new(primitive::<Float64Type>(n, &v, |i| (mix(i) as f64).sqrt())),
        ),
        (
            "date32",
            Arc::new(primitive::<Date32Type>(n, &v, |i| i as i32 / 3)),
        ),
        (
            "date64",
            Arc::new(primitive::<Date64Type>(n, &v, |i| i as i64 * 86_400_000)),
        ),
        (
            "time64",
            Arc::new(primitive::<Time64NanosecondType>(n, &v, |i| {
                (mix(i) % 86_400_000_000_000) as i64
            })),
        ),
        (
            "timestamp",
            Arc::new(
                primitive::<TimestampMicrosecondType>(n, &v, |i| 1_700_000_000_000_000 + i as i64)
                    .with_timezone("Europe/Berlin"),
            ),
        ),
        (
            "decimal128",
            Arc::new(
                primitive::<Decimal128Type>(n, &v, |i| mix(i) as i128 - (1 << 62))
                    .with_precision_and_scale(30, 4)
                    .unwrap(),
            ),
        ),
        (
            "decimal256",
            Arc::new(
                primitive::<Decimal256Type>(n, &v, |i| i256::from_i128(mix(i) as i128 * -3))
                    .with_precision_and_scale(60, -2)
                    .unwrap(),
            ),
        ),
        ("fixed3", fixed_binary(3, n, v.clone())),
        ("fixed16", fixed_binary(16, n, v.clone())),
        ("fixed300", fixed_binary(300, n, v.clone())),
        (
            "text",
            string_column(n, &v, |i| {
                format!("https://example.com/{}?page={}", mix(i) % 1000, i)
            }),
        ),
        (
            "few",
            string_column(n, &v, |i| {
                ["AA", "UA", "", "Delta"][mix(i) as usize % 4].to_owned()
            }),
        ),
        ("empty", string_column(n, &v, |_| String::new())),
        ("short", string_column(n, &v, |i| (mix(i) % 100_000).to_string())),
        (
            "constant_text",
            string_column(n, &v, |_| "always the same".to_owned()),
        ),
        (
            "unicode",
            string_column(n, &v, |i| {
                "äöü€😀".chars().cycle().skip(i % 5).take(i % 9).collect()
            }),
        ),
        (
            "wide",
            string_column(n, &v, |i| {
                "lorem ipsum dolor ".repeat(if n > 5000 { 1 } else { mix(i) as usize % 40 })
            }),
        ),
    ];
    let mut binary = BinaryBuilder::new();
    for i in 0..n {
        match v.as_ref().is_none_or(|v| v.is_valid(i)) {
            true => binary.append_value(&mix(i).to_le_bytes()[..i % 9]),
            false => binary.append_null(),
        }
    }
    out.push(("binary", Arc::new(binary.finish())));
    let large =
        LargeStringArray::from_iter((0..n).map(|i| (!mix(i).is_multiple_of(5)).then(|| format!("{i:x}"))));
    out.push(("large", Arc::new(large)));
    let inner = StructArray::new(
        vec![
            Field::new("x", DataType::Int32, true),
            Field::new("y", DataType::Utf8, true),
        ]
        .into(),
        vec![
            Arc::new(primitive::<Int32Type>(n, &nulls("second", n), |i| i as i32)),
            string_column(n, &nulls("random", n), |i| i.to_string()),
        ],
        v.clone(),
    );
    let fields = vec![
        Field::new("in", inner.data_type().clone(), true),
        Field::new("b", DataType::Boolean, true),
    ];
    let b = BooleanArray::new((0..n).map(|i| i % 3 == 0).collect(), v.clone());
    out.extend(nested(n, &v));
    out.push((
        "struct",
        Arc::new(StructArray::new(
            fields.into(),
            vec![Arc::new(inner), Arc::new(b)],
            nulls("blocks", n),
        )),
    ));
    out
}

/// Lists, maps and fixed-size lists; the validity is that of the outermost node.
fn nested(n: usize, v: &Option<NullBuffer>) -> Vec<(&'static str, ArrayRef)> {
    let item = |data_type: &DataType| Arc::new(Field::new("item", data_type.clone(), true));
    let list = |lengths: &dyn Fn(usize) -> usize,
                nulls: Option<NullBuffer>,
                n: usize,
                values: &dyn Fn(usize) -> ArrayRef| {
        let offsets = OffsetBuffer::<i32>::from_lengths((0..n).map(lengths));
        let values = values(offsets.last().copied().unwrap_or(0) as usize);
        let array = ListArray::new(item(values.data_type()), offsets, values, nulls);
        Arc::new(array) as ArrayRef
    };
    let ints = |n: usize| {
        Arc::new(primitive::<Int32Type>(n, &nulls("random", n), |i| {
            i as i32 % 1000
        })) as ArrayRef
    };
    let texts = |n: usize| string_column(n, &nulls("random", n), |i| format!("tag {}", mix(i) % 5000));
    let full = |n: usize| Arc::new(primitive::<Int64Type>(n, &None, |i| mix(i) as i64)) as ArrayRef;
    let some = |i: usize| mix(i) as usize % 4;
    let structs = |n: usize| {
        let fields = vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Utf8, true),
        ];
        Arc::new(StructArray::new(
            fields.into(),
            vec![ints(n), texts(n)],
            nulls("second", n),
        )) as ArrayRef
    };
    let floats = |n: usize| Arc::new(primitive::<Float32Type>(n, &None, |i| i as f32 * 0.5)) as ArrayRef;
    let holes = |n: usize| {
        Arc::new(primitive::<Float32Type>(n, &nulls("second", n), |i| {
            i as f32 * 0.5
        })) as ArrayRef
    };
    let vector = |size: i32, items: ArrayRef, nulls| {
        Arc::new(FixedSizeListArray::new(
            item(items.data_type()),
            size,
            items,
            nulls,
        )) as ArrayRef
    };
    let large = LargeListArray::new(
        item(&DataType::Int64),
        OffsetBuffer::<i64>::from_lengths((0..n).map(some)),
        full((0..n).map(some).sum()),
        v.clone(),
    );
    let inner_list = |n: usize| list(&|i| (i + 1) % 3, nulls("random", n), n, &ints);
    let deep = |n: usize| list(&|i| (i + 2) % 3, nulls("second", n), n, &inner_list);
    let list_in_struct = {
        let l = inner_list(n);
        let fields = vec![
            Field::new("l", l.data_type().clone(), true),
            Field::new("z", DataType::Int32, true),
        ];
        StructArray::new(fields.into(), vec![l, ints(n)], v.clone())
    };
    let struct_with_list = |n: usize| {
        let l = inner_list(n);
        let fields = vec![
            Field::new("l", l.data_type().clone(), true),
            Field::new("z", DataType::Int32, true),
        ];
        Arc::new(StructArray::new(
            fields.into(),
            vec![l, ints(n)],
            nulls("second", n),
        )) as ArrayRef
    };
    let bools =
        |n: usize| Arc::new(BooleanArray::new((0..n).map(|i| mix(i) & 1 == 1).collect(), None)) as ArrayRef;
    vec![
        ("list", list(&some, v.clone(), n, &ints)),
        ("list_text", list(&some, v.clone(), n, &texts)),
        ("list_full", list(&|_| 3, None, n, &full)),
        ("list_empty", list(&|_| 0, v.clone(), n, &ints)),
        (
            "list_long",
            list(&|i| if i % 700 == 3 { 5000 } else { 0 }, v.clone(), n, &full),
        ),
        (
            "list_null_items",
            list(&some, v.clone(), n, &|n| Arc::new(Int32Array::new_null(n))),
        ),
        ("large_list", Arc::new(large)),
        ("list_list", list(&some, v.clone(), n, &inner_list)),
        ("list_list_list", list(&|i| i % 3, v.clone(), n, &deep)),
        ("list_struct", list(&some, v.clone(), n, &structs)),
        ("list_struct_list", list(&some, v.clone(), n, &struct_with_list)),
        ("struct_list", Arc::new(list_in_struct)),
        (
            "list_wide",
            list(&|i| i % 2, v.clone(), n, &|n| {
                string_column(n, &None, |i| format!("{i}{}", "w".repeat(260)))
            }),
        ),
        ("vector4", vector(4, floats(n * 4), v.clone())),
        ("vector4_holes", vector(4, holes(n * 4), v.clone())),
        ("vector100", vector(100, floats(n * 100), v.clone())),
        ("vector100_holes", vector(100, holes(n * 100), v.clone())),
        ("vector_bool", vector(12, bools(n * 12), v.clone())),
        (
            "matrix",
            vector(2, vector(3, holes(n * 6), nulls("random", n * 2)), v.clone()),
        ),
        (
            "list_vector",
            list(&some, v.clone(), n, &|n| {
                vector(4, floats(n * 4), nulls("random", n))
            }),
        ),
        (
            "list_vector_wide",
            list(&|i| i % 2, v.clone(), n, &|n| {
                vector(70, floats(n * 70), nulls("random", n))
            }),
        ),
    ]
}

/// Types of 2.2 only.
fn maps_and_vectors_of_structs(n: usize, v: &Option<NullBuffer>) -> Vec<(&'static str, ArrayRef)> {
    let offsets = OffsetBuffer::<i32>::from_lengths((0..n).map(|i| mix(i) as usize % 3));
    let entries = offsets.last().copied().unwrap_or(0) as usize;
    let keys = string_column(entries, &None, |i| format!("key {i}"));
    let values: ArrayRef = Arc::new(primitive::<Int32Type>(entries, &nulls("random", entries), |i| {
        i as i32
    }));
    let fields = vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Int32, true),
    ];
    let entries = StructArray::new(fields.into(), vec![keys, values], None);
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let fields = vec![
        Field::new("x", DataType::Int32, true),
        Field::new("y", DataType::Utf8, true),
    ];
    let x = primitive::<Int32Type>(n * 3, &nulls("random", n * 3), |i| i as i32);
    let y = string_column(n * 3, &nulls("second", n * 3), |i| i.to_string());
    let structs = StructArray::new(fields.into(), vec![Arc::new(x), y], nulls("blocks", n * 3));
    let item = Arc::new(Field::new("item", structs.data_type().clone(), true));
    let vectors: ArrayRef = Arc::new(FixedSizeListArray::new(item, 3, Arc::new(structs), v.clone()));
    let inside = vec![Field::new("v", vectors.data_type().clone(), true)];
    let outer = StructArray::new(inside.into(), vec![vectors.clone()], nulls("random", n));
    vec![
        (
            "map",
            Arc::new(MapArray::new(field, offsets, entries, v.clone(), false)),
        ),
        ("vector_of_structs", vectors),
        ("struct_of_vector_of_structs", Arc::new(outer)),
    ]
}

fn fixed_binary(width: i32, n: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    let bytes: Vec<u8> = (0..n * width as usize).map(|i| mix(i / 2) as u8).collect();
    Arc::new(FixedSizeBinaryArray::new(width, bytes.into(), nulls))
}

fn batch(n: usize, pattern: &str, version: FileVersion) -> RecordBatch {
    let mut columns = columns(n, nulls(pattern, n));
    if version >= FileVersion::V2_2 {
        columns.extend(maps_and_vectors_of_structs(n, &nulls(pattern, n)));
    }
    let plain = columns
        .into_iter()
        .map(|(name, a)| (Field::new(name, a.data_type().clone(), true), a));
    let special = special_columns::columns(n, &nulls(pattern, n), version);
    let (fields, arrays): (Vec<_>, Vec<_>) = plain.chain(special).unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// The same columns, one a batch.
pub fn single_columns(n: usize, pattern: &str, version: FileVersion) -> Vec<RecordBatch> {
    let batch = batch(n, pattern, version);
    (0..batch.num_columns())
        .map(|i| batch.project(&[i]).unwrap())
        .collect()
}

/// Scan, parts, single columns and rows of the file equal the batch.
fn check(expected: &RecordBatch, bytes: Vec<u8>, what: &str) {
    let reader = open(bytes);
    let n = expected.num_rows() as u64;
    assert_eq!(reader.num_rows().unwrap(), n, "{what}");
    let read = |columns: Option<&[&str]>, rows: Rows<'_>| {
        reader.read(columns, rows, &ReadOptions::default()).unwrap()
    };
    let assert_equal = |found: &RecordBatch, expected: &RecordBatch, how: &str| {
        for (i, field) in expected.schema().fields().iter().enumerate() {
            let (found, expected) = (found.column(i), expected.column(i));
            found.to_data().validate_full().unwrap();
            assert_eq!(found.data_type(), expected.data_type());
            let (found, expected) = [found, expected].map(special_columns::without_keys).into();
            assert_eq!(
                found.as_ref(),
                expected.as_ref(),
                "{what}, {how}, column {}",
                field.name()
            );
        }
    };
    // First by row, before a scan has filled the caches.
    if n > 0 {
        let mut rows: Vec<u64> = vec![0, n / 3, n / 2, n / 2 + 1, n - 1];
        rows.sort_unstable();
        rows.dedup();
        rows.retain(|&r| r < n);
        let indices = UInt64Array::from(rows.clone());
        let taken = take_record_batch(expected, &indices).unwrap();
        assert_equal(&read(None, Rows::Indices(&rows)), &taken, "take");
    }
    assert_equal(&read(None, Rows::Range(0..n)), expected, "scan");
    let (start, end) = (n / 4, n - n / 5);
    let part = expected.slice(start as usize, (end - start) as usize);
    assert_equal(&read(None, Rows::Range(start..end)), &part, "part");
    let one = expected.schema().index_of("struct").unwrap();
    let one = expected.project(&[one]).unwrap();
    assert_equal(&read(Some(&["struct"]), Rows::Range(0..n)), &one, "one column");
}

#[test]
fn every_type_null_pattern_and_size() {
    for version in VERSIONS {
        for pattern in PATTERNS {
            for n in SIZES {
                if n > 5000 && !matches!(pattern, "none" | "random") {
                    continue;
                }
                let batch = batch(n, pattern, version);
                let bytes = write(std::slice::from_ref(&batch), options(version)).unwrap();
                check(&batch, bytes, &format!("{version}, {pattern}, {n} rows"));
            }
        }
    }
}

#[test]
fn slices_with_a_bit_offset() {
    for version in VERSIONS {
        for (start, len) in [(3, 1500), (1, 1024), (13, 2), (2999, 1)] {
            let batch = batch(3000, "random", version).slice(start, len);
            let bytes = write(std::slice::from_ref(&batch), options(version)).unwrap();
            check(&batch, bytes, &format!("{version}, slice {start}+{len}"));
        }
    }
}

#[test]
fn pages_of_different_nullability() {
    for version in VERSIONS {
        let patterns = ["none", "random", "all", "none", "second"];
        let batches: Vec<_> = patterns
            .iter()
            .zip([1000, 1, 2048, 300, 1025])
            .map(|(p, n)| batch(n, p, version))
            .collect();
        // One page a batch.
        let options = WriterOptions {
            version,
            data_cache_bytes: Some(1),
            ..Default::default()
        };
        let bytes = write(&batches, options).unwrap();
        let all = concat_batches(&batches[0].schema(), &batches).unwrap();
        check(&all, bytes, &format!("{version}, five pages"));
    }
}

#[test]
fn values_of_a_megabyte() {
    let values = string_column(7, &nulls("second", 7), |i| "x".repeat(i << 20));
    let batch = RecordBatch::try_from_iter([("struct", values)]).unwrap();
    for version in VERSIONS {
        let bytes = write(std::slice::from_ref(&batch), options(version)).unwrap();
        check(&batch, bytes, "1 MB values");
    }
}

#[test]
fn nulls_in_a_required_field_are_refused() {
    let array: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let nullable = RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap();
    let required = Schema::new(vec![Field::new("a", DataType::Int32, false)]);
    let mut schema = glaive_file::Schema::try_from_arrow(&required).unwrap();
    schema.assign_ids(0).unwrap();
    let sink = Box::new(crate::support::MemorySink::default());
    let mut writer = glaive_file::FileWriter::create(sink, schema, WriterOptions::default()).unwrap();
    let error = writer.write(&nullable).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("contained null values even though the field is marked non-null")
    );
}

#[test]
fn extreme_defaults() {
    let extremes = [
        EncodingDefaults {
            max_chunk_values: 2,
            chunk_bytes: -1,
            dict_min_values: 0,
            dict_divisor: 1,
            dict_size_ratio: Some(1.0),
            ..Default::default()
        },
        EncodingDefaults {
            max_chunk_values: 64,
            dict_max_items: 0,
            dict_values: DictValues::None,
            ..Default::default()
        },
        EncodingDefaults {
            max_chunk_values: 32_768,
            chunk_bytes: i64::MAX,
            dict_min_values: usize::MAX,
            dict_divisor: usize::MAX,
            ..Default::default()
        },
    ];
    for version in VERSIONS {
        for (number, defaults) in extremes.iter().enumerate() {
            for (pattern, n) in [("none", 1025), ("random", 40_000)] {
                let batch = batch(n, pattern, version);
                let options = WriterOptions {
                    version,
                    defaults: defaults.clone(),
                    ..Default::default()
                };
                let bytes = write(std::slice::from_ref(&batch), options).unwrap();
                check(&batch, bytes, &format!("{version}, defaults {number}, {pattern}"));
            }
        }
    }
}
