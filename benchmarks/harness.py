"""Runs every (data set, solver) cell in a fresh single-threaded process and prints one table."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
OURS = "aidlearn"
EXACT = 1e-4
"""A peer whose objective is further than this (relative) from the best is not the one we compare with."""
TIMEOUT = 1800.0

Row = dict[str, Any]


@dataclass(frozen=True)
class DataSet:
    """A loader of benchmarks.datasets and its arguments."""

    name: str
    loader: str
    arguments: dict[str, int] = field(default_factory=dict)
    shape: tuple[int, int] = (0, 0)


def gaussian(n: int, m: int, seed: int = 0) -> DataSet:
    return DataSet(f"{_count(n)} x {m}", "gaussian", {"n": n, "m": m, "seed": seed}, (n, m))


def _count(n: int) -> str:
    return f"{n / 1e6:g}M" if n >= 1_000_000 else f"{n // 1000}k"


def run_cell(data: DataSet, solver: str, *, repeat: int = 2, params: dict[str, Any] | None = None) -> Row:
    """One cell, in its own process; a crash is a row that says so."""
    cell = {
        "data": data.name,
        "loader": data.loader,
        "arguments": data.arguments,
        "solver": solver,
        "repeat": repeat,
        "params": params or {},
    }
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.harness", json.dumps(cell)]
    # The time limit of R's fit is set inside the cell, so that R ends with it.
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | one, capture_output=True, text=True, timeout=TIMEOUT + 300
        )
        lines = done.stdout.splitlines()
        problem = f"process ended with code {done.returncode}: {done.stderr.strip()[-300:]}"
        found = json.loads(lines[-1]) if done.returncode == 0 and lines else {"failed": problem}
    except subprocess.TimeoutExpired:
        found = {"failed": f"over {TIMEOUT:.0f} s"}
    return cell | found


def save(rows: Sequence[Row], name: str) -> None:
    """Append rows to results/<name>.jsonl with what is needed to read them later."""
    import numpy as np

    RESULTS.mkdir(exist_ok=True)
    about = {"time": time.strftime("%Y-%m-%dT%H:%M:%S"), "python": platform.python_version(), "numpy": np.__version__}
    with open(RESULTS / f"{name}.jsonl", "a") as file:
        file.writelines(json.dumps(about | row) + "\n" for row in rows)


def compare(rows: list[Row]) -> None:
    """Adds to the rows of one data set: objective over the best, and CPU over ours (ours: best exact peer's)."""
    done = [row for row in rows if "objective" in row]
    best = min((row["objective"] for row in done), default=math.nan)
    for row in done:
        row["excess"] = row["objective"] / best - 1
    ours = next((row for row in done if row["solver"] == OURS), None)
    peers = [row for row in done if row["solver"] != OURS]
    if ours is not None:
        for row in peers:
            row["ratio"] = row["cpu"] / ours["cpu"]
        ours["ratio"] = min((row["ratio"] for row in peers if row["excess"] <= EXACT), default=None)


COLUMNS = {
    "data": ("data", "{}"),
    "solver": ("solver", "{}"),
    "cpu": ("CPU s", "{:.3f}"),
    "wall": ("wall s", "{:.3f}"),
    "excess": ("obj/best-1", "{:.1e}"),
    "gap": ("gap", "{:.1e}"),
    "iterations": ("iter", "{}"),
    "memory": ("mem/array", "{:.2f}"),
    "ratio": ("peer/ours", "{:.2f}"),
    "products": ("CPU/X@b", "{:.1f}"),
}


def print_table(rows: Sequence[Row], columns: dict[str, tuple[str, str]] = COLUMNS) -> None:
    """Aligned text; a cell without numbers says why. Warnings follow the table."""
    lines = [[title for title, _ in columns.values()]]
    for row in rows:
        values = [(row.get(key), form) for key, (_, form) in columns.items()]
        lines.append(["-" if value is None else form.format(value) for value, form in values])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [isinstance(rows[0].get(key), str) for key in columns]
    for row, line in zip([None, *rows], lines, strict=True):
        pairs = zip(line, widths, text, strict=True)
        words = [word.ljust(width) if left else word.rjust(width) for word, width, left in pairs]
        reason = next((f"{key}: {row[key]}" for key in ("skipped", "failed") if row and row.get(key)), None)
        print("  ".join([*words[: sum(text)], reason] if reason else words).rstrip())
    for row in rows:
        for note in row.get("notes", []):
            print(f"warning from {row['solver']} on {row['data']}: {note}")
    versions = {row["source"] for row in rows if row.get("source")}
    if len(versions) > 1:
        print(f"warning: the source of {OURS} changed during the run ({', '.join(sorted(versions))})")


def _cell(cell: Row) -> Row:
    """What the process of a cell does."""
    import numpy as np

    from benchmarks.datasets import DataMissing, load
    from benchmarks.measure import lad_objective, product_seconds
    from benchmarks.peers import PEERS

    arguments = cell["arguments"]
    peer = PEERS.get(cell["solver"])
    if peer is not None and arguments:
        reason = peer.skip(arguments["n"], arguments["m"])
        if reason:
            return {"skipped": reason}
    try:
        X, y = load(cell["loader"], **arguments)
    except DataMissing as error:
        return {"skipped": str(error)}
    n, m = X.shape
    row: Row = {"n": n, "m": m}
    if peer is None:
        product = product_seconds(X, np.ones(m))
        out, certificate = _fit_ours(X, y, cell["repeat"], cell["params"])
        row |= certificate | {"product": product, "products": out.cpu / product, "source": _source()}
    else:
        reason = peer.skip(n, m)
        if reason:
            return row | {"skipped": reason}
        out = peer.fit(X, y, cell["repeat"], TIMEOUT)
    row |= {"cpu": out.cpu, "wall": out.wall, "runs": out.runs, "iterations": out.iterations, "notes": out.notes}
    if out.failed is None and not np.isfinite(out.coef).all():
        out.failed = "coefficients are not finite"
    if out.failed is not None:
        return row | {"failed": out.failed}
    row["objective"] = lad_objective(X, y, out.coef, out.intercept)
    row["memory"] = out.extra_bytes / X.nbytes
    row["coef"] = [*map(float, out.coef), float(out.intercept)]
    return row


def _fit_ours(X: Any, y: Any, repeat: int, params: Row) -> tuple[Any, Row]:
    from aidlearn import LADRegressor
    from benchmarks.measure import measure

    params = {"n_jobs": 1} | params
    LADRegressor(**params).fit(X[:2000, :2], y[:2000])
    out = measure(lambda: LADRegressor(**params).fit(X, y), repeat)
    model = out.model
    if model is None:
        return out, {}
    out.coef, out.intercept, out.iterations = model.coef_, model.intercept_, model.n_iter_
    return out, {
        "gap": float(model.gap_),
        "lower_bound": float(model.lower_bound_),
        "claimed": float(model.objective_),
        "status": str(model.status_),
        "rate": float(model.aggregation_rate_),
        "passes": int(model.n_passes_),
    }


def _source() -> str:
    """Short digest of the installed aidlearn, so that rows of different versions are not mixed up."""
    import aidlearn

    digest = hashlib.sha256()
    for path in sorted(Path(aidlearn.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def arguments(description: str) -> argparse.ArgumentParser:
    """Options every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small data sets")
    parser.add_argument("--only", metavar="NAME", help="only data sets whose name contains NAME")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--repeat", type=int, default=2, help="runs of every fit; the best counts")
    return parser


if __name__ == "__main__":
    print(json.dumps(_cell(json.loads(sys.argv[1]))))
