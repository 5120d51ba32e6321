# SPDX-License-Identifier: Apache-2.0
"""Old versions of pylance: what they wrote is read, and what is written here they can read.

The second needs their interpreters: GLAIVE_OLD_PYLANCE names them, separated by colons.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import glaive.file
from old_pylance import ROWS, columns, plain

SCRIPT = Path(__file__).with_name("old_pylance.py")
GOLDEN = sorted((Path(__file__).parent / "data" / "old").glob("*.lance"))
INTERPRETERS = [path for path in os.environ.get("GLAIVE_OLD_PYLANCE", "").split(":") if path]
# The first version that reads files of a file version as they are written now, strings and all.
SINCE = {"2.0": (0, 19), "2.1": (0, 39)}
# What 0.19 can neither write nor read.
UNKNOWN = {"matrix_none", "matrix_some", "matrix_all"}


def test_there_are_files() -> None:
    assert len(GOLDEN) == 4


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_files_of_old_versions(path: Path) -> None:
    version = path.stem.rsplit("-", 1)[1]
    reader = glaive.file.LanceFileReader(str(path))
    metadata = reader.metadata()
    assert f"{metadata.major_version}.{metadata.minor_version}" == version
    expected = columns(version)
    table = reader.read_all().to_table()
    table.validate(full=True)
    assert len(table.column_names) > 100
    for name in table.column_names:
        assert plain(table[name]) == plain(expected[name]), name
    places = [0, 1, 64, 65, ROWS - 1]
    taken = reader.take_rows(places).to_table()
    for name in taken.column_names:
        assert plain(taken[name]) == plain(expected[name].take(pa.array(places))), name


def version_of(interpreter: str) -> tuple[int, int]:
    code = "import lance; print(lance.__version__)"
    done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=True)
    major, minor = done.stdout.strip().split(".")[:2]
    return int(major), int(minor)


@pytest.mark.skipif(
    not INTERPRETERS,
    reason="GLAIVE_OLD_PYLANCE does not name the interpreter of an old pylance, such as old/bin/python",
)
@pytest.mark.parametrize("version", SINCE)
@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_old_versions_read_our_files(interpreter: str, version: str, tmp_path: Path) -> None:
    found = version_of(interpreter)
    if found < SINCE[version]:
        pytest.skip(f"pylance {found[0]}.{found[1]} cannot read files of version {version}")
    faults = {}
    for name, array in columns(version).items():
        if found < (0, 39) and name in UNKNOWN:
            continue
        with glaive.file.LanceFileWriter(str(tmp_path / f"{name}.lance"), version=version) as writer:
            writer.write_batch(pa.table({name: array}))
    # A panic can end the process; then the rest is left to the next one.
    while any(tmp_path.iterdir()):
        command = [interpreter, str(SCRIPT), "read", version, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        results = dict(json.loads(line) for line in done.stdout.splitlines())
        assert results, done.stderr
        faults.update({name: fault for name, fault in results.items() if fault})
        for name in results:
            (tmp_path / f"{name}.lance").unlink()
    assert faults == {}
