//! Blobs of a table: how many reads they take.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use glaive::io::IoStats;
use glaive::{BlobHandling, Dataset, FileVersion, RowSelection, ScanOptions, WriteParams};

use crate::support::{Place, blobs, stream};

/// Reads that `work` does.
fn reads<T>(dataset: &Dataset, work: impl FnOnce() -> T) -> (T, IoStats) {
    let before = dataset.io_stats();
    let out = work();
    let after = dataset.io_stats();
    let stats = IoStats {
        calls: after.calls - before.calls,
        bytes: after.bytes - before.bytes,
    };
    (out, stats)
}

fn write(place: &Place, version: FileVersion, sizes: &[usize]) -> Dataset {
    let params = WriteParams {
        data_storage_version: Some(version),
        ..WriteParams::default()
    };
    Dataset::write(place.uri().as_str(), stream(blobs(sizes)), &params).unwrap();
    place.open()
}

#[test]
fn a_blob_is_one_read_more_than_its_descriptor() {
    // Too far apart to share a read; of 2.2 inline, packed and dedicated ones.
    let sizes = [60_000, 60_000, 100_000, 5_000_000, 60_000, 100_000];
    for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
        let place = Place::new();
        let dataset = write(&place, version, &sizes);
        let scan = || {
            dataset
                .scan(ScanOptions::default())
                .unwrap()
                .next_batch()
                .unwrap()
        };
        scan();
        let (batch, stats) = reads(&dataset, scan);
        assert_eq!(batch.unwrap().num_rows(), 6);
        assert!(stats.bytes < 1000, "{version}: {stats:?}");
        for (row, size) in sizes.iter().enumerate() {
            let rows = [row as u64];
            let (blob, descriptor) = reads(&dataset, || {
                dataset
                    .take_blobs("b", RowSelection::Positions(&rows))
                    .unwrap()
                    .remove(0)
            });
            assert!(descriptor.bytes < 1000, "{version}: {descriptor:?}");
            let blob = blob.blob.unwrap();
            let (bytes, stats) = reads(&dataset, || blob.read(0..blob.size()).unwrap());
            assert_eq!(bytes.as_ref(), vec![row as u8; *size]);
            assert_eq!((stats.calls, stats.bytes), (1, *size as u64), "{version}");
            let (_, whole) = reads(&dataset, || {
                dataset
                    .read_blobs("b", RowSelection::Positions(&rows), true)
                    .unwrap()
            });
            assert_eq!(whole.calls, descriptor.calls + 1, "{version}");
            assert_eq!(whole.bytes, descriptor.bytes + *size as u64, "{version}");
        }
    }
}

#[test]
fn small_neighbours_share_a_read() {
    let sizes = [1000; 200];
    for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
        let place = Place::new();
        let dataset = write(&place, version, &sizes);
        let scan = |blobs| {
            let options = ScanOptions {
                blobs,
                ..ScanOptions::default()
            };
            dataset.scan(options).unwrap().next_batch().unwrap().unwrap()
        };
        scan(BlobHandling::Descriptors);
        let (_, descriptors) = reads(&dataset, || scan(BlobHandling::Descriptors));
        let (batch, all) = reads(&dataset, || scan(BlobHandling::Bytes));
        let values = batch.column(0).as_binary::<i64>();
        assert_eq!((values.len(), values.value(199)), (200, [199; 1000].as_slice()));
        assert_eq!(all.calls, descriptors.calls + 1, "{version}");
    }
}
