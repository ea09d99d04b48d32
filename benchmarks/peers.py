"""A solver of a benchmark: what it needs, when it is skipped, how it is measured. Peers are in a file for each task."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks.datasets import Data
from benchmarks.measure import Measured, measure, product_seconds

OURS = "aidlearn"


@dataclass(frozen=True)
class Job:
    """One fit to measure."""

    data: Data
    settings: dict[str, float]
    """Constants of the problem, the same for every solver."""
    params: dict[str, Any]
    """Arguments of our estimator."""
    repeat: int

    def sample(self, count: int = 1000, columns: int | None = 2) -> Job:
        """About so many rows spread over the values of y and the first columns (None: all): to warm up."""
        data = self.data
        rows = np.argsort(data.y, kind="stable")[:: max(1, len(data.y) // count)]
        weight = None if data.weight is None else data.weight[rows]
        return Job(Data(data.X[rows, :columns], data.y[rows], weight), self.settings, self.params, 1)


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """One program and the largest data it is asked to fit."""

    name: str
    package: str | None = None
    """Python package it needs; where this interpreter has none, the one named by AIDLEARN_PEERS_PYTHON is used."""
    program: str | None = None
    """Program it needs."""
    max_rows: float = float("inf")
    max_columns: float = float("inf")
    max_work: float = float("inf")
    """Largest n m^2."""
    timeout: float = 1800.0
    """Seconds after which a fit is ended."""
    slow: bool = False
    """Measured after the cells of all other solvers."""

    def interpreter(self) -> str:
        if self.package is None or importlib.util.find_spec(self.package):
            return sys.executable
        return os.environ.get("AIDLEARN_PEERS_PYTHON", sys.executable)

    def skip(self, n: int, m: int) -> str | None:
        """Why it does not run on an n x m array."""
        if self.program is not None and shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        if self.package is not None and importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        limits = (("n", n, self.max_rows), ("m", m, self.max_columns), ("n m^2", n * m**2, self.max_work))
        return next((f"too slow: {name} > {limit:,.0f}" for name, value, limit in limits if value > limit), None)

    @abstractmethod
    def fit(self, job: Job) -> Measured:
        """Run and measure it."""


class PythonSolver(Solver):
    """A Python package: warmed up on a few rows, then measured in this process."""

    touched: ClassVar[int] = 0
    """Bytes of memory that are used and freed before every run."""

    @abstractmethod
    def prepare(self, job: Job) -> Callable[[], Any]:
        """Bring the data into the form the package takes; the fit that is returned is what counts."""

    def read(self, model: Any, out: Measured) -> None:
        """Take coefficients and iterations from the fitted model; here: one of scikit-learn."""
        out.coef, out.intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        out.iterations = int(np.max(model.n_iter_))

    def warm_up(self, job: Job) -> None:
        """Fit a few rows."""
        self.prepare(job.sample())()

    def fit(self, job: Job) -> Measured:
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.warm_up(job)
        out = measure(self.prepare(job), job.repeat, self.timeout, self.touched)
        if out.model is not None:
            self.read(out.model, out)
        return out


@dataclass(frozen=True, kw_only=True)
class Aidlearn(PythonSolver):
    """Ours, with its certificate."""

    name: str = OURS
    estimator: str
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of the estimator, where it is not measured with its defaults."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        import aidlearn

        model = getattr(aidlearn, self.estimator)
        arguments = {"n_jobs": 1} | self.arguments | job.settings | job.params
        data = job.data
        return lambda: model(**arguments).fit(data.X, data.y, sample_weight=data.weight)

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
            "source": _source(),
        }

    def fit(self, job: Job) -> Measured:
        X = job.data.X
        product = product_seconds(X, np.ones(X.shape[1]))
        out = super().fit(job)
        out.certificate |= {"product": product, "products": out.cpu / product}
        return out


def _source() -> str:
    """Short digest of the installed aidlearn, so that rows of different versions are not mixed up."""
    import aidlearn

    digest = hashlib.sha256()
    for path in sorted(Path(aidlearn.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
