//! Files and pages that pylance wrote decode as stated; damaged ones are refused (catalogue: `tests/data`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use glaive_file::container::{Alignment, ColumnPages, ContainerWriter, PageToWrite};
use glaive_file::proto::lance::encodings21::PageLayout;
use glaive_file::proto::lance::file::Schema as SchemaMessage;
use glaive_file::schema::LogicalType;
use glaive_file::{ErrorKind, FileReader, FileVersion, ReadOptions, Rows, Schema};
use prost::Message;
use serde_json::{Value, json};

use crate::support::{MemoryFile, MemorySink};

pub fn load(name: &str) -> Value {
    let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[i * 2..i * 2 + 2], 16).unwrap())
        .collect()
}

pub fn hex(bytes: &[u8]) -> Value {
    json!({"hex": bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()})
}

/// A row in the notation of the vectors.
pub fn row(array: &dyn Array, i: usize) -> Value {
    if array.is_null(i) || array.data_type() == &DataType::Null {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Int16 => array.as_primitive::<Int16Type>().value(i).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(i).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(i).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(i).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(i).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(i).into(),
        DataType::Float32 => f64::from(array.as_primitive::<Float32Type>().value(i)).into(),
        DataType::Boolean => array.as_boolean().value(i).into(),
        DataType::Utf8 => array.as_string::<i32>().value(i).into(),
        DataType::Binary => hex(array.as_binary::<i32>().value(i)),
        DataType::LargeBinary => hex(array.as_binary::<i64>().value(i)),
        DataType::FixedSizeBinary(_) => hex(array.as_fixed_size_binary().value(i)),
        DataType::Struct(fields) => {
            let values = fields.iter().zip(array.as_struct().columns());
            values
                .map(|(f, column)| (f.name().clone(), row(column, i)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        DataType::List(_) => items(&array.as_list::<i32>().value(i)),
        DataType::Map(..) => items(&array.as_map().value(i)),
        DataType::FixedSizeList(..) => items(&array.as_fixed_size_list().value(i)),
        other => panic!("no notation for {other}"),
    }
}

fn items(array: &dyn Array) -> Value {
    (0..array.len()).map(|i| row(array, i)).collect()
}

fn rows(batch: &RecordBatch) -> Value {
    (0..batch.num_rows()).map(|i| row(batch.column(0), i)).collect()
}

/// The type of a field, from the paths of its leaf columns.
fn data_type(columns: &[(Vec<String>, Vec<Value>, String)]) -> DataType {
    let (_, layers, leaf) = &columns[0];
    let Some(layer) = layers.first() else {
        return LogicalType::parse(leaf)
            .unwrap()
            .childless_data_type()
            .unwrap_or(DataType::Struct(arrow_schema::Fields::empty()));
    };
    let rest = |n: usize| -> Vec<_> {
        columns
            .iter()
            .map(|(path, layers, leaf)| (path[n..].to_vec(), layers[1..].to_vec(), leaf.clone()))
            .collect()
    };
    if layer == "list" {
        return DataType::List(Arc::new(Field::new("item", data_type(&rest(0)), true)));
    }
    if let Some(parameters) = layer.as_array() {
        let item = Field::new("item", data_type(&rest(0)), true);
        return DataType::FixedSizeList(Arc::new(item), parameters[1].as_i64().unwrap() as i32);
    }
    let mut names: Vec<&String> = columns.iter().map(|(path, _, _)| &path[0]).collect();
    names.dedup();
    let child = |name: &String| {
        let inside: Vec<_> = rest(1)
            .into_iter()
            .zip(columns)
            .filter(|(_, c)| c.0[0] == *name)
            .map(|(r, _)| r)
            .collect();
        Field::new(name, data_type(&inside), true)
    };
    DataType::Struct(names.into_iter().map(child).collect())
}

/// The types of packed structs, which the vectors do not name.
fn packed_type(name: &str) -> Option<DataType> {
    let fields = match name {
        "packed_struct" => vec![
            ("x", DataType::Int32),
            ("y", DataType::Int64),
            ("z", DataType::Int16),
        ],
        "packed_struct_nulls" => vec![("x", DataType::Int32), ("y", DataType::Int64)],
        "packed_struct_variable" => vec![("x", DataType::Int32), ("y", DataType::Utf8)],
        _ => return None,
    };
    let fields = fields
        .into_iter()
        .map(|(name, data_type)| Field::new(name, data_type, true));
    Some(DataType::Struct(fields.collect()))
}

/// A file made of the pages of a vector.
pub fn file_of_pages(vector: &Value) -> Vec<u8> {
    file_of_pages_as(vector, |field| field)
}

/// The same, with another field on top.
fn file_of_pages_as(vector: &Value, change: impl Fn(Field) -> Field) -> Vec<u8> {
    let columns = vector["columns"].as_array().unwrap();
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let paths: Vec<_> = columns
        .iter()
        .map(|c| {
            let path = c["path"].as_array().unwrap().iter().map(text).collect();
            (
                path,
                c["path_layers"].as_array().unwrap().clone(),
                text(&c["leaf_type"]),
            )
        })
        .collect();
    let name = vector["name"].as_str().unwrap();
    let field = match packed_type(name) {
        Some(packed) => Field::new("a", packed, true)
            .with_metadata([("lance-encoding:packed".to_string(), "true".to_string())].into()),
        None if name.starts_with("blob_v1") => Field::new("a", DataType::LargeBinary, true)
            .with_metadata([("lance-encoding:blob".to_string(), "true".to_string())].into()),
        None => Field::new("a", data_type(&paths), true),
    };
    let schema = ArrowSchema::new(vec![change(field)]);
    let mut schema = Schema::try_from_arrow(&schema).unwrap();
    schema.assign_ids(0).unwrap();
    let version = FileVersion::from_manifest_str(vector["version"].as_str().unwrap()).unwrap();
    let sink = MemorySink::default();
    let mut writer = ContainerWriter::new(Box::new(sink.clone()), version, Alignment::default());
    let mut written = Vec::new();
    for column in columns {
        let mut pages = ColumnPages::default();
        for page in column["pages"].as_array().unwrap() {
            for blob in page["blob_bytes"].as_array().into_iter().flatten() {
                let position = writer.write_payload(&unhex(&blob["hex"])).unwrap();
                assert_eq!(position, blob["position"].as_u64().unwrap());
            }
            let page = PageToWrite {
                layout: PageLayout::decode(unhex(&page["layout_hex"]).as_slice()).unwrap(),
                buffers: page["buffers"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|b| unhex(&b["hex"]))
                    .collect(),
                length: page["length"].as_u64().unwrap(),
                priority: page["priority"].as_u64().unwrap(),
            };
            writer.write_page(&mut pages, page).unwrap();
        }
        written.push(pages);
    }
    let message = SchemaMessage {
        fields: schema.to_proto(),
        metadata: schema.metadata_to_proto(),
    };
    let num_rows = vector["expected"].as_array().unwrap().len() as u64;
    writer.finish(message, num_rows, written).unwrap();
    sink.0.lock().unwrap().clone()
}

fn check(name: &str, bytes: Vec<u8>, expected: &Value) {
    let reader = FileReader::open(MemoryFile::new(bytes)).unwrap();
    let n = expected.as_array().unwrap().len() as u64;
    assert_eq!(reader.num_rows().unwrap(), n, "{name}");
    let scan = reader.read(None, Rows::Range(0..n), &ReadOptions::default());
    assert_eq!(rows(&scan.unwrap()), *expected, "{name}");
    for i in 0..n {
        let one = reader
            .read(None, Rows::Indices(&[i]), &ReadOptions::default())
            .unwrap();
        assert_eq!(rows(&one)[0], expected[i as usize], "{name}, row {i}");
    }
}

#[test]
fn pages_decode_as_stated() {
    for file in ["structural/pages_2.1.json", "structural/pages_2.2.json"] {
        let vectors = load(file);
        for vector in vectors.as_array().unwrap() {
            let name = vector["name"].as_str().unwrap();
            check(name, file_of_pages(vector), &vector["expected"]);
        }
    }
}

/// pylance writes pages of dictionary columns with a dictionary only; other layouts mean the same values.
#[test]
fn plain_pages_of_dictionary_columns() {
    let mut seen = 0;
    for file in ["structural/pages_2.1.json", "structural/pages_2.2.json"] {
        for vector in load(file).as_array().unwrap() {
            if vector["columns"][0]["leaf_type"] != "string"
                || vector["columns"][0]["path_layers"] != json!([])
            {
                continue;
            }
            seen += 1;
            let keyed = |field: Field| {
                field.with_data_type(DataType::Dictionary(
                    Box::new(DataType::Int32),
                    Box::new(DataType::Utf8),
                ))
            };
            let found = read(file_of_pages_as(vector, keyed)).unwrap();
            let plain = crate::special_columns::without_keys(found.column(0));
            let plain = RecordBatch::try_from_iter([("a", plain)]).unwrap();
            assert_eq!(rows(&plain), vector["expected"], "{}", vector["name"]);
        }
    }
    assert!(seen > 3);
}

/// The whole files of the catalogue.
pub fn whole_files() -> Vec<Vec<u8>> {
    let structural = load("structural/files.json");
    let container = load("file/container.json");
    let files = structural
        .as_array()
        .unwrap()
        .iter()
        .chain(container["vectors"].as_array().unwrap());
    files.map(|vector| unhex(&vector["file_hex"])).collect()
}

#[test]
fn whole_files_decode_as_stated() {
    for vector in load("structural/files.json").as_array().unwrap() {
        check(
            vector["name"].as_str().unwrap(),
            unhex(&vector["file_hex"]),
            &vector["expected"],
        );
    }
}

/// Opens a file and reads all its rows.
fn read(bytes: Vec<u8>) -> glaive_file::Result<RecordBatch> {
    let reader = FileReader::open(MemoryFile::new(bytes))?;
    let n = reader.num_rows()?;
    reader.read(None, Rows::Range(0..n), &ReadOptions::default())
}

#[test]
fn containers_parse_as_stated() {
    for vector in load("file/container.json")["vectors"].as_array().unwrap() {
        let (name, container) = (vector["name"].as_str().unwrap(), &vector["container"]);
        let opened = FileReader::open(MemoryFile::new(unhex(&vector["file_hex"])));
        let reader = match opened {
            Ok(reader) => reader,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
                assert!(error.to_string().contains("2.3"), "{name}: {error}");
                continue;
            }
        };
        assert_eq!(
            reader.num_rows().unwrap(),
            container["descriptor_length"].as_u64().unwrap_or(0),
            "{name}"
        );
        let buffers = reader.tail().global_buffers();
        let stated: Vec<_> = container["gbo"].as_array().unwrap().clone();
        assert_eq!(buffers.len(), stated.len(), "{name}");
        for (buffer, stated) in buffers.iter().zip(stated) {
            assert_eq!(json!([buffer.position, buffer.size]), stated, "{name}");
        }
        for (i, column) in container["columns"].as_array().unwrap().iter().enumerate() {
            let info = reader.tail().column(i as u32).unwrap();
            assert_eq!(
                info.pages.len(),
                column["pages"].as_array().unwrap().len(),
                "{name}"
            );
        }
    }
}

#[test]
fn damaged_containers_are_refused() {
    let files = load("file/container.json");
    let base = |name: &str| {
        let vectors = files["vectors"].as_array().unwrap();
        unhex(&vectors.iter().find(|v| v["name"] == name).unwrap()["file_hex"])
    };
    for vector in load("file/container_reject.json")["vectors"].as_array().unwrap() {
        let mut bytes = base(vector["base"].as_str().unwrap());
        for patch in vector["patches"].as_array().unwrap() {
            let (at, new) = (patch[0].as_u64().unwrap() as usize, unhex(&patch[1]));
            bytes[at..at + new.len()].copy_from_slice(&new);
        }
        let (name, expect) = (
            vector["name"].as_str().unwrap(),
            vector["expect"].as_str().unwrap(),
        );
        let result = read(bytes);
        match expect.starts_with("reject") {
            true => assert!(result.is_err(), "{} {name}", vector["base"]),
            false => assert!(result.is_ok(), "{} {name}: {:?}", vector["base"], result.err()),
        }
    }
}
