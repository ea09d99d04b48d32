"""Kernel evaluations of the kernel SVM (paper, appendix B) in cache-sized tiles, compiled by numba.

BLAS multiplies two blocks of rows, a vectorised loop applies the kernel function while the tile is in cache, and the
products with the coefficients are summed at once: a kernel matrix is written to memory only on request. Kernel values
have the precision of the rows (float32 or float64); sums are in float64. :class:`CompiledRows` are the training rows
that use these products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int32, njit, types
from numba.extending import overload

from aidlearn.data.rows.threads import spread
from aidlearn.kernel.functions import TINY, Floats, Kernel
from aidlearn.kernel.rows import SETTINGS as ROWS
from aidlearn.kernel.rows import KernelRows, squared_lengths
from aidlearn.numerics import Float, Int

RBF, POLY, LINEAR = 0, 1, 2
KINDS = {"rbf": RBF, "poly": POLY, "linear": LINEAR}


@dataclass(frozen=True)
class TileSettings:
    """Sizes of tiles, of sums and of a thread's work, and the limits within which float32 is accurate enough."""

    rows: int = 256
    """Rows of a tile."""
    columns: int = 512
    """Columns of a tile: half a megabyte in float32, which stays in the second-level cache."""
    summed_terms: int = 128
    """Terms summed in the precision of the rows before they are added in float64 (``KernelRows.rounding``)."""
    product_rows: int = 512
    """Rows of a product that one thread computes at a time: whole tiles, few enough that all threads end together."""
    far_single: float = 1e4
    """Exponent of the rbf kernel beyond which float32 rows are evaluated without compiled code."""
    far_double: float = 1e6
    """Exponent of the rbf kernel beyond which float64 rows are evaluated without compiled code."""
    single_exponent: float = 50.0
    """Guess. Largest typical exponent of the rbf kernel for a search in float32."""
    typical_quantile: float = 0.9
    """Guess. Quantile of the rows' exponents that counts as typical (bounds include the error of each row)."""
    single_tolerance: float = 1e-5
    """Guess. Smallest tolerance for a search in float32."""


SETTINGS = TileSettings()
# Compiled code reads numbers, not objects.
TILE_ROWS, TILE_COLUMNS, SUMMED_TERMS = SETTINGS.rows, SETTINGS.columns, SETTINGS.summed_terms

_SHIFTER = 1.5 * 2.0**52
"""Number whose addition to a float64 puts the nearest integer into the low bits."""
_P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8, _P9, _P10, _P11, _P12, _P13 = (
    math.log(2.0) ** k / math.factorial(k) for k in range(1, 14)
)
"""Taylor series of ``2**f`` for ``|f| <= 1/2``: exact in float64 after 13 terms."""
# Sums must not be reordered here: _exp2 rounds by adding and subtracting.
_IN_ORDER = {"contract", "nnan", "ninf", "nsz"}


class KernelFunction(NamedTuple):
    """A kernel and its parameters for compiled code."""

    kind: int
    gamma: float
    coef0: float
    degree: int


class RowBlock(NamedTuple):
    """Rows and their squared lengths in float64 (which only the rbf kernel reads)."""

    rows: Floats
    squares: Float


class _Terms(NamedTuple):
    """The terms of ``factor * x'z + of_x + of_z``, the argument of a kernel, in the type of the rows."""

    factor: Floats
    of_x: Floats
    of_z: Floats


def _exp2(t: Any) -> Any:
    """Return 2**t for t <= 0, in the type of t."""
    raise TypeError("Only compiled code can call _exp2.")


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
def _apply(kind, degree, products, shift, shifts, out):
    """Compute the kernel values of one row of a tile; ``products`` and ``out`` must not overlap."""
    size = products.shape[0]
    if kind == RBF:
        for j in range(size):
            out[j] = _exp2(products[j] + shift + shifts[j])
    elif kind == POLY:
        for j in range(size):
            out[j] = products[j] + shift
        for _ in range(degree - 1):
            for j in range(size):
                out[j] *= products[j] + shift
    else:
        for j in range(size):
            out[j] = products[j]


@njit(cache=True, nogil=True, fastmath=True)
def _dot(values, coef):
    total = values[0] * coef[0]
    for j in range(1, values.shape[0]):
        total += values[j] * coef[j]
    return total


@njit(cache=True, nogil=True)
def _terms(function, X, Z):
    """Compute the terms of two blocks; rbf is a power of 2, and ``of_x`` holds the constant of poly."""
    dtype = X.rows.dtype
    of_x, of_z = np.zeros(X.rows.shape[0], dtype=dtype), np.zeros(Z.rows.shape[0], dtype=dtype)
    factor = np.ones(1, dtype=dtype)
    if function.kind == RBF:
        factor[0] = 2.0 * function.gamma / math.log(2.0)
        for i in range(of_x.shape[0]):
            of_x[i] = -function.gamma / math.log(2.0) * X.squares[i]
        for j in range(of_z.shape[0]):
            of_z[j] = -function.gamma / math.log(2.0) * Z.squares[j]
    elif function.kind == POLY:
        factor[0] = function.gamma
        of_x[:] = function.coef0
    return _Terms(factor, of_x, of_z)


@njit(cache=True, nogil=True)
def times(function, X, Z, coef):
    """Compute ``out[i, :] = sum_j K(x_i, z_j) coef[j, :]`` in float64."""
    n, nz, q = X.rows.shape[0], Z.rows.shape[0], coef.shape[1]
    out = np.zeros((n, q))
    terms = _terms(function, X, Z)
    typed = np.empty((q, nz), dtype=X.rows.dtype)
    for j in range(nz):
        for c in range(q):
            typed[c, j] = coef[j, c]
    buffer = np.empty(TILE_ROWS * TILE_COLUMNS, dtype=X.rows.dtype)
    values = np.empty(TILE_COLUMNS, dtype=X.rows.dtype)
    for i0 in range(0, n, TILE_ROWS):
        i1 = min(i0 + TILE_ROWS, n)
        block = X.rows[i0:i1] * terms.factor[0]
        for j0 in range(0, nz, TILE_COLUMNS):
            j1 = min(j0 + TILE_COLUMNS, nz)
            tile = buffer[: (i1 - i0) * (j1 - j0)].reshape(i1 - i0, j1 - j0)
            row = values[: j1 - j0]
            np.dot(block, Z.rows[j0:j1].T, tile)
            for i in range(i1 - i0):
                _apply(function.kind, function.degree, tile[i], terms.of_x[i0 + i], terms.of_z[j0:j1], row)
                for c in range(q):
                    total = 0.0
                    for p0 in range(0, j1 - j0, SUMMED_TERMS):
                        part = row[p0 : p0 + SUMMED_TERMS]
                        total += np.float64(_dot(part, typed[c, j0 + p0 : j1][:SUMMED_TERMS]))
                    out[i0 + i, c] += total
    return out


@njit(cache=True, nogil=True)
def block_into(function, X, Z, out):
    """Write the kernel values of all pairs of rows into the first columns of ``out``, of the type of the rows."""
    n, nz = X.rows.shape[0], Z.rows.shape[0]
    terms = _terms(function, X, Z)
    buffer = np.empty(TILE_ROWS * TILE_COLUMNS, dtype=X.rows.dtype)
    for i0 in range(0, n, TILE_ROWS):
        i1 = min(i0 + TILE_ROWS, n)
        block = X.rows[i0:i1] * terms.factor[0]
        for j0 in range(0, nz, TILE_COLUMNS):
            j1 = min(j0 + TILE_COLUMNS, nz)
            tile = buffer[: (i1 - i0) * (j1 - j0)].reshape(i1 - i0, j1 - j0)
            np.dot(block, Z.rows[j0:j1].T, tile)
            for i in range(i1 - i0):
                target = out[i0 + i, j0:j1]
                _apply(function.kind, function.degree, tile[i], terms.of_x[i0 + i], terms.of_z[j0:j1], target)


class CompiledRows(KernelRows):
    """Dense rows with a named kernel, compiled; the search uses float32 where that is accurate enough."""

    compiled = True

    def __init__(self, kernel: Kernel, X: Any, n_jobs: int, tol: float) -> None:
        super().__init__(kernel, X, n_jobs)
        single = kernel.name == "rbf" and tol >= SETTINGS.single_tolerance
        if single and float(np.quantile(self.exponents, SETTINGS.typical_quantile)) <= SETTINGS.single_exponent:
            self.dtype = np.float32
        self.far_exponent = SETTINGS.far_single if self.dtype is np.float32 else SETTINGS.far_double
        self.function = KernelFunction(KINDS[str(kernel.name)], kernel.gamma, kernel.coef0, int(kernel.degree))
        # Rows far out are moved to a distance that the type can hold; their kernel values come from the original rows.
        shrink = np.sqrt(np.where(self.far, self.far_exponent / np.maximum(self.exponents, TINY), 1.0))
        self.working = np.empty(X.shape, dtype=self.dtype)
        for k in range(0, self.n, ROWS.copied_rows):
            part = slice(k, k + ROWS.copied_rows)
            self.working[part] = kernel.centred(X[part]) * shrink[part, None]
        self.squares = squared_lengths(self.working)

    def square(self, rows: Int, out: Floats) -> None:
        self.block(rows, rows, out)

    def take(self, rows: Int) -> RowBlock:
        return RowBlock(self.working[rows], self.squares[rows])

    def block(self, rows: Int, others: Int, out: Floats | None = None) -> Floats:
        filled: Floats = np.empty((len(rows), len(others)), dtype=self.dtype) if out is None else out
        Z, step = self.take(others), SETTINGS.product_rows
        far, other_far = np.flatnonzero(self.far[rows]), np.flatnonzero(self.far[others])

        def fill(k: int) -> None:
            part = slice(k * step, (k + 1) * step)
            block_into(self.function, self.take(rows[part]), Z, filled[part])

        spread(fill, -(-len(rows) // step), self.n_jobs)
        if len(far):
            filled[far, : len(others)] = self._values(rows[far], others)
        if len(other_far):
            filled[:, other_far] = self._values(rows, others[other_far])
        return filled

    def times(self, rows: Int, others: Int, coef: Float, exact: bool = False) -> Float:
        far, other_far = self.far[rows], self.far[others]
        product = self._times(rows, others[~other_far], coef[~other_far], exact)
        if other_far.any():
            product += super().times(rows, others[other_far], coef[other_far])
        if far.any():
            product[far] = super().times(rows[far], others, coef)
        return product

    def _times(self, rows: Int, others: Int, coef: Float, exact: bool) -> Float:
        """Return the product with ``others`` that are not far out."""
        double = exact and self.dtype is not np.float64

        def take(part: Int) -> RowBlock:
            return self._doubles(self.X[part]) if double else self.take(part)

        if len(others) == 0:
            return np.zeros((len(rows), coef.shape[1]))
        Z = take(others)
        return self._by_parts(rows, SETTINGS.product_rows, lambda part: self._product(take(part), Z, coef), coef)

    def _doubles(self, X: Any) -> RowBlock:
        """Return rows of any type, centred, in float64."""
        x = np.ascontiguousarray(self.kernel.centred(X), dtype=np.float64)
        return RowBlock(x, squared_lengths(x))

    def _new_scores(self, X: Any, coef: Float) -> Float:
        assert self.dtype is np.float64
        x = self._doubles(X)
        far = (self.kernel.name == "rbf") & (self.kernel.gamma * x.squares > self.far_exponent)
        near = np.flatnonzero(~self.far)
        product = self._product(x, self.take(near), coef[near])
        if self.far.any():
            product += self.kernel.block(X, self.X[self.far]) @ coef[self.far]
        if far.any():
            product[far] = self.kernel.block(X[far], self.X) @ coef
        return product

    def _product(self, X: RowBlock, Z: RowBlock, coef: Float) -> Float:
        return np.asarray(times(self.function, X, Z, np.ascontiguousarray(coef, dtype=np.float64)))
