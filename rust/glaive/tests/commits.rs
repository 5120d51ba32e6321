//! Commits: what they carry over, and writers that race.

use std::process::Command;

use glaive::manifest::{Manifest, ManifestFile, Naming};
use glaive::transaction::{Operation, Transaction};
use glaive::{Dataset, ErrorKind, FileVersion, OpenOptions, WriteMode, WriteParams};

use crate::support::{Place, ints, mode, rows, stream};

/// Writes the next version by hand, with the given operation in its transaction.
pub fn commit_by_hand(place: &Place, operation: Operation, change: impl FnOnce(&mut Manifest)) -> Dataset {
    let dataset = place.open();
    let mut manifest = dataset.manifest().clone();
    manifest.version += 1;
    change(&mut manifest);
    let transaction = Transaction::new(dataset.version(), operation);
    let bytes = ManifestFile::encode(&manifest, dataset.indices(), &transaction).unwrap();
    std::fs::write(
        format!("{}/{}", place.uri(), Naming::V2.path(manifest.version)),
        bytes,
    )
    .unwrap();
    place.open()
}

fn create(place: &Place) -> Dataset {
    Dataset::write(place.uri().as_str(), stream(rows(0..3)), &WriteParams::default()).unwrap()
}

fn append(dataset: &Dataset, values: std::ops::Range<i64>) -> glaive::Result<Dataset> {
    Dataset::write(dataset, stream(rows(values)), &mode(WriteMode::Append))
}

fn overwrite(dataset: &Dataset) -> glaive::Result<Dataset> {
    Dataset::write(dataset, stream(rows(70..71)), &mode(WriteMode::Overwrite))
}

#[test]
fn the_files_of_a_commit() {
    let place = Place::new();
    let first = create(&place);
    let second = append(&first, 3..5).unwrap();
    assert_eq!((first.version(), second.version()), (1, 2));
    let hint = std::fs::read(format!("{}/_versions/latest_version_hint.json", place.uri())).unwrap();
    assert_eq!(hint, b"{\"version\":2}");
    let names = place.names("_versions");
    assert_eq!(
        names,
        [
            "18446744073709551613.manifest",
            "18446744073709551614.manifest",
            "latest_version_hint.json"
        ]
    );
    let transaction = second.read_transaction(2).unwrap().unwrap();
    assert_eq!(transaction.read_version, 1);
    assert_eq!(second.manifest().transaction_file, transaction.file_name());
    let stored = std::fs::read(format!(
        "{}/_transactions/{}",
        place.uri(),
        transaction.file_name()
    ))
    .unwrap();
    assert_eq!(Transaction::decode(stored.into()).unwrap(), transaction);
    assert_eq!(ints(&place.open(), "a").len(), 5);
    assert_eq!(ints(&first, "a").len(), 3, "a snapshot does not move");
    assert_eq!(first.latest_version().unwrap(), 2);
}

#[test]
fn a_stale_append_is_rebased() {
    let place = Place::new();
    let stale = create(&place);
    append(&stale, 10..12).unwrap();
    let last = append(&stale, 20..22).unwrap();
    assert_eq!(last.version(), 3);
    assert_eq!(
        last.fragments().iter().map(|f| f.id()).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(last.read_transaction(3).unwrap().unwrap().read_version, 1);
    assert_eq!(ints(&last, "a").len(), 7);
}

#[test]
fn a_lost_append_leaves_nothing_behind() {
    let place = Place::new();
    let stale = create(&place);
    let winner = overwrite(&stale).unwrap();
    let before = (
        place.names("data"),
        place.names("_transactions"),
        place.names("_versions"),
    );
    let error = append(&stale, 5..6).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitConflict { retryable: false });
    assert!(
        error.to_string().starts_with("Incompatible transaction"),
        "{error}"
    );
    let error = overwrite(&stale).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitConflict { retryable: true });
    assert_eq!(
        (
            place.names("data"),
            place.names("_transactions"),
            place.names("_versions")
        ),
        before
    );
    assert_eq!(place.open().version(), winner.version());
}

#[test]
fn an_overwrite_wins_over_appends() {
    let place = Place::new();
    let stale = create(&place);
    append(&stale, 5..6).unwrap();
    let last = overwrite(&stale).unwrap();
    assert_eq!(last.version(), 3);
    assert_eq!(ints(&last, "a"), [Some(70)]);
    assert_eq!(last.fragments()[0].id(), 2, "ids are never used again");
}

#[test]
fn an_unknown_operation_in_between_stops_a_commit() {
    let place = Place::new();
    let stale = create(&place);
    let latest = commit_by_hand(&place, Operation::Unknown, |_| {});
    assert_eq!(latest.version(), 2, "opening is fine");
    for ours in [append(&stale, 5..6), overwrite(&stale)] {
        assert_eq!(
            ours.unwrap_err().kind(),
            ErrorKind::CommitConflict { retryable: false }
        );
    }
    assert_eq!(append(&latest, 5..6).unwrap().version(), 3);
}

#[test]
fn a_version_that_is_gone_is_a_conflict() {
    let place = Place::new();
    let stale = create(&place);
    append(&append(&stale, 5..6).unwrap(), 6..7).unwrap();
    std::fs::remove_file(format!("{}/{}", place.uri(), Naming::V2.path(2))).unwrap();
    let error = append(&stale, 7..8).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitConflict { retryable: true });
    assert!(
        error
            .to_string()
            .contains("Retryable commit conflict for version 2"),
        "{error}"
    );
    assert_eq!(append(&place.open(), 7..8).unwrap().version(), 4);
}

#[test]
fn the_transaction_file_serves_when_nothing_is_inline() {
    let place = Place::new();
    let stale = create(&place);
    let winner = overwrite(&stale).unwrap();
    // The same manifest without sections, as writers before 1.0 left it.
    use prost::Message;
    let message = winner.manifest().to_proto().encode_to_vec();
    let mut bytes = (message.len() as u32).to_le_bytes().to_vec();
    bytes.extend(message);
    bytes.extend(0u64.to_le_bytes());
    bytes.extend([0, 0, 1, 0]);
    bytes.extend(b"LANC");
    std::fs::write(format!("{}/{}", place.uri(), Naming::V2.path(2)), bytes).unwrap();
    assert_eq!(
        append(&stale, 1..2).unwrap_err().kind(),
        ErrorKind::CommitConflict { retryable: false }
    );
    std::fs::remove_dir_all(format!("{}/_transactions", place.uri())).unwrap();
    assert_eq!(
        append(&stale, 1..2).unwrap_err().kind(),
        ErrorKind::CommitConflict { retryable: true }
    );
}

#[test]
fn one_of_many_creators_wins() {
    let place = Place::new();
    let results: Vec<_> = std::thread::scope(|scope| {
        let write = || Dataset::write(place.uri().as_str(), stream(rows(0..3)), &WriteParams::default());
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(write)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("Dataset already exists"), "{error}");
    }
    assert_eq!(place.names("data").len(), 1, "losers remove their files");
    assert_eq!(place.names("_transactions").len(), 1);
    assert_eq!(ints(&place.open(), "a").len(), 3);
}

#[test]
fn racing_appends_of_threads_all_land() {
    let place = Place::new();
    create(&place);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let place = &place;
            scope.spawn(move || append_some(&place.uri(), writer));
        }
    });
    check_all_landed(&place, 4);
}

#[test]
fn racing_appends_of_processes_all_land() {
    let place = Place::new();
    create(&place);
    let start = |writer: i64| {
        Command::new(std::env::current_exe().unwrap())
            .args(["commits::appends_of_a_process", "--exact", "--ignored"])
            .env("TABLE", place.uri())
            .env("WRITER", writer.to_string())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..2).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    check_all_landed(&place, 2);
}

#[test]
#[ignore = "a child of racing_appends_of_processes_all_land"]
fn appends_of_a_process() {
    append_some(
        &std::env::var("TABLE").unwrap(),
        std::env::var("WRITER").unwrap().parse().unwrap(),
    );
}

const APPENDS: i64 = 6;

fn append_some(uri: &str, writer: i64) {
    for i in 0..APPENDS {
        let value = 100 * (writer + 1) + i;
        Dataset::write(uri, stream(rows(value..value + 1)), &mode(WriteMode::Append)).unwrap();
    }
}

fn check_all_landed(place: &Place, writers: i64) {
    let dataset = place.open();
    let appends = writers * APPENDS;
    assert_eq!(dataset.version() as i64, 1 + appends);
    let mut values: Vec<_> = ints(&dataset, "a").into_iter().flatten().collect();
    values.sort_unstable();
    let expected = (0..3).chain((0..writers).flat_map(|w| (0..APPENDS).map(move |i| 100 * (w + 1) + i)));
    assert_eq!(values, expected.collect::<Vec<_>>());
    assert_eq!(
        place.names("_transactions").len() as i64,
        1 + appends,
        "lost attempts remove theirs"
    );
    assert_eq!(place.names("data").len() as i64, 1 + appends);
    assert!(
        place
            .names("_versions")
            .iter()
            .all(|name| !name.starts_with(".tmp"))
    );
    let ids: Vec<_> = dataset.fragments().iter().map(|f| i64::from(f.id())).collect();
    assert_eq!(ids, (0..=appends).collect::<Vec<_>>());
    assert_eq!(dataset.versions().unwrap().len() as i64, 1 + appends);
}

#[test]
fn the_mixed_flag_appears_and_stays() {
    let place = Place::new();
    let first = create(&place);
    let params = |mode| WriteParams {
        mode,
        data_storage_version: Some(FileVersion::V2_1),
        ..WriteParams::default()
    };
    let mixed = Dataset::write(&first, stream(rows(3..5)), &params(WriteMode::Append)).unwrap();
    assert_eq!(
        (mixed.manifest().flags.reader, mixed.manifest().flags.writer),
        (256, 256)
    );
    assert_eq!(mixed.data_storage_version(), FileVersion::V2_2);
    assert_eq!(ints(&mixed, "a").len(), 5);
    let uniform = Dataset::write(&mixed, stream(rows(0..1)), &params(WriteMode::Overwrite)).unwrap();
    assert_eq!(uniform.manifest().flags.reader, 256);
    assert_eq!(uniform.data_storage_version(), FileVersion::V2_1);
    let kept = overwrite(&uniform).unwrap();
    assert_eq!(
        kept.data_storage_version(),
        FileVersion::V2_1,
        "an overwrite that names no version keeps it"
    );
}

#[test]
fn versions_and_times() {
    let place = Place::new();
    let first = create(&place);
    std::thread::sleep(std::time::Duration::from_millis(5));
    let second = append(&first, 3..5).unwrap();
    let versions = second.versions().unwrap();
    assert_eq!(versions.iter().map(|v| v.version).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(versions[1], second.version_info());
    let summary = versions[1].summary;
    assert_eq!(
        (
            summary.total_rows,
            summary.total_data_file_rows,
            summary.total_data_files
        ),
        (5, 5, 2)
    );
    assert_eq!(
        (
            summary.total_fragments,
            summary.total_deletion_files,
            summary.total_deletion_file_rows
        ),
        (2, 0, 0)
    );
    let sizes = place.names("data").into_iter().map(|n| {
        std::fs::metadata(format!("{}/data/{n}", place.uri()))
            .unwrap()
            .len()
    });
    assert_eq!(summary.total_files_size, sizes.sum::<u64>());

    let as_of = |time| {
        Dataset::open(
            &place.uri(),
            OpenOptions {
                as_of: Some(time),
                version: None,
            },
        )
    };
    let between = versions[1].timestamp;
    assert_eq!(as_of(between).unwrap().version(), 1, "strictly before");
    assert_eq!(
        as_of(between + chrono::TimeDelta::nanoseconds(1))
            .unwrap()
            .version(),
        2
    );
    let error = as_of(versions[0].timestamp).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error
            .to_string()
            .contains("is earlier than the first version of this dataset"),
        "{error}"
    );
    let both = OpenOptions {
        as_of: Some(versions[0].timestamp),
        version: Some(2),
    };
    assert_eq!(Dataset::open(&place.uri(), both).unwrap().version(), 2);

    assert_eq!(second.checkout_version(1).unwrap().version(), 1);
    assert_eq!(first.checkout_latest().unwrap().version(), 2);
    let error = second.checkout_version(9).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("was not found"), "{error}");
}
