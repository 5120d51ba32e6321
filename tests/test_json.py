# SPDX-License-Identifier: Apache-2.0
"""JSON columns beside pylance: text in, text out, the same bytes in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.file
import pyarrow as pa
import pytest

import glaive.file

ENGINES: dict[str, Any] = {"glaive": glaive, "pylance": lance}
DOCUMENTS = [
    '{"b": 1, "a": [1, 2.5, -3, "ä\\n\\u2028", null, true], "": {}}',
    None,
    "null",
    " [18446744073709551615, -9223372036854775808, 1e300, 0.1, 123456789012345678901234567890] ",
    '"text"',
    "{'lenient': NaN, key: [1,,2]}",
]
TEXTS = [
    '{"":{},"a":[1,2.5,-3,"ä\\n\u2028",null,true],"b":1}',
    None,
    "null",
    "[18446744073709551615,-9223372036854775808,1e+300,0.1,1.2345678901234568e+29]",
    '"text"',
    '{"key":[1,null,2],"lenient":null}',
]


def json(values: list[str | None], storage: pa.DataType | None = None) -> pa.Array:
    storage = storage or pa.string()
    return pa.ExtensionArray.from_storage(pa.json_(storage), pa.array(values, storage))


def shapes(documents: list[str | None]) -> dict[str, tuple[str, pa.Array]]:
    """First version, array."""
    numbers = pa.array(range(6))
    return {
        "flat": ("2.0", json(documents)),
        "large": ("2.0", json(documents, pa.large_string())),
        "struct": ("2.0", pa.StructArray.from_arrays([numbers, json(documents)], ["n", "j"])),
        "list": ("2.0", pa.ListArray.from_arrays(pa.array([0, 2, 2, 6], pa.int32()), json(documents))),
        "list of structs": (
            "2.0",
            pa.ListArray.from_arrays(
                pa.array([0, 2, 2, 6], pa.int32()), pa.StructArray.from_arrays([json(documents)], ["j"])
            ),
        ),
        "null structs": (
            "2.1",
            pa.StructArray.from_arrays(
                [json(documents)], ["j"], mask=pa.array([False, True, True, False, False, False])
            ),
        ),
        "vectors of structs": (
            "2.2",
            pa.FixedSizeListArray.from_arrays(pa.StructArray.from_arrays([json(documents)], ["j"]), 2),
        ),
        "map": (
            "2.2",
            pa.MapArray.from_arrays(
                pa.array([0, 2, 6], pa.int32()), pa.array(list("abcdef")), json(documents)
            ),
        ),
    }


CASES = [
    (name, version)
    for name, (first, _) in shapes(DOCUMENTS).items()
    for version in ("2.0", "2.1", "2.2")
    if version >= first
]


@pytest.mark.parametrize("writer", ENGINES)
@pytest.mark.parametrize(("shape", "version"), CASES)
def test_tables_both_ways(shape: str, version: str, writer: str, uri: str) -> None:
    given, expected = (pa.table({"top": shapes(d)[shape][1]}) for d in (DOCUMENTS, TEXTS))
    ENGINES[writer].write_dataset(given, uri, data_storage_version=version)
    ours, theirs = glaive.dataset(uri), lance.dataset(uri)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    table = ours.to_table()
    assert table.schema.equals(ours.schema, check_metadata=True)
    assert table.to_pylist() == expected.to_pylist() == theirs.to_table().to_pylist()
    table.validate(full=True)
    assert ours.take([1, 0]).to_pylist() == theirs.take([1, 0]).to_pylist()
    assert ours.take([1, 0]).schema == theirs.take([1, 0]).schema
    assert [b.to_pylist() for b in ours.to_batches(batch_size=2)] == [
        b.to_pylist() for b in theirs.to_batches(batch_size=2)
    ]
    (fragment,) = ours.get_fragments()
    assert fragment.to_table().equals(table)
    assert fragment.schema == ours.schema
    assert [str(f.to_arrow()) for f in ours.lance_schema.fields()] == [
        str(f.to_arrow()) for f in theirs.lance_schema.fields()
    ]


@pytest.mark.parametrize("writer", ENGINES)
@pytest.mark.parametrize(("shape", "version"), CASES)
def test_files_both_ways(shape: str, version: str, writer: str, tmp_path: Path) -> None:
    """In files the documents stay binary, and both engines write the same bytes."""
    path = str(tmp_path / "f.lance")
    given = pa.table({"top": shapes(DOCUMENTS)[shape][1]})
    with ENGINES[writer].file.LanceFileWriter(path, given.schema, version=version) as out:
        out.write_batch(given)
    ours, theirs = (engine.file.LanceFileReader(path).read_all().to_table() for engine in ENGINES.values())
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert ours.equals(theirs)
    other = str(tmp_path / "other.lance")
    with lance.file.LanceFileWriter(other, given.schema, version=version) as out:
        out.write_batch(given)
    assert ours.equals(lance.file.LanceFileReader(other).read_all().to_table())


def test_children_by_path(uri: str) -> None:
    glaive.write_dataset(pa.table({"top": shapes(DOCUMENTS)["struct"][1]}), uri)
    ours, theirs = (engine.dataset(uri).to_table(columns=["top.j"]) for engine in ENGINES.values())
    assert ours.schema == theirs.schema
    assert ours.to_pylist() == theirs.to_pylist() == [{"top.j": text} for text in TEXTS]


def test_appending_to_each_other(uri: str) -> None:
    given = pa.table({"j": json(DOCUMENTS)})
    lance.write_dataset(given, uri)
    glaive.write_dataset(given, uri, mode="append")
    lance.write_dataset(given, uri, mode="append")
    rows = [{"j": text} for text in TEXTS * 3]
    assert glaive.dataset(uri).to_table().to_pylist() == rows
    assert lance.dataset(uri).to_table().to_pylist() == rows
    # A copy of the table is a table of JSON again.
    glaive.write_dataset(glaive.dataset(uri).to_table(), uri, mode="overwrite")
    assert lance.dataset(uri).schema == glaive.dataset(uri).schema
    assert lance.dataset(uri).to_table().to_pylist() == rows


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_text_that_is_no_json(version: str, uri: str, tmp_path: Path) -> None:
    batches = pa.table({"j": json(["1", "2"])}), pa.table({"j": json([None, "{oops"])})
    data = pa.concat_tables(batches)
    text = r'column \'j\', row 3: "\{oops" is not JSON'
    with pytest.raises(ValueError, match=text):
        glaive.write_dataset(data, uri, data_storage_version=version)
    assert not Path(uri, "_versions").exists()
    path = str(tmp_path / "f.lance")
    writer = glaive.file.LanceFileWriter(path, version=version)
    writer.write_batch(batches[0])
    with pytest.raises(ValueError, match=text):
        writer.write_batch(batches[1])


def test_text_that_is_not_utf8(uri: str) -> None:
    offsets, data = pa.py_buffer(b"\0\0\0\0\3\0\0\0"), pa.py_buffer(b'"\xff"')
    storage = pa.Array.from_buffers(pa.string(), 1, [None, offsets, data])
    broken = pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(), storage)})
    with pytest.raises(ValueError, match="column 'j', row 0: JSON text is not UTF-8"):
        glaive.write_dataset(broken, uri)


def test_nesting_without_end(uri: str) -> None:
    with pytest.raises(ValueError, match="column 'j', row 0: JSON nested deeper than 1000 levels"):
        glaive.write_dataset(pa.table({"j": json(["[" * 1_000_000])}), uri)


@pytest.mark.parametrize("engine", ENGINES)
def test_bytes_that_are_no_json(engine: str, uri: str) -> None:
    field = pa.field("j", pa.large_binary(), metadata={"ARROW:extension:name": "lance.json"})
    good = bytes.fromhex("200000002000000250 07")
    array = pa.array([good, None, b"\x80\xff\xff\xff garbage"], pa.large_binary())
    ENGINES[engine].write_dataset(pa.table([array], schema=pa.schema([field])), uri)
    dataset = glaive.dataset(uri)
    assert dataset.take([0]).to_pylist() == [{"j": "7"}]
    for read in (dataset.to_table, lambda: dataset.take([0, 2])):
        with pytest.raises(OSError, match=r"column 'j', row 2: not a document in binary JSON"):
            read()
