//! What each operation makes of a table.

use std::collections::BTreeMap;

use glaive::manifest::{DeletionFileType, Fragment};
use glaive::proto::lance::table as pb;
use glaive::transaction::{
    DataReplacementGroup, Operation, RewriteGroup, RewrittenIndex, Transaction, Update, UpdateConfig,
    UpdateMap, UpdateMode,
};
use glaive::{
    ColumnAlteration, CommitOptions, Dataset, ErrorKind, Result, RetryOptions, WriteMode, WriteParams,
};
use roaring::{RoaringBitmap, RoaringTreemap};

use crate::observed::{index, stray_fragment};
use crate::support::{Place, ints, mode, rows, stream};

fn table(place: &Place) -> Dataset {
    let params = WriteParams {
        max_rows_per_file: 10,
        ..WriteParams::default()
    };
    Dataset::write(place.uri().as_str(), stream(rows(0..30)), &params).unwrap()
}

fn commit(dataset: &Dataset, operation: Operation) -> Result<Dataset> {
    dataset.commit(
        &Transaction::new(dataset.version(), operation),
        &CommitOptions::default(),
    )
}

fn none() -> BTreeMap<String, String> {
    BTreeMap::new()
}

fn fragments(dataset: &Dataset) -> Vec<Fragment> {
    dataset
        .manifest()
        .fragments
        .iter()
        .map(|f| f.as_ref().clone())
        .collect()
}

fn ids(dataset: &Dataset) -> Vec<u32> {
    dataset.manifest().fragments.iter().map(|f| f.id).collect()
}

fn covered(dataset: &Dataset, name: &str) -> Option<Vec<u32>> {
    let mut entries = dataset.indices().entries.iter();
    let entry = entries.find(|entry| entry.name() == name)?;
    Some(entry.fragments().unwrap().iter().collect())
}

fn values(dataset: &Dataset) -> Vec<i64> {
    let mut values: Vec<_> = ints(dataset, "a").into_iter().flatten().collect();
    values.sort_unstable();
    values
}

#[test]
fn deletion_files_of_both_kinds() {
    for (count, kind) in [
        (1, DeletionFileType::Arrow),
        (4999, DeletionFileType::Arrow),
        (5000, DeletionFileType::Bitmap),
    ] {
        let place = Place::new();
        let dataset = Dataset::write(
            place.uri().as_str(),
            stream(rows(0..6000)),
            &WriteParams::default(),
        )
        .unwrap();
        let gone: RoaringTreemap = (0..count).collect();
        let deleted = dataset.delete_rows(&gone, "a < n", &none()).unwrap();
        assert_eq!((deleted.num_deleted_rows, deleted.dataset.version()), (count, 2));
        let file = deleted.dataset.manifest().fragments[0]
            .deletion_file
            .clone()
            .unwrap();
        assert_eq!(
            (file.file_type, file.num_deleted_rows, file.read_version),
            (kind, Some(count), 1)
        );
        assert_eq!(values(&place.open()), (count as i64..6000).collect::<Vec<_>>());
        assert_eq!(place.open().manifest().flags.reader & 1, 1);
    }
}

#[test]
fn a_deletion_adds_to_the_one_before() {
    let place = Place::new();
    let first = table(&place)
        .delete_rows(&RoaringTreemap::from_iter([3]), "", &none())
        .unwrap()
        .dataset;
    let again = first
        .delete_rows(&RoaringTreemap::from_iter([3, 4, 99, 7 << 32]), "", &none())
        .unwrap();
    assert_eq!(again.num_deleted_rows, 1, "others are gone or never were");
    let nothing = again
        .dataset
        .delete_rows(&RoaringTreemap::new(), "false", &none())
        .unwrap();
    assert_eq!((nothing.num_deleted_rows, nothing.dataset.version()), (0, 4));
    assert_eq!(values(&nothing.dataset).len(), 28);
    let rest: RoaringTreemap = (0..10).collect();
    let last = nothing.dataset.delete_rows(&rest, "", &none()).unwrap();
    assert_eq!((last.num_deleted_rows, ids(&last.dataset)), (8, vec![1, 2]));
    let transaction = last.dataset.read_transaction(5).unwrap().unwrap();
    assert!(
        matches!(&transaction.operation, Operation::Delete { deleted_fragment_ids, updated_fragments, .. }
        if deleted_fragment_ids == &[0] && updated_fragments.is_empty())
    );
}

#[test]
fn merged_deletions_may_empty_a_fragment() {
    let place = Place::new();
    let stale = table(&place);
    stale.delete_rows(&(0..6).collect(), "", &none()).unwrap();
    let last = stale
        .delete_rows(&(6..10).collect(), "", &none())
        .unwrap()
        .dataset;
    assert_eq!(ids(&last), [1, 2]);
    assert_eq!(values(&last), (10..30).collect::<Vec<_>>());
    // Lost attempts leave no deletion file of their own behind: only the one of each first computation.
    assert_eq!(place.names("_deletions").len(), 2);
}

#[test]
fn a_deletion_is_computed_anew_on_the_latest_version() {
    let place = Place::new();
    let stale = table(&place);
    stale
        .delete_rows(&RoaringTreemap::from_iter([3]), "", &none())
        .unwrap();
    let error = stale
        .delete_rows(&RoaringTreemap::from_iter([3, 4]), "", &none())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitConflict { retryable: true });
    assert!(
        error
            .to_string()
            .contains("both modified rows at addresses such as 0:3"),
        "{error}"
    );
    let select = |_: &Dataset| Ok(RoaringTreemap::from_iter([3, 4]));
    let deleted = stale
        .delete_where("", &none(), RetryOptions::default(), select)
        .unwrap();
    assert_eq!((deleted.num_deleted_rows, deleted.dataset.version()), (1, 3));
    let never = RetryOptions {
        conflict_retries: 0,
        ..RetryOptions::default()
    };
    let error = stale.delete_where("", &none(), never, select).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("Too many concurrent writers. Attempted 0 retries."),
        "{error}"
    );
}

#[test]
fn a_delete_takes_only_the_deletion_file() {
    let place = Place::new();
    let dataset = table(&place);
    let mut updated = dataset
        .fragment(1)
        .unwrap()
        .delete_rows(RoaringBitmap::from_iter([0]))
        .unwrap()
        .unwrap();
    updated.files.clear();
    let missing = Fragment {
        id: 77,
        ..updated.clone()
    };
    let operation = Operation::Delete {
        updated_fragments: vec![updated, missing],
        deleted_fragment_ids: vec![2, 99],
        predicate: "x".to_string(),
    };
    let after = commit(&dataset, operation).unwrap();
    assert_eq!(ids(&after), [0, 1]);
    assert_eq!(after.manifest().fragments[1].files.len(), 1);
    assert_eq!(values(&after).len(), 19);
}

#[test]
fn updates_replace_and_add() {
    let place = Place::new();
    let dataset = commit(
        &table(&place),
        Operation::CreateIndex {
            new_indices: vec![index("a_idx", 0, 0..3), index("b_idx", 1, 0..3)],
            removed_indices: Vec::new(),
        },
    )
    .unwrap();
    let updated = dataset
        .fragment(0)
        .unwrap()
        .delete_rows(RoaringBitmap::from_iter([3]))
        .unwrap()
        .unwrap();
    let update = |offsets: &[u32]| {
        let mut bytes = Vec::new();
        RoaringBitmap::from_iter(offsets.iter().copied())
            .serialize_into(&mut bytes)
            .unwrap();
        Operation::Update(Update {
            removed_fragment_ids: vec![2],
            updated_fragments: vec![updated.clone()],
            new_fragments: vec![stray_fragment(&dataset, 100..102)],
            fields_modified: vec![1],
            mode: Some(UpdateMode::RewriteColumns),
            updated_fragment_offsets: [(0, bytes.into())].into(),
            ..Update::default()
        })
    };
    let error = commit(&dataset, update(&[10])).unwrap_err();
    assert!(error.to_string().contains("beyond the end"), "{error}");
    let after = commit(&dataset, update(&[9])).unwrap();
    assert_eq!(ids(&after), [0, 1, 3]);
    assert_eq!(values(&after).len(), 21);
    assert_eq!(covered(&after, "a_idx"), Some(vec![0, 1, 2]));
    assert_eq!(covered(&after, "b_idx"), Some(vec![1, 2]), "rewritten in place");
}

#[test]
fn rewrites_move_rows_and_coverage() {
    let place = Place::new();
    let old = index("a_idx", 0, 0..2);
    let dataset = commit(
        &table(&place),
        Operation::CreateIndex {
            new_indices: vec![old.clone(), index("b_idx", 1, [0])],
            removed_indices: Vec::new(),
        },
    )
    .unwrap();
    let reserved = commit(&dataset, Operation::ReserveFragments { num_fragments: 2 }).unwrap();
    assert_eq!(reserved.manifest().max_fragment_id, Some(4));
    let new_id = uuid::Uuid::new_v4();
    let rewrite = |old_fragments: &[usize], id: u32| Operation::Rewrite {
        groups: vec![RewriteGroup {
            old_fragments: old_fragments
                .iter()
                .map(|at| fragments(&dataset)[*at].clone())
                .collect(),
            new_fragments: vec![Fragment {
                id,
                ..stray_fragment(&dataset, 0..20)
            }],
        }],
        rewritten_indices: vec![RewrittenIndex {
            old_id: old.uuid(),
            new_id,
            details: Default::default(),
            version: 3,
            files: Vec::new(),
        }],
    };
    let error = commit(&dataset, rewrite(&[1, 2], 0)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("split of indexed and non-indexed data"),
        "{error}"
    );
    let error = commit(&dataset, rewrite(&[1, 1], 0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitConflict { retryable: true });
    let after = commit(&dataset, rewrite(&[0, 1], 4)).unwrap();
    assert_eq!(ids(&after), [2, 4]);
    assert_eq!(values(&after), (0..30).collect::<Vec<_>>());
    assert_eq!(covered(&after, "a_idx"), Some(vec![4]));
    assert_eq!(
        covered(&after, "b_idx"),
        Some(vec![0]),
        "stale, as it was not rewritten"
    );
    let entry = &after.indices().entries[0];
    assert_eq!(
        (
            entry.uuid(),
            entry.metadata().index_version,
            entry.metadata().dataset_version
        ),
        (new_id, Some(3), 1)
    );
    assert_eq!(after.read_transaction(4).unwrap().unwrap().read_version, 2);
    let next = Dataset::write(&after, stream(rows(5..6)), &mode(WriteMode::Append)).unwrap();
    assert_eq!(ids(&next), [2, 4, 5]);
}

#[test]
fn segments_of_indices() {
    let place = Place::new();
    let dataset = table(&place);
    let create = |new: Vec<_>, removed: Vec<_>| Operation::CreateIndex {
        new_indices: new,
        removed_indices: removed,
    };
    let (first, second) = (index("i", 0, [0]), index("i", 0, [1, 2]));
    let dataset = commit(&dataset, create(vec![first.clone(), second.clone()], vec![])).unwrap();
    let error = commit(&dataset, create(vec![index("i", 0, [2])], vec![])).unwrap_err();
    assert!(error.to_string().contains("cover the same fragment"), "{error}");
    let error = commit(&dataset, create(vec![index("j", 9, [0])], vec![])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitConflict { retryable: true });
    let merged = index("i", 0, 0..3);
    let dataset = commit(
        &dataset,
        create(vec![merged.clone()], vec![first, second.clone()]),
    )
    .unwrap();
    assert_eq!(dataset.indices().entries, std::slice::from_ref(&merged));
    let dataset = commit(&dataset, create(vec![], vec![merged])).unwrap();
    assert!(dataset.indices().entries.is_empty());

    // Segments without a live fragment go while another stays.
    let dataset = commit(&dataset, create(vec![index("i", 0, [0]), second], vec![])).unwrap();
    let dataset = dataset
        .delete_rows(&(0..10).collect(), "", &none())
        .unwrap()
        .dataset;
    assert_eq!(dataset.indices().entries.len(), 1);
    assert_eq!(covered(&dataset, "i"), Some(vec![1, 2]));
    let all: RoaringTreemap = (0..10).flat_map(|o| [1 << 32 | o, 2 << 32 | o]).collect();
    let dataset = dataset.delete_rows(&all, "", &none()).unwrap().dataset;
    assert_eq!(covered(&dataset, "i"), Some(vec![1, 2]), "the last one stays");
    assert_eq!(dataset.manifest().max_fragment_id, Some(2));
    let overwritten = Dataset::write(&dataset, stream(rows(0..1)), &mode(WriteMode::Overwrite)).unwrap();
    assert!(overwritten.indices().entries.is_empty());
    assert_eq!(ids(&overwritten), [3]);
    let restored = dataset.restore(none()).unwrap();
    assert_eq!(covered(&restored, "i"), Some(vec![1, 2]));
    assert_eq!(restored.manifest().max_fragment_id, Some(3), "never goes back");
}

#[test]
fn merges_are_checked() {
    let place = Place::new();
    let dataset = table(&place);
    let merge = |change: &dyn Fn(&mut Vec<Fragment>, &mut glaive::Schema)| {
        let (mut all, mut schema) = (fragments(&dataset), dataset.schema().clone());
        change(&mut all, &mut schema);
        let operation = Operation::Merge {
            fragments: all,
            schema,
            preserves_nullability: true,
        };
        commit(&dataset, operation).map_err(|e| e.to_string())
    };
    let refused = |text: &str, change: &dyn Fn(&mut Vec<Fragment>, &mut glaive::Schema)| {
        let error = merge(change).unwrap_err();
        assert!(error.contains(text), "{error}");
    };
    refused("fragment 1 is missing", &|f, _| drop(f.remove(1)));
    refused("another number of rows", &|f, _| f[1].physical_rows = Some(11));
    refused("list those that exist first", &|f, _| {
        f.insert(
            0,
            Fragment {
                id: 9,
                ..f[0].clone()
            },
        )
    });
    let renumbered = |schema: &mut glaive::Schema, id: i32| {
        let mut field = schema.fields[1].as_ref().clone();
        (field.id, field.name) = (id, "c".to_string());
        schema.fields.push(field.into());
    };
    refused("field id 1 occurs twice", &|_, s| renumbered(s, 1));
    let after = merge(&|_, s| renumbered(s, 2)).unwrap();
    assert_eq!(after.schema().fields.len(), 3);
    let dropped = after.drop_columns(&["b".to_string()]).unwrap();
    let (all, mut schema) = (fragments(&dropped), dropped.schema().clone());
    let mut field = schema.fields[0].as_ref().clone();
    (field.id, field.name) = (1, "z".to_string());
    schema.fields.push(field.into());
    let operation = Operation::Merge {
        fragments: all,
        schema,
        preserves_nullability: true,
    };
    let error = commit(&dropped, operation).unwrap_err().to_string();
    assert!(error.contains("not greater than 2"), "{error}");
}

#[test]
fn columns_come_and_go() {
    let place = Place::new();
    let dataset = table(&place);
    let column = |name: &str, nullable| {
        arrow_schema::Schema::new(vec![arrow_schema::Field::new(
            name,
            arrow_schema::DataType::Int64,
            nullable,
        )])
    };
    let wider = dataset.add_null_columns(&column("c", true)).unwrap();
    assert_eq!(wider.schema().field("c").unwrap().id, 2);
    assert_eq!(ints(&wider, "c"), vec![None; 30]);
    for (columns, text) in [
        (
            column("d", false),
            "All-null columns must be nullable, but field 'd' is not.",
        ),
        (column("c", true), "already exists"),
        (column("b", true), "Type conflicts between b(Utf8) and b(Int64)"),
        (column("_rowid", true), "reserved name"),
    ] {
        let error = wider.add_null_columns(&columns).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let rename = |from: &str, to: &str| ColumnAlteration {
        path: from.to_string(),
        rename: Some(to.to_string()),
        nullable: None,
    };
    let swapped = wider
        .alter_columns(&[rename("a", "c"), rename("c", "a")])
        .unwrap();
    assert_eq!(ints(&swapped, "c"), (0..30).map(Some).collect::<Vec<_>>());
    let error = wider.alter_columns(&[rename("a", "b")]).unwrap_err();
    assert!(error.to_string().contains("Duplicate field name"), "{error}");
    let strict = |path: &str| ColumnAlteration {
        path: path.to_string(),
        rename: None,
        nullable: Some(false),
    };
    let error = wider.alter_columns(&[strict("c")]).unwrap_err().to_string();
    assert!(
        error.contains("Column \"c\" contains NULL values and cannot be made non-nullable"),
        "{error}"
    );
    let swapped = swapped.alter_columns(&[strict("c")]).unwrap();
    assert!(!swapped.schema().field("c").unwrap().nullable);
    let narrow = swapped.drop_columns(&["b".to_string(), "c".to_string()]).unwrap();
    assert_eq!(narrow.schema().fields.len(), 1);
    assert!(
        narrow.manifest().fragments.iter().all(|f| f.files.is_empty()),
        "no live column"
    );
    assert_eq!(ints(&narrow, "a"), vec![None; 30]);
    for (paths, text) in [
        (vec!["zz"], "Column zz does not exist in the dataset"),
        (vec!["a"], "Cannot drop all columns"),
    ] {
        let paths: Vec<_> = paths.into_iter().map(ToString::to_string).collect();
        let error = narrow.drop_columns(&paths).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_project_keeps_metadata_that_came_meanwhile() {
    let place = Place::new();
    let stale = table(&place);
    let note = UpdateMap {
        updates: [("k".to_string(), Some("v".to_string()))].into(),
        replace: false,
    };
    stale
        .update_field_metadata([("a".to_string(), note)].into())
        .unwrap();
    let last = stale.drop_columns(&["b".to_string()]).unwrap();
    assert_eq!(last.schema().fields[0].metadata["k"], "v");
}

#[test]
fn files_of_columns_are_replaced() {
    let place = Place::new();
    let dataset = table(&place);
    let donor = stray_fragment(&dataset, 100..110).files[0].clone();
    let replace = |dataset: &Dataset, file: glaive::manifest::DataFile| {
        let group = DataReplacementGroup {
            fragment_id: 1,
            new_file: file,
        };
        commit(
            dataset,
            Operation::DataReplacement {
                replacements: vec![group],
            },
        )
    };
    let whole = replace(&dataset, donor.clone()).unwrap();
    assert_eq!(values(&whole)[20..], (100..110).collect::<Vec<_>>());
    assert_eq!(whole.manifest().fragments[1].files.len(), 1);
    let mut partial = donor;
    (partial.fields, partial.column_indices) = (vec![0], vec![0]);
    let carved = replace(&dataset.restore(none()).unwrap(), partial.clone()).unwrap();
    let files = &carved.manifest().fragments[1].files;
    assert_eq!(
        (&files[0].fields[..], &files[1].fields[..]),
        (&[-2, 1][..], &[0][..])
    );
    assert_eq!(values(&carved)[20..], (100..110).collect::<Vec<_>>());
    let short = stray_fragment(&dataset, 0..3).files[0].clone();
    let error = replace(&carved, short).unwrap_err().to_string();
    assert!(error.contains("has 3 rows, but fragment 1 has 10"), "{error}");
    partial.fields = vec![9, 0];
    partial.column_indices = vec![0, 1];
    let error = replace(&carved, partial).unwrap_err().to_string();
    assert!(error.contains("some of the replaced fields"), "{error}");
}

#[test]
fn bases_are_numbered() {
    let place = Place::new();
    let base = |id, name: Option<&str>, path: &str| pb::BasePath {
        id,
        name: name.map(ToString::to_string),
        is_dataset_root: true,
        path: path.to_string(),
    };
    let add = |dataset: &Dataset, new_bases| commit(dataset, Operation::UpdateBases { new_bases });
    let dataset = add(
        &table(&place),
        vec![base(2, Some("x"), "/x"), base(0, Some("y"), "/y")],
    )
    .unwrap();
    let ids: Vec<_> = dataset.manifest().base_paths.iter().map(|b| b.id).collect();
    assert_eq!(ids, [2, 1]);
    assert_eq!(dataset.manifest().flags.writer & 16, 16);
    for clash in [
        base(2, Some("z"), "/z"),
        base(0, Some("x"), "/z"),
        base(0, Some("z"), "/x"),
    ] {
        assert_eq!(
            add(&dataset, vec![clash]).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    let restored = dataset.checkout_version(1).unwrap().restore(none()).unwrap();
    assert!(restored.manifest().base_paths.is_empty());
}

#[test]
fn maps_are_edited() {
    let place = Place::new();
    let map = |entries: &[(&str, Option<&str>)], replace| UpdateMap {
        updates: entries
            .iter()
            .map(|(k, v)| (k.to_string(), v.map(ToString::to_string)))
            .collect(),
        replace,
    };
    let dataset = table(&place)
        .update_config(map(&[("a", Some("1")), ("b", Some(""))], false))
        .unwrap();
    assert_eq!(dataset.manifest().flags.writer & 8, 8);
    let dataset = dataset
        .update_config(map(&[("a", None), ("zz", None)], false))
        .unwrap();
    assert_eq!(dataset.config(), &[("b".to_string(), String::new())].into());
    let dataset = dataset.update_config(map(&[], true)).unwrap();
    assert!(dataset.config().is_empty() && dataset.manifest().flags.writer & 8 == 0);

    let field = |id| {
        Operation::UpdateConfig(UpdateConfig {
            field_metadata: [(id, map(&[("k", Some("v"))], false))].into(),
            ..UpdateConfig::default()
        })
    };
    let error = commit(&dataset, field(77)).unwrap_err().to_string();
    assert!(error.contains("Field with id 77 does not exist"), "{error}");
    let dataset = commit(&dataset, field(1)).unwrap();
    assert_eq!(dataset.schema().fields[1].metadata["k"], "v");
    let key = |value: Option<&str>| {
        let update = map(&[("lance-schema:unenforced-primary-key", value)], false);
        BTreeMap::from([("a".to_string(), update)])
    };
    let error = dataset
        .update_field_metadata(key(Some("true")))
        .unwrap_err()
        .to_string();
    assert!(error.contains("nullable"), "{error}");
    let strict = ColumnAlteration {
        path: "a".to_string(),
        rename: None,
        nullable: Some(false),
    };
    let dataset = dataset.alter_columns(&[strict]).unwrap();
    let dataset = dataset.update_field_metadata(key(Some("true"))).unwrap();
    let error = dataset.update_field_metadata(key(None)).unwrap_err().to_string();
    assert!(error.contains("cannot be changed once they are set"), "{error}");
    let error = dataset
        .update_field_metadata(BTreeMap::from([("zz".to_string(), map(&[], true))]))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("Field 'zz' not found.\nAvailable fields: [\"a\", \"b\"]"),
        "{error}"
    );
}

#[test]
fn batches_of_appends() {
    let place = Place::new();
    let dataset = table(&place);
    let append = |values| {
        let operation = Operation::Append {
            fragments: vec![stray_fragment(&dataset, values)],
        };
        Transaction::new(1, operation)
    };
    let options = CommitOptions::default();
    let (after, merged) =
        Dataset::commit_batch(&dataset, &[append(30..32), append(32..33)], &options).unwrap();
    assert_eq!((after.version(), ids(&after)), (2, vec![0, 1, 2, 3, 4]));
    assert_eq!(after.read_transaction(2).unwrap(), Some(merged));
    assert!(Dataset::commit_batch(&dataset, &[], &options).is_err());
    let other = [Transaction::new(1, Operation::Restore { version: 1 })];
    let error = Dataset::commit_batch(&dataset, &other, &options)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Only append transactions are supported in batch commits"),
        "{error}"
    );
}

#[test]
fn detached_versions_and_strict_overwrites() {
    let place = Place::new();
    let dataset = table(&place);
    let overwrite = Operation::Overwrite {
        fragments: vec![stray_fragment(&dataset, 7..8)],
        schema: dataset.schema().clone(),
        config_upsert_values: none(),
        initial_bases: Vec::new(),
        data_version: None,
    };
    let detached = CommitOptions {
        detached: true,
        ..CommitOptions::default()
    };
    let aside = dataset
        .commit(&Transaction::new(1, overwrite.clone()), &detached)
        .unwrap();
    assert!(aside.version() >= 1 << 63);
    assert_eq!(place.open().version(), 1);
    assert_eq!(values(&dataset.checkout_version(aside.version()).unwrap()), [7]);
    let strict = CommitOptions {
        max_retries: 0,
        ..CommitOptions::default()
    };
    let transaction = Transaction::new(1, overwrite);
    assert_eq!(dataset.commit(&transaction, &strict).unwrap().version(), 2);
    let again = Transaction {
        uuid: uuid::Uuid::new_v4().to_string(),
        ..transaction
    };
    let error = dataset.commit(&again, &strict).unwrap_err();
    assert!(
        error.to_string().starts_with("Commit conflict for version 2:"),
        "{error}"
    );
    assert_eq!(place.open().version(), 2);
}

#[test]
fn transactions_that_cannot_be_committed() {
    let place = Place::new();
    let dataset = table(&place);
    for operation in [
        Operation::DataOverlay(Default::default()),
        Operation::UpdateMemWalState(Default::default()),
        Operation::Unknown,
    ] {
        assert_eq!(
            commit(&dataset, operation).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
    assert_eq!(
        commit(&dataset, Operation::Clone(Default::default()))
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    let append = Operation::Append {
        fragments: Vec::new(),
    };
    let error = dataset
        .commit(&Transaction::new(9, append.clone()), &CommitOptions::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let strange = Transaction {
        uuid: "../../x".to_string(),
        ..Transaction::new(1, append.clone())
    };
    let error = dataset.commit(&strange, &CommitOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let nowhere = Place::new();
    let error = Dataset::commit_to(
        nowhere.uri().as_str(),
        &Transaction::new(1, append),
        &CommitOptions::default(),
    );
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(place.open().version(), 1);
    assert_eq!(place.names("_transactions").len(), 1);
}

#[test]
fn one_transaction_twice() {
    let place = Place::new();
    let dataset = table(&place);
    let append = Operation::Append {
        fragments: vec![stray_fragment(&dataset, 30..31)],
    };
    let transaction = Transaction::new(1, append);
    for version in [2, 3] {
        assert_eq!(
            dataset
                .commit(&transaction, &CommitOptions::default())
                .unwrap()
                .version(),
            version
        );
    }
    assert_eq!(place.names("_transactions").len(), 2);
    assert_eq!(values(&place.open()).len(), 32, "there is no deduplication");
}
