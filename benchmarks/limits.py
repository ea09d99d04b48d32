"""Time limits: how far a fit overruns its limit, and whether its result is a useful model.

``python -m benchmarks.limits [--rows 1000000] [--only TEXT] [--repeats 3]``. Seconds are CPU seconds of one thread;
``over`` counts those after the wall-clock limit has passed, so that other jobs on the machine do not count. A fit may
overrun by 0.3 s and one pass (``X @ b``); ! marks fits that take more.
"""

from __future__ import annotations

import argparse
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import aidlearn

LIMITS = (0.001, 0.3)


def cells(rows: int) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield name, estimator, X and y of each fit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 50))
    y = X @ rng.normal(size=50) + rng.laplace(size=rows)
    label = (y > 0).astype(int)
    classes = np.digitize(y, np.quantile(y, [0.2, 0.5, 0.8]))
    small, few = slice(0, rows // 20), slice(0, rows // 100)
    for init in ("auto", "kmeans", "birch"):
        yield f"LADRegressor init={init}", aidlearn.LADRegressor(init=init), X, y
    yield "LADRegressor init=labels", aidlearn.LADRegressor(init=np.arange(rows) % 5000), X, y
    yield "LADRegressor alpha", aidlearn.LADRegressor(alpha=0.01), X, y
    yield "five quantiles", aidlearn.QuantileRegressor(quantile=[0.1, 0.3, 0.5, 0.7, 0.9]), X, y
    for init in ("auto", "kmeans", "birch"):
        yield f"LinearSVC init={init}", aidlearn.LinearSVC(init=init), X, label
    yield "LinearSVC four classes", aidlearn.LinearSVC(), X, classes
    yield "LinearSVR", aidlearn.LinearSVR(), X, y
    yield "LinearOneClassSVM", aidlearn.LinearOneClassSVM(nu=0.1), X, None
    for solver in ("highs", "interior-point"):
        yield f"LADRegressor solver={solver}", aidlearn.LADRegressor(solver=solver), X[small], y[small]
    for solver in ("libsvm", "liblinear"):
        yield f"LinearSVC solver={solver}", aidlearn.LinearSVC(solver=solver), X[small], label[small]
        everything = np.arange(rows // 100)
        model = aidlearn.LinearSVC(solver=solver, init=everything, C=100.0)
        yield f"LinearSVC solver={solver}, rows alone", model, X[few], label[few]
    yield "PiecewiseLinearModel", aidlearn.PiecewiseLinearModel(kinks=[0, 10], slopes=[-1, 4, 9]), X, y
    wide = rng.normal(size=(rows // 100, 400))
    yield "LADRegressor 400 columns, tol=0", aidlearn.LADRegressor(tol=0), wide, wide[:, :9].sum(axis=1) + y[few]


def kernel_cells(rows: int) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield fits of kernel machines, on 40,000 rows if there are 1,000,000."""
    rng = np.random.default_rng(1)
    n = rows // 25
    X = rng.normal(size=(n, 10))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n)
    label, classes = (score > 0).astype(int), np.digitize(score, np.quantile(score, [0.2, 0.5, 0.8]))
    for init in ("auto", "band", "kmeans", "rows"):
        yield f"SVC init={init}", aidlearn.SVC(init=init), X, label
    yield "SVC init=labels", aidlearn.SVC(init=np.arange(n) % (n // 40)), X, label
    for solver in ("smo", "libsvm"):
        yield f"SVC solver={solver}", aidlearn.SVC(solver=solver), X, label
    yield "SVC poly, C=100", aidlearn.SVC(kernel="poly", C=100.0), X, label
    yield "SVC four classes", aidlearn.SVC(), X, classes
    for init in ("auto", "rows"):
        yield f"SVR init={init}", aidlearn.SVR(init=init), X, score
    part = slice(0, n // 5)
    known = np.where(rng.random(n) < 0.02, label, -1)
    for kernel in ("linear", "rbf", "graph"):
        yield f"SemiSupervisedSVC kernel={kernel}", aidlearn.SemiSupervisedSVC(kernel=kernel), X[part], known[part]
    several = np.where(known >= 0, classes, -1)
    yield "SemiSupervisedSVC four classes", aidlearn.SemiSupervisedSVC(), X[part], several[part]


class Overrun:
    """Meter of the CPU seconds that are spent after a wall-clock limit."""

    def __init__(self, limit: float) -> None:
        self._limit, self._at, self._ended = limit, float("nan"), threading.Event()

    def _watch(self) -> None:
        if not self._ended.wait(self._limit):
            self._at = time.process_time()

    def of(self, work: Any) -> tuple[float, float]:
        """Return the CPU seconds of ``work``, and those spent after the limit."""
        watch = threading.Thread(target=self._watch, daemon=True)
        began = time.process_time()
        watch.start()
        work()
        ended = time.process_time()
        self._ended.set()
        watch.join()
        return ended - began, max(0.0, ended - self._at) if self._at == self._at else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="cells whose name has this")
    parser.add_argument("--repeats", type=int, default=3, help="fits of each, of which the quickest counts")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    first = np.random.default_rng(0).normal(size=(100_000, 50))
    for model, target in ((aidlearn.LADRegressor(), first[:, 0]), (aidlearn.LinearSVC(), first[:, 0] > 0)):
        model.fit(first, target)  # loads compiled code
    few = slice(0, 7000)
    for machine in (aidlearn.SVC(), aidlearn.SVC(kernel="poly"), aidlearn.SVC(init="band", tol=1e-2)):
        machine.set_params(time_limit=2.0).fit(first[few], first[few, 0] > 0)
    print(f"{'fit':44s} {'limit':>6s} {'CPU s':>7s} {'over':>7s} {'pass':>6s}  status, value over the best constant")
    for name, model, X, y in (*cells(options.rows), *kernel_cells(options.rows)):
        if options.only not in name:
            continue
        began = time.process_time()
        X @ np.ones(X.shape[1])
        one = time.process_time() - began
        for limit in LIMITS:
            model.set_params(time_limit=limit, n_jobs=1)
            runs = [Overrun(limit).of(lambda: _fit(model, X, y)) for _ in range(options.repeats)]  # noqa: B023
            took, over = min(runs, key=lambda run: run[1])
            mark = "!" if over > 0.3 + one else " "
            status = model.status_ if isinstance(model.status_, list) else [model.status_]
            relative = _over_constant(model, X, y)
            statuses = ",".join(sorted({str(one) for one in status}))
            print(
                f"{name:44s} {limit:6.3f} {took:7.2f} {over:7.2f}{mark}{one:6.3f}  {statuses} {relative}",
                flush=True,
            )


def _fit(model: Any, X: Any, y: Any) -> None:
    model.fit(X) if y is None else model.fit(X, y)


def _over_constant(model: Any, X: Any, y: Any) -> str:
    """Return the objective over that of the best constant (at most 1 for a useful model), or a score."""
    if isinstance(model, aidlearn.SVC | aidlearn.SemiSupervisedSVC):
        known = y >= 0
        share = np.bincount(y[known]).max() / known.sum()
        return f"accuracy {model.score(X[known], y[known]):.2f}, most frequent {share:.2f}"
    if isinstance(model, aidlearn.SVR | aidlearn.PiecewiseLinearModel):
        return f"R2 {1 - np.mean((model.predict(X) - y) ** 2) / np.var(y):.2f}"
    if y is None or isinstance(model.status_, list) or not hasattr(model, "objective_"):
        return ""
    if isinstance(model, aidlearn.LinearSVC):
        shares = np.bincount(y)
        return f"{model.objective_ / (2 * model.C * shares.min()):.3f}"
    if isinstance(model, aidlearn.LinearSVR):
        return f"{model.objective_ / (model.C * np.abs(y - np.median(y)).sum()):.3f}"
    return f"{model.objective_ / np.abs(y - np.median(y)).sum():.3f}"


if __name__ == "__main__":
    main()
