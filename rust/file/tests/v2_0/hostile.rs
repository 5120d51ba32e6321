//! Damaged files give errors; nothing panics and nothing large is allocated from an unchecked number.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema};
use glaive_file::container::{ARRAY_ENCODING_URL, Alignment, ColumnPages, ContainerWriter, EncodedPage};
use glaive_file::proto::lance::encodings as pb;
use glaive_file::proto::lance::encodings::array_encoding::ArrayEncoding as Tree;
use glaive_file::proto::lance::encodings::nullable::{AllNull, NoNull, Nullability, SomeNull};
use glaive_file::proto::lance::file::Schema as SchemaMessage;
use glaive_file::{ErrorKind, FileReader, FileVersion, ReadOptions, Rows, Schema};
use prost::Message;

use crate::support::{MemoryFile, MemorySink, options, write};

const ROWS: usize = 300;

/// A field name, its metadata, and the array.
type Column = (&'static str, &'static [(&'static str, &'static str)], ArrayRef);

/// A small file with every encoding.
fn file() -> Vec<u8> {
    let ints: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..ROWS as i64).map(|i| (i % 7 != 0).then_some(i)),
    ));
    let text = |n: usize| -> ArrayRef {
        Arc::new(StringArray::from_iter(
            (0..n).map(|i| (i % 5 > 0).then(|| format!("some text {i}"))),
        ))
    };
    let long: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..ROWS).map(|i| format!("{i} {}", "the quick brown fox ".repeat(8))),
    ));
    let few: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..ROWS).map(|i| ["a", "bb"][i % 2]),
    ));
    let keys = Int8Array::from_iter((0..ROWS).map(|i| (i % 9 > 0).then_some((i % 3) as i8)));
    let items = Arc::new(StringArray::from(vec!["x", "y", "z"]));
    let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, items));
    let lists = |items: ArrayRef, length: usize| -> ArrayRef {
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths(vec![length; items.len() / length]);
        let nulls = (0..offsets.len() - 1).map(|i| i % 4 > 0).collect::<Vec<_>>();
        Arc::new(ListArray::new(item, offsets, items, Some(nulls.into())))
    };
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Utf8, true),
    ]);
    let pair: ArrayRef = Arc::new(StructArray::new(fields, vec![ints.clone(), text(ROWS)], None));
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let all = arrow_select::concat::concat(&[&ints, &ints]).unwrap();
    let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, all, None));
    let valid: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let packed = Fields::from(vec![Field::new("p", DataType::Int64, true)]);
    let packed: ArrayRef = Arc::new(StructArray::new(packed, vec![valid], None));
    let blobs: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values(
        (0..ROWS).map(|i| [i as u8; 3]),
    ));
    let columns: Vec<Column> = vec![
        ("ints", &[], ints),
        ("null", &[], new_null_array(&DataType::Float32, ROWS)),
        ("text", &[], text(ROWS)),
        ("zstd", &[("lance-encoding:compression", "zstd")], text(ROWS)),
        ("lz4", &[("lance-encoding:compression", "lz4")], text(ROWS)),
        ("fsst", &[("lance-encoding:compression", "fsst")], long),
        ("few", &[], few),
        ("dictionary", &[], dictionary),
        ("list", &[], lists(lists(text(ROWS * 4), 2), 2)),
        ("pair", &[], pair),
        ("fixed", &[], fixed),
        ("packed", &[("packed", "true")], packed),
        ("blob", &[("lance-encoding:blob", "true")], blobs),
    ];
    let (fields, arrays): (Vec<_>, Vec<_>) = columns
        .into_iter()
        .map(|(name, metadata, array)| {
            let metadata = metadata.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            let field = Field::new(name, array.data_type().clone(), true);
            (field.with_metadata(metadata.collect()), array)
        })
        .unzip();
    let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).unwrap();
    write(&[batch], options(FileVersion::V2_0)).unwrap()
}

/// Opens and reads every column by itself, in a scan and two rows; says how many could be read.
fn read_all(bytes: Vec<u8>) -> glaive_file::Result<usize> {
    let reader = FileReader::open(MemoryFile::new(bytes))?;
    // A damaged count may be large; what is read is bounded by the file.
    let n = reader.num_rows()?.min(10_000);
    let names: Vec<String> = reader.schema()?.fields.iter().map(|f| f.name.clone()).collect();
    let options = ReadOptions { threads: 1 };
    let (mut good, mut last) = (0, Ok(()));
    for name in &names {
        let name: &[&str] = &[name.as_str()];
        let both = reader
            .read(Some(name), Rows::Indices(&[0, n / 2]), &options)
            .and_then(|_| reader.read(Some(name), Rows::Range(0..n), &options));
        match both {
            Ok(_) => good += 1,
            Err(e) => last = Err(e),
        }
    }
    last.map(|()| good)
}

#[test]
fn every_truncation_is_refused() {
    let bytes = file();
    assert_eq!(read_all(bytes.clone()).unwrap(), 13);
    for len in (0..bytes.len())
        .step_by(97)
        .chain([0, 1, 39, 40, bytes.len() - 1])
    {
        let error = read_all(bytes[..len].to_vec()).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
            "{len}: {error}"
        );
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let bytes = file();
    // All of the metadata, and samples of the pages.
    let tail = bytes.len().saturating_sub(6000);
    for position in (0..tail).step_by(29).chain(tail..bytes.len()) {
        for flip in [0x01, 0x80] {
            let mut damaged = bytes.clone();
            damaged[position] ^= flip;
            // Either is fine: bytes of values are not protected by a checksum.
            let _ = read_all(damaged);
        }
    }
}

fn encoding(tree: Tree) -> pb::ArrayEncoding {
    pb::ArrayEncoding {
        array_encoding: Some(tree),
    }
}

fn flat(bits: u64, index: u32) -> Option<Box<pb::ArrayEncoding>> {
    Some(Box::new(encoding(Tree::Flat(pb::Flat {
        bits_per_value: bits,
        buffer: Some(pb::Buffer {
            buffer_index: index,
            buffer_type: 0,
        }),
        compression: None,
    }))))
}

fn nullable(nullability: Nullability) -> pb::ArrayEncoding {
    encoding(Tree::Nullable(Box::new(pb::Nullable {
        nullability: Some(nullability),
    })))
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A column of a forged file: pages of encoding, buffers and length.
type Pages = Vec<(pb::ArrayEncoding, Vec<Vec<u8>>, u64)>;

/// Reads the first rows of a file of one field.
fn read_forged(data_type: DataType, columns: Vec<Pages>, rows: u64) -> glaive_file::Result<RecordBatch> {
    let arrow = ArrowSchema::new(vec![Field::new("c", data_type, true)]);
    let schema = Schema::try_from_arrow(&arrow).unwrap();
    let sink = MemorySink::default();
    let mut writer = ContainerWriter::new(Box::new(sink.clone()), FileVersion::V2_0, Alignment::default());
    let write = |pages: Pages| {
        let mut column = ColumnPages::default();
        for (encoding, buffers, length) in pages {
            let page = EncodedPage {
                type_url: ARRAY_ENCODING_URL,
                encoding: encoding.encode_to_vec(),
                buffers: buffers.into_iter().map(Buffer::from).collect(),
                length,
                priority: 0,
            };
            writer.write_encoded_page(&mut column, &page).unwrap();
        }
        column
    };
    let written = columns.into_iter().map(write).collect();
    let message = SchemaMessage {
        fields: schema.to_proto(),
        metadata: schema.metadata_to_proto(),
    };
    writer.finish(message, rows, written).unwrap();
    let bytes = sink.0.lock().unwrap().clone();
    FileReader::open(MemoryFile::new(bytes))?.read(None, Rows::Range(0..rows), &ReadOptions::default())
}

fn refusal(data_type: DataType, encoding: pb::ArrayEncoding, buffers: Vec<Vec<u8>>, rows: u64) -> String {
    let pages = vec![(encoding, buffers, rows)];
    let error = read_forged(data_type, vec![pages], rows).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported),
        "{error:?}"
    );
    error.to_string()
}

fn binary(offsets: &[u64], adjustment: u64, bytes: &[u8]) -> (pb::ArrayEncoding, Vec<Vec<u8>>) {
    let tree = Tree::Binary(Box::new(pb::Binary {
        indices: flat(64, 0),
        bytes: flat(8, 1),
        null_adjustment: adjustment,
    }));
    (encoding(tree), vec![words(offsets), bytes.to_vec()])
}

#[test]
fn wrong_fixed_width_pages() {
    let wide = *flat(64, 0).unwrap();
    let text = refusal(DataType::Int64, wide.clone(), vec![vec![0; 15]], 2);
    assert!(
        text.contains("memory.lance: column 'c': page 0: a buffer of 15 bytes"),
        "{text}"
    );
    assert!(refusal(DataType::Int32, wide.clone(), vec![vec![0; 16]], 2).contains("64 bits where 32"));
    assert!(refusal(DataType::Int64, *flat(64, 7).unwrap(), vec![], 2).contains("page buffer 7 of 0"));
    assert!(refusal(DataType::Int64, *flat(63, 0).unwrap(), vec![vec![0; 16]], 2).contains("63 bits"));
    assert!(refusal(DataType::Int64, wide.clone(), vec![vec![0; 16]], u64::MAX / 2).contains("needs"));
    let some = Nullability::SomeNulls(Box::new(SomeNull {
        validity: flat(1, 1),
        values: flat(64, 0),
    }));
    let text = refusal(DataType::Int64, nullable(some), vec![vec![0; 72], vec![0]], 9);
    assert!(text.contains("validity"), "{text}");
    let mut deep = wide;
    for _ in 0..20 {
        deep = nullable(Nullability::NoNulls(Box::new(NoNull {
            values: Some(Box::new(deep)),
        })));
    }
    assert!(refusal(DataType::Int64, deep, vec![vec![0; 16]], 2).contains("nested deeper"));
    let empty = pb::ArrayEncoding { array_encoding: None };
    assert!(refusal(DataType::Int64, empty, vec![], 2).contains("unknown encoding"));
    let rle = encoding(Tree::Rle(pb::Rle { bits_per_value: 64 }));
    assert!(refusal(DataType::Int64, rle, vec![], 2).contains("2.1 codec"));
}

#[test]
fn nulls_without_bytes_do_not_fill_the_memory() {
    let all_null = || nullable(Nullability::AllNulls(AllNull {}));
    for data_type in [
        DataType::Int64,
        DataType::Utf8,
        DataType::new_fixed_size_list(DataType::Float64, i32::MAX, true),
    ] {
        let text = refusal(data_type, all_null(), vec![], 1 << 40);
        assert!(text.contains("read fewer rows"), "{text}");
    }
    // A list whose offsets promise more items than the file could hold.
    let list = encoding(Tree::List(Box::new(pb::List {
        offsets: flat(64, 0),
        null_offset_adjustment: (1 << 31) + 1,
        num_items: 1 << 31,
    })));
    let offsets = vec![(list, vec![words(&[1 << 31])], 1)];
    let items = vec![(all_null(), vec![], 1 << 31)];
    let data_type = DataType::new_list(DataType::Int64, true);
    let error = read_forged(data_type, vec![offsets, items], 1).unwrap_err();
    assert!(error.to_string().contains("read fewer rows"), "{error}");
}

#[test]
fn wrong_strings() {
    let refuse = |offsets: &[u64], adjustment: u64, bytes: &[u8]| {
        let (encoding, buffers) = binary(offsets, adjustment, bytes);
        refusal(DataType::Utf8, encoding, buffers, offsets.len() as u64)
    };
    assert!(refuse(&[2, 1], 4, b"abc").contains("do not ascend"));
    assert!(refuse(&[2, 8], 4, b"abc").contains("do not ascend"));
    assert!(refuse(&[2, 3], 0, b"abc").contains("null adjustment of 0"));
    assert!(refuse(&[2, 9], 10, b"abc").contains("beyond the bytes"));
    assert!(refuse(&[u64::MAX - 1], u64::MAX, b"abc").contains("column 'c'"));
    assert!(refuse(&[3], 4, b"a\xff\xfe").to_lowercase().contains("utf"));
    let (tree, buffers) = binary(&[3], 4, b"abc");
    let fsst = encoding(Tree::Fsst(Box::new(pb::Fsst {
        binary: Some(Box::new(tree)),
        symbol_table: vec![0; 2311].into(),
    })));
    assert!(refusal(DataType::Utf8, fsst, buffers, 1).contains("FSST symbol table"));
}

#[test]
fn wrong_compressed_strings() {
    let compressed = |scheme: &str, total: u64, bytes: &[u8]| {
        let Some(Tree::Flat(mut bytes_of)) = flat(8, 1).unwrap().array_encoding else {
            panic!("flat");
        };
        bytes_of.compression = Some(pb::Compression {
            scheme: scheme.to_owned(),
            level: None,
        });
        let tree = Tree::Binary(Box::new(pb::Binary {
            indices: flat(64, 0),
            bytes: Some(Box::new(encoding(Tree::Flat(bytes_of)))),
            null_adjustment: total + 1,
        }));
        refusal(
            DataType::Utf8,
            encoding(tree),
            vec![words(&[total]), bytes.to_vec()],
            1,
        )
    };
    // An lz4 block that claims 4 GiB, and a zstd frame that claims an exabyte.
    assert!(compressed("lz4", u64::MAX - 1, &[0xff, 0xff, 0xff, 0xff, 0]).contains("claims"));
    assert!(compressed("zstd", u64::MAX - 1, &words(&[1 << 60, 0])).contains("claims"));
    assert!(compressed("snappy", 3, b"abc").contains("'snappy'"));
}

#[test]
fn wrong_dictionaries() {
    let refuse = |data_type: DataType, indices: Vec<u8>, num_items: u32| {
        let (items, mut buffers) = binary(&[1, 2], 3, b"xy");
        let rows = indices.len() as u64;
        buffers.push(indices);
        let tree = Tree::Dictionary(Box::new(pb::Dictionary {
            indices: flat(8, 2),
            items: Some(Box::new(items)),
            num_dictionary_items: num_items,
        }));
        refusal(data_type, encoding(tree), buffers, rows)
    };
    assert!(refuse(DataType::Utf8, vec![0, 2, 3], 2).contains("dictionary index 3 in row 2"));
    let arrow = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    assert!(refuse(arrow.clone(), vec![0, 2], 2).contains("dictionary index 2 in row 1"));
    assert!(refuse(arrow.clone(), vec![0, 0xff], 2).contains("dictionary index 255"));
    assert!(refuse(arrow, vec![0], 1000).contains("dictionary items"));
    let wide = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    assert!(refuse(wide, vec![0], 2).contains("dictionary indices of 8 bits"));
    // A megabyte of indices must not become terabytes of strings.
    let long = vec![b'x'; 1 << 20];
    let (items, mut buffers) = binary(&[1 << 20], (1 << 20) + 1, &long);
    buffers.push(vec![1; 1 << 20]);
    let tree = Tree::Dictionary(Box::new(pb::Dictionary {
        indices: flat(8, 2),
        items: Some(Box::new(items)),
        num_dictionary_items: 1,
    }));
    let text = refusal(DataType::LargeUtf8, encoding(tree), buffers, 1 << 20);
    assert!(text.contains("read fewer rows"), "{text}");
}

#[test]
fn wrong_lists() {
    let read = |offsets: &[u64], adjustment: u64, num_items: u64| {
        let list = encoding(Tree::List(Box::new(pb::List {
            offsets: flat(64, 0),
            null_offset_adjustment: adjustment,
            num_items,
        })));
        let items = (*flat(32, 0).unwrap(), vec![vec![0; 20]], 5);
        let rows = offsets.len() as u64;
        let columns = vec![vec![(list, vec![words(offsets)], rows)], vec![items]];
        read_forged(DataType::new_list(DataType::Int32, true), columns, rows)
    };
    let refuse = |offsets: &[u64], adjustment, num_items| {
        let error = read(offsets, adjustment, num_items).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        error.to_string()
    };
    assert_eq!(read(&[2, 8, 2, 5], 6, 5).unwrap().num_rows(), 4);
    assert!(refuse(&[2, 1], 6, 5).contains("list offsets 2 and 1"));
    assert!(refuse(&[2, 12], 6, 5).contains("list offsets"));
    assert!(refuse(&[2], 0, 5).contains("null offset adjustment 0"));
    assert!(refuse(&[2], 5, 5).contains("null offset adjustment 5"));
    assert!(refuse(&[6], 7, 6).contains("the column has 5"));
    assert!(refuse(&[u64::MAX - 1], u64::MAX, u64::MAX - 1).contains("column 'c"));
}

#[test]
fn wrong_structs_and_packed_structs() {
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Int8, true),
    ]);
    let data_type = DataType::Struct(fields);
    let header = || encoding(Tree::Struct(pb::SimpleStruct {}));
    let child = |bits: u64, rows: u64| vec![(*flat(bits, 0).unwrap(), vec![vec![0; 64]], rows)];
    let read = |header: Pages, rows_of_b: u64| {
        read_forged(
            data_type.clone(),
            vec![header, child(32, 4), child(8, rows_of_b)],
            4,
        )
    };
    assert!(read(vec![(header(), vec![], 4)], 4).is_ok());
    let text = |result: glaive_file::Result<RecordBatch>| result.unwrap_err().to_string();
    assert!(text(read(vec![(header(), vec![], 4)], 3)).contains("column 'c.b': row 3"));
    assert!(text(read(vec![(header(), vec![], 3)], 4)).contains("the struct has 3"));
    assert!(text(read(vec![(header(), vec![], 2), (header(), vec![], 2)], 4)).contains("2 pages"));
    assert!(text(read(vec![(header(), vec![vec![1]], 4)], 4)).contains("no struct"));

    let packed = |inner: Vec<pb::ArrayEncoding>, bytes: usize| {
        let tree = encoding(Tree::PackedStruct(pb::PackedStruct { inner, buffer: None }));
        read_forged(data_type.clone(), vec![vec![(tree, vec![vec![0; bytes]], 4)]], 4)
    };
    let (int, byte) = (*flat(32, 0).unwrap(), *flat(8, 0).unwrap());
    assert!(packed(vec![int.clone(), byte.clone()], 20).is_ok());
    assert!(text(packed(vec![int.clone(), byte.clone()], 19)).contains("a buffer of 19 bytes"));
    assert!(text(packed(vec![int.clone()], 20)).contains("1 fields"));
    assert!(text(packed(vec![int.clone(), int.clone()], 32)).contains("packed field 'b'"));
    let null = nullable(Nullability::AllNulls(AllNull {}));
    assert!(text(packed(vec![int, null], 20)).contains("without nulls"));
}
