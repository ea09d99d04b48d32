"""Kernel SVM: python -m benchmarks.kernel [--quick] [--only NAME] [--tol 1e-4] [--repeat 2] [--growth].

The rbf kernel with gamma = 1/m on standardised columns. "no aggregation" is our own solver on all rows at once
(init="rows"): what aggregation gains or costs.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from dataclasses import replace

import numpy as np

from benchmarks.datasets import Data
from benchmarks.harness import COLUMNS, ROOT, DataSet, Row, Task, generated, main, print_table, run_cell, save, table
from benchmarks.kernel_peers import SOLVERS
from benchmarks.peers import OURS
from benchmarks.svm import ROUNDING, hinge_losses

CELEBA = 202_599
GROWTH_TOL = 1e-3
SHOWN = (
    {key: COLUMNS[key] for key in ("data", "solver", "cpu", "wall")}
    | {"excess": ("obj/bound-1", "{:.1e}"), "far": COLUMNS["far"]}
    | {key: COLUMNS[key] for key in ("gap", "iterations", "clusters")}
    | {"support": ("support", "{}"), "peak": ("peak MB", "{:.0f}"), "ratio": COLUMNS["ratio"]}
)


def curved(n: int, m: int, C: float = 1.0) -> DataSet:
    data = generated("curved_classes", n, m, C=C)
    return replace(data, settings=data.settings | {"gamma": 1 / m})


def campaign(C: float = 1.0) -> DataSet:
    return DataSet(f"campaign C={C:g}", "standardised", (41_188, 62), {"name": "campaign"}, {"C": C, "gamma": 1 / 62})


def celeba(n: int, C: float = 1.0) -> DataSet:
    name = f"celeba {n / 1000:g}k C={C:g}"
    return DataSet(name, "standardised", (n, 39), {"name": "celeba", "rows": n}, {"C": C, "gamma": 1 / 39})


def kernel_objective(data: Data, coef: np.ndarray, intercept: float, C: float, gamma: float) -> float:
    """1/2 |w|^2 + C sum max(0, 1 - y_i (<w, phi(x_i)> + b)) at the best b for w, in float64 on all rows.

    ``coef`` has two rows: numbers of training rows and their coefficients in w.
    """
    if importlib.util.find_spec("aidlearn") is None:  # in the interpreter of the peers
        sys.path.append(str(ROOT / "src"))
    from aidlearn.kernels.functions import Kernel
    from aidlearn.kernels.rows import kernel_rows

    support, values = coef[0].astype(int), coef[1]
    rows = kernel_rows(Kernel("rbf", gamma), data.X, n_jobs=1, tol=0.0)
    scores = rows.times(np.arange(rows.n), support, values[:, None], exact=True)[:, 0]
    return float(0.5 * (values @ scores[support]) + C * hinge_losses(data, scores))


TASK = Task(
    name="kernel",
    data=[
        *(curved(20_000, 30, C) for C in (1.0, 10.0)),
        *(celeba(20_000, C) for C in (1.0, 10.0)),
        campaign(),
        curved(50_000, 30),
        celeba(50_000),
    ],
    quick=[curved(n, 10) for n in (3_000, 6_000)],
    solvers={solver.name: solver for solver in SOLVERS},
    objective=kernel_objective,
    exact=1e-3,
    tol=1e-4,
    proven=True,
)


def comparison(options: argparse.Namespace) -> None:
    """The table, the cells we lose and whether every bound holds."""
    rows = table(TASK, options, SHOWN)
    for name in dict.fromkeys(row["data"] for row in rows):
        print_losses([row for row in rows if row["data"] == name])


def print_losses(rows: list[Row]) -> None:
    """Solvers faster than ours on one data set, however exact; solvers more exact; bounds that are none."""
    done = {row["solver"]: row for row in rows if "objective" in row}
    if not done:
        return
    best = min(row["objective"] for row in done.values())
    for row in done.values():
        if row.get("lower_bound", -np.inf) > best * (1 + ROUNDING):
            print(f"WRONG: on {row['data']} the bound of {row['solver']} is above the objective of another")
    ours = done.pop(OURS, None)
    if ours is None:
        print(f"lost: {rows[0]['data']}, without a result")
        return
    for row in done.values():
        if row["cpu"] < ours["cpu"]:
            print(
                f"lost: {row['data']} to {row['solver']}, which takes {row['ratio']:.2f} of our CPU time "
                f"(objective over bound: its {row['excess']:.1e}, ours {ours['excess']:.1e})"
            )
    if all(row["cpu"] >= ours["cpu"] for row in done.values()):
        print(f"won: {ours['data']}, against {', '.join(done) or 'nobody'}")
    nearer = [f"{row['solver']} {row['excess']:.1e}" for row in done.values() if row["excess"] < ours["excess"]]
    if nearer:
        print(f"nearer to the bound than ours ({ours['excess']:.1e}) on {ours['data']}: {', '.join(nearer)}")


def growth(options: argparse.Namespace) -> None:
    """CPU seconds and peak memory (data included) against rows of celeba, C=1, tol=1e-3."""
    sizes = (2_500, 5_000, 10_000, 20_000) if options.quick else (25_000, 50_000, 100_000, CELEBA)
    rows: list[Row] = []
    for n in sizes:
        rows.append(run_cell(TASK, celeba(n), repeat=options.repeat, params={"tol": GROWTH_TOL}))
        save(rows[-1:], "kernel-growth")
    print(f"{OURS}, tol={GROWTH_TOL:g}, one thread, best of {options.repeat} (fits over 60 s run once)")
    print_table(rows, {key: SHOWN[key] for key in SHOWN if key not in ("excess", "far", "ratio")})
    done = [row for row in rows if "objective" in row]
    if len(done) > 1:
        slope = np.polyfit(np.log([row["n"] for row in done]), np.log([row["cpu"] for row in done]), 1)[0]
        print(f"CPU ~ n^{slope:.3f}")


if __name__ == "__main__":
    main(TASK, "Support vector machine with rbf kernel against its peers.", (growth,), comparison)
