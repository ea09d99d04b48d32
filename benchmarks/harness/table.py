"""Comparison of rows (best objective, ratios of CPU seconds) and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from aidlearn.bench.solvers import OURS
from benchmarks.harness.cells import Row

ROUNDING = 1e-9
"""Relative rounding error that a bound or an objective may have."""

COLUMNS = {
    "cpu": ("CPU s", "{:.3f}"),
    "wall": ("wall s", "{:.3f}"),
    "excess": ("obj/best-1", "{:.1e}"),
    "gap": ("gap", "{:.1e}"),
    "iterations": ("iter", "{}"),
    "clusters": ("clusters", "{}"),
    "memory": ("mem/array", "{:.2f}"),
    "ratio": ("peer/ours", "{:.2f}"),
    "products": ("CPU/X@b", "{:.1f}"),
}
"""Titles and formats of values. Data set and solver come first in every table, notes last."""


@dataclass(frozen=True)
class TableLayout:
    """Columns of a table and the rules of its comparison.

    Parameters
    ----------
    columns : dict
        Title and format of values by key.
    exact : float
        Relative excess over the best objective above which a peer is left out of the comparison.
    proven : bool
        Whether objectives are compared with the best proven lower bound instead of the best objective.
    """

    columns: dict[str, tuple[str, str]] = field(default_factory=lambda: dict(COLUMNS))
    exact: float = 1e-4
    proven: bool = False


def pick(*keys: str, **more: tuple[str, str]) -> dict[str, tuple[str, str]]:
    """Return a selection of the usual columns, and further ones."""
    return {key: COLUMNS[key] for key in keys} | more


def compare(rows: Sequence[Row], layout: TableLayout) -> None:
    """Add each row's excess over the best objective and its CPU ratio to ours (ours: of the fastest exact peer)."""
    for name in dict.fromkeys(row["data"] for row in rows):
        _compare([row for row in rows if row["data"] == name], layout)


def _compare(rows: Sequence[Row], layout: TableLayout) -> None:
    done = [row for row in rows if "objective" in row]
    best = min((row["objective"] for row in done), default=math.nan)
    if layout.proven:
        best = max((row["lower_bound"] for row in done if "lower_bound" in row), default=best)
    for row in done:
        row["excess"] = row["objective"] / best - 1 if best else 0.0
        row["far"] = row["excess"] > layout.exact
    ours = next((row for row in done if row["solver"] == OURS), None)
    if ours is None:
        return
    for row in done:
        if row is not ours:
            row["ratio"] = row["cpu"] / ours["cpu"]
    ours["ratio"] = min((row["ratio"] for row in done if not (row["own"] or row["far"])), default=None)
    for row in rows:
        if "cpu_over" in row:
            row["failed"] += f", {row['cpu_over'] / ours['cpu']:.0f} times ours"


def markdown(rows: Sequence[Row], layout: TableLayout) -> str:
    """Return an aligned table; rows without a result show the reason.

    Examples
    --------
    >>> print(markdown([{"data": "small", "solver": "aidlearn", "cpu": 0.25}], TableLayout(pick("cpu"))))
    | data  | solver   | CPU s |
    |-------|----------|------:|
    | small | aidlearn | 0.250 |
    """
    shown = {"data": ("data", "{}"), "solver": ("solver", "{}")} | layout.columns
    lines = [[*(title for title, _ in shown.values()), "note"]]
    for row in rows:
        values = [(row.get(key), form) for key, (_, form) in shown.items()]
        words = ["-" if value is None else form.format(value) for value, form in values]
        lines.append([*words, _note(row)])
    if not any(line[-1] for line in lines[1:]):
        lines = [line[:-1] for line in lines]
    lines = [[word.replace("|", "\\|") for word in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = [k < 2 or k == len(shown) for k in range(len(widths))]
    lines.insert(1, ["-" * (w + 2) if text else "-" * (w + 1) + ":" for w, text in zip(widths, left, strict=True)])
    out = []
    for number, line in enumerate(lines):
        if number == 1:
            out.append("|" + "|".join(line) + "|")
            continue
        cells = zip(line, widths, left, strict=True)
        out.append("| " + " | ".join(word.ljust(w) if text else word.rjust(w) for word, w, text in cells) + " |")
    return "\n".join(out)


def _note(row: Row) -> str:
    reason = next((f"{key}: {row[key]}" for key in ("skipped", "failed") if row.get(key)), None)
    return reason or ("far" if row.get("far") else "")


def warnings(rows: Sequence[Row]) -> Iterator[str]:
    """Yield warnings of the solvers, and one if the source of aidlearn changed during the run."""
    for row in rows:
        for note in row.get("notes", []):
            yield f"warning from {row['solver']} on {row['data']}: {note}"
    versions = {row["source"] for row in rows if row.get("source")}
    if len(versions) > 1:
        yield f"warning: the source of {OURS} changed during the run ({', '.join(sorted(versions))})"
