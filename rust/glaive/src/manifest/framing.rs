//! A manifest file (format chapter 30, 3).
//!
//! ```text
//! [u32 length][IndexSection]      if the version has an index
//! [u32 length][Transaction]       inline copy of the transaction, up to 20 MiB
//! [u32 length][Manifest]          <- the footer points at this length
//! u64 position, u16 major 0, u16 minor 2, "LANC"
//! ```
//!
//! Sections are found through their positions in the Manifest message only. Nothing may stand between that message
//! and the footer.

use bytes::Bytes;
use glaive_file::{Context, Error, Result};
use prost::Message;

use super::{IndexSection, Manifest};
use crate::proto::lance::table as pb;
use crate::transaction::Transaction;

const FOOTER_LEN: usize = 16;
const MAGIC: &[u8; 4] = b"LANC";
const MINOR: u16 = 2;

/// Larger transactions are stored in their own file only.
const MAX_INLINE_TRANSACTION: usize = 20 * 1024 * 1024;

/// A manifest with the sections of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestFile {
    /// The version.
    pub manifest: Manifest,
    /// The indices of the version.
    pub indices: IndexSection,
    /// The stored `Transaction`. Nothing of it has been checked.
    pub transaction_section: Option<Bytes>,
}

impl ManifestFile {
    /// Reads a manifest file and checks everything but the transaction, which has no part in opening a table.
    ///
    /// # Errors
    /// Corrupt for bytes that break the format, unsupported for features that this engine cannot read.
    pub fn decode(file: &Bytes) -> Result<Self> {
        let body = manifest_message(file)?;
        let stored = pb::Manifest::decode(body.clone())?;
        let index_section = stored.index_section;
        let inline = stored
            .transaction_section
            .or(stored.transaction_section_deprecated);
        let transaction_section = inline.and_then(|at| section(file, at).ok());
        let mut manifest = Manifest::from_proto(stored)?;
        manifest.keep_unknown(&body)?;
        let indices = index_section.map(|at| index_section_at(file, at, &manifest));
        let indices = indices.transpose().context(|| "index section")?;
        Ok(Self {
            manifest,
            indices: indices.unwrap_or_default(),
            transaction_section,
        })
    }

    /// Writes the file of a version whose transaction is `transaction`.
    ///
    /// # Errors
    /// Invalid input if a section has more than 2^32 bytes.
    pub fn encode(manifest: &Manifest, indices: &IndexSection, transaction: &Transaction) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut message = manifest.to_proto();
        if let Some(section) = indices.encode() {
            message.index_section = Some(put_section(&mut out, &section)?);
        }
        let transaction = transaction.encode();
        if transaction.len() <= MAX_INLINE_TRANSACTION {
            message.transaction_section = Some(put_section(&mut out, &transaction)?);
        }
        let position = put_section(&mut out, &manifest.encode(message))?;
        out.extend_from_slice(&position.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(&MINOR.to_le_bytes());
        out.extend_from_slice(MAGIC);
        Ok(out)
    }
}

fn index_section_at(file: &Bytes, position: u64, manifest: &Manifest) -> Result<IndexSection> {
    let indices = IndexSection::decode(&section(file, position)?)?;
    indices.check(manifest)?;
    Ok(indices)
}

/// Finds the Manifest message.
fn manifest_message(file: &Bytes) -> Result<Bytes> {
    let too_short = || Error::corrupt(format!("a manifest of {} bytes has no footer", file.len()));
    let footer_at = file.len().checked_sub(FOOTER_LEN).ok_or_else(too_short)?;
    let footer: [u8; FOOTER_LEN] = file
        .get(footer_at..)
        .and_then(|footer| footer.try_into().ok())
        .ok_or_else(too_short)?;
    let [position @ .., _, _, _, _, _, _, _, _] = footer;
    let [.., major_low, major_high, _, _, m0, m1, m2, m3] = footer;
    if [m0, m1, m2, m3] != *MAGIC {
        return Err(Error::corrupt("the manifest does not end with \"LANC\""));
    }
    match u16::from_le_bytes([major_low, major_high]) {
        0 => {}
        major => return Err(Error::unsupported(format!("manifest file version {major}"))),
    }
    let position = u64::from_le_bytes(position);
    let body = section(file, position)?;
    if position + 4 + body.len() as u64 != footer_at as u64 {
        return Err(Error::corrupt(
            "manifest length does not match: the message must end at the footer",
        ));
    }
    Ok(body)
}

/// The section whose length prefix is at `position`.
fn section(file: &Bytes, position: u64) -> Result<Bytes> {
    let outside = || {
        Error::corrupt(format!(
            "section at {position} leaves the file of {} bytes",
            file.len()
        ))
    };
    let start = usize::try_from(position)
        .ok()
        .and_then(|at| at.checked_add(4))
        .ok_or_else(outside)?;
    let prefix = file
        .get(start - 4..start)
        .and_then(|p| p.try_into().ok())
        .ok_or_else(outside)?;
    let len = u32::from_le_bytes(prefix) as usize;
    let end = start
        .checked_add(len)
        .filter(|end| *end <= file.len())
        .ok_or_else(outside)?;
    Ok(file.slice(start..end))
}

/// Appends a section and returns its position.
fn put_section(out: &mut Vec<u8>, bytes: &[u8]) -> Result<u64> {
    let position = out.len() as u64;
    let len = u32::try_from(bytes.len())
        .map_err(|_| Error::invalid_input(format!("manifest section of {} bytes", bytes.len())))?;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
    Ok(position)
}
