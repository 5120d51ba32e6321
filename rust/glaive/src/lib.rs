//! The Lance table engine: snapshots of a table, scans and takes over them, and the commits that make new ones.
//!
//! ```no_run
//! use glaive::{Dataset, OpenOptions, ScanOptions};
//!
//! # fn main() -> glaive::Result<()> {
//! let dataset = Dataset::open("flights.lance", OpenOptions::default())?;
//! for batch in dataset.scan(ScanOptions::default())? {
//!     println!("{} rows", batch?.num_rows());
//! }
//! # Ok(())
//! # }
//! ```

pub mod blobs;
pub mod cleanup;
mod commit;
mod data_file;
pub mod dataset;
pub mod deletion;
mod lock;
pub mod manifest;
mod projection;
pub mod refs;
pub mod scan;
mod storages;
mod take;
pub mod transaction;
mod versions;
pub mod write;

pub use blobs::{RowSelection, TakenBlob};
pub use commit::CommitOptions;
pub use dataset::{
    ColumnAlteration, Dataset, Deleted, FragmentHandle, OpenOptions, RetryOptions, VersionInfo,
    VersionSummary,
};
pub use glaive_file::{
    BatchSize, BlobHandling, Error, ErrorKind, Field, FileVersion, LogicalType, Result, Schema, io,
};
pub use lock::{CommitLease, CommitLock};
pub use refs::Reference;
pub use scan::{Scan, ScanOptions};
pub use write::{ExternalBlobs, WarningListener, WriteDestination, WriteMode, WriteParams, WriteProgress};

/// The messages of the table format, generated from `protos/`.
#[allow(missing_docs, clippy::all, clippy::pedantic)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/protos.rs"));
}
