//! Codes to strings.
//!
//! A symbol is written as 8 bytes whatever its length, and the position moves by the length: no loop and no branch on the
//! length. The output needs 8 bytes of room for every code left.

use super::{ESCAPE, MAX_SYMBOL_LEN, SymbolTable};
use crate::error::{Result, corrupt, invalid};
use crate::variable::Offset;

/// Codes decoded between two copies to the output.
const PIECE: usize = 512;

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
        let mut rest = value;
        while !rest.is_empty() {
            let (piece, tail) = cut(rest);
            let start = out.len();
            out.resize(start + piece.len() * MAX_SYMBOL_LEN, 0);
            let end = self.decode(piece, out, start)?;
            out.truncate(end);
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
    #[expect(clippy::indexing_slicing, reason = "both tables have an entry for every code")]
    fn decode(&self, codes: &[u8], out: &mut [u8], mut position: usize) -> Result<usize> {
        let mut codes = codes.iter();
        while let Some(&code) = codes.next() {
            let (mut symbol, mut len) = (self.bytes[usize::from(code)], self.lengths[usize::from(code)]);
            if len == 0 {
                symbol = literal(code, codes.next())?.into();
                len = 1;
            }
            let Some(slot) = out.get_mut(position..).and_then(|rest| rest.first_chunk_mut()) else {
                return invalid("no room for decompressed bytes");
            };
            *slot = symbol.to_le_bytes();
            position += usize::from(len);
        }
        Ok(position)
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

/// The byte after an escape; `code` has no symbol.
#[cold]
fn literal(code: u8, next: Option<&u8>) -> Result<u8> {
    match (code, next) {
        (ESCAPE, Some(&byte)) => Ok(byte),
        (ESCAPE, None) => corrupt("FSST value ends with an escape"),
        _ => corrupt(format!("FSST code {code} has no symbol")),
    }
}
