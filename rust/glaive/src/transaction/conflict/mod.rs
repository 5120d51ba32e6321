//! Whether a transaction can be committed on top of another that came first (format chapter 31, 5).
//!
//! A few pairs are decided before the table; for the others the table names a rule. The answer is one of: compatible,
//! perhaps after a change of ours (a rebase); retryable, so that the caller redoes the work on the latest version; or
//! incompatible.

mod keys;
mod rules;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use glaive_file::{Error, ErrorKind, Result};
use roaring::{RoaringBitmap, RoaringTreemap};

pub use table::{OperationKind, Rule, rule};

use super::{Operation, Transaction, UpdateMap};
use crate::manifest::Manifest;

/// What a commit knows of its own operation.
#[derive(Debug, Clone, Copy)]
pub struct Ours<'a> {
    /// The operation.
    pub operation: &'a Operation,
    /// The version that it was computed from, if it is still there.
    pub base: Option<&'a Manifest>,
    /// Addresses (fragment id << 32 | offset) of the rows that it deletes or moves, if they are known.
    pub affected_rows: Option<&'a RoaringTreemap>,
}

impl<'a> From<&'a Operation> for Ours<'a> {
    fn from(operation: &'a Operation) -> Self {
        Self {
            operation,
            base: None,
            affected_rows: None,
        }
    }
}

/// How ours must change to follow the transactions that came first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rebase {
    /// Fragments whose deletion file both changed: the deletions must be merged.
    pub deletions: BTreeSet<u32>,
    /// For new indices, by position: fragments that they no longer cover.
    pub uncovered: BTreeMap<usize, RoaringBitmap>,
}

impl Rebase {
    /// Takes over what another transaction asks for.
    pub fn merge(&mut self, other: Self) {
        self.deletions.extend(other.deletions);
        for (index, fragments) in other.uncovered {
            *self.uncovered.entry(index).or_default() |= fragments;
        }
    }
}

/// The answer for one pair.
#[derive(Debug, Clone, PartialEq)]
enum Verdict {
    Compatible(Rebase),
    Retryable(String),
    Incompatible(String),
}

impl Verdict {
    fn compatible() -> Self {
        Self::Compatible(Rebase::default())
    }

    fn retryable_if(condition: bool, reason: &str) -> Self {
        match condition {
            true => Self::Retryable(reason.to_string()),
            false => Self::compatible(),
        }
    }

    fn incompatible_if(condition: bool, reason: &str) -> Self {
        match condition {
            true => Self::Incompatible(reason.to_string()),
            false => Self::compatible(),
        }
    }
}

/// The transaction that a commit lost against: the source of a conflict's [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Kind of the operation that could not be committed.
    pub ours: OperationKind,
    /// Kind of the operation that came first.
    pub theirs: OperationKind,
    /// Version that it made.
    pub version: u64,
    /// Uuid of its transaction.
    pub uuid: String,
    /// What the two have in common.
    pub reason: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of version {}: {}", self.theirs, self.version, self.reason)
    }
}

impl std::error::Error for Conflict {}

impl Conflict {
    pub(crate) fn into_error(self, retryable: bool) -> Error {
        let Self {
            ours,
            theirs,
            version,
            uuid,
            reason,
        } = &self;
        let text = if retryable {
            format!(
                "Retryable commit conflict for version {version}: This {ours} transaction was preempted by \
                 concurrent transaction {theirs} at version {version}. Please retry on the latest version \
                 ({reason}; transaction {uuid})"
            )
        } else {
            format!(
                "Incompatible transaction: This {ours} transaction is incompatible with concurrent transaction \
                 {theirs} at version {version} ({reason}; transaction {uuid}); read the latest version and decide \
                 anew"
            )
        };
        Error::new(ErrorKind::CommitConflict { retryable }, text).with_source(self)
    }
}

/// Checks `ours` against `theirs`, which became version `version`.
///
/// # Errors
/// Commit conflict, retryable or not, with a [`Conflict`] as its source.
pub fn check_conflict(ours: &Ours<'_>, theirs: &Transaction, version: u64) -> Result<Rebase> {
    let verdict = before_the_table(ours.operation, &theirs.operation)
        .unwrap_or_else(|| rules::judge(ours, &theirs.operation));
    let conflict = |reason| Conflict {
        ours: ours.operation.kind(),
        theirs: theirs.operation.kind(),
        version,
        uuid: theirs.uuid.clone(),
        reason,
    };
    match verdict {
        Verdict::Compatible(rebase) => Ok(rebase),
        Verdict::Retryable(reason) => Err(conflict(reason).into_error(true)),
        Verdict::Incompatible(reason) => Err(conflict(reason).into_error(false)),
    }
}

/// The pairs that are decided before the table (format chapter 31, 5.1).
fn before_the_table(ours: &Operation, theirs: &Operation) -> Option<Verdict> {
    let either = |first: fn(&Operation) -> bool, second: fn(&Operation) -> bool| {
        (first(ours) && second(theirs)) || (second(ours) && first(theirs))
    };
    if either(supplies_values, may_tighten_nullability) {
        let reason = "values were staged under another nullability of the schema";
        return Some(Verdict::Retryable(reason.to_string()));
    }
    if either(|o| matches!(o, Operation::Merge { .. }), changes_field_metadata) {
        let reason = "one replaces the schema, the other changes metadata in it";
        return Some(Verdict::Retryable(reason.to_string()));
    }
    if either(|o| matches!(o, Operation::Restore { .. }), changes_field_metadata) {
        let reason = "one restores the schema, the other changes metadata in it";
        return Some(Verdict::Incompatible(reason.to_string()));
    }
    None
}

/// Whether rows or cells are added under the nullability of the schema that the writer saw.
fn supplies_values(operation: &Operation) -> bool {
    use OperationKind as K;
    matches!(
        operation.kind(),
        K::Append | K::Update | K::DataReplacement | K::DataOverlay
    )
}

/// Whether the schema may have become stricter than values staged before.
fn may_tighten_nullability(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Merge {
            preserves_nullability: false,
            ..
        } | Operation::Project {
            preserves_nullability: false,
            ..
        }
    )
}

/// Whether metadata of the schema or of a field changes.
fn changes_field_metadata(operation: &Operation) -> bool {
    let changes = |map: &UpdateMap| !map.is_empty();
    match operation {
        Operation::UpdateConfig(update) => {
            update.schema_metadata.as_ref().is_some_and(changes)
                || update.field_metadata.values().any(changes)
        }
        _ => false,
    }
}
