"""Better coordinates for ill-conditioned columns: offsets are removed, nearly collinear columns are replaced.

Sums of columns around 1e9 lose the digits that vary, and normal equations cannot separate columns that differ by 1e-9.
In coordinates ``(x - centre) T - level`` no digits are lost, because differences are taken row by row, in extended
precision, before anything is summed. :meth:`Mixing.to_original` converts a linear model of these columns to one of the
original columns, whose coefficients are large and rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.data.rows.chunk import Chunk
from aidlearn.numerics import Float

EXTENDED = np.longdouble
WEAK = 1e-4
"""Guess. Maximum residual of a weak column on the others, relative to its spread."""
DEPENDENT = 5e-15
"""Guess. Maximum relative residual, divided by the root of the number of columns, that counts as rounding error."""
OFFSET = 1e5
"""Guess. Ratio of mean to spread above which a column is centred."""


@dataclass(frozen=True)
class Mixing:
    """A change of coordinates that a run applies chunk by chunk."""

    by_row: ClassVar[bool] = False
    centre: Float
    """Offset subtracted from each column; 0 if the column is unchanged."""
    weak: NDArray[np.intp]
    """Columns that are replaced by their residuals."""
    T: Any
    """Matrix (columns x replaced columns) in extended precision."""
    level: Any
    """Offsets subtracted from the replaced columns, so that their mean is about 0."""

    def __call__(self, chunk: Chunk) -> Chunk:
        moved = np.flatnonzero(self.centre)
        if sparse.issparse(chunk.X):
            return replace(chunk, X=self._sparse(chunk.X, moved))
        X = np.array(chunk.X, dtype=np.float64)
        replaced = self._replaced(chunk.X)
        X[:, moved] -= self.centre[moved]
        X[:, self.weak] = replaced
        return replace(chunk, X=X)

    def _replaced(self, X: Any) -> Float:
        used = np.flatnonzero(self.T.any(axis=1))
        block = np.asarray(X[:, used].toarray() if sparse.issparse(X) else X[:, used], dtype=EXTENDED)
        return np.asarray((block - self.centre[used]) @ self.T[used] - self.level, dtype=np.float64)

    def _sparse(self, X: Any, moved: NDArray[np.intp]) -> Any:
        """Return changed sparse rows; centred and replaced columns have a number in every row."""
        columns = sparse.csc_array(X, dtype=np.float64)
        parts = [columns[:, [j]] for j in range(columns.shape[1])]
        for j in moved:
            parts[j] = sparse.csc_array(columns[:, [j]].toarray() - self.centre[j])
        replaced = self._replaced(X)
        for k, j in enumerate(self.weak):
            parts[j] = sparse.csc_array(replaced[:, [k]])
        return sparse.hstack(parts, format="csr")

    def to_original(self, points: Float, fit_intercept: bool) -> Float:
        """Convert points from the mixed to the original columns, rounded to float64."""
        found = np.asarray(points, dtype=EXTENDED)
        m = len(self.centre)
        of_weak = found[:, self.weak]
        slopes = found[:, :m].copy()
        slopes[:, self.weak] = 0
        slopes += of_weak @ self.T.T
        slopes = slopes.astype(np.float64).astype(EXTENDED)
        if not fit_intercept:
            return np.asarray(slopes, dtype=np.float64)
        # Uses the rounded slopes, so that the intercept absorbs the mean of their rounding errors.
        level = found[:, m] - slopes @ self.centre - of_weak @ self.level
        return np.asarray(np.column_stack([slopes, level]), dtype=np.float64)


def centring(mean: Float, deviation: Float) -> Mixing | None:
    """Return the mixing that removes large offsets; None if there are none."""
    far = (deviation > 0) & (np.abs(mean) > OFFSET * deviation)
    if not far.any():
        return None
    return _dropping(np.where(far, mean, 0.0), np.empty(0, dtype=np.intp))


def _dropping(centre: Float, weak: NDArray[np.intp]) -> Mixing:
    """Return the mixing that replaces columns by zeros."""
    return Mixing(centre, weak, np.zeros((len(centre), len(weak)), EXTENDED), np.zeros(len(weak), EXTENDED))


@dataclass(frozen=True)
class _Pivots:
    """A pivoted QR decomposition of a sample, with weak columns last."""

    centre: Float
    X: Any
    """The centred sample in extended precision."""
    size: Float
    triangle: Float
    order: NDArray[np.intp]
    pivots: Float
    """Residual of each column on those before it, relative to its spread."""

    @property
    def n_strong(self) -> int:
        return int((self.pivots > WEAK).sum())

    @property
    def n_used(self) -> int:
        return int((self.pivots > DEPENDENT * np.sqrt(len(self.order))).sum())

    @classmethod
    def of(cls, sample: Chunk, mean: Float, deviation: Float, fit_intercept: bool) -> _Pivots | None:
        first = centring(mean, deviation) if fit_intercept else None
        centre = np.zeros(len(mean)) if first is None else first.centre
        rows = sample.select(np.flatnonzero(sample.weight > 0))
        X = rows.dense_rows(slice(None)).astype(EXTENDED) - centre
        about = X - X.mean(axis=0) if fit_intercept else X
        size = np.asarray(np.sqrt((about * about).mean(axis=0)), dtype=np.float64)
        used = np.flatnonzero(size > 0)
        if len(rows.y) <= len(used) or len(used) < 2:
            return None
        scaled = np.asarray(about[:, used] / size[used], dtype=np.float64)
        triangle, order = linalg.qr(scaled, mode="r", pivoting=True, check_finite=False)
        triangle, order = triangle[: len(used)], used[order]
        return cls(centre, X, size, triangle, order, np.abs(np.diag(triangle)) / np.sqrt(len(scaled)))


def leaving_out(sample: Chunk, mean: Float, deviation: Float, fit_intercept: bool) -> Mixing | None:
    """Return the mixing that drops columns that are nearly collinear in a sample; None if there are none."""
    found = _Pivots.of(sample, mean, deviation, fit_intercept)
    if found is None or found.n_strong == len(found.order):
        return None
    return _dropping(found.centre, np.sort(found.order[found.n_strong :]))


def orthogonalising(sample: Chunk, mean: Float, deviation: Float, fit_intercept: bool) -> Mixing | None:
    """Return the mixing that replaces columns that are nearly collinear in a sample; None if there are none.

    A pivoted QR decomposition has strong columns first, ``X_S = Q_S R_SS``. A weak column is ``x_k = X_S R_SS^-1 R_Sk``
    plus multiples of the residuals of weak columns before it, plus its own residual.
    """
    found = _Pivots.of(sample, mean, deviation, fit_intercept)
    if found is None or found.n_used == found.n_strong:
        return None
    n_strong, n_used = found.n_strong, found.n_used
    X, size, triangle, order, pivots = found.X, found.size, found.triangle, found.order, found.pivots
    strong, weak = order[:n_strong], order[n_strong:n_used]
    T = np.zeros((len(mean), len(weak)), dtype=EXTENDED)
    level = np.zeros(len(weak), dtype=EXTENDED)
    for k, j in enumerate(weak):
        at = n_strong + k
        of_strong = linalg.solve_triangular(triangle[:n_strong, :n_strong], triangle[:n_strong, at])
        of_strong[np.abs(of_strong) < 1e-3 * pivots[at]] = 0.0
        column = np.zeros(len(mean), dtype=EXTENDED)
        column[j] = 1
        column[strong] -= of_strong.astype(EXTENDED) * (size[j] / size[strong])
        for i in range(k):
            # The earlier column of T gives a residual of unit spread with the sign of its pivot.
            before = triangle[n_strong + i]
            share = before[at] * np.sign(before[n_strong + i]) * size[j] / np.sqrt(len(X))
            column -= T[:, i] * EXTENDED(share)
        column /= EXTENDED(pivots[at] * size[j])
        left = X @ column
        spread = np.sqrt((left - left.mean()) @ (left - left.mean()) / len(left)) if fit_intercept else EXTENDED(1)
        T[:, k] = column / spread
        level[k] = (left.mean() / spread) if fit_intercept else 0
    return Mixing(found.centre, weak, T, level)
