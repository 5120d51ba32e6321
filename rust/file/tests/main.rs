//! Tests of the file crate, in one binary.

mod hostile;
mod io_counts;
mod round_trip;
mod support;
mod v2_0;
mod vectors;
