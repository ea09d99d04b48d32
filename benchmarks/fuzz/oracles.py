"""Independent optima of problems that are no full programs: libsvm for kernels, and all labellings."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import svm

from benchmarks.fuzz.programs import class_factors


@dataclass(frozen=True)
class Enclosure:
    """Interval that contains the optimum."""

    low: float
    high: float


def margin_machine(case: Any) -> Enclosure | None:
    """Enclose the optimum by primal and dual values of libsvm, which are valid at any tolerance."""
    X, y, given = case.X, case.y, case.parameters
    if given.get("positive") or not given.get("fit_intercept", True) or len(np.unique(y)) != 2 or np.abs(X).max() > 1e3:
        return None
    weight = (np.ones(len(y)) if case.weight is None else case.weight) * class_factors(case)
    used = weight > 0
    if len(np.unique(y[used])) != 2:
        return None
    X, weight, sign = X[used], weight[used], np.where(y[used] == np.unique(y)[1], 1.0, -1.0)
    kernel = _kernel(given.get("kernel", "linear"), given.get("gamma", 1.0), X)
    model = svm.SVC(kernel="precomputed", C=given["C"], tol=1e-8, max_iter=2_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(kernel, sign, sample_weight=weight)
        except ValueError:  # libsvm fails if the kernel has no curvature
            return None
    beta = np.zeros(len(sign))
    beta[model.support_] = model.dual_coef_[0]
    scores = kernel @ beta
    square = float(beta @ scores)
    intercept = float(model.intercept_[0])
    high = 0.5 * square + given["C"] * float(weight @ np.maximum(0.0, 1 - sign * (scores + intercept)))
    low = float(np.abs(beta).sum()) - 0.5 * square
    error = 1e-9 * (abs(high) + np.abs(beta) @ np.abs(kernel) @ np.abs(beta))
    return Enclosure(low - error - 1e-7 * abs(low), high + error)


def tube(case: Any) -> Enclosure | None:
    """Enclose the optimum by primal and dual values of libsvm's epsilon-insensitive regression."""
    X, y, given = case.X, np.asarray(case.y, dtype=float), case.parameters
    if given.get("positive") or not given.get("fit_intercept", True) or max(np.abs(X).max(), np.abs(y).max()) > 1e3:
        return None
    weight = np.ones(len(y)) if case.weight is None else case.weight
    X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
    kernel = _kernel(given.get("kernel", "linear"), given.get("gamma", 1.0), X)
    model = svm.SVR(kernel="precomputed", C=given["C"], epsilon=given["epsilon"], tol=1e-8, max_iter=2_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(kernel, y, sample_weight=weight)
        except ValueError:  # libsvm fails if the kernel has no curvature
            return None
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    scores = kernel @ beta
    square, far = float(beta @ scores), np.abs(y - scores - float(model.intercept_[0])) - given["epsilon"]
    high = 0.5 * square + given["C"] * float(weight @ np.maximum(0.0, far))
    low = float(y @ beta - given["epsilon"] * np.abs(beta).sum()) - 0.5 * square
    # A violation of the dual's equality constraint changes its value by at most that times the largest target.
    error = 1e-9 * (abs(high) + np.abs(beta) @ np.abs(kernel) @ np.abs(beta)) + abs(beta.sum()) * np.abs(y).max()
    return Enclosure(low - error - 1e-6 * abs(low), high + error)


def _kernel(name: str, gamma: float, X: Any) -> Any:
    if name == "linear":
        return X @ X.T
    from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

    return rbf_kernel(X, gamma=gamma) if name == "rbf" else polynomial_kernel(X, degree=3, gamma=gamma, coef0=0.0)


def labellings(case: Any) -> Enclosure | None:
    """Solve the semi-supervised machine by trying every labelling of its unlabelled rows."""
    X, y, given = case.X, case.y, case.parameters
    free = np.flatnonzero(y == -1)
    if len(free) > 8 or np.abs(X).max() > 1e3:
        return None
    best, worst = np.inf, np.inf
    box = np.where(y == -1, given["C_unlabeled"], given["C"])
    for labels in itertools.product((0, 1), repeat=len(free)):
        full = y.copy()
        full[free] = labels
        one = type(case)("SVC", {"C": 1.0, "kernel": "linear"}, case.kind, "array", X, full, box)
        found = margin_machine(one)
        if found is None:
            return None
        best, worst = min(best, found.low), min(worst, found.high)
    return Enclosure(best, worst)


def oracle(case: Any) -> Enclosure | None:
    """Return the optimum of a case that is no full program, or None if no oracle knows it."""
    if case.estimator == "SemiSupervisedSVC":
        return labellings(case)
    if case.estimator == "SVR":
        return tube(case)
    return margin_machine(case) if case.estimator == "SVC" else None


def machine(case: Any, model: Any) -> tuple[float, float] | None:
    """Return the objective of the machine that a kernel model returned, and the size of its terms."""
    name, given = case.estimator, case.parameters
    if name not in ("SVC", "SVR") or given["kernel"] == "linear" or np.ndim(model.objective_) > 0:
        return None
    # In long double: products of rows far from zero cancel.
    beta, X, gamma = np.zeros(len(case.y), dtype=np.longdouble), case.X.astype(np.longdouble), given["gamma"]
    beta[model.support_] = np.ravel(model.dual_coef_)
    distances = ((X[:, None, :] - X) ** 2).sum(axis=2)
    kernel = np.exp(-gamma * distances) if given["kernel"] == "rbf" else (gamma * (X @ X.T)) ** 3
    scores, level = kernel @ beta, float(np.ravel(model.intercept_)[0])
    y = np.asarray(case.y, dtype=float)
    if name == "SVC":
        loss = np.maximum(0.0, 1 - np.where(case.y == model.classes_[1], 1.0, -1.0) * (scores + level))
    else:
        loss = np.maximum(0.0, np.abs(y - scores - level) - given["epsilon"])
    weight = (np.ones(len(loss)) if case.weight is None else case.weight) * class_factors(case)
    sizes = np.abs(kernel) @ np.abs(beta)
    size = float(np.abs(beta) @ sizes) + given["C"] * float(weight @ (np.abs(y) + abs(level) + sizes))
    return float(0.5 * (beta @ scores) + given["C"] * (weight @ loss)), size
