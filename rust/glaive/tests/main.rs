//! Tests of the table engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests, too, fail by panicking"
)]

mod support;

mod blobs;
mod commits;
mod conflicts;
mod crash;
mod deletions;
mod durability;
mod faults;
mod feature_flags;
mod hostile;
mod manifests;
mod observed;
mod old_tables;
mod operations;
mod reads;
mod refs;
mod scans;
mod unknown_fields;
mod v2_0;
mod writes;
