//! Putting a mini-block page together: chunks of levels and values, and the words that describe them
//! (format chapter 21, 4.2 and 4.3).

use super::levels::{LevelCodec, PageLevels};
use super::{EncodedPage, layer_kinds};
use crate::FileVersion;
use crate::proto::lance::encodings21::{
    CompressiveEncoding, MiniBlockLayout, PageLayout, page_layout::Layout,
};

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

/// One chunk: its values and the sizes of its (at most two) buffers.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    /// Number of values.
    pub values: usize,
    /// Bytes of each buffer; the second is 0 for codecs of one buffer.
    pub sizes: [usize; 2],
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

/// Builds the page.
pub fn mini_block(
    values: ChunkedValues,
    items: Option<Items>,
    levels: &PageLevels,
    version: FileVersion,
) -> EncodedPage {
    let lens: Vec<usize> = values.chunks.iter().map(|c| c.values).collect();
    let level_codec = levels.levels().map(|l| LevelCodec::choose(l, &lens, version));
    let large = version >= FileVersion::V2_2;
    let mut body = Vec::with_capacity(values.data.len() + values.data.len() / 64 + values.chunks.len() * 16);
    let mut words = Vec::with_capacity(values.chunks.len() * 4);
    let mut rest_levels = levels.levels().unwrap_or_default();
    let mut rest_data = values.data.as_slice();
    let mut level_bytes = Vec::new();
    for (number, chunk) in values.chunks.iter().enumerate() {
        let start = body.len();
        let (chunk_levels, tail) = rest_levels.split_at_checked(chunk.values).unwrap_or_default();
        rest_levels = tail;
        level_bytes.clear();
        if let Some(codec) = level_codec {
            codec.encode(chunk_levels, &mut level_bytes);
        }
        let sizes = chunk.sizes.get(..values.num_buffers).unwrap_or_default();
        push_header(
            &mut body,
            level_codec.map(|_| (chunk.values, level_bytes.len())),
            sizes,
            large,
        );
        if level_codec.is_some() {
            push_padded(&mut body, &level_bytes);
        }
        for &size in sizes {
            let (buffer, tail) = rest_data.split_at_checked(size).unwrap_or_default();
            rest_data = tail;
            push_padded(&mut body, buffer);
        }
        let last = number + 1 == values.chunks.len();
        push_word(&mut words, chunk.values, body.len() - start, last, large);
    }
    let layout = MiniBlockLayout {
        rep_compression: None,
        def_compression: level_codec.map(LevelCodec::message),
        value_compression: Some(values.codec),
        dictionary: items.as_ref().map(|i| i.codec.clone()),
        num_dictionary_items: items.as_ref().map_or(0, |i| i.count as u64),
        layers: layer_kinds(levels),
        num_buffers: values.num_buffers as u64,
        repetition_index_depth: 0,
        num_items: levels.len() as u64,
        has_large_chunk: large,
    };
    let mut buffers = vec![words, body];
    buffers.extend(items.map(|i| i.buffer));
    EncodedPage {
        layout: PageLayout {
            layout: Some(Layout::MiniBlockLayout(layout)),
        },
        buffers,
    }
}

/// `levels` = number of levels and the size of their buffer.
fn push_header(body: &mut Vec<u8>, levels: Option<(usize, usize)>, sizes: &[usize], large: bool) {
    // Chunks hold at most 4,096 values here, so levels and their bytes fit u16.
    let (count, level_size) = levels.unwrap_or((0, 0));
    body.extend_from_slice(&(count as u16).to_le_bytes());
    if levels.is_some() {
        body.extend_from_slice(&(level_size as u16).to_le_bytes());
    }
    for &size in sizes {
        if large {
            body.extend_from_slice(&(size as u32).to_le_bytes());
        } else {
            body.extend_from_slice(&(size as u16).to_le_bytes());
        }
    }
    pad(body);
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
