//! Which incoming schemas can be appended to a table, and as which fields (format chapter 30, 12).
//!
//! Fields are matched by name in any order. Nullable ones may be missing. Nullability and metadata of the incoming
//! fields do not count; types must be equal.

use std::sync::Arc;

use glaive_file::schema::BlobForm;
use glaive_file::{Error, Field, LogicalType, Result, Schema};

/// The fields of the table that the incoming data holds, in its order.
///
/// # Errors
/// Schema mismatch `Append with different schema: ...`.
pub(super) fn fields_for_append(table: &Schema, given: &Schema) -> Result<Vec<Arc<Field>>> {
    match_fields(&table.fields, &given.fields, "")
        .map_err(|why| Error::schema_mismatch(format!("Append with different schema: {why}")))
}

fn match_fields(table: &[Arc<Field>], given: &[Arc<Field>], parent: &str) -> Result<Vec<Arc<Field>>, String> {
    let path = |field: &Arc<Field>| format!("{parent}{}", field.name);
    let find = |list: &[Arc<Field>], name: &str| list.iter().find(|field| field.name == name).cloned();
    let missing = table
        .iter()
        .filter(|field| !field.nullable && find(given, &field.name).is_none());
    let missing: Vec<_> = missing.map(path).collect();
    let unexpected = given.iter().filter(|field| find(table, &field.name).is_none());
    let unexpected: Vec<_> = unexpected.map(path).collect();
    if !missing.is_empty() || !unexpected.is_empty() {
        let (missing, unexpected) = (missing.join(", "), unexpected.join(", "));
        return Err(format!(
            "fields did not match, missing=[{missing}], unexpected=[{unexpected}]"
        ));
    }
    let pairs = given
        .iter()
        .filter_map(|field| Some((find(table, &field.name)?, field)));
    pairs
        .map(|(table, given)| match_field(&table, given, &path(given)))
        .collect()
}

/// The field of the table with the children that are given.
fn match_field(table: &Arc<Field>, given: &Field, path: &str) -> Result<Arc<Field>, String> {
    if table.logical_type != given.logical_type {
        let (expected, found) = (&table.logical_type, &given.logical_type);
        return Err(format!(
            "`{path}` should have type {expected} but type was {found}"
        ));
    }
    if table.blob_form() == Some(BlobForm::V2) {
        return match given.child("data").is_some() {
            // A range of a URI may be given or not, whatever the table began with.
            true => Ok(table.clone()),
            false => Err(format!("`{path}` should be a blob: a struct of data and uri")),
        };
    }
    let below = format!("{path}.");
    let children = match (
        &table.logical_type,
        table.children.as_slice(),
        given.children.as_slice(),
    ) {
        (LogicalType::Struct, table, given) => match_fields(table, given, &below),
        // The names of items and map entries carry no meaning.
        (_, [table], [given]) => {
            match_field(table, given, &format!("{below}{}", table.name)).map(|child| vec![child])
        }
        _ => Ok(Vec::new()),
    };
    let children = children.map_err(|why| format!("`{path}` had mismatched children: {why}"))?;
    Ok(Arc::new(Field {
        children,
        ..table.as_ref().clone()
    }))
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};

    use super::*;

    fn schema(fields: Vec<ArrowField>) -> Schema {
        Schema::try_from_arrow(&ArrowSchema::new(fields)).unwrap()
    }

    fn int(name: &str, nullable: bool) -> ArrowField {
        ArrowField::new(name, DataType::Int64, nullable)
    }

    fn structs(fields: Vec<ArrowField>) -> ArrowField {
        ArrowField::new("s", DataType::Struct(fields.into()), true)
    }

    #[test]
    fn accepted() {
        let table = schema(vec![
            int("a", false),
            int("b", true),
            structs(vec![int("x", true), int("y", true)]),
        ]);
        let ids = |given| {
            let fields = fields_for_append(&table, &schema(given)).unwrap();
            let fields = Schema {
                fields,
                ..Schema::default()
            };
            fields
                .fields_pre_order()
                .iter()
                .map(|field| field.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(vec![int("b", false), int("a", true)]), [1, 0]);
        assert_eq!(
            ids(vec![int("a", false), structs(vec![int("y", true)])]),
            [0, 2, 4]
        );
    }

    #[test]
    fn refused_with_the_known_texts() {
        let table = schema(vec![int("a", false), structs(vec![int("x", true)])]);
        let text = |given| fields_for_append(&table, &schema(given)).unwrap_err().to_string();
        let prefix = "Append with different schema: ";
        assert_eq!(
            text(vec![int("a", true), int("z", true)]),
            format!("{prefix}fields did not match, missing=[], unexpected=[z]")
        );
        assert_eq!(
            text(vec![]),
            format!("{prefix}fields did not match, missing=[a], unexpected=[]")
        );
        assert_eq!(
            text(vec![ArrowField::new("a", DataType::Int32, true)]),
            format!("{prefix}`a` should have type int64 but type was int32")
        );
        assert_eq!(
            text(vec![int("a", true), structs(vec![int("q", true)])]),
            format!(
                "{prefix}`s` had mismatched children: fields did not match, missing=[], unexpected=[s.q]"
            )
        );
        assert!(text(vec![int("A", false)]).contains("unexpected=[A]"));
    }
}
