//! From reads to batches: rows are read in windows of some megabytes, which are cut into batches without copying.
//!
//! A window ends where a page of the largest column ends, if it may. Where it starts inside of a page of another column, the
//! chunk at the border is read and decoded for both windows: at most one chunk a column and window. Everything else of a
//! 2.1 or 2.2 file is read and decoded once, also what a page is read with (chunk words, dictionary), which the first
//! thread that comes to a page reads for all. The dictionaries of 2.0 pages may be read by several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::transform::MutableArrayData;

use crate::parallel::cores;
use crate::reader::{FieldSource, PARALLEL_VALUES};
use crate::schema::Field;
use crate::{Context, Error, Result};

/// How many rows a batch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchSize {
    /// Exactly so many, but for the last of a file. At least 1.
    Rows(usize),
    /// Whatever one read covers: best for reading a whole table.
    Large,
}

/// Stored bytes that one window covers.
const STORED_BYTES: u64 = 8 << 20;

/// Fewer stored bytes are not worth a window of their own.
const FEWEST_BYTES: u64 = 1 << 20;

/// Bytes of the arrays of one window, by those of earlier windows.
const DECODED_BYTES: u64 = 16 << 20;

/// Most rows of a window until the first one tells how long they are when decoded.
const FIRST_ROWS: u64 = 1 << 16;

/// Most rows of a window.
const MOST_ROWS: u64 = 1 << 20;

/// Windows begin at multiples of so many rows where they are longer: no chunk of mini-block pages has more values, unless the
/// writer was told so.
const CHUNK_ROWS: u64 = 4096;

/// Bytes of a decoded row, learned while reading.
#[derive(Debug, Clone)]
pub struct DecodedRows {
    /// 0 as long as nothing is known.
    bytes: Arc<AtomicU64>,
    /// Most rows of a window until then.
    first: u64,
}

impl Default for DecodedRows {
    fn default() -> Self {
        Self::with_first(FIRST_ROWS)
    }
}

impl DecodedRows {
    /// Windows of at most so many rows until the first one tells how long they are.
    pub fn with_first(rows: u64) -> Self {
        Self {
            bytes: Arc::default(),
            first: rows,
        }
    }

    /// Counts a window.
    pub fn add(&self, arrays: &[ArrayRef], rows: usize) {
        // Arrays that cannot tell their size are left out: the count steers, it does not limit.
        let size = |array: &ArrayRef| array.to_data().get_slice_memory_size().unwrap_or(0);
        let bytes: usize = arrays.iter().map(size).sum();
        self.bytes.store((bytes / rows.max(1)).max(1) as u64, Relaxed);
    }

    /// Rows of a window.
    fn limit(&self) -> u64 {
        match self.bytes.load(Relaxed) {
            0 => self.first,
            row => DECODED_BYTES / row,
        }
    }
}

/// How far a scan runs ahead of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readahead {
    /// Threads beside the caller.
    pub threads: usize,
    /// Windows that may be in work or wait, beside the one that the caller cuts batches from.
    pub depth: usize,
    /// Most batches of a window.
    pub window_batches: u64,
}

impl Readahead {
    /// For reading so many values (rows times fields), of which at most `batches` batches may be read before they are asked
    /// for. `None` leaves it to the machine, which is also the most.
    pub fn new(values: u64, size: BatchSize, batches: Option<usize>) -> Self {
        let most = cores() + 2;
        let allowed = batches.map(|n| n.saturating_add(1));
        let windows = match allowed {
            _ if values < PARALLEL_VALUES as u64 => 1,
            None => most + 1,
            Some(allowed) => (allowed / batches_of_a_chunk(size)).clamp(allowed.min(2), most),
        };
        Self {
            threads: if windows > 1 { cores() - 1 } else { 0 },
            depth: windows - 1,
            window_batches: match (allowed, size) {
                (None, _) => u64::MAX,
                (Some(_), BatchSize::Large) => 1,
                (Some(allowed), BatchSize::Rows(_)) => (allowed / windows) as u64,
            },
        }
    }
}

/// Batches that a window needs so that it need not decode chunks for its neighbours.
fn batches_of_a_chunk(size: BatchSize) -> usize {
    match size {
        BatchSize::Rows(rows) => (CHUNK_ROWS as usize).div_ceil(rows.max(1)),
        BatchSize::Large => 1,
    }
}

/// Where the reads of one file, or of the files of one fragment, are cut.
#[derive(Debug)]
pub struct Windows {
    stored_row: u64,
    target: u64,
    /// Ends of the pages of the column with the most bytes. A window that is a page needs no copy where values are stored as
    /// they are, and is decoded in one piece.
    page_ends: Vec<u64>,
    size: BatchSize,
    most_batches: u64,
}

impl Windows {
    /// Plans reads of `wanted` of the `total` rows that the files hold.
    ///
    /// # Errors
    /// `Corrupt` for damaged column metadata.
    pub fn new(
        sources: &[FieldSource<'_>],
        fields: &[Arc<Field>],
        total: u64,
        wanted: u64,
        size: BatchSize,
        readahead: Readahead,
    ) -> Result<Self> {
        let mut largest = (0, Vec::new());
        let mut stored = 0u64;
        let mut nodes = Vec::new();
        for field in fields {
            field.walk(&mut |node| nodes.push((field, node.id)));
        }
        for (field, id) in nodes {
            let source = sources
                .iter()
                .find_map(|s| Some((s.reader, *s.columns.get(&id)?)));
            let Some((reader, column)) = source else { continue };
            let info = reader
                .tail()
                .column(column)
                .context(|| format!("{}: field '{}'", reader.path(), field.name))?;
            let bytes = info.stored_bytes();
            stored = stored.saturating_add(bytes);
            if bytes > largest.0 && info.length == total {
                largest = (bytes, info.page_ends());
            }
        }
        let parts = 2 * crate::parallel::cores() as u64;
        let share = u128::from(stored) * u128::from(wanted) / u128::from(total.max(1) * parts);
        Ok(Self {
            stored_row: (stored / total.max(1)).max(1),
            target: u64::try_from(share)
                .unwrap_or(u64::MAX)
                .clamp(FEWEST_BYTES, STORED_BYTES),
            page_ends: largest.1,
            size,
            most_batches: readahead.window_batches.max(1),
        })
    }

    /// Rows of the next read.
    pub fn rows(&self, decoded: &DecodedRows) -> u64 {
        let rows = (self.target / self.stored_row)
            .min(decoded.limit())
            .clamp(1, MOST_ROWS);
        match self.size {
            BatchSize::Rows(size) => (rows / size as u64)
                .clamp(1, self.most_batches)
                .saturating_mul(size as u64),
            BatchSize::Large if rows > CHUNK_ROWS => rows / CHUNK_ROWS * CHUNK_ROWS,
            BatchSize::Large => rows,
        }
    }

    /// End of a read of about `rows` rows from `start`: the end of a page, if one is near.
    pub fn end(&self, start: u64, rows: u64) -> u64 {
        let end = start.saturating_add(rows);
        if matches!(self.size, BatchSize::Rows(_)) {
            return end;
        }
        let near = end.saturating_add(rows / 2);
        let next = self.page_ends.partition_point(|&page| page <= near);
        let page = next.checked_sub(1).and_then(|at| self.page_ends.get(at));
        match page {
            Some(&page) if page >= start + rows.div_ceil(2) => page,
            _ => end,
        }
    }
}

/// Cuts windows into batches. A batch never crosses windows, so windows are whole numbers of batches, but for the last of a
/// file.
#[derive(Debug)]
pub struct Batches<W> {
    windows: W,
    size: BatchSize,
    /// Rows that were read but not yet handed out.
    window: Option<RecordBatch>,
    /// Rows of the window that were handed out.
    handed_out: usize,
}

impl<W: Iterator<Item = Result<RecordBatch>>> Batches<W> {
    /// Batches of `size` of these windows.
    pub fn new(windows: W, size: BatchSize) -> Self {
        Self {
            windows,
            size,
            window: None,
            handed_out: 0,
        }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.window.is_none() {
            self.handed_out = 0;
            self.window = self.windows.next().transpose()?;
        }
        let Some(window) = self.window.take() else {
            return Ok(None);
        };
        let start = self.handed_out;
        let batch = match self.size {
            BatchSize::Rows(rows) if rows < window.num_rows() => {
                self.window = Some(window.slice(rows, window.num_rows() - rows));
                self.handed_out += rows;
                window.slice(0, rows)
            }
            _ => window,
        };
        match start.is_multiple_of(ALIGNMENT) {
            true => Ok(Some(batch)),
            false => aligned(&batch).map(Some),
        }
    }
}

impl<W: Iterator<Item = Result<RecordBatch>>> Iterator for Batches<W> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

/// Buffers of arrays start at multiples of this many bytes.
const ALIGNMENT: usize = 64;

/// A copy of a batch. Slices that start at a row which is no multiple of 64 would give buffers that start in the middle of a
/// cache line.
fn aligned(batch: &RecordBatch) -> Result<RecordBatch> {
    let copy = |array: &ArrayRef| -> Result<ArrayRef> {
        let data = array.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len()).map_err(Error::from)?;
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
