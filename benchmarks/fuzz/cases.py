"""Random cases: data of many kinds and scales, an estimator with random parameters, and a source of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, sparse

import aidlearn
from benchmarks.fuzz.programs import NUMBERS

CONSTRAINED = ("LADRegressor", "QuantileRegressor", "LinearSVR", "LinearSVC", "PiecewiseLinearModel")
LINEAR = (*CONSTRAINED, "LinearOneClassSVM")
KERNEL = ("SVC", "SVR")
CHOSEN = ("LinearSVCCV", "QuantileRegressorCV")
ESTIMATORS = (*LINEAR, *KERNEL, *CHOSEN, "SemiSupervisedSVC")
SHARES = (0.18, 0.16, 0.1, 0.14, 0.12, 0.08, 0.07, 0.04, 0.03, 0.03, 0.05)
"""Probability of each estimator, higher for those with more starts, solvers and sources."""
KINDS = (
    *("gaussian", "whole", "repeated", "dummies", "collinear", "scaled", "offset", "heavy", "constant", "exact"),
    "wide",
)
SOURCES = ("array", "fortran", "float32", "csr", "frame", "npy", "csv", "parquet")
SCALES = (1.0, 1.0, 1.0, 1e-9, 1e-3, 1e4, 1e9)


@dataclass
class Case:
    """A fit to try."""

    estimator: str
    parameters: dict[str, Any]
    kind: str
    source: str
    X: Any
    y: Any
    weight: Any = None
    notes: dict[str, Any] = field(default_factory=dict)

    def model(self, **changed: Any) -> Any:
        return getattr(aidlearn, self.estimator)(**{**self.parameters, **changed})

    def fitted(self, folder: Path, **changed: Any) -> Any:
        """Return the model fitted to the rows of its source."""
        return fit(self.model(**changed), self.source, self.X, self.y, self.weight, folder)


def fit(model: Any, source: str, X: Any, y: Any, weight: Any, folder: Path) -> Any:
    """Fit rows in the form of the given source."""
    if source in ("npy", "csv", "parquet"):
        path = folder / f"rows.{source}"
        columns = {"y": y} if weight is None else {"y": y, "w": weight}
        write(named(X).assign(**columns), source, path)
        names = {"target": X.shape[1], "weight": None if weight is None else X.shape[1] + 1}
        if source != "npy":
            names = {"target": "y", "weight": None if weight is None else "w"}
        return model.fit(aidlearn.open_source(path, **names))
    if source == "csr":
        X = sparse.csr_array(X)
    elif source == "fortran":
        X = np.asfortranarray(X)
    elif source == "float32":
        X = X.astype(np.float32)
    elif source == "frame":
        X = named(X)
    return model.fit(X, y, sample_weight=weight)


def write(table: Any, kind: str, path: Path) -> None:
    """Write a data frame or rows as a file."""
    if kind == "npy":
        np.save(path, np.asarray(table, dtype=float))
        return
    table = table if hasattr(table, "to_csv") else named(table)
    if kind == "csv":
        table.to_csv(path, index=False, float_format="%.17g")
    else:
        table.to_parquet(path)


def named(X: Any) -> Any:
    """A data frame of the rows."""
    import pandas as pd

    return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])


def warm_up(estimator: str) -> None:
    """Fit small data, so that code is compiled and loaded."""
    X = np.arange(40.0).reshape(20, 2) % 7
    y = X[:, 0] if estimator in NUMBERS else np.arange(20) % 2
    getattr(aidlearn, estimator)().fit(X, y)
    for init in ("auto", "band", "kmeans", "kernel-kmeans", "rows") if estimator in KERNEL else ():
        getattr(aidlearn, estimator)(init=init, solver="smo").fit(X, y)
    if estimator in KERNEL:
        # This fit is long enough to run every part of SMO.
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 2))
        noisy = X[:, 0] + rng.normal(size=150)
        getattr(aidlearn, estimator)(C=100.0, solver="smo").fit(X, noisy if estimator in NUMBERS else noisy > 0)


def make(seed: int, most: int) -> Case:
    """Return the case of a seed, with at most ``most`` rows."""
    rng = np.random.default_rng(seed)
    estimator = str(rng.choice(ESTIMATORS, p=SHARES))
    kind = str(rng.choice(KINDS))
    small = estimator == "SemiSupervisedSVC"
    n = int(rng.integers(4, 12 if most > 100 else 8)) if small else int(np.exp(rng.uniform(np.log(2), np.log(most))))
    n = max(n, 12) if estimator in CHOSEN else n
    m = int(rng.integers(1, 3 if small else 7))
    if kind == "wide":
        n = n if small or estimator in CHOSEN else min(n, 40)
        m = int(rng.integers(n, 2 * n + 2)) if not small else 3
    X = rows(rng, kind, max(n, 2), m)
    target = X @ rng.normal(size=m) / max(float(np.abs(X).max()), 1e-300) + 0.4 * rng.laplace(size=len(X))
    if kind == "exact":
        target = X @ rng.integers(-3, 4, m) + 1.0
    parameters: dict[str, Any] = {"random_state": int(rng.integers(1000)), "n_jobs": 1}
    parameters["tol"] = float(rng.choice([1e-4, 1e-4, 1e-2, 1e-7]))
    source = str(rng.choice(SOURCES)) if estimator in LINEAR else "array"
    if source == "float32":
        X = X.astype(np.float32).astype(float)
    weight = None if rng.random() < 0.7 else np.round(rng.exponential(size=len(X)), 3)
    if estimator in CHOSEN and weight is not None:
        weight += 0.1  # no fold without weight
    if weight is not None and not (weight > 0).any():
        weight[:] = 1.0
    if estimator in LINEAR:
        # Starts of the paper draw rows; given clusters need no order.
        init = str(rng.choice(["auto", "band", "kmeans", "birch", "given"]))
        parameters["init"] = rng.integers(0, max(2, len(X) // 3), len(X)) if init == "given" else init
        if estimator != "LinearOneClassSVM":
            parameters["fit_intercept"] = bool(rng.random() < 0.8)
    y = _target(rng, estimator, target, parameters)
    case = Case(estimator, parameters, kind, source, X, y, weight)
    _parameters(rng, case)
    return case


def rows(rng: np.random.Generator, kind: str, n: int, m: int) -> Any:
    X = rng.normal(size=(n, m))
    if kind in ("whole", "exact"):
        X = rng.integers(-3, 4, size=(n, m)).astype(float)
    elif kind == "repeated":
        X = X[rng.integers(0, max(1, n // 3), n)]
    elif kind == "dummies":
        X = (rng.integers(0, m + 1, n)[:, None] == np.arange(m)).astype(float)
    elif kind == "collinear" and m > 1:
        X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-9, -2) * X[:, -1]
    elif kind == "scaled":
        X *= 10.0 ** rng.uniform(-8, 8, m)
    elif kind == "offset":
        X += 10.0 ** rng.uniform(0, 5)
    elif kind == "heavy":
        X = rng.standard_cauchy(size=(n, m))
    elif kind == "constant":
        X[:, rng.integers(m)] = rng.choice([0.0, 1.0, -7.5])
    return X


def _target(rng: np.random.Generator, estimator: str, target: Any, parameters: dict[str, Any]) -> Any:
    if estimator in NUMBERS:
        y = target if estimator in ("LinearSVR", "SVR") else target * rng.choice(SCALES)
        shift = float(rng.choice([0.0, 0.0, 1.0, 1e4])) * max(float(np.abs(y).max()), 1e-300)
        return np.round(y, 1) if rng.random() < 0.2 and np.abs(y).max() > 1 else y + shift
    classes = 3 if estimator in ("LinearSVC", "LinearSVCCV", "SVC") and rng.random() < 0.2 and len(target) > 5 else 2
    order = np.argsort(np.argsort(target, kind="stable"), kind="stable")
    y = order * classes // len(target)
    if estimator == "SemiSupervisedSVC":
        known = np.zeros(len(y), dtype=bool)
        for label in range(2):
            members = np.flatnonzero(y == label)
            known[rng.choice(members, max(1, len(members) // 3), replace=False)] = True
        y = np.where(known, y, -1)
    return y


def _parameters(rng: np.random.Generator, case: Case) -> None:
    given = case.parameters
    if case.estimator == "QuantileRegressor":
        quantiles = [0.5, 0.1, 0.75, 0.99]
        given["quantile"] = (
            float(rng.choice(quantiles)) if rng.random() < 0.8 else sorted(rng.choice(quantiles, 2).tolist())
        )
    if case.estimator in ("LADRegressor", "QuantileRegressor"):
        given["alpha"] = float(rng.choice([0.0, 0.0, 0.0, 0.01]))
        given["solver"] = str(rng.choice(["auto", "auto", "interior-point", "highs"]))
    elif case.estimator == "LinearOneClassSVM":
        given["nu"] = float(rng.choice([0.1, 0.5, 0.9]))
    elif case.estimator == "PiecewiseLinearModel":
        _piecewise(rng, case)
    elif case.estimator == "LinearSVCCV":
        given |= {"Cs": [0.01, 1.0, 10.0], "cv": int(rng.integers(2, 4))}
    elif case.estimator == "QuantileRegressorCV":
        given |= {"alphas": [0.1, 0.01, 0.0], "cv": int(rng.integers(2, 4)), "quantile": float(rng.choice([0.5, 0.2]))}
    else:
        given["C"] = float(10.0 ** rng.uniform(-2, 2))
    if case.estimator in ("LADRegressor", "QuantileRegressor") and given["solver"] != "highs" and rng.random() < 0.15:
        given["alpha"], given["l1_ratio"] = 0.01, float(rng.choice([0.0, 0.5]))
    if case.estimator in CONSTRAINED and given.get("solver", "auto") == "auto":
        if rng.random() < 0.15:
            given["positive"] = True
        if rng.random() < 0.2:
            _constraints(rng, case)
    if case.estimator in LINEAR and case.estimator != "PiecewiseLinearModel" and rng.random() < 0.15:
        given["standardize"] = True
    if case.estimator in ("LinearSVC", "LinearSVCCV", "SVC") and rng.random() < 0.3:
        factors = {label: float(rng.choice([0.25, 1.0, 3.0])) for label in np.unique(case.y).tolist()}
        given["class_weight"] = "balanced" if rng.random() < 0.3 else factors
    if rng.random() < 0.04:
        given["time_limit"] = float(10.0 ** rng.uniform(-4, -1))
    if case.estimator in ("LinearSVR", "SVR"):
        given["epsilon"] = float(rng.choice([0.0, 0.1, 1.0]))
    if case.estimator in KERNEL:
        given["kernel"] = str(rng.choice(["rbf", "linear", "poly"]))
        # A number, because the variance of "scale" is weighted: a weight of 2 equals a repeated row.
        given["gamma"] = float(10.0 ** rng.uniform(-2, 1)) / max(float(case.X.var()) * case.X.shape[1], 1e-12)
        given["init"] = str(rng.choice(["auto", "band", "kmeans", "kernel-kmeans", "rows"]))
        given["solver"] = str(rng.choice(["auto", "smo", "libsvm"] if case.estimator == "SVC" else ["auto", "smo"]))
    if case.estimator == "SemiSupervisedSVC":
        given["C_unlabeled"] = float(10.0 ** rng.uniform(-2, 1))
        case.weight = None


def _constraints(rng: np.random.Generator, case: Case) -> None:
    """Bounds or a linear constraint, half of the time on the intercept too, that the point ``middle`` meets."""
    m, size = case.X.shape[1], _sizes(case.X)
    p = m + int(case.parameters["fit_intercept"] and rng.random() < 0.5)
    unit = float(np.abs(np.asarray(case.y, dtype=float)).max()) or 1.0
    middle = np.append(np.abs(rng.normal(size=m)) / size, rng.normal())[:p] * unit
    width = rng.exponential(size=p) * np.abs(middle)
    if rng.random() < 0.6:
        low = np.where(rng.random(p) < 0.3, -np.inf, middle - width)
        case.parameters["bounds"] = optimize.Bounds(low, middle + width)
    else:
        A = rng.integers(-1, 2, size=p) * np.append(size, 1.0)[:p]
        side = float(A @ middle)
        case.parameters["constraints"] = optimize.LinearConstraint(
            A[None, :], [side], [side if rng.random() < 0.5 else np.inf]
        )


def _piecewise(rng: np.random.Generator, case: Case) -> None:
    """Any convex loss, and a quadratic term that is a number, a diagonal or singular."""
    m, unit = case.X.shape[1], float(np.abs(case.y).max()) or 1.0
    k = int(rng.integers(1, 4))
    slopes = np.sort(rng.choice(np.arange(-6, 7), k + 1, replace=False)).astype(float)
    slopes[0], slopes[-1] = min(slopes[0], 0.0), max(slopes[-1], 0.0)
    kinks = np.sort(rng.choice(np.arange(-8, 9), k, replace=False)) * 0.125 * unit
    case.parameters |= {"kinks": kinks.tolist(), "slopes": slopes.tolist(), "l1": float(rng.choice([0.0, 0.0, 0.5]))}
    root = rng.normal(size=(m, max(1, m - 1))) * _sizes(case.X)[:, None] / unit
    quadratic = [None, 1.0, rng.uniform(0, 2, m), root @ root.T][int(rng.integers(4))]
    if quadratic is not None:
        case.parameters["quadratic"] = quadratic
    if rng.random() < 0.2:  # of the size of the sums, so that a few problems are unbounded
        p = m + int(case.parameters["fit_intercept"] and rng.random() < 0.5)
        sums = np.append(np.abs(case.X).sum(axis=0), len(case.X))[:p]
        case.parameters["linear"] = 0.3 * rng.normal(size=p) * sums


def _sizes(X: Any) -> Any:
    """The size of each column, 1 of an empty one."""
    sizes = np.abs(X).max(axis=0)
    return np.where(sizes > 0, sizes, 1.0)
