//! Tables whose data files have version 2.0.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, ListArray, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, Fields};
use glaive::{Dataset, FileVersion, ScanOptions, WriteMode, WriteParams};

use crate::support::{Place, mode, stream};

/// A column, a list and a struct: ids 0, 1 and 2, 3 to 5.
fn batch(start: i64) -> RecordBatch {
    let ints = |n| Arc::new(Int64Array::from_iter_values(start..start + n)) as ArrayRef;
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([2, 0, 1]);
    let list: ArrayRef = Arc::new(ListArray::new(
        item,
        offsets,
        ints(3),
        Some(vec![true, false, true].into()),
    ));
    let fields = Fields::from(vec![
        Field::new("x", DataType::Int64, true),
        Field::new("y", DataType::Int64, true),
    ]);
    let pair: ArrayRef = Arc::new(StructArray::new(fields, vec![ints(3), ints(3)], None));
    RecordBatch::try_from_iter_with_nullable([("a", ints(3), true), ("l", list, true), ("s", pair, true)])
        .unwrap()
}

fn create(place: &Place) -> Dataset {
    let params = WriteParams {
        data_storage_version: Some(FileVersion::V2_0),
        ..WriteParams::default()
    };
    Dataset::write(place.uri().as_str(), stream(batch(0)), &params).unwrap()
}

#[test]
fn a_data_file_maps_every_field() {
    let place = Place::new();
    let dataset = create(&place);
    assert_eq!(dataset.data_storage_version(), FileVersion::V2_0);
    let dataset = place.open();
    let file = &dataset.manifest().fragments[0].files[0];
    assert_eq!(file.fields, [0, 1, 2, 3, 4, 5]);
    assert_eq!(file.column_indices, [0, 1, 2, 3, 4, 5]);
    assert_eq!(file.version, FileVersion::V2_0);
}

#[test]
fn rows_come_back_from_files_of_several_versions() {
    let place = Place::new();
    create(&place);
    let uri = place.uri();
    Dataset::write(uri.as_str(), stream(batch(10)), &mode(WriteMode::Append)).unwrap();
    let later = WriteParams {
        data_storage_version: Some(FileVersion::V2_2),
        ..mode(WriteMode::Append)
    };
    let dataset = Dataset::write(uri.as_str(), stream(batch(20)), &later).unwrap();
    let versions: Vec<_> = dataset
        .manifest()
        .fragments
        .iter()
        .map(|f| f.files[0].version)
        .collect();
    assert_eq!(
        versions,
        [FileVersion::V2_0, FileVersion::V2_0, FileVersion::V2_2]
    );
    let expected = [batch(0), batch(10), batch(20)];
    let expected = arrow_select::concat::concat_batches(&expected[0].schema(), &expected).unwrap();
    let dataset = place.open();
    let mut scan = dataset.scan(ScanOptions::default()).unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = scan.next_batch().unwrap() {
        batches.push(batch);
    }
    let found = arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(found.columns(), expected.columns());
    let taken = dataset.take(&[7, 4, 1], Some(&["l".to_owned()])).unwrap();
    assert_eq!(
        taken.column(0),
        &arrow_select::take::take(expected.column(1), &Int64Array::from(vec![7, 4, 1]), None).unwrap()
    );
}

#[test]
fn dictionary_columns_are_marked_in_the_manifest() {
    let place = Place::new();
    let values: DictionaryArray<Int8Type> = ["x", "y", "x"].into_iter().collect();
    let batch = RecordBatch::try_from_iter([
        ("d", Arc::new(values) as ArrayRef),
        ("a", batch(0).column(0).clone()),
    ])
    .unwrap();
    let params = WriteParams {
        data_storage_version: Some(FileVersion::V2_0),
        ..WriteParams::default()
    };
    Dataset::write(place.uri().as_str(), stream(batch.clone()), &params).unwrap();
    let dataset = place.open();
    let marked: Vec<_> = dataset
        .schema()
        .fields
        .iter()
        .map(|f| f.dictionary.is_some())
        .collect();
    assert_eq!(marked, [true, false]);
    let taken = dataset.take(&[0, 1, 2], None).unwrap();
    assert_eq!(taken.column(0), batch.column(0));
}
