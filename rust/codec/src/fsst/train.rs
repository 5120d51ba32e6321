//! Learning the symbols of a page.
//!
//! Rounds start from no symbols. Each compresses a part of the sample with the symbols so far, counts which symbols occur
//! and which follow which, and keeps the 255 strings that save most: symbols themselves and pairs of neighbours joined. So
//! symbols can double in length every round. The last round joins no more: its table has only strings that were counted.

use super::encode::{Matcher, Words};
use super::table::Symbol;
use super::{ESCAPE, MAX_SYMBOL_LEN, MAX_SYMBOLS};

/// Bytes to learn from.
const SAMPLE_LEN: usize = 16 << 10;
/// Bytes taken from one place of a long value.
const MAX_PIECE: usize = 511;
/// Part of the sample that each round looks at, of [`WHOLE`].
const ROUNDS: [u32; 6] = [16, 48, 80, 112, 128, 128];
const WHOLE: u32 = 128;
/// A string of the whole sample counts from this many occurrences.
const MIN_COUNT: u32 = 5;
/// Single bytes weigh more, to keep escapes (two bytes for one) rare.
const BYTE_WEIGHT: u32 = 8;

/// Codes of a count: symbols first, then the bytes themselves.
const CODES: usize = 512;
const FIRST_BYTE_CODE: usize = 256;

/// At most 255 symbols for the values, the most useful first.
pub(super) fn train<'v>(values: impl Iterator<Item = &'v [u8]> + Clone) -> Vec<Symbol> {
    let sample = sample(values);
    let mut symbols = Vec::new();
    let mut matcher = Matcher::empty();
    matcher.finish();
    let mut counts = Counts::new();
    for (round, &part) in ROUNDS.iter().enumerate() {
        counts.clear();
        counts.add_part(&sample, part, &matcher);
        let join = round + 1 < ROUNDS.len();
        (symbols, matcher) = choose(counts.candidates(&symbols, part, join));
    }
    symbols
}

/// Pieces of values, spread evenly over all bytes.
fn sample<'v>(values: impl Iterator<Item = &'v [u8]> + Clone) -> Vec<&'v [u8]> {
    let (count, total) = values
        .clone()
        .fold((0, 0), |(count, total), v| (count + 1, total + v.len()));
    if total <= SAMPLE_LEN {
        return values.flat_map(|value| value.chunks(MAX_PIECE)).collect();
    }
    let mean = (total / count).clamp(1, MAX_PIECE);
    let stride = total / (SAMPLE_LEN / mean).max(1);
    let mut picks = Picks {
        stride,
        next: 0,
        stratum: 0,
        state: 1,
    };
    let mut pieces = Vec::new();
    let mut start = 0;
    for value in values {
        let end = start + value.len();
        while picks.next < end {
            let at = (picks.next - start).min(value.len().saturating_sub(MAX_PIECE));
            let piece = value.get(at..).unwrap_or_default();
            // A short value is taken whole.
            let piece = if value.len() <= MAX_PIECE { value } else { piece };
            pieces.push(piece.get(..MAX_PIECE).unwrap_or(piece));
            picks.advance();
        }
        start = end;
    }
    pieces
}

/// One position in every stride, at a place that does not follow a period of the data.
struct Picks {
    stride: usize,
    next: usize,
    stratum: usize,
    state: u64,
}

impl Picks {
    fn advance(&mut self) {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.stratum += self.stride;
        self.next = self.stratum + (self.state >> 33) as usize % self.stride.max(1);
    }
}

/// How often codes occur, and how often one follows another.
struct Counts {
    single: Vec<u32>,
    /// A row of followers for each code.
    pair: Vec<[u16; CODES]>,
}

impl Counts {
    fn new() -> Self {
        Self {
            single: vec![0; CODES],
            pair: vec![[0; CODES]; CODES],
        }
    }

    fn clear(&mut self) {
        for (count, followers) in self
            .single
            .iter_mut()
            .zip(&mut self.pair)
            .filter(|(count, _)| **count > 0)
        {
            *count = 0;
            followers.fill(0);
        }
    }

    /// Counts in a part of the sample.
    fn add_part(&mut self, sample: &[&[u8]], part: u32, matcher: &Matcher) {
        for (i, piece) in sample.iter().enumerate() {
            // An odd factor spreads the pieces of every part over the sample.
            if (i as u32).wrapping_mul(53) % WHOLE < part {
                self.add(piece, matcher);
            }
        }
    }

    fn add(&mut self, piece: &[u8], matcher: &Matcher) {
        let mut before = None;
        Words::new(piece).scan(matcher, |found, word| {
            let first = FIRST_BYTE_CODE + usize::from(word as u8);
            let code = if found.code() == ESCAPE {
                first
            } else {
                found.code().into()
            };
            self.count(before, code);
            // The first byte alone is a candidate as well.
            if found.len() > 1 {
                self.count(before, first);
            }
            before = Some(code);
        });
    }

    fn count(&mut self, before: Option<usize>, code: usize) {
        if let Some(count) = self.single.get_mut(code) {
            *count += 1;
        }
        let pair = before.and_then(|before| self.pair.get_mut(before)?.get_mut(code));
        if let Some(count) = pair {
            *count = count.saturating_add(1);
        }
    }

    /// Strings and what they save, each string once.
    fn candidates(&self, symbols: &[Symbol], part: u32, join: bool) -> Vec<Candidate> {
        let least = (MIN_COUNT * part / WHOLE).max(1);
        let mut candidates = Vec::new();
        let codes = self
            .single
            .iter()
            .zip(&self.pair)
            .enumerate()
            .filter(|(_, (count, _))| **count > 0);
        for (code, (&count, followers)) in codes {
            let Some(symbol) = symbol_of(code, symbols) else {
                continue;
            };
            let weight = if symbol.len == 1 { BYTE_WEIGHT } else { 1 };
            candidates.extend(Candidate::new(symbol, count * weight, least));
            if !join || usize::from(symbol.len) == MAX_SYMBOL_LEN {
                continue;
            }
            for (next, &count) in followers
                .iter()
                .enumerate()
                .filter(|(_, count)| u32::from(**count) >= least)
            {
                let joined = symbol_of(next, symbols).map(|next| symbol.concat(next));
                candidates.extend(joined.and_then(|joined| Candidate::new(joined, count.into(), least)));
            }
        }
        merge(candidates)
    }
}

fn symbol_of(code: usize, symbols: &[Symbol]) -> Option<Symbol> {
    match code.checked_sub(FIRST_BYTE_CODE) {
        Some(byte) => Some(Symbol::byte(byte as u8)),
        None => symbols.get(code).copied(),
    }
}

struct Candidate {
    symbol: Symbol,
    /// Bytes of the sample it covers.
    gain: u32,
}

impl Candidate {
    fn new(symbol: Symbol, count: u32, least: u32) -> Option<Self> {
        (count >= least).then(|| Self {
            symbol,
            gain: count * u32::from(symbol.len),
        })
    }
}

/// The same string can come from several pairs.
fn merge(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_unstable_by_key(|c| c.symbol);
    candidates.dedup_by(|next, kept| {
        let same = next.symbol == kept.symbol;
        kept.gain += if same { next.gain } else { 0 };
        same
    });
    candidates
}

/// The candidates of most gain that the matcher has a place for.
fn choose(mut candidates: Vec<Candidate>) -> (Vec<Symbol>, Matcher) {
    candidates.sort_unstable_by(|a, b| {
        (b.gain, b.symbol.len, a.symbol.bytes).cmp(&(a.gain, a.symbol.len, b.symbol.bytes))
    });
    let mut matcher = Matcher::empty();
    let mut symbols = Vec::with_capacity(MAX_SYMBOLS);
    for candidate in candidates {
        if symbols.len() == MAX_SYMBOLS {
            break;
        }
        if matcher.insert(candidate.symbol) {
            symbols.push(candidate.symbol);
        }
    }
    matcher.finish();
    (symbols, matcher)
}
