"""Programs of the tables: those of ``aidlearn bench`` and others, each with limits on the data it is asked to fit.

liblinear, libocas and rehline penalise the intercept a little; the judge replaces the intercept of every program by
the best one.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from aidlearn.bench import peers
from aidlearn.bench.judge import Array, Coefficients
from aidlearn.bench.measure import PATIENCE, Measurement
from aidlearn.bench.solvers import Estimator, Job, PythonSolver, Solver


class Rehline(PythonSolver):
    """rehline's plqERM_Ridge, coordinate descent with shrinking; a column of ones is the intercept."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        model, y, C, tol = import_module("rehline").plqERM_Ridge, job.data.y, job.settings["C"], job.tol
        with_ones = np.column_stack([job.data.X, np.ones(len(y))])
        return lambda: model(loss={"name": "svm"}, C=C, tol=tol, max_iter=100_000).fit(with_ones, y)

    def read(self, model: Any, out: Measurement) -> None:
        out.solution, out.iterations = Coefficients(model.coef_[:-1], float(model.coef_[-1])), int(model.n_iter_)


@dataclass(frozen=True, kw_only=True)
class Libocas(Solver):
    """libocas' svmocas, a cutting-plane method. Its ocas_time, which excludes loading, is reported as wall time.

    CPU seconds are ocas_time times the CPU share of the whole process.
    """

    program: str | None = "svmocas"

    def fit(self, job: Job) -> Measurement:
        out = Measurement()
        with tempfile.TemporaryDirectory(prefix="aidlearn-") as name:
            examples, model = Path(name) / "examples", Path(name) / "model"
            _write_svmlight(examples, job.data.X, job.data.y)
            options = (
                f"-c {job.settings['C']:g} -b 1 -r {job.tol:g} -t {job.timeout or peers.COMMAND_TIMEOUT:g}".split()
            )
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
            out.solution = Coefficients(point[:-1], float(point[-1]))
        return out


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write_svmlight(path: Path, X: Array, y: Array) -> None:
    """Write all entries including zeros, so that the program keeps a dense matrix."""
    line = "%d " + " ".join(f"{j}:%.9g" for j in range(1, X.shape[1] + 1)) + "\n"
    with open(path, "w") as file:
        file.writelines(line % (label, *row.tolist()) for label, row in zip(y.tolist(), X, strict=True))


@dataclass(frozen=True, kw_only=True)
class Intelex(Estimator):
    """SVC of scikit-learn-intelex (oneDAL) on one core, because it starts as many threads as it sees cores."""

    package: str | None = "sklearnex"
    path: str = "sklearnex.svm.SVC"
    dtype: str = "float64"
    """Type of the rows, and so of the arithmetic."""

    def rows(self, job: Job) -> Any:
        return job.data.X.astype(self.dtype, copy=False)

    def prepare(self, job: Job) -> Callable[[], Any]:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        return super().prepare(job)


MORE: tuple[Solver, ...] = (
    peers.OwnKernelMachine(name="no aggregation", solves=("kernel-svm",), path="SVC", arguments={"init": "rows"}),
    peers.Quantreg(name="R quantreg pfn", method="pfn"),
    peers.Quantreg(name="R quantreg sfn", method="sfn", takes_sparse=True),
    Libocas(name="libocas", solves=("svm",)),
    Rehline(name="rehline", solves=("svm",), package="rehline"),
    Intelex(name="scikit-learn-intelex SVC", solves=("svm",), arguments=peers.LINEAR, takes_tol=True),
    Intelex(name="scikit-learn-intelex SVC float64", solves=("kernel-svm",), arguments=peers.RBF),
    Intelex(name="scikit-learn-intelex SVC float32", solves=("kernel-svm",), arguments=peers.RBF, dtype="float32"),
)


@dataclass(frozen=True)
class SizeLimits:
    """Limits on the data that a program is asked to fit in a table, and on its time."""

    rows: float = inf
    columns: float = inf
    work: float = inf
    """Maximum of n m^2."""
    seconds: float = 1800.0
    """Time limit of a fit in seconds."""
    slow: bool = False
    """Whether the program is measured after all others."""
    sparse_only: bool = False
    """Whether the program is asked to fit sparse rows only."""

    def too_large(self, n: int, m: int) -> str | None:
        """Return the reason why n rows of m columns are not fitted, or None."""
        sizes = (("n", n, self.rows), ("m", m, self.columns), ("n m^2", n * m**2, self.work))
        return next((f"too slow: {name} > {limit:,.0f}" for name, value, limit in sizes if value > limit), None)


LIMITS = {
    "scikit-learn QuantileRegressor": SizeLimits(rows=20_000),
    "statsmodels QuantReg": SizeLimits(rows=200_000, columns=50),
    "R quantreg fn": SizeLimits(work=2e10),
    "R quantreg sfn": SizeLimits(sparse_only=True),
    "scikit-learn-intelex SVC": SizeLimits(rows=60_000, seconds=600, slow=True),
    "scikit-learn SVC": SizeLimits(rows=60_000, seconds=600, slow=True),
    "scikit-learn SVR": SizeLimits(rows=60_000, slow=True),
}
"""Limits of programs for linear problems; programs that are not named have none."""
KERNEL_LIMITS = {"scikit-learn SVC": SizeLimits(seconds=3600, slow=True)}
"""Limits of programs for kernel machines."""


def limits(problem: str, name: str) -> SizeLimits:
    """Return the limits of a program."""
    return (KERNEL_LIMITS if problem == "kernel-svm" else LIMITS).get(name, SizeLimits())


def solvers(problem: str) -> dict[str, Solver]:
    """Return the programs for a problem by name, aidlearn first."""
    return peers.solvers(problem, (*peers.SOLVERS, *MORE))


def interpreter(program: Solver) -> str:
    """Return the Python of this process if it has the package, otherwise the one that AIDLEARN_PEERS_PYTHON names."""
    if program.package is None or find_spec(program.package):
        return sys.executable
    return os.environ.get("AIDLEARN_PEERS_PYTHON", sys.executable)
