"""The last digits of small kernel machines: objective and bound in long double, and a solution refined with them.

When float64 has no digits left, the kernel of up to a thousand entries is computed again with 11 more bits (unless
long double is float64 on this platform). Newton's systems stay in float64: iterative refinement needs only residuals
with more digits. Objective and bound are rounded outwards as always.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.kernel.dual import best_intercept
from aidlearn.kernel.functions import TINY, Kernel, dense
from aidlearn.kernel.polish import SETTINGS as POLISH
from aidlearn.kernel.rows import SETTINGS as ROWS
from aidlearn.kernel.rows import KernelRows
from aidlearn.kernel.values import SETTINGS as VALUES
from aidlearn.kernel.values import KernelPoint, PointValues, balance_shift
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float, Int

LONG = np.longdouble
UNIT = float(np.finfo(LONG).eps)
"""Unit of rounding of long double."""
Long = NDArray[np.longdouble]


@dataclass(frozen=True)
class PreciseSettings:
    """Limits on the work in long double, and tolerances of the refinement."""

    useful_unit: float = 0.01
    """Guess. Another precision is used if its unit of rounding is at most this part of float64's."""
    most_copied_cells: int = 200_000
    """Maximum cells of rows that are copied: 3.2 MB."""
    most_entries: int = 1000
    """Maximum entries whose matrix is kept: 16 MB."""
    most_work: float = 5e7
    """Guess. Maximum products of cells that the matrix is made of."""
    most_free: int = 400
    """Guess. Maximum entries of a Newton system."""
    steps: int = 6
    """Guess. Maximum steps of refinement."""
    on_margin: float = 1e-7
    """Guess. Slack, in units of the edges, up to which an entry at its bound may have to leave it."""
    worthwhile: float = 0.7
    """Guess. A step that leaves more than this part of the gap is the last."""


SETTINGS = PreciseSettings()


def has_more_digits() -> bool:
    """Whether long double is more accurate than float64 on this platform."""
    return SETTINGS.useful_unit * EPS >= UNIT


def in_long_double(X: Any) -> Long | None:
    """Copy rows to long double, if it has more digits and the rows are few."""
    if not has_more_digits() or math.prod(X.shape) > SETTINGS.most_copied_cells:
        return None
    return np.asarray(dense(X), dtype=LONG)


@dataclass(frozen=True)
class PreciseKernel:
    """The kernel among all entries; the error of a value is at most ``unit`` times the sizes of its entries."""

    matrix: Long
    sizes: Float
    unit: float

    @classmethod
    def of(cls, rows: KernelRows) -> PreciseKernel | None:
        """Compute the kernel; None if that is too much work or long double has no more digits."""
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
        # Sums of NumPy along rows are pairwise in any precision.
        return np.asarray((self.matrix[:, used] * coef[used].astype(LONG)).sum(axis=1))


def _matrix(kernel: Kernel, rows: KernelRows, X: Any) -> tuple[Long, float]:
    """Return the matrix, and the number of roundings of its values."""
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
    for _ in range(SETTINGS.steps):
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
    """Evaluate a dual-feasible point: its objective is rounded up, the value of its dual down."""
    y, box, edge = values.y, values.box, values.edge
    scores = kernel.scores(coef)
    b = best_intercept(scores, y, box, edge)
    size = float(np.abs(coef) @ kernel.sizes)
    square = np.sum(coef * scores)
    square_error = kernel.unit * size * size + ROWS.sum_roundings * UNIT * float(np.abs(coef * scores).sum())
    errors = kernel.unit * kernel.sizes * size
    errors = errors + VALUES.score_operations * UNIT * np.asarray(
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
    """Take one step of refinement on the intercept and the entries inside their boxes, or about to leave a bound."""
    y, box = values.y, values.box
    scores = np.asarray((kernel.matrix * coef).sum(axis=1))
    b = LONG(best_intercept(scores, y, box, values.edge))
    left = y * values.edge - scores - b
    alpha = np.asarray(y * coef, dtype=np.float64)
    near = np.abs(np.asarray(left, dtype=np.float64)) <= SETTINGS.on_margin * values.unit
    free = np.flatnonzero(POLISH.inside(alpha, box) | near)
    if not 0 < len(free) <= SETTINGS.most_free:
        return coef
    K = np.asarray(kernel.matrix[np.ix_(free, free)], dtype=np.float64)
    # Units are such that the border of the system is as large as its matrix.
    size = max(math.sqrt(float(np.abs(K.diagonal()).max(initial=0.0))), TINY)
    system = np.ones((len(free) + 1, len(free) + 1))
    system[:-1, :-1], system[-1, -1] = K / size**2, 0.0
    right = np.append(np.asarray(left[free], dtype=np.float64), -float(coef.sum()) * size**2) / size**2
    try:
        step = linalg.lstsq(system, right, cond=POLISH.newton_rank, check_finite=False, lapack_driver="gelsy")[0][:-1]
    except linalg.LinAlgError:
        return coef
    if not np.isfinite(step).all():
        return coef
    moved = coef.copy()
    moved[free] += step
    return np.asarray(y * np.clip(y * moved, 0.0, box))


def _feasible(values: PointValues, coef: Long) -> Float:
    """Round to float64 and into the boxes; the smallest entry with enough room absorbs the remaining sum."""
    rounded = np.asarray(coef, dtype=np.float64)
    rounded = values.y * np.clip(values.y * rounded, 0.0, values.box)
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
    return np.asarray(rounded, dtype=np.float64)
