//! Version 2.0: files and pages of other writers decode as stated, all types go there and back, damage is an error, and reads
//! take no more bytes than they need.

mod hostile;
mod io_counts;
mod round_trip;
mod vectors;
