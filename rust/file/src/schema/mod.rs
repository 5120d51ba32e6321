//! Schemas: a tree of fields with ids, in Arrow form and as stored in files and manifests.
//!
//! A field is known by its id: renames keep it, and a data file says for each of its columns which id it holds.

mod blob;
mod field;
mod logical_type;
mod path;
mod proto;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Schema as ArrowSchema};

pub use blob::{BlobForm, BlobHandling};
pub use field::{
    BLOB, BLOB_V2, CLUSTERING_KEY_POSITION, FIELD_ID, Field, PRIMARY_KEY, PRIMARY_KEY_POSITION, is_truthy,
};
pub use logical_type::{BFLOAT16, EXTENSION_METADATA, EXTENSION_NAME, LogicalType};
pub use path::parse_path;

use crate::{Error, FileVersion, Result};

/// The fields of a table or file and its metadata.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schema {
    /// Top-level fields in order.
    pub fields: Vec<Arc<Field>>,
    /// Arrow schema metadata.
    pub metadata: BTreeMap<String, String>,
}

impl Schema {
    /// Gives ids to an Arrow schema: in pre-order from 0, or behind the largest `lance:field_id` found in the
    /// metadata, whose owners keep theirs (format chapter 10, 6).
    ///
    /// # Errors
    /// `Unsupported data type: ...`; invalid input for an id given twice or a malformed key position.
    pub fn try_from_arrow(arrow: &ArrowSchema) -> Result<Self> {
        let fields = arrow
            .fields()
            .iter()
            .map(|field| {
                Field::try_from_arrow(field).map_err(|e| e.context(format!("column '{}'", field.name())))
            })
            .collect::<Result<Vec<_>>>()?;
        let metadata = arrow
            .metadata()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut schema = Self {
            fields: fields.into_iter().map(Arc::new).collect(),
            metadata,
        };
        schema.assign_ids(0)?;
        Ok(schema)
    }

    /// Gives an id to every field without one (-1), in pre-order from the larger of `next` and the largest id + 1.
    ///
    /// # Errors
    /// Invalid input if an id occurs twice or the ids run out.
    pub fn assign_ids(&mut self, next: i32) -> Result<()> {
        let mut next = i64::from(next).max(i64::from(self.max_field_id().unwrap_or(-1)) + 1);
        for field in &mut self.fields {
            assign(field, &mut next);
        }
        if next > i64::from(i32::MAX) {
            return Err(Error::invalid_input("the table has used up all field ids"));
        }
        let mut seen = HashSet::new();
        match self
            .fields_pre_order()
            .into_iter()
            .find(|field| !seen.insert(field.id))
        {
            None => Ok(()),
            Some(field) => Err(Error::invalid_input(format!(
                "field id {} of '{}' is given twice; ids must be unique",
                field.id, field.name
            ))),
        }
    }

    /// The Arrow schema with metadata.
    pub fn to_arrow(&self) -> ArrowSchema {
        let fields: Vec<_> = self.fields.iter().map(|field| field.to_arrow()).collect();
        ArrowSchema::new_with_metadata(fields, self.metadata.clone().into_iter().collect())
    }

    /// All fields, parents before children.
    pub fn fields_pre_order(&self) -> Vec<&Arc<Field>> {
        let mut out = Vec::new();
        self.fields
            .iter()
            .for_each(|field| field.walk(&mut |node| out.push(node)));
        out
    }

    /// The fields that own a column of a file of that version, in column order (format chapter 10, 8.1).
    pub fn leaf_fields(&self, version: FileVersion) -> Vec<Arc<Field>> {
        let mut out = Vec::new();
        self.fields
            .iter()
            .for_each(|field| field.collect_columns(version, &mut out));
        out
    }

    /// The field at a path: a top-level name, or names joined by dots, back-quoted where a name has a dot or space.
    pub fn field(&self, path: &str) -> Option<&Arc<Field>> {
        self.resolve(path).and_then(|steps| steps.last().copied())
    }

    /// The field of that id, at any depth.
    pub fn field_by_id(&self, id: i32) -> Option<&Arc<Field>> {
        self.fields_pre_order().into_iter().find(|field| field.id == id)
    }

    /// The largest id, negative ones ignored.
    pub fn max_field_id(&self) -> Option<i32> {
        self.fields_pre_order()
            .iter()
            .map(|field| field.id)
            .filter(|id| *id >= 0)
            .max()
    }

    /// The schema of the named columns: structs hold only the named children, top-level order is that of the first
    /// mention, and metadata is kept.
    ///
    /// # Errors
    /// Invalid input: `No field named ...`.
    pub fn project<S: AsRef<str>>(&self, paths: &[S]) -> Result<Self> {
        let mut fields: Vec<Arc<Field>> = Vec::new();
        for path in paths {
            let steps = self
                .resolve(path.as_ref())
                .ok_or_else(|| no_field(path.as_ref()))?;
            merge_into(&mut fields, pruned(&steps));
        }
        Ok(Self {
            fields,
            metadata: self.metadata.clone(),
        })
    }

    /// The fields from the top to the end of a path.
    fn resolve(&self, path: &str) -> Option<Vec<&Arc<Field>>> {
        if let Some(field) = self.fields.iter().find(|field| field.name == path) {
            return Some(vec![field]);
        }
        let mut steps: Vec<&Arc<Field>> = Vec::new();
        for name in parse_path(path)? {
            let next = match steps.last() {
                None => self.fields.iter().find(|field| field.name == name),
                Some(field) => field.child(&name),
            };
            steps.push(next?);
        }
        Some(steps)
    }

    /// Checks that a file of that version can be written with this schema (format chapter 10, 6 and 7).
    ///
    /// # Errors
    /// Unsupported for a type that the version lacks; invalid input for bad names, ids or keys.
    pub fn check_writable(&self, version: FileVersion) -> Result<()> {
        let mut names = HashSet::new();
        for field in &self.fields {
            check_name(&field.name)?;
            if !names.insert(field.name.as_str()) {
                return Err(Error::invalid_input(format!(
                    "Duplicate field name \"{}\" in schema",
                    field.name
                )));
            }
            let place = |e: Error| e.context(format!("column '{}'", field.name));
            check_types(field, version, false).map_err(place)?;
            check_primary_key(field, true).map_err(place)?;
        }
        let mut ids = HashSet::new();
        match self
            .fields_pre_order()
            .into_iter()
            .find(|field| field.id >= 0 && !ids.insert(field.id))
        {
            Some(field) => Err(Error::invalid_input(format!(
                "field id {} occurs twice",
                field.id
            ))),
            None => Ok(()),
        }
    }
}

/// The error for a name that is not in the schema.
pub fn no_field(path: &str) -> Error {
    Error::invalid_input(format!("Schema error: No field named {path}."))
}

fn assign(field: &mut Arc<Field>, next: &mut i64) {
    let field = Arc::make_mut(field);
    if field.id < 0 {
        field.id = i32::try_from(*next).unwrap_or(i32::MAX);
        *next += 1;
    }
    for child in &mut field.children {
        assign(child, next);
    }
}

/// The first field of a path with nothing but the rest of the path below it.
fn pruned(steps: &[&Arc<Field>]) -> Option<Arc<Field>> {
    let (last, parents) = steps.split_last()?;
    Some(parents.iter().rev().fold((*last).clone(), |child, parent| {
        Arc::new(Field {
            children: vec![child],
            ..Field::clone(parent)
        })
    }))
}

fn merge_into(fields: &mut Vec<Arc<Field>>, field: Option<Arc<Field>>) {
    let Some(field) = field else { return };
    match fields.iter_mut().find(|present| present.id == field.id) {
        None => fields.push(field),
        Some(present) => {
            let present = Arc::make_mut(present);
            field
                .children
                .iter()
                .for_each(|child| merge_into(&mut present.children, Some(child.clone())));
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid_input("a column has an empty name; give it one"));
    }
    if name.contains('.') {
        return Err(Error::invalid_input(format!(
            "Top level field {name} cannot contain `.`; the dot separates the names of nested fields"
        )));
    }
    Ok(())
}

/// Types that a version cannot store, although they have a logical type.
fn check_types(field: &Field, version: FileVersion, in_list: bool) -> Result<()> {
    if let Some(why) = blob::cannot_write(field, version, in_list) {
        return Err(Error::unsupported(why));
    }
    if field.is_blob() {
        return Ok(());
    }
    let refuse = |why: &str| {
        let data_type = field.data_type();
        Err(Error::unsupported(format!(
            "Unsupported data type: {data_type} in file version {version}: {why}"
        )))
    };
    let since_2_2 = version >= FileVersion::V2_2;
    match &field.logical_type {
        LogicalType::Map if !since_2_2 => return refuse("Not supported: maps need version 2.2"),
        LogicalType::FixedSizeList { item, .. } => match innermost(item) {
            LogicalType::Struct if !since_2_2 => {
                return refuse("lists of structs of fixed size need version 2.2");
            }
            LogicalType::Dictionary { .. } => return refuse("fixed-size lists hold no dictionaries"),
            LogicalType::Json | LogicalType::Blob => {
                return refuse("fixed-size lists hold fixed-width items");
            }
            LogicalType::Leaf(
                DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::Null,
            ) => return refuse("fixed-size lists hold fixed-width items"),
            _ => {}
        },
        _ => {}
    }
    field.children.iter().try_for_each(|child| {
        check_types(
            child,
            version,
            in_list || field.logical_type != LogicalType::Struct,
        )
    })
}

fn innermost(item: &LogicalType) -> &LogicalType {
    match item {
        LogicalType::FixedSizeList { item, .. } => innermost(item),
        other => other,
    }
}

/// Members of the primary key are leaves that cannot be null, nor any of their parents, and not inside a list.
fn check_primary_key(field: &Field, allowed: bool) -> Result<()> {
    let is_struct = field.logical_type == LogicalType::Struct;
    if field.primary_key.is_some() && !(allowed && !field.nullable && field.children.is_empty()) {
        return Err(Error::invalid_input(format!(
            "'{}' cannot be part of the primary key: it must be a leaf outside of lists, and neither it nor its \
             parents may be nullable",
            field.name
        )));
    }
    let allowed = allowed && is_struct && !field.nullable;
    field
        .children
        .iter()
        .try_for_each(|child| check_primary_key(child, allowed))
}

#[cfg(test)]
mod tests;
