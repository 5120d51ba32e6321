//! The files of tags and branches.

use glaive::cleanup::CleanupPolicy;
use glaive::refs::{Branch, Tag};
use glaive::{Dataset, Reference, WriteMode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::support::{Place, hex, mode, rows, stream, vectors};

fn again<T: DeserializeOwned + Serialize>(name: &str) {
    let stored = hex(&vectors("refs")[name]);
    let parsed: T = serde_json::from_slice(&stored).unwrap();
    assert_eq!(serde_json::to_vec_pretty(&parsed).unwrap(), stored, "{name}");
}

#[test]
fn files_of_another_writer_come_back_byte_for_byte() {
    again::<Tag>("tag_raw_hex");
    again::<Branch>("branch_raw_hex");
}

#[test]
fn refs_of_old_and_nested_ones() {
    let refs = vectors("refs");
    let tag = |name: &str| serde_json::from_value::<Tag>(refs[name].clone()).unwrap();
    assert_eq!(
        (tag("tag_0.19.2").version, tag("tag_0.19.2").created_at()),
        (1, None)
    );
    assert_eq!(tag("tag_0.39.0").branch, None);
    let on_branch = tag("tag_on_branch");
    assert_eq!(
        (on_branch.branch.as_deref(), on_branch.version),
        (Some("dev/x"), 3)
    );
    assert_eq!(
        on_branch.created_at().unwrap().timestamp_subsec_nanos(),
        891_907_976
    );
    let branch: Branch = serde_json::from_value(refs["branch_of_branch"].clone()).unwrap();
    let starts: Vec<_> = branch
        .identifier("y")
        .iter()
        .map(|(version, _)| *version)
        .collect();
    assert_eq!(
        (starts, branch.parent_branch.as_deref()),
        (vec![2, 3], Some("dev/x"))
    );
}

#[test]
fn branches_can_be_cleaned_with_their_parent() {
    let place = Place::new();
    let append =
        |dataset: &Dataset| Dataset::write(dataset, stream(rows(5..9)), &mode(WriteMode::Append)).unwrap();
    let main = Dataset::write(place.uri().as_str(), stream(rows(0..5)), &mode(WriteMode::Create)).unwrap();
    let branch = append(&append(
        &main
            .branches()
            .unwrap()
            .create("b", &Reference::Version(1))
            .unwrap(),
    ));
    let main = append(&append(&main));
    let policy = |clean_referenced_branches| CleanupPolicy {
        retain_versions: Some(1),
        clean_referenced_branches,
        ..CleanupPolicy::default()
    };
    main.cleanup(&policy(false), &mut |_, _| Ok(())).unwrap();
    assert_eq!(main.version_numbers().unwrap(), [1, 3]);
    assert_eq!(branch.version_numbers().unwrap(), [1, 2, 3]);
    main.cleanup(&policy(true), &mut |_, _| Ok(())).unwrap();
    assert_eq!(branch.version_numbers().unwrap(), [3]);
    assert_eq!(branch.checkout_latest().unwrap().count_rows().unwrap(), 13);
}
