"""Linear hinge SVM: python -m benchmarks.svm [--quick] [--only NAME] [--tol 1e-6] [--weights | --paper]."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks.datasets import Data
from benchmarks.harness import COLUMNS, DataSet, Row, Task, generated, main, print_table, run_cell, save
from benchmarks.peers import Aidlearn
from benchmarks.svm_peers import PEERS

ROUNDING = 1e-9
"""Relative error that bounds may have."""


def real(name: str, n: int, m: int, C: float) -> DataSet:
    return DataSet(f"{name} C={C:g}", "standardised", (n, m), {"name": name}, {"C": C})


def hinge_objective(data: Data, coef: np.ndarray, intercept: float, C: float) -> float:
    """1/2 |w|^2 + C sum s_i max(0, 1 - y_i (w x_i + b)) at the best b for w, whatever b the solver chose."""
    w = np.asarray(coef, dtype=float)
    return float(0.5 * (w @ w) + C * hinge_losses(data, data.X @ w))


def hinge_losses(data: Data, scores: np.ndarray) -> float:
    """sum s_i max(0, 1 - y_i (scores_i + b)) at the best b."""
    weight = np.ones(len(scores)) if data.weight is None else data.weight
    # Row i bends at b = y_i - w x_i and its slope rises there by s_i; far to the left only y_i = 1 count, each with
    # slope -s_i. So the slope becomes non-negative where the weights of the bends passed reach the sum over y_i = 1.
    kinks = data.y - scores
    order = np.argsort(kinks)
    passed = np.cumsum(weight[order])
    place = np.searchsorted(passed, weight[data.y > 0].sum())
    b = kinks[order[min(place, len(order) - 1)]]
    return float(weight @ np.maximum(0.0, 1.0 - data.y * (scores + b)))


TASK = Task(
    name="svm",
    data=[
        *(real("celeba", 202_599, 39, C) for C in (0.1, 1.0, 10.0)),
        *(real("campaign", 41_188, 62, C) for C in (0.1, 1.0, 10.0)),
        generated("two_classes", 30_000, 50, C=0.1),
        generated("two_classes", 800_000, 90, C=0.1),
    ],
    quick=[generated("two_classes", n, 10, C=0.1) for n in (5_000, 50_000)],
    solvers={solver.name: solver for solver in (Aidlearn(estimator="LinearSVC"), *PEERS)},
    objective=hinge_objective,
    exact=1e-2,
)


def weights(options: argparse.Namespace) -> None:
    """Weights over five orders of magnitude: the gap, and bounds that must hold when the solver stops early."""
    data = generated("weighted_classes", 2_000 if options.quick else 20_000, 50, C=1.0)
    exact = run_cell(TASK, data, repeat=options.repeat, params={"tol": 1e-8})
    early = run_cell(TASK, data, repeat=1, params={"tol": 1e-8, "solver": "liblinear", "max_iter": 5})
    rows = [exact | {"by": "auto"}, early | {"by": "liblinear"}]
    save(rows, "svm-weights")
    shown = ("data", "solver", "cpu", "wall", "gap", "iterations", "clusters", "memory", "products")
    more = {"by": ("by", "{}"), "status": ("status", "{}"), "objective": ("objective", "{:.12g}")}
    print("weights log-uniform over 1..1e5, tol=1e-8; liblinear with max_iter=5")
    print_table(rows, {key: COLUMNS[key] for key in shown} | more)
    done = [row for row in rows if "objective" in row]
    if not done:
        return
    best = min(row["objective"] for row in done)
    for row in done:
        excess = [f"{bound / best - 1:.2e}" for bound in row["bounds"]]
        exceeds = max(row["bounds"]) > best * (1 + ROUNDING)
        print(f"{row['by']}: lower bounds over best known objective - 1: {', '.join(excess)}; exceeds it: {exceeds}")


def paper(options: argparse.Namespace) -> None:
    """Initial and final rate of the paper's procedure against rows and columns."""
    counts, columns = (30_000, 50_000, 100_000, 150_000), (10, 30, 50, 70, 90)
    if options.quick:
        counts, columns = (3_000, 6_000), (5, 10)
    rows: dict[tuple[int, int], Row] = {}
    for n in counts:
        for m in columns:
            row = run_cell(
                TASK, generated("two_classes", n, m, C=0.1), repeat=1, params={"tol": 1e-4, "init": "kmeans"}
            )
            if "objective" in row:
                row["start"] = row["rates"][0]
                row["rises"] = "yes" if _ordered(row["bounds"]) else "NO"
            rows[n, m] = row
            save([row], "svm-paper")
            print(f"# {row['data']}: {row.get('failed') or row['cpu']}", flush=True)
    shown = {key: COLUMNS[key] for key in ("data", "solver", "cpu", "wall", "gap", "iterations", "clusters")}
    more = {"start": ("r^0", "{:.2%}"), "rate": ("r^T", "{:.2%}"), "rises": ("bounds rise", "{}")}
    print('\ninit="kmeans", tol=1e-4; iterations are T')
    print_table(list(rows.values()), shown | more)

    def rates(keys: Sequence[tuple[int, int]]) -> list[float]:
        return [rows[key].get("rate", np.nan) for key in keys]

    for m in columns:
        print(f"m={m}: r^T falls with n: {_ordered([-rate for rate in rates([(n, m) for n in counts])])}")
    for n in counts:
        print(f"n={n}: r^T grows with m: {_ordered(rates([(n, m) for m in columns]))}")
    print(f"lower bounds of every history rise: {all(row.get('rises') == 'yes' for row in rows.values())}")


def _ordered(values: Sequence[float]) -> bool:
    """Whether the values never fall, up to rounding."""
    array = np.asarray(values)
    return bool(np.all(np.diff(array) >= -ROUNDING * np.abs(array[1:])))


if __name__ == "__main__":
    main(TASK, "Linear support vector machine against its peers.", (weights, paper))
