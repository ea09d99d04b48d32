"""A solver of a benchmark: what it solves and needs, when it is skipped, how it is measured (``peers`` has them)."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.bench.datasets import Data
from aidlearn.bench.judge import Solution
from aidlearn.bench.measure import Measured, measure, product_seconds

OURS = "aidlearn"
TOUCHED = 4 << 30
"""Bytes of memory that every kernel machine finds in use right before."""


@dataclass(frozen=True)
class Job:
    """One fit to measure."""

    problem: str
    data: Data
    settings: dict[str, float] = field(default_factory=dict)
    """Constants of the problem, the same for every solver."""
    tol: float = 1e-4
    """Ours: the certified gap; the others have their own meaning."""
    params: dict[str, Any] = field(default_factory=dict)
    """More arguments of our estimator."""
    repeat: int = 1
    timeout: float | None = None
    """Seconds of one run, after which the process is ended: only in a process of its own."""

    def sample(self) -> Job:
        """Some rows spread over the values of y, to warm up; few beside a user.

        Kernel machines take all columns, and rows enough for code that is chosen by size. The others take columns as
        many as tell the rows apart: with two, libsvm can need a thousand times as long as with ten.
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
    """One program and the largest data it is asked to fit."""

    name: str
    solves: tuple[str, ...]
    """Problems, as the judge names them."""
    package: str | None = None
    """Python package it needs; where this interpreter has none, the one named by AIDLEARN_PEERS_PYTHON is used."""
    program: str | None = None
    """Program it needs."""
    takes_sparse: bool = False
    sparse_only: bool = False
    """Not asked to fit dense arrays in a table."""
    command_rows: int | None = None
    """Most rows that ``aidlearn bench`` asks it to fit; None: it is measured in the tables only."""
    max_rows: float = float("inf")
    max_columns: float = float("inf")
    max_work: float = float("inf")
    """Largest n m^2."""
    timeout: float = 1800.0
    """Seconds after which a fit is ended."""
    slow: bool = False
    """Measured after the cells of all other solvers."""

    def missing(self) -> str | None:
        """Why it cannot run in this interpreter."""
        if self.program is not None and shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        if self.package is not None and find_spec(self.package) is None:
            return f"{self.package} is not installed"
        return None

    def interpreter(self) -> str:
        """The Python that has what it needs, as far as one can tell from here."""
        if self.package is None or find_spec(self.package):
            return sys.executable
        return os.environ.get("AIDLEARN_PEERS_PYTHON", sys.executable)

    def too_large(self, n: int, m: int) -> str | None:
        """Why it is not asked to fit n rows of m columns."""
        limits = (("n", n, self.max_rows), ("m", m, self.max_columns), ("n m^2", n * m**2, self.max_work))
        return next((f"too slow: {name} > {limit:,.0f}" for name, value, limit in limits if value > limit), None)

    @abstractmethod
    def fit(self, job: Job) -> Measured:
        """Run and measure it."""


class PythonSolver(Solver):
    """A Python package: warmed up on a few rows, then measured in this process."""

    @abstractmethod
    def prepare(self, job: Job) -> Callable[[], Any]:
        """Bring the data into the form the package takes; the fit that is returned is what counts."""

    @abstractmethod
    def read(self, model: Any, out: Measured) -> None:
        """Take the solution and the iterations from the fitted model."""

    def warm_up(self, job: Job) -> None:
        """Fit a few rows: what is loaded or compiled at the first call is not the fit."""
        self.prepare(job.sample())()

    def fit(self, job: Job) -> Measured:
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
    """Module and class."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of the class, besides the constants of the problem."""
    takes_tol: bool = False
    """Whether it is given the tolerance of the job; otherwise it has its own default."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        module, _, name = self.path.rpartition(".")
        model = getattr(import_module(module), name)
        arguments = self.arguments | job.settings | ({"tol": job.tol} if self.takes_tol else {})
        X, y = self.rows(job), job.data.y
        return lambda: model(**arguments).fit(X, y)

    def rows(self, job: Job) -> Any:
        """X as it takes it: scikit-learn's solvers refuse sparse indices of 64 bits."""
        X = job.data.X
        if not sparse.issparse(X) or X.nnz > np.iinfo(np.int32).max:
            return X
        parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return sparse.csr_array(parts, shape=X.shape)

    def read(self, model: Any, out: Measured) -> None:
        """The coefficients; of a kernel machine (without them) y_i alpha_i of its support vectors."""
        intercept = float(np.ravel(model.intercept_)[0])
        if hasattr(model, "coef_"):
            out.solution = Solution(np.ravel(model.coef_), intercept)
        else:
            coef = np.ravel(model.dual_coef_).astype(float)
            out.solution = Solution(coef, intercept, np.asarray(model.support_))
            out.certificate["support"] = len(coef)
        steps = getattr(model, "n_iter_", None)
        out.iterations = None if steps is None else int(np.max(steps))


COMPILED = 4_000_000
"""Numbers in X from which on our passes are compiled."""


@dataclass(frozen=True, kw_only=True)
class Aidlearn(Estimator):
    """Ours, with its certificate."""

    name: str = OURS
    takes_sparse: bool = True
    takes_tol: bool = True
    command_rows: int | None = 10**12

    def prepare(self, job: Job) -> Callable[[], Any]:
        import aidlearn

        model = getattr(aidlearn, self.path)
        arguments = {"n_jobs": 1} | self.arguments | job.settings | {"tol": job.tol} | job.params
        data = job.data
        return lambda: model(**arguments).fit(data.X, data.y, sample_weight=data.weight)

    def warm_up(self, job: Job) -> None:
        """Large data take compiled passes, which a few rows do not."""
        super().warm_up(job)
        data = job.data
        n = -(-COMPILED // data.X.shape[1])
        if n < data.X.shape[0]:
            part = Data(data.X[:n], data.y[:n], None if data.weight is None else data.weight[:n])
            self.prepare(replace(job, data=part))()

    def read(self, model: Any, out: Measured) -> None:
        super().read(model, out)
        out.certificate |= {
            "gap": float(model.gap_),
            "lower_bound": float(model.lower_bound_),
            "claimed": float(model.objective_),
            "status": str(model.status_),
            "rate": float(model.aggregation_rate_),
            "clusters": int(model.n_clusters_),
            "passes": int(model.n_passes_),
            "bounds": [float(entry.lower_bound) for entry in model.history_],
            "rates": [float(entry.aggregation_rate) for entry in model.history_],
            "source": source_digest(),
        }

    def fit(self, job: Job) -> Measured:
        X = job.data.X
        product = product_seconds(X, np.ones(X.shape[1]))
        out = super().fit(job)
        out.certificate |= {"product": product, "products": out.cpu / product}
        return out


def source_digest() -> str:
    """Short digest of the installed aidlearn, so that rows of different versions are not mixed up."""
    import aidlearn

    digest = hashlib.sha256()
    for path in sorted(Path(aidlearn.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
