# SPDX-License-Identifier: Apache-2.0
"""The comparison of benches/compare runs, checks what the engines return, and stores what it says."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMPARE = Path(__file__).parent.parent / "benches" / "compare"
NEEDED = ("glaive", "lance", "numpy", "sympy")
TASKS = 14
ENGINES = ["glaive", "pylance", "parquet"]

missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def compare(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the comparison with its data below `directory`."""
    engines = [part for engine in ENGINES for part in ("--engine", engine)]
    command = [sys.executable, COMPARE, "--data", directory, "--repeat", "1", *engines, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """What one small run of all tasks prints and stores."""
    directory = tmp_path_factory.mktemp("compare")
    done = compare(directory, "--scale", "0.002", "--json", str(directory / "result.json"))
    assert done.returncode == 0, done.stderr
    assert list((directory / "written").iterdir()) == []
    return done.stdout, json.loads((directory / "result.json").read_text())


def test_every_task_is_measured_with_every_engine(run: tuple[str, dict[str, Any]]) -> None:
    printed, stored = run
    assert len(stored["tasks"]) == TASKS
    for task in stored["tasks"]:
        assert task["title"] in printed
        assert list(task["seconds"]) == ENGINES
        assert all(len(seconds) == 1 and seconds[0] > 0 for seconds in task["seconds"].values())
        expected = task["median_seconds"]["glaive"] / task["median_seconds"]["pylance"]
        assert task["ratio"]["glaive"] == pytest.approx(expected)


def test_the_result_says_where_it_was_measured_and_names_no_paths(run: tuple[str, dict[str, Any]]) -> None:
    _, stored = run
    assert {"cores", "memory_bytes", "date", "versions", "load_before"} <= stored["machine"].keys()
    assert list(stored["machine"]["versions"]) == ENGINES
    assert str(Path.home()) not in json.dumps(stored)
    assert str(COMPARE.parent) not in json.dumps(stored)


def test_sizes_are_those_of_all_engines(run: tuple[str, dict[str, Any]]) -> None:
    _, stored = run
    assert list(stored["sizes"]) == ["lineitem", "embeddings", "text", "wide"]
    for sizes in stored["sizes"].values():
        assert all(size > 0 for size in sizes["total"].values())
        for column in sizes["larger_columns"].values():
            assert column["glaive"] > column["pylance"]


def test_a_task_can_be_picked(tmp_path: Path) -> None:
    stored = tmp_path / "one" / "result.json"
    done = compare(tmp_path, "--scale", "0.002", "--only", "take-texts", "--json", str(stored))
    assert done.returncode == 0, done.stderr
    assert [task["name"] for task in json.loads(stored.read_text())["tasks"]] == ["take-texts"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--scale", "0"], "must be above 0"),
        (["--scale", "2"], "at most 1"),
        (["--repeat", "0"], "at least 1"),
        (["--only", "scan-nothing"], "scan-nothing"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = compare(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_other_data_than_written_are_refused(tmp_path: Path) -> None:
    script = f"""
import sys; sys.path.insert(0, {str(COMPARE)!r})
import pyarrow as pa, measure, tasks
class Engine: name = "an engine"
measure.check(tasks.TASKS[0], Engine(), pa.table({{"a": [1, 2]}}), pa.table({{"a": [1, 2]}}), whole=True)
measure.check(tasks.TASKS[0], Engine(), pa.table({{"a": [1, 3]}}), pa.table({{"a": [1, 2]}}), whole={{whole}})
"""
    for whole, code in ((True, 1), (False, 0)):
        done = subprocess.run(
            [sys.executable, "-c", script.replace("{whole}", str(whole))],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stderr
        assert ("an engine gave other data" in done.stderr) == whole
