# SPDX-License-Identifier: Apache-2.0
"""The engines, each called as its own documentation shows, with its defaults.

A handle is what a program keeps open between random accesses. Scans open the data anew each time.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

# pylance logs a warning for each new dataset.
os.environ.setdefault("LANCE_LOG", "error")

NAMES = ("glaive", "pylance", "parquet", "vortex")


class Engine(Protocol):
    """What the tasks ask of an engine. Row numbers ascend without repeats, because Vortex takes no others."""

    name: str
    version: str

    def write(self, table: pa.Table, path: Path) -> None:
        """Writes `table` to `path`, where nothing is."""

    def scan(self, path: Path, columns: list[str] | None) -> pa.Table:
        """Opens `path` and reads all rows of these columns, or of all."""

    def open(self, path: Path) -> Any:
        """A handle for `take`."""

    def take(self, handle: Any, rows: Sequence[int], columns: list[str] | None) -> pa.Table:
        """These rows, in this order."""


class Lance:
    """glaive and pylance have the same API; that one class serves both is part of the test."""

    def __init__(self, name: str, module: str) -> None:
        self.name = name
        self.version = importlib.metadata.version(name)
        self._lance = importlib.import_module(module)
        self._file = importlib.import_module(f"{module}.file")

    def write(self, table: pa.Table, path: Path) -> None:
        self._lance.write_dataset(table, path)

    def scan(self, path: Path, columns: list[str] | None) -> pa.Table:
        return self._lance.dataset(path).to_table(columns=columns)

    def open(self, path: Path) -> Any:
        return self._lance.dataset(path)

    def take(self, handle: Any, rows: Sequence[int], columns: list[str] | None) -> pa.Table:
        return handle.take(rows, columns=columns)

    def column_bytes(self, path: Path) -> dict[str, int]:
        """Bytes of the pages of each column, from the data files; for tables of flat columns."""
        found: dict[str, int] = {}
        names = self._lance.dataset(path).schema.names
        for file in sorted((path / "data").iterdir()):
            statistics = self._file.LanceFileReader(str(file)).file_statistics()
            for name, column in zip(names, statistics.columns, strict=True):
                found[name] = found.get(name, 0) + column.size_bytes
        return found


class Parquet:
    """pyarrow with zstd. It has no random access: a take reads the columns whole and picks."""

    name = "parquet"
    version = pa.__version__

    def write(self, table: pa.Table, path: Path) -> None:
        pq.write_table(table, path, compression="zstd")

    def scan(self, path: Path, columns: list[str] | None) -> pa.Table:
        return pq.read_table(path, columns=columns)

    def open(self, path: Path) -> Any:
        return path

    def take(self, handle: Any, rows: Sequence[int], columns: list[str] | None) -> pa.Table:
        return pq.read_table(handle, columns=columns).take(pa.array(rows, pa.int64()))


class Vortex:
    """vortex-data. Strings come as string views, as it gives them when not asked for a schema.

    The handle keeps no segments: all engines read from the page cache, none from a copy of its own.
    """

    name = "vortex"

    def __init__(self) -> None:
        self.version = importlib.metadata.version("vortex-data")
        self._vortex = importlib.import_module("vortex")

    def write(self, table: pa.Table, path: Path) -> None:
        self._vortex.io.write(table, str(path))

    def scan(self, path: Path, columns: list[str] | None) -> pa.Table:
        return self._vortex.open(str(path)).to_arrow(columns).read_all()

    def open(self, path: Path) -> Any:
        return self._vortex.open(str(path), without_segment_cache=True)

    def take(self, handle: Any, rows: Sequence[int], columns: list[str] | None) -> pa.Table:
        indices = self._vortex.array(pa.array(rows, pa.uint64()))
        return handle.to_arrow(columns, indices=indices).read_all()


_MAKERS = {
    "glaive": lambda: Lance("glaive", "glaive"),
    "pylance": lambda: Lance("pylance", "lance"),
    "parquet": Parquet,
    "vortex": Vortex,
}


def installed(names: Sequence[str]) -> list[Engine]:
    """Those of `names` that can be imported; the others are named on stderr."""
    found: list[Engine] = []
    for name in names:
        try:
            found.append(_MAKERS[name]())
        except ImportError as error:
            print(f"benches/compare: without {name}: {error}", file=sys.stderr)
    if not found:
        raise SystemExit("benches/compare: no engine is installed: run `make bench-compare`")
    return found


def bytes_on_disk(path: Path) -> int:
    """Bytes of a file, or of all files below a directory."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def remove(path: Path) -> None:
    """Removes what an engine wrote, if anything."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
