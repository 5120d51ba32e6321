//! JSON text to JSONB.

use super::MAX_DEPTH;
use crate::{Error, Result};

/// Appends the binary form of a document.
///
/// # Errors
/// Invalid input: text that is no UTF-8, no JSON, or nested too deep.
pub fn encode(text: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if std::str::from_utf8(text).is_err() {
        return Err(Error::invalid_input("JSON text is not UTF-8"));
    }
    if depth(text) > MAX_DEPTH {
        return Err(Error::invalid_input(format!(
            "JSON nested deeper than {MAX_DEPTH} levels; flatten it, or store it as a string"
        )));
    }
    jsonb::parse_owned_jsonb_with_buf(text, out)
        .map_err(|error| Error::invalid_input(format!("{:?} is not JSON: {error}", beginning(text))))
}

/// The depth of nesting, as far as the text is JSON: the parser stops where it is not.
fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let mut quote = None;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', Some(_)) => {
                bytes.next();
            }
            (byte, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'[' | b'{', None) => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (b']' | b'}', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The first characters, for messages.
fn beginning(text: &[u8]) -> String {
    const SHOWN: usize = 60;
    let text = String::from_utf8_lossy(text);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}
