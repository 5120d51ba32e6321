# SPDX-License-Identifier: Apache-2.0
"""Arrow data crosses the border of the native module without a copy, and aligned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import glaive
from columns import NULL_PATTERNS, column, columns
from glaive import _glaive

# One column of every kind of layout.
LAYOUTS = [
    *("bool", "int8 full", "int32 full", "int64 full", "double full", "halffloat full", "uuid", "struct"),
    *("string text", "large_string text", "binary short", "string wide", "string few", "binary[3]"),
    *("decimal128(38, 10)", "decimal256(76, 30)", "timestamp[us, tz=UTC]", "int64 runs", "int64 small"),
]


def addresses(array: pa.Array) -> list[int]:
    """Addresses of the buffers in the order of `_glaive.buffer_addresses`; 0 where there is none."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_struct(array.type):
        children = [array.field(i) for i in range(array.type.num_fields)]
        return [_validity(array), *(a for child in children for a in addresses(child))]
    return [_validity(array), *(_address(buffer) for buffer in array.buffers()[1:])]


def _validity(array: pa.Array) -> int:
    """A bitmap without nulls is not taken over."""
    return _address(array.buffers()[0]) if array.null_count else 0


def _address(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else buffer.address


def flat(batch: pa.RecordBatch) -> list[int]:
    return [address for array in batch.columns for address in addresses(array)]


@pytest.mark.parametrize("pattern", ["none", "random 10 %"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_input_is_not_copied(name: str, pattern: str) -> None:
    batch = pa.record_batch({"a": column(columns()[name], 5000, pattern)})
    assert _glaive.buffer_addresses(batch) == flat(batch)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("pattern", [p for p in NULL_PATTERNS if p in ("none", "all", "random 10 %")])
def test_output_is_not_copied(pattern: str, version: str, tmp_path: Path) -> None:
    table = pa.table({name: column(columns()[name], 20_000, pattern) for name in LAYOUTS})
    ds = glaive.write_dataset(table, tmp_path / "t.lance", data_storage_version=version)
    pairs = _glaive.scan_and_addresses(ds._ds, None)
    assert sum(batch.num_rows for batch, _ in pairs) == len(table)
    for batch, inside in pairs:
        assert flat(batch) == inside


def test_buffers_are_aligned(tmp_path: Path) -> None:
    table = pa.table({name: column(columns()[name], 20_000, "random 10 %") for name in LAYOUTS})
    ds = glaive.write_dataset(table, tmp_path / "t.lance")
    random = np.random.default_rng(1).integers(0, len(table), 1000)
    batches = [*ds.to_batches(), *ds.to_table().to_batches(), *ds.take(random).to_batches()]
    batches += ds.to_batches(batch_size=1001)
    for batch in batches:
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            misaligned = [hex(address) for address in addresses(array) if address % 64]
            assert misaligned == [], f"{name} of a batch of {batch.num_rows} rows"
