"""Objective and bound of points of a kernel SVM (paper, appendix B), with bounds on their rounding errors.

The search works with scores that may be in float32. The reported objective and bound are computed from scores in
float64 and rounded up and down by the largest possible rounding error: the reported gap is proven.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.kernel.dual import best_intercept
from aidlearn.kernel.functions import TINY, Floats
from aidlearn.kernel.rows import KernelRows
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float


@dataclass(frozen=True)
class ValueSettings:
    """Rounding of scores and sums."""

    recomputed: float = 8.0
    """Guess. Rows within this multiple of the expected error of a float32 score are evaluated again in float64."""
    score_rounding: float = 1e-6
    """Guess. Added to that error, which is an expectation and may be too small for small scores."""
    unexpected: float = 0.5
    """Guess. If a recomputed score is off by more than this part of the sum of both, all rows are evaluated again."""
    float32_share: float = 0.1
    """Guess. Part of the expected errors of float32 scores that is added to an objective: they have both signs."""
    score_operations: float = 4.0
    """Roundings of a slack: a sum of three terms and a product."""
    sum_operations: float = 64.0
    """Maximum roundings of a pairwise sum over all rows: one for each halving of 2^64 rows."""


SETTINGS = ValueSettings()


@dataclass(frozen=True)
class KernelPoint:
    """``w = sum_i coef_i phi(x_i)`` and b, with ``scores = <w, phi(x_i)>`` of all rows and ``square = |w|^2``."""

    coef: Float
    intercept: float
    scores: Float
    square: float
    region_intercept: float
    """Intercept of the aggregated problem, which determines the regions of rows."""
    exact: bool = False
    """Whether the scores of all rows that can have a loss were computed in float64."""
    feasible: bool = True
    """Whether the coefficients are dual feasible. A point that is not guides the search, but cannot end a run."""
    reached: float | None = None
    """Objective from long double, rounded up, if it was computed (:mod:`aidlearn.kernel.precise`)."""
    proven: float | None = None
    """Value of the dual from long double, rounded down, if it was computed."""

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the point as arrays for a file."""
        numbers = [self.intercept, self.square, self.region_intercept, self.exact, self.feasible]
        if self.reached is not None and self.proven is not None:
            numbers += [self.reached, self.proven]
        return {f"{prefix}coef": self.coef, f"{prefix}scores": self.scores, f"{prefix}numbers": np.array(numbers)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> KernelPoint:
        """Restore a point from the arrays of a file."""
        intercept, square, region_intercept, exact, feasible, *known = arrays[f"{prefix}numbers"].tolist()
        coef, scores = arrays[f"{prefix}coef"], arrays[f"{prefix}scores"]
        return cls(coef, intercept, scores, square, region_intercept, bool(exact), bool(feasible), *known)


def balance_shift(coef: Float, slopes: Floats, lengths: Float) -> float:
    """Bound the change of the dual when coefficients that sum to zero up to rounding are made to sum to exactly zero.

    The class with the larger sum is scaled down, which keeps the point feasible; ``slopes`` are those of the dual.
    """
    surplus = math.fsum(coef)
    heavy = coef * np.sign(surplus) > 0
    excess = np.abs(coef[heavy]) * (abs(surplus) / max(float(np.abs(coef[heavy]).sum()), TINY))
    return 2.0 * abs(float(excess @ slopes[heavy])) + 0.5 * float(excess @ lengths[heavy]) ** 2


@dataclass(frozen=True)
class PointValues:
    """Values of points on all rows, from the kernel, the labels, and the boxes of the dual variables."""

    rows: KernelRows
    y: Float
    box: Float
    edge: Float
    """Value of ``y f(x)`` below which an entry has a loss: 1 in classification."""
    unit: float = 1.0
    """Typical size of the edges."""
    _last: list[tuple[KernelPoint, float]] = field(default_factory=list, compare=False, repr=False)
    """The point whose rounding was computed last, and its rounding."""

    def point(self, coef: Float, scores: Float, exact: bool = False, feasible: bool = True) -> KernelPoint:
        """Return the point with these coefficients and the best intercept."""
        b = best_intercept(scores, self.y, self.box, self.edge)
        # NumPy's sums are pairwise: their rounding hardly grows with the number of rows.
        return KernelPoint(coef, b, scores, max(0.0, float(np.sum(coef * scores))), b, exact, feasible)

    def slacks(self, point: KernelPoint) -> Float:
        """Return ``edge - y f(x)`` of all rows: the loss where it is positive."""
        return self.edge - self.y * (point.scores + point.intercept)

    def region_slacks(self, point: KernelPoint) -> Float:
        """Return ``edge - y f(x)`` at the intercept that determines regions."""
        return self.edge - self.y * (point.scores + point.region_intercept)

    def value(self, point: KernelPoint) -> float:
        """Return the objective on all rows, from the point's scores."""
        return 0.5 * point.square + float(np.sum(self.box * np.maximum(0.0, self.slacks(point))))

    def reached(self, point: KernelPoint) -> float:
        """Return the objective, rounded up: not less than the true value."""
        return self.value(point) + self.rounding(point)

    def proven(self, point: KernelPoint, square_error: float) -> float:
        """Return the value of the dual at a feasible point, rounded down."""
        if point.proven is not None:
            return point.proven
        coef = point.coef
        shift = balance_shift(coef, self.edge - self.y * point.scores, self.rows.lengths)
        gains = self.edge * np.abs(coef)
        total = math.fsum(gains) - 4.0 * EPS * math.fsum(np.abs(gains))
        return total - 0.5 * point.square - 0.5 * square_error - shift

    def square_error(self, point: KernelPoint) -> float:
        """Bound the rounding error of ``|w|^2`` from scores in float64."""
        sizes = np.abs(point.coef) * self.rows.lengths
        return float(sizes.sum()) * float(self.rows.rounding(exact=True) @ sizes)

    def rounding(self, point: KernelPoint) -> float:
        """Bound the rounding error of the value, if scores are in float64.

        Scores in float32, which never end a run, add part of the expected errors of all rows with a loss. If the
        intercept alone leaves no loss, slacks below their own rounding count as zero.
        """
        if not self._last or self._last[0][0] is not point:
            self._last[:] = [(point, self._rounding(point))]
        return self._last[0][1]

    def _rounding(self, point: KernelPoint) -> float:
        if point.reached is not None:
            # The float64 value, which may exceed the objective, is subtracted; sums over chunks round once more.
            value = self.value(point)
            return point.reached - value + SETTINGS.score_operations * EPS * value
        if not point.coef.any() and self.value(point) == 0:
            return 0.0
        z = self.slacks(point)
        errors = self.rows.rounding(exact=True) * self.rows.lengths * float(np.abs(point.coef) @ self.rows.lengths)
        sizes = np.abs(self.edge) + np.abs(point.scores) + abs(point.intercept)
        errors = errors + SETTINGS.score_operations * EPS * sizes
        losses = float(np.sum(self.box * np.where(z > -errors, errors, 0.0)))
        if not point.exact:
            losses += SETTINGS.float32_share * float(self._score_errors(point) @ (self.box * (z > 0)))
        return losses + 0.5 * self.square_error(point) + SETTINGS.sum_operations * EPS * self.value(point)

    def _score_errors(self, point: KernelPoint) -> Float:
        """Return the expected errors of float32 scores: independent errors grow like the root of their number."""
        sizes = np.abs(point.coef) * self.rows.lengths
        return self.rows.rounding() * self.rows.lengths * np.sqrt(sizes.max(initial=0.0) * sizes.sum())

    def recomputed(self, point: KernelPoint) -> KernelPoint:
        """Recompute in float64 the scores of all rows that can have a loss."""
        used = np.flatnonzero(point.coef)
        error = SETTINGS.recomputed * self._score_errors(point)
        least = SETTINGS.score_rounding * self.unit
        # A row outside its margin by more than the error of its score has no loss.
        at = np.flatnonzero((self.slacks(point) > -error - least) | (point.coef != 0))
        scores = point.scores.copy()
        scores[at] = self.rows.times(at, used, point.coef[used, None], exact=True)[:, 0]
        if (np.abs(scores - point.scores) > SETTINGS.unexpected * (error + least)).any():
            everything = np.arange(len(scores))
            scores = self.rows.times(everything, used, point.coef[used, None], exact=True)[:, 0]
        return self.point(point.coef, scores, True, point.feasible)
