"""The programs for the support vector machine with rbf kernel, peers at their own default tolerance of 1e-3.

All are measured alike: warmed up with all columns and enough rows for code that is compiled or chosen by size, and with
memory that was in use right before. All peers get a cache of 2 GB, which is what ours may use by default.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from benchmarks.measure import Measured
from benchmarks.peers import Aidlearn, Job, PythonSolver

CACHE = 2000
"""Megabytes for kernel values."""
WARM_ROWS = 6000
"""Enough that ours loads its compiled code and aggregates."""


class KernelMachine(PythonSolver):
    """An SVC of scikit-learn's interface; its result is an expansion over rows."""

    touched: ClassVar[int] = 4 << 30

    def read(self, model: Any, out: Measured) -> None:
        """``coef`` has two rows: numbers of training rows and their y_i alpha_i."""
        out.coef = np.vstack([model.support_, np.ravel(model.dual_coef_)]).astype(float)
        out.intercept = float(np.ravel(model.intercept_)[0])
        steps = getattr(model, "n_iter_", None)
        out.iterations = None if steps is None else int(np.max(steps))
        out.certificate["support"] = len(model.support_)

    def warm_up(self, job: Job) -> None:
        self.prepare(job.sample(WARM_ROWS, None))()


@dataclass(frozen=True, kw_only=True)
class Ours(Aidlearn, KernelMachine):
    """Ours; warmed up with and without aggregation, whichever it will choose."""

    estimator: str = "SVC"

    def warm_up(self, job: Job) -> None:
        sample = job.sample(WARM_ROWS, None)
        for init in ("band", "rows"):
            self.prepare(replace(sample, params=sample.params | {"init": init}))()


class Libsvm(KernelMachine):
    """scikit-learn's SVC: sequential minimal optimisation."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        from sklearn.svm import SVC

        X, y, settings = job.data.X, job.data.y, job.settings
        return lambda: SVC(kernel="rbf", cache_size=CACHE, **settings).fit(X, y)


@dataclass(frozen=True, kw_only=True)
class Intelex(KernelMachine):
    """The SVC of scikit-learn-intelex (oneDAL), held to one core: its threads are as many as it sees cores."""

    package: str | None = "sklearnex"
    dtype: str = "float64"
    """Of the rows, and so of its arithmetic."""

    def prepare(self, job: Job) -> Callable[[], Any]:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from sklearnex.svm import SVC

        X, y, settings = job.data.X.astype(self.dtype), job.data.y, job.settings
        return lambda: SVC(kernel="rbf", cache_size=CACHE, **settings).fit(X, y)


CONTROL = "no aggregation"
SOLVERS = (
    Ours(),
    Ours(name=CONTROL, arguments={"init": "rows"}),
    Intelex(name="sklearnex f64"),
    Intelex(name="sklearnex f32", dtype="float32"),
    Libsvm(name="libsvm", timeout=3600, slow=True),
)
