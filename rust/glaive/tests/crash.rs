//! Processes that end at every single step of a write or a cleanup.
//!
//! The child is this test binary again: it runs one ignored test, which does what environment variables say, and aborts
//! at the step that `GLAIVE_KILL_AT` names (`rust/file/src/io/fault.rs`).

use std::process::{Command, Stdio};

use chrono::Utc;
use glaive::cleanup::CleanupPolicy;
use glaive::io::Durability;
use glaive::{Dataset, OpenOptions, Reference, WriteMode, WriteParams};

use crate::support::{Place, blobs, ints, mode, rows, stream};

/// More steps than any of the operations has.
const TOO_MANY: u64 = 200;

fn policy() -> CleanupPolicy {
    CleanupPolicy {
        before: Some(Utc::now()),
        ..CleanupPolicy::default()
    }
}

fn durable(write_mode: WriteMode) -> WriteParams {
    WriteParams {
        durability: Some(Durability::Disk),
        ..mode(write_mode)
    }
}

fn operate(uri: &str, operation: &str) {
    let open = || Dataset::open(uri, OpenOptions::default()).unwrap();
    match operation {
        "create" => drop(Dataset::write(uri, stream(rows(0..5)), &mode(WriteMode::Create)).unwrap()),
        "append" => drop(Dataset::write(uri, stream(rows(5..9)), &mode(WriteMode::Append)).unwrap()),
        "durable" => drop(Dataset::write(uri, stream(rows(5..9)), &durable(WriteMode::Append)).unwrap()),
        "overwrite" => drop(Dataset::write(uri, stream(rows(7..9)), &mode(WriteMode::Overwrite)).unwrap()),
        "blobs" => {
            drop(Dataset::write(uri, stream(blobs(&[10, 100_000])), &mode(WriteMode::Overwrite)).unwrap())
        }
        "cleanup" => drop(open().cleanup(&policy(), &mut |_, _| Ok(())).unwrap()),
        "branch" => drop(
            open()
                .branches()
                .unwrap()
                .create("b/c", &Reference::Version(1))
                .unwrap(),
        ),
        "migrate" => drop(
            Dataset::open(
                uri,
                OpenOptions {
                    version: Some(1),
                    as_of: None,
                },
            )
            .unwrap()
            .migrate_manifest_paths_v2()
            .unwrap(),
        ),
        other => panic!("{other}"),
    }
}

/// What a child does.
#[test]
#[ignore = "run by the other tests in a process of its own"]
fn child() {
    let variable = |name: &str| std::env::var(name).unwrap();
    operate(&variable("GLAIVE_TEST_URI"), &variable("GLAIVE_TEST_OPERATION"));
}

/// Whether a child that ends at a step got through.
fn acknowledged(uri: &str, operation: &str, step: u64) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "crash::child", "--test-threads", "1"])
        .envs([("GLAIVE_TEST_URI", uri), ("GLAIVE_TEST_OPERATION", operation)])
        .env("GLAIVE_KILL_AT", step.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains("panicked"), "{operation}, step {step}: {text}");
    output.status.success()
}

/// Ends a child at every step. `prepare` makes a table, `check` looks at what is left.
fn at_every_step(operation: &str, prepare: impl Fn(&Place), check: impl Fn(&Place, bool)) -> u64 {
    for step in 1..TOO_MANY {
        let place = Place::new();
        prepare(&place);
        let done = acknowledged(&place.uri(), operation, step);
        check(&place, done);
        if done {
            println!("{operation}: {} steps", step - 1);
            return step - 1;
        }
    }
    panic!("{operation} does not end");
}

fn two_versions(place: &Place) {
    let _ = Dataset::write(place.uri().as_str(), stream(rows(0..5)), &mode(WriteMode::Create)).unwrap();
}

/// Every version that is there can be read as a whole.
fn check_versions(uri: &str) -> Vec<u64> {
    let latest = Dataset::open(uri, OpenOptions::default()).unwrap();
    let versions = latest.version_numbers().unwrap();
    for version in &versions {
        let dataset = latest.checkout_version(*version).unwrap();
        let batches: Vec<_> = dataset
            .scan(Default::default())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows as u64, dataset.count_rows().unwrap());
    }
    versions
}

fn former_or_new(operation: &str, new: &[i64]) -> u64 {
    at_every_step(operation, two_versions, |place, done| {
        let uri = place.uri();
        let versions = check_versions(&uri);
        let dataset = place.open();
        let got = ints(&dataset, "a");
        let new: Vec<_> = new.iter().copied().map(Some).collect();
        let former: Vec<_> = (0..5).map(Some).collect();
        match dataset.version() {
            1 => assert!(!done && got == former, "{got:?}"),
            2 => assert_eq!(got, new),
            other => panic!("version {other} of {versions:?}"),
        }
        // Trying again succeeds, and so does removing what the dead process left.
        operate(&uri, operation);
        let everything = CleanupPolicy {
            delete_unverified: true,
            ..policy()
        };
        let dataset = place.open();
        dataset.cleanup(&everything, &mut |_, _| Ok(())).unwrap();
        assert_eq!(check_versions(&uri), [dataset.version()]);
        assert_eq!(place.names("data").len(), dataset.manifest().data_files().count());
        assert_eq!(place.names("_transactions").len(), 1);
        assert_eq!(
            place.names("_versions").len(),
            2,
            "{:?}",
            place.names("_versions")
        );
    })
}

#[test]
fn appends() {
    let steps = former_or_new("append", &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(steps > 10, "{steps}");
    former_or_new("durable", &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn overwrites() {
    former_or_new("overwrite", &[7, 8]);
}

#[test]
fn creations() {
    at_every_step(
        "create",
        |_| {},
        |place, done| {
            let uri = place.uri();
            match Dataset::open(&uri, OpenOptions::default()) {
                Ok(dataset) => assert_eq!(ints(&dataset, "a"), (0..5).map(Some).collect::<Vec<_>>()),
                Err(error) => {
                    assert!(!done && error.kind() == glaive::ErrorKind::NotFound, "{error}");
                    operate(&uri, "create");
                    assert_eq!(check_versions(&uri), [1]);
                }
            }
        },
    );
}

#[test]
fn side_files() {
    at_every_step("blobs", two_versions, |place, done| {
        let versions = check_versions(&place.uri());
        assert!(versions == [1, 2] || (!done && versions == [1]), "{versions:?}");
    });
}

#[test]
fn cleanups() {
    let prepare = |place: &Place| {
        two_versions(place);
        operate(&place.uri(), "overwrite");
        operate(&place.uri(), "append");
    };
    let steps = at_every_step("cleanup", prepare, |place, done| {
        let uri = place.uri();
        let versions = check_versions(&uri);
        assert_eq!(versions.last(), Some(&3));
        assert!(!done || versions == [3]);
        operate(&uri, "cleanup");
        assert_eq!(check_versions(&uri), [3]);
    });
    // Two manifests, a data file and two transactions.
    assert_eq!(steps, 5);
}

#[test]
fn branches() {
    at_every_step("branch", two_versions, |place, done| {
        let dataset = place.open();
        let exists = dataset.branches().unwrap().get("b/c").is_ok();
        assert!(exists || !done);
        if !exists {
            operate(&place.uri(), "branch");
        }
        let branch = dataset
            .checkout(&Reference::Branch(Some("b/c".to_owned()), None))
            .unwrap();
        assert_eq!(ints(&branch, "a"), ints(&dataset, "a"));
    });
}

#[test]
fn migrations() {
    let prepare = |place: &Place| {
        let v1 = |write_mode| WriteParams {
            enable_v2_manifest_paths: false,
            ..mode(write_mode)
        };
        let uri = place.uri();
        let _ = Dataset::write(uri.as_str(), stream(rows(0..5)), &v1(WriteMode::Create)).unwrap();
        let _ = Dataset::write(uri.as_str(), stream(rows(0..5)), &v1(WriteMode::Append)).unwrap();
    };
    at_every_step("migrate", prepare, |place, _| {
        operate(&place.uri(), "migrate");
        assert_eq!(check_versions(&place.uri()), [1, 2]);
    });
}
