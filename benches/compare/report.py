# SPDX-License-Identifier: Apache-2.0
"""The table that is printed, and the JSON that is stored."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from engines import Engine
from measure import Outcome, Sizes

BASE = "pylance"
SUBJECT = "glaive"


@dataclass(frozen=True)
class Result:
    """Everything that a run found out."""

    facts: dict[str, Any]
    outcomes: list[Outcome]
    sizes: dict[str, Sizes]


def machine(engines: Sequence[Engine], scale: float, repeat: int) -> dict[str, Any]:
    """What another run must share to be comparable. No names of hosts, users or directories."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "cpu": cpu_model(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_before": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {engine.name: engine.version for engine in engines},
        "scale": scale,
        "repetitions": repeat,
    }


def cpu_model() -> str:
    """The model name that the kernel gives, or an empty text."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


# --- Figures


def wall(outcome: Outcome) -> dict[str, float]:
    """The median of the seconds that passed, by engine."""
    return {engine: median(time.wall for time in times) for engine, times in outcome.times.items()}


def cpu(outcome: Outcome) -> dict[str, float]:
    """The median of the seconds of the processors, by engine."""
    return {engine: median(time.cpu for time in times) for engine, times in outcome.times.items()}


def ratio(figures: dict[str, Any], engine: str) -> float | None:
    """`engine` / pylance, or None when one of them did not run."""
    if engine not in figures or not figures.get(BASE):
        return None
    return figures[engine] / figures[BASE]


def larger_columns(sizes: Sizes) -> list[tuple[str, int, int]]:
    """(column, bytes of glaive, bytes of pylance) where glaive needs more, the greatest difference first."""
    ours, theirs = sizes.columns.get(SUBJECT, {}), sizes.columns.get(BASE, {})
    larger = [(name, ours[name], theirs[name]) for name in ours if ours[name] > theirs.get(name, ours[name])]
    return sorted(larger, key=lambda column: column[2] - column[1])


# --- Text


def text(result: Result) -> str:
    """The whole report."""
    facts = result.facts
    engines = list(facts["versions"])
    parts = [
        heading(facts),
        f"milliseconds, median of {facts['repetitions']}; ratios to {BASE}",
        grid(times_rows(result, engines)),
        "milliseconds of all cores together",
        grid(cpu_rows(result, engines)),
        "bytes on disk",
        grid(sizes_rows(result, engines)),
    ]
    if columns := grid(columns_rows(result)):
        parts += [f"columns where {SUBJECT} needs more bytes than {BASE}", columns]
    if facts["scale"] != 1:
        parts.append(f"At scale {facts['scale']:g}: the aims are for scale 1.")
    return "\n\n".join(parts)


def heading(facts: dict[str, Any]) -> str:
    """When, where and with what."""
    memory = f"{facts['memory_bytes'] / 1e9:.0f} GB"
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['date']}  {facts['cores']} cores, {memory}, load {facts['load_before']}, {facts['cpu']}\n"
        f"Python {facts['python']}, {versions}"
    )


def times_rows(result: Result, engines: list[str]) -> list[list[str]]:
    """A line per task."""
    header = ["task", *engines, f"{SUBJECT} ratio", "aim", "", "vortex ratio", "before"]
    return [header, *(times_row(outcome, engines) for outcome in result.outcomes)]


def times_row(outcome: Outcome, engines: list[str]) -> list[str]:
    """One task: the medians, the ratio beside the aim, and the ratio of Vortex beside what it was before."""
    figures, task = wall(outcome), outcome.task
    ours = ratio(figures, SUBJECT)
    verdict = "" if ours is None else "met" if ours <= task.aim else "missed"
    times = [f"{figures[engine] * 1000:.2f}" for engine in engines]
    aims = [shown(ours), shown(task.aim), verdict, shown(ratio(figures, "vortex")), shown(task.vortex)]
    return [task.title, *times, *aims]


def cpu_rows(result: Result, engines: list[str]) -> list[list[str]]:
    """A line per task."""
    rows = [["task", *engines, f"{SUBJECT} ratio", "vortex ratio"]]
    for outcome in result.outcomes:
        figures = cpu(outcome)
        ratios = [shown(ratio(figures, SUBJECT)), shown(ratio(figures, "vortex"))]
        rows.append([outcome.task.title, *(f"{figures[engine] * 1000:.2f}" for engine in engines), *ratios])
    return rows


def sizes_rows(result: Result, engines: list[str]) -> list[list[str]]:
    """A line per dataset."""
    rows = [["dataset", *engines, f"{SUBJECT} ratio"]]
    for name, sizes in result.sizes.items():
        totals = [f"{sizes.total[engine]:,}" for engine in engines]
        rows.append([name, *totals, shown(ratio(sizes.total, SUBJECT), digits=4)])
    return rows


def columns_rows(result: Result, limit: int = 10) -> list[list[str]]:
    """A line per column that is larger than it should be, `limit` per dataset; nothing when there is none."""
    rows = []
    for name, sizes in result.sizes.items():
        larger = larger_columns(sizes)
        rows += [[f"{name}.{c}", f"{ours:,}", f"{theirs:,}"] for c, ours, theirs in larger[:limit]]
        if len(larger) > limit:
            rows.append([f"{name}: {len(larger) - limit} more", "", ""])
    return [["column", SUBJECT, BASE], *rows] if rows else []


def shown(value: float | None, digits: int = 2) -> str:
    """A ratio, or nothing."""
    return "" if value is None else f"{value:.{digits}f}"


def grid(rows: list[list[str]]) -> str:
    """Lines with columns as wide as their widest cell; the first is flush left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(line(row, widths) for row in rows)


def line(cells: Iterable[str], widths: Iterable[int]) -> str:
    """One line of a grid."""
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return "  ".join(padded).rstrip()


# --- JSON


def as_json(result: Result) -> dict[str, Any]:
    """Everything, every repetition included; times in seconds, sizes in bytes."""
    return {
        "machine": result.facts,
        "tasks": [task_json(outcome) for outcome in result.outcomes],
        "sizes": {name: sizes_json(sizes) for name, sizes in result.sizes.items()},
    }


def task_json(outcome: Outcome) -> dict[str, Any]:
    """One task."""
    task, figures = outcome.task, wall(outcome)
    return {
        "name": task.name,
        "title": task.title,
        "aim": task.aim,
        "ratio": {engine: ratio(figures, engine) for engine in figures},
        "median_seconds": figures,
        "median_cpu_seconds": cpu(outcome),
        "seconds": {engine: [time.wall for time in times] for engine, times in outcome.times.items()},
        "cpu_seconds": {engine: [time.cpu for time in times] for engine, times in outcome.times.items()},
    }


def sizes_json(sizes: Sizes) -> dict[str, Any]:
    """One dataset; of the columns only those that are larger than pylance's."""
    larger = larger_columns(sizes)
    return {
        "total": sizes.total,
        "larger_columns": {name: {SUBJECT: ours, BASE: theirs} for name, ours, theirs in larger},
    }
