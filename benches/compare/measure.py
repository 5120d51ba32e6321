# SPDX-License-Identifier: Apache-2.0
"""How it is measured.

All engines run in this process, one after the other in each repetition, in an order that rotates. The first
repetition is a warm-up: it fills the page cache, and its result is compared with the source, value by value.
In the others only the number of rows is checked. Freeing results, removing old files and having the kernel
write dirty pages are outside the clock.

Beside the time that passes, the time of the processors is counted: it says less about what a user waits for,
but other work on the machine hardly moves it.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from data import Dataset
from engines import Engine, Lance, bytes_on_disk, remove
from tasks import OpenWide, Scan, Take, Task, Write


@dataclass(frozen=True)
class Elapsed:
    """Seconds that passed, and seconds of all cores together, in the program and in the kernel."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Outcome:
    """Every timed repetition of a task, by engine."""

    task: Task
    times: dict[str, list[Elapsed]]


@dataclass(frozen=True)
class Sizes:
    """Bytes on disk of one dataset by engine; of its columns by engine of the Lance format."""

    total: dict[str, int]
    columns: dict[str, dict[str, int]]


class Bench:
    """One dataset, and the files that the engines make of it below `directory` while the bench is open."""

    def __init__(self, dataset: Dataset, engines: list[Engine], directory: Path, repeat: int) -> None:
        self._dataset = dataset
        self._engines = engines
        self._repeat = repeat
        self._paths = {engine.name: directory / f"{dataset.name}.{engine.name}" for engine in engines}
        self._handles: dict[str, Any] = {}

    def __enter__(self) -> Self:
        for engine in self._engines:
            self._path(engine).parent.mkdir(parents=True, exist_ok=True)
            self._write(engine)
        return self

    def __exit__(self, *_: object) -> None:
        self._handles.clear()
        for path in self._paths.values():
            remove(path)

    def run(self, tasks: Iterable[Task]) -> list[Outcome]:
        """Runs tasks; writes must come first, because a handle does not survive them."""
        return [self._measure(task) for task in tasks]

    def sizes(self) -> Sizes:
        """What the engines' files take."""
        lance = [engine for engine in self._engines if isinstance(engine, Lance)]
        return Sizes(
            {engine.name: bytes_on_disk(self._path(engine)) for engine in self._engines},
            {engine.name: engine.column_bytes(self._path(engine)) for engine in lance},
        )

    def _measure(self, task: Task) -> Outcome:
        times: dict[str, list[Elapsed]] = {engine.name: [] for engine in self._engines}
        for repetition in range(self._repeat + 1):
            for engine in rotated(self._engines, repetition):
                elapsed = self._once(task, engine, repetition)
                if repetition > 0:
                    times[engine.name].append(elapsed)
        print(f"{task.title}: done", file=sys.stderr)
        return Outcome(task, times)

    def _once(self, task: Task, engine: Engine, repetition: int) -> Elapsed:
        """Runs a task once, checks what came back, and returns the time."""
        if isinstance(task, Write):
            elapsed = self._write(engine)
            if repetition == 0:
                check(task, engine, engine.scan(self._path(engine), None), self._dataset.table, whole=True)
            return elapsed
        call, expected = self._reading(task, engine, repetition)
        result, elapsed = timed(call)
        check(task, engine, result, expected, whole=repetition == 0)
        return elapsed

    def _reading(
        self, task: Task, engine: Engine, repetition: int
    ) -> tuple[Callable[[], pa.Table], pa.Table]:
        """What to time, and what it must return."""
        table, path = self._dataset.table, self._path(engine)
        match task:
            case Scan(columns=columns):
                names = None if columns is None else list(columns)
                return lambda: engine.scan(path, names), table.select(names or table.column_names)
            case OpenWide():
                names = [table.column_names[table.num_columns // 2]]
                return lambda: engine.scan(path, names), table.select(names)
            case Take(columns=columns):
                names = None if columns is None else list(columns)
                rows = task.rows(table, repetition)
                handle = self._handle(engine)
                expected = table.select(names or table.column_names).take(rows)
                return lambda: engine.take(handle, rows, names), expected
        raise TypeError(f"{task.name}: unknown kind of task")

    def _write(self, engine: Engine) -> Elapsed:
        """Writes the dataset anew and returns the time."""
        path = self._path(engine)
        self._handles.pop(engine.name, None)
        remove(path)
        _, elapsed = timed(lambda: engine.write(self._dataset.table, path))
        settle(path)
        return elapsed

    def _handle(self, engine: Engine) -> Any:
        if engine.name not in self._handles:
            self._handles[engine.name] = engine.open(self._path(engine))
        return self._handles[engine.name]

    def _path(self, engine: Engine) -> Path:
        return self._paths[engine.name]


def rotated(engines: list[Engine], by: int) -> list[Engine]:
    """The engines, another one first each time."""
    first = by % len(engines)
    return engines[first:] + engines[:first]


def timed(call: Callable[[], Any]) -> tuple[Any, Elapsed]:
    """The result of `call` and the time it took."""
    gc.collect()
    start, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, Elapsed(time.perf_counter() - start, time.process_time() - cpu)


def settle(path: Path) -> None:
    """Writes the dirty pages of a file or of a directory's files now, not during the next measurement."""
    for file in [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check(task: Task, engine: Engine, result: pa.Table, expected: pa.Table, *, whole: bool) -> None:
    """Compares the number of rows, or everything."""
    if result.num_rows != expected.num_rows:
        raise SystemExit(f"{task.name}: {engine.name} gave {result.num_rows} of {expected.num_rows} rows")
    # The cast is for string views.
    if whole and not result.cast(expected.schema).equals(expected):
        raise SystemExit(f"{task.name}: {engine.name} gave other data than it was given")
