//! Operations that change which fragments there are, and their deletion files.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use glaive_file::{Error, Result};

use super::{Next, retryable};
use crate::manifest::Fragment;
use crate::transaction::{RewriteGroup, RewrittenIndex, Update};

impl Next {
    /// Adds fragments. An id that is in use already is replaced by a new one.
    pub(super) fn append(&mut self, fragments: &[Fragment]) -> Result<()> {
        let present = self.manifest.fragments.iter();
        let mut used: HashSet<u32> = present.map(|fragment| fragment.id).collect();
        let free = fragments.iter().cloned().map(|fragment| {
            let id = if used.insert(fragment.id) { fragment.id } else { 0 };
            Fragment { id, ..fragment }
        });
        let free = free.collect::<Vec<_>>();
        self.add_fragments(&free)
    }

    /// Adds fragments; those with id 0 get the next ids, others keep the one that was reserved for them.
    pub(super) fn add_fragments(&mut self, fragments: &[Fragment]) -> Result<()> {
        if fragments.is_empty() {
            return Ok(());
        }
        self.refuse_stable_row_ids("adding rows to")?;
        if let Some(fragment) = fragments.iter().find(|fragment| fragment.deletion_file.is_some()) {
            let file = fragment.files.first().map_or("", |file| &file.path);
            return Err(Error::invalid_input(format!(
                "a new fragment ({file}) cannot have a deletion file"
            )));
        }
        self.add_with_ids(fragments)
    }

    fn add_with_ids(&mut self, fragments: &[Fragment]) -> Result<()> {
        let mut next_id = self.manifest.next_fragment_id()?;
        let reserved = fragments.iter().map(|fragment| fragment.id).max().unwrap_or(0);
        if reserved > 0 {
            next_id = next_id.max(reserved.checked_add(1).ok_or_else(ids_used_up)?);
        }
        for fragment in fragments {
            let mut id = fragment.id;
            if id == 0 {
                id = next_id;
                next_id = next_id.checked_add(1).ok_or_else(ids_used_up)?;
            }
            self.manifest.fragments.push(Arc::new(Fragment {
                id,
                ..fragment.clone()
            }));
        }
        Ok(())
    }

    /// Sets deletion files. Everything else about a fragment stays as it is now.
    pub(super) fn delete(&mut self, updated: &[Fragment], removed: &[u64]) -> Result<()> {
        let files: HashMap<u32, &Fragment> = updated.iter().map(|fragment| (fragment.id, fragment)).collect();
        for current in &mut self.manifest.fragments {
            if let Some(fragment) = files.get(&current.id) {
                Arc::make_mut(current)
                    .deletion_file
                    .clone_from(&fragment.deletion_file);
            }
        }
        self.remove_fragments(removed);
        self.prune_indices()
    }

    fn remove_fragments(&mut self, removed: &[u64]) {
        let removed: HashSet<u64> = removed.iter().copied().collect();
        let fragments = &mut self.manifest.fragments;
        fragments.retain(|fragment| !removed.contains(&fragment.id.into()));
    }

    /// Replaces the updated fragments and adds the new ones.
    pub(super) fn update(&mut self, update: &Update) -> Result<()> {
        self.refuse_stable_row_ids("updating rows of")?;
        check_offsets(update)?;
        let updated: HashMap<u32, &Fragment> = update.updated_fragments.iter().map(|f| (f.id, f)).collect();
        for current in &mut self.manifest.fragments {
            if let Some(fragment) = updated.get(&current.id) {
                *current = Arc::new(successor(current, fragment));
            }
        }
        self.remove_fragments(&update.removed_fragment_ids);
        self.add_fragments(&update.new_fragments)?;
        let fields = update.fields_modified.iter();
        let fields: HashSet<i32> = fields.filter_map(|id| i32::try_from(*id).ok()).collect();
        self.uncover(&fields, &updated.keys().copied().collect())?;
        self.prune_indices()
    }

    /// Replaces groups of fragments by others with the same rows.
    pub(super) fn rewrite(&mut self, groups: &[RewriteGroup], indices: &[RewrittenIndex]) -> Result<()> {
        if self.indices.has_fragment_reuse() {
            return Err(Error::unsupported(
                "rewriting fragments of a table with the index `__lance_frag_reuse`",
            ));
        }
        let mut replaced = HashSet::new();
        for fragment in groups.iter().flat_map(|group| &group.old_fragments) {
            if self.manifest.fragment(fragment.id).is_none() || !replaced.insert(fragment.id) {
                return Err(retryable(format!(
                    "dataset does not contain a fragment a rewrite operation wants to replace: id={}, or the \
                     operation replaces it twice; plan the rewrite anew on the latest version",
                    fragment.id
                )));
            }
        }
        let mut new: Vec<Vec<u32>> = Vec::new();
        for group in groups {
            let before = self.manifest.fragments.len();
            self.check_row_ids(&group.new_fragments)?;
            self.add_with_ids(&group.new_fragments)?;
            let added = self.manifest.fragments.iter().skip(before);
            new.push(added.map(|fragment| fragment.id).collect());
        }
        self.manifest
            .fragments
            .retain(|fragment| !replaced.contains(&fragment.id));
        let moves = groups.iter().zip(new).map(|(group, new)| {
            let old = group.old_fragments.iter().map(|fragment| fragment.id);
            (old.collect(), new.into_iter().collect())
        });
        self.rewrite_indices(&moves.collect::<Vec<_>>(), indices)
    }

    /// With stable row ids, rewritten fragments bring the ids of their rows along.
    fn check_row_ids(&self, fragments: &[Fragment]) -> Result<()> {
        let lacks = |fragment: &Fragment| {
            let rest = &fragment.rest;
            rest.row_id_sequence.is_none() || rest.created_at_version_sequence.is_none()
        };
        match self.has_stable_row_ids() && fragments.iter().any(lacks) {
            true => self.refuse_stable_row_ids("rewriting fragments without row ids and version stamps in"),
            false => Ok(()),
        }
    }

    /// Sets ids aside for new fragments.
    pub(super) fn reserve(&mut self, count: u32) -> Result<()> {
        let used = self.manifest.highest_fragment_id().unwrap_or(0);
        self.manifest.max_fragment_id = Some(used.checked_add(count).ok_or_else(ids_used_up)?);
        Ok(())
    }
}

/// The state of a fragment after an operation that names it as a whole.
pub(super) fn successor(current: &Fragment, fragment: &Fragment) -> Fragment {
    let mut next = fragment.clone();
    next.rest.overlays.clone_from(&current.rest.overlays);
    next.inherit_unknown(current);
    next
}

fn ids_used_up() -> Error {
    Error::invalid_input("the table has used up all fragment ids")
}

/// Offsets must name rows of fragments that the operation updates.
fn check_offsets(update: &Update) -> Result<()> {
    for (id, bytes) in &update.updated_fragment_offsets {
        let bad =
            |what: &str| Error::invalid_input(format!("updated_fragment_offsets of fragment {id}: {what}"));
        let mut updated = update.updated_fragments.iter();
        let fragment = updated.find(|fragment| u64::from(fragment.id) == *id);
        let fragment = fragment.ok_or_else(|| bad("the fragment is not among updated_fragments"))?;
        let offsets = roaring::RoaringBitmap::deserialize_from(bytes.as_ref())
            .map_err(|e| bad(&format!("not a bitmap: {e}")))?;
        let rows = fragment.physical_rows.unwrap_or(u64::MAX);
        if offsets.max().is_some_and(|offset| u64::from(offset) >= rows) {
            return Err(bad("an offset is beyond the end of the fragment"));
        }
    }
    Ok(())
}
