//! Writing one data file.
//!
//! Batches are taken apart into leaf columns. Each column collects rows until they fill a page, pages are encoded on all cores, and
//! written in column order. Nothing is visible before [`FileWriter::finish`]; a writer that is dropped leaves no file.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::blob::{BlobTargets, BlobWriter};
use crate::container::{Alignment, ColumnPages, ContainerWriter, PageToWrite};
use crate::io::FileSink;
use crate::leaves::{LeafField, leaf_fields};
use crate::proto::lance::file::Schema as SchemaMessage;
use crate::schema::{Field, Schema};
use crate::v2_1::encode::{ColumnOptions, encode_page, null_in_required, value_bytes};
use crate::v2_1::slots_per_row;
use crate::{Context, EncodingDefaults, Error, FileVersion, Result, json, parallel, v2_0};

/// Bytes of values that make a page. What came at once is not cut finer, however few bytes are to be collected.
const PAGE_BYTES: usize = 8 << 20;

/// Bytes of wide fixed-width values that make a page, if so many come at once. Rows of such pages are found by multiplication,
/// and a long run of them is read without a copy.
const WIDE_PAGE_BYTES: usize = 64 << 20;

/// How to write.
#[derive(Debug, Clone, Default)]
pub struct WriterOptions {
    /// Version of the page grammar.
    pub version: FileVersion,
    /// Bytes to collect over all top-level fields before pages are written; by default 8 MiB a column.
    pub data_cache_bytes: Option<u64>,
    /// Bytes of one page at most, except for a page of a single row; by default 32 MiB. Only version 2.0 heeds it.
    pub max_page_bytes: Option<u64>,
    /// Where the buffers of the file start.
    pub alignment: Alignment,
    /// What holds where neither these options nor the metadata of a field say otherwise.
    pub defaults: EncodingDefaults,
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
    /// Metadata of fields that could not be used, for people: the defaults were.
    pub warnings: Vec<String>,
}

/// Writes batches into one file.
#[derive(Debug)]
pub struct FileWriter {
    container: ContainerWriter,
    schema: Schema,
    /// The top-level fields as their pages hold them: descriptors in place of blobs.
    stored: Vec<Arc<Field>>,
    columns: Vec<LeafColumn>,
    blobs: BlobWriter,
    /// The columns of a 2.0 file; `columns` is empty then.
    columns_v2_0: Option<v2_0::Columns>,
    num_rows: u64,
    /// Bytes to collect in a column before they are written.
    cache_bytes: usize,
    options: WriterOptions,
    warnings: Vec<String>,
}

/// A leaf column on its way to the file.
#[derive(Debug)]
struct LeafColumn {
    leaf: Arc<LeafField>,
    options: Arc<ColumnOptions>,
    /// The top-level field.
    top: Arc<Field>,
    /// Collected rows of the top-level field.
    pieces: Vec<ArrayRef>,
    /// Bytes of the leaf's values, and rows, in `pieces`.
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
        let (mut columns, mut warnings) = (Vec::new(), Vec::new());
        let old = options.version == FileVersion::V2_0;
        let stored: Vec<_> = schema.fields.iter().map(Field::blobs_in_pages).collect();
        schema.fields.iter().try_for_each(BlobWriter::check)?;
        for field in stored.iter().filter(|_| !old) {
            for leaf in leaf_fields(field)? {
                let how =
                    ColumnOptions::parse(field, &leaf, options.version, &options.defaults, &mut warnings)?;
                columns.push(LeafColumn::new(leaf, field.clone(), how));
            }
        }
        let share = |total: u64| usize::try_from(total).unwrap_or(usize::MAX) / schema.fields.len().max(1);
        let cache_bytes = options.data_cache_bytes.map_or(PAGE_BYTES, share).max(1);
        let columns_v2_0 = match old {
            true => Some(columns_v2_0(&schema, cache_bytes, &options)?),
            false => None,
        };
        let container = ContainerWriter::new(sink, options.version, options.alignment);
        Ok(Self {
            container,
            schema,
            stored,
            columns,
            blobs: BlobWriter::default(),
            columns_v2_0,
            num_rows: 0,
            cache_bytes,
            options,
            warnings,
        })
    }

    /// Names the place of blobs that leave the data file. `pack_bytes`: when a shared side file is full, unless the field says
    /// so; by default at 1 GiB.
    #[must_use]
    pub fn with_blob_targets(mut self, targets: Box<dyn BlobTargets>, pack_bytes: Option<u64>) -> Self {
        self.blobs.set_targets(targets, pack_bytes);
        self
    }

    /// Metadata of fields that cannot be used, for people: the defaults are.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
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

    /// Takes a batch. Its columns are found by name; JSON text becomes binary JSON.
    ///
    /// # Errors
    /// `InvalidInput` for text in a JSON column that is no JSON.
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
        let batch = &*json::encode_batch(&self.schema, batch, self.num_rows)?;
        if let Some(columns) = &mut self.columns_v2_0 {
            columns.write(&self.schema, batch, &mut self.container)?;
            self.num_rows += batch.num_rows() as u64;
            return Ok(());
        }
        let mut arrays = Vec::with_capacity(self.columns.len());
        for field in &self.schema.fields {
            let array = batch
                .column_by_name(&field.name)
                .ok_or_else(|| Error::schema_mismatch(format!("the batch has no column '{}'", field.name)))?;
            check_type(field, array.data_type())?;
            if !field.nullable && array.logical_null_count() > 0 {
                return Err(null_in_required(field));
            }
            arrays.push((field, array));
        }
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let mut columns = self.columns.iter_mut().peekable();
        for ((given, array), field) in arrays.into_iter().zip(&self.stored) {
            let array = &self
                .blobs
                .replace(given, array, None, &mut self.container)
                .context(|| format!("column '{}'", given.name))?;
            while let Some(column) = columns.next_if(|c| Arc::ptr_eq(&c.top, field)) {
                column.bytes += value_bytes(array, &column.leaf.steps);
                column.rows += array.len();
                column.pieces.push(array.clone());
            }
        }
        self.num_rows += batch.num_rows() as u64;
        self.flush(self.cache_bytes)
    }

    /// Writes the rest, the metadata and the footer, and makes the file visible.
    pub fn finish(mut self) -> Result<FileSummary> {
        self.flush(0)?;
        self.blobs.finish()?;
        let schema = self.schema.blobs_in_file();
        let message = SchemaMessage {
            fields: schema.to_proto(),
            metadata: schema.metadata_to_proto(),
        };
        let mut fields: Vec<i32> = self.columns.iter().map(|c| c.leaf.field.id).collect();
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
            warnings: self.warnings,
        })
    }

    /// Encodes and writes the pages of all columns that collected at least `threshold` bytes.
    fn flush(&mut self, threshold: usize) -> Result<()> {
        let mut jobs = Vec::new();
        for (number, column) in self.columns.iter_mut().enumerate() {
            if column.rows > 0 && column.bytes >= threshold {
                jobs.extend(
                    column
                        .cut_pages(self.cache_bytes.max(PAGE_BYTES), threshold == 0)
                        .into_iter()
                        .map(|page| (number, page)),
                );
            }
        }
        let threads = match self.options.threads {
            0 => parallel::cores(),
            n => n,
        };
        // A few pages at a time, so that encoded bytes do not pile up.
        while !jobs.is_empty() {
            let batch: Vec<_> = jobs.drain(..jobs.len().min(threads * 4)).collect();
            let encode = |(number, page): (usize, PageJob)| Ok((number, page.encode()?));
            for (number, pages) in parallel::map(batch, threads, encode)? {
                let Some(column) = self.columns.get_mut(number) else {
                    continue;
                };
                for page in pages {
                    self.container.write_page(&mut column.pages, page)?;
                }
            }
        }
        Ok(())
    }
}

fn columns_v2_0(schema: &Schema, cache_bytes: usize, options: &WriterOptions) -> Result<v2_0::Columns> {
    let max = match options.max_page_bytes {
        Some(0) => {
            return Err(Error::invalid_input(
                "max_page_bytes is 0; a page holds at least 1 byte",
            ));
        }
        Some(max) => max,
        None => options.defaults.max_page_bytes,
    };
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    v2_0::Columns::new(
        schema,
        cache_bytes.min(max),
        cache_bytes.max(PAGE_BYTES).min(max),
        options.defaults.dict_threshold,
        options.threads,
    )
}

/// Rows that make one page, or several if they have very many levels.
struct PageJob {
    leaf: Arc<LeafField>,
    options: Arc<ColumnOptions>,
    top: Arc<Field>,
    pieces: Vec<ArrayRef>,
    rows: usize,
    first_row: u64,
    /// No other page follows or went before.
    only: bool,
}

impl PageJob {
    fn encode(&self) -> Result<Vec<PageToWrite>> {
        let page = encode_page(&self.pieces, &self.top, &self.leaf, &self.options, self.only)
            .context(|| format!("column '{}'", self.leaf.path))?;
        let Some(page) = page else {
            let (front, back) = self.halves();
            let mut pages = front.encode()?;
            pages.extend(back.encode()?);
            return Ok(pages);
        };
        let length = self.rows as u64 * slots_per_row(&self.leaf.nodes);
        Ok(vec![PageToWrite {
            layout: page.layout,
            buffers: page.buffers,
            length,
            priority: self.first_row,
        }])
    }

    fn halves(&self) -> (Self, Self) {
        let middle = self.rows / 2;
        let part = |first_row: u64, rows: usize| Self {
            leaf: self.leaf.clone(),
            options: self.options.clone(),
            top: self.top.clone(),
            pieces: Vec::new(),
            rows,
            first_row,
            only: false,
        };
        let mut front = part(self.first_row, middle);
        let mut back = part(self.first_row + middle as u64, self.rows - middle);
        let mut room = middle;
        for piece in &self.pieces {
            let rows = room.min(piece.len());
            let parts = [(&mut front, 0, rows), (&mut back, rows, piece.len() - rows)];
            for (half, start, rows) in parts.into_iter().filter(|part| part.2 > 0) {
                half.pieces.push(piece.slice(start, rows));
            }
            room -= rows;
        }
        (front, back)
    }
}

impl LeafColumn {
    fn new(leaf: LeafField, top: Arc<Field>, options: ColumnOptions) -> Self {
        let pages = ColumnPages::default();
        Self {
            leaf: Arc::new(leaf),
            options: Arc::new(options),
            top,
            pieces: Vec::new(),
            bytes: 0,
            rows: 0,
            first_row: 0,
            pages,
        }
    }

    /// Takes all collected rows as pages of about `page_bytes`; `last` tells that no more rows come.
    fn cut_pages(&mut self, page_bytes: usize, last: bool) -> Vec<PageJob> {
        let page_bytes = if self.is_wide() {
            page_bytes.max(WIDE_PAGE_BYTES)
        } else {
            page_bytes
        };
        // A little more than a page is still one; what is well above is cut, so that all cores have work.
        let pages = (self.bytes / page_bytes + usize::from(self.bytes % page_bytes > page_bytes / 4))
            .clamp(1, self.rows.max(1));
        let rows_per_page = self.rows.div_ceil(pages);
        let mut jobs: Vec<PageJob> = Vec::with_capacity(pages);
        let mut room = 0;
        for piece in std::mem::take(&mut self.pieces) {
            let mut start = 0;
            while start < piece.len() {
                if room == 0 {
                    room = rows_per_page;
                    jobs.push(self.new_job());
                }
                let rows = room.min(piece.len() - start);
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
        if let (true, true, [job]) = (last, self.pages.is_empty(), jobs.as_mut_slice()) {
            job.only = true;
        }
        jobs
    }

    /// Whether values of this column go to full-zip pages of cells of one size.
    fn is_wide(&self) -> bool {
        self.leaf.nodes.len() == 1 && self.leaf.shape.fixed_bits().is_some_and(|bits| bits / 8 >= 256)
    }

    fn new_job(&self) -> PageJob {
        let (leaf, top) = (self.leaf.clone(), self.top.clone());
        PageJob {
            leaf,
            options: self.options.clone(),
            top,
            pieces: Vec::new(),
            rows: 0,
            first_row: self.first_row,
            only: false,
        }
    }
}

/// Whether an array of type `found` can be stored in a field: names of list items and map entries do not matter, nor whether
/// the type says that nulls are possible.
fn check_type(field: &Field, found: &DataType) -> Result<()> {
    if fits(field, found) {
        return Ok(());
    }
    Err(Error::schema_mismatch(format!(
        "`{}` should have type {} but type was {found}",
        field.name,
        field.data_type()
    )))
}

fn fits(field: &Field, found: &DataType) -> bool {
    let only = |item: &DataType| matches!(field.children.as_slice(), [child] if fits(child, item));
    match (field.data_type(), found) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let child = |c: &Arc<Field>| fields.find(&c.name).is_some_and(|(_, f)| fits(c, f.data_type()));
            fields.len() == field.children.len() && field.children.iter().all(child)
        }
        (DataType::List(_), DataType::List(item)) | (DataType::LargeList(_), DataType::LargeList(item)) => {
            only(item.data_type())
        }
        (DataType::Map(..), DataType::Map(entries, _)) => match (field.children.first(), entries.data_type())
        {
            (Some(own), DataType::Struct(found)) => {
                let pairs = own.children.iter().zip(found);
                own.children.len() == found.len() && pairs.into_iter().all(|(c, f)| fits(c, f.data_type()))
            }
            _ => false,
        },
        (DataType::FixedSizeList(expected, n), DataType::FixedSizeList(item, found)) if n == *found => {
            match field.children.is_empty() {
                true => same_items(expected.data_type(), item.data_type()),
                false => only(item.data_type()),
            }
        }
        (DataType::Utf8, DataType::Utf8View) | (DataType::Binary, DataType::BinaryView) => true,
        (expected, found) => expected == *found,
    }
}

/// Item types of fixed-size lists without fields of their own.
fn same_items(expected: &DataType, found: &DataType) -> bool {
    match (expected, found) {
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) => {
            n == m && same_items(a.data_type(), b.data_type())
        }
        (a, b) => a == b,
    }
}
