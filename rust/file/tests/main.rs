//! Tests of the file crate, in one binary.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod alignment;
mod blobs;
mod fuzz;
mod hostile;
mod io_counts;
mod json;
mod many_columns;
mod metadata_keys;
mod round_trip;
mod scans;
mod special_columns;
mod support;
mod v2_0;
mod vectors;
mod versions;
