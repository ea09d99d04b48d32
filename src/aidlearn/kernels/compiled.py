"""Fused kernel evaluations in cache-sized tiles, compiled by numba.

A block of rows times another goes through BLAS, the kernel function is applied by a vectorised loop while the tile
is in cache, and the products with the coefficients are summed at once: a kernel matrix is never written to memory
unless it is asked for. Everything works in the precision of the rows (float32 or float64) with sums in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import float32, int32, njit, types
from numba.extending import overload

RBF, POLY, LINEAR = 0, 1, 2
KINDS = {"rbf": RBF, "poly": POLY, "linear": LINEAR}

_ROWS, _COLUMNS, _PART = 256, 512, 128
_SHIFTER = 1.5 * 2.0**52
"""Added to a float64 it leaves the nearest whole number in the low bits."""
_P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8, _P9, _P10, _P11, _P12, _P13 = (
    math.log(2.0) ** k / math.factorial(k) for k in range(1, 14)
)
# Sums may be re-ordered and fused except where the order is the method (rounding by adding and subtracting).
_IN_ORDER = {"contract", "nnan", "ninf", "nsz"}


def _exp2(t: Any) -> Any:
    """2**t for t <= 0, in the type of t."""
    raise NotImplementedError


@overload(_exp2, jit_options={"fastmath": _IN_ORDER})
def _exp2_typed(t: Any) -> Any:
    def single(t: Any) -> Any:  # relative error below 2.5e-7; 2**-125 for smaller results
        t = max(min(t, float32(0.0)), float32(-125.0))
        whole = np.floor(t + float32(0.5))
        f = t - whole
        p = float32(1.5403530e-4)
        p = p * f + float32(1.3333558e-3)
        p = p * f + float32(9.6181291e-3)
        p = p * f + float32(5.5504109e-2)
        p = p * f + float32(2.4022651e-1)
        p = p * f + float32(6.9314718e-1)
        p = p * f + float32(1.0)
        bits = np.int32((int32(whole) + int32(127)) << int32(23))
        return p * bits.view(np.float32)

    def double(t: Any) -> Any:  # relative error 3e-16; 2**-1020 for smaller results
        t = max(min(t, 0.0), -1020.0)
        shifted = t + _SHIFTER
        f = t - (shifted - _SHIFTER)
        p = _P13 * f + _P12
        p = p * f + _P11
        p = p * f + _P10
        p = p * f + _P9
        p = p * f + _P8
        p = p * f + _P7
        p = p * f + _P6
        p = p * f + _P5
        p = p * f + _P4
        p = p * f + _P3
        p = p * f + _P2
        p = p * f + _P1
        p = p * f + 1.0
        bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << np.int64(52))
        return np.int64(bits).view(np.float64)

    return single if t == types.float32 else double


@njit(cache=True, nogil=True, fastmath=_IN_ORDER)
def _apply(kind, degree, source, shift, shifts, out):
    """Kernel values of one row of a tile from its scaled products; ``source`` and ``out`` must not overlap."""
    size = source.shape[0]
    if kind == RBF:
        for j in range(size):
            out[j] = _exp2(source[j] + shift + shifts[j])
    elif kind == POLY:
        if degree == 2:
            for j in range(size):
                value = source[j] + shift
                out[j] = value * value
        elif degree == 3:
            for j in range(size):
                value = source[j] + shift
                out[j] = value * value * value
        else:
            for j in range(size):
                value = source[j] + shift
                power = value
                for _ in range(degree - 1):
                    power *= value
                out[j] = power
    else:
        for j in range(size):
            out[j] = source[j]


@njit(cache=True, nogil=True, fastmath=True)
def _dot(values, coef):
    total = values[0] * coef[0]
    for j in range(1, values.shape[0]):
        total += values[j] * coef[j]
    return total


@njit(cache=True, nogil=True)
def _terms(kind, norms, gamma, coef0, out):
    """What is added to a product: of each row of the first block (the constant of poly goes there), or the second."""
    if kind == RBF:
        for i in range(out.shape[0]):
            out[i] = -gamma / math.log(2.0) * norms[i]
    elif kind == POLY:
        out[:] = coef0


@njit(cache=True, nogil=True)
def times(kind, X, x_norms, Z, z_norms, coef, gamma, coef0, degree):
    """``out[i, :] = sum_j K(x_i, z_j) coef[j, :]`` in float64.

    Norms are squared lengths of the rows, in float64 (read by the rbf kernel only).
    """
    n, nz, q = X.shape[0], Z.shape[0], coef.shape[1]
    out = np.zeros((n, q))
    shift, shifts = np.zeros(n, dtype=X.dtype), np.zeros(nz, dtype=X.dtype)
    _terms(kind, x_norms, gamma, coef0, shift)
    if kind == RBF:
        _terms(kind, z_norms, gamma, 0.0, shifts)
    factor = np.empty(1, dtype=X.dtype)
    factor[0] = 2.0 * gamma / math.log(2.0) if kind == RBF else gamma if kind == POLY else 1.0
    typed = np.empty((q, nz), dtype=X.dtype)
    for j in range(nz):
        for c in range(q):
            typed[c, j] = coef[j, c]
    buffer = np.empty(_ROWS * _COLUMNS, dtype=X.dtype)
    values = np.empty(_COLUMNS, dtype=X.dtype)
    for i0 in range(0, n, _ROWS):
        i1 = min(i0 + _ROWS, n)
        block = X[i0:i1] * factor[0]
        for j0 in range(0, nz, _COLUMNS):
            j1 = min(j0 + _COLUMNS, nz)
            tile = buffer[: (i1 - i0) * (j1 - j0)].reshape(i1 - i0, j1 - j0)
            row = values[: j1 - j0]
            np.dot(block, Z[j0:j1].T, tile)
            for i in range(i1 - i0):
                _apply(kind, degree, tile[i], shift[i0 + i], shifts[j0:j1], row)
                for c in range(q):
                    total = 0.0
                    for p0 in range(0, j1 - j0, _PART):
                        total += np.float64(_dot(row[p0 : p0 + _PART], typed[c, j0 + p0 : j1][:_PART]))
                    out[i0 + i, c] += total
    return out


@njit(cache=True, nogil=True)
def block_into(kind, X, x_norms, Z, z_norms, gamma, coef0, degree, out):
    """Write the kernel values of all pairs of rows into the first columns of ``out``, of the type of the rows."""
    n, nz = X.shape[0], Z.shape[0]
    shift, shifts = np.zeros(n, dtype=X.dtype), np.zeros(nz, dtype=X.dtype)
    _terms(kind, x_norms, gamma, coef0, shift)
    if kind == RBF:
        _terms(kind, z_norms, gamma, 0.0, shifts)
    factor = np.empty(1, dtype=X.dtype)
    factor[0] = 2.0 * gamma / math.log(2.0) if kind == RBF else gamma if kind == POLY else 1.0
    buffer = np.empty(_ROWS * _COLUMNS, dtype=X.dtype)
    for i0 in range(0, n, _ROWS):
        i1 = min(i0 + _ROWS, n)
        block = X[i0:i1] * factor[0]
        for j0 in range(0, nz, _COLUMNS):
            j1 = min(j0 + _COLUMNS, nz)
            tile = buffer[: (i1 - i0) * (j1 - j0)].reshape(i1 - i0, j1 - j0)
            np.dot(block, Z[j0:j1].T, tile)
            for i in range(i1 - i0):
                _apply(kind, degree, tile[i], shift[i0 + i], shifts[j0:j1], out[i0 + i, j0:j1])
