//! From decoded leaf columns to Arrow arrays.

use std::sync::Arc;

use arrow_array::GenericByteArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, cast::AsArray};
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeListArray, LargeListArray, ListArray, MapArray, NullArray, StructArray,
    make_array, new_null_array,
};
use arrow_buffer::{
    BooleanBuffer, Buffer, BufferBuilder, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer,
};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef};

use crate::schema::Field;
use crate::v2_1::{ColumnSink, DictionaryValues, FinishedNode, ListLevel, Offsets, Values};
use crate::{Context, Error, Result};

/// Builds the array of `field` from the next leaf arrays, which come in the order of the field's leaves. A field without
/// any leaf is all null.
pub fn assemble(field: &Field, rows: usize, leaves: &mut impl Iterator<Item = Built>) -> Result<ArrayRef> {
    let place = || format!("column '{}'", field.name);
    let built = build(field, leaves).context(place)?;
    let array = match built {
        Built::Present { array, .. } => array,
        Built::Missing => new_null_array(&field.data_type(), rows),
    };
    if !field.nullable && array.logical_null_count() > 0 {
        return Err(Error::corrupt(
            "nulls in a non-nullable column, or no data file holds it",
        ))
        .context(place);
    }
    Ok(array)
}

/// A node of a field on its way up.
#[derive(Debug)]
pub enum Built {
    /// Some leaf below is stored: the array, and the nodes above it, the nearest first.
    Present {
        /// The array of this node.
        array: ArrayRef,
        /// The nodes above it.
        above: Vec<FinishedNode>,
    },
    /// No file holds any leaf below.
    Missing,
}

fn build(field: &Field, leaves: &mut impl Iterator<Item = Built>) -> Result<Built> {
    if field.is_column_leaf() {
        return leaves.next().ok_or_else(|| Error::corrupt("a column is missing"));
    }
    let children = field
        .children
        .iter()
        .map(|child| build(child, leaves))
        .collect::<Result<Vec<_>>>()?;
    let mut above: Option<Vec<FinishedNode>> = None;
    for child in &children {
        if let Built::Present { above: nodes, .. } = child {
            match &above {
                Some(known) if known != nodes => {
                    return Err(Error::corrupt(
                        "the children of one field disagree about its nulls or lists",
                    ));
                }
                Some(_) => {}
                None => above = Some(nodes.clone()),
            }
        }
    }
    let Some(mut above) = above else {
        return Ok(Built::Missing);
    };
    if above.is_empty() {
        return Err(Error::corrupt("a column has fewer layers than its field"));
    }
    let own = above.remove(0);
    let len = child_len(&own, &children)?;
    let arrays = field
        .children
        .iter()
        .zip(children)
        .map(|(child, built)| match built {
            Built::Present { array, .. } => array,
            Built::Missing => new_null_array(&child.data_type(), len),
        });
    let array = nest(&field.data_type(), own, arrays.collect(), len).map_err(|e| match e.kind() {
        // Arrow's own words for lengths and nulls that do not fit.
        crate::ErrorKind::Io => Error::corrupt(e.to_string()),
        _ => e,
    })?;
    Ok(Built::Present { array, above })
}

/// Rows of the children of a node, as its own levels tell.
fn child_len(own: &FinishedNode, children: &[Built]) -> Result<usize> {
    let stored = children.iter().find_map(|c| match c {
        Built::Present { array, .. } => Some(array.len()),
        Built::Missing => None,
    });
    let len = stored.unwrap_or_default();
    let told = match own {
        FinishedNode::List(offsets, _) => offsets.last().and_then(|&end| usize::try_from(end).ok()),
        _ => Some(len),
    };
    if told != Some(len) {
        return Err(Error::corrupt(format!(
            "lists of {told:?} items over {len} values"
        )));
    }
    Ok(len)
}

fn nest(
    data_type: &DataType,
    own: FinishedNode,
    mut children: Vec<ArrayRef>,
    len: usize,
) -> Result<ArrayRef> {
    let mut only = || {
        children
            .pop()
            .ok_or_else(|| Error::corrupt("a list without items"))
    };
    Ok(match (data_type, own) {
        (DataType::Struct(fields), FinishedNode::Item(nulls)) => Arc::new(StructArray::try_new_with_length(
            fields.clone(),
            children,
            nulls,
            len,
        )?),
        (DataType::List(item), FinishedNode::List(offsets, nulls)) => Arc::new(ListArray::try_new(
            item.clone(),
            small_offsets(&offsets)?,
            only()?,
            nulls,
        )?),
        (DataType::LargeList(item), FinishedNode::List(offsets, nulls)) => Arc::new(LargeListArray::try_new(
            item.clone(),
            OffsetBuffer::new(offsets.into()),
            only()?,
            nulls,
        )?),
        (DataType::Map(entries, sorted), FinishedNode::List(offsets, nulls)) => {
            let array = only()?;
            let structs = array
                .as_struct_opt()
                .ok_or_else(|| Error::corrupt("a map without entries"))?;
            let structs = without_nulls(entries, structs)?;
            Arc::new(MapArray::try_new(
                entries.clone(),
                small_offsets(&offsets)?,
                structs,
                nulls,
                *sorted,
            )?)
        }
        (DataType::FixedSizeList(item, size), FinishedNode::Repeated(_, nulls)) => {
            Arc::new(FixedSizeListArray::try_new(item.clone(), *size, only()?, nulls)?)
        }
        (other, _) => {
            return Err(Error::corrupt(format!(
                "the layers of a column do not fit type {other}"
            )));
        }
    })
}

/// Entries of a map cannot be null themselves.
fn without_nulls(entries: &FieldRef, array: &StructArray) -> Result<StructArray> {
    if array.null_count() > 0 && !entries.is_nullable() {
        return Err(Error::corrupt("null entries in a map"));
    }
    Ok(array.clone())
}

fn small_offsets(offsets: &[i64]) -> Result<OffsetBuffer<i32>> {
    let last = offsets.last().copied().unwrap_or_default();
    if i32::try_from(last).is_err() {
        return Err(Error::unsupported(format!(
            "{last} list items in one batch: read fewer rows at a time"
        )));
    }
    let mut narrow = BufferBuilder::<i32>::new(offsets.len());
    // All offsets are at most the last, which fits.
    offsets.iter().for_each(|&offset| narrow.append(offset as i32));
    Ok(OffsetBuffer::new(ScalarBuffer::from(narrow.finish())))
}

/// Builds the array of a decoded leaf column. This validates its values, so it belongs to the work of a column.
pub fn leaf(field: &Field, sink: ColumnSink) -> Result<Built> {
    let (len, mut nodes) = sink.structure.finish();
    nodes = visible(nodes);
    let own = match nodes.is_empty() {
        false => nodes.remove(0),
        true => return Err(Error::corrupt("a column without layers")),
    };
    let FinishedNode::Item(nulls) = own else {
        return Err(Error::corrupt("a leaf that is a list"));
    };
    Ok(Built::Present {
        array: leaf_array(&field.data_type(), len, sink.values, nulls)?,
        above: nodes,
    })
}

/// A node below a null node is null, whether or not its page says so: pages and columns may differ in that. Below a list the
/// levels leave no such freedom.
fn visible(mut nodes: Vec<FinishedNode>) -> Vec<FinishedNode> {
    let mut outer: Option<NullBuffer> = None;
    for node in nodes.iter_mut().skip(1).rev() {
        match node {
            FinishedNode::Item(nulls) => {
                *nulls = NullBuffer::union(nulls.as_ref(), outer.as_ref());
                outer.clone_from(nulls);
            }
            FinishedNode::Repeated(size, nulls) => {
                *nulls = NullBuffer::union(nulls.as_ref(), outer.as_ref());
                outer = nulls.as_ref().map(|n| n.expand(*size as usize));
            }
            FinishedNode::List(..) => outer = None,
        }
    }
    nodes
}

fn leaf_array(
    data_type: &DataType,
    len: usize,
    values: Values,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let buffers = match values {
        Values::Null => return Ok(Arc::new(NullArray::new(len))),
        Values::EmptyStruct => return Ok(Arc::new(StructArray::new_empty_fields(len, nulls))),
        Values::Packed(children) => return packed_array(data_type, len, children, nulls),
        Values::Dictionary(keyed) => return dictionary_array(data_type, len, *keyed, nulls),
        Values::Bits { bits, len: found } => {
            if found != len {
                return Err(Error::corrupt(format!("{found} booleans in {len} slots")));
            }
            return Ok(Arc::new(BooleanArray::new(
                BooleanBuffer::new(aligned(&bits), 0, len),
                nulls,
            )));
        }
        Values::FixedSizeList { levels, items } => {
            return list_array(data_type, len, levels.into_iter(), *items, nulls);
        }
        Values::Fixed { data, .. } => vec![data.into_buffer()],
        Values::Variable { offsets, data } => return byte_array(data_type, offsets, data.into(), nulls),
    };
    let data = ArrayData::builder(data_type.clone())
        .len(len)
        .nulls(nulls)
        .buffers(buffers);
    Ok(make_array(
        data.build().map_err(|e| Error::corrupt(e.to_string()))?,
    ))
}

fn packed_array(
    data_type: &DataType,
    len: usize,
    children: Vec<Values>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = data_type else {
        return Err(Error::corrupt("a packed column of another type"));
    };
    let arrays = fields
        .iter()
        .zip(children)
        .map(|(field, values)| leaf_array(field.data_type(), len, values, None))
        .collect::<Result<_>>()?;
    let array = StructArray::try_new_with_length(fields.clone(), arrays, nulls, len);
    Ok(Arc::new(array.map_err(|e| Error::corrupt(e.to_string()))?))
}

fn dictionary_array(
    data_type: &DataType,
    len: usize,
    keyed: DictionaryValues,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::Dictionary(_, value) = data_type else {
        return Err(Error::corrupt("dictionary keys in a column of another type"));
    };
    let (keys, mut items, mut num_items) = keyed.finish();
    if num_items == 0 && nulls.as_ref().map_or(0, NullBuffer::null_count) < len {
        // Only a struct above is null: its rows need a key, and a key an item.
        items.push_default(1)?;
        num_items = 1;
    }
    let items = leaf_array(value, num_items, items, None)?;
    let data = ArrayData::builder(data_type.clone())
        .len(len)
        .nulls(nulls)
        .add_buffer(keys)
        .add_child_data(items.to_data());
    Ok(make_array(
        data.build().map_err(|e| Error::corrupt(e.to_string()))?,
    ))
}

/// Strings and binaries. The offsets are ours and in order; the bytes come from an untrusted file, so text is validated.
fn byte_array(
    data_type: &DataType,
    offsets: Offsets,
    bytes: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    fn make<T: ByteArrayType>(
        offsets: Buffer,
        bytes: Buffer,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(GenericByteArray::<T>::try_new(offsets, bytes, nulls)?))
    }
    let offset_buffer = |expected_wide: bool| match (offsets, expected_wide) {
        (Offsets::I32(offsets), false) | (Offsets::I64(offsets), true) => Ok(Buffer::from(offsets)),
        _ => Err(Error::corrupt("offsets of the wrong width")),
    };
    let array = match data_type {
        DataType::Utf8 => make::<Utf8Type>(offset_buffer(false)?, bytes, nulls),
        DataType::Binary => make::<BinaryType>(offset_buffer(false)?, bytes, nulls),
        DataType::LargeUtf8 => make::<LargeUtf8Type>(offset_buffer(true)?, bytes, nulls),
        DataType::LargeBinary => make::<LargeBinaryType>(offset_buffer(true)?, bytes, nulls),
        other => {
            return Err(Error::corrupt(format!(
                "variable-width values in a column of type {other}"
            )));
        }
    };
    array.map_err(|e| Error::corrupt(e.to_string()))
}

/// Nested fixed-size lists, the outermost first.
fn list_array(
    data_type: &DataType,
    len: usize,
    mut levels: impl Iterator<Item = ListLevel>,
    items: Values,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let (DataType::FixedSizeList(item, size), Some(level)) = (data_type, levels.next()) else {
        return leaf_array(data_type, len, items, nulls);
    };
    let item_nulls = level.validity.finish();
    let inner = list_array(item.data_type(), len * level.dimension, levels, items, item_nulls)?;
    let array = FixedSizeListArray::try_new(item.clone(), *size, inner, nulls);
    Ok(Arc::new(array.map_err(|e| Error::corrupt(e.to_string()))?))
}

fn aligned(bytes: &[u8]) -> Buffer {
    let mut buffer = MutableBuffer::with_capacity(bytes.len());
    buffer.extend_from_slice(bytes);
    buffer.into()
}
