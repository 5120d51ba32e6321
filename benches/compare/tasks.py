# SPDX-License-Identifier: Apache-2.0
"""What is measured.

`aim` is the ratio glaive / pylance to reach, `vortex` the ratio Vortex / pylance when the aims were set.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa

INTEGERS = ["l_orderkey", "l_partkey", "l_suppkey", "l_linenumber"]
STRINGS = ["l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode", "l_comment"]


@dataclass(frozen=True)
class Task:
    """Part of what every task has: a name for `--only`, a title for the table, the dataset and the aim."""

    name: str
    title: str
    dataset: str
    aim: float
    vortex: float | None = None


@dataclass(frozen=True)
class Write(Task):
    """Writes the table to a place where nothing is."""


@dataclass(frozen=True)
class Scan(Task):
    """Opens the data and reads every row of `columns`, or of all."""

    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class OpenWide(Task):
    """Opens the data and reads the column in the middle."""


@dataclass(frozen=True)
class Take(Task):
    """Reads `count` random rows through a handle that is open already; other rows in each repetition."""

    count: int = 1
    columns: tuple[str, ...] | None = None

    def rows(self, table: pa.Table, repetition: int) -> list[int]:
        """The rows of a repetition, the same for all engines, ascending."""
        count = min(self.count, table.num_rows)
        return sorted(random.Random(repetition).sample(range(table.num_rows), count))


TASKS: tuple[Task, ...] = (
    Write("write-lineitem", "write lineitem", "lineitem", 0.8),
    Scan("scan-all", "all columns", "lineitem", 0.35, 0.24),
    Scan("scan-integers", "integers", "lineitem", 0.30, 0.25, tuple(INTEGERS)),
    Scan("scan-strings", "strings", "lineitem", 0.40, 0.32, tuple(STRINGS)),
    Take("take-all", "take 100 rows x all columns", "lineitem", 0.5, 0.58, 100),
    Take(
        "take-two", "take 10,000 rows x 2 columns", "lineitem", 0.2, 0.11, 10_000, ("l_orderkey", "l_comment")
    ),
    Write("write-embeddings", "write embeddings", "embeddings", 0.8),
    Scan("scan-embeddings", "embeddings", "embeddings", 0.15, 0.29),
    Take("take-embeddings", "take 1,000 embeddings", "embeddings", 0.4, 0.47, 1_000),
    Write("write-text", "write text", "text", 0.8),
    Scan("scan-text", "text", "text", 0.45, 0.44),
    Take("take-texts", "take 1,000 texts", "text", 0.2, 0.10, 1_000),
    Write("write-wide", "write 3,000 columns", "wide", 0.8),
    OpenWide("open-wide", "open 3,000 columns, read one", "wide", 0.5, 0.40),
)
