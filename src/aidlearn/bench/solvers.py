"""Programs that can be measured, with what each solves and needs (``peers`` declares them)."""

from __future__ import annotations

import shutil
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.bench.judge import Coefficients, Data
from aidlearn.bench.measure import Measurement, measure

OURS = "aidlearn"
TOUCHED = 4 << 30
"""Bytes of memory used and freed right before each fit of a kernel machine."""


@dataclass(frozen=True)
class Job:
    """One fit to measure."""

    problem: str
    data: Data
    settings: dict[str, float] = field(default_factory=dict)
    """Constants of the problem, the same for every solver."""
    tol: float = 1e-4
    """Certified gap of aidlearn, or the stopping tolerance of another program."""
    params: dict[str, Any] = field(default_factory=dict)
    """Further parameters of aidlearn's estimator."""
    repeat: int = 1
    timeout: float | None = None
    """Seconds after which a run ends its process; None if the process also does other work."""

    def sample(self) -> Job:
        """Return rows spread over the values of y for the warm-up; fewer if a user is waiting (no timeout).

        Kernel machines get all columns and enough rows to reach the code chosen for large data. Other solvers get 50
        columns: with two, libsvm can take a thousand times as long as with ten.
        """
        kernel = self.problem == "kernel-svm"
        count = 400 if self.timeout is None else 6000 if kernel else 1000
        data = self.data
        rows = np.argsort(data.y, kind="stable")[:: max(1, len(data.y) // count)]
        weight = None if data.weight is None else data.weight[rows]
        X = data.X[rows] if kernel else data.X[rows][:, :50]
        return replace(self, data=Data(X, data.y[rows], weight), repeat=1)


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A program that can be measured."""

    name: str
    solves: tuple[str, ...]
    """Problems that the program solves, by the judge's names."""
    package: str | None = None
    """Python package that the program needs."""
    program: str | None = None
    """Executable that the program needs."""
    takes_sparse: bool = False
    command_rows: int = 10**12
    """Maximum number of rows for which ``aidlearn bench`` runs the program without ``--all``."""

    def missing(self) -> str | None:
        """Return the reason why the program cannot run here, or None."""
        if self.program is not None and shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        if self.package is not None and find_spec(self.package) is None:
            return f"{self.package} is not installed"
        return None

    @abstractmethod
    def fit(self, job: Job) -> Measurement:
        """Run and measure one job."""


class PythonSolver(Solver):
    """A Python package, warmed up on a few rows and then measured in this process."""

    @abstractmethod
    def prepare(self, job: Job) -> Callable[[], Any]:
        """Convert the data (not measured) and return the fit (measured)."""

    @abstractmethod
    def read(self, model: Any, out: Measurement) -> None:
        """Copy coefficients and iterations from the fitted model to the measurement."""

    def warm_up(self, job: Job) -> None:
        """Fit a few rows so that imports and compilation are not measured."""
        self.prepare(job.sample())()

    def fit(self, job: Job) -> Measurement:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.warm_up(job)
        touched = TOUCHED if job.problem == "kernel-svm" and job.timeout is not None else 0
        out = measure(self.prepare(job), job.repeat, job.timeout, touched)
        if out.model is not None:
            self.read(out.model, out)
        return out


@dataclass(frozen=True, kw_only=True)
class Estimator(PythonSolver):
    """A class with scikit-learn's interface."""

    path: str
    """Path of the class, as in "module.Class"."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Parameters of the class in addition to the constants of the problem."""
    takes_tol: bool = False
    """Whether the tolerance of the job is passed on; otherwise the program uses its default."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        module, _, name = self.path.rpartition(".")
        model = getattr(import_module(module), name)
        arguments = self.arguments | job.settings | ({"tol": job.tol} if self.takes_tol else {})
        X, y = self.rows(job), job.data.y
        return lambda: model(**arguments).fit(X, y)

    def rows(self, job: Job) -> Any:
        """Return X with 32-bit sparse indices: scikit-learn's solvers refuse 64-bit ones."""
        X = job.data.X
        if not sparse.issparse(X) or X.nnz > np.iinfo(np.int32).max:
            return X
        parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return sparse.csr_array(parts, shape=X.shape)

    def read(self, model: Any, out: Measurement) -> None:
        """Read the coefficients, or y_i alpha_i of the support vectors of a kernel machine."""
        intercept = float(np.ravel(model.intercept_)[0])
        if hasattr(model, "coef_"):
            out.solution = Coefficients(np.ravel(model.coef_), intercept)
        else:
            coef = np.ravel(model.dual_coef_).astype(float)
            out.solution = Coefficients(coef, intercept, np.asarray(model.support_))
            out.certificate["support"] = len(coef)
        steps = getattr(model, "n_iter_", None)
        out.iterations = None if steps is None else int(np.max(steps))


COMPILED = 4_000_000
"""Number of entries of X above which aidlearn's passes are compiled."""


@dataclass(frozen=True, kw_only=True)
class Aidlearn(Estimator):
    """An estimator of aidlearn, with its certificate."""

    name: str = OURS
    takes_sparse: bool = True
    takes_tol: bool = True

    def prepare(self, job: Job) -> Callable[[], Any]:
        import aidlearn

        model = getattr(aidlearn, self.path)
        arguments = {"n_jobs": 1} | self.arguments | job.settings | {"tol": job.tol} | job.params
        data = job.data
        return lambda: model(**arguments).fit(data.X, data.y, sample_weight=data.weight)

    def warm_up(self, job: Job) -> None:
        """Also fit enough rows to load the compiled passes if the data will use them."""
        super().warm_up(job)
        data = job.data
        n = -(-COMPILED // data.X.shape[1])
        if n < data.X.shape[0]:
            part = Data(data.X[:n], data.y[:n], None if data.weight is None else data.weight[:n])
            self.prepare(replace(job, data=part))()

    def read(self, model: Any, out: Measurement) -> None:
        super().read(model, out)
        out.certificate["gap"] = float(model.gap_)
