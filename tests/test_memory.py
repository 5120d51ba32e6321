# SPDX-License-Identifier: Apache-2.0
"""The memory of a scan stays below what `batch_readahead` allows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "benches" / "memory"
# The code of the scan, which is loaded when it runs, and stacks. The table has more than 200 MB.
SLACK = 16 << 20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_scan_stays_below_its_bound(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    arguments = ["--gigabytes", "0.2", "--directory", str(tmp_path), "--json", str(result)]
    subprocess.run([sys.executable, str(BENCH), *arguments], check=True)
    for scan in json.loads(result.read_text()):
        assert 0 < scan["in_use"] <= scan["bound"] + SLACK, scan
