"""Objective and bound of points of a kernel SVM (paper, appendix B), with bounds on their rounding errors.

The search works with scores that may be in float32. The reported objective and bound are computed from scores in
float64 and rounded up and down by the largest possible rounding error: the reported gap is proven.

When float64 has no digits left, the kernel of up to a thousand entries is recomputed in long double, with 11 more bits
(unless long double is float64 on this platform), and :func:`refined` improves the solution. Newton systems stay in
float64: iterative refinement needs more digits only in residuals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.engine.checkpoint import damaged, saved_array
from aidlearn.kernel.dual import best_intercept, bordered_solution, strictly_inside
from aidlearn.kernel.functions import TINY, Floats, Kernel, dense
from aidlearn.kernel.rows import SETTINGS as ROWS
from aidlearn.kernel.rows import KernelRows
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float, Int

LONG = np.longdouble
UNIT = float(np.finfo(LONG).eps)
"""Rounding unit of long double."""
Long = NDArray[np.longdouble]


@dataclass(frozen=True)
class ValueSettings:
    """Numbers of roundings, limits on the work in long double, and tolerances of the refinement."""

    recomputed: float = 8.0
    """Guess. Multiple of a float32 score's expected error by which a row must clear its margin not to be recomputed."""
    score_rounding: float = 1e-6
    """Guess. Addition to the expected error of a score, which may be too small for small scores."""
    unexpected: float = 0.5
    """Guess. Change of a score, over the sum of the two errors above, beyond which all rows are recomputed."""
    float32_share: float = 0.1
    """Guess. Fraction of the expected errors of float32 scores added to an objective; errors of both signs cancel."""
    score_operations: float = 4.0
    """Roundings of a slack: a sum of three terms and a product."""
    sum_operations: float = 64.0
    """Maximum roundings of a pairwise sum over all rows: one for each halving of 2^64 rows."""
    useful_unit: float = 0.01
    """Guess. Ratio of the rounding units of long double and float64 up to which long double is used."""
    most_copied_cells: int = 200_000
    """Maximum cells of rows copied to long double: 3.2 MB."""
    most_entries: int = 1000
    """Maximum entries of a matrix in long double: 16 MB."""
    most_work: float = 5e7
    """Guess. Maximum products of cells for a matrix in long double."""
    most_free: int = 400
    """Guess. Maximum entries in a Newton system."""
    refinements: int = 6
    """Guess. Maximum steps of refinement."""
    on_margin: float = 1e-7
    """Guess. Slack, in units of the edges, up to which an entry at its bound may have to leave it."""
    worthwhile: float = 0.7
    """Guess. Fraction of the gap that a step must not exceed for refinement to continue."""


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
    """Whether the coefficients are dual feasible. An infeasible point guides the search, but cannot end a run."""
    reached: float | None = None
    """Objective from long double, rounded up, if it was computed."""
    proven: float | None = None
    """Value of the dual from long double, rounded down, if it was computed."""

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the point as arrays to be written to a file."""
        numbers = [self.intercept, self.square, self.region_intercept, self.exact, self.feasible]
        if self.reached is not None and self.proven is not None:
            numbers += [self.reached, self.proven]
        return {f"{prefix}coef": self.coef, f"{prefix}scores": self.scores, f"{prefix}numbers": np.array(numbers)}


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
        """Return ``edge - y f(x)`` of all rows, which is the loss where it is positive."""
        return self.edge - self.y * (point.scores + point.intercept)

    def region_slacks(self, point: KernelPoint) -> Float:
        """Return ``edge - y f(x)`` at the intercept that determines regions."""
        return self.edge - self.y * (point.scores + point.region_intercept)

    def value(self, point: KernelPoint) -> float:
        """Return the objective on all rows, from the point's scores."""
        return 0.5 * point.square + float(np.sum(self.box * np.maximum(0.0, self.slacks(point))))

    def reached(self, point: KernelPoint) -> float:
        """Return the objective, rounded up so that it is not less than the true value."""
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

        For scores in float32, which never end a run, part of the expected errors of all rows with a loss is added. If
        the intercept alone leaves no loss, slacks below their own rounding count as zero.
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

    def verified(self, point: KernelPoint) -> KernelPoint:
        """Return a point of a checkpoint, with other scores unless they are those of its coefficients up to rounding.

        Rows outside their margin, which have no loss, may have scores in float32 even if the point is exact.
        """
        used, everything = np.flatnonzero(point.coef), np.arange(len(point.coef))
        scores = self.rows.times(everything, used, point.coef[used, None], exact=True)[:, 0]
        found = self.point(point.coef, scores, True, point.feasible)
        error = SETTINGS.recomputed * self._score_errors(point) + SETTINGS.score_rounding * self.unit
        if point.exact:
            exact = self.rows.rounding(exact=True) * self.rows.lengths * float(np.abs(point.coef) @ self.rows.lengths)
            error = np.where((self.slacks(found) > -0.5 * error) | (point.coef != 0), exact, error)
        return point if (np.abs(point.scores - scores) <= error).all() else found

    def restored(
        self, arrays: Mapping[str, NDArray[Any]], prefix: str, precise: Callable[[], PreciseKernel | None]
    ) -> KernelPoint:
        """Restore a point from the arrays of a checkpoint: all that its coefficients determine is computed again."""
        coef, scores = (saved_array(arrays, prefix + name, np.float64, len(self.y)) for name in ("coef", "scores"))
        numbers = saved_array(arrays, f"{prefix}numbers", np.float64, None).tolist()
        if len(numbers) not in (5, 7):
            raise damaged(f"its point has {len(numbers)} numbers")
        _, square, region_intercept, exact, feasible = numbers[:5]
        point = self.verified(self.point(coef, scores, bool(exact), bool(feasible)))
        if not point.exact and abs(square - point.square) <= float(np.abs(coef) @ self._score_errors(point)):
            point = replace(point, square=square)  # as the start computed it, from features
        if len(numbers) == 7:
            kernel = precise()
            if kernel is None:
                raise damaged("its point has more digits than this computer")
            point = _evaluated(self, kernel, coef)
        return replace(point, region_intercept=region_intercept)


def has_more_digits() -> bool:
    """Return whether long double is more accurate than float64 on this platform."""
    return SETTINGS.useful_unit * EPS >= UNIT


def in_long_double(X: Any) -> Long | None:
    """Copy rows to long double; return None if it has no more digits or the rows are too many."""
    if not has_more_digits() or math.prod(X.shape) > SETTINGS.most_copied_cells:
        return None
    return np.asarray(dense(X), dtype=LONG)


@dataclass(frozen=True)
class PreciseKernel:
    """The kernel matrix of all entries; the error of a value is at most ``unit`` times the sizes of its entries."""

    matrix: Long
    sizes: Float
    unit: float

    @classmethod
    def of(cls, rows: KernelRows) -> PreciseKernel | None:
        """Compute the kernel; return None if that is too much work or long double has no more digits."""
        kernel, X = rows.kernel, rows.X
        n, m = X.shape
        # A regression has two entries for each row.
        times = rows.n // n
        affordable = rows.n <= SETTINGS.most_entries and n * n * m <= SETTINGS.most_work
        if not (has_more_digits() and affordable and kernel.whole_degree):
            return None
        matrix, roundings = _matrix(kernel, rows, X)
        if not np.isfinite(matrix).all():
            return None
        unit = UNIT * (ROWS.sum_roundings + roundings)
        return cls(np.tile(matrix, (times, times)), rows.lengths * (1.0 + 1e-9), unit)

    def scores(self, coef: Float) -> Long:
        """Return the scores of all entries."""
        used = np.flatnonzero(coef)
        # NumPy sums along rows pairwise in any precision.
        return np.asarray((self.matrix[:, used] * coef[used].astype(LONG)).sum(axis=1))


def _matrix(kernel: Kernel, rows: KernelRows, X: Any) -> tuple[Long, float]:
    """Return the matrix and the number of roundings of its values."""
    n, m = X.shape
    if kernel.precomputed or callable(kernel.name):
        everything = np.arange(n)
        return rows.block(everything, everything).astype(LONG), 0.0
    cells = np.asarray(dense(X)).astype(LONG)
    if kernel.centre is not None and not sparse.issparse(X):
        cells = cells - kernel.centre.astype(LONG)
    total = np.zeros((n, n), dtype=LONG)
    if kernel.name == "rbf":
        for column in cells.T:
            total += np.square(column[:, None] - column)
        # e exp(-e) is below 0.4: no exponent costs more digits than a cell does.
        return np.exp(-LONG(kernel.gamma) * total), m + 2 * ROWS.product_roundings
    for column in cells.T:
        total += np.outer(column, column)
    return kernel.of_products(total), (m + ROWS.product_roundings) * (kernel.degree if kernel.name == "poly" else 1)


def refined(values: PointValues, kernel: PreciseKernel, point: KernelPoint, tol: float) -> KernelPoint:
    """Return the point, or a better one close to it, with objective and bound from long double."""
    best = _evaluated(values, kernel, point.coef)
    coef = point.coef.astype(LONG)
    for _ in range(SETTINGS.refinements):
        if _gap(best) <= tol:
            break
        coef = _newton(values, kernel, coef)
        now = _evaluated(values, kernel, _feasible(values, coef))
        better, enough = _gap(now) < _gap(best), _gap(now) <= SETTINGS.worthwhile * _gap(best)
        best = now if better else best
        if not enough:
            break
    return replace(best, region_intercept=point.region_intercept)


def _gap(point: KernelPoint) -> float:
    assert point.reached is not None
    assert point.proven is not None
    return (point.reached - point.proven) / max(point.reached, TINY)


def _evaluated(values: PointValues, kernel: PreciseKernel, coef: Float) -> KernelPoint:
    """Evaluate a dual feasible point; its objective is rounded up, its dual value down."""
    y, box, edge = values.y, values.box, values.edge
    scores = kernel.scores(coef)
    b = best_intercept(scores, y, box, edge)
    size = float(np.abs(coef) @ kernel.sizes)
    square = np.sum(coef * scores)
    square_error = kernel.unit * size * size + ROWS.sum_roundings * UNIT * float(np.abs(coef * scores).sum())
    errors = kernel.unit * kernel.sizes * size
    errors = errors + SETTINGS.score_operations * UNIT * np.asarray(
        np.abs(edge) + np.abs(scores) + abs(b), dtype=np.float64
    )
    slacks = edge - y * (scores + b)
    losses = np.sum(box * np.maximum(LONG(0), slacks + errors))
    reached = float((square + square_error) / 2 + losses) * (1.0 + 2.0 * EPS)
    shift = balance_shift(coef, edge - y * scores, kernel.sizes)
    gains = edge * np.abs(coef).astype(LONG)
    total = np.sum(gains) - ROWS.sum_roundings * UNIT * np.abs(gains).sum()
    dual = total - (square + square_error) / 2 - shift
    proven = float(dual) - 2.0 * EPS * abs(float(dual))
    in_float64 = np.asarray(scores, dtype=np.float64)
    return KernelPoint(coef, b, in_float64, max(0.0, float(square)), b, True, True, reached, proven)


def _newton(values: PointValues, kernel: PreciseKernel, coef: Long) -> Long:
    """Take one refinement step on the intercept and on entries inside their boxes or about to leave a bound."""
    y, box = values.y, values.box
    scores = np.asarray((kernel.matrix * coef).sum(axis=1))
    b = LONG(best_intercept(scores, y, box, values.edge))
    left = y * values.edge - scores - b
    alpha = np.asarray(y * coef, dtype=np.float64)
    near = np.abs(np.asarray(left, dtype=np.float64)) <= SETTINGS.on_margin * values.unit
    free = np.flatnonzero(strictly_inside(alpha, box) | near)
    if not 0 < len(free) <= SETTINGS.most_free:
        return coef
    K = np.asarray(kernel.matrix[np.ix_(free, free)], dtype=np.float64)
    # The system is scaled so that its border is as large as its matrix.
    size = max(math.sqrt(float(np.abs(K.diagonal()).max(initial=0.0))), TINY)
    right = np.append(np.asarray(left[free], dtype=np.float64), -float(coef.sum()) * size**2) / size**2
    try:
        step = bordered_solution(K / size**2, right)
    except linalg.LinAlgError:
        return coef
    if not np.isfinite(step).all():
        return coef
    moved = coef.copy()
    moved[free] += step
    return np.asarray(y * np.clip(y * moved, 0.0, box))


def _feasible(values: PointValues, coef: Long) -> Float:
    """Round to float64 and clip to the boxes; the smallest entry with enough room absorbs the remaining sum."""
    rounded = values.y * np.clip(values.y * np.asarray(coef, dtype=np.float64), 0.0, values.box)
    for _ in range(3):
        surplus = math.fsum(rounded)
        if surplus == 0:
            break
        moved = values.y * (rounded - surplus)
        able: Int = np.flatnonzero((rounded != 0) & (moved >= 0) & (moved <= values.box))
        if len(able) == 0:
            break
        smallest = able[np.argmin(np.abs(rounded[able]))]
        rounded[smallest] -= surplus
    return rounded
