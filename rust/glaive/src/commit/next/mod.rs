//! Building a manifest: the latest one plus an operation (format chapter 31, 4).

mod fragments;
mod indices;
mod replacement;
mod schema;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use chrono::Utc;
use glaive_file::{Error, ErrorKind, FileVersion, Result};

use super::rebase::Rebased;
use crate::manifest::{
    DETACHED, DataFile, FeatureFlags, Fragment, IndexSection, Manifest, ManifestFile, feature_flags,
    this_writer,
};
use crate::transaction::{Operation, Transaction};
use crate::versions::VersionStore;

/// A version in the making.
#[derive(Debug, Clone)]
pub(super) struct Next {
    pub(super) manifest: Manifest,
    pub(super) indices: IndexSection,
}

/// The first version of a clone: its source's manifest, which says itself where the files are.
pub(super) fn clone(
    manifest: Manifest,
    indices: IndexSection,
    transaction: &Transaction,
    previous: FeatureFlags,
) -> Result<Next> {
    Next { manifest, indices }.stamp(transaction, previous)
}

/// Version 1 from an overwrite of nothing.
pub(super) fn first(transaction: &Transaction) -> Result<Next> {
    let Operation::Overwrite {
        data_version,
        initial_bases,
        ..
    } = &transaction.operation
    else {
        return Err(Error::not_found(
            "The dataset must already exist unless the operation is Overwrite",
        ));
    };
    let manifest = Manifest {
        version: 1,
        schema: glaive_file::Schema::default(),
        fragments: Vec::new(),
        timestamp: Utc::now(),
        flags: FeatureFlags::default(),
        max_fragment_id: None,
        transaction_file: String::new(),
        writer_version: None,
        next_row_id: 0,
        data_version: data_version.unwrap_or(FileVersion::DEFAULT),
        config: BTreeMap::new(),
        table_metadata: BTreeMap::new(),
        base_paths: settings::numbered_bases(initial_bases),
        branch: None,
        tag: String::new(),
        max_allocated_field_id: None,
        unknown: Bytes::new(),
    };
    let mut next = Next {
        manifest,
        indices: IndexSection::default(),
    };
    next.overwrite(&transaction.operation)?;
    next.finish(transaction, FeatureFlags::default())
}

/// The version after `latest`.
pub(super) fn after(latest: &ManifestFile, rebased: &Rebased<'_>, store: &VersionStore) -> Result<Next> {
    let previous = &latest.manifest;
    let version = previous.version + 1;
    if version & DETACHED != 0 {
        return Err(Error::invalid_input("the table has used up all versions"));
    }
    let mut next = Next {
        manifest: previous.clone(),
        indices: latest.indices.clone(),
    };
    next.manifest.version = version;
    next.apply(rebased, store)?;
    next.finish(&rebased.transaction, previous.flags)
}

impl Next {
    fn apply(&mut self, rebased: &Rebased<'_>, store: &VersionStore) -> Result<()> {
        let operation = &rebased.transaction.operation;
        match operation {
            Operation::Append { fragments } => self.append(fragments),
            Operation::Delete {
                updated_fragments,
                deleted_fragment_ids,
                ..
            } => self.delete(updated_fragments, deleted_fragment_ids),
            Operation::Overwrite { initial_bases, .. } if !initial_bases.is_empty() => Err(
                Error::invalid_input("initial_bases can be given only when the table is created"),
            ),
            Operation::Overwrite { .. } => self.overwrite(operation),
            Operation::CreateIndex {
                new_indices,
                removed_indices,
            } => self.create_index(new_indices, removed_indices, &rebased.uncovered),
            Operation::Rewrite {
                groups,
                rewritten_indices,
            } => self.rewrite(groups, rewritten_indices),
            Operation::Merge {
                fragments, schema, ..
            } => self.merge(fragments, schema),
            Operation::Restore { version } => self.restore(&store.load(*version)?),
            Operation::ReserveFragments { num_fragments } => self.reserve(*num_fragments),
            Operation::Update(update) => self.update(update),
            Operation::Project { schema, .. } => self.project(schema, rebased.base),
            Operation::UpdateConfig(update) => self.update_config(update),
            Operation::DataReplacement { replacements } => self.replace_data(replacements),
            Operation::UpdateBases { new_bases } => self.add_bases(new_bases),
            Operation::Clone(_) => Err(Error::invalid_input("a Clone makes a new table; this one exists")),
            Operation::DataOverlay(_) | Operation::UpdateMemWalState(_) | Operation::Unknown => {
                let kind = operation.kind();
                Err(Error::unsupported(format!("committing the operation {kind}")))
            }
        }
    }

    /// Sets everything that every commit sets.
    fn finish(mut self, transaction: &Transaction, previous: FeatureFlags) -> Result<Self> {
        let manifest = &mut self.manifest;
        for fragment in &mut manifest.fragments {
            if fragment.files.iter().any(DataFile::is_dead) {
                Arc::make_mut(fragment).files.retain(|file| !file.is_dead());
            }
            fragment
                .check()
                .map_err(|e| e.context(format!("fragment {}", fragment.id)))?;
        }
        manifest.fragments.sort_by_key(|fragment| fragment.id);
        let highest = manifest.fragments.last().map(|fragment| fragment.id);
        manifest.max_fragment_id = manifest.max_fragment_id.max(highest);
        self.stamp(transaction, previous)
    }

    /// Sets what says who wrote the version, when and how, and checks the whole.
    fn stamp(mut self, transaction: &Transaction, previous: FeatureFlags) -> Result<Self> {
        let manifest = &mut self.manifest;
        manifest.timestamp = Utc::now();
        manifest.writer_version = Some(this_writer());
        manifest.transaction_file = transaction.file_name();
        manifest.tag.clone_from(&transaction.tag);
        manifest.flags = FeatureFlags::of_next(manifest, self.indices.has_covering_fields(), previous);
        manifest.check()?;
        self.indices.check(manifest)?;
        Ok(self)
    }

    /// Makes an old version current. Counters never go back.
    fn restore(&mut self, old: &ManifestFile) -> Result<()> {
        let (latest, old_manifest) = (&self.manifest, &old.manifest);
        old_manifest.flags.check_writable()?;
        let switched_on = |flag: u64| latest.flags.writer & !old_manifest.flags.writer & flag != 0;
        if switched_on(feature_flags::STABLE_ROW_IDS) || switched_on(feature_flags::UNIQUE_FIELD_IDS) {
            return Err(Error::invalid_input(format!(
                "version {} cannot be restored: stable row ids or unique field ids were switched on after it",
                old_manifest.version
            )));
        }
        let max_fragment_id = latest
            .highest_fragment_id()
            .max(old_manifest.highest_fragment_id());
        self.manifest = Manifest {
            version: latest.version,
            branch: latest.branch.clone(),
            max_fragment_id,
            next_row_id: latest.next_row_id.max(old_manifest.next_row_id),
            max_allocated_field_id: latest
                .max_allocated_field_id
                .max(old_manifest.max_allocated_field_id),
            ..old_manifest.clone()
        };
        self.indices = old.indices.clone();
        Ok(())
    }

    fn has_stable_row_ids(&self) -> bool {
        self.manifest.flags.writer & feature_flags::STABLE_ROW_IDS != 0
    }

    fn refuse_stable_row_ids(&self, what: &str) -> Result<()> {
        match self.has_stable_row_ids() {
            false => Ok(()),
            true => Err(Error::unsupported(format!(
                "{what} a table with stable row ids is not supported"
            ))),
        }
    }

    fn overwrite(&mut self, operation: &Operation) -> Result<()> {
        let Operation::Overwrite {
            fragments,
            schema,
            config_upsert_values,
            data_version,
            ..
        } = operation
        else {
            return Ok(());
        };
        let manifest = &mut self.manifest;
        manifest.max_fragment_id = manifest.highest_fragment_id();
        manifest.fragments.clear();
        manifest.schema = schema.clone();
        manifest.config.extend(config_upsert_values.clone());
        manifest.data_version = data_version.unwrap_or(manifest.data_version);
        self.indices = IndexSection::default();
        schema::check(schema)?;
        self.append(&without_ids(fragments))
    }
}

/// The fragments of an overwrite get new ids, whatever ids they carry.
fn without_ids(fragments: &[Fragment]) -> Vec<Fragment> {
    let fragments = fragments.iter().cloned();
    fragments.map(|fragment| Fragment { id: 0, ..fragment }).collect()
}

/// The caller can look at the latest version and try again.
fn retryable(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::CommitConflict { retryable: true }, text)
}
