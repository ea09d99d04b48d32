"""Linear estimators as full programs, stated from their documentation: exact values, and solutions of other solvers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import optimize

from benchmarks.full_programs import Array, FullProgram, solve_by_clarabel, solve_by_highs

NUMBERS = ("LADRegressor", "QuantileRegressor", "QuantileRegressorCV", "LinearSVR", "SVR", "PiecewiseLinearModel")
"""Estimators whose target is a number."""


@dataclass(frozen=True)
class Stated:
    """A fit: its program, and the point that the model returned."""

    program: FullProgram
    point: Array
    level: bool
    """Whether the last variable is an intercept."""

    def exactly(self, point: Array | None = None) -> tuple[float, float]:
        """Return the objective of a point without any rounding, and the size of its terms."""
        of = self.program
        v = [Fraction(float(value)) for value in (self.point if point is None else point)]
        total, size = Fraction(0), 0.0
        absolute = np.abs(np.array([float(value) for value in v]))
        steepest = sum(max(-left, right) for _, left, right in of.kinks)
        for row, target, weight in zip(of.A, of.e, of.weight, strict=True):
            z = Fraction(float(target)) - sum(Fraction(float(a)) * value for a, value in zip(row, v, strict=True))
            loss = Fraction(0)
            for kink, left, right in of.kinks:
                from_kink = z - Fraction(kink)
                loss += (Fraction(right) if from_kink > 0 else Fraction(left)) * from_kink
            total += Fraction(float(weight)) * loss
            size += steepest * float(weight) * (abs(float(target)) + float(np.abs(row) @ absolute))
        for j, value in enumerate(v):
            total += Fraction(float(of.q[j])) * value + Fraction(float(of.l1[j])) * abs(value)
            total += sum(Fraction(float(of.P[j, k])) * value * v[k] for k in np.flatnonzero(of.P[j])) / 2
        size += float(np.abs(of.q) @ absolute + of.l1 @ absolute + absolute @ np.abs(of.P) @ absolute)
        return float(total), size

    def missed(self, point: Array) -> float:
        """Return the largest violation of a constraint, relative to its numbers."""
        of = self.program
        product, size = of.G @ point, np.abs(of.G) @ np.abs(point)
        sides = [np.where(np.isfinite(side), side, 0.0) for side in (of.low, of.high)]
        size += np.maximum(*map(np.abs, sides))
        missed = np.maximum(np.maximum(of.low - product, product - of.high), 0.0)
        return float((missed / np.where(size > 0, size, 1.0)).max(initial=0.0))

    def solved(self) -> Array | None:
        """Return the solution of HiGHS or Clarabel in columns and targets of ordinary size; None if they have none."""
        of, p = self.program, self.program.p
        turn, origin, A = np.eye(p), np.zeros(p), of.A
        if self.level:
            # Slopes of centred columns, and targets around their median.
            centre = (A[:, :-1] / A[:, -1:]).mean(axis=0)
            turn[-1, :-1], origin[-1] = -centre, float(np.median(A[:, -1] * of.e)) if np.ptp(of.e) > 0 else 0.0
            A = A @ turn
        scale = np.abs(A).max(axis=0)
        e = of.e - of.A @ origin
        unit = float(np.abs(e).max()) or 1.0
        turn = turn * unit / np.where(scale > 0, scale, 1.0)
        size = unit * max(float(of.weight.max()), 1e-300) * max(max(-left, right) for _, left, right in of.kinks)
        kinks = [(kink / unit, left, right) for kink, left, right in of.kinks]
        shift = of.G @ origin
        scaled = FullProgram(
            of.A @ turn / unit, e / unit, of.weight * unit / size, kinks, turn.T @ of.P @ turn / size,
            turn.T @ of.q / size, np.diag(turn) * of.l1 / size, of.G @ turn, of.low - shift, of.high - shift,
        )  # fmt: skip
        try:
            _, found = (solve_by_clarabel if of.P.any() else solve_by_highs)(scaled)
        except RuntimeError:
            return None
        point = turn @ found + origin
        single = np.count_nonzero(of.G, axis=1) == 1
        for row, low, high in zip(of.G[single], of.low[single], of.high[single], strict=True):
            k = int(np.flatnonzero(row)[0])
            ends = sorted((low / row[k], high / row[k]))
            point[k] = np.clip(point[k], *ends)
        return np.asarray(point)


def stated(case: Any, model: Any) -> list[Stated]:
    """The fits of a linear model; none of a kernel that is not linear."""
    name, given, X = case.estimator, case.parameters, case.X
    if given.get("kernel", "linear") != "linear":
        return []
    n, m = X.shape
    intercept = name != "LinearOneClassSVM" and bool(given.get("fit_intercept", True))
    weight = np.ones(n) if case.weight is None else case.weight
    spread = np.ones(m)
    if given.get("standardize"):
        wide, used = X.astype(np.longdouble), weight * class_factors(case)
        spread = np.sqrt(used @ (wide - used @ wide / used.sum()) ** 2 / used.sum()).astype(float)
        spread = np.where((spread > 0) & (np.ptp(X[used > 0], axis=0) > 0), spread, 1.0)
    level = intercept or name == "LinearOneClassSVM"
    A = np.hstack([X, np.ones((n, 1))]) if level else X
    p = A.shape[1]
    P, q, l1 = np.zeros((p, p)), np.zeros(p), np.zeros(p)
    P[range(m), range(m)] = spread**2
    e = np.zeros(n) if name == "LinearOneClassSVM" or name not in NUMBERS else np.asarray(case.y, dtype=float)
    G, low, high = _constraints(given, m, p)
    base = FullProgram(A, e, weight, [], P, q, l1, G, low, high)
    points = np.reshape(model.coef_, (-1, m))
    if level:
        points = np.column_stack([points, np.ravel(model.intercept_)])
    programs: list[FullProgram]
    if name in ("LADRegressor", "QuantileRegressor", "QuantileRegressorCV"):
        alpha = model.alpha_ if name.endswith("CV") else given.get("alpha", 0.0)
        total, share = alpha * weight.sum(), given.get("l1_ratio", 1.0)
        P[range(m), range(m)] *= (1 - share) * total
        l1[:m] = share * total * spread
        times = 2.0 if name == "LADRegressor" else 1.0
        taus = np.atleast_1d(given.get("quantile", 0.5)).tolist()
        programs = [replace(base, kinks=[(0.0, times * (tau - 1), times * tau)]) for tau in taus]
    elif name in ("LinearSVR", "SVR"):
        C, epsilon = given["C"], given["epsilon"]
        programs = [replace(base, kinks=[(-epsilon, -C, 0.0), (epsilon, 0.0, C)])]
    elif name == "LinearOneClassSVM":
        share = given["nu"] * weight.sum()
        q[m], points = 1.0, points / share
        programs = [replace(base, weight=weight / share, kinks=[(0.0, 0.0, 1.0)])]
    elif name == "PiecewiseLinearModel":
        programs = [_piecewise(base, given, m)]
    elif name == "SemiSupervisedSVC":
        scores = A @ points[0]
        sign = np.where(
            case.y == -1, np.where(scores >= 0, 1.0, -1.0), np.where(case.y == model.classes_[1], 1.0, -1.0)
        )
        cost = np.where(case.y == -1, given["C_unlabeled"], given["C"])
        programs = [replace(base, A=A * sign[:, None], e=np.ones(n), weight=cost, kinks=[(0.0, 0.0, 1.0)])]
    else:
        C = model.C_ if name.endswith("CV") else given["C"]
        weight = weight * class_factors(case)
        programs = []
        for first, second in pairs(case, model.classes_):
            here = np.ones(n, dtype=bool) if first is None else np.isin(case.y, [first, second])
            sign = np.where(case.y == second, 1.0, -1.0)
            own = replace(base, A=(A * sign[:, None])[here], e=np.ones(here.sum()), weight=weight[here])
            programs.append(replace(own, kinks=[(0.0, 0.0, C)]))
    return [Stated(program, point, level) for program, point in zip(programs, points, strict=True)]


def pairs(case: Any, classes: Any) -> list[tuple[Any, Any]]:
    """The negative (None: all others) and the positive class of every fit."""
    if len(classes) == 2:
        return [(None, classes[1])]
    if case.estimator != "SVC":
        return [(None, label) for label in classes]
    return [(second, first) for k, first in enumerate(classes) for second in classes[k + 1 :]]


def class_factors(case: Any) -> Array:
    """The factor on the weight of each row."""
    given, n, classes = case.parameters.get("class_weight"), len(case.y), np.unique(case.y)
    if given is None:
        return np.ones(n)
    if given == "balanced":
        given = {label: n / (len(classes) * (case.y == label).sum()) for label in classes}
    return np.array([given.get(label, 1.0) for label in case.y.tolist()])


def _piecewise(base: FullProgram, given: Any, m: int) -> FullProgram:
    kinks, slopes = given["kinks"], given["slopes"]
    parts = []
    for kink, left, right in zip(kinks, slopes[:-1], slopes[1:], strict=True):
        if right <= 0:
            parts.append((kink, left - right, 0.0))
        else:
            parts.append((kink, 0.0, right - left) if left >= 0 else (kink, left, right))
    P, q, l1 = np.zeros_like(base.P), np.zeros(base.p), np.zeros(base.p)
    if given.get("quadratic") is not None:
        square = np.asarray(given["quadratic"], dtype=float)
        P[:m, :m] = square if square.ndim == 2 else np.diag(np.broadcast_to(square, m))
    if given.get("linear") is not None:
        q[: len(given["linear"])] = given["linear"]
    l1[:m] = given.get("l1", 0.0)
    return replace(base, kinks=parts, P=P, q=q, l1=l1)


def _constraints(given: Any, m: int, p: int) -> tuple[Array, Array, Array]:
    rows, low, high = [np.zeros((0, p))], [np.zeros(0)], [np.zeros(0)]
    if given.get("positive"):
        rows, low, high = [*rows, np.eye(p)[:m]], [*low, np.zeros(m)], [*high, np.full(m, np.inf)]
    if given.get("bounds") is not None:
        k = len(given["bounds"].lb)
        rows, low, high = [*rows, np.eye(p)[:k]], [*low, given["bounds"].lb], [*high, given["bounds"].ub]
    constraint: optimize.LinearConstraint | None = given.get("constraints")
    if constraint is not None:
        A = np.atleast_2d(constraint.A)
        rows.append(np.hstack([A, np.zeros((len(A), p - A.shape[1]))]))
        low, high = [*low, np.atleast_1d(constraint.lb)], [*high, np.atleast_1d(constraint.ub)]
    return np.vstack(rows), np.concatenate(low), np.concatenate(high)
