//! Codes to strings.
//!
//! A symbol is written as 8 bytes whatever its length, and the position moves by the length: no loop and no branch on the
//! length. Codes are taken eight at a time: escapes and codes without a symbol have a length so great that the sum of eight
//! shows them.
//!
//! Values are mostly short, a few codes each. So all codes of many values are decoded as one stream, which notes the position
//! of every code; where the values end is looked up afterwards, without a branch that is hard to predict.

use super::table::NO_SYMBOL;
use super::{ESCAPE, MAX_SYMBOL_LEN, SymbolTable};
use crate::error::{Result, corrupt, invalid};
use crate::variable::Offset;

/// Codes taken at once.
const STEP: usize = 8;
/// Bytes that a step may write.
const ROOM: usize = STEP * MAX_SYMBOL_LEN;
/// Bytes that a step may touch.
const WINDOW: usize = ROOM + MAX_SYMBOL_LEN;
/// Bytes decoded between two copies to the output.
const BUFFER: usize = 4096;
/// Codes decoded between two copies, at most.
const CODES: usize = 2048;
/// Stands for the position of a literal, where no value can end.
const LITERAL: u16 = u16::MAX;

impl SymbolTable {
    /// Appends the string of one compressed value.
    ///
    /// # Errors
    /// Corrupt if a code has no symbol or the value ends with an escape.
    pub fn decompress(&self, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let append = |bytes: &[u8]| out.extend_from_slice(bytes);
        self.decompress_all::<i64>(value, [], 0, &mut [], append)
    }

    /// Hands the strings of values whose `codes` lie one after the other to `append`, piece by piece, and stores where each
    /// ends in `ends`, as if the first byte were byte `base` of the output. `code_ends` tells where each ends in `codes`;
    /// after the last nothing follows.
    ///
    /// # Errors
    /// Corrupt if a code has no symbol, or a value ends with an escape or outside of `codes`; invalid if there are not as
    /// many `code_ends` as `ends`, or the length does not fit `O`.
    pub fn decompress_all<O: Offset>(
        &self,
        codes: &[u8],
        code_ends: impl IntoIterator<Item = usize>,
        base: usize,
        ends: &mut [O],
        mut append: impl FnMut(&[u8]),
    ) -> Result<()> {
        let mut marks = Marks::new(code_ends.into_iter(), ends, base);
        if self.coded {
            self.decode(codes, &mut marks, &mut append)?;
        } else {
            append(codes);
            marks.pass_stored(codes)?;
        }
        marks.finish()
    }

    fn decode<O: Offset>(
        &self,
        codes: &[u8],
        marks: &mut Marks<'_, impl Iterator<Item = usize>, O>,
        append: &mut impl FnMut(&[u8]),
    ) -> Result<()> {
        let mut piece = Piece::new();
        let mut rest = codes;
        loop {
            rest = match marks.next {
                Some(_) => self.decode_piece::<true>(rest, &mut piece)?,
                None => self.decode_piece::<false>(rest, &mut piece)?,
            };
            marks.pass(codes.len() - rest.len(), &piece)?;
            append(piece.buffer.get(..piece.position).unwrap_or_default());
            if rest.is_empty() {
                return Ok(());
            }
            piece.clear();
        }
    }

    /// Decodes codes until the piece is full; returns those that are left. Without `NOTES`, where no value ends any more, the
    /// positions of codes are not kept.
    fn decode_piece<'c, const NOTES: bool>(&self, codes: &'c [u8], piece: &mut Piece) -> Result<&'c [u8]> {
        let mut rest = codes;
        loop {
            let mut taken = 0;
            for step in rest.as_chunks::<STEP>().0 {
                if !piece.has_room() || !self.decode_step::<NOTES>(step, piece)? {
                    break;
                }
                taken += STEP;
            }
            rest = rest.get(taken..).unwrap_or_default();
            let Some(step) = rest.first_chunk::<STEP>().filter(|_| piece.has_room()) else {
                break;
            };
            let taken = self.decode_escapes(step, piece)?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        if rest.len() < STEP && piece.has_room() {
            rest = self.decode_tail(rest, piece)?;
        }
        piece.note(piece.count, piece.position);
        Ok(rest)
    }

    /// Decodes codes that all have symbols; returns false if one has none, and what it wrote does not count.
    #[inline(always)]
    fn decode_step<const NOTES: bool>(&self, codes: &[u8; STEP], piece: &mut Piece) -> Result<bool> {
        let window = piece.buffer.get_mut(piece.position..);
        let Some(window) = window.and_then(|rest| rest.first_chunk_mut::<WINDOW>()) else {
            return invalid("no room for decompressed bytes");
        };
        let mut len = 0;
        let starts = codes.map(|code| {
            let start = len;
            // Symbols start in the first 64 bytes, which needs no check; where the rest would, the sum is too great.
            if let Some(slot) = window
                .get_mut(start % ROOM..)
                .and_then(|rest| rest.first_chunk_mut())
            {
                *slot = self.symbol(code).to_le_bytes();
            }
            len += self.length(code);
            start
        });
        if len >= NO_SYMBOL {
            return Ok(false);
        }
        let positions = piece.positions.get_mut(piece.count..).filter(|_| NOTES);
        if let Some(positions) = positions.and_then(|all| all.first_chunk_mut()) {
            *positions = starts.map(|start| (piece.position + start) as u16);
        }
        piece.count += STEP;
        piece.position += len;
        Ok(true)
    }

    /// Decodes codes among which are escapes, without branches on which they are: an escape writes nothing, the byte after it
    /// itself. Returns the codes taken: an escape at the end is left for the next step.
    fn decode_escapes(&self, codes: &[u8], piece: &mut Piece) -> Result<usize> {
        let (mut literal, mut end) = (false, piece.position);
        for (i, &code) in codes.iter().enumerate() {
            let escape = code == ESCAPE && !literal;
            let (symbol, len) = match literal {
                true => (u64::from(code), 1),
                false => (self.symbol(code), if escape { 0 } else { self.length(code) }),
            };
            piece.note(piece.count + i, if literal { LITERAL.into() } else { end });
            if let Some(slot) = piece
                .buffer
                .get_mut(end..)
                .and_then(|rest| rest.first_chunk_mut())
            {
                *slot = symbol.to_le_bytes();
            }
            end += len;
            literal = escape;
        }
        if end - piece.position >= NO_SYMBOL {
            return corrupt("FSST code without a symbol");
        }
        let taken = codes.len() - usize::from(literal);
        piece.count += taken;
        piece.position = end;
        Ok(taken)
    }

    /// Decodes the last codes, fewer than a step.
    fn decode_tail<'c>(&self, codes: &'c [u8], piece: &mut Piece) -> Result<&'c [u8]> {
        let taken = self.decode_escapes(codes, piece)?;
        match codes.get(taken..) {
            Some(rest @ []) => Ok(rest),
            _ => corrupt(ENDS_WITH_ESCAPE),
        }
    }

    /// Length of the symbol of a code, [`NO_SYMBOL`] if there is none.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the table has an entry for every code")]
    fn length(&self, code: u8) -> usize {
        self.lengths[usize::from(code)].into()
    }

    /// The symbol of a code, zero-padded.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the table has an entry for every code")]
    fn symbol(&self, code: u8) -> u64 {
        self.bytes[usize::from(code)]
    }
}

const ENDS_WITH_ESCAPE: &str = "FSST value ends with an escape";

/// Decoded bytes that were not yet copied to the output.
struct Piece {
    buffer: [u8; BUFFER],
    /// Bytes in the buffer.
    position: usize,
    /// Where the string of each code starts in the buffer, and after the last where it ends.
    positions: [u16; CODES + 2 * STEP],
    /// Codes of the piece.
    count: usize,
}

impl Piece {
    fn new() -> Self {
        Self {
            buffer: [0; BUFFER],
            position: 0,
            positions: [0; CODES + 2 * STEP],
            count: 0,
        }
    }

    fn clear(&mut self) {
        (self.position, self.count) = (0, 0);
    }

    /// Whether another step, or its codes one by one, fits.
    fn has_room(&self) -> bool {
        self.position <= BUFFER - WINDOW && self.count < CODES
    }

    fn note(&mut self, code: usize, position: usize) {
        if let Some(slot) = self.positions.get_mut(code) {
            *slot = position as u16;
        }
    }
}

/// The ends of values: read as numbers of codes, stored as numbers of bytes.
struct Marks<'e, I, O> {
    code_ends: I,
    /// The next of them.
    next: Option<usize>,
    ends: std::slice::IterMut<'e, O>,
    /// Codes and bytes before the piece.
    passed: usize,
    base: usize,
}

impl<'e, I: Iterator<Item = usize>, O: Offset> Marks<'e, I, O> {
    fn new(mut code_ends: I, ends: &'e mut [O], base: usize) -> Self {
        let next = code_ends.next();
        Self {
            code_ends,
            next,
            ends: ends.iter_mut(),
            passed: 0,
            base,
        }
    }

    /// Stores the ends of the values that end in a piece, which reaches to code number `at`.
    fn pass(&mut self, at: usize, piece: &Piece) -> Result<()> {
        while let Some(code_end) = self.next.filter(|next| *next <= at) {
            let position = piece.positions.get(code_end.wrapping_sub(self.passed));
            match position {
                Some(&LITERAL) => return corrupt(ENDS_WITH_ESCAPE),
                Some(&position) => self.put(position.into())?,
                None => return invalid("the ends of values decrease"),
            }
        }
        self.passed = at;
        self.base += piece.position;
        Ok(())
    }

    /// Stores all codes as they are.
    fn pass_stored(&mut self, codes: &[u8]) -> Result<()> {
        while let Some(end) = self.next.filter(|end| *end <= codes.len()) {
            self.put(end)?;
        }
        self.base += codes.len();
        Ok(())
    }

    /// The next value ends at `position` after the base.
    #[inline(always)]
    fn put(&mut self, position: usize) -> Result<()> {
        let Some(end) = self.ends.next() else {
            return invalid("more values than places for their ends");
        };
        // Ends ascend; `finish` checks the last.
        *end = O::from_i64_truncated((self.base + position) as i64);
        self.next = self.code_ends.next();
        Ok(())
    }

    fn finish(self) -> Result<()> {
        if self.next.is_some() {
            return corrupt("FSST value outside of its codes");
        }
        if self.ends.len() > 0 {
            return invalid("fewer values than places for their ends");
        }
        match O::try_from(self.base as u64) {
            Ok(_) => Ok(()),
            Err(_) => invalid(format!(
                "{} decompressed bytes overflow {}-bit offsets",
                self.base,
                O::BITS
            )),
        }
    }
}
