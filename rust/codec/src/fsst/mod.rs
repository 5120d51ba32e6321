//! FSST: strings as codes of a table of up to 255 symbols of 1 to 8 bytes (format chapter 22, 4.6).
//!
//! A compressed value is a sequence of codes. Code `c < n` stands for symbol `c`; code 255 is the escape, the byte after it
//! stands for itself. Values are compressed one by one, so each can be decoded alone; one [`SymbolTable`] serves a page.
//!
//! P. Boncz, T. Neumann, V. Leis: "FSST: Fast Random Access String Compression", PVLDB 13(11), 2020.

mod decode;
mod encode;
mod lanes;
mod table;
mod train;

pub use table::{SymbolTable, TABLE_LEN};

/// The byte after this code stands for itself.
const ESCAPE: u8 = 255;
/// Symbols of a full table.
const MAX_SYMBOLS: usize = 255;
/// Bytes of the longest symbol.
const MAX_SYMBOL_LEN: usize = 8;
