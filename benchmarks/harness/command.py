"""The one command line of all tables: python -m benchmarks.NAME [--table NAME] [--quick] [--only TEXT] [--no-peers]."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aidlearn.bench.solvers import Aidlearn
from benchmarks.harness.cells import Cell, Row, measured, run_all, save
from benchmarks.harness.datasets import DataSet
from benchmarks.harness.peers import solvers
from benchmarks.harness.table import TableLayout, compare, markdown, warnings

PEER_TOL = 1e-4
"""Tolerance of peers that take one, whatever the tolerance of aidlearn."""
Options = argparse.Namespace


@dataclass(frozen=True)
class Table:
    """The cells of a table and its layout."""

    name: str
    title: str
    cells: Callable[[Options], list[Cell]]
    """Function that returns the cells for the given options."""
    layout: TableLayout
    remarks: Callable[[Sequence[Row]], Iterable[str]] = lambda rows: ()
    """Function that returns the lines below the table."""
    tol: float = 1e-6
    repeat: int = 2


def comparison(problem: str, data: DataSet, options: Options, **settings: float) -> list[Cell]:
    """Return the cells of every solver on one data set."""
    return [
        measured(
            problem,
            data,
            name,
            settings=settings,
            tol=options.tol if isinstance(solver, Aidlearn) else PEER_TOL,
            repeat=options.repeat,
            timeout=options.timeout,
        )
        for name, solver in solvers(problem).items()
    ]


def growth_rate(rows: Sequence[Row]) -> list[str]:
    """Return the fitted exponent of CPU seconds in the number of rows."""
    done = [row for row in rows if "objective" in row]
    if len(done) < 2:
        return []
    slope = np.polyfit(np.log([row["rows"] for row in done]), np.log([row["cpu"] for row in done]), 1)[0]
    return [f"CPU ~ n^{slope:.3f}"]


def parser(tables: Sequence[Table], description: str) -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(description=description)
    add = out.add_argument
    add("--table", choices=[table.name for table in tables], default=tables[0].name, help="default: %(default)s")
    add("--quick", action="store_true", help="small data")
    add("--only", metavar="TEXT", nargs="+", help='only cells whose "data, solver" contains one of these')
    add(
        "--peers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure other programs too; --no-peers measures aidlearn only",
    )
    add("--list", action="store_true", help="print the names of the cells and exit")
    add("--tol", type=float, help="tolerance of aidlearn; default: that of the table")
    add("--repeat", type=int, help="runs of every fit; the fastest counts (fits over 60 s run once)")
    add("--timeout", type=float, metavar="SECONDS", help="limit of one fit; default: that of the solver")
    add("--jobs", type=int, default=1, help="cells at once; use 1 to measure times")
    add("--folder", type=Path, default=Path("results/files"), help="folder for large files; default: %(default)s")
    add("--output", type=Path, metavar="FILE", help="file that JSON lines are appended to; default: results/NAME.jsonl")
    return out


def main(name: str, description: str, *tables: Table, arguments: Sequence[str] | None = None) -> None:
    """Measure the selected cells and print their table."""
    options = parser(tables, description).parse_args(arguments)
    table = next(table for table in tables if table.name == options.table)
    options.tol = table.tol if options.tol is None else options.tol
    options.repeat = table.repeat if options.repeat is None else options.repeat
    wanted = options.only or [""]
    cells = [
        cell
        for cell in table.cells(options)
        if any(text in cell.name for text in wanted) and (cell.own or options.peers)
    ]
    if options.list or not cells:
        print("\n".join(cell.name for cell in cells) or "no cell of that name (--list)")
        return
    path = options.output or Path("results") / f"{name if name == table.name else f'{name}-{table.name}'}.jsonl"

    def done(row: Row) -> None:
        save(row, path)
        reason = row.get("skipped") or row.get("failed")
        print(f"# {row['data']}, {row['solver']}: {reason or 'measured'}", file=sys.stderr, flush=True)

    rows = run_all(cells, options.jobs, done)
    compare(rows, table.layout)
    print(f"{table.title.format_map(vars(options))}\n\n{markdown(rows, table.layout)}\n")
    for line in (*table.remarks(rows), *warnings(rows)):
        print(line)
