//! What is synced before a version is acknowledged.

use std::sync::Arc;

use glaive::io::{Durability, LocalStorage, Storage};
use glaive::{Dataset, OpenOptions, Reference, WriteMode, WriteParams};

use crate::support::{Place, blobs, mode, rows, stream};

fn with(durability: Option<Durability>, write_mode: WriteMode) -> WriteParams {
    WriteParams {
        durability,
        ..mode(write_mode)
    }
}

/// A table of one version, and its storage, which counts.
fn table(place: &Place) -> (Dataset, Arc<LocalStorage>) {
    let uri = place.uri();
    let _ = Dataset::write(uri.as_str(), stream(rows(0..5)), &mode(WriteMode::Create)).unwrap();
    let counting = Arc::new(LocalStorage::from_uri(&uri).unwrap());
    let storage: Arc<dyn Storage> = counting.clone();
    (
        Dataset::open_storage(&storage, OpenOptions::default()).unwrap(),
        counting,
    )
}

#[test]
fn an_append_syncs_three_files_and_their_directories() {
    let place = Place::new();
    let (dataset, storage) = table(&place);
    let append = |dataset: &Dataset, durability| {
        let params = with(durability, WriteMode::Append);
        Dataset::write(dataset, stream(rows(5..6)), &params).unwrap()
    };
    let quick = append(&dataset, None);
    assert_eq!(storage.syncs(), 0);
    let durable = append(&quick, Some(Durability::Disk));
    assert_eq!(storage.syncs(), 6);
    // The snapshot keeps it, until a write says otherwise.
    let again = append(&durable, None);
    assert_eq!(storage.syncs(), 12);
    let _ = append(&again, Some(Durability::Process));
    assert_eq!(storage.syncs(), 12);
}

#[test]
fn side_files_and_new_directories_are_synced() {
    let place = Place::new();
    let (dataset, storage) = table(&place);
    let params = with(Some(Durability::Disk), WriteMode::Overwrite);
    let _ = Dataset::write(&dataset, stream(blobs(&[10, 100_000, 5_000_000])), &params).unwrap();
    let data = place.names("data");
    let side_files: usize = data
        .iter()
        .map(|name| place.names(&format!("data/{name}")).len())
        .sum();
    let directories = data.iter().filter(|name| !name.ends_with(".lance")).count();
    assert!(side_files > 0);
    assert_eq!(storage.syncs() as usize, 6 + 2 * side_files + directories);
}

#[test]
fn a_branch_is_as_durable_as_its_snapshot() {
    let place = Place::new();
    let (dataset, storage) = table(&place);
    let durable = dataset.with_settings(Some(Durability::Disk), None).unwrap();
    let _ = durable
        .branches()
        .unwrap()
        .create("b", &Reference::Version(1))
        .unwrap();
    // Transaction, manifest and the file of the branch, each with its directory, and six new directories: _refs,
    // branches, tree, b and two in it. The hint is not worth a sync.
    assert_eq!(storage.syncs(), 6 + 6);
}

#[test]
fn a_cleanup_syncs_once_between_manifests_and_files() {
    let place = Place::new();
    let (dataset, storage) = table(&place);
    let latest = Dataset::write(&dataset, stream(rows(0..1)), &mode(WriteMode::Overwrite)).unwrap();
    let policy = glaive::cleanup::CleanupPolicy {
        retain_versions: Some(1),
        ..Default::default()
    };
    let stats = latest.cleanup(&policy, &mut |_, _| Ok(())).unwrap();
    assert_eq!(
        (stats.old_versions, stats.data_files_removed, storage.syncs()),
        (1, 1, 1)
    );
}
