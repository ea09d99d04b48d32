"""Sequential minimal optimisation of the dual of a kernel SVM with one box per row, compiled by numba.

It solves the aggregated problem of the paper's appendix B, in which a cluster is a row with a box of its own:

    maximise  e'a - 1/2 a'Qa,   Q_ij = y_i y_j K_ij,   0 <= a_i <= s_i,   y'a = 0

In terms of beta = y * a the gradient is y e - K beta: a step moves t from row j to row i and changes the gradient by
-t (K_i - K_j), so labels enter only through the initial gradient and the bounds of beta. Pairs are chosen by
second-order information (Fan, Chen and Lin, 2005). The choice reads the gradient minus its current centre in float32,
and maxima are taken over the bits of floats as integers, because those loops are vectorised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float32, njit
from numpy.typing import DTypeLike, NDArray

from aidlearn.kernel.functions import Floats
from aidlearn.kernel.tiles import KernelFunction, RowBlock, block_into
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class SmoSettings:
    """Numbers of the choice of pairs and of steps."""

    maximum_block: int = 256
    """Keys whose maximum is taken at once: long enough to be vectorised, short enough to be searched again."""
    excluded: float = 1e30
    """Penalty that takes a row out of a maximum: larger than any gradient."""
    largest_value: float = 1e30
    """Larger kernel values are scaled when the choice reads them in float32, which ends at 3e38."""
    chosen_curvature: float = 1e-6
    """Least curvature when a partner is chosen in float32: that of two equal rows is rounding."""
    step_curvature: float = 1e-12
    """Least curvature of a step, in float64: copies of a row have none, and their step ends at a bound."""


SETTINGS = SmoSettings()
# Compiled code reads numbers, not objects.
MAXIMUM_BLOCK, EXCLUDED, LARGE = SETTINGS.maximum_block, SETTINGS.excluded, SETTINGS.largest_value
CHOSEN_CURVATURE, STEP_CURVATURE = SETTINGS.chosen_curvature, SETTINGS.step_curvature


class KeptColumns(NamedTuple):
    """The columns of K that are kept, one per row of ``values``: all, or the most recently used ones."""

    values: Floats
    slot_of: Int
    """Place of each column; -1 if it is not kept."""
    row_of: Int
    """Number of the column at each place; -1 if the place is empty."""
    last_used: Int

    @classmethod
    def whole(cls, K: Floats) -> KeptColumns:
        """Keep every column of a matrix."""
        places = np.arange(len(K))
        return cls(K, places, places, places.copy())


class OnDemand(NamedTuple):
    """The data that absent columns are computed from: the kernel, the single rows, and their values at clusters."""

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
    """``gradient -= K[rows].T @ change``."""
    for r in range(rows.shape[0]):
        c = change[r]
        if c != 0.0:
            row = K[rows[r]]
            for k in range(gradient.shape[0]):
                gradient[k] -= c * row[k]


@njit(cache=True, nogil=True)
def submatrix(K, rows):
    """``K[rows][:, rows]``, contiguous."""
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
    """Compute integers in the order of the floats ``gradient - centre + penalty``."""
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
    """Note whether row k may rise and fall."""
    choice.rising[k] = 0.0 if point.beta[k] < point.upper[k] else -EXCLUDED
    choice.falling[k] = 0.0 if point.beta[k] > point.lower[k] else EXCLUDED


@njit(cache=True, nogil=True)
def steps(point, columns, on_demand, now, max_iter, target):
    """Take steps in place until the spread of the gradient is ``target``, at most ``max_iter``; return their number.

    ``now`` exceeds all earlier values of ``last_used``; a step counts as two units of time.
    """
    beta, gradient, lower, upper = point.beta, point.gradient, point.lower, point.upper
    choice = _choice(point, columns.values)
    gain_keys = choice.gains.view(np.int32)  # gains are >= 0: their bits are in their order
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
