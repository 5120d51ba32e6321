//! What a commit does to the index section (format chapter 31, 4.5, 4.6 and 8.2).

use std::collections::{BTreeMap, HashMap, HashSet};

use glaive_file::{Error, Result};
use roaring::RoaringBitmap;
use uuid::Uuid;

use super::{Next, retryable};
use crate::manifest::Index;
use crate::transaction::{RewrittenIndex, stored_uuid};

/// Fragments that were replaced, and those in their place.
type Move = (RoaringBitmap, RoaringBitmap);

impl Next {
    /// Adds and removes segments.
    pub(super) fn create_index(
        &mut self,
        new: &[Index],
        removed: &[Index],
        uncovered: &BTreeMap<usize, RoaringBitmap>,
    ) -> Result<()> {
        let gone: HashSet<Uuid> = new.iter().chain(removed).map(Index::uuid).collect();
        let replaces = |old: &Index| new.iter().any(|new| new.is_system() && new.name() == old.name());
        let entries = &mut self.indices.entries;
        entries.retain(|old| !gone.contains(&old.uuid()) && !replaces(old));
        for (position, index) in new.iter().enumerate() {
            self.check_indexed_fields(index)?;
            let index = match (uncovered.get(&position), index.fragments()) {
                (Some(fragments), Some(covered)) => index.with_fragments(covered - fragments)?,
                _ => index.clone(),
            };
            self.check_disjoint(&index)?;
            self.indices.entries.push(index);
        }
        Ok(())
    }

    /// A reader fails on an index over a field that does not exist.
    fn check_indexed_fields(&self, index: &Index) -> Result<()> {
        let mut fields = index.metadata().fields.iter();
        match fields.find(|id| self.manifest.schema.field_by_id(**id).is_none()) {
            None => Ok(()),
            Some(id) => Err(retryable(format!(
                "Retryable commit conflict for version {}: the index '{}' is over field {id}, which the table does \
                 not have any more. Please retry on the latest version",
                self.manifest.version,
                index.name()
            ))),
        }
    }

    /// Segments of one index cover different fragments.
    fn check_disjoint(&self, index: &Index) -> Result<()> {
        let Some(covered) = index.fragments() else {
            return Ok(());
        };
        let same = self
            .indices
            .entries
            .iter()
            .filter(|other| other.name() == index.name());
        let mut others = same.filter_map(Index::fragments);
        match others.find(|other| !other.is_disjoint(&covered)) {
            None => Ok(()),
            Some(_) => Err(Error::invalid_input(format!(
                "two segments of the index '{}' cover the same fragment; remove the old segment in the same operation",
                index.name()
            ))),
        }
    }

    /// Fragments whose fields were rewritten in place are no longer covered by indices over these fields.
    pub(super) fn uncover(&mut self, fields: &HashSet<i32>, fragments: &RoaringBitmap) -> Result<()> {
        for index in &mut self.indices.entries {
            let touched = index.metadata().fields.iter().any(|id| fields.contains(id));
            if let Some(covered) = index.fragments()
                && touched
                && !covered.is_disjoint(fragments)
            {
                *index = index.with_fragments(covered - fragments)?;
            }
        }
        Ok(())
    }

    /// Drops segments over vanished fields, and segments that cover nothing while another of their index stays.
    ///
    /// While addresses are translated, bitmaps name fragments that are gone, so that only the fields count.
    pub(super) fn prune_indices(&mut self) -> Result<()> {
        let schema = &self.manifest.schema;
        self.indices.entries.retain(|index| {
            let mut fields = index.metadata().fields.iter();
            fields.all(|id| schema.field_by_id(*id).is_some())
        });
        if self.indices.has_fragment_reuse() {
            return Ok(());
        }
        let live: RoaringBitmap = self
            .manifest
            .fragments
            .iter()
            .map(|fragment| fragment.id)
            .collect();
        let covers = |index: &Index| {
            index
                .fragments()
                .is_none_or(|covered| !covered.is_disjoint(&live))
        };
        let kept = survivors(&self.indices.entries, covers);
        self.indices.entries.retain(|index| kept.contains(&index.uuid()));
        Ok(())
    }

    /// Names the new files of rewritten segments, and moves their coverage.
    pub(super) fn rewrite_indices(&mut self, moves: &[Move], rewritten: &[RewrittenIndex]) -> Result<()> {
        let rewritten: HashMap<Uuid, &RewrittenIndex> = rewritten.iter().map(|r| (r.old_id, r)).collect();
        let by_row_id = self.has_stable_row_ids();
        for index in &mut self.indices.entries {
            let new = rewritten.get(&index.uuid());
            if let Some(covered) = index.fragments()
                && (new.is_some() || by_row_id)
                && !index.is_system()
            {
                let moved =
                    moved(covered, moves).map_err(|e| e.context(format!("index '{}'", index.name())))?;
                *index = index.with_fragments(moved)?;
            }
            if let Some(new) = new {
                *index = with_files(index, new)?;
            }
        }
        Ok(())
    }
}

/// The segments that stay: those that cover something; else the oldest of their index.
fn survivors(entries: &[Index], covers: impl Fn(&Index) -> bool) -> HashSet<Uuid> {
    let mut by_name: HashMap<&str, Vec<&Index>> = HashMap::new();
    for index in entries {
        by_name.entry(index.name()).or_default().push(index);
    }
    let mut kept = HashSet::new();
    for segments in by_name.values() {
        let covering = segments
            .iter()
            .filter(|index| covers(index))
            .map(|index| index.uuid());
        let before = kept.len();
        kept.extend(covering);
        if kept.len() == before {
            let oldest = segments.iter().min_by_key(|index| index.metadata().created_at);
            kept.extend(oldest.map(|index| index.uuid()));
        }
    }
    kept
}

/// Coverage after a rewrite: whole groups only.
fn moved(mut covered: RoaringBitmap, moves: &[Move]) -> Result<RoaringBitmap> {
    for (old, new) in moves {
        match covered.intersection_len(old) {
            0 => {}
            count if count == old.len() => covered = (covered - old) | new,
            _ => {
                return Err(Error::invalid_input(
                    "a rewrite cannot have a split of indexed and non-indexed data in one group",
                ));
            }
        }
    }
    Ok(covered)
}

fn with_files(index: &Index, new: &RewrittenIndex) -> Result<Index> {
    let version = i32::try_from(new.version)
        .map_err(|_| Error::invalid_input(format!("index version {}", new.version)))?;
    let mut metadata = index.metadata().clone();
    metadata.uuid = Some(stored_uuid(new.new_id));
    metadata.index_details = Some(new.details.clone());
    metadata.index_version = Some(version);
    metadata.files.clone_from(&new.files);
    metadata.base_id = None;
    index.with_metadata(metadata)
}
