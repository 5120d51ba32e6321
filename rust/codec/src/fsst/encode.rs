//! Strings to codes: greedy, the longest symbol that matches.
//!
//! Symbols of 3 to 8 bytes are found by a hash of their first 3 bytes, one symbol a slot; symbols of 2 and 1 bytes by
//! direct tables. The next 8 bytes of the string are held in one word, so a comparison is one `xor` and one shift.
#![expect(
    clippy::indexing_slicing,
    reason = "the tables have an entry for every byte, pair of bytes and hash"
)]

use super::table::Symbol;
use super::{ESCAPE, MAX_SYMBOL_LEN, SymbolTable};

const HASH_BITS: u32 = 11;
const HASH_PREFIX: u64 = 0xff_ff_ff;
/// Number of pairs of bytes.
const ONE_BYTE: usize = 1 << 16;

impl SymbolTable {
    /// Appends the codes of one value, at most twice its length.
    pub fn compress(&self, value: &[u8], out: &mut Vec<u8>) {
        if !self.coded {
            out.extend_from_slice(value);
            return;
        }
        let start = out.len();
        out.resize(start + 2 * value.len(), 0);
        let matcher = self.matcher();
        let mut position = start;
        Words::new(value).scan(matcher, |found, word| {
            // Both bytes are written; an escape keeps the second.
            if let Some(slot) = out.get_mut(position..).and_then(|rest| rest.first_chunk_mut()) {
                *slot = [found.code(), word as u8];
            } else if let Some(last) = out.get_mut(position) {
                *last = found.code();
            }
            position += 1 + usize::from(found.is_escape());
        });
        out.truncate(position);
    }
}

/// The code for the start of a string, in the low byte, and the bytes of the string it covers, in the high byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found(u16);

impl Found {
    const ESCAPE: Self = Self::new(ESCAPE, 1);

    const fn new(code: u8, len: u8) -> Self {
        Self(u16::from_le_bytes([code, len]))
    }

    #[inline(always)]
    pub fn code(self) -> u8 {
        self.0 as u8
    }

    #[inline(always)]
    pub fn is_escape(self) -> bool {
        self.code() == ESCAPE
    }

    #[inline(always)]
    pub fn len(self) -> usize {
        usize::from(self.0 >> 8)
    }
}

/// A symbol of at least 3 bytes.
#[derive(Debug, Clone, Copy)]
struct Long {
    bytes: u64,
    /// Bits of a word behind the symbol.
    ignored: u8,
    found: Found,
}

impl Long {
    /// Longer than any string: never matches.
    const NONE: Self = Self {
        bytes: 0,
        ignored: 0,
        found: Found::new(0, u8::MAX),
    };

    fn is_none(&self) -> bool {
        self.found.len() == usize::from(u8::MAX)
    }
}

/// Index of the symbols by their first bytes. Codes are the order of insertion.
#[derive(Debug)]
pub(super) struct Matcher {
    long: Box<[Long; 1 << HASH_BITS]>,
    /// By the first 2 bytes: the symbol of 2 bytes, or else of the first alone. From [`ONE_BYTE`] on by one byte.
    short: Box<[Found; ONE_BYTE + 256]>,
    has_short: Vec<u16>,
    count: u8,
}

impl Matcher {
    /// Symbols that find their slot taken are left out of the index, their codes stay unused.
    pub fn new(symbols: &[Symbol]) -> Self {
        let mut matcher = Self::empty();
        for &symbol in symbols {
            if !matcher.insert(symbol) {
                matcher.count = matcher.count.saturating_add(1);
            }
        }
        matcher.finish();
        matcher
    }

    /// A matcher without symbols.
    pub fn empty() -> Self {
        Self {
            long: Box::new([Long::NONE; 1 << HASH_BITS]),
            short: Box::new([Found::ESCAPE; ONE_BYTE + 256]),
            has_short: Vec::new(),
            count: 0,
        }
    }

    /// Adds a symbol under the next code, unless its slot is taken. Call [`finish`](Self::finish) after the last.
    pub fn insert(&mut self, symbol: Symbol) -> bool {
        let found = Found::new(self.count, symbol.len);
        let free = match symbol.len {
            1 => put(&mut self.short[ONE_BYTE + symbol.bytes as u8 as usize], found),
            2 => {
                self.has_short.push(symbol.bytes as u16);
                put(&mut self.short[symbol.bytes as u16 as usize], found)
            }
            len => {
                let slot = &mut self.long[hash(symbol.bytes)];
                let free = slot.is_none();
                if free {
                    *slot = Long {
                        bytes: symbol.bytes,
                        ignored: 64 - 8 * len,
                        found,
                    };
                }
                free
            }
        };
        self.count += u8::from(free);
        free
    }

    /// Gives pairs of bytes without a symbol the code of their first byte.
    pub fn finish(&mut self) {
        let kept: Vec<_> = self
            .has_short
            .iter()
            .map(|&pair| (pair, self.short[usize::from(pair)]))
            .collect();
        // The low byte of a pair is the first of the string.
        if let Some((pairs, bytes)) = self.short.split_at_mut_checked(ONE_BYTE) {
            pairs
                .chunks_exact_mut(256)
                .for_each(|row| row.copy_from_slice(bytes));
        }
        for (pair, found) in kept {
            self.short[usize::from(pair)] = found;
        }
    }

    /// The code for the start of `word`, of which `len` bytes belong to the string. One string at a time this is faster: a
    /// branch that is predicted right lets the next word be loaded before this one is compared.
    #[inline(always)]
    fn find(&self, word: u64, len: usize) -> Found {
        let (is_long, long, short) = self.candidates(word, len);
        if is_long { long } else { short }
    }

    /// [`find`](Self::find) without a branch: for several strings side by side, where nothing waits for it.
    #[inline(always)]
    pub(super) fn find_side_by_side(&self, word: u64, len: usize) -> Found {
        let (is_long, long, short) = self.candidates(word, len);
        let mask = u16::from(is_long).wrapping_neg();
        Found(long.0 & mask | short.0 & !mask)
    }

    /// Whether the string starts with a symbol of 3 bytes or more, that symbol, and the one to take otherwise.
    #[inline(always)]
    fn candidates(&self, word: u64, len: usize) -> (bool, Found, Found) {
        let long = &self.long[hash(word)];
        // A last byte alone looks up a pair that is no pair: the entries behind the pairs.
        let pair = word as u16 as usize;
        let short = self.short[if len >= 2 { pair } else { ONE_BYTE + pair % 256 }];
        let is_long = ((word ^ long.bytes) << (long.ignored % 64) == 0) & (long.found.len() <= len);
        (is_long, long.found, short)
    }
}

/// The 8 bytes from `position`, zeros behind the last.
#[inline(always)]
pub(super) fn word_at(bytes: &[u8], position: usize) -> u64 {
    let rest = bytes.get(position..).unwrap_or_default();
    match rest.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => last_word(rest, rest.len()),
    }
}

fn put(slot: &mut Found, found: Found) -> bool {
    let free = slot.is_escape();
    if free {
        *slot = found;
    }
    free
}

#[inline(always)]
fn hash(word: u64) -> usize {
    const MULTIPLIER: u32 = 2_971_215_073;
    let prefix = (word & HASH_PREFIX) as u32;
    (prefix.wrapping_mul(MULTIPLIER) >> (u32::BITS - HASH_BITS)) as usize
}

/// A string read in words of 8 bytes.
pub(super) struct Words<'a> {
    bytes: &'a [u8],
}

impl<'a> Words<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Parses the string greedily; `visit` gets each code and the word it was found in.
    #[inline(always)]
    pub fn scan(self, matcher: &Matcher, mut visit: impl FnMut(Found, u64)) {
        let mut rest = self.bytes;
        while let Some(word) = rest.first_chunk::<MAX_SYMBOL_LEN>() {
            let word = u64::from_le_bytes(*word);
            let found = matcher.find(word, MAX_SYMBOL_LEN);
            visit(found, word);
            rest = rest.get(found.len()..).unwrap_or_default();
        }
        let mut left = rest.len();
        let mut word = last_word(self.bytes, left);
        while left > 0 {
            let found = matcher.find(word, left);
            visit(found, word);
            word = word.unbounded_shr(8 * found.len() as u32);
            left = left.saturating_sub(found.len());
        }
    }
}

/// The last `left < 8` bytes, zeros behind them.
#[inline(always)]
fn last_word(bytes: &[u8], left: usize) -> u64 {
    match bytes.last_chunk::<MAX_SYMBOL_LEN>() {
        Some(last) => u64::from_le_bytes(*last).unbounded_shr(64 - 8 * left as u32),
        None => bytes
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}
