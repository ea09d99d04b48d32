"""``sum_i D_i x_i x_i'`` of all rows on centred columns, by one pass: what sandwich covariances are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import GramSum
from aidlearn.linear.rows.gram import BLOCK_ROWS, weighted_gram
from aidlearn.linear.rows.matrix import Matrix
from aidlearn.numerics import Float

FEW_DIGITS = 100.0
"""Squared mean of a column over its variance up to which sums about zero are as good as those about the mean."""


@dataclass
class _Plain:
    """Sums about zero; they are centred when all rows are there."""

    gram: Float
    sums: Float | None
    """None where they are those of all columns with weight 1, which the moments tell."""
    total: float


class Products:
    """The sum of ``D_i w_i^2 x_i x_i'`` over chunks, the intercept last.

    Dense rows are summed as they are where their means allow it, which saves a copy of them; sparse ones are held until
    there are enough for a matrix. Workers call :meth:`of`, the sums are folded in chunk order by :meth:`add`.

    Parameters
    ----------
    run : Run
    design : Design
    rounded : bool
        Whether products may be rounded to float32 (sums are float64), in half of the time.
    """

    def __init__(self, run: Run, design: Design, rounded: bool = False) -> None:
        self.design, self.n_jobs = design, run.n_jobs
        self.rounded = rounded and run.compiled
        m = design.n_attributes
        # Sums about zero lose twice the digits that the means have more than the deviations.
        few = (design.centre**2 * design.weight <= FEW_DIGITS * design.column_squares[:m]).all()
        self.plain = design.layout is None and bool(few)
        size = np.sqrt(design.raw_squares / design.weight)
        self._size = np.where(size > 0, size, 1.0)
        self._gram = np.zeros((design.n_variables, design.n_variables))
        self._rows = GramSum()
        self._zero, self._sums = np.zeros((m, m)), np.zeros(m)
        self._total = 0.0

    def of(self, chunk: Chunk, density: Float | None = None) -> Any:
        """The part of a chunk."""
        unit = bool((chunk.weight == 1).all())
        D = density if unit else chunk.weight**2 if density is None else density * chunk.weight**2
        if self.design.layout is not None:
            rows = self.design.rows(chunk, slice(None))
            return rows if D is None else rows.scaled_rows(np.sqrt(D))
        if not self.plain or sparse.issparse(chunk.X) or chunk.X.dtype != np.float64:
            return self.design.rows(chunk, slice(None)).gram(D)
        X = np.ascontiguousarray(chunk.X)  # the same bits whatever the layout
        if D is None:
            return _Plain(weighted_gram(X), None, float(chunk.n_entries))
        return self._rounded(X, D) if self.rounded else _Plain(weighted_gram(X, D), D @ X, float(D.sum()))

    def _rounded(self, X: Float, D: Float) -> _Plain:
        """Products in float32 of columns of ordinary size, with a column of ones for the sums; blocks in float64."""
        from aidlearn.inference.compiled_products import scaled

        m = X.shape[1]
        largest = float(D.max())
        root = np.sqrt(D / largest)
        size = max(2 * m, BLOCK_ROWS)
        block = np.empty((min(size, len(X)), m + 1), dtype=np.float32)
        total = np.zeros((m + 1, m + 1))
        unit = 1.0 / self._size
        for first in range(0, len(X), size):
            part = slice(first, first + size)
            B = block[: len(X[part])]
            scaled(X[part], unit, root[part], B)
            total += B.T @ B
        total *= largest
        gram = total[:m, :m] * np.outer(self._size, self._size)
        return _Plain(gram, total[m, :m] * self._size, float(total[m, m]))

    def add(self, part: Any) -> None:
        """Add the part of the next chunk."""
        if isinstance(part, Matrix):
            self._rows.add([part], self.n_jobs)
        elif isinstance(part, _Plain):
            self._zero += part.gram
            self._sums += part.total * self.design.centre if part.sums is None else part.sums
            self._total += part.total
        else:
            self._gram += part

    def whole(self) -> Float:
        """The matrix of all chunks."""
        if self.design.layout is not None:
            return self._rows.whole(self.n_jobs)
        c, m = self.design.centre, self.design.n_attributes
        out = self._gram
        out[:m, :m] += self._zero
        if self.design.fit_intercept:
            out[:m, :m] += self._total * np.outer(c, c) - np.outer(c, self._sums) - np.outer(self._sums, c)
            edge = self._sums - self._total * c
            out[m, :m] += edge
            out[:m, m] += edge
            out[m, m] += self._total
        return out
