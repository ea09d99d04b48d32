"""The process of one cell: ``python -m aidlearn.bench.cell JSON`` calls a function and prints what it gives as JSON."""

from __future__ import annotations

import json
import math
import sys
from hashlib import sha256
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.bench.datasets import DataMissing, DataSet
from aidlearn.bench.judge import objective
from aidlearn.bench.peers import solvers
from aidlearn.bench.solvers import Job

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
    """Load the data, run one solver on them and judge what it found.

    Parameters
    ----------
    problem : str
        As the judge names it.
    data : dict
        The fields of a DataSet.
    solver : str
        Name of one that solves the problem.
    settings, tol, params, repeat, timeout
        Those of Job.

    Returns
    -------
    dict
        A row of a table; with a reason under "skipped" or "failed" if there is no result.
    """
    program = solvers(problem)[solver]
    missing = program.missing()
    if missing:
        return {"skipped": missing}
    loaded = DataSet(**(data | {"shape": tuple(data["shape"])})).load()
    if sparse.issparse(loaded.X) and not program.takes_sparse:
        return {"skipped": "takes dense arrays only"}
    if program.sparse_only and not sparse.issparse(loaded.X):
        return {"skipped": "is meant for sparse rows"}
    out = program.fit(Job(problem, loaded, settings, tol, params, repeat, timeout))
    row: Row = out.certificate | {
        "rows": data["shape"][0],
        "cpu": out.cpu,
        "wall": out.wall,
        "runs": out.runs,
        "iterations": out.iterations,
        "notes": out.notes,
    }
    solution = out.solution
    if out.failed is not None or solution is None or not solution.finite:
        return row | {"failed": out.failed or "coefficients are not finite"}
    row["objective"] = objective(problem, loaded, solution, **settings)
    row["memory"] = None if math.isnan(out.extra_bytes) else out.extra_bytes / loaded.n_bytes
    row["peak"] = None if math.isnan(out.peak_bytes) else out.peak_bytes / 1e6
    if solution.support is None:
        row["coef"] = [*map(float, solution.coef), solution.intercept]
    else:  # an expansion over rows is long: two of them can be compared
        row["expansion"] = sha256(np.ascontiguousarray(solution.coef).tobytes()).hexdigest()
    return row


def main(text: str) -> None:
    """Call ``module:function`` with its arguments; data that are missing are a reason, not an error."""
    told = json.loads(text)
    module, _, name = told["call"].partition(":")
    try:
        row = getattr(import_module(module), name)(**told["arguments"])
    except DataMissing as error:
        row = {"skipped": str(error)}
    sys.stdout.write("\n" + json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
