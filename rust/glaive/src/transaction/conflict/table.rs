//! The table of conflicts: a row for our operation, a column for theirs (format chapter 31, 5.2).

use std::fmt;

use crate::transaction::Operation;

/// The kinds of operation, in the order of rows and columns of the table.
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

impl OperationKind {
    /// All kinds in order.
    pub const ALL: [Self; 17] = [
        Self::Append,
        Self::Delete,
        Self::Overwrite,
        Self::CreateIndex,
        Self::Rewrite,
        Self::Merge,
        Self::Restore,
        Self::ReserveFragments,
        Self::Update,
        Self::Project,
        Self::UpdateConfig,
        Self::DataReplacement,
        Self::DataOverlay,
        Self::UpdateMemWalState,
        Self::Clone,
        Self::UpdateBases,
        Self::Unknown,
    ];
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Operation {
    /// The kind of this operation.
    pub fn kind(&self) -> OperationKind {
        use OperationKind as K;
        match self {
            Self::Append { .. } => K::Append,
            Self::Delete { .. } => K::Delete,
            Self::Overwrite { .. } => K::Overwrite,
            Self::CreateIndex { .. } => K::CreateIndex,
            Self::Rewrite { .. } => K::Rewrite,
            Self::Merge { .. } => K::Merge,
            Self::Restore { .. } => K::Restore,
            Self::ReserveFragments { .. } => K::ReserveFragments,
            Self::Update(_) => K::Update,
            Self::Project { .. } => K::Project,
            Self::UpdateConfig(_) => K::UpdateConfig,
            Self::DataReplacement { .. } => K::DataReplacement,
            Self::DataOverlay(_) => K::DataOverlay,
            Self::UpdateMemWalState(_) => K::UpdateMemWalState,
            Self::Clone(_) => K::Clone,
            Self::UpdateBases { .. } => K::UpdateBases,
            Self::Unknown => K::Unknown,
        }
    }
}

/// One cell of the table. "Retryable" tells the caller to redo the work on the latest version, "incompatible" to give
/// up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// Go on.
    Compatible,
    /// Always retryable.
    Retryable,
    /// Always incompatible.
    Incompatible,
    /// By the fragments that both change.
    Fragments,
    /// By the fragments and then the rows that both change.
    Rows,
    /// By the keys of inserted rows, as against an append.
    InsertedKeys,
    /// By the keys of inserted rows, then as [`Rule::Rows`].
    InsertedKeysAndRows,
    /// By the fields that ours rewrote and theirs may have dropped: retryable.
    RewrittenFields,
    /// By the fields that ours replaces and theirs may have dropped: incompatible.
    ReplacedFields,
    /// An overwrite of ours against config keys.
    OverwriteConfig,
    /// Changes of maps.
    Config,
    /// Two changes of the indices.
    Indices,
    /// A change of the indices and a rewrite.
    IndexAndRewrite,
    /// A change of the indices and a merge.
    IndexAndMerge,
    /// A new index over updated fragments.
    IndexOverUpdate,
    /// A new index over replaced columns, or the other way round.
    IndexAndReplacement,
    /// A change of the indices and the state of the log-structured write path.
    IndexAndMemWal,
    /// Replaced columns of fragments that are gone.
    ReplacementAfterDelete,
    /// Replaced columns of fragments that an update changed.
    ReplacementAfterUpdate,
    /// Two replacements of columns.
    Replacements,
    /// An overlay of fragments that are gone.
    OverlayAfterDelete,
    /// Two states of the log-structured write path.
    MemWal,
    /// Two additions of base paths.
    Bases,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 23] = [
        Self::Compatible,
        Self::Retryable,
        Self::Incompatible,
        Self::Fragments,
        Self::Rows,
        Self::InsertedKeys,
        Self::InsertedKeysAndRows,
        Self::RewrittenFields,
        Self::ReplacedFields,
        Self::OverwriteConfig,
        Self::Config,
        Self::Indices,
        Self::IndexAndRewrite,
        Self::IndexAndMerge,
        Self::IndexOverUpdate,
        Self::IndexAndReplacement,
        Self::IndexAndMemWal,
        Self::ReplacementAfterDelete,
        Self::ReplacementAfterUpdate,
        Self::Replacements,
        Self::OverlayAfterDelete,
        Self::MemWal,
        Self::Bases,
    ];

    /// How the table of the format writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Compatible => ".",
            Self::Retryable => "R",
            Self::Incompatible => "I",
            Self::Fragments => "F",
            Self::Rows => "D",
            Self::InsertedKeys => "K",
            Self::InsertedKeysAndRows => "KD",
            Self::RewrittenFields => "P",
            Self::ReplacedFields => "P2",
            Self::OverwriteConfig => "V",
            Self::Config => "C",
            Self::Indices => "X",
            Self::IndexAndRewrite => "Y",
            Self::IndexAndMerge => "M",
            Self::IndexOverUpdate => "N",
            Self::IndexAndReplacement => "Q",
            Self::IndexAndMemWal => "Z",
            Self::ReplacementAfterDelete => "E",
            Self::ReplacementAfterUpdate => "EU",
            Self::Replacements => "S",
            Self::OverlayAfterDelete => "E2",
            Self::MemWal => "W",
            Self::Bases => "B",
        }
    }

    /// What it says, in one sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Retryable => "retryable",
            Self::Incompatible => "incompatible",
            Self::Fragments => "retryable if both change a common fragment, else compatible",
            Self::Rows => {
                "compatible if no common fragment is changed; retryable if the rows that ours affects are not known, \
                 or a common fragment was removed, or its data files were replaced; else the rows are compared when \
                 the deletions are merged, and a common row is retryable"
            }
            Self::InsertedKeys => "retryable if ours inserted rows by key, else compatible",
            Self::InsertedKeysAndRows => {
                "retryable if ours inserted rows by key and theirs may have inserted the same; else as D"
            }
            Self::RewrittenFields => "retryable if theirs dropped a field whose column ours rewrote",
            Self::ReplacedFields => "incompatible if theirs dropped a field whose column ours replaces",
            Self::OverwriteConfig => {
                "incompatible if a config key that one sets is set or deleted by the other; else two overwrites are \
                 retryable, and an update of the config is compatible"
            }
            Self::Config => {
                "incompatible if both change a config key (or one replaces the config), the schema metadata, the \
                 metadata of a field, or a key of the table metadata (or one replaces it); against an overwrite if \
                 ours changes metadata of schema or fields"
            }
            Self::Indices => {
                "retryable if one adds a segment of an index that the other adds to or removes from"
            }
            Self::IndexAndRewrite => {
                "retryable if a new segment covers a rewritten fragment, or does not say what it covers"
            }
            Self::IndexAndMerge => "retryable if the index is `__lance_mem_wal`",
            Self::IndexOverUpdate => {
                "compatible; a new segment no longer covers fragments whose indexed field was rewritten in place"
            }
            Self::IndexAndReplacement => "retryable if a replaced field is indexed by a new segment",
            Self::IndexAndMemWal => "retryable if the index is `__lance_mem_wal`, else incompatible",
            Self::ReplacementAfterDelete => "incompatible if theirs removed the fragment",
            Self::ReplacementAfterUpdate => {
                "incompatible if theirs removed the fragment; retryable if theirs moved rows out of it or rewrote the \
                 same field"
            }
            Self::Replacements => "retryable if both replace a field of one fragment",
            Self::OverlayAfterDelete => "retryable if theirs removed the fragment",
            Self::MemWal => {
                "for each common shard: incompatible if theirs is at the same or a later generation, else retryable"
            }
            Self::Bases => "incompatible if two bases have one id, name or path",
        }
    }
}

/// The rule for `ours` on top of `theirs`.
pub fn rule(ours: OperationKind, theirs: OperationKind) -> Rule {
    let row = TABLE.get(ours as usize);
    row.and_then(|row| row.get(theirs as usize))
        .copied()
        .unwrap_or(Rule::Incompatible)
}

use Rule::{
    Bases as B, Compatible as O, Config as C, Fragments as F, Incompatible as I, IndexAndMemWal as Z,
    IndexAndMerge as M, IndexAndReplacement as Q, IndexAndRewrite as Y, IndexOverUpdate as N, Indices as X,
    InsertedKeys as K, InsertedKeysAndRows as KD, MemWal as W, OverlayAfterDelete as E2,
    OverwriteConfig as V, ReplacedFields as P2, ReplacementAfterDelete as E, ReplacementAfterUpdate as EU,
    Replacements as S, Retryable as R, RewrittenFields as P, Rows as D,
};

/// Rows and columns in the order of [`OperationKind`].
#[rustfmt::skip]
const TABLE: [[Rule; 17]; 17] = [
//   App Del Ovw CIx Rew Mrg Rst Rsv Upd Prj Cfg DRp DOv MWl Cln Bas Unk
    [O,  O,  I,  O,  O,  O,  I,  O,  O,  O,  O,  O,  O,  I,  O,  O,  I], // Append
    [O,  D,  I,  O,  F,  R,  I,  O,  D,  O,  O,  F,  O,  I,  O,  O,  I], // Delete
    [O,  O,  V,  O,  O,  O,  O,  O,  O,  O,  V,  O,  O,  I,  O,  O,  I], // Overwrite
    [O,  O,  I,  X,  Y,  M,  I,  O,  N,  O,  O,  Q,  O,  Z,  O,  O,  I], // CreateIndex
    [O,  F,  I,  Y,  F,  R,  I,  O,  F,  O,  O,  F,  F,  O,  O,  O,  I], // Rewrite
    [R,  R,  I,  M,  R,  R,  I,  O,  R,  I,  O,  R,  R,  I,  O,  O,  I], // Merge
    [O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  I,  O,  O,  I], // Restore
    [O,  O,  I,  O,  O,  O,  I,  O,  O,  O,  O,  O,  O,  O,  O,  O,  I], // ReserveFragments
    [K,  D,  I,  O,  F,  R,  I,  O,  KD, P,  O,  F,  F,  W,  O,  O,  I], // Update
    [O,  O,  I,  O,  O,  R,  I,  O,  O,  R,  O,  O,  O,  I,  O,  O,  I], // Project
    [O,  O,  C,  O,  O,  O,  O,  O,  O,  O,  C,  O,  O,  O,  O,  O,  I], // UpdateConfig
    [O,  E,  I,  Q,  F,  R,  I,  O,  EU, P2, O,  S,  O,  I,  O,  O,  I], // DataReplacement
    [O,  E2, I,  O,  F,  R,  I,  O,  F,  O,  O,  O,  O,  I,  O,  O,  I], // DataOverlay
    [I,  I,  I,  Z,  O,  I,  I,  O,  W,  I,  O,  I,  I,  W,  I,  O,  I], // UpdateMemWalState
    [O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O], // Clone
    [O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  O,  B,  I], // UpdateBases
    [I,  I,  I,  I,  I,  I,  I,  I,  I,  I,  I,  I,  I,  I,  I,  I,  I], // Unknown
];
