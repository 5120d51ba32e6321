//! The container of a 2.x data file (format chapter 10).
//!
//! ```text
//! page buffers, each at a multiple of 64 | global buffer 0: FileDescriptor (schema, row count)
//! | ColumnMetadata of column 0, 1, ... | column offset table | global buffer offset table | 40-byte footer
//! ```
//!
//! Nothing stands at the front: a reader starts at the end. The footer names the two tables; the column table
//! names one protobuf message a column; that message names the buffers of each page. All numbers are
//! little-endian and, because files are untrusted, compared with the file's size before they are used.

mod column;
mod footer;
mod tail;
mod writer;

pub use column::{BufferRange, ColumnInfo, PageInfo};
pub use footer::{FOOTER_LEN, Footer, TABLE_ENTRY_LEN};
pub use tail::FileTail;
pub use writer::{Alignment, ColumnPages, ContainerWriter, EncodedPage, PageToWrite};

/// Every page buffer and global buffer starts at a multiple of this.
pub const BUFFER_ALIGNMENT: u64 = 64;

/// What the page encodings of 2.1 and 2.2 are called in their `Any` envelope.
pub const PAGE_LAYOUT_URL: &str = "/lance.encodings21.PageLayout";

/// What the page encodings of 2.0 are called in their `Any` envelope.
pub const ARRAY_ENCODING_URL: &str = "/lance.encodings.ArrayEncoding";

/// What the column encoding of every 2.x version is called in its `Any` envelope.
pub const COLUMN_ENCODING_URL: &str = "/lance.encodings.ColumnEncoding";

/// The part of a type URL that names the message: what follows the last slash.
pub(crate) fn message_name(type_url: &str) -> Option<&str> {
    type_url.rsplit_once('/').map(|(_, name)| name)
}
