//! Strings and binary values: end offsets and bytes (format chapter 20, 6.1, 6.3 and 6.4).
//!
//! ```text
//! rows      "a"  "bb"  null  ""        A = 4, one more than the bytes of the page
//! offsets    1    3     7     3        7 >= A: null, ends at 7 - 4 = 3
//! bytes     a b b
//! ```
//!
//! A null row may span bytes, which mean nothing. The bytes of a page may be one zstd or lz4 unit, and then offsets count
//! uncompressed bytes; or each value is FSST-coded, and then they count coded bytes.

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use bytes::Bytes;
use glaive_codec::fsst::SymbolTable;
use glaive_codec::general;

use super::node::{Buffers, length, tree, unexpected, without_nulls};
use super::parts::{Parts, Requests};
use super::sink::Sink;
use super::source::Source;
use crate::container::BufferRange;
use crate::proto::lance::encodings as pb;
use crate::proto::lance::encodings::array_encoding::ArrayEncoding as Tree;
use crate::{Context, Error, Result};

/// Variable-width values.
#[derive(Debug)]
pub struct Binary {
    offsets: Source,
    bytes: Content,
    /// Bytes of all values together.
    total: u64,
    symbols: Option<Box<SymbolTable>>,
}

#[derive(Debug)]
enum Content {
    Plain(Source),
    Compressed(general::Scheme, BufferRange),
}

/// Some rows of the offsets.
struct Span {
    /// Bytes before the first row.
    start: u64,
    /// End of each row.
    ends: Vec<u64>,
    /// Which rows are valid; `None` if all are.
    valid: Option<BooleanBuffer>,
}

impl Binary {
    /// Checks the encoding of `n` values.
    pub fn parse(
        binary: &pb::Binary,
        symbol_table: Option<&Bytes>,
        n: u64,
        buffers: Buffers<'_>,
    ) -> Result<Self> {
        let offsets = buffers
            .source(binary.indices.as_deref(), n)
            .and_then(|source| source.expect_bits(64))
            .context(|| "string offsets")?;
        let total = binary
            .null_adjustment
            .checked_sub(1)
            .ok_or_else(|| Error::corrupt("binary encoding with a null adjustment of 0"))?;
        let bytes = Content::parse(binary.bytes.as_deref(), total, buffers).context(|| "string bytes")?;
        let parse = |table: &Bytes| SymbolTable::parse(table).map(Box::new);
        let symbols = symbol_table
            .map(parse)
            .transpose()
            .context(|| "FSST symbol table")?;
        Ok(Self {
            offsets,
            bytes,
            total,
            symbols,
        })
    }

    /// Whether the bytes are read together with the offsets.
    fn reads_all_bytes(&self, whole: bool) -> bool {
        whole || matches!(self.bytes, Content::Compressed(..))
    }

    /// The offsets of a row and the one before it.
    fn offset_rows(range: &Range<u64>) -> Range<u64> {
        range.start.saturating_sub(1)..range.end
    }

    /// Offsets; and all bytes if they are wanted or one compressed unit.
    pub fn request(&self, rows: &[Range<u64>], whole: bool, out: &mut Requests) -> Result<()> {
        for range in rows {
            self.offsets.request(&Self::offset_rows(range), out)?;
        }
        match &self.bytes {
            Content::Compressed(_, buffer) => out.push(buffer.range()),
            Content::Plain(source) if whole => source.request(&(0..source.len()), out)?,
            Content::Plain(_) => {}
        }
        Ok(())
    }

    /// The bytes that the offsets name.
    pub fn request_second(
        &self,
        rows: &[Range<u64>],
        whole: bool,
        first: &mut Parts<'_>,
        out: &mut Requests,
    ) -> Result<()> {
        let (Content::Plain(source), false) = (&self.bytes, whole) else {
            return Ok(());
        };
        for range in rows {
            let span = self.span(range, first)?;
            source.request(&(span.start..span.end()), out)?;
        }
        Ok(())
    }

    /// Appends `rows`.
    pub fn decode(
        &self,
        rows: &[Range<u64>],
        whole: bool,
        first: &mut Parts<'_>,
        second: &mut Parts<'_>,
        out: &mut Sink,
    ) -> Result<()> {
        let spans = rows
            .iter()
            .map(|range| self.span(range, first))
            .collect::<Result<Vec<_>>>()?;
        let all = match self.reads_all_bytes(whole) {
            true => Some(self.bytes.take_all(self.total, first)?),
            false => None,
        };
        for (range, span) in rows.iter().zip(&spans) {
            match &span.valid {
                None => out.push_validity(true, length(range)?),
                Some(valid) => out.push_validity_bits(valid.values(), valid.offset(), valid.len()),
            }
            let bytes = match (&all, &self.bytes) {
                (Some(all), _) => {
                    let part = all.get(span.start as usize..span.end() as usize);
                    let part = part.ok_or_else(|| Error::corrupt("string offsets beyond the bytes"))?;
                    all.slice_ref(part)
                }
                (None, Content::Plain(source)) => source.take(&(span.start..span.end()), second)?,
                (None, Content::Compressed(..)) => return Err(Error::corrupt("string bytes were not read")),
            };
            self.push(span, &bytes, out)?;
        }
        Ok(())
    }

    /// Reads the offsets of a range of rows.
    fn span(&self, range: &Range<u64>, parts: &mut Parts<'_>) -> Result<Span> {
        let bytes = self.offsets.take(&Self::offset_rows(range), parts)?;
        let words = bytes.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w));
        let end_of = |word: u64| match word > self.total {
            true => word - self.total - 1,
            false => word,
        };
        let before = usize::from(range.start > 0);
        let start = words.clone().take(before).next().map_or(0, end_of);
        let words = words.skip(before);
        let mut previous = start;
        let (mut descending, mut nulls) = (false, false);
        let check = |word: u64| {
            let end = end_of(word);
            descending |= end < previous;
            nulls |= word > self.total;
            previous = end;
            end
        };
        let ends: Vec<u64> = words.clone().map(check).collect();
        if descending || previous > self.total || start > self.total {
            return Err(Error::corrupt(format!(
                "the string offsets of rows {}..{} do not ascend to at most {}",
                range.start, range.end, self.total
            )));
        }
        let valid = nulls.then(|| words.map(|word| word <= self.total).collect());
        Ok(Span { start, ends, valid })
    }

    /// Appends the values of a span, whose bytes are `bytes`.
    fn push(&self, span: &Span, bytes: &[u8], out: &mut Sink) -> Result<()> {
        if let Some(symbols) = &self.symbols {
            return push_coded(symbols, span, bytes, out);
        }
        if span.has_hidden_bytes() {
            let (mut ends, mut visible) = (Vec::with_capacity(span.ends.len()), Vec::new());
            for value in span.values(bytes) {
                visible.extend_from_slice(value);
                ends.push(visible.len() as u64);
            }
            return out.push_variable(&ends, &visible);
        }
        if span.start == 0 {
            return out.push_variable(&span.ends, bytes);
        }
        let ends: Vec<u64> = span.ends.iter().map(|end| end - span.start).collect();
        out.push_variable(&ends, bytes)
    }
}

fn push_coded(symbols: &SymbolTable, span: &Span, coded: &[u8], out: &mut Sink) -> Result<()> {
    // The codes without those of nulls.
    let (mut codes, mut code_ends) = (Vec::new(), Vec::with_capacity(span.ends.len()));
    for value in span.values(coded) {
        codes.extend_from_slice(value);
        code_ends.push(codes.len());
    }
    let (mut bytes, mut ends) = (Vec::new(), vec![0i64; code_ends.len()]);
    let append = |part: &[u8]| bytes.extend_from_slice(part);
    symbols.decompress_all(&codes, code_ends, 0, &mut ends, append)?;
    let ends: Vec<u64> = ends.into_iter().map(i64::unsigned_abs).collect();
    out.push_variable(&ends, &bytes)
}

impl Span {
    fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.start)
    }

    /// Starts and ends of the rows, relative to the first.
    fn bounds(&self) -> impl Iterator<Item = Range<usize>> {
        let mut previous = self.start;
        self.ends.iter().map(move |end| {
            let range = (previous - self.start) as usize..(end - self.start) as usize;
            previous = *end;
            range
        })
    }

    fn has_hidden_bytes(&self) -> bool {
        let Some(valid) = &self.valid else { return false };
        let mut rows = self.bounds().zip(valid.iter());
        rows.any(|(range, valid)| !valid && !range.is_empty())
    }

    /// The bytes of each row; none for a null.
    fn values<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.bounds().enumerate().map(|(i, range)| {
            let valid = self.valid.as_ref().is_none_or(|valid| valid.value(i));
            bytes.get(range).filter(|_| valid).unwrap_or_default()
        })
    }
}

impl Content {
    fn parse(encoding: Option<&pb::ArrayEncoding>, total: u64, buffers: Buffers<'_>) -> Result<Self> {
        if let Tree::Flat(flat) = without_nulls(tree(encoding)?)? {
            let scheme = match flat.compression.as_ref().map(|c| c.scheme.as_str()) {
                None | Some("none" | "") => None,
                Some("zstd") => Some(general::Scheme::Zstd),
                Some("lz4") => Some(general::Scheme::Lz4),
                Some(other) => return Err(Error::unsupported(format!("compression scheme '{other}'"))),
            };
            if flat.bits_per_value != 8 {
                return Err(Error::corrupt(format!(
                    "string bytes of {} bits",
                    flat.bits_per_value
                )));
            }
            let buffer = buffers.get(flat.buffer.as_ref())?;
            return match scheme {
                Some(scheme) => Ok(Self::Compressed(scheme, buffer)),
                // A writer may choose any adjustment above the number of bytes.
                None => Ok(Self::Plain(Source::flat(buffer, 8, total.min(buffer.size))?)),
            };
        }
        match without_nulls(tree(encoding)?)? {
            Tree::Bitpacked(_) | Tree::BitpackedForNonNeg(_) => {
                Ok(Self::Plain(buffers.source(encoding, total)?.expect_bits(8)?))
            }
            other => Err(unexpected(other, "string bytes")),
        }
    }

    /// All bytes, which were read in the first round.
    fn take_all(&self, total: u64, parts: &mut Parts<'_>) -> Result<Bytes> {
        match self {
            Self::Plain(source) => source.take(&(0..source.len()), parts),
            Self::Compressed(scheme, buffer) => {
                let compressed = parts.next(&buffer.range())?;
                let max = usize::try_from(total).unwrap_or(usize::MAX);
                let mut bytes = Vec::new();
                general::decompress(*scheme, &compressed, max, &mut bytes).context(|| "string bytes")?;
                Ok(bytes.into())
            }
        }
    }
}
