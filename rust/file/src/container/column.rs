//! Column metadata: the pages of one column (format chapter 10, 5.1 and 8.3).

use bytes::Bytes;
use prost::Message;

use super::{ARRAY_ENCODING_URL, BUFFER_ALIGNMENT, COLUMN_ENCODING_URL, PAGE_LAYOUT_URL, message_name};
use crate::proto::lance::encodings::{ColumnEncoding, column_encoding};
use crate::proto::lance::file::v2::{ColumnMetadata, Encoding, column_metadata, encoding::Location};
use crate::{Context, Error, FileVersion, Result};

/// Where one buffer lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferRange {
    /// Absolute position.
    pub position: u64,
    /// Size in bytes, without padding.
    pub size: u64,
}

impl BufferRange {
    /// Checks that the buffer lies before `limit`.
    pub fn new(position: u64, size: u64, limit: u64) -> Result<Self> {
        match position.checked_add(size) {
            Some(end) if end <= limit => Ok(Self { position, size }),
            _ => Err(Error::corrupt(format!(
                "buffer of {size} bytes at {position} reaches beyond the data section, which ends at {limit}"
            ))),
        }
    }

    /// First and last-plus-one byte.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.position..self.position + self.size
    }

    /// The bytes `[start, end)` of this buffer as a range of the file.
    pub fn slice(&self, start: u64, end: u64) -> Result<std::ops::Range<u64>> {
        if start > end || end > self.size {
            return Err(Error::corrupt(format!(
                "bytes {start}..{end} of a buffer of {} bytes",
                self.size
            )));
        }
        Ok(self.position + start..self.position + end)
    }
}

/// One page: which rows, which buffers and how they are encoded.
#[derive(Debug, Clone)]
pub struct PageInfo {
    /// Number of the page in its column, for messages.
    pub number: usize,
    /// First row of the page in its column: the running sum of lengths.
    pub first_row: u64,
    /// Items of the page at the column's own level.
    pub length: u64,
    /// The buffers, in index order.
    pub buffers: Vec<BufferRange>,
    /// The serialized page layout, without its envelope.
    pub layout: Bytes,
    /// First top-level row according to the writer; a hint that readers must not need.
    pub priority: u64,
}

/// One column of a file.
#[derive(Debug, Clone)]
pub struct ColumnInfo {
    /// Pages in row order.
    pub pages: Vec<PageInfo>,
    /// Items of the column: the sum of its page lengths.
    pub length: u64,
    /// Column-level buffers.
    pub buffers: Vec<BufferRange>,
    /// Whether the column encoding says that the values lie outside of the pages; 2.0 only.
    pub is_blob: bool,
}

impl ColumnInfo {
    /// Decodes the metadata message of one column; buffers must end before `data_end`.
    pub fn decode(bytes: Bytes, data_end: u64, version: FileVersion) -> Result<Self> {
        let metadata = ColumnMetadata::decode(bytes)?;
        let is_blob = check_column_encoding(metadata.encoding.as_ref(), version)?;
        let mut pages = Vec::with_capacity(metadata.pages.len());
        let mut length = 0u64;
        for (number, page) in metadata.pages.into_iter().enumerate() {
            let info =
                decode_page(page, number, length, data_end, version).context(|| format!("page {number}"))?;
            length = length
                .checked_add(info.length)
                .ok_or_else(|| Error::corrupt("the lengths of the pages overflow 64 bits"))?;
            pages.push(info);
        }
        let buffers = buffer_ranges(&metadata.buffer_offsets, &metadata.buffer_sizes, data_end)?;
        Ok(Self {
            pages,
            length,
            buffers,
            is_blob,
        })
    }

    /// Bytes of the buffers of all pages.
    pub fn stored_bytes(&self) -> u64 {
        let buffers = self.pages.iter().flat_map(|page| &page.buffers);
        buffers.fold(0, |sum: u64, buffer| sum.saturating_add(buffer.size))
    }

    /// Where each page ends, in items of the column.
    pub fn page_ends(&self) -> Vec<u64> {
        self.pages
            .iter()
            .map(|page| page.first_row + page.length)
            .collect()
    }
}

fn decode_page(
    page: column_metadata::Page,
    number: usize,
    first_row: u64,
    data_end: u64,
    version: FileVersion,
) -> Result<PageInfo> {
    let buffers = buffer_ranges(&page.buffer_offsets, &page.buffer_sizes, data_end)?;
    // 2.0 files of old writers and embedded ones are aligned to 8 bytes or not at all.
    let old = version == FileVersion::V2_0;
    let misaligned = |b: &&BufferRange| !old && !b.position.is_multiple_of(BUFFER_ALIGNMENT);
    if let Some(buffer) = buffers.iter().find(misaligned) {
        return Err(Error::corrupt(format!(
            "buffer at {}, which is no multiple of {BUFFER_ALIGNMENT}",
            buffer.position
        )));
    }
    let url = if old { ARRAY_ENCODING_URL } else { PAGE_LAYOUT_URL };
    let layout = unwrap_any(page.encoding.as_ref(), message_name(url))?;
    Ok(PageInfo {
        number,
        first_row,
        length: page.length,
        buffers,
        layout,
        priority: page.priority,
    })
}

fn buffer_ranges(offsets: &[u64], sizes: &[u64], limit: u64) -> Result<Vec<BufferRange>> {
    if offsets.len() != sizes.len() {
        return Err(Error::corrupt(format!(
            "{} buffer offsets but {} sizes",
            offsets.len(),
            sizes.len()
        )));
    }
    let pairs = offsets.iter().zip(sizes).enumerate();
    pairs
        .map(|(i, (&o, &s))| BufferRange::new(o, s, limit).context(|| format!("buffer {i}")))
        .collect()
}

/// Whether the column is a blob column of 2.0; any other column holds plain values.
fn check_column_encoding(encoding: Option<&Encoding>, version: FileVersion) -> Result<bool> {
    let bytes = unwrap_any(encoding, message_name(COLUMN_ENCODING_URL)).context(|| "column encoding")?;
    match ColumnEncoding::decode(bytes)
        .context(|| "column encoding")?
        .column_encoding
    {
        Some(column_encoding::ColumnEncoding::Values(_)) => Ok(false),
        Some(column_encoding::ColumnEncoding::Blob(_)) if version == FileVersion::V2_0 => Ok(true),
        other => Err(Error::unsupported(format!(
            "column encoding {}: this reader knows only plain value columns, and blob columns in 2.0",
            match other {
                Some(column_encoding::ColumnEncoding::ZoneIndex(_)) => "'zone_index'",
                Some(column_encoding::ColumnEncoding::Blob(_)) => "'blob'",
                _ => "that is unknown or not set",
            }
        ))),
    }
}

/// Opens `Encoding.direct` and its `Any`, whose message must be `name` (format chapter 10, 5.3).
fn unwrap_any(encoding: Option<&Encoding>, name: Option<&str>) -> Result<Bytes> {
    let direct = match encoding.and_then(|e| e.location.as_ref()) {
        Some(Location::Direct(direct)) => direct,
        Some(Location::Indirect(_)) => {
            return Err(Error::unsupported("encoding stored in a deferred location"));
        }
        _ => return Err(Error::corrupt("encoding is missing")),
    };
    let any = any::Any::decode(direct.encoding.clone())?;
    if message_name(&any.type_url).is_some() && message_name(&any.type_url) == name {
        return Ok(any.value);
    }
    Err(Error::unsupported(other_encoding(
        &any.type_url,
        name.unwrap_or_default(),
    )))
}

/// Files of 2.1 before that version was fixed.
pub(super) const PRELIMINARY_2_1: &str = "a preliminary form of file version 2.1, which early versions of pylance (0.17 to 0.32) \
     wrote and later ones cannot read either; read the file with the version that wrote it and write it as version 2.0";

/// What writers have put where an encoding of another name belongs (format chapter 10, 3.1).
fn other_encoding(type_url: &str, expected: &str) -> String {
    let what = format!("encoding '{type_url}' where '{expected}' is expected");
    let expected_2_1 = message_name(PAGE_LAYOUT_URL) == Some(expected);
    match message_name(type_url) {
        Some("lance.encodings.ArrayEncoding" | "lance.encodings.PageLayout") if expected_2_1 => {
            format!("{what}: {PRELIMINARY_2_1}")
        }
        Some(name) if name.starts_with("lance.encodings23.") => {
            format!("{what}: pages of file version 2.3, which is unstable; write version 2.2")
        }
        _ => format!("unknown {what}"),
    }
}

/// `google.protobuf.Any` with shared bytes: the well-known type of prost copies its value.
pub(crate) mod any {
    use bytes::Bytes;

    /// An envelope that names the message it holds.
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Any {
        /// Name of the message after the last slash.
        #[prost(string, tag = "1")]
        pub type_url: String,
        /// The serialized message.
        #[prost(bytes = "bytes", tag = "2")]
        pub value: Bytes,
    }
}
