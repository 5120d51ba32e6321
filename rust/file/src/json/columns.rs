//! JSON columns at any depth of a batch: text to JSONB before writing, JSONB to text after reading.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, FixedSizeListArray, GenericListArray, LargeBinaryArray, LargeListArray,
    ListArray, MapArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions, StringArray, StructArray,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema};

use super::{decode::decode, encode::encode};
use crate::schema::{EXTENSION_METADATA, EXTENSION_NAME, Field, LogicalType, Schema};
use crate::{Error, Result, Rows};

/// The batch with JSONB in place of JSON text. `first_row` is the number of its first row, for messages.
///
/// # Errors
/// Invalid input, naming column and row, for text that is no JSON.
pub fn encode_batch<'a>(
    schema: &Schema,
    batch: &'a RecordBatch,
    first_row: u64,
) -> Result<Cow<'a, RecordBatch>> {
    if !schema.fields.iter().any(|field| holds_json(field)) {
        return Ok(Cow::Borrowed(batch));
    }
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (arrow, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let encoded = match schema.fields.iter().find(|field| field.name == *arrow.name()) {
            Some(field) => walk(field, column, None, &to_binary)
                .map_err(|fault| fault.error(field, |row| first_row + row as u64))?,
            None => column.clone(),
        };
        fields.push(arrow.as_ref().clone().with_data_type(encoded.data_type().clone()));
        columns.push(encoded);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(ArrowSchema::new(fields));
    let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
    Ok(Cow::Owned(batch))
}

/// The column with JSON text in place of JSONB. `rows` are those that were read, for messages.
///
/// # Errors
/// Corrupt, naming column and row, for bytes that are no JSONB.
pub fn decode_column(field: &Field, column: ArrayRef, rows: &Rows<'_>) -> Result<ArrayRef> {
    if !holds_json(field) {
        return Ok(column);
    }
    let number = |row: usize| match rows {
        Rows::Range(range) => range.start + row as u64,
        Rows::Indices(indices) => indices.get(row).copied().unwrap_or_default(),
    };
    walk(field, &column, None, &to_text).map_err(|fault| fault.error(field, number))
}

/// The Arrow schema whose JSON fields hold text: that of [`decode_column`].
pub fn text_schema(schema: &Schema) -> ArrowSchema {
    let fields: Vec<_> = schema.fields.iter().map(|field| text_field(field)).collect();
    ArrowSchema::new_with_metadata(fields, schema.metadata.clone().into_iter().collect())
}

/// The Arrow field whose JSON holds text.
pub fn text_field(field: &Field) -> FieldRef {
    as_text(field, &field.to_arrow())
}

fn as_text(field: &Field, arrow: &FieldRef) -> FieldRef {
    if !holds_json(field) {
        return arrow.clone();
    }
    let mut metadata: HashMap<_, _> = arrow.metadata().clone();
    let child = |item: &FieldRef| match field.children.first() {
        Some(own) => as_text(own, item),
        None => item.clone(),
    };
    let data_type = match arrow.data_type() {
        _ if field.logical_type == LogicalType::Json => {
            set_extension(&mut metadata, &DataType::Utf8);
            DataType::Utf8
        }
        DataType::Struct(fields) => {
            let pairs = field.children.iter().zip(fields);
            DataType::Struct(pairs.map(|(own, arrow)| as_text(own, arrow)).collect())
        }
        DataType::List(item) => DataType::List(child(item)),
        DataType::LargeList(item) => DataType::LargeList(child(item)),
        DataType::FixedSizeList(item, n) => DataType::FixedSizeList(child(item), *n),
        DataType::Map(entries, sorted) => DataType::Map(child(entries), *sorted),
        other => other.clone(),
    };
    let renewed = ArrowField::new(arrow.name(), data_type, arrow.is_nullable());
    Arc::new(renewed.with_metadata(metadata))
}

fn holds_json(field: &Field) -> bool {
    field.logical_type == LogicalType::Json || field.children.iter().any(|child| holds_json(child))
}

/// What is wrong with one value: where it is below the field, and its row.
struct Fault {
    names: Vec<String>,
    row: usize,
    error: Error,
}

impl Fault {
    fn whole(error: impl Into<Error>) -> Self {
        Self {
            names: Vec::new(),
            row: 0,
            error: error.into(),
        }
    }

    /// The same, seen from the parent.
    fn below(mut self, child: &Field, row: impl FnOnce(usize) -> usize) -> Self {
        self.names.push(child.name.clone());
        self.row = row(self.row);
        self
    }

    fn error(self, field: &Field, number: impl FnOnce(usize) -> u64) -> Error {
        let names = std::iter::once(&field.name).chain(self.names.iter().rev());
        let path: Vec<_> = names.map(String::as_str).collect();
        let place = format!("column '{}', row {}", path.join("."), number(self.row));
        self.error.context(place)
    }
}

type Walked = std::result::Result<ArrayRef, Fault>;
/// Converts the documents of a JSON field. Values where the mask is null are hidden: nobody sees what they are.
type Convert = dyn Fn(&ArrayRef, Option<&NullBuffer>) -> Walked;

fn walk(field: &Field, array: &ArrayRef, hidden: Option<&NullBuffer>, convert: &Convert) -> Walked {
    if field.logical_type == LogicalType::Json {
        return convert(array, hidden);
    }
    let child = field.children.first().filter(|_| holds_json(field));
    match (child, array.data_type()) {
        (Some(_), DataType::Struct(_)) => walk_struct(field, array.as_struct(), hidden, convert),
        (Some(child), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let (offsets, values, nulls) = walk_list(child, list, convert)?;
            let list = ListArray::try_new(retyped(item, child, &values), offsets, values, nulls);
            list.map(|list| Arc::new(list) as ArrayRef).map_err(Fault::whole)
        }
        (Some(child), DataType::LargeList(item)) => {
            let list = array.as_list::<i64>();
            let (offsets, values, nulls) = walk_list(child, list, convert)?;
            let list = LargeListArray::try_new(retyped(item, child, &values), offsets, values, nulls);
            list.map(|list| Arc::new(list) as ArrayRef).map_err(Fault::whole)
        }
        (Some(child), DataType::FixedSizeList(item, n)) => {
            let (list, n) = (array.as_fixed_size_list(), *n);
            let width = n.unsigned_abs().max(1) as usize;
            let hidden = NullBuffer::union(list.nulls(), hidden).map(|nulls| nulls.expand(width));
            let values = walk(child, list.values(), hidden.as_ref(), convert)
                .map_err(|fault| fault.below(child, |item| item / width))?;
            let nulls = list.nulls().cloned();
            let list = FixedSizeListArray::try_new(retyped(item, child, &values), n, values, nulls);
            list.map(|list| Arc::new(list) as ArrayRef).map_err(Fault::whole)
        }
        (Some(child), DataType::Map(entries, sorted)) => {
            let map = array.as_map();
            let as_list = ListArray::try_new(
                entries.clone(),
                map.offsets().clone(),
                Arc::new(map.entries().clone()),
                map.nulls().cloned(),
            )
            .map_err(Fault::whole)?;
            let (offsets, values, nulls) = walk_list(child, &as_list, convert)?;
            let entries = retyped(entries, child, &values);
            let map = MapArray::try_new(entries, offsets, values.as_struct().clone(), nulls, *sorted);
            map.map(|map| Arc::new(map) as ArrayRef).map_err(Fault::whole)
        }
        // Other types stay what they are; whether they fit the field is checked later.
        _ => Ok(array.clone()),
    }
}

fn walk_struct(field: &Field, array: &StructArray, hidden: Option<&NullBuffer>, convert: &Convert) -> Walked {
    let hidden = NullBuffer::union(array.nulls(), hidden);
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (number, (arrow, column)) in array.fields().iter().zip(array.columns()).enumerate() {
        // The fields of a map's entries may have other names.
        let Some(child) = field.child(arrow.name()).or_else(|| field.children.get(number)) else {
            fields.push(arrow.clone());
            columns.push(column.clone());
            continue;
        };
        let column =
            walk(child, column, hidden.as_ref(), convert).map_err(|fault| fault.below(child, |row| row))?;
        fields.push(retyped(arrow, child, &column));
        columns.push(column);
    }
    let nulls = array.nulls().cloned();
    let array = StructArray::try_new_with_length(fields.into(), columns, nulls, array.len());
    array
        .map(|array| Arc::new(array) as ArrayRef)
        .map_err(Fault::whole)
}

type ListParts<O> = (OffsetBuffer<O>, ArrayRef, Option<NullBuffer>);

/// Offsets from 0, the items that lie between them, validity.
fn walk_list<O: OffsetSizeTrait>(
    item: &Field,
    list: &GenericListArray<O>,
    convert: &Convert,
) -> std::result::Result<ListParts<O>, Fault> {
    let offsets = list.value_offsets();
    let first = offsets.first().copied().unwrap_or_default();
    let last = offsets.last().copied().unwrap_or_default();
    let items = list.values().slice(first.as_usize(), (last - first).as_usize());
    let shifted: Vec<O> = offsets.iter().map(|offset| *offset - first).collect();
    let hidden = list.nulls().map(|nulls| {
        let mut visible = BooleanBufferBuilder::new(items.len());
        for (bounds, valid) in shifted.windows(2).zip(nulls) {
            if let [start, end] = bounds {
                visible.append_n((*end - *start).as_usize(), valid);
            }
        }
        NullBuffer::new(visible.finish())
    });
    let row_of = |i: usize| {
        shifted
            .partition_point(|offset| offset.as_usize() <= i)
            .saturating_sub(1)
    };
    let items = walk(item, &items, hidden.as_ref(), convert).map_err(|fault| fault.below(item, row_of))?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(shifted));
    Ok((offsets, items, list.nulls().cloned()))
}

/// The Arrow field of converted values, with the extension that fits them.
fn retyped(arrow: &FieldRef, own: &Field, values: &ArrayRef) -> FieldRef {
    let mut metadata = arrow.metadata().clone();
    if own.logical_type == LogicalType::Json {
        set_extension(&mut metadata, values.data_type());
    }
    let field = arrow.as_ref().clone().with_data_type(values.data_type().clone());
    Arc::new(field.with_metadata(metadata))
}

/// `lance.json` for JSONB, `arrow.json` for text.
fn set_extension(metadata: &mut HashMap<String, String>, data_type: &DataType) {
    let name = match data_type {
        DataType::LargeBinary => "lance.json",
        _ => "arrow.json",
    };
    metadata.insert(EXTENSION_NAME.to_string(), name.to_string());
    metadata.entry(EXTENSION_METADATA.to_string()).or_default();
}

/// Text of any of Arrow's string types; what is no text stays.
fn to_binary(array: &ArrayRef, hidden: Option<&NullBuffer>) -> Walked {
    let converted = match array.data_type() {
        // As bytes, because nobody has looked yet whether an imported array is UTF-8.
        DataType::Utf8 => {
            let array = BinaryArray::from(array.as_string::<i32>().clone());
            each(&array.iter().collect::<Vec<_>>(), hidden, encode)?
        }
        DataType::LargeUtf8 => {
            let array = LargeBinaryArray::from(array.as_string::<i64>().clone());
            each(&array.iter().collect::<Vec<_>>(), hidden, encode)?
        }
        DataType::Utf8View => {
            let array = array.as_string_view().clone().to_binary_view();
            each(&array.iter().collect::<Vec<_>>(), hidden, encode)?
        }
        _ => return Ok(array.clone()),
    };
    Ok(Arc::new(converted))
}

fn to_text(array: &ArrayRef, hidden: Option<&NullBuffer>) -> Walked {
    let Some(binary) = array.as_binary_opt::<i64>() else {
        return Err(Fault::whole(Error::corrupt("a JSON column holds another type")));
    };
    let text = each(&binary.iter().collect::<Vec<_>>(), hidden, decode)?;
    let (offsets, bytes, nulls) = text.into_parts();
    let offsets: Option<Vec<i32>> = offsets.iter().map(|offset| i32::try_from(*offset).ok()).collect();
    let offsets = offsets.ok_or_else(|| {
        Fault::whole(Error::unsupported(
            "more than 2 GiB of JSON text in a batch; read fewer rows at once",
        ))
    })?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let text = StringArray::try_new(offsets, bytes, nulls).map_err(Fault::whole)?;
    Ok(Arc::new(text))
}

/// Converts each document that is not null. What is hidden below a null is null.
fn each(
    documents: &[Option<&[u8]>],
    hidden: Option<&NullBuffer>,
    convert: fn(&[u8], &mut Vec<u8>) -> Result<()>,
) -> std::result::Result<LargeBinaryArray, Fault> {
    let mut out = LargeBinaryBuilder::with_capacity(documents.len(), 0);
    let mut buffer = Vec::new();
    for (row, document) in documents.iter().enumerate() {
        let document = document.filter(|_| hidden.is_none_or(|visible| visible.is_valid(row)));
        let Some(document) = document else {
            out.append_null();
            continue;
        };
        buffer.clear();
        convert(document, &mut buffer).map_err(|error| Fault {
            names: Vec::new(),
            row,
            error,
        })?;
        out.append_value(&buffer);
    }
    Ok(out.finish())
}
