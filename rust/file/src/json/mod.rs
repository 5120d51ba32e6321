//! JSON columns (format chapter 10, 7).
//!
//! A `json` field stores each document as JSONB, a binary form that is searched without parsing text; in Arrow it is a
//! `large_binary` with the extension `lance.json`. Writers also take text (`arrow.json` over strings), and tables give text
//! back. All numbers are big-endian:
//!
//! ```text
//! document   = header entry.. payload..
//! header     = kind, 3 bits: 1 scalar, 2 object, 4 array | count, 29 bits (0 for a scalar, which has one entry)
//! entry      = 1 unused bit | kind, 3 bits | bytes of the payload, 28 bits
//! kinds      = 0 null, 1 string (UTF-8), 2 number, 3 false, 4 true, 5 array or object (a document), 6 extension
//! number     = 0x00 zero | 0x10 NaN | 0x20 infinity | 0x30 -infinity | 0x40 signed, 1, 2, 4 or 8 bytes
//!              | 0x50 unsigned, 1, 2, 4 or 8 bytes | 0x60 double | 0x70 decimal: 8, 16 or 32 bytes, then the scale
//! object     = entries of the keys, entries of the values, keys, values; sorted by key
//! ```
//!
//! ```text
//! {"a":1}    40000001 10000001 20000002  61  50 01
//! ```
//!
//! Text is parsed leniently, as other writers do it: `NaN`, `'a'`, `{a:1}`, `[1,,2]` and the empty document (null) are taken. A
//! key that occurs twice is an error.

mod columns;
mod decode;
mod encode;

pub use columns::{decode_column, encode_batch, text_field, text_schema};

/// Documents nested deeper are refused, by the parser and by the reader, because both recurse.
const MAX_DEPTH: usize = 1000;
