//! Encoding: from Arrow arrays to the columns of a 2.0 file.
//!
//! A batch is taken apart into columns: one for each field, parents before children. A column collects rows until they fill a page.
//! Pages of different columns have nothing to do with each other, those of a list's offsets and of its items neither. A struct's
//! column has one page, which is written last.
//!
//! | type | tree of a page |
//! |---|---|
//! | fixed width, boolean, fixed-size list | `nullable`: no nulls, some, or all |
//! | utf8 of at least 100 rows and less than 100 distinct values | `dictionary` |
//! | strings and binaries | `binary`; compressed or FSST-coded if the field's metadata asks for it |
//! | dictionary, list, packed struct, blob | the tree of the same name |

mod column;
mod dictionary;
mod fixed;
mod list;
mod message;
mod packed;
mod page;
mod strings;

use arrow_array::RecordBatch;

use crate::container::{ColumnPages, ContainerWriter};
use crate::schema::Schema;
use crate::{Context, Error, Result, parallel};

use column::Column;
use page::PageJob;

/// Columns of a 2.0 file on their way to it.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<Column>,
    cache_bytes: usize,
    page_bytes: usize,
    threads: usize,
}

impl Columns {
    /// The columns of a schema, which are written when `cache_bytes` are collected, in pages of about `page_bytes` at most; 0
    /// threads = the number of cores.
    ///
    /// # Errors
    /// `Unsupported` for types that 2.0 cannot store, `InvalidInput` for metadata that names no known encoding.
    pub fn new(
        schema: &Schema,
        cache_bytes: usize,
        page_bytes: usize,
        dict_threshold: usize,
        threads: usize,
    ) -> Result<Self> {
        let mut columns = Vec::new();
        for field in &schema.fields {
            column::of_field(field, &field.name, dict_threshold, &mut columns)?;
        }
        let threads = match threads {
            0 => parallel::cores(),
            n => n,
        };
        Ok(Self {
            columns,
            cache_bytes,
            page_bytes: page_bytes.max(1),
            threads,
        })
    }

    /// Bytes that are collected and not written.
    pub fn pending_bytes(&self) -> u64 {
        self.columns.iter().map(|c| c.bytes as u64).sum()
    }

    /// Ids of the fields that own the columns, in column order.
    pub fn field_ids(&self) -> Vec<i32> {
        self.columns.iter().map(|c| c.field_id).collect()
    }

    /// Takes a batch and writes the pages that are full.
    ///
    /// # Errors
    /// `SchemaMismatch` for a missing column, another type, or nulls in a non-nullable field; `InvalidInput` for nulls that 2.0
    /// cannot store.
    pub fn write(
        &mut self,
        schema: &Schema,
        batch: &RecordBatch,
        container: &mut ContainerWriter,
    ) -> Result<()> {
        let mut pieces = Vec::with_capacity(self.columns.len());
        for field in &schema.fields {
            let array = batch
                .column_by_name(&field.name)
                .ok_or_else(|| Error::schema_mismatch(format!("the batch has no column '{}'", field.name)))?;
            column::take_apart(field, array, &mut pieces).context(|| format!("column '{}'", field.name))?;
        }
        if batch.num_rows() == 0 {
            return Ok(());
        }
        for (column, piece) in self.columns.iter_mut().zip(pieces) {
            column.push(piece, container)?;
        }
        self.flush(self.cache_bytes, container)
    }

    /// Writes all pages that are left.
    pub fn finish(mut self, container: &mut ContainerWriter) -> Result<Vec<ColumnPages>> {
        self.flush(0, container)?;
        for column in &mut self.columns {
            column.write_last(container)?;
        }
        Ok(self.columns.into_iter().map(|c| c.pages).collect())
    }

    /// Encodes and writes the pages of all columns that collected at least `threshold` bytes.
    fn flush(&mut self, threshold: usize, container: &mut ContainerWriter) -> Result<()> {
        let mut jobs: Vec<(usize, PageJob)> = Vec::new();
        for (number, column) in self.columns.iter_mut().enumerate() {
            if column.bytes >= threshold {
                jobs.extend(column.cut_pages(self.page_bytes).map(|job| (number, job)));
            }
        }
        // A few pages at a time, so that encoded bytes do not pile up.
        while !jobs.is_empty() {
            let some: Vec<_> = jobs.drain(..jobs.len().min(self.threads * 4)).collect();
            let encode = |(number, job): (usize, PageJob)| Ok((number, job.encode()?));
            for (number, pages) in parallel::map(some, self.threads, encode)? {
                let Some(column) = self.columns.get_mut(number) else {
                    continue;
                };
                for page in pages {
                    container.write_encoded_page(&mut column.pages, &page)?;
                }
            }
        }
        Ok(())
    }
}
