//! Manifest files of other writers, decoded as stated and encoded again.

use glaive::manifest::{ManifestFile, Naming};
use glaive::proto::lance::table as pb;
use glaive::transaction::Transaction;
use prost::Message;
use serde_json::Value;

use crate::support::{hex, manifest_vectors};

#[test]
fn every_vector_decodes_as_stated() {
    for vector in manifest_vectors() {
        let name = vector["name"].as_str().unwrap();
        let file = ManifestFile::decode(&hex(&vector["hex"])).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (naming, version) = Naming::parse(vector["file_name"].as_str().unwrap()).unwrap();
        assert_eq!(file.manifest.version, version, "{name}");
        assert_eq!(naming.file_name(version), vector["file_name"], "{name}");
        check_manifest(name, &file, &vector["expect"]["manifest"]);
        check_indices(name, &file, &vector["expect"]);
        check_transaction(name, &file, &vector["expect"]);
    }
}

fn check_manifest(name: &str, file: &ManifestFile, expected: &Value) {
    let manifest = &file.manifest;
    let number = |key: &str| expected[key].as_u64().unwrap_or(0);
    assert_eq!(manifest.flags.reader, number("reader_feature_flags"), "{name}");
    assert_eq!(manifest.flags.writer, number("writer_feature_flags"), "{name}");
    assert_eq!(manifest.next_row_id, number("next_row_id"), "{name}");
    assert_eq!(
        manifest.max_fragment_id.map(u64::from),
        expected["max_fragment_id"].as_u64(),
        "{name}"
    );
    assert_eq!(
        manifest.transaction_file,
        expected["transaction_file"].as_str().unwrap_or(""),
        "{name}"
    );
    assert_eq!(
        manifest.data_version.as_str(),
        expected["data_format"]["version"],
        "{name}"
    );
    let seconds = expected["timestamp"]["seconds"].as_i64().unwrap();
    assert_eq!(manifest.timestamp.timestamp(), seconds, "{name}");
    let strings = |key: &str| expected[key].as_object().cloned().unwrap_or_default();
    for (key, map) in [
        ("config", &manifest.config),
        ("table_metadata", &manifest.table_metadata),
    ] {
        let found: serde_json::Map<_, _> = map.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
        assert_eq!(found, strings(key), "{name}");
    }
    let fields: Vec<_> = manifest
        .schema
        .fields_pre_order()
        .iter()
        .map(|f| (f.id, f.name.clone(), f.logical_type.to_string()))
        .collect();
    assert_eq!(
        fields,
        list(&expected["fields"], |f| (
            int(&f["id"]),
            text(&f["name"]),
            text(&f["logical_type"])
        ))
    );
    let fragments: Vec<_> = manifest.fragments.iter().map(|f| describe(f)).collect();
    assert_eq!(fragments, list(&expected["fragments"], describe_stated), "{name}");
}

type Described = (
    u64,
    u64,
    Option<(String, u64)>,
    Vec<(String, Vec<i32>, Vec<i32>, u64)>,
);

fn describe(fragment: &glaive::manifest::Fragment) -> Described {
    let files = fragment.files.iter();
    let files = files.map(|f| {
        (
            f.path.clone(),
            f.fields.clone(),
            f.column_indices.clone(),
            f.size.unwrap_or(0),
        )
    });
    let deleted = |f: &glaive::manifest::DeletionFile| (f.path(fragment.id), f.num_deleted_rows.unwrap_or(0));
    let deletions = fragment.deletion_file.as_ref().map(deleted);
    (
        fragment.id.into(),
        fragment.physical_rows.unwrap_or(0),
        deletions,
        files.collect(),
    )
}

fn describe_stated(stated: &Value) -> Described {
    let ints = |value: &Value| list(value, int);
    let file = |f: &Value| {
        (
            text(&f["path"]),
            ints(&f["fields"]),
            ints(&f["column_indices"]),
            f["file_size_bytes"].as_u64().unwrap_or(0),
        )
    };
    let id = stated["id"].as_u64().unwrap_or(0);
    let deletions = stated["deletion_file"].as_object().map(|d| {
        let suffix = if d.get("file_type").is_some_and(|t| t == "BITMAP") {
            "bin"
        } else {
            "arrow"
        };
        let path = format!("_deletions/{id}-{}-{}.{suffix}", d["read_version"], d["id"]);
        (
            path,
            d.get("num_deleted_rows").and_then(Value::as_u64).unwrap_or(0),
        )
    });
    (
        id,
        stated["physical_rows"].as_u64().unwrap_or(0),
        deletions,
        list(&stated["files"], file),
    )
}

fn list<T>(value: &Value, map: impl Fn(&Value) -> T) -> Vec<T> {
    value
        .as_array()
        .map(|list| list.iter().map(map).collect())
        .unwrap_or_default()
}

fn int(value: &Value) -> i32 {
    i32::try_from(value.as_i64().unwrap_or(0)).unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("").to_string()
}

fn check_indices(name: &str, file: &ManifestFile, expected: &Value) {
    let entries = file.indices.entries.iter();
    let found: Vec<_> = entries
        .map(|i| (i.name().to_string(), i.metadata().fields.clone()))
        .collect();
    let stated = list(&expected["indices"]["indices"], |i| {
        (text(&i["name"]), list(&i["fields"], int))
    });
    assert_eq!(found, stated, "{name}");
}

fn check_transaction(name: &str, file: &ManifestFile, expected: &Value) {
    let stated = &expected["txn"];
    let Some(bytes) = &file.transaction_section else {
        assert!(stated.is_null(), "{name}");
        return;
    };
    let transaction = Transaction::decode(bytes.clone()).unwrap();
    assert_eq!(transaction.uuid, stated["uuid"], "{name}");
    assert_eq!(
        transaction.read_version,
        stated["read_version"].as_u64().unwrap_or(0),
        "{name}"
    );
    assert_eq!(transaction.file_name(), file.manifest.transaction_file, "{name}");
    let kind = format!("{:?}", transaction.operation.kind()).to_lowercase();
    let stated_kind =
        |key: &&String| !["uuid", "read_version", "transaction_properties"].contains(&key.as_str());
    let stated_kind = stated
        .as_object()
        .unwrap()
        .keys()
        .find(stated_kind)
        .unwrap()
        .replace('_', "");
    assert_eq!(kind, stated_kind, "{name}");
}

/// The message without positions of sections, which depend on the file.
fn stored(bytes: &[u8]) -> pb::Manifest {
    let footer = &bytes[bytes.len() - 16..];
    let at = u64::from_le_bytes(footer[..8].try_into().unwrap()) as usize;
    let mut manifest = pb::Manifest::decode(&bytes[at + 4..bytes.len() - 16]).unwrap();
    manifest.index_section = None;
    manifest.transaction_section = None;
    manifest.transaction_section_deprecated = None;
    manifest
}

#[test]
fn nothing_is_lost_when_a_manifest_is_written_again() {
    for vector in manifest_vectors() {
        let name = vector["name"].as_str().unwrap();
        let bytes = hex(&vector["hex"]);
        let file = ManifestFile::decode(&bytes).unwrap();
        assert_eq!(file.manifest.to_proto(), stored(&bytes), "{name}");
        let Some(section) = &file.transaction_section else {
            continue;
        };
        let transaction = Transaction::decode(section.clone()).unwrap();
        assert_eq!(
            pb::Transaction::decode(transaction.encode().as_slice()).unwrap(),
            pb::Transaction::decode(section.clone()).unwrap(),
            "{name}"
        );
        let again = ManifestFile::encode(&file.manifest, &file.indices, &transaction).unwrap();
        let again = ManifestFile::decode(&again.into()).unwrap();
        assert_eq!(
            (&again.manifest, &again.indices),
            (&file.manifest, &file.indices),
            "{name}"
        );
        assert_eq!(
            Transaction::decode(again.transaction_section.unwrap()).unwrap(),
            transaction,
            "{name}"
        );
    }
}
