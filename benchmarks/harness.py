"""Runs every (data set, solver) cell of a task in a fresh single-threaded process and prints one table."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import OURS, Aidlearn, Solver

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
LOADING = 600.0
"""Seconds a process may take besides the fit, which has a limit of its own."""

Row = dict[str, Any]


@dataclass(frozen=True)
class DataSet:
    """A loader of benchmarks.datasets with its arguments, and the constants of the problem."""

    name: str
    loader: str
    shape: tuple[int, int]
    arguments: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, float] = field(default_factory=dict)


def generated(loader: str, n: int, m: int, seed: int = 0, **settings: float) -> DataSet:
    count = f"{n / 1e6:g}M" if n >= 1_000_000 else f"{n // 1000}k"
    name = " ".join([f"{count} x {m}", *(f"{key}={value:g}" for key, value in settings.items())])
    return DataSet(name, loader, (n, m), {"n": n, "m": m, "seed": seed}, settings)


@dataclass(frozen=True)
class Task:
    """A problem: its data sets, those who solve it and the one function that judges them all."""

    name: str
    """Module of benchmarks that holds this task as TASK."""
    data: Sequence[DataSet]
    quick: Sequence[DataSet]
    solvers: dict[str, Solver]
    objective: Callable[..., float]
    """Of (data, coef, intercept, **settings)."""
    exact: float = 1e-4
    """A peer whose objective is further than this (relative) from the best is not the one we compare with."""
    tol: float = 1e-6
    """Ours, by default."""
    proven: bool = False
    """Objectives are compared with the best proven lower bound instead of the best objective."""


def run_cell(
    task: Task, data: DataSet, solver: str = OURS, *, repeat: int = 2, params: dict[str, Any] | None = None
) -> Row:
    """One cell, in its own process; a crash is a row that says so."""
    cell = {
        "task": task.name,
        "data": data.name,
        "loader": data.loader,
        "n": data.shape[0],
        "m": data.shape[1],
        "arguments": data.arguments,
        "settings": data.settings,
        "solver": solver,
        "repeat": repeat,
        "params": params or {},
    }
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    which = task.solvers[solver]
    command = [which.interpreter(), "-m", "benchmarks.cell", json.dumps(cell)]
    limit = repeat * which.timeout + LOADING
    over = {"failed": f"over {which.timeout:.0f} s", "cpu_over": which.timeout}
    try:
        done = subprocess.run(command, cwd=ROOT, env=os.environ | one, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return cell | over
    except OSError as error:
        return cell | {"skipped": f"the interpreter for peers does not start: {error.strerror}"}
    if done.returncode == -signal.SIGALRM:
        return cell | over
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        return cell | {"failed": f"process ended with code {done.returncode}: {done.stderr.strip()[-300:]}"}
    return cell | json.loads(lines[-1])


def save(rows: Sequence[Row], name: str) -> None:
    """Append rows to results/<name>.jsonl with what is needed to read them later."""
    RESULTS.mkdir(exist_ok=True)
    about = {"time": time.strftime("%Y-%m-%dT%H:%M:%S"), "python": platform.python_version(), "numpy": np.__version__}
    with open(RESULTS / f"{name}.jsonl", "a") as file:
        file.writelines(json.dumps(about | row) + "\n" for row in rows)


def compare(rows: Sequence[Row], task: Task) -> None:
    """Adds to the rows of one data set: objective over the best, and CPU over ours (ours: best exact peer's)."""
    done = [row for row in rows if "objective" in row]
    best = min((row["objective"] for row in done), default=math.nan)
    if task.proven:
        best = max((row["lower_bound"] for row in done if "lower_bound" in row), default=best)
    for row in done:
        row["excess"] = row["objective"] / best - 1
        row["far"] = "far" if row["excess"] > task.exact else ""
    ours = next((row for row in done if row["solver"] == OURS), None)
    if ours is not None:
        for row in done:
            if row is not ours:
                row["ratio"] = row["cpu"] / ours["cpu"]
        peers = [row for row in done if not (isinstance(task.solvers[row["solver"]], Aidlearn) or row["far"])]
        ours["ratio"] = min((row["ratio"] for row in peers), default=None)
        for row in rows:
            if "cpu_over" in row:
                row["failed"] += f", {row['cpu_over'] / ours['cpu']:.0f} times ours"


COLUMNS = {
    "data": ("data", "{}"),
    "solver": ("solver", "{}"),
    "cpu": ("CPU s", "{:.3f}"),
    "wall": ("wall s", "{:.3f}"),
    "excess": ("obj/best-1", "{:.1e}"),
    "far": ("", "{}"),
    "gap": ("gap", "{:.1e}"),
    "iterations": ("iter", "{}"),
    "clusters": ("clusters", "{}"),
    "memory": ("mem/array", "{:.2f}"),
    "ratio": ("peer/ours", "{:.2f}"),
    "products": ("CPU/X@b", "{:.1f}"),
}
"""Data set and solver come first in every table."""


def print_table(rows: Sequence[Row], columns: dict[str, tuple[str, str]] = COLUMNS) -> None:
    """Aligned text; a cell without numbers says why. Warnings follow the table."""
    lines = [[title for title, _ in columns.values()]]
    for row in rows:
        values = [(row.get(key), form) for key, (_, form) in columns.items()]
        lines.append(["-" if value is None else form.format(value) for value, form in values])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [isinstance(rows[0].get(key), str) for key in columns]
    for row, line in zip([None, *rows], lines, strict=True):
        pairs = zip(line, widths, text, strict=True)
        words = [word.ljust(width) if left else word.rjust(width) for word, width, left in pairs]
        reason = next((f"{key}: {row[key]}" for key in ("skipped", "failed") if row and row.get(key)), None)
        print("  ".join([*words[:2], reason] if reason else words).rstrip())
    for row in rows:
        for note in row.get("notes", []):
            print(f"warning from {row['solver']} on {row['data']}: {note}")
    versions = {row["source"] for row in rows if row.get("source")}
    if len(versions) > 1:
        print(f"warning: the source of {OURS} changed during the run ({', '.join(sorted(versions))})")


def table(task: Task, options: argparse.Namespace, columns: dict[str, tuple[str, str]] = COLUMNS) -> list[Row]:
    """Every solver on every data set; slow solvers after all others. Returns the rows it printed."""
    sets = [
        data
        for data in (task.quick if options.quick else task.data)
        if options.only is None or options.only in data.name
    ]
    rows: dict[tuple[str, str], Row] = {}
    for slow in (False, True):
        for data in sets:
            for solver in task.solvers.values():
                if solver.slow != slow:
                    continue
                params = {"tol": options.tol} if isinstance(solver, Aidlearn) else {}
                row = run_cell(task, data, solver.name, repeat=options.repeat, params=params)
                rows[data.name, solver.name] = row
                save([row], task.name)
                note = row.get("skipped") or row.get("failed") or f"{row['cpu']:.2f} CPU s"
                print(f"# {data.name}, {solver.name}: {note}", flush=True)
    if not rows:
        print("no data set of that name")
        return []
    shown = [rows[data.name, solver] for data in sets for solver in task.solvers]
    for data in sets:
        compare([row for row in shown if row["data"] == data.name], task)
    print(f"\n{task.name}, tol={options.tol:g}, one thread, best of {options.repeat} (fits over 60 s run once)")
    print_table(shown, columns)
    best = "best lower bound" if task.proven else "best objective"
    print(f"peer/ours of {OURS}: against the fastest peer within {task.exact:g} of the {best}; others are far")
    return shown


Mode = Callable[[argparse.Namespace], None]


def main(task: Task, description: str, modes: Sequence[Mode], default: Mode | None = None) -> None:
    """The table (or ``default``), or one of the modes, each of which is an option of its name."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small data sets")
    parser.add_argument("--only", metavar="NAME", help="only data sets whose name contains NAME")
    parser.add_argument("--tol", type=float, default=task.tol)
    parser.add_argument("--repeat", type=int, default=2, help="runs of every fit; the best counts")
    which = parser.add_mutually_exclusive_group()
    for mode in modes:
        which.add_argument(f"--{mode.__name__}", dest="mode", action="store_const", const=mode, help=mode.__doc__)
    options = parser.parse_args()
    if options.mode or default:
        (options.mode or default)(options)
    else:
        table(task, options)
