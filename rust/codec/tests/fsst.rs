//! Symbol tables: round trips, the limits of the format, damaged input.

use glaive_codec::CodecError;
use glaive_codec::fsst::{SymbolTable, TABLE_LEN};
use proptest::prelude::*;

/// Format chapter 22, 4.6, code by code.
fn naive_decompress(table: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let n = usize::from(table[0]);
    let mut out = vec![];
    let mut codes = value.iter();
    while let Some(&code) = codes.next() {
        let code = usize::from(code);
        match code {
            255 => out.push(*codes.next()?),
            _ if code >= n => return None,
            _ => out.extend(&table[8 + 8 * code..][..table[8 + 8 * n + code].into()]),
        }
    }
    Some(out)
}

fn check(values: &[Vec<u8>]) -> usize {
    let table = SymbolTable::train(values.iter().map(Vec::as_slice));
    let bytes = table.to_bytes();
    assert_eq!(bytes.len(), TABLE_LEN);
    assert_eq!(
        bytes,
        SymbolTable::train(values.iter().map(Vec::as_slice)).to_bytes(),
        "same values, same table"
    );
    let parsed = SymbolTable::parse(&bytes).unwrap();
    assert_eq!(parsed.to_bytes(), bytes);

    let compressed: Vec<Vec<u8>> = values.iter().map(|value| compress(&table, value)).collect();
    for (value, codes) in values.iter().zip(&compressed) {
        assert!(codes.len() <= 2 * value.len());
        assert_eq!(naive_decompress(&bytes, codes).as_ref(), Some(value));
        let mut out = b"before".to_vec();
        parsed.decompress(codes, &mut out).unwrap();
        assert_eq!(out, [b"before", &value[..]].concat());
    }
    let (mut offsets, mut out, mut ends) = (vec![2], b"before".to_vec(), vec![6]);
    let bytes = [&b"xx"[..], &values.concat(), b"xx"].concat();
    values.iter().fold(2, |end, value| {
        offsets.push(end + value.len() as i64);
        end + value.len() as i64
    });
    table.compress_all(&offsets, &bytes, &mut out, &mut ends).unwrap();
    assert_eq!(out[6..], compressed.concat());
    let lengths: Vec<_> = ends.windows(2).map(|w| (w[1] - w[0]) as usize).collect();
    assert_eq!(lengths, compressed.iter().map(Vec::len).collect::<Vec<_>>());

    let (out, offsets) = decompress_all(&parsed, &compressed, 6).unwrap();
    assert_eq!(out, values.concat());
    let lengths: Vec<_> = offsets.windows(2).map(|w| (w[1] - w[0]) as usize).collect();
    assert_eq!(lengths, values.iter().map(Vec::len).collect::<Vec<_>>());
    compressed.iter().map(Vec::len).sum()
}

/// The strings, and an offset of `base` followed by their ends.
fn decompress_all(
    table: &SymbolTable,
    values: &[Vec<u8>],
    base: i32,
) -> Result<(Vec<u8>, Vec<i32>), CodecError> {
    let mut code_ends = vec![];
    values.iter().fold(0, |end, value| {
        code_ends.push(end + value.len());
        end + value.len()
    });
    let (mut out, mut offsets) = (vec![], vec![base; values.len() + 1]);
    let append = |bytes: &[u8]| out.extend_from_slice(bytes);
    table.decompress_all(
        &values.concat(),
        code_ends,
        base as usize,
        &mut offsets[1..],
        append,
    )?;
    Ok((out, offsets))
}

fn compress(table: &SymbolTable, value: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    table.compress(value, &mut out);
    out
}

fn urls(n: usize) -> Vec<Vec<u8>> {
    (0..n)
        .map(|i| format!("https://www.example{}.com/search?id={}", i % 7, i * 7919).into_bytes())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_bytes_round_trip(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..60)) {
        check(&values);
    }

    #[test]
    fn few_letters_round_trip(values in prop::collection::vec("[ab\\x00]{0,30}", 0..200)) {
        check(&values.into_iter().map(String::into_bytes).collect::<Vec<_>>());
    }

    #[test]
    fn any_codes_decode_as_the_naive_decoder_does(
        n in any::<u8>(),
        symbols in prop::collection::vec((any::<u64>(), 1u8..9), 255),
        values in prop::collection::vec(prop::collection::vec(prop_oneof![any::<u8>(), Just(255u8)], 0..40), 1..5),
        repeat in prop_oneof![Just(1usize), Just(40)],
    ) {
        let symbols = &symbols[..usize::from(n)];
        let table = table_bytes(symbols);
        let parsed = SymbolTable::parse(&table).unwrap();
        let values: Vec<Vec<u8>> = values.iter().map(|v| v.repeat(repeat)).collect();
        let expected: Option<Vec<Vec<u8>>> = values.iter().map(|v| naive_decompress(&table, v)).collect();
        let one_by_one: Result<Vec<Vec<u8>>, _> = values.iter().map(|v| {
            let mut out = vec![];
            parsed.decompress(v, &mut out).map(|()| out)
        }).collect();
        prop_assert_eq!(&one_by_one.ok(), &expected);
        let all = decompress_all(&parsed, &values, 0).ok();
        let split = all.map(|(out, ends)| {
            ends.windows(2).map(|w| out[w[0] as usize..w[1] as usize].to_vec()).collect::<Vec<_>>()
        });
        prop_assert_eq!(split, expected);
    }

    #[test]
    fn any_table_parses_or_fails(bytes in prop::collection::vec(any::<u8>(), TABLE_LEN), magic in any::<bool>()) {
        let mut bytes = bytes;
        if magic {
            bytes[4..8].copy_from_slice(b"TSSF");
        }
        if let Ok(table) = SymbolTable::parse(&bytes) {
            let _ = table.decompress(&bytes, &mut vec![]);
            let text = compress(&table, &bytes);
            let mut out = vec![];
            table.decompress(&text, &mut out).unwrap();
            prop_assert_eq!(out, bytes);
        }
    }
}

fn table_bytes(symbols: &[(u64, u8)]) -> Vec<u8> {
    let mut table = vec![symbols.len() as u8, 3, 4, 1];
    table.extend(b"TSSF");
    table.extend(symbols.iter().flat_map(|(bytes, _)| bytes.to_le_bytes()));
    table.extend(symbols.iter().map(|(_, len)| len));
    table.resize(TABLE_LEN, 0);
    table
}

#[test]
fn urls_shrink_to_a_third() {
    let values = urls(3000);
    let len: usize = values.iter().map(Vec::len).sum();
    let compressed = check(&values);
    assert!(compressed * 3 < len, "{len} bytes became {compressed}");
}

#[test]
fn boundary_counts_round_trip() {
    for n in [0, 1, 1023, 1024, 1025] {
        check(&urls(n));
        check(&vec![vec![]; n]);
    }
}

#[test]
fn long_values_round_trip() {
    let long: Vec<u8> = urls(3000).concat();
    for len in [7, 8, 9, 510, 511, 512, 513, 5000, long.len()] {
        check(&[
            long[..len].to_vec(),
            vec![255; len],
            (0..len).map(|i| (i * i) as u8).collect(),
        ]);
    }
}

#[test]
fn a_stored_table_copies() {
    let table = SymbolTable::stored();
    assert_eq!(table.to_bytes()[..9], [0, 0, 0, 0, 0x54, 0x53, 0x53, 0x46, 0]);
    let parsed = SymbolTable::parse(&table.to_bytes()).unwrap();
    assert!(!parsed.is_coded() && parsed.symbol_count() == 0);
    assert_eq!(compress(&parsed, b"\xff\x00abc"), b"\xff\x00abc");
    let values = [b"\xff".to_vec(), vec![], b"ab".to_vec()];
    let found = decompress_all(&parsed, &values, 0).unwrap();
    assert_eq!(found, (b"\xffab".to_vec(), vec![0, 1, 1, 3]));
    let ends = |code_ends: &[usize], mut ends: Vec<i32>| {
        parsed.decompress_all(b"ab", code_ends.iter().copied(), 0, &mut ends, |_| {})
    };
    assert!(ends(&[1, 2], vec![0; 2]).is_ok());
    assert!(ends(&[1, 3], vec![0; 2]).is_err(), "an end outside");
    assert!(ends(&[1, 2], vec![0; 1]).is_err() && ends(&[1, 2], vec![0; 3]).is_err());
    let edge = i32::MAX as usize - 1;
    let overflow = parsed.decompress_all::<i32>(b"ab", [2], edge, &mut [0], |_| {});
    assert!(overflow.is_err());
}

#[test]
fn offsets_to_compress_are_checked() {
    let table = SymbolTable::train([&b"abcabcabc"[..]]);
    let compress = |offsets: &[i64]| table.compress_all(offsets, b"abcabc", &mut vec![], &mut vec![]);
    assert!(compress(&[]).is_ok() && compress(&[6]).is_ok() && compress(&[0, 0, 6, 6]).is_ok());
    assert!(compress(&[-1, 3]).is_err() && compress(&[3, 2]).is_err() && compress(&[0, 7]).is_err());
}

#[test]
fn damaged_tables_are_errors() {
    let good = table_bytes(&[(0x6261, 2)]);
    assert!(SymbolTable::parse(&good).is_ok());
    assert!(SymbolTable::parse(&good[1..]).is_err() && SymbolTable::parse(&[]).is_err());
    assert!(SymbolTable::parse(&[&good[..], &[0]].concat()).is_err());
    for (at, to) in [(4, b'F'), (16, 0), (16, 9)] {
        let mut bad = good.clone();
        bad[at] = to;
        assert!(SymbolTable::parse(&bad).is_err(), "byte {at} = {to}");
    }
}

#[test]
fn damaged_values_are_errors() {
    let table = SymbolTable::parse(&table_bytes(&[(0x6261, 2)])).unwrap();
    let decompress = |codes: &[u8]| {
        let mut out = vec![];
        table.decompress(codes, &mut out).map(|()| out)
    };
    assert_eq!(
        decompress(&[0, 255, 255, 255, 9, 0]),
        Ok(b"ab\xff\x09ab".to_vec())
    );
    assert!(decompress(&[0, 255]).is_err(), "escape at the end");
    assert!(
        decompress(&[1]).is_err() && decompress(&[0, 254]).is_err(),
        "no such symbol"
    );
    assert!(decompress(&[255; 4096]).is_ok() && decompress(&[255; 4097]).is_err());
}

#[test]
fn bytes_behind_a_symbol_are_ignored() {
    let table = SymbolTable::parse(&table_bytes(&[(0x7a7a_6261, 2)])).unwrap();
    assert_eq!(compress(&table, b"abab"), [0, 0]);
}
