//! The leaf columns of a field (format chapter 10, 8.1, and chapter 21, 3.1).

use std::sync::Arc;

use crate::schema::{Field, LogicalType};
use crate::v2_1::{NodeKind, ValueShape};
use crate::{Context, Error, Result};

/// A leaf field: it owns a column.
#[derive(Debug, Clone)]
pub struct LeafField {
    /// The field.
    pub field: Arc<Field>,
    /// Names from the top-level field to the leaf, joined by dots: for messages.
    pub path: Arc<str>,
    /// Children to take from the top-level field to the leaf.
    pub steps: Vec<usize>,
    /// Physical form of its values.
    pub shape: ValueShape,
    /// The nodes of its path, leaf first.
    pub nodes: Vec<NodeKind>,
}

/// The leaf columns of a field, in column order.
///
/// # Errors
/// `Unsupported` for types whose columns this engine does not know.
pub fn leaf_fields(field: &Arc<Field>) -> Result<Vec<LeafField>> {
    let mut out = Vec::new();
    let root = LeafField {
        field: field.clone(),
        path: field.name.as_str().into(),
        steps: Vec::new(),
        shape: ValueShape::Null,
        nodes: Vec::new(),
    };
    walk(root, &mut out)?;
    Ok(out)
}

fn walk(mut node: LeafField, out: &mut Vec<LeafField>) -> Result<()> {
    let place = format!("column '{}'", node.path);
    let Some(kind) = inner_kind(&node.field) else {
        node.shape = shape_of(&node.field).context(|| place.clone())?;
        node.nodes.insert(0, NodeKind::Item);
        if node.shape == ValueShape::EmptyStruct && node.nodes.contains(&NodeKind::List) {
            return Err(empty_struct(&node.field.name)).context(|| place);
        }
        out.push(node);
        return Ok(());
    };
    node.nodes.insert(0, kind);
    if node.nodes.iter().any(|n| matches!(n, NodeKind::Repeated(_))) && node.nodes.contains(&NodeKind::List) {
        return Err(Error::unsupported(
            "Unsupported data type: fixed-size lists of structs together with lists",
        )
        .context(place));
    }
    for (step, child) in node.field.children.iter().enumerate() {
        let mut below = node.clone();
        below.field = child.clone();
        below.path = format!("{}.{}", node.path, child.name).into();
        below.steps.push(step);
        walk(below, out)?;
    }
    Ok(())
}

/// The physical form of the values of a leaf.
fn shape_of(field: &Field) -> Result<ValueShape> {
    if let Some(form) = field.blob_form() {
        return form.shape();
    }
    if field.is_packed() && !field.children.is_empty() {
        let types: Vec<_> = field.children.iter().map(|child| child.data_type()).collect();
        return ValueShape::packed(types.iter());
    }
    ValueShape::of(&field.data_type())
}

/// The error for an empty struct that would need levels.
pub fn empty_struct(name: &str) -> Error {
    Error::invalid_input(format!(
        "Empty structs with rep/def information are not yet supported.  The field {name} is an empty struct that either \
         has nulls or is in a list."
    ))
}

/// What a field means for the levels of the columns below it; `None` for a leaf.
fn inner_kind(field: &Field) -> Option<NodeKind> {
    match &field.logical_type {
        _ if field.is_blob() => None,
        LogicalType::Struct if field.children.is_empty() || field.is_packed() => None,
        LogicalType::Struct => Some(NodeKind::Item),
        LogicalType::List { .. } | LogicalType::Map => Some(NodeKind::List),
        LogicalType::FixedSizeList { dimension, .. } if !field.children.is_empty() => {
            Some(NodeKind::Repeated(dimension.unsigned_abs().max(1)))
        }
        _ => None,
    }
}
