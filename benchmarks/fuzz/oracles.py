"""Independent optima (HiGHS on scaled data, libsvm, all labellings), and objectives in exact fractions."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import optimize
from sklearn import svm


@dataclass(frozen=True)
class Enclosure:
    """Interval that contains the optimum."""

    low: float
    high: float


def quantile(case: Any) -> Enclosure | None:
    """Solve the linear program of quantile regression with scaled columns and target."""
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
        return None  # not a linear program
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
    # With nearly collinear columns HiGHS may be far above the optimum; reported objectives are checked elsewhere.
    return Enclosure(-np.inf if case.kind == "collinear" else value - error, value + error)


def margin_machine(case: Any) -> Enclosure | None:
    """Enclose the optimum by primal and dual values of libsvm, which are valid at any tolerance."""
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
        model.fit(kernel, y, sample_weight=weight)
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
    """Return the optimum of a case, or None if no oracle knows it."""
    if case.estimator in ("LADRegressor", "QuantileRegressor"):
        return quantile(case)
    if case.estimator == "SemiSupervisedSVC":
        return labellings(case)
    if case.estimator in ("LinearSVR", "SVR"):
        return tube(case)
    return margin_machine(case) if case.estimator in ("LinearSVC", "SVC") else None


def objective(case: Any, model: Any) -> tuple[float, float, float] | None:
    """Return the exact objective of a linear model, and how far the reported one may be below and above it."""
    name, given = case.estimator, case.parameters
    linear_kernel = name in ("SVC", "SVR") and given["kernel"] == "linear"
    if not linear_kernel and name not in ("LADRegressor", "QuantileRegressor", "LinearSVR", "LinearSVC"):
        return None
    if np.ndim(model.objective_) > 0:
        return None
    classifies = name in ("LinearSVC", "SVC")
    y = np.where(case.y == model.classes_[1], 1.0, -1.0) if classifies else np.asarray(case.y, dtype=float)
    weight = np.ones(len(y)) if case.weight is None else case.weight
    slopes = [Fraction(float(w)) for w in np.ravel(model.coef_)]
    level = Fraction(float(np.ravel(model.intercept_)[0]))
    total, size = Fraction(0), 0.0
    tau, times = Fraction(given.get("quantile", 0.5)), 2 if name == "LADRegressor" else 1
    for x, target, s in zip(case.X, y, weight, strict=True):
        score = level + sum(Fraction(float(a)) * w for a, w in zip(x, slopes, strict=True))
        size += float(s) * (abs(float(target)) + float(np.abs(x) @ np.abs(np.ravel(model.coef_))) + abs(float(level)))
        r = Fraction(float(target)) - score
        if classifies:
            loss = max(Fraction(0), 1 - int(target) * score)
        elif "epsilon" in given:
            loss = max(Fraction(0), abs(r) - Fraction(given["epsilon"]))
        else:
            loss = times * max(tau * r, (tau - 1) * r)
        total += Fraction(float(s)) * loss
    square = sum(w * w for w in slopes) / 2
    slope: float = times
    if "C" in given:
        total, slope = Fraction(given["C"]) * total + square, given["C"]
    else:
        share, alpha = Fraction(given.get("l1_ratio", 1.0)), Fraction(given.get("alpha", 0.0))
        total += alpha * Fraction(float(weight.sum())) * (share * sum(map(abs, slopes)) + (1 - share) * square)
    rounding = 64 * 2.3e-16 * slope * size + 1e-12 * abs(float(total))
    # Losses below their rounding error may be reported as zero; kernel machines round theirs up.
    below = 1e-11 * abs(float(total)) if model.objective_ > 0 else rounding
    return float(total), below, np.inf if linear_kernel else rounding
