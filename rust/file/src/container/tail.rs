//! Opening a file: one read of its tail, a second one if the metadata is longer (format chapter 10, 10).

use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use glaive_codec::ByteCursor;
use prost::Message;

use super::column::PRELIMINARY_2_1;
use super::footer::{FOOTER_LEN, Footer, TABLE_ENTRY_LEN};
use super::{ARRAY_ENCODING_URL, BUFFER_ALIGNMENT, BufferRange, ColumnInfo};
use crate::io::ReadAt;
use crate::proto::lance::file::FileDescriptor;
use crate::{Context, Error, FileVersion, Result};

/// The first read of an open. Local files answer 4 KiB and 64 KiB in the same time; most files' metadata fits.
const TAIL_READ: u64 = 64 * 1024;

/// Everything from global buffer 0 to the end of the file. Messages are decoded when they are asked for, so that
/// opening a file of thousands of columns to read one costs no more than that one.
#[derive(Debug)]
pub struct FileTail {
    footer: Footer,
    file_size: u64,
    /// Bytes from `start` to the end of the file.
    bytes: Bytes,
    start: u64,
    global_buffers: Vec<BufferRange>,
    columns: Vec<OnceLock<ColumnInfo>>,
}

impl FileTail {
    /// Reads and checks the tail of a file; one or two reads.
    pub fn read(source: &dyn ReadAt) -> Result<Self> {
        let file_size = source.len();
        if file_size < FOOTER_LEN {
            return Err(Error::corrupt(format!(
                "file does not appear to be a Lance file: {file_size} bytes are too short for the footer of \
                 {FOOTER_LEN}"
            )));
        }
        let mut start = file_size.saturating_sub(TAIL_READ) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
        let mut bytes = read_one(source, start..file_size)?;
        let footer = Footer::parse(
            slice(&bytes, start, file_size - FOOTER_LEN..file_size)?,
            file_size,
        )?;
        if footer.gbo_start < start {
            // A file of very many columns: its tables alone are longer than the first read.
            bytes = join(read_one(source, footer.gbo_start..start)?, &bytes);
            start = footer.gbo_start;
        }
        let global_buffers = parse_global_buffers(
            slice(&bytes, start, footer.gbo_start..file_size)?,
            &footer,
            file_size,
        )
        .map_err(|error| match is_preliminary(&footer, &bytes) {
            true => Error::unsupported(PRELIMINARY_2_1),
            false => error,
        })?;
        let first = global_buffers.first().map_or(start, |b| b.position);
        if first > footer.column_meta_start {
            return Err(Error::corrupt(format!(
                "global buffer 0 at {first} lies behind the column metadata at {}",
                footer.column_meta_start
            )));
        }
        if first < start {
            bytes = join(read_one(source, first..start)?, &bytes);
            start = first;
        }
        let columns = (0..footer.num_columns).map(|_| OnceLock::new()).collect();
        Ok(Self {
            footer,
            file_size,
            bytes,
            start,
            global_buffers,
            columns,
        })
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Number of columns.
    pub fn num_columns(&self) -> u32 {
        self.footer.num_columns
    }

    /// Bytes of metadata: from the first column's message to the end of the column table.
    pub fn column_metadata_bytes(&self) -> u64 {
        self.footer.gbo_start - self.footer.column_meta_start
    }

    /// Size of the file in bytes.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Global buffers; number 0 is the file descriptor.
    pub fn global_buffers(&self) -> &[BufferRange] {
        &self.global_buffers
    }

    /// Decodes global buffer 0.
    pub fn descriptor(&self) -> Result<FileDescriptor> {
        let Some(buffer) = self.global_buffers.first() else {
            return Err(Error::corrupt("no file descriptor"));
        };
        let bytes = self.slice(buffer.range())?;
        FileDescriptor::decode(bytes).context(|| "file descriptor")
    }

    /// Metadata of column `index`, decoded on first use.
    pub fn column(&self, index: u32) -> Result<&ColumnInfo> {
        let slot = self.columns.get(index as usize).ok_or_else(|| {
            Error::corrupt(format!(
                "column {index} is asked for, but the file has {}",
                self.footer.num_columns
            ))
        })?;
        if let Some(column) = slot.get() {
            return Ok(column);
        }
        let column = self.decode_column(index).context(|| format!("column {index}"))?;
        Ok(slot.get_or_init(|| column))
    }

    /// Where the metadata of the columns are.
    pub fn column_table(&self) -> Result<Vec<BufferRange>> {
        (0..self.footer.num_columns)
            .map(|index| self.column_entry(index))
            .collect()
    }

    fn column_entry(&self, index: u32) -> Result<BufferRange> {
        let footer = &self.footer;
        let entry = footer.cmo_start + u64::from(index) * TABLE_ENTRY_LEN;
        let entry_bytes = self.slice(entry..entry + TABLE_ENTRY_LEN)?;
        let mut cursor = ByteCursor::new(&entry_bytes);
        let (position, size) = (cursor.u64()?, cursor.u64()?);
        let end = position.checked_add(size).filter(|&end| end <= footer.cmo_start);
        match (position >= footer.column_meta_start, end) {
            (true, Some(_)) => Ok(BufferRange { position, size }),
            _ => Err(Error::corrupt(format!(
                "metadata of {size} bytes at {position} lies outside its section {}..{}",
                footer.column_meta_start, footer.cmo_start
            ))),
        }
    }

    fn decode_column(&self, index: u32) -> Result<ColumnInfo> {
        let footer = &self.footer;
        ColumnInfo::decode(
            self.slice(self.column_entry(index)?.range())?,
            footer.column_meta_start,
            footer.version,
        )
    }

    fn slice(&self, range: Range<u64>) -> Result<Bytes> {
        let part = slice(&self.bytes, self.start, range)?;
        Ok(self.bytes.slice_ref(part))
    }
}

/// Whether a file of 2.1 has page encodings of 2.0: so pylance 0.17 wrote it, which did not align buffers either.
fn is_preliminary(footer: &Footer, tail: &[u8]) -> bool {
    let url = ARRAY_ENCODING_URL.as_bytes();
    footer.version == FileVersion::V2_1 && tail.windows(url.len()).any(|window| window == url)
}

fn parse_global_buffers(bytes: &[u8], footer: &Footer, file_size: u64) -> Result<Vec<BufferRange>> {
    let mut cursor = ByteCursor::new(bytes);
    let mut buffers = Vec::new();
    for number in 0..footer.num_global_buffers {
        let buffer = BufferRange::new(cursor.u64()?, cursor.u64()?, file_size - FOOTER_LEN)
            .context(|| format!("global buffer {number}"))?;
        if footer.version != FileVersion::V2_0 && buffer.position % BUFFER_ALIGNMENT != 0 {
            return Err(Error::corrupt(format!(
                "global buffer {number} at {}, which is no multiple of {BUFFER_ALIGNMENT}",
                buffer.position
            )));
        }
        buffers.push(buffer);
    }
    Ok(buffers)
}

fn read_one(source: &dyn ReadAt, range: Range<u64>) -> Result<Bytes> {
    let read = source.read_ranges(&[range])?;
    read.into_iter()
        .next()
        .ok_or_else(|| Error::corrupt("a read returned nothing"))
}

fn join(front: Bytes, back: &Bytes) -> Bytes {
    let mut all = Vec::with_capacity(front.len() + back.len());
    all.extend_from_slice(&front);
    all.extend_from_slice(back);
    Bytes::from(all)
}

/// `range` of the file, of which `bytes` holds everything from `start`.
fn slice(bytes: &[u8], start: u64, range: Range<u64>) -> Result<&[u8]> {
    let inside = || {
        let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
        let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
        bytes.get(from..to)
    };
    inside().ok_or_else(|| {
        Error::corrupt(format!(
            "bytes {}..{} lie outside the metadata",
            range.start, range.end
        ))
    })
}
