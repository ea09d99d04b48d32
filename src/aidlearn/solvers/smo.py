"""Sequential minimal optimisation of the dual of a kernel SVM with one box per row, compiled by numba.

    maximise  sum a - 1/2 a'Qa,   Q_ij = y_i y_j K_ij,   0 <= a_i <= s_i,   y'a = 0

Written in beta = y * a with F = y - K beta: a step moves t from row j to row i and changes F by -t (K_i - K_j), so
labels enter through the bounds of beta only. Pairs are chosen by second-order information (Fan, Chen and Lin, 2005).
The choice reads F minus its current centre in float32, and maxima are taken over the bits of floats as integers,
because those loops are vectorised.

Columns of K lie in ``cache``: all of them, or the most recently used ones of a kernel that is evaluated on demand.
"""

from __future__ import annotations

import numpy as np
from numba import float32, njit

from aidlearn.kernels.compiled import block_into

_BLOCK = 256
_BIG = 1e30  # takes a row out of a maximum, also from among rows far out
_LARGE = 1e30  # kernel values beyond are scaled where they are read in float32
_CURVATURE = 1e-6  # least curvature when a partner is chosen


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def subtract_rows(K, rows, change, F):
    """``F -= K[rows].T @ change``."""
    for r in range(rows.shape[0]):
        c = change[r]
        if c != 0.0:
            row = K[rows[r]]
            for k in range(F.shape[0]):
                F[k] -= c * row[k]


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
    """Position of the first largest int32."""
    best, where = keys[0], 0
    for start in range(0, keys.shape[0], _BLOCK):
        peak = _peak(keys[start : start + _BLOCK])
        if peak > best:
            best, where = peak, start
    block = keys[where : where + _BLOCK]
    for k in range(block.shape[0]):
        if block[k] == best:
            return where + k
    return where


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _move(F, ki, kj, t):
    for k in range(F.shape[0]):
        F[k] -= t * (np.float64(ki[k]) - np.float64(kj[k]))


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _keys_of_largest(F, centre, penalty, keys):
    """Integers in the order of the floats ``F - centre + penalty``."""
    for k in range(F.shape[0]):
        bits = np.float32(float32(F[k] - centre) + penalty[k]).view(np.int32)
        keys[k] = bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _gains(F, centre, penalty, ki, scaled, twice, fi, kii, gains):
    """Second-order gains ``(F_i - F_j)^2 / (K_ii + K_jj - 2 K_ij)``; 0 where ``F_j >= F_i``.

    ``scaled`` is the diagonal times what keeps it in the range of float32, and ``twice`` two times that.
    """
    f, d, least = float32(fi - centre), float32(kii), float32(_CURVATURE)
    for k in range(F.shape[0]):
        drop = max(f - (float32(F[k] - centre) + penalty[k]), float32(0.0))
        gains[k] = drop * drop / max(d + scaled[k] - float32(twice * ki[k]), least)


@njit(cache=True, nogil=True)
def spread(F, lower, upper, beta):
    """Largest F of the rows that may rise and smallest F of those that may fall."""
    top, bottom = -np.inf, np.inf
    for k in range(F.shape[0]):
        if beta[k] < upper[k]:
            top = max(top, F[k])
        if beta[k] > lower[k]:
            bottom = min(bottom, F[k])
    return top, bottom


@njit(cache=True, nogil=True)
def _slot(i, cache, slot_of, row_of, stamp, now, X, squares, kind, gamma, coef0, degree, fixed):
    """Place of column i in the cache; an absent one is computed in place of the least recently used."""
    slot = slot_of[i]
    if slot < 0:
        slot = np.argmin(stamp)
        if row_of[slot] >= 0:
            slot_of[row_of[slot]] = -1
        row_of[slot], slot_of[i] = i, slot
        column = np.empty((1, X.shape[0]), dtype=X.dtype)
        block_into(kind, X[i : i + 1], squares[i : i + 1], X, squares, gamma, coef0, degree, column)
        cache[slot, : X.shape[0]] = column[0]
        cache[slot, X.shape[0] :] = fixed[i]
    stamp[slot] = max(stamp[slot], now)
    return slot


@njit(cache=True, nogil=True)
def steps(
    cache, slot_of, row_of, stamp, now, X, squares, kind, gamma, coef0, degree, fixed, diagonal,
    lower, upper, beta, F, max_iter, target,
):  # fmt: skip
    """At most ``max_iter`` steps, in place, until the spread of F is ``target``; returns their number."""
    n = F.shape[0]
    rising = np.zeros(n, dtype=np.float32)
    falling = np.zeros(n, dtype=np.float32)
    for k in range(n):
        rising[k] = 0.0 if beta[k] < upper[k] else -_BIG
        falling[k] = 0.0 if beta[k] > lower[k] else _BIG
    keys = np.empty(n, dtype=np.int32)
    gains = np.empty(n, dtype=np.float32)
    gain_keys = gains.view(np.int32)  # gains are >= 0: their bits are in their order
    scale = min(1.0, _LARGE / max(np.max(diagonal), 1.0))
    scaled = (diagonal * scale).astype(np.float32)
    twice = np.full(1, 2.0 * scale, dtype=cache.dtype)
    centre = 0.0
    for it in range(max_iter):
        if it % (n // 2 + 1) == 0:
            top, bottom = spread(F, lower, upper, beta)
            if top - bottom <= target:
                return it
            centre = 0.5 * (top + bottom)
        _keys_of_largest(F, centre, rising, keys)
        i = _argmax(keys)
        if beta[i] >= upper[i]:
            return it
        time = now + 2 * it
        ki = cache[_slot(i, cache, slot_of, row_of, stamp, time, X, squares, kind, gamma, coef0, degree, fixed)]
        _gains(F, centre, falling, ki, scaled, twice[0], F[i], scaled[i], gains)
        j = _argmax(gain_keys)
        if not (gains[j] > 0.0 and F[i] > F[j] and beta[j] > lower[j]):
            return it
        kj = cache[_slot(j, cache, slot_of, row_of, stamp, time + 1, X, squares, kind, gamma, coef0, degree, fixed)]
        curvature = max(diagonal[i] + diagonal[j] - 2.0 * ki[j], 1e-12)
        room_i, room_j = upper[i] - beta[i], beta[j] - lower[j]
        t = min((F[i] - F[j]) / curvature, min(room_i, room_j))
        beta[i] = upper[i] if t == room_i else beta[i] + t
        beta[j] = lower[j] if t == room_j else beta[j] - t
        for k in (i, j):
            rising[k] = 0.0 if beta[k] < upper[k] else -_BIG
            falling[k] = 0.0 if beta[k] > lower[k] else _BIG
        _move(F, ki, kj, t)
    return max_iter
