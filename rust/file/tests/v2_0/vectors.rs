//! Whole files and single pages that pylance wrote (catalogue: `tests/data/file`).

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema as ArrowSchema, TimeUnit};
use glaive_file::container::{ARRAY_ENCODING_URL, Alignment, ColumnPages, ContainerWriter, EncodedPage};
use glaive_file::proto::lance::encodings as pb;
use glaive_file::proto::lance::encodings::array_encoding::ArrayEncoding as Tree;
use glaive_file::proto::lance::file::Schema as SchemaMessage;
use glaive_file::schema::LogicalType;
use glaive_file::{FileVersion, ReadOptions, Rows, Schema};
use prost::Message;
use serde_json::{Value, json};

use crate::support::{MemorySink, open};
use crate::vectors::{hex, unhex};

fn load(name: &str) -> Value {
    crate::vectors::load(&format!("file/{name}"))
}

fn vectors(name: &str) -> Vec<Value> {
    load(name)["vectors"].as_array().unwrap().clone()
}

/// Integers from 2^53 on are strings.
fn integer(value: i128) -> Value {
    match i64::try_from(value) {
        Ok(small) if small.unsigned_abs() < 1 << 53 => small.into(),
        _ => value.to_string().into(),
    }
}

macro_rules! int {
    ($array:expr, $i:expr, $($data_type:pat => $type:ty),* $(,)?) => {
        match $array.data_type() {
            $($data_type => Some(integer(i128::from($array.as_primitive::<$type>().value($i)))),)*
            _ => None,
        }
    };
}

/// A row in the notation of the vectors.
fn row(array: &dyn Array, i: usize) -> Value {
    if array.is_null(i) || array.data_type() == &DataType::Null {
        return Value::Null;
    }
    let number = int!(array, i,
        DataType::Int8 => Int8Type, DataType::Int16 => Int16Type, DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type, DataType::UInt8 => UInt8Type, DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type, DataType::UInt64 => UInt64Type, DataType::Date32 => Date32Type,
        DataType::Time32(TimeUnit::Second) => Time32SecondType,
        DataType::Time64(TimeUnit::Microsecond) => Time64MicrosecondType,
        DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
        DataType::Duration(TimeUnit::Millisecond) => DurationMillisecondType,
        DataType::Decimal128(..) => Decimal128Type,
    );
    if let Some(number) = number {
        return number;
    }
    let list = |items: ArrayRef| -> Value { (0..items.len()).map(|i| row(&items, i)).collect() };
    match array.data_type() {
        DataType::Decimal256(..) => {
            let value = array.as_primitive::<Decimal256Type>().value(i);
            value.to_i128().map_or_else(|| value.to_string().into(), integer)
        }
        DataType::Float16 => array.as_primitive::<Float16Type>().value(i).to_f64().into(),
        DataType::Float32 => f64::from(array.as_primitive::<Float32Type>().value(i)).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(i).into(),
        DataType::Boolean => array.as_boolean().value(i).into(),
        DataType::Utf8 => array.as_string::<i32>().value(i).into(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(i).into(),
        DataType::Binary => hex(array.as_binary::<i32>().value(i)),
        DataType::LargeBinary => hex(array.as_binary::<i64>().value(i)),
        DataType::FixedSizeBinary(_) => hex(array.as_fixed_size_binary().value(i)),
        DataType::List(_) => list(array.as_list::<i32>().value(i)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(i)),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(i)),
        DataType::Dictionary(..) => {
            let array = array.as_any_dictionary();
            row(array.values(), array.normalized_keys()[i])
        }
        DataType::Struct(fields) => {
            let values = fields.iter().zip(array.as_struct().columns());
            let values = values.map(|(f, column)| (f.name().clone(), row(column, i)));
            json!({"struct": values.collect::<serde_json::Map<_, _>>()})
        }
        other => panic!("no notation for {other}"),
    }
}

/// Equality up to the last digit of floats, which the JSON parser rounds differently.
fn same(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Array(a), Value::Array(b)) => same_all(a, b),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= a.abs() * f64::EPSILON
        }
        (a, b) => a == b,
    }
}

fn same_all(found: &[Value], expected: &[Value]) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| same(a, b))
}

fn assert_rows(found: &RecordBatch, expected: &[Value], what: &str) {
    let found = rows(found);
    assert!(
        same_all(&found, expected),
        "{what}: {found:?}, expected {expected:?}"
    );
}

fn rows(batch: &RecordBatch) -> Vec<Value> {
    batch.column(0).to_data().validate_full().unwrap();
    (0..batch.num_rows()).map(|i| row(batch.column(0), i)).collect()
}

/// Whole, every part, and every row of a file of one column.
fn check(name: &str, bytes: Vec<u8>, expected: &[Value]) {
    let n = expected.len() as u64;
    let fresh = || open(bytes.clone());
    let read = |reader: &glaive_file::FileReader, rows: Rows<'_>| {
        reader.read(None, rows, &ReadOptions::default()).unwrap()
    };
    let reader = fresh();
    assert_eq!(reader.num_rows().unwrap(), n, "{name}");
    for i in 0..n {
        let one = read(&reader, Rows::Indices(&[i]));
        let row = &expected[i as usize..=i as usize];
        assert_rows(&one, row, &format!("{name}, row {i}"));
    }
    assert_rows(&read(&fresh(), Rows::Range(0..n)), expected, name);
    for start in (0..n).step_by(1 + n as usize / 40) {
        let end = start + (n - start) / 2 + 1;
        let found = read(&fresh(), Rows::Range(start..end));
        let part = &expected[start as usize..end as usize];
        assert_rows(&found, part, &format!("{name}, from {start}"));
    }
    let odd: Vec<u64> = (0..n).filter(|i| i % 2 == 1).collect();
    let expected: Vec<_> = odd.iter().map(|i| expected[*i as usize].clone()).collect();
    let found = read(&fresh(), Rows::Indices(&odd));
    assert_rows(&found, &expected, &format!("{name}, odd rows"));
}

#[test]
fn whole_files() {
    let vectors = vectors("enc20_files.json");
    assert_eq!(vectors.len(), 79);
    for vector in vectors {
        let name = vector["name"].as_str().unwrap();
        check(
            name,
            unhex(&vector["file_hex"]),
            vector["rows"].as_array().unwrap(),
        );
    }
}

/// A file of one page of one column.
fn file_of_page(logical_type: &str, encoding: Vec<u8>, buffers: Vec<Vec<u8>>, length: u64) -> Vec<u8> {
    let data_type = LogicalType::parse(logical_type)
        .unwrap()
        .childless_data_type()
        .unwrap();
    let arrow = ArrowSchema::new(vec![Field::new("c", data_type, true)]);
    let schema = Schema::try_from_arrow(&arrow).unwrap();
    let sink = MemorySink::default();
    let mut writer = ContainerWriter::new(Box::new(sink.clone()), FileVersion::V2_0, Alignment::default());
    let mut column = ColumnPages::default();
    let page = EncodedPage {
        type_url: ARRAY_ENCODING_URL,
        encoding,
        buffers: buffers.into_iter().map(Buffer::from).collect(),
        length,
        priority: 0,
    };
    writer.write_encoded_page(&mut column, &page).unwrap();
    let message = SchemaMessage {
        fields: schema.to_proto(),
        metadata: schema.metadata_to_proto(),
    };
    writer.finish(message, length, vec![column]).unwrap();
    sink.0.lock().unwrap().clone()
}

#[test]
fn bit_packed_pages_of_old_writers() {
    let vectors = vectors("enc20_bitpacked.json");
    assert_eq!(vectors.len(), 9);
    for vector in vectors {
        let buffers = vector["buffers"].as_array().unwrap().iter().map(unhex).collect();
        let bytes = file_of_page(
            vector["logical_type"].as_str().unwrap(),
            unhex(&vector["encoding"]),
            buffers,
            vector["page_length"].as_u64().unwrap(),
        );
        let name = format!("{}, {}", vector["name"], vector["writer"]);
        check(&name, bytes, vector["values"].as_array().unwrap());
    }
}

fn encoding(tree: Tree) -> pb::ArrayEncoding {
    pb::ArrayEncoding {
        array_encoding: Some(tree),
    }
}

fn flat(bits: u64, index: u32) -> pb::ArrayEncoding {
    encoding(Tree::Flat(pb::Flat {
        bits_per_value: bits,
        buffer: Some(pb::Buffer {
            buffer_index: index,
            buffer_type: 0,
        }),
        compression: None,
    }))
}

fn binary(adjustment: u64) -> pb::ArrayEncoding {
    encoding(Tree::Binary(Box::new(pb::Binary {
        indices: Some(Box::new(flat(64, 0))),
        bytes: Some(Box::new(flat(8, 1))),
        null_adjustment: adjustment,
    })))
}

#[test]
fn fsst_pages() {
    for vector in vectors("enc20_fsst.json") {
        let tree = encoding(Tree::Fsst(Box::new(pb::Fsst {
            binary: Some(Box::new(binary(vector["null_adjustment"].as_u64().unwrap()))),
            symbol_table: unhex(&vector["symbol_table_hex"]).into(),
        })));
        let length = vector["page_length"].as_u64().unwrap();
        let buffers = vec![unhex(&vector["indices_hex"]), unhex(&vector["bytes_hex"])];
        let bytes = file_of_page("string", tree.encode_to_vec(), buffers, length);
        let reader = open(bytes);
        let all = reader
            .read(None, Rows::Range(0..length), &ReadOptions::default())
            .unwrap();
        let all = rows(&all);
        let first = vector["first_values"].as_array().unwrap();
        assert_eq!(&all[..first.len()], first, "{}", vector["name"]);
        for i in (0..length).step_by(7) {
            let one = reader
                .read(None, Rows::Indices(&[i]), &ReadOptions::default())
                .unwrap();
            assert_eq!(rows(&one)[0], all[i as usize], "{}, row {i}", vector["name"]);
        }
    }
}

#[test]
fn strings_of_equal_length() {
    for (bits, count) in [(8, 2), (16, 1)] {
        let tree = encoding(Tree::FixedSizeBinary(Box::new(pb::FixedSizeBinary {
            bytes: Some(Box::new(flat(bits, 0))),
            byte_width: 2,
        })));
        let bytes = file_of_page("string", tree.encode_to_vec(), vec![b"aabbcc".to_vec()], 3);
        check(
            "fixed_size_binary",
            bytes,
            &[json!("aa"), json!("bb"), json!("cc")],
        );
        assert_eq!(bits * count, 16);
    }
}

#[test]
fn hidden_bytes_of_a_null_are_skipped() {
    let offsets: Vec<u8> = [1u64, 10, 5].iter().flat_map(|o| o.to_le_bytes()).collect();
    // The bytes behind the null are no UTF-8.
    let buffers = vec![offsets, vec![b'a', 0xff, 0xfe, 0xfd, b'b']];
    let bytes = file_of_page("string", binary(6).encode_to_vec(), buffers, 3);
    check("hidden bytes", bytes, &[json!("a"), Value::Null, json!("b")]);
}

#[test]
fn dictionary_indices_with_a_validity_bitmap() {
    let indices = encoding(Tree::Nullable(Box::new(pb::Nullable {
        nullability: Some(pb::nullable::Nullability::SomeNulls(Box::new(
            pb::nullable::SomeNull {
                validity: Some(Box::new(flat(1, 2))),
                values: Some(Box::new(flat(8, 3))),
            },
        ))),
    })));
    let tree = encoding(Tree::Dictionary(Box::new(pb::Dictionary {
        indices: Some(Box::new(indices)),
        items: Some(Box::new(binary(3))),
        num_dictionary_items: 2,
    })));
    let offsets: Vec<u8> = [1u64, 2].iter().flat_map(|o| o.to_le_bytes()).collect();
    // The index under the null is out of range.
    let buffers = vec![offsets, b"xy".to_vec(), vec![0b101], vec![1, 99, 0]];
    let bytes = file_of_page("dict:string:int8:false", tree.encode_to_vec(), buffers, 3);
    check("old dictionary", bytes, &[json!("y"), Value::Null, json!("x")]);
}
