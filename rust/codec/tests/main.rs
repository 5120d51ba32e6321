//! Codecs against naive twins, the bytes of other writers, and hostile input.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bit_stream;
mod bitpack;
mod bits;
mod byte_stream_split;
mod fsst;
mod general;
mod rle;
mod variable;
mod vectors;
