# SPDX-License-Identifier: Apache-2.0
"""A writer that is killed at a random moment leaves the table at the former or at the new version."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import lance
import pyarrow as pa

import glaive

KILLS = 12
ROWS = 20_000

# Appends batches named by their number and says so after each; the first thing it prints is that it started.
WRITER = f"""
import sys, pyarrow as pa, glaive
uri = sys.argv[1]
n = glaive.dataset(uri).version
print("started", flush=True)
while True:
    ds = glaive.write_dataset(
        pa.table({{"n": [n] * {ROWS}, "i": range({ROWS})}}), uri, mode="append", max_rows_per_file=7000
    )
    print(ds.version, flush=True)
    n = ds.version
"""


def run_until_killed(uri: str, delay: float) -> list[int]:
    """Versions that the writer acknowledged before it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, uri], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n", process.communicate()[1]
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    out, err = process.communicate()
    assert err == ""
    return [int(line) for line in out.splitlines()]


def check_table(uri: str, acknowledged: int) -> int:
    """The table is whole at a version that is the acknowledged one or the next."""
    ds = glaive.dataset(uri)
    assert ds.version in (acknowledged, acknowledged + 1)
    assert [v["version"] for v in ds.versions()] == list(range(1, ds.version + 1))
    numbers = ds.to_table(columns=["n"]).column("n").value_counts().to_pylist()
    assert {c["values"]: c["counts"] for c in numbers} == dict.fromkeys(range(ds.version), ROWS)
    theirs = lance.dataset(uri)
    assert theirs.version == ds.version
    assert theirs.count_rows() == ds.count_rows() == ds.version * ROWS
    return ds.version


def test_killed_writers(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    glaive.write_dataset(pa.table({"n": [0] * ROWS, "i": range(ROWS)}), uri)
    version = 1
    for seed in range(KILLS):
        acknowledged = run_until_killed(uri, random.Random(seed).uniform(0.001, 0.06))
        version = check_table(uri, acknowledged[-1] if acknowledged else version)
    assert version > 1
    assert glaive.dataset(uri).to_table() == lance.dataset(uri).to_table()


def test_leftovers_of_a_killed_writer_do_not_matter(tmp_path: Path) -> None:
    """Files that no manifest names, such as a writer leaves that never committed."""
    uri = tmp_path / "t.lance"
    table = pa.table({"a": range(10)})
    glaive.write_dataset(table, uri)
    (uri / "data" / "half.lance").write_bytes(b"LANC")
    (uri / "_transactions" / "1-0.txn").write_bytes(b"\x08")
    for engine in (glaive, lance):
        ds = engine.write_dataset(table, str(uri), mode="append")
        assert ds.count_rows() == len(table) * ds.version
