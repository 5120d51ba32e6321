//! Blobs by row: as handles that are read in parts, or as bytes (format chapter 21, 7).

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use bytes::Bytes;
use glaive_file::blob::{BlobHandle, BlobSource, values_of};
use glaive_file::schema::no_field;
use glaive_file::{BlobHandling, Context, Error, FileReader, Result};

use crate::dataset::{Dataset, FragmentHandle};
use crate::projection::Projection;
use crate::take::read_offsets;

/// Rows that a caller names; a row may be named twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowSelection<'a> {
    /// Positions among the live rows of the table.
    Positions(&'a [u64]),
    /// Fragment id in the high 32 bits, physical offset in the low.
    Addresses(&'a [u64]),
    /// Row ids: without stable ids the addresses.
    Ids(&'a [u64]),
}

/// A blob and the row it belongs to.
#[derive(Debug)]
pub struct TakenBlob {
    /// Address of the row.
    pub address: u64,
    /// `None`: the value is null.
    pub blob: Option<BlobHandle>,
}

/// A part of the blob of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobPart {
    /// Address of the row.
    pub address: u64,
    /// The bytes; `None`: the value is null.
    pub bytes: Option<Bytes>,
}

impl Dataset {
    /// Handles of the blobs of some rows, in the order asked. Reads descriptors only.
    ///
    /// # Errors
    /// Invalid input for a column that is no blob column and for rows that do not exist; unsupported for deleted rows.
    pub fn take_blobs(&self, column: &str, rows: RowSelection<'_>) -> Result<Vec<TakenBlob>> {
        let found = Found::read(self, column, rows, BlobHandling::Descriptors)?;
        let mut values = Vec::with_capacity(found.parts.len());
        for part in &found.parts {
            let source = part.reader.clone().map(BlobSource::new);
            let descriptors = values_of(&part.array).context(|| format!("column '{column}'"))?;
            values.push((source, descriptors));
        }
        let taken = |address: &u64| {
            let (part, row) = found.place(*address)?;
            let blob = match values.get_mut(part) {
                Some((Some(source), values)) => {
                    let value = values.get(row).cloned().flatten();
                    let handle = value.map(|value| source.handle(value));
                    handle.transpose().context(|| format!("row address {address}"))?
                }
                _ => None,
            };
            Ok(TakenBlob {
                address: *address,
                blob,
            })
        };
        found.addresses.iter().map(taken).collect()
    }

    /// The blobs of some rows. `preserve_order`: in the order asked, else by address.
    ///
    /// # Errors
    /// As [`Dataset::take_blobs`], and as reading the bytes fails.
    pub fn read_blobs(
        &self,
        column: &str,
        rows: RowSelection<'_>,
        preserve_order: bool,
    ) -> Result<Vec<BlobPart>> {
        let mut found = Found::read(self, column, rows, BlobHandling::Bytes)?;
        if !preserve_order {
            found.addresses.sort_unstable();
        }
        let shared = found.parts.iter().map(Part::bytes).collect::<Result<Vec<_>>>()?;
        let read = |address: &u64| {
            let (part, row) = found.place(*address)?;
            let bytes = shared.get(part).and_then(|part| part.get(row).cloned()).flatten();
            Ok(BlobPart {
                address: *address,
                bytes,
            })
        };
        found.addresses.iter().map(read).collect()
    }

    /// Parts of the blobs of some rows: for each row of the selection one range of bytes. Parts of one blob that are named one
    /// after the other share reads.
    ///
    /// # Errors
    /// As [`Dataset::take_blobs`]; invalid input for a range outside of its blob.
    pub fn read_blob_ranges(
        &self,
        column: &str,
        rows: RowSelection<'_>,
        ranges: &[Range<u64>],
    ) -> Result<Vec<BlobPart>> {
        let taken = self.take_blobs(column, rows)?;
        let mut out = Vec::with_capacity(taken.len());
        for run in taken.chunk_by(|a, b| a.address == b.address) {
            let first = out.len();
            let wanted = ranges.get(first..first + run.len()).unwrap_or_default();
            let address = run.first().map_or(0, |blob| blob.address);
            let Some(blob) = run.first().and_then(|taken| taken.blob.as_ref()) else {
                out.extend(run.iter().map(|_| BlobPart { address, bytes: None }));
                continue;
            };
            for (number, range) in (first..).zip(wanted) {
                if range.end > blob.size() || range.start > range.end {
                    return Err(Error::invalid_input(format!(
                        "Blob range request {number} for row address {address} is invalid: Blob range end {} exceeds blob \
                         size {}",
                        range.end,
                        blob.size()
                    )));
                }
            }
            let parts = blob.read_parts(wanted)?.into_iter();
            out.extend(parts.map(|bytes| BlobPart {
                address,
                bytes: Some(bytes),
            }));
        }
        Ok(out)
    }
}

/// What was read of some rows of one column.
struct Found {
    /// In the order asked.
    addresses: Vec<u64>,
    /// One for each fragment, by ascending address.
    parts: Vec<Part>,
}

/// Rows of one fragment.
struct Part {
    /// Ascending, each once.
    addresses: Vec<u64>,
    array: ArrayRef,
    /// The file that holds the column, if one does.
    reader: Option<Arc<FileReader>>,
}

impl Found {
    fn read(dataset: &Dataset, column: &str, rows: RowSelection<'_>, handling: BlobHandling) -> Result<Self> {
        let field = dataset.schema().field(column).ok_or_else(|| no_field(column))?;
        if !field.is_blob() {
            return Err(Error::invalid_input(format!(
                "the column '{column}' is not a blob column"
            )));
        }
        let columns = [column.to_string()];
        let projection = Projection::of_scan(dataset, Some(&columns), false, false, handling)?;
        let addresses = addresses_of(dataset, rows)?;
        let mut sorted = addresses.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let mut parts = Vec::new();
        for run in sorted.chunk_by(|a, b| a >> 32 == b >> 32) {
            let id = run.first().and_then(|address| u32::try_from(address >> 32).ok());
            let fragment = id.and_then(|id| dataset.fragment(id));
            let fragment = fragment.ok_or_else(|| no_row(run.first(), "there is no such fragment"))?;
            let part = Part::read(&fragment, &projection, field.id, run);
            parts.push(part.context(|| format!("fragment {}", fragment.id()))?);
        }
        Ok(Self { addresses, parts })
    }

    /// Number of the part and the row in it.
    fn place(&self, address: u64) -> Result<(usize, usize)> {
        let part = self
            .parts
            .partition_point(|part| part.addresses.last().is_some_and(|last| *last < address));
        let row = self
            .parts
            .get(part)
            .and_then(|part| part.addresses.binary_search(&address).ok());
        row.map(|row| (part, row))
            .ok_or_else(|| Error::corrupt("a row that was read is missing"))
    }
}

/// The memory of an array as bytes that can be shared.
struct Shared(Buffer);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

impl Part {
    /// The blobs of all rows, without a copy.
    fn bytes(&self) -> Result<Vec<Option<Bytes>>> {
        let values = self.array.as_binary_opt::<i64>();
        let values = values.ok_or_else(|| Error::corrupt("blobs that are no bytes"))?;
        let all = Bytes::from_owner(Shared(values.values().clone()));
        let blob = |row: usize| values.is_valid(row).then(|| all.slice_ref(values.value(row)));
        Ok((0..values.len()).map(blob).collect())
    }

    fn read(
        fragment: &FragmentHandle,
        projection: &Projection,
        field: i32,
        addresses: &[u64],
    ) -> Result<Self> {
        let offsets: Vec<u64> = addresses.iter().map(|address| address & 0xffff_ffff).collect();
        let rows = fragment.physical_rows()?;
        if offsets.last().is_some_and(|last| *last >= rows) {
            return Err(no_row(
                addresses.last(),
                &format!("the fragment has {rows} addressable rows"),
            ));
        }
        if let Some(deletions) = fragment.deletions()? {
            let deleted =
                |offset: &&u64| u32::try_from(**offset).is_ok_and(|offset| deletions.contains(offset));
            if let Some(offset) = offsets.iter().find(deleted) {
                return Err(Error::unsupported(format!(
                    "Not supported: row offset {offset} is deleted. A take operation that includes row addresses must not \
                     target deleted rows."
                )));
            }
        }
        let (batch, files) = read_offsets(projection, fragment, &offsets, &[])?;
        let array = batch.columns().first().cloned();
        Ok(Self {
            addresses: addresses.to_vec(),
            array: array.ok_or_else(|| Error::corrupt("a column is missing"))?,
            reader: files.reader_of(field).cloned(),
        })
    }
}

fn no_row(address: Option<&u64>, why: &str) -> Error {
    let address = address.copied().unwrap_or_default();
    Error::invalid_input(format!(
        "row address {address} (fragment {}, offset {}) does not exist: {why}",
        address >> 32,
        address & 0xffff_ffff
    ))
}

/// The addresses of rows.
fn addresses_of(dataset: &Dataset, rows: RowSelection<'_>) -> Result<Vec<u64>> {
    match rows {
        RowSelection::Addresses(addresses) => Ok(addresses.to_vec()),
        RowSelection::Ids(ids) => {
            dataset.check_row_ids_are_addresses()?;
            Ok(ids.to_vec())
        }
        RowSelection::Positions(positions) => addresses_of_positions(dataset, positions),
    }
}

fn addresses_of_positions(dataset: &Dataset, positions: &[u64]) -> Result<Vec<u64>> {
    let (mut ends, mut end) = (Vec::new(), 0u64);
    let fragments = dataset.fragments();
    for fragment in &fragments {
        end = end.saturating_add(fragment.count_rows()?);
        ends.push(end);
    }
    let address = |position: &u64| {
        let at = ends.partition_point(|end| end <= position);
        let Some(fragment) = fragments.get(at) else {
            return Err(Error::invalid_input(format!(
                "position {position} is behind the last row; there are {end} rows"
            )));
        };
        let first = at.checked_sub(1).and_then(|before| ends.get(before)).copied();
        let live = position - first.unwrap_or(0);
        let offset = match fragment.deletions()? {
            None => live,
            Some(deletions) => deletions.physical_offset(live),
        };
        Ok(u64::from(fragment.id()) << 32 | offset)
    };
    positions.iter().map(address).collect()
}
