"""Rows of a weighted problem behind one interface: a dense array, or dense columns beside sparse ones.

Solvers, certificate and polish use ``A @ v``, ``A.T @ u``, ``abs(A)``, ``A.gram(D)`` and the methods below; none of
them asks how the rows are stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.data.chunk import Float
from aidlearn.engine.sums import stacked
from aidlearn.linear.gram import weighted_gram
from aidlearn.linear.layout import Layout

WELL_CONDITIONED = 1e-5
"""Smallest relative pivot that a Gram matrix shows without doubt: it squares what it is made of."""
DEPENDENT = 5e-15
"""Relative pivot, over the root of the number of columns, up to which a column is a combination of others."""
COLUMNS_AT_ONCE = 32
"""Of columns in doubt, whose distance from the others is measured."""


class Transposed(Protocol):
    """``A'``, for products."""

    def __matmul__(self, vector: Float) -> Float: ...


class Matrix(ABC):
    """K rows of p columns."""

    shape: tuple[int, int]
    centrable: NDArray[np.bool_]
    """Columns that centring does not fill."""

    @property
    @abstractmethod
    def T(self) -> Transposed: ...

    @abstractmethod
    def __matmul__(self, vector: Float) -> Float: ...

    @abstractmethod
    def __abs__(self) -> Matrix: ...

    @abstractmethod
    def rows(self, which: NDArray[Any]) -> Float:
        """Some rows, dense."""

    @abstractmethod
    def column(self, number: int) -> Float:
        """One column, dense."""

    @abstractmethod
    def columns(self, which: NDArray[np.bool_]) -> Matrix:
        """Some columns."""

    @abstractmethod
    def transposed(self, which: NDArray[np.bool_]) -> Any:
        """Some columns as the rows of what a linear program is given: an array or a sparse matrix."""

    @abstractmethod
    def gram(self, D: Float | None = None, n_jobs: int = 1) -> Float:
        """``A' diag(D) A`` (``A'A`` without D)."""

    @abstractmethod
    def scaled_rows(self, factor: Float) -> Matrix:
        """``diag(factor) A``."""

    @abstractmethod
    def scaled_columns(self, factor: Float) -> Matrix:
        """``A diag(factor)``."""

    @abstractmethod
    def centred(self, centre: Float) -> Matrix:
        """``A - a_p centre'`` with the last column a_p; the centre is 0 where columns are not centrable."""

    @abstractmethod
    def slope_products(self, vector: Float) -> Float:
        """``A'vector`` without the last column."""

    @abstractmethod
    def maxima(self) -> Float:
        """Largest absolute value of each column."""

    @abstractmethod
    def weighted_squares(self, weight: Float, unit: Float) -> Float:
        """``sum_k s_k (a_kj / unit_j)^2``."""

    @abstractmethod
    def least_squares(self, root: Float, e: Float) -> Float:
        """A minimiser of ``|diag(root) (A v - e)|``."""

    @abstractmethod
    def dependent(self, scale: Float) -> tuple[NDArray[np.intp], float]:
        """Columns that are combinations of others up to rounding, and the smallest relative pivot of the rest.

        Columns are divided by their scale; those of scale 0 are left out. The variables of dependent ones stay at the
        origin. Moving them could only exploit rounding errors: with a relative pivot of 5e-15, coefficients large
        enough to matter make ``x'v`` itself wrong by a percent.
        """


class Dense(Matrix):
    """An array."""

    def __init__(self, array: Float) -> None:
        self.array, self.shape = array, array.shape
        self.centrable = np.ones(self.shape[1], dtype=bool)

    @property
    def T(self) -> Float:
        return self.array.T

    def __matmul__(self, vector: Float) -> Float:
        return np.asarray(self.array @ vector)

    def __abs__(self) -> Dense:
        return Dense(np.abs(self.array))

    def rows(self, which: NDArray[Any]) -> Float:
        return self.array[which]

    def column(self, number: int) -> Float:
        return self.array[:, number]

    def columns(self, which: NDArray[np.bool_]) -> Dense:
        return Dense(self.array[:, which])

    def transposed(self, which: NDArray[np.bool_]) -> Float:
        return self.array[:, which].T

    def gram(self, D: Float | None = None, n_jobs: int = 1) -> Float:
        return weighted_gram(self.array, D, n_jobs)

    def scaled_rows(self, factor: Float) -> Dense:
        return Dense(self.array * factor[:, None])

    def scaled_columns(self, factor: Float) -> Dense:
        return Dense(self.array * factor)

    def centred(self, centre: Float) -> Dense:
        return Dense(self.array - np.outer(self.array[:, -1], centre)) if centre.any() else self

    def slope_products(self, vector: Float) -> Float:
        return np.asarray(vector @ self.array[:, :-1])

    def maxima(self) -> Float:
        return np.asarray(np.abs(self.array).max(axis=0))

    def weighted_squares(self, weight: Float, unit: Float) -> Float:
        return np.asarray(weight @ (self.array / unit) ** 2)

    def least_squares(self, root: Float, e: Float) -> Float:
        size = np.abs(self.array).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        least = linalg.lstsq(self.array / size * root[:, None], e * root, cond=1e-11, lapack_driver="gelsy")
        return np.asarray(least[0] / size)

    def dependent(self, scale: Float) -> tuple[NDArray[np.intp], float]:
        used = np.flatnonzero(scale)
        scaled = self.array[:, used] / scale[used]
        weakest = _weakest(scaled.T @ scaled)
        if weakest is not None:
            return used[:0], weakest
        _, triangle, order = linalg.qr(scaled, mode="economic", pivoting=True, check_finite=False)
        pivots = np.abs(np.diag(triangle))
        rank = int((pivots > DEPENDENT * len(pivots) ** 0.5 * pivots[0]).sum()) if len(pivots) else 0
        return used[order[rank:]], float(pivots[rank - 1] / pivots[0]) if rank else 1.0


class Hybrid(Matrix):
    """Dense columns of all rows; of the others a CSR matrix, and dense cells in the few rows that are sums of many.

    Parameters
    ----------
    dense : array of shape (K, q)
        The dense columns, the last of them the last of all if there is an intercept.
    sparse_part : CSR matrix of shape (K, r)
        The others, ascending in each row.
    full : array of shape (g, r)
        The others in the rows ``at``, which the CSR matrix leaves empty.
    at : array of g numbers
    places : pair of arrays
        Numbers of the dense and of the sparse columns.
    """

    def __init__(self, dense: Float, sparse_part: Any, full: Float, at: NDArray[Any], places: Any) -> None:
        self.D, self.S, self.full, self.at, self.places = dense, sparse_part, full, at, places
        self.shape = len(dense), len(places[0]) + len(places[1])
        self.centrable = np.zeros(self.shape[1], dtype=bool)
        self.centrable[places[0]] = True

    @classmethod
    def of_parts(cls, dense: Float, others: Any, full: Float, at: NDArray[Any], layout: Layout) -> Hybrid:
        """The same where ``others`` leaves out the rows ``at``."""
        lengths = np.zeros(len(dense) + 1, dtype=others.indptr.dtype)
        rest = np.ones(len(dense), dtype=bool)
        rest[at] = False
        lengths[1:][rest] = np.diff(others.indptr)
        shape = len(dense), others.shape[1]
        S = sparse.csr_array((others.data, others.indices, np.cumsum(lengths, dtype=lengths.dtype)), shape=shape)
        return cls(dense, S, full, at, (layout.dense, layout.sparse))

    def _with(self, dense: Float, data: Float, full: Float) -> Hybrid:
        """The same non-zeros with other values."""
        S = sparse.csr_array((data, self.S.indices, self.S.indptr), shape=self.S.shape)
        S.has_sorted_indices = S.has_canonical_format = True
        return Hybrid(dense, S, full, self.at, self.places)

    def _by_column(self, dense: Float, others: Float) -> Float:
        """Values of the dense and of the sparse columns in the order of all."""
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
        return self._by_column(vector @ self.D, self.S.T @ vector + vector[self.at] @ self.full)

    def __abs__(self) -> Hybrid:
        return self._with(np.abs(self.D), np.abs(self.S.data), np.abs(self.full))

    def _csr(self) -> Any:
        """All as one CSR matrix."""
        n_full = len(self.at)
        placed = sparse.csr_array((np.ones(n_full), (self.at, np.arange(n_full))), shape=(self.shape[0], n_full))
        others = self.S + placed @ sparse.csr_array(self.full) if n_full else self.S
        order = np.argsort(np.concatenate(self.places))
        return sparse.csr_array(sparse.hstack([sparse.csr_array(self.D), others], format="csr")[:, order])

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
        return Hybrid(self.D[:, dense], S, self.full[:, others], self.at, places)

    def transposed(self, which: NDArray[np.bool_]) -> Any:
        return self._csr()[:, np.flatnonzero(which)].T

    def gram(self, D: Float | None = None, n_jobs: int = 1) -> Float:
        from aidlearn.linear.compiled_rows import mixed_gram, sparse_gram

        weight = np.ones(self.shape[0]) if D is None else np.ascontiguousarray(D)
        (dense, others), at = self.places, self.at
        gram = np.empty((self.shape[1], self.shape[1]))
        gram[np.ix_(dense, dense)] = weighted_gram(self.D, weight, n_jobs)
        across = mixed_gram(self.D, self.S, weight, n_jobs)
        among = sparse_gram(self.S, weight, n_jobs)
        if len(at):
            across += (self.D[at] * weight[at, None]).T @ self.full
            among += weighted_gram(self.full, weight[at], n_jobs)
        gram[np.ix_(others, others)] = among
        gram[np.ix_(dense, others)] = across
        gram[np.ix_(others, dense)] = across.T
        return gram

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
        normal = scaled.gram()
        # Normal equations have half of the digits, which is enough for an origin.
        normal[np.diag_indices_from(normal)] += 1e-11 * float(np.trace(normal)) + 1e-300
        return np.asarray(linalg.solve(normal, scaled.T @ (e * root), assume_a="pos", check_finite=False) / size)

    def dependent(self, scale: Float) -> tuple[NDArray[np.intp], float]:
        used = np.flatnonzero(scale)
        scaled = self.scaled_columns(np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0))
        gram = scaled.gram()[np.ix_(used, used)]
        weakest = _weakest(gram)
        if weakest is not None:
            return used[:0], weakest
        factor, order, rank, _ = linalg.lapack.dpstrf(gram, tol=WELL_CONDITIONED**2 * float(np.diag(gram).max()))
        order, pivots = order - 1, np.diag(factor)[:rank]
        sure, unsure = order[:rank], order[rank:]
        limit = DEPENDENT * len(used) ** 0.5 * float(pivots[0])
        dependent = []
        apart = _Distances(scaled, used[sure], factor[:rank, :rank])
        for first in range(0, len(unsure), COLUMNS_AT_ONCE):
            some = unsure[first : first + COLUMNS_AT_ONCE]
            dependent += used[some[apart.of(used[some]) <= limit]].tolist()
        independent = np.setdiff1d(used[unsure], dependent)
        if len(independent):
            # Between the two limits: distances tell them from the sure columns, a factor from each other.
            rest = apart.residuals(independent)
            _, triangle, turned = linalg.qr(rest, mode="economic", pivoting=True, check_finite=False)
            left = np.abs(np.diag(triangle))
            dependent += independent[turned[: len(left)][left <= limit]].tolist()
            weak = float(left[left > limit].min(initial=pivots[-1]))
        else:
            weak = float(pivots[-1])
        return np.array(sorted(dependent), dtype=np.intp), weak / float(pivots[0])


class _HybridTransposed:
    """``A'`` of a hybrid matrix."""

    def __init__(self, matrix: Hybrid) -> None:
        self.matrix = matrix

    def __matmul__(self, vector: Float) -> Float:
        return self.matrix.transposed_times(vector)


class _Distances:
    """How far columns are from the span of others, without squaring: refined solutions of the normal equations."""

    def __init__(self, matrix: Hybrid, basis: NDArray[np.intp], factor: Float) -> None:
        self.matrix, self.basis, self.factor = matrix, basis, factor

    def residuals(self, columns: NDArray[np.intp]) -> Float:
        p = self.matrix.shape[1]
        combination = np.zeros((p, len(columns)))
        combination[columns, np.arange(len(columns))] = 1.0
        residual = _times(self.matrix, combination)
        for _ in range(3):
            right = np.column_stack([self.matrix.T @ column for column in residual.T])[self.basis]
            combination[self.basis] -= linalg.cho_solve((np.triu(self.factor), False), right, check_finite=False)
            residual = _times(self.matrix, combination)
        return residual

    def of(self, columns: NDArray[np.intp]) -> Float:
        return np.asarray(linalg.norm(self.residuals(columns), axis=0))


def _times(matrix: Hybrid, vectors: Float) -> Float:
    return np.column_stack([matrix @ vector for vector in vectors.T])


def _weakest(gram: Float) -> float | None:
    """The smallest relative pivot, if it is so large that a Gram matrix can tell."""
    try:
        pivots = np.diag(linalg.cholesky(gram, check_finite=False))
    except linalg.LinAlgError:
        return None
    weakest = float(pivots.min(initial=np.inf) / pivots.max(initial=0.0)) if len(pivots) else 1.0
    return weakest if weakest > WELL_CONDITIONED else None


def joined(parts: Sequence[Matrix]) -> Matrix:
    """Rows of one storage below each other."""
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
    )
