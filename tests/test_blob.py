# SPDX-License-Identifier: Apache-2.0
"""Blob columns, both ways with pylance: what is stored, what a scan gives, files over single blobs."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import glaive
from glaive.errors import CorruptFileError, SchemaMismatchError, UnsupportedError
from glaive.file import LanceFileReader, LanceFileWriter

KEY = {"lance-encoding:blob": "true"}
VERSIONS = ["2.0", "2.1", "2.2"]
HANDLINGS = [None, "all_binary", "blobs_descriptions", "all_descriptions"]
PAIRS = {
    "pylance reads glaive": (glaive, lance),
    "glaive reads pylance": (lance, glaive),
    "glaive reads glaive": (glaive, glaive),
}
VALUES = [b"hello", None, b"", b"x" * 70_000, b"yy", bytes(range(256)) * 300]


def first_form(values: list[bytes | None], metadata: dict[str, str] = KEY) -> pa.Table:
    field = pa.field("b", pa.large_binary(), metadata=metadata)
    schema = pa.schema([pa.field("i", pa.int64()), field])
    return pa.table([range(len(values)), pa.array(values, pa.large_binary())], schema=schema)


def second_form(values: list[Any], **thresholds: int) -> pa.Table:
    schema = pa.schema([pa.field("i", pa.int64()), glaive.blob_field("b", **thresholds)])
    return pa.table([range(len(values)), glaive.blob_array(values)], schema=schema)


def side_files(uri: str) -> dict[str, int]:
    return {p.name: p.stat().st_size for p in Path(uri).glob("data/*/*")}


def data_files(uri: str) -> list[str]:
    return sorted(str(p.relative_to(uri)) for p in Path(uri).glob("data/**/*"))


# --- The same tables in both engines


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("version", VERSIONS)
def test_values_of_every_version(pair: str, version: str, uri: str) -> None:
    writer, reader = PAIRS[pair]
    writer.write_dataset(first_form(VALUES), uri, data_storage_version=version, max_rows_per_file=4)
    ds = reader.dataset(uri)
    assert ds.to_table(blob_handling="all_binary")["b"].to_pylist() == VALUES
    files = ds.take_blobs("b", indices=list(range(len(VALUES))))
    assert [None if f is None else f.read() for f in files] == VALUES
    assert [value for _, value in ds.read_blobs("b", indices=[5, 1, 3])] == [VALUES[i] for i in (5, 1, 3)]


@pytest.mark.parametrize("handling", HANDLINGS)
@pytest.mark.parametrize("version", VERSIONS)
def test_scans_and_takes_are_those_of_pylance(version: str, handling: str | None, uri: str) -> None:
    table = first_form(VALUES, {**KEY, "k": "v", "lance-encoding:blob-inline-size-threshold": "3"})
    lance.write_dataset(table, uri, data_storage_version=version)
    ours, theirs = glaive.dataset(uri), lance.dataset(uri)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    found, expected = (ds.to_table(blob_handling=handling) for ds in (ours, theirs))
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.to_pylist() == expected.to_pylist()
    found, expected = (ds.take([3, 1, 3], columns=["b"]) for ds in (ours, theirs))
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.to_pylist() == expected.to_pylist()
    assert ours.scanner(blob_handling=handling).projected_schema == found_schema(theirs, handling)


def found_schema(ds: Any, handling: str | None) -> pa.Schema:
    return ds.scanner(blob_handling=handling).projected_schema


@pytest.mark.parametrize("writer", [glaive, lance], ids=["glaive", "pylance"])
def test_sizes_decide_where_values_go(writer: Any, uri: str) -> None:
    sizes = [0, 1, 65_536, 65_537, 4_194_304, 4_194_305, 65_537]
    values: list[bytes | None] = [bytes([n % 251]) * n for n in sizes]
    values.insert(1, None)
    writer.write_dataset(second_form(values), uri)
    rows = glaive.dataset(uri).to_table()["b"].to_pylist()
    kinds = [row and (row["kind"], row["size"], row["blob_id"]) for row in rows]
    assert kinds == [
        (0, 0, 0),
        None,
        (0, 1, 0),
        (0, 65_536, 0),
        (1, 65_537, 1),
        (1, 4_194_304, 1),
        (2, 4_194_305, 2),
        (1, 65_537, 1),
    ]
    assert rows[7]["position"] == 65_537 + 4_194_304
    assert side_files(uri) == {
        "1" + "0" * 31 + ".blob": 65_537 * 2 + 4_194_304,
        "01" + "0" * 30 + ".blob": 4_194_305,
    }
    for ds in (glaive.dataset(uri), lance.dataset(uri)):
        assert ds.to_table(blob_handling="all_binary")["b"].to_pylist() == values


def test_thresholds_of_a_field(uri: str) -> None:
    values = [b"a" * 5, b"b" * 6, b"c" * 11, None, b"d" * 8, b"e" * 8]
    thresholds = {
        "inline_size_threshold": 5,
        "dedicated_size_threshold": 10,
        "pack_file_size_threshold": 15,
    }
    glaive.write_dataset(second_form(values, **thresholds), uri)
    lance.write_dataset(second_form(values, **thresholds), uri + ".lance")
    ours, theirs = glaive.dataset(uri).to_table(), lance.dataset(uri + ".lance").to_table()
    assert ours.drop_columns("i").to_pylist() == theirs.drop_columns("i").to_pylist()
    assert side_files(uri) == side_files(uri + ".lance")
    assert lance.dataset(uri).schema == lance.dataset(uri + ".lance").schema
    assert lance.dataset(uri).to_table(blob_handling="all_binary")["b"].to_pylist() == values
    schema = pa.schema(
        [glaive.blob_field("b").with_metadata({"lance-encoding:blob-inline-size-threshold": "x"})]
    )
    with pytest.raises(OSError, match=r"Invalid blob threshold metadata .*field 'b'"):
        glaive.write_dataset(pa.table([glaive.blob_array([b""])], schema=schema), uri, mode="overwrite")


def test_pack_threshold_of_a_write(uri: str) -> None:
    values = [b"a" * 70_000, b"b" * 70_000]
    glaive.write_dataset(second_form(values), uri, blob_pack_file_size_threshold=100_000)
    assert len(side_files(uri)) == 2
    with pytest.raises(ValueError, match="blob_pack_file_size_threshold"):
        glaive.write_dataset(second_form(values), uri, mode="append", blob_pack_file_size_threshold=0)


STRUCT = pa.struct([pa.field("x", pa.int32()), pa.field("b", pa.large_binary(), metadata=KEY)])
LIST = pa.list_(pa.field("item", pa.large_binary(), metadata=KEY))
LONG = b"z" * 70_000
NESTED: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "struct": (
        STRUCT,
        [{"x": 1, "b": b"abc"}, None, {"x": 3, "b": None}, {"x": 4, "b": b""}, {"x": 5, "b": LONG}],
        ["2.1", "2.2"],
    ),
    "struct without nulls": (STRUCT, [{"x": 1, "b": b"abc"}, {"x": 2, "b": LONG}], VERSIONS),
    "list": (LIST, [[b"a", None, LONG], None, [], [b"", b"c"]], ["2.0", "2.2"]),
    "list of structs": (
        pa.list_(STRUCT),
        [[{"x": 1, "b": b"a"}, None], None, [], [{"x": None, "b": LONG}]],
        ["2.2"],
    ),
}
NESTED_CASES = [(name, version) for name, (_, _, versions) in NESTED.items() for version in versions]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("name", "version"), NESTED_CASES)
def test_nested(pair: str, name: str, version: str, uri: str) -> None:
    (kind, rows, _), (writer, reader) = NESTED[name], PAIRS[pair]
    writer.write_dataset(pa.table({"n": pa.array(rows, kind)}), uri, data_storage_version=version)
    ds = reader.dataset(uri)
    assert ds.to_table(blob_handling="all_binary")["n"].to_pylist() == rows
    ours, theirs = (module.dataset(uri).to_table() for module in (glaive, lance))
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.to_pylist() == theirs.to_pylist()
    if not name.startswith("struct"):
        with pytest.raises(ValueError, match="'n' is not a blob column"):
            glaive.dataset(uri).take_blobs("n", indices=[0])
        return
    positions = list(range(len(rows)))
    files = ds.take_blobs("n.b", indices=positions)
    assert [f and f.read() for f in files] == [row and row["b"] for row in rows]
    ours, theirs = (module.dataset(uri).to_table(columns=["n.b"]) for module in (glaive, lance))
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.to_pylist() == theirs.to_pylist()


def test_many_rows_and_appends(uri: str) -> None:
    values = [None if i % 7 == 0 else b"%d" % i * (i % 50) for i in range(20_000)]
    for version in VERSIONS:
        path = f"{uri}.{version}"
        glaive.write_dataset(first_form(values), path, data_storage_version=version)
        ds = glaive.write_dataset(first_form(values[:10]), path, mode="append")
        for reader in (ds, lance.dataset(path)):
            found = reader.to_table(blob_handling="all_binary", columns=["b"])["b"].to_pylist()
            assert found == values + values[:10]
        picked = [19_999, 0, 20_005, 8]
        assert [b for _, b in ds.read_blobs("b", indices=picked)] == [
            (values + values[:10])[i] for i in picked
        ]


def test_pages_with_and_without_nulls(uri: str) -> None:
    patterns = [[1, 1, 1], [1, 0, 1], [0, 0, 0], [2, 2, 1], [1, 1, 1], [2, 0, 1]]
    rows = [
        {0: {"x": 1, "b": None}, 1: {"x": 2, "b": b"%d" % n * 40}, 2: None}[kind]
        for n, pattern in enumerate(patterns)
        for kind in pattern * 500
    ]
    for version in ("2.1", "2.2"):
        path = f"{uri}.{version}"
        batches = pa.table({"n": pa.array(rows, STRUCT)}).to_reader(max_chunksize=1500)
        ds = glaive.write_dataset(batches, path, data_storage_version=version, data_cache_bytes=1)
        [data] = Path(path).glob("data/*.lance")
        assert len(LanceFileReader(str(data)).metadata().columns[1].pages) > 5
        expected = [row and row["b"] for row in rows]
        for reader in (ds, lance.dataset(path)):
            assert reader.to_table(blob_handling="all_binary")["n"].to_pylist() == rows
            picked = list(range(0, len(rows), 7))
            found = reader.read_blobs("n.b", indices=picked)
            assert [blob for _, blob in found] == [expected[i] for i in picked]


@pytest.mark.parametrize("shape", ["blob", "list", "list of structs"])
def test_pages_of_lists_with_and_without_nulls(shape: str, uri: str) -> None:
    values = [b"v" * 30, None, b"", None]
    structs = [{"x": 1, "b": b"v" * 30}, None, {"x": None, "b": None}, {"x": 3, "b": b""}]
    kind, rows = {
        "blob": (pa.large_binary(), values),
        "list": (LIST, [[b"v" * 30, b"w"], None, [], [None, b"x"]]),
        "list of structs": (pa.list_(STRUCT), [structs[:1], None, [], structs]),
    }[shape]
    patterns = [[0, 0], [0, 1], [1, 1], [2, 0], [3, 3], [0, 3], [0, 0], [1, 3]]
    rows = [rows[i] for pattern in patterns for i in pattern * 20]
    metadata = KEY if shape == "blob" else None
    table = pa.table([pa.array(rows, kind)], schema=pa.schema([pa.field("n", kind, metadata=metadata)]))
    reader = table.to_reader(max_chunksize=40)
    ds = glaive.write_dataset(reader, uri, data_storage_version="2.2", data_cache_bytes=100)
    [data] = Path(uri).glob("data/*.lance")
    columns = LanceFileReader(str(data)).metadata().columns
    assert min(len(column.pages) for column in columns) > 5
    for reader in (ds, lance.dataset(uri)):
        assert reader.to_table(blob_handling="all_binary")["n"].to_pylist() == rows


def test_all_null_and_no_rows(uri: str) -> None:
    for version in VERSIONS:
        path = f"{uri}.{version}"
        glaive.write_dataset(first_form([None, None]), path, data_storage_version=version)
        for reader in (glaive.dataset(path), lance.dataset(path)):
            assert reader.to_table(blob_handling="all_binary")["b"].to_pylist() == [None, None]
            assert reader.take_blobs("b", indices=[1, 0]) == [None, None]
        assert side_files(path) == {}
        glaive.write_dataset(first_form([]), path, data_storage_version=version, mode="overwrite")
        assert glaive.dataset(path).to_table(blob_handling="all_binary")["b"].to_pylist() == []
        assert lance.dataset(path).count_rows() == 0


# --- Schemas


def test_false_is_no_blob(uri: str) -> None:
    for version in VERSIONS:
        path = f"{uri}.{version}"
        table = first_form(VALUES, {"lance-encoding:blob": "false"})
        ds = glaive.write_dataset(table, path, data_storage_version=version)
        for reader in (ds, lance.dataset(path)):
            assert reader.schema.field("b").type == pa.large_binary()
            assert not reader.schema.field("b").metadata
            assert reader.to_table()["b"].to_pylist() == VALUES


def test_appends_to_either_form(uri: str) -> None:
    ds = glaive.write_dataset(first_form([b"a"]), uri)
    assert ds.schema == lance.dataset(uri).schema
    ds.insert(first_form([b"b"]))
    ds.insert(second_form([b"c", None]))
    storage = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])
    plain = pa.table({"i": [9], "b": pa.array([{"data": b"d", "uri": None}], storage)})
    ds.insert(plain)
    for reader in (ds, lance.dataset(uri)):
        assert reader.to_table(blob_handling="all_binary")["b"].to_pylist() == [b"a", b"b", b"c", None, b"d"]
    with pytest.raises(SchemaMismatchError, match="Append with different schema"):
        ds.insert(pa.table({"i": [1], "b": pa.array([b"x"], pa.large_binary())}))
    with pytest.raises(OSError, match=r"Blob v2 requires file version >= 2.2"):
        glaive.write_dataset(second_form([b"x"]), uri, mode="append", data_storage_version="2.1")
    old = glaive.write_dataset(first_form([b"a"]), uri + ".old", data_storage_version="2.1")
    with pytest.raises(UnsupportedError, match="data_storage_version"):
        glaive.write_dataset(first_form([b"b"]), old, mode="append", data_storage_version="2.2")


@pytest.mark.parametrize("first", ["2.0", "2.1"])
def test_files_of_both_forms_in_one_table(first: str, uri: str) -> None:
    lance.write_dataset(first_form([b"a", None, b""]), uri, data_storage_version=first)
    lance.write_dataset(first_form([LONG, None]), uri, mode="append", data_storage_version="2.2")
    ours, theirs = glaive.dataset(uri), lance.dataset(uri)
    assert ours.schema == theirs.schema
    for handling in HANDLINGS:
        found, expected = (ds.to_table(blob_handling=handling) for ds in (ours, theirs))
        assert found.schema.equals(expected.schema, check_metadata=True)
        assert found.to_pylist() == expected.to_pylist()
    files = ours.take_blobs("b", indices=range(5))
    assert [f and f.read() for f in files] == [b"a", None, b"", LONG, None]


def test_what_cannot_be_stored_says_why(uri: str) -> None:
    lists = pa.table({"l": pa.array([[b"a"]], LIST)})
    with pytest.raises(UnsupportedError, match=r"lists of blobs .* use blob v2"):
        glaive.write_dataset(lists, uri, data_storage_version="2.1")
    with pytest.raises(UnsupportedError, match=r"Blob v2 requires file version >= 2.2 \(got 2.0\)"):
        glaive.write_dataset(second_form([b"a"]), uri, data_storage_version="2.0")
    texts = pa.table([pa.array(["a"])], schema=pa.schema([pa.field("b", pa.string(), metadata=KEY)]))
    for version in VERSIONS:
        with pytest.raises(OSError, match="binary"):
            glaive.write_dataset(texts, uri, data_storage_version=version)
    storage = glaive.blob_field("b").type.storage_type
    for row, text in [
        ({"data": b"a", "uri": "file:///x"}, "exactly one of"),
        ({"data": None, "uri": None}, "exactly one of"),
        ({"data": b"a", "position": 1, "size": 1}, "`uri` is null"),
        ({"uri": "file:///x", "position": 1}, "both `position` and `size`"),
        ({"uri": "file:///x", "position": 1, "size": 0}, "greater than zero"),
    ]:
        array = pa.ExtensionArray.from_storage(glaive.blob_field("b").type, pa.array([row], storage))
        table = pa.table([array], schema=pa.schema([glaive.blob_field("b")]))
        with pytest.raises(OSError, match=text):
            glaive.write_dataset(table, uri)
    assert data_files(uri) == []


def test_stand_alone_files(tmp_path: Path) -> None:
    schema = first_form(VALUES).schema
    for version in VERSIONS:
        for number, (write, read) in enumerate(
            [(LanceFileWriter, lance.file.LanceFileReader), (lance.file.LanceFileWriter, LanceFileReader)]
        ):
            path = str(tmp_path / f"{version}-{number}.lance")
            with write(path, schema, version=version) as writer:
                writer.write_batch(first_form(VALUES))
            table = read(path).read_all().to_table()
            assert table.schema == schema
            assert table["b"].to_pylist() == VALUES
    with (
        pytest.raises(UnsupportedError, match="through a table"),
        LanceFileWriter(str(tmp_path / "second.lance"), second_form([b"a"]).schema) as writer,
    ):
        writer.write_batch(second_form([b"a"]))


def test_files_of_a_table_show_descriptors(uri: str) -> None:
    lance.write_dataset(second_form([b"abc", None]), uri)
    [path] = Path(uri).glob("data/*.lance")
    rows = LanceFileReader(str(path)).read_all().to_table()["b"].to_pylist()
    assert rows[1] is None
    assert (rows[0]["kind"], rows[0]["size"]) == (0, 3)


# --- External blobs


def test_external_blobs(uri: str, tmp_path: Path) -> None:
    (tmp_path / "a b.bin").write_bytes(bytes(range(100)))
    location = (tmp_path / "a b.bin").as_uri()
    table = second_form([location, glaive.Blob.from_uri(location, 3, 10), b"q", None])
    with pytest.raises(OSError, match="allow_external_blob_outside_bases"):
        glaive.write_dataset(table, uri)
    assert data_files(uri) == []
    ds = glaive.write_dataset(table, uri, allow_external_blob_outside_bases=True)
    expected = [bytes(range(100)), bytes(range(3, 13)), b"q", None]
    for reader in (ds, lance.dataset(uri)):
        assert reader.to_table(blob_handling="all_binary")["b"].to_pylist() == expected
        assert [f and f.read() for f in reader.take_blobs("b", indices=[0, 1, 2, 3])] == expected
    assert ds.to_table().to_pylist() == lance.dataset(uri).to_table().to_pylist()
    ds = glaive.write_dataset(table, uri, mode="overwrite", external_blob_mode="ingest")
    (tmp_path / "a b.bin").unlink()
    for reader in (ds, lance.dataset(uri)):
        assert reader.to_table(blob_handling="all_binary")["b"].to_pylist() == expected
    with pytest.raises(OSError, match="only applies"):
        glaive.write_dataset(
            table, uri, mode="append", external_blob_mode="ingest", allow_external_blob_outside_bases=True
        )
    with pytest.raises(ValueError, match="Invalid external blob mode"):
        glaive.write_dataset(table, uri, mode="append", external_blob_mode="steal")


def test_external_blobs_that_cannot_be_read(uri: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    location = (tmp_path / "x").as_uri()
    values = ["s3://bucket/key", (tmp_path / "lost").as_uri(), glaive.Blob.from_uri(location, 5, 50)]
    ds = glaive.write_dataset(second_form(values), uri, allow_external_blob_outside_bases=True)
    assert [row["blob_uri"] for row in ds.to_table()["b"].to_pylist()] == [values[0], values[1], location]
    with pytest.raises(UnsupportedError, match="s3"):
        ds.take_blobs("b", indices=[0])
    with pytest.raises(ValueError, match="lost"):
        ds.take_blobs("b", indices=[1])
    with pytest.raises(CorruptFileError, match="a blob of 50 bytes at 5"):
        ds.take_blobs("b", indices=[2])[0].read()
    with pytest.raises(OSError, match="not a valid absolute URI"):
        glaive.write_dataset(
            second_form(["relative"]), uri, mode="append", allow_external_blob_outside_bases=True
        )


def test_blobs_below_a_base_path(uri: str, tmp_path: Path) -> None:
    base = tmp_path / "media"
    (base / "deep").mkdir(parents=True)
    (base / "deep" / "x.bin").write_bytes(b"0123456789")
    location = (base / "deep" / "x.bin").as_uri()
    bases = [lance.DatasetBasePath(str(base), "media", False, 1)]
    lance.write_dataset(second_form([location]), uri, initial_bases=bases)
    ds = glaive.dataset(uri)
    ds.insert(second_form([glaive.Blob.from_uri(location, 2, 3)]))
    rows = lance.dataset(uri).to_table()["b"].to_pylist()
    assert [(row["blob_id"], row["blob_uri"]) for row in rows] == [(1, "deep/x.bin")] * 2
    for reader in (ds, lance.dataset(uri)):
        found = reader.to_table(blob_handling="all_binary")["b"].to_pylist()
        assert found == [b"0123456789", b"234"]


# --- Rows


@pytest.fixture
def rows(uri: str) -> Any:
    values = [b"0123456789", None, b"", LONG, b"abc\ndef\n", b"last"]
    return glaive.write_dataset(second_form(values), uri, max_rows_per_file=4)


def heads(files: list[Any]) -> list[bytes | None]:
    return [file and file.read()[:3] for file in files]


def test_rows_by_index_address_and_id(rows: Any) -> None:
    theirs = lance.dataset(rows.uri)
    second = 1 << 32
    for ds in (rows, theirs):
        assert heads(ds.take_blobs("b", indices=[4, 0, 0, 1, 5])) == [b"abc", b"012", b"012", None, b"las"]
        assert heads(ds.take_blobs("b", addresses=[second, 0, 0, 1])) == [b"abc", b"012", b"012", None]
        assert heads(ds.take_blobs("b", ids=[second + 1, 0, 1])) == [b"las", b"012", None]
        assert heads(ds.take_blobs("b", indices=pa.array([2, 3], pa.uint64()))) == [b"", b"zzz"]
        assert ds.take_blobs("b", indices=[]) == []
    picked = [4, 0, 0, 1, 2, 5]
    assert rows.read_blobs("b", indices=picked) == theirs.read_blobs("b", indices=picked)
    unordered = rows.read_blobs("b", indices=picked, preserve_order=False)
    assert sorted(unordered, key=str) == sorted(theirs.read_blobs("b", indices=picked), key=str)
    assert [address for address, _ in unordered] == sorted(address for address, _ in unordered)


def test_deleted_rows(rows: Any) -> None:
    theirs = lance.dataset(rows.uri)
    theirs.delete("i = 0")
    ours = glaive.dataset(rows.uri)
    for ds in (ours, theirs):
        assert heads(ds.take_blobs("b", indices=[0, 1, 2, 3, 4])) == [None, b"", b"zzz", b"abc", b"las"]
        assert [a for a, _ in ds.read_blobs("b", indices=[0, 4])] == [1, (1 << 32) + 1]
        with pytest.raises(NotImplementedError, match="deleted rows"):
            ds.take_blobs("b", addresses=[0])


def test_ranges(rows: Any) -> None:
    theirs = lance.dataset(rows.uri)
    requests = [(0, 2, 3), (0, 0, 10), (4, 0, 2), (1, 0, 1), (0, 0, 0), (3, 69_999, 1)]
    found = rows.read_blob_ranges("b", requests, selector="indices")
    assert found == theirs.read_blob_ranges("b", requests, selector="indices")
    addressed = rows.read_blob_ranges("b", [(1 << 32, 0, 3)], selector="addresses")
    assert addressed == [(0, 1 << 32, b"abc")]
    assert rows.read_blob_ranges("b", [], selector="ids") == []
    for bad in ([(0, 8, 5)], [(0, 11, 0)], [(0, 2**63, 2**63)], [(0, 2**64 - 1, 2)]):
        with pytest.raises(ValueError, match=r"exceeds blob size 10|64 bits"):
            rows.read_blob_ranges("b", bad, selector="indices")
    with pytest.raises(ValueError, match="Blob range request 1 for row address 0"):
        rows.read_blob_ranges("b", [(0, 0, 1), (0, 8, 5)], selector="indices")
    with pytest.raises(ValueError, match="selector must be one of"):
        rows.read_blob_ranges("b", [(0, 8, 5)], selector="rows")
    with pytest.raises(OverflowError):
        rows.read_blob_ranges("b", [(0, -1, 5)], selector="indices")


def test_rows_that_do_not_exist(rows: Any) -> None:
    for wrong in ({}, {"ids": [1], "indices": [1]}):
        with pytest.raises(ValueError, match="Exactly one of ids, indices, or addresses"):
            rows.take_blobs("b", **wrong)
    for wrong in ({"indices": [6]}, {"addresses": [99 << 32]}, {"addresses": [50]}, {"ids": [2**64 - 1]}):
        for call in (rows.take_blobs, rows.read_blobs):
            with pytest.raises(ValueError, match=r"behind the last row|does not exist"):
                call("b", **wrong)
    with pytest.raises(OverflowError):
        rows.take_blobs("b", indices=[-1])
    with pytest.raises(ValueError, match="'i' is not a blob column"):
        rows.take_blobs("i", indices=[0])
    with pytest.raises(ValueError, match="No field named nope"):
        rows.take_blobs("nope", indices=[0])
    with pytest.raises(ValueError, match="buffer_size must be non-negative"):
        rows.take_blobs("b", indices=[0], buffer_size=-1)
    with pytest.raises(ValueError, match="io_buffer_size"):
        rows.read_blobs("b", indices=[0], io_buffer_size=0)


# --- Files


@pytest.fixture(params=["glaive", "pylance"])
def file(request: pytest.FixtureRequest, rows: Any) -> Any:
    ds = rows if request.param == "glaive" else lance.dataset(rows.uri)
    return ds.take_blobs("b", indices=[4])[0]


def test_file_reads_and_seeks(file: Any) -> None:
    assert (file.size(), len(repr(file))) == (8, len("<BlobFile size=8>"))
    assert (file.read(), file.tell(), file.read()) == (b"abc\ndef\n", 8, b"")
    assert (file.seek(2), file.read(3), file.seek(-2, 1), file.tell()) == (2, b"c\nd", 3, 3)
    assert (file.seek(-3, 2), file.read()) == (5, b"ef\n")
    assert (file.seek(100), file.tell(), file.read()) == (100, 100, b"")
    for wrong in ((-1,), (-1000, 1), (-1000, 2)):
        with pytest.raises(ValueError, match="negative seek value"):
            file.seek(*wrong)
    with pytest.raises(ValueError, match="whence"):
        file.seek(0, 5)
    buffer = bytearray(3)
    assert (file.seek(0), file.readinto(buffer), bytes(buffer), file.tell()) == (0, 3, b"abc", 3)
    file.seek(0)
    assert (file.readline(), file.readlines()) == (b"abc\n", [b"def\n"])
    file.seek(0)
    assert list(file) == [b"abc\n", b"def\n"]
    file.seek(0)
    assert (file.read(2), file.read(-1), file.seek(0), file.read(None)) == (
        b"ab",
        b"c\ndef\n",
        0,
        b"abc\ndef\n",
    )
    file.seek(1)
    assert (file.readall(), file.seek(0), file.read1(2)) == (b"bc\ndef\n", 0, b"ab")


def test_file_ranges(file: Any) -> None:
    file.seek(5)
    assert (file.read_range(1, 3), file.tell()) == (b"bc\n", 5)
    assert file.read_ranges([(0, 2), (3, 1), (0, 0)]) == [b"ab", b"\n", b""]
    assert file.read_ranges([]) == []
    for wrong in ((5, 10), (9, 1)):
        with pytest.raises(ValueError, match="exceeds blob size 8"):
            file.read_range(*wrong)
    with pytest.raises(OverflowError):
        file.read_range(-1, 1)


def test_file_is_read_only_and_closes(file: Any) -> None:
    assert (file.readable(), file.seekable(), file.writable(), file.isatty()) == (True, True, False, False)
    assert isinstance(file, io.BufferedIOBase)
    for call in (lambda: file.write(b"x"), file.fileno, file.truncate, file.detach):
        with pytest.raises(io.UnsupportedOperation):
            call()
    with file:
        pass
    assert file.closed
    assert file.size() == 8
    file.close()
    for call in (file.read, file.tell, lambda: file.seek(0), lambda: file.read_range(0, 1)):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_file_through_other_readers(rows: Any) -> None:
    for size in (0, 1, 3, 4096):
        [file] = rows.take_blobs("b", indices=[3], buffer_size=size)
        assert io.TextIOWrapper(file, "ascii").read() == "z" * 70_000
    [file] = rows.take_blobs("b", indices=[3])
    assert len(pa.PythonFile(file).read()) == 70_000


def test_pandas(rows: Any) -> None:
    theirs = lance.dataset(rows.uri)
    for mode in ("bytes", "descriptions"):
        found, expected = (ds.to_pandas(blob_mode=mode) for ds in (rows, theirs))
        assert found["b"].tolist()[0] == expected["b"].tolist()[0]
        assert found["b"].tolist()[1] is None
    for frame in (
        rows.to_pandas(),
        rows.scanner().to_pandas(),
        rows.to_pandas(columns=["b"], with_row_id=True),
    ):
        assert heads(frame["b"].tolist()) == [b"012", None, b"", b"zzz", b"abc", b"las"]
        assert "_rowaddr" not in frame.columns
    assert list(rows.to_pandas(with_row_address=True).columns) == ["i", "b", "_rowaddr"]
    assert heads(rows.get_fragments()[1].to_pandas()["b"].tolist()) == [b"abc", b"las"]
    assert heads(rows.to_pandas(limit=1, offset=4)["b"].tolist()) == [b"abc"]
    assert rows.to_pandas(columns=["i"])["i"].tolist() == list(range(6))
    with pytest.raises(ValueError, match="blob_mode must be one of"):
        rows.to_pandas(blob_mode="eager")


# --- Input and output


def test_descriptors_are_read_without_the_values(uri: str, bytes_read: Callable[[Any], int]) -> None:
    values = [bytes([i]) * 60_000 for i in range(50)]
    for version in VERSIONS:
        path = f"{uri}.{version}"
        glaive.write_dataset(first_form(values), path, data_storage_version=version)
        ds = glaive.dataset(path)
        assert bytes_read(lambda ds=ds: ds.to_table()) < 100_000
        ds.to_table()
        files: list[Any] = []
        assert (
            bytes_read(lambda ds=ds, files=files: files.extend(ds.take_blobs("b", indices=range(50))))
            < 100_000
        )
        assert 60_000 <= bytes_read(lambda files=files: files[7].read()) < 61_000
        assert 0 < bytes_read(lambda files=files: files[8].read_range(5, 10)) < 1000


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not show open files")
def test_files_of_one_pack_open_it_once(uri: str) -> None:
    values = [bytes([i]) * 70_000 for i in range(100)]
    ds = glaive.write_dataset(second_form(values), uri)
    files = ds.take_blobs("b", indices=range(100))
    assert [file.read() for file in files] == values
    opened = [p.resolve() for p in Path("/proc/self/fd").iterdir() if p.resolve().suffix == ".blob"]
    assert len(opened) == 1


@pytest.fixture
def bytes_read() -> Callable[[Callable[[], Any]], int]:
    """Bytes that this process asks of the kernel during a call."""

    def count() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["rchar"])

    def measure(call: Callable[[], Any]) -> int:
        if not Path("/proc/self/io").exists():
            pytest.skip("the system does not count reads")
        before = count()
        idle = count() - before
        before = count()
        call()
        return count() - before - idle

    return measure


def test_a_failed_write_leaves_no_file(uri: str) -> None:
    def batches() -> Any:
        yield from second_form([LONG, b"x" * 5_000_000]).to_batches()
        raise RuntimeError("the input broke")

    schema = second_form([]).schema
    for max_rows in (1, 1000):
        with pytest.raises(OSError, match="the input broke"):
            glaive.write_dataset(batches(), uri, schema=schema, max_rows_per_file=max_rows)
        assert data_files(uri) == []
        assert side_files(uri) == {}
    ds = glaive.write_dataset(second_form([LONG]), uri)
    before = data_files(uri)
    with pytest.raises(OSError, match="the input broke"):
        glaive.write_dataset(batches(), ds, schema=schema, mode="append")
    assert data_files(uri) == before


def test_lost_and_short_side_files(rows: Any) -> None:
    [path] = Path(rows.uri).glob("data/*/*.blob")
    files = rows.take_blobs("b", indices=[3])
    path.write_bytes(b"short")
    with pytest.raises(CorruptFileError, match="a blob of 70000 bytes at 0"):
        files[0].read()
    path.unlink()
    [file] = rows.take_blobs("b", indices=[3])
    assert file.size() == 70_000
    for call in (file.read, lambda: rows.to_table(blob_handling="all_binary")):
        with pytest.raises(ValueError, match=path.name):
            call()
    assert rows.to_table().num_rows == 6


# --- The values that a caller gives


def test_blob_values_say_what_is_wrong() -> None:
    for module in (glaive, lance):
        for wrong, text in [
            ({}, "must set `data` or `uri`"),
            ({"data": b"x", "uri": "a"}, "both data and uri"),
            ({"uri": ""}, "uri cannot be empty"),
            ({"uri": "a", "position": 1}, "both position and size"),
            ({"uri": "a", "position": 1, "size": 0}, "greater than zero"),
            ({"data": b"x", "position": 1, "size": 3}, "must have a uri"),
        ]:
            with pytest.raises(ValueError, match=text):
                module.Blob(**wrong)
        with pytest.raises(TypeError, match="got <class 'int'>"):
            module.blob_array([3])
        with pytest.raises(ValueError, match="non-negative"):
            module.blob_field("b", inline_size_threshold=-1)
        with pytest.raises(ValueError, match="positive"):
            module.blob_field("b", dedicated_size_threshold=0)
        assert module.Blob.empty() == module.Blob(data=b"")
    with pytest.raises(ValueError, match="negative"):
        glaive.Blob(uri="a", position=-1, size=3)
    array = glaive.blob_array(
        [b"a", bytearray(b"b"), memoryview(b"c"), lance.Blob.from_bytes(b"d"), "u", None]
    )
    assert [row and (row["data"] or row["uri"]) for row in array.storage.to_pylist()] == [
        b"a",
        b"b",
        b"c",
        b"d",
        "u",
        None,
    ]
    assert pickle.loads(pickle.dumps(glaive.blob_field("b").type)).extension_name == "lance.blob.v2"


def test_without_pylance(tmp_path: Path) -> None:
    """The type is registered with pyarrow, by whichever package comes first."""
    code = f"""
import pyarrow as pa, glaive
schema = pa.schema([glaive.blob_field("b")])
ds = glaive.write_dataset(pa.table([glaive.blob_array([b"x", None])], schema=schema), {str(tmp_path / "t")!r})
kind = ds.schema.field("b").type
assert type(kind) is glaive.blob.BlobType and kind == schema.field("b").type, kind
assert ds.take_blobs("b", indices=[0])[0].read() == b"x"
import lance
assert lance.dataset(ds.uri).take_blobs("b", indices=[0])[0].read() == b"x"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
