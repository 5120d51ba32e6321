//! What a write checks, cuts and leaves behind.

use std::sync::{Arc, Mutex};

use arrow_array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray, StringViewArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use glaive::manifest::Fragment;
use glaive::{Dataset, ErrorKind, FileVersion, WriteMode, WriteParams, WriteProgress};

use crate::support::{Place, ints, mode, one_column, rows, stream, streams};

fn write(place: &Place, batch: RecordBatch, params: &WriteParams) -> glaive::Result<Dataset> {
    Dataset::write(place.uri().as_str(), stream(batch), params)
}

fn create(place: &Place) -> Dataset {
    write(place, rows(0..3), &WriteParams::default()).unwrap()
}

fn file_rows(dataset: &Dataset) -> Vec<u64> {
    dataset
        .fragments()
        .iter()
        .map(|f| f.physical_rows().unwrap())
        .collect()
}

#[test]
fn files_are_cut_exactly() {
    let expected: Vec<_> = (0..10).map(Some).collect();
    for piece in [1, 2, 4, 10] {
        let place = Place::new();
        let batches: Vec<_> = (0..10)
            .step_by(piece)
            .map(|i| rows(i..(i + piece as i64).min(10)))
            .collect();
        let params = WriteParams {
            max_rows_per_file: 3,
            ..WriteParams::default()
        };
        let reader = streams(batches[0].schema(), batches);
        let dataset = Dataset::write(place.uri().as_str(), reader, &params).unwrap();
        assert_eq!(file_rows(&dataset), [3, 3, 3, 1], "batches of {piece}");
        assert_eq!(ints(&dataset, "a"), expected);
        assert_eq!(ints(&place.open(), "a"), expected);
    }
    let place = Place::new();
    let params = WriteParams {
        max_rows_per_file: 5,
        ..WriteParams::default()
    };
    assert_eq!(file_rows(&write(&place, rows(0..10), &params).unwrap()), [5, 5]);
}

#[test]
fn the_limit_of_bytes_is_checked_after_each_batch() {
    let place = Place::new();
    let params = WriteParams {
        max_bytes_per_file: 1,
        ..WriteParams::default()
    };
    let batches = vec![rows(0..4), rows(4..5)];
    let dataset = Dataset::write(
        place.uri().as_str(),
        streams(batches[0].schema(), batches),
        &params,
    )
    .unwrap();
    assert_eq!(file_rows(&dataset), [4, 1]);
}

#[test]
fn parameters_out_of_range() {
    for params in [
        WriteParams {
            max_rows_per_file: 0,
            ..WriteParams::default()
        },
        WriteParams {
            max_bytes_per_file: 0,
            ..WriteParams::default()
        },
        WriteParams {
            max_rows_per_file: (1 << 32) + 1,
            ..WriteParams::default()
        },
    ] {
        let place = Place::new();
        assert_eq!(
            write(&place, rows(0..1), &params).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    assert!(
        "zz".parse::<WriteMode>()
            .unwrap_err()
            .to_string()
            .contains("Invalid mode zz")
    );
}

#[test]
fn modes() {
    let place = Place::new();
    let first = create(&place);
    let error = write(&place, rows(0..1), &WriteParams::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("Dataset already exists"), "{error}");
    assert!(Dataset::write(&first, stream(rows(0..1)), &WriteParams::default()).is_err());
    assert_eq!(
        write(&place, rows(3..5), &mode(WriteMode::Append))
            .unwrap()
            .count_rows()
            .unwrap(),
        5
    );
    assert_eq!(
        write(&place, rows(0..1), &mode(WriteMode::Overwrite))
            .unwrap()
            .version(),
        3
    );
    for mode in [mode(WriteMode::Append), mode(WriteMode::Overwrite)] {
        assert_eq!(
            write(&Place::new(), rows(0..1), &mode).unwrap().version(),
            1,
            "a missing table is created"
        );
    }
}

#[test]
fn no_rows() {
    let place = Place::new();
    let dataset = write(&place, rows(0..0), &WriteParams::default()).unwrap();
    assert_eq!(
        (dataset.fragments().len(), dataset.manifest().max_fragment_id),
        (0, None)
    );
    assert_eq!(dataset.count_rows().unwrap(), 0);
    assert!(ints(&dataset, "a").is_empty());
    let dataset = write(&place, rows(0..0), &mode(WriteMode::Append)).unwrap();
    assert_eq!((dataset.version(), dataset.fragments().len()), (2, 0));
    assert!(place.names("data").is_empty());
    let dataset = write(&place, rows(0..1), &mode(WriteMode::Append)).unwrap();
    assert_eq!(dataset.fragments()[0].id(), 0);
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    assert_eq!(
        write(&Place::new(), nothing, &WriteParams::default())
            .unwrap()
            .version(),
        1
    );
}

#[test]
fn a_failing_stream_leaves_the_former_version() {
    let place = Place::new();
    create(&place);
    let before = (
        place.names("data"),
        place.names("_versions"),
        place.names("_transactions"),
    );
    for mode in [WriteMode::Append, WriteMode::Overwrite] {
        let batches = vec![
            Ok(rows(0..5)),
            Err(ArrowError::ComputeError("stream broke".to_string())),
        ];
        let reader = Box::new(RecordBatchIterator::new(batches, rows(0..1).schema()));
        let params = WriteParams {
            max_rows_per_file: 2,
            mode,
            ..WriteParams::default()
        };
        let error = Dataset::write(place.uri().as_str(), reader, &params).unwrap_err();
        assert!(error.to_string().contains("stream broke"), "{error}");
        assert_eq!(
            (
                place.names("data"),
                place.names("_versions"),
                place.names("_transactions")
            ),
            before
        );
    }
    assert_eq!(place.open().version(), 1);
}

#[derive(Default)]
struct Heard {
    events: Mutex<Vec<(bool, u32, Option<u64>)>>,
    fail: bool,
}

impl WriteProgress for Heard {
    fn begin(&self, fragment: &Fragment) -> glaive::Result<()> {
        self.events
            .lock()
            .unwrap()
            .push((false, fragment.id, fragment.physical_rows));
        Ok(())
    }

    fn complete(&self, fragment: &Fragment) -> glaive::Result<()> {
        self.events
            .lock()
            .unwrap()
            .push((true, fragment.id, fragment.physical_rows));
        if self.fail {
            Err(glaive::Error::invalid_input("stop"))
        } else {
            Ok(())
        }
    }
}

#[test]
fn progress_of_every_file() {
    let heard = Arc::new(Heard::default());
    let params = WriteParams {
        max_rows_per_file: 2,
        progress: Some(heard.clone()),
        ..WriteParams::default()
    };
    write(&Place::new(), rows(0..3), &params).unwrap();
    let begin = (false, 0, Some(0));
    assert_eq!(
        *heard.events.lock().unwrap(),
        [begin, (true, 0, Some(2)), begin, (true, 0, Some(1))]
    );

    let place = Place::new();
    let failing = Some(Arc::new(Heard {
        fail: true,
        ..Heard::default()
    }) as Arc<dyn WriteProgress>);
    assert!(
        write(
            &place,
            rows(0..3),
            &WriteParams {
                progress: failing,
                ..WriteParams::default()
            }
        )
        .is_err()
    );
    assert!(place.names("data").is_empty() && place.names("_versions").is_empty());
}

fn error_of(batch: RecordBatch) -> String {
    let place = Place::new();
    let error = write(&place, batch, &WriteParams::default()).unwrap_err();
    assert!(place.names("data").is_empty() && place.names("_versions").is_empty());
    error.to_string()
}

#[test]
fn names_that_a_table_cannot_have() {
    let named = |name: &str| RecordBatch::new_empty(one_column(name, DataType::Int64, true));
    for name in [
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    ] {
        assert!(error_of(named(name)).contains(&format!("The column {name} is a reserved name")));
    }
    assert!(error_of(named("a.b")).contains("Top level field a.b cannot contain `.`"));
    assert!(error_of(named("")).contains("empty name"));
    let field = Field::new("a", DataType::Int64, true);
    let twice = RecordBatch::new_empty(Arc::new(Schema::new(vec![field.clone(), field.clone()])));
    assert!(error_of(twice).contains("Duplicate field name \"a\""));
    let cases = RecordBatch::new_empty(Arc::new(Schema::new(vec![field.clone(), field.with_name("A")])));
    write(&Place::new(), cases, &WriteParams::default()).unwrap();
    let interval = DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano);
    let unsupported = RecordBatch::new_empty(one_column("i", interval, true));
    assert!(error_of(unsupported).contains("Unsupported data type"));
}

#[test]
fn versions_that_are_not_written() {
    for version in [FileVersion::V0_1, FileVersion::V2_3] {
        let params = WriteParams {
            data_storage_version: Some(version),
            ..WriteParams::default()
        };
        let error = write(&Place::new(), rows(0..1), &params).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{version}");
    }
    let place = Place::new();
    create(&place);
    let params = WriteParams {
        data_storage_version: Some(FileVersion::V0_1),
        ..mode(WriteMode::Append)
    };
    let error = write(&place, rows(0..1), &params).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("V1 and V2 storage versions cannot be mixed"),
        "{error}"
    );
    let stable = WriteParams {
        enable_stable_row_ids: true,
        ..WriteParams::default()
    };
    assert_eq!(
        write(&Place::new(), rows(0..1), &stable).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn appended_columns_are_matched_by_name() {
    let place = Place::new();
    create(&place);
    let a: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let b: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let append = |columns: Vec<(&str, ArrayRef)>| {
        write(
            &place,
            RecordBatch::try_from_iter(columns).unwrap(),
            &mode(WriteMode::Append),
        )
    };
    let reordered = append(vec![("b", b.clone()), ("a", a.clone())]).unwrap();
    assert_eq!(reordered.manifest().fragments[1].files[0].fields, [1, 0]);
    let partial = append(vec![("a", a.clone())]).unwrap();
    assert_eq!(partial.manifest().fragments[2].files[0].fields, [0]);
    assert_eq!(ints(&partial, "a"), [0, 1, 2, 7, 7].map(Some));
    let last = partial.take(&[4], None).unwrap();
    assert!(arrow_array::Array::is_null(last.column(1), 0));

    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    for (columns, text) in [
        (
            vec![("a", a.clone()), ("z", a.clone())],
            "missing=[], unexpected=[z]",
        ),
        (
            vec![("a", narrow)],
            "`a` should have type int64 but type was int32",
        ),
        (vec![("A", a.clone())], "unexpected=[A]"),
        (vec![], "no column of the table"),
    ] {
        let batch = match columns.is_empty() {
            true => RecordBatch::new_empty(Arc::new(Schema::empty())),
            false => RecordBatch::try_from_iter(columns).unwrap(),
        };
        let error = write(&place, batch, &mode(WriteMode::Append)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        let expected = format!(
            "Append with different schema: {}",
            if text.starts_with('m') {
                "fields did not match, "
            } else {
                ""
            }
        );
        assert!(
            error.to_string().contains(text) && error.to_string().contains(expected.trim_end()),
            "{error}"
        );
    }
}

#[test]
fn nulls_where_none_may_be() {
    let place = Place::new();
    let required = RecordBatch::try_new(
        one_column("a", DataType::Int64, false),
        vec![Arc::new(Int64Array::from(vec![1])) as ArrayRef],
    );
    write(&place, required.unwrap(), &WriteParams::default()).unwrap();
    let nullable = |value: Option<i64>| {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        RecordBatch::try_new(one_column("a", DataType::Int64, true), vec![column]).unwrap()
    };
    write(&place, nullable(Some(2)), &mode(WriteMode::Append)).unwrap();
    let error = write(&place, nullable(None), &mode(WriteMode::Append))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("The field `a` contained null values even though the field is marked non-null"),
        "{error}"
    );
    assert!(!place.open().schema().fields[0].nullable);
    let missing = rows(0..1).project(&[1]).unwrap();
    assert!(
        write(&place, missing, &mode(WriteMode::Append))
            .unwrap_err()
            .to_string()
            .contains("missing=[a]")
    );
}

#[test]
fn view_types_are_stored_as_plain_ones() {
    let view: ArrayRef = Arc::new(StringViewArray::from(vec![
        Some("a long text that is not inline"),
        None,
    ]));
    let batch = RecordBatch::try_from_iter_with_nullable([("s", view, true)]).unwrap();
    let place = Place::new();
    write(&place, batch.clone(), &WriteParams::default()).unwrap();
    let dataset = write(&place, batch, &mode(WriteMode::Append)).unwrap();
    let taken = dataset.take(&[2, 1], None).unwrap();
    let expected: ArrayRef = Arc::new(StringArray::from(vec![
        Some("a long text that is not inline"),
        None,
    ]));
    assert_eq!(taken.column(0), &expected);
}

#[test]
fn properties_and_config() {
    let place = Place::new();
    let params = WriteParams {
        transaction_properties: [("who".to_string(), "me".to_string())].into(),
        config_upsert_values: [("lance.auto_cleanup.interval".to_string(), "3".to_string())].into(),
        ..WriteParams::default()
    };
    let dataset = write(&place, rows(0..1), &params).unwrap();
    assert_eq!(dataset.config()["lance.auto_cleanup.interval"], "3");
    assert_eq!(
        (dataset.manifest().flags.reader, dataset.manifest().flags.writer),
        (0, 8)
    );
    let transaction = dataset.read_transaction(1).unwrap().unwrap();
    assert_eq!(
        (transaction.properties["who"].as_str(), transaction.read_version),
        ("me", 0)
    );
}

#[test]
fn v1_names_on_request() {
    let place = Place::new();
    let params = WriteParams {
        enable_v2_manifest_paths: false,
        ..WriteParams::default()
    };
    write(&place, rows(0..1), &params).unwrap();
    write(&place, rows(1..2), &mode(WriteMode::Append)).unwrap();
    assert_eq!(
        place.names("_versions"),
        ["1.manifest", "2.manifest", "latest_version_hint.json"]
    );
    assert_eq!(ints(&place.open(), "a"), [Some(0), Some(1)]);
}
