//! Scans, takes and counts.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchReader, StringArray, StructArray};
use arrow_schema::{DataType, Field};
use glaive::manifest::{DeletionFile, DeletionFileType, Manifest};
use glaive::transaction::Operation;
use glaive::{BatchSize, Dataset, ErrorKind, OpenOptions, ScanOptions, WriteParams};
use roaring::RoaringBitmap;

use crate::commits::commit_by_hand;
use crate::support::{Place, int_column, ints, rows, stream};

/// Fragments of 4, 4 and 2 rows with the values 0 to 9.
fn table(place: &Place) -> Dataset {
    let params = WriteParams {
        max_rows_per_file: 4,
        ..WriteParams::default()
    };
    Dataset::write(place.uri().as_str(), stream(rows(0..10)), &params).unwrap()
}

fn nothing() -> Operation {
    Operation::Append {
        fragments: Vec::new(),
    }
}

/// Deletes rows of fragments, and writes the deletion files.
fn delete(place: &Place, deletions: &[(usize, &[u32])]) -> Dataset {
    std::fs::create_dir_all(format!("{}/_deletions", place.uri())).unwrap();
    let mark = |manifest: &mut Manifest| {
        for (number, rows) in deletions {
            let bitmap: RoaringBitmap = rows.iter().copied().collect();
            let fragment = Arc::make_mut(&mut manifest.fragments[*number]);
            let file = DeletionFile {
                file_type: DeletionFileType::Bitmap,
                read_version: 1,
                id: 7,
                num_deleted_rows: Some(bitmap.len()),
                base_id: None,
            };
            let mut bytes = Vec::new();
            bitmap.serialize_into(&mut bytes).unwrap();
            std::fs::write(format!("{}/{}", place.uri(), file.path(fragment.id)), bytes).unwrap();
            fragment.deletion_file = Some(file);
        }
        (manifest.flags.reader, manifest.flags.writer) = (1, 1);
    };
    commit_by_hand(place, nothing(), mark)
}

fn sizes(dataset: &Dataset, batch_size: usize, limit: Option<u64>, offset: Option<u64>) -> Vec<usize> {
    let options = ScanOptions {
        batch_size: BatchSize::Rows(batch_size),
        limit,
        offset,
        ..ScanOptions::default()
    };
    dataset
        .scan(options)
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .collect()
}

fn values(dataset: &Dataset, options: ScanOptions) -> Vec<i64> {
    dataset
        .scan(options)
        .unwrap()
        .flat_map(|batch| int_column(&batch.unwrap(), 0))
        .flatten()
        .collect()
}

#[test]
fn batches_end_at_fragments() {
    let place = Place::new();
    let dataset = table(&place);
    assert_eq!(sizes(&dataset, 3, None, None), [3, 1, 3, 1, 2]);
    assert_eq!(sizes(&dataset, 1, Some(3), None), [1, 1, 1]);
    assert_eq!(sizes(&dataset, 100, None, None), [4, 4, 2]);
    assert_eq!(sizes(&dataset, 3, Some(5), Some(2)), [2, 3]);
    assert_eq!(sizes(&dataset, 3, Some(0), None), [0; 0]);
    assert_eq!(sizes(&dataset, 3, None, Some(10)), [0; 0]);
    assert_eq!(sizes(&dataset, 3, Some(u64::MAX), Some(u64::MAX)), [0; 0]);
    let error = dataset
        .scan(ScanOptions {
            batch_size: BatchSize::Rows(0),
            ..Default::default()
        })
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn deleted_rows_are_invisible() {
    let place = Place::new();
    table(&place);
    let dataset = delete(&place, &[(0, &[1, 2]), (1, &[0]), (2, &[0, 1])]);
    assert_eq!(dataset.count_rows().unwrap(), 5);
    assert_eq!(
        ints(&dataset, "a").into_iter().flatten().collect::<Vec<_>>(),
        [0, 3, 5, 6, 7]
    );
    assert_eq!(sizes(&dataset, 2, None, None), [2, 2, 1]);
    let limited = ScanOptions {
        limit: Some(2),
        offset: Some(1),
        ..ScanOptions::default()
    };
    assert_eq!(values(&dataset, limited), [3, 5]);
    let taken = dataset.take(&[4, 0, 1, 4], None).unwrap();
    assert_eq!(int_column(&taken, 0), [Some(7), Some(0), Some(3), Some(7)]);
    let fragment = dataset.fragment(1).unwrap();
    assert_eq!(
        (fragment.count_rows().unwrap(), fragment.physical_rows().unwrap()),
        (3, 4)
    );
    assert_eq!(
        int_column(&fragment.take(&[2, 0], None).unwrap(), 0),
        [Some(7), Some(5)]
    );
    let info = dataset.version_info().summary;
    assert_eq!(
        (
            info.total_rows,
            info.total_deletion_file_rows,
            info.total_deletion_files
        ),
        (5, 5, 3)
    );
}

#[test]
fn a_deletion_file_that_lies_is_an_error() {
    let place = Place::new();
    table(&place);
    delete(&place, &[(0, &[1, 2])]);
    let dataset = commit_by_hand(&place, nothing(), |manifest| {
        let fragment = Arc::make_mut(&mut manifest.fragments[0]);
        fragment.deletion_file.as_mut().unwrap().num_deleted_rows = Some(1);
    });
    let error = dataset
        .scan(ScanOptions::default())
        .unwrap()
        .next_batch()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("_deletions/0-1-7.bin"), "{error}");
}

#[test]
fn system_columns() {
    let place = Place::new();
    table(&place);
    let dataset = delete(&place, &[(0, &[1])]);
    let columns = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
    let options = ScanOptions {
        columns: columns(&["_rowoffset", "a", "_rowid"]),
        fragment_ids: Some(vec![2, 0]),
        with_row_address: true,
        ..ScanOptions::default()
    };
    let scan = dataset.scan(options).unwrap();
    let names: Vec<_> = scan.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["_rowoffset", "a", "_rowid", "_rowaddr"]);
    let batches: Vec<_> = scan.map(Result::unwrap).collect();
    let column = |batch: usize, number: usize| {
        batches[batch]
            .column(number)
            .as_primitive::<UInt64Type>()
            .values()
            .to_vec()
    };
    assert_eq!(column(0, 0), [7, 8]);
    assert_eq!(column(0, 2), [2 << 32, (2 << 32) + 1]);
    assert_eq!((column(1, 0), column(1, 3)), (vec![0, 1, 2], vec![0, 2, 3]));
    let moved = ScanOptions {
        columns: columns(&["_rowid", "a"]),
        with_row_id: true,
        ..ScanOptions::default()
    };
    let schema = dataset.scan(moved).unwrap().schema();
    assert_eq!(
        schema
            .fields()
            .iter()
            .map(|f| f.name().as_str())
            .collect::<Vec<_>>(),
        ["a", "_rowid"]
    );
    let taken = dataset
        .take(&[1], columns(&["_rowaddr", "a"]).as_deref())
        .unwrap();
    assert_eq!(taken.column(0).as_primitive::<UInt64Type>().value(0), 2);
    let unsupported = ScanOptions {
        columns: columns(&["_row_created_at_version"]),
        ..ScanOptions::default()
    };
    assert_eq!(
        dataset.scan(unsupported).err().unwrap().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn no_columns_but_rows() {
    let place = Place::new();
    let dataset = table(&place);
    let options = ScanOptions {
        columns: Some(Vec::new()),
        limit: Some(5),
        ..ScanOptions::default()
    };
    let batches: Vec<_> = dataset.scan(options).unwrap().map(Result::unwrap).collect();
    assert_eq!(
        batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(),
        [4, 1]
    );
    assert_eq!(batches[0].num_columns(), 0);
}

#[test]
fn names_that_do_not_fit() {
    let place = Place::new();
    let dataset = table(&place);
    let scan = |names: &[&str]| {
        let columns = Some(names.iter().map(ToString::to_string).collect());
        dataset
            .scan(ScanOptions {
                columns,
                ..ScanOptions::default()
            })
            .err()
            .map(|e| e.to_string())
    };
    assert!(scan(&["a", "a"]).unwrap().contains("Duplicate column name: a"));
    assert!(scan(&["nope"]).unwrap().contains("No field named nope."));
    assert!(scan(&["A"]).unwrap().contains("No field named A."));
    assert_eq!(scan(&["a", "`b`"]), None);
    for positions in [&[10][..], &[0, u64::MAX]] {
        assert_eq!(
            dataset.take(positions, None).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    assert!(
        dataset
            .take(&[0], Some(&["nope".to_string()]))
            .unwrap_err()
            .to_string()
            .contains("No field named")
    );
    assert!(dataset.take(&[0], Some(&[])).is_err());
    let empty = dataset.take(&[], None).unwrap();
    assert_eq!((empty.num_rows(), empty.num_columns()), (0, 2));
    let missing = ScanOptions {
        fragment_ids: Some(vec![9]),
        ..ScanOptions::default()
    };
    assert_eq!(
        dataset.scan(missing).err().unwrap().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn nested_paths() {
    let x: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
    let y: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let fields = vec![
        Field::new("x", DataType::Int64, true),
        Field::new("y", DataType::Utf8, true),
    ];
    let nulls = arrow_buffer::NullBuffer::from(vec![true, false, true]);
    let st: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![x, y], Some(nulls)));
    let batch = RecordBatch::try_from_iter_with_nullable([("st", st, true)]).unwrap();
    let place = Place::new();
    let dataset = Dataset::write(place.uri().as_str(), stream(batch), &WriteParams::default()).unwrap();

    let columns = Some(vec!["st.x".to_string(), "st".to_string(), "st.`y`".to_string()]);
    let mut scan = dataset
        .scan(ScanOptions {
            columns,
            ..ScanOptions::default()
        })
        .unwrap();
    let batch = scan.next_batch().unwrap().unwrap();
    let names: Vec<_> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(names, ["st.x", "st", "st.`y`"]);
    let x: Vec<_> = batch.column(0).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(x, [Some(1), None, None], "a null struct has null fields");
    assert!(batch.column(1).is_null(1) && batch.column(2).is_null(1));

    let taken = dataset.take(&[2, 0], Some(&["st.y".to_string()])).unwrap();
    let st = taken.column(0).as_struct();
    assert_eq!(
        (st.num_columns(), st.column(0).as_string::<i32>().value(0)),
        (1, "c")
    );
}

/// A fragment of two files: columns `a`, `b` of the table and `c` of another; field `d` in none.
fn widened(place: &Place) -> Dataset {
    table(place);
    let other = Place::new();
    let c: ArrayRef = Arc::new(Int64Array::from_iter_values(100..104));
    let c = RecordBatch::try_from_iter_with_nullable([("c", c, true)]).unwrap();
    let other_table = Dataset::write(other.uri().as_str(), stream(c), &WriteParams::default()).unwrap();
    let mut file = other_table.manifest().fragments[0].files[0].clone();
    let path = |place: &Place| format!("{}/data/{}", place.uri(), file.path);
    std::fs::copy(path(&other), path(place)).unwrap();
    file.fields = vec![2];
    commit_by_hand(place, nothing(), |manifest| {
        Arc::make_mut(&mut manifest.fragments[0]).files.push(file);
        for (name, id) in [("c", 2), ("d", 3)] {
            let mut field = manifest.schema.fields[0].as_ref().clone();
            (field.name, field.id) = (name.to_string(), id);
            manifest.schema.fields.push(Arc::new(field));
        }
        // `b` was dropped; its column stays in the file.
        manifest.schema.fields.remove(1);
    })
}

#[test]
fn columns_of_several_files_and_of_none() {
    let place = Place::new();
    let dataset = widened(&place);
    assert_eq!(ints(&dataset, "a"), (0..10).map(Some).collect::<Vec<_>>());
    let c: Vec<_> = (0..10).map(|i| (i < 4).then_some(100 + i)).collect();
    assert_eq!(ints(&dataset, "c"), c);
    assert_eq!(ints(&dataset, "d"), [None; 10]);
    let taken = dataset.take(&[9, 3], None).unwrap();
    assert_eq!(int_column(&taken, 1), [None, Some(103)]);
}

#[test]
fn what_is_read() {
    let place = Place::new();
    let params = WriteParams {
        max_rows_per_file: 50_000,
        ..WriteParams::default()
    };
    Dataset::write(place.uri().as_str(), stream(rows(0..100_000)), &params).unwrap();
    let dataset = place.open();
    assert_eq!(dataset.io_stats().calls, 1, "opening reads one manifest");
    assert_eq!(dataset.count_rows().unwrap(), 100_000);
    assert_eq!(dataset.io_stats().calls, 1, "counting reads nothing");
    let scan = dataset
        .scan(ScanOptions {
            limit: Some(10),
            ..ScanOptions::default()
        })
        .unwrap();
    assert_eq!(
        dataset.io_stats().calls,
        1,
        "a scan reads nothing before its first batch"
    );
    drop(scan);

    let all = place.open();
    ints(&all, "a");
    let both = place.open();
    let options = ScanOptions {
        batch_size: BatchSize::Large,
        ..ScanOptions::default()
    };
    assert_eq!(
        both.scan(options)
            .unwrap()
            .map(|b| b.unwrap().num_rows())
            .sum::<usize>(),
        100_000
    );
    assert!(
        all.io_stats().bytes < both.io_stats().bytes,
        "a projection reads less"
    );

    let taken = place.open();
    taken.take(&[70_000], Some(&["a".to_string()])).unwrap();
    let first = taken.io_stats();
    assert!(
        first.calls <= 5 && first.bytes < all.io_stats().bytes,
        "{first:?}"
    );
    taken.take(&[70_001], Some(&["a".to_string()])).unwrap();
    assert!(taken.io_stats().calls - first.calls <= 2, "the open file is kept");
}

#[test]
fn a_place_without_table() {
    let place = Place::new();
    let error = Dataset::open(&place.uri(), OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("was not found"), "{error}");
    let file = format!("{}.txt", place.uri());
    std::fs::write(&file, b"x").unwrap();
    assert_eq!(
        Dataset::open(&file, OpenOptions::default()).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let error = Dataset::open("foo://x/y", OpenOptions::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("No object store provider found for scheme: 'foo'"),
        "{error}"
    );
}

#[test]
fn files_of_other_base_paths() {
    let place = Place::new();
    table(&place);
    let (tables, plain) = (Place::new(), Place::new());
    std::fs::create_dir_all(format!("{}/data", tables.uri())).unwrap();
    std::fs::create_dir_all(format!("{}/_deletions", tables.uri())).unwrap();
    std::fs::create_dir_all(plain.uri()).unwrap();
    delete(&place, &[(0, &[1])]);
    let dataset = commit_by_hand(&place, nothing(), |manifest| {
        let base = |id, place: &Place, is_dataset_root| glaive::proto::lance::table::BasePath {
            id,
            name: None,
            is_dataset_root,
            path: place.uri(),
        };
        manifest.base_paths = vec![base(0, &tables, true), base(5, &plain, false)];
        let moved =
            |from: String, to: String| std::fs::rename(format!("{}/{from}", place.uri()), to).unwrap();
        for (number, base, directory) in [(0, 0, format!("{}/data", tables.uri())), (1, 5, plain.uri())] {
            let fragment = Arc::make_mut(&mut manifest.fragments[number]);
            let id = fragment.id;
            let file = &mut fragment.files[0];
            moved(
                format!("data/{}", file.path),
                format!("{directory}/{}", file.path),
            );
            file.base_id = Some(base);
            if let Some(file) = &mut fragment.deletion_file {
                moved(file.path(id), format!("{}/{}", tables.uri(), file.path(id)));
                file.base_id = Some(base);
            }
        }
    });
    assert_eq!(
        ints(&dataset, "a").into_iter().flatten().collect::<Vec<_>>(),
        [0, 2, 3, 4, 5, 6, 7, 8, 9]
    );
    let appended = Dataset::write(
        &dataset,
        stream(rows(10..11)),
        &crate::support::mode(glaive::WriteMode::Append),
    );
    let appended = appended.unwrap();
    assert_eq!(appended.manifest().base_paths, dataset.manifest().base_paths);
    assert_eq!(appended.manifest().flags.reader, 1 | 16);
    assert_eq!(appended.count_rows().unwrap(), 10);
    let broken = commit_by_hand(&place, nothing(), |manifest| {
        Arc::make_mut(&mut manifest.fragments[0])
            .deletion_file
            .as_mut()
            .unwrap()
            .base_id = Some(5);
    });
    assert_eq!(broken.take(&[0], None).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn nulls_against_the_schema_are_an_error() {
    let place = Place::new();
    table(&place);
    let dataset = commit_by_hand(&place, nothing(), |manifest| {
        let mut field = manifest.schema.fields[0].as_ref().clone();
        (field.name, field.id, field.nullable) = ("missing".to_string(), 9, false);
        manifest.schema.fields.push(Arc::new(field));
    });
    let error = dataset
        .scan(ScanOptions::default())
        .unwrap()
        .next_batch()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("missing"), "{error}");
}
