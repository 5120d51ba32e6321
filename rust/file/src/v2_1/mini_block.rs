//! Mini-block pages: narrow values in chunks that are decoded as a whole (format chapter 21, 4).
//!
//! ```text
//! buffer 0       one word a chunk: bits 0..4 log2 of its values (0 in the last: the rest),
//!                bits 4.. its size in units of 8 bytes, less one
//! buffer 1       the chunks:  u16 num_levels | u16 rep_size, u16 def_size, if there are such levels
//!                | size of each value buffer | pad to 8 | repetition levels | pad to 8 | definition levels | pad to 8
//!                | value buffer 0 | pad to 8 | ...
//! buffer 2       the dictionary, if there is one: then the chunks hold indices
//! last buffer    the repetition index, if there are lists: two u64 a chunk, rows that end in it and slots at its
//!                end of a row that goes on in the next
//! ```
//!
//! 2.1 uses u16 words and buffer sizes, 2.2 u32 (`has_large_chunk`).

use std::ops::Range;
use std::slice;

use bytes::Bytes;
use glaive_codec::ByteCursor;

use super::ValueShape;
use super::codec::{BlockCodec, MiniBlockCodec};
use super::dictionary::Dictionary;
use super::dictionary_column::Mapping;
use super::layers::{ColumnPath, Layers};
use super::levels::SlotLevels;
use super::ranges;
use super::sink::{ColumnSink, Values};
use crate::container::PageInfo;
use crate::proto::lance::encodings21::{
    CompressiveEncoding, MiniBlockLayout, compressive_encoding::Compression,
};
use crate::{Context, Error, FileVersion, Result};

/// Values of a chunk at most: 2^15.
const MAX_CHUNK_VALUES: u64 = 1 << 15;

/// Levels of a chunk at most: writers of old let the u16 count wrap, with run-length levels only.
const MAX_CHUNK_LEVELS: u64 = 5_569_710;

/// How a mini-block page is laid out.
#[derive(Debug)]
pub struct MiniBlockPage {
    layers: Layers,
    rep_codec: Option<BlockCodec>,
    def_codec: Option<BlockCodec>,
    values: MiniBlockCodec,
    /// Shape of what the chunks hold: the column's, or that of the indices.
    chunk_shape: ValueShape,
    dictionary: Option<(BlockCodec, usize)>,
    /// Leaf values of the page.
    num_values: u64,
    /// Chunk words and value sizes are u32 instead of u16.
    large: bool,
}

/// A mini-block page whose chunk words, dictionary and repetition index were read.
#[derive(Debug)]
pub struct MiniBlockState {
    /// Start of each chunk in buffer 1, and the end of the last.
    byte_starts: Vec<u64>,
    /// First value of each chunk, and the number of values.
    value_starts: Vec<u64>,
    dictionary: Option<Dictionary>,
    /// Where rows start, in columns with lists.
    rows: Option<RowStarts>,
}

/// Rows and chunks of a page with lists.
#[derive(Debug)]
struct RowStarts {
    /// Rows that start before each chunk, and the number of rows.
    first_rows: Vec<u64>,
    /// Whether each chunk begins with slots of a row that started earlier.
    preambles: Vec<bool>,
}

impl MiniBlockPage {
    /// Checks a layout against its page, column and version.
    pub fn parse(
        layout: &MiniBlockLayout,
        page: &PageInfo,
        shape: &ValueShape,
        path: &ColumnPath,
        version: FileVersion,
    ) -> Result<Self> {
        if layout.has_large_chunk != (version >= FileVersion::V2_2) {
            return Err(Error::corrupt(format!(
                "mini-block page with {} chunks in a {version} file",
                if layout.has_large_chunk { "large" } else { "small" }
            )));
        }
        let layers = Layers::parse(&layout.layers, path)?;
        if (layers.max_rep() > 0) != (layout.repetition_index_depth > 0) || layout.repetition_index_depth > 1
        {
            return Err(Error::corrupt(format!(
                "repetition index of depth {} in a column of {} lists",
                layout.repetition_index_depth,
                layers.max_rep()
            )));
        }
        if layers.max_rep() == 0 && layout.num_items != page.length {
            return Err(Error::corrupt(format!(
                "{} values in a page of {} rows",
                layout.num_items, page.length
            )));
        }
        let values = layout
            .value_compression
            .as_ref()
            .ok_or_else(|| Error::corrupt("value codec is missing"))?;
        let dictionary = dictionary_codec(layout)?;
        let chunk_shape = if dictionary.is_some() {
            index_shape(values)?
        } else {
            shape.of_items().clone()
        };
        let values = MiniBlockCodec::parse(values, &chunk_shape)?;
        if layout.num_buffers != values.num_buffers() as u64 {
            return Err(Error::corrupt(format!(
                "{} value buffers a chunk, but the codec has {}",
                layout.num_buffers,
                values.num_buffers()
            )));
        }
        let expected = 2 + usize::from(dictionary.is_some()) + usize::from(layers.max_rep() > 0);
        if page.buffers.len() != expected {
            return Err(Error::corrupt(format!(
                "{} page buffers, expected {expected}",
                page.buffers.len()
            )));
        }
        let level_codec =
            |codec: &Option<CompressiveEncoding>| codec.as_ref().map(BlockCodec::parse).transpose();
        let rep_codec = level_codec(&layout.rep_compression).context(|| "repetition levels")?;
        if rep_codec.is_some() != (layers.max_rep() > 0) {
            return Err(Error::corrupt(format!(
                "repetition levels are {} in a column of {} lists",
                if rep_codec.is_some() { "present" } else { "absent" },
                layers.max_rep()
            )));
        }
        Ok(Self {
            layers,
            rep_codec,
            def_codec: level_codec(&layout.def_compression).context(|| "definition levels")?,
            values,
            chunk_shape,
            dictionary,
            num_values: layout.num_items,
            large: layout.has_large_chunk,
        })
    }

    /// Numbers of the buffers that [`Self::init`] takes: chunk words, dictionary, repetition index.
    pub fn init_buffers(&self) -> impl Iterator<Item = usize> {
        let optional = usize::from(self.dictionary.is_some()) + usize::from(self.layers.max_rep() > 0);
        std::iter::once(0).chain(2..2 + optional)
    }

    /// Reads chunk words, dictionary and repetition index.
    pub fn init(&self, page: &PageInfo, shape: &ValueShape, buffers: &[Bytes]) -> Result<MiniBlockState> {
        let mut buffers = buffers.iter();
        let mut next = |what: &str| {
            buffers
                .next()
                .ok_or_else(|| Error::corrupt(format!("{what} is missing")))
        };
        let (byte_starts, value_starts) = self
            .chunk_starts(page, next("chunk metadata")?)
            .context(|| "chunk metadata")?;
        let dictionary = match &self.dictionary {
            Some((codec, items)) => {
                let values = codec
                    .decode_values(shape.of_items(), next("dictionary")?, *items)
                    .context(|| "dictionary")?;
                Some(Dictionary::new(values, *items))
            }
            None => None,
        };
        let rows = match self.layers.max_rep() {
            0 => None,
            _ => {
                let index = next("repetition index")?;
                Some(
                    RowStarts::parse(index, byte_starts.len() - 1, page.length)
                        .context(|| "repetition index")?,
                )
            }
        };
        Ok(MiniBlockState {
            byte_starts,
            value_starts,
            dictionary,
            rows,
        })
    }

    fn chunk_starts(&self, page: &PageInfo, words: &[u8]) -> Result<(Vec<u64>, Vec<u64>)> {
        let width = if self.large { 4 } else { 2 };
        if !words.len().is_multiple_of(width) {
            return Err(Error::corrupt(format!(
                "{} bytes are no whole number of words",
                words.len()
            )));
        }
        let count = words.len() / width;
        let (mut byte_starts, mut value_starts) =
            (Vec::with_capacity(count + 1), Vec::with_capacity(count + 1));
        let (mut bytes, mut values) = (0u64, 0u64);
        let mut cursor = ByteCursor::new(words);
        for chunk in 0..count {
            let word = if self.large {
                cursor.u32()?
            } else {
                u32::from(cursor.u16()?)
            };
            byte_starts.push(bytes);
            value_starts.push(values);
            bytes += (u64::from(word >> 4) + 1) * 8;
            values += chunk_values(
                word & 15,
                chunk + 1 == count,
                self.num_values.saturating_sub(values),
            )
            .context(|| format!("chunk {chunk}"))?;
        }
        byte_starts.push(bytes);
        value_starts.push(values);
        let data = page.buffers.get(1).map_or(0, |b| b.size);
        if values != self.num_values || bytes != data {
            return Err(Error::corrupt(format!(
                "chunks hold {values} values in {bytes} bytes, the page {} in {data}",
                self.num_values
            )));
        }
        Ok((byte_starts, value_starts))
    }

    /// Ranges of the file with the chunks that hold `rows`: neighbouring chunks make one range.
    pub fn chunk_ranges(
        &self,
        state: &MiniBlockState,
        page: &PageInfo,
        rows: &[Range<u64>],
    ) -> Result<Vec<Range<u64>>> {
        let data = page
            .buffers
            .get(1)
            .ok_or_else(|| Error::corrupt("chunk buffer is missing"))?;
        state
            .spans(rows)
            .into_iter()
            .map(|span| data.slice(state.byte(span.start), state.byte(span.end)))
            .collect()
    }

    /// About how many bytes the variable-width values of `rows` take: for reserving memory once.
    pub fn value_bytes(&self, state: &MiniBlockState, rows: u64, parts: &[Bytes]) -> usize {
        match &state.dictionary {
            Some(dictionary) => dictionary
                .mean_len()
                .saturating_mul(usize::try_from(rows).unwrap_or(usize::MAX)),
            None => {
                let stored: usize = parts.iter().map(Bytes::len).sum();
                stored.saturating_mul(self.values.expansion())
            }
        }
    }

    /// Appends `rows`; `parts` are the bytes of [`Self::chunk_ranges`].
    pub fn decode(
        &self,
        state: &MiniBlockState,
        rows: &[Range<u64>],
        parts: &[Bytes],
        out: &mut ColumnSink,
    ) -> Result<()> {
        let mut scratch = Scratch {
            values: Values::new(&self.chunk_shape, 0),
            mapping: match (&mut out.values, &state.dictionary) {
                (Values::Dictionary(keyed), Some(dictionary)) => Some(keyed.map(dictionary)?),
                _ => None,
            },
        };
        for (span, part) in state.spans(rows).into_iter().zip(parts) {
            let base = state.byte(span.start);
            for chunk in span {
                let place = (state.byte(chunk) - base) as usize..(state.byte(chunk + 1) - base) as usize;
                let bytes = part
                    .get(place)
                    .ok_or_else(|| Error::corrupt("chunk outside the bytes read"))?;
                self.decode_chunk(state, chunk, bytes, rows, &mut scratch, out)
                    .context(|| format!("chunk {chunk}"))?;
            }
        }
        Ok(())
    }

    fn decode_chunk(
        &self,
        state: &MiniBlockState,
        chunk: usize,
        bytes: &[u8],
        rows: &[Range<u64>],
        scratch: &mut Scratch,
        out: &mut ColumnSink,
    ) -> Result<()> {
        out.chunks += 1;
        let n = (state.value(chunk + 1) - state.value(chunk)) as usize;
        let level_streams = [self.rep_codec.is_some(), self.def_codec.is_some()];
        let buffers = ChunkBuffers::parse(bytes, level_streams, self.values.num_buffers(), self.large)?;
        let first_row = match &state.rows {
            Some(rows) => rows.first_row(chunk),
            None => state.value(chunk),
        };
        if self.rep_codec.is_none() && self.def_codec.is_none() {
            // One valid value a row. Chunks are small, so a list of ranges in each would cost as much as the values.
            let all = 0..n as u64;
            let is_whole = rows
                .iter()
                .any(|r| r.start <= first_row && r.end >= first_row + all.end);
            let clipped;
            let wanted = if is_whole {
                slice::from_ref(&all)
            } else {
                clipped = ranges::clip(rows, first_row..first_row + all.end);
                &clipped
            };
            out.structure.push_valid(ranges::count(wanted) as usize);
            return self.decode_values(state, &buffers, n, wanted, scratch, &mut out.values);
        }
        let levels = self.levels(&buffers, n)?;
        if let Some(rows) = &state.rows {
            rows.check(chunk, &levels, &self.layers)?;
        }
        let slots = levels.slots_of(&self.layers, first_row, rows);
        let wanted: Vec<_> = slots
            .iter()
            .map(|s| levels.values_of(&self.layers, s))
            .filter(|v| !v.is_empty())
            .collect();
        slots
            .iter()
            .for_each(|slots| levels.push(&self.layers, slots, out));
        self.decode_values(state, &buffers, n, &wanted, scratch, &mut out.values)
    }

    /// Appends the values `wanted` of a chunk of `n`.
    fn decode_values(
        &self,
        state: &MiniBlockState,
        buffers: &ChunkBuffers<'_>,
        n: usize,
        wanted: &[Range<u64>],
        scratch: &mut Scratch,
        out: &mut Values,
    ) -> Result<()> {
        let keyed = matches!(out, Values::Dictionary(_));
        if !keyed && state.dictionary.is_none() {
            return self
                .values
                .decode(&self.chunk_shape, &buffers.values, n, wanted, out);
        }
        let Scratch { values, mapping } = scratch;
        values.clear();
        self.values
            .decode(&self.chunk_shape, &buffers.values, n, wanted, values)?;
        match (out, &state.dictionary, mapping) {
            (Values::Dictionary(keyed), Some(dictionary), Some(mapping)) => {
                keyed.push_indices(dictionary, mapping, values)
            }
            (Values::Dictionary(keyed), ..) => keyed.push_values(values),
            (plain, Some(dictionary), _) => dictionary.gather(values, plain),
            _ => Err(Error::corrupt("page was not initialised")),
        }
    }

    /// The levels of a chunk of `n` values.
    fn levels(&self, chunk: &ChunkBuffers<'_>, n: usize) -> Result<SlotLevels> {
        let streams = [(&self.rep_codec, chunk.rep), (&self.def_codec, chunk.def)];
        let count = match streams.iter().any(|(_, buffer)| buffer.is_some()) {
            true => level_count(&streams, chunk.num_levels)?,
            false => n,
        };
        let decode = |(codec, buffer): (&Option<BlockCodec>, Option<&[u8]>)| {
            codec
                .as_ref()
                .zip(buffer)
                .map(|(codec, buffer)| codec.decode_levels(buffer, count))
                .transpose()
        };
        let [rep, def] = streams;
        let rep = decode(rep).context(|| "repetition levels")?;
        let def = decode(def).context(|| "definition levels")?;
        let levels = SlotLevels::new(&self.layers, rep, def, count)?;
        if levels.values_before(&self.layers, count) != n {
            return Err(Error::corrupt(format!(
                "{count} levels do not own the {n} values of the chunk"
            )));
        }
        Ok(levels)
    }
}

/// What stands between the chunks of a page and the column, if they do not hold its values themselves.
struct Scratch {
    /// Indices, or the values of a column of keys.
    values: Values,
    /// Keys of the page's items.
    mapping: Option<Mapping>,
}

/// Number of levels: the u16 of the chunk, unless run lengths prove that it wrapped.
fn level_count(streams: &[(&Option<BlockCodec>, Option<&[u8]>)], declared: usize) -> Result<usize> {
    for (codec, buffer) in streams {
        let Some((codec, buffer)) = codec.as_ref().zip(*buffer) else {
            continue;
        };
        let Some(count) = codec.level_count(buffer)? else {
            continue;
        };
        if count > declared as u64 && count % 65_536 == declared as u64 && count <= MAX_CHUNK_LEVELS {
            return Ok(count as usize);
        }
    }
    Ok(declared)
}

impl RowStarts {
    fn parse(index: &[u8], chunks: usize, rows: u64) -> Result<Self> {
        if index.len() != chunks * 16 {
            return Err(Error::corrupt(format!(
                "{} bytes for {chunks} chunks",
                index.len()
            )));
        }
        let mut cursor = ByteCursor::new(index);
        let (mut first_rows, mut preambles) = (Vec::with_capacity(chunks + 1), Vec::with_capacity(chunks));
        let (mut row, mut preamble) = (0u64, false);
        for chunk in 0..chunks {
            let (ends, partial) = (cursor.u64()?, cursor.u64()?);
            first_rows.push(row);
            preambles.push(preamble);
            let trailer = partial > 0;
            let starts = ends
                .checked_add(u64::from(trailer))
                .and_then(|s| s.checked_sub(u64::from(preamble)));
            row = starts
                .and_then(|s| row.checked_add(s))
                .filter(|&row| row <= rows)
                .ok_or_else(|| {
                    Error::corrupt(format!(
                        "{ends} rows end in chunk {chunk}, which does not fit its neighbours"
                    ))
                })?;
            preamble = trailer;
        }
        first_rows.push(row);
        if row != rows || preamble {
            return Err(Error::corrupt(format!("{row} rows in a page of {rows}")));
        }
        Ok(Self {
            first_rows,
            preambles,
        })
    }

    fn first_row(&self, chunk: usize) -> u64 {
        self.first_rows.get(chunk).copied().unwrap_or_default()
    }

    /// The levels must start as many rows as the index says, at the place it says.
    fn check(&self, chunk: usize, levels: &SlotLevels, layers: &Layers) -> Result<()> {
        let starts = self.first_row(chunk + 1) - self.first_row(chunk);
        let first = levels.rep.as_ref().and_then(|rep| rep.first());
        let preamble = first.is_some_and(|&rep| rep != layers.max_rep());
        if levels.rows_started(layers) as u64 != starts || Some(&preamble) != self.preambles.get(chunk) {
            return Err(Error::corrupt("repetition levels and repetition index disagree"));
        }
        Ok(())
    }

    /// Chunks that hold slots of `rows`.
    fn span(&self, rows: &Range<u64>) -> Range<usize> {
        let start_of = |row: u64| {
            self.first_rows
                .partition_point(|&first| first <= row)
                .saturating_sub(1)
        };
        let last = start_of(rows.end - 1);
        let mut end = last + 1;
        // The last row may go on, if no other row starts after it.
        while self.first_row(end) == rows.end && self.preambles.get(end) == Some(&true) {
            end += 1;
        }
        start_of(rows.start)..end
    }
}

impl MiniBlockState {
    fn byte(&self, chunk: usize) -> u64 {
        self.byte_starts.get(chunk).copied().unwrap_or_default()
    }

    fn value(&self, chunk: usize) -> u64 {
        self.value_starts.get(chunk).copied().unwrap_or_default()
    }

    /// Chunks that hold `rows`, each once, as ranges of neighbours.
    fn spans(&self, rows: &[Range<u64>]) -> Vec<Range<usize>> {
        let chunk_of = |value: u64| {
            self.value_starts
                .partition_point(|&start| start <= value)
                .saturating_sub(1)
        };
        let mut spans: Vec<Range<usize>> = Vec::new();
        for range in rows {
            let span = match &self.rows {
                Some(rows) => rows.span(range),
                None => chunk_of(range.start)..chunk_of(range.end - 1) + 1,
            };
            match spans.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                _ => spans.push(span),
            }
        }
        spans
    }
}

/// Values of a chunk from the low bits of its word.
fn chunk_values(log_values: u32, last: bool, rest: u64) -> Result<u64> {
    match (log_values, last) {
        (0, true) if (1..=MAX_CHUNK_VALUES).contains(&rest) => Ok(rest),
        (0, true) => Err(Error::corrupt(format!("the last chunk would hold {rest} values"))),
        (0, false) => Err(Error::corrupt("one value in a chunk that is not the last")),
        (log, _) => Ok(1 << log),
    }
}

fn dictionary_codec(layout: &MiniBlockLayout) -> Result<Option<(BlockCodec, usize)>> {
    match (&layout.dictionary, usize::try_from(layout.num_dictionary_items)) {
        (None, Ok(0)) => Ok(None),
        (Some(codec), Ok(items @ 1..)) => {
            Ok(Some((BlockCodec::parse(codec).context(|| "dictionary")?, items)))
        }
        (_, items) => Err(Error::corrupt(format!(
            "dictionary {} with {items:?} items",
            if layout.dictionary.is_some() {
                "present"
            } else {
                "absent"
            }
        ))),
    }
}

/// Shape of dictionary indices: unsigned integers as wide as their codec says.
fn index_shape(encoding: &CompressiveEncoding) -> Result<ValueShape> {
    let mut encoding = encoding;
    // General compression and the codecs of integers nest at most this deep.
    for _ in 0..4 {
        let inner = match &encoding.compression {
            Some(Compression::Flat(flat)) => return index_bits(flat.bits_per_value),
            Some(Compression::InlineBitpacking(p)) => return index_bits(p.uncompressed_bits_per_value),
            Some(Compression::Rle(rle)) => rle.values.as_deref(),
            Some(Compression::ByteStreamSplit(split)) => split.values.as_deref(),
            Some(Compression::General(general)) => general.values.as_deref(),
            _ => None,
        };
        match inner {
            Some(inner) => encoding = inner,
            None => break,
        }
    }
    Err(Error::corrupt("dictionary indices are not integers"))
}

fn index_bits(bits: u64) -> Result<ValueShape> {
    match bits {
        8 | 16 | 32 | 64 => Ok(ValueShape::Fixed { bits: bits as u32 }),
        _ => Err(Error::corrupt(format!("dictionary indices of {bits} bits"))),
    }
}

/// The buffers of one chunk.
struct ChunkBuffers<'a> {
    num_levels: usize,
    rep: Option<&'a [u8]>,
    def: Option<&'a [u8]>,
    values: Vec<&'a [u8]>,
}

impl<'a> ChunkBuffers<'a> {
    /// `level_streams` tells whether there are repetition and definition levels.
    fn parse(bytes: &'a [u8], level_streams: [bool; 2], num_buffers: usize, large: bool) -> Result<Self> {
        let mut cursor = ByteCursor::new(bytes);
        let num_levels = usize::from(cursor.u16()?);
        let [rep, def] = level_streams;
        let rep_size = if rep {
            Some(usize::from(cursor.u16()?))
        } else {
            None
        };
        let def_size = if def {
            Some(usize::from(cursor.u16()?))
        } else {
            None
        };
        let width = if large { 4 } else { 2 };
        let mut sizes = ByteCursor::new(cursor.take(num_buffers.saturating_mul(width))?);
        skip_padding(&mut cursor)?;
        let rep = rep_size.map(|size| padded(&mut cursor, size)).transpose()?;
        let def = def_size.map(|size| padded(&mut cursor, size)).transpose()?;
        let mut values = Vec::with_capacity(num_buffers);
        for _ in 0..num_buffers {
            let size = match large {
                true => sizes.u32()? as usize,
                false => usize::from(sizes.u16()?),
            };
            values.push(padded(&mut cursor, size)?);
        }
        cursor.expect_end()?;
        Ok(Self {
            num_levels,
            rep,
            def,
            values,
        })
    }
}

fn padded<'a>(cursor: &mut ByteCursor<'a>, size: usize) -> Result<&'a [u8]> {
    let bytes = cursor.take(size)?;
    skip_padding(cursor)?;
    Ok(bytes)
}

fn skip_padding(cursor: &mut ByteCursor<'_>) -> Result<()> {
    Ok(cursor.skip(cursor.position().next_multiple_of(8) - cursor.position())?)
}
