# SPDX-License-Identifier: Apache-2.0
"""Random nested tables, both ways between glaive and pylance.

`make soak` draws 2,000 tables instead of 100 (environment variable GLAIVE_NESTED_TABLES). A table is drawn
from its number, so that a failure names all it takes to repeat it. pylance panics on or mistakes some of its
own input: what it cannot read back from itself is no fault of glaive's. Such tables are counted, and there
must be few.
"""

from __future__ import annotations

import datetime
import decimal
import os
import random
from pathlib import Path
from typing import Any

import lance.file
import pyarrow as pa
import pytest

import glaive.file

TABLES = int(os.environ.get("GLAIVE_NESTED_TABLES", "100"))
GROUPS = 10
DEPTH = 4
ROWS = (1, 3, 50, 1023, 1025, 2500)
# What one table may hold at most, so that no draw takes minutes.
MAX_VALUES = 60_000
# pylance's own failures: this share of the directions that involve it, and a few more in a small sample.
MAX_SKIPPED, FEW = 0.2, 2

LEAVES = [
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.timestamp("us"),
    pa.decimal128(20, 2),
    pa.binary(3),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.int64()),
    pa.list_(pa.float32(), 4),
    pa.list_(pa.float32(), 70),
    pa.list_(pa.bool_(), 8),
    pa.list_(pa.list_(pa.int16(), 3), 2),
]


class Draw:
    """Types and values from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.version = self.random.choice(["2.1", "2.2"])
        self.rows = self.random.choice(ROWS)
        self.null_share = self.random.choice([0, 0, 0.1, 0.5])
        self.empty_share = self.random.choice([0, 0.2, 0.9])
        self.left = MAX_VALUES

    def table(self) -> pa.Table:
        kinds = [self.kind(DEPTH) for _ in range(3)]
        # The share of a column is fixed, so that all columns have rows.
        columns = []
        for kind in kinds:
            self.left = MAX_VALUES // 3
            columns.append([self.value(kind) for _ in range(self.rows)])
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        return pa.table({f"c{i}": array for i, array in enumerate(arrays)})

    def kind(self, depth: int) -> pa.DataType:
        what = self.random.random()
        if depth == 0 or what < 0.25:
            return self.random.choice(LEAVES)
        if what < 0.5:
            return pa.list_(self.kind(depth - 1))
        if what < 0.6:
            return pa.large_list(self.kind(depth - 1))
        if what < 0.9 or self.version == "2.1":
            count = self.random.randint(1, 3)
            return pa.struct([pa.field(f"f{i}", self.kind(depth - 1)) for i in range(count)])
        return pa.map_(pa.string(), self.kind(depth - 1))

    def value(self, kind: pa.DataType, share: float = 1) -> Any:
        if self.random.random() < self.null_share * share:
            return None
        self.left -= 1
        if pa.types.is_map(kind):
            return [(str(i), self.value(kind.item_type)) for i in range(self.length())]
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return [self.value(kind.value_type) for _ in range(self.length())]
        if pa.types.is_fixed_size_list(kind):
            return [self.value(kind.value_type, 0.3) for _ in range(kind.list_size)]
        if pa.types.is_struct(kind):
            return {field.name: self.value(field.type) for field in kind}
        return self.leaf(kind)

    def length(self) -> int:
        if self.left <= 0 or self.random.random() < self.empty_share:
            return 0
        return self.random.choice([1, 1, 2, 3, 7])

    def leaf(self, kind: pa.DataType) -> Any:
        draw = self.random
        if pa.types.is_dictionary(kind):
            return (
                f"name {draw.randint(0, 20)}" if pa.types.is_string(kind.value_type) else draw.randint(0, 50)
            )
        if pa.types.is_boolean(kind):
            return draw.random() < 0.5
        if pa.types.is_floating(kind):
            return draw.randint(0, 1000) / 8
        if pa.types.is_decimal(kind):
            return decimal.Decimal(draw.randint(0, 10**6)) / 100
        if pa.types.is_timestamp(kind):
            return datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=draw.randint(0, 10**6))
        if pa.types.is_integer(kind):
            return draw.randint(0, 100)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return draw.choice(["a", "bb", f"text {draw.randint(0, 10**6)}", "w" * draw.choice([1, 300])])
        if pa.types.is_fixed_size_binary(kind):
            return draw.randbytes(kind.byte_width)
        return draw.randbytes(draw.randint(0, 9))


def write(engine: Any, path: Path, draw: Draw, table: pa.Table, chunk: int | None) -> None:
    path.unlink(missing_ok=True)
    # One page a batch, so that pages differ in their nulls.
    cache = None if chunk is None else 1
    with engine.LanceFileWriter(
        str(path), table.schema, version=draw.version, data_cache_bytes=cache
    ) as writer:
        for batch in table.to_batches(max_chunksize=chunk):
            writer.write_batch(batch)


def differences(engine: Any, path: Path, table: pa.Table, rows: list[int]) -> list[str]:
    reader = engine.LanceFileReader(str(path))
    start = len(table) // 3
    found = {
        "scan": (reader.read_all().to_table(), table),
        "take": (reader.take_rows(rows).to_table(), table.take(rows)),
        "range": (
            reader.read_range(start, len(table) - start).to_table(),
            table.slice(start),
        ),
    }
    out = []
    for how, (got, expected) in found.items():
        if got.schema.types != expected.schema.types:
            out.append(f"{how}: types {got.schema.types}")
            continue
        for name in expected.column_names:
            left, right = got[name].combine_chunks(), expected[name].combine_chunks()
            if not left.equals(right) and left.to_pylist() != right.to_pylist():
                out.append(f"{how}: column {name} of type {right.type}")
    return out


def pylance_copes(path: Path, draw: Draw, table: pa.Table, chunk: int | None, rows: list[int]) -> bool:
    """Whether pylance reads back what it writes."""
    try:
        write(lance.file, path, draw, table, chunk)
        return not differences(lance.file, path, table, rows)
    except BaseException as error:  # its panics are no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return False


def check(seed: int, path: Path) -> tuple[list[str], int]:
    """What is wrong with one table, and how many directions pylance could not go."""
    draw = Draw(seed)
    table = draw.table()
    several = draw.random.random() < 0.4
    chunk = max(1, draw.rows // 3) if several else None
    rows = sorted(draw.random.sample(range(draw.rows), min(draw.rows, 5)))
    place = f"table {seed} ({draw.version}, {draw.rows} rows, batches of {chunk})"
    write(glaive.file, path, draw, table, chunk)
    wrong = [f"{place}: own {what}" for what in differences(glaive.file, path, table, rows)]
    skipped = 0
    try:
        by_pylance = differences(lance.file, path, table, rows)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        by_pylance = [f"{type(error).__name__} {str(error)[:300]}"]
    if by_pylance and pylance_copes(path, draw, table, chunk, rows):
        wrong += [f"{place}: pylance reading glaive: {what}" for what in by_pylance]
    elif by_pylance:
        skipped += 1
    try:
        write(lance.file, path, draw, table, chunk)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return wrong, skipped + 1
    wrong += [
        f"{place}: glaive reading pylance: {what}" for what in differences(glaive.file, path, table, rows)
    ]
    return wrong, skipped


@pytest.mark.foreign_panics
@pytest.mark.parametrize("group", range(GROUPS))
def test_random_nested_tables(group: int, tmp_path: Path) -> None:
    wrong: list[str] = []
    skipped = 0
    seeds = range(group, TABLES, GROUPS)
    for seed in seeds:
        failed, own = check(seed, tmp_path / "t.lance")
        wrong += failed
        skipped += own
    assert not wrong, "\n".join(wrong[:20])
    assert skipped <= FEW + MAX_SKIPPED * 2 * len(seeds), f"{skipped} of {2 * len(seeds)} directions skipped"
