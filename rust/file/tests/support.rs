//! Files in memory, and data to put into them.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use bytes::Bytes;
use glaive_file::io::{FileSink, IoCounter, IoStats, ReadAt};
use glaive_file::{Error, FileReader, FileVersion, FileWriter, Result, Schema, WriterOptions};

/// A file in memory that counts its reads.
#[derive(Debug)]
pub struct MemoryFile {
    bytes: Bytes,
    counter: IoCounter,
    pub ranges: Mutex<Vec<Range<u64>>>,
}

impl MemoryFile {
    pub fn new(bytes: impl Into<Bytes>) -> Arc<Self> {
        Arc::new(Self {
            bytes: bytes.into(),
            counter: IoCounter::default(),
            ranges: Mutex::default(),
        })
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
