//! Writing the container: buffers first, then descriptor, column metadata, tables and footer (format chapter 10, 15).

use arrow_buffer::Buffer;
use bytes::Bytes;
use prost::Message;

use super::column::any::Any;
use super::footer::Footer;
use super::{BUFFER_ALIGNMENT, COLUMN_ENCODING_URL, PAGE_LAYOUT_URL};
use crate::io::FileSink;
use crate::proto::lance::encodings21::PageLayout;
use crate::proto::lance::file::v2::{
    ColumnMetadata, DirectEncoding, Encoding, column_metadata::Page, encoding::Location,
};
use crate::proto::lance::file::{FileDescriptor, Schema};
use crate::{Error, FileVersion, Result};

/// What pylance pads with; readers ignore it.
const PADDING: [u8; 4096] = [b'H'; 4096];

/// Where the parts of a file start (format chapter 10, 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alignment {
    /// Buffers at multiples of 64 bytes, metadata wherever they come.
    #[default]
    Bytes64,
    /// Buffers, the metadata of each column and their table at multiples of 4,096 bytes, so that a reader can use direct I/O.
    Bytes4096,
}

impl Alignment {
    /// The multiple at which buffers start.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bytes64 => BUFFER_ALIGNMENT,
            Self::Bytes4096 => 4096,
        }
    }
}

impl TryFrom<i64> for Alignment {
    type Error = Error;

    fn try_from(bytes: i64) -> Result<Self> {
        match bytes {
            64 => Ok(Self::Bytes64),
            4096 => Ok(Self::Bytes4096),
            other => Err(Error::invalid_input(format!(
                "alignment={other} is not possible; use 64, or 4096 for direct I/O"
            ))),
        }
    }
}

/// An encoded page that is ready to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct PageToWrite {
    /// How the buffers are to be read.
    pub layout: PageLayout,
    /// The buffers, in index order.
    pub buffers: Vec<Vec<u8>>,
    /// Items at the column's own level.
    pub length: u64,
    /// First top-level row.
    pub priority: u64,
}

/// An encoded page whatever its encoding message.
#[derive(Debug, Clone)]
pub struct EncodedPage {
    /// Name of the encoding message: the type URL of its envelope.
    pub type_url: &'static str,
    /// The serialized encoding message.
    pub encoding: Vec<u8>,
    /// The buffers, in index order.
    pub buffers: Vec<Buffer>,
    /// Items at the column's own level.
    pub length: u64,
    /// First top-level row; 0 in version 2.0.
    pub priority: u64,
}

/// The pages of one column that were written so far.
#[derive(Debug, Default, Clone)]
pub struct ColumnPages {
    pages: Vec<Page>,
    is_blob: bool,
}

impl ColumnPages {
    /// A blob column of version 2.0, whose pages hold positions and sizes.
    pub fn blob() -> Self {
        Self {
            pages: Vec::new(),
            is_blob: true,
        }
    }

    /// Whether no page was written yet.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

/// Writes the sections of a file in order.
pub struct ContainerWriter {
    sink: Box<dyn FileSink>,
    position: u64,
    global_buffers: Vec<(u64, u64)>,
    version: FileVersion,
    alignment: Alignment,
}

impl std::fmt::Debug for ContainerWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContainerWriter")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl ContainerWriter {
    /// Starts a file at position 0.
    pub fn new(sink: Box<dyn FileSink>, version: FileVersion, alignment: Alignment) -> Self {
        Self {
            sink,
            position: 0,
            global_buffers: Vec::new(),
            version,
            alignment,
        }
    }

    /// Bytes written so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Writes the buffers of a page and notes it for the column.
    pub fn write_page(&mut self, column: &mut ColumnPages, page: PageToWrite) -> Result<()> {
        let page = EncodedPage {
            type_url: PAGE_LAYOUT_URL,
            encoding: page.layout.encode_to_vec(),
            buffers: page.buffers.into_iter().map(Buffer::from).collect(),
            length: page.length,
            priority: page.priority,
        };
        self.write_encoded_page(column, &page)
    }

    /// Writes the buffers of a page of any version and notes it for the column.
    pub fn write_encoded_page(&mut self, column: &mut ColumnPages, page: &EncodedPage) -> Result<()> {
        let mut buffer_offsets = Vec::with_capacity(page.buffers.len());
        let mut buffer_sizes = Vec::with_capacity(page.buffers.len());
        for buffer in &page.buffers {
            buffer_offsets.push(self.position);
            buffer_sizes.push(buffer.len() as u64);
            self.write_padded(buffer)?;
        }
        column.pages.push(Page {
            buffer_offsets,
            buffer_sizes,
            length: page.length,
            encoding: Some(direct_encoding(page.type_url, page.encoding.clone())),
            priority: page.priority,
        });
        Ok(())
    }

    /// Writes bytes that no page lists, such as a blob, and returns their position.
    pub fn write_payload(&mut self, bytes: &[u8]) -> Result<u64> {
        let position = self.position;
        self.write_padded(bytes)?;
        Ok(position)
    }

    /// Writes a user global buffer at once and returns its number, counted from 1.
    pub fn add_global_buffer(&mut self, bytes: &[u8]) -> Result<u32> {
        self.global_buffers.push((self.position, bytes.len() as u64));
        self.write_padded(bytes)?;
        u32::try_from(self.global_buffers.len()).map_err(|_| Error::invalid_input("too many global buffers"))
    }

    /// Writes all that follows the buffers and makes the file visible. Returns its size in bytes.
    pub fn finish(mut self, schema: Schema, num_rows: u64, columns: Vec<ColumnPages>) -> Result<u64> {
        let num_columns =
            u32::try_from(columns.len()).map_err(|_| Error::invalid_input("too many columns"))?;
        let descriptor = FileDescriptor {
            schema: Some(schema),
            length: num_rows,
        }
        .encode_to_vec();
        let mut global_buffers = vec![(self.position, descriptor.len() as u64)];
        global_buffers.append(&mut self.global_buffers);
        self.write(&descriptor)?;

        self.align_metadata()?;
        let column_meta_start = self.position;
        let mut entries = Vec::with_capacity(columns.len());
        for column in columns {
            let bytes = column_metadata(column).encode_to_vec();
            entries.push((self.position, bytes.len() as u64));
            self.write(&bytes)?;
            self.align_metadata()?;
        }
        let cmo_start = self.position;
        self.write_table(&entries)?;
        let gbo_start = self.position;
        self.write_table(&global_buffers)?;
        let num_global_buffers = u32::try_from(global_buffers.len())
            .map_err(|_| Error::invalid_input("too many global buffers"))?;
        let version = self.version;
        let footer = Footer {
            column_meta_start,
            cmo_start,
            gbo_start,
            num_global_buffers,
            num_columns,
            version,
        };
        self.write(&footer.to_bytes())?;
        self.sink.finish()?;
        Ok(self.position)
    }

    fn write_table(&mut self, entries: &[(u64, u64)]) -> Result<()> {
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(|(p, s)| [p.to_le_bytes(), s.to_le_bytes()])
            .flatten()
            .collect();
        self.write(&bytes)
    }

    fn write_padded(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes)?;
        self.pad()
    }

    /// The global buffer table must follow the column table directly, so nothing is aligned behind that one.
    fn align_metadata(&mut self) -> Result<()> {
        match self.alignment {
            Alignment::Bytes64 => Ok(()),
            Alignment::Bytes4096 => self.pad(),
        }
    }

    fn pad(&mut self) -> Result<()> {
        let missing = self.position.next_multiple_of(self.alignment.bytes()) - self.position;
        self.write(PADDING.get(..missing as usize).unwrap_or(&PADDING))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

fn column_metadata(column: ColumnPages) -> ColumnMetadata {
    // ColumnEncoding { values: Empty }, the same two bytes for every ordinary column; blob { inner: values } for a blob.
    let value = match column.is_blob {
        false => vec![0x0a, 0x00],
        true => vec![0x1a, 0x04, 0x0a, 0x02, 0x0a, 0x00],
    };
    let encoding = direct_encoding(COLUMN_ENCODING_URL, value);
    ColumnMetadata {
        encoding: Some(encoding),
        pages: column.pages,
        buffer_offsets: vec![],
        buffer_sizes: vec![],
    }
}

fn direct_encoding(type_url: &str, value: Vec<u8>) -> Encoding {
    let any = Any {
        type_url: type_url.to_owned(),
        value: value.into(),
    };
    let encoding = Bytes::from(any.encode_to_vec());
    Encoding {
        location: Some(Location::Direct(DirectEncoding { encoding })),
    }
}
