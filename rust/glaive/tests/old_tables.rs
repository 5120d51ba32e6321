//! Writing on top of tables that other writers left. Only their manifests are needed for that.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use glaive::manifest::ManifestFile;
use glaive::{Dataset, ErrorKind, FileVersion, OpenOptions, WriteMode};

use crate::support::{Place, hex, manifest_vectors, mode, rows, stream};

/// A table that consists of one manifest.
fn table(name: &str) -> (Place, ManifestFile) {
    let place = Place::new();
    let vector = manifest_vectors()
        .into_iter()
        .find(|vector| vector["name"] == name)
        .unwrap();
    let bytes = hex(&vector["hex"]);
    std::fs::create_dir_all(format!("{}/_versions", place.uri())).unwrap();
    let path = format!(
        "{}/_versions/{}",
        place.uri(),
        vector["file_name"].as_str().unwrap()
    );
    std::fs::write(path, &bytes).unwrap();
    (place, ManifestFile::decode(&bytes).unwrap())
}

#[test]
fn an_append_carries_the_index_section_unchanged() {
    let (place, before) = table("ops-v12");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("cc", Arc::new(Int32Array::from(vec![1]))),
        ("a", Arc::new(Int64Array::from(vec![2]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let after = Dataset::write(place.uri().as_str(), stream(batch), &mode(WriteMode::Append)).unwrap();
    assert_eq!(after.version(), 13);
    assert_eq!(after.indices(), &before.indices);
    assert_eq!(place.open().indices(), &before.indices);
    let fragments = place.open().manifest().fragments.clone();
    assert_eq!(fragments[0], before.manifest.fragments[0]);
    assert_eq!(
        (fragments[1].id, fragments[1].files[0].fields.clone()),
        (5, vec![3, 0]),
        "in the order given"
    );
}

#[test]
fn an_append_carries_maps_and_deletions() {
    let (place, before) = table("config-and-schema-metadata");
    let before = before.manifest;
    let fields = before.schema.to_arrow().fields().clone();
    let batch = RecordBatch::new_empty(Arc::new(arrow_schema::Schema::new(fields)));
    let after = Dataset::write(place.uri().as_str(), stream(batch), &mode(WriteMode::Append)).unwrap();
    let after = after.manifest();
    assert_eq!(after.version, before.version + 1);
    assert_eq!(
        (&after.config, &after.table_metadata),
        (&before.config, &before.table_metadata)
    );
    assert_eq!(
        (&after.schema, &after.fragments),
        (&before.schema, &before.fragments)
    );
    assert_eq!(after.flags, before.flags);
    assert_eq!(after.writer_version.as_ref().unwrap().library, "glaive");

    let (place, before) = table("ops-v4");
    let after = Dataset::write(place.uri().as_str(), stream(rows(0..1)), &mode(WriteMode::Append)).unwrap();
    assert_eq!(after.manifest().fragments[..3], before.manifest.fragments[..]);
    assert_eq!(
        (after.manifest().flags.reader, after.manifest().fragments[3].id),
        (1, 3)
    );
}

#[test]
fn an_overwrite_keeps_what_belongs_to_the_table() {
    let (place, before) = table("config-and-schema-metadata");
    let after = Dataset::write(
        place.uri().as_str(),
        stream(rows(0..1)),
        &mode(WriteMode::Overwrite),
    )
    .unwrap();
    let (after, before) = (after.manifest(), &before.manifest);
    assert_eq!(
        (&after.config, &after.table_metadata),
        (&before.config, &before.table_metadata)
    );
    assert!(after.schema.metadata.is_empty() && !before.schema.metadata.is_empty());
    assert_eq!(after.max_fragment_id, before.max_fragment_id.map(|id| id + 1));
    assert_eq!(
        after.schema.fields.iter().map(|f| f.id).collect::<Vec<_>>(),
        [0, 1]
    );

    let (place, _) = table("ops-v12");
    let after = Dataset::write(
        place.uri().as_str(),
        stream(rows(0..1)),
        &mode(WriteMode::Overwrite),
    )
    .unwrap();
    assert!(after.indices().entries.is_empty());
}

#[test]
fn fragment_ids_survive_the_deletion_of_all_rows() {
    let (place, _) = table("all-rows-deleted");
    let after = Dataset::write(
        place.uri().as_str(),
        stream(rows(0..1)),
        &mode(WriteMode::Overwrite),
    )
    .unwrap();
    assert_eq!(after.fragments()[0].id(), 2);
    let (place, _) = table("empty-table");
    let after = Dataset::write(
        place.uri().as_str(),
        stream(rows(0..1)),
        &mode(WriteMode::Overwrite),
    )
    .unwrap();
    assert_eq!(after.fragments()[0].id(), 0);
}

#[test]
fn v1_names_are_kept() {
    let (place, before) = table("v1-naming-0.19.2-index");
    let after = Dataset::write(
        place.uri().as_str(),
        stream(rows(0..1)),
        &mode(WriteMode::Overwrite),
    )
    .unwrap();
    assert_eq!(after.data_storage_version(), FileVersion::V2_0);
    assert_eq!(after.version(), before.manifest.version + 1);
    assert_eq!(
        place.names("_versions"),
        ["10.manifest", "9.manifest", "latest_version_hint.json"]
    );
}

#[test]
fn stable_row_ids_are_not_written() {
    let (place, _) = table("stable-row-ids");
    let dataset = place.open();
    assert!(dataset.has_stable_row_ids());
    assert_eq!(dataset.count_rows().unwrap(), 8);
    for mode in [mode(WriteMode::Append), mode(WriteMode::Overwrite)] {
        let error = Dataset::write(&dataset, stream(rows(0..1)), &mode).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("stable row ids"), "{error}");
    }
    assert!(place.names("data").is_empty());
}

#[test]
fn a_name_and_a_content_of_different_versions_are_refused() {
    let (place, _) = table("ops-v2");
    let versions = format!("{}/_versions", place.uri());
    let name = |v: u64| format!("{versions}/{:020}.manifest", u64::MAX - v);
    std::fs::copy(name(2), name(3)).unwrap();
    let error = Dataset::open(&place.uri(), OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    std::fs::write(format!("{versions}/7.manifest"), b"").unwrap();
    let error = Dataset::open(&place.uri(), OpenOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("multiple manifest naming schemes"),
        "{error}"
    );
}

#[test]
fn a_detached_version_opens_by_number_only() {
    let (place, detached) = table("detached");
    assert_eq!(
        Dataset::open(&place.uri(), Default::default())
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
    let _ = detached;
}
