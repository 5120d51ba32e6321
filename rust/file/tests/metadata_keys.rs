//! The metadata keys of fields act on what is written, and whatever they choose is read back.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{Field, Schema};
use glaive_file::proto::lance::encodings21::compressive_encoding::Compression;
use glaive_file::proto::lance::encodings21::{CompressiveEncoding, PageLayout, page_layout::Layout};
use glaive_file::{FileVersion, FileWriter, ReadOptions, Rows};
use prost::Message;

use crate::support::{MemorySink, open, options, write};

const ROWS: usize = 3000;

fn ints() -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(
        (0..ROWS as i32).map(|i| i / 2 % 1000 * 70_001),
    ))
}

fn doubles() -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(
        (0..ROWS).map(|i| 1000.0 + (i % 1000) as f64 / 7.0),
    ))
}

fn few() -> ArrayRef {
    Arc::new(StringArray::from_iter_values(
        (0..ROWS).map(|i| format!("the value number {}", i % 20)),
    ))
}

fn text() -> ArrayRef {
    Arc::new(StringArray::from_iter((0..ROWS).map(|i| {
        (i % 11 > 0).then(|| format!("a line of text that repeats itself, but for its number {i}"))
    })))
}

fn batch(array: &ArrayRef, keys: &[(&str, &str)]) -> RecordBatch {
    let metadata: HashMap<_, _> = keys
        .iter()
        .map(|(k, v)| (format!("lance-encoding:{k}"), (*v).to_string()))
        .collect();
    let field = Field::new("a", array.data_type().clone(), true).with_metadata(metadata);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array.clone()]).unwrap()
}

/// Writes, reads back all and some rows, and returns the layout of the first page.
fn layout(array: &ArrayRef, keys: &[(&str, &str)], version: FileVersion) -> Layout {
    let batch = batch(array, keys);
    let reader = open(write(std::slice::from_ref(&batch), options(version)).unwrap());
    let read = |rows: Rows<'_>| reader.read(None, rows, &ReadOptions::default()).unwrap();
    assert_eq!(
        read(Rows::Indices(&[7, 2999])).slice(1, 1),
        batch.slice(2999, 1),
        "{keys:?}"
    );
    assert_eq!(read(Rows::Range(0..ROWS as u64)), batch, "{keys:?}");
    let page = reader.tail().column(0).unwrap().pages[0].layout.clone();
    PageLayout::decode(page).unwrap().layout.unwrap()
}

/// Names of the codecs of a tree, the outermost first.
fn tree(encoding: &CompressiveEncoding) -> String {
    let below = |name: &str, child: &Option<Box<CompressiveEncoding>>| {
        format!("{name}({})", child.as_deref().map(tree).unwrap_or_default())
    };
    match encoding.compression.as_ref().unwrap() {
        Compression::Flat(_) => "flat".into(),
        Compression::InlineBitpacking(_) => "bits".into(),
        Compression::Variable(_) => "variable".into(),
        Compression::Fsst(_) => "fsst".into(),
        Compression::Rle(_) => "rle".into(),
        Compression::ByteStreamSplit(_) => "bss".into(),
        Compression::General(general) => {
            let compression = general.compression.as_ref().unwrap();
            let name = ["?", "lz4", "zstd"][compression.scheme as usize];
            let level = compression.level.map(|l| l.to_string()).unwrap_or_default();
            below(&format!("{name}{level}"), &general.values)
        }
        other => format!("{other:?}"),
    }
}

/// Layout and codecs of a page.
fn shape(array: &ArrayRef, keys: &[(&str, &str)], version: FileVersion) -> String {
    match layout(array, keys, version) {
        Layout::MiniBlockLayout(l) => {
            let values = tree(l.value_compression.as_ref().unwrap());
            match &l.dictionary {
                Some(items) => format!("{values} of {}", tree(items)),
                None => values,
            }
        }
        Layout::FullZipLayout(l) => format!("zip {}", tree(l.value_compression.as_ref().unwrap())),
        other => format!("{other:?}"),
    }
}

/// Values, metadata keys without their prefix, and the layout and codecs they make.
type Case<'a> = (ArrayRef, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn keys_choose_codecs_and_layouts() {
    let v = FileVersion::V2_2;
    let no_dict = ("dict-divisor", "100000");
    let cases: &[Case<'_>] = &[
        (ints(), &[], "rle"),
        (ints(), &[("compression", "none")], "flat"),
        (ints(), &[("rle-threshold", "0")], "bits"),
        (ints(), &[("compression", "zstd"), ("bss", "off")], "zstd(rle)"),
        (ints(), &[("compression", "lz4"), ("bss", "on")], "lz4(bss)"),
        (
            ints(),
            &[
                ("compression", "zstd"),
                ("compression-level", "-3"),
                ("bss", "on"),
            ],
            "zstd-3(bss)",
        ),
        (ints(), &[("structural-encoding", "fullzip")], "zip flat"),
        (doubles(), &[("compression", "zstd"), no_dict], "zstd(bss)"),
        (doubles(), &[("compression", "fsst"), no_dict], "bss"),
        (few(), &[], "bits of zstd(variable)"),
        (
            few(),
            &[("dict-values-compression", "lz4")],
            "bits of lz4(variable)",
        ),
        (
            few(),
            &[
                ("dict-values-compression", "zstd"),
                ("dict-values-compression-level", "9"),
            ],
            "bits of zstd9(variable)",
        ),
        (few(), &[("dict-values-compression", "none")], "bits of variable"),
        (few(), &[("dict-max-size", "10")], "fsst"),
        (few(), &[("dict-size-ratio", "0.01")], "fsst"),
        (few(), &[no_dict, ("compression", "none")], "variable"),
        (
            few(),
            &[("compression", "none"), ("structural-encoding", "fullzip")],
            "flat of zstd(variable)",
        ),
        (text(), &[], "fsst"),
        (text(), &[("compression", "none")], "variable"),
        (text(), &[("compression", "zstd")], "zstd(variable)"),
        (text(), &[("compression", "lz4")], "lz4(variable)"),
        (text(), &[("structural-encoding", "FULLZIP")], "zip fsst"),
        (
            text(),
            &[("structural-encoding", "fullzip"), ("compression", "none")],
            "zip variable",
        ),
        (
            text(),
            &[("structural-encoding", "fullzip"), ("compression", "lz4")],
            "zip zstd(variable)",
        ),
    ];
    let wrong = cases.iter().filter_map(|(array, keys, expected)| {
        let found = shape(array, keys, v);
        (found != *expected).then(|| format!("{keys:?}: {found} instead of {expected}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
    assert_eq!(
        shape(&few(), &[("dict-values-compression", "lz4")], FileVersion::V2_1),
        "bits of variable"
    );
}

#[test]
fn wide_values_stay_in_chunks_if_asked() {
    let wide: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..ROWS).map(|i| format!("{i}{}", "w".repeat(400))),
    ));
    let keys = [("structural-encoding", "miniblock"), ("compression", "none")];
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        assert_eq!(shape(&wide, &keys[1..], version), "zip variable");
        assert_eq!(shape(&wide, &keys, version), "variable");
    }
}

#[test]
fn the_size_of_chunks_follows_the_key() {
    let chunks = |size: &str| match layout(&text(), &[("minichunk-size", size)], FileVersion::V2_2) {
        Layout::MiniBlockLayout(_) => {
            let batch = batch(&text(), &[("minichunk-size", size)]);
            let reader = open(write(&[batch], options(FileVersion::V2_2)).unwrap());
            // Four bytes a chunk.
            reader.tail().column(0).unwrap().pages[0].buffers[0].size / 4
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(chunks("0"), ROWS as u64 / 2);
    assert!(chunks("1000") > chunks("4096") && chunks("4096") > chunks("100000"));
}

#[test]
fn small_pages_are_not_compressed() {
    let short: ArrayRef = ints().slice(0, 100);
    let batch = batch(
        &short,
        &[("compression", "zstd"), ("bss", "off"), ("rle-threshold", "0")],
    );
    let reader = open(write(std::slice::from_ref(&batch), options(FileVersion::V2_2)).unwrap());
    let page = reader.tail().column(0).unwrap().pages[0].layout.clone();
    match PageLayout::decode(page).unwrap().layout.unwrap() {
        Layout::MiniBlockLayout(l) => assert_eq!(tree(&l.value_compression.unwrap()), "flat"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_that_means_nothing_is_a_warning() {
    let arrow = batch(&few(), &[("rle-threshold", "half"), ("bss", "maybe")]);
    let mut schema = glaive_file::Schema::try_from_arrow(&arrow.schema()).unwrap();
    schema.assign_ids(0).unwrap();
    let sink = Box::new(MemorySink::default());
    let mut writer = FileWriter::create(sink, schema, options(FileVersion::V2_2)).unwrap();
    assert_eq!(writer.warnings().len(), 2);
    writer.write(&arrow).unwrap();
    let warnings = writer.finish().unwrap().warnings;
    assert!(warnings[0].contains("field 'a'") && warnings[0].contains("rle-threshold"));
    assert!(warnings[1].contains("maybe"));
}
