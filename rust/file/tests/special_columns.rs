//! Dictionary columns, packed structs and empty structs: columns for the round trips, and what they alone can do.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;
use glaive_file::{ErrorKind, FileVersion, ReadOptions, Rows, WriterOptions};

use crate::support::{open, options, write};

/// A dictionary array.
fn keyed<K: ArrowDictionaryKeyType>(keys: Vec<Option<usize>>, items: ArrayRef) -> ArrayRef {
    let keys: PrimitiveArray<K> = keys.into_iter().map(|key| key.map(K::Native::usize_as)).collect();
    Arc::new(DictionaryArray::<K>::try_new(keys, items).unwrap())
}

fn keys(n: usize, nulls: &Option<NullBuffer>, items: usize) -> Vec<Option<usize>> {
    let valid = |i: usize| nulls.as_ref().is_none_or(|v| v.is_valid(i));
    (0..n).map(|i| valid(i).then(|| i * 7 % items)).collect()
}

/// One array for all batches, so that their dictionaries are the same.
static NAMES: LazyLock<ArrayRef> = LazyLock::new(|| {
    Arc::new(StringArray::from_iter_values(
        (0..100).map(|i| format!("name {i}")),
    ))
});

static BYTES: LazyLock<ArrayRef> = LazyLock::new(|| {
    Arc::new(BinaryArray::from_iter_values(
        (0..300).map(|i| vec![i as u8; i / 3]),
    ))
});

fn names(n: usize) -> ArrayRef {
    NAMES.slice(0, n)
}

/// Dictionaries as plain columns: an item may be null, so that equal columns need not have equal keys.
pub fn without_keys(array: &ArrayRef) -> ArrayRef {
    match array.as_any_dictionary_opt() {
        Some(keyed) => take(keyed.values(), keyed.keys(), None).unwrap(),
        None => array.clone(),
    }
}

fn dictionaries(n: usize, v: &Option<NullBuffer>) -> Vec<(Field, ArrayRef)> {
    let holes: ArrayRef = Arc::new(LargeStringArray::from(vec![
        Some("a"),
        None,
        Some(""),
        Some("a"),
        None,
    ]));
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.5, -0.0, 0.0, f64::NAN]));
    let bools: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
    let bytes = BYTES.clone();
    let numbers: ArrayRef = Arc::new(UInt16Array::from_iter_values(0..40_000));
    let inner = keyed::<Int8Type>(keys(n * 2, &None, 5), names(5));
    let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
    let list = ListArray::new(item, OffsetBuffer::from_lengths(vec![2; n]), inner, v.clone());
    let inside = keyed::<UInt16Type>(keys(n, &None, 4), floats.clone());
    let fields = vec![Field::new("d", inside.data_type().clone(), true)];
    let columns = [
        ("dict_i8", keyed::<Int8Type>(keys(n, v, 100), names(100))),
        (
            "dict_u8",
            keyed::<UInt8Type>(keys(n, v, 256), bytes.slice(0, 256)),
        ),
        ("dict_i16_null_items", keyed::<Int16Type>(keys(n, v, 5), holes)),
        ("dict_u16_f64", keyed::<UInt16Type>(keys(n, v, 4), floats)),
        ("dict_i32_bool", keyed::<Int32Type>(keys(n, v, 2), bools)),
        ("dict_u32", keyed::<UInt32Type>(keys(n, v, 40_000), numbers)),
        ("dict_i64", keyed::<Int64Type>(keys(n, v, 300), bytes)),
        ("dict_u64_one", keyed::<UInt64Type>(keys(n, v, 1), names(1))),
        ("list_dict", Arc::new(list) as ArrayRef),
        (
            "struct_dict",
            Arc::new(StructArray::new(fields.into(), vec![inside], v.clone())),
        ),
    ];
    columns
        .into_iter()
        .map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array))
        .collect()
}

fn packed_field(name: &str, data_type: DataType) -> Field {
    let key = "lance-encoding:packed".to_string();
    Field::new(name, data_type, true).with_metadata([(key, "true".to_string())].into())
}

fn packed(name: &str, children: Vec<(&str, ArrayRef)>, v: &Option<NullBuffer>) -> (Field, ArrayRef) {
    let fields: Vec<_> = children
        .iter()
        .map(|(name, child)| Field::new(*name, child.data_type().clone(), true))
        .collect();
    let arrays = children.into_iter().map(|(_, array)| array).collect();
    let array: ArrayRef = Arc::new(StructArray::new(fields.into(), arrays, v.clone()));
    (packed_field(name, array.data_type().clone()), array)
}

fn packed_structs(n: usize, v: &Option<NullBuffer>, version: FileVersion) -> Vec<(Field, ArrayRef)> {
    let ints: ArrayRef = Arc::new(Int32Array::from_iter_values((0..n).map(|i| i as i32)));
    let bytes: ArrayRef = Arc::new(UInt8Array::from_iter_values((0..n).map(|i| i as u8)));
    let doubles: ArrayRef = Arc::new(Float64Array::from_iter_values((0..n).map(|i| i as f64 / 3.0)));
    let wide: ArrayRef = Arc::new(FixedSizeBinaryArray::new(300, vec![7u8; n * 300].into(), None));
    let fixed = vec![("a", ints.clone()), ("b", bytes), ("c", doubles)];
    let in_list = packed("item", fixed.clone(), &None);
    let lengths = (0..n).map(|i| usize::from(i + 1 < n));
    let list = ListArray::new(
        Arc::new(in_list.0),
        OffsetBuffer::from_lengths(lengths),
        in_list.1,
        v.clone(),
    );
    let list: ArrayRef = Arc::new(list);
    let mut out = vec![
        packed("packed", fixed, v),
        packed("packed_wide", vec![("a", ints.clone()), ("w", wide)], v),
        (Field::new("list_packed", list.data_type().clone(), true), list),
    ];
    if version >= FileVersion::V2_2 {
        let text: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..n).map(|i| format!("a text of some length, number {i}")),
        ));
        let large: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values(
            (0..n).map(|i| vec![i as u8; i % 5]),
        ));
        let items: ArrayRef = Arc::new(Int16Array::from_iter(
            (0..n * 3).map(|i| (i % 4 > 0).then_some(i as i16)),
        ));
        let item = Arc::new(Field::new("item", DataType::Int16, true));
        let lists: ArrayRef = Arc::new(FixedSizeListArray::new(item, 3, items, None));
        // Structs in packed structs are packed, whether or not they ask for it.
        let (_, inner) = packed("q", vec![("x", ints.clone()), ("t", text.clone())], &None);
        let (_, middle) = packed("q", vec![("r", inner.clone()), ("v", lists.clone())], &None);
        out.push(packed("packed_twice", vec![("a", ints.clone()), ("q", inner)], v));
        out.push(packed(
            "packed_thrice",
            vec![("q", middle), ("a", ints.clone())],
            v,
        ));
        out.push(packed(
            "packed_text",
            vec![("t", text), ("a", ints.clone()), ("l", large)],
            v,
        ));
        out.push(packed("packed_lists", vec![("a", ints), ("v", lists)], v));
    }
    out
}

fn empty_structs(n: usize) -> Vec<(Field, ArrayRef)> {
    let empty: ArrayRef = Arc::new(StructArray::new_empty_fields(n, None));
    let ints: ArrayRef = Arc::new(Int32Array::from_iter_values((0..n).map(|i| i as i32)));
    let fields = vec![
        Field::new("e", empty.data_type().clone(), true),
        Field::new("a", DataType::Int32, true),
    ];
    let outer: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![empty.clone(), ints], None));
    vec![
        (Field::new("no_fields", empty.data_type().clone(), true), empty),
        (Field::new("struct_empty", outer.data_type().clone(), true), outer),
    ]
}

/// All of them, with the nulls `v`.
pub fn columns(n: usize, v: &Option<NullBuffer>, version: FileVersion) -> Vec<(Field, ArrayRef)> {
    let mut out = dictionaries(n, v);
    out.extend(packed_structs(n, v, version));
    out.extend(empty_structs(n));
    out
}

fn one_column(field: Field, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(vec![field])), vec![array]).unwrap()
}

fn plain(name: &str, array: ArrayRef) -> RecordBatch {
    one_column(Field::new(name, array.data_type().clone(), true), array)
}

fn read(bytes: Vec<u8>, rows: std::ops::Range<u64>) -> glaive_file::Result<RecordBatch> {
    open(bytes).read(None, Rows::Range(rows), &ReadOptions::default())
}

fn items_of(batch: &RecordBatch) -> ArrayData {
    batch.column(0).to_data().child_data()[0].clone()
}

#[test]
fn dictionaries_keep_their_order_and_unused_items() {
    let batch = plain("d", keyed::<Int16Type>(vec![Some(3), None, Some(1)], names(5)));
    for version in [FileVersion::V2_1, FileVersion::V2_2] {
        let found = read(
            write(std::slice::from_ref(&batch), options(version)).unwrap(),
            0..3,
        )
        .unwrap();
        assert_eq!(items_of(&found), names(5).to_data());
        assert_eq!(&found, &batch);
    }
}

#[test]
fn dictionaries_of_one_page_are_merged() {
    let piece = |start: usize| {
        let items: ArrayRef = Arc::new(StringArray::from_iter(
            (start..start + 60).map(|i| (i % 10 > 0).then(|| format!("{}", i / 2))),
        ));
        plain("d", keyed::<Int8Type>(keys(200, &None, 60), items))
    };
    let batches = [piece(0), piece(40), piece(60)];
    let all = concat_batches(&batches[0].schema(), &batches).unwrap();
    let found = read(write(&batches, options(FileVersion::V2_2)).unwrap(), 0..600).unwrap();
    assert_eq!(items_of(&found).len(), 60);
    assert_eq!(
        without_keys(found.column(0)).as_ref(),
        without_keys(all.column(0)).as_ref()
    );
}

#[test]
fn too_many_items_for_the_keys_make_several_pages() {
    let piece = |start: usize| {
        let items: ArrayRef = Arc::new(Int64Array::from_iter_values(
            (start..start + 100).map(|i| i as i64),
        ));
        plain("d", keyed::<Int8Type>(keys(100, &None, 100), items))
    };
    let bytes = write(&[piece(0), piece(100), piece(50)], options(FileVersion::V2_2)).unwrap();
    let reader = open(bytes.clone());
    assert!(reader.tail().column(0).unwrap().pages.len() > 1);
    for start in [0, 100, 200] {
        let found = read(bytes.clone(), start..start + 100).unwrap();
        assert_eq!(found, [piece(0), piece(100), piece(50)][start as usize / 100]);
    }
    let error = read(bytes, 0..300).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error
            .to_string()
            .contains("more than 128 distinct values in one batch"),
        "{error}"
    );
}

#[test]
fn a_row_of_very_many_empty_lists_of_keys_is_refused() {
    let items = keyed::<Int8Type>(vec![Some(1), None, Some(0)], names(2));
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    let mut lengths = vec![0; 150_000];
    lengths[70_000] = 3;
    let inner: ArrayRef = Arc::new(ListArray::new(
        item,
        OffsetBuffer::from_lengths(lengths),
        items,
        None,
    ));
    let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
    let outer = ListArray::new(item, OffsetBuffer::from_lengths([150_000]), inner, None);
    let batch = plain("d", Arc::new(outer));
    let error = write(&[batch], options(FileVersion::V2_2)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("more null or empty lists than a chunk can hold"),
        "{error}"
    );
}

fn refusal(field: Field, array: ArrayRef, version: FileVersion) -> String {
    write(&[one_column(field, array)], options(version))
        .unwrap_err()
        .to_string()
}

fn lists_of_ints() -> (Field, ArrayRef) {
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1)]),
        Some(vec![]),
    ]));
    (Field::new("l", list.data_type().clone(), true), list)
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let holes: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
    let bools: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
    let (field, array) = packed("p", vec![("a", names(2)), ("b", holes.clone())], &None);
    let text = refusal(field, array, FileVersion::V2_2);
    assert!(text.contains("'b' of a packed struct has nulls"), "{text}");
    let (field, array) = packed("p", vec![("b", bools)], &None);
    let text = refusal(field, array, FileVersion::V2_2);
    assert!(
        text.contains("field widths must be positive byte widths"),
        "{text}"
    );
    let (field, array) = packed("p", vec![("a", names(2))], &None);
    let text = refusal(field, array, FileVersion::V2_1);
    assert!(text.contains("use version 2.2"), "{text}");
    let wide: ArrayRef = Arc::new(FixedSizeBinaryArray::new(5000, vec![7u8; 10_000].into(), None));
    let (field, array) = packed("p", vec![("a", wide)], &None);
    assert!(refusal(field, array, FileVersion::V2_2).contains("5000 bytes a row"));
    // Structs in packed structs.
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let (_, numbers) = packed("q", vec![("x", ints.clone())], &None);
    let (_, text) = packed("q", vec![("x", ints.clone()), ("t", names(2))], &None);
    let (_, nulls) = packed(
        "q",
        vec![("t", names(2))],
        &Some(NullBuffer::from(vec![true, false])),
    );
    let (_, deep) = packed("q", vec![("t", names(2)), ("h", holes.clone())], &None);
    let (_, list) = lists_of_ints();
    for (child, version, expected) in [
        (
            numbers.clone(),
            FileVersion::V2_1,
            "nothing but fixed-width fields",
        ),
        (numbers, FileVersion::V2_2, "nothing but fixed-width fields"),
        (text, FileVersion::V2_1, "use version 2.2"),
        (nulls, FileVersion::V2_2, "'q' of a packed struct has nulls"),
        (deep, FileVersion::V2_2, "'h' of a packed struct has nulls"),
        (list, FileVersion::V2_2, "in a packed struct, which can hold"),
    ] {
        let (field, array) = packed("p", vec![("a", ints.clone()), ("q", child)], &None);
        let text = refusal(field, array, version);
        assert!(text.contains(expected) && text.contains("column 'p'"), "{text}");
    }
    // A null under a null struct is no null of the field.
    let (field, array) = packed(
        "p",
        vec![("b", holes)],
        &Some(NullBuffer::from(vec![true, false])),
    );
    let batch = one_column(field, array);
    assert!(write(&[batch], options(FileVersion::V2_1)).is_ok());
}

#[test]
fn empty_structs_with_nulls_or_in_lists_are_refused() {
    let nulls = Some(NullBuffer::from(vec![true, false]));
    let array: ArrayRef = Arc::new(StructArray::new_empty_fields(2, nulls));
    let field = Field::new("e", array.data_type().clone(), true);
    let list: ArrayRef = {
        let item: ArrayRef = Arc::new(StructArray::new_empty_fields(2, None));
        let field = Arc::new(Field::new("item", item.data_type().clone(), true));
        Arc::new(ListArray::new(
            field,
            OffsetBuffer::from_lengths([1, 1]),
            item,
            None,
        ))
    };
    let list_field = Field::new("l", list.data_type().clone(), true);
    for (field, array, name) in [(field, array, "e"), (list_field, list, "item")] {
        let error = write(&[one_column(field, array)], WriterOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let text =
            format!("Empty structs with rep/def information are not yet supported.  The field {name} is");
        assert!(error.to_string().contains(&text), "{error}");
    }
}
