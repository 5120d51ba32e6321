//! Which transactions may follow which.

use std::collections::BTreeMap;
use std::fmt::Write;

use glaive::manifest::{DataFile, Fragment, Index};
use glaive::proto::lance::table as pb;
use glaive::proto::lance::table::transaction as op;
use glaive::transaction::conflict::{Conflict, Ours, Rebase, Rule, check_conflict, rule};
use glaive::transaction::{
    DataReplacementGroup, Operation, OperationKind, RewriteGroup, Transaction, Update, UpdateConfig,
    UpdateMap, UpdateMode, stored_uuid,
};
use glaive::{ErrorKind, FileVersion, Schema};
use roaring::RoaringBitmap;

pub fn append() -> Operation {
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

pub fn map(set: &[&str], deleted: &[&str], replace: bool) -> UpdateMap {
    let set = set.iter().map(|key| (key.to_string(), Some("v".to_string())));
    let deleted = deleted.iter().map(|key| (key.to_string(), None));
    UpdateMap {
        updates: set.chain(deleted).collect(),
        replace,
    }
}

fn update_config(set: &[&str], deleted: &[&str]) -> Operation {
    Operation::UpdateConfig(UpdateConfig {
        config: Some(map(set, deleted, false)),
        ..Default::default()
    })
}

fn schema_metadata() -> Operation {
    Operation::UpdateConfig(UpdateConfig {
        schema_metadata: Some(map(&["k"], &[], false)),
        ..Default::default()
    })
}

fn field_metadata(id: i32) -> Operation {
    Operation::UpdateConfig(UpdateConfig {
        field_metadata: BTreeMap::from([(id, map(&["k"], &[], false))]),
        ..Default::default()
    })
}

fn table_metadata(map: UpdateMap) -> Operation {
    Operation::UpdateConfig(UpdateConfig {
        table_metadata: Some(map),
        ..Default::default()
    })
}

fn project(preserves_nullability: bool) -> Operation {
    Operation::Project {
        schema: Schema::default(),
        preserves_nullability,
    }
}

fn merge(preserves_nullability: bool) -> Operation {
    Operation::Merge {
        fragments: Vec::new(),
        schema: Schema::default(),
        preserves_nullability,
    }
}

fn fragment(id: u32) -> Fragment {
    Fragment {
        id,
        ..Fragment::new(Vec::new(), 10)
    }
}

fn delete(updated: &[u32], removed: &[u64]) -> Operation {
    Operation::Delete {
        updated_fragments: updated.iter().copied().map(fragment).collect(),
        deleted_fragment_ids: removed.to_vec(),
        predicate: String::new(),
    }
}

fn update(updated: &[u32], fields: &[u32]) -> Operation {
    Operation::Update(Update {
        updated_fragments: updated.iter().copied().map(fragment).collect(),
        fields_modified: fields.to_vec(),
        mode: Some(UpdateMode::RewriteColumns),
        ..Default::default()
    })
}

fn rewrite(old: &[u32]) -> Operation {
    Operation::Rewrite {
        groups: vec![RewriteGroup {
            old_fragments: old.iter().copied().map(fragment).collect(),
            new_fragments: Vec::new(),
        }],
        rewritten_indices: Vec::new(),
    }
}

fn index(name: &str, fields: &[i32], fragments: Option<&[u32]>) -> Index {
    let mut bitmap = Vec::new();
    if let Some(fragments) = fragments {
        let fragments: RoaringBitmap = fragments.iter().copied().collect();
        fragments.serialize_into(&mut bitmap).unwrap();
    }
    Index::new(pb::IndexMetadata {
        uuid: Some(stored_uuid(uuid::Uuid::new_v4())),
        name: name.to_string(),
        fields: fields.to_vec(),
        fragment_bitmap: bitmap.into(),
        ..Default::default()
    })
    .unwrap()
}

fn create_index(new: Vec<Index>, removed: Vec<Index>) -> Operation {
    Operation::CreateIndex {
        new_indices: new,
        removed_indices: removed,
    }
}

fn replacement(fragment_id: u64, fields: &[i32]) -> Operation {
    let new_file = DataFile {
        path: "f.lance".to_string(),
        fields: fields.to_vec(),
        column_indices: (0..).take(fields.len()).collect(),
        version: FileVersion::DEFAULT,
        size: None,
        base_id: None,
        unknown: Default::default(),
    };
    Operation::DataReplacement {
        replacements: vec![DataReplacementGroup {
            fragment_id,
            new_file,
        }],
    }
}

fn bases(id: u32, name: Option<&str>, path: &str) -> Operation {
    let base = pb::BasePath {
        id,
        name: name.map(ToString::to_string),
        is_dataset_root: true,
        path: path.to_string(),
    };
    Operation::UpdateBases {
        new_bases: vec![base],
    }
}

fn check(ours: &Operation, theirs: Operation) -> glaive::Result<Rebase> {
    check_conflict(&Ours::from(ours), &Transaction::new(1, theirs), 2)
}

/// `.`, `R` or `I`, as the format's table writes it.
fn outcome(ours: Operation, theirs: Operation) -> char {
    match check(&ours, theirs) {
        Ok(_) => '.',
        Err(e) => match e.kind() {
            ErrorKind::CommitConflict { retryable: true } => 'R',
            ErrorKind::CommitConflict { retryable: false } => 'I',
            other => panic!("{other:?}"),
        },
    }
}

/// The table of the format, with the rules by letter, and the cells where this engine is stricter.
#[test]
fn the_table_is_that_of_the_format() {
    let format = "\
Append            .  .  I .  .  .  I .  .  .  .  .  .  I  . . I
Delete            .  D  I .  F  R  I .  D  .  .  F  .  I  . . I
Overwrite         .  .  V .  .  .  .  .  .  .  V  .  .  I  . . I
CreateIndex       .  .  I X  Y  M  I .  N  .  .  Q  .  Z  . . I
Rewrite           .  F  I Y  F  R  I .  F  .  .  F  F  .  . . I
Merge             R  R  I M  R  R  I .  R  I  .  R  R  I  . . I
Restore           .  .  . .  .  .  . .  .  .  .  .  .  I  . . I
ReserveFragments  .  .  I .  .  .  I .  .  .  .  .  .  .  . . I
Update            K  D  I .  F  R  I .  KD P  .  F  O  W  . . I
Project           .  .  I .  .  R  I .  .  R  .  .  .  I  . . I
UpdateConfig      .  .  C .  .  .  .  .  .  .  C  .  .  .  . . I
DataReplacement   .  E  I Q  F  R  I .  EU P2 .  S  .  I  . . I
DataOverlay       .  E2 I .  F  R  I .  O  .  .  .  .  I  . . I
UpdateMemWalState I  I  I Z  .  I  I .  W  I  .  I  I  W  I . I
Clone             .  .  . .  .  .  . .  .  .  .  .  .  .  . . .
UpdateBases       .  .  . .  .  .  . .  .  .  .  .  .  .  . B .
Unknown           I  I  I I  I  I  I I  I  I  I  I  I  I  I I I";
    let stricter = [
        (OperationKind::Update, OperationKind::DataOverlay, "F"),
        (OperationKind::DataOverlay, OperationKind::Update, "F"),
        (OperationKind::UpdateBases, OperationKind::Unknown, "I"),
    ];
    for (line, ours) in format.lines().zip(OperationKind::ALL) {
        let mut cells = line.split_whitespace();
        assert_eq!(cells.next(), Some(ours.to_string().as_str()));
        for theirs in OperationKind::ALL {
            let stated = cells.next().unwrap();
            let strict = stricter.iter().find(|(a, b, _)| (*a, *b) == (ours, theirs));
            let expected = strict.map_or(stated, |(_, _, symbol)| symbol);
            assert_eq!(rule(ours, theirs).symbol(), expected, "{ours} on {theirs}");
        }
    }
}

/// `docs/conflicts.md` is rendered from the table. To write it anew: `GLAIVE_WRITE_DOCS=1 cargo test -p glaive`.
#[test]
fn the_page_about_conflicts_is_true() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conflicts.md");
    let page = page();
    if std::env::var_os("GLAIVE_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page);
}

fn page() -> String {
    let mut page = include_str!("pages/conflicts_head.md").to_string();
    page.push_str("\n| ours \\ theirs |");
    for kind in OperationKind::ALL {
        write!(page, " {kind} |").unwrap();
    }
    page.push_str("\n|---|");
    page.push_str(&"---|".repeat(OperationKind::ALL.len()));
    for ours in OperationKind::ALL {
        write!(page, "\n| {ours} |").unwrap();
        for theirs in OperationKind::ALL {
            write!(page, " {} |", rule(ours, theirs).symbol()).unwrap();
        }
    }
    page.push_str("\n\n| Rule | Meaning |\n|---|---|\n");
    for rule in Rule::ALL {
        writeln!(page, "| {} | {} |", rule.symbol(), rule.description()).unwrap();
    }
    page.push_str(include_str!("pages/conflicts_tail.md"));
    page
}

#[test]
fn every_rule_is_used_and_has_its_own_letter() {
    let mut letters = std::collections::HashSet::new();
    for candidate in Rule::ALL {
        assert!(letters.insert(candidate.symbol()), "{candidate:?}");
        let mut pairs = OperationKind::ALL
            .iter()
            .flat_map(|ours| OperationKind::ALL.iter().map(move |theirs| rule(*ours, *theirs)));
        assert!(pairs.any(|used| used == candidate), "{candidate:?}");
    }
}

#[test]
fn a_conflict_names_the_other_transaction() {
    let theirs = Transaction::new(1, overwrite(&[]));
    let error = check_conflict(&Ours::from(&append()), &theirs, 7).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitConflict { retryable: false });
    let text = error.to_string();
    assert!(
        text.starts_with(
            "Incompatible transaction: This Append transaction is incompatible with concurrent transaction Overwrite \
             at version 7"
        ) && text.contains(&theirs.uuid),
        "{text}"
    );
    let source = std::error::Error::source(&error).unwrap();
    let conflict = source.downcast_ref::<Conflict>().unwrap();
    assert_eq!(
        (conflict.ours, conflict.theirs, conflict.version, &conflict.uuid),
        (OperationKind::Append, OperationKind::Overwrite, 7, &theirs.uuid)
    );

    let error = check(&project(true), project(true)).unwrap_err();
    assert!(
        error.to_string().starts_with(
            "Retryable commit conflict for version 2: This Project transaction was preempted by concurrent \
             transaction Project at version 2. Please retry"
        ),
        "{error}"
    );
}

#[test]
fn stricter_schemas_and_staged_values() {
    for tightens in [project(false), merge(false)] {
        for staged in [append(), update(&[], &[]), replacement(0, &[0])] {
            assert_eq!(outcome(staged.clone(), tightens.clone()), 'R');
            assert_eq!(outcome(tightens.clone(), staged), 'R');
        }
        assert_eq!(outcome(overwrite(&[]), tightens), '.');
    }
}

#[test]
fn metadata_of_a_schema_that_is_replaced() {
    for change in [schema_metadata(), field_metadata(0)] {
        for merge in [merge(true), merge(false)] {
            assert_eq!(outcome(merge.clone(), change.clone()), 'R');
            assert_eq!(outcome(change.clone(), merge), 'R');
        }
        let restore = Operation::Restore { version: 1 };
        assert_eq!(outcome(restore.clone(), change.clone()), 'I');
        assert_eq!(outcome(change.clone(), restore), 'I');
        assert_eq!(outcome(change, overwrite(&[])), 'I');
    }
    assert_eq!(outcome(update_config(&["k"], &[]), merge(true)), '.');
    assert_eq!(
        outcome(table_metadata(map(&["k"], &[], false)), overwrite(&[])),
        '.'
    );
}

#[test]
fn overwrites_and_config_keys() {
    assert_eq!(outcome(overwrite(&["k"]), overwrite(&["k"])), 'I');
    assert_eq!(outcome(overwrite(&["k"]), overwrite(&["q"])), 'R');
    assert_eq!(outcome(overwrite(&["k"]), update_config(&["k"], &[])), 'I');
    assert_eq!(outcome(overwrite(&["k"]), update_config(&[], &["k"])), 'I');
    assert_eq!(outcome(overwrite(&["k"]), update_config(&["q"], &["r"])), '.');
}

#[test]
fn config_and_metadata_keys() {
    let config = |set: &[&str], deleted: &[&str]| update_config(set, deleted);
    assert_eq!(outcome(config(&["k"], &[]), config(&["k"], &[])), 'I');
    assert_eq!(outcome(config(&["k"], &[]), config(&[], &["k"])), 'I');
    assert_eq!(outcome(config(&[], &["k"]), config(&[], &["k"])), '.');
    assert_eq!(outcome(config(&["k"], &[]), config(&["q"], &[])), '.');
    let replace = Operation::UpdateConfig(UpdateConfig {
        config: Some(map(&["z"], &[], true)),
        ..Default::default()
    });
    assert_eq!(
        outcome(replace.clone(), config(&["k"], &[])),
        'I',
        "stricter: nothing is erased"
    );
    assert_eq!(outcome(replace, schema_metadata()), '.');
    let table = |key: &str| table_metadata(map(&[key], &[], false));
    assert_eq!(outcome(table("k"), table("k")), 'I');
    assert_eq!(outcome(table("k"), table("q")), '.');
    assert_eq!(outcome(table_metadata(map(&["q"], &[], true)), table("k")), 'I');
    assert_eq!(outcome(schema_metadata(), schema_metadata()), 'I');
    assert_eq!(outcome(field_metadata(0), field_metadata(0)), 'I');
    assert_eq!(outcome(field_metadata(0), field_metadata(1)), '.');
}

#[test]
fn fragments_in_common() {
    assert_eq!(outcome(rewrite(&[0, 1]), delete(&[1], &[])), 'R');
    assert_eq!(outcome(rewrite(&[0, 1]), delete(&[], &[0])), 'R');
    assert_eq!(outcome(rewrite(&[0, 1]), delete(&[2], &[3])), '.');
    assert_eq!(outcome(delete(&[1], &[]), rewrite(&[1, 2])), 'R');
    assert_eq!(outcome(delete(&[1], &[]), replacement(1, &[0])), 'R');
    assert_eq!(outcome(rewrite(&[1]), rewrite(&[2])), '.');
    assert_eq!(outcome(delete(&[1], &[]), delete(&[2], &[])), '.');
    assert_eq!(
        outcome(delete(&[1], &[]), delete(&[1], &[])),
        'R',
        "rows are not known"
    );
}

#[test]
fn fields_that_were_dropped() {
    assert_eq!(outcome(update(&[0], &[5]), project(true)), 'R');
    assert_eq!(outcome(update(&[0], &[]), project(true)), '.');
    assert_eq!(outcome(replacement(0, &[5]), project(true)), 'I');
    assert_eq!(outcome(replacement(0, &[-2]), project(true)), '.');
}

#[test]
fn indices_and_others() {
    let covers = |fragments: &[u32]| create_index(vec![index("i", &[0], Some(fragments))], vec![]);
    assert_eq!(outcome(covers(&[0, 1]), rewrite(&[1])), 'R');
    assert_eq!(outcome(covers(&[0, 1]), rewrite(&[2])), '.');
    assert_eq!(outcome(rewrite(&[1]), covers(&[0, 1])), 'R');
    let unknown = create_index(vec![index("i", &[0], None)], vec![]);
    assert_eq!(outcome(unknown, rewrite(&[2])), 'R');
    let drop = create_index(vec![], vec![index("i", &[0], Some(&[1]))]);
    assert_eq!(outcome(drop.clone(), rewrite(&[1])), '.');

    let (ours, theirs) = (covers(&[0]), covers(&[1]));
    assert_eq!(outcome(ours.clone(), theirs), 'R', "one name");
    assert_eq!(outcome(ours.clone(), drop.clone()), 'R');
    assert_eq!(outcome(drop.clone(), drop), '.', "two drops");
    let other = create_index(vec![index("j", &[1], Some(&[0]))], vec![]);
    assert_eq!(outcome(ours.clone(), other), '.');
    for system in ["__lance_mem_wal", "__lance_frag_reuse"] {
        let change = create_index(vec![index(system, &[], Some(&[]))], vec![]);
        assert_eq!(outcome(change.clone(), change.clone()), 'R');
        assert_eq!(
            outcome(change.clone(), merge(true)) == 'R',
            system == "__lance_mem_wal"
        );
    }
    assert_eq!(outcome(covers(&[0]), replacement(0, &[0])), 'R');
    assert_eq!(outcome(covers(&[0]), replacement(0, &[1])), '.');
    assert_eq!(outcome(replacement(0, &[0]), covers(&[0])), 'R');
    let state = Operation::UpdateMemWalState(Default::default());
    assert_eq!(outcome(covers(&[0]), state), 'I');

    let rebase = check(&ours, update(&[0, 2], &[0])).unwrap();
    assert_eq!(rebase.uncovered[&0], RoaringBitmap::from_iter([0, 2]));
    assert_eq!(check(&ours, update(&[0, 2], &[1])).unwrap(), Rebase::default());
}

#[test]
fn replaced_columns_and_changed_rows() {
    assert_eq!(outcome(replacement(1, &[0]), delete(&[1], &[])), '.');
    assert_eq!(outcome(replacement(1, &[0]), delete(&[], &[1])), 'I');
    assert_eq!(outcome(replacement(1, &[0]), update(&[1], &[0])), 'R');
    assert_eq!(outcome(replacement(1, &[0]), update(&[1], &[1])), '.');
    assert_eq!(outcome(replacement(1, &[0]), update(&[2], &[0])), '.');
    let moved = Operation::Update(Update {
        updated_fragments: vec![fragment(1)],
        new_fragments: vec![fragment(0)],
        mode: Some(UpdateMode::RewriteRows),
        ..Default::default()
    });
    assert_eq!(outcome(replacement(1, &[0]), moved), 'R');
    assert_eq!(outcome(replacement(1, &[0]), replacement(1, &[0, 1])), 'R');
    assert_eq!(outcome(replacement(1, &[0]), replacement(1, &[1])), '.');
    assert_eq!(outcome(replacement(1, &[0]), replacement(2, &[0])), '.');
}

#[test]
fn inserted_keys() {
    use op::key_existence_filter::Data;
    let keyed = |hash: u64| {
        Operation::Update(Update {
            inserted_rows: Some(op::KeyExistenceFilter {
                field_ids: vec![0],
                data: Some(Data::Exact(op::ExactKeySetFilter {
                    key_hashes: vec![hash],
                })),
            }),
            ..Default::default()
        })
    };
    assert_eq!(outcome(keyed(1), append()), 'R');
    assert_eq!(outcome(append(), keyed(1)), '.');
    assert_eq!(outcome(keyed(1), keyed(1)), 'R');
    assert_eq!(outcome(keyed(1), keyed(2)), '.');
    assert_eq!(outcome(keyed(1), update(&[], &[])), 'R');
    assert_eq!(outcome(update(&[], &[]), keyed(1)), '.');
}

#[test]
fn shards_of_the_write_path() {
    let state = |generation: u64| {
        Operation::UpdateMemWalState(op::UpdateMemWalState {
            compacted_sstables: vec![pb::CompactedSsTable {
                shard_id: Some(stored_uuid(uuid::Uuid::nil())),
                generation,
            }],
        })
    };
    assert_eq!(outcome(state(2), state(1)), 'R');
    assert_eq!(outcome(state(2), state(2)), 'I');
    assert_eq!(
        outcome(state(2), Operation::UpdateMemWalState(Default::default())),
        '.'
    );
}

#[test]
fn base_paths() {
    assert_eq!(outcome(bases(0, None, "a"), bases(0, None, "b")), '.');
    assert_eq!(outcome(bases(0, None, "a"), bases(0, None, "a")), 'I');
    assert_eq!(outcome(bases(2, None, "a"), bases(2, None, "b")), 'I');
    assert_eq!(outcome(bases(0, Some("n"), "a"), bases(0, Some("n"), "b")), 'I');
}
