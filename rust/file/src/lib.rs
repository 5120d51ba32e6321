//! Reader and writer of one Lance data file: container, schema, page layouts and local I/O.

pub mod error;
pub mod io;
pub mod schema;
pub mod version;

pub use error::{Context, Error, ErrorKind, Result};
pub use schema::{Field, LogicalType, Schema};
pub use version::FileVersion;

/// The messages of the format, generated from `protos/`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/protos.rs"));
}
