"""Dense training rows whose kernel values are computed by compiled code, in tiles (:mod:`aidlearn.kernel.tiles`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aidlearn.data.rows.threads import spread
from aidlearn.kernel.functions import TINY, Floats, Kernel
from aidlearn.kernel.rows import SETTINGS as ROWS
from aidlearn.kernel.rows import KernelRows, squared_lengths
from aidlearn.kernel.tiles import KINDS, KernelFunction, RowBlock, block_into, times
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class CompiledSettings:
    """When float32 is accurate enough, and the work of a thread."""

    product_rows: int = 512
    """Rows of a product that one thread computes at a time: whole tiles, and few, so that all threads end together."""
    far_single: float = 1e4
    """Exponent of the rbf kernel beyond which rows in float32 are left to the plain kernels."""
    far_double: float = 1e6
    """Exponent of the rbf kernel beyond which rows in float64 are left to the plain kernels."""
    single_exponent: float = 50.0
    """Guess. Largest typical exponent of the rbf kernel for a search in float32."""
    typical_quantile: float = 0.9
    """Guess. Quantile of the rows' exponents that is typical (bounds count the error of each row)."""
    single_tolerance: float = 1e-5
    """Guess. Smallest tolerance for a search in float32."""


SETTINGS = CompiledSettings()


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
        # Rows far out move to a distance that the type can hold; their kernel values are computed from the originals.
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
            product += self._plain_times(rows, others[other_far], coef[other_far])
        if far.any():
            product[far] = self._plain_times(rows[far], others, coef)
        return product

    def _times(self, rows: Int, others: Int, coef: Float, exact: bool) -> Float:
        if len(others) == 0:
            return np.zeros((len(rows), coef.shape[1]))
        double = exact and self.dtype is not np.float64

        def take(part: Int) -> RowBlock:
            return self._doubles(self.X[part]) if double else self.take(part)

        Z = take(others)
        step, q = SETTINGS.product_rows, coef.shape[1]
        return self._by_parts(rows, step, lambda part: self._product(take(part), Z, coef), q)

    def _doubles(self, X: Any) -> RowBlock:
        """Return any rows in float64."""
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
