"""Rows of aggregated problems with dense and sparse columns, the latter possibly including one large factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.engine.sums import stacked
from aidlearn.linear.rows.columns import SparseLayout
from aidlearn.linear.rows.matrix import DEPENDENT, WELL_CONDITIONED, Dense, Matrix, weakest_pivot, weighted_gram
from aidlearn.linear.rows.normal import ArrowNormal, DenseNormal, Normal
from aidlearn.numerics import Float

if TYPE_CHECKING:
    from aidlearn.linear.rows.compiled import Levels

CELLS_AT_ONCE = 1 << 24
"""Cells of doubtful columns whose distances from the others are measured at a time."""


class Hybrid(Matrix):
    """Matrix of dense columns and a CSR part; the few rows that are sums of many rows are dense throughout.

    Parameters
    ----------
    dense : array of shape (K, q)
        The dense columns; if there is an intercept, it is the last of them and of all columns.
    sparse_part : CSR matrix of shape (K, r)
        The other columns, with ascending indices in each row.
    full : array of shape (g, r)
        Values of the other columns in the rows ``at``, which the CSR matrix leaves empty.
    at : array of g row numbers
    places : pair of arrays
        Indices of the dense and of the sparse columns.
    levels : range, optional
        Sparse columns that are the levels of a factor to be eliminated; every row has at most one of them.
    """

    def __init__(
        self,
        dense: Float,
        sparse_part: Any,
        full: Float,
        at: NDArray[Any],
        places: Any,
        levels: range | None = None,
        pattern: Levels | None = None,
    ) -> None:
        self.D, self.S, self.full, self.at, self.places = dense, sparse_part, full, at, places
        self.levels, self._pattern = levels, pattern
        self._turned: Any = None
        self.shape = len(dense), len(places[0]) + len(places[1])
        self.n_dense = dense.shape[1]
        indices = (sparse_part.indices.nbytes + sparse_part.indptr.nbytes) // 8
        self.stored = int(dense.size + sparse_part.data.size + full.size + indices)
        self.centrable = np.zeros(self.shape[1], dtype=bool)
        self.centrable[places[0]] = True

    @classmethod
    def of_parts(cls, dense: Float, others: Any, full: Float, at: NDArray[Any], layout: SparseLayout) -> Hybrid:
        """Return a matrix from ``others``, which omits the rows ``at``; those with few non-zeros become sparse."""
        rest = np.ones(len(dense), dtype=bool)
        rest[at] = False
        sums = np.ones(len(full), dtype=bool)
        if layout.levels is None:  # otherwise sums stay dense, because they have several levels
            sums = np.count_nonzero(full, axis=1) > layout.most_sparse
        if sums.all():
            lengths = np.zeros(len(dense) + 1, dtype=others.indptr.dtype)
            lengths[1:][rest] = np.diff(others.indptr)
            shape = len(dense), others.shape[1]
            S = sparse.csr_array((others.data, others.indices, np.cumsum(lengths, dtype=lengths.dtype)), shape=shape)
        else:
            number = np.full(len(dense), -1)  # position of each row in the stack below, which ends with an empty row
            number[rest] = np.arange(others.shape[0])
            number[at[~sums]] = others.shape[0] + np.arange(len(sums) - int(sums.sum()))
            empty = sparse.csr_array((1, others.shape[1]))
            S = stacked([others, sparse.csr_array(full[~sums]), empty])[number]
            S.sort_indices()
        return cls(dense, S, np.ascontiguousarray(full[sums]), at[sums], (layout.dense, layout.sparse), layout.levels)

    @classmethod
    def without_sums(cls, dense: Float, others: Any, layout: SparseLayout) -> Hybrid:
        """Return a matrix of single rows, without sums of many."""
        nothing = np.zeros((0, len(layout.sparse))), np.empty(0, dtype=np.intp)
        return cls(dense, others, *nothing, (layout.dense, layout.sparse), layout.levels)

    def _with(self, dense: Float, data: Float, full: Float) -> Hybrid:
        """Return a matrix with the same non-zero pattern and other values."""
        S = sparse.csr_array((data, self.S.indices, self.S.indptr), shape=self.S.shape)
        S.has_sorted_indices = S.has_canonical_format = True
        return Hybrid(dense, S, full, self.at, self.places, self.levels, self._pattern)

    def _by_column(self, dense: Float, others: Float) -> Float:
        """Return the values of the dense and sparse columns in the order of all columns."""
        values = np.empty(self.shape[1])
        values[self.places[0]], values[self.places[1]] = dense, others
        return values

    @property
    def T(self) -> _HybridTransposed:
        return _HybridTransposed(self)

    def __matmul__(self, vector: Float) -> Float:
        others = vector[self.places[1]]
        product = self.D @ vector[self.places[0]]
        product += self.S @ others
        product[self.at] += self.full @ others
        return np.asarray(product)

    def transposed_times(self, vector: Float) -> Float:
        if self._turned is None:  # scipy needs as long to transpose as for a product with thousands of non-zeros
            self._turned = self.S.T
        return self._by_column(vector @ self.D, self._turned @ vector + vector[self.at] @ self.full)

    def __abs__(self) -> Hybrid:
        return self._with(np.abs(self.D), np.abs(self.S.data), np.abs(self.full))

    def rows(self, which: NDArray[Any]) -> Float:
        number = np.flatnonzero(which) if which.dtype == bool else which
        found = np.empty((len(number), self.shape[1]))
        found[:, self.places[0]] = self.D[number]
        others = self.S[number].toarray()
        if len(self.at):
            place = np.full(self.shape[0], -1)
            place[self.at] = np.arange(len(self.at))
            here = np.flatnonzero(place[number] >= 0)
            others[here] += self.full[place[number[here]]]
        found[:, self.places[1]] = others
        return found

    def part(self, first: int, last: int) -> Hybrid:
        here = (self.at >= first) & (self.at < last)
        rows = self.D[first:last], self.S[first:last], self.full[here], self.at[here] - first
        return Hybrid(*rows, self.places, self.levels)

    def column(self, number: int) -> Float:
        unit = np.zeros(self.shape[1])
        unit[number] = 1.0
        return self @ unit

    def columns(self, which: NDArray[np.bool_]) -> Hybrid:
        if which.all():
            return self
        dense, others = which[self.places[0]], which[self.places[1]]
        number = np.cumsum(which) - 1
        places = number[self.places[0][dense]], number[self.places[1][others]]
        S = sparse.csr_array(self.S[:, np.flatnonzero(others)])
        S.sort_indices()
        levels = self.levels
        if levels is not None:
            kept = np.concatenate([[0], np.cumsum(others)])
            levels = range(int(kept[levels.start]), int(kept[levels.stop]))
        return Hybrid(self.D[:, dense], S, self.full[:, others], self.at, places, levels)

    def transposed(self, which: NDArray[np.bool_]) -> Any:
        n_full = len(self.at)
        placed = sparse.csr_array((np.ones(n_full), (self.at, np.arange(n_full))), shape=(self.shape[0], n_full))
        others = self.S + placed @ sparse.csr_array(self.full) if n_full else self.S
        order = np.argsort(np.concatenate(self.places))
        whole = sparse.csr_array(sparse.hstack([sparse.csr_array(self.D), others], format="csr")[:, order])
        return whole[:, np.flatnonzero(which)].T

    def gram(self, D: Float | None = None, n_jobs: int = 1) -> Float:
        from aidlearn.linear.rows.compiled import mirror

        above, order = self._above(D, n_jobs), np.concatenate(self.places)
        mirror(above)
        gram = np.empty_like(above)
        gram[np.ix_(order, order)] = above
        return gram

    def _above(self, D: Float | None, n_jobs: int) -> Float:
        """Return the Gram matrix in the order of ``places``; only its upper triangle is valid."""
        from aidlearn.linear.rows.compiled import mixed_gram, sparse_gram

        weight = np.ones(self.shape[0]) if D is None else np.ascontiguousarray(D)
        at, q = self.at, self.n_dense
        above = np.empty((self.shape[1], self.shape[1]))
        above[q:, :q] = 0.0
        above[:q, :q] = weighted_gram(self.D, weight, n_jobs)
        above[:q, q:] = mixed_gram(self.D, self.S, weight, n_jobs)
        above[q:, q:] = sparse_gram(self.S, weight, n_jobs)
        if len(at):
            above[:q, q:] += (self.D[at] * weight[at, None]).T @ self.full
            above[q:, q:] += weighted_gram(self.full, weight[at], n_jobs)
        return above

    def normal(self, D: Float | None = None, n_jobs: int = 1) -> Normal:
        if self.levels is None or len(self.at):
            return DenseNormal(self._above(D, n_jobs), np.concatenate(self.places))
        weight = np.ones(self.shape[0]) if D is None else np.ascontiguousarray(D)
        pattern = self._levels()
        C = self._in_order(self.D, pattern.others_of(self.S.data)).gram(weight, n_jobs)
        d, dense, cross = pattern.sums(self.S.data, self.D, weight)
        numbers = self.places[1]
        others = np.concatenate([self.places[0], numbers[: self.levels.start], numbers[self.levels.stop :]])
        levels = numbers[self.levels.start : self.levels.stop]
        return ArrowNormal(levels, others, d, self._in_order(dense, cross), C, n_jobs)

    @staticmethod
    def _in_order(dense: Float, others: Any) -> Hybrid:
        """Return a matrix of single rows whose dense columns come first."""
        q, r = dense.shape[1], others.shape[1]
        return Hybrid(dense, others, np.zeros((0, r)), np.empty(0, dtype=np.intp), (np.arange(q), q + np.arange(r)))

    def _levels(self) -> Levels:
        """Return the positions of the levels, which all matrices with the same non-zero pattern share."""
        from aidlearn.linear.rows.compiled import Levels

        if self._pattern is None:
            assert self.levels is not None
            self._pattern = Levels.of(self.S, self.levels)
        return self._pattern

    def scaled_rows(self, factor: Float) -> Hybrid:
        data = self.S.data * np.repeat(factor, np.diff(self.S.indptr))
        return self._with(self.D * factor[:, None], data, self.full * factor[self.at, None])

    def scaled_columns(self, factor: Float) -> Hybrid:
        dense, others = factor[self.places[0]], factor[self.places[1]]
        return self._with(self.D * dense, self.S.data * others[self.S.indices], self.full * others)

    def centred(self, centre: Float) -> Hybrid:
        if not centre.any():
            return self
        return self._with(self.D - np.outer(self.D[:, -1], centre[self.places[0]]), self.S.data, self.full)

    def slope_products(self, vector: Float) -> Float:
        return self.transposed_times(vector)[:-1]

    def maxima(self) -> Float:
        others = np.abs(self.full).max(axis=0, initial=0.0)
        np.maximum.at(others, self.S.indices, np.abs(self.S.data))
        return self._by_column(np.abs(self.D).max(axis=0, initial=0.0), others)

    def weighted_squares(self, weight: Float, unit: Float) -> Float:
        scaled = self.scaled_columns(1.0 / unit)
        scaled = scaled._with(scaled.D**2, scaled.S.data**2, scaled.full**2)
        return scaled.transposed_times(weight)

    def least_squares(self, root: Float, e: Float) -> Float:
        size = self.maxima()
        size = np.where(size > 0, size, 1.0)
        scaled = self.scaled_columns(1.0 / size).scaled_rows(root)
        normal = scaled.normal()
        # Normal equations lose half of the digits; the rest is enough for an origin.
        factor = normal.factor(np.full(self.shape[1], 1e-11 * float(normal.diagonal().sum()) + 1e-300))
        right = scaled.T @ (e * root)
        return np.zeros(self.shape[1]) if factor is None else factor.solve(right) / size

    def dependent(self, scale: Float) -> tuple[NDArray[np.intp], float]:
        scaled = self.scaled_columns(np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0))
        normal = scaled.normal()
        if isinstance(normal, ArrowNormal):
            # Levels are independent of each other; the Schur complement shows which other columns are independent.
            _, gram = normal.schur(np.where(scale > 0, 0.0, 1.0))
            used = np.flatnonzero(scale[normal.others])
            columns = normal.others[used]
            gram = gram[np.ix_(used, used)]
        else:
            columns = np.flatnonzero(scale)
            gram = scaled.gram()[np.ix_(columns, columns)]
        weakest = weakest_pivot(gram)
        if weakest is not None:
            return columns[:0], weakest
        factor, order, rank, _ = linalg.lapack.dpstrf(gram, tol=WELL_CONDITIONED**2 * float(np.diag(gram).max()))
        order, pivots = order - 1, np.diag(factor)[:rank]
        sure, unsure = columns[order[:rank]], columns[order[rank:]]
        limit = DEPENDENT * len(columns) ** 0.5 * float(pivots[0])
        dependent: list[int] = []
        apart = _Distances(scaled, unsure)
        at_once = max(1, CELLS_AT_ONCE // self.shape[0])
        for first in range(0, len(unsure), at_once):
            some = unsure[first : first + at_once]
            dependent += some[linalg.norm(apart.residuals(some), axis=0) <= limit].tolist()
        independent = np.setdiff1d(unsure, dependent)
        weak = float(pivots[-1]) if len(sure) else 1.0
        if len(independent):
            # Their distances show independence of the sure columns; a pivoted QR shows independence of each other.
            rest = apart.residuals(independent)
            _, triangle, turned = linalg.qr(rest, mode="economic", pivoting=True, check_finite=False)
            left = np.abs(np.diag(triangle))
            dependent += independent[turned[: len(left)][left <= limit]].tolist()
            weak = float(left[left > limit].min(initial=weak))
        return np.array(sorted(dependent), dtype=np.intp), weak / float(pivots[0])


class _HybridTransposed:
    """The transpose ``A'`` of a hybrid matrix, for products."""

    def __init__(self, matrix: Hybrid) -> None:
        self.matrix = matrix

    def __matmul__(self, vector: Float) -> Float:
        return self.matrix.transposed_times(vector)


class _Distances:
    """Distances of columns from the span of the others; refining the normal equations restores the lost digits."""

    def __init__(self, matrix: Hybrid, left_out: NDArray[np.intp]) -> None:
        kept = np.ones(matrix.shape[1])
        kept[left_out] = 0.0
        self.matrix, self.basis = matrix, matrix.scaled_columns(kept)
        normal = self.basis.normal()
        diagonal = normal.diagonal()
        self.unused = diagonal == 0
        self.factor = normal.factor(np.where(self.unused, 1.0, 1e-15 * diagonal))

    def residuals(self, columns: NDArray[np.intp]) -> Float:
        assert self.factor is not None
        combination = np.zeros((self.matrix.shape[1], len(columns)))
        combination[columns, np.arange(len(columns))] = 1.0
        residual, before = _times(self.matrix, combination), np.inf
        for _ in range(3):
            left = float(np.abs(residual).max(initial=0.0))
            if left > 0.5 * before or left == 0.0:
                break
            before = left
            for k, column in enumerate(residual.T):
                step = self.factor.solve(self.basis.T @ column)
                combination[:, k] -= np.where(self.unused, 0.0, step)
            residual = _times(self.matrix, combination)
        return residual


def _times(matrix: Hybrid, vectors: Float) -> Float:
    return np.column_stack([matrix @ vector for vector in vectors.T])


def joined(parts: Sequence[Matrix]) -> Matrix:
    """Return matrices of the same storage stacked by rows."""
    if len(parts) == 1:
        return parts[0]
    hybrids = [part for part in parts if isinstance(part, Hybrid)]
    if not hybrids:
        return Dense(np.concatenate([part.array for part in parts if isinstance(part, Dense)]))
    assert len(hybrids) == len(parts)
    starts = np.cumsum([0, *(len(part.D) for part in hybrids)])
    return Hybrid(
        np.concatenate([part.D for part in hybrids]),
        stacked([part.S for part in hybrids]),
        np.concatenate([part.full for part in hybrids]),
        np.concatenate([part.at + start for part, start in zip(hybrids, starts, strict=False)]),
        hybrids[0].places,
        hybrids[0].levels,
    )
