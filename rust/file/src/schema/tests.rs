use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field as ArrowField, IntervalUnit, Schema as ArrowSchema, UnionFields};

use super::*;
use crate::ErrorKind;
use crate::proto::lance::file as pb;

const SCHEMA_TYPES: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/data/file/schema_types.json"
));

#[derive(serde::Deserialize)]
struct Vectors {
    vectors: Vec<Vector>,
}

#[derive(serde::Deserialize)]
struct Vector {
    name: String,
    #[serde(default)]
    fields: Vec<StoredField>,
    versions: BTreeMap<String, serde_json::Value>,
}

#[derive(serde::Deserialize)]
struct StoredField {
    id: i32,
    parent_id: i32,
    name: String,
    logical_type: String,
    nullable: bool,
    encoding_enum: i32,
    #[serde(default)]
    extension_name: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

impl StoredField {
    fn to_proto(&self) -> pb::Field {
        pb::Field {
            name: self.name.clone(),
            id: self.id,
            parent_id: self.parent_id,
            logical_type: self.logical_type.clone(),
            nullable: self.nullable,
            encoding: self.encoding_enum,
            extension_name: self.extension_name.clone(),
            metadata: self
                .metadata
                .iter()
                .map(|(k, v)| (k.clone(), v.clone().into()))
                .collect(),
            ..Default::default()
        }
    }
}

fn vectors() -> Vec<(Vector, Vec<pb::Field>)> {
    let vectors: Vectors = serde_json::from_str(SCHEMA_TYPES).unwrap();
    let stored = |v: &Vector| v.fields.iter().map(StoredField::to_proto).collect();
    vectors
        .vectors
        .into_iter()
        .map(|v| (stored(&v), v))
        .map(|(fields, v)| (v, fields))
        .collect()
}

#[test]
fn stored_schemas_survive_the_tree_and_arrow() {
    for (vector, stored) in vectors().into_iter().filter(|(v, _)| !v.fields.is_empty()) {
        let schema = Schema::from_proto(&stored, &BTreeMap::new()).unwrap();
        assert_eq!(schema.to_proto(), stored, "{}", vector.name);
        let again = Schema::try_from_arrow(&schema.to_arrow()).unwrap();
        assert_eq!(again.to_proto(), stored, "{} through Arrow", vector.name);
    }
}

#[test]
fn columns_and_refusals_by_version() {
    for (vector, stored) in vectors().into_iter().filter(|(v, _)| !v.fields.is_empty()) {
        let schema = Schema::from_proto(&stored, &BTreeMap::new()).unwrap();
        for (version, expected) in &vector.versions {
            let version: FileVersion = version.parse().unwrap();
            let place = format!("{} in {version}", vector.name);
            match expected.get("num_columns").and_then(serde_json::Value::as_u64) {
                Some(columns) => {
                    assert_eq!(schema.leaf_fields(version).len() as u64, columns, "{place}");
                    // The format's writer makes a file of dictionaries in fixed-size lists that it cannot read.
                    if vector.name != "fsl_dict" {
                        schema.check_writable(version).unwrap();
                    }
                }
                // View types are stored as plain ones, which every version has.
                None if vector.name.ends_with("_view") => schema.check_writable(version).unwrap(),
                None => {
                    let error = schema.check_writable(version).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Unsupported, "{place}");
                    assert!(
                        error.to_string().contains("Unsupported data type"),
                        "{place}: {error}"
                    );
                }
            }
        }
    }
}

fn item(data_type: DataType) -> Arc<ArrowField> {
    Arc::new(ArrowField::new("item", data_type, true))
}

#[test]
fn types_without_a_string_are_refused() {
    let structs = DataType::Struct(vec![ArrowField::new("a", DataType::Int32, true)].into());
    let boxed = |index, value| DataType::Dictionary(Box::new(index), Box::new(value));
    for data_type in [
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Decimal32(5, 2),
        DataType::Decimal64(12, 3),
        DataType::ListView(item(DataType::Int32)),
        DataType::LargeListView(item(DataType::Int32)),
        DataType::FixedSizeList(item(DataType::List(item(DataType::Int32))), 2),
        DataType::FixedSizeList(item(DataType::FixedSizeList(item(structs.clone()), 2)), 2),
        DataType::FixedSizeList(item(DataType::Int32), 0),
        DataType::Map(item(structs.clone()), true),
        boxed(DataType::Int32, DataType::Decimal128(5, 2)),
        boxed(DataType::Int8, DataType::Date32),
        boxed(DataType::Int8, structs),
        DataType::RunEndEncoded(item(DataType::Int32), item(DataType::Int64)),
        DataType::Union(UnionFields::empty(), arrow_schema::UnionMode::Dense),
    ] {
        let schema = ArrowSchema::new(vec![ArrowField::new("c", data_type.clone(), true)]);
        let error = Schema::try_from_arrow(&schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{data_type}");
        assert!(error.to_string().contains("Unsupported data type"), "{error}");
    }
}

#[test]
fn view_types_and_text_json_change() {
    let json = ArrowField::new("j", DataType::Utf8, true)
        .with_metadata([(EXTENSION_NAME.to_string(), "arrow.json".to_string())].into());
    let schema = ArrowSchema::new(vec![
        ArrowField::new("s", DataType::Utf8View, true),
        ArrowField::new("b", DataType::BinaryView, true),
        json,
    ]);
    let schema = Schema::try_from_arrow(&schema).unwrap();
    let names: Vec<_> = schema.fields.iter().map(|f| f.logical_type.to_string()).collect();
    assert_eq!(names, ["string", "binary", "json"]);
    assert_eq!(schema.fields[0].data_type(), DataType::Utf8);
    assert_eq!(schema.fields[2].metadata[EXTENSION_NAME], "lance.json");
}

#[test]
fn malformed_strings_are_refused() {
    let deep = "fixed_size_list:".repeat(5000) + "int32" + &":2".repeat(5000);
    for text in [
        "",
        "int",
        "int128",
        "Int32",
        "timestamp:us",
        "timestamp:xs:-",
        "decimal:128:10",
        "decimal:64:10:2",
        "decimal:128:39:0",
        "decimal:128:10:200",
        "decimal:128:1:2:3",
        "fixed_size_binary:",
        "fixed_size_binary:-1",
        "fixed_size_binary:1:2",
        "fixed_size_list:int32",
        "fixed_size_list:int32:0",
        "fixed_size_list:int32:-1",
        "fixed_size_list:list:2",
        "fixed_size_list:map:2",
        "fixed_size_list:fixed_size_list:struct:2:2",
        "dict:string:int8",
        "dict:string:float:false",
        "dict:string:int8:false:1",
        "dict:date32:day:int8:false",
        "list.int",
        "lance.bfloat16",
        "duration:min",
        "time32:us",
        &deep,
    ] {
        let error = LogicalType::parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
    }
}

fn stored(id: i32, parent_id: i32, name: &str, logical_type: &str) -> pb::Field {
    let (name, logical_type) = (name.to_string(), logical_type.to_string());
    pb::Field {
        id,
        parent_id,
        name,
        logical_type,
        nullable: true,
        ..Default::default()
    }
}

fn build(fields: &[pb::Field]) -> Result<Schema> {
    Schema::from_proto(fields, &BTreeMap::new())
}

#[test]
fn broken_trees_are_refused() {
    let cases: [(&str, Vec<pb::Field>); 9] = [
        (
            "does not come before",
            vec![stored(1, 2, "a", "int32"), stored(2, -1, "s", "struct")],
        ),
        ("does not come before", vec![stored(5, 5, "a", "struct")]),
        (
            "used twice",
            vec![stored(0, -1, "a", "int32"), stored(0, -1, "b", "int32")],
        ),
        ("negative field id", vec![stored(-7, -1, "a", "int32")]),
        (
            "negative field id",
            vec![stored(0, -1, "a", "int32"), stored(-1, -1, "b", "int32")],
        ),
        ("has 0 children instead of 1", vec![stored(0, -1, "l", "list")]),
        (
            "has 1 children instead of 0",
            vec![stored(0, -1, "a", "int32"), stored(1, 0, "b", "int32")],
        ),
        (
            "not a struct of key and value",
            vec![stored(0, -1, "m", "map"), stored(1, 0, "e", "int32")],
        ),
        ("unknown logical type", vec![stored(0, -1, "a", "quux")]),
    ];
    for (text, fields) in cases {
        let error = build(&fields).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(text), "{error}");
    }
    let deep: Vec<_> = (0..100_000).map(|id| stored(id, id - 1, "s", "struct")).collect();
    assert!(build(&deep).unwrap_err().to_string().contains("levels"));
}

#[test]
fn first_tables_name_zero_as_the_top() {
    let schema = build(&[stored(1, 0, "a", "int32"), stored(2, 0, "b", "int32")]).unwrap();
    assert_eq!(schema.fields.len(), 2);
    let nested = build(&[stored(0, -1, "s", "struct"), stored(1, 0, "a", "int32")]).unwrap();
    assert_eq!(nested.fields[0].children.len(), 1);
}

#[test]
fn parts_of_a_blob_attach_to_it() {
    let mut blob = stored(3, -1, "b", "struct");
    blob.metadata = [(BLOB.to_string(), "true".into())].into();
    let fields = [
        stored(0, -1, "a", "int32"),
        blob,
        stored(-1, -1, "kind", "uint8"),
        stored(4, -1, "z", "int8"),
    ];
    let schema = build(&fields).unwrap();
    assert_eq!(
        schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(),
        ["a", "b", "z"]
    );
    assert_eq!(schema.fields[1].children[0].name, "kind");
    assert_eq!(
        schema
            .leaf_fields(FileVersion::V2_2)
            .iter()
            .map(|f| f.id)
            .collect::<Vec<_>>(),
        [0, 3, 4]
    );
    let part = &schema.to_proto()[2];
    assert_eq!((part.id, part.parent_id, part.name.as_str()), (-1, -1, "kind"));
}

/// i, s{a, b}, l: list<item>, v: fsl, ls: list<{a, b}>, t (format chapter 10, 8.1).
fn nested() -> Schema {
    let structs = || {
        let fields = ["a", "b"].map(|name| ArrowField::new(name, DataType::Int32, true));
        DataType::Struct(fields.to_vec().into())
    };
    let columns = [
        ("i", DataType::Int32),
        ("s", structs()),
        ("l", DataType::List(item(DataType::Int32))),
        ("v", DataType::FixedSizeList(item(DataType::Float32), 2)),
        ("ls", DataType::List(item(structs()))),
        ("t", DataType::Utf8),
    ];
    let fields = columns.map(|(name, data_type)| ArrowField::new(name, data_type, true));
    Schema::try_from_arrow(&ArrowSchema::new(fields.to_vec())).unwrap()
}

#[test]
fn which_field_owns_a_column() {
    let ids = |version| {
        nested()
            .leaf_fields(version)
            .iter()
            .map(|f| f.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(FileVersion::V2_0), (0..12).collect::<Vec<_>>());
    assert_eq!(ids(FileVersion::V2_1), [0, 2, 3, 5, 6, 9, 10, 11]);
    assert_eq!(nested().max_field_id(), Some(11));
    assert_eq!(nested().field_by_id(9).unwrap().name, "a");
}

#[test]
fn given_ids_stay_and_others_follow() {
    let given = |name, id: &str| {
        ArrowField::new(name, DataType::Int32, true)
            .with_metadata([(FIELD_ID.to_string(), id.to_string())].into())
    };
    let plain = |name| ArrowField::new(name, DataType::Int32, true);
    let schema = ArrowSchema::new(vec![
        given("a", "7"),
        plain("b"),
        given("c", "3"),
        given("d", "-1"),
    ]);
    let schema = Schema::try_from_arrow(&schema).unwrap();
    assert_eq!(
        schema.fields.iter().map(|f| f.id).collect::<Vec<_>>(),
        [7, 8, 3, 9]
    );
    assert!(schema.fields.iter().all(|f| f.metadata.is_empty()));
    for bad in [
        vec![given("a", "1"), given("b", "1")],
        vec![given("a", "x")],
        vec![given("a", "2147483647"), plain("b")],
    ] {
        assert_eq!(
            Schema::try_from_arrow(&ArrowSchema::new(bad)).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
}

#[test]
fn projection_by_name_and_path() {
    let schema = nested();
    let project = |paths: &[&str]| {
        schema
            .project(paths)
            .map(|s| s.fields_pre_order().iter().map(|f| f.id).collect::<Vec<_>>())
    };
    assert_eq!(project(&["t", "i"]).unwrap(), [11, 0]);
    assert_eq!(project(&["s.b"]).unwrap(), [1, 3]);
    assert_eq!(project(&["s.b", "i", "s.a"]).unwrap(), [1, 3, 2, 0]);
    assert_eq!(project(&["s.b", "s"]).unwrap(), [1, 3, 2]);
    assert_eq!(project(&["ls.item.a"]).unwrap(), [7, 8, 9]);
    assert_eq!(project(&["`t`"]).unwrap(), [11]);
    for missing in ["nope", "s.nope", "T", "s.", ""] {
        let error = project(&[missing]).unwrap_err();
        assert!(
            error.to_string().contains(&format!("No field named {missing}.")),
            "{error}"
        );
    }
}

#[test]
fn names_and_keys_a_writer_refuses() {
    let check = |fields: Vec<ArrowField>| {
        Schema::try_from_arrow(&ArrowSchema::new(fields))
            .unwrap()
            .check_writable(FileVersion::V2_2)
    };
    let plain = |name: &str| ArrowField::new(name, DataType::Int32, false);
    let key = |field: ArrowField| field.with_metadata([(PRIMARY_KEY.to_string(), "Yes".to_string())].into());
    let text = |fields| check(fields).unwrap_err().to_string();
    assert!(text(vec![plain("a"), plain("a")]).contains("Duplicate field name \"a\""));
    assert!(text(vec![plain("a.b")]).contains("Top level field a.b cannot contain `.`"));
    assert!(text(vec![plain("")]).contains("empty name"));
    assert!(text(vec![key(plain("a").with_nullable(true))]).contains("primary key"));
    let inside = |nullable| ArrowField::new("s", DataType::Struct(vec![key(plain("a"))].into()), nullable);
    assert!(text(vec![inside(true)]).contains("primary key"));
    let in_list = ArrowField::new("l", DataType::List(Arc::new(key(plain("item")))), false);
    assert!(text(vec![in_list]).contains("primary key"));
    check(vec![plain("a"), plain("A"), inside(false), key(plain("k"))]).unwrap();
}

#[test]
fn key_metadata_sets_the_stored_flags() {
    let keyed = |name, key: &str, value: &str| {
        ArrowField::new(name, DataType::Int32, false)
            .with_metadata([(key.to_string(), value.to_string())].into())
    };
    let schema = ArrowSchema::new(vec![
        keyed("a", PRIMARY_KEY, "true"),
        keyed("b", PRIMARY_KEY_POSITION, "2"),
        keyed("c", CLUSTERING_KEY_POSITION, "1"),
        keyed("d", PRIMARY_KEY, "no"),
    ]);
    let stored = Schema::try_from_arrow(&schema).unwrap().to_proto();
    let flags = |f: &pb::Field| {
        (
            f.unenforced_primary_key,
            f.unenforced_primary_key_position,
            f.unenforced_clustering_key,
            f.unenforced_clustering_key_position,
        )
    };
    let expected = [
        (true, 0, false, 0),
        (true, 2, false, 0),
        (false, 0, false, 1),
        (false, 0, false, 0),
    ];
    assert_eq!(stored.iter().map(flags).collect::<Vec<_>>(), expected);
    let again = Schema::from_proto(&stored, &BTreeMap::new()).unwrap();
    assert_eq!(again.to_proto(), stored);
}

#[test]
fn packed_structs_and_blobs_hide_their_children() {
    let with = |key: &str, value: &str| {
        let fields = vec![ArrowField::new("a", DataType::Int32, true)];
        let field = ArrowField::new("s", DataType::Struct(fields.into()), true)
            .with_metadata([(key.to_string(), value.to_string())].into());
        let schema = Schema::try_from_arrow(&ArrowSchema::new(vec![field])).unwrap();
        schema
            .leaf_fields(FileVersion::V2_1)
            .iter()
            .map(|f| f.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(with("packed", "true"), [0]);
    assert_eq!(with("lance-encoding:packed", "1"), [0]);
    assert_eq!(with("lance-encoding:packed", "false"), [1]);
    assert_eq!(with(EXTENSION_NAME, BLOB_V2), [0]);
    assert_eq!(with(BLOB, "true"), [0]);
    assert_eq!(with(BLOB, "false"), [1]);
}
