//! Deleted rows in an Arrow IPC file (format chapter 30, 8.3).
//!
//! ```text
//! "ARROW1\0\0"   schema message   record batch message + body   end of stream   footer   i32 length   "ARROW1"
//! ```
//!
//! The file always has one batch with one `uint32` column, so it is read here field by field with every position
//! checked: a general reader of the format takes more on trust than these files deserve. The flatbuffers themselves
//! are verified by the accessors that arrow-ipc generates.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::UInt32Array;
use arrow_ipc::writer::FileWriter;
use arrow_ipc::{
    Block, BodyCompression, CompressionType, RecordBatch, Schema, Type, root_as_footer, root_as_message,
};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use glaive_file::{Error, Result};
use roaring::RoaringBitmap;

const MAGIC: &[u8] = b"ARROW1";

/// Marks a message whose length is in the next four bytes.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Length prefix of a compressed buffer that says "stored as it is".
const NOT_COMPRESSED: i64 = -1;

/// The file that lists these offsets: one batch. It is small enough to need no compression.
///
/// # Errors
/// I/O, from the encoder.
pub(super) fn encode(offsets: &RoaringBitmap) -> Result<Vec<u8>> {
    let field = Field::new("row_id", DataType::UInt32, false);
    let schema = Arc::new(ArrowSchema::new(vec![field]));
    let values: UInt32Array = offsets.iter().collect::<Vec<u32>>().into();
    let batch = arrow_array::RecordBatch::try_new(schema.clone(), vec![Arc::new(values)])?;
    let mut writer = FileWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    writer.finish()?;
    Ok(writer.into_inner()?)
}

/// Decodes the file of a fragment with `physical_rows` rows.
///
/// # Errors
/// Corrupt; unsupported for a compression other than ZSTD.
pub(super) fn decode(file: &[u8], physical_rows: u64) -> Result<RoaringBitmap> {
    let footer = footer_bytes(file)?;
    let footer = root_as_footer(footer).map_err(|e| malformed(&format!("footer: {e}")))?;
    check_schema(footer.schema().ok_or_else(|| malformed("no schema"))?)?;
    let blocks = footer.recordBatches().ok_or_else(|| malformed("no batch"))?;
    let mut blocks = blocks.iter();
    match (blocks.next(), blocks.next()) {
        (Some(block), None) => decode_batch(file, block, physical_rows),
        _ => Err(malformed("the number of batches is not 1")),
    }
}

fn malformed(what: &str) -> Error {
    Error::corrupt(format!("malformed Arrow file: {what}"))
}

/// The bytes of a checked range.
fn slice(bytes: &[u8], range: Range<usize>) -> Result<&[u8]> {
    bytes
        .get(range.clone())
        .ok_or_else(|| malformed(&format!("bytes {range:?} of {}", bytes.len())))
}

fn position(value: i64) -> Result<usize> {
    usize::try_from(value).map_err(|_| malformed(&format!("position {value}")))
}

fn end(start: usize, len: usize) -> Result<usize> {
    start
        .checked_add(len)
        .ok_or_else(|| malformed("a length leaves the file"))
}

fn footer_bytes(file: &[u8]) -> Result<&[u8]> {
    let rest = file.strip_suffix(MAGIC).filter(|_| file.starts_with(MAGIC));
    let rest = rest.ok_or_else(|| malformed("no magic"))?;
    let (rest, len) = rest
        .split_last_chunk::<4>()
        .ok_or_else(|| malformed("no footer"))?;
    let len = position(i32::from_le_bytes(*len).into())?;
    let start = rest
        .len()
        .checked_sub(len)
        .ok_or_else(|| malformed("the footer leaves the file"))?;
    slice(rest, start..rest.len())
}

fn check_schema(schema: Schema<'_>) -> Result<()> {
    let mut fields = schema.fields().into_iter().flatten();
    let is_row_id = fields.next().is_some_and(|field| {
        let is_u32 = field
            .type_as_int()
            .is_some_and(|int| int.bitWidth() == 32 && !int.is_signed());
        field.name() == Some("row_id")
            && field.type_type() == Type::Int
            && is_u32
            && field.dictionary().is_none()
    });
    if is_row_id && fields.next().is_none() && schema.endianness() == arrow_ipc::Endianness::Little {
        return Ok(());
    }
    Err(Error::corrupt("the columns are not one 'row_id' of type uint32"))
}

fn decode_batch(file: &[u8], block: &Block, physical_rows: u64) -> Result<RoaringBitmap> {
    let start = position(block.offset())?;
    let body_start = end(start, position(block.metaDataLength().into())?)?;
    let body = slice(file, body_start..end(body_start, position(block.bodyLength())?)?)?;
    let message = slice(file, start..body_start)?;
    // Before 0.15 of Arrow the length stood alone.
    let message = message.strip_prefix(&CONTINUATION).unwrap_or(message).get(4..);
    let message = root_as_message(message.ok_or_else(|| malformed("empty message"))?);
    let message = message.map_err(|e| malformed(&format!("message: {e}")))?;
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| malformed("the message is no batch"))?;
    decode_column(batch, body, physical_rows)
}

fn decode_column(batch: RecordBatch<'_>, body: &[u8], physical_rows: u64) -> Result<RoaringBitmap> {
    let rows = u64::try_from(batch.length()).map_err(|_| malformed("negative length"))?;
    if rows > physical_rows {
        return Err(Error::corrupt(format!(
            "{rows} rows are deleted of {physical_rows}"
        )));
    }
    if batch
        .nodes()
        .into_iter()
        .flatten()
        .any(|node| node.null_count() != 0)
    {
        return Err(Error::corrupt("a row offset is null"));
    }
    // The first buffer is the validity.
    let buffer = batch
        .buffers()
        .into_iter()
        .flatten()
        .nth(1)
        .ok_or_else(|| malformed("no values"))?;
    let start = position(buffer.offset())?;
    let stored = slice(body, start..end(start, position(buffer.length())?)?)?;
    let len = position(batch.length())?
        .checked_mul(4)
        .ok_or_else(|| malformed("length"))?;
    let values = match batch.compression() {
        None => Cow::Borrowed(stored),
        Some(compression) => decompress(compression, stored, len)?,
    };
    let (values, _) = slice(&values, 0..len)?.as_chunks::<4>();
    Ok(values.iter().map(|value| u32::from_le_bytes(*value)).collect())
}

/// A buffer behind its length. An empty one has none.
fn decompress<'a>(compression: BodyCompression<'_>, stored: &'a [u8], len: usize) -> Result<Cow<'a, [u8]>> {
    let Some((prefix, compressed)) = stored.split_first_chunk::<8>() else {
        return Ok(Cow::Borrowed(stored));
    };
    match i64::from_le_bytes(*prefix) {
        NOT_COMPRESSED => Ok(Cow::Borrowed(compressed)),
        _ if compression.codec() != CompressionType::ZSTD => Err(Error::unsupported(
            "deletion files with another compression than ZSTD",
        )),
        // Writers may pad the values, but not beyond alignment.
        stated if position(stated)? < len || position(stated)? > end(len, 64)? => {
            Err(malformed(&format!("{stated} bytes of values instead of {len}")))
        }
        _ => decompress_zstd(compressed, len).map(Cow::Owned),
    }
}

/// Decodes at most `len` bytes. The memory grows with what really comes out, not with what the file says.
fn decompress_zstd(compressed: &[u8], len: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    zstd::Decoder::with_buffer(compressed)
        .and_then(|decoder| decoder.take(len as u64).read_to_end(&mut out))
        .map_err(|e| malformed(&format!("ZSTD: {e}")))?;
    Ok(out)
}
