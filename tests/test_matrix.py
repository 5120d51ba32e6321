# SPDX-License-Identifier: Apache-2.0
"""Every type with every null pattern, both ways between glaive and pylance.

One wide table per row count, version and null pattern holds all types, so that the matrix takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import glaive
from columns import NULL_PATTERNS, column, columns, differences, field_metadata, nested_columns

ROWS = (0, 1, 1023, 1024, 1025, 100_000)
VERSIONS = ("2.1", "2.2")


# What one column of nested values holds grows with the rows, and so does the time to compare it.
NESTED_ROWS = 10_000


def wide_table(rows: int, pattern: str, version: str) -> pa.Table:
    with_nested = rows <= NESTED_ROWS or pattern == "random 10 %"
    makes = columns() | (nested_columns(version) if with_nested else {})
    arrays = {name: column(make, rows, pattern) for name, make in makes.items()}
    fields = [pa.field(name, array.type, metadata=field_metadata(name)) for name, array in arrays.items()]
    return pa.table(list(arrays.values()), pa.schema(fields))


def write(engine: Any, table: pa.Table, uri: Path, version: str) -> None:
    if engine is lance:  # pylance panics on a sliced struct in a struct
        name = "struct of struct"
        copy = table.column(name).take(pa.array(range(len(table)), pa.int64()))
        table = table.set_column(table.column_names.index(name), name, copy)
    engine.write_dataset(table, str(uri), data_storage_version=version)


def as_stored(table: pa.Table) -> pa.Table:
    """String views come back as strings."""
    fields = [f.with_type(pa.string()) if f.type == pa.string_view() else f for f in table.schema]
    return table.cast(pa.schema(fields))


def positions(rows: int) -> list[list[int]]:
    """Rows to take: in order, out of order with repeats, the edges."""
    if rows == 0:
        return [[]]
    random = np.random.default_rng(rows)
    some = random.integers(0, rows, 60)
    return [
        sorted(set(some.tolist())),
        [*some.tolist(), *some[:5].tolist()],
        [rows - 1, 0],
        list(range(rows // 2, min(rows // 2 + 20, rows))),
    ]


def slices(rows: int) -> list[tuple[int, int]]:
    return [(0, 1), (max(rows - 1, 0), 5), (1023, 2), (rows // 2, 100), (rows, 3)]


def reads(table: pa.Table, ds: Any) -> Iterator[tuple[str, Callable[[], pa.Table], pa.Table]]:
    """All the ways to read, and what they must give."""
    yield "scan", ds.to_table, table
    for name in table.column_names:
        yield f"column {name}", lambda n=name: ds.to_table(columns=[n]), table.select([name])
    for rows in positions(len(table)):
        yield f"take {rows[:3]}", lambda r=rows: ds.take(r), table.take(pa.array(rows, pa.int64()))
    for offset, limit in slices(len(table)):
        yield (
            f"slice {offset}+{limit}",
            lambda o=offset, n=limit: ds.to_table(offset=o, limit=n),
            table.slice(offset, limit),
        )


def check_reads(table: pa.Table, ds: Any) -> None:
    failed = []
    table = as_stored(table)
    for what, read, expected in reads(table, ds):
        failed += [f"{what}: {difference}" for difference in differences(read(), expected)]
    assert not failed, "\n".join(failed[:40])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("pattern", NULL_PATTERNS)
@pytest.mark.parametrize("rows", ROWS)
def test_matrix(rows: int, pattern: str, version: str, tmp_path: Path) -> None:
    table = wide_table(rows, pattern, version)
    write(glaive, table, tmp_path / "glaive.lance", version)
    write(lance, table, tmp_path / "lance.lance", version)
    check_reads(table, lance.dataset(str(tmp_path / "glaive.lance")))
    check_reads(table, glaive.dataset(tmp_path / "lance.lance"))
    check_reads(table, glaive.dataset(tmp_path / "glaive.lance"))


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_are_stored(version: str, tmp_path: Path) -> None:
    write(glaive, pa.table({"a": [1]}), tmp_path / "t.lance", version)
    for engine in (glaive, lance):
        ds = engine.dataset(str(tmp_path / "t.lance"))
        file = ds.get_fragments()[0].metadata.files[0]
        assert ds.data_storage_version == version
        assert f"{file.file_major_version}.{file.file_minor_version}" == version
