"""One interface to the rows of a weighted problem: a dense array, or a mixture of dense and sparse columns.

Solvers, certificate and polish use ``A @ v``, ``A.T @ u``, ``abs(A)``, ``A.gram(D)`` and the methods below; none of
them asks how the rows are stored.

Gram matrices ``A' diag(D) A`` are computed on all cores, with the same bits for any number of threads: rows are cut
into blocks whose size follows from the shape alone, each block's matrix is computed by one thread with one BLAS
thread, and the matrices are added in a fixed order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.data.rows.threads import spread
from aidlearn.linear.rows.normal import DenseNormal, Normal
from aidlearn.numerics import Float

WELL_CONDITIONED = 1e-5
"""Smallest relative pivot that a Gram matrix shows reliably: it squares the condition number."""
FEWEST_COLUMNS = 64
"""Least number of columns for which light rows are omitted: smaller Gram matrices cost no more than other row work."""
ROWS_PER_COLUMN = 2
"""Least number of rows per column in a Gram matrix that omits light rows."""
KEPT_DIAGONAL = 0.9
"""Least fraction of each diagonal element of a Gram matrix that its heaviest rows must contribute."""
WORTH_CHOOSING = 0.7
"""Largest fraction of the rows for which copying them pays."""
DEPENDENT = 5e-15
"""Largest relative pivot, over the root of the number of columns, of a column that is a combination of others."""
CACHED = 1 << 15
"""Size, in numbers, of arrays that stay in cache between uses."""
RUNS = 8
"""Number of runs of blocks for any number of threads; their matrices coexist in memory and are added in order."""
ONE_RUN = 1 << 22
"""Number of operations of a Gram matrix below which threads do not pay."""
ONE_BLOCK = 512
"""Largest number of rows not cut into runs, which would mostly add matrices."""
FEW_COLUMNS = 32
"""Largest number of columns for which both halves of a symmetric matrix cost less than one half and roots of D."""
BLOCK_ROWS = 2048
"""Rows of the largest block that can be scaled in cache."""


class Transposed(Protocol):
    """The transpose ``A'``, for products."""

    def __matmul__(self, vector: Float) -> Float: ...


class Products(Protocol):
    """A matrix and its transpose, for products."""

    @property
    def T(self) -> Transposed: ...

    def __matmul__(self, vector: Float) -> Float: ...


class Matrix(ABC):
    """A matrix of K rows and p columns."""

    shape: tuple[int, int]
    centrable: NDArray[np.bool_]
    """Mask of the columns that centring does not fill in."""
    stored: int
    """Size in numbers of eight bytes."""
    n_dense: int
    """Number of dense columns."""

    @property
    @abstractmethod
    def T(self) -> Transposed: ...

    @abstractmethod
    def __matmul__(self, vector: Float) -> Float: ...

    @abstractmethod
    def __abs__(self) -> Products:
        """Return the absolute values, for products alone."""

    @abstractmethod
    def rows(self, which: NDArray[Any]) -> Float:
        """Return the rows ``which`` as a dense array."""

    @abstractmethod
    def part(self, first: int, last: int) -> Matrix:
        """Return the rows from ``first`` up to, but excluding, ``last``."""

    @abstractmethod
    def column(self, number: int) -> Float:
        """Return one column as a dense vector."""

    @abstractmethod
    def columns(self, which: NDArray[np.bool_]) -> Matrix:
        """Return a matrix of the columns ``which``."""

    @abstractmethod
    def transposed(self, which: NDArray[np.bool_]) -> Any:
        """Return the columns ``which`` as rows of an array or a sparse matrix, for a linear program."""

    @abstractmethod
    def gram(self, D: Float | None = None, n_jobs: int = 1) -> Float:
        """Return ``A' diag(D) A`` (``A'A`` without D)."""

    def normal(self, D: Float | None = None, n_jobs: int = 1) -> Normal:
        """Return ``A' diag(D) A`` in a form that solves normal equations."""
        return DenseNormal(self.gram(D, n_jobs))

    def heaviest(self, D: Float, cut: float) -> tuple[Matrix, Float]:
        """Return the rows whose part ``D |a|^2`` of a Gram matrix is at least ``cut`` times the largest, with their D.

        All rows are kept if choosing would save little.
        """
        return self, D

    @abstractmethod
    def scaled_rows(self, factor: Float) -> Matrix:
        """Return ``diag(factor) A``."""

    @abstractmethod
    def scaled_columns(self, factor: Float) -> Matrix:
        """Return ``A diag(factor)``."""

    @abstractmethod
    def centred(self, centre: Float) -> Matrix:
        """Return ``A - a_p centre'`` with the last column a_p; the centre is 0 for columns that are not centrable."""

    @abstractmethod
    def slope_products(self, vector: Float) -> Float:
        """Return ``A'vector`` without its last element."""

    @abstractmethod
    def maxima(self) -> Float:
        """Return the largest absolute value of each column."""

    @abstractmethod
    def weighted_squares(self, weight: Float, unit: Float) -> Float:
        """Return ``sum_k s_k (a_kj / unit_j)^2`` for each column j."""

    @abstractmethod
    def least_squares(self, root: Float, e: Float) -> Float:
        """Return a minimiser of ``|diag(root) (A v - e)|``."""

    @abstractmethod
    def dependent(self, scale: Float) -> tuple[NDArray[np.intp], float]:
        """Return the columns that are combinations of others up to rounding, and the others' smallest relative pivot.

        Columns are divided by their scale; those of scale 0 are left out. The variables of dependent columns stay at
        the origin, because moving them could only exploit rounding errors: with a relative pivot of 5e-15,
        coefficients large enough to matter make ``x'v`` itself wrong by a percent.
        """


class Dense(Matrix):
    """A matrix stored as a dense array."""

    def __init__(self, array: Float) -> None:
        self.array, self.shape = array, array.shape
        self.stored, self.n_dense = array.size, array.shape[1]
        self.centrable = np.ones(self.n_dense, dtype=bool)

    @property
    def T(self) -> Float:
        return self.array.T

    def __matmul__(self, vector: Float) -> Float:
        return np.asarray(self.array @ vector)

    def __abs__(self) -> Absolute:
        return Absolute(self.array)

    def rows(self, which: NDArray[Any]) -> Float:
        return self.array[which]

    def part(self, first: int, last: int) -> Dense:
        return Dense(self.array[first:last])

    def column(self, number: int) -> Float:
        return self.array[:, number]

    def columns(self, which: NDArray[np.bool_]) -> Dense:
        return self if which.all() else Dense(self.array[:, which])

    def transposed(self, which: NDArray[np.bool_]) -> Float:
        return self.array[:, which].T

    def gram(self, D: Float | None = None, n_jobs: int = 1) -> Float:
        return weighted_gram(self.array, D, n_jobs)

    @cached_property
    def row_squares(self) -> Float:
        """Squared norms ``|a_k|^2`` of the rows."""
        return np.asarray(np.einsum("ij,ij->i", self.array, self.array))

    def heaviest(self, D: Float, cut: float) -> tuple[Matrix, Float]:
        K, p = self.shape
        if p < FEWEST_COLUMNS:
            return self, D
        part = D * self.row_squares
        kept = part >= cut * float(part.max())
        fewest = min(K, ROWS_PER_COLUMN * p)
        if kept.sum() < fewest:  # fewer rows would not span all directions
            kept = part >= float(np.partition(part, K - fewest)[K - fewest])
        if kept.sum() > WORTH_CHOOSING * K:
            return self, D
        chosen, weights = self.array[kept], D[kept]
        # The rows of a rare level may be light compared with others, but they alone determine its coefficient.
        of_chosen, of_all = (np.einsum("ij,ij,i->j", A, A, d) for A, d in ((chosen, weights), (self.array, D)))
        if (of_chosen < KEPT_DIAGONAL * of_all).any():
            return self, D
        return Dense(chosen), weights

    def scaled_rows(self, factor: Float) -> Dense:
        return Dense(self.array * factor[:, None])

    def scaled_columns(self, factor: Float) -> Dense:
        # Products of a small array with vectors are faster column by column.
        return Dense(np.multiply(self.array, factor, order="F" if self.array.size <= CACHED else "K"))

    def centred(self, centre: Float) -> Dense:
        return Dense(self.array - np.outer(self.array[:, -1], centre)) if centre.any() else self

    def slope_products(self, vector: Float) -> Float:
        return np.asarray(vector @ self.array[:, :-1])

    def maxima(self) -> Float:
        return np.maximum(self.array.max(axis=0, initial=0.0), -self.array.min(axis=0, initial=0.0))

    def weighted_squares(self, weight: Float, unit: Float) -> Float:
        total = np.zeros(self.shape[1])
        for rows in blocks(self.array):
            total += weight[rows] @ (self.array[rows] / unit) ** 2
        return total

    def least_squares(self, root: Float, e: Float) -> Float:
        size = np.abs(self.array).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        # A Gram matrix costs a tenth of a pivoted QR factor, and suffices if it is well conditioned.
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            gram = weighted_gram(self.array, root**2) / np.outer(size, size)
        upper, failed = linalg.lapack.dpotrf(gram, clean=0)
        if not failed and relative_pivot(upper) > WELL_CONDITIONED:
            return np.asarray(linalg.lapack.dpotrs(upper, (self.array.T @ (root**2 * e)) / size)[0] / size)
        least = linalg.lstsq(self.array / size * root[:, None], e * root, cond=1e-11, lapack_driver="gelsy")
        return np.asarray(least[0] / size)

    def dependent(self, scale: Float) -> tuple[NDArray[np.intp], float]:
        used = np.flatnonzero(scale)
        gram = np.zeros((len(used), len(used)))
        for rows in blocks(self.array, block_rows(self.shape[0], len(used))):
            scaled = self.array[rows][:, used] if len(used) < self.shape[1] else self.array[rows]
            scaled = scaled / scale[used]
            gram += scaled.T @ scaled
        weakest = weakest_pivot(gram)
        if weakest is not None:
            return used[:0], weakest
        scaled = self.array[:, used] / scale[used]
        _, triangle, order = linalg.qr(scaled, mode="economic", pivoting=True, check_finite=False)
        pivots = np.abs(np.diag(triangle))
        rank = int((pivots > DEPENDENT * len(pivots) ** 0.5 * pivots[0]).sum()) if len(pivots) else 0
        return used[order[rank:]], float(pivots[rank - 1] / pivots[0]) if rank else 1.0


class Absolute:
    """Absolute values of an array, computed block by block in each product: a full copy would not fit into cache."""

    def __init__(self, array: Float, transposed: bool = False) -> None:
        self.array, self.transposed = array, transposed

    @property
    def T(self) -> Absolute:
        return Absolute(self.array, not self.transposed)

    def __matmul__(self, vector: Float) -> Float:
        if self.transposed:
            total = np.zeros(self.array.shape[1])
            for rows in blocks(self.array):
                total += vector[rows] @ np.abs(self.array[rows])
            return total
        return np.concatenate([np.abs(self.array[rows]) @ vector for rows in blocks(self.array)])


def blocks(array: Float, size: int = 0) -> Iterator[slice]:
    """Yield slices of the rows of an array; by default a slice and a copy of its rows fit into cache."""
    size = size or max(16, CACHED // max(1, array.shape[1]))
    for first in range(0, max(1, len(array)), size):
        yield slice(first, first + size)


def weakest_pivot(gram: Float) -> float | None:
    """Return the smallest relative pivot, or None if it is too small for a Gram matrix to show it."""
    upper, failed = linalg.lapack.dpotrf(gram, clean=0) if len(gram) else (gram, 0)
    weakest = 0.0 if failed else relative_pivot(upper)
    return weakest if weakest > WELL_CONDITIONED else None


def relative_pivot(triangle: Float) -> float:
    """Return the smallest absolute diagonal element over the largest."""
    pivots = np.abs(triangle.diagonal())
    return float(pivots.min() / pivots.max()) if len(pivots) else 1.0


# Gram matrices


def block_rows(K: int, p: int) -> int:
    """Return the rows of a block: all runs get equally many, and a block's matrix costs more to compute than to add."""
    runs = RUNS if K >= RUNS * BLOCK_ROWS // 2 else RUNS // 2
    return -(-K // (runs * max(1, -(-K // (runs * max(2 * p, BLOCK_ROWS))))))


def weighted_gram(A: Float, D: Float | None = None, n_jobs: int = 1) -> Float:
    """Return ``A' diag(D) A`` (``A'A`` without D)."""
    K, p = A.shape
    if p <= FEW_COLUMNS and D is not None and K * p * p <= ONE_RUN:
        return np.asarray((A * D[:, None]).T @ A)
    if K * p * p <= ONE_RUN or K <= ONE_BLOCK:
        B = A if D is None else A * np.sqrt(D)[:, None]
        return np.asarray(B.T @ B)
    size = block_rows(K, p)

    def part(first: int, total: Float | None) -> Float:
        rows = slice(first, first + size)
        B = A[rows] if D is None else A[rows] * np.sqrt(D[rows])[:, None]
        # NumPy releases the interpreter lock, scipy's BLAS functions do not; B'B costs half of a general product.
        block = np.asarray(B.T @ B)
        if total is None:
            return block
        total += block
        return total

    return in_runs(part, range(0, K, size), n_jobs)


def in_runs(part: Callable[[int, Float | None], Float], starts: range, n_jobs: int) -> Float:
    """Return the sum of blocks: ``part(first, sum so far)`` adds those of a run in turn, then runs add up in order."""
    n_runs = max(1, min(RUNS, len(starts)))
    cuts = [len(starts) * run // n_runs for run in range(n_runs + 1)]

    def total_of(run: int) -> Float:
        total = None
        for first in starts[cuts[run] : cuts[run + 1]]:
            total = part(first, total)
        assert total is not None
        return total

    first, *others = spread(total_of, n_runs, n_jobs)
    for other in others:
        first += other
    return first
