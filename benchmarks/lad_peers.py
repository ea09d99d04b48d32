"""The programs for least absolute deviation: each fits X, y with an intercept at the median."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import PATIENCE, Measured
from benchmarks.peers import Job, PythonSolver, Solver

SCRIPT = Path(__file__).with_name("quantreg.R")


@dataclass(frozen=True, kw_only=True)
class Quantreg(Solver):
    """R's quantreg without the overhead of formulas: rq.fit.fnb ("fn") or rq.fit.pfn ("pfn")."""

    method: str
    program: str | None = "Rscript"

    def fit(self, job: Job) -> Measured:
        X, y = job.data.X, job.data.y
        n, m = X.shape
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with open(folder / "X", "wb") as file:
                np.ones(n).tofile(file)
                for j in range(m):
                    np.ascontiguousarray(X[:, j]).tofile(file)
            y.tofile(folder / "y")
            call = ["Rscript", "--vanilla", str(SCRIPT), name, n, m + 1, self.method, job.repeat, PATIENCE]
            try:
                words = [str(word) for word in call]
                done = subprocess.run(words, capture_output=True, text=True, timeout=self.timeout)
            except subprocess.TimeoutExpired:
                return Measured(failed=f"over {self.timeout:.0f} s")
            report = folder / "report"
            out = _parse(report.read_text() if report.exists() else "")
            if out.failed is None and not (folder / "coef").exists():
                out.failed = f"R ended with code {done.returncode}: {done.stderr.strip()[-200:]}"
            if out.failed is None:
                point = np.fromfile(folder / "coef")
                out.intercept, out.coef = float(point[0]), point[1:]
        return out


def _parse(report: str) -> Measured:
    """The lines that quantreg.R wrote: a key and its value."""
    out = Measured()
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


class ScikitLearn(PythonSolver):
    """QuantileRegressor: the linear program of all rows, solved by HiGHS."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        from sklearn.linear_model import QuantileRegressor

        data = job.data
        return lambda: QuantileRegressor(quantile=0.5, alpha=0.0, solver="highs").fit(data.X, data.y)


class Statsmodels(PythonSolver):
    """QuantReg: iteratively reweighted least squares."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        from statsmodels.regression.quantile_regression import QuantReg

        y, with_ones = job.data.y, np.column_stack([np.ones(len(job.data.y)), job.data.X])
        return lambda: QuantReg(y, with_ones).fit(q=0.5)

    def read(self, model: Any, out: Measured) -> None:
        point = np.asarray(model.params)
        out.coef, out.intercept, out.iterations = point[1:], float(point[0]), int(model.iterations)


PEERS = (
    Quantreg(name="quantreg fn", method="fn", max_work=2e10),
    Quantreg(name="quantreg pfn", method="pfn"),
    ScikitLearn(name="scikit-learn", max_rows=20_000),
    Statsmodels(name="statsmodels", package="statsmodels", max_rows=200_000, max_columns=50),
)
