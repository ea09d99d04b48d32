"""Random cases: data of many kinds and scales, an estimator with random parameters, and a source of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import aidlearn

LINEAR = ("LADRegressor", "QuantileRegressor", "LinearSVR", "LinearSVC")
KERNEL = ("SVC", "SVR")
ESTIMATORS = (*LINEAR, *KERNEL, "LinearOneClassSVM", "SemiSupervisedSVC")
SHARES = (0.24, 0.2, 0.14, 0.17, 0.1, 0.06, 0.03, 0.06)
"""Probability of each estimator, higher for those with more starts, solvers and sources."""
NUMBERS = ("LADRegressor", "QuantileRegressor", "LinearSVR", "SVR")
"""Estimators whose target is a number."""
KINDS = ("gaussian", "whole", "repeated", "dummies", "collinear", "scaled", "offset", "heavy", "constant", "exact")
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
        import pandas as pd

        table = pd.DataFrame({f"x{k}": X[:, k] for k in range(X.shape[1])} | {"y": y})
        if weight is not None:
            table["w"] = weight
        path = folder / f"rows.{source}"
        if source == "npy":
            np.save(path, table.to_numpy(dtype=float))
        elif source == "csv":
            table.to_csv(path, index=False, float_format="%.17g")
        else:
            table.to_parquet(path)
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
        import pandas as pd

        X = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    return model.fit(X, y, sample_weight=weight)


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


def make(seed: int) -> Case:
    """Return the case of a seed."""
    rng = np.random.default_rng(seed)
    estimator = str(rng.choice(ESTIMATORS, p=SHARES))
    kind = str(rng.choice(KINDS))
    small = estimator == "SemiSupervisedSVC"
    n = int(rng.integers(4, 12)) if small else int(np.exp(rng.uniform(np.log(2), np.log(220))))
    m = int(rng.integers(1, 3 if small else 7))
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
    if weight is not None and not (weight > 0).any():
        weight[:] = 1.0
    if estimator in LINEAR:
        # Starts of the paper draw rows; given clusters need no order.
        init = str(rng.choice(["auto", "band", "kmeans", "birch", "given"]))
        parameters["init"] = rng.integers(0, max(2, len(X) // 3), len(X)) if init == "given" else init
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
    classes = 3 if estimator == "LinearSVC" and rng.random() < 0.15 and len(target) > 5 else 2
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
        given["quantile"] = float(rng.choice([0.5, 0.1, 0.75, 0.99]))
    if case.estimator in ("LADRegressor", "QuantileRegressor"):
        given["alpha"] = float(rng.choice([0.0, 0.0, 0.0, 0.01]))
        given["solver"] = str(rng.choice(["auto", "auto", "interior-point", "highs"]))
    elif case.estimator == "LinearOneClassSVM":
        given["nu"] = float(rng.choice([0.1, 0.5, 0.9]))
    else:
        given["C"] = float(10.0 ** rng.uniform(-2, 2))
    if case.estimator in ("LADRegressor", "QuantileRegressor") and given["solver"] != "highs" and rng.random() < 0.15:
        given["alpha"], given["l1_ratio"] = 0.01, float(rng.choice([0.0, 0.5]))
    if case.estimator in LINEAR and given.get("solver", "auto") == "auto" and rng.random() < 0.15:
        given["positive"] = True
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
