//! The symbol table and its 2312 bytes in the page description (format chapter 22, 4.6).
//!
//! ```text
//! 0       n, number of symbols
//! 1, 2    statistics of one encoder, ignored
//! 3       bit 0: values are coded; otherwise they are stored as they are
//! 4       "TSSF"
//! 8       n symbols of 8 bytes, zero-padded
//! 8 + 8n  n lengths, 1 to 8
//! 8 + 9n  zeros up to 2312
//! ```

use std::sync::OnceLock;

use super::encode::Matcher;
use super::{MAX_SYMBOL_LEN, MAX_SYMBOLS, train};
use crate::error::{Result, corrupt};

/// Bytes of every symbol table.
pub const TABLE_LEN: usize = 2312;
const HEADER_LEN: usize = 8;
const MAGIC: [u8; 4] = *b"TSSF";
const CODED: u8 = 1;
/// Length of a code without a symbol: above the sum of any 8 symbols.
pub(super) const NO_SYMBOL: usize = 128;

/// A string of 1 to 8 bytes; the bytes after `len` are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    /// Little-endian: the first byte of the string is the lowest.
    pub bytes: u64,
    pub len: u8,
}

impl Symbol {
    pub fn byte(byte: u8) -> Self {
        Self {
            bytes: byte.into(),
            len: 1,
        }
    }

    /// Both strings in a row, cut to 8 bytes.
    pub fn concat(self, other: Self) -> Self {
        let bytes = self.bytes | other.bytes.unbounded_shl(8 * u32::from(self.len));
        Self {
            bytes,
            len: (self.len + other.len).min(MAX_SYMBOL_LEN as u8),
        }
    }
}

/// The symbols of a page: trained from its values to compress them, or parsed from its description to decompress.
#[derive(Debug)]
pub struct SymbolTable {
    /// Whether values are coded at all.
    pub(super) coded: bool,
    pub(super) symbols: Vec<Symbol>,
    /// By code, for the decoder: bytes and lengths. The length of a code without a symbol is [`NO_SYMBOL`].
    pub(super) bytes: [u64; 256],
    pub(super) lengths: [u8; 256],
    matcher: OnceLock<Matcher>,
}

impl SymbolTable {
    /// Learns a table from a sample of about 16 KiB of the values. The same values always give the same table.
    pub fn train<'v, I>(values: I) -> Self
    where
        I: IntoIterator<Item = &'v [u8]>,
        I::IntoIter: Clone,
    {
        Self::new(true, train::train(values.into_iter()))
    }

    /// The table that stores values as they are.
    pub fn stored() -> Self {
        Self::new(false, Vec::new())
    }

    /// At most 255 symbols.
    fn new(coded: bool, mut symbols: Vec<Symbol>) -> Self {
        symbols.truncate(MAX_SYMBOLS);
        let (mut bytes, mut lengths) = ([0; 256], [NO_SYMBOL as u8; 256]);
        for ((symbol, bytes), len) in symbols.iter().zip(&mut bytes).zip(&mut lengths) {
            *bytes = symbol.bytes;
            *len = symbol.len;
        }
        Self {
            coded,
            symbols,
            bytes,
            lengths,
            matcher: OnceLock::new(),
        }
    }

    /// Reads the table of a page description.
    ///
    /// # Errors
    /// Corrupt if it has another length or magic, or a symbol is not 1 to 8 bytes long.
    pub fn parse(table: &[u8]) -> Result<Self> {
        if table.len() != TABLE_LEN {
            return corrupt(format!(
                "FSST symbol table of {} bytes, expected {TABLE_LEN}",
                table.len()
            ));
        }
        let Some((&[n, _, _, switch, a, b, c, d], body)) = table.split_first_chunk::<HEADER_LEN>() else {
            return corrupt("FSST symbol table without a header");
        };
        if [a, b, c, d] != MAGIC {
            return corrupt("FSST symbol table without its magic");
        }
        let n = usize::from(n);
        let (bytes, rest) = body.split_at_checked(n * 8).unwrap_or_default();
        let symbols = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .zip(rest)
            .map(|(bytes, &len)| symbol(*bytes, len));
        Ok(Self::new(
            switch & CODED == CODED,
            symbols.collect::<Result<_>>()?,
        ))
    }

    /// The 2312 bytes of the page description.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut table = Vec::with_capacity(TABLE_LEN);
        table.extend_from_slice(&[self.symbols.len() as u8, 0, 0, u8::from(self.coded) * CODED]);
        table.extend_from_slice(&MAGIC);
        table.extend(self.symbols.iter().flat_map(|s| s.bytes.to_le_bytes()));
        table.extend(self.symbols.iter().map(|s| s.len));
        table.resize(TABLE_LEN, 0);
        table
    }

    /// Number of symbols, at most 255.
    pub fn symbol_count(&self) -> usize {
        self.symbols.len()
    }

    /// Whether values are coded; if not, they are stored as they are.
    pub fn is_coded(&self) -> bool {
        self.coded
    }

    /// The encoder's index of the symbols, built when first asked for.
    pub(super) fn matcher(&self) -> &Matcher {
        self.matcher.get_or_init(|| Matcher::new(&self.symbols))
    }
}

fn symbol(bytes: [u8; 8], len: u8) -> Result<Symbol> {
    if !(1..=MAX_SYMBOL_LEN as u8).contains(&len) {
        return corrupt(format!(
            "FSST symbol of {len} bytes, expected 1 to {MAX_SYMBOL_LEN}"
        ));
    }
    // Another writer may leave anything behind the symbol.
    let bytes = u64::from_le_bytes(bytes) & u64::MAX >> (64 - 8 * u32::from(len));
    Ok(Symbol { bytes, len })
}
