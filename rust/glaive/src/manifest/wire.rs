//! Messages field by field, to keep what this engine does not know (format chapter 30, 2).
//!
//! A protobuf message is a row of fields, each a key (number and wire type) and a value. The generated types drop
//! fields whose numbers they do not have. A later writer may have put something there, so the stored bytes of such
//! fields are set aside when a message is read, and stand at its end when it is written again.

use bytes::{Buf, Bytes};
use glaive_file::Result;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

/// One field of a message.
struct WireField {
    number: u32,
    /// Key and value.
    stored: Bytes,
    /// The value, if it has its length in front.
    delimited: Option<Bytes>,
}

fn next_field(rest: &mut Bytes) -> Result<WireField> {
    let start = rest.clone();
    let (number, wire_type) = decode_key(rest)?;
    let value = rest.clone();
    skip_field(wire_type, number, rest, DecodeContext::default())?;
    let stored = start.slice(..start.len() - rest.len());
    let delimited = if wire_type == WireType::LengthDelimited {
        let mut value = value.slice(..value.len() - rest.len());
        decode_varint(&mut value)?;
        Some(value)
    } else {
        None
    };
    Ok(WireField {
        number,
        stored,
        delimited,
    })
}

fn fields(message: &Bytes) -> impl Iterator<Item = Result<WireField>> {
    let mut rest = message.clone();
    std::iter::from_fn(move || {
        if !rest.has_remaining() {
            return None;
        }
        let field = next_field(&mut rest);
        if field.is_err() {
            rest.clear();
        }
        Some(field)
    })
}

/// The stored bytes of all fields whose numbers are not among `known`, in their order.
///
/// # Errors
/// Corrupt for bytes that are no message.
pub(crate) fn unknown_fields(message: &Bytes, known: &[u32]) -> Result<Bytes> {
    let mut out = Vec::new();
    for field in fields(message) {
        let field = field?;
        if !known.contains(&field.number) {
            out.extend_from_slice(&field.stored);
        }
    }
    Ok(out.into())
}

/// The stored bytes of each message in a repeated field.
///
/// # Errors
/// Corrupt for bytes that are no message.
pub(crate) fn messages(message: &Bytes, number: u32) -> Result<Vec<Bytes>> {
    let of_number = fields(message).filter_map(|field| match field {
        Ok(field) => (field.number == number)
            .then_some(field.delimited)
            .flatten()
            .map(Ok),
        Err(error) => Some(Err(error)),
    });
    of_number.collect()
}

/// Appends a message as the value of a field.
pub(crate) fn put_message(out: &mut Vec<u8>, number: u32, message: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(message.len() as u64, out);
    out.extend_from_slice(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_stay_in_order() {
        // 1: varint 5; 9: varint 300; 2: "ab"; 20: four bytes; 9: "x"
        let message = Bytes::from_static(&[
            0x08, 5, 0x48, 0xac, 0x02, 0x12, 2, b'a', b'b', 0xa5, 0x01, 1, 2, 3, 4, 0x4a, 1, b'x',
        ]);
        assert_eq!(
            unknown_fields(&message, &[1, 2]).unwrap().as_ref(),
            [0x48, 0xac, 0x02, 0xa5, 0x01, 1, 2, 3, 4, 0x4a, 1, b'x']
        );
        assert_eq!(unknown_fields(&message, &[1, 2, 9, 20]).unwrap().len(), 0);
        assert_eq!(messages(&message, 2).unwrap(), [Bytes::from_static(b"ab")]);
        assert!(
            messages(&message, 1).unwrap().is_empty(),
            "a number is no message"
        );
    }

    #[test]
    fn damage_is_an_error() {
        for damaged in [&[0x12, 9, 1][..], &[0x08], &[0x0f, 1], &[0xff; 20]] {
            unknown_fields(&Bytes::copy_from_slice(damaged), &[]).unwrap_err();
        }
    }

    #[test]
    fn a_message_in_a_message() {
        let mut out = Vec::new();
        put_message(&mut out, 2, &[7; 200]);
        assert_eq!(messages(&out.into(), 2).unwrap(), [Bytes::from(vec![7; 200])]);
    }
}
