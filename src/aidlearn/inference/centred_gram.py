"""The sum of ``D_i x_i x_i'`` over all rows on centred columns, by one pass: the matrices of a sandwich covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import GramSum
from aidlearn.linear.rows.matrix import Matrix, weighted_gram
from aidlearn.numerics import Float

FEW_DIGITS = 100.0
"""Columns whose squared mean is at most this multiple of their variance are summed about zero: it costs two digits."""


@dataclass(frozen=True)
class _AboutZero:
    """Sums of a chunk about zero; they are centred when all chunks are summed."""

    gram: Float
    sums: Float | None
    """Sums of the columns; None if every row has weight 1, where the moments of the design have them."""
    total: float


GramPart = Matrix | _AboutZero | Float
"""The part of one chunk: rows to be multiplied later, sums about zero, or a centred Gram matrix."""


class CentredGram:
    """The sum of ``D_i w_i^2 x_i x_i'`` over chunks, with the intercept as the last column.

    Dense rows are summed about zero where their means allow it, which saves a copy of them; sparse rows are collected
    until there are enough for one product. Workers call :meth:`part`; :meth:`add` folds the parts in chunk order.
    """

    def __init__(self, run: Run, design: Design) -> None:
        self.design, self.n_jobs = design, run.n_jobs
        m = design.n_attributes
        # Sums about zero lose the digits of the squared means beyond those of the variances.
        few = (design.centre**2 * design.weight <= FEW_DIGITS * design.column_squares[:m]).all()
        self.about_zero = design.layout is None and bool(few)
        self._gram = np.zeros((design.n_variables, design.n_variables))
        self._rows = GramSum()
        self._zero, self._sums = np.zeros((m, m)), np.zeros(m)
        self._total = 0.0

    def part(self, chunk: Chunk, density: Float | None = None) -> GramPart:
        """Compute the part of one chunk, with ``D_i`` from ``density`` (1 by default)."""
        unit = bool((chunk.weight == 1).all())
        D = density if unit else chunk.weight**2 if density is None else density * chunk.weight**2
        if self.design.layout is not None:
            rows = self.design.rows(chunk, slice(None))
            return rows if D is None else rows.scaled_rows(np.sqrt(D))
        if not self.about_zero or sparse.issparse(chunk.X) or chunk.X.dtype != np.float64:
            return self.design.rows(chunk, slice(None)).gram(D)
        X = np.ascontiguousarray(chunk.X)  # so that the bits do not depend on the memory layout
        if D is None:
            return _AboutZero(weighted_gram(X), None, float(chunk.n_entries))
        return _AboutZero(weighted_gram(X, D), D @ X, float(D.sum()))

    def add(self, part: GramPart) -> None:
        """Add the part of the next chunk."""
        if isinstance(part, Matrix):
            self._rows.add([part], self.n_jobs)
        elif isinstance(part, _AboutZero):
            self._zero += part.gram
            self._sums += part.total * self.design.centre if part.sums is None else part.sums
            self._total += part.total
        else:
            self._gram += part

    def whole(self) -> Float:
        """Return the matrix of all chunks, on centred columns."""
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
