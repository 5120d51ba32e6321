# SPDX-License-Identifier: Apache-2.0
"""The four tables, the same bytes on every machine.

- lineitem: TPC-H at scale factor 1 by tpchgen-cli, 6,001,215 rows x 16 columns; string views cast to strings.
- embeddings: 40,000 vectors of 768 float32, normally distributed, fixed seed.
- text: 300,000 lines of the Python sources of SymPy, as pinned in pyproject.toml: code and English prose.
- wide: 2,000 rows x 3,000 columns of int64, uniform up to a bound that differs by column, fixed seed.

Only lineitem takes long to make and is kept on disk.
"""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EMBEDDINGS = 40_000
DIMENSION = 768
LINES = 300_000
WIDE_ROWS = 2_000
WIDE_COLUMNS = 3_000


@dataclass(frozen=True)
class Dataset:
    """A table in memory, with the name that tasks know it by."""

    name: str
    table: pa.Table


def load(name: str, scale: float, cache: Path) -> Dataset:
    """The table `name`, `scale` times its full size; made when it is not in the directory `cache`."""
    makers = {
        "lineitem": lambda: lineitem(scale, cache),
        "embeddings": lambda: embeddings(part(EMBEDDINGS, scale)),
        "text": lambda: text(part(LINES, scale)),
        "wide": lambda: wide(part(WIDE_COLUMNS, scale)),
    }
    return Dataset(name, makers[name]())


def part(full: int, scale: float) -> int:
    """`scale` times `full`, at least 1."""
    return max(1, round(full * scale))


def lineitem(scale: float, cache: Path) -> pa.Table:
    """TPC-H lineitem at scale factor `scale`."""
    directory = cache / f"tpch-{scale:g}"
    path = directory / "lineitem.parquet"
    if not path.exists():
        generate_lineitem(scale, directory)
    table = pq.read_table(path)
    # Without the column numbers of the Parquet file, which are metadata of the fields.
    return table.cast(pa.schema([pa.field(f.name, plain(f.type), f.nullable) for f in table.schema]))


def generate_lineitem(scale: float, directory: Path) -> None:
    """Writes `directory`/lineitem.parquet; a run that is cut off leaves nothing that looks whole."""
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    if not program.exists():
        raise SystemExit("benches/compare: tpchgen-cli is missing: run `make bench-compare`")
    unfinished = directory / "unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    subprocess.run(  # noqa: S603
        [program, "parquet", "-s", f"{scale:g}", "--tables", "lineitem", "--output-dir", unfinished],
        check=True,
        capture_output=True,
    )
    (unfinished / "lineitem.parquet").replace(directory / "lineitem.parquet")


def plain(type_: pa.DataType) -> pa.DataType:
    """String views as strings."""
    return pa.string() if pa.types.is_string_view(type_) else type_


def embeddings(rows: int) -> pa.Table:
    """Random vectors."""
    values = np.random.default_rng(768).standard_normal(rows * DIMENSION, dtype=np.float32)
    return pa.table({"embedding": pa.FixedSizeListArray.from_arrays(pa.array(values), DIMENSION)})


def text(rows: int) -> pa.Table:
    """Lines of text: the first `rows` that are not blank."""
    lines = list(itertools.islice(source_lines(), rows))
    if len(lines) < rows:
        raise SystemExit(f"benches/compare: only {len(lines)} lines of text instead of {rows}")
    return pa.table({"text": pa.array(lines, pa.string())})


def source_lines() -> Iterator[str]:
    """The lines of SymPy's modules in the order of their paths, without blank ones."""
    spec = importlib.util.find_spec("sympy")
    if spec is None or spec.origin is None:
        raise SystemExit("benches/compare: sympy, which has the text, is missing: run `make bench-compare`")
    for path in sorted(Path(spec.origin).parent.rglob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                yield line.rstrip()


def wide(columns: int) -> pa.Table:
    """Many columns of integers that need 1 to 40 bits."""
    random = np.random.default_rng(3000)
    return pa.table(
        {f"c{i}": random.integers(0, 1 << (1 + i % 40), WIDE_ROWS, dtype=np.int64) for i in range(columns)}
    )
