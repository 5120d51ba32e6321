//! Columns of a schema, and taking arrays apart into them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, StringArray};
use arrow_schema::{DataType, Field as ArrowField};
use glaive_codec::general;

use super::list::ListPiece;
use super::page::{PageJob, Piece};
use super::{message, packed};
use crate::container::{ARRAY_ENCODING_URL, ColumnPages, ContainerWriter, EncodedPage};
use crate::schema::{BLOB_V2, EXTENSION_NAME, Field, LogicalType};
use crate::v2_0::decode::fixed_bits;
use crate::{Context, Error, Result};

const COMPRESSION: &str = "lance-encoding:compression";
const COMPRESSION_LEVEL: &str = "lance-encoding:compression-level";

/// How the bytes of strings are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringCodec {
    /// As they are, and the page does not mention compression.
    Plain,
    /// As they are, on request.
    None,
    /// Compressed as a whole.
    General(general::Scheme, Option<i32>),
    /// Each value by a table of symbols.
    Fsst,
}

/// How a column of strings becomes pages.
#[derive(Debug, Clone, Copy)]
pub struct StringOptions {
    /// Where no dictionary is made.
    pub codec: StringCodec,
    /// Rows from which a dictionary is tried, and distinct values below which it is kept.
    pub dict_threshold: usize,
}

/// What a column collects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Struct header: only the number of rows counts.
    Header,
    Values(StringCodec),
    Blob,
}

/// A column on its way to the file.
#[derive(Debug)]
pub struct Column {
    path: String,
    pub field_id: i32,
    kind: Kind,
    dict_threshold: usize,
    pieces: Vec<Piece>,
    /// Bytes and rows in `pieces`.
    pub bytes: usize,
    rows: usize,
    /// Rows of a struct header.
    header_rows: u64,
    /// What the items of nothing but empty lists are.
    nothing: Option<Piece>,
    pub pages: ColumnPages,
}

/// Appends the columns of a field, parents before children.
pub fn of_field(field: &Field, path: &str, dict_threshold: usize, out: &mut Vec<Column>) -> Result<()> {
    let kind = kind_of(field).context(|| format!("column '{path}'"))?;
    out.push(Column {
        path: path.to_owned(),
        field_id: field.id,
        kind,
        dict_threshold,
        pieces: Vec::new(),
        bytes: 0,
        rows: 0,
        header_rows: 0,
        nothing: None,
        pages: match kind {
            Kind::Blob => ColumnPages::blob(),
            _ => ColumnPages::default(),
        },
    });
    if field.is_column_leaf() {
        return Ok(());
    }
    let mut children = field.children.iter();
    children.try_for_each(|child| of_field(child, &format!("{path}.{}", child.name), dict_threshold, out))
}

fn kind_of(field: &Field) -> Result<Kind> {
    let data_type = field.data_type();
    let unsupported = |why: &str| {
        Err(Error::unsupported(format!(
            "Unsupported data type: {data_type}: {why}"
        )))
    };
    if field.metadata.get(EXTENSION_NAME).is_some_and(|n| n == BLOB_V2) {
        return unsupported("blobs of the second form need version 2.2");
    }
    if field.is_blob() {
        return match data_type {
            DataType::LargeBinary => Ok(Kind::Blob),
            _ => unsupported("blob columns are large_binary"),
        };
    }
    match &field.logical_type {
        LogicalType::Struct if field.is_packed() => {
            packed::check_fields(field)?;
            Ok(Kind::Values(StringCodec::Plain))
        }
        LogicalType::Struct => Ok(Kind::Header),
        LogicalType::List { .. } => Ok(Kind::Values(StringCodec::Plain)),
        LogicalType::Map => unsupported("maps need version 2.2"),
        LogicalType::FixedSizeList { .. } if !field.children.is_empty() => {
            unsupported("fixed-size lists of structs need version 2.2")
        }
        _ => match &data_type {
            DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => {
                Ok(Kind::Values(string_codec(field)?))
            }
            DataType::Dictionary(_, value) if !can_be_item(value) => {
                unsupported("dictionaries hold strings, binaries and values of fixed width")
            }
            DataType::Null | DataType::Dictionary(..) => Ok(Kind::Values(StringCodec::Plain)),
            other if is_fixed(other) => Ok(Kind::Values(StringCodec::Plain)),
            _ => unsupported("file version 2.0 cannot store it"),
        },
    }
}

fn can_be_item(value: &DataType) -> bool {
    crate::v2_0::decode::is_variable(value) || fixed_bits(value).is_some()
}

fn is_fixed(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeList(item, dimension) => *dimension > 0 && is_fixed(item.data_type()),
        other => fixed_bits(other).is_some(),
    }
}

/// What the metadata of a string field asks for. A level that is no number means the default, as for other writers.
fn string_codec(field: &Field) -> Result<StringCodec> {
    let level = field.metadata.get(COMPRESSION_LEVEL);
    let level = level.and_then(|text| text.trim().parse().ok());
    let small = matches!(field.data_type(), DataType::Utf8 | DataType::Binary);
    match field.metadata.get(COMPRESSION).map(String::as_str) {
        None => Ok(StringCodec::Plain),
        Some("none") => Ok(StringCodec::None),
        Some("zstd") => Ok(StringCodec::General(general::Scheme::Zstd, level)),
        Some("lz4") => Ok(StringCodec::General(general::Scheme::Lz4, level)),
        Some("fsst") if small => Ok(StringCodec::Fsst),
        Some("fsst") => Ok(StringCodec::Plain),
        Some(other) => Err(Error::invalid_input(format!(
            "metadata '{COMPRESSION}' is '{other}'; version 2.0 knows zstd, lz4, fsst and none"
        ))),
    }
}

/// Appends the pieces of an array, one for each column of the field.
pub fn take_apart(field: &Field, array: &ArrayRef, out: &mut Vec<Piece>) -> Result<()> {
    let array = &without_views(array);
    check_nulls(field, array)?;
    let wrong_type = || {
        Error::schema_mismatch(format!(
            "`{}` should have type {} but type was {}",
            field.name,
            field.data_type(),
            array.data_type()
        ))
    };
    match (&field.logical_type, array.data_type()) {
        (LogicalType::Struct, DataType::Struct(_)) if !field.is_packed() => {
            let array = array.as_struct();
            if array.num_columns() != field.children.len() {
                return Err(wrong_type());
            }
            out.push(Piece::Rows(array.len()));
            for child in &field.children {
                let column = array.column_by_name(&child.name).ok_or_else(wrong_type)?;
                take_apart(child, column, out).context(|| format!("field '{}'", child.name))?;
            }
            Ok(())
        }
        (LogicalType::List { large: false, .. }, DataType::List(_)) => {
            take_list_apart(field, ListPiece::of(array.as_list::<i32>())?, out)
        }
        (LogicalType::List { large: true, .. }, DataType::LargeList(_)) => {
            take_list_apart(field, ListPiece::of(array.as_list::<i64>())?, out)
        }
        (_, found) if same_type(field, found) => {
            if field.is_packed() {
                packed::check_no_nulls(array)?;
            }
            out.push(Piece::Values(array.clone()));
            Ok(())
        }
        _ => Err(wrong_type()),
    }
}

/// Whether arrays of a type can be stored in a column: names and nullability of items do not count.
fn same_type(field: &Field, found: &DataType) -> bool {
    if let (LogicalType::Struct, DataType::Struct(fields)) = (&field.logical_type, found) {
        let mut pairs = field.children.iter().zip(fields);
        return fields.len() == field.children.len()
            && pairs
                .all(|(child, found)| child.name == *found.name() && same_type(child, found.data_type()));
    }
    let logical = LogicalType::try_from_arrow(&ArrowField::new("", found.clone(), true));
    field.data_type() == *found || logical.is_ok_and(|logical| logical == field.logical_type)
}

fn take_list_apart(field: &Field, (lists, items): (ListPiece, ArrayRef), out: &mut Vec<Piece>) -> Result<()> {
    out.push(Piece::Lists(lists));
    let child = field.children.first();
    let child = child.ok_or_else(|| Error::invalid_input("a list without an item field"))?;
    take_apart(child, &items, out).context(|| "list items")
}

fn check_nulls(field: &Field, array: &ArrayRef) -> Result<()> {
    let nulls = array.logical_null_count();
    if nulls > 0 && !field.nullable {
        return Err(Error::schema_mismatch(format!(
            "The field `{}` contained null values even though the field is marked non-null in the schema",
            field.name
        )));
    }
    if nulls > 0 && field.logical_type == LogicalType::Struct {
        return Err(Error::invalid_input(format!(
            "the struct `{}` has null rows, and file version 2.0 does not encode struct validity; use file version 2.1 or \
             later",
            field.name
        )));
    }
    Ok(())
}

/// String and binary views are stored as strings and binaries.
fn without_views(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().iter().collect::<StringArray>()),
        DataType::BinaryView => Arc::new(array.as_binary_view().iter().collect::<BinaryArray>()),
        _ => array.clone(),
    }
}

impl Column {
    /// Takes a piece; the values of a blob column go to the file at once.
    pub fn push(&mut self, piece: Piece, container: &mut ContainerWriter) -> Result<()> {
        let piece = match (self.kind, piece) {
            (Kind::Header, piece) => {
                self.header_rows += piece.len() as u64;
                return Ok(());
            }
            (Kind::Blob, Piece::Values(array)) => Piece::Blobs(write_blobs(&array, container)?),
            (_, piece) => piece,
        };
        if piece.len() > 0 {
            self.bytes += piece.value_bytes()?;
            self.rows += piece.len();
            self.pieces.push(piece);
        } else if self.nothing.is_none() {
            self.nothing = Some(piece);
        }
        Ok(())
    }

    fn options(&self) -> StringOptions {
        let codec = match self.kind {
            Kind::Values(codec) => codec,
            _ => StringCodec::Plain,
        };
        StringOptions {
            codec,
            dict_threshold: self.dict_threshold,
        }
    }

    /// Takes all collected rows as pages of about `page_bytes`.
    pub fn cut_pages(&mut self, page_bytes: usize) -> impl Iterator<Item = PageJob> + use<> {
        let pages = self.bytes.div_ceil(page_bytes).clamp(1, self.rows.max(1));
        let rows_per_page = self.rows.div_ceil(pages);
        let options = self.options();
        let mut jobs: Vec<PageJob> = Vec::with_capacity(pages);
        let mut room = 0;
        for piece in std::mem::take(&mut self.pieces) {
            let mut start = 0;
            while start < piece.len() {
                if room == 0 {
                    room = rows_per_page;
                    jobs.push(PageJob::new(&self.path, options));
                }
                let rows = room.min(piece.len() - start);
                if let Some(job) = jobs.last_mut() {
                    job.push(piece.slice(start, rows));
                }
                start += rows;
                room -= rows;
            }
        }
        self.bytes = 0;
        self.rows = 0;
        jobs.into_iter()
    }

    /// Writes the page that a column has in any case: that of a struct header, and an empty one for the items of nothing but empty
    /// lists, which some readers count on.
    pub fn write_last(&mut self, container: &mut ContainerWriter) -> Result<()> {
        if self.kind != Kind::Header {
            let Some(nothing) = self.nothing.take().filter(|_| self.pages.is_empty()) else {
                return Ok(());
            };
            let mut job = PageJob::new(&self.path, self.options());
            job.push(nothing);
            let mut pages = job.encode()?.into_iter();
            return pages.try_for_each(|page| container.write_encoded_page(&mut self.pages, &page));
        }
        let page = EncodedPage {
            type_url: ARRAY_ENCODING_URL,
            encoding: message::bytes_of(&message::structure()),
            buffers: Vec::new(),
            length: self.header_rows,
            priority: 0,
        };
        container.write_encoded_page(&mut self.pages, &page)
    }
}

/// Writes the values of a blob column and returns position and size of each.
fn write_blobs(array: &ArrayRef, container: &mut ContainerWriter) -> Result<Vec<[u64; 2]>> {
    let mut descriptors = Vec::with_capacity(array.len());
    for value in array.as_binary::<i64>() {
        descriptors.push(match value {
            None => [1, 0],
            Some([]) => [0, 0],
            Some(value) => [container.write_payload(value)?, value.len() as u64],
        });
    }
    Ok(descriptors)
}
