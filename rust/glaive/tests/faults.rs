//! A store that fails at the moment of the commit.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use glaive::io::{Entry, FileSink, IoStats, LocalStorage, ReadAt, Storage};
use glaive::{Dataset, Error, ErrorKind, OpenOptions, Result, WriteMode};

use crate::support::{Place, blobs, ints, mode, rows, stream};

const HEALTHY: u8 = 0;
/// The manifest is created, but the answer is lost.
const ANSWER_LOST: u8 = 1;
/// Nothing is created.
const REFUSED: u8 = 2;
/// The manifest is created, the answer is lost, and reading it fails too.
const UNREACHABLE: u8 = 3;
/// Every data file fails when it is completed.
const DISK_FULL: u8 = 4;

#[derive(Debug)]
struct Faulty {
    inner: LocalStorage,
    fault: Arc<AtomicU8>,
}

impl Faulty {
    fn fault(&self) -> u8 {
        self.fault.load(Ordering::SeqCst)
    }
}

fn broken<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Io, "the store broke"))
}

impl Storage for Faulty {
    fn uri(&self) -> &str {
        self.inner.uri()
    }

    fn read_ranges(&self, path: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.read_ranges(path, ranges)
    }

    fn size(&self, path: &str) -> Result<u64> {
        self.inner.size(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.inner.exists(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<Entry>> {
        self.inner.list(directory)
    }

    fn list_names(&self, directory: &str) -> Result<Vec<String>> {
        self.inner.list_names(directory)
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.inner.put(path, bytes)
    }

    fn put_if_absent(&self, path: &str, bytes: &[u8]) -> Result<()> {
        match self.fault() {
            ANSWER_LOST | UNREACHABLE => self.inner.put_if_absent(path, bytes).and_then(|()| broken()),
            REFUSED => broken(),
            _ => self.inner.put_if_absent(path, bytes),
        }
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.inner.delete(path)
    }

    fn remove_empty_directory(&self, path: &str) -> Result<()> {
        self.inner.remove_empty_directory(path)
    }

    fn open_reader(&self, path: &str) -> Result<Arc<dyn ReadAt>> {
        match self.fault() {
            UNREACHABLE if path.ends_with("613.manifest") => broken(),
            _ => self.inner.open_reader(path),
        }
    }

    fn create_writer(&self, path: &str) -> Result<Box<dyn FileSink>> {
        let sink = self.inner.create_writer(path)?;
        if self.fault() == DISK_FULL {
            Ok(Box::new(FullDisk(sink)))
        } else {
            Ok(sink)
        }
    }

    fn stats(&self) -> IoStats {
        self.inner.stats()
    }
}

struct FullDisk(Box<dyn FileSink>);

impl FileSink for FullDisk {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        broken()
    }
}

/// A table of one version whose store can be told to fail.
fn table(place: &Place) -> (Dataset, Arc<AtomicU8>) {
    Dataset::write(place.uri().as_str(), stream(rows(0..3)), &mode(WriteMode::Create)).unwrap();
    let fault = Arc::new(AtomicU8::new(HEALTHY));
    let inner = LocalStorage::from_uri(&place.uri()).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(Faulty {
        inner,
        fault: fault.clone(),
    });
    (
        Dataset::open_storage(&storage, OpenOptions::default()).unwrap(),
        fault,
    )
}

fn append_with(dataset: &Dataset, switch: &AtomicU8, fault: u8) -> Result<Dataset> {
    switch.store(fault, Ordering::SeqCst);
    let result = Dataset::write(dataset, stream(rows(3..5)), &mode(WriteMode::Append));
    switch.store(HEALTHY, Ordering::SeqCst);
    result
}

#[test]
fn a_lost_answer_is_looked_up() {
    let place = Place::new();
    let (dataset, switch) = table(&place);
    assert_eq!(append_with(&dataset, &switch, ANSWER_LOST).unwrap().version(), 2);
    assert_eq!(ints(&place.open(), "a").len(), 5);
    assert_eq!(place.names("_transactions").len(), 2);
}

#[test]
fn a_refusal_leaves_nothing() {
    for fault in [REFUSED, DISK_FULL] {
        let place = Place::new();
        let (dataset, switch) = table(&place);
        let error = append_with(&dataset, &switch, fault).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("the store broke"), "{error}");
        assert_eq!(
            (place.names("data").len(), place.names("_transactions").len()),
            (1, 1)
        );
        assert_eq!(append_with(&dataset, &switch, HEALTHY).unwrap().version(), 2);
    }
}

#[test]
fn a_refusal_leaves_no_side_file() {
    for fault in [REFUSED, DISK_FULL] {
        let place = Place::new();
        let (dataset, switch) = table(&place);
        switch.store(fault, Ordering::SeqCst);
        let values = blobs(&[70_000, 5_000_000, 3]);
        let error =
            Dataset::write(&dataset, stream(values.clone()), &mode(WriteMode::Overwrite)).unwrap_err();
        assert!(error.to_string().contains("the store broke"), "{error}");
        assert_eq!(place.names("data").len(), 1);
        switch.store(HEALTHY, Ordering::SeqCst);
        Dataset::write(&dataset, stream(values), &mode(WriteMode::Overwrite)).unwrap();
        let names = place.names("data");
        assert_eq!(names.len(), 3, "{names:?}");
        let directory = names.iter().find(|name| !name.ends_with(".lance")).unwrap();
        assert!(names.contains(&format!("{directory}.lance")));
        assert_eq!(place.names(&format!("data/{directory}")).len(), 2);
    }
}

#[test]
fn files_stay_when_the_outcome_is_unknown() {
    let place = Place::new();
    let (dataset, switch) = table(&place);
    let error = append_with(&dataset, &switch, UNREACHABLE).unwrap_err();
    assert!(error.to_string().contains("commit status unknown"), "{error}");
    assert_eq!(
        ints(&place.open(), "a").len(),
        5,
        "the version did land, and its files are there"
    );
}
