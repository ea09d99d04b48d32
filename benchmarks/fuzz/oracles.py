"""Optima by others: HiGHS on scaled data, libsvm, all labellings; and objectives in long double."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize
from sklearn import svm

LONG = np.longdouble


@dataclass(frozen=True)
class Enclosure:
    """The optimum is between these."""

    low: float
    high: float


def quantile(case: Any) -> Enclosure | None:
    """The linear program of quantile regression, columns and target of ordinary size."""
    X, y, given = case.X, np.asarray(case.y, dtype=float), case.parameters
    tau = given.get("quantile", 0.5)
    times = 2.0 if case.estimator == "LADRegressor" else 1.0
    n, m = X.shape
    weight = np.ones(n) if case.weight is None else case.weight
    middle = float(np.median(y)) if given["fit_intercept"] else 0.0
    centre = X.mean(axis=0) if given["fit_intercept"] else np.zeros(m)
    scale = np.abs(X - centre).max(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    unit = max(float(np.abs(y - middle).max()), 1e-300)
    A = (X - centre) / scale
    if given.get("l1_ratio", 1.0) < 1:
        return None  # no linear program
    # |coefficient| in the units of the program: y by unit, columns by scale
    cost = given.get("alpha", 0.0) * float(weight.sum()) / scale
    columns, costs = ([A], [cost]) if given.get("positive") else ([A, -A], [cost, cost])
    if given["fit_intercept"]:
        columns, costs = [*columns, np.ones((n, 1)), -np.ones((n, 1))], [*costs, np.zeros(2)]
    columns += [np.eye(n), -np.eye(n)]
    costs += [times * tau * weight, times * (1 - tau) * weight]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = optimize.linprog(
            np.concatenate(costs), A_eq=np.hstack(columns), b_eq=(y - middle) / unit, method="highs"
        )
    if answer.status != 0:
        return None
    value = answer.fun * unit
    error = 1e-7 * unit * times * float(weight.sum())  # HiGHS is feasible to 1e-7
    # Of nearly collinear columns HiGHS may miss the optimum by far; an objective that is attained is checked elsewhere.
    return Enclosure(-np.inf if case.kind == "collinear" else value - error, value + error)


def margin_machine(case: Any) -> Enclosure | None:
    """Primal and dual values of libsvm: an enclosure whatever its tolerance was."""
    X, y, given = case.X, case.y, case.parameters
    if given.get("positive") or not given.get("fit_intercept", True) or len(np.unique(y)) != 2 or np.abs(X).max() > 1e3:
        return None
    weight = np.ones(len(y)) if case.weight is None else case.weight
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
        except ValueError:  # libsvm has no answer where a kernel has no curvature
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
    """Primal and dual values of libsvm's regression in a tube."""
    X, y, given = case.X, np.asarray(case.y, dtype=float), case.parameters
    if given.get("positive") or not given.get("fit_intercept", True) or max(np.abs(X).max(), np.abs(y).max()) > 1e3:
        return None
    weight = np.ones(len(y)) if case.weight is None else case.weight
    X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
    kernel = _kernel(given.get("kernel", "linear"), given.get("gamma", 1.0), X)
    model = svm.SVR(kernel="precomputed", C=given["C"], epsilon=given["epsilon"], tol=1e-8, max_iter=2_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(kernel, y, sample_weight=weight)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    scores = kernel @ beta
    square, far = float(beta @ scores), np.abs(y - scores - float(model.intercept_[0])) - given["epsilon"]
    high = 0.5 * square + given["C"] * float(weight @ np.maximum(0.0, far))
    low = float(y @ beta - given["epsilon"] * np.abs(beta).sum()) - 0.5 * square
    # What its dual misses of its equality is worth at most the size of the targets.
    error = 1e-9 * (abs(high) + np.abs(beta) @ np.abs(kernel) @ np.abs(beta)) + abs(beta.sum()) * np.abs(y).max()
    return Enclosure(low - error - 1e-6 * abs(low), high + error)


def _kernel(name: str, gamma: float, X: Any) -> Any:
    if name == "linear":
        return X @ X.T
    from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

    return rbf_kernel(X, gamma=gamma) if name == "rbf" else polynomial_kernel(X, degree=3, gamma=gamma, coef0=0.0)


def labellings(case: Any) -> Enclosure | None:
    """The semi-supervised machine by trying every labelling of its unlabelled rows."""
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
    """The optimum of a case, where an oracle knows it."""
    if case.estimator in ("LADRegressor", "QuantileRegressor"):
        return quantile(case)
    if case.estimator == "SemiSupervisedSVC":
        return labellings(case)
    if case.estimator in ("LinearSVR", "SVR"):
        return tube(case)
    return margin_machine(case) if case.estimator in ("LinearSVC", "SVC") else None


def objective(case: Any, model: Any) -> tuple[float, float] | None:
    """The objective of a linear model's coefficients in long double, and what rounding of them may do to it."""
    if case.estimator not in ("LADRegressor", "QuantileRegressor", "LinearSVR"):
        return None
    X, y, given = case.X.astype(LONG), np.asarray(case.y, dtype=float).astype(LONG), case.parameters
    weight = np.ones(len(y)) if case.weight is None else case.weight
    coef, intercept = model.coef_.astype(LONG), LONG(model.intercept_)
    r = y - X @ coef - intercept
    size = np.abs(y) + np.abs(X) @ np.abs(coef) + abs(intercept)
    if case.estimator == "LinearSVR":
        loss = given["C"] * np.maximum(np.abs(r) - LONG(given["epsilon"]), 0)
        total, slope = weight @ loss + (coef @ coef) / 2, given["C"]
    else:
        tau, times = given.get("quantile", 0.5), 2.0 if case.estimator == "LADRegressor" else 1.0
        loss = times * np.maximum(tau * r, (tau - 1) * r)
        share = given.get("l1_ratio", 1.0)
        penalty = share * np.abs(coef).sum() + (1 - share) / 2 * (coef @ coef)
        penalty *= given.get("alpha", 0.0) * weight.sum()
        total, slope = weight @ loss + penalty, times
    return float(total), float(64 * 2.3e-16 * slope * (weight @ size) + 1e-12 * abs(total))
