//! Reading rows of one or more data files into Arrow arrays.
//!
//! A read goes through four steps: find the leaf columns of the wanted fields, plan which pages hold the rows, fetch
//! bytes in rounds (the ranges of all pages of all columns together, so that neighbours become one system call), and
//! decode. Columns are independent, so a large read decodes them on all cores.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use prost::Message;

use crate::assemble::{self, Built, assemble};
use crate::blob::{self, BlobFiles};
use crate::container::{BufferRange, FileTail};
use crate::decoded::{DecodeCounter, DecodeStats};
use crate::io::ReadAt;
use crate::leaves::{LeafField, leaf_fields};
use crate::proto::lance::encodings21::{PageLayout, page_layout::Layout};
use crate::schema::{BlobForm, Field, Schema};
use crate::v2_1::{ColumnSink, Page, PageRead, ranges, slots_per_row};
use crate::{Context, Error, FileVersion, Result, v2_0};

/// An open data file. Metadata is decoded when first used and kept; it is safe to share between threads.
#[derive(Debug)]
pub struct FileReader {
    source: Arc<dyn ReadAt>,
    tail: FileTail,
    schema: OnceLock<(Arc<Schema>, u64)>,
    /// Parsed pages by column.
    pages: Vec<OnceLock<Vec<Arc<Page>>>>,
    /// Parsed columns of a 2.0 file.
    columns_v2_0: v2_0::ColumnCache,
    /// Opens what holds blobs outside of the file.
    blob_files: Option<Arc<dyn BlobFiles>>,
    decoded: DecodeCounter,
}

/// Which rows to read.
#[derive(Debug, Clone)]
pub enum Rows<'a> {
    /// Consecutive rows.
    Range(Range<u64>),
    /// Row numbers, strictly ascending.
    Indices(&'a [u64]),
}

/// How to read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Threads to decode with; 0 = the number of cores for large reads, 1 for small ones.
    pub threads: usize,
}

/// A file and the columns in which it holds fields.
#[derive(Debug, Clone, Copy)]
pub struct FieldSource<'a> {
    /// The open file.
    pub reader: &'a FileReader,
    /// Field id to column number.
    pub columns: &'a HashMap<i32, u32>,
}

impl FileReader {
    /// Opens a file: one read, or two when its metadata is long.
    ///
    /// # Errors
    /// `Corrupt` if it is no Lance file, `Unsupported` if its version is not 2.0, 2.1 or 2.2.
    pub fn open(source: Arc<dyn ReadAt>) -> Result<Self> {
        let path = source.path().to_owned();
        let tail = FileTail::read(source.as_ref()).context(|| path.clone())?;
        tail.footer().version.check_readable().context(|| path)?;
        let pages = (0..tail.num_columns()).map(|_| OnceLock::new()).collect();
        let columns_v2_0 = v2_0::ColumnCache::new(match tail.footer().version {
            FileVersion::V2_0 => tail.num_columns(),
            _ => 0,
        });
        Ok(Self {
            source,
            tail,
            schema: OnceLock::new(),
            pages,
            columns_v2_0,
            blob_files: None,
            decoded: DecodeCounter::default(),
        })
    }

    /// The reader with access to the blobs that lie outside of the file.
    #[must_use]
    pub fn with_blob_files(self, files: Arc<dyn BlobFiles>) -> Self {
        Self {
            blob_files: Some(files),
            ..self
        }
    }

    pub(crate) fn blob_files(&self) -> Option<&dyn BlobFiles> {
        self.blob_files.as_deref()
    }

    /// Version of the page grammar.
    pub fn version(&self) -> FileVersion {
        self.tail.footer().version
    }

    /// The file's path, for messages.
    pub fn path(&self) -> &str {
        self.source.path()
    }

    /// The bytes, for statistics of reads.
    pub fn source(&self) -> &Arc<dyn ReadAt> {
        &self.source
    }

    /// What has been decoded of this file since it was opened.
    pub fn decode_stats(&self) -> DecodeStats {
        self.decoded.get()
    }

    /// Counts what is decoded.
    pub(crate) fn decoded(&self) -> &DecodeCounter {
        &self.decoded
    }

    /// Container metadata: footer, columns, global buffers.
    pub fn tail(&self) -> &FileTail {
        &self.tail
    }

    /// The schema that the file carries.
    pub fn schema(&self) -> Result<&Arc<Schema>> {
        Ok(&self.descriptor()?.0)
    }

    /// Rows of the file.
    pub fn num_rows(&self) -> Result<u64> {
        Ok(self.descriptor()?.1)
    }

    fn descriptor(&self) -> Result<&(Arc<Schema>, u64)> {
        if let Some(known) = self.schema.get() {
            return Ok(known);
        }
        let decode = || {
            let descriptor = self.tail.descriptor()?;
            let proto = descriptor
                .schema
                .ok_or_else(|| Error::corrupt("file descriptor without a schema"))?;
            let schema = Schema::from_proto(&proto.fields, &proto.metadata)?;
            Ok((Arc::new(schema), descriptor.length))
        };
        let decoded = decode().map_err(|e: Error| e.context("schema").context(self.path()))?;
        Ok(self.schema.get_or_init(|| decoded))
    }

    /// Parsed columns of a 2.0 file.
    pub(crate) fn columns_v2_0(&self) -> &v2_0::ColumnCache {
        &self.columns_v2_0
    }

    /// Column numbers by field id, for the file's own schema.
    pub fn own_columns(&self) -> Result<HashMap<i32, u32>> {
        if self.version() == FileVersion::V2_0 {
            return v2_0::own_columns(&self.tail, self.schema()?).context(|| self.path());
        }
        let leaves = self.schema()?.leaf_fields(self.version());
        let needed = u32::try_from(leaves.len()).unwrap_or(u32::MAX);
        if needed > self.tail.num_columns() {
            return Err(Error::corrupt(format!(
                "the schema needs {needed} columns, the file has {}",
                self.tail.num_columns()
            ))
            .context(self.path()));
        }
        Ok(leaves.iter().map(|f| f.id).zip(0..).collect())
    }

    /// Reads rows of all or some top-level fields of a stand-alone file, by its own schema.
    pub fn read(
        &self,
        columns: Option<&[&str]>,
        rows: Rows<'_>,
        options: &ReadOptions,
    ) -> Result<RecordBatch> {
        let schema = self.schema()?;
        match columns {
            Some(names) => self.read_projected(&schema.project(names)?, rows, options),
            None => self.read_projected(schema, rows, options),
        }
    }

    /// Reads rows of the fields of `schema`, a projection of the file's own.
    pub(crate) fn read_projected(
        &self,
        schema: &Schema,
        rows: Rows<'_>,
        options: &ReadOptions,
    ) -> Result<RecordBatch> {
        let total = self.num_rows()?;
        check_rows(&rows, total).context(|| self.path())?;
        let n = rows.count() as usize;
        let own = self.own_columns()?;
        let source = FieldSource {
            reader: self,
            columns: &own,
        };
        let arrays = read_fields(&[source], &schema.fields, rows, options)?;
        let arrow: SchemaRef = Arc::new(schema.to_arrow());
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(n));
        Ok(RecordBatch::try_new_with_options(arrow, arrays, &options)?)
    }

    /// Reads a global buffer; number 0 is the file descriptor.
    pub fn read_global_buffer(&self, index: usize) -> Result<bytes::Bytes> {
        let buffers = self.tail.global_buffers();
        let buffer: &BufferRange = buffers.get(index).ok_or_else(|| {
            Error::invalid_input(format!(
                "global buffer {index} is asked for, the file has {}",
                buffers.len()
            ))
        })?;
        let parts = self.source.read_ranges(&[buffer.range()])?;
        parts
            .into_iter()
            .next()
            .ok_or_else(|| Error::corrupt("a read returned nothing"))
    }

    /// How a blob column of this file is stored: only the layout of its pages tells.
    fn blob_form(&self, column: u32) -> Result<BlobForm> {
        let pages = &self.tail.column(column)?.pages;
        let Some(page) = pages.iter().find(|page| page.length > 0) else {
            return Ok(BlobForm::V1);
        };
        let layout = PageLayout::decode(page.layout.clone())?.layout;
        match (self.version(), layout) {
            (_, Some(Layout::BlobLayout(_))) | (FileVersion::V2_1, _) => Ok(BlobForm::V1),
            _ => Ok(BlobForm::V2),
        }
    }

    /// The parsed pages of a column.
    fn pages(&self, column: u32, leaf: &LeafField) -> Result<&[Arc<Page>]> {
        let slot = self.pages.get(column as usize).ok_or_else(|| {
            Error::corrupt(format!(
                "column {column} is asked for, the file has {}",
                self.pages.len()
            ))
        })?;
        if let Some(pages) = slot.get() {
            return Ok(pages);
        }
        let info = self.tail.column(column)?;
        let parse = |(number, page): (usize, &crate::container::PageInfo)| {
            let page = Page::parse(page.clone(), &leaf.shape, &leaf.nodes, self.version());
            page.map(Arc::new).context(|| format!("page {number}"))
        };
        // Pages of length 0 carry nothing, whatever their encoding.
        let pages = info
            .pages
            .iter()
            .enumerate()
            .filter(|(_, p)| p.length > 0)
            .map(parse)
            .collect::<Result<_>>()?;
        Ok(slot.get_or_init(|| pages))
    }
}

impl Rows<'_> {
    /// Number of rows.
    pub fn count(&self) -> u64 {
        match self {
            Self::Range(range) => range.end.saturating_sub(range.start),
            Self::Indices(indices) => indices.len() as u64,
        }
    }

    /// Sorted, disjoint, non-empty ranges.
    fn ranges(&self) -> Result<Vec<Range<u64>>> {
        match self {
            Self::Range(range) if range.start >= range.end => Ok(Vec::new()),
            Self::Range(range) => Ok(vec![range.clone()]),
            Self::Indices(indices) => {
                if !indices.is_sorted_by(|a, b| a < b) {
                    return Err(Error::invalid_input("row numbers must be strictly increasing"));
                }
                Ok(ranges::from_indices(indices))
            }
        }
    }
}

fn check_rows(rows: &Rows<'_>, total: u64) -> Result<()> {
    match rows {
        Rows::Range(range) if range.end > total || range.start > range.end => {
            Err(Error::invalid_input(format!(
                "cannot read Range({}..{}) from columns with {total} rows",
                range.start, range.end
            )))
        }
        Rows::Indices(indices) if indices.last().is_some_and(|&last| last >= total) => {
            let last = indices.last().copied().unwrap_or_default();
            Err(Error::invalid_input(format!(
                "cannot take row {last} from columns with {total} rows"
            )))
        }
        _ => Ok(()),
    }
}

/// A leaf column: what to read.
struct Leaf<'a> {
    field: LeafField,
    source: Option<(&'a FileReader, u32)>,
    /// The field of a blob column as it is stored: its descriptors.
    descriptors: Option<Field>,
}

/// Reads `rows` of `fields`, each leaf from the first source that holds it. A leaf that no source holds is null.
///
/// # Errors
/// `Corrupt` if columns do not hold the rows or break the format; the text names file, column and page.
pub fn read_fields(
    sources: &[FieldSource<'_>],
    fields: &[Arc<Field>],
    rows: Rows<'_>,
    options: &ReadOptions,
) -> Result<Vec<ArrayRef>> {
    let (old, others): (Vec<_>, Vec<_>) = fields
        .iter()
        .cloned()
        .partition(|field| v2_0::holds(sources, field));
    if old.is_empty() {
        return read_structural(sources, fields, rows, options);
    }
    // Files of several versions may hold the fields of one fragment.
    let mut old = v2_0::read_fields(sources, &old, &rows.ranges()?, options)?.into_iter();
    let mut others = read_structural(sources, &others, rows, options)?.into_iter();
    let next = |field| {
        let column = match v2_0::holds(sources, field) {
            true => old.next(),
            false => others.next(),
        };
        column.ok_or_else(|| Error::corrupt("a column is missing"))
    };
    fields.iter().map(next).collect()
}

/// Reads fields of 2.1 and 2.2 files, and those that no file holds.
fn read_structural(
    sources: &[FieldSource<'_>],
    fields: &[Arc<Field>],
    rows: Rows<'_>,
    options: &ReadOptions,
) -> Result<Vec<ArrayRef>> {
    let mut leaves = Vec::new();
    for field in fields {
        for leaf in leaf_fields(field)? {
            leaves.push(Leaf::new(leaf, sources)?);
        }
    }
    let ranges = rows.ranges()?;
    let total = ranges::count(&ranges);
    let mut plans = leaves
        .iter()
        .map(|leaf| leaf.plan(&ranges))
        .collect::<Result<Vec<_>>>()?;
    fetch(&mut plans)?;
    let decoded = decode_all(&leaves, plans, total as usize, options)?;
    // What lies outside of the pages is read last, column by column, so that the bytes of one column are in flight at a time.
    let finished = leaves.iter().zip(decoded).map(|(leaf, built)| leaf.finish(built));
    let mut arrays = finished.collect::<Result<Vec<_>>>()?.into_iter();
    fields
        .iter()
        .map(|field| assemble(field, total as usize, &mut arrays))
        .collect()
}

impl<'a> Leaf<'a> {
    fn new(mut field: LeafField, sources: &[FieldSource<'a>]) -> Result<Self> {
        let source = sources
            .iter()
            .find_map(|s| Some((s.reader, *s.columns.get(&field.field.id)?)));
        let descriptors = match (source, field.field.is_blob()) {
            (Some((reader, column)), true) => {
                let form = reader.blob_form(column).context(|| reader.path())?;
                field.shape = form.shape()?;
                Some(form.descriptors_of(&field.field))
            }
            _ => None,
        };
        Ok(Self {
            field,
            source,
            descriptors,
        })
    }

    fn place(&self) -> String {
        match self.source {
            Some((reader, _)) => format!("{}: column '{}'", reader.path(), self.field.path),
            None => format!("column '{}'", self.field.path),
        }
    }

    /// The reads of the pages that hold `rows`.
    fn plan(&self, rows: &[Range<u64>]) -> Result<LeafPlan<'a>> {
        let Some((reader, column)) = self.source else {
            return Ok(LeafPlan {
                reader: None,
                reads: Vec::new(),
            });
        };
        let plan = || {
            let rows = self.slots(rows)?;
            let pages = reader.pages(column, &self.field)?;
            let mut reads = Vec::new();
            let end = |page: &Arc<Page>| page.info().first_row + page.info().length;
            let length = pages.last().map_or(0, end);
            if let Some(last) = rows.last().filter(|r| r.end > length) {
                return Err(Error::corrupt(format!(
                    "row {} is asked for, the column has {length}",
                    last.end - 1
                )));
            }
            let first = rows.first().map_or(length, |r| r.start);
            for page in pages.iter().skip(pages.partition_point(|p| end(p) <= first)) {
                let inside = ranges::clip(&rows, page.info().first_row..end(page));
                if !inside.is_empty() {
                    reads.push(PageRead::new(page.clone(), self.field.path.clone(), inside));
                }
            }
            Ok(LeafPlan {
                reader: Some(reader),
                reads,
            })
        };
        plan().context(|| self.place())
    }

    /// Rows in the units of the column's pages: below a fixed-size list of structs each row is several slots.
    fn slots(&self, rows: &[Range<u64>]) -> Result<Vec<Range<u64>>> {
        let factor = slots_per_row(&self.field.nodes);
        let scale = |r: &Range<u64>| Some(r.start.checked_mul(factor)?..r.end.checked_mul(factor)?);
        let scaled: Option<Vec<_>> = rows.iter().map(scale).collect();
        scaled.ok_or_else(|| Error::corrupt("row numbers overflow 64 bits"))
    }

    /// Decodes the column.
    fn decode(&self, plan: LeafPlan<'_>, rows: usize) -> Result<Built> {
        let Some(reader) = plan.reader else {
            return Ok(Built::Missing);
        };
        let mut sink = ColumnSink::new(&self.field.shape, &self.field.nodes, rows);
        sink.values
            .reserve_bytes(plan.reads.iter().map(PageRead::value_bytes).sum());
        for read in &plan.reads {
            read.decode(&mut sink)
                .map_err(|e| e.context(read.place()))
                .context(|| reader.path())?;
        }
        reader.decoded.add(plan.reads.len(), sink.chunks);
        if sink.structure.rows() != rows {
            let found = sink.structure.rows();
            return Err(
                Error::corrupt(format!("{found} rows decoded, expected {rows}")).context(self.place())
            );
        }
        let field = self.descriptors.as_ref().unwrap_or(&self.field.field);
        assemble::leaf(field, sink).context(|| self.place())
    }

    /// The values of a blob column, or the parts of its descriptors that are asked for; any other column as it is.
    fn finish(&self, built: Built) -> Result<Built> {
        match (self.source, &self.descriptors, built) {
            (Some((reader, _)), Some(_), Built::Present { array, above }) => {
                let array = blob::as_asked(&self.field.field, reader, &array).context(|| self.place())?;
                Ok(Built::Present { array, above })
            }
            (_, _, built) => Ok(built),
        }
    }
}

struct LeafPlan<'a> {
    reader: Option<&'a FileReader>,
    reads: Vec<PageRead>,
}

/// Reads what the pages want until none wants anything: at most three rounds, each one call a file.
fn fetch(plans: &mut [LeafPlan<'_>]) -> Result<()> {
    let mut readers: Vec<&FileReader> = Vec::new();
    for reader in plans.iter().filter_map(|p| p.reader) {
        if !readers.iter().any(|known| std::ptr::eq(*known, reader)) {
            readers.push(reader);
        }
    }
    for reader in readers {
        let mut reads: Vec<&mut PageRead> = plans
            .iter_mut()
            .filter(|p| p.reader.is_some_and(|r| std::ptr::eq(r, reader)))
            .flat_map(|p| p.reads.iter_mut())
            .collect();
        fetch_file(reader, &mut reads)?;
    }
    Ok(())
}

fn fetch_file(reader: &FileReader, reads: &mut [&mut PageRead]) -> Result<()> {
    let pages = uninitialised(reads);
    let mut guards: Vec<_> = pages.iter().map(|page| page.initialise()).collect();
    reads.iter_mut().for_each(|read| read.look_again());
    loop {
        let (mut wanted, mut counts) = (Vec::new(), Vec::with_capacity(reads.len()));
        for read in reads.iter_mut() {
            let ranges = read
                .wants()
                .map_err(|e| e.context(read.place()))
                .context(|| reader.path())?;
            counts.push(ranges.len());
            wanted.extend(ranges);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let mut parts = reader.source.read_ranges(&wanted)?.into_iter();
        for (read, count) in reads.iter_mut().zip(counts).filter(|(_, count)| *count > 0) {
            let parts: Vec<_> = parts.by_ref().take(count).collect();
            read.supply(parts)
                .map_err(|e| e.context(read.place()))
                .context(|| reader.path())?;
        }
        // The first round brought the initial buffers.
        guards.clear();
    }
}

/// The pages whose initial buffers are to be read, each once, in an order that all threads share: so that none waits for
/// one that waits for it.
fn uninitialised(reads: &[&mut PageRead]) -> Vec<Arc<Page>> {
    let mut pages: Vec<_> = reads
        .iter()
        .filter_map(|read| read.uninitialised().cloned())
        .collect();
    pages.sort_by_key(Arc::as_ptr);
    pages.dedup_by(|a, b| Arc::ptr_eq(a, b));
    pages
}

/// Rows times columns from which starting threads pays.
pub(crate) const PARALLEL_VALUES: usize = 1 << 18;

fn decode_all(
    leaves: &[Leaf<'_>],
    plans: Vec<LeafPlan<'_>>,
    rows: usize,
    options: &ReadOptions,
) -> Result<Vec<Built>> {
    let work: Vec<_> = leaves.iter().zip(plans).collect();
    let threads = match options.threads {
        0 if rows.saturating_mul(leaves.len()) >= PARALLEL_VALUES => crate::parallel::cores(),
        0 => 1,
        n => n,
    };
    crate::parallel::map(work, threads, |(leaf, plan)| leaf.decode(plan, rows))
}
