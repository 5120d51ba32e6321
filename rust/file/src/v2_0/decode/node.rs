//! The encoding tree of a page, checked against the type of its column (format chapter 20, 3 to 5).

use std::ops::Range;

use arrow_schema::DataType;

use super::binary::Binary;
use super::blob::Blob;
use super::dictionary::Dictionary;
use super::packed::Packed;
use super::parts::{Parts, Requests};
use super::sink::{Sink, fixed_bits};
use super::source::Source;
use crate::container::BufferRange;
use crate::proto::lance::encodings as pb;
use crate::proto::lance::encodings::array_encoding::ArrayEncoding as Tree;
use crate::proto::lance::encodings::buffer::BufferType;
use crate::proto::lance::encodings::nullable::Nullability;
use crate::{Context, Error, Result};

/// How deep trees may nest.
const MAX_DEPTH: usize = 16;

/// An array of a known number of values.
#[derive(Debug)]
pub enum Node {
    /// All null, without any buffer.
    AllNull,
    /// Fixed-width values, booleans too.
    Fixed {
        validity: Option<Source>,
        values: Source,
    },
    /// Lists of `dimension` items.
    FixedSizeList {
        validity: Option<Source>,
        dimension: u64,
        items: Box<Node>,
    },
    /// Strings that all have `width` bytes.
    FixedText {
        validity: Option<Source>,
        bytes: Source,
        width: u64,
    },
    Binary(Binary),
    Dictionary(Dictionary),
    Packed(Packed),
    Blob(Blob),
}

/// What buffer references of a page can mean.
#[derive(Debug, Clone, Copy)]
pub struct Buffers<'a> {
    /// Buffers of the page.
    pub page: &'a [BufferRange],
    /// Buffers of the column.
    pub column: &'a [BufferRange],
}

impl Buffers<'_> {
    /// The buffer that a tree points at. A reference that is not set means page buffer 0, like an empty one.
    pub fn get(&self, reference: Option<&pb::Buffer>) -> Result<BufferRange> {
        let reference = reference.copied().unwrap_or_default();
        let (kind, buffers) = match BufferType::try_from(reference.buffer_type) {
            Ok(BufferType::Page) => ("page", self.page),
            Ok(BufferType::Column) => ("column", self.column),
            Ok(BufferType::File) => {
                return Err(Error::unsupported("encoding that refers to a buffer of the file"));
            }
            Err(_) => {
                return Err(Error::corrupt(format!(
                    "unknown buffer kind {}",
                    reference.buffer_type
                )));
            }
        };
        let buffer = buffers.get(reference.buffer_index as usize).copied();
        buffer.ok_or_else(|| {
            Error::corrupt(format!(
                "{kind} buffer {} of {}",
                reference.buffer_index,
                buffers.len()
            ))
        })
    }

    /// `n` fixed-width values: flat or bit-packed, perhaps inside "no nulls".
    pub fn source(&self, encoding: Option<&pb::ArrayEncoding>, n: u64) -> Result<Source> {
        match without_nulls(tree(encoding)?)? {
            Tree::Flat(flat) => {
                check_plain(flat)?;
                Source::flat(self.get(flat.buffer.as_ref())?, flat.bits_per_value, n)
            }
            Tree::Bitpacked(packed) => Source::stream(
                self.get(packed.buffer.as_ref())?,
                packed.compressed_bits_per_value,
                packed.uncompressed_bits_per_value,
                packed.signed,
                n,
            ),
            Tree::BitpackedForNonNeg(packed) => Source::fast_lanes(
                self.get(packed.buffer.as_ref())?,
                packed.compressed_bits_per_value,
                packed.uncompressed_bits_per_value,
                n,
            ),
            other => Err(unexpected(other, "fixed-width values")),
        }
    }
}

/// The tree of an encoding that must be set.
pub fn tree(encoding: Option<&pb::ArrayEncoding>) -> Result<&Tree> {
    encoding
        .and_then(|e| e.array_encoding.as_ref())
        .ok_or_else(|| Error::corrupt("unknown encoding: no known kind of array is set"))
}

/// Steps through "no nulls" wrappers.
pub fn without_nulls(mut tree: &Tree) -> Result<&Tree> {
    for _ in 0..MAX_DEPTH {
        match tree {
            Tree::Nullable(nullable) => match &nullable.nullability {
                Some(Nullability::NoNulls(inner)) => tree = self::tree(inner.values.as_deref())?,
                _ => return Ok(tree),
            },
            _ => return Ok(tree),
        }
    }
    Err(too_deep())
}

fn too_deep() -> Error {
    Error::corrupt(format!("encoding nested deeper than {MAX_DEPTH} levels"))
}

/// Only the bytes of strings may be compressed.
fn check_plain(flat: &pb::Flat) -> Result<()> {
    match flat.compression.as_ref().map(|c| c.scheme.as_str()) {
        None | Some("none" | "") => Ok(()),
        Some(scheme) => Err(Error::unsupported(format!(
            "{scheme} compression of fixed-width values"
        ))),
    }
}

/// The error for a kind of array that cannot stand here.
pub fn unexpected(tree: &Tree, place: &str) -> Error {
    let name = name(tree);
    if matches!(name, "a 2.1 codec") {
        return Error::unsupported(format!("encoding of an unstable writer: {name} in a 2.0 page"));
    }
    Error::corrupt(format!("{name} encoding for {place}"))
}

fn name(tree: &Tree) -> &'static str {
    match tree {
        Tree::Flat(_) => "flat",
        Tree::Nullable(_) => "nullable",
        Tree::FixedSizeList(_) => "fixed-size list",
        Tree::List(_) => "list",
        Tree::Struct(_) => "struct",
        Tree::Binary(_) => "binary",
        Tree::Dictionary(_) => "dictionary",
        Tree::Fsst(_) => "FSST",
        Tree::PackedStruct(_) => "packed struct",
        Tree::Bitpacked(_) | Tree::BitpackedForNonNeg(_) => "bit-packed",
        Tree::FixedSizeBinary(_) => "fixed-size binary",
        _ => "a 2.1 codec",
    }
}

impl Node {
    /// Checks the encoding of `n` values of a type.
    pub fn parse(
        encoding: Option<&pb::ArrayEncoding>,
        n: u64,
        data_type: &DataType,
        buffers: Buffers<'_>,
    ) -> Result<Self> {
        Self::parse_at(encoding, n, data_type, buffers, 0)
    }

    fn parse_at(
        encoding: Option<&pb::ArrayEncoding>,
        n: u64,
        data_type: &DataType,
        buffers: Buffers<'_>,
        depth: usize,
    ) -> Result<Self> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let tree = without_nulls(tree(encoding)?)?;
        match (tree, data_type) {
            (Tree::Nullable(nullable), _) => match &nullable.nullability {
                Some(Nullability::AllNulls(_)) => Ok(Self::AllNull),
                Some(Nullability::SomeNulls(some)) => {
                    let validity = buffers
                        .source(some.validity.as_deref(), n)
                        .and_then(|source| source.expect_bits(1))
                        .context(|| "validity")?;
                    let values = Self::parse_at(some.values.as_deref(), n, data_type, buffers, depth + 1)?;
                    values.with_validity(validity)
                }
                _ => Err(Error::corrupt("nullable encoding that says nothing about nulls")),
            },
            (Tree::FixedSizeList(list), DataType::FixedSizeList(item, dimension)) => {
                let dimension = check_dimension(list, *dimension)?;
                let items = n
                    .checked_mul(dimension)
                    .ok_or_else(|| Error::corrupt("the number of list items overflows"))?;
                let node =
                    Self::parse_at(list.items.as_deref(), items, item.data_type(), buffers, depth + 1)?;
                Ok(Self::FixedSizeList {
                    validity: None,
                    dimension,
                    items: Box::new(node),
                })
            }
            (Tree::PackedStruct(packed), DataType::Struct(fields)) => {
                Ok(Self::Packed(Packed::parse(packed, n, fields, buffers)?))
            }
            (Tree::Dictionary(dictionary), DataType::Dictionary(..)) => Ok(Self::Dictionary(
                Dictionary::parse(dictionary, n, data_type, buffers)?,
            )),
            (_, text) if is_variable(text) => Self::parse_text(tree, n, data_type, buffers),
            (_, fixed) => {
                let bits = fixed_bits(fixed).ok_or_else(|| unexpected(tree, &format!("type {fixed}")))?;
                let values = buffers.source(encoding, n)?.expect_bits(bits)?;
                Ok(Self::Fixed {
                    validity: None,
                    values,
                })
            }
        }
    }

    fn parse_text(tree: &Tree, n: u64, data_type: &DataType, buffers: Buffers<'_>) -> Result<Self> {
        match tree {
            Tree::Binary(binary) => Ok(Self::Binary(Binary::parse(binary, None, n, buffers)?)),
            Tree::Fsst(fsst) => match without_nulls(self::tree(fsst.binary.as_deref())?)? {
                Tree::Binary(binary) => Ok(Self::Binary(Binary::parse(
                    binary,
                    Some(&fsst.symbol_table),
                    n,
                    buffers,
                )?)),
                other => Err(unexpected(other, "FSST-coded strings")),
            },
            Tree::Dictionary(dictionary) => Ok(Self::Dictionary(Dictionary::parse(
                dictionary, n, data_type, buffers,
            )?)),
            Tree::FixedSizeBinary(fixed) => Self::parse_fixed_text(fixed, n, buffers),
            other => Err(unexpected(other, &format!("type {data_type}"))),
        }
    }

    fn parse_fixed_text(fixed: &pb::FixedSizeBinary, n: u64, buffers: Buffers<'_>) -> Result<Self> {
        let width = u64::from(fixed.byte_width);
        let bytes = n
            .checked_mul(width)
            .ok_or_else(|| Error::corrupt("the number of bytes overflows"))?;
        if width == 0 {
            return Err(Error::corrupt(
                "strings of 0 bytes in a fixed-size binary encoding",
            ));
        }
        let bytes = match without_nulls(tree(fixed.bytes.as_deref())?)? {
            // One value a string says the same as one value a byte.
            Tree::Flat(flat) => {
                check_plain(flat)?;
                let bits = flat.bits_per_value;
                if bits != 8 && bits != width * 8 {
                    return Err(Error::corrupt(format!(
                        "strings of {width} bytes and {bits} bits"
                    )));
                }
                Source::flat(buffers.get(flat.buffer.as_ref())?, 8, bytes)?
            }
            _ => buffers.source(fixed.bytes.as_deref(), bytes)?.expect_bits(8)?,
        };
        Ok(Self::FixedText {
            validity: None,
            bytes,
            width,
        })
    }

    fn with_validity(mut self, bitmap: Source) -> Result<Self> {
        match &mut self {
            Self::Fixed { validity, .. }
            | Self::FixedSizeList { validity, .. }
            | Self::FixedText { validity, .. }
                if validity.is_none() =>
            {
                *validity = Some(bitmap);
                Ok(self)
            }
            _ => Err(Error::corrupt(
                "a validity bitmap where nulls are told in another way",
            )),
        }
    }

    /// Whether values are plain bytes without any null.
    pub fn is_plain_fixed(&self) -> bool {
        match self {
            Self::Fixed { validity, values } => validity.is_none() && values.bits() % 8 == 0,
            Self::FixedSizeList { validity, items, .. } => validity.is_none() && items.is_plain_fixed(),
            _ => false,
        }
    }

    /// Asks for what the first round of reads needs. `whole` says that the rows are all of the page.
    pub fn request(&self, rows: &[Range<u64>], whole: bool, out: &mut Requests) -> Result<()> {
        match self {
            Self::AllNull => Ok(()),
            Self::Fixed { validity, values } => {
                request_rows(validity.as_ref(), rows, out)?;
                request_rows(Some(values), rows, out)
            }
            Self::FixedText {
                validity,
                bytes,
                width,
            } => {
                request_rows(validity.as_ref(), rows, out)?;
                request_rows(Some(bytes), &scaled(rows, *width)?, out)
            }
            Self::FixedSizeList {
                validity,
                dimension,
                items,
            } => {
                request_rows(validity.as_ref(), rows, out)?;
                items.request(&scaled(rows, *dimension)?, whole, out)
            }
            Self::Binary(binary) => binary.request(rows, whole, out),
            Self::Dictionary(dictionary) => dictionary.request(rows, out),
            Self::Packed(packed) => packed.request(rows, out),
            Self::Blob(blob) => blob.request(rows, out),
        }
    }

    /// Asks for what the first round has shown to be needed.
    pub fn request_second(
        &self,
        rows: &[Range<u64>],
        whole: bool,
        mut first: Parts<'_>,
        out: &mut Requests,
    ) -> Result<()> {
        match self {
            Self::Binary(binary) => binary.request_second(rows, whole, &mut first, out),
            Self::Blob(blob) => blob.request_second(rows, &mut first, out),
            _ => Ok(()),
        }
    }

    /// Appends `rows`.
    pub fn decode(
        &self,
        rows: &[Range<u64>],
        whole: bool,
        first: &mut Parts<'_>,
        second: &mut Parts<'_>,
        out: &mut Sink,
    ) -> Result<()> {
        match self {
            Self::AllNull => rows.iter().try_for_each(|r| out.push_nulls(length(r)?)),
            Self::Fixed { validity, values } => {
                push_validity(validity.as_ref(), rows, first, out)?;
                for range in rows {
                    if values.bits() == 1 {
                        let (bitmap, start) = values.take_bits(range, first)?;
                        out.push_bits(&bitmap, start, length(range)?)?;
                    } else {
                        out.push_fixed(&values.take(range, first)?)?;
                    }
                }
                Ok(())
            }
            Self::FixedText {
                validity,
                bytes,
                width,
            } => {
                push_validity(validity.as_ref(), rows, first, out)?;
                for range in scaled(rows, *width)? {
                    let part = bytes.take(&range, first)?;
                    let ends: Vec<u64> = (1..=part.len() as u64 / width).map(|i| i * width).collect();
                    out.push_variable(&ends, &part)?;
                }
                Ok(())
            }
            Self::FixedSizeList {
                validity,
                dimension,
                items,
            } => {
                push_validity(validity.as_ref(), rows, first, out)?;
                let lists = rows.iter().map(length).sum::<Result<usize>>()?;
                let scaled = scaled(rows, *dimension)?;
                items.decode(&scaled, whole, first, second, out.items(lists)?)
            }
            Self::Binary(binary) => binary.decode(rows, whole, first, second, out),
            Self::Dictionary(dictionary) => dictionary.decode(rows, first, out),
            Self::Packed(packed) => packed.decode(rows, first, out),
            Self::Blob(blob) => blob.decode(rows, first, second, out),
        }
    }
}

/// The dimension of fixed-size lists, which must be that of the column.
fn check_dimension(list: &pb::FixedSizeList, dimension: i32) -> Result<u64> {
    if i64::from(list.dimension) != i64::from(dimension) || list.dimension == 0 {
        return Err(Error::corrupt(format!(
            "fixed-size lists of {} items in a column of {dimension}",
            list.dimension
        )));
    }
    if list.has_validity {
        return Err(Error::unsupported("validity inside a fixed-size list"));
    }
    Ok(u64::from(list.dimension))
}

/// Whether values of a type differ in length.
pub fn is_variable(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
    )
}

/// Rows of a range.
pub fn length(range: &Range<u64>) -> Result<usize> {
    usize::try_from(range.end - range.start).map_err(|_| Error::corrupt("too many rows"))
}

/// Ranges of items below `rows`, `factor` each.
fn scaled(rows: &[Range<u64>], factor: u64) -> Result<Vec<Range<u64>>> {
    let scale = |r: &Range<u64>| Some(r.start.checked_mul(factor)?..r.end.checked_mul(factor)?);
    let scaled: Option<_> = rows.iter().map(scale).collect();
    scaled.ok_or_else(|| Error::corrupt("the number of list items overflows"))
}

fn request_rows(source: Option<&Source>, rows: &[Range<u64>], out: &mut Requests) -> Result<()> {
    let Some(source) = source else { return Ok(()) };
    rows.iter().try_for_each(|range| source.request(range, out))
}

fn push_validity(
    validity: Option<&Source>,
    rows: &[Range<u64>],
    parts: &mut Parts<'_>,
    out: &mut Sink,
) -> Result<()> {
    for range in rows {
        match validity {
            None => out.push_validity(true, length(range)?),
            Some(validity) => {
                let (bitmap, start) = validity.take_bits(range, parts)?;
                out.push_validity_bits(&bitmap, start, length(range)?);
            }
        }
    }
    Ok(())
}
