"""Least absolute deviation: python -m benchmarks.lad [--quick] [--only NAME] [--growth | --threads | --paper]."""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.harness import COLUMNS, OURS, DataSet, Row, arguments, compare, gaussian, print_table, run_cell, save
from benchmarks.peers import PEERS

NYC = [DataSet("nycflights", "nycflights"), DataSet("nycflights full rank", "nycflights_full_rank")]
QUICK = [gaussian(5_000, 10), gaussian(20_000, 10), gaussian(200_000, 10)]
MAIN = [
    gaussian(200_000, 10),
    gaussian(200_000, 100),
    gaussian(1_600_000, 10),
    gaussian(1_000_000, 100),
    gaussian(400_000, 500),
    *NYC,
]
PAPER = [(gaussian(200_000, 10), 8, 0.024), (gaussian(200_000, 100), 9, 0.100)]
"""Data set, T and r^T of the paper's Table 2 (LAD, tolerance 1e-3)."""


def table(options: argparse.Namespace) -> None:
    sets = [data for data in (QUICK if options.quick else MAIN) if options.only is None or options.only in data.name]
    rows: list[Row] = []
    for data in sets:
        mine: list[Row] = []
        for solver in (OURS, *PEERS):
            params = {"tol": options.tol} if solver == OURS else {}
            mine.append(run_cell(data, solver, repeat=options.repeat, params=params))
            note = mine[-1].get("skipped") or mine[-1].get("failed") or f"{mine[-1]['cpu']:.2f} CPU s"
            print(f"# {data.name}, {solver}: {note}", flush=True)
        compare(mine)
        save(mine, "lad")
        rows += mine
    if not rows:
        print("no data set of that name")
        return
    print(f"\nLAD, tol={options.tol:g}, one thread, best of {options.repeat} (fits over 60 s run once)")
    print_table(rows)


def growth(options: argparse.Namespace) -> None:
    sizes = [n // 10 if options.quick else n for n in (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000)]
    rows = [run_cell(gaussian(n, 50), OURS, repeat=options.repeat, params={"tol": options.tol}) for n in sizes]
    save(rows, "growth")
    print_table(rows, {key: COLUMNS[key] for key in COLUMNS if key not in ("excess", "ratio")})
    done = [row for row in rows if "objective" in row]
    if len(done) > 1:
        slope = np.polyfit(np.log([row["n"] for row in done]), np.log([row["cpu"] for row in done]), 1)[0]
        print(f"CPU ~ n^{slope:.3f}")


def threads(options: argparse.Namespace) -> None:
    data = gaussian(100_000, 100) if options.quick else gaussian(1_000_000, 100)
    rows: list[Row] = []
    for n_jobs in (1, 2):
        row = run_cell(data, OURS, repeat=max(options.repeat, 4), params={"tol": options.tol, "n_jobs": n_jobs})
        rows.append(row | {"n_jobs": n_jobs})
    save(rows, "threads")
    shown = ("data", "solver", "cpu", "wall", "gap", "iterations", "memory")
    print_table(rows, {key: COLUMNS[key] for key in shown} | {"n_jobs": ("n_jobs", "{}")})
    one, two = rows
    if "objective" in one and "objective" in two:
        print(f"speed-up {one['wall'] / two['wall']:.2f}, coefficients bitwise equal: {one['coef'] == two['coef']}")


def paper(options: argparse.Namespace) -> None:
    rows: list[Row] = []
    for data, iterations, rate in PAPER:
        row = run_cell(data, OURS, repeat=options.repeat, params={"tol": 1e-3, "init": "kmeans"})
        rows.append(row | {"paper_T": iterations, "paper_rate": rate})
    save(rows, "paper")
    shown = {key: COLUMNS[key] for key in ("data", "solver", "cpu", "wall", "gap", "iterations")}
    rates = {"rate": ("r^T", "{:.1%}"), "paper_T": ("paper T", "{}"), "paper_rate": ("paper r^T", "{:.1%}")}
    print('init="kmeans", tol=1e-3')
    print_table(rows, shown | rates)


def main() -> None:
    parser = arguments("Least absolute deviation regression against its peers.")
    which = parser.add_mutually_exclusive_group()
    for job in (growth, threads, paper):
        which.add_argument(f"--{job.__name__}", dest="job", action="store_const", const=job)
    options = parser.parse_args()
    (options.job or table)(options)


if __name__ == "__main__":
    main()
