"""Rows of a weighted problem behind one interface: a dense array, or dense columns beside sparse ones.

Solvers, certificate and polish use ``A @ v``, ``A.T @ u``, ``abs(A)``, ``A.gram(D)`` and the methods below; none of
them asks how the rows are stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.linear.rows.gram import block_rows, weighted_gram
from aidlearn.linear.rows.normal import DenseNormal, Normal
from aidlearn.numerics import Float

WELL_CONDITIONED = 1e-5
"""Smallest relative pivot that a Gram matrix shows without doubt: it squares what it is made of."""
FEWEST_COLUMNS = 64
"""Below this a Gram matrix costs no more than the other work on its rows."""
ROWS_PER_COLUMN = 2
"""Of a Gram matrix whose light rows are left out, at least."""
KEPT_DIAGONAL = 0.9
"""Part of each number on the diagonal of a Gram matrix that the heaviest rows have to make."""
WORTH_CHOOSING = 0.7
"""Part of the rows up to which a copy of them pays."""
DEPENDENT = 5e-15
"""Relative pivot, over the root of the number of columns, up to which a column is a combination of others."""


CACHED = 1 << 15
"""Numbers that stay in cache while they are used again."""


class Transposed(Protocol):
    """``A'``, for products."""

    def __matmul__(self, vector: Float) -> Float: ...


class Products(Protocol):
    """What products with a matrix and its transpose take."""

    @property
    def T(self) -> Transposed: ...

    def __matmul__(self, vector: Float) -> Float: ...


class Matrix(ABC):
    """K rows of p columns."""

    shape: tuple[int, int]
    centrable: NDArray[np.bool_]
    """Columns that centring does not fill."""

    @property
    @abstractmethod
    def stored(self) -> int:
        """Numbers of eight bytes that it takes."""

    @property
    @abstractmethod
    def n_dense(self) -> int:
        """Columns that every row has a number of."""

    @property
    @abstractmethod
    def T(self) -> Transposed: ...

    @abstractmethod
    def __matmul__(self, vector: Float) -> Float: ...

    @abstractmethod
    def __abs__(self) -> Products:
        """Absolute values, for products alone."""

    @abstractmethod
    def rows(self, which: NDArray[Any]) -> Float:
        """Some rows, dense."""

    @abstractmethod
    def part(self, first: int, last: int) -> Matrix:
        """The rows from ``first`` up to ``last``."""

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

    def normal(self, D: Float | None = None, n_jobs: int = 1) -> Normal:
        """The same as what normal equations are solved with."""
        return DenseNormal(self.gram(D, n_jobs))

    def heaviest(self, D: Float, cut: float) -> tuple[Matrix, Float]:
        """The rows whose part ``D |a|^2`` of a Gram matrix is not below ``cut`` times the largest, with their D.

        All of them where choosing would save little.
        """
        return self, D

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
    def stored(self) -> int:
        return self.array.size

    @property
    def n_dense(self) -> int:
        return self.shape[1]

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
        """``|a_k|^2``."""
        return np.asarray(np.einsum("ij,ij->i", self.array, self.array))

    def heaviest(self, D: Float, cut: float) -> tuple[Matrix, Float]:
        K, p = self.shape
        if p < FEWEST_COLUMNS:
            return self, D
        part = D * self.row_squares
        kept = part >= cut * float(part.max())
        fewest = min(K, ROWS_PER_COLUMN * p)
        if kept.sum() < fewest:  # fewer would leave directions of which the matrix knows nothing
            kept = part >= float(np.partition(part, K - fewest)[K - fewest])
        if kept.sum() > WORTH_CHOOSING * K:
            return self, D
        chosen, weights = self.array[kept], D[kept]
        # Beside rows of large numbers, those of a rare level are light, and all that is known of its coefficient.
        if (_diagonal(chosen, weights) < KEPT_DIAGONAL * _diagonal(self.array, D)).any():
            return self, D
        return Dense(chosen), weights

    def scaled_rows(self, factor: Float) -> Dense:
        return Dense(self.array * factor[:, None])

    def scaled_columns(self, factor: Float) -> Dense:
        # Few rows are multiplied by vectors faster column by column.
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
        # Where the Gram matrix has digits to spare it costs a tenth of an orthogonal factor with pivots.
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
        size = max(
            1, block_rows(self.shape[0], len(used))
        )  # adding a matrix of all columns has to be small beside computing it
        for rows in (slice(first, first + size) for first in range(0, max(1, self.shape[0]), size)):
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
    """Absolute values of an array, taken block by block where they are used: a copy of all would leave the cache."""

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


def blocks(array: Float) -> Iterator[slice]:
    """Rows of an array, as many at a time as stay in cache with a copy of them."""
    size = max(16, CACHED // max(1, array.shape[1]))
    for first in range(0, max(1, len(array)), size):
        yield slice(first, first + size)


def _diagonal(array: Float, D: Float) -> Float:
    """Of ``A' diag(D) A``."""
    return np.asarray(np.einsum("ij,ij,i->j", array, array, D))


def weakest_pivot(gram: Float) -> float | None:
    """The smallest relative pivot, if it is so large that a Gram matrix can tell."""
    upper, failed = linalg.lapack.dpotrf(gram, clean=0) if len(gram) else (gram, 0)
    weakest = 0.0 if failed else relative_pivot(upper)
    return weakest if weakest > WELL_CONDITIONED else None


def relative_pivot(triangle: Float) -> float:
    """The smallest number on the diagonal over the largest."""
    pivots = np.abs(triangle.diagonal())
    return float(pivots.min() / pivots.max()) if len(pivots) else 1.0
