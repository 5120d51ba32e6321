//! Mini-block pages: narrow values in chunks that are decoded as a whole (format chapter 21, 4).
//!
//! ```text
//! buffer 0       one word a chunk: bits 0..4 log2 of its values (0 in the last: the rest),
//!                bits 4.. its size in units of 8 bytes, less one
//! buffer 1       the chunks:  u16 num_levels | u16 def_size, if there are levels | size of each value buffer
//!                | pad to 8 | definition levels | pad to 8 | value buffer 0 | pad to 8 | ...
//! buffer 2       the dictionary, if there is one: then the chunks hold indices
//! ```
//!
//! 2.1 uses u16 words and buffer sizes, 2.2 u32 (`has_large_chunk`).

use std::ops::Range;

use bytes::Bytes;
use glaive_codec::ByteCursor;

use super::ValueShape;
use super::codec::{BlockCodec, MiniBlockCodec};
use super::dictionary::Dictionary;
use super::layers::Layers;
use super::ranges;
use super::sink::{ColumnSink, Values};
use crate::container::PageInfo;
use crate::proto::lance::encodings21::{
    CompressiveEncoding, MiniBlockLayout, compressive_encoding::Compression,
};
use crate::{Context, Error, FileVersion, Result};

/// Values of a chunk at most: 2^15.
const MAX_CHUNK_VALUES: u64 = 1 << 15;

/// How a mini-block page is laid out.
#[derive(Debug)]
pub struct MiniBlockPage {
    layers: Layers,
    def_codec: Option<BlockCodec>,
    values: MiniBlockCodec,
    /// Shape of what the chunks hold: the column's, or that of the indices.
    chunk_shape: ValueShape,
    dictionary: Option<(BlockCodec, usize)>,
    /// Chunk words and value sizes are u32 instead of u16.
    large: bool,
}

/// A mini-block page whose chunk words and dictionary were read.
#[derive(Debug)]
pub struct MiniBlockState {
    /// Start of each chunk in buffer 1, and the end of the last.
    byte_starts: Vec<u64>,
    /// First value of each chunk, and the number of values.
    value_starts: Vec<u64>,
    dictionary: Option<Dictionary>,
}

impl MiniBlockPage {
    /// Checks a layout against its page, column and version.
    pub fn parse(
        layout: &MiniBlockLayout,
        page: &PageInfo,
        shape: ValueShape,
        depth: usize,
        version: FileVersion,
    ) -> Result<Self> {
        if layout.has_large_chunk != (version >= FileVersion::V2_2) {
            return Err(Error::corrupt(format!(
                "mini-block page with {} chunks in a {version} file",
                if layout.has_large_chunk { "large" } else { "small" }
            )));
        }
        if layout.rep_compression.is_some() || layout.repetition_index_depth != 0 {
            return Err(Error::corrupt("repetition levels in a column without lists"));
        }
        if layout.num_items != page.length {
            return Err(Error::corrupt(format!(
                "{} values in a page of {} rows",
                layout.num_items, page.length
            )));
        }
        let layers = Layers::parse(&layout.layers, depth)?;
        let values = layout
            .value_compression
            .as_ref()
            .ok_or_else(|| Error::corrupt("value codec is missing"))?;
        let dictionary = dictionary_codec(layout)?;
        let chunk_shape = if dictionary.is_some() {
            index_shape(values)?
        } else {
            shape
        };
        let values = MiniBlockCodec::parse(values, chunk_shape)?;
        if layout.num_buffers != values.num_buffers() as u64 {
            return Err(Error::corrupt(format!(
                "{} value buffers a chunk, but the codec has {}",
                layout.num_buffers,
                values.num_buffers()
            )));
        }
        let expected = if dictionary.is_some() { 3 } else { 2 };
        if page.buffers.len() != expected {
            return Err(Error::corrupt(format!(
                "{} page buffers, expected {expected}",
                page.buffers.len()
            )));
        }
        let def_codec = layout
            .def_compression
            .as_ref()
            .map(BlockCodec::parse)
            .transpose()?;
        Ok(Self {
            layers,
            def_codec,
            values,
            chunk_shape,
            dictionary,
            large: layout.has_large_chunk,
        })
    }

    /// Reads the chunk words and the dictionary.
    pub fn init(
        &self,
        page: &PageInfo,
        shape: ValueShape,
        words: &[u8],
        dictionary: Option<&Bytes>,
    ) -> Result<MiniBlockState> {
        let (byte_starts, value_starts) = self.chunk_starts(page, words).context(|| "chunk metadata")?;
        let dictionary = match (&self.dictionary, dictionary) {
            (Some((codec, items)), Some(bytes)) => {
                let values = codec
                    .decode_values(shape, bytes, *items)
                    .context(|| "dictionary")?;
                Some(Dictionary::new(values, *items))
            }
            (None, _) => None,
            _ => return Err(Error::corrupt("dictionary is missing")),
        };
        Ok(MiniBlockState {
            byte_starts,
            value_starts,
            dictionary,
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
            values += chunk_values(word & 15, chunk + 1 == count, page.length.saturating_sub(values))
                .context(|| format!("chunk {chunk}"))?;
        }
        byte_starts.push(bytes);
        value_starts.push(values);
        let data = page.buffers.get(1).map_or(0, |b| b.size);
        if values != page.length || bytes != data {
            return Err(Error::corrupt(format!(
                "chunks hold {values} values in {bytes} bytes, the page {} in {data}",
                page.length
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

    /// Appends `rows`; `parts` are the bytes of [`Self::chunk_ranges`].
    pub fn decode(
        &self,
        state: &MiniBlockState,
        rows: &[Range<u64>],
        parts: &[Bytes],
        out: &mut ColumnSink,
    ) -> Result<()> {
        let mut indices = Values::new(self.chunk_shape, 0);
        for (span, part) in state.spans(rows).into_iter().zip(parts) {
            let base = state.byte(span.start);
            for chunk in span {
                let window = state.value(chunk)..state.value(chunk + 1);
                let wanted = ranges::clip(rows, window.clone());
                let bytes =
                    part.get((state.byte(chunk) - base) as usize..(state.byte(chunk + 1) - base) as usize);
                let bytes = bytes.ok_or_else(|| Error::corrupt("chunk outside the bytes read"))?;
                let n = (window.end - window.start) as usize;
                self.decode_chunk(state, bytes, n, &wanted, &mut indices, out)
                    .context(|| format!("chunk {chunk}"))?;
            }
        }
        Ok(())
    }

    fn decode_chunk(
        &self,
        state: &MiniBlockState,
        bytes: &[u8],
        n: usize,
        wanted: &[Range<u64>],
        indices: &mut Values,
        out: &mut ColumnSink,
    ) -> Result<()> {
        let chunk = ChunkBuffers::parse(
            bytes,
            self.def_codec.is_some(),
            self.values.num_buffers(),
            self.large,
        )?;
        self.decode_levels(&chunk, n, wanted, out)?;
        let Some(dictionary) = &state.dictionary else {
            return self
                .values
                .decode(self.chunk_shape, &chunk.values, n, wanted, &mut out.values);
        };
        indices.clear();
        self.values
            .decode(self.chunk_shape, &chunk.values, n, wanted, indices)?;
        dictionary.gather(indices, &mut out.values)
    }

    fn decode_levels(
        &self,
        chunk: &ChunkBuffers<'_>,
        n: usize,
        wanted: &[Range<u64>],
        out: &mut ColumnSink,
    ) -> Result<()> {
        let (Some(codec), Some(levels)) = (&self.def_codec, chunk.def) else {
            out.push_valid(ranges::count(wanted) as usize);
            return Ok(());
        };
        if chunk.num_levels != n {
            return Err(Error::corrupt(format!(
                "{} levels for {n} values",
                chunk.num_levels
            )));
        }
        let levels = super::codec::decode_levels(codec, levels, n).context(|| "definition levels")?;
        self.layers.check(&levels)?;
        for range in wanted {
            out.push_levels(
                &self.layers,
                levels
                    .get(range.start as usize..range.end as usize)
                    .unwrap_or_default(),
            );
        }
        Ok(())
    }
}

impl MiniBlockState {
    fn byte(&self, chunk: usize) -> u64 {
        self.byte_starts.get(chunk).copied().unwrap_or_default()
    }

    fn value(&self, chunk: usize) -> u64 {
        self.value_starts.get(chunk).copied().unwrap_or_default()
    }

    /// Chunk that holds a value.
    fn chunk_of(&self, value: u64) -> usize {
        self.value_starts
            .partition_point(|&start| start <= value)
            .saturating_sub(1)
    }

    /// Chunks that hold `rows`, each once, as ranges of neighbours.
    fn spans(&self, rows: &[Range<u64>]) -> Vec<Range<usize>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        for range in rows {
            let (first, end) = (self.chunk_of(range.start), self.chunk_of(range.end - 1) + 1);
            match spans.last_mut() {
                Some(last) if first <= last.end => last.end = last.end.max(end),
                _ => spans.push(first..end),
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
    def: Option<&'a [u8]>,
    values: Vec<&'a [u8]>,
}

impl<'a> ChunkBuffers<'a> {
    fn parse(bytes: &'a [u8], has_def: bool, num_buffers: usize, large: bool) -> Result<Self> {
        let mut cursor = ByteCursor::new(bytes);
        let num_levels = usize::from(cursor.u16()?);
        let def_size = if has_def { usize::from(cursor.u16()?) } else { 0 };
        let mut sizes = Vec::with_capacity(num_buffers);
        for _ in 0..num_buffers {
            sizes.push(if large {
                cursor.u32()? as usize
            } else {
                usize::from(cursor.u16()?)
            });
        }
        skip_padding(&mut cursor)?;
        let def = if has_def {
            Some(padded(&mut cursor, def_size)?)
        } else {
            None
        };
        let values = sizes
            .into_iter()
            .map(|size| padded(&mut cursor, size))
            .collect::<Result<_>>()?;
        cursor.expect_end()?;
        Ok(Self {
            num_levels,
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
