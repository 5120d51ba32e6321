//! Decoding whole pages from memory into Arrow arrays, each kind beside a memcpy of the decoded bytes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a benchmark fails by panicking"
)]

use std::hint::black_box;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use glaive_bench::{Random, sentences};
use glaive_file::io::{FileSink, IoStats, ReadAt};
use glaive_file::{FileReader, FileWriter, ReadOptions, Result, Rows, Schema, WriterOptions};

const ROWS: usize = 1 << 20;

#[derive(Debug)]
struct Memory(Bytes);

impl ReadAt for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn path(&self) -> &str {
        "memory"
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        Ok(ranges
            .iter()
            .map(|r| self.0.slice(r.start as usize..r.end as usize))
            .collect())
    }

    fn stats(&self) -> IoStats {
        IoStats { calls: 0, bytes: 0 }
    }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl FileSink for Sink {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

fn file(array: &ArrayRef) -> FileReader {
    let batch = RecordBatch::try_from_iter([("a", array.clone())]).unwrap();
    let mut schema = Schema::try_from_arrow(&batch.schema()).unwrap();
    schema.assign_ids(0).unwrap();
    let sink = Sink::default();
    let mut writer = FileWriter::create(Box::new(sink.clone()), schema, WriterOptions::default()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let bytes = std::mem::take(&mut *sink.0.lock().unwrap());
    FileReader::open(Arc::new(Memory(bytes.into()))).unwrap()
}

fn columns() -> Vec<(&'static str, ArrayRef)> {
    let mut random = Random::new(7);
    let mut value = |limit| random.below(limit) as i64;
    let packed = Int64Array::from_iter_values((0..ROWS).map(|_| value(5000)));
    let nullable = Int64Array::from_iter((0..ROWS).map(|i| (i % 9 != 0).then(|| value(5000))));
    let flat = Float64Array::from_iter_values((0..ROWS).map(|_| -(value(1 << 30) as f64).sqrt()));
    let (offsets, lines) = sentences(ROWS / 8);
    let line = |w: &[i32]| String::from_utf8_lossy(&lines[w[0] as usize..w[1] as usize]).into_owned();
    let fsst = StringArray::from_iter_values(offsets.windows(2).map(line));
    let few = StringArray::from_iter_values(
        (0..ROWS).map(|_| ["AIR", "MAIL", "RAIL", "SHIP", "TRUCK"][value(5) as usize]),
    );
    vec![
        ("bit-packed int64", Arc::new(packed)),
        ("bit-packed int64 with nulls", Arc::new(nullable)),
        ("flat float64", Arc::new(flat)),
        ("FSST text", Arc::new(fsst)),
        ("dictionary strings", Arc::new(few)),
    ]
}

fn pages(c: &mut Criterion) {
    for (name, array) in columns() {
        let reader = file(&array);
        let size = array.to_data().get_slice_memory_size().unwrap();
        let mut group = c.benchmark_group(format!("page/{name}"));
        group.throughput(Throughput::Bytes(size as u64));
        let (source, mut target) = (vec![1u8; size], vec![0u8; size]);
        group.bench_function("memcpy", |b| {
            b.iter(|| black_box(&mut target).copy_from_slice(black_box(&source)))
        });
        let rows = array.len() as u64;
        let options = ReadOptions { threads: 1 };
        group.bench_function("decode", |b| {
            b.iter(|| reader.read(None, Rows::Range(0..rows), &options).unwrap())
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    targets = pages
}
criterion_main!(benches);
