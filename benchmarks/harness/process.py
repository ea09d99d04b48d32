"""The process of one cell: ``python -m benchmarks.harness.process JSON`` calls a function and prints its result."""

from __future__ import annotations

import json
import math
import sys
from hashlib import sha256
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.bench.judge import objective
from aidlearn.bench.solvers import Aidlearn, Job
from benchmarks.harness.datasets import DataMissing, DataSet, n_bytes
from benchmarks.harness.peers import limits, solvers
from benchmarks.harness.record import product_seconds, record

Row = dict[str, Any]


def fit(
    problem: str,
    data: Row,
    solver: str,
    settings: dict[str, float],
    tol: float,
    params: Row,
    repeat: int,
    timeout: float,
) -> Row:
    """Load the data, run one solver and judge its result.

    Parameters
    ----------
    problem : str
        Name used by the judge.
    data : dict
        The fields of a DataSet.
    solver : str
        Name of a program for the problem.
    settings, tol, params, repeat, timeout
        Fields of Job.

    Returns
    -------
    dict
        A row of a table, with the reason under "skipped" or "failed" if there is no result.
    """
    program = solvers(problem)[solver]
    missing = program.missing()
    if missing:
        return {"skipped": missing}
    loaded = DataSet(**(data | {"shape": tuple(data["shape"])})).load()
    if sparse.issparse(loaded.X) and not program.takes_sparse:
        return {"skipped": "takes dense arrays only"}
    if limits(problem, solver).sparse_only and not sparse.issparse(loaded.X):
        return {"skipped": "is meant for sparse rows"}
    own = isinstance(program, Aidlearn)
    product = product_seconds(loaded.X, np.ones(loaded.X.shape[1])) if own else 0.0
    out = program.fit(Job(problem, loaded, settings, tol, params, repeat, timeout))
    row: Row = out.certificate | {
        "rows": data["shape"][0],
        "cpu": out.cpu,
        "wall": out.wall,
        "runs": out.runs,
        "iterations": out.iterations,
        "notes": out.notes,
    }
    if own:
        row |= {"product": product, "products": out.cpu / product}
    if own and out.model is not None:
        row |= record(out.model)
    solution = out.solution
    if out.failed is not None or solution is None or not solution.finite:
        return row | {"failed": out.failed or "coefficients are not finite"}
    row["objective"] = objective(problem, loaded, solution, **settings)
    row["memory"] = None if math.isnan(out.extra_bytes) else out.extra_bytes / n_bytes(loaded.X)
    row["peak"] = None if math.isnan(out.peak_bytes) else out.peak_bytes / 1e6
    if solution.support is None:
        row["coef"] = [*map(float, solution.coef), solution.intercept]
    else:  # an expansion over rows is long; its digest suffices for comparisons
        row["expansion"] = sha256(np.ascontiguousarray(solution.coef).tobytes()).hexdigest()
    return row


def main(text: str) -> None:
    """Call ``module:function`` with its arguments; a cell whose data are missing is skipped."""
    given = json.loads(text)
    module, _, name = given["call"].partition(":")
    try:
        row = getattr(import_module(module), name)(**given["arguments"])
    except DataMissing as error:
        row = {"skipped": str(error)}
    sys.stdout.write("\n" + json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
