//! JSONB to JSON text. The bytes are those of a file, so nothing in them is believed.

use arrow_buffer::i256;
use glaive_codec::ByteCursor;
use serde::Serialize;

use super::MAX_DEPTH;
use crate::{Error, Result};

/// Kinds of a header.
const SCALAR: u32 = 1;
const OBJECT: u32 = 2;
const ARRAY: u32 = 4;

/// Largest scale of a decimal: the digits of the widest.
const MAX_SCALE: usize = 76;

/// Appends the text of a document, without white space.
///
/// # Errors
/// Corrupt: the bytes are no JSONB. Unsupported: values that no JSON text can bring, such as dates.
pub fn decode(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let mut cursor = ByteCursor::new(bytes);
    document(&mut cursor, 0, out)?;
    match cursor.remaining() {
        0 => Ok(()),
        rest => Err(corrupt(&format!("{rest} bytes behind the end"))),
    }
}

fn corrupt(what: &str) -> Error {
    Error::corrupt(format!("not a document in binary JSON: {what}"))
}

/// Kind and length of a payload.
#[derive(Clone, Copy)]
struct Entry(u32);

impl Entry {
    const STRING: u32 = 1;

    fn kind(self) -> u32 {
        self.0 >> 28 & 7
    }

    fn len(self) -> usize {
        (self.0 & 0x0fff_ffff) as usize
    }
}

fn document(cursor: &mut ByteCursor<'_>, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    if depth >= MAX_DEPTH {
        return Err(corrupt(&format!("nested deeper than {MAX_DEPTH} levels")));
    }
    let header = u32_be(cursor)?;
    let count = (header & 0x1fff_ffff) as usize;
    match header >> 29 {
        SCALAR => {
            let entry = Entry(u32_be(cursor)?);
            value(cursor, entry, depth, out)
        }
        ARRAY => {
            let entries = entries(cursor, count)?;
            out.push(b'[');
            for (i, entry) in entries.enumerate() {
                separate(i, out);
                value(cursor, entry, depth, out)?;
            }
            out.push(b']');
            Ok(())
        }
        OBJECT => object(cursor, count, depth, out),
        other => Err(corrupt(&format!("a header of kind {other}"))),
    }
}

fn object(cursor: &mut ByteCursor<'_>, count: usize, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let (keys, values) = (entries(cursor, count)?, entries(cursor, count)?);
    let mut names = Vec::with_capacity(count);
    for key in keys {
        if key.kind() != Entry::STRING {
            return Err(corrupt(&format!("a key of kind {}", key.kind())));
        }
        names.push(take(cursor, key)?);
    }
    out.push(b'{');
    for (i, (name, entry)) in names.into_iter().zip(values).enumerate() {
        separate(i, out);
        string(name, out)?;
        out.push(b':');
        value(cursor, entry, depth, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn separate(i: usize, out: &mut Vec<u8>) {
    if i > 0 {
        out.push(b',');
    }
}

/// The entries, which are there: the bytes bound their number.
fn entries<'a>(cursor: &mut ByteCursor<'a>, count: usize) -> Result<impl Iterator<Item = Entry> + use<'a>> {
    let bytes = count
        .checked_mul(4)
        .and_then(|len| cursor.take(len).ok())
        .ok_or_else(|| corrupt(&format!("{count} entries in {} bytes", cursor.remaining())))?;
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().map(|word| Entry(u32::from_be_bytes(*word))))
}

fn value(cursor: &mut ByteCursor<'_>, entry: Entry, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let payload = take(cursor, entry)?;
    match entry.kind() {
        0 => out.extend_from_slice(b"null"),
        Entry::STRING => string(payload, out)?,
        2 => number(payload, out)?,
        3 => out.extend_from_slice(b"false"),
        4 => out.extend_from_slice(b"true"),
        5 => {
            let mut inner = ByteCursor::new(payload);
            document(&mut inner, depth + 1, out)?;
        }
        6 => {
            return Err(Error::unsupported(
                "binary JSON holds a date, time, interval or binary value, which JSON text has not",
            ));
        }
        other => return Err(corrupt(&format!("a value of kind {other}"))),
    }
    Ok(())
}

fn take<'a>(cursor: &mut ByteCursor<'a>, entry: Entry) -> Result<&'a [u8]> {
    let left = cursor.remaining();
    cursor
        .take(entry.len())
        .map_err(|_| corrupt(&format!("a value of {} bytes where {left} are left", entry.len())))
}

fn u32_be(cursor: &mut ByteCursor<'_>) -> Result<u32> {
    let bytes = cursor.take(4).map_err(|_| corrupt("it is cut off"))?;
    Ok(bytes.iter().fold(0, |n, byte| n << 8 | u32::from(*byte)))
}

fn string(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let text = std::str::from_utf8(bytes).map_err(|_| corrupt("a string that is not UTF-8"))?;
    write(text, out)
}

fn number(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let Some((tag, payload)) = bytes.split_first() else {
        return Err(corrupt("a number without bytes"));
    };
    match (tag, payload.len()) {
        (0x00, 0) => write(&0, out),
        // JSON text has no word for what is no number.
        (0x10 | 0x20 | 0x30, 0) => write(&(), out),
        (0x40, 1 | 2 | 4 | 8) => write(&signed(payload), out),
        (0x50, 1 | 2 | 4 | 8) => write(&unsigned(payload), out),
        (0x60, 8) => write(&f64::from_bits(unsigned(payload)), out),
        (0x70, 9 | 17 | 33) => decimal(payload, out),
        // The former layout: the precision stands before the scale.
        (0x70, 18 | 34) => {
            let mut payload = payload.to_vec();
            payload.remove(payload.len() - 2);
            decimal(&payload, out)
        }
        (tag, len) => Err(corrupt(&format!("a number of kind {tag:#04x} and {len} bytes"))),
    }
}

/// Appends what is text in any case: numbers, strings, null.
fn write(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, value).map_err(|error| corrupt(&error.to_string()))
}

fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Two's complement of as many bytes as there are.
fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().min(8);
    (unsigned(bytes) << unused) as i64 >> unused
}

/// An integer of 8, 16 or 32 bytes and the number of its digits behind the point.
fn decimal(payload: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let Some((scale, integer)) = payload.split_last() else {
        return Err(corrupt("a decimal without bytes"));
    };
    let scale = usize::from(*scale);
    if scale > MAX_SCALE {
        return Err(corrupt(&format!("a decimal of {scale} digits behind the point")));
    }
    let is_negative = integer.first().is_some_and(|byte| *byte >= 0x80);
    let mut wide = [if is_negative { 0xff } else { 0 }; 32];
    for (to, from) in wide.iter_mut().rev().zip(integer.iter().rev()) {
        *to = *from;
    }
    let text = i256::from_be_bytes(wide).to_string();
    let digits = text.trim_start_matches('-');
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if is_negative {
        out.push(b'-');
    }
    out.extend_from_slice(whole.as_bytes());
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    }
    Ok(())
}
