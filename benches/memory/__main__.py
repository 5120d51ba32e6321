# SPDX-License-Identifier: Apache-2.0
"""The memory that a scan takes: peak above the start, beside the bound that `batch_readahead` sets.

    make bench-memory                                   # the release wheel, a table of 5 GB
    .venv/bin/python benches/memory --gigabytes 0.2     # a look whether it works

A table of numbers, texts and embeddings is written from a stream, and scanned batch by batch in a child
process for every readahead. Its resident memory is sampled every 10 ms. The bound is (readahead + 1) x
(largest page + largest batch). The table is deleted in the end.

The allocator keeps freed pages for a while, because fresh ones are dear. What is in use is seen when it gives
them back at once (`MIMALLOC_PURGE_DELAY=0`, which makes scans several times slower): that must stay below the
bound. The memory with the allocator's own setting is what a user sees.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

READAHEAD = (1, 4, 16)
BATCH_ROWS = 8192
WRITE_ROWS = 20_000
DIMENSION = 128
SAMPLE_SECONDS = 0.01
MIB = 1 << 20

# What the child does. It tells when it has opened the table, and waits for a line before it scans.
CHILD = """
import sys
import glaive
ds = glaive.dataset(sys.argv[1])
print("opened", flush=True)
sys.stdin.readline()
rows = largest = 0
for batch in ds.to_batches(batch_size=int(sys.argv[2]), batch_readahead=int(sys.argv[3])):
    rows += batch.num_rows
    largest = max(largest, batch.nbytes)
    del batch
print(rows, largest, flush=True)
sys.stdin.readline()
"""


def main() -> None:
    """Writes, scans, prints."""
    options = parse(sys.argv[1:])
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.directory) as place:
        path = Path(place) / "t.lance"
        rows, page = write(path, options.gigabytes * 1e9)
        results = [compare(path, rows, page, readahead) for readahead in READAHEAD]
    print(f"{rows:,} rows, largest page {page / MIB:.1f} MiB, batches of {BATCH_ROWS:,} rows")
    print("readahead  bound MiB  in use MiB  with freed pages MiB  seconds")
    for r in results:
        sizes = f"{r['bound'] / MIB:9.1f}  {r['in_use'] / MIB:10.1f}  {r['peak'] / MIB:20.1f}"
        print(f"{r['readahead']:9}  {sizes}  {r['seconds']:7.1f}")
    if options.json:
        options.json.write_text(json.dumps(results) + "\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benches/memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=5, help="size of the table (default: 5)")
    parser.add_argument(
        "--directory", type=Path, default=Path(tempfile.gettempdir()), help="where to write it"
    )
    parser.add_argument("--json", type=Path, help="also store the results there")
    return parser.parse_args(arguments)


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("kind", pa.int32()),
        ("text", pa.string()),
        ("embedding", pa.list_(pa.float32(), DIMENSION)),
    ]
)


def batches(size: float) -> Iterator[pa.RecordBatch]:
    """Rows of about `size` bytes in all."""
    random = np.random.default_rng(2013)
    written = start = 0
    while written < size:
        ids = pa.array(np.arange(start, start + WRITE_ROWS))
        kinds = pa.array(random.integers(0, 100, WRITE_ROWS, dtype=np.int32))
        texts = pa.array([f"{number:x} and some words" for number in random.integers(0, 1 << 60, WRITE_ROWS)])
        floats = pa.array(random.random(WRITE_ROWS * DIMENSION, dtype=np.float32))
        vectors = pa.FixedSizeListArray.from_arrays(floats, DIMENSION)
        batch = pa.record_batch([ids, kinds, texts, vectors], schema=SCHEMA)
        yield batch
        written += batch.nbytes
        start += WRITE_ROWS


def write(path: Path, size: float) -> tuple[int, int]:
    """Writes the table; its rows, and the bytes of its largest page."""
    import glaive
    import glaive.file

    ds = glaive.write_dataset(pa.RecordBatchReader.from_batches(SCHEMA, batches(size)), str(path))
    largest = 0
    for file in (path / "data").iterdir():
        for column in glaive.file.LanceFileReader(str(file)).metadata().columns:
            sizes = [sum(buffer.size for buffer in page.buffers) for page in column.pages]
            largest = max(largest, *sizes)
    return ds.count_rows(), largest


def compare(path: Path, rows: int, page: int, readahead: int) -> dict[str, float]:
    """The bound, and the peaks of a scan whose allocator gives back what is freed and of one as it is."""
    purged, batch, _ = scan(path, rows, readahead, {"MIMALLOC_PURGE_DELAY": "0"})
    peak, _, seconds = scan(path, rows, readahead, {})
    bound = (readahead + 1) * (page + batch)
    return {"readahead": readahead, "bound": bound, "in_use": purged, "peak": peak, "seconds": seconds}


def scan(path: Path, rows: int, readahead: int, environment: dict[str, str]) -> tuple[int, int, float]:
    """Peak of the memory of one scan above that of an opened table; bytes of a batch; seconds."""
    arguments = [sys.executable, "-c", CHILD, str(path), str(BATCH_ROWS), str(readahead)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, env=os.environ | environment, **streams) as child:
        assert child.stdin
        assert child.stdout
        child.stdout.readline()
        memory = Path(f"/proc/{child.pid}/status")
        start = resident(memory)
        begun = time.perf_counter()
        child.stdin.write("\n")
        child.stdin.flush()
        peak = Peak(memory)
        answer = peak.until_readable(child.stdout)
        seconds = time.perf_counter() - begun
        found, batch = map(int, answer.split())
        child.stdin.write("\n")
        child.stdin.flush()
    assert found == rows, f"{found} of {rows} rows"
    return peak.bytes - start, batch, seconds


def resident(status: Path, key: str = "VmRSS") -> int:
    """Memory of a process in bytes: `VmRSS` now, `VmHWM` at most so far."""
    for line in status.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {key} in {status}")


class Peak:
    """Samples the memory of a process."""

    def __init__(self, status: Path) -> None:
        self.status = status
        self.bytes = 0

    def until_readable(self, stream) -> str:
        """Samples until the process says something."""
        while True:
            ready, _, _ = select.select([stream], [], [], SAMPLE_SECONDS)
            # The kernel's own mark does not miss what lies between two samples.
            self.bytes = max(self.bytes, resident(self.status), resident(self.status, "VmHWM"))
            if ready:
                return stream.readline()


if __name__ == "__main__":
    main()
