//! Putting a mini-block page together: chunks of levels and values, and the words that describe them
//! (format chapter 21, 4.2 and 4.3).

use glaive_codec::general;

use super::levels::{LevelCodec, PageLevels};
use super::options::{ColumnOptions, Compression};
use super::{EncodedPage, layer_kinds, message};
use crate::proto::lance::encodings21::{
    CompressiveEncoding, MiniBlockLayout, PageLayout, page_layout::Layout,
};
use crate::{FileVersion, Result};

/// pylance pads chunks with this; readers ignore it.
const PADDING: u8 = 0xfe;

/// Encoded values, cut into chunks. Every chunk but the last holds a power of two of values.
#[derive(Debug)]
pub struct ChunkedValues {
    /// How a reader is told about the codec.
    pub codec: CompressiveEncoding,
    /// Value buffers of each chunk.
    pub num_buffers: usize,
    /// Values of each chunk, and the sizes of its buffers.
    pub chunks: Vec<Chunk>,
    /// All buffers, one after the other.
    pub data: Vec<u8>,
}

/// General compression pays only from here.
const COMPRESS_MIN_BYTES: usize = 4096;

impl ChunkedValues {
    /// The first buffer of each chunk in the general compressor that the field asks for, if that saves space.
    pub fn compressed(self, options: &ColumnOptions) -> Result<Self> {
        let Compression::General(scheme, level) = options.compression else {
            return Ok(self);
        };
        let plain: usize = self
            .chunks
            .iter()
            .map(|c| c.sizes.first().copied().unwrap_or(0))
            .sum();
        if plain < COMPRESS_MIN_BYTES {
            return Ok(self);
        }
        let (mut data, mut saved) = (Vec::with_capacity(self.data.len()), 0);
        let mut chunks = self.chunks.clone();
        let mut rest = self.data.as_slice();
        for chunk in &mut chunks {
            let total: usize = chunk.sizes.iter().sum();
            let (own, tail) = rest.split_at_checked(total).unwrap_or_default();
            rest = tail;
            let Some(first) = chunk.sizes.first_mut() else {
                continue;
            };
            let (buffer, others) = own.split_at_checked(*first).unwrap_or_default();
            let start = data.len();
            general::compress(scheme, level, buffer, &mut data)?;
            *first = data.len() - start;
            saved += *first;
            data.extend_from_slice(others);
        }
        if saved >= plain {
            return Ok(self);
        }
        Ok(Self {
            codec: message::general(scheme, level, self.codec),
            num_buffers: self.num_buffers,
            chunks,
            data,
        })
    }
}

/// Value buffers of a chunk at most: a fixed-size list has one a level and one for its items.
pub const MAX_BUFFERS: usize = 8;

/// Sizes of one or two buffers.
pub fn sizes(first: usize, second: usize) -> [usize; MAX_BUFFERS] {
    let mut sizes = [0; MAX_BUFFERS];
    sizes
        .iter_mut()
        .zip([first, second])
        .for_each(|(size, value)| *size = value);
    sizes
}

/// One chunk: its values and the sizes of its buffers.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    /// Number of values.
    pub values: usize,
    /// Bytes of each buffer; 0 for those that the codec does not have.
    pub sizes: [usize; MAX_BUFFERS],
}

/// An encoded dictionary.
#[derive(Debug)]
pub struct Items {
    /// Block codec.
    pub codec: CompressiveEncoding,
    /// Number of items.
    pub count: usize,
    /// The encoded items.
    pub buffer: Vec<u8>,
}

/// The largest chunk of a 2.1 page, whose words have 12 bits for its size.
const MAX_SMALL_CHUNK: usize = 32 * 1024;

/// Builds the page; `None` if a chunk would have more levels or bytes than its header can tell, which happens where lists are
/// mostly null or empty.
pub fn mini_block(
    values: ChunkedValues,
    items: Option<Items>,
    levels: &PageLevels,
    version: FileVersion,
) -> Option<EncodedPage> {
    let large = version >= FileVersion::V2_2;
    let slot_ends = levels.cut(values.chunks.iter().map(|c| c.values));
    let codec = |stream: Option<&[u16]>| stream.map(|l| LevelCodec::choose(l, &slot_ends, version));
    let (rep_codec, def_codec) = (codec(levels.rep()), codec(levels.def()));
    let mut body = Vec::with_capacity(values.data.len() + values.data.len() / 64 + values.chunks.len() * 16);
    let mut words = Vec::with_capacity(values.chunks.len() * 4);
    let mut rest = values.data.as_slice();
    let (mut rep, mut def) = (Vec::new(), Vec::new());
    let mut slot = 0;
    for (number, (chunk, &slot_end)) in values.chunks.iter().zip(&slot_ends).enumerate() {
        let start = body.len();
        let streams = [
            (rep_codec, levels.rep(), &mut rep),
            (def_codec, levels.def(), &mut def),
        ];
        for (codec, levels, bytes) in streams {
            bytes.clear();
            if let Some((codec, levels)) = codec.zip(levels) {
                codec.encode(levels.get(slot..slot_end).unwrap_or_default(), bytes);
            }
        }
        let has_levels = rep_codec.is_some() || def_codec.is_some();
        push_u16(&mut body, if has_levels { slot_end - slot } else { 0 })?;
        for (_, bytes) in [(rep_codec, &rep), (def_codec, &def)]
            .into_iter()
            .filter(|(codec, _)| codec.is_some())
        {
            push_u16(&mut body, bytes.len())?;
        }
        let sizes = chunk.sizes.get(..values.num_buffers).unwrap_or_default();
        for &size in sizes {
            match large {
                true => body.extend_from_slice(&u32::try_from(size).ok()?.to_le_bytes()),
                false => push_u16(&mut body, size)?,
            }
        }
        pad(&mut body);
        push_padded(&mut body, &rep);
        push_padded(&mut body, &def);
        for &size in sizes {
            let (buffer, tail) = rest.split_at_checked(size).unwrap_or_default();
            rest = tail;
            push_padded(&mut body, buffer);
        }
        if !large && body.len() - start > MAX_SMALL_CHUNK {
            return None;
        }
        let last = number + 1 == values.chunks.len();
        push_word(&mut words, chunk.values, body.len() - start, last, large);
        slot = slot_end;
    }
    let layout = MiniBlockLayout {
        rep_compression: rep_codec.map(LevelCodec::message),
        def_compression: def_codec.map(LevelCodec::message),
        value_compression: Some(values.codec),
        dictionary: items.as_ref().map(|i| i.codec.clone()),
        num_dictionary_items: items.as_ref().map_or(0, |i| i.count as u64),
        layers: layer_kinds(levels),
        num_buffers: values.num_buffers as u64,
        repetition_index_depth: u32::from(rep_codec.is_some()),
        num_items: levels.values() as u64,
        has_large_chunk: large,
    };
    let mut buffers = vec![words, body];
    buffers.extend(items.map(|i| i.buffer));
    buffers.extend(
        levels
            .rep()
            .map(|rep| repetition_index(rep, levels.max_rep(), &slot_ends)),
    );
    Some(EncodedPage {
        layout: PageLayout {
            layout: Some(Layout::MiniBlockLayout(layout)),
        },
        buffers,
    })
}

/// Two numbers a chunk: rows that end in it, and slots at its end of a row that goes on (format chapter 21, 4.5).
fn repetition_index(rep: &[u16], max_rep: u16, slot_ends: &[usize]) -> Vec<u8> {
    let mut out = Vec::with_capacity(slot_ends.len() * 16);
    let mut start = 0;
    for &end in slot_ends {
        let chunk = rep.get(start..end).unwrap_or_default();
        let next_starts_row = rep.get(end).is_none_or(|&r| r == max_rep);
        let starts = chunk.iter().skip(1).filter(|&&r| r == max_rep).count();
        let open = chunk.iter().rposition(|&r| r == max_rep).unwrap_or(0);
        let (ends, partial) = match next_starts_row {
            true => (starts + 1, 0),
            false => (starts, chunk.len() - open),
        };
        out.extend_from_slice(&(ends as u64).to_le_bytes());
        out.extend_from_slice(&(partial as u64).to_le_bytes());
        start = end;
    }
    out
}

fn push_u16(body: &mut Vec<u8>, value: usize) -> Option<()> {
    body.extend_from_slice(&u16::try_from(value).ok()?.to_le_bytes());
    Some(())
}

fn push_padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend_from_slice(bytes);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(8), PADDING);
}

fn push_word(words: &mut Vec<u8>, values: usize, bytes: usize, last: bool, large: bool) {
    let log = if last { 0 } else { values.ilog2() };
    let word = ((bytes / 8 - 1) as u32) << 4 | log;
    if large {
        words.extend_from_slice(&word.to_le_bytes());
    } else {
        words.extend_from_slice(&(word as u16).to_le_bytes());
    }
}
