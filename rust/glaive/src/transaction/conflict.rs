//! Whether a transaction can be committed on top of another that came first (format chapter 31, 5).
//!
//! The rules are a table: a row for our operation, a column for theirs. Rows are added with the operations that this
//! engine commits.

use std::collections::{BTreeMap, BTreeSet};

use glaive_file::{Error, ErrorKind, Result};

use super::{Operation, Transaction};
use crate::proto::lance::table::transaction as op;

/// The kinds of operation, in the order of the columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "the names of the format's operations")]
pub enum OperationKind {
    Append,
    Delete,
    Overwrite,
    CreateIndex,
    Rewrite,
    Merge,
    Restore,
    ReserveFragments,
    Update,
    Project,
    UpdateConfig,
    DataReplacement,
    DataOverlay,
    UpdateMemWalState,
    Clone,
    UpdateBases,
    Unknown,
}

/// One cell of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Go on.
    C,
    /// The caller can redo the work on the latest version.
    #[expect(dead_code, reason = "no operation of ours has such a cell yet")]
    R,
    /// Give up.
    I,
    /// `V*`: both write the config; a common key is incompatible, else overwrites exclude each other.
    V,
}

use Rule::{C, I, V};

const KINDS: usize = 17;

/// Ours, then one rule for each kind of theirs:
/// Append, Delete, Overwrite, CreateIndex, Rewrite, Merge, Restore, ReserveFragments, Update, Project, UpdateConfig,
/// DataReplacement, DataOverlay, UpdateMemWalState, Clone, UpdateBases, Unknown.
const TABLE: [(OperationKind, [Rule; KINDS]); 2] = [
    (
        OperationKind::Append,
        [C, C, I, C, C, C, I, C, C, C, C, C, C, I, C, C, I],
    ),
    (
        OperationKind::Overwrite,
        [C, C, V, C, C, C, C, C, C, C, V, C, C, I, C, C, I],
    ),
];

impl Operation {
    /// The kind of this operation.
    pub fn kind(&self) -> OperationKind {
        use OperationKind as K;
        match self {
            Self::Append { .. } => K::Append,
            Self::Overwrite { .. } => K::Overwrite,
            Self::Unknown => K::Unknown,
            Self::Other(stored) => match stored {
                op::Operation::Append(_) => K::Append,
                op::Operation::Delete(_) => K::Delete,
                op::Operation::Overwrite(_) => K::Overwrite,
                op::Operation::CreateIndex(_) => K::CreateIndex,
                op::Operation::Rewrite(_) => K::Rewrite,
                op::Operation::Merge(_) => K::Merge,
                op::Operation::Restore(_) => K::Restore,
                op::Operation::ReserveFragments(_) => K::ReserveFragments,
                op::Operation::Update(_) => K::Update,
                op::Operation::Project(_) => K::Project,
                op::Operation::UpdateConfig(_) => K::UpdateConfig,
                op::Operation::DataReplacement(_) => K::DataReplacement,
                op::Operation::UpdateMemWalState(_) => K::UpdateMemWalState,
                op::Operation::Clone(_) => K::Clone,
                op::Operation::UpdateBases(_) => K::UpdateBases,
                op::Operation::DataOverlay(_) => K::DataOverlay,
            },
        }
    }

    /// Whether rows or cells are added under the nullability of the schema that the writer saw.
    fn supplies_values(&self) -> bool {
        use OperationKind as K;
        matches!(
            self.kind(),
            K::Append | K::Update | K::DataReplacement | K::DataOverlay
        )
    }

    /// Whether the schema may have become stricter than values staged before.
    fn may_tighten_nullability(&self) -> bool {
        match self {
            Self::Other(op::Operation::Merge(merge)) => !merge.preserves_nullability,
            Self::Other(op::Operation::Project(project)) => !project.preserves_nullability,
            _ => false,
        }
    }
}

/// Checks `ours` against `theirs`, which became version `version`.
///
/// # Errors
/// Commit conflict, retryable or not.
pub fn check_conflict(ours: &Transaction, theirs: &Transaction, version: u64) -> Result<()> {
    let (ours, theirs) = (&ours.operation, &theirs.operation);
    let staged_under_looser_rules = (ours.supplies_values() && theirs.may_tighten_nullability())
        || (theirs.supplies_values() && ours.may_tighten_nullability());
    if staged_under_looser_rules {
        return Err(retryable(ours, theirs, version));
    }
    let row = TABLE.iter().find(|(kind, _)| *kind == ours.kind());
    let rule = row
        .and_then(|(_, row)| row.get(theirs.kind() as usize))
        .copied()
        .unwrap_or(I);
    match rule {
        C => Ok(()),
        Rule::R => Err(retryable(ours, theirs, version)),
        I => Err(incompatible(ours, theirs, version)),
        V if share_config_key(ours, theirs) => Err(incompatible(ours, theirs, version)),
        V if theirs.kind() == OperationKind::Overwrite => Err(retryable(ours, theirs, version)),
        V => Ok(()),
    }
}

fn retryable(ours: &Operation, theirs: &Operation, version: u64) -> Error {
    let (ours, theirs) = (ours.kind(), theirs.kind());
    Error::new(
        ErrorKind::CommitConflict { retryable: true },
        format!(
            "Retryable commit conflict for version {version}: this {ours:?} was preempted by a concurrent {theirs:?}; \
             please retry on the latest version"
        ),
    )
}

fn incompatible(ours: &Operation, theirs: &Operation, version: u64) -> Error {
    let (ours, theirs) = (ours.kind(), theirs.kind());
    Error::new(
        ErrorKind::CommitConflict { retryable: false },
        format!(
            "Incompatible transaction: this {ours:?} conflicts with a concurrent {theirs:?} committed at version \
             {version}"
        ),
    )
}

/// Whether a config key that one sets is set or deleted by the other.
fn share_config_key(a: &Operation, b: &Operation) -> bool {
    let (a, b) = (ConfigKeys::of(a), ConfigKeys::of(b));
    a.set
        .iter()
        .any(|key| b.set.contains(key) || b.deleted.contains(key))
        || b.set.iter().any(|key| a.deleted.contains(key))
}

#[derive(Default)]
struct ConfigKeys<'a> {
    set: BTreeSet<&'a str>,
    deleted: BTreeSet<&'a str>,
}

impl<'a> ConfigKeys<'a> {
    fn of(operation: &'a Operation) -> Self {
        match operation {
            Operation::Overwrite {
                config_upsert_values, ..
            } => Self::of_upserts(config_upsert_values),
            Operation::Other(op::Operation::UpdateConfig(update)) => Self::of_update(update),
            _ => Self::default(),
        }
    }

    fn of_upserts(values: &'a BTreeMap<String, String>) -> Self {
        Self {
            set: values.keys().map(String::as_str).collect(),
            ..Self::default()
        }
    }

    fn of_update(update: &'a op::UpdateConfig) -> Self {
        let mut keys = Self::of_upserts(&update.upsert_values);
        keys.deleted.extend(update.delete_keys.iter().map(String::as_str));
        for entry in update
            .config_updates
            .iter()
            .flat_map(|updates| &updates.update_entries)
        {
            match entry.value {
                Some(_) => keys.set.insert(&entry.key),
                None => keys.deleted.insert(&entry.key),
            };
        }
        keys
    }
}
