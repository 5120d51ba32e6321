//! Mutations of real files: whatever the bytes, reading ends with rows or an error.
//!
//! `GLAIVE_FUZZ_INPUTS` sets the number of mutated files (`make fuzz`: a million), `GLAIVE_FUZZ_SEED` where they start. A failing
//! input is named by its seed, so that it can be run again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use glaive_file::{BlobHandling, FieldSource, FileReader, FileVersion, ReadOptions, Rows, read_fields};

use crate::blobs;
use crate::round_trip;
use crate::support::{MemoryFile, options, write};
use crate::vectors;

/// A small generator; the mutations of one input depend on its seed alone.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Files of every version, layout and codec.
fn seeds() -> Vec<Vec<u8>> {
    let mut files = vectors::whole_files();
    files.extend(blobs::files());
    for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
        for (rows, pattern) in [(3, "first"), (300, "random"), (1100, "none")] {
            for column in round_trip::single_columns(rows, pattern, version) {
                // 2.0 has no null structs.
                files.extend(write(&[column], options(version)));
            }
        }
    }
    files
}

/// Numbers that sit at the edges of the format's integers.
const EDGES: [u64; 9] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX >> 1,
    u64::MAX,
];

fn mutate(random: &mut Random, file: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        // The metadata at the end decides most, so half of the changes go there.
        let tail = file.len().min(600);
        let at = match random.below(2) {
            0 => file.len() - tail + random.below(tail),
            _ => random.below(file.len()),
        };
        match random.below(6) {
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at] = random.next() as u8,
            2 => file.truncate(at.max(1)),
            3 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][random.below(4)].min(file.len() - at);
                file[at..at + width].copy_from_slice(&edge[..width]);
            }
            4 => {
                let (from, n) = (random.below(file.len()), random.below(64));
                let part: Vec<u8> = file[from..(from + n).min(file.len())].to_vec();
                let end = (at + part.len()).min(file.len());
                file[at..end].copy_from_slice(&part[..end - at]);
            }
            _ => {
                file.insert(at, random.next() as u8);
            }
        }
    }
}

/// Reads all that a damaged file claims to hold, within reason.
fn read(bytes: Vec<u8>, random: &mut Random) -> glaive_file::Result<()> {
    let reader = FileReader::open(MemoryFile::new(bytes))?;
    let n = reader.num_rows()?.min(5000);
    let options = ReadOptions { threads: 1 };
    let rows = [random.next() % n.max(1), n / 2];
    let mut rows = if rows[0] < rows[1] {
        rows.to_vec()
    } else {
        vec![rows[1]]
    };
    rows.retain(|&row| row < n);
    let taken = reader.read(None, Rows::Indices(&rows), &options);
    let scanned = reader.read(None, Rows::Range(0..n), &options);
    scanned.and(taken).and(read_blobs(&reader, n, &options))
}

/// Reads the fields that hold blobs in both ways.
fn read_blobs(reader: &FileReader, n: u64, options: &ReadOptions) -> glaive_file::Result<()> {
    let columns = reader.own_columns()?;
    let source = FieldSource {
        reader,
        columns: &columns,
    };
    for handling in [BlobHandling::Descriptors, BlobHandling::Bytes] {
        let mut fields = reader.schema()?.view_blobs(handling).fields;
        fields.retain(|field| field.holds_blobs());
        read_fields(&[source], &fields, Rows::Range(0..n), options)?;
    }
    Ok(())
}

#[test]
fn mutated_files_give_rows_or_errors() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |n| n.parse().unwrap());
    let (inputs, first) = (
        number("GLAIVE_FUZZ_INPUTS", 20_000),
        number("GLAIVE_FUZZ_SEED", 1),
    );
    let files = seeds();
    let (started, mut accepted, mut slowest) = (Instant::now(), 0u64, Duration::ZERO);
    for seed in first..first + inputs {
        let mut random = Random(seed);
        let mut file = files[random.below(files.len())].clone();
        mutate(&mut random, &mut file);
        let before = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| read(file, &mut random))) {
            Ok(result) => accepted += u64::from(result.is_ok()),
            Err(_) => panic!("input {seed} panics: GLAIVE_FUZZ_SEED={seed} GLAIVE_FUZZ_INPUTS=1"),
        }
        slowest = slowest.max(before.elapsed());
    }
    println!(
        "{inputs} mutations of {} files in {:.1} s; {accepted} still read, the slowest took {:.3} s",
        files.len(),
        started.elapsed().as_secs_f64(),
        slowest.as_secs_f64()
    );
}
