//! Writing one data file.
//!
//! Batches are taken apart into leaf columns. Each column collects rows until they fill a page, pages are encoded on all cores, and
//! written in column order. Nothing is visible before [`FileWriter::finish`]; a writer that is dropped leaves no file.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use crate::container::{ColumnPages, ContainerWriter, PageToWrite};
use crate::io::FileSink;
use crate::proto::lance::file::Schema as SchemaMessage;
use crate::schema::{Field, Schema};
use crate::v2_1::ValueShape;
use crate::v2_1::encode::{LeafPiece, PageLevels, PageValues, encode_page};
use crate::{Context, Error, FileVersion, Result, parallel, v2_0};

/// Bytes of a page at most in version 2.0, unless the caller says otherwise.
const MAX_PAGE_BYTES: usize = 32 << 20;

/// Bytes of values that make a page.
const PAGE_BYTES: usize = 8 << 20;

/// How to write.
#[derive(Debug, Clone, Default)]
pub struct WriterOptions {
    /// Version of the page grammar.
    pub version: FileVersion,
    /// Bytes to collect over all top-level fields before pages are written; by default 8 MiB a column.
    pub data_cache_bytes: Option<u64>,
    /// Bytes of one page at most, except for a page of a single row; by default 32 MiB. Only version 2.0 heeds it.
    pub max_page_bytes: Option<u64>,
    /// Threads to encode with; 0 = the number of cores.
    pub threads: usize,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    /// Size of the file in bytes.
    pub size_bytes: u64,
    /// Rows of the file.
    pub num_rows: u64,
    /// Ids of the fields that own a column, in column order.
    pub fields: Vec<i32>,
    /// Column of each field of `fields`.
    pub column_indices: Vec<i32>,
    /// Version of the page grammar.
    pub version: FileVersion,
}

/// Writes batches into one file.
#[derive(Debug)]
pub struct FileWriter {
    container: ContainerWriter,
    schema: Schema,
    columns: Vec<LeafColumn>,
    /// The columns of a 2.0 file; `columns` is empty then.
    columns_v2_0: Option<v2_0::Columns>,
    num_rows: u64,
    page_bytes: usize,
    options: WriterOptions,
}

/// A leaf column on its way to the file.
#[derive(Debug)]
struct LeafColumn {
    path: String,
    field_id: i32,
    depth: usize,
    pieces: Vec<LeafPiece>,
    /// Bytes and rows in `pieces`.
    bytes: usize,
    rows: usize,
    /// First row of `pieces`.
    first_row: u64,
    pages: ColumnPages,
}

impl FileWriter {
    /// Starts a file.
    ///
    /// # Errors
    /// `Unsupported` for versions and types that this writer does not know, `InvalidInput` for a schema that no file can have.
    pub fn create(sink: Box<dyn FileSink>, schema: Schema, options: WriterOptions) -> Result<Self> {
        options.version.check_writable()?;
        schema.check_writable(options.version)?;
        let mut columns = Vec::new();
        let old = options.version == FileVersion::V2_0;
        for field in schema.fields.iter().filter(|_| !old) {
            leaf_columns(field, "", 1, &mut columns)?;
        }
        let share = |total: u64| usize::try_from(total).unwrap_or(usize::MAX) / schema.fields.len().max(1);
        let page_bytes = options.data_cache_bytes.map_or(PAGE_BYTES, share).max(1);
        let columns_v2_0 = match old {
            true => Some(columns_v2_0(&schema, page_bytes, &options)?),
            false => None,
        };
        let container = ContainerWriter::new(sink, options.version);
        Ok(Self {
            container,
            schema,
            columns,
            columns_v2_0,
            num_rows: 0,
            page_bytes,
            options,
        })
    }

    /// Rows taken so far.
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Bytes written, and an estimate of those still collected.
    pub fn bytes_written(&self) -> u64 {
        let old = self.columns_v2_0.as_ref().map_or(0, v2_0::Columns::pending_bytes);
        self.container.position() + old + self.columns.iter().map(|c| c.bytes as u64).sum::<u64>()
    }

    /// The schema of the file.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Adds an entry to the schema metadata.
    pub fn add_schema_metadata(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.schema.metadata.insert(key.into(), value.into());
    }

    /// Writes bytes of the caller's own and returns their number, counted from 1.
    pub fn add_global_buffer(&mut self, bytes: &[u8]) -> Result<u32> {
        self.container.add_global_buffer(bytes)
    }

    /// Takes a batch. Its columns are found by name.
    ///
    /// # Errors
    /// `SchemaMismatch` for a missing column, another type, or nulls in a non-nullable field.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_columns() != self.schema.fields.len() {
            let expected: Vec<_> = self.schema.fields.iter().map(|f| f.name.as_str()).collect();
            return Err(Error::schema_mismatch(format!(
                "a batch of {} columns for a file of {}: {expected:?}",
                batch.num_columns(),
                expected.len()
            )));
        }
        if let Some(columns) = &mut self.columns_v2_0 {
            columns.write(&self.schema, batch, &mut self.container)?;
            self.num_rows += batch.num_rows() as u64;
            return Ok(());
        }
        let mut pieces = Vec::with_capacity(self.columns.len());
        for field in &self.schema.fields {
            let array = batch
                .column_by_name(&field.name)
                .ok_or_else(|| Error::schema_mismatch(format!("the batch has no column '{}'", field.name)))?;
            take_apart(field, array, &[], &mut pieces).context(|| format!("column '{}'", field.name))?;
        }
        if batch.num_rows() == 0 {
            return Ok(());
        }
        for (column, piece) in self.columns.iter_mut().zip(pieces) {
            column.bytes += piece.value_bytes()?;
            column.rows += piece.array.len();
            column.pieces.push(piece);
        }
        self.num_rows += batch.num_rows() as u64;
        self.flush(self.page_bytes)
    }

    /// Writes the rest, the metadata and the footer, and makes the file visible.
    pub fn finish(mut self) -> Result<FileSummary> {
        self.flush(0)?;
        let message = SchemaMessage {
            fields: self.schema.to_proto(),
            metadata: self.schema.metadata_to_proto(),
        };
        let mut fields: Vec<i32> = self.columns.iter().map(|c| c.field_id).collect();
        let mut pages: Vec<_> = self.columns.into_iter().map(|c| c.pages).collect();
        if let Some(columns) = self.columns_v2_0 {
            fields = columns.field_ids();
            pages = columns.finish(&mut self.container)?;
        }
        let column_indices = (0..).take(fields.len()).collect();
        let size_bytes = self.container.finish(message, self.num_rows, pages)?;
        let version = self.options.version;
        Ok(FileSummary {
            size_bytes,
            num_rows: self.num_rows,
            fields,
            column_indices,
            version,
        })
    }

    /// Encodes and writes the pages of all columns that collected at least `threshold` bytes.
    fn flush(&mut self, threshold: usize) -> Result<()> {
        let mut jobs = Vec::new();
        for (number, column) in self.columns.iter_mut().enumerate() {
            if column.rows > 0 && column.bytes >= threshold {
                jobs.extend(
                    column
                        .cut_pages(self.page_bytes)
                        .into_iter()
                        .map(|page| (number, page)),
                );
            }
        }
        let threads = match self.options.threads {
            0 => parallel::cores(),
            n => n,
        };
        let version = self.options.version;
        // A few pages at a time, so that encoded bytes do not pile up.
        while !jobs.is_empty() {
            let batch: Vec<_> = jobs.drain(..jobs.len().min(threads * 4)).collect();
            let encode = |(number, page): (usize, PageJob)| Ok((number, page.encode(version)?));
            for (number, page) in parallel::map(batch, threads, encode)? {
                if let Some(column) = self.columns.get_mut(number) {
                    self.container.write_page(&mut column.pages, page)?;
                }
            }
        }
        Ok(())
    }
}

fn columns_v2_0(schema: &Schema, page_bytes: usize, options: &WriterOptions) -> Result<v2_0::Columns> {
    let max = match options.max_page_bytes {
        Some(0) => {
            return Err(Error::invalid_input(
                "max_page_bytes is 0; a page holds at least 1 byte",
            ));
        }
        Some(max) => usize::try_from(max).unwrap_or(usize::MAX),
        None => MAX_PAGE_BYTES,
    };
    v2_0::Columns::new(schema, page_bytes.min(max), options.threads)
}

/// The rows of one page.
struct PageJob {
    path: String,
    depth: usize,
    pieces: Vec<LeafPiece>,
    rows: usize,
    first_row: u64,
}

impl PageJob {
    fn encode(&self, version: FileVersion) -> Result<PageToWrite> {
        let encode = || {
            let rows = self.pieces.iter().map(|p| (p.array.len(), p.validity.as_slice()));
            let levels = PageLevels::new(self.depth, rows);
            let values = PageValues::new(&self.pieces, &levels)?;
            encode_page(&values, &levels, version)
        };
        let page = encode().context(|| format!("column '{}'", self.path))?;
        let length = self.rows as u64;
        Ok(PageToWrite {
            layout: page.layout,
            buffers: page.buffers,
            length,
            priority: self.first_row,
        })
    }
}

impl LeafColumn {
    /// Takes all collected rows as pages of about `page_bytes`.
    fn cut_pages(&mut self, page_bytes: usize) -> Vec<PageJob> {
        let pages = (self.bytes / page_bytes).clamp(1, self.rows.max(1));
        let rows_per_page = self.rows.div_ceil(pages);
        let mut jobs: Vec<PageJob> = Vec::with_capacity(pages);
        let mut room = 0;
        for piece in std::mem::take(&mut self.pieces) {
            let mut start = 0;
            while start < piece.array.len() {
                if room == 0 {
                    room = rows_per_page;
                    jobs.push(self.new_job());
                }
                let rows = room.min(piece.array.len() - start);
                if let Some(job) = jobs.last_mut() {
                    job.pieces.push(piece.slice(start, rows));
                    job.rows += rows;
                }
                self.first_row += rows as u64;
                start += rows;
                room -= rows;
            }
        }
        self.bytes = 0;
        self.rows = 0;
        jobs
    }

    fn new_job(&self) -> PageJob {
        PageJob {
            path: self.path.clone(),
            depth: self.depth,
            pieces: Vec::new(),
            rows: 0,
            first_row: self.first_row,
        }
    }
}

fn leaf_columns(field: &Field, parent: &str, depth: usize, out: &mut Vec<LeafColumn>) -> Result<()> {
    let path = if parent.is_empty() {
        field.name.clone()
    } else {
        format!("{parent}.{}", field.name)
    };
    super::reader::check_supported(field).context(|| format!("column '{path}'"))?;
    if matches!(field.data_type(), DataType::Struct(_)) {
        return field
            .children
            .iter()
            .try_for_each(|child| leaf_columns(child, &path, depth + 1, out));
    }
    ValueShape::of(&field.data_type()).context(|| format!("column '{path}'"))?;
    out.push(LeafColumn {
        path,
        field_id: field.id,
        depth,
        pieces: Vec::new(),
        bytes: 0,
        rows: 0,
        first_row: 0,
        pages: ColumnPages::default(),
    });
    Ok(())
}

/// Appends the leaf columns of an array; `above` is the validity of the nodes above it, the nearest first.
fn take_apart(
    field: &Field,
    array: &ArrayRef,
    above: &[Option<NullBuffer>],
    out: &mut Vec<LeafPiece>,
) -> Result<()> {
    let array = &without_views(array);
    let nulls = match array.data_type() {
        DataType::Null => Some(NullBuffer::new_null(array.len())),
        _ => array.nulls().cloned(),
    };
    check_nulls(field, nulls.as_ref(), above)?;
    let mut validity = vec![nulls];
    validity.extend_from_slice(above);
    match (field.data_type(), array.data_type()) {
        (DataType::Struct(_), DataType::Struct(_)) => {
            let array: &StructArray = array.as_struct();
            if array.num_columns() != field.children.len() {
                return Err(wrong_type(field, array.data_type()));
            }
            for child in &field.children {
                let column = array
                    .column_by_name(&child.name)
                    .ok_or_else(|| wrong_type(field, array.data_type()))?;
                take_apart(child, column, &validity, out).context(|| format!("field '{}'", child.name))?;
            }
            Ok(())
        }
        (expected, found) if expected == *found => {
            out.push(LeafPiece {
                array: array.clone(),
                validity,
            });
            Ok(())
        }
        (_, found) => Err(wrong_type(field, found)),
    }
}

fn wrong_type(field: &Field, found: &DataType) -> Error {
    Error::schema_mismatch(format!(
        "`{}` should have type {} but type was {found}",
        field.name,
        field.data_type()
    ))
}

/// A non-nullable field may be null only where a node above it is.
fn check_nulls(field: &Field, nulls: Option<&NullBuffer>, above: &[Option<NullBuffer>]) -> Result<()> {
    let Some(nulls) = nulls.filter(|n| !field.nullable && n.null_count() > 0) else {
        return Ok(());
    };
    let hidden = above
        .iter()
        .fold(None, |all, node| NullBuffer::union(all.as_ref(), node.as_ref()));
    let visible = match &hidden {
        Some(hidden) => nulls
            .iter()
            .zip(hidden.iter())
            .any(|(valid, above)| above && !valid),
        None => true,
    };
    match visible {
        false => Ok(()),
        true => Err(Error::schema_mismatch(format!(
            "The field `{}` contained null values even though the field is marked non-null in the schema",
            field.name
        ))),
    }
}

/// String and binary views are stored as strings and binaries.
fn without_views(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().iter().collect::<StringArray>()),
        DataType::BinaryView => Arc::new(array.as_binary_view().iter().collect::<BinaryArray>()),
        _ => array.clone(),
    }
}
