//! Reader and writer of one Lance data file: container, schema, page layouts and local I/O.

mod assemble;
pub mod batches;
pub mod blob;
pub mod container;
mod decoded;
pub mod environment;
pub mod error;
pub mod io;
pub mod json;
mod lanes;
pub mod leaves;
pub mod parallel;
pub mod reader;
pub mod scan;
pub mod schema;
mod v2_0;
pub mod v2_1;
pub mod version;
pub mod writer;

pub use batches::BatchSize;
pub use decoded::DecodeStats;
pub use environment::EncodingDefaults;
pub use error::{Context, Error, ErrorKind, Result};
pub use reader::{FieldSource, FileReader, ReadOptions, Rows, read_fields};
pub use schema::{BlobHandling, Field, LogicalType, Schema};
pub use version::FileVersion;
pub use writer::{FileSummary, FileWriter, WriterOptions};

/// The messages of the format, generated from `protos/`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/protos.rs"));
}
