//! Files in memory, and data to put into them.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use bytes::Bytes;
use glaive_file::io::{FileSink, IoCounter, IoStats, ReadAt};
use glaive_file::{Error, FileReader, FileVersion, FileWriter, Result, Schema, WriterOptions};

/// A file in memory that counts its reads.
#[derive(Debug)]
pub struct MemoryFile {
    bytes: Bytes,
    counter: IoCounter,
    pub ranges: Mutex<Vec<Range<u64>>>,
    /// The ranges of each call.
    rounds: Mutex<Vec<Vec<Range<u64>>>>,
}

impl MemoryFile {
    pub fn new(bytes: impl Into<Bytes>) -> Arc<Self> {
        Arc::new(Self {
            bytes: bytes.into(),
            counter: IoCounter::default(),
            ranges: Mutex::default(),
            rounds: Mutex::default(),
        })
    }

    /// The ranges of each call since the last time they were asked for.
    pub fn take_rounds(&self) -> Vec<Vec<Range<u64>>> {
        std::mem::take(&mut self.rounds.lock().unwrap())
    }

    pub fn slice(&self, range: Range<u64>) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }
}

impl ReadAt for MemoryFile {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn path(&self) -> &str {
        "memory.lance"
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.ranges.lock().unwrap().extend(ranges.iter().cloned());
        self.rounds.lock().unwrap().push(ranges.to_vec());
        let read = |range: &Range<u64>| {
            self.counter.add(range.end.saturating_sub(range.start));
            if range.start > range.end || range.end > self.len() {
                return Err(Error::corrupt(format!(
                    "range {range:?} outside of {} bytes",
                    self.len()
                )));
            }
            Ok(self.bytes.slice(range.start as usize..range.end as usize))
        };
        ranges.iter().map(read).collect()
    }

    fn stats(&self) -> IoStats {
        self.counter.get()
    }
}

#[derive(Clone, Default)]
pub struct MemorySink(pub Arc<Mutex<Vec<u8>>>);

impl FileSink for MemorySink {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The bytes of a file that holds these batches.
pub fn write(batches: &[RecordBatch], options: WriterOptions) -> Result<Vec<u8>> {
    let sink = MemorySink::default();
    let mut schema = Schema::try_from_arrow(&batches[0].schema())?;
    schema.assign_ids(0)?;
    let mut writer = FileWriter::create(Box::new(sink.clone()), schema, options)?;
    for batch in batches {
        writer.write(batch)?;
    }
    let summary = writer.finish()?;
    let bytes = sink.0.lock().unwrap().clone();
    assert_eq!(summary.size_bytes, bytes.len() as u64);
    Ok(bytes)
}

pub fn options(version: FileVersion) -> WriterOptions {
    WriterOptions {
        version,
        ..Default::default()
    }
}

pub fn open(bytes: Vec<u8>) -> FileReader {
    FileReader::open(MemoryFile::new(bytes)).unwrap()
}

/// A cheap sequence of well-mixed numbers.
pub fn mix(i: usize) -> u64 {
    let mut x = (i as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// What [`nulls`] knows.
pub const PATTERNS: [&str; 7] = ["none", "first", "last", "all", "second", "random", "blocks"];

/// Validity of a null pattern.
pub fn nulls(pattern: &str, n: usize) -> Option<NullBuffer> {
    let valid: BooleanBuffer = (0..n)
        .map(|i| match pattern {
            "none" => true,
            "first" => i != 0,
            "last" => i + 1 != n,
            "all" => false,
            "second" => i % 2 == 0,
            "random" => !mix(i).is_multiple_of(10),
            // Runs of nulls that are longer than a block of 1024 values.
            "blocks" => i / 600 % 3 == 0,
            other => panic!("no null pattern {other}"),
        })
        .collect();
    (pattern != "none").then(|| NullBuffer::new(valid))
}

pub fn primitive<T: ArrowPrimitiveType>(
    n: usize,
    nulls: &Option<NullBuffer>,
    value: impl Fn(usize) -> T::Native,
) -> PrimitiveArray<T> {
    PrimitiveArray::new((0..n).map(value).collect::<Vec<_>>().into(), nulls.clone())
}

pub fn strings(n: usize, nulls: &Option<NullBuffer>, value: impl Fn(usize) -> String) -> StringArray {
    let is_valid = |i: usize| nulls.as_ref().is_none_or(|v| v.is_valid(i));
    (0..n).map(|i| is_valid(i).then(|| value(i))).collect()
}

/// Three rows of a number and a string.
pub fn small_batch() -> RecordBatch {
    let ints = PrimitiveArray::<Int32Type>::from(vec![Some(1), None, Some(3)]);
    let text = StringArray::from(vec![Some("a"), Some("b"), None]);
    RecordBatch::try_from_iter([("i", Arc::new(ints) as ArrayRef), ("s", Arc::new(text))]).unwrap()
}
