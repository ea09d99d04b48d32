"""The programs, each declared once: what it solves, what it needs, up to which size it is asked, how it runs.

liblinear, libocas and rehline penalise the intercept a little; the judge chooses it again for everyone.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.bench.datasets import Array
from aidlearn.bench.judge import Solution
from aidlearn.bench.measure import PATIENCE, Measured
from aidlearn.bench.solvers import Aidlearn, Estimator, Job, PythonSolver, Solver

SCRIPT = Path(__file__).with_name("quantreg.R")
COMMAND_TIMEOUT = 600.0
"""Seconds for a program outside of Python where a job has no limit."""
CACHE = 2000
"""Megabytes for kernel values, for all: it is what ours may use by default."""


@dataclass(frozen=True, kw_only=True)
class Quantreg(Solver):
    """R's quantreg without the overhead of formulas; it measures itself.

    rq.fit.fnb ("fn") and rq.fit.pfn ("pfn") take dense rows, rq.fit.sfn ("sfn") sparse ones.
    """

    method: str
    solves: tuple[str, ...] = ("lad", "quantile")
    program: str | None = "Rscript"

    def fit(self, job: Job) -> Measured:
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
                return Measured(failed=f"ended after {timeout:.0f} s")
            report = folder / "report"
            out = _parsed(report.read_text() if report.exists() else "")
            if out.failed is None and not (folder / "coef").exists():
                out.failed = f"R ended with code {done.returncode}: {done.stderr.strip()[-200:]}"
            if out.failed is None:
                point = np.fromfile(folder / "coef")
                out.solution = Solution(point[1:], float(point[0]))
        return out

    def _write_rows(self, X: Any, folder: Path) -> None:
        """X behind a column of ones, as the script reads it."""
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


def _parsed(report: str) -> Measured:
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


class Statsmodels(PythonSolver):
    """QuantReg: iteratively reweighted least squares."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        from statsmodels.regression.quantile_regression import QuantReg

        y, with_ones = job.data.y, np.column_stack([np.ones(len(job.data.y)), job.data.X])
        quantile = job.settings.get("quantile", 0.5)
        return lambda: QuantReg(y, with_ones).fit(q=quantile)

    def read(self, model: Any, out: Measured) -> None:
        point = np.asarray(model.params)
        out.solution, out.iterations = Solution(point[1:], float(point[0])), int(model.iterations)


class Rehline(PythonSolver):
    """rehline's plqERM_Ridge: coordinate descent with shrinking; a column of ones is the intercept."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        from importlib import import_module

        model, y, C, tol = import_module("rehline").plqERM_Ridge, job.data.y, job.settings["C"], job.tol
        with_ones = np.column_stack([job.data.X, np.ones(len(y))])
        return lambda: model(loss={"name": "svm"}, C=C, tol=tol, max_iter=100_000).fit(with_ones, y)

    def read(self, model: Any, out: Measured) -> None:
        out.solution, out.iterations = Solution(model.coef_[:-1], float(model.coef_[-1])), int(model.n_iter_)


@dataclass(frozen=True, kw_only=True)
class Libocas(Solver):
    """libocas' svmocas: cutting planes. Its own ocas_time counts, which leaves out loading.

    That is wall time: CPU seconds are the same share of it as of the whole process.
    """

    program: str | None = "svmocas"

    def fit(self, job: Job) -> Measured:
        out = Measured()
        with tempfile.TemporaryDirectory(prefix="aidlearn-") as name:
            examples, model = Path(name) / "examples", Path(name) / "model"
            _write_svmlight(examples, job.data.X, job.data.y)
            options = f"-c {job.settings['C']:g} -b 1 -r {job.tol:g} -t {job.timeout or COMMAND_TIMEOUT:g}".split()
            for _ in range(job.repeat):
                call = ["svmocas", *options, str(examples), str(model)]
                cpu, wall = _children_cpu(), time.perf_counter()
                done = subprocess.run(call, capture_output=True, text=True)
                cpu, wall = _children_cpu() - cpu, time.perf_counter() - wall
                took = re.search(r"ocas_time\s*:\s*([\d.]+)", done.stdout)
                if done.returncode != 0 or took is None:
                    out.failed = f"svmocas ended with code {done.returncode}: {(done.stderr or done.stdout)[-200:]}"
                    return out
                seconds = float(took[1])
                out.add_run(seconds * min(1.0, cpu / wall), seconds)
                if seconds > PATIENCE:
                    break
            out.iterations = int(re.findall(r"^\s*(\d+): tim=", done.stdout, re.MULTILINE)[-1])
            stopped = re.search(r"Stopping condition: (.*)", done.stdout)
            if stopped is None or "TolRel" not in stopped[1]:
                out.notes.append(f"stopped by {stopped[1] if stopped else 'an unknown condition'}")
            point = np.loadtxt(model)
            out.solution = Solution(point[:-1], float(point[-1]))
        return out


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write_svmlight(path: Path, X: Array, y: Array) -> None:
    """Every value is written, zeros too, so that the program keeps a full matrix."""
    line = "%d " + " ".join(f"{j}:%.9g" for j in range(1, X.shape[1] + 1)) + "\n"
    with open(path, "w") as file:
        file.writelines(line % (label, *row.tolist()) for label, row in zip(y.tolist(), X, strict=True))


class OwnKernelMachine(Aidlearn):
    """Ours; warmed up with and without aggregation, whichever it will choose."""

    def warm_up(self, job: Job) -> None:
        sample = job.sample()
        for init in ("band", "rows"):
            self.prepare(replace(sample, params=sample.params | {"init": init}))()


@dataclass(frozen=True, kw_only=True)
class Intelex(Estimator):
    """An SVC of scikit-learn-intelex (oneDAL), held to one core: its threads are as many as it sees cores."""

    package: str | None = "sklearnex"
    path: str = "sklearnex.svm.SVC"
    dtype: str = "float64"
    """Of the rows, and so of its arithmetic."""

    def rows(self, job: Job) -> Any:
        return job.data.X.astype(self.dtype, copy=False)

    def prepare(self, job: Job) -> Callable[[], Any]:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        return super().prepare(job)


MEDIAN, LINEAR, RBF = {"quantile": 0.5, "alpha": 0.0, "solver": "highs"}, {"kernel": "linear"}, {"cache_size": CACHE}
LIBLINEAR = {"random_state": 0}

SOLVERS: tuple[Solver, ...] = (
    Aidlearn(solves=("lad",), path="LADRegressor"),
    Aidlearn(solves=("quantile",), path="QuantileRegressor"),
    Aidlearn(solves=("svm",), path="LinearSVC"),
    Aidlearn(solves=("svr",), path="LinearSVR"),
    OwnKernelMachine(solves=("kernel-svm",), path="SVC"),
    OwnKernelMachine(
        name="no aggregation", solves=("kernel-svm",), path="SVC", arguments={"init": "rows"}, command_rows=None
    ),
    Estimator(
        name="scikit-learn QuantileRegressor",
        solves=("lad", "quantile"),
        path="sklearn.linear_model.QuantileRegressor",
        arguments=MEDIAN,
        takes_sparse=True,
        command_rows=10_000,
        max_rows=20_000,
    ),
    Statsmodels(
        name="statsmodels QuantReg",
        solves=("lad", "quantile"),
        package="statsmodels",
        command_rows=200_000,
        max_rows=200_000,
        max_columns=50,
    ),
    Quantreg(name="R quantreg fn", method="fn", command_rows=2_000_000, max_work=2e10),
    Quantreg(name="R quantreg pfn", method="pfn"),
    Quantreg(name="R quantreg sfn", method="sfn", takes_sparse=True, sparse_only=True),
    Estimator(
        name="scikit-learn LinearSVC",
        solves=("svm",),
        path="sklearn.svm.LinearSVC",
        arguments=LIBLINEAR | {"loss": "hinge", "dual": True},
        takes_tol=True,
        takes_sparse=True,
        command_rows=500_000,
    ),
    Libocas(name="libocas", solves=("svm",)),
    Rehline(name="rehline", solves=("svm",), package="rehline"),
    Intelex(
        name="scikit-learn-intelex SVC",
        solves=("svm",),
        arguments=LINEAR,
        takes_tol=True,
        max_rows=60_000,
        timeout=600,
        slow=True,
    ),
    Estimator(
        name="scikit-learn SVC",
        solves=("svm",),
        path="sklearn.svm.SVC",
        arguments=LINEAR,
        takes_tol=True,
        takes_sparse=True,
        command_rows=20_000,
        max_rows=60_000,
        timeout=600,
        slow=True,
    ),
    Estimator(
        name="scikit-learn LinearSVR",
        solves=("svr",),
        path="sklearn.svm.LinearSVR",
        arguments=LIBLINEAR,
        takes_tol=True,
        takes_sparse=True,
        command_rows=500_000,
    ),
    Estimator(
        name="scikit-learn SVR",
        solves=("svr",),
        path="sklearn.svm.SVR",
        arguments=LINEAR,
        takes_tol=True,
        takes_sparse=True,
        command_rows=10_000,
        max_rows=60_000,
        slow=True,
    ),
    Intelex(name="scikit-learn-intelex SVC float64", solves=("kernel-svm",), arguments=RBF),
    Intelex(name="scikit-learn-intelex SVC float32", solves=("kernel-svm",), arguments=RBF, dtype="float32"),
    Estimator(
        name="scikit-learn SVC",
        solves=("kernel-svm",),
        path="sklearn.svm.SVC",
        arguments=RBF,
        takes_sparse=True,
        command_rows=50_000,
        timeout=3600,
        slow=True,
    ),
)


def solvers(problem: str) -> dict[str, Solver]:
    """All programs for a problem by name, ours first."""
    return {solver.name: solver for solver in SOLVERS if problem in solver.solves}
