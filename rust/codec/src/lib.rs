//! Codecs of the Lance file format: bytes in, bytes out. No I/O, no Arrow, no async.
//!
//! Every decoder takes the number of values from its caller (the format never stores counts in a codec), bounds its output by
//! it, and answers any inconsistent input with a [`CodecError`]. Integers are little-endian everywhere.
//!
//! | module | format |
//! |---|---|
//! | [`bitpack`] | `InlineBitpacking`, `OutOfLineBitpacking` (format chapter 22, 4.2 to 4.4) |
//! | [`variable`] | `Variable`: offsets and bytes (format chapter 22, 4.5) |
//! | [`bits`] | bitmaps: validity, booleans, levels to validity |

pub mod bitpack;
pub mod bits;
pub mod cursor;
pub mod error;
pub mod variable;

pub use cursor::ByteCursor;
pub use error::{CodecError, Result};
