"""Measurements, saved cell by cell, so that a stopped run can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.harness.cells import Cell, Row
from benchmarks.harness.record import source_digest
from benchmarks.paper.measured import warm
from benchmarks.paper.worker import run

PACKAGES = ("aidlearn", "numpy", "scipy", "scikit-learn", "numba", "daqp", "pyscipopt")


def key(cell: Cell) -> str:
    """Return a digest of what is measured, without limits: a row that met a limit records it."""
    arguments = {k: v for k, v in cell.arguments.items() if k not in ("limit", "memory")}
    return hashlib.sha256(json.dumps([cell.call, arguments], sort_keys=True).encode()).hexdigest()[:16]


class Store:
    """Rows of all experiments in one file of JSON lines; the last line of a cell counts.

    Parameters
    ----------
    folder : Path
        Folder of ``cells.jsonl``, which need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "cells.jsonl"
        self.rows: dict[str, Row] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                try:
                    row = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the run was killed while it wrote the last line
                self.rows[row["key"]] = row

    def known(self, cell: Cell) -> Row | None:
        """Return the row of a cell; None if it is tried again, as programs may be installed now or limits higher."""
        row = self.rows.get(key(cell))
        if row is None or row.get("skipped"):
            return None
        grown = cell.arguments.get("limit", 0) > row["arguments"].get("limit", 0)
        return None if row.get("failed") and ("cpu_over" not in row or grown) else row

    def add(self, cell: Cell, row: Row) -> Row:
        row = {"key": key(cell), "time": time.strftime("%Y-%m-%dT%H:%M:%S"), "commit": commit()} | row
        self.rows[row["key"]] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
        return row


def measure_all(
    cells: Sequence[Cell], store: Store, again: bool, report: Callable[[int, int, Row, bool], None]
) -> list[Row]:
    """Return the rows of all cells in order; each is reported with its number and whether it was known.

    Parameters
    ----------
    cells : sequence of Cell
    store : Store
    again : bool
        Whether to repeat measurements of aidlearn if its source has changed.
    report : callable
    """
    rows = []
    digest = source_digest()
    for number, cell in enumerate(cells, 1):
        row = store.known(cell)
        before = row is not None and not (again and cell.own and row.get("source") != digest)
        if row is None or not before:
            hard = _harder(cell, rows)
            found = {
                "data": cell.data,
                "solver": cell.solver,
                "own": cell.own,
                "arguments": cell.arguments,
            } | cell.shown
            if cell.own:
                warm()
            found = found | hard if hard else run(cell)
            row = store.add(cell, found | {"source": digest})
        rows.append(row | cell.shown)
        report(number, len(cells), row, before)
    return rows


def _harder(cell: Cell, rows: Sequence[Row]) -> Row | None:
    """Return why a peer is not run: it reached its limit on the same data with no more rows and columns."""
    if cell.own:
        return None
    size = cell.arguments
    for row in rows:
        other = row["arguments"]
        same = row["solver"] == cell.solver and all(other.get(k) == size.get(k) for k in ("kind", "problem"))
        if same and "cpu_over" in row and "n" in size and other["n"] <= size["n"] and other["m"] <= size["m"]:
            words = f"not run: over {row['cpu_over']:g} s already at {other['n']:,} x {other['m']}"
            return {"failed": words, "cpu_over": row["cpu_over"]}
    return None


def commit() -> str:
    """Return the commit that is checked out, with a mark if files differ from it."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=here, capture_output=True, text=True
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def machine() -> list[str]:
    """Return processor, cores, memory and versions as lines of text."""
    try:
        words = Path("/proc/cpuinfo").read_text().split("model name")[1].split(":")[1].split("\n")[0].strip()
        size = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]) / 2**20
        memory = f", {size:.0f} GB"
    except (OSError, IndexError):
        words, memory = platform.processor() or "unknown processor", ""
    versions = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return [
        f"{words}, {os.cpu_count()} cores{memory}, {platform.system()}; one thread a cell",
        f"Python {platform.python_version()}, {', '.join(versions)}",
    ]


def to_parquet(rows: Sequence[Row], path: Path) -> None:
    """Write flat rows with one column per value; histories and arguments become JSON text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if kinds <= {int, float} and bool not in kinds:
            columns[name] = pa.array([None if v is None else float(v) for v in values], pa.float64())
        elif kinds <= {bool}:
            columns[name] = pa.array(values, pa.bool_())
        else:
            texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
            columns[name] = pa.array(texts, pa.string())
    pq.write_table(pa.table(columns), path)
