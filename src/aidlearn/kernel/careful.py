"""The last digits of small kernel machines: objective and bound in long double, and a solution refined by it.

Where float64 has no digits left, the kernel of up to a thousand entries is computed again with 11 bits more
(nowhere, where long double is float64: the machine ends as before). Newton's systems stay in float64: a residual of
more digits is all that iterative refinement needs. What is claimed is rounded outwards as ever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.kernel.dual import best_intercept
from aidlearn.kernel.functions import TINY, Kernel
from aidlearn.kernel.rows import PRODUCT_ROUNDINGS, SUM_ROUNDINGS, KernelRows
from aidlearn.kernel.values import SCORE_OPERATIONS, KernelPoint, Values
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float, Int

LONG = np.longdouble
UNIT = float(np.finfo(LONG).eps)
LITTLE = 0.01
"""Part of float64's rounding from which on another precision is worth the work."""
MOST_COPIED_CELLS = 200_000
"""Of rows that are copied."""
MOST_ENTRIES = 1000
"""Of which the matrix is kept: 16 MB."""
MOST_WORK = 5e7
"""Products of cells that it is made of."""
MOST_FREE = 400
"""Entries that a system of equations is solved for."""
STEPS = 6
AT_BOUND = 1e-9
"""Part of its box within which a variable counts as at a bound."""
ON_MARGIN = 1e-7
"""Slack, in units of the edges, of an entry at its bound that may have to leave it."""
RANK = 1e-13
"""Relative size from which on a direction of a system counts."""
WORTHWHILE = 0.7
"""Part of the gap that a step must leave less than to be followed by another."""

Long = NDArray[Any]


def more_digits(X: Any) -> Long | None:
    """Rows in long double, if it has more digits and they are few."""
    if UNIT > LITTLE * EPS or math.prod(X.shape) > MOST_COPIED_CELLS:
        return None
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=LONG)


@dataclass(frozen=True)
class PreciseKernel:
    """The kernel among all entries; the error of a value is at most ``unit`` times the sizes of its entries."""

    matrix: Long
    sizes: Float
    unit: float

    @classmethod
    def of(cls, rows: KernelRows) -> PreciseKernel | None:
        """None if there is too much of it, or nothing to be gained."""
        kernel, X = rows.kernel, rows.X
        n, m = X.shape
        # Every entry of a regression is there twice.
        times = rows.n // n
        whole = kernel.name != "poly" or float(kernel.degree).is_integer()
        if UNIT > LITTLE * EPS or rows.n > MOST_ENTRIES or n * n * m > MOST_WORK or not whole:
            return None
        matrix, roundings = _matrix(kernel, rows, X)
        if not np.isfinite(matrix).all():
            return None
        unit = UNIT * (SUM_ROUNDINGS + roundings)
        return cls(np.tile(matrix, (times, times)), rows.lengths * (1.0 + 1e-9), unit)

    def scores(self, coef: Float) -> Long:
        used = np.flatnonzero(coef)
        # Sums of NumPy along rows are pairwise in any precision.
        return np.asarray((self.matrix[:, used] * coef[used].astype(LONG)).sum(axis=1))


def _matrix(kernel: Kernel, rows: KernelRows, X: Any) -> tuple[Long, float]:
    """The matrix, and the roundings of its values."""
    n, m = X.shape
    if kernel.precomputed or callable(kernel.name):
        everything = np.arange(n)
        return rows.block(everything, everything).astype(LONG), 0.0
    cells = (X.toarray() if sparse.issparse(X) else np.asarray(X)).astype(LONG)
    if kernel.centre is not None and not sparse.issparse(X):
        cells = cells - kernel.centre.astype(LONG)
    total = np.zeros((n, n), dtype=LONG)
    if kernel.name == "rbf":
        for column in cells.T:
            total += np.square(column[:, None] - column)
        # e exp(-e) is below 0.4: no exponent is large enough to take more digits than a cell does.
        return np.exp(-LONG(kernel.gamma) * total), m + 2 * PRODUCT_ROUNDINGS
    for column in cells.T:
        total += np.outer(column, column)
    return kernel.of_products(total), (m + PRODUCT_ROUNDINGS) * (kernel.degree if kernel.name == "poly" else 1)


def careful(values: Values, kernel: PreciseKernel, point: KernelPoint, tol: float) -> KernelPoint:
    """The point, or one close to it, with what long double proves of it."""
    best = _evaluated(values, kernel, point.coef)
    coef = point.coef.astype(LONG)
    for _ in range(STEPS):
        if _gap(best) <= tol:
            break
        coef = _newton(values, kernel, coef)
        now = _evaluated(values, kernel, _feasible(values, coef))
        better, enough = _gap(now) < _gap(best), _gap(now) <= WORTHWHILE * _gap(best)
        best = now if better else best
        if not enough:
            break
    return replace(best, region_intercept=point.region_intercept)


def _gap(point: KernelPoint) -> float:
    assert point.reached is not None
    assert point.proven is not None
    return (point.reached - point.proven) / max(point.reached, TINY)


def _evaluated(values: Values, kernel: PreciseKernel, coef: Float) -> KernelPoint:
    """A dual-feasible point: its objective rounded up, the value of its dual rounded down."""
    y, box, edge = values.y, values.box, values.edge
    scores = kernel.scores(coef)
    b = best_intercept(scores, y, box, edge)
    size = float(np.abs(coef) @ kernel.sizes)
    square = np.sum(coef * scores)
    square_error = kernel.unit * size * size + SUM_ROUNDINGS * UNIT * float(np.abs(coef * scores).sum())
    errors = kernel.unit * kernel.sizes * size
    errors = errors + SCORE_OPERATIONS * UNIT * np.asarray(np.abs(edge) + np.abs(scores) + abs(b), dtype=np.float64)
    slacks = edge - y * (scores + b)
    losses = np.sum(box * np.maximum(LONG(0), slacks + errors))
    reached = float((square + square_error) / 2 + losses) * (1.0 + 2.0 * EPS)
    # The heavier class, times what lets the coefficients sum to zero exactly, is a feasible point nearby.
    surplus = math.fsum(coef)
    heavy = coef * np.sign(surplus) > 0
    excess = np.abs(coef[heavy]) * (abs(surplus) / max(float(np.abs(coef[heavy]).sum()), TINY))
    slope = abs(float(excess @ (edge[heavy] - y[heavy] * scores[heavy])))
    shift = 2.0 * slope + 0.5 * float(excess @ kernel.sizes[heavy]) ** 2
    gains = edge * np.abs(coef).astype(LONG)
    total = np.sum(gains) - SUM_ROUNDINGS * UNIT * np.abs(gains).sum()
    dual = total - (square + square_error) / 2 - shift
    proven = float(dual) - 2.0 * EPS * abs(float(dual))
    in_float64 = np.asarray(scores, dtype=np.float64)
    return KernelPoint(coef, b, in_float64, max(0.0, float(square)), b, True, True, reached, proven)


def _newton(values: Values, kernel: PreciseKernel, coef: Long) -> Long:
    """One step of refinement on the entries strictly inside their boxes, or about to be, and the intercept."""
    y, box = values.y, values.box
    scores = np.asarray((kernel.matrix * coef).sum(axis=1))
    b = LONG(best_intercept(scores, y, box, values.edge))
    left = y * values.edge - scores - b
    alpha = np.asarray(y * coef, dtype=np.float64)
    inside = (alpha > AT_BOUND * box) & (alpha < (1 - AT_BOUND) * box)
    near = np.abs(np.asarray(left, dtype=np.float64)) <= ON_MARGIN * values.unit
    free = np.flatnonzero(inside | near)
    if not 0 < len(free) <= MOST_FREE:
        return coef
    K = np.asarray(kernel.matrix[np.ix_(free, free)], dtype=np.float64)
    # In units in which the border of the system is as large as its matrix.
    size = max(math.sqrt(float(np.abs(K.diagonal()).max(initial=0.0))), TINY)
    system = np.ones((len(free) + 1, len(free) + 1))
    system[:-1, :-1], system[-1, -1] = K / size**2, 0.0
    right = np.append(np.asarray(left[free], dtype=np.float64), -float(coef.sum()) * size**2) / size**2
    try:
        step = linalg.lstsq(system, right, cond=RANK, check_finite=False, lapack_driver="gelsy")[0][:-1]
    except linalg.LinAlgError:
        return coef
    if not np.isfinite(step).all():
        return coef
    moved = coef.copy()
    moved[free] += step
    return np.asarray(y * np.clip(y * moved, 0.0, box))


def _feasible(values: Values, coef: Long) -> Float:
    """In float64 and within the boxes; what rounding leaves of the sum goes to the smallest entry that can take it."""
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
