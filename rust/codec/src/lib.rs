//! Codecs of the Lance file format: bytes in, bytes out. No I/O, no Arrow, no async.
//!
//! Every decoder takes the number of values from its caller (the format never stores counts in a codec), bounds its output by
//! it, and answers any inconsistent input with a [`CodecError`]. Integers are little-endian everywhere.
//!
//! | module | format |
//! |---|---|
//! | [`bitpack`] | `InlineBitpacking`, `OutOfLineBitpacking` (format chapter 22, 4.2 to 4.4) |
//! | [`variable`] | `Variable`: offsets and bytes (format chapter 22, 4.5) |
//! | [`fsst`] | `Fsst`: strings by a symbol table (format chapter 22, 4.6) |
//! | [`rle`] | `Rle` (format chapter 22, 4.7) |
//! | [`byte_stream_split`] | `ByteStreamSplit` (format chapter 22, 4.8) |
//! | [`general`] | `General`: zstd and lz4 (format chapter 22, 4.9) |
//! | [`bits`] | bitmaps: validity, booleans, levels to validity |

pub mod bitpack;
pub mod bits;
pub mod byte_stream_split;
pub mod cursor;
pub mod error;
pub mod fsst;
pub mod general;
pub mod rle;
pub mod variable;

pub use cursor::ByteCursor;
pub use error::{CodecError, Result};
