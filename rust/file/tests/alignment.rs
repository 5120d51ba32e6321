//! Where the parts of a file start.

use std::sync::Arc;

use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::{ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_schema::{Field, Fields};
use glaive_file::container::{Alignment, TABLE_ENTRY_LEN};
use glaive_file::{ErrorKind, FileReader, FileVersion, FileWriter, ReadOptions, Rows, Schema, WriterOptions};

use crate::support::{MemorySink, mix, nulls, open, primitive, strings};

const VERSIONS: [FileVersion; 3] = [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2];

fn batch(n: usize) -> RecordBatch {
    let v = nulls("random", n);
    let ints: ArrayRef = Arc::new(primitive::<Int32Type>(n, &v, |i| mix(i) as i32));
    let floats: ArrayRef = Arc::new(primitive::<Float64Type>(n, &None, |i| i as f64 / 7.0));
    let text: ArrayRef = Arc::new(strings(n, &v, |i| format!("text {}", mix(i))));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..n).map(|i| Some((0..i % 4).map(move |k| Some((i + k) as i32)))),
    ));
    let fields = Fields::from(vec![Field::new("x", floats.data_type().clone(), true)]);
    let parent: ArrayRef = Arc::new(StructArray::new(fields, vec![floats], None));
    RecordBatch::try_from_iter([
        ("ints", ints),
        ("text", text),
        ("lists", lists),
        ("parent", parent),
    ])
    .unwrap()
}

/// A file of several pages a column and two global buffers.
fn file(batch: &RecordBatch, version: FileVersion, alignment: Alignment) -> FileReader {
    let sink = MemorySink::default();
    let schema = Schema::try_from_arrow(&batch.schema()).unwrap();
    let options = WriterOptions {
        version,
        alignment,
        data_cache_bytes: Some(16 * 1024),
        ..Default::default()
    };
    let mut writer = FileWriter::create(Box::new(sink.clone()), schema, options).unwrap();
    for start in (0..batch.num_rows()).step_by(1000) {
        writer.write(&batch.slice(start, 1000)).unwrap();
    }
    writer.add_global_buffer(b"hello").unwrap();
    writer.finish().unwrap();
    let bytes = sink.0.lock().unwrap().clone();
    open(bytes)
}

#[test]
fn parts_start_where_asked() {
    let batch = batch(5000);
    for version in VERSIONS {
        for alignment in [Alignment::Bytes64, Alignment::Bytes4096] {
            let place = format!("{version}, {alignment:?}");
            let reader = file(&batch, version, alignment);
            let (tail, footer) = (reader.tail(), reader.tail().footer());
            let mut pages = 0;
            for number in 0..tail.num_columns() {
                for page in &tail.column(number).unwrap().pages {
                    pages += 1;
                    for buffer in &page.buffers {
                        assert_eq!(buffer.position % alignment.bytes(), 0, "{place}: column {number}");
                    }
                }
            }
            assert!(pages > tail.num_columns(), "{place}: {pages} pages");
            for buffer in tail.global_buffers() {
                assert_eq!(buffer.position % alignment.bytes(), 0, "{place}");
            }
            if alignment == Alignment::Bytes4096 {
                let table = tail.column_table().unwrap();
                assert_eq!(table.len(), tail.num_columns() as usize);
                assert_eq!(table[0].position, footer.column_meta_start, "{place}");
                for entry in table {
                    assert_eq!(entry.position % 4096, 0, "{place}");
                }
                assert_eq!(footer.cmo_start % 4096, 0, "{place}");
            }
            let columns = u64::from(footer.num_columns);
            assert_eq!(footer.gbo_start - footer.cmo_start, columns * TABLE_ENTRY_LEN);
            let read = reader
                .read(None, Rows::Range(0..5000), &ReadOptions::default())
                .unwrap();
            assert_eq!(read, batch, "{place}");
            assert_eq!(&reader.read_global_buffer(1).unwrap()[..], b"hello");
        }
    }
}

#[test]
fn other_alignments_are_refused() {
    assert_eq!(Alignment::try_from(64).unwrap(), Alignment::Bytes64);
    assert_eq!(Alignment::try_from(4096).unwrap(), Alignment::Bytes4096);
    for other in [-64, 0, 1, 63, 128, 512, 8192, i64::MAX] {
        let error = Alignment::try_from(other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text = error.to_string();
        assert!(
            text.contains(&other.to_string()) && text.contains("use 64, or 4096"),
            "{text}"
        );
    }
}
