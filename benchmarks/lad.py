"""Least absolute deviation: python -m benchmarks.lad [--quick] [--only NAME] [--growth | --threads | --paper]."""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.datasets import Data
from benchmarks.harness import COLUMNS, DataSet, Row, Task, generated, main, print_table, run_cell, save
from benchmarks.lad_peers import PEERS
from benchmarks.peers import Aidlearn


def gaussian(n: int, m: int) -> DataSet:
    return generated("gaussian", n, m)


def absolute_errors(data: Data, coef: np.ndarray, intercept: float) -> float:
    """sum |y - X coef - intercept|."""
    X, y, coef = data.X, data.y, np.asarray(coef, dtype=float)
    blocks = range(0, len(y), 65_536)
    return float(sum(np.abs(y[i : i + 65_536] - X[i : i + 65_536] @ coef - intercept).sum() for i in blocks))


TASK = Task(
    name="lad",
    data=[
        gaussian(200_000, 10),
        gaussian(200_000, 100),
        gaussian(1_600_000, 10),
        gaussian(1_000_000, 100),
        gaussian(400_000, 500),
        DataSet("nycflights", "nycflights", (327_346, 136)),
        DataSet("nycflights full rank", "nycflights_full_rank", (327_346, 135)),
    ],
    quick=[gaussian(5_000, 10), gaussian(20_000, 10), gaussian(200_000, 10)],
    solvers={solver.name: solver for solver in (Aidlearn(estimator="LADRegressor"), *PEERS)},
    objective=absolute_errors,
)
PAPER = [(gaussian(200_000, 10), 8, 0.024), (gaussian(200_000, 100), 9, 0.100)]
"""Data set, T and r^T of the paper's Table 2 (LAD, tolerance 1e-3)."""


def growth(options: argparse.Namespace) -> None:
    """CPU seconds against rows."""
    sizes = [n // 10 if options.quick else n for n in (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000)]
    rows = [run_cell(TASK, gaussian(n, 50), repeat=options.repeat, params={"tol": options.tol}) for n in sizes]
    save(rows, "growth")
    print_table(rows, {key: COLUMNS[key] for key in COLUMNS if key not in ("excess", "far", "ratio")})
    done = [row for row in rows if "objective" in row]
    if len(done) > 1:
        slope = np.polyfit(np.log([row["n"] for row in done]), np.log([row["cpu"] for row in done]), 1)[0]
        print(f"CPU ~ n^{slope:.3f}")


def threads(options: argparse.Namespace) -> None:
    """One thread against two."""
    data = gaussian(100_000, 100) if options.quick else gaussian(1_000_000, 100)
    rows: list[Row] = []
    for n_jobs in (1, 2):
        row = run_cell(TASK, data, repeat=max(options.repeat, 4), params={"tol": options.tol, "n_jobs": n_jobs})
        rows.append(row | {"n_jobs": n_jobs})
    save(rows, "threads")
    shown = ("data", "solver", "cpu", "wall", "gap", "iterations", "memory")
    print_table(rows, {key: COLUMNS[key] for key in shown} | {"n_jobs": ("n_jobs", "{}")})
    one, two = rows
    if "objective" in one and "objective" in two:
        print(f"speed-up {one['wall'] / two['wall']:.2f}, coefficients bitwise equal: {one['coef'] == two['coef']}")


def paper(options: argparse.Namespace) -> None:
    """The paper's initial clusters and tolerance beside the paper's results."""
    rows: list[Row] = []
    for data, iterations, rate in PAPER:
        row = run_cell(TASK, data, repeat=options.repeat, params={"tol": 1e-3, "init": "kmeans"})
        rows.append(row | {"paper_T": iterations, "paper_rate": rate})
    save(rows, "paper")
    shown = {key: COLUMNS[key] for key in ("data", "solver", "cpu", "wall", "gap", "iterations")}
    rates = {"rate": ("r^T", "{:.1%}"), "paper_T": ("paper T", "{}"), "paper_rate": ("paper r^T", "{:.1%}")}
    print('init="kmeans", tol=1e-3')
    print_table(rows, shown | rates)


if __name__ == "__main__":
    main(TASK, "Least absolute deviation regression against its peers.", (growth, threads, paper))
