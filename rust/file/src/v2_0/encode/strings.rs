//! Strings and binary values (format chapter 20, 6).

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::DataType;
use glaive_codec::fsst::SymbolTable;
use glaive_codec::general::{self, Scheme};

use super::column::{StringCodec, StringOptions};
use super::page::PageBuffers;
use super::{dictionary, message};
use crate::Result;
use crate::proto::lance::encodings::{ArrayEncoding, Compression};

/// FSST pays for its symbol table of 2,312 bytes only from here.
const FSST_MIN_BYTES: usize = 32 * 1024;

/// Bytes of the length in front of a zstd frame.
const ZSTD_LENGTH_BYTES: usize = 8;

/// The values of a page.
pub struct Strings {
    /// End of each value.
    pub ends: Vec<u64>,
    /// Whether each value is valid; empty if all are.
    pub valid: Vec<bool>,
    pub bytes: Buffer,
}

impl Strings {
    /// Joins arrays of strings or binaries. Bytes behind a null are dropped.
    pub fn join(arrays: &[ArrayRef]) -> Self {
        if let [only] = arrays
            && let Some(same) = match only.data_type() {
                DataType::Utf8 => as_it_is::<Utf8Type>(only),
                DataType::LargeUtf8 => as_it_is::<LargeUtf8Type>(only),
                DataType::Binary => as_it_is::<BinaryType>(only),
                _ => as_it_is::<LargeBinaryType>(only),
            }
        {
            return same;
        }
        let rows = arrays.iter().map(|a| a.len()).sum();
        let (mut ends, mut valid, mut bytes) = (Vec::with_capacity(rows), Vec::new(), Vec::new());
        if arrays.iter().any(|a| a.null_count() > 0) {
            valid.reserve(rows);
        }
        for array in arrays {
            match array.data_type() {
                DataType::Utf8 => append::<Utf8Type>(array, &mut ends, &mut bytes),
                DataType::LargeUtf8 => append::<LargeUtf8Type>(array, &mut ends, &mut bytes),
                DataType::Binary => append::<BinaryType>(array, &mut ends, &mut bytes),
                _ => append::<LargeBinaryType>(array, &mut ends, &mut bytes),
            }
            if valid.capacity() > 0 {
                valid.extend((0..array.len()).map(|i| array.is_valid(i)));
            }
        }
        Self {
            ends,
            valid,
            bytes: bytes.into(),
        }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The values in order; `None` for a null.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> + Clone {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).enumerate().map(|(i, (start, end))| {
            let is_valid = self.valid.get(i).copied().unwrap_or(true);
            let value = self.bytes.get(start.as_usize()..end.as_usize());
            value.filter(|_| is_valid)
        })
    }
}

/// The values of one array without a copy of their bytes, unless a null hides some.
fn as_it_is<T: ByteArrayType>(array: &ArrayRef) -> Option<Strings> {
    let array = array.as_bytes::<T>();
    let offsets = array.value_offsets();
    let start = offsets.first()?.as_usize();
    let length = offsets.last()?.as_usize() - start;
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let valid: Vec<bool> = nulls.map(|nulls| nulls.iter().collect()).unwrap_or_default();
    let mut rows = offsets.windows(2).zip(&valid);
    if rows.any(|(window, valid)| !valid && window.first() != window.last()) {
        return None;
    }
    let ends = offsets.iter().skip(1).map(|end| (end.as_usize() - start) as u64);
    Some(Strings {
        ends: ends.collect(),
        valid,
        bytes: array.values().slice_with_length(start, length),
    })
}

fn append<T: ByteArrayType>(array: &ArrayRef, ends: &mut Vec<u64>, bytes: &mut Vec<u8>) {
    for value in array.as_bytes::<T>() {
        bytes.extend_from_slice(value.map(AsRef::as_ref).unwrap_or_default());
        ends.push(bytes.len() as u64);
    }
}

/// Encodes a page of strings or binaries.
pub fn encode(
    arrays: &[ArrayRef],
    options: StringOptions,
    buffers: &mut PageBuffers,
) -> Result<ArrayEncoding> {
    let strings = Strings::join(arrays);
    let is_utf8 = arrays.first().is_some_and(|a| *a.data_type() == DataType::Utf8);
    if is_utf8 && let Some(encoding) = dictionary::encode_strings(&strings, options.dict_threshold, buffers) {
        return Ok(encoding);
    }
    match options.codec {
        StringCodec::Fsst if strings.bytes.len() >= FSST_MIN_BYTES => Ok(encode_fsst(&strings, buffers)),
        StringCodec::General(scheme, level) => {
            let mut compressed = Vec::new();
            general::compress(scheme, level, &strings.bytes, &mut compressed)?;
            if scheme == Scheme::Zstd {
                // The frame without the length in front: all readers know this form, old ones no other.
                compressed.drain(..ZSTD_LENGTH_BYTES.min(compressed.len()));
            }
            let compression = Compression {
                scheme: match scheme {
                    Scheme::Zstd => "zstd".to_owned(),
                    Scheme::Lz4 => "lz4".to_owned(),
                },
                level,
            };
            Ok(encode_with(
                &strings,
                compressed.into(),
                Some(compression),
                buffers,
            ))
        }
        StringCodec::None => {
            let compression = Compression {
                scheme: "none".to_owned(),
                level: None,
            };
            Ok(encode_with(
                &strings,
                strings.bytes.clone(),
                Some(compression),
                buffers,
            ))
        }
        StringCodec::Plain | StringCodec::Fsst => Ok(encode_plain(&strings, buffers)),
    }
}

/// Offsets and bytes as they are.
pub fn encode_plain(strings: &Strings, buffers: &mut PageBuffers) -> ArrayEncoding {
    encode_with(strings, strings.bytes.clone(), None, buffers)
}

/// Offsets and the given form of the bytes.
fn encode_with(
    strings: &Strings,
    stored: Buffer,
    compression: Option<Compression>,
    buffers: &mut PageBuffers,
) -> ArrayEncoding {
    let total = strings.bytes.len() as u64;
    let mut offsets = strings.ends.clone();
    for (offset, _) in offsets
        .iter_mut()
        .zip(&strings.valid)
        .filter(|(_, valid)| !**valid)
    {
        *offset += total + 1;
    }
    let offsets = buffers.add(offsets);
    let bytes = message::flat_compressed(8, buffers.add(stored), compression);
    message::binary(offsets, bytes, total)
}

fn encode_fsst(strings: &Strings, buffers: &mut PageBuffers) -> ArrayEncoding {
    let values = strings.iter().map(Option::unwrap_or_default);
    let table = SymbolTable::train(values.clone());
    let (mut ends, mut bytes) = (
        Vec::with_capacity(strings.len()),
        Vec::with_capacity(strings.bytes.len() / 2),
    );
    for value in values {
        table.compress(value, &mut bytes);
        ends.push(bytes.len() as u64);
    }
    let coded = Strings {
        ends,
        valid: strings.valid.clone(),
        bytes: bytes.into(),
    };
    message::fsst(encode_plain(&coded, buffers), table.to_bytes())
}
