"""The programs for the linear support vector machine with hinge loss, each at its own tolerance of 1e-4.

liblinear, libocas and rehline penalise the intercept a little; the benchmark chooses the intercept again for everyone.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import PATIENCE, Measured
from benchmarks.peers import Job, PythonSolver, Solver

TOL = 1e-4


class Liblinear(PythonSolver):
    """scikit-learn's LinearSVC: dual coordinate descent, with scikit-learn's limit of 1000 iterations."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        from sklearn.svm import LinearSVC

        data, C = job.data, job.settings["C"]
        return lambda: LinearSVC(C=C, loss="hinge", dual=True, tol=TOL, max_iter=1000).fit(data.X, data.y)


class Libsvm(PythonSolver):
    """scikit-learn's SVC: sequential minimal optimisation."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        from sklearn.svm import SVC

        return _svc(SVC, job)


class Intelex(PythonSolver):
    """The SVC of scikit-learn-intelex (oneDAL), held to one core: its threads are as many as it sees cores."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from sklearnex.svm import SVC

        return _svc(SVC, job)


def _svc(SVC: Any, job: Job) -> Callable[[], Any]:
    data, C = job.data, job.settings["C"]
    return lambda: SVC(kernel="linear", C=C, tol=TOL).fit(data.X, data.y)


class Rehline(PythonSolver):
    """rehline's plqERM_Ridge: coordinate descent with shrinking; a column of ones is the intercept."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        from rehline import plqERM_Ridge

        y, C = job.data.y, job.settings["C"]
        with_ones = np.column_stack([job.data.X, np.ones(len(y))])
        return lambda: plqERM_Ridge(loss={"name": "svm"}, C=C, tol=TOL, max_iter=100_000).fit(with_ones, y)

    def read(self, model: Any, out: Measured) -> None:
        out.coef, out.intercept, out.iterations = model.coef_[:-1], float(model.coef_[-1]), int(model.n_iter_)


@dataclass(frozen=True, kw_only=True)
class Libocas(Solver):
    """libocas' svmocas: cutting planes. Its own ocas_time counts, which leaves out loading.

    That is wall time: CPU seconds are the same share of it as of the whole process.
    """

    program: str | None = "svmocas"

    def fit(self, job: Job) -> Measured:
        out = Measured()
        with tempfile.TemporaryDirectory() as name:
            examples, model = Path(name) / "examples", Path(name) / "model"
            write_svmlight(examples, job.data.X, job.data.y)
            options = f"-c {job.settings['C']:g} -b 1 -r {TOL:g} -t {self.timeout:g}".split()
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
            out.coef, out.intercept = point[:-1], float(point[-1])
        return out


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_svmlight(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    """Every value is written, zeros too, so that the program keeps a full matrix."""
    line = "%d " + " ".join(f"{j}:%.9g" for j in range(1, X.shape[1] + 1)) + "\n"
    with open(path, "w") as file:
        file.writelines(line % (label, *row) for label, row in zip(y.tolist(), map(np.ndarray.tolist, X), strict=True))


PEERS = (
    Liblinear(name="liblinear"),
    Libocas(name="libocas"),
    Rehline(name="rehline", package="rehline"),
    Intelex(name="sklearnex", package="sklearnex", max_rows=60_000, timeout=600, slow=True),
    Libsvm(name="libsvm", max_rows=60_000, timeout=600, slow=True),
)
