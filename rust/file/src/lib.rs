//! Reader and writer of one Lance data file: container, schema, page layouts and local I/O.

pub mod error;

pub use error::{Context, Error, ErrorKind, Result};

/// The messages of the format, generated from `protos/`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/protos.rs"));
}
