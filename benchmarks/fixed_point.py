"""Reference fits, which a pure refactoring must reproduce bit for bit.

    python -m benchmarks.fixed_point > before.txt           # then make the change
    python -m benchmarks.fixed_point --compare before.txt   # exit code 1 and the names of the cases that differ

Each line has a digest of coefficients, bounds, status and history (all but the seconds), then the passes. Only public
names are used, so that the same script runs before and after code has moved. Digests depend on the machine and the
installed packages: compare files of the same machine only.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

import dask
import dask.array as dask_array
import dask.dataframe as dask_frame
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from aidlearn import (
    SVC,
    LADRegressor,
    LinearSVC,
    LinearSVR,
    QuantileRegressor,
    SemiSupervisedSVC,
    as_source,
    open_source,
)

Cases = dict[str, Callable[[], Any]]
Array = np.ndarray[Any, Any]

HASHED = "coef_ intercept_ dual_coef_ support_ transduction_ objective_ lower_bound_ gap_ n_clusters_ status_ history_"
FROM = ["n_jobs=1", "n_jobs=2", "as_source", "npy", "parquet", "parquet folder", "csv", "dask array", "dask frame"]
SAME = (
    [f"lad {origin}" for origin in FROM],
    ["svc-linear 4 classes n_jobs=1", "svc-linear 4 classes n_jobs=2"],
    ["svc rbf n_jobs=1", "svc rbf n_jobs=2"],
    ["lad kmeans whole", "lad checkpoint resumed"],
)
"""Groups of cases that must have the same digest."""


def exact(value: Any) -> str:
    """Return a fitted attribute as text that differs if any bit differs."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray):
        return f"{value.shape}{exact(value.tolist())}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(exact, value))}]"
    if isinstance(value, (float, np.floating)):
        return float(value).hex()
    if value is None or isinstance(value, (int, str, np.integer, np.bool_)):
        return str(value)
    record = asdict(value)  # a record of the history
    return exact([f"{name}={exact(record[name])}" for name in sorted(record) if name != "seconds"])


def line(name: str, model: Any) -> str:
    text = "\n".join(f"{key} {exact(getattr(model, key))}" for key in HASHED.split() if hasattr(model, key))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    shown = {"iterations": model.n_iter_, "clusters": model.n_clusters_, "status": model.status_}
    rest = [f"{what}={'+'.join(map(exact, np.atleast_1d(value)))}" for what, value in shown.items()]
    return " ".join([f"{name:<34}", digest, f"passes={model.n_passes_}", *rest])


def linear(rng: np.random.Generator, X: Array) -> Array:
    """Return ``X b`` for a random b, summed by NumPy so that it does not depend on BLAS."""
    return (X * rng.normal(size=X.shape[1])).sum(axis=1)


def regression_cases() -> Cases:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9000, 8))
    y = linear(rng, X) + rng.laplace(size=9000)
    weight = rng.integers(0, 4, size=9000) * 0.5
    dummies = np.column_stack([X[:, :3], rng.random((9000, 6)) < [0.5, 0.1, 0.01, 1e-3, 5e-4, 3e-4]]).astype(float)
    ties = np.round(3 * linear(rng, dummies) + 2 * rng.normal(size=9000))
    labels = np.argsort(np.argsort(y)) // 30
    return {
        "lad auto": lambda: LADRegressor().fit(X, y),
        "lad band rate": lambda: LADRegressor(init="band", initial_rate=0.02, tol=1e-6).fit(X, y),
        "lad kmeans": lambda: LADRegressor(init="kmeans").fit(X, y),
        "lad birch": lambda: LADRegressor(init="birch").fit(X, y),
        "lad labels": lambda: LADRegressor(init=labels).fit(X, y),
        "lad callable": lambda: LADRegressor(init=lambda A, b: np.floor(8 * A[:, 0]) * 1000 + np.floor(b)).fit(X, y),
        "lad highs": lambda: LADRegressor(solver="highs").fit(X, y),
        "lad weights": lambda: LADRegressor(tol=1e-6).fit(X, y, weight),
        "lad no intercept": lambda: LADRegressor(fit_intercept=False).fit(X, y),
        "lad alpha": lambda: LADRegressor(alpha=0.05).fit(X, y),
        "lad tol=0": lambda: LADRegressor(tol=0).fit(X[:3000], y[:3000]),
        "lad ties and rare dummies": lambda: LADRegressor().fit(dummies, ties),
        "lad offset 1e9": lambda: LADRegressor(tol=1e-6).fit(X, y + 1e9),
        "lad kmeans seed 7": lambda: LADRegressor(init="kmeans", random_state=7).fit(X, y),
        "quantiles weights": lambda: QuantileRegressor(quantile=[0.1, 0.5, 0.95]).fit(X, y, weight),
        "quantiles highs alpha": lambda: QuantileRegressor(quantile=[0.3, 0.7], alpha=0.02, solver="highs").fit(X, y),
        "svr": lambda: LinearSVR(C=0.1).fit(X, y),
        "svr epsilon weights": lambda: LinearSVR(epsilon=0.5, C=0.01).fit(X, y, weight),
        "svr epsilon kmeans no intercept": lambda: LinearSVR(epsilon=0.3, init="kmeans", fit_intercept=False).fit(X, y),
    }


def linear_svm_cases() -> Cases:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(8000, 6))
    scores = np.column_stack([linear(rng, X) for _ in range(4)]) + rng.normal(size=(8000, 4))
    two, three, four = (scores[:, 0] > 0.5).astype(int), scores[:, :3].argmax(axis=1), scores.argmax(axis=1)
    names = np.array(["blue", "green", "red"])[three]
    weight = rng.random(8000)
    long, codes = np.repeat(X, 20, axis=0) + 0.1 * rng.normal(size=(160_000, 6)), np.repeat(four, 20)
    return {
        "svc-linear": lambda: LinearSVC(C=0.1).fit(X, two),
        "svc-linear libsvm": lambda: LinearSVC(C=0.1, solver="libsvm").fit(X, two),
        "svc-linear liblinear": lambda: LinearSVC(C=0.01, solver="liblinear", tol=1e-3).fit(X, two),
        "svc-linear dual": lambda: LinearSVC(row_duals=True, init="kmeans").fit(X, two),
        "svc-linear dual weights": lambda: LinearSVC(row_duals=True, C=0.05, tol=1e-6).fit(X, two, weight),
        "svc-linear balanced no intercept": lambda: LinearSVC(class_weight="balanced", fit_intercept=False).fit(X, two),
        "svc-linear 3 classes": lambda: LinearSVC(class_weight={"red": 3.0, "blue": 0.5}).fit(X, names, weight),
        "svc-linear 3 classes kmeans": lambda: LinearSVC(init="kmeans", C=0.1).fit(X, three),
        "svc-linear 4 classes n_jobs=1": lambda: LinearSVC(C=0.01, tol=1e-3, n_jobs=1).fit(long, codes),
        "svc-linear 4 classes n_jobs=2": lambda: LinearSVC(C=0.01, tol=1e-3, n_jobs=2).fit(long, codes),
    }


def kernel_cases() -> Cases:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2500, 3))
    radius = (X**2).sum(axis=1) + 0.3 * rng.normal(size=2500)
    two = radius > 2.4
    three, four = np.digitize(radius, [1.7, 3.2]), np.digitize(radius, [1.3, 2.4, 3.9])
    side = np.digitize(X[:, 0] + 0.3 * rng.normal(size=2500), [-0.5, 0.5])
    large = rng.normal(size=(9000, 3))
    outer = (large**2).sum(axis=1) + 2.0 * rng.normal(size=9000) > 2.4
    weight = rng.random(2500)
    return {
        "svc rbf n_jobs=1": lambda: SVC(n_jobs=1).fit(X, two),
        "svc rbf n_jobs=2": lambda: SVC(n_jobs=2).fit(X, two),
        "svc rbf libsvm weights": lambda: SVC(solver="libsvm", C=3.0).fit(X, two, weight),
        "svc rbf large": lambda: SVC(C=0.5, tol=1e-3).fit(large, outer),
        "svc rbf band": lambda: SVC(init="band").fit(X, two),
        "svc rbf kernel-kmeans": lambda: SVC(init="kernel-kmeans", max_iter=6).fit(X, two),
        "svc rbf 4 classes balanced": lambda: SVC(C=5.0, class_weight="balanced").fit(X, four),
        "svc rbf csr": lambda: SVC(gamma=0.5).fit(sparse.csr_matrix(np.where(np.abs(X) > 0.7, X, 0.0)), two),
        "svc poly 3 classes": lambda: SVC(kernel="poly", degree=2, coef0=1.0).fit(X, three),
        "svc linear kernel 3 classes": lambda: SVC(kernel="linear", C=0.5).fit(X, side),
        "svc precomputed": lambda: SVC(kernel="precomputed").fit(rbf_kernel(X[:900], gamma=0.4), three[:900]),
        "svc nystroem": lambda: SVC(approximation="nystroem", n_components=60).fit(X, two),
    }


def semi_supervised_cases() -> Cases:
    rng = np.random.default_rng(4)
    middles = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    groups = rng.integers(0, 3, size=600)
    X = middles[groups] + rng.normal(size=(600, 2))
    known = rng.random(600) < 0.05
    three, two = np.where(known, groups, -1), np.where(known, groups > 0, -1)
    few = np.concatenate([np.flatnonzero(known)[:6], np.flatnonzero(~known)[:24]])
    weight = 0.5 + rng.random(600)
    return {
        "s3vm linear": lambda: SemiSupervisedSVC(C_unlabeled=0.1).fit(X, two),
        "s3vm kmeans cost weights": lambda: SemiSupervisedSVC(init="kmeans", balance="cost").fit(X, two, weight),
        "s3vm certify": lambda: SemiSupervisedSVC(certify=True, C_unlabeled=0.2).fit(X[few], two[few]),
        "s3vm graph": lambda: SemiSupervisedSVC(kernel="graph", balance="constraint").fit(X, two),
        "s3vm rbf refine": lambda: SemiSupervisedSVC(kernel="rbf", refine=True, C_unlabeled=0.05).fit(X, two),
        "s3vm 3 classes": lambda: SemiSupervisedSVC(balance="constraint", max_iter=3).fit(X[:300], three[:300]),
    }


def input_cases(folder: Path) -> Cases:
    """Return fits of the same rows, in several chunks, from every kind of container."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n := 50_000, m := 24))
    y = linear(rng, X) + rng.laplace(size=n)
    classes = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(m)])
    mixed = frame.assign(x0=frame["x0"].astype("float32"), x1=(frame["x1"] > 0), x2=np.round(frame["x2"]).astype(int))
    full = pa.Table.from_pandas(frame.assign(y=y), preserve_index=False)
    thin = sparse.random(30_000, 60, density=0.05, format="csr", random_state=6, data_rvs=rng.standard_normal)
    sums = np.asarray(thin.sum(axis=1)).ravel() + rng.laplace(size=30_000)
    file, kinds = folder / "X.npy", folder / "kinds.parquet"
    for path, values in ((file, X), (folder / "y.npy", y), (folder / "c.npy", classes)):
        np.save(path, values)
    pq.write_table(full, folder / "t.parquet", row_group_size=9000)
    (folder / "parts").mkdir()
    for k in range(4):
        pq.write_table(full.slice(k * 13_000, 13_000), folder / "parts" / f"{k}.parquet")
    arrow_csv.write_csv(full, folder / "t.csv")
    dump_svmlight_file(thin, sums, str(folder / "t.svmlight"), zero_based=False)
    texts = np.array(["a", "b", "c", "rare"])[np.minimum(rng.geometric(0.6, size=n) - 1, 3)]
    more = full.append_column("kind", pa.array(texts)).append_column("w", pa.array(rng.random(n)))
    pq.write_table(more, kinds)

    def resumed() -> Any:
        model = LADRegressor(init="kmeans", tol=1e-5, checkpoint=folder / "run.ckpt", max_iter=2)
        return clone(model.fit(X[:9000, :8], y[:9000])).set_params(max_iter=100).fit(X[:9000, :8], y[:9000])

    # Fewer initial clusters, and classes in groups; one thread, as the memory of several depends on the machine.
    little: dict[str, Any] = {"memory_limit": "46MB", "n_jobs": 1}
    blocks = (dask_array.from_array(X, chunks=(7000, m)), dask_array.from_array(y, chunks=7000))
    return {
        "lad n_jobs=1": lambda: LADRegressor(n_jobs=1).fit(X, y),
        "lad n_jobs=2": lambda: LADRegressor(n_jobs=2).fit(X, y),
        "lad as_source": lambda: LADRegressor().fit(as_source(X, y)),
        "lad F order": lambda: LADRegressor().fit(np.asfortranarray(X), y),
        "lad float32": lambda: LADRegressor().fit(X.astype(np.float32), y),
        "lad csr": lambda: LADRegressor().fit(thin, sums),
        "lad pandas": lambda: LADRegressor().fit(frame, y),
        "lad pandas mixed": lambda: LADRegressor().fit(mixed, pd.Series(y)),
        "lad polars": lambda: LADRegressor().fit(pl.from_pandas(frame), pl.Series(y)),
        "lad pyarrow mixed": lambda: LADRegressor().fit(pa.Table.from_pandas(mixed), y),
        "lad npy": lambda: LADRegressor().fit(open_source(file, folder / "y.npy")),
        "lad parquet": lambda: LADRegressor().fit(folder / "t.parquet", "y"),
        "lad parquet folder": lambda: LADRegressor().fit(str(folder / "parts"), "y"),
        "lad csv": lambda: LADRegressor().fit(str(folder / "t.csv"), "y"),
        "lad svmlight": lambda: LADRegressor().fit(str(folder / "t.svmlight")),
        "lad one_hot weight": lambda: LADRegressor().fit(open_source(kinds, "y", one_hot=["kind"], weight="w")),
        "lad memory_limit": lambda: LADRegressor().fit(open_source(file, folder / "y.npy", **little)),
        "svc-linear memory_limit": lambda: LinearSVC(C=0.01).fit(open_source(file, folder / "c.npy", **little)),
        "lad dask array": lambda: LADRegressor().fit(*blocks),
        "lad dask frame": lambda: LADRegressor().fit(dask_frame.from_pandas(frame.assign(y=y), npartitions=5), "y"),
        "lad kmeans whole": lambda: LADRegressor(init="kmeans", tol=1e-5).fit(X[:9000, :8], y[:9000]),
        "lad checkpoint resumed": resumed,
    }


def run(only: str, timed: bool) -> Iterable[str]:
    with tempfile.TemporaryDirectory(prefix="aidlearn-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = input_cases(Path(folder)) | regression_cases() | linear_svm_cases()
        cases |= kernel_cases() | semi_supervised_cases()
        with threadpool_limits(1), dask.config.set(scheduler="threads", num_workers=2):
            for name, fit in ((name, fit) for name, fit in cases.items() if only in name):
                np.random.seed(0)  # noqa: NPY002  # liblinear draws from NumPy's global generator
                started = time.perf_counter()
                text = line(name, fit())
                print(text, flush=True)
                yield text
                if timed:
                    print(f"{time.perf_counter() - started:7.2f} s  {name}", file=sys.stderr)


def parse(lines: Iterable[str], only: str) -> dict[str, tuple[str, str]]:
    """Return the digest and the passes of each case; names may contain spaces."""
    matches = [re.match(r"(.*?) +([0-9a-f]{16}) passes=(\d+) ", text) for text in lines]
    return {found[1]: (found[2], found[3]) for found in matches if found and only in found[1]}


def differences(now: dict[str, tuple[str, str]], then: dict[str, tuple[str, str]], passes: bool) -> list[str]:
    changes = [f"{name}: only in one of the two" for name in sorted(now.keys() ^ then.keys())]
    for column, what in ((0, "digest"), (1, "passes"))[: 2 if passes else 1]:
        pairs = [(name, then[name][column], now[name][column]) for name in now if name in then]
        changes += [f"{name}: {what} {before} became {after}" for name, before, after in pairs if before != after]
    return changes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixed_point")
    parser.add_argument("--compare", metavar="FILE", help="saved output; exit code 1 if a case differs from it")
    parser.add_argument("--ignore-passes", action="store_true", help="differences in passes over the data are fine")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this text in their name")
    parser.add_argument("--times", action="store_true", help="seconds of each case, to stderr")
    options = parser.parse_args()
    then = parse(Path(options.compare).read_text().splitlines(), options.only) if options.compare else None
    now = parse(run(options.only, options.times), options.only)
    changes = differences(now, then, not options.ignore_passes) if then is not None else []
    for group in SAME:
        digests = {name: now[name][0] for name in group if name in now}
        changes += [f"should be equal: {digests}"] if len(set(digests.values())) > 1 else []
    for text in changes:
        print(text, file=sys.stderr)
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
