"""The tables of the ablation: real sets, the kinds of benchmarks.start, random tables, and fits of several models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds

from aidlearn import (
    LADRegressor,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    QuantileRegressor,
    QuantileRegressorCV,
    bootstrap,
)
from benchmarks.harness.datasets import data_file, encoded, kddcup99
from benchmarks.random_tables import case
from benchmarks.start import KINDS, TOL, Data

SEED = 0
REAL_ROWS = 20_000
"""Maximum number of rows of a real table, which is sampled systematically."""
SPARSE_ROWS = 8_000
"""Maximum number of rows of a sparse real table."""
KIND_ROWS = {
    "flights, tied": 12_000,
    "flights, not tied": 12_000,
    "shots": 16_000,
    "wide, classes": 3_000,
    "wide, LAD": 3_000,
}
"""Number of rows of the kinds of benchmarks.start that do not get 24,000."""
RANDOM_ROWS = (5_000, 20_000)
RANDOM = (0, 3, 6, 7, 8, 9, 10, 12, 15, 16, 17, 18, 19, 20, 22, 23, 24)
"""Case numbers of benchmarks.random_tables; cases with many levels take seconds."""
COMMON: dict[str, Any] = {"tol": TOL, "n_jobs": 1, "random_state": SEED}


@dataclass(frozen=True)
class Outcome:
    """Claims and coefficients of one fitted model."""

    objective: float
    bound: float
    status: str
    coefficients: NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """A named fit."""

    name: str
    fit: Callable[[], list[Outcome]]


def outcomes(model: Any) -> list[Outcome]:
    """Return the claims of a fitted model for each of its quantiles or classes."""
    results = np.broadcast_arrays(np.ravel(model.objective_), np.ravel(model.lower_bound_))
    statuses = model.status_ if isinstance(model.status_, (list, tuple, np.ndarray)) else [model.status_]
    coefficients = np.append(np.ravel(model.coef_), np.ravel(model.intercept_))
    numerical = [str(getattr(status, "name", status)) for status in np.ravel(np.asarray(statuses, dtype=object))]
    return [
        Outcome(float(objective), float(bound), numerical[min(k, len(numerical) - 1)], coefficients)
        for k, (objective, bound) in enumerate(zip(*results, strict=True))
    ]


def fitted(draw: Callable[[], Data], make: Callable[[], Any]) -> list[Outcome]:
    X, y = draw()
    return outcomes(make().fit(X, y))


def every(X: Any, y: NDArray[np.float64], rows: int = REAL_ROWS) -> Data:
    """Return a systematic sample of at most ``rows`` rows."""
    step = -(-len(y) // rows)
    return X[::step], y[::step]


@cache
def arrays(name: str) -> Data:
    """Return a real table of standardised numbers with classes 0 and 1."""
    with np.load(data_file(f"real/{name}.npz")) as file:
        X, y = every(np.asarray(file["X"], dtype=np.float64), file["y"].ravel().astype(np.float64))
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


@cache
def svmlight(name: str) -> Data:
    """Return a real table of sparse indicators."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(data_file(f"real/{name}.svm.gz")))[:2]
    return every(sparse.csr_array(X), np.asarray(y, dtype=np.float64), SPARSE_ROWS)


@cache
def connections() -> Data:
    X, y = kddcup99()
    return every(X, y, SPARSE_ROWS)


def as_target(draw: Callable[[], Data], column: int) -> Data:
    """Return a regression of one column, with its ties, on the others and the class."""
    X, y = draw()
    return np.column_stack([np.delete(X, column, axis=1), y]), X[:, column]


def of_kind(name: str) -> Data:
    rows = KIND_ROWS.get(name, 24_000)
    return KINDS[name].draw(np.random.default_rng(SEED), rows)


def of_random(number: int) -> list[Outcome]:
    X, y, model, _ = case(number, RANDOM_ROWS)
    return outcomes(model.fit(X, y))


def regression(n: int, m: int, seed: int = SEED) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, X @ rng.normal(size=m) + rng.laplace(size=n)


def classes(n: int, m: int, seed: int = SEED) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, np.where(X @ rng.normal(size=m) / np.sqrt(m) + 0.5 * rng.normal(size=n) > 0.3, 1.0, -1.0)


def two_percent() -> Data:
    rng = np.random.default_rng(3)
    y = (rng.random(24_000) < 0.02).astype(float)
    return rng.normal(size=(24_000, 20)) + 0.3 * y[:, None], y


def mixed(n: int, seed: int = SEED) -> Data:
    """Return a regression on two numbers and a factor of 40 levels."""
    import pandas

    rng = np.random.default_rng(seed)
    level = rng.choice(40, n, p=(share := 1 / np.arange(1, 41)) / share.sum())
    table = pandas.DataFrame({"a": rng.normal(size=n), "b": rng.lognormal(size=n), "level": level})
    y = table["a"].to_numpy() + rng.normal(size=40)[level] + rng.standard_t(3, n)
    return encoded(table, ["a", "b"], ["level"]), y


def weighted() -> list[Outcome]:
    X, y = classes(8_000, 6)
    weight = 10.0 ** np.random.default_rng(1).uniform(0, 5, len(y))
    return outcomes(LinearSVC(C=1.0, **COMMON).fit(X, y, weight))


def crossed(model: Any, X: Any, y: NDArray[np.float64]) -> list[Outcome]:
    return outcomes(model.fit(X, y))


def replicated() -> list[Outcome]:
    X, y = regression(6_000, 6)
    model = QuantileRegressor(quantile=0.5, **COMMON).fit(X, y)
    bootstrap(model, X, y, n_replicates=40, random_state=SEED)
    return outcomes(model)


def tables() -> Iterator[Table]:
    """Yield all tables of the ablation in order."""
    svc, lad = partial(LinearSVC, C=1.0, **COMMON), partial(LADRegressor, **COMMON)
    for name in ("20_letter", "23_mammography", "26_optdigits", "32_shuttle", "41_Waveform", "5_campaign", "8_celeba"):
        yield Table(f"real {name}", partial(fitted, partial(arrays, name), svc))
    for name in ("a9a", "w8a"):
        yield Table(f"real {name}", partial(fitted, partial(svmlight, name), svc))
    yield Table("real kddcup99", partial(fitted, connections, svc))
    for name, column in (("23_mammography", 0), ("32_shuttle", 1), ("5_campaign", 0)):
        draw = partial(as_target, partial(arrays, name), column)
        yield Table(f"real {name}, LAD", partial(fitted, draw, lad))
    for name, kind in KINDS.items():
        make = lad if kind.C is None else partial(LinearSVC, C=kind.C, **COMMON)
        yield Table(name, partial(fitted, partial(of_kind, name), make))
    for number in RANDOM:
        yield Table(f"random {number}", partial(of_random, number))
    yield Table("small LAD", partial(fitted, partial(regression, 300, 5), lad))
    yield Table("small SVM", partial(fitted, partial(classes, 800, 8), svc))
    yield Table("even LAD", partial(fitted, partial(regression, 30_000, 10), lad))
    yield Table("even SVM", partial(fitted, partial(classes, 30_000, 10), svc))
    yield Table("SVR", partial(fitted, partial(regression, 12_000, 8), partial(LinearSVR, epsilon=0.5, **COMMON)))
    yield Table("factor, LAD", partial(fitted, partial(mixed, 12_000), lad))
    yield Table("two percent positives", partial(fitted, two_percent, svc))
    yield Table("weights over five decades", weighted)
    quantiles = [0.05, 0.25, 0.5, 0.75, 0.95]
    many = partial(QuantileRegressor, quantile=quantiles, **COMMON)
    yield Table("five quantiles", partial(fitted, partial(regression, 12_000, 6), many))
    yield Table("five quantiles, factor", partial(fitted, partial(mixed, 3_000), many))
    yield Table(
        "l1 penalty", partial(fitted, partial(regression, 8_000, 20), partial(QuantileRegressor, alpha=0.05, **COMMON))
    )
    yield Table(
        "cross-validated SVM",
        partial(fitted, partial(classes, 5_000, 6), partial(LinearSVCCV, Cs=[0.01, 0.1, 1.0], cv=3, **COMMON)),
    )
    yield Table(
        "cross-validated quantile",
        partial(
            fitted,
            partial(regression, 5_000, 8),
            partial(QuantileRegressorCV, alphas=[0.01, 0.1], cv=3, **COMMON),
        ),
    )
    yield Table("bootstrap", replicated)
    yield Table(
        "positive slopes",
        partial(fitted, partial(regression, 8_000, 10), partial(LADRegressor, positive=True, **COMMON)),
    )
    yield Table(
        "bounded slopes, SVM",
        partial(fitted, partial(classes, 8_000, 8), partial(LinearSVC, C=1.0, bounds=Bounds(-0.2, 0.2), **COMMON)),
    )
    yield Table(
        "bounded slopes, SVR",
        partial(
            fitted, partial(regression, 5_000, 8), partial(LinearSVR, epsilon=0.1, bounds=Bounds(-0.5, 0.5), **COMMON)
        ),
    )
