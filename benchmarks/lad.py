"""Least absolute deviation against its peers, and CPU seconds against rows: python -m benchmarks.lad."""

from __future__ import annotations

from benchmarks.harness.cells import Cell, measured
from benchmarks.harness.command import Options, Table, comparison, growth_rate, main
from benchmarks.harness.datasets import DataSet, generated
from benchmarks.harness.table import TableLayout, pick

SHAPES = ((200_000, 10), (200_000, 100), (1_600_000, 10), (1_000_000, 100), (400_000, 500))
QUICK = ((5_000, 10), (20_000, 10), (200_000, 10))
FLIGHTS = (
    DataSet("nycflights", "nycflights", (327_346, 136), {}),
    DataSet("nycflights full rank", "nycflights", (327_346, 135), {"full_rank": True}),
)


def peers(options: Options) -> list[Cell]:
    sets = [generated("gaussian", n, m) for n, m in (QUICK if options.quick else SHAPES)]
    sets += [] if options.quick else FLIGHTS
    return [cell for data in sets for cell in comparison("lad", data, options)]


def growth(options: Options) -> list[Cell]:
    sizes = [n // 10 if options.quick else n for n in (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000)]
    sets = [generated("gaussian", n, 50) for n in sizes]
    return [measured("lad", data, tol=options.tol, repeat=options.repeat, timeout=options.timeout) for data in sets]


TABLES = (
    Table("lad", "Least absolute deviation, tol={tol:g}, one thread, best of {repeat}", peers, TableLayout()),
    Table(
        "growth",
        "CPU seconds against rows, tol={tol:g}",
        growth,
        TableLayout(pick("cpu", "wall", "gap", "iterations", "clusters", "memory", "products")),
        growth_rate,
    ),
)

if __name__ == "__main__":
    main("lad", __doc__.split("\n")[0], *TABLES)
