"""The programs that ``aidlearn bench`` compares, each declared once.

liblinear penalises the intercept a little; the judge replaces the intercept of every program by the best one.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.bench.judge import Coefficients
from aidlearn.bench.measure import PATIENCE, Measurement
from aidlearn.bench.solvers import Aidlearn, Estimator, Job, PythonSolver, Solver

MEDIAN = ("lad", "quantile")
"""Problems of one quantile, which is the median by default."""
SCRIPT = Path(__file__).with_name("quantreg.R")
COMMAND_TIMEOUT = 600.0
"""Time limit of an external program in seconds, if the job has none."""


@dataclass(frozen=True, kw_only=True)
class Quantreg(Solver):
    """R's quantreg without the overhead of formulas; the R script measures the fit.

    rq.fit.fnb ("fn") and rq.fit.pfn ("pfn") take dense rows, rq.fit.sfn ("sfn") sparse ones.
    """

    method: str
    solves: tuple[str, ...] = MEDIAN
    program: str | None = "Rscript"

    def fit(self, job: Job) -> Measurement:
        X, y = job.data.X, job.data.y
        n, m = X.shape
        timeout = job.timeout or COMMAND_TIMEOUT
        with tempfile.TemporaryDirectory(prefix="aidlearn-") as name:
            folder = Path(name)
            self._write_rows(X, folder)
            np.asarray(y, dtype=float).tofile(folder / "y")
            quantile = job.settings.get("quantile", 0.5)
            call = ["Rscript", "--vanilla", SCRIPT, name, n, m + 1, quantile, self.method, job.repeat, PATIENCE]
            try:
                done = subprocess.run(list(map(str, call)), capture_output=True, text=True, timeout=timeout)
            except subprocess.TimeoutExpired:
                return Measurement(failed=f"ended after {timeout:.0f} s")
            report = folder / "report"
            out = _parsed(report.read_text() if report.exists() else "")
            if out.failed is None and not (folder / "coef").exists():
                out.failed = f"R ended with code {done.returncode}: {done.stderr.strip()[-200:]}"
            if out.failed is None:
                point = np.fromfile(folder / "coef")
                out.solution = Coefficients(point[1:], float(point[0]))
        return out

    def _write_rows(self, X: Any, folder: Path) -> None:
        """Write a column of ones and X in the format that the script reads."""
        n, m = X.shape
        if self.takes_sparse:
            rows = sparse.csr_array(sparse.hstack([np.ones((n, 1)), sparse.csr_array(X)], format="csr"))
            rows.data.astype(float).tofile(folder / "ra")
            (rows.indices + 1).astype(np.int32).tofile(folder / "ja")
            (rows.indptr + 1).astype(np.int32).tofile(folder / "ia")
            return
        with open(folder / "X", "wb") as file:
            np.ones(n).tofile(file)
            for j in range(m):
                np.ascontiguousarray(X[:, j], dtype=float).tofile(file)


def _parsed(report: str) -> Measurement:
    """Parse the report of quantreg.R: a key and its value on each line."""
    out = Measurement()
    for line in report.splitlines():
        key, _, value = line.partition(" ")
        if key == "run":
            out.add_run(*map(float, value.split()))
        elif key == "extra" and value != "NA":
            out.extra_bytes = float(value)
        elif key == "iterations":
            out.iterations = int(value)
        elif key == "warning" and value not in out.notes:
            out.notes.append(value)
        elif key == "failed":
            out.failed = value
    return out


class Statsmodels(PythonSolver):
    """QuantReg: iteratively reweighted least squares."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        from statsmodels.regression.quantile_regression import QuantReg

        y, with_ones = job.data.y, np.column_stack([np.ones(len(job.data.y)), job.data.X])
        quantile = job.settings.get("quantile", 0.5)
        return lambda: QuantReg(y, with_ones).fit(q=quantile)

    def read(self, model: Any, out: Measurement) -> None:
        point = np.asarray(model.params)
        out.solution, out.iterations = Coefficients(point[1:], float(point[0])), int(model.iterations)


class OwnKernelMachine(Aidlearn):
    """aidlearn's SVC, warmed up both with and without aggregation because it may choose either."""

    def warm_up(self, job: Job) -> None:
        sample = job.sample()
        for init in ("band", "rows"):
            self.prepare(replace(sample, params=sample.params | {"init": init}))()


CACHE = 2000
"""Megabytes for kernel values: aidlearn's default, given to every kernel machine."""
HIGHS = {"quantile": 0.5, "alpha": 0.0, "solver": "highs"}
LIBLINEAR = {"random_state": 0}
LINEAR = {"kernel": "linear"}
RBF = {"cache_size": CACHE}


def _scikit_learn(
    path: str, solves: tuple[str, ...], command_rows: int, arguments: dict[str, Any], takes_tol: bool = True
) -> Estimator:
    """Declare a class of scikit-learn."""
    return Estimator(
        name=f"scikit-learn {path.rpartition('.')[2]}",
        solves=solves,
        path=f"sklearn.{path}",
        arguments=arguments,
        takes_tol=takes_tol,
        takes_sparse=True,
        command_rows=command_rows,
    )


SOLVERS: tuple[Solver, ...] = (
    Aidlearn(solves=("lad",), path="LADRegressor"),
    Aidlearn(solves=("quantile",), path="QuantileRegressor"),
    Aidlearn(solves=("svm",), path="LinearSVC"),
    Aidlearn(solves=("svr",), path="LinearSVR"),
    OwnKernelMachine(solves=("kernel-svm",), path="SVC"),
    _scikit_learn("linear_model.QuantileRegressor", MEDIAN, 10_000, HIGHS, takes_tol=False),
    Statsmodels(name="statsmodels QuantReg", solves=MEDIAN, package="statsmodels", command_rows=200_000),
    Quantreg(name="R quantreg fn", method="fn", command_rows=2_000_000),
    _scikit_learn("svm.LinearSVC", ("svm",), 500_000, LIBLINEAR | {"loss": "hinge", "dual": True}),
    _scikit_learn("svm.SVC", ("svm",), 20_000, LINEAR),
    _scikit_learn("svm.LinearSVR", ("svr",), 500_000, LIBLINEAR),
    _scikit_learn("svm.SVR", ("svr",), 10_000, LINEAR),
    _scikit_learn("svm.SVC", ("kernel-svm",), 50_000, RBF, takes_tol=False),
)


def solvers(problem: str, programs: Iterable[Solver] = SOLVERS) -> dict[str, Solver]:
    """Return the programs for a problem by name, aidlearn first."""
    return {solver.name: solver for solver in programs if problem in solver.solves}
