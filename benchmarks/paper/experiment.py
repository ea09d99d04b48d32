"""An experiment has cells to measure, a table of their results, remarks and plots."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.cells import Cell, Row

Options = argparse.Namespace
Draw = Callable[[Sequence[Row], Path], None]
DEFAULT_SCALE = 0.05
FEWEST_COLUMNS = 3
SHORTEST = 1e-3
"""Resolution of process clocks on some machines, in seconds."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Parameters
    ----------
    name, title : str
    cells : callable
        Function that returns the cells for the given options.
    table : callable
        Function that returns a Markdown table of the rows.
    remarks : callable
        Function that returns the lines below the table: whether the paper's findings hold, where aidlearn is slower.
    pictures : dict
        Functions that draw plots, by the suffix of the file name.
    repeat : int
        Default number of instances of every cell.
    scale : float
        Default scale, for a few minutes of run time.
    """

    name: str
    title: str
    cells: Callable[[Options], list[Cell]]
    table: Callable[[Sequence[Row]], str]
    remarks: Callable[[Sequence[Row]], Iterable[str]] = lambda rows: ()
    pictures: dict[str, Draw] | None = None
    repeat: int = 1
    scale: float = DEFAULT_SCALE


def scaled(n: int, m: int, scale: float) -> tuple[int, int]:
    """Return the rows times the scale, and the columns times its square root."""
    return max(1000, round(n * scale)), max(FEWEST_COLUMNS, round(m * math.sqrt(scale)))


def done(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that have a result."""
    return [row for row in rows if not (row.get("failed") or row.get("skipped"))]


def why_not(rows: Sequence[Row]) -> str:
    """Return a short reason why there is no number, such as a limit or a missing program."""
    words = next(
        (row.get("failed") or row.get("skipped") for row in rows if row.get("failed") or row.get("skipped")), ""
    )
    over = next((row["cpu_over"] for row in rows if "cpu_over" in row), None)
    return f"> {over:g}" if over is not None else ("not run" if not words else words.split(":")[0][:24])


def mean(rows: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in done(rows) if row.get(name) is not None]
    if name == "cpu":
        values = [max(value, SHORTEST) for value in values]
    return float(np.mean(values)) if values else None


def deviation(rows: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in done(rows) if row.get(name) is not None]
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def shown(value: Any, form: str = "{}") -> str:
    return "-" if value is None or (isinstance(value, float) and math.isnan(value)) else form.format(value)


def seconds(value: float | None) -> str:
    """Format seconds with three significant digits."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table without empty columns."""
    kept = [k for k in range(len(head)) if not lines or any(line[k] != "-" for line in lines)]
    head, lines = [head[k] for k in kept], [[line[k] for k in kept] for line in lines]
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    out += ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join(out)


def falls(values: Sequence[float], share: float = 0.6) -> bool:
    """Return whether most steps decrease and the last value is below the first."""
    steps = np.diff(np.asarray(values, dtype=float))
    return bool(len(steps) and np.isfinite(steps).all() and (steps <= 0).mean() >= share and values[-1] < values[0])
