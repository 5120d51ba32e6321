//! Which transactions may follow which.

use std::collections::BTreeMap;

use glaive::proto::lance::table::transaction as op;
use glaive::transaction::{Operation, OperationKind, Transaction, check_conflict};
use glaive::{ErrorKind, Schema};

use crate::support::vectors;

fn append() -> Operation {
    Operation::Append {
        fragments: Vec::new(),
    }
}

fn overwrite(config: &[&str]) -> Operation {
    Operation::Overwrite {
        fragments: Vec::new(),
        schema: Schema::default(),
        config_upsert_values: config
            .iter()
            .map(|key| (key.to_string(), "v".to_string()))
            .collect(),
        initial_bases: Vec::new(),
        data_version: None,
    }
}

fn update_config(set: &[&str], deleted: &[&str]) -> Operation {
    let entry = |key: &&str, value: Option<&str>| op::UpdateMapEntry {
        key: key.to_string(),
        value: value.map(ToString::to_string),
    };
    let update_entries = set
        .iter()
        .map(|key| entry(key, Some("v")))
        .chain(deleted.iter().map(|key| entry(key, None)))
        .collect();
    let config_updates = Some(op::UpdateMap {
        update_entries,
        replace: false,
    });
    Operation::Other(op::Operation::UpdateConfig(op::UpdateConfig {
        config_updates,
        ..Default::default()
    }))
}

fn project(preserves_nullability: bool) -> Operation {
    Operation::Other(op::Operation::Project(op::Project {
        preserves_nullability,
        ..Default::default()
    }))
}

fn merge(preserves_nullability: bool) -> Operation {
    Operation::Other(op::Operation::Merge(op::Merge {
        preserves_nullability,
        ..Default::default()
    }))
}

/// What a column of the format's table stands for.
fn theirs() -> Vec<(Operation, OperationKind)> {
    use OperationKind as K;
    let other = Operation::Other;
    vec![
        (append(), K::Append),
        (other(op::Operation::Delete(Default::default())), K::Delete),
        (overwrite(&[]), K::Overwrite),
        (
            other(op::Operation::CreateIndex(Default::default())),
            K::CreateIndex,
        ),
        (other(op::Operation::Rewrite(Default::default())), K::Rewrite),
        (merge(true), K::Merge),
        (other(op::Operation::Restore(Default::default())), K::Restore),
        (
            other(op::Operation::ReserveFragments(Default::default())),
            K::ReserveFragments,
        ),
        (other(op::Operation::Update(Default::default())), K::Update),
        (project(true), K::Project),
        (update_config(&["k"], &[]), K::UpdateConfig),
        (
            other(op::Operation::DataReplacement(Default::default())),
            K::DataReplacement,
        ),
        (
            other(op::Operation::DataOverlay(Default::default())),
            K::DataOverlay,
        ),
        (
            other(op::Operation::UpdateMemWalState(Default::default())),
            K::UpdateMemWalState,
        ),
        (other(op::Operation::Clone(Default::default())), K::Clone),
        (
            other(op::Operation::UpdateBases(Default::default())),
            K::UpdateBases,
        ),
        (Operation::Unknown, K::Unknown),
    ]
}

/// `.`, `R` or `I`, as the format's table writes it.
fn outcome(ours: Operation, theirs: Operation) -> char {
    match check_conflict(&Transaction::new(1, ours), &Transaction::new(1, theirs), 2) {
        Ok(()) => '.',
        Err(e) => match e.kind() {
            ErrorKind::CommitConflict { retryable: true } => {
                assert!(
                    e.to_string()
                        .starts_with("Retryable commit conflict for version 2:"),
                    "{e}"
                );
                'R'
            }
            ErrorKind::CommitConflict { retryable: false } => {
                assert!(e.to_string().starts_with("Incompatible transaction:"), "{e}");
                'I'
            }
            other => panic!("{other:?}"),
        },
    }
}

#[test]
fn rows_of_the_table() {
    let row = |ours: &Operation| {
        theirs()
            .into_iter()
            .map(|(theirs, _)| outcome(ours.clone(), theirs))
            .collect::<String>()
    };
    assert_eq!(row(&append()), "..I...I......I..I");
    assert_eq!(row(&overwrite(&[])), "..R..........I..I");
    // An operation that has no row yet must not slip through.
    assert_eq!(row(&Operation::Unknown), "I".repeat(17));
    assert_eq!(row(&project(true)), "I".repeat(17));
    assert!(theirs().iter().all(|(theirs, kind)| theirs.kind() == *kind));
}

#[test]
fn stricter_schemas_and_staged_values() {
    for tightens in [project(false), merge(false)] {
        assert_eq!(outcome(append(), tightens.clone()), 'R');
        assert_eq!(outcome(tightens.clone(), append()), 'R');
        assert_eq!(outcome(overwrite(&[]), tightens), '.');
    }
}

#[test]
fn overwrites_and_config_keys() {
    assert_eq!(outcome(overwrite(&["k"]), overwrite(&["k"])), 'I');
    assert_eq!(outcome(overwrite(&["k"]), overwrite(&["q"])), 'R');
    assert_eq!(outcome(overwrite(&["k"]), update_config(&["k"], &[])), 'I');
    assert_eq!(outcome(overwrite(&["k"]), update_config(&[], &["k"])), 'I');
    assert_eq!(outcome(overwrite(&["k"]), update_config(&["q"], &["r"])), '.');
    let old_form = op::UpdateConfig {
        delete_keys: vec!["k".to_string()],
        ..Default::default()
    };
    assert_eq!(
        outcome(
            overwrite(&["k"]),
            Operation::Other(op::Operation::UpdateConfig(old_form))
        ),
        'I'
    );
}

#[test]
fn as_observed() {
    let by_name: BTreeMap<&str, Operation> = [
        ("append", append()),
        (
            "delete0",
            Operation::Other(op::Operation::Delete(Default::default())),
        ),
        (
            "update0",
            Operation::Other(op::Operation::Update(Default::default())),
        ),
        ("overwrite", overwrite(&[])),
        ("addcol", merge(true)),
        ("dropcol", project(true)),
        ("rename", project(true)),
        ("notnull", project(false)),
        (
            "index",
            Operation::Other(op::Operation::CreateIndex(Default::default())),
        ),
        (
            "compact",
            Operation::Other(op::Operation::Rewrite(Default::default())),
        ),
        ("config", update_config(&["k"], &[])),
        (
            "restore",
            Operation::Other(op::Operation::Restore(Default::default())),
        ),
    ]
    .into();
    let observed = vectors("conflicts_observed");
    for ours in ["append", "overwrite"] {
        for (name, theirs) in &by_name {
            let text = observed["results"][format!("{ours}|{name}")].as_str().unwrap();
            let expected = match text {
                "ok" => '.',
                _ if text.contains("Retryable") => 'R',
                _ => 'I',
            };
            assert_eq!(
                outcome(by_name[ours].clone(), theirs.clone()),
                expected,
                "{ours} on {name}"
            );
        }
    }
}
