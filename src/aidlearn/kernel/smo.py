"""Sequential minimal optimisation of the dual of a kernel SVM with one box per row, compiled by numba.

It solves the aggregated problem of the paper's appendix B, in which a cluster is a row with its own box:

    maximise  e'a - 1/2 a'Qa,   Q_ij = y_i y_j K_ij,   0 <= a_i <= s_i,   y'a = 0

In terms of beta = y * a the gradient is y e - K beta: a step moves t from row j to row i and changes the gradient by
-t (K_i - K_j), so labels enter only through the initial gradient and the bounds of beta. Pairs are chosen by
second-order information (Fan, Chen and Lin, 2005). The choice reads the gradient minus its current centre in float32,
and maxima are taken over the bits of floats as integers, so that these loops are vectorised.

Rounds of steps are compiled; between them Python computes the gap. A point has the whole kernel matrix, or columns
computed on demand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float32, njit
from numpy.typing import DTypeLike, NDArray

from aidlearn.kernel.dual import KernelDual
from aidlearn.kernel.functions import Floats
from aidlearn.kernel.solvers import SETTINGS as SOLVERS
from aidlearn.kernel.tiles import KernelFunction, RowBlock, block_into
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class SmoSettings:
    """Settings of the choice of pairs, of steps, and of rounds of steps between two computations of the gap."""

    maximum_block: int = 256
    """Keys whose maximum is taken at once: enough to vectorise, few enough to search again."""
    excluded: float = 1e30
    """Penalty that takes a row out of a maximum: larger than any gradient."""
    largest_value: float = 1e30
    """Kernel value beyond which values are scaled for the choice in float32, which ends at 3e38."""
    chosen_curvature: float = 1e-6
    """Minimum curvature when a partner is chosen in float32: that of two equal rows is rounding error."""
    step_curvature: float = 1e-12
    """Minimum curvature of a step, in float64: copies of a row have none, so their step ends at a bound."""
    most_steps_at_once: int = 5000
    """Guess. Maximum steps of a round with columns on demand: a step may take as long as the gap."""
    part_steps: int = 4
    """Guess. Maximum steps per row when a working set of the rows is iterated alone."""
    part_spread: float = 0.1
    """Guess. Fraction of the spread of the gradient at which the iteration on a working set ends."""
    part_rows: float = 0.7
    """Guess. Fraction of the rows below which a working set is copied."""
    part_margin: float = 0.5
    """Guess. Fraction of the spread by which a row's gradient must be beyond the others' to leave the working set."""
    least_spread: float = 1e-3
    """Guess. Minimum spread for ``part_margin``: near the optimum a row could otherwise return at once."""
    least_columns: int = 64
    """Guess. Minimum number of columns of the kernel matrix in memory."""


SETTINGS = SmoSettings()
# Compiled code reads numbers, not objects.
MAXIMUM_BLOCK, EXCLUDED, LARGE = SETTINGS.maximum_block, SETTINGS.excluded, SETTINGS.largest_value
CHOSEN_CURVATURE, STEP_CURVATURE = SETTINGS.chosen_curvature, SETTINGS.step_curvature


class KeptColumns(NamedTuple):
    """The columns of K in memory, one per row of ``values``: all, or the most recently used ones."""

    values: Floats
    slot_of: Int
    """Place of each column; -1 if it is not in memory."""
    row_of: Int
    """Number of the column at each place; -1 if the place is empty."""
    last_used: Int

    @classmethod
    def whole(cls, K: Floats) -> KeptColumns:
        """Keep every column of a matrix."""
        places = np.arange(len(K))
        return cls(K, places, places, places.copy())


class OnDemand(NamedTuple):
    """Data for computing absent columns: the kernel, the single rows, and the kernel values at clusters."""

    function: KernelFunction
    rows: RowBlock
    at_clusters: Floats

    @classmethod
    def nothing(cls, dtype: DTypeLike) -> OnDemand:
        """Return a placeholder for when all columns are kept."""
        no_rows = RowBlock(np.zeros((0, 1), dtype=dtype), np.zeros(0))
        return cls(KernelFunction(0, 1.0, 0.0, 1), no_rows, np.zeros((0, 0), dtype=dtype))


class Point(NamedTuple):
    """A feasible point that steps change in place, its bounds, and the diagonal of K."""

    beta: Float
    gradient: Float
    lower: Float
    upper: Float
    diagonal: Float


class _Choice(NamedTuple):
    """Working arrays of the choice of a pair, in float32."""

    rising: NDArray[np.float32]
    """0 for rows that may rise, a large negative number for the others."""
    falling: NDArray[np.float32]
    keys: NDArray[np.int32]
    gains: NDArray[np.float32]
    diagonal: NDArray[np.float32]
    """Diagonal of K, times the factor that keeps it in the range of float32."""
    twice: Floats
    """Two times that factor, in the type of the columns."""


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def subtract_rows(K, rows, change, gradient):
    """Compute ``gradient -= K[rows].T @ change`` in place."""
    for r in range(rows.shape[0]):
        c = change[r]
        if c != 0.0:
            row = K[rows[r]]
            for k in range(gradient.shape[0]):
                gradient[k] -= c * row[k]


@njit(cache=True, nogil=True)
def submatrix(K, rows):
    """Return ``K[rows][:, rows]``, contiguous."""
    out = np.empty((rows.shape[0], rows.shape[0]), dtype=K.dtype)
    for r in range(rows.shape[0]):
        row = K[rows[r]]
        for c in range(rows.shape[0]):
            out[r, c] = row[rows[c]]
    return out


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _peak(keys):
    best = keys[0]
    for k in range(keys.shape[0]):
        best = max(best, keys[k])
    return best


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _argmax(keys):
    """Return the position of the first largest int32."""
    best, where = keys[0], 0
    for start in range(0, keys.shape[0], MAXIMUM_BLOCK):
        peak = _peak(keys[start : start + MAXIMUM_BLOCK])
        if peak > best:
            best, where = peak, start
    block = keys[where : where + MAXIMUM_BLOCK]
    for k in range(block.shape[0]):
        if block[k] == best:
            return where + k
    return where


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _move(gradient, ki, kj, t):
    for k in range(gradient.shape[0]):
        gradient[k] -= t * (np.float64(ki[k]) - np.float64(kj[k]))


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _keys_of_largest(gradient, centre, penalty, keys):
    """Compute integers that sort like the floats ``gradient - centre + penalty``."""
    for k in range(gradient.shape[0]):
        bits = np.float32(float32(gradient[k] - centre) + penalty[k]).view(np.int32)
        keys[k] = bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _gains(gradient, centre, choice, column, i):
    """Compute the second-order gains ``(g_i - g_j)^2 / (K_ii + K_jj - 2 K_ij)`` of all j; 0 where ``g_j >= g_i``."""
    falling, diagonal, gains, twice = choice.falling, choice.diagonal, choice.gains, choice.twice[0]
    g, d, least = float32(gradient[i] - centre), diagonal[i], float32(CHOSEN_CURVATURE)
    for k in range(gradient.shape[0]):
        drop = max(g - (float32(gradient[k] - centre) + falling[k]), float32(0.0))
        gains[k] = drop * drop / max(d + diagonal[k] - float32(twice * column[k]), least)


@njit(cache=True, nogil=True)
def spread(point):
    """Return the largest gradient of rows that may rise and the smallest of those that may fall (equal if optimal)."""
    top, bottom = -np.inf, np.inf
    for k in range(point.beta.shape[0]):
        if point.beta[k] < point.upper[k]:
            top = max(top, point.gradient[k])
        if point.beta[k] > point.lower[k]:
            bottom = min(bottom, point.gradient[k])
    return top, bottom


@njit(cache=True, nogil=True)
def _slot(i, columns, on_demand, now):
    """Return the place of column i; an absent column replaces the least recently used one."""
    slot = columns.slot_of[i]
    if slot < 0:
        slot = np.argmin(columns.last_used)
        if columns.row_of[slot] >= 0:
            columns.slot_of[columns.row_of[slot]] = -1
        columns.row_of[slot], columns.slot_of[i] = i, slot
        rows = on_demand.rows
        size = rows.rows.shape[0]
        column = np.empty((1, size), dtype=rows.rows.dtype)
        block_into(on_demand.function, RowBlock(rows.rows[i : i + 1], rows.squares[i : i + 1]), rows, column)
        # Loops, because numba takes two seconds to compile an assignment between slices.
        for k in range(size):
            columns.values[slot, k] = column[0, k]
        for k in range(on_demand.at_clusters.shape[1]):
            columns.values[slot, size + k] = on_demand.at_clusters[i, k]
    columns.last_used[slot] = max(columns.last_used[slot], now)
    return slot


@njit(cache=True, nogil=True)
def _choice(point, dtype_of):
    n = point.beta.shape[0]
    largest = 1.0
    for k in range(n):
        largest = max(largest, point.diagonal[k])
    scale = min(1.0, LARGE / largest)
    choice = _Choice(
        np.zeros(n, dtype=np.float32),
        np.zeros(n, dtype=np.float32),
        np.empty(n, dtype=np.int32),
        np.empty(n, dtype=np.float32),
        (point.diagonal * scale).astype(np.float32),
        np.full(1, 2.0 * scale, dtype=dtype_of.dtype),
    )
    for k in range(n):
        _mark(choice, point, k)
    return choice


@njit(cache=True, nogil=True)
def _mark(choice, point, k):
    """Record whether row k may rise and fall."""
    choice.rising[k] = 0.0 if point.beta[k] < point.upper[k] else -EXCLUDED
    choice.falling[k] = 0.0 if point.beta[k] > point.lower[k] else EXCLUDED


@njit(cache=True, nogil=True)
def steps(point, columns, on_demand, now, max_iter, target):
    """Take at most ``max_iter`` steps in place, until the gradient's spread is ``target``; return their number.

    ``now`` exceeds all earlier values of ``last_used``; a step counts as two units of time.
    """
    beta, gradient, lower, upper = point.beta, point.gradient, point.lower, point.upper
    choice = _choice(point, columns.values)
    gain_keys = choice.gains.view(np.int32)  # gains are >= 0, so their bits sort like them
    recentred = beta.shape[0] // 2 + 1
    centre = 0.0
    for it in range(max_iter):
        if it % recentred == 0:
            top, bottom = spread(point)
            if top - bottom <= target:
                return it
            centre = 0.5 * (top + bottom)
        _keys_of_largest(gradient, centre, choice.rising, choice.keys)
        i = _argmax(choice.keys)
        if beta[i] >= upper[i]:
            return it
        time = now + 2 * it
        ki = columns.values[_slot(i, columns, on_demand, time)]
        _gains(gradient, centre, choice, ki, i)
        j = _argmax(gain_keys)
        if not (choice.gains[j] > 0.0 and gradient[i] > gradient[j] and beta[j] > lower[j]):
            return it
        kj = columns.values[_slot(j, columns, on_demand, time + 1)]
        curvature = max(point.diagonal[i] + point.diagonal[j] - 2.0 * ki[j], STEP_CURVATURE)
        room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
        t = min((gradient[i] - gradient[j]) / curvature, min(room_i, room_j))
        beta[i] = upper[i] if t == room_i else beta[i] + t
        beta[j] = lower[j] if t == room_j else beta[j] - t
        _mark(choice, point, i)
        _mark(choice, point, j)
        _move(gradient, ki, kj, t)
    return max_iter


class SmoPoint(ABC):
    """A point of SMO and its gap."""

    def __init__(self, dual: KernelDual, alpha: Float, scores: Float, diagonal: Float) -> None:
        y, signed = dual.y, dual.y * dual.box
        self.dual = dual
        self.point = Point(
            y * alpha, y * dual.edge - scores, np.minimum(0.0, signed), np.maximum(0.0, signed), diagonal
        )

    def alpha(self) -> Float:
        """Return the dual variables, within their boxes."""
        return np.clip(self.dual.y * self.point.beta, 0.0, self.dual.box)

    def gap(self) -> float:
        """Return the relative duality gap."""
        y = self.dual.y
        return self.dual.gap(y * self.point.beta, y * self.dual.edge - self.point.gradient)

    @abstractmethod
    def round(self, total: int, most: int) -> int:
        """Take at most ``most`` steps after ``total`` earlier ones; return their number."""


class WithMatrix(SmoPoint):
    """A point with the whole matrix; once few rows can change, they are copied and iterated alone for a while."""

    def __init__(self, dual: KernelDual, alpha: Float, scores: Float) -> None:
        super().__init__(dual, alpha, scores, _diagonal(dual.square()))

    def round(self, total: int, most: int) -> int:
        K, n, point = self.dual.matrix, len(self.point.beta), self.point
        assert K is not None
        beta, gradient, lower, upper, _ = point
        top, bottom = spread(point)
        rows = np.empty(0, dtype=np.int64)
        if total > n and top > bottom:
            margin = SETTINGS.part_margin * max(top - bottom, SETTINGS.least_spread)
            rows = np.flatnonzero(
                ((beta > lower) & (beta < upper))
                | ((beta <= lower) & (bottom - margin < gradient))
                | ((beta >= upper) & (top + margin > gradient))
            )
        if not 0 < len(rows) < SETTINGS.part_rows * n:
            return _steps(K, point, min(max(n // 4, SOLVERS.steps_at_once), most), 0.0)
        square = submatrix(K, rows)
        part = Point(beta[rows], gradient[rows], lower[rows], upper[rows], _diagonal(square))
        budget = min(max(SETTINGS.part_steps * len(rows), SOLVERS.steps_at_once), most)
        done = _steps(square, part, budget, SETTINGS.part_spread * (top - bottom))
        change = part.beta - beta[rows]
        beta[rows] = part.beta
        subtract_rows(K, rows, change, gradient)
        return done


def _steps(K: Floats, point: Point, budget: int, target: float) -> int:
    return int(steps(point, KeptColumns.whole(K), OnDemand.nothing(K.dtype), 0, budget, target))


def _diagonal(K: Floats) -> Float:
    return K.diagonal().astype(np.float64)


class WithColumns(SmoPoint):
    """A point with columns computed on demand; the most recent ones and those of clusters stay in memory."""

    def __init__(self, dual: KernelDual, alpha: Float, scores: Float) -> None:
        given = dual.columns
        assert given is not None
        rows, singles = given.rows, given.singles
        at_clusters = np.ascontiguousarray(given.at_clusters, dtype=rows.dtype)
        n, q, g = len(alpha), len(singles), at_clusters.shape[1]
        super().__init__(dual, alpha, scores, np.concatenate([rows.lengths[singles] ** 2, at_clusters[q:].diagonal()]))
        slots = min(n, max(SETTINGS.least_columns, given.n_columns) + g)
        columns = KeptColumns(
            np.empty((slots, n), dtype=rows.dtype), np.full(n, -1), np.full(slots, -1), np.arange(slots) - slots
        )
        columns.values[:g] = at_clusters.T
        columns.slot_of[q:], columns.row_of[:g] = np.arange(g), np.arange(q, n)
        columns.last_used[:g] = np.iinfo(np.int64).max
        self.columns = columns
        self.on_demand = OnDemand(rows.function, rows.take(singles), at_clusters)

    def round(self, total: int, most: int) -> int:
        budget = min(len(self.point.beta) // 4 + 1, SETTINGS.most_steps_at_once, most)
        return int(steps(self.point, self.columns, self.on_demand, 2 * total, budget, 0.0))
