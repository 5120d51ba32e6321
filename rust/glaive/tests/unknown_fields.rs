//! Fields of later writers survive the next version.

use std::collections::BTreeMap;

use bytes::Bytes;
use glaive::manifest::{ManifestFile, Naming};
use glaive::proto::lance::table as pb;
use glaive::transaction::{Operation, Transaction};
use glaive::{CommitOptions, Dataset, WriteMode, WriteParams};
use prost::Message;
use roaring::RoaringTreemap;

use crate::observed::index;
use crate::support::{Place, ints, mode, rows, stream};

/// Field number 500 with the text, which no message has.
fn strange(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::string::encode(500, &text.to_string(), &mut out);
    out
}

fn put(out: &mut Vec<u8>, number: u32, message: &[u8]) {
    prost::encoding::bytes::encode(number, &message.to_vec(), out);
}

/// Writes the latest version anew with a strange field in the manifest, each fragment, file and index.
fn make_strange(place: &Place) {
    let dataset = place.open();
    let path = format!("{}/{}", place.uri(), Naming::V2.path(dataset.version()));
    let mut message = dataset.manifest().to_proto();
    let fragments = std::mem::take(&mut message.fragments);
    let mut out = Vec::new();
    let mut section = Vec::new();
    for entry in &dataset.indices().entries {
        let stored = [entry.metadata().encode_to_vec(), strange("index")].concat();
        put(&mut section, 1, &stored);
    }
    out.extend((section.len() as u32).to_le_bytes());
    out.extend(&section);
    message.index_section = (!section.is_empty()).then_some(0);
    let transaction = dataset
        .read_transaction(dataset.version())
        .unwrap()
        .unwrap()
        .encode();
    message.transaction_section = Some(out.len() as u64);
    out.extend((transaction.len() as u32).to_le_bytes());
    out.extend(transaction);
    let mut manifest = message.encode_to_vec();
    for mut fragment in fragments {
        let files = std::mem::take(&mut fragment.files);
        let mut stored = fragment.encode_to_vec();
        for file in files {
            put(&mut stored, 2, &[file.encode_to_vec(), strange("file")].concat());
        }
        stored.extend(strange("fragment"));
        put(&mut manifest, 2, &stored);
    }
    manifest.extend(strange("manifest"));
    let position = out.len() as u64;
    out.extend((manifest.len() as u32).to_le_bytes());
    out.extend(manifest);
    out.extend(position.to_le_bytes());
    out.extend([0, 0, 2, 0]);
    out.extend(b"LANC");
    std::fs::write(path, out).unwrap();
}

fn count(bytes: &[u8], text: &str) -> usize {
    let needle = strange(text);
    bytes
        .windows(needle.len())
        .filter(|window| *window == needle)
        .count()
}

/// How often the strange field of manifest, fragments, files and indices occurs in the newest manifest file.
fn counts(place: &Place) -> [usize; 4] {
    let version = place.open().version();
    let bytes = std::fs::read(format!("{}/{}", place.uri(), Naming::V2.path(version))).unwrap();
    ["manifest", "fragment", "file", "index"].map(|text| count(&bytes, text))
}

#[test]
fn strange_fields_survive_every_commit() {
    let place = Place::new();
    let params = WriteParams {
        max_rows_per_file: 10,
        ..WriteParams::default()
    };
    let first = Dataset::write(place.uri().as_str(), stream(rows(0..30)), &params).unwrap();
    let operation = Operation::CreateIndex {
        new_indices: vec![index("a_idx", 0, 0..3), index("b_idx", 1, 0..2)],
        removed_indices: Vec::new(),
    };
    first
        .commit(&Transaction::new(1, operation), &CommitOptions::default())
        .unwrap();
    make_strange(&place);
    assert_eq!(counts(&place), [1, 3, 3, 2]);

    Dataset::write(&place.open(), stream(rows(30..31)), &mode(WriteMode::Append)).unwrap();
    assert_eq!(counts(&place), [1, 3, 3, 2]);
    let rows = RoaringTreemap::from_iter([3, 4]);
    place.open().delete_rows(&rows, "", &BTreeMap::new()).unwrap();
    assert_eq!(counts(&place), [1, 3, 3, 2]);
    let column = arrow_schema::Field::new("c", arrow_schema::DataType::Int64, true);
    let dataset = place.open();
    dataset
        .add_null_columns(&arrow_schema::Schema::new(vec![column]))
        .unwrap();
    assert_eq!(counts(&place), [1, 3, 3, 2]);
    place.open().drop_columns(&["b".to_string()]).unwrap();
    assert_eq!(counts(&place), [1, 3, 3, 1], "the index over b goes");
    let whole: RoaringTreemap = (0..10).map(|offset| 1 << 32 | offset).collect();
    place.open().delete_rows(&whole, "", &BTreeMap::new()).unwrap();
    assert_eq!(counts(&place), [1, 2, 2, 1]);
    assert_eq!(ints(&place.open(), "a").len(), 19);
    place.open().restore(BTreeMap::new()).unwrap();
    assert_eq!(counts(&place), [1, 2, 2, 1]);
}

#[test]
fn entries_that_do_not_change_keep_their_bytes() {
    let place = Place::new();
    let first = Dataset::write(place.uri().as_str(), stream(rows(0..3)), &WriteParams::default()).unwrap();
    let operation = Operation::CreateIndex {
        new_indices: vec![index("a_idx", 0, 0..1)],
        removed_indices: Vec::new(),
    };
    first
        .commit(&Transaction::new(1, operation), &CommitOptions::default())
        .unwrap();
    make_strange(&place);
    let before = place.open().indices().encode().unwrap();
    Dataset::write(&place.open(), stream(rows(3..4)), &mode(WriteMode::Append)).unwrap();
    assert_eq!(place.open().indices().encode().unwrap(), before);
    let section = pb::IndexSection::decode(Bytes::from(before)).unwrap();
    assert_eq!(section.indices.len(), 1);
}

#[test]
fn a_manifest_without_strange_fields_has_its_fields_in_order() {
    let place = Place::new();
    Dataset::write(place.uri().as_str(), stream(rows(0..3)), &WriteParams::default()).unwrap();
    let bytes = std::fs::read(format!("{}/{}", place.uri(), Naming::V2.path(1))).unwrap();
    let file = ManifestFile::decode(&bytes.clone().into()).unwrap();
    let position = u64::from_le_bytes(bytes[bytes.len() - 16..][..8].try_into().unwrap()) as usize;
    let body = &bytes[position + 4..bytes.len() - 16];
    let message = pb::Manifest::decode(body).unwrap();
    assert_eq!(message.encode_to_vec(), body);
    assert!(file.manifest.unknown.is_empty());
}
