# SPDX-License-Identifier: Apache-2.0
"""The budgets of the package: time of the import, modules that it loads, size of the native library."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from glaive import _glaive

IMPORT_BUDGET = 0.7  # of pylance's, in the same run
LIBRARY_BUDGET = 60_000_000
ROUNDS = 5
ATTEMPTS = 3


def run(code: str) -> float:
    """Seconds that a fresh interpreter takes for `code`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def median_ratio(ours: str, theirs: str) -> float:
    """How long `ours` takes beside `theirs`, start of the interpreter taken off; runs are interleaved."""
    rounds = [(run("pass"), run(ours), run(theirs)) for _ in range(ROUNDS)]
    empty, mine, other = (statistics.median(times) for times in zip(*rounds, strict=True))
    return (mine - empty) / (other - empty)


def test_import_time() -> None:
    """With the native module and pyarrow; `pyarrow.dataset` (and pandas) load with the first dataset."""
    code = "import glaive; glaive.__version__; import pyarrow"
    ratios = []
    for _ in range(ATTEMPTS):  # the machine may be busy
        ratios.append(median_ratio(code, "import lance"))
        if ratios[-1] <= IMPORT_BUDGET:
            return
    raise AssertionError(f"import takes {ratios} of pylance's, allowed is {IMPORT_BUDGET}")


def test_import_loads_little() -> None:
    code = (
        "import sys, glaive, glaive.file, glaive.errors, glaive.progress, glaive.commit, glaive.schema\n"
        "glaive.__version__\n"
        "heavy = {'pandas', 'polars', 'duckdb', 'pyarrow.dataset'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    bare = "import sys, glaive; assert not {'numpy', 'pyarrow', 'glaive._glaive'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", bare], check=True)


def test_modules_bind_in_any_order() -> None:
    """`glaive.types` is a module of the package, and `glaive.dataset` stays the function."""
    code = "import glaive.types, glaive.file, glaive; glaive.write_dataset; assert callable(glaive.dataset)"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_library_size() -> None:
    assert Path(_glaive.__file__).stat().st_size < LIBRARY_BUDGET
