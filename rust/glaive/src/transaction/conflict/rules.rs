//! The rules that the table of conflicts names.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use glaive_file::Schema;
use roaring::RoaringBitmap;

use super::keys::may_intersect;
use super::{Ours, Rebase, Rule, Verdict, rule};
use crate::manifest::indices::{FRAGMENT_REUSE, MEM_WAL};
use crate::manifest::{DataFile, Fragment, Index};
use crate::proto::lance::table as pb;
use crate::transaction::{
    DataReplacementGroup, Operation, OperationKind, Update, UpdateConfig, UpdateMap, UpdateMode,
};

/// The answer of the table.
pub(super) fn judge(ours: &Ours<'_>, theirs: &Operation) -> Verdict {
    let own = ours.operation;
    match rule(own.kind(), theirs.kind()) {
        Rule::Compatible => Verdict::compatible(),
        Rule::Retryable => Verdict::Retryable("these operations do not go together".to_string()),
        Rule::Incompatible => Verdict::Incompatible("these operations exclude each other".to_string()),
        Rule::Fragments => fragments(own, theirs),
        Rule::Rows => rows(ours, theirs),
        Rule::InsertedKeys => Verdict::retryable_if(
            inserted_keys(own).is_some(),
            "ours inserted keys that may have been appended",
        ),
        Rule::InsertedKeysAndRows => match keys(own, theirs) {
            true => Verdict::Retryable("both may have inserted the same key".to_string()),
            false => rows(ours, theirs),
        },
        Rule::RewrittenFields => rewritten_fields(own, theirs),
        Rule::ReplacedFields => replaced_fields(own, theirs),
        Rule::OverwriteConfig => overwrite_config(own, theirs),
        Rule::Config => config(own, theirs),
        Rule::Indices => indices(own, theirs),
        Rule::IndexAndRewrite => index_and_rewrite(own, theirs),
        Rule::IndexAndMerge => index_and_merge(own, theirs),
        Rule::IndexOverUpdate => index_over_update(own, theirs),
        Rule::IndexAndReplacement => index_and_replacement(own, theirs),
        Rule::IndexAndMemWal => index_and_mem_wal(own, theirs),
        Rule::ReplacementAfterDelete => Verdict::incompatible_if(touches_removed(own, theirs), GONE),
        Rule::ReplacementAfterUpdate => replacement_after_update(own, theirs),
        Rule::Replacements => replacements(own, theirs),
        Rule::OverlayAfterDelete => Verdict::retryable_if(touches_removed(own, theirs), GONE),
        Rule::MemWal => mem_wal(sstables(own), sstables(theirs)),
        Rule::Bases => bases(own, theirs),
    }
}

const GONE: &str = "a fragment that ours changes was removed";

fn modified(operation: &Operation) -> BTreeSet<u64> {
    operation.modified_fragment_ids().into_iter().collect()
}

fn fragments(ours: &Operation, theirs: &Operation) -> Verdict {
    match modified(ours).intersection(&modified(theirs)).next() {
        Some(id) => Verdict::Retryable(format!("both change fragment {id}")),
        None => Verdict::compatible(),
    }
}

/// Deletions of ours and theirs in one fragment can be merged if nothing else about the fragment changed.
fn rows(ours: &Ours<'_>, theirs: &Operation) -> Verdict {
    let own = modified(ours.operation);
    let common: BTreeSet<u64> = modified(theirs).intersection(&own).copied().collect();
    let Some(first) = common.first() else {
        return Verdict::compatible();
    };
    let (Some(base), Some(_)) = (ours.base, ours.affected_rows) else {
        return Verdict::Retryable(format!(
            "both change fragment {first}, and the rows that ours changes are not known any more"
        ));
    };
    let removed: HashSet<u64> = ours.operation.removed_fragment_ids().iter().copied().collect();
    if let Some(id) = common.iter().find(|id| removed.contains(id)) {
        return Verdict::Retryable(format!("fragment {id}, which ours removes, was changed"));
    }
    let mut rebase = Rebase::default();
    for id in common {
        let updated = theirs.updated_fragments();
        let updated = updated.iter().find(|fragment| u64::from(fragment.id) == id);
        let former = u32::try_from(id).ok().and_then(|id| base.fragment(id));
        match (updated, former) {
            (Some(updated), Some(former)) if same_files(updated, former) => {
                if updated.deletion_file != former.deletion_file {
                    rebase.deletions.insert(updated.id);
                }
            }
            (None, _) => {
                return Verdict::Retryable(format!("fragment {id}, which ours changes, was removed"));
            }
            _ => return Verdict::Retryable(format!("data files of fragment {id} were replaced")),
        }
    }
    Verdict::Compatible(rebase)
}

/// Whether two states of a fragment hold the same columns. Sizes may have been filled in.
fn same_files(a: &Fragment, b: &Fragment) -> bool {
    fn place(file: &DataFile) -> (&str, &[i32], &[i32], Option<u32>) {
        (&file.path, &file.fields, &file.column_indices, file.base_id)
    }
    a.files.iter().map(place).eq(b.files.iter().map(place))
}

fn update(operation: &Operation) -> Option<&Update> {
    match operation {
        Operation::Update(update) => Some(update),
        _ => None,
    }
}

fn inserted_keys(operation: &Operation) -> Option<&pb::transaction::KeyExistenceFilter> {
    update(operation)?.inserted_rows.as_ref()
}

fn keys(ours: &Operation, theirs: &Operation) -> bool {
    match (inserted_keys(ours), inserted_keys(theirs)) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(ours), Some(theirs)) => may_intersect(ours, theirs),
    }
}

fn new_schema(operation: &Operation) -> Option<&Schema> {
    match operation {
        Operation::Project { schema, .. } | Operation::Merge { schema, .. } => Some(schema),
        _ => None,
    }
}

fn first_missing(fields: impl IntoIterator<Item = i32>, schema: Option<&Schema>) -> Option<i32> {
    let schema = schema?;
    fields
        .into_iter()
        .find(|id| *id >= 0 && schema.field_by_id(*id).is_none())
}

fn rewritten_fields(ours: &Operation, theirs: &Operation) -> Verdict {
    let fields = update(ours).map_or(&[][..], |update| &update.fields_modified);
    let fields = fields.iter().map(|id| i32::try_from(*id).unwrap_or(i32::MAX));
    match first_missing(fields, new_schema(theirs)) {
        Some(id) => Verdict::Retryable(format!("field {id}, which ours rewrote, was dropped")),
        None => Verdict::compatible(),
    }
}

fn replacement_groups(operation: &Operation) -> &[DataReplacementGroup] {
    match operation {
        Operation::DataReplacement { replacements } => replacements,
        _ => &[],
    }
}

fn replaced(operation: &Operation) -> BTreeSet<i32> {
    let files = replacement_groups(operation).iter().map(|group| &group.new_file);
    files
        .flat_map(|file| file.fields.iter().copied())
        .filter(|id| *id >= 0)
        .collect()
}

fn replaced_fields(ours: &Operation, theirs: &Operation) -> Verdict {
    match first_missing(replaced(ours), new_schema(theirs)) {
        Some(id) => Verdict::Incompatible(format!("field {id}, which ours replaces, was dropped")),
        None => Verdict::compatible(),
    }
}

fn replacements(ours: &Operation, theirs: &Operation) -> Verdict {
    let clash = replacement_groups(ours).iter().any(|own| {
        let same = |group: &&DataReplacementGroup| group.fragment_id == own.fragment_id;
        let mut theirs = replacement_groups(theirs).iter().filter(same);
        theirs.any(|group| {
            let fields = &group.new_file.fields;
            own.new_file
                .fields
                .iter()
                .any(|id| *id >= 0 && fields.contains(id))
        })
    });
    Verdict::retryable_if(clash, "both replace a column of one fragment")
}

fn touches_removed(ours: &Operation, theirs: &Operation) -> bool {
    let removed = theirs.removed_fragment_ids();
    ours.modified_fragment_ids().iter().any(|id| removed.contains(id))
}

fn replacement_after_update(ours: &Operation, theirs: &Operation) -> Verdict {
    if touches_removed(ours, theirs) {
        return Verdict::Incompatible(GONE.to_string());
    }
    let own = ours.modified_fragment_ids();
    let mut updated = theirs.updated_fragments().iter();
    let (Some(update), Some(fragment)) = (
        update(theirs),
        updated.find(|fragment| own.contains(&fragment.id.into())),
    ) else {
        return Verdict::compatible();
    };
    let moved = update.mode != Some(UpdateMode::RewriteColumns) && !update.new_fragments.is_empty();
    let fields = replaced(ours);
    let rewritten = update
        .fields_modified
        .iter()
        .any(|id| i32::try_from(*id).is_ok_and(|id| fields.contains(&id)));
    match moved || rewritten {
        true => Verdict::Retryable(format!(
            "rows or columns of fragment {} were changed",
            fragment.id
        )),
        false => Verdict::compatible(),
    }
}

/// Keys that an operation sets in, and deletes from, the config.
#[derive(Default)]
struct ConfigKeys<'a> {
    set: BTreeSet<&'a str>,
    deleted: BTreeSet<&'a str>,
    replaces: bool,
}

impl<'a> ConfigKeys<'a> {
    fn of(operation: &'a Operation) -> Self {
        match operation {
            Operation::Overwrite {
                config_upsert_values, ..
            } => Self {
                set: config_upsert_values.keys().map(String::as_str).collect(),
                ..Self::default()
            },
            Operation::UpdateConfig(update) => {
                update.config.as_ref().map_or_else(Self::default, Self::of_map)
            }
            _ => Self::default(),
        }
    }

    fn of_map(map: &'a UpdateMap) -> Self {
        let keys = |set: bool| {
            let updates = map.updates.iter();
            updates
                .filter(move |(_, value)| value.is_some() == set)
                .map(|(key, _)| key.as_str())
                .collect()
        };
        Self {
            set: keys(true),
            deleted: keys(false),
            replaces: map.replace,
        }
    }

    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.deleted.is_empty() && !self.replaces
    }

    /// A key that one sets and the other sets or deletes. Two deletions go together. A replacement of the whole config
    /// clashes with any change.
    fn clash(&self, other: &Self) -> Option<&'a str> {
        let first = |a: &Self, b: &Self| {
            let mut set = a.set.iter();
            set.find(|key| b.set.contains(*key) || b.deleted.contains(*key))
                .copied()
        };
        let whole = (self.replaces && !other.is_empty()) || (other.replaces && !self.is_empty());
        first(self, other)
            .or_else(|| first(other, self))
            .or(whole.then_some("(all)"))
    }
}

fn config_clash(ours: &Operation, theirs: &Operation) -> Option<Verdict> {
    let (ours, theirs) = (ConfigKeys::of(ours), ConfigKeys::of(theirs));
    let key = ours.clash(&theirs)?.to_string();
    Some(Verdict::Incompatible(format!("both change the config key {key}")))
}

fn overwrite_config(ours: &Operation, theirs: &Operation) -> Verdict {
    config_clash(ours, theirs).unwrap_or_else(|| {
        Verdict::retryable_if(
            theirs.kind() == OperationKind::Overwrite,
            "both replace the table",
        )
    })
}

fn config(ours: &Operation, theirs: &Operation) -> Verdict {
    if let Some(clash) = config_clash(ours, theirs) {
        return clash;
    }
    let Operation::UpdateConfig(own) = ours else {
        return Verdict::compatible();
    };
    match theirs {
        Operation::UpdateConfig(theirs) => {
            Verdict::incompatible_if(metadata_clash(own, theirs), "both change the same metadata")
        }
        _ => Verdict::incompatible_if(
            own.schema_metadata.is_some() || !own.field_metadata.is_empty(),
            "ours changes metadata of a schema that was replaced",
        ),
    }
}

fn metadata_clash(ours: &UpdateConfig, theirs: &UpdateConfig) -> bool {
    let tables = match (&ours.table_metadata, &theirs.table_metadata) {
        (Some(a), Some(b)) => {
            a.replace || b.replace || a.updates.keys().any(|key| b.updates.contains_key(key))
        }
        _ => false,
    };
    let schemas = ours.schema_metadata.is_some() && theirs.schema_metadata.is_some();
    let mut fields = ours.field_metadata.keys();
    tables || schemas || fields.any(|id| theirs.field_metadata.contains_key(id))
}

fn new_indices(operation: &Operation) -> &[Index] {
    match operation {
        Operation::CreateIndex { new_indices, .. } => new_indices,
        _ => &[],
    }
}

fn removed_indices(operation: &Operation) -> &[Index] {
    match operation {
        Operation::CreateIndex { removed_indices, .. } => removed_indices,
        _ => &[],
    }
}

fn indices(ours: &Operation, theirs: &Operation) -> Verdict {
    fn names(list: &[Index]) -> BTreeSet<&str> {
        list.iter().map(Index::name).collect()
    }
    let pairs = [
        (new_indices(ours), new_indices(theirs)),
        (new_indices(ours), removed_indices(theirs)),
        (removed_indices(ours), new_indices(theirs)),
    ];
    let common = pairs
        .iter()
        .find_map(|(a, b)| names(a).intersection(&names(b)).next().map(ToString::to_string));
    match common {
        Some(name) => Verdict::Retryable(format!("both change the index '{name}'")),
        None => Verdict::compatible(),
    }
}

fn has_index(operation: &Operation, name: &str) -> bool {
    let all = new_indices(operation).iter().chain(removed_indices(operation));
    all.into_iter().any(|index| index.name() == name)
}

fn index_and_rewrite(ours: &Operation, theirs: &Operation) -> Verdict {
    let (create, rewrite) = match ours {
        Operation::Rewrite { .. } => (theirs, ours),
        _ => (ours, theirs),
    };
    if has_index(create, FRAGMENT_REUSE) {
        return Verdict::Retryable("one changes how row addresses are translated".to_string());
    }
    let rewritten: RoaringBitmap = modified(rewrite).iter().map(|id| clamped(*id)).collect();
    let hit = new_indices(create).iter().find(|index| {
        index
            .fragments()
            .is_none_or(|covered| !covered.is_disjoint(&rewritten))
    });
    match hit {
        Some(index) => Verdict::Retryable(format!(
            "the index '{}' covers a rewritten fragment",
            index.name()
        )),
        None => Verdict::compatible(),
    }
}

fn clamped(id: u64) -> u32 {
    u32::try_from(id).unwrap_or(u32::MAX)
}

fn index_and_merge(ours: &Operation, theirs: &Operation) -> Verdict {
    let hit = has_index(ours, MEM_WAL) || has_index(theirs, MEM_WAL);
    Verdict::retryable_if(hit, "one changes the index `__lance_mem_wal`")
}

fn index_over_update(ours: &Operation, theirs: &Operation) -> Verdict {
    let Some(update) = update(theirs) else {
        return Verdict::compatible();
    };
    let fragments: RoaringBitmap = update.updated_fragments.iter().map(|f| f.id).collect();
    let touched = |index: &Index| {
        let mut fields = index.metadata().fields.iter();
        fields.any(|id| u32::try_from(*id).is_ok_and(|id| update.fields_modified.contains(&id)))
    };
    let positions = new_indices(ours).iter().enumerate();
    let uncovered: BTreeMap<usize, RoaringBitmap> = positions
        .filter(|(_, index)| touched(index))
        .map(|(position, _)| (position, fragments.clone()))
        .collect();
    Verdict::Compatible(Rebase {
        uncovered,
        ..Rebase::default()
    })
}

fn index_and_replacement(ours: &Operation, theirs: &Operation) -> Verdict {
    let fields: BTreeSet<i32> = replaced(ours).union(&replaced(theirs)).copied().collect();
    let mut created = new_indices(ours).iter().chain(new_indices(theirs));
    let hit = created.find(|index| index.metadata().fields.iter().any(|id| fields.contains(id)));
    match hit {
        Some(index) => Verdict::Retryable(format!("a column of the index '{}' was replaced", index.name())),
        None => Verdict::compatible(),
    }
}

fn index_and_mem_wal(ours: &Operation, theirs: &Operation) -> Verdict {
    let reason = "one changes the state of the log-structured write path".to_string();
    match has_index(ours, MEM_WAL) || has_index(theirs, MEM_WAL) {
        true => Verdict::Retryable(reason),
        false if ours.kind() == OperationKind::UpdateMemWalState => Verdict::compatible(),
        false => Verdict::Incompatible(reason),
    }
}

fn sstables(operation: &Operation) -> &[pb::CompactedSsTable] {
    match operation {
        Operation::Update(update) => &update.compacted_sstables,
        Operation::UpdateMemWalState(update) => &update.compacted_sstables,
        _ => &[],
    }
}

fn mem_wal(ours: &[pb::CompactedSsTable], theirs: &[pb::CompactedSsTable]) -> Verdict {
    let pairs = ours.iter().flat_map(|own| {
        let same = theirs.iter().filter(|other| other.shard_id == own.shard_id);
        same.map(move |other| other.generation >= own.generation)
    });
    match pairs.max() {
        None => Verdict::compatible(),
        Some(true) => Verdict::Incompatible("a later generation of the shard was compacted".to_string()),
        Some(false) => Verdict::Retryable("an earlier generation of the shard was compacted".to_string()),
    }
}

fn bases(ours: &Operation, theirs: &Operation) -> Verdict {
    fn list(operation: &Operation) -> &[pb::BasePath] {
        match operation {
            Operation::UpdateBases { new_bases } => new_bases,
            _ => &[],
        }
    }
    let same = |a: &pb::BasePath, b: &pb::BasePath| {
        (a.id != 0 && a.id == b.id) || (a.name.is_some() && a.name == b.name) || a.path == b.path
    };
    let clash = list(ours).iter().any(|a| list(theirs).iter().any(|b| same(a, b)));
    Verdict::incompatible_if(clash, "both add a base of the same id, name or path")
}
