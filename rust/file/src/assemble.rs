//! From decoded leaf columns to Arrow arrays.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, NullArray, StructArray, make_array, new_null_array};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::schema::Field;
use crate::v2_1::{ColumnSink, Values};
use crate::{Context, Error, Result};

/// A decoded leaf column; `None` where no file holds it.
type Leaf = Option<ColumnSink>;

/// Builds the array of `field` from the next leaf columns, which come in the order of the field's leaves. A field without
/// any leaf is all null.
pub fn assemble(field: &Field, rows: usize, leaves: &mut impl Iterator<Item = Leaf>) -> Result<ArrayRef> {
    let node = assemble_node(field, rows, leaves).context(|| format!("column '{}'", field.name))?;
    if node.above.is_none() && rows > 0 && !field.nullable {
        return Err(Error::corrupt(format!(
            "no data file holds the non-nullable column '{}'",
            field.name
        )));
    }
    Ok(node.array)
}

/// An array and the validity of the nodes above it, the nearest first; `None` if no leaf below knows it.
struct Node {
    array: ArrayRef,
    above: Option<Vec<Option<NullBuffer>>>,
}

fn assemble_node(field: &Field, rows: usize, leaves: &mut impl Iterator<Item = Leaf>) -> Result<Node> {
    let data_type = field.data_type();
    let DataType::Struct(fields) = &data_type else {
        let leaf = leaves
            .next()
            .ok_or_else(|| Error::corrupt("a column is missing"))?;
        let Some(sink) = leaf else {
            return Ok(missing(&data_type, rows));
        };
        let mut validity = sink
            .layers
            .iter()
            .map(|layer| layer.finish())
            .collect::<Vec<_>>()
            .into_iter();
        let own = validity.next().flatten();
        let array = leaf_array(&data_type, rows, sink.values, own)?;
        return Ok(Node {
            array,
            above: Some(visible(validity.collect())),
        });
    };
    let mut children = Vec::with_capacity(field.children.len());
    let mut above = None;
    for child in &field.children {
        let node = assemble_node(child, rows, leaves)?;
        above = merge(above, node.above)?;
        children.push(node.array);
    }
    let Some(above) = above else {
        return Ok(missing(&data_type, rows));
    };
    let mut above = above.into_iter();
    let own = above.next().flatten();
    let array = StructArray::try_new_with_length(fields.clone(), children, own, rows)
        .map_err(|e| Error::corrupt(e.to_string()))?;
    Ok(Node {
        array: Arc::new(array),
        above: Some(above.collect()),
    })
}

/// A node below a null node is null, whether or not the page says so: pages may differ in that.
fn visible(mut nodes: Vec<Option<NullBuffer>>) -> Vec<Option<NullBuffer>> {
    let mut outer: Option<NullBuffer> = None;
    for node in nodes.iter_mut().rev() {
        outer = NullBuffer::union(node.as_ref(), outer.as_ref());
        node.clone_from(&outer);
    }
    nodes
}

fn missing(data_type: &DataType, rows: usize) -> Node {
    Node {
        array: new_null_array(data_type, rows),
        above: None,
    }
}

/// Sibling columns must tell the same about the nodes they share.
fn merge(
    known: Option<Vec<Option<NullBuffer>>>,
    other: Option<Vec<Option<NullBuffer>>>,
) -> Result<Option<Vec<Option<NullBuffer>>>> {
    match (known, other) {
        (Some(known), Some(other)) if known != other => Err(Error::corrupt(
            "the children of a struct disagree about where it is null",
        )),
        (known, other) => Ok(known.or(other)),
    }
}

fn leaf_array(
    data_type: &DataType,
    rows: usize,
    values: Values,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let buffers = match values {
        Values::Null => return Ok(Arc::new(NullArray::new(rows))),
        Values::Bits { bits, len } => {
            if len != rows {
                return Err(Error::corrupt(format!("{len} booleans in {rows} rows")));
            }
            return Ok(Arc::new(BooleanArray::new(
                BooleanBuffer::new(aligned(&bits), 0, len),
                nulls,
            )));
        }
        Values::Fixed { data, .. } => vec![data.into_buffer()],
        Values::Variable { offsets, data } => vec![offsets.into_buffer(), data.into()],
    };
    let data = ArrayData::builder(data_type.clone())
        .len(rows)
        .nulls(nulls)
        .buffers(buffers);
    // Validates lengths, offsets and UTF-8: the bytes come from an untrusted file.
    Ok(make_array(
        data.build().map_err(|e| Error::corrupt(e.to_string()))?,
    ))
}

fn aligned(bytes: &[u8]) -> Buffer {
    let mut buffer = MutableBuffer::with_capacity(bytes.len());
    buffer.extend_from_slice(bytes);
    buffer.into()
}
