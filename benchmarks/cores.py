"""Threads: CPU time of one, speed-up of several, bitwise equality, first-run cost: python -m benchmarks.cores."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from timeit import repeat, timeit
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm
from sklearn.exceptions import ConvergenceWarning

from aidlearn import SVC, LADRegressor, LinearSVC
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.kernel.functions import Kernel
from aidlearn.kernel.rows import kernel_rows
from benchmarks.harness.cells import Cell, Row, measured
from benchmarks.harness.command import Options, Table, main
from benchmarks.harness.datasets import DataSet, generated
from benchmarks.harness.table import TableLayout, pick

FLIGHTS = DataSet("nycflights", "nycflights", (327_346, 136), {})
CELEBA = DataSet("celeba", "standardised", (202_599, 39), {"name": "celeba"})


def counts() -> list[int]:
    return [k for k in (1, 2, 4, 8, 16, 32) if k <= max(2, os.cpu_count() or 1)]


def linear(options: Options) -> list[Cell]:
    shapes = ((1_000_000, 100), (1_600_000, 10), (400_000, 500))
    sets = [("lad", generated("gaussian", n, m), {}) for n, m in shapes]
    sets += [
        ("svm", generated("two_classes", 800_000, 90), {"C": 0.1}),
        ("lad", FLIGHTS, {}),
        ("svm", CELEBA, {"C": 1.0}),
    ]
    if options.quick:
        sets = [("lad", generated("gaussian", 100_000, 50), {})]
    return [
        measured(
            problem, data, settings=constants, tol=options.tol, repeat=options.repeat, params={"n_jobs": k}, n_jobs=k
        )
        for problem, data, constants in sets
        for k in counts()
    ]


def kernel(options: Options) -> list[Cell]:
    data = generated("curved_classes", 5_000 if options.quick else 20_000, 30)
    settings = {"C": 1.0, "gamma": 1 / 30}
    return [
        measured(
            "kernel-svm",
            data,
            settings=settings,
            tol=options.tol,
            repeat=options.repeat,
            params={"n_jobs": k},
            n_jobs=k,
        )
        for k in counts()
    ]


def speed_up(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if "objective" not in row or row["n_jobs"] == 1:
            continue
        alone = [other for other in rows if other["data"] == row["data"] and other["n_jobs"] == 1 and "wall" in other]
        for one in alone:
            same = all(row.get(key) == one.get(key) for key in ("coef", "expansion", "bounds", "objective"))
            yield (
                f"{row['data']}: {row['n_jobs']} threads: speed-up {one['wall'] / row['wall']:.2f}, "
                f"CPU {row['cpu'] / one['cpu']:.2f} of one thread, the same bits: {same}"
            )


def kernel_speed_up(rows: Sequence[Row]) -> Iterator[str]:
    yield from speed_up(rows)
    quick = all(row["data"].startswith("5k") for row in rows)
    yield from evaluations(5_000 if quick else 20_000)


def evaluations(n: int, m: int = 30) -> Iterator[str]:
    """Time the kernel evaluations of a fit alone: products in float32 (search) and float64 (bound), and a block."""
    X = np.random.default_rng(0).normal(size=(n, m))
    everything, some = np.arange(n), np.arange(0, n, 10)
    coef = np.ones((len(some), 1))

    def work(n_jobs: int) -> dict[str, Callable[[], NDArray[Any]]]:
        rows = kernel_rows(Kernel("rbf", 1 / m, centre=np.zeros(m)), X, n_jobs, 1e-4)
        return {
            "products, float32": lambda: rows.times(everything, some, coef),
            "products, float64": lambda: rows.times(everything, some, coef, exact=True),
            "a block, float32": lambda: rows.block(some, everything),
        }

    numbers = counts()
    works = {k: work(k) for k in numbers}
    with one_blas_thread():
        for name in works[1]:
            found = {k: works[k][name]() for k in numbers}
            # Thread counts take turns, so that other load on the machine affects all of them.
            times = dict.fromkeys(numbers, math.inf)
            for _ in range(7):
                times = {k: min(times[k], timeit(works[k][name], number=1)) for k in numbers}
            for k in numbers[1:]:
                same = np.array_equal(found[1], found[k])
                yield (
                    f"kernel of {n:,} x {len(some):,} pairs, {name}: {1e3 * times[1]:.0f} ms with one thread, "
                    f"{k} threads: speed-up {times[1] / times[k]:.2f}, the same bits: {same}"
                )


def one_fit(options: Options) -> list[Cell]:
    return [measured("lad", generated("gaussian", 100_000, 20), tol=options.tol, repeat=1, n_jobs=1)]


FIRST = """
import sys, time
import numpy as np
import aidlearn
rng = np.random.default_rng(0)
n, m = map(int, sys.argv[2:])
X = rng.normal(size=(n, m))
y = X[:, 0] + rng.normal(size=n)
model = aidlearn.SVC() if sys.argv[1] == "SVC" else aidlearn.LADRegressor()
y = y > 0 if sys.argv[1] == "SVC" else y
times = []
for _ in range(2):
    started = time.perf_counter()
    model.fit(X, y)
    times.append(time.perf_counter() - started)
sys.stdout.write(f"first fit {times[0]:.2f} s, second fit {times[1]:.3f} s")
"""


def first_runs(rows: Sequence[Row]) -> Iterator[str]:
    for name, n, m in (("LAD", 100_000, 20), ("LAD", 400_000, 20), ("SVC", 5_000, 20)):
        with tempfile.TemporaryDirectory() as cache:
            for process in ("first", "second"):
                environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
                arguments = [sys.executable, "-c", FIRST, name, str(n), str(m)]
                done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
                yield f"{name} {n:,} x {m}, {process} process with a fresh cache: {done.stdout}"


def few_rows(options: Options) -> list[Cell]:
    return [measured("lad", generated("gaussian", 1_000, 10), tol=options.tol, repeat=3, n_jobs=1)]


def small_fits(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the wall time of one fit of few rows, best of 30, compared with scikit-learn."""
    rng = np.random.default_rng(0)
    for n, m in ((100, 3), (1_000, 10)):
        X = rng.normal(size=(n, m))
        score = X @ rng.normal(size=m) + rng.normal(size=n)
        y = (score > 0).astype(int)
        fits = {
            "LADRegressor": lambda X=X, y=score: LADRegressor().fit(X, y),
            "LinearSVC": lambda X=X, y=y: LinearSVC().fit(X, y),
            "scikit-learn's LinearSVC": lambda X=X, y=y: svm.LinearSVC(loss="hinge").fit(X, y),
            "SVC": lambda X=X, y=y: SVC().fit(X, y),
            "scikit-learn's SVC": lambda X=X, y=y: svm.SVC().fit(X, y),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            times = {name: 1e3 * min(repeat(fit, number=1, repeat=30)) for name, fit in fits.items()}
        yield f"{n:,} x {m}, ms: " + ", ".join(f"{name} {time:.2f}" for name, time in times.items())


SHOWN = pick("cpu", "wall", "products", "gap", "iterations", "memory", n_jobs=("n_jobs", "{}"), passes=("passes", "{}"))
TITLE = "tol={tol:g}, best of {repeat}"
TABLES = (
    Table("linear", f"Linear models with threads, {TITLE}", linear, TableLayout(SHOWN), speed_up, repeat=3),
    Table(
        "kernel", f"Kernel SVM with threads, {TITLE}", kernel, TableLayout(SHOWN), kernel_speed_up, tol=1e-4, repeat=3
    ),
    Table("small", "Fits of few rows", few_rows, TableLayout(SHOWN), small_fits, tol=1e-4),
    Table("first", "First and second processes on a machine", one_fit, TableLayout(SHOWN), first_runs),
)

if __name__ == "__main__":
    main("cores", __doc__.split("\n")[0], *TABLES)
