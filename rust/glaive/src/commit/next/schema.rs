//! Operations that replace the schema (format chapter 30, 11).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use glaive_file::{Error, Field, Result, Schema};

use super::Next;
use super::fragments::successor;
use crate::manifest::{DataFile, Fragment, Manifest};

/// Hidden columns of row ids and version stamps have ids from here down.
const FIRST_HIDDEN: i32 = -3;

impl Next {
    /// Replaces fragments and schema by ones with more columns.
    pub(super) fn merge(&mut self, fragments: &[Fragment], schema: &Schema) -> Result<()> {
        check(schema)?;
        self.check_kept_fields(schema)?;
        let (kept, new) = self.split_existing(fragments)?;
        if kept.len() != self.manifest.fragments.len() {
            let lost = self.manifest.fragments.iter().find(|f| !kept.contains_key(&f.id));
            return Err(Error::invalid_input(format!(
                "a Merge lists all fragments of the table, but fragment {} is missing",
                lost.map_or(0, |fragment| fragment.id)
            )));
        }
        let mut rewritten: HashMap<i32, Vec<u32>> = HashMap::new();
        for current in &mut self.manifest.fragments {
            let Some(fragment) = kept.get(&current.id) else {
                continue;
            };
            for field in fields_in_other_files(current, fragment) {
                rewritten.entry(field).or_default().push(current.id);
            }
            *current = Arc::new(successor(current, fragment));
        }
        self.set_schema(schema);
        for (field, fragments) in rewritten {
            self.uncover(&HashSet::from([field]), &fragments.into_iter().collect())?;
        }
        self.add_fragments(&new)?;
        self.prune_indices()
    }

    /// The fragments that exist, and the new ones. An id counts as existing once.
    fn split_existing<'a>(
        &self,
        fragments: &'a [Fragment],
    ) -> Result<(HashMap<u32, &'a Fragment>, Vec<Fragment>)> {
        let (mut kept, mut new) = (HashMap::new(), Vec::new());
        for fragment in fragments {
            let Some(current) = self
                .manifest
                .fragment(fragment.id)
                .filter(|f| !kept.contains_key(&f.id))
            else {
                new.push(fragment.clone());
                continue;
            };
            let bad = |what: &str| Error::invalid_input(format!("Merge: fragment {} {what}", fragment.id));
            if !new.is_empty() {
                return Err(bad("stands behind a new fragment; list those that exist first"));
            }
            if current.physical_rows.is_some() && fragment.physical_rows != current.physical_rows {
                return Err(bad("has another number of rows than before"));
            }
            let same_files = same_columns(current, fragment);
            if self.has_stable_row_ids() && !same_files {
                self.refuse_stable_row_ids("adding columns with values to")?;
            }
            kept.insert(fragment.id, fragment);
        }
        Ok((kept, new))
    }

    /// Fields that stay keep their parent, and new ones have ids that were never used.
    fn check_kept_fields(&self, schema: &Schema) -> Result<()> {
        let old_parents = parents(&self.manifest.schema);
        let highest = self.manifest.highest_field_id();
        for (id, parent) in parents(schema) {
            let bad = |what: &str| Err(Error::invalid_input(format!("Merge: field {id} {what}")));
            match old_parents.get(&id) {
                Some(old) if *old != parent => return bad("has another parent than before"),
                None if id <= highest => {
                    return bad(&format!(
                        "is new, but its id is not greater than {highest}, the largest in use"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Replaces the schema, and drops data files without a column of it.
    ///
    /// Metadata of a field that changed since `base` and not in ours is taken from the latest version.
    pub(super) fn project(&mut self, schema: &Schema, base: Option<&Manifest>) -> Result<()> {
        check(schema)?;
        let schema = match base {
            Some(base) => with_latest_metadata(schema, &base.schema, &self.manifest.schema),
            None => schema.clone(),
        };
        self.set_schema(&schema);
        let live: HashSet<i32> = schema.fields_pre_order().iter().map(|field| field.id).collect();
        let is_live = |file: &DataFile| {
            file.fields
                .iter()
                .any(|id| *id <= FIRST_HIDDEN || live.contains(id))
        };
        for fragment in &mut self.manifest.fragments {
            if !fragment.files.iter().all(is_live) {
                Arc::make_mut(fragment).files.retain(is_live);
            }
        }
        self.prune_indices()
    }

    /// Metadata of the schema as a whole does not change with its fields.
    fn set_schema(&mut self, schema: &Schema) {
        self.manifest.schema.fields.clone_from(&schema.fields);
    }
}

/// Ids must be unique, and names within one parent.
pub(super) fn check(schema: &Schema) -> Result<()> {
    let mut ids = HashSet::new();
    let all = schema.fields_pre_order();
    if let Some(field) = all.iter().find(|field| field.id >= 0 && !ids.insert(field.id)) {
        return Err(Error::invalid_input(format!(
            "field id {} occurs twice",
            field.id
        )));
    }
    check_names(&schema.fields)
}

fn check_names(fields: &[Arc<Field>]) -> Result<()> {
    let mut names = HashSet::new();
    for field in fields {
        if !names.insert(field.name.as_str()) {
            return Err(Error::invalid_input(format!(
                "Duplicate field name \"{}\" in schema",
                field.name
            )));
        }
        check_names(&field.children)?;
    }
    Ok(())
}

/// Parent of each field; -1 at the top.
fn parents(schema: &Schema) -> HashMap<i32, i32> {
    fn collect(fields: &[Arc<Field>], parent: i32, out: &mut HashMap<i32, i32>) {
        for field in fields {
            out.insert(field.id, parent);
            collect(&field.children, field.id, out);
        }
    }
    let mut out = HashMap::new();
    collect(&schema.fields, -1, &mut out);
    out
}

fn same_columns(a: &Fragment, b: &Fragment) -> bool {
    fn columns(fragment: &Fragment) -> impl Iterator<Item = (&str, &[i32])> {
        fragment
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.fields.as_slice()))
    }
    columns(a).eq(columns(b))
}

/// The fields that were in one file before and are in another now.
fn fields_in_other_files(before: &Fragment, after: &Fragment) -> Vec<i32> {
    fn files(fragment: &Fragment) -> HashMap<i32, &str> {
        let columns = fragment
            .files
            .iter()
            .flat_map(|file| file.fields.iter().map(move |id| (*id, file)));
        columns.map(|(id, file)| (id, file.path.as_str())).collect()
    }
    let (before, after) = (files(before), files(after));
    let moved = |id: &i32, path: &str| *id >= 0 && after.get(id).is_some_and(|now| *now != path);
    before
        .iter()
        .filter(|(id, path)| moved(id, path))
        .map(|(id, _)| *id)
        .collect()
}

fn with_latest_metadata(schema: &Schema, base: &Schema, latest: &Schema) -> Schema {
    fn visit(field: &mut Arc<Field>, base: &Schema, latest: &Schema) {
        if let (Some(old), Some(new)) = (base.field_by_id(field.id), latest.field_by_id(field.id))
            && old.metadata == field.metadata
            && new.metadata != field.metadata
        {
            let field = Arc::make_mut(field);
            field.metadata.clone_from(&new.metadata);
            (field.primary_key, field.clustering_key) = (new.primary_key, new.clustering_key);
        }
        if !field.children.is_empty() {
            for child in &mut Arc::make_mut(field).children {
                visit(child, base, latest);
            }
        }
    }
    let mut schema = schema.clone();
    for field in &mut schema.fields {
        visit(field, base, latest);
    }
    schema
}
