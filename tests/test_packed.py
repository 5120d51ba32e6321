# SPDX-License-Identifier: Apache-2.0
"""Packed structs beside pylance: what it reads back is written and read, the rest is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance.file
import pyarrow as pa
import pytest

import glaive.file
from glaive.errors import UnsupportedError

ENGINES: dict[str, Any] = {"glaive": glaive, "pylance": lance}
ROWS = 300
INT, FLOAT, TEXT = pa.int32(), pa.float32(), pa.string()


def packed(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    """A struct; the structs in it ask to be packed too."""
    metadata = {"lance-encoding:packed": "true"}
    return pa.struct(
        [pa.field(n, t, metadata=metadata if pa.types.is_struct(t) else None) for n, t in fields]
    )


NUMBERS = packed(("x", INT), ("y", pa.int64()))
MIXED = packed(("x", INT), ("t", TEXT))
Case = tuple[pa.DataType, Callable[[int], Any], set[str]]
# Type, value of a row, versions that can store it.
CASES: dict[str, Case] = {
    "numbers": (NUMBERS, lambda i: {"x": i, "y": -i}, {"2.0", "2.1", "2.2"}),
    "null rows": (NUMBERS, lambda i: None if i % 3 == 0 else {"x": i, "y": -i}, {"2.1", "2.2"}),
    "bytes": (
        packed(("x", INT), ("b", pa.binary(3))),
        lambda i: {"x": i, "b": b"abc"},
        {"2.0", "2.1", "2.2"},
    ),
    "text": (MIXED, lambda i: {"x": i, "t": "s" * (i % 9)}, {"2.2"}),
    "vector": (
        packed(("x", INT), ("v", pa.list_(FLOAT, 3))),
        lambda i: {"x": i, "v": [i, 1, 2]},
        {"2.0", "2.2"},
    ),
    "vector of nulls": (
        packed(("x", INT), ("v", pa.list_(FLOAT, 3))),
        lambda i: {"x": i, "v": [i, None, 2]},
        {"2.2"},
    ),
    "vector of bools": (
        packed(("x", INT), ("v", pa.list_(pa.bool_(), 8))),
        lambda i: {"x": i, "v": [i % 2 == 0] * 8},
        {"2.2"},
    ),
    "matrix": (
        packed(("x", INT), ("v", pa.list_(pa.list_(FLOAT, 2), 2))),
        lambda i: {"x": i, "v": [[i, 1], [2, 3]]},
        {"2.0", "2.2"},
    ),
    "packed text": (
        packed(("a", INT), ("q", MIXED)),
        lambda i: {"a": i, "q": {"x": i, "t": "s" * (i % 9)}},
        {"2.2"},
    ),
    "packed vector": (
        packed(("a", TEXT), ("q", packed(("x", INT), ("v", pa.list_(FLOAT, 2))))),
        lambda i: {"a": "a" * (i % 4), "q": {"x": i, "v": [i, None]}},
        {"2.2"},
    ),
    "packed thrice": (
        packed(("a", INT), ("q", packed(("x", INT), ("r", packed(("t", pa.large_string())))))),
        lambda i: {"a": i, "q": {"x": i, "r": {"t": f"some text that comes again {i % 7}"}}},
        {"2.2"},
    ),
    "packed numbers": (packed(("a", INT), ("q", NUMBERS)), lambda i: {"a": i, "q": {"x": i, "y": 1}}, set()),
    "packed numbers beside text": (
        packed(("a", TEXT), ("q", NUMBERS)),
        lambda i: {"a": "a", "q": {"x": i, "y": 1}},
        set(),
    ),
    "bool": (packed(("x", INT), ("b", pa.bool_())), lambda i: {"x": i, "b": True}, set()),
    "list": (packed(("x", INT), ("v", pa.list_(INT))), lambda i: {"x": i, "v": [i]}, set()),
    "vector of structs": (
        packed(("x", INT), ("v", pa.list_(NUMBERS, 2))),
        lambda i: {"x": i, "v": [{"x": 1, "y": 2}] * 2},
        set(),
    ),
    "child nulls": (packed(("x", INT), ("t", TEXT)), lambda i: {"x": i, "t": None}, set()),
    "null struct in it": (packed(("a", INT), ("q", MIXED)), lambda i: {"a": i, "q": None}, set()),
}


def make(case: str) -> pa.Table:
    data_type, value, _ = CASES[case]
    field = pa.field("p", data_type, metadata={"lance-encoding:packed": "true"})
    return pa.table([pa.array([value(i) for i in range(ROWS)], data_type)], schema=pa.schema([field]))


def write(engine: str, path: Path, table: pa.Table, version: str) -> None:
    with ENGINES[engine].file.LanceFileWriter(str(path), table.schema, version=version) as out:
        out.write_batch(table)


@pytest.mark.parametrize("writer", ENGINES)
@pytest.mark.parametrize(("case", "version"), [(c, v) for c in CASES for v in sorted(CASES[c][2])])
def test_both_ways(case: str, version: str, writer: str, tmp_path: Path) -> None:
    table, path = make(case), tmp_path / "f.lance"
    write(writer, path, table, version)
    for engine in ENGINES.values():
        reader = engine.file.LanceFileReader(str(path))
        assert reader.read_all().to_table().to_pylist() == table.to_pylist()
        assert reader.take_rows([0, 7, 299]).to_table().to_pylist() == table.take([0, 7, 299]).to_pylist()


REFUSED = [(c, v) for c in CASES for v in ("2.0", "2.1", "2.2") if v not in CASES[c][2]]


@pytest.mark.parametrize(("case", "version"), REFUSED)
def test_what_cannot_be_read_back_is_refused(case: str, version: str, tmp_path: Path) -> None:
    with pytest.raises((UnsupportedError, ValueError), match="column 'p'"):
        write("glaive", tmp_path / "f.lance", make(case), version)


@pytest.mark.foreign_panics
@pytest.mark.parametrize("case", ["packed numbers", "vector of bools"])
def test_what_pylance_writes_and_cannot_read(case: str, tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    write("pylance", path, make(case), "2.0")
    with pytest.raises(OSError, match="column 'p'") as caught:
        glaive.file.LanceFileReader(str(path)).read_all().to_table()
    assert "packed" in str(caught.value)
