//! The leaf columns of a field (format chapter 10, 8.1, and chapter 21, 3.1).

use std::sync::Arc;

use arrow_schema::DataType;

use crate::schema::{Field, LogicalType};
use crate::v2_1::{NodeKind, ValueShape};
use crate::{Context, Error, Result};

/// A leaf field: it owns a column.
#[derive(Debug, Clone)]
pub struct LeafField {
    /// The field.
    pub field: Arc<Field>,
    /// Names from the top-level field to the leaf, joined by dots: for messages.
    pub path: String,
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
        path: field.name.clone(),
        steps: Vec::new(),
        shape: ValueShape::Null,
        nodes: Vec::new(),
    };
    walk(root, &mut out)?;
    Ok(out)
}

fn walk(mut node: LeafField, out: &mut Vec<LeafField>) -> Result<()> {
    let place = format!("column '{}'", node.path);
    check_supported(&node.field).context(|| place.clone())?;
    let Some(kind) = inner_kind(&node.field) else {
        node.shape = ValueShape::of(&node.field.data_type()).context(|| place)?;
        node.nodes.insert(0, NodeKind::Item);
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
        below.path = format!("{}.{}", node.path, child.name);
        below.steps.push(step);
        walk(below, out)?;
    }
    Ok(())
}

/// What a field means for the levels of the columns below it; `None` for a leaf.
fn inner_kind(field: &Field) -> Option<NodeKind> {
    match &field.logical_type {
        LogicalType::Struct => Some(NodeKind::Item),
        LogicalType::List { .. } | LogicalType::Map => Some(NodeKind::List),
        LogicalType::FixedSizeList { dimension, .. } if !field.children.is_empty() => {
            Some(NodeKind::Repeated(dimension.unsigned_abs().max(1)))
        }
        _ => None,
    }
}

/// Refuses fields whose columns need page layouts that are not implemented.
fn check_supported(field: &Field) -> Result<()> {
    let feature = match field.data_type() {
        _ if field.is_blob() => "blob columns (metadata key lance-encoding:blob)",
        _ if field.is_packed() => "packed structs (metadata key lance-encoding:packed)",
        DataType::Struct(children) if children.is_empty() => "empty structs",
        DataType::Dictionary(..) => "Arrow dictionaries",
        _ if field.logical_type == LogicalType::Json => "JSON columns",
        _ => return Ok(()),
    };
    Err(Error::unsupported(format!(
        "Unsupported data type: {feature} are not supported yet"
    )))
}
