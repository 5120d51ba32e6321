//! JSON columns: text goes in, JSONB is stored, text comes out.

use std::sync::Arc;

use arrow_array::builder::{MapBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};
use glaive_file::{ErrorKind, FileVersion, ReadOptions, Result, Rows, Schema, json};

use crate::support::{mix, open, options, write};

const VERSIONS: [FileVersion; 3] = [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2];

#[derive(serde::Deserialize)]
struct Document {
    text: String,
    jsonb: Option<String>,
    read: Option<String>,
}

fn documents() -> Vec<Document> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/json/documents.json"
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

fn json_field(name: &str, data_type: DataType) -> Field {
    let extension = match data_type {
        DataType::LargeBinary => "lance.json",
        _ => "arrow.json",
    };
    let key = "ARROW:extension:name".to_string();
    Field::new(name, data_type, true).with_metadata([(key, extension.to_string())].into())
}

fn batch_of(field: Field, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_new(Arc::new(ArrowSchema::new(vec![field])), vec![array]).unwrap()
}

fn texts(texts: &[Option<&str>]) -> RecordBatch {
    batch_of(
        json_field("j", DataType::Utf8),
        Arc::new(StringArray::from(texts.to_vec())),
    )
}

/// What a file holds after writing, and as text.
fn round_trip(batch: &RecordBatch, version: FileVersion) -> (ArrayRef, ArrayRef) {
    let reader = open(write(std::slice::from_ref(batch), options(version)).unwrap());
    let rows = Rows::Range(0..batch.num_rows() as u64);
    let read = reader.read(None, rows.clone(), &ReadOptions::default()).unwrap();
    let schema = reader.schema().unwrap();
    let text = json::decode_column(&schema.fields[0], read.column(0).clone(), &rows).unwrap();
    let expected = json::text_schema(schema);
    assert_eq!(text.data_type(), expected.field(0).data_type());
    (read.column(0).clone(), text)
}

/// The text of one document in JSONB.
fn read_one(jsonb: &[u8]) -> Result<String> {
    let field = json_field("j", DataType::LargeBinary);
    let schema = Schema::try_from_arrow(&ArrowSchema::new(vec![field])).unwrap();
    let array: ArrayRef = Arc::new(LargeBinaryArray::from(vec![jsonb]));
    let text = json::decode_column(&schema.fields[0], array, &Rows::Indices(&[70]))?;
    Ok(text.as_string::<i32>().value(0).to_owned())
}

/// JSONB of one text.
fn write_one(text: &str) -> Result<Vec<u8>> {
    let batch = texts(&[Some("1"), Some(text)]);
    let schema = Schema::try_from_arrow(&batch.schema()).unwrap();
    let encoded = json::encode_batch(&schema, &batch, 10)?;
    Ok(encoded.column(0).as_binary::<i64>().value(1).to_vec())
}

#[test]
fn documents_are_stored_and_read_as_by_pylance() {
    let documents = documents();
    let (legal, others): (Vec<_>, Vec<_>) = documents.iter().partition(|d| d.jsonb.is_some());
    assert!(legal.len() > 500 && others.len() > 30);
    let input: Vec<_> = legal
        .iter()
        .map(|d| Some(d.text.as_str()))
        .chain([None])
        .collect();
    for version in VERSIONS {
        let (stored, read) = round_trip(&texts(&input), version);
        let (stored, read) = (stored.as_binary::<i64>(), read.as_string::<i32>());
        for (i, document) in legal.iter().enumerate() {
            let expected = unhex(document.jsonb.as_deref().unwrap());
            assert_eq!(stored.value(i), expected, "{version}: {:?}", document.text);
            assert_eq!(
                read.value(i),
                document.read.as_deref().unwrap(),
                "{version}: {:?}",
                document.text
            );
        }
        assert!(stored.is_null(legal.len()) && read.is_null(legal.len()));
    }
    for document in others {
        let error = write_one(&document.text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(
            text.contains("column 'j', row 11") && text.contains("not JSON"),
            "{text}"
        );
    }
}

#[test]
fn every_string_type_is_text() {
    let values = vec![Some("[1]"), None, Some("\"x\"")];
    let arrays: [ArrayRef; 3] = [
        Arc::new(StringArray::from(values.clone())),
        Arc::new(LargeStringArray::from(values.clone())),
        Arc::new(StringViewArray::from(values.clone())),
    ];
    for array in arrays {
        let field = json_field("j", array.data_type().clone());
        for version in VERSIONS {
            let (_, read) = round_trip(&batch_of(field.clone(), array.clone()), version);
            assert_eq!(read.as_string::<i32>().iter().collect::<Vec<_>>(), values);
        }
    }
}

#[test]
fn metadata_of_the_field_stays() {
    let field = json_field("j", DataType::Utf8);
    let mut metadata = field.metadata().clone();
    metadata.insert("k".into(), "v".into());
    let batch = batch_of(
        field.with_metadata(metadata),
        Arc::new(StringArray::from(vec!["1"])),
    );
    let reader = open(write(&[batch], options(FileVersion::V2_2)).unwrap());
    let (stored, text) = (
        reader.schema().unwrap().to_arrow(),
        json::text_schema(reader.schema().unwrap()),
    );
    for (schema, data_type, extension) in [
        (stored, DataType::LargeBinary, "lance.json"),
        (text, DataType::Utf8, "arrow.json"),
    ] {
        let field = schema.field(0);
        assert_eq!(field.data_type(), &data_type);
        assert_eq!(field.metadata()["ARROW:extension:name"], extension);
        assert_eq!(field.metadata()["ARROW:extension:metadata"], "");
        assert_eq!(field.metadata()["k"], "v");
    }
}

/// Documents below structs, lists, maps and vectors. What lies below a null is no JSON, and nobody may see it.
fn nested() -> Vec<(FileVersion, ArrayRef, Field)> {
    let leaf: ArrayRef = Arc::new(StringArray::from(vec![
        Some("{\"a\":1}"),
        Some("hidden {"),
        None,
        Some("[1,2]"),
        Some("3"),
        Some("\"x\""),
    ]));
    let item = json_field("item", DataType::Utf8);
    let valid = NullBuffer::from(vec![true, false, true, true, true, true]);
    let fields = Fields::from(vec![json_field("j", DataType::Utf8)]);
    let parent = StructArray::new(fields.clone(), vec![leaf.clone()], Some(valid));
    let offsets = OffsetBuffer::from_lengths([1, 1, 0, 4]);
    let list_nulls = NullBuffer::from(vec![true, false, true, true]);
    let list = ListArray::new(
        Arc::new(item.clone()),
        offsets.clone(),
        leaf.clone(),
        Some(list_nulls.clone()),
    );
    let large = OffsetBuffer::from_lengths([2, 4]);
    let large = OffsetBuffer::<i64>::new(large.iter().map(|o: &i32| i64::from(*o)).collect());
    let structs = Arc::new(Field::new("item", parent.data_type().clone(), true));
    let large = LargeListArray::new(structs.clone(), large, Arc::new(parent.clone()), None);
    let vectors = FixedSizeListArray::new(structs, 2, Arc::new(parent.clone()), None);
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new())
        .with_values_field(json_field("values", DataType::Utf8));
    for i in 0..5 {
        for k in 0..i % 3 {
            map.keys().append_value(format!("k{k}"));
            map.values().append_value(format!("[{i}]"));
        }
        map.append(true).unwrap();
    }
    let map = map.finish();
    let arrays: Vec<(FileVersion, ArrayRef)> = vec![
        (FileVersion::V2_1, Arc::new(parent)),
        (FileVersion::V2_0, Arc::new(list)),
        (FileVersion::V2_1, Arc::new(large)),
        (FileVersion::V2_2, Arc::new(vectors)),
        (FileVersion::V2_2, Arc::new(map)),
    ];
    let field = |array: &ArrayRef| Field::new("top", array.data_type().clone(), true);
    arrays
        .into_iter()
        .map(|(since, array)| (since, array.clone(), field(&array)))
        .collect()
}

#[test]
fn documents_at_any_depth() {
    for (since, array, field) in nested() {
        for version in VERSIONS.into_iter().filter(|version| *version >= since) {
            for (start, len) in [(0, array.len()), (1, array.len() - 1), (1, 1)] {
                let array = array.slice(start, len);
                let (_, read) = round_trip(&batch_of(field.clone(), array.clone()), version);
                let place = format!("{version}, {}, {start}+{len}", field.data_type());
                // Arrays of the same rows; the names of fields and what is hidden may differ.
                assert_eq!(rows(&read), rows(&array), "{place}");
            }
        }
    }
}

/// Rows as text.
fn rows(array: &ArrayRef) -> Vec<String> {
    let options = arrow_cast::display::FormatOptions::new().with_null("null");
    let format = arrow_cast::display::ArrayFormatter::try_new(array.as_ref(), &options).unwrap();
    (0..array.len()).map(|i| format.value(i).to_string()).collect()
}

#[test]
fn faults_are_placed_at_any_depth() {
    let leaf: ArrayRef = Arc::new(StringArray::from(vec!["1", "2", "3", "oops", "5", "6"]));
    let fields = Fields::from(vec![json_field("j", DataType::Utf8)]);
    let parent: ArrayRef = Arc::new(StructArray::new(fields, vec![leaf], None));
    let item = Arc::new(Field::new("item", parent.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths([2, 0, 3, 1]);
    let list: ArrayRef = Arc::new(ListArray::new(item.clone(), offsets, parent.clone(), None));
    let vectors: ArrayRef = Arc::new(FixedSizeListArray::new(item, 3, parent.clone(), None));
    for (array, place) in [
        (parent, "column 'top.j', row 3"),
        (list, "column 'top.item.j', row 2"),
        (vectors, "column 'top.item.j', row 1"),
    ] {
        let batch = batch_of(Field::new("top", array.data_type().clone(), true), array);
        let error = write(&[batch], options(FileVersion::V2_2))
            .unwrap_err()
            .to_string();
        assert!(error.contains(place) && error.contains("\"oops\""), "{error}");
    }
}

#[test]
fn rows_of_later_batches_are_counted() {
    let batches = [texts(&[Some("1"), None]), texts(&[Some("2"), Some("{")])];
    let error = write(&batches, options(FileVersion::V2_1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("column 'j', row 3"), "{error}");
}

#[test]
fn strings_that_are_not_utf8_are_refused() {
    let error = read_one(b"\x20\0\0\0\x10\0\0\x01\xff").unwrap_err();
    assert!(error.to_string().contains("not UTF-8"), "{error}");
}

/// On a thread, because these have small stacks.
#[test]
fn deep_documents() {
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    let objects = |n: usize| "{\"a\":".repeat(n) + "1" + &"}".repeat(n);
    let check = move || {
        for text in [nested(1000), objects(1000), format!("[{:?}]", "[".repeat(5000))] {
            assert_eq!(read_one(&write_one(&text).unwrap()).unwrap(), text);
        }
        for text in [
            nested(1001),
            objects(1001),
            nested(1_000_000),
            "[".repeat(1_000_000),
            "[{a:'\\\\',b:[".repeat(100_000),
        ] {
            let error = write_one(&text).unwrap_err().to_string();
            assert!(error.contains("deeper than 1000"), "{error}");
        }
        let mut jsonb = write_one("[]").unwrap();
        for _ in 0..100_000 {
            let entry = 0x5000_0000u32 | jsonb.len() as u32;
            jsonb = [&0x8000_0001u32.to_be_bytes()[..], &entry.to_be_bytes(), &jsonb].concat();
            if jsonb.len() > 9000 {
                break;
            }
        }
        let error = read_one(&jsonb).unwrap_err().to_string();
        assert!(
            error.contains("deeper than 1000") && error.contains("column 'j', row 70"),
            "{error}"
        );
    };
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(check)
        .unwrap();
    thread.join().unwrap();
}

#[test]
fn decimals_and_dates_of_other_writers() {
    let number = |payload: &[u8]| {
        let entry = (0x2000_0000 | payload.len() as u32).to_be_bytes();
        read_one(&[&[0x20, 0, 0, 0], &entry[..], payload].concat())
    };
    let decimal = |value: i64, scale: u8| number(&[&[0x70], &value.to_be_bytes()[..], &[scale]].concat());
    assert_eq!(decimal(12345, 2).unwrap(), "123.45");
    assert_eq!(decimal(-5, 3).unwrap(), "-0.005");
    assert_eq!(decimal(-7, 0).unwrap(), "-7");
    assert!(decimal(1, 77).unwrap_err().to_string().contains("77 digits"));
    let wide = [&[0x70], &(-1i128).to_be_bytes()[..], &[38, 1]].concat();
    assert_eq!(number(&wide).unwrap(), "-0.1");
    let date = read_one(b"\x20\0\0\0\x60\0\0\x05\x10\0\0\0\x01").unwrap_err();
    assert_eq!(date.kind(), ErrorKind::Unsupported);
}

fn mutated(bytes: &[u8], seed: usize) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for step in 0..1 + mix(seed) % 3 {
        let dice = mix(seed * 7 + step as usize + 1_000_000);
        let at = (dice >> 8) as usize % out.len().max(1);
        match dice % 4 {
            _ if out.is_empty() => out.push(dice as u8),
            0 => out[at] ^= 1 << (dice >> 40 & 7),
            1 => out[at] = (dice >> 40) as u8,
            2 => drop(out.remove(at)),
            _ => out.insert(at, (dice >> 40) as u8),
        }
    }
    out
}

#[test]
fn damaged_documents_never_panic() {
    let mut read = 0;
    for (i, document) in documents().iter().enumerate() {
        let Some(jsonb) = &document.jsonb else { continue };
        let jsonb = unhex(jsonb);
        for seed in 0..200 {
            match read_one(&mutated(&jsonb, i * 1000 + seed)) {
                Ok(text) => {
                    read += 1;
                    if text.matches(['[', '{']).count() > 100 {
                        continue; // deeper than serde_json goes
                    }
                    let value: std::result::Result<serde_json::Value, _> = serde_json::from_str(&text);
                    assert!(value.is_ok(), "{text}");
                }
                Err(error) => {
                    let kind = error.kind();
                    assert!(
                        matches!(kind, ErrorKind::Corrupt | ErrorKind::Unsupported),
                        "{error}"
                    );
                    assert!(error.to_string().contains("column 'j', row 70"), "{error}");
                }
            }
        }
    }
    assert!(read > 1000);
}

#[test]
fn damaged_text_never_panics() {
    let (mut legal, mut illegal) = (0, 0);
    for (i, document) in documents().iter().enumerate() {
        for seed in 0..100 {
            let text = mutated(document.text.as_bytes(), i * 1000 + seed);
            match write_one(&String::from_utf8_lossy(&text)) {
                Ok(jsonb) => {
                    legal += 1;
                    let text = read_one(&jsonb).unwrap();
                    // What is read can be written, and says the same.
                    assert_eq!(read_one(&write_one(&text).unwrap()).unwrap(), text);
                }
                Err(error) => {
                    illegal += 1;
                    assert_eq!(error.kind(), ErrorKind::InvalidInput);
                }
            }
        }
    }
    assert!(legal > 1000 && illegal > 1000, "{legal} {illegal}");
}
