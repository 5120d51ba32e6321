# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: no panic may happen, whatever the test makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

PANIC = "panicked at"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Fails a test whose stderr shows a panic, also when the test caught the exception.

    Not where pylance may panic.
    """
    outcome: Any = yield
    report = outcome.get_result()
    foreign = item.get_closest_marker("foreign_panics") is not None
    if PANIC in report.capstderr and not foreign and report.outcome != "failed":
        report.outcome = "failed"
        report.longrepr = f"a panic was printed during {report.when} of {item.nodeid}:\n{report.capstderr}"


@pytest.fixture
def table() -> pa.Table:
    """A small table of several types with nulls."""
    return pa.table(
        {
            "id": pa.array(range(100), pa.int64()),
            "name": [None if i % 7 == 0 else f"name {i}" for i in range(100)],
            "score": [None if i % 5 == 0 else i / 4 for i in range(100)],
            "st": [{"x": i, "y": str(i)} for i in range(100)],
        }
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where a test may make a dataset."""
    return str(tmp_path / "test.lance")
