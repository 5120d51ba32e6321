//! Changes of the schema that touch no data file (format chapter 30, 11).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::Schema as ArrowSchema;
use glaive_file::{Error, Field, Result, Schema};

use super::Dataset;
use crate::projection::RESERVED;
use crate::scan::ScanOptions;
use crate::transaction::Operation;
use crate::write::check_nulls;

/// A change of one column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnAlteration {
    /// Which column, nested names joined by dots.
    pub path: String,
    /// Its new name.
    pub rename: Option<String>,
    /// Whether it may hold nulls.
    pub nullable: Option<bool>,
}

impl Dataset {
    /// Drops columns. A struct that loses its last child goes, too.
    ///
    /// # Errors
    /// Invalid input for an unknown column, or if none would be left; commit conflict.
    pub fn drop_columns(&self, paths: &[String]) -> Result<Self> {
        let mut schema = self.schema().clone();
        for path in paths {
            let field = self.column(path)?;
            remove(&mut schema.fields, field.id);
        }
        if schema.fields.is_empty() && !paths.is_empty() {
            return Err(Error::invalid_input("Cannot drop all columns"));
        }
        self.project(schema, true)
    }

    /// Renames columns, or changes whether they may hold nulls.
    ///
    /// # Errors
    /// Invalid input for an unknown column, a name that exists, or nulls in a column that shall have none; commit
    /// conflict.
    pub fn alter_columns(&self, alterations: &[ColumnAlteration]) -> Result<Self> {
        let mut schema = self.schema().clone();
        let mut preserves_nullability = true;
        for alteration in alterations {
            let field = self.column(&alteration.path)?.clone();
            if alteration.nullable == Some(false) && field.nullable {
                self.check_has_no_nulls(&alteration.path, field.id)?;
                preserves_nullability = false;
            }
            edit(&mut schema.fields, field.id, &mut |field| {
                if let Some(name) = &alteration.rename {
                    field.name.clone_from(name);
                }
                field.nullable = alteration.nullable.unwrap_or(field.nullable);
            });
        }
        check_names(&schema.fields)?;
        schema.check_writable(self.data_storage_version())?;
        self.project(schema, preserves_nullability)
    }

    /// Adds columns that are null in all rows there are. A struct that exists gets the children that it lacks.
    ///
    /// # Errors
    /// Invalid input for a column that may not be null or exists with another type; commit conflict.
    pub fn add_null_columns(&self, columns: &ArrowSchema) -> Result<Self> {
        if self.data_storage_version().is_legacy() {
            return Err(Error::unsupported(
                "Not supported: all-null columns in files of version 0.1; add them with values",
            ));
        }
        let mut given = Schema::try_from_arrow(columns)?;
        given.fields.iter_mut().for_each(without_ids);
        let mut schema = self.schema().clone();
        for field in &given.fields {
            if RESERVED.contains(&field.name.as_str()) {
                let name = &field.name;
                return Err(Error::invalid_input(format!(
                    "The column {name} is a reserved name and cannot be used in a Lance dataset"
                )));
            }
            add(&mut schema.fields, field)?;
        }
        let next = self.manifest().highest_field_id().checked_add(1);
        schema
            .assign_ids(next.ok_or_else(|| Error::invalid_input("the table has used up all field ids"))?)?;
        schema.check_writable(self.data_storage_version())?;
        let fragments = self.manifest().fragments.iter();
        let operation = Operation::Merge {
            fragments: fragments.map(|fragment| fragment.as_ref().clone()).collect(),
            schema,
            preserves_nullability: true,
        };
        self.commit_own(operation, &BTreeMap::new())
    }

    fn column(&self, path: &str) -> Result<&Arc<Field>> {
        let field = self.schema().field(path);
        field.ok_or_else(|| Error::invalid_input(format!("Column {path} does not exist in the dataset")))
    }

    fn project(&self, schema: Schema, preserves_nullability: bool) -> Result<Self> {
        let operation = Operation::Project {
            schema,
            preserves_nullability,
        };
        self.commit_own(operation, &BTreeMap::new())
    }

    fn check_has_no_nulls(&self, path: &str, id: i32) -> Result<()> {
        let schema = self.schema().project(&[path])?;
        let mut fields = schema.fields;
        edit(&mut fields, id, &mut |field| field.nullable = false);
        let Some(field) = fields.first() else {
            return Ok(());
        };
        let options = ScanOptions {
            columns: Some(vec![path.to_string()]),
            ..ScanOptions::default()
        };
        for batch in self.scan(options)? {
            let batch = batch?;
            let column = batch.columns().first();
            if column.is_some_and(|column| check_nulls(field, column, path).is_err()) {
                return Err(Error::invalid_input(format!(
                    "Column \"{path}\" contains NULL values and cannot be made non-nullable"
                )));
            }
        }
        Ok(())
    }
}

/// Removes the field of that id, and the structs that it leaves empty.
fn remove(fields: &mut Vec<Arc<Field>>, id: i32) {
    fields.retain_mut(|field| {
        if field.id == id {
            return false;
        }
        let had_children = !field.children.is_empty();
        if had_children {
            remove(&mut Arc::make_mut(field).children, id);
        }
        !had_children || !field.children.is_empty()
    });
}

/// Changes the field of that id.
fn edit(fields: &mut [Arc<Field>], id: i32, change: &mut impl FnMut(&mut Field)) {
    for field in fields {
        let field = Arc::make_mut(field);
        if field.id == id {
            change(field);
        }
        edit(&mut field.children, id, change);
    }
}

fn without_ids(field: &mut Arc<Field>) {
    let field = Arc::make_mut(field);
    field.id = -1;
    field.children.iter_mut().for_each(without_ids);
}

/// Adds a field, or the children that a struct of its name lacks.
fn add(fields: &mut Vec<Arc<Field>>, new: &Arc<Field>) -> Result<()> {
    let Some(present) = fields.iter_mut().find(|field| field.name == new.name) else {
        if !new.nullable {
            return Err(Error::invalid_input(format!(
                "All-null columns must be nullable, but field '{}' is not.",
                new.name
            )));
        }
        fields.push(new.clone());
        return Ok(());
    };
    let clash = || {
        let (old, new) = (present.to_arrow(), new.to_arrow());
        Err(Error::invalid_input(format!(
            "Type conflicts between {}({}) and {}({})",
            old.name(),
            old.data_type(),
            new.name(),
            new.data_type()
        )))
    };
    if present.logical_type != new.logical_type {
        return clash();
    }
    if new.children.is_empty() {
        return Err(Error::invalid_input(format!(
            "Column {} already exists in the dataset",
            new.name
        )));
    }
    let present = Arc::make_mut(present);
    new.children
        .iter()
        .try_for_each(|child| add(&mut present.children, child))
}

fn check_names(fields: &[Arc<Field>]) -> Result<()> {
    for (position, field) in fields.iter().enumerate() {
        if fields.iter().take(position).any(|other| other.name == field.name) {
            return Err(Error::invalid_input(format!(
                "Duplicate field name \"{}\" in schema",
                field.name
            )));
        }
        check_names(&field.children)?;
    }
    Ok(())
}
