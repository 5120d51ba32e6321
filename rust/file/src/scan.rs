//! Reading a stand-alone file batch by batch.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};

use crate::batches::{BatchSize, Batches, DecodedRows, Readahead, Windows};
use crate::parallel::Ahead;
use crate::schema::Schema;
use crate::{Error, FieldSource, FileReader, ReadOptions, Result, Rows};

/// Rows of a file, batch by batch, read and decoded ahead of the caller. Nothing is read before the first batch is asked for.
pub struct FileScan {
    schema: SchemaRef,
    batches: Batches<Ahead<Window, RecordBatch>>,
}

/// What to read of a file.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Consecutive rows.
    Range(Range<u64>),
    /// Row numbers, strictly ascending.
    Indices(Vec<u64>),
}

/// One read.
struct Window {
    rows: Wanted,
    /// Threads to decode it with: all, if it is the only one.
    threads: usize,
}

/// The windows still to be read.
struct Plan {
    wanted: Wanted,
    windows: Windows,
    decoded: DecodedRows,
    first: bool,
}

impl FileScan {
    /// Reads `wanted` rows of the fields of `schema`, which is a projection of the file's own.
    ///
    /// `readahead` bounds the batches that are read before they are asked for; `None` leaves it to the machine.
    ///
    /// # Errors
    /// `Corrupt` for damaged metadata, invalid input for a batch size of 0.
    pub fn new(
        reader: Arc<FileReader>,
        schema: Arc<Schema>,
        wanted: Wanted,
        size: BatchSize,
        readahead: Option<usize>,
    ) -> Result<Self> {
        if size == BatchSize::Rows(0) {
            return Err(Error::invalid_input("batch_size must be at least 1"));
        }
        let own = reader.own_columns()?;
        let source = FieldSource {
            reader: &reader,
            columns: &own,
        };
        let rows = wanted.count();
        let values = rows.saturating_mul(schema.fields.len() as u64);
        let readahead = Readahead::new(values, size, readahead);
        let total = reader.num_rows()?;
        let windows = Windows::new(&[source], &schema.fields, total, rows, size, readahead)?;
        let decoded = DecodedRows::default();
        let plan = Plan {
            wanted,
            windows,
            decoded: decoded.clone(),
            first: true,
        };
        let arrow: SchemaRef = schema.to_arrow().into();
        let read = move |window: Window| {
            let options = ReadOptions {
                threads: window.threads,
            };
            let batch = reader.read_projected(&schema, window.rows.as_rows(), &options)?;
            decoded.add(batch.columns(), batch.num_rows());
            Ok(batch)
        };
        Ok(Self {
            schema: arrow,
            batches: Batches::new(Ahead::new(plan, readahead.threads, readahead.depth, read), size),
        })
    }
}

impl Wanted {
    fn count(&self) -> u64 {
        self.as_rows().count()
    }

    fn as_rows(&self) -> Rows<'_> {
        match self {
            Self::Range(range) => Rows::Range(range.clone()),
            Self::Indices(indices) => Rows::Indices(indices),
        }
    }

    /// Removes the rows before the next cut.
    fn cut(&mut self, windows: &Windows, rows: u64) -> Self {
        match self {
            Self::Range(range) => {
                let end = windows.end(range.start, rows).min(range.end);
                Self::Range(std::mem::replace(&mut range.start, end)..end)
            }
            Self::Indices(indices) => {
                let at = usize::try_from(rows).map_or(indices.len(), |rows| rows.min(indices.len()));
                let rest = indices.split_off(at);
                Self::Indices(std::mem::replace(indices, rest))
            }
        }
    }
}

impl Iterator for Plan {
    type Item = Result<Window>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.wanted.count() == 0 {
            return None;
        }
        let rows = self.wanted.cut(&self.windows, self.windows.rows(&self.decoded));
        let alone = std::mem::replace(&mut self.first, false) && self.wanted.count() == 0;
        let threads = if alone { 0 } else { 1 };
        Some(Ok(Window { rows, threads }))
    }
}

impl Iterator for FileScan {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.map_err(|e| ArrowError::ExternalError(Box::new(e))))
    }
}

impl RecordBatchReader for FileScan {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
