# SPDX-License-Identifier: Apache-2.0
"""The matrix of types, nestings, nulls, sizes, versions and metadata keys, both ways with pylance.

`make test` runs a seeded choice in which every two values of two dimensions meet; `make matrix` the whole
product (environment variable GLAIVE_MATRIX: `0/1` for all tables, `3/20` for every twentieth from number 3).
Every table is written by each engine and read by each: in scans and by row, out of order and with repeats.

pylance fails on some of its own files. Such cells are listed in `FAILURES` with an example, which must
still fail; glaive is checked against itself there. Any other cell on which pylance fails, fails the test.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

import glaive
import glaive.file
from cells import PAGED, VARIABLE, VECTORS, Cell, by_table, make, pairs, product

pytestmark = pytest.mark.foreign_panics


def tables() -> dict[str, list[Cell]]:
    part = os.environ.get("GLAIVE_MATRIX")
    if not part:
        return by_table(pairs())
    first, step = map(int, part.split("/"))
    return dict(itertools.islice(by_table(product()).items(), first, None, step))


TABLES = tables()
BATCH = 2000


@dataclass(frozen=True)
class Failure:
    """Something that pylance 14.0.2 cannot read back from itself."""

    reason: str
    example: Cell
    holds: Callable[[Cell], bool]


def in_vector(cell: Cell) -> bool:
    return any(node in VECTORS for node in cell.nodes)


FAILURES = [
    Failure(
        "vectors of nothing but nulls in mini-blocks: panics while writing",
        Cell("float16", "wide vector", "all leaves", 4096, "2.1", "miniblock"),
        lambda cell: in_vector(cell) and cell.nulls == "all leaves" and cell.key == "miniblock",
    ),
    Failure(
        "vectors of booleans with null items in full-zip pages: panics while reading",
        Cell("bool", "list of vectors", "random", 4097, "2.2", "fullzip"),
        lambda cell: in_vector(cell) and cell.leaf == "bool" and cell.key.startswith("fullzip"),
    ),
    Failure(
        "dictionaries of one long page, read in several batches: keys overflow while they are joined",
        Cell("dictionary", "list x 5", "some", 4096, "2.2", ""),
        lambda cell: cell.leaf == "dictionary" and cell.rows >= 4095 and bool(cell.nodes),
    ),
    Failure(
        "packed structs of fixed width in full-zip pages: refused while writing",
        Cell("float64", "packed", "none", 4097, "2.1", "fullzip"),
        lambda cell: (
            cell.nesting == "packed" and cell.key.startswith("fullzip") and cell.leaf not in VARIABLE
        ),
    ),
]


def table_of(cells: list[Cell]) -> pa.Table:
    columns = [make(cell, cell.rows) for cell in cells]
    fields = [field.with_name(f"c{i}") for i, (field, _) in enumerate(columns)]
    return pa.table([array for _, array in columns], pa.schema(fields))


def write(engine: Any, table: pa.Table, path: Path, version: str) -> None:
    """A table; with many rows one file of several pages a column."""
    if len(table) < PAGED:
        engine.write_dataset(table, str(path), data_storage_version=version)
        return
    writer = engine.file.LanceFileWriter(str(path), table.schema, version=version, data_cache_bytes=1)
    with writer:
        for batch in table.to_batches(max_chunksize=BATCH):
            writer.write_batch(unsliced(batch))


def unsliced(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy: pylance panics on a sliced struct that holds a list."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def positions(rows: int) -> list[int]:
    """Rows to take: in order, out of order and repeated, with the edges."""
    if rows == 0:
        return []
    some = np.random.default_rng(rows).integers(0, rows, 20).tolist()
    return [*some, 0, rows - 1, some[0], *range(rows // 2, min(rows, rows // 2 + 5))]


def reads(engine: Any, path: Path, rows: int) -> Iterable[tuple[str, pa.Table, list[int] | None]]:
    """What a scan and a take give, and the rows that they must."""
    taken = positions(rows)
    if rows < PAGED:
        ds = engine.dataset(str(path))
        yield "scan", ds.to_table(), None
        yield "take", ds.take(taken), taken
        return
    reader = engine.file.LanceFileReader(str(path))
    yield "scan", reader.read_all().to_table(), None
    taken = sorted(set(taken))
    yield "take", reader.take_rows(taken).to_table(), taken


def equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    if left.type != right.type or len(left) != len(right):
        return False
    # Dictionaries may differ in unused items and in keys.
    return left.equals(right) or left.to_pylist() == right.to_pylist()


def differences(engine: Any, path: Path, cells: list[Cell], table: pa.Table) -> list[str]:
    out = []
    for how, got, rows in reads(engine, path, len(table)):
        expected = table if rows is None else table.take(pa.array(rows, pa.int64()))
        for cell, name in zip(cells, table.column_names, strict=True):
            if not equal(got[name], expected[name]):
                out.append(f"{how} by {engine.__name__}: {cell}: {got[name].type}")
    return out


def outcome(what: Callable[[], list[str]]) -> list[str]:
    """Differences, or what was raised; pylance's panics are no `Exception`."""
    try:
        return what()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return [f"{type(error).__name__}: {str(error)[:200]}"]


def copes(cells: list[Cell], table: pa.Table, path: Path) -> list[str]:
    """What pylance makes of its own file."""

    def both() -> list[str]:
        write(lance, table, path, cells[0].version)
        return differences(lance, path, cells, table)

    return outcome(both)


def check(cells: list[Cell], directory: Path) -> list[str]:
    """What is wrong with a table. Listed cells, and all if something is, are looked at one by one."""
    listed = [cell for cell in cells if is_listed(cell)]
    others = [cell for cell in cells if not is_listed(cell)]
    wrong = check_both_ways(others, directory) if others else []
    out = []
    for number, cell in enumerate(cells if wrong else listed):
        alone = directory / f"column {number}"
        alone.mkdir()
        out += check_both_ways([cell], alone)
    return out or [f"only together: {text}" for text in wrong]


def is_listed(cell: Cell) -> bool:
    return any(failure.holds(cell) for failure in FAILURES)


def check_both_ways(cells: list[Cell], directory: Path) -> list[str]:
    table, version = table_of(cells), cells[0].version
    own, foreign = directory / "glaive.lance", directory / "lance.lance"

    def by_glaive() -> list[str]:
        write(glaive, table, own, version)
        return differences(glaive, own, cells, table)

    wrong = outcome(by_glaive)
    if wrong:
        return [f"{cells[0]}: glaive by itself: {text}" for text in wrong]
    failed = copes(cells, table, foreign)
    if failed and len(cells) == 1:
        if is_listed(cells[0]):
            return []
        return [f"{cells[0]}: not listed: pylance by itself: {failed[0]}"]
    wrong = [f"pylance reading glaive: {d}" for d in outcome(lambda: differences(lance, own, cells, table))]
    wrong += [
        f"glaive reading pylance: {d}" for d in outcome(lambda: differences(glaive, foreign, cells, table))
    ]
    return [f"{cells[0]}: {text}" for text in failed + wrong]


@pytest.mark.parametrize("name", TABLES)
def test_cells(name: str, tmp_path: Path) -> None:
    wrong = check(TABLES[name], tmp_path)
    assert not wrong, "\n".join(wrong[:40])


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.reason)
def test_pylance_still_fails(failure: Failure, tmp_path: Path) -> None:
    cell = failure.example
    assert failure.holds(cell)
    assert copes([cell], table_of([cell]), tmp_path / "t.lance"), "pylance can do it now: unlist it"
