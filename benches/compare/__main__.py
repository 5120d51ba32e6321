# SPDX-License-Identifier: Apache-2.0
"""Compares glaive with pylance, Parquet and Vortex on the same data in one run.

    make bench-compare                              # builds the release wheel, runs everything
    .venv/bin/python benches/compare --only scan-text --repeat 9
    .venv/bin/python benches/compare --scale 0.01 --repeat 1  # a look whether it works

`engines` says how each engine is called, `data` what is read and written, `tasks` what is measured and what
the aims are, `measure` how, `report` what is printed and stored.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import data
import engines
import measure
import report
import tasks

DATA = Path(__file__).resolve().parents[2] / "target" / "bench-data"


def main() -> None:
    """Runs the tasks asked for and prints the table."""
    options = parse(sys.argv[1:])
    chosen = [task for task in tasks.TASKS if not options.only or task.name in options.only]
    running = engines.installed(options.engine or engines.NAMES)
    facts = report.machine(running, options.scale, options.repeat)
    outcomes, sizes = [], {}
    for name in dict.fromkeys(task.dataset for task in chosen):
        dataset = data.load(name, options.scale, options.data)
        part = [task for task in chosen if task.dataset == name]
        with measure.Bench(dataset, running, options.data / "written", options.repeat) as bench:
            outcomes += bench.run(part)
            sizes[name] = bench.sizes()
    result = report.Result(facts, outcomes, sizes)
    print(report.text(result))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report.as_json(result), indent=1) + "\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benches/compare", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--scale", type=positive, default=1.0, help="share of the full data, for example 0.01 (default: 1)"
    )
    parser.add_argument(
        "--repeat", type=repetitions, default=5, help="timed repetitions after one warm-up (default: 5)"
    )
    parser.add_argument(
        "--only", action="append", choices=[task.name for task in tasks.TASKS], help="a task; may be repeated"
    )
    parser.add_argument(
        "--engine", action="append", choices=engines.NAMES, help="an engine; may be repeated (default: all)"
    )
    parser.add_argument("--json", type=Path, help="where to store the result")
    parser.add_argument("--data", type=Path, default=DATA, help="where data are made and kept")
    return parser.parse_args(arguments)


def positive(text: str) -> float:
    """A scale: above 0, at most 1."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: must be above 0 and at most 1")
    return value


def repetitions(text: str) -> int:
    """A count of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return value


if __name__ == "__main__":
    main()
