//! Scanning: the live rows of fragments in order, in batches of an exact size.
//!
//! Rows are counted live: `limit`, `offset` and batches know nothing of deleted rows. A batch never crosses a
//! fragment. To keep reads large and decoding cheap, rows are read in windows of about 32 MiB, which are cut into
//! batches without copying.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, RecordBatchReader, make_array,
};
use arrow_buffer::BooleanBufferBuilder;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter;
use glaive_file::{BlobHandling, Context, Error, Result, Rows};

use crate::data_file::OpenFiles;
use crate::dataset::{Dataset, FragmentHandle};
use crate::deletion::DeletionVector;
use crate::projection::{Projection, RowOrigin};

/// Rows of a batch unless told otherwise.
pub const DEFAULT_BATCH_SIZE: usize = 8192;

/// Stored bytes that one read of a fragment covers, by estimate.
const WINDOW_BYTES: u64 = 32 << 20;

/// Assumed bytes of a row where an early writer left out the sizes of files.
const UNKNOWN_ROW_BYTES: u64 = 1024;

/// Buffers of arrays start at multiples of this many bytes.
const ALIGNMENT: usize = 64;

/// Most rows that one read covers.
const WINDOW_ROWS: u64 = 1 << 20;

/// Rows that the first read covers of large batches with the bytes of blobs, whose sizes are not known before.
const BLOB_ROWS: u64 = 256;

/// How many rows a batch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchSize {
    /// Exactly so many, but for the last of a fragment. At least 1.
    Rows(usize),
    /// Whatever one read covers: best for reading a whole table.
    Large,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self::Rows(DEFAULT_BATCH_SIZE)
    }
}

/// What to scan.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// Names in the order of the result: top-level fields, paths (`st.x`, a flat column of that name) and the system
    /// columns `_rowid`, `_rowaddr`, `_rowoffset`. `None`: all fields.
    pub columns: Option<Vec<String>>,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// Rows to leave out first.
    pub offset: Option<u64>,
    /// Rows of a batch.
    pub batch_size: BatchSize,
    /// Only these fragments, in this order. `None`: all.
    pub fragment_ids: Option<Vec<u32>>,
    /// Adds `_rowid` at the end.
    pub with_row_id: bool,
    /// Adds `_rowaddr` at the end.
    pub with_row_address: bool,
    /// What stands for the values of blob columns.
    pub blobs: BlobHandling,
}

/// A stream of batches. Nothing is read before the first one is asked for.
pub struct Scan {
    projection: Projection,
    pieces: VecDeque<Piece>,
    open: Option<OpenPiece>,
    /// Rows that were read but not yet handed out.
    window: Option<RecordBatch>,
    /// Rows of the window that were handed out.
    handed_out: usize,
    batch_size: BatchSize,
    /// Rows of the next read of large batches with the bytes of blobs: the sizes of data files say little about those of rows.
    blob_rows: Option<u64>,
}

/// Live rows of one fragment.
struct Piece {
    fragment: FragmentHandle,
    /// Positions among the live rows of the fragment.
    live: Range<u64>,
    /// Position of the fragment's first live row among those of the table.
    first_position: u64,
}

/// A piece whose files are open.
struct OpenPiece {
    piece: Piece,
    files: OpenFiles,
    deletions: Option<Arc<DeletionVector>>,
    window_rows: u64,
}

impl Dataset {
    /// Scans the table.
    ///
    /// # Errors
    /// Invalid input for unknown columns or fragments, or a batch size of 0.
    pub fn scan(&self, options: ScanOptions) -> Result<Scan> {
        if options.batch_size == BatchSize::Rows(0) {
            return Err(Error::invalid_input("batch_size must be at least 1"));
        }
        let columns = options.columns.as_deref();
        let (row_id, row_address) = (options.with_row_id, options.with_row_address);
        let projection = Projection::of_scan(self, columns, row_id, row_address, options.blobs)?;
        let pieces = plan(self, &options)?;
        let reads_blobs =
            options.blobs == BlobHandling::Bytes && projection.fields.iter().any(|field| field.holds_blobs());
        Ok(Scan {
            pieces,
            open: None,
            window: None,
            handed_out: 0,
            batch_size: options.batch_size,
            blob_rows: reads_blobs.then_some(BLOB_ROWS),
            projection,
        })
    }
}

/// The live rows to read, fragment by fragment.
fn plan(dataset: &Dataset, options: &ScanOptions) -> Result<VecDeque<Piece>> {
    let mut first_position = 0;
    let mut all = Vec::new();
    for fragment in dataset.fragments() {
        let rows = fragment.count_rows()?;
        all.push(Piece {
            fragment,
            live: 0..rows,
            first_position,
        });
        first_position += rows;
    }
    let mut pieces = select(all, options.fragment_ids.as_deref())?;
    let (mut skip, mut left) = (options.offset.unwrap_or(0), options.limit.unwrap_or(u64::MAX));
    for piece in &mut pieces {
        let start = skip.min(piece.live.end);
        let end = piece.live.end.min(start.saturating_add(left));
        skip -= start;
        left -= end - start;
        piece.live = start..end;
    }
    pieces.retain(|piece| !piece.live.is_empty());
    Ok(pieces)
}

/// The pieces of the asked fragments, in the order asked.
fn select(all: Vec<Piece>, ids: Option<&[u32]>) -> Result<VecDeque<Piece>> {
    let Some(ids) = ids else { return Ok(all.into()) };
    let piece_of = |id: &u32| {
        let piece = all.iter().find(|piece| piece.fragment.id() == *id);
        let piece = piece.ok_or_else(|| Error::invalid_input(format!("the table has no fragment {id}")))?;
        Ok(Piece {
            fragment: piece.fragment.clone(),
            live: piece.live.clone(),
            ..*piece
        })
    };
    ids.iter().map(piece_of).collect()
}

impl Scan {
    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// As reading the data files fails. The scan then ends.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.window.is_none() {
            self.handed_out = 0;
            self.window = self.read_window().inspect_err(|_| {
                self.pieces.clear();
                self.open = None;
            })?;
        }
        let Some(window) = self.window.take() else {
            return Ok(None);
        };
        let start = self.handed_out;
        let batch = match self.batch_size {
            BatchSize::Rows(rows) if rows < window.num_rows() => {
                self.window = Some(window.slice(rows, window.num_rows() - rows));
                self.handed_out += rows;
                window.slice(0, rows)
            }
            _ => window,
        };
        if start.is_multiple_of(ALIGNMENT) {
            Ok(Some(batch))
        } else {
            aligned(&batch).map(Some)
        }
    }

    fn read_window(&mut self) -> Result<Option<RecordBatch>> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => match self.pieces.pop_front() {
                None => return Ok(None),
                Some(piece) => self.open(piece)?,
            },
        };
        let id = open.piece.fragment.id();
        let batch = open.read(&self.projection).context(|| format!("fragment {id}"))?;
        if let (Some(rows), BatchSize::Large) = (&mut self.blob_rows, self.batch_size) {
            let row_bytes = (batch.get_array_memory_size() / batch.num_rows().max(1)).max(1) as u64;
            *rows = (WINDOW_BYTES / row_bytes).clamp(1, WINDOW_ROWS);
            open.window_rows = *rows;
        }
        self.open = Some(open).filter(|open| !open.piece.live.is_empty());
        Ok(Some(batch))
    }

    fn open(&self, piece: Piece) -> Result<OpenPiece> {
        let (fragment, dataset) = (&piece.fragment, piece.fragment.dataset());
        let files = dataset
            .cache()
            .open(dataset.storages(), fragment.metadata(), &self.projection.fields)?;
        let window_rows = self.window_rows(fragment)?;
        Ok(OpenPiece {
            files,
            deletions: fragment.deletions()?,
            window_rows,
            piece,
        })
    }

    /// Rows of one read: about [`WINDOW_BYTES`], and whole batches.
    fn window_rows(&self, fragment: &FragmentHandle) -> Result<u64> {
        let mut sizes = fragment.metadata().files.iter().map(|file| file.size);
        let bytes = sizes.try_fold(0u64, |sum, size| Some(sum.saturating_add(size?)));
        let row_bytes = match bytes {
            Some(bytes) => (bytes / fragment.physical_rows()?.max(1)).max(1),
            None => UNKNOWN_ROW_BYTES,
        };
        let rows = (WINDOW_BYTES / row_bytes).clamp(1, WINDOW_ROWS);
        match self.batch_size {
            BatchSize::Large => Ok(self.blob_rows.unwrap_or(rows)),
            BatchSize::Rows(size) if self.blob_rows.is_some() => Ok(size as u64),
            BatchSize::Rows(size) => Ok((rows / size as u64).max(1).saturating_mul(size as u64)),
        }
    }
}

impl OpenPiece {
    /// Reads the next window and removes it from the piece.
    fn read(&mut self, projection: &Projection) -> Result<RecordBatch> {
        let start = self.piece.live.start;
        let end = self.piece.live.end.min(start.saturating_add(self.window_rows));
        self.piece.live.start = end;
        let physical = self.physical_range(start..end);
        let rows =
            usize::try_from(end - start).map_err(|_| Error::invalid_input("a batch of too many rows"))?;
        let arrays = self
            .files
            .read(&projection.fields, Rows::Range(physical.clone()))?;
        let deletions = self
            .deletions
            .as_deref()
            .filter(|deletions| deletions.intersects(&physical));
        let arrays = match deletions {
            None => arrays,
            Some(deletions) => drop_deleted(&arrays, &physical, deletions)?,
        };
        let (mut offsets, mut positions) = (Vec::new(), Vec::new());
        if projection.needs_origin() {
            let is_live = |offset: &u64| !deletions.is_some_and(|deleted| is_deleted(deleted, *offset));
            offsets.extend(physical.filter(is_live));
            positions.extend((start..end).map(|position| self.piece.first_position + position));
        }
        let origin = RowOrigin {
            fragment: self.piece.fragment.id(),
            offsets: &offsets,
            positions: &positions,
        };
        projection.assemble(&arrays, &origin, rows)
    }

    /// The physical rows from the first to the last of some live rows.
    fn physical_range(&self, live: Range<u64>) -> Range<u64> {
        match (&self.deletions, live.end.checked_sub(1)) {
            (Some(deletions), Some(last)) if live.start <= last => {
                deletions.physical_offset(live.start)..deletions.physical_offset(last) + 1
            }
            _ => live,
        }
    }
}

/// A copy of a batch. Slices that start at a row which is no multiple of 64 would give buffers that start in the middle of a
/// cache line.
fn aligned(batch: &RecordBatch) -> Result<RecordBatch> {
    let copy = |array: &ArrayRef| -> Result<ArrayRef> {
        let data = array.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len())?;
        Ok(make_array(copy.freeze()))
    };
    let columns = batch.columns().iter().map(copy).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        batch.schema(),
        columns,
        &options,
    )?)
}

fn is_deleted(deletions: &DeletionVector, offset: u64) -> bool {
    u32::try_from(offset).is_ok_and(|offset| deletions.contains(offset))
}

/// Removes the deleted rows of a physical range.
fn drop_deleted(
    arrays: &[ArrayRef],
    physical: &Range<u64>,
    deletions: &DeletionVector,
) -> Result<Vec<ArrayRef>> {
    let rows = usize::try_from(physical.end - physical.start).unwrap_or(usize::MAX);
    let mut live = BooleanBufferBuilder::new(rows);
    live.append_n(rows, true);
    for offset in deletions.iter_range(physical) {
        live.set_bit(
            usize::try_from(offset - physical.start).unwrap_or(usize::MAX),
            false,
        );
    }
    let live = BooleanArray::new(live.finish(), None);
    arrays.iter().map(|array| Ok(filter(array, &live)?)).collect()
}

impl Iterator for Scan {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch()
            .map_err(|e| ArrowError::ExternalError(Box::new(e)))
            .transpose()
    }
}

impl RecordBatchReader for Scan {
    fn schema(&self) -> SchemaRef {
        self.projection.schema().clone()
    }
}
