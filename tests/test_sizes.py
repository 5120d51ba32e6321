# SPDX-License-Identifier: Apache-2.0
"""Files of glaive are no larger than pylance's: every column of the matrix, 100,000 rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance.file
import pyarrow as pa
import pytest

import glaive.file
from columns import column, columns, field_metadata, nested_columns

ROWS = 100_000
# FSST samples its input, so that two writers find different symbols.
TOLERANCE = 0.02
# Metadata, and two choices: items of numbers in dictionaries of 2.1 are not packed, and runs of 64-bit
# numbers keep their values beside their lengths, which saves looking them up.
OVERHEAD = 8 * 1024
# Each page has its own dictionary. What comes at once is one page for pylance, however long; glaive cuts it
# every 8 MiB.
EXCEPTIONS = {" huge": 0.06}

# Whole structs cannot be null in 2.0, and it has no maps.
OLD = {name for name in columns() if not name.startswith(("struct", "string_view"))}


def size(engine: Any, table: pa.Table, path: Path, version: str) -> int:
    with engine.LanceFileWriter(str(path), table.schema, version=version) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return path.stat().st_size


@pytest.mark.parametrize("pattern", ["none", "random 10 %"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_files_are_no_larger(version: str, pattern: str, tmp_path: Path) -> None:
    makes = columns() | nested_columns(version)
    larger = []
    for name, make in makes.items():
        if version == "2.0" and name not in OLD:
            continue
        array = column(make, ROWS, pattern)
        table = pa.table([array], pa.schema([pa.field("c", array.type, metadata=field_metadata(name))]))
        own = size(glaive.file, table, tmp_path / f"glaive {name}.lance", version)
        foreign = size(lance.file, table, tmp_path / f"lance {name}.lance", version)
        share = max([TOLERANCE, *(share for end, share in EXCEPTIONS.items() if name.endswith(end))])
        if own > foreign * (1 + share) + OVERHEAD:
            larger.append(f"{name}: {own} bytes instead of {foreign}")
    assert not larger, "\n".join(larger)
