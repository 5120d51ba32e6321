//! Replacing the files of some columns (format chapter 31, 4.12).

use std::collections::HashSet;
use std::sync::Arc;

use glaive_file::{Error, Result};

use super::Next;
use crate::manifest::{DataFile, Fragment, TOMBSTONE};
use crate::transaction::DataReplacementGroup;

impl Next {
    /// Swaps, appends or carves out data files. All new files hold the same fields.
    pub(super) fn replace_data(&mut self, groups: &[DataReplacementGroup]) -> Result<()> {
        self.refuse_stable_row_ids("replacing data files of")?;
        let Some(first) = groups.first() else {
            return Ok(());
        };
        let fields = &first.new_file.fields;
        let mut seen = HashSet::new();
        for group in groups {
            let id = group.fragment_id;
            if group.new_file.fields != *fields {
                return Err(Error::invalid_input(format!(
                    "all files of a DataReplacement must have the same fields, but that of fragment {id} differs"
                )));
            }
            let mut fragments = self.manifest.fragments.iter_mut();
            let fragment = fragments.find(|fragment| u64::from(fragment.id) == id && seen.insert(id));
            let fragment = fragment.ok_or_else(|| {
                Error::invalid_input(format!("fragment {id} does not exist, or is replaced twice"))
            })?;
            replace_file(Arc::make_mut(fragment), &group.new_file)
                .map_err(|e| e.context(format!("fragment {id}")))?;
        }
        let fields = fields.iter().copied().filter(|id| *id >= 0).collect();
        let fragments = groups
            .iter()
            .filter_map(|group| u32::try_from(group.fragment_id).ok());
        self.uncover(&fields, &fragments.collect())
    }
}

fn replace_file(fragment: &mut Fragment, new: &DataFile) -> Result<()> {
    let same = |old: &DataFile| old.fields == new.fields && old.version == new.version;
    if let Some(old) = fragment.files.iter_mut().find(|file| same(file)) {
        *old = DataFile {
            column_indices: new.column_indices.clone(),
            path: new.path.clone(),
            size: new.size,
            base_id: new.base_id,
            ..old.clone()
        };
        return Ok(());
    }
    let replaced: HashSet<i32> = new.fields.iter().copied().filter(|id| *id >= 0).collect();
    let stored = fragment.files.iter().flat_map(|file| &file.fields);
    let stored = stored.filter(|id| replaced.contains(id)).count();
    if stored != 0 && stored != replaced.len() {
        return Err(Error::invalid_input(
            "some of the replaced fields are stored and others are not; replace them in two operations",
        ));
    }
    for old in &mut fragment.files {
        let shared = old.fields.iter().any(|id| replaced.contains(id));
        if shared && old.version.is_legacy() {
            return Err(Error::invalid_input(
                "columns within a file of version 0.1 cannot be replaced",
            ));
        }
        for id in old.fields.iter_mut().filter(|id| replaced.contains(id)) {
            *id = TOMBSTONE;
        }
    }
    fragment.files.push(new.clone());
    Ok(())
}
