# SPDX-License-Identifier: Apache-2.0
"""Fixed-size lists of structs: what pylance writes and cannot read back, and what nobody takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance.file
import pyarrow as pa
import pytest

import glaive.file
from glaive.errors import UnsupportedError

ENGINES: dict[str, Any] = {"glaive": glaive, "pylance": lance}
ROWS = 50


def vectors(size: int = 2, item: pa.Array | None = None) -> pa.Array:
    numbers = pa.array([None if i % 7 == 0 else i for i in range(ROWS * size)], pa.int32())
    texts = pa.array([f"t{i}" for i in range(ROWS * size)])
    item = item or pa.StructArray.from_arrays([numbers, texts], ["a", "b"])
    mask = pa.array([i % 5 == 0 for i in range(ROWS)])
    return pa.FixedSizeListArray.from_arrays(item, size, mask=mask)


def tables() -> dict[str, pa.Table]:
    numbers = pa.array(range(ROWS))
    return {
        "beside a column": pa.table({"i": numbers, "v": vectors()}),
        "beside another size": pa.table({"v": vectors(2), "w": vectors(3)}),
        "beside a sibling": pa.table({"s": pa.StructArray.from_arrays([numbers, vectors()], ["i", "v"])}),
    }


@pytest.mark.foreign_panics
@pytest.mark.parametrize("writer", ENGINES)
@pytest.mark.parametrize("shape", tables())
def test_only_glaive_reads(shape: str, writer: str, tmp_path: Path) -> None:
    path, uri, table = str(tmp_path / "f.lance"), str(tmp_path / "t.lance"), tables()[shape]
    with ENGINES[writer].file.LanceFileWriter(path, table.schema, version="2.2") as out:
        out.write_batch(table)
    ENGINES[writer].write_dataset(table, uri, data_storage_version="2.2")
    expected = table.to_pylist()
    reader = glaive.file.LanceFileReader(path)
    assert reader.read_all().to_table().to_pylist() == expected
    assert reader.read_range(13, 20).to_table().to_pylist() == expected[13:33]
    assert reader.take_rows([0, 7, 49]).to_table().to_pylist() == [expected[i] for i in (0, 7, 49)]
    assert glaive.dataset(uri).to_table().to_pylist() == expected
    assert glaive.dataset(uri).take([49, 3]).to_pylist() == [expected[i] for i in (49, 3)]
    with pytest.raises(Exception, match="differing lengths"):
        lance.file.LanceFileReader(path).read_all().to_table()
    if shape != "beside a sibling":
        alone = lance.file.LanceFileReader(path, columns=["v"]).read_all().to_table()
        assert alone.to_pylist() == table.select(["v"]).to_pylist()


def lists_of_vectors() -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 20, 20, ROWS], pa.int32()), vectors())


def vectors_with_lists() -> pa.Array:
    lists = pa.array([[i] * (i % 3) for i in range(ROWS * 2)])
    return vectors(2, pa.StructArray.from_arrays([lists], ["l"]))


@pytest.mark.parametrize("array", [lists_of_vectors(), vectors_with_lists()], ids=["outside", "inside"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_together_with_lists(array: pa.Array, version: str, tmp_path: Path) -> None:
    table = pa.table({"v": array})
    with pytest.raises(UnsupportedError, match="column 'v"):
        glaive.write_dataset(table, tmp_path / "t.lance", data_storage_version=version)
    with pytest.raises(UnsupportedError, match="column 'v"):
        glaive.file.LanceFileWriter(str(tmp_path / "f.lance"), table.schema, version=version)


@pytest.mark.foreign_panics
def test_vectors_with_lists_of_pylance(tmp_path: Path) -> None:
    """pylance writes them and cannot read them; the error says what is not supported."""
    path, table = str(tmp_path / "f.lance"), pa.table({"v": vectors_with_lists()})
    with lance.file.LanceFileWriter(path, table.schema, version="2.2") as out:
        out.write_batch(table)
    with pytest.raises(UnsupportedError, match=r"column 'v.*fixed-size lists of structs together with lists"):
        glaive.file.LanceFileReader(path).read_all().to_table()
