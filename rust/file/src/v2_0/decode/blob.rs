//! Blob columns: position and size of each value, which lies anywhere in the file (format chapter 20, 9).
//!
//! ```text
//! value    position of its bytes in the file, size > 0
//! empty    0, 0
//! null     1, 0
//! ```

use std::ops::Range;

use arrow_buffer::BooleanBuffer;

use super::node::{Buffers, length, tree, unexpected};
use super::parts::{Parts, Requests};
use super::sink::Sink;
use super::source::Source;
use crate::container::BufferRange;
use crate::proto::lance::encodings as pb;
use crate::proto::lance::encodings::array_encoding::ArrayEncoding as Tree;
use crate::{Error, Result};

/// Bits of a position and a size.
const DESCRIPTOR_BITS: u64 = 128;

/// Descriptors of values.
#[derive(Debug)]
pub struct Blob {
    descriptors: Source,
    /// Where the data section of the file ends.
    data_end: u64,
}

impl Blob {
    /// Checks the encoding of `n` descriptors.
    pub fn parse(
        encoding: Option<&pb::ArrayEncoding>,
        n: u64,
        buffers: Buffers<'_>,
        data_end: u64,
    ) -> Result<Self> {
        match tree(encoding)? {
            Tree::PackedStruct(packed) if packed.inner.len() == 2 => Ok(Self {
                descriptors: Source::flat(buffers.get(packed.buffer.as_ref())?, DESCRIPTOR_BITS, n)?,
                data_end,
            }),
            other => Err(unexpected(other, "blob descriptors")),
        }
    }

    /// The descriptors.
    pub fn request(&self, rows: &[Range<u64>], out: &mut Requests) -> Result<()> {
        rows.iter()
            .try_for_each(|range| self.descriptors.request(range, out))
    }

    /// The values.
    pub fn request_second(
        &self,
        rows: &[Range<u64>],
        first: &mut Parts<'_>,
        out: &mut Requests,
    ) -> Result<()> {
        for (_, value) in self.values(rows, first)? {
            out.push(value.range());
        }
        Ok(())
    }

    /// Appends the values of `rows`.
    pub fn decode(
        &self,
        rows: &[Range<u64>],
        first: &mut Parts<'_>,
        second: &mut Parts<'_>,
        out: &mut Sink,
    ) -> Result<()> {
        let values = self.values(rows, first)?;
        let (mut ends, mut bytes) = (Vec::with_capacity(values.len()), Vec::new());
        for (_, value) in &values {
            bytes.extend_from_slice(&second.next(&value.range())?);
            ends.push(bytes.len() as u64);
        }
        let valid: BooleanBuffer = values.iter().map(|(valid, _)| *valid).collect();
        out.push_validity_bits(valid.values(), valid.offset(), valid.len());
        out.push_variable(&ends, &bytes)
    }

    /// Validity and place of each value.
    fn values(&self, rows: &[Range<u64>], first: &mut Parts<'_>) -> Result<Vec<(bool, BufferRange)>> {
        let mut values = Vec::new();
        let mut total = 0u64;
        for range in rows {
            values.reserve(length(range)?);
            let descriptors = self.descriptors.take(range, first)?;
            for words in descriptors.as_chunks::<8>().0.as_chunks::<2>().0 {
                let [position, size] = words.map(u64::from_le_bytes);
                let value = match size {
                    0 => BufferRange { position: 0, size: 0 },
                    _ => BufferRange::new(position, size, self.data_end)?,
                };
                // Values do not share bytes, so that together they are smaller than the file.
                total = total.saturating_add(size);
                if total > self.data_end {
                    return Err(Error::corrupt(
                        "blob values that are larger than the file together",
                    ));
                }
                values.push((size > 0 || position != 1, value));
            }
        }
        Ok(values)
    }
}
