# SPDX-License-Identifier: Apache-2.0
"""What a table survives: writers that are killed at random moments, leftovers, and which writes are synced.

The tests of `rust/glaive/tests/crash.rs` end a process at every single step instead.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import glaive

KILLS = int(os.environ.get("GLAIVE_KILLS", "20"))
ROWS = 5_000

# Does what its seed says, and says so after each step; the first thing it prints is that it started.
WRITER = f"""
import datetime, random, sys, pyarrow as pa, glaive
uri, seed = sys.argv[1], int(sys.argv[2])
choices = random.Random(seed)
# What is loaded at first use, so that the kills fall into the writes.
glaive.write_dataset(pa.table({{"a": [1]}}), uri + ".other", mode="overwrite")
print("started", flush=True)
while True:
    ds = glaive.dataset(uri)
    step = choices.choice(["append", "append", "append", "overwrite", "cleanup"])
    if step == "cleanup":
        ds.cleanup_old_versions(datetime.timedelta(microseconds=1))
    else:
        rows = pa.table({{"n": [ds.version] * {ROWS}, "i": range({ROWS})}})
        ds = glaive.write_dataset(rows, ds, mode=step, max_rows_per_file={ROWS * 2 // 3})
    print(step, ds.version, flush=True)
"""


def steps_of(seed: int) -> Iterator[str]:
    """What the writer with this seed does."""
    choices = random.Random(seed)
    while True:
        yield choices.choice(["append", "append", "append", "overwrite", "cleanup"])


def run_until_killed(uri: str, seed: int, delay: float) -> list[str]:
    """Steps that the writer acknowledged before it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, uri, str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "started\n", process.communicate()[1]
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    # Not `communicate`, which would lose lines that were buffered together with the first.
    out = process.stdout.read()
    assert process.stderr.read() == ""
    process.wait()
    return [line.split()[0] for line in out.splitlines()]


class Model:
    """What the table must hold: its latest version, and the batches in it."""

    def __init__(self, version: int, batches: list[int]) -> None:
        self.version, self.batches = version, batches

    def after(self, step: str) -> Model:
        """The model when a step has happened."""
        if step == "cleanup":
            return self
        kept = self.batches if step == "append" else []
        return Model(self.version + 1, [*kept, self.version])

    def fits(self, ds: glaive.LanceDataset) -> bool:
        """Whether the table is this one, with all rows."""
        if ds.version != self.version:
            return False
        counts = ds.to_table(columns=["n"]).column("n").value_counts().to_pylist()
        return {c["values"]: c["counts"] for c in counts} == dict.fromkeys(self.batches, ROWS)


def check_all_versions(uri: str) -> None:
    """No version that opens lacks a file, for either engine."""
    latest = glaive.dataset(uri)
    for version in latest.version_refs():
        ds = latest.checkout_version(version["version"])
        assert ds.to_table(columns=["n"]).num_rows == ds.count_rows()
    theirs = lance.dataset(uri)
    assert theirs.version == latest.version
    assert theirs.to_table(columns=["n"]).num_rows == latest.count_rows()


def test_killed_writers(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    glaive.write_dataset(pa.table({"n": [0] * ROWS, "i": range(ROWS)}), uri)
    model = Model(1, [0])
    acknowledged_steps = landed_unacknowledged = 0
    for seed in range(KILLS):
        acknowledged = run_until_killed(uri, seed, random.Random(seed).uniform(0.0, 0.08))
        steps = steps_of(seed)
        for step in acknowledged:
            assert step == next(steps)
            model = model.after(step)
        ds = glaive.dataset(uri)
        following = model.after(next(steps))
        assert model.fits(ds) or following.fits(ds), (seed, ds.version, model.version)
        acknowledged_steps += len(acknowledged)
        landed_unacknowledged += ds.version != model.version
        model = model if model.fits(ds) else following
        check_all_versions(uri)
    assert acknowledged_steps > 0
    leftovers = glaive.dataset(uri).cleanup_old_versions(retain_versions=1, delete_unverified=True)
    check_all_versions(uri)
    print(
        f"{KILLS} kills, {acknowledged_steps} acknowledged steps, {landed_unacknowledged} landed without "
        f"acknowledgement, 0 lost; {leftovers}"
    )


SYNCING = """
import sys, pyarrow as pa, glaive
glaive.write_dataset(pa.table({"a": [1]}), sys.argv[1], mode="append", durability=sys.argv[2])
"""


def synced_files(uri: str, durability: str) -> list[str]:
    """Paths below the table that one append syncs, in order."""
    command = ["strace", "-f", "-y", "-e", "trace=fsync,fdatasync", sys.executable, "-c", SYNCING]
    run = subprocess.run([*command, uri, durability], capture_output=True, text=True, check=False)
    if "ptrace" in run.stderr:
        pytest.skip("strace may not trace here")
    assert run.returncode == 0, run.stderr
    paths: list[str] = re.findall(r"f(?:data)?sync\(\d+<([^>]*)>", run.stderr)
    return [path.removeprefix(uri) for path in paths if path.startswith(uri)]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_which_files_are_synced(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    glaive.write_dataset(pa.table({"a": [1]}), uri)
    assert synced_files(uri, "process") == []
    data, in_data, transaction, in_transactions, manifest, in_versions = synced_files(uri, "disk")
    assert data.startswith("/data/")
    assert in_data == "/data"
    assert transaction.startswith("/_transactions/")
    assert in_transactions == "/_transactions"
    assert manifest.startswith("/_versions/")
    assert in_versions == "/_versions"


def test_durability_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Invalid durability often; use process or disk"):
        glaive.write_dataset(pa.table({"a": [1]}), str(tmp_path / "t"), durability="often")


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
