//! Full-zip pages: each value with its control word, addressable by itself (format chapter 21, 5).

use std::borrow::Cow;

use glaive_codec::general::{self, Scheme};

use super::leaf::{LeafValues, PageValues};
use super::levels::PageLevels;
use super::options::{ColumnOptions, Compression};
use super::{EncodedPage, fixed_size_list, layer_kinds, message, packed, variable};
use crate::proto::lance::encodings21::{
    CompressiveEncoding, FullZipLayout, PageLayout, full_zip_layout::Details, page_layout::Layout,
};
use crate::{Error, Result};

/// Values longer than this are compressed one by one, if that pays.
const ZSTD_MIN_LONGEST: usize = 32 * 1024;

/// Smaller pages are not compressed, even if the field asks for it.
const ZSTD_MIN_BYTES: usize = 32 * 1024;

/// Any values in this layout: for rows that do not fit a chunk.
pub fn any(values: &PageValues, levels: &PageLevels, options: &ColumnOptions) -> Result<EncodedPage> {
    match values {
        PageValues::Fixed { width, bytes } => fixed(*width, bytes, message::flat(*width as u64 * 8), levels),
        PageValues::Variable(values) => variable(values, values.longest(), levels, options),
        PageValues::Bits { bits, len } => {
            // A boolean takes a whole byte here.
            let bytes: Vec<u8> = (0..*len)
                .map(|i| u8::from(glaive_codec::bits::get_bit(bits, i)))
                .collect();
            fixed(1, &bytes, message::flat(8), levels)
        }
        PageValues::Lists(lists) => fixed_size_list::full_zip(lists, levels),
        PageValues::Dictionary(_) => Err(Error::unsupported(
            "a row of a dictionary column has more null or empty lists than a chunk can hold: store plain values instead",
        )),
        PageValues::Packed(fields) => packed::zipped(fields, levels, options),
        PageValues::Null | PageValues::EmptyStruct => {
            Err(Error::invalid_input("a page of the null type holds no values"))
        }
    }
}

/// Fixed-width cells of `width` bytes.
pub fn fixed(
    width: usize,
    bytes: &[u8],
    codec: CompressiveEncoding,
    levels: &PageLevels,
) -> Result<EncodedPage> {
    let zipper = Zipper::new(levels);
    let mut stream = Vec::with_capacity(bytes.len() + levels.slots() * zipper.bytes);
    let mut cells = bytes.chunks_exact(width);
    let starts = zipper.zip(&mut stream, |_, stream| {
        stream.extend_from_slice(cells.next().unwrap_or_default())
    });
    let details =
        Details::BitsPerValue(u32::try_from(width * 8).map_err(|_| Error::invalid_input("values too wide"))?);
    let index = levels.rep().map(|_| row_index(&starts, stream.len()));
    page(
        &zipper,
        levels,
        details,
        codec,
        std::iter::once(stream).chain(index).collect(),
    )
}

/// Variable-width values.
pub fn variable(
    values: &LeafValues,
    longest: usize,
    levels: &PageLevels,
    options: &ColumnOptions,
) -> Result<EncodedPage> {
    let (coded, codec) = code(values, longest, options)?;
    zip(&coded, codec, levels)
}

/// The cells of variable-width values, and their codec.
pub fn code<'a>(
    values: &'a LeafValues,
    longest: usize,
    options: &ColumnOptions,
) -> Result<(Cow<'a, LeafValues>, CompressiveEncoding)> {
    let large = values.bytes.len() + values.len() * usize::from(values.offset_bits / 8) >= ZSTD_MIN_BYTES;
    let level = match options.compression {
        // Readers know zstd here; lz4 is taken for it, as in the format's own writer.
        Compression::General(Scheme::Zstd, level) => Some(level),
        Compression::General(Scheme::Lz4, _) => Some(None),
        Compression::Auto if longest > ZSTD_MIN_LONGEST => Some(None),
        _ => None,
    };
    if let Some(level) = level.filter(|_| large)
        && let Some(zipped) = zstd(values, level, options.compression == Compression::Auto)?
    {
        let codec = message::general(Scheme::Zstd, level, message::variable(values.offset_bits));
        return Ok((Cow::Owned(zipped), codec));
    }
    variable::fsst(values, longest, options)
}

/// Every value compressed by itself; if it `must_pay`, only where that saves at least a tenth.
fn zstd(values: &LeafValues, level: Option<i32>, must_pay: bool) -> Result<Option<LeafValues>> {
    let mut out = LeafValues {
        offsets: Vec::with_capacity(values.offsets.len()),
        bytes: Vec::new(),
        offset_bits: values.offset_bits,
        utf8: values.utf8,
    };
    out.offsets.push(0);
    let mut plain = 0;
    for value in values.iter() {
        general::compress(Scheme::Zstd, level, value, &mut out.bytes)?;
        out.offsets.push(out.bytes.len() as i64);
        plain += value.len();
        // Pictures and other compressed data: the first megabyte tells.
        if must_pay && plain > 1 << 20 && out.bytes.len() > plain / 10 * 9 {
            return Ok(None);
        }
    }
    Ok((!must_pay || out.bytes.len() <= plain / 10 * 9).then_some(out))
}

/// Zips variable-width values that are encoded already.
pub fn zip(values: &LeafValues, codec: CompressiveEncoding, levels: &PageLevels) -> Result<EncodedPage> {
    let zipper = Zipper::new(levels);
    // pylance takes the width of the length for that of the offsets it builds, so large types need 64 bits.
    let wide = values.offset_bits == 64 || values.bytes.len() > u32::MAX as usize;
    let mut stream = Vec::with_capacity(values.bytes.len() + levels.slots() * (zipper.bytes + 4));
    let mut cells = values.iter();
    let starts = zipper.zip(&mut stream, |level, stream| {
        let value = cells.next().unwrap_or_default();
        if level != 0 {
            return;
        }
        match wide {
            true => stream.extend_from_slice(&(value.len() as u64).to_le_bytes()),
            false => stream.extend_from_slice(&(value.len() as u32).to_le_bytes()),
        }
        stream.extend_from_slice(value);
    });
    let index = row_index(&starts, stream.len());
    let details = Details::BitsPerOffset(if wide { 64 } else { 32 });
    page(&zipper, levels, details, codec, vec![stream, index])
}

/// Positions of the rows, and the end, in the narrowest width that holds the last one.
fn row_index(starts: &[u64], end: usize) -> Vec<u8> {
    let width = match end {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    let positions = starts.iter().copied().chain(std::iter::once(end as u64));
    positions
        .flat_map(|start| start.to_le_bytes().into_iter().take(width))
        .collect()
}

fn page(
    zipper: &Zipper<'_>,
    levels: &PageLevels,
    details: Details,
    codec: CompressiveEncoding,
    buffers: Vec<Vec<u8>>,
) -> Result<EncodedPage> {
    let count =
        |n: usize| u32::try_from(n).map_err(|_| Error::invalid_input("more than 2^32 - 1 slots in a page"));
    let layout = FullZipLayout {
        bits_rep: zipper.bits_rep,
        bits_def: zipper.bits_def,
        num_items: count(levels.slots())?,
        num_visible_items: count(levels.values())?,
        value_compression: Some(codec),
        layers: layer_kinds(levels),
        details: Some(details),
    };
    Ok(EncodedPage {
        layout: PageLayout {
            layout: Some(Layout::FullZipLayout(layout)),
        },
        buffers,
    })
}

/// Control words: `rep << bits_def | def` in as few bytes as hold it.
struct Zipper<'a> {
    levels: &'a PageLevels,
    bits_rep: u32,
    bits_def: u32,
    bytes: usize,
}

impl<'a> Zipper<'a> {
    fn new(levels: &'a PageLevels) -> Self {
        let bits = |stream: Option<&[u16]>| match stream {
            // A stream that exists has a bit at least, so that all pages of a column agree about having it.
            Some(levels) => (u16::BITS - levels.iter().copied().fold(0, u16::max).leading_zeros()).max(1),
            None => 0,
        };
        let (bits_rep, bits_def) = (bits(levels.rep()), bits(levels.def()));
        let bytes = match bits_rep + bits_def {
            0 => 0,
            1..=8 => 1,
            9..=16 => 2,
            _ => 4,
        };
        Self {
            levels,
            bits_rep,
            bits_def,
            bytes,
        }
    }

    /// Writes all slots; `push_value` writes the next value, which has the given level. Returns where each row starts.
    fn zip(&self, stream: &mut Vec<u8>, mut push_value: impl FnMut(u16, &mut Vec<u8>)) -> Vec<u64> {
        let (max_rep, max_visible) = (self.levels.max_rep(), self.levels.max_visible());
        let at = |levels: Option<&[u16]>, slot: usize| {
            levels.and_then(|l| l.get(slot)).copied().unwrap_or_default()
        };
        let mut starts = Vec::with_capacity(self.levels.rows() + 1);
        for slot in 0..self.levels.slots() {
            let (rep, def) = (at(self.levels.rep(), slot), at(self.levels.def(), slot));
            if rep == max_rep {
                starts.push(stream.len() as u64);
            }
            let word = u32::from(rep) << self.bits_def | u32::from(def);
            stream.extend(word.to_le_bytes().into_iter().take(self.bytes));
            if def <= max_visible || max_rep == 0 {
                push_value(def, stream);
            }
        }
        starts
    }
}
