"""The process of one cell: loads the data, runs one solver, judges its result. Started by benchmarks.harness."""

from __future__ import annotations

import importlib
import json
import math
import sys

import numpy as np

from benchmarks.datasets import DataMissing, load
from benchmarks.harness import Row, Task
from benchmarks.peers import Job


def run(cell: Row) -> Row:
    task: Task = importlib.import_module(f"benchmarks.{cell['task']}").TASK
    solver = task.solvers[cell["solver"]]
    reason = solver.skip(cell["n"], cell["m"])
    if reason:
        return {"skipped": reason}
    try:
        data = load(cell["loader"], **cell["arguments"])
    except DataMissing as error:
        return {"skipped": str(error)}
    if data.X.shape != (cell["n"], cell["m"]):
        raise ValueError(f"{cell['data']} has shape {data.X.shape}, expected {(cell['n'], cell['m'])}")
    out = solver.fit(Job(data, cell["settings"], cell["params"], cell["repeat"]))
    row: Row = out.certificate | {
        "cpu": out.cpu,
        "wall": out.wall,
        "runs": out.runs,
        "iterations": out.iterations,
        "notes": out.notes,
    }
    if out.failed is None and not np.isfinite(out.coef).all():
        out.failed = "coefficients are not finite"
    if out.failed is not None:
        return row | {"failed": out.failed}
    row["objective"] = task.objective(data, out.coef, out.intercept, **cell["settings"])
    row["memory"] = None if math.isnan(out.extra_bytes) else out.extra_bytes / data.X.nbytes
    row["peak"] = None if math.isnan(out.peak_bytes) else out.peak_bytes / 1e6
    if np.ndim(out.coef) == 1:  # an expansion over rows is not kept
        row["coef"] = [*map(float, out.coef), float(out.intercept)]
    return row


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
