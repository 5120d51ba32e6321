//! Scanning: the live rows of fragments in order, in batches of an exact size.
//!
//! Rows are counted live: `limit`, `offset` and batches know nothing of deleted rows. A batch never crosses a
//! fragment. To keep reads large and decoding cheap, rows are read in windows of some megabytes, several at a time and
//! ahead of the caller, which are cut into batches without copying.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchReader};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter;
use glaive_file::batches::{Batches, DecodedRows, Readahead, Windows};
use glaive_file::parallel::Ahead;
use glaive_file::{BatchSize, BlobHandling, Context, Error, Result, Rows};

use crate::data_file::OpenFiles;
use crate::dataset::{Dataset, FragmentHandle};
use crate::deletion::DeletionVector;
use crate::projection::{Projection, RowOrigin};

/// Rows of a batch unless told otherwise.
pub const DEFAULT_BATCH_SIZE: usize = 8192;

/// Rows that the first read covers of columns with the bytes of blobs, whose sizes are not known before.
const BLOB_ROWS: u64 = 256;

/// What to scan.
#[derive(Debug, Clone)]
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
    /// Batches that may be read before they are asked for. `None`: what suits the machine, which is also the most.
    pub readahead: Option<usize>,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            columns: None,
            limit: None,
            offset: None,
            batch_size: BatchSize::Rows(DEFAULT_BATCH_SIZE),
            fragment_ids: None,
            with_row_id: false,
            with_row_address: false,
            blobs: BlobHandling::default(),
            readahead: None,
        }
    }
}

/// A stream of batches. Nothing is read before the first one is asked for.
pub struct Scan {
    schema: SchemaRef,
    batches: Batches<Ahead<Window, RecordBatch>>,
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
    fragment: FragmentHandle,
    first_position: u64,
    files: OpenFiles,
    deletions: Option<Arc<DeletionVector>>,
    windows: Windows,
}

/// One read: live rows of one fragment.
struct Window {
    piece: Arc<OpenPiece>,
    live: Range<u64>,
    /// Threads to decode it with: all, if it is the only one.
    threads: usize,
}

/// The windows still to be read. Files are opened when their turn comes.
struct Plan {
    pieces: VecDeque<Piece>,
    /// The piece whose windows come next, and its rows that none of them covers yet.
    open: Option<(Arc<OpenPiece>, Range<u64>)>,
    projection: Arc<Projection>,
    size: BatchSize,
    readahead: Readahead,
    decoded: DecodedRows,
    first: bool,
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
        let projection = Arc::new(projection);
        let reads_blobs =
            options.blobs == BlobHandling::Bytes && projection.fields.iter().any(|field| field.holds_blobs());
        let pieces = plan(self, &options)?;
        let rows = pieces
            .iter()
            .fold(0u64, |sum, piece| sum.saturating_add(piece.rows()));
        let values = rows.saturating_mul(projection.fields.len() as u64);
        let readahead = Readahead::new(values, options.batch_size, options.readahead);
        let plan = Plan {
            pieces,
            open: None,
            projection: projection.clone(),
            size: options.batch_size,
            readahead,
            decoded: match reads_blobs {
                true => DecodedRows::with_first(BLOB_ROWS),
                false => DecodedRows::default(),
            },
            first: true,
        };
        let (schema, decoded) = (projection.schema().clone(), plan.decoded.clone());
        let read = move |window: Window| window.read(&projection, &decoded);
        Ok(Scan {
            schema,
            batches: Batches::new(
                Ahead::new(plan, readahead.threads, readahead.depth, read),
                options.batch_size,
            ),
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

impl Piece {
    fn rows(&self) -> u64 {
        self.live.end - self.live.start
    }

    fn open(
        self,
        projection: &Projection,
        size: BatchSize,
        readahead: Readahead,
    ) -> Result<(Arc<OpenPiece>, Range<u64>)> {
        let Self {
            fragment,
            live,
            first_position,
        } = self;
        let (dataset, fields) = (fragment.dataset(), &projection.fields);
        let files = dataset
            .cache()
            .open(dataset.storages(), fragment.metadata(), fields)?;
        let wanted = live.end - live.start;
        let windows = files.windows(fields, fragment.physical_rows()?, wanted, size, readahead)?;
        let deletions = fragment.deletions()?;
        let piece = OpenPiece {
            fragment,
            first_position,
            files,
            deletions,
            windows,
        };
        Ok((Arc::new(piece), live))
    }
}

impl Iterator for Plan {
    type Item = Result<Window>;

    fn next(&mut self) -> Option<Self::Item> {
        let (piece, mut live) = match self.open.take() {
            Some(open) => open,
            None => {
                let piece = self.pieces.pop_front()?;
                let id = piece.fragment.id();
                match piece.open(&self.projection, self.size, self.readahead) {
                    Ok(open) => open,
                    Err(e) => return Some(Err(e.context(format!("fragment {id}")))),
                }
            }
        };
        let end = piece.window_end(live.start, &self.decoded).min(live.end);
        let rows = live.start..end;
        live.start = end;
        self.open = (!live.is_empty()).then(|| (piece.clone(), live));
        let more = self.open.is_some() || !self.pieces.is_empty();
        let alone = std::mem::replace(&mut self.first, false) && !more;
        Some(Ok(Window {
            piece,
            live: rows,
            threads: if alone { 0 } else { 1 },
        }))
    }
}

impl Window {
    fn read(self, projection: &Projection, decoded: &DecodedRows) -> Result<RecordBatch> {
        let id = self.piece.fragment.id();
        let batch = self.piece.read(self.live, projection, self.threads);
        let batch = batch.context(|| format!("fragment {id}"))?;
        decoded.add(batch.columns(), batch.num_rows());
        Ok(batch)
    }
}

impl OpenPiece {
    fn window_end(&self, start: u64, decoded: &DecodedRows) -> u64 {
        let rows = self.windows.rows(decoded);
        match &self.deletions {
            // Pages end at physical rows.
            None => self.windows.end(start, rows),
            Some(_) => start.saturating_add(rows),
        }
    }

    fn read(&self, live: Range<u64>, projection: &Projection, threads: usize) -> Result<RecordBatch> {
        let physical = self.physical_range(live.clone());
        let rows = usize::try_from(live.end - live.start)
            .map_err(|_| Error::invalid_input("a batch of too many rows"))?;
        let arrays = self
            .files
            .read(&projection.fields, Rows::Range(physical.clone()), threads)?;
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
            positions.extend(live.map(|position| self.first_position + position));
        }
        let origin = RowOrigin {
            fragment: self.fragment.id(),
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

impl Scan {
    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// As reading the data files fails. The scan then ends.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.batches.next().transpose()
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.map_err(|e| ArrowError::ExternalError(Box::new(e))))
    }
}

impl RecordBatchReader for Scan {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
