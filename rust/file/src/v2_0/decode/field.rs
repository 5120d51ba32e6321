//! Reading a field: its own column and those of its descendants (format chapter 10, 8.1, and chapter 20, 5 and 7).
//!
//! A struct or leaf is planned for given rows at once. The items of a list are known only when its offsets have been read, so
//! that each level of lists adds a round of reads.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, GenericListArray, OffsetSizeTrait, StructArray, make_array, new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Fields};

use super::list::Lists;
use super::node::{is_variable, tree};
use super::page::{ColumnKind, PageRead, decode_encoding};
use super::sink::{Sink, check_expanded};
use crate::blob;
use crate::container::ColumnInfo;
use crate::proto::lance::encodings::array_encoding::ArrayEncoding as Tree;
use crate::reader::{FieldSource, FileReader};
use crate::schema::{BlobForm, Field, LogicalType};
use crate::v2_1::ranges;
use crate::{Context, Error, FileVersion, Result};

/// The reads of one field for given rows.
pub struct FieldRead<'a> {
    field: Arc<Field>,
    /// File and path, for messages.
    place: String,
    rows: usize,
    kind: Kind<'a>,
}

enum Kind<'a> {
    /// In no file: null.
    Missing,
    Leaf(Vec<PageReadOf<'a>>),
    /// A packed struct is read as a whole: its field in the file.
    Packed(Vec<PageReadOf<'a>>, Arc<Field>),
    /// Where blobs are.
    Descriptors(Vec<PageReadOf<'a>>),
    Struct(Vec<FieldRead<'a>>),
    List {
        offsets: Vec<PageReadOf<'a>>,
        items: Items<'a>,
        /// What is below, once the offsets are known.
        below: Option<(Lists, Box<FieldRead<'a>>)>,
    },
}

/// Where the items of a list are.
#[derive(Clone, Copy)]
enum Items<'a> {
    /// In the columns of the child field.
    Child(&'a [FieldSource<'a>]),
    /// Bytes of a string, in this column: an old form of strings.
    Bytes(&'a FileReader, u32),
}

/// A page read and the file it belongs to.
pub struct PageReadOf<'a> {
    /// The file.
    pub reader: &'a FileReader,
    /// The read.
    pub read: PageRead,
}

/// The first 2.0 file that holds a field, and its column there.
fn source_of<'a>(sources: &[FieldSource<'a>], field: &Field) -> Result<Option<(&'a FileReader, u32)>> {
    let found = sources
        .iter()
        .find_map(|s| Some((s.reader, *s.columns.get(&field.id)?)));
    match found {
        Some((reader, _)) if reader.version() != FileVersion::V2_0 => Err(Error::unsupported(format!(
            "field '{}' is in a file of version {}, the field above it in one of version 2.0",
            field.name,
            reader.version()
        ))),
        found => Ok(found),
    }
}

/// The kind of array in the first page of a column that has rows.
fn first_tree(info: &ColumnInfo) -> Result<Option<Tree>> {
    match info.pages.iter().find(|page| page.length > 0) {
        Some(page) => Ok(Some(tree(Some(&decode_encoding(page)?))?.clone())),
        None => Ok(None),
    }
}

/// Whether a struct is one column. The metadata flag decides only where no page tells: old writers ignored it.
pub fn is_packed(field: &Field, info: &ColumnInfo) -> Result<bool> {
    match first_tree(info)? {
        Some(tree) => Ok(matches!(tree, Tree::PackedStruct(_))),
        None if !info.pages.is_empty() => Ok(false),
        None => Ok(field.is_packed()),
    }
}

/// Whether the column of a string field holds list offsets.
pub fn is_list_of_bytes(info: &ColumnInfo) -> Result<bool> {
    Ok(matches!(first_tree(info)?, Some(Tree::List(_))))
}

impl<'a> FieldRead<'a> {
    /// Plans to read `ranges` of a field.
    pub fn plan(
        field: &Arc<Field>,
        path: &str,
        sources: &'a [FieldSource<'a>],
        rows: &[Range<u64>],
    ) -> Result<Self> {
        let source = source_of(sources, field).context(|| format!("column '{path}'"))?;
        let place = match source {
            Some((reader, _)) => format!("{}: column '{path}'", reader.path()),
            None => format!("column '{path}'"),
        };
        let mut kind = match source {
            None => Kind::Missing,
            Some((reader, column)) => {
                plan_own(field, sources, reader, column, rows).context(|| place.clone())?
            }
        };
        if let Kind::Struct(children) = &mut kind {
            let child = |child: &Arc<Field>| {
                let path = format!("{path}.{}", child.name);
                Self::plan(child, &path, sources, rows)
            };
            *children = field.children.iter().map(child).collect::<Result<_>>()?;
        }
        Ok(Self {
            field: field.clone(),
            rows: row_count(rows).context(|| place.clone())?,
            place,
            kind,
        })
    }

    /// Plans the items of lists whose offsets have been read.
    pub fn advance(&mut self) -> Result<()> {
        match &mut self.kind {
            Kind::Missing | Kind::Leaf(_) | Kind::Packed(..) | Kind::Descriptors(_) => Ok(()),
            Kind::Struct(children) => children.iter_mut().try_for_each(Self::advance),
            Kind::List {
                below: Some((_, items)),
                ..
            } => items.advance(),
            Kind::List {
                offsets,
                items,
                below,
            } => {
                for page in offsets.iter_mut() {
                    if !page.read.wants_nothing() {
                        return Ok(());
                    }
                }
                let lists = decode_lists(offsets).context(|| self.place.clone())?;
                let mut planned = plan_items(&self.field, &self.place, *items, &lists)?;
                planned.advance()?;
                *below = Some((lists, Box::new(planned)));
                Ok(())
            }
        }
    }

    /// Calls `f` for every page read, in an order that stays the same between two calls of [`Self::advance`].
    pub fn for_each_read(&mut self, f: &mut dyn FnMut(&mut PageReadOf<'a>) -> Result<()>) -> Result<()> {
        let place = &self.place;
        let all = |reads: &mut Vec<PageReadOf<'a>>, f: &mut dyn FnMut(&mut PageReadOf<'a>) -> Result<()>| {
            reads.iter_mut().try_for_each(|page| {
                f(page)
                    .map_err(|e| e.context(page.read.place()))
                    .context(|| place.clone())
            })
        };
        match &mut self.kind {
            Kind::Missing => Ok(()),
            Kind::Leaf(reads) | Kind::Packed(reads, _) | Kind::Descriptors(reads) => all(reads, f),
            Kind::Struct(children) => children.iter_mut().try_for_each(|child| child.for_each_read(f)),
            Kind::List { offsets, below, .. } => {
                all(offsets, f)?;
                below.as_mut().map_or(Ok(()), |(_, items)| items.for_each_read(f))
            }
        }
    }

    /// Decodes the rows.
    pub fn decode(self) -> Result<ArrayRef> {
        let (field, place, rows) = (self.field, self.place, self.rows);
        let data_type = field.data_type();
        let array = match self.kind {
            Kind::Missing => missing(&field, rows).context(|| place.clone())?,
            Kind::Leaf(reads) => decode_leaf(&data_type, &reads, rows).context(|| place.clone())?,
            Kind::Packed(reads, stored) => {
                let all = decode_leaf(&stored.data_type(), &reads, rows).context(|| place.clone())?;
                project(&field, &stored, &all).context(|| place.clone())?
            }
            Kind::Descriptors(reads) => {
                let pairs = DataType::Struct(BlobForm::V1.parts_as_fields());
                let stored = decode_leaf(&pairs, &reads, rows).context(|| place.clone())?;
                blob::described(&field, &stored).context(|| place.clone())?
            }
            Kind::Struct(children) => {
                let children = children
                    .into_iter()
                    .map(Self::decode)
                    .collect::<Result<Vec<_>>>()?;
                build_struct(&data_type, children, rows).context(|| place.clone())?
            }
            Kind::List { below, .. } => {
                let (lists, items) =
                    below.ok_or_else(|| Error::corrupt("list items were not read").context(place.clone()))?;
                build_list(&data_type, &lists, items.decode()?).context(|| place.clone())?
            }
        };
        if array.len() != rows {
            return Err(
                Error::corrupt(format!("{} rows decoded, expected {rows}", array.len())).context(place),
            );
        }
        if !field.nullable && array.null_count() > 0 {
            return Err(Error::corrupt("nulls in a non-nullable field").context(place));
        }
        Ok(array)
    }
}

fn row_count(rows: &[Range<u64>]) -> Result<usize> {
    usize::try_from(ranges::count(rows)).map_err(|_| Error::corrupt("too many rows"))
}

/// The reads of the field's own column; children of a struct are to follow.
fn plan_own<'a>(
    field: &Arc<Field>,
    sources: &'a [FieldSource<'a>],
    reader: &'a FileReader,
    column: u32,
    rows: &[Range<u64>],
) -> Result<Kind<'a>> {
    let info = reader.tail().column(column)?;
    match &field.logical_type {
        LogicalType::Struct if field.is_blob() && !info.is_blob => Err(Error::unsupported(
            "the values are stored as ordinary binaries in spite of the metadata key lance-encoding:blob, so that there are no \
             blob descriptors; read them with blob_handling=\"all_binary\"",
        )),
        LogicalType::Struct if field.is_blob() => Ok(Kind::Descriptors(plan_column(
            reader,
            column,
            &ColumnKind::Descriptors,
            rows,
        )?)),
        LogicalType::Struct if is_packed(field, info)? => {
            let stored = reader.schema()?.field_by_id(field.id).cloned();
            let stored = stored.ok_or_else(|| Error::corrupt("the file's schema lacks a packed struct"))?;
            let kind = ColumnKind::Values(stored.data_type());
            Ok(Kind::Packed(plan_column(reader, column, &kind, rows)?, stored))
        }
        LogicalType::Struct => {
            check_header(info, rows)?;
            Ok(Kind::Struct(Vec::new()))
        }
        LogicalType::List { .. } => Ok(Kind::List {
            offsets: plan_column(reader, column, &ColumnKind::Lists, rows)?,
            items: Items::Child(sources),
            below: None,
        }),
        LogicalType::Map => Err(Error::unsupported("maps in a file of version 2.0")),
        LogicalType::FixedSizeList { .. } if !field.children.is_empty() => Err(Error::unsupported(
            "fixed-size lists of structs in a file of version 2.0",
        )),
        _ => {
            let data_type = field.data_type();
            if is_variable(&data_type) && !info.is_blob && is_list_of_bytes(info)? {
                return Ok(Kind::List {
                    offsets: plan_column(reader, column, &ColumnKind::Lists, rows)?,
                    items: Items::Bytes(reader, column + 1),
                    below: None,
                });
            }
            if info.is_blob && data_type != DataType::LargeBinary {
                return Err(Error::corrupt(format!("blob column of type {data_type}")));
            }
            Ok(Kind::Leaf(plan_column(
                reader,
                column,
                &ColumnKind::Values(data_type),
                rows,
            )?))
        }
    }
}

fn plan_column<'a>(
    reader: &'a FileReader,
    column: u32,
    kind: &ColumnKind,
    rows: &[Range<u64>],
) -> Result<Vec<PageReadOf<'a>>> {
    let column = reader.columns_v2_0().get(reader.tail(), column, kind)?;
    let reads = column.plan(rows)?.into_iter();
    Ok(reads.map(|read| PageReadOf { reader, read }).collect())
}

/// A header column has one page, which says nothing but its length.
fn check_header(info: &ColumnInfo, rows: &[Range<u64>]) -> Result<()> {
    let [page] = info.pages.as_slice() else {
        return Err(Error::corrupt(format!(
            "struct header with {} pages, expected 1",
            info.pages.len()
        )));
    };
    match tree(Some(&decode_encoding(page)?))? {
        Tree::Struct(_) if page.buffers.is_empty() => {}
        _ => return Err(Error::corrupt("struct header whose page is no struct")),
    }
    match rows.last().filter(|r| r.end > page.length) {
        Some(last) => Err(Error::corrupt(format!(
            "row {} is asked for, the struct has {}",
            last.end - 1,
            page.length
        ))),
        None => Ok(()),
    }
}

fn plan_items<'a>(field: &Field, place: &str, items: Items<'a>, lists: &Lists) -> Result<FieldRead<'a>> {
    match items {
        Items::Child(sources) => {
            let child = field.children.first();
            let child = child.ok_or_else(|| Error::corrupt("a list without an item field"))?;
            let planned = FieldRead::plan(
                child,
                &format!("{}.{}", field.name, child.name),
                sources,
                &lists.items,
            )?;
            if matches!(planned.kind, Kind::Missing) && planned.rows > 0 {
                return Err(Error::corrupt("no data file holds the items of the list").context(place));
            }
            Ok(planned)
        }
        Items::Bytes(reader, column) => {
            let kind = ColumnKind::Values(DataType::UInt8);
            let reads = plan_column(reader, column, &kind, &lists.items).context(|| place)?;
            Ok(FieldRead {
                field: Arc::new(Field {
                    logical_type: LogicalType::Leaf(DataType::UInt8),
                    children: Vec::new(),
                    ..field.clone()
                }),
                place: place.to_owned(),
                rows: row_count(&lists.items)?,
                kind: Kind::Leaf(reads),
            })
        }
    }
}

fn decode_lists(offsets: &[PageReadOf<'_>]) -> Result<Lists> {
    let mut lists = Lists::default();
    for page in offsets {
        page.reader.decoded().add(1, 0);
        let decoded = page.read.decode_lists(&mut lists);
        decoded.context(|| page.read.place())?;
    }
    Ok(lists)
}

fn decode_leaf(data_type: &DataType, reads: &[PageReadOf<'_>], rows: usize) -> Result<ArrayRef> {
    let mut sink = Sink::new(data_type, rows)?;
    for page in reads {
        page.reader.decoded().add(1, 0);
        page.read.decode(&mut sink).context(|| page.read.place())?;
    }
    if sink.len() != rows {
        return Err(Error::corrupt(format!(
            "{} rows decoded, expected {rows}",
            sink.len()
        )));
    }
    sink.finish()
}

/// The wanted children of a packed struct.
fn project(field: &Field, stored: &Field, all: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(Error::corrupt("packed struct in a column of another type"));
    };
    let columns = all
        .as_any()
        .downcast_ref::<StructArray>()
        .map(StructArray::columns)
        .unwrap_or_default();
    let find = |child: &Arc<Field>| {
        let position = stored.children.iter().position(|s| s.id == child.id);
        match position.and_then(|p| columns.get(p)) {
            Some(column) if *column.data_type() == child.data_type() => Ok(column.clone()),
            Some(column) => Err(Error::corrupt(format!(
                "packed field '{}' has type {}",
                child.name,
                column.data_type()
            ))),
            None => missing(child, all.len()),
        }
    };
    let children = field.children.iter().map(find).collect::<Result<_>>()?;
    build_struct(&DataType::Struct(fields), children, all.len())
}

fn missing(field: &Field, rows: usize) -> Result<ArrayRef> {
    if rows > 0 && !field.nullable {
        return Err(Error::corrupt(format!(
            "no data file holds the non-nullable field '{}'",
            field.name
        )));
    }
    let data_type = field.data_type();
    let width = match &data_type {
        DataType::FixedSizeList(_, dimension) => super::packed::byte_width(&data_type)
            .unwrap_or(8usize.saturating_mul(usize::try_from(*dimension).unwrap_or(1))),
        _ => 16,
    };
    check_expanded(rows.checked_mul(width.max(8)))?;
    Ok(new_null_array(&data_type, rows))
}

fn build_struct(data_type: &DataType, children: Vec<ArrayRef>, rows: usize) -> Result<ArrayRef> {
    let fields = match data_type {
        DataType::Struct(fields) => fields.clone(),
        _ => Fields::empty(),
    };
    let array = StructArray::try_new_with_length(fields, children, None, rows);
    Ok(Arc::new(array.map_err(|e| Error::corrupt(e.to_string()))?))
}

fn build_list(data_type: &DataType, lists: &Lists, items: ArrayRef) -> Result<ArrayRef> {
    let nulls = NullBuffer::from(lists.valid.as_slice());
    let nulls = Some(nulls).filter(|n| n.null_count() > 0);
    match data_type {
        DataType::List(_) => build_list_of::<i32>(data_type, lists, items, nulls),
        DataType::LargeList(_) => build_list_of::<i64>(data_type, lists, items, nulls),
        DataType::Utf8 | DataType::Binary => build_bytes::<i32>(data_type, lists, &items, nulls),
        _ => build_bytes::<i64>(data_type, lists, &items, nulls),
    }
}

/// Offsets of the lists in an Arrow array.
fn offsets_of<O: OffsetSizeTrait>(lists: &Lists) -> Result<ScalarBuffer<O>> {
    let mut offsets = Vec::with_capacity(lists.lengths.len() + 1);
    let mut end = 0usize;
    offsets.push(O::default());
    for length in &lists.lengths {
        end = end.saturating_add(*length);
        let offset = O::from_usize(end).ok_or_else(|| {
            Error::unsupported("more than 2^31 - 1 list items in one batch: read fewer rows at a time")
        })?;
        offsets.push(offset);
    }
    Ok(offsets.into())
}

fn build_list_of<O: OffsetSizeTrait>(
    data_type: &DataType,
    lists: &Lists,
    items: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let (DataType::List(item) | DataType::LargeList(item)) = data_type else {
        return Err(Error::corrupt("list offsets in a column of another type"));
    };
    let offsets = OffsetBuffer::new(offsets_of::<O>(lists)?);
    let array = GenericListArray::<O>::try_new(item.clone(), offsets, items, nulls);
    Ok(Arc::new(array.map_err(|e| Error::corrupt(e.to_string()))?))
}

fn build_bytes<O: OffsetSizeTrait>(
    data_type: &DataType,
    lists: &Lists,
    items: &ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    if items.null_count() > 0 {
        return Err(Error::corrupt("null bytes inside of a string"));
    }
    let items = items.to_data();
    let bytes = items.buffers().first().cloned().unwrap_or_default();
    let data = ArrayData::builder(data_type.clone())
        .len(lists.lengths.len())
        .nulls(nulls)
        .add_buffer(offsets_of::<O>(lists)?.into_inner())
        .add_buffer(bytes)
        .build();
    Ok(make_array(data.map_err(|e| Error::corrupt(e.to_string()))?))
}
