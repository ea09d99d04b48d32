"""Time limits: how much longer than its limit a fit takes, and whether what it leaves is a model.

``python -m benchmarks.limits [--rows 1000000] [--only TEXT]``. Seconds are CPU seconds of one thread. Allowed are the
limit, 0.3 s and one pass (checking and measuring the rows, which no fit can do without, the pass of ``X @ b``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import aidlearn

LIMITS = (0.001, 0.3)


def cells(rows: int) -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, estimator, X, y."""
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
    wide = rng.normal(size=(rows // 100, 400))
    yield "LADRegressor 400 columns, tol=0", aidlearn.LADRegressor(tol=0), wide, wide[:, :9].sum(axis=1) + y[few]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="cells whose name has this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    first = np.random.default_rng(0).normal(size=(100_000, 50))
    for model, target in ((aidlearn.LADRegressor(), first[:, 0]), (aidlearn.LinearSVC(), first[:, 0] > 0)):
        model.fit(first, target)  # loads what is compiled
    print(f"{'fit':44s} {'limit':>6s} {'CPU s':>7s} {'over':>7s} {'pass':>6s}  status, value over the best constant")
    for name, model, X, y in cells(options.rows):
        if options.only not in name:
            continue
        began = time.process_time()
        X @ np.ones(X.shape[1])
        one = time.process_time() - began
        for limit in LIMITS:
            model.set_params(time_limit=limit, n_jobs=1)
            began = time.process_time()
            model.fit(X) if y is None else model.fit(X, y)
            took = time.process_time() - began
            over = took - limit
            mark = "!" if over > 0.3 + one else " "
            status = model.status_ if isinstance(model.status_, list) else [model.status_]
            told = ",".join(sorted({str(one) for one in status}))
            print(
                f"{name:44s} {limit:6.3f} {took:7.2f} {over:7.2f}{mark}{one:6.3f}  {told} {_worth(model, X, y)}",
                flush=True,
            )


def _worth(model: Any, X: Any, y: Any) -> str:
    """The objective beside that of the best model without slopes: at most 1, if the model is of use."""
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
