//! Decoding: from the columns of 2.0 files to Arrow arrays.
//!
//! | module | subject |
//! |---|---|
//! | [`field`] | which columns a field has, and the rounds of reads |
//! | [`page`] | pages of one column |
//! | [`node`] | the encoding tree of a page of values |
//! | [`source`] | fixed-width values of one buffer, packed or not |
//! | [`binary`], [`dictionary`], [`packed`], [`blob`], [`list`] | one family of encodings each |
//! | [`sink`] | growing Arrow arrays |

mod binary;
mod blob;
mod dictionary;
mod field;
mod list;
mod node;
mod packed;
mod page;
mod parts;
mod sink;
mod source;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use bytes::Bytes;

use crate::container::FileTail;
use crate::reader::{FieldSource, FileReader, ReadOptions};
use crate::schema::{Field, LogicalType, Schema};
use crate::v2_1::ranges;
use crate::{Context, Error, FileVersion, Result, parallel};

use field::FieldRead;
pub use node::is_variable;
pub use packed::byte_width;
pub use page::ColumnCache;
pub use sink::fixed_bits;

/// Rows times fields from which starting threads pays.
const PARALLEL_VALUES: usize = 1 << 18;

/// Whether a 2.0 file holds the field or something below it.
pub fn holds(sources: &[FieldSource<'_>], field: &Arc<Field>) -> bool {
    let old = sources.iter().filter(|s| s.reader.version() == FileVersion::V2_0);
    let mut found = false;
    for source in old {
        field.walk(&mut |node| found |= source.columns.contains_key(&node.id));
    }
    found
}

/// Reads `rows`, which are ascending and disjoint, of fields that 2.0 files hold.
pub fn read_fields(
    sources: &[FieldSource<'_>],
    fields: &[Arc<Field>],
    rows: &[Range<u64>],
    options: &ReadOptions,
) -> Result<Vec<ArrayRef>> {
    let mut reads = fields
        .iter()
        .map(|field| FieldRead::plan(field, &field.name, sources, rows))
        .collect::<Result<Vec<_>>>()?;
    while fetch(&mut reads)? {}
    let total = usize::try_from(ranges::count(rows)).unwrap_or(usize::MAX);
    let threads = match options.threads {
        0 if total.saturating_mul(fields.len()) >= PARALLEL_VALUES => parallel::cores(),
        0 => 1,
        n => n,
    };
    parallel::map(reads, threads, FieldRead::decode)
}

/// One round: reads what is wanted now, one call a file. False if nothing is wanted any more.
fn fetch(fields: &mut [FieldRead<'_>]) -> Result<bool> {
    fields.iter_mut().try_for_each(FieldRead::advance)?;
    let mut wanted: Vec<(&FileReader, Vec<Range<u64>>)> = Vec::new();
    let mut counts = Vec::new();
    for field in fields.iter_mut() {
        field.for_each_read(&mut |page| {
            let ranges = page.read.wants()?;
            counts.push(ranges.len());
            if ranges.is_empty() {
                return Ok(());
            }
            match wanted.iter_mut().find(|(r, _)| std::ptr::eq(*r, page.reader)) {
                Some((_, all)) => all.extend(ranges),
                None => wanted.push((page.reader, ranges)),
            }
            Ok(())
        })?;
    }
    if wanted.is_empty() {
        return Ok(false);
    }
    let mut answers = Vec::with_capacity(wanted.len());
    for (reader, ranges) in wanted {
        answers.push((reader, reader.source().read_ranges(&ranges)?.into_iter()));
    }
    let mut counts = counts.into_iter();
    for field in fields.iter_mut() {
        field.for_each_read(&mut |page| {
            let count = counts.next().unwrap_or(0);
            if count == 0 {
                return Ok(());
            }
            let answer = answers.iter_mut().find(|(r, _)| std::ptr::eq(*r, page.reader));
            let parts: Vec<Bytes> = match answer {
                Some((_, parts)) => parts.by_ref().take(count).collect(),
                None => Vec::new(),
            };
            page.read.supply(parts);
            Ok(())
        })?;
    }
    Ok(true)
}

/// Column numbers by field id for a schema that a file carries itself. They follow from the schema, but for two forms of
/// old writers that only the pages tell: structs that are not packed in spite of their metadata (or packed against it), and
/// strings of two columns.
pub fn own_columns(tail: &FileTail, schema: &Schema) -> Result<HashMap<i32, u32>> {
    let fields = schema.leaf_fields(FileVersion::V2_0);
    if fields.len() == tail.num_columns() as usize {
        return Ok(fields.iter().map(|field| field.id).zip(0..).collect());
    }
    let mut columns = HashMap::new();
    let mut next = 0;
    for field in &schema.fields {
        number_columns(tail, field, &mut next, &mut columns)
            .context(|| format!("column '{}'", field.name))?;
    }
    Ok(columns)
}

fn number_columns(
    tail: &FileTail,
    field: &Field,
    next: &mut u32,
    columns: &mut HashMap<i32, u32>,
) -> Result<()> {
    if *next >= tail.num_columns() {
        return Err(Error::corrupt(format!(
            "the schema needs more columns than the {} of the file",
            tail.num_columns()
        )));
    }
    columns.insert(field.id, *next);
    let info = tail.column(*next)?;
    *next += 1;
    let walks_children = match field.logical_type {
        LogicalType::Struct => !field::is_packed(field, info)?,
        _ => !field.is_column_leaf(),
    };
    if walks_children {
        let mut children = field.children.iter();
        return children.try_for_each(|child| number_columns(tail, child, next, columns));
    }
    if node::is_variable(&field.data_type()) && !info.is_blob && field::is_list_of_bytes(info)? {
        *next += 1;
    }
    Ok(())
}
