"""SVM with rbf kernel against its peers, and growth with rows: python -m benchmarks.kernel.

gamma = 1/m on standardised columns. "no aggregation" is our own solver on all rows at once (init="rows"), which shows
what aggregation gains or costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aidlearn.bench.solvers import OURS
from benchmarks.harness.cells import Cell, Row, measured
from benchmarks.harness.command import Options, Table, comparison, growth_rate, main
from benchmarks.harness.datasets import DataSet, generated
from benchmarks.harness.table import COLUMNS, ROUNDING, TableLayout, pick
from benchmarks.svm import CAMPAIGN

MEMORY = {"support": ("support", "{}"), "peak": ("peak MB", "{:.0f}")}


def curved(n: int, m: int = 30) -> DataSet:
    return generated("curved_classes", n, m)


def celeba(n: int) -> DataSet:
    return DataSet(f"celeba {n / 1000:g}k", "standardised", (n, 39), {"name": "celeba", "rows": n})


def peers(options: Options) -> list[Cell]:
    sets = [(data, C) for data in (curved(20_000), celeba(20_000)) for C in (1.0, 10.0)]
    sets += [(CAMPAIGN, 1.0), (curved(50_000), 1.0), (celeba(50_000), 1.0)]
    if options.quick:
        sets = [(curved(n, 10), 1.0) for n in (3_000, 6_000)]
    return [cell for data, C in sets for cell in comparison("kernel-svm", data, options, C=C, gamma=1 / data.shape[1])]


def growth(options: Options) -> list[Cell]:
    sizes = (2_500, 5_000, 10_000, 20_000) if options.quick else (25_000, 50_000, 100_000, 202_599)
    settings = {"C": 1.0, "gamma": 1 / 39}
    return [measured("kernel-svm", celeba(n), settings=settings, tol=options.tol, repeat=options.repeat) for n in sizes]


def losses(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the solvers that are faster than ours, however inexact, those that are more exact, and invalid bounds."""
    for name in dict.fromkeys(row["data"] for row in rows):
        done = {row["solver"]: row for row in rows if row["data"] == name and "objective" in row}
        best = min((row["objective"] for row in done.values()), default=np.inf)
        for row in done.values():
            if row.get("lower_bound", -np.inf) > best * (1 + ROUNDING):
                yield f"WRONG: on {name} the bound of {row['solver']} is above the objective of another"
        ours = done.pop(OURS, None)
        if ours is None:
            continue
        faster = [row for row in done.values() if row["cpu"] < ours["cpu"]]
        for row in faster:
            yield (
                f"lost: {name} to {row['solver']}, which takes {row['ratio']:.2f} of our CPU time "
                f"(objective over bound: its {row['excess']:.1e}, ours {ours['excess']:.1e})"
            )
        if not faster:
            yield f"won: {name}, against {', '.join(done) or 'nobody'}"
        nearer = [f"{row['solver']} {row['excess']:.1e}" for row in done.values() if row["excess"] < ours["excess"]]
        if nearer:
            yield f"nearer to the bound than ours ({ours['excess']:.1e}) on {name}: {', '.join(nearer)}"


SHOWN = pick("cpu", "wall", excess=("obj/bound-1", "{:.1e}")) | pick("gap", "iterations", "clusters", **MEMORY)
TABLES = (
    Table(
        "kernel",
        "Kernel SVM, tol={tol:g}, one thread, best of {repeat}",
        peers,
        TableLayout(SHOWN | {"ratio": COLUMNS["ratio"]}, exact=1e-3, proven=True),
        losses,
        tol=1e-4,
    ),
    Table(
        "growth",
        "CPU seconds and peak memory (data included) against rows of celeba, C=1, tol={tol:g}",
        growth,
        TableLayout(pick("cpu", "wall", "gap", "iterations", "clusters", **MEMORY)),
        growth_rate,
        tol=1e-3,
    ),
)

if __name__ == "__main__":
    main("kernel", __doc__.split("\n")[0], *TABLES)
