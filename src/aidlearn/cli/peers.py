"""Programs that ``aidlearn bench`` runs side by side, and the objective that it computes for each of them itself."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUANTREG = """
# Fits X (n x p doubles by column) and y; writes coef and the CPU and wall seconds of the fit alone.
args <- commandArgs(TRUE); folder <- args[1]; n <- as.numeric(args[2]); p <- as.numeric(args[3])
suppressWarnings(suppressPackageStartupMessages(library(quantreg)))
read <- function(name, count) readBin(file.path(folder, name), "double", count)
x <- read("X", n * p); dim(x) <- c(n, p); y <- read("y", n)
few <- seq_len(min(n, 50 * p))
try(suppressWarnings(rq.fit.fnb(x[few, , drop = FALSE], y[few], tau = as.numeric(args[4]))), silent = TRUE)
invisible(gc()); start <- proc.time()
z <- suppressWarnings(rq.fit.fnb(x, y, tau = as.numeric(args[4])))
took <- proc.time() - start
writeBin(as.double(z$coefficients), file.path(folder, "coef"))
writeBin(c(took[["user.self"]] + took[["sys.self"]], took[["elapsed"]]), file.path(folder, "seconds"))
"""
WARM_ROWS = 400
R_PATIENCE = 600.0
"""Seconds after which R is ended."""


@dataclass(frozen=True)
class Job:
    """Data and the parameters of the problem."""

    kind: str
    X: NDArray[Any]
    y: NDArray[Any]
    tol: float = 1e-4
    quantile: float = 0.5
    C: float = 1.0
    epsilon: float = 0.0


@dataclass
class Outcome:
    """What a program did."""

    name: str
    cpu: float = float("nan")
    wall: float = float("nan")
    objective: float = float("nan")
    gap: float | None = None
    """Proven by the program itself."""
    note: str = ""
    model: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class Peer:
    """A program: how it is made and up to how many rows it is asked."""

    name: str
    make: Callable[[Job], Any]
    most_rows: int
    package: str | None = None
    warm: Callable[[Job], list[Any]] | None = None
    """What is fitted to a few rows first, if not the program itself."""

    def run(self, job: Job) -> Outcome:
        """Fit, timed on one thread."""
        from threadpoolctl import threadpool_limits

        model = self.make(job)
        out = Outcome(self.name, model=model)
        with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
            warnings.simplefilter("always")
            # What is compiled or loaded at the first call is not the fit.
            for other in self.warm(job) if self.warm else [self.make(job)]:
                other.fit(job.X[:WARM_ROWS], job.y[:WARM_ROWS])
            caught.clear()
            wall, cpu = time.perf_counter(), time.process_time()
            model.fit(job.X, job.y)
            out.cpu, out.wall = time.process_time() - cpu, time.perf_counter() - wall
        if any(w.category.__name__ == "ConvergenceWarning" for w in caught):
            out.note = "did not converge"
        out.gap = float(model.gap_) if hasattr(model, "gap_") else None
        return out


class Statsmodels:
    """statsmodels' QuantReg with the interface of the others."""

    def __init__(self, quantile: float) -> None:
        self.quantile = quantile

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> None:
        import numpy as np
        from statsmodels.regression.quantile_regression import QuantReg

        point = np.asarray(QuantReg(y, np.column_stack([np.ones(len(y)), X])).fit(q=self.quantile).params)
        self.intercept_, self.coef_ = float(point[0]), point[1:]


@dataclass(frozen=True)
class Quantreg(Peer):
    """R's quantreg, by its interior point; it measures itself."""

    def run(self, job: Job) -> Outcome:
        import numpy as np

        out = Outcome(self.name)
        n, m = job.X.shape
        with tempfile.TemporaryDirectory(prefix="aidlearn-") as name:
            folder = Path(name)
            np.asfortranarray(np.column_stack([np.ones(n), job.X])).T.tofile(folder / "X")
            np.asarray(job.y, dtype=float).tofile(folder / "y")
            (folder / "fit.R").write_text(QUANTREG)
            words = ["Rscript", "--vanilla", folder / "fit.R", folder, n, m + 1, job.quantile]
            try:
                done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=R_PATIENCE)
            except subprocess.TimeoutExpired:
                out.note = f"ended after {R_PATIENCE:.0f} s"
                return out
            if not (folder / "seconds").exists():
                lines = done.stderr.strip().splitlines()
                out.note = "quantreg is not installed" if "quantreg" in done.stderr else (lines or ["failed"])[-1]
                return out
            point = np.fromfile(folder / "coef")
            out.cpu, out.wall = map(float, np.fromfile(folder / "seconds"))
        out.model = _Point(point[1:], float(point[0]))
        return out


@dataclass(frozen=True)
class _Point:
    coef_: NDArray[Any]
    intercept_: float


def ours(kind: str) -> Peer:
    """The estimator of aidlearn."""
    import aidlearn

    def make(job: Job) -> Any:
        own = {"lad": {}, "quantile": {"quantile": job.quantile}, "svr": {"C": job.C, "epsilon": job.epsilon}}
        name = {"lad": "LADRegressor", "quantile": "QuantileRegressor", "svm": "LinearSVC", "svr": "LinearSVR"}
        estimator = getattr(aidlearn, name.get(kind, "SVC"))
        return estimator(tol=job.tol, n_jobs=1, **own.get(kind, {"C": job.C}))

    def every_path(job: Job) -> list[Any]:
        """Few rows do not need the compiled code of many."""
        return [make(job).set_params(init=init) for init in ("band", "rows")]

    return Peer("aidlearn", make, 10**12, warm=every_path if kind == "kernel-svm" else None)


def peers(kind: str) -> list[Peer]:
    """The others, those that are installed."""
    from sklearn import linear_model, svm

    known: dict[str, list[Peer]] = {
        "lad": [
            Peer("scikit-learn QuantileRegressor", _sklearn_quantile(linear_model), 10_000),
            Peer("statsmodels QuantReg", lambda job: Statsmodels(job.quantile), 200_000, "statsmodels"),
            Quantreg("R quantreg fn", lambda job: None, 2_000_000, "Rscript"),
        ],
        "svm": [
            Peer(
                "scikit-learn LinearSVC",
                lambda job: svm.LinearSVC(C=job.C, loss="hinge", tol=job.tol, random_state=0),
                500_000,
            ),
            Peer("scikit-learn SVC", lambda job: svm.SVC(kernel="linear", C=job.C, tol=job.tol), 20_000),
        ],
        "svr": [
            Peer(
                "scikit-learn LinearSVR",
                lambda job: svm.LinearSVR(C=job.C, epsilon=job.epsilon, tol=job.tol, random_state=0),
                500_000,
            ),
            Peer(
                "scikit-learn SVR",
                lambda job: svm.SVR(kernel="linear", C=job.C, epsilon=job.epsilon, tol=job.tol),
                10_000,
            ),
        ],
        "kernel-svm": [Peer("scikit-learn SVC", lambda job: svm.SVC(C=job.C, cache_size=2000), 50_000)],
    }
    known["quantile"] = known["lad"]
    return [peer for peer in known[kind] if _installed(peer.package)]


def _sklearn_quantile(linear_model: Any) -> Callable[[Job], Any]:
    return lambda job: linear_model.QuantileRegressor(quantile=job.quantile, alpha=0.0)


def _installed(package: str | None) -> bool:
    if package == "Rscript":
        return shutil.which("Rscript") is not None
    return package is None or find_spec(package) is not None


def objective(job: Job, model: Any) -> float:
    """The value of a solution, from its coefficients.

    Some programs penalise the intercept or leave it inaccurate: it is chosen anew for everyone, exactly. The objective
    is piecewise linear in it, its slope rises by one at every kink, so the best one is a kink of known rank.
    """
    import numpy as np

    if job.kind == "kernel-svm":
        scores = np.asarray(model.decision_function(job.X)) - float(np.ravel(model.intercept_)[0])
        norm = float(np.ravel(model.dual_coef_) @ scores[model.support_])
    else:
        coef = np.ravel(model.coef_)
        scores, norm = job.X @ coef, float(coef @ coef)
    residual = job.y - scores
    if job.kind in ("lad", "quantile"):
        quantile = job.quantile if job.kind == "quantile" else 0.5
        residual = residual - np.quantile(residual, quantile, method="inverted_cdf")
        total = np.maximum(quantile * residual, (quantile - 1) * residual).sum()
        return float(total if job.kind == "quantile" else 2 * total)
    if job.kind == "svr":
        kinks = np.concatenate([residual - job.epsilon, residual + job.epsilon])
        intercept = np.partition(kinks, len(residual) - 1)[len(residual) - 1]
        losses = np.maximum(np.abs(residual - intercept) - job.epsilon, 0.0)
    else:
        rank = int((job.y > 0).sum()) - 1
        intercept = np.partition(residual, rank)[rank]  # y (y - score - b) = 1 - y (score + b)
        losses = np.maximum(job.y * (residual - intercept), 0.0)
    return 0.5 * norm + job.C * float(losses.sum())
