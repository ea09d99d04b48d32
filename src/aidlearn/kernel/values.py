"""Objective and bound of points of a kernel SVM (paper, appendix B), and what rounding may have done to them.

The search works with scores that may be in float32. What is claimed is computed from scores in float64, the objective
rounded up and the bound rounded down by the most that rounding can have taken from them: a claimed gap is true.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.kernel.dual import best_intercept
from aidlearn.kernel.functions import TINY
from aidlearn.kernel.rows import KernelRows
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float

RECOMPUTED = 8.0
"""Multiple of the expected rounding error of a float32 score within which a row is evaluated again in float64."""
SCORE_ROUNDING = 1e-6
"""Added to that error, which is an expectation and may be too small for small scores."""
UNEXPECTED = 0.5
"""Part of the error so enlarged that a recomputed score may be off by before all are recomputed."""
FLOAT32_SHARE = 0.1
"""Part of the expected errors of float32 scores that is added to an objective: they have both signs."""
SCORE_OPERATIONS, SUM_OPERATIONS = 4.0, 64.0
"""Roundings of a slack, and the most of a pairwise sum over all rows (one for each halving of 2^64 of them)."""


@dataclass(frozen=True)
class KernelPoint:
    """``w = sum_i coef_i phi(x_i)`` and b, with ``scores = <w, phi(x_i)>`` of all rows and ``square = |w|^2``."""

    coef: Float
    intercept: float
    scores: Float
    square: float
    region_intercept: float
    """The intercept that regions are taken at: that of the aggregated problem, where it has one of its own."""
    exact: bool = False
    """Whether the scores of all rows that can have a loss were computed in float64."""
    feasible: bool = True
    """Whether the coefficients are a dual-feasible point. One that is not leads the way, but does not end a run."""
    reached: float | None = None
    """The objective, rounded up, where it is known to more digits than float64 (:mod:`aidlearn.kernel.careful`)."""
    proven: float | None = None
    """The value of the dual, rounded down, in the same case."""

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The point as arrays for a file."""
        numbers = [self.intercept, self.square, self.region_intercept, self.exact, self.feasible]
        if self.reached is not None and self.proven is not None:
            numbers += [self.reached, self.proven]
        return {f"{prefix}coef": self.coef, f"{prefix}scores": self.scores, f"{prefix}numbers": np.array(numbers)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> KernelPoint:
        intercept, square, region_intercept, exact, feasible, *known = arrays[f"{prefix}numbers"].tolist()
        coef, scores = arrays[f"{prefix}coef"], arrays[f"{prefix}scores"]
        return cls(coef, intercept, scores, square, region_intercept, bool(exact), bool(feasible), *known)


@dataclass(frozen=True)
class Values:
    """The problem on all rows: the kernel between them, their labels, and the boxes of their dual variables."""

    rows: KernelRows
    y: Float
    box: Float
    edge: Float
    """Up to it ``y f(x)`` has a loss: 1 in a classification."""
    unit: float = 1.0
    """The size of edges that matter."""
    _last: list[Any] = field(default_factory=list, compare=False, repr=False)
    """The last point whose rounding was asked for, and what it is."""

    def point(self, coef: Float, scores: Float, exact: bool = False, feasible: bool = True) -> KernelPoint:
        """The point with these coefficients and the best intercept."""
        b = best_intercept(scores, self.y, self.box, self.edge)
        # Sums of NumPy are pairwise: their rounding hardly grows with the number of rows.
        return KernelPoint(coef, b, scores, max(0.0, float(np.sum(coef * scores))), b, exact, feasible)

    def slacks(self, point: KernelPoint) -> Float:
        """``edge - y f(x)`` of all rows: the loss where it is positive."""
        return self.edge - self.y * (point.scores + point.intercept)

    def region_slacks(self, point: KernelPoint) -> Float:
        """The same at the intercept that regions are taken at."""
        return self.edge - self.y * (point.scores + point.region_intercept)

    def value(self, point: KernelPoint) -> float:
        """The objective on all rows, as far as the point's scores go."""
        return 0.5 * point.square + float(np.sum(self.box * np.maximum(0.0, self.slacks(point))))

    def reached(self, point: KernelPoint) -> float:
        """The objective of a point, rounded up: no less than its true value."""
        return self.value(point) + self.rounding(point)

    def proven(self, point: KernelPoint, square_error: float) -> float:
        """The value of the dual at a feasible point, less what rounding may have added to it.

        The heavier class, times what lets the coefficients sum to zero exactly, is a feasible point nearby.
        """
        if point.proven is not None:
            return point.proven
        coef = point.coef
        surplus = math.fsum(coef)
        heavy = coef * np.sign(surplus) > 0
        excess = np.abs(coef[heavy]) * (abs(surplus) / max(float(np.abs(coef[heavy]).sum()), TINY))
        slope = abs(float(excess @ (self.edge[heavy] - self.y[heavy] * point.scores[heavy])))
        shift = 2.0 * slope + 0.5 * float(excess @ self.rows.lengths[heavy]) ** 2
        gains = self.edge * np.abs(coef)
        total = math.fsum(gains) - 4.0 * EPS * math.fsum(np.abs(gains))
        return total - 0.5 * point.square - 0.5 * square_error - shift

    def square_error(self, point: KernelPoint) -> float:
        """The most that rounding may have taken from ``|w|^2``, of scores in float64."""
        sizes = np.abs(point.coef) * self.rows.lengths
        return float(sizes.sum()) * float(self.rows.rounding(exact=True) @ sizes)

    def rounding(self, point: KernelPoint) -> float:
        """What rounding may have taken from the value: of scores in float64 the most that it can be.

        Scores in float32, which never end a run, add part of the expected errors of all rows with a loss. Where the
        intercept alone leaves no loss at all, slacks below their own rounding count as none.
        """
        if self._last and self._last[0] is point:
            return float(self._last[1])
        self._last[:] = point, self._rounding(point)
        return float(self._last[1])

    def _rounding(self, point: KernelPoint) -> float:
        if point.reached is not None:
            # What float64 has computed, which may be above it, is taken back; sums over chunks round once more.
            value = self.value(point)
            return point.reached - value + SCORE_OPERATIONS * EPS * value
        if not point.coef.any() and self.value(point) == 0:
            return 0.0
        z = self.slacks(point)
        errors = self.rows.rounding(exact=True) * self.rows.lengths * float(np.abs(point.coef) @ self.rows.lengths)
        errors = errors + SCORE_OPERATIONS * EPS * (np.abs(self.edge) + np.abs(point.scores) + abs(point.intercept))
        losses = float(np.sum(self.box * np.where(z > -errors, errors, 0.0)))
        if not point.exact:
            losses += FLOAT32_SHARE * float(self._score_errors(point) @ (self.box * (z > 0)))
        return losses + 0.5 * self.square_error(point) + SUM_OPERATIONS * EPS * self.value(point)

    def _score_errors(self, point: KernelPoint) -> Float:
        """Of scores that are not exact: errors of terms are independent and add up like the root of their number."""
        sizes = np.abs(point.coef) * self.rows.lengths
        return self.rows.rounding() * self.rows.lengths * np.sqrt(sizes.max(initial=0.0) * sizes.sum())

    def recomputed(self, point: KernelPoint) -> KernelPoint:
        """The same point with the scores that matter computed in float64 from the kernel."""
        used = np.flatnonzero(point.coef)
        error = RECOMPUTED * self._score_errors(point)
        least = SCORE_ROUNDING * self.unit
        # Beyond the error of its score a row outside its margin has no loss, whatever the last digits are.
        at = np.flatnonzero((self.slacks(point) > -error - least) | (point.coef != 0))
        scores = point.scores.copy()
        scores[at] = self.rows.times(at, used, point.coef[used, None], exact=True)[:, 0]
        if (np.abs(scores - point.scores) > UNEXPECTED * (error + least)).any():
            everything = np.arange(len(scores))
            scores = self.rows.times(everything, used, point.coef[used, None], exact=True)[:, 0]
        return self.point(point.coef, scores, True, point.feasible)
