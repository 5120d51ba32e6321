//! Every pair of twenty operations, both from the same version, with the outcome that pylance has.

use std::collections::BTreeMap;

use glaive::manifest::{Fragment, Index};
use glaive::proto::lance::table as pb;
use glaive::transaction::{Operation, RewriteGroup, Transaction, Update, UpdateMap, UpdateMode, stored_uuid};
use glaive::{ColumnAlteration, CommitOptions, Dataset, ErrorKind, Result, WriteMode, WriteParams};
use roaring::{RoaringBitmap, RoaringTreemap};

use crate::support::{Place, ints, mode, rows, stream, vectors};

/// Values 0 to 29 of `a` in the fragments 0, 1 and 2.
fn table(place: &Place) -> Dataset {
    let params = WriteParams {
        max_rows_per_file: 10,
        ..WriteParams::default()
    };
    Dataset::write(place.uri().as_str(), stream(rows(0..30)), &params).unwrap()
}

fn none() -> BTreeMap<String, String> {
    BTreeMap::new()
}

fn address(fragment: u32, offset: u32) -> RoaringTreemap {
    RoaringTreemap::from_iter([u64::from(fragment) << 32 | u64::from(offset)])
}

/// A fragment with these values, whose file lies in the table, but belongs to no version.
pub fn stray_fragment(dataset: &Dataset, values: std::ops::Range<i64>) -> Fragment {
    let place = Place::new();
    let other = Dataset::write(
        place.uri().as_str(),
        stream(rows(values)),
        &WriteParams::default(),
    )
    .unwrap();
    let fragment = other.manifest().fragments[0].as_ref().clone();
    let path = &fragment.files[0].path;
    std::fs::copy(
        format!("{}/data/{path}", place.uri()),
        format!("{}/data/{path}", dataset.uri()),
    )
    .unwrap();
    fragment
}

fn commit(dataset: &Dataset, operation: Operation) -> Result<Dataset> {
    dataset.commit(
        &Transaction::new(dataset.version(), operation),
        &CommitOptions::default(),
    )
}

/// Moves one row to a new fragment.
fn update(dataset: &Dataset, fragment: u32, offset: u32) -> Result<Dataset> {
    let handle = dataset.fragment(fragment).unwrap();
    let updated = handle.delete_rows(RoaringBitmap::from_iter([offset]))?.unwrap();
    let value = i64::from(10 * fragment + offset);
    let operation = Operation::Update(Update {
        updated_fragments: vec![updated],
        new_fragments: vec![stray_fragment(dataset, value..value + 1)],
        fields_for_preserving_frag_bitmap: vec![1],
        mode: Some(UpdateMode::RewriteRows),
        ..Update::default()
    });
    let options = CommitOptions {
        affected_rows: Some(address(fragment, offset)),
        ..CommitOptions::default()
    };
    dataset.commit(&Transaction::new(dataset.version(), operation), &options)
}

pub fn index(name: &str, field: i32, fragments: impl IntoIterator<Item = u32>) -> Index {
    let mut bitmap = Vec::new();
    let fragments: RoaringBitmap = fragments.into_iter().collect();
    fragments.serialize_into(&mut bitmap).unwrap();
    Index::new(pb::IndexMetadata {
        uuid: Some(stored_uuid(uuid::Uuid::new_v4())),
        name: name.to_string(),
        fields: vec![field],
        fragment_bitmap: bitmap.into(),
        dataset_version: 1,
        ..Default::default()
    })
    .unwrap()
}

fn compact(dataset: &Dataset) -> Result<Dataset> {
    commit(dataset, Operation::ReserveFragments { num_fragments: 1 })?;
    let group = RewriteGroup {
        old_fragments: dataset
            .manifest()
            .fragments
            .iter()
            .map(|f| f.as_ref().clone())
            .collect(),
        new_fragments: vec![stray_fragment(dataset, 0..30)],
    };
    commit(
        dataset,
        Operation::Rewrite {
            groups: vec![group],
            rewritten_indices: Vec::new(),
        },
    )
}

fn set(key: &str) -> UpdateMap {
    UpdateMap {
        updates: [(key.to_string(), Some("v".to_string()))].into(),
        replace: false,
    }
}

fn alter(dataset: &Dataset, alteration: ColumnAlteration) -> Result<Dataset> {
    dataset.alter_columns(&[ColumnAlteration {
        path: "b".to_string(),
        ..alteration
    }])
}

fn run(dataset: &Dataset, name: &str) -> Result<Dataset> {
    let delete = |fragment, offset| {
        let deleted = dataset.delete_rows(&address(fragment, offset), "", &none())?;
        Ok(deleted.dataset)
    };
    match name {
        "append" => Dataset::write(dataset, stream(rows(30..31)), &mode(WriteMode::Append)),
        "delete0" => delete(0, 3),
        "delete0b" => delete(0, 4),
        "delete1" => delete(1, 3),
        "update0" => update(dataset, 0, 3),
        "update0b" => update(dataset, 0, 4),
        "update1" => update(dataset, 1, 3),
        "overwrite" => Dataset::write(dataset, stream(rows(70..71)), &mode(WriteMode::Overwrite)),
        "addcol" => {
            let column = arrow_schema::Field::new("c", arrow_schema::DataType::Int64, true);
            dataset.add_null_columns(&arrow_schema::Schema::new(vec![column]))
        }
        "dropcol" => dataset.drop_columns(&["b".to_string()]),
        "rename" => alter(
            dataset,
            ColumnAlteration {
                rename: Some("bb".to_string()),
                ..Default::default()
            },
        ),
        "notnull" => alter(
            dataset,
            ColumnAlteration {
                nullable: Some(false),
                ..Default::default()
            },
        ),
        "index" => commit(
            dataset,
            Operation::CreateIndex {
                new_indices: vec![index("a_idx", 0, 0..3)],
                removed_indices: Vec::new(),
            },
        ),
        "compact" => compact(dataset),
        "config" => dataset.update_config(set("k")),
        "config2" => dataset.update_config(set("k2")),
        "tmeta" => dataset.update_table_metadata(set("k")),
        "smeta" => dataset.update_schema_metadata(set("k")),
        "fmeta" => dataset.update_field_metadata([("a".to_string(), set("k"))].into()),
        "restore" => dataset.restore(none()),
        _ => panic!("{name}"),
    }
}

fn expected(text: &str) -> char {
    match text {
        "ok" => '.',
        _ if text.contains("Retryable") || text.contains("Too many concurrent writers") => 'R',
        _ if text.contains("Incompatible") => 'I',
        _ => panic!("{text}"),
    }
}

#[test]
fn all_pairs_as_observed() {
    let observed = vectors("conflicts_observed");
    let observed = observed["results"].as_object().unwrap();
    assert_eq!(observed.len(), 400);
    let mut wrong = Vec::new();
    for (pair, text) in observed {
        let (ours, theirs) = pair.split_once('|').unwrap();
        let place = Place::new();
        let stale = table(&place);
        run(&stale, theirs).unwrap();
        let found = match run(&stale, ours) {
            Ok(_) => '.',
            Err(e) => match e.kind() {
                ErrorKind::CommitConflict { retryable: true } => 'R',
                ErrorKind::CommitConflict { retryable: false } => 'I',
                _ => panic!("{pair}: {e}"),
            },
        };
        if found != expected(text.as_str().unwrap()) {
            wrong.push(format!("{pair}: {found} instead of {text}"));
        }
        // Whatever happened, the table is whole.
        place
            .open()
            .scan(Default::default())
            .unwrap()
            .for_each(|batch| drop(batch.unwrap()));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_left_after_merged_deletions() {
    for (ours, theirs) in [
        ("delete0", "delete0b"),
        ("delete0", "update0b"),
        ("update0", "delete0b"),
        ("update0", "update0b"),
    ] {
        let place = Place::new();
        let stale = table(&place);
        run(&stale, theirs).unwrap();
        let last = run(&stale, ours).unwrap();
        let mut values: Vec<_> = ints(&last, "a").into_iter().flatten().collect();
        values.sort_unstable();
        let lost = |name: &str| name.starts_with("delete");
        let expected: Vec<i64> = (0..30)
            .filter(|value| !(*value == 3 && lost(ours) || *value == 4 && lost(theirs)))
            .collect();
        assert_eq!(values, expected, "{ours} on {theirs}");
        let deleted = last.fragment(0).unwrap();
        let file = deleted.metadata().deletion_file.as_ref().unwrap();
        assert_eq!((file.read_version, file.num_deleted_rows), (2, Some(2)));
        assert_eq!(last.read_transaction(3).unwrap().unwrap().read_version, 2);
        assert!(file.path(0).ends_with(".bin"));
    }
}
