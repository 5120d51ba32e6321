//! Codes to strings.
//!
//! A symbol is written as 8 bytes whatever its length, and the position moves by the length: no loop and no branch on the
//! length. The output needs 8 bytes of room for every code left. Codes are taken eight at a time: escapes and codes without
//! a symbol have a length so great that the sum of eight shows them.

use std::slice::Iter;

use super::table::NO_SYMBOL;
use super::{ESCAPE, MAX_SYMBOL_LEN, SymbolTable};
use crate::error::{Result, corrupt, invalid};
use crate::variable::Offset;

/// Codes decoded between two copies to the output.
const PIECE: usize = 512;
/// A value up to this many codes is decoded where it belongs.
const SHORT: usize = 64;

impl SymbolTable {
    /// Appends the string of one compressed value.
    ///
    /// # Errors
    /// Corrupt if a code has no symbol or the value ends with an escape.
    pub fn decompress(&self, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
        if !self.coded {
            out.extend_from_slice(value);
            return Ok(());
        }
        if value.len() <= SHORT {
            let start = out.len();
            out.resize(start + value.len() * MAX_SYMBOL_LEN, 0);
            let end = self.decode(value, out, start)?;
            out.truncate(end);
            return Ok(());
        }
        let mut buffer = [0; PIECE * MAX_SYMBOL_LEN];
        let mut rest = value;
        while !rest.is_empty() {
            let (piece, tail) = cut(rest);
            let len = self.decode(piece, &mut buffer, 0)?;
            out.extend_from_slice(buffer.get(..len).unwrap_or_default());
            rest = tail;
        }
        Ok(())
    }

    /// Appends the strings of compressed values to `out`, and after each the new length of `out` to `offsets`.
    ///
    /// # Errors
    /// As [`decompress`](Self::decompress), and invalid if the length no longer fits `O`.
    pub fn decompress_all<'v, O: Offset>(
        &self,
        values: impl IntoIterator<Item = &'v [u8]>,
        out: &mut Vec<u8>,
        offsets: &mut Vec<O>,
    ) -> Result<()> {
        let mut buffer = [0; PIECE * MAX_SYMBOL_LEN];
        let mut used = 0;
        for value in values {
            if !self.coded || value.len() > PIECE {
                out.extend_from_slice(buffer.get(..used).unwrap_or_default());
                used = 0;
                self.decompress(value, out)?;
            } else {
                if used + value.len() * MAX_SYMBOL_LEN > buffer.len() {
                    out.extend_from_slice(buffer.get(..used).unwrap_or_default());
                    used = 0;
                }
                used = self.decode(value, &mut buffer, used)?;
            }
            offsets.push(O::from_i64_truncated((out.len() + used) as i64));
        }
        out.extend_from_slice(buffer.get(..used).unwrap_or_default());
        match O::try_from(out.len() as u64) {
            // Offsets grow, so all fit if the last does.
            Ok(_) => Ok(()),
            Err(_) => invalid(format!(
                "{} decompressed bytes overflow {}-bit offsets",
                out.len(),
                O::BITS
            )),
        }
    }

    /// Writes the string of `codes` at `position`, where `out` has 8 bytes for each code; returns the position after it.
    #[inline]
    fn decode(&self, codes: &[u8], out: &mut [u8], mut position: usize) -> Result<usize> {
        let mut codes = codes.iter();
        while let Some(eight) = codes.as_slice().first_chunk::<8>() {
            let mut end = position;
            let starts = eight.map(|code| {
                let start = end;
                end += self.length(code);
                start
            });
            if end - position >= NO_SYMBOL {
                position = self.decode_to_literal(&mut codes, out, position)?;
                continue;
            }
            for (&code, start) in eight.iter().zip(starts) {
                self.write_symbol(code, out, start)?;
            }
            position = end;
            codes = codes.as_slice().get(8..).unwrap_or_default().iter();
        }
        while !codes.as_slice().is_empty() {
            position = self.decode_to_literal(&mut codes, out, position)?;
        }
        Ok(position)
    }

    /// Decodes through the first literal.
    fn decode_to_literal(
        &self,
        codes: &mut Iter<'_, u8>,
        out: &mut [u8],
        mut position: usize,
    ) -> Result<usize> {
        while let Some(&code) = codes.next() {
            let len = self.length(code);
            if len == NO_SYMBOL {
                return write_literal(code, codes.next(), out, position);
            }
            self.write_symbol(code, out, position)?;
            position += len;
        }
        Ok(position)
    }

    /// Length of the symbol of a code, [`NO_SYMBOL`] if there is none.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the table has an entry for every code")]
    fn length(&self, code: u8) -> usize {
        self.lengths[usize::from(code)].into()
    }

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the table has an entry for every code")]
    fn write_symbol(&self, code: u8, out: &mut [u8], position: usize) -> Result<()> {
        let Some(slot) = out.get_mut(position..).and_then(|rest| rest.first_chunk_mut()) else {
            return no_room();
        };
        *slot = self.bytes[usize::from(code)].to_le_bytes();
        Ok(())
    }
}

/// Cuts a piece off that does not end between an escape and its literal.
fn cut(codes: &[u8]) -> (&[u8], &[u8]) {
    let Some((piece, _)) = codes.split_at_checked(PIECE) else {
        return (codes, &[]);
    };
    // Escapes in front of the cut pair up, escape and literal 255; an odd one at the end belongs to the next piece.
    let escapes = piece.iter().rev().take_while(|&&code| code == ESCAPE).count();
    codes
        .split_at_checked(PIECE - escapes % 2)
        .unwrap_or((codes, &[]))
}

/// Writes the byte after an escape; `code` has no symbol.
#[inline(always)]
fn write_literal(code: u8, next: Option<&u8>, out: &mut [u8], position: usize) -> Result<usize> {
    let (ESCAPE, Some(&literal)) = (code, next) else {
        return bad_code(code);
    };
    let Some(place) = out.get_mut(position) else {
        return no_room();
    };
    *place = literal;
    Ok(position + 1)
}

#[cold]
fn bad_code(code: u8) -> Result<usize> {
    match code {
        ESCAPE => corrupt("FSST value ends with an escape"),
        _ => corrupt(format!("FSST code {code} has no symbol")),
    }
}

#[cold]
fn no_room<T>() -> Result<T> {
    invalid("no room for decompressed bytes")
}
