//! The bytes of other writers (tests/data/codecs), decoded by the codec tree that comes with them.

use glaive_codec::bitpack::{Lane, inline, out_of_line};
use glaive_codec::bits::get_bit;
use glaive_codec::fsst::SymbolTable;
use glaive_codec::general::{self, Scheme};
use glaive_codec::variable::{VariableChunk, VariableValues, block};
use glaive_codec::{ByteCursor, byte_stream_split, rle};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Vector {
    name: String,
    file_version: String,
    position: String,
    encoding_hex: String,
    num_values: Option<usize>,
    #[serde(default)]
    buffers: Vec<String>,
    #[serde(default)]
    values: Vec<Value>,
    value_runs: Option<Vec<(Value, usize)>>,
}

/// The codec trees of the vectors.
enum Tree {
    Flat { bits: usize },
    Variable { offset_bits: u8 },
    OutOfLine { bits: usize, width: usize },
    Inline { bits: usize },
    Fsst { table: Vec<u8>, offset_bits: u8 },
    Rle { bits: usize },
    ByteStreamSplit { width: usize },
    General { scheme: Scheme, values: Box<Tree> },
}

/// A field of a protobuf message: a number or bytes.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(cursor: &mut ByteCursor<'_>) -> u64 {
    let byte = cursor.u8().unwrap();
    let low = u64::from(byte & 0x7f);
    if byte & 0x80 == 0 {
        low
    } else {
        low | varint(cursor) << 7
    }
}

fn fields(message: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut cursor = ByteCursor::new(message);
    let mut fields = vec![];
    while cursor.remaining() > 0 {
        let key = varint(&mut cursor);
        let value = varint(&mut cursor);
        fields.push(match key & 7 {
            0 => (key >> 3, Field::Number(value)),
            2 => (key >> 3, Field::Bytes(cursor.take(value as usize).unwrap())),
            other => panic!("wire type {other}"),
        });
    }
    fields
}

fn number(message: &[u8], field: u64) -> usize {
    let found = fields(message).into_iter().find(|(number, _)| *number == field);
    match found {
        Some((_, Field::Number(value))) => value as usize,
        _ => panic!("no number {field}"),
    }
}

fn bytes(message: &[u8], field: u64) -> &[u8] {
    let found = fields(message).into_iter().find(|(number, _)| *number == field);
    match found {
        Some((_, Field::Bytes(value))) => value,
        _ => panic!("no bytes {field}"),
    }
}

fn flat_bits(tree: &[u8]) -> usize {
    match Tree::parse(tree) {
        Tree::Flat { bits } => bits,
        _ => panic!("expected a flat child"),
    }
}

impl Tree {
    fn parse(tree: &[u8]) -> Self {
        let fields = fields(tree);
        let [(codec, Field::Bytes(m))] = fields.as_slice() else {
            panic!("one codec")
        };
        match codec {
            1 => Self::Flat { bits: number(m, 1) },
            2 => Self::Variable {
                offset_bits: flat_bits(bytes(m, 1)) as u8,
            },
            4 => Self::OutOfLine {
                bits: number(m, 1),
                width: flat_bits(bytes(m, 3)),
            },
            5 => Self::Inline { bits: number(m, 1) },
            6 => {
                let Self::Variable { offset_bits } = Self::parse(bytes(m, 2)) else {
                    panic!("FSST of variable")
                };
                Self::Fsst {
                    table: bytes(m, 1).to_vec(),
                    offset_bits,
                }
            }
            8 => {
                assert_eq!(flat_bits(bytes(m, 2)), 8);
                Self::Rle {
                    bits: flat_bits(bytes(m, 1)),
                }
            }
            9 => Self::ByteStreamSplit {
                width: flat_bits(bytes(m, 1)) / 8,
            },
            10 => {
                let scheme = if number(bytes(m, 1), 1) == 1 {
                    Scheme::Lz4
                } else {
                    Scheme::Zstd
                };
                Self::General {
                    scheme,
                    values: Box::new(Self::parse(bytes(m, 3))),
                }
            }
            other => panic!("codec {other}"),
        }
    }

    /// Values as byte strings.
    fn decode(&self, buffers: &[Vec<u8>], n: usize, is_block: bool) -> Vec<Vec<u8>> {
        let first = &buffers[0];
        match self {
            Self::Flat { bits: 1 } => (0..n).map(|i| vec![u8::from(get_bit(first, i))]).collect(),
            Self::Flat { bits } => {
                assert_eq!(first.len(), n * bits / 8);
                split(first, bits / 8)
            }
            Self::Variable { .. } if is_block => owned(&block::decode(first, n).unwrap()),
            Self::Variable { offset_bits } => owned(&VariableChunk::parse(first, *offset_bits, n).unwrap()),
            Self::OutOfLine { bits, width } => by_width(
                *bits,
                n,
                &OutOfLineBuffer {
                    buf: first,
                    width: *width,
                },
            ),
            Self::Inline { bits } => by_width(*bits, n, &InlineBuffer { buf: first }),
            Self::Fsst { table, offset_bits } => {
                decode_fsst(table, &VariableChunk::parse(first, *offset_bits, n).unwrap())
            }
            Self::Rle { bits } => by_width(*bits, n, &RleBuffers { buffers, is_block }),
            Self::ByteStreamSplit { width } => {
                let mut out = vec![0; first.len()];
                byte_stream_split::decode(*width, first, &mut out).unwrap();
                let mut again = vec![];
                byte_stream_split::encode(*width, &out, &mut again).unwrap();
                assert_eq!(&again, first);
                split(&out, *width)
            }
            Self::General { scheme, values } => {
                let mut buffers = buffers.to_vec();
                buffers[0] = decompress(*scheme, first);
                values.decode(&buffers, n, is_block)
            }
        }
    }
}

fn split(bytes: &[u8], width: usize) -> Vec<Vec<u8>> {
    bytes.chunks(width).map(<[u8]>::to_vec).collect()
}

fn owned(values: &VariableValues<'_>) -> Vec<Vec<u8>> {
    values.iter().map(<[u8]>::to_vec).collect()
}

fn decompress(scheme: Scheme, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    general::decompress(scheme, payload, 1 << 20, &mut out).unwrap();
    out
}

fn decode_fsst(table: &[u8], values: &VariableValues<'_>) -> Vec<Vec<u8>> {
    let table = SymbolTable::parse(table).unwrap();
    let (mut out, mut offsets) = (vec![], vec![0i32; values.len() + 1]);
    let append = |bytes: &[u8]| out.extend_from_slice(bytes);
    table
        .decompress_all(values.data(), values.ends(), 0, &mut offsets[1..], append)
        .unwrap();
    offsets
        .windows(2)
        .map(|w| out[w[0] as usize..w[1] as usize].to_vec())
        .collect()
}

/// Fixed-width codecs: decodes `out.len()` values, and checks that encoding them gives the bytes of the other writer.
trait FixedWidth {
    fn decode<T: Lane>(&self, out: &mut [T]);
}

struct InlineBuffer<'a> {
    buf: &'a [u8],
}

impl FixedWidth for InlineBuffer<'_> {
    fn decode<T: Lane>(&self, out: &mut [T]) {
        inline::decode(self.buf, out.len(), out).unwrap();
        let mut again = vec![];
        inline::encode(out, &mut again);
        assert_eq!(again, self.buf);
    }
}

struct OutOfLineBuffer<'a> {
    buf: &'a [u8],
    width: usize,
}

impl FixedWidth for OutOfLineBuffer<'_> {
    fn decode<T: Lane>(&self, out: &mut [T]) {
        out_of_line::decode(self.buf, self.width, out.len(), out).unwrap();
        let mut again = vec![];
        out_of_line::encode(out, self.width, &mut again);
        assert_eq!(again, self.buf);
    }
}

struct RleBuffers<'a> {
    buffers: &'a [Vec<u8>],
    is_block: bool,
}

impl FixedWidth for RleBuffers<'_> {
    fn decode<T: Lane>(&self, out: &mut [T]) {
        match self.buffers {
            [buf] if self.is_block => {
                rle::decode_block(buf, out.len(), out).unwrap();
                let mut again = vec![];
                rle::encode_block(out, &mut again);
                assert_eq!(&again, buf);
            }
            [values, lengths] => rle::decode(values, lengths, out.len(), out).unwrap(),
            other => panic!("{} buffers", other.len()),
        }
    }
}

fn by_width(bits: usize, n: usize, codec: &impl FixedWidth) -> Vec<Vec<u8>> {
    fn decode<T: Lane>(n: usize, codec: &impl FixedWidth) -> Vec<Vec<u8>> {
        let mut out = vec![T::MAX; n];
        codec.decode(&mut out);
        let mut bytes = vec![];
        T::extend_le(&out, &mut bytes);
        split(&bytes, T::BYTES)
    }
    match bits {
        8 => decode::<u8>(n, codec),
        16 => decode::<u16>(n, codec),
        32 => decode::<u32>(n, codec),
        64 => decode::<u64>(n, codec),
        other => panic!("{other} bits"),
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
        .collect()
}

/// Hex text, a level or a boolean.
fn expected(value: &Value, bytes: usize) -> Vec<u8> {
    match value {
        Value::String(text) => hex(text),
        Value::Number(number) => number.as_u64().unwrap().to_le_bytes()[..bytes].to_vec(),
        other => panic!("{other}"),
    }
}

fn check(vector: &Vector) {
    let tree = Tree::parse(&hex(&vector.encoding_hex));
    let runs = vector.value_runs.iter().flatten();
    let values = runs
        .flat_map(|(value, count)| vec![value; *count])
        .chain(&vector.values);
    if vector.position.starts_with("per value") {
        let Tree::General { scheme, .. } = tree else {
            panic!("only general per-value vectors")
        };
        for value in values {
            let payload = hex(value["payload"].as_str().unwrap());
            assert_eq!(decompress(scheme, &payload), expected(&value["value"], 0));
        }
        return;
    }
    let buffers: Vec<_> = vector.buffers.iter().map(|b| hex(b)).collect();
    let is_block = vector.position.starts_with("block");
    let decoded = tree.decode(&buffers, vector.num_values.unwrap(), is_block);
    let level_bytes = decoded.first().map_or(0, Vec::len);
    let expected: Vec<_> = values.map(|v| expected(v, level_bytes)).collect();
    assert!(decoded == expected, "{}", vector.name);
}

/// Checks a file of `count` vectors of the versions 2.1 and 2.2.
fn check_file(json: &str, count: usize) {
    let vectors: Vec<Vector> = serde_json::from_str(json).unwrap();
    let stable: Vec<_> = vectors.iter().filter(|v| v.file_version != "2.3").collect();
    assert_eq!(stable.len(), count);
    stable.into_iter().for_each(check);
}

macro_rules! vectors {
    ($($test:ident: $count:literal)*) => {
        $(
            #[test]
            fn $test() {
                let file = concat!("/../../tests/data/codecs/", stringify!($test), ".json");
                let json = std::fs::read_to_string([env!("CARGO_MANIFEST_DIR"), file].concat()).unwrap();
                check_file(&json, $count);
            }
        )*
    };
}

vectors! {
    bitpack_inline: 11
    bss_general: 6
    dictionary: 8
    flat: 5
    fsst: 3
    levels: 6
    rle: 2
    rle_old_writer: 1
    variable: 3
}
