"""S3VM to optimality: the mixed-integer program and our branch and bound, and the paper's pilot claim (section 4.3).

The paper reports that AID solved its mixed-integer program to optimality for "some data sets with hundreds of
observations and several attributes". Three methods are compared on two overlapping Gaussians with ten labelled rows:
the paper's procedure until every cluster lies in one region (with SCIP and with our branch and bound), SCIP on all rows
at once, and ``certify=True``. The last two prove optimality.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aidlearn import SemiSupervisedSVC
from aidlearn.semisupervised import miqp
from aidlearn.semisupervised.branch_and_bound import SearchLimits, SemiSupervisedRows
from benchmarks.harness.cells import Cell, Row
from benchmarks.paper import measured
from benchmarks.paper.experiment import Experiment, Options, done, markdown, seconds, shown

SHAPES = ((40, 2), (100, 2), (200, 2), (100, 5), (200, 5), (300, 5))
LABELLED = 10
C, C_UNLABELED = 5.0, 1.0
METHODS = ("AID with SCIP", "AID, branch and bound", "SCIP on all rows", "certify=True")
WALL = 2.0
"""Wall seconds allowed for each CPU second of the limit, as the machine may be shared."""


def plane(n: int, m: int, seed: int) -> tuple[Any, Any]:
    """Draw two overlapping Gaussians, with the first rows labelled."""
    rng = np.random.default_rng((seed, 7))
    t = np.arange(n) % 2
    X = rng.normal(size=(n, m))
    X[:, 0] += np.where(t == 1, 1.5, -1.5)
    y = np.full(n, -1)
    y[:LABELLED] = t[:LABELLED]
    return X, y


def fit(n: int, m: int, seed: int, method: str, limit: float) -> Row:
    """Return objective, proven or claimed bound, and CPU seconds of one method."""
    if "SCIP" in method and not miqp.available():
        return {"skipped": "pyscipopt is not installed"}
    X, y = plane(n, m, seed)
    started = time.process_time()
    if method == "SCIP on all rows":
        centre = X[y == -1].mean(axis=0)
        known = np.flatnonzero(y != -1)
        order = np.concatenate([known, np.flatnonzero(y == -1)])
        weight = np.where(y[order] != -1, C, C_UNLABELED)
        labels = 2.0 * y[known] - 1
        rows = SemiSupervisedRows(X[order] - centre, weight, labels, float(labels.mean()))
        found = miqp.search(rows, SearchLimits(1e-4, -1, time.monotonic() + WALL * limit))
        spent = time.process_time() - started
        end = "optimal, claims SCIP" if found.closed else "time limit"
        return {"cpu": spent, "objective": found.value, "bound": found.bound, "end": end, "nodes": found.n_nodes}
    arguments: dict[str, Any] = {"C": C, "C_unlabeled": C_UNLABELED, "balance": "constraint", "n_jobs": 1}
    arguments |= {"time_limit": WALL * limit, "init": "kmeans", "initial_rate": 0.05}
    if method == "certify=True":
        arguments |= {"certify": True}
    else:
        arguments |= {"max_iter": 100, "solver": "miqp" if "SCIP" in method else "auto"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SemiSupervisedSVC(**arguments).fit(X, y)
    row: Row = {"cpu": time.process_time() - started, "objective": float(model.objective_), "end": model.status_.name}
    row |= {"iterations": int(model.n_iter_), "rate": float(model.aggregation_rate_)}
    return row | ({"bound": float(model.lower_bound_)} if method == "certify=True" else {})


def cells(options: Options) -> list[Cell]:
    out = []
    shapes = SHAPES if options.scale >= 1 else SHAPES[:-1]
    for (n, m), seed in ((shape, seed) for shape in shapes for seed in range(options.repeat)):
        for method in METHODS:
            arguments = {"n": n, "m": m, "seed": seed, "method": method, "limit": min(options.limit, 30.0)}
            name = f"plane {n} x {m} #{seed}"
            out.append(Cell(name, method, measured.call(fit), arguments, timeout=4000.0, shown={"n": n, "m": m}))
    return out


def table(rows: Sequence[Row]) -> str:
    head = "n,m,method,CPU s,end,objective,over the best,gap,T,r^T,nodes"
    lines = []
    for name in dict.fromkeys(row["data"] for row in rows):
        same = [row for row in done(rows) if row["data"] == name]
        best = min((row["objective"] for row in same), default=np.nan)
        for row in same:
            gap = (row["objective"] - row["bound"]) / row["objective"] if "bound" in row else None
            values = [f"{row['objective']:.5f}", f"{row['objective'] / best - 1:.1e}", shown(gap, "{:.1e}")]
            counts = [shown(row.get("iterations")), shown(row.get("rate"), "{:.0%}"), shown(row.get("nodes"), "{:,}")]
            lines.append(
                [f"{row['n']}", f"{row['m']}", row["solver"], seconds(row["cpu"]), row["end"], *values, *counts]
            )
    return markdown(head.split(","), lines)


def remarks(rows: Sequence[Row]) -> Iterator[str]:
    yield "gap: of the bound that certify=True proves, or that SCIP claims; AID's end one_region proves nothing"
    stopped = [row for row in done(rows) if row["end"] == "one_region"]
    far = 0
    for row in stopped:
        best = min(other["objective"] for other in done(rows) if other["data"] == row["data"])
        far += row["objective"] > best * (1 + 1e-6)
    if stopped:
        yield f"of {len(stopped)} runs that ended with every cluster in one region, {far} were not optimal"


EXPERIMENTS = (
    Experiment("s3vm-exact", "S3VM to optimality: mixed-integer program and branch and bound", cells, table, remarks),
)
