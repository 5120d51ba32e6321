//! Bitmaps: validity, booleans, and definition levels turned into validity.
//!
//! A bitmap is a byte slice read least significant bit first: bit `i` is bit `i % 8` of byte `i / 8`. A growing bitmap is a
//! `Vec<u8>` together with its length in bits; it holds exactly `ceil(bits / 8)` bytes and the unused high bits of the last
//! byte are 0. Bits past the end of a source slice read as 0, so none of these functions can fail.

const WORD_BITS: usize = 64;
/// Levels turned into bits between two appends.
const LEVEL_BLOCK: usize = 512;

/// Bit `i` of `bytes`.
#[inline]
pub fn get_bit(bytes: &[u8], i: usize) -> bool {
    bytes.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1)
}

/// Appends bits `src_bit .. src_bit + n` of `src` to the bitmap `dst` of `dst_bit_len` bits.
pub fn copy_bits(src: &[u8], src_bit: usize, dst: &mut Vec<u8>, dst_bit_len: &mut usize, n: usize) {
    let head = n.min(dst_bit_len.wrapping_neg() % 8);
    append_word(read_bits(src, src_bit, head), head, dst, dst_bit_len);
    let (mut bit, left) = (src_bit + head, n - head);

    let words = left / WORD_BITS;
    dst.reserve(left.div_ceil(8));
    if words > 0 {
        copy_words(src, bit, dst, words);
        *dst_bit_len += words * WORD_BITS;
        bit += words * WORD_BITS;
    }
    let tail = left % WORD_BITS;
    append_word(read_bits(src, bit, tail), tail, dst, dst_bit_len);
}

/// Appends `n` bits of the same value to the bitmap `dst` of `dst_bit_len` bits.
pub fn fill_bits(value: bool, dst: &mut Vec<u8>, dst_bit_len: &mut usize, n: usize) {
    let word = if value { u64::MAX } else { 0 };
    let head = n.min(dst_bit_len.wrapping_neg() % 8);
    append_word(low_bits(word, head), head, dst, dst_bit_len);
    let left = n - head;
    dst.resize(dst.len() + left / 8, word as u8);
    *dst_bit_len += left / 8 * 8;
    append_word(low_bits(word, left % 8), left % 8, dst, dst_bit_len);
}

/// Appends one bit per level, 1 (valid) iff `level <= max_valid`, to the bitmap `dst`; returns how many zeros (nulls) it
/// appended.
pub fn levels_to_bitmap(levels: &[u16], max_valid: u16, dst: &mut Vec<u8>, dst_bit_len: &mut usize) -> usize {
    let before = *dst_bit_len;
    dst.reserve(levels.len() / 8 + 1);
    for block in levels.chunks(LEVEL_BLOCK) {
        let mut valid = [0u8; LEVEL_BLOCK];
        for (valid, level) in valid.iter_mut().zip(block) {
            *valid = u8::from(*level <= max_valid);
        }
        let mut packed = [0u8; LEVEL_BLOCK / 8];
        for (byte, eight) in packed.iter_mut().zip(valid.as_chunks().0) {
            *byte = pack_bools(*eight);
        }
        copy_bits(&packed, 0, dst, dst_bit_len, block.len());
    }
    levels.len() - count_set_bits(dst, before, levels.len())
}

/// Number of ones among bits `offset .. offset + len` of `bytes`.
pub fn count_set_bits(bytes: &[u8], offset: usize, len: usize) -> usize {
    let head = len.min(offset.wrapping_neg() % 8);
    let first = (offset + head) / 8;
    let whole = (len - head) / 8;
    let tail = (len - head) % 8;
    let rest = bytes.get(first..).unwrap_or_default();
    let body = rest.get(..whole).unwrap_or(rest);
    let (words, odd) = body.as_chunks::<8>();
    let in_words: usize = words
        .iter()
        .map(|w| u64::from_le_bytes(*w).count_ones() as usize)
        .sum();
    let in_odd: usize = odd.iter().map(|b| b.count_ones() as usize).sum();
    let ends = read_bits(bytes, offset, head).count_ones()
        + read_bits(bytes, offset + len - tail, tail).count_ones();
    in_words + in_odd + ends as usize
}

/// Eight bytes of 0 or 1 as eight bits. Byte `i` moves from bit `8 * i` to `56 + i`; no two products meet in one bit.
#[inline]
fn pack_bools(bools: [u8; 8]) -> u8 {
    const GATHER: u64 = 0x0102_0408_1020_4080;
    (u64::from_le_bytes(bools).wrapping_mul(GATHER) >> 56) as u8
}

/// Copies `words` 64-bit words from any bit position to a byte-aligned end of `dst`.
fn copy_words(src: &[u8], bit: usize, dst: &mut Vec<u8>, words: usize) {
    let shift = bit % 8;
    let from = src.get(bit / 8..).unwrap_or_default();
    if let (0, Some(bytes)) = (shift, from.get(..words * 8)) {
        dst.extend_from_slice(bytes);
        return;
    }
    // A shifted word needs a ninth byte; the words near the end of `src` are read bit by bit.
    let fast = words.min(from.len().saturating_sub(1) / 8);
    let (low, high) = (from.as_chunks::<8>().0, from.get(8..).unwrap_or_default());
    let start = dst.len();
    dst.resize(start + fast * 8, 0);
    let (out, _) = dst.get_mut(start..).unwrap_or_default().as_chunks_mut::<8>();
    for ((out, low), high) in out.iter_mut().zip(low).zip(high.chunks(8)) {
        let high = high.first().map_or(0, |high| {
            u64::from(*high).unbounded_shl((WORD_BITS - shift) as u32)
        });
        *out = (u64::from_le_bytes(*low) >> shift | high).to_le_bytes();
    }
    for i in fast..words {
        let word = read_bits(src, bit + i * WORD_BITS, WORD_BITS);
        dst.extend_from_slice(&word.to_le_bytes());
    }
}

/// At most 64 bits from position `bit`, in the low bits of the result.
fn read_bits(src: &[u8], bit: usize, n: usize) -> u64 {
    let from = src.get(bit / 8..).unwrap_or_default();
    let mut wide = 0u128;
    for (i, byte) in from.iter().take(9).enumerate() {
        wide |= u128::from(*byte) << (8 * i);
    }
    low_bits((wide >> (bit % 8)) as u64, n)
}

/// The low `n` bits of a word.
fn low_bits(word: u64, n: usize) -> u64 {
    word & u64::MAX.unbounded_shr((WORD_BITS - n.min(WORD_BITS)) as u32)
}

/// Appends the low `n <= 64` bits of `word`; its other bits are 0.
fn append_word(word: u64, n: usize, dst: &mut Vec<u8>, dst_bit_len: &mut usize) {
    if n == 0 {
        return;
    }
    let used = *dst_bit_len % 8;
    let mut wide = u128::from(word) << used;
    if used > 0 {
        if let Some(last) = dst.last_mut() {
            *last |= wide as u8;
        }
        wide >>= 8;
    }
    *dst_bit_len += n;
    let more = dst_bit_len.div_ceil(8).saturating_sub(dst.len());
    dst.extend(wide.to_le_bytes().iter().take(more));
}
