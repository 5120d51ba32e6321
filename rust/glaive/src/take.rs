//! Taking rows by position among the live rows, in scan order.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_select::interleave::interleave;
use glaive_file::{Context, Error, Result, Rows};

use crate::data_file::OpenFiles;
use crate::dataset::{Dataset, FragmentHandle};
use crate::projection::{Projection, RowOrigin};

impl Dataset {
    /// The rows at some positions, in the order given; a position may repeat. Nested paths give structs that hold only
    /// the named children.
    ///
    /// # Errors
    /// Invalid input for a position behind the last row, a missing column or no column at all.
    pub fn take(&self, positions: &[u64], columns: Option<&[String]>) -> Result<RecordBatch> {
        take(self, &self.fragments(), positions, columns)
    }
}

/// Takes rows of some fragments.
pub(crate) fn take(
    dataset: &Dataset,
    fragments: &[FragmentHandle],
    positions: &[u64],
    columns: Option<&[String]>,
) -> Result<RecordBatch> {
    if columns.is_some_and(<[_]>::is_empty) {
        return Err(Error::invalid_input("take needs at least one column"));
    }
    let projection = Projection::of_take(dataset, columns)?;
    let mut sorted: Vec<u64> = positions.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let batches = read_sorted(&projection, fragments, &sorted)?;
    in_order(&projection, &batches, &sorted, positions)
}

/// The rows at ascending positions, one batch a fragment.
fn read_sorted(
    projection: &Projection,
    fragments: &[FragmentHandle],
    sorted: &[u64],
) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    let (mut rest, mut first) = (sorted, 0u64);
    for fragment in fragments {
        if rest.is_empty() {
            break;
        }
        let end = first.saturating_add(fragment.count_rows()?);
        let (here, after) = rest.split_at(rest.partition_point(|position| *position < end));
        if !here.is_empty() {
            let read = read_fragment(projection, fragment, here, first);
            batches.push(read.context(|| format!("fragment {}", fragment.id()))?);
        }
        (rest, first) = (after, end);
    }
    match rest.first() {
        None => Ok(batches),
        Some(position) => Err(Error::invalid_input(format!(
            "position {position} is behind the last row; there are {first} rows"
        ))),
    }
}

fn read_fragment(
    projection: &Projection,
    fragment: &FragmentHandle,
    positions: &[u64],
    first: u64,
) -> Result<RecordBatch> {
    let deletions = fragment.deletions()?;
    let physical = |position: &u64| match &deletions {
        None => *position - first,
        Some(deletions) => deletions.physical_offset(*position - first),
    };
    let offsets: Vec<u64> = positions.iter().map(physical).collect();
    Ok(read_offsets(projection, fragment, &offsets, positions)?.0)
}

/// The rows of a fragment at ascending physical offsets, and the files that hold them. `positions` of the rows among those of
/// the table are needed for the columns that show them only.
pub(crate) fn read_offsets(
    projection: &Projection,
    fragment: &FragmentHandle,
    offsets: &[u64],
    positions: &[u64],
) -> Result<(RecordBatch, OpenFiles)> {
    let dataset = fragment.dataset();
    let files = dataset
        .cache()
        .open(dataset.storages(), fragment.metadata(), &projection.fields)?;
    let arrays = files.read(&projection.fields, Rows::Indices(offsets), 0)?;
    let origin = RowOrigin {
        fragment: fragment.id(),
        offsets,
        positions,
    };
    let batch = projection.assemble(&arrays, &origin, offsets.len())?;
    Ok((batch, files))
}

/// Brings the rows of `sorted` into the order of `positions`.
fn in_order(
    projection: &Projection,
    batches: &[RecordBatch],
    sorted: &[u64],
    positions: &[u64],
) -> Result<RecordBatch> {
    match batches {
        [] => return Ok(RecordBatch::new_empty(projection.schema().clone())),
        [only] if sorted == positions => return Ok(only.clone()),
        _ => {}
    }
    let rows: Vec<(usize, usize)> = batches
        .iter()
        .enumerate()
        .flat_map(|(batch, rows)| (0..rows.num_rows()).map(move |row| (batch, row)))
        .collect();
    let place = |position: &u64| {
        let at = sorted
            .binary_search(position)
            .ok()
            .and_then(|at| rows.get(at))
            .copied();
        at.ok_or_else(|| Error::corrupt("a row that was read is missing"))
    };
    let places = positions.iter().map(place).collect::<Result<Vec<_>>>()?;
    let column = |number: usize| -> Result<ArrayRef> {
        let parts: Vec<_> = batches
            .iter()
            .filter_map(|batch| batch.columns().get(number))
            .map(Arc::as_ref)
            .collect();
        Ok(interleave(&parts, &places)?)
    };
    let columns = (0..projection.schema().fields().len())
        .map(column)
        .collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
    Ok(RecordBatch::try_new_with_options(
        projection.schema().clone(),
        columns,
        &options,
    )?)
}
