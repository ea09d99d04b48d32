"""Kernel functions by name, the k of the paper's appendix B, and checks of their matrices.

A kernel SVM has a lower bound and an optimum only if its kernel is positive semidefinite. Named kernels are; callables
and precomputed matrices are checked before a fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.spatial import distance
from sklearn.metrics.pairwise import pairwise_kernels

from aidlearn.numerics import Float, Int

Floats = NDArray[np.floating[Any]]
"""An array of any floating type."""
Scalar = TypeVar("Scalar", bound=np.floating[Any])
TINY = 1e-300
"""The smallest divisor; it makes 0 / 0 zero."""
NAMES = ("linear", "rbf", "poly", "precomputed")


@dataclass(frozen=True)
class FunctionSettings:
    """Numerical limits of the kernel functions, and tolerances of the checks of their matrices."""

    far_exponent: float = 1e3
    """Exponent of the rbf kernel beyond which distances are computed from differences of rows: differences of squares
    lose ``log10(1e3)`` digits there."""
    centre_rows: int = 10_000
    """Guess. Approximate size of the sample from which the centre of all rows is estimated."""
    equal_deviation: float = 1e-14
    """Ratio of standard deviation to mean that rounding gives equal values (a few float64 units)."""
    checked_rows: int = 3000
    """Maximum rows of the matrix that is factored to check a kernel, which takes a second."""
    asymmetry: float = 1e-6
    """Guess. Maximum difference of values that should be equal, as a fraction of the largest value."""
    tile: int = 1024
    """Rows and columns of a matrix checked at once: 8 MB."""
    indefinite: float = 1e-6
    """Guess. Residual of the factor that shows an indefinite kernel, as a fraction of the largest diagonal entry."""
    gram_rank: float = 1e-12
    """Guess. Pivot at which the factorisation ends, as a fraction of the largest diagonal entry, per row."""


SETTINGS = FunctionSettings()


@dataclass(frozen=True)
class Kernel:
    """A kernel and its parameters; ``name`` may be a callable of two arrays that returns their Gram matrix."""

    name: str | Callable[[Any, Any], Any] = "rbf"
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0
    centre: Float | None = field(default=None, compare=False)
    """Row that is subtracted from dense rows, because a common offset costs digits. Distances do not change, nor do
    products in a dual whose coefficients sum to zero; a linear machine's intercept refers to the original rows."""

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> Kernel:
        """Restore a kernel from the field values in a file; other values are ignored."""
        if values["name"] not in NAMES:
            raise ValueError(f"it holds a kernel that this version of aidlearn does not know, {values['name']!r}")
        return cls(**{field.name: values[field.name] for field in fields(cls)})

    @property
    def precomputed(self) -> bool:
        """Whether the rows are rows of a kernel matrix."""
        return self.name == "precomputed"

    @property
    def whole_degree(self) -> bool:
        """Whether powers are repeated products (false only for poly with a fractional degree)."""
        return self.name != "poly" or float(self.degree).is_integer()

    def training_rows(self, X: Any, here: Int) -> Any:
        """Select rows of X, or rows and columns of a precomputed matrix."""
        if len(here) == X.shape[0]:
            return X
        return X[np.ix_(here, here)] if self.precomputed else X[here]

    def centred(self, X: Any) -> Any:
        """Subtract the common offset from dense rows."""
        return X if self.centre is None or sparse.issparse(X) else X - self.centre

    def of_products(self, products: NDArray[Scalar]) -> NDArray[Scalar]:
        """Apply the linear or poly kernel to inner products of rows; integer powers are repeated products."""
        if self.name != "poly":
            return products
        base = np.asarray(self.gamma * products + self.coef0, dtype=products.dtype)
        if not self.whole_degree or self.degree < 1:
            return np.asarray(base**self.degree, dtype=products.dtype)
        power = base.copy()
        for _ in range(int(self.degree) - 1):
            power *= base
        return power

    def block(self, X: Any, Z: Any) -> Float:
        """Return ``K(x_i, z_j)``; Z holds training rows, or their numbers if the matrix is precomputed.

        A value depends only on its two rows, up to rounding.
        """
        if self.precomputed:
            return np.asarray(dense(X[:, Z]), dtype=np.float64)
        if callable(self.name):
            values = np.asarray(self.name(X, Z), dtype=np.float64)
            if values.shape != (X.shape[0], Z.shape[0]):
                raise ValueError(
                    f"The kernel function must return one value per pair of rows: expected shape "
                    f"{(X.shape[0], Z.shape[0])}, got {values.shape}."
                )
            return values
        # A float32 matrix is not positive semidefinite to float64 rounding.
        X, Z = X.astype(np.float64, copy=False), Z.astype(np.float64, copy=False)
        if sparse.issparse(X) or sparse.issparse(Z):
            constants = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
            return np.asarray(pairwise_kernels(X, Z, metric=self.name, filter_params=True, **constants))
        if self.name == "rbf":
            return self._rbf(X, Z)
        return self.of_products(self.centred(X) @ self.centred(Z).T)

    def _rbf(self, X: Float, Z: Float) -> Float:
        """Compute the rbf kernel; distances come from squares, or from differences for rows far from the centre."""
        x, z = self.centred(X), self.centred(Z)
        x_squares, z_squares = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", z, z)
        squares = x @ z.T
        squares *= -2.0
        squares += x_squares[:, None]
        squares += z_squares
        far_x, far_z = (self.gamma * squares > SETTINGS.far_exponent for squares in (x_squares, z_squares))
        if far_x.any():
            squares[far_x] = distance.cdist(X[far_x], Z, "sqeuclidean")
        if far_z.any():
            squares[:, far_z] = distance.cdist(X, Z[far_z], "sqeuclidean")
        np.maximum(squares, 0.0, out=squares)
        squares *= -self.gamma
        return np.exp(squares, out=squares)


def dense(X: Any) -> Any:
    """Return a sparse matrix as an array, and an array unchanged."""
    return X.toarray() if sparse.issparse(X) else X


def kernel_from(
    kernel: Any, gamma: Any, degree: float, coef0: float, X: Any, weight: Float, names: tuple[str, ...] = NAMES
) -> Kernel:
    """Build the kernel that an estimator's parameters describe.

    ``gamma`` may be "scale" or "auto" as in scikit-learn; the variance of "scale" is weighted: a weight of 2 equals a
    repeated row.
    """
    if isinstance(kernel, str) and kernel == "sigmoid":
        raise ValueError("kernel='sigmoid' is not positive semidefinite, so no bound would hold; use 'rbf' or 'poly'.")
    if not callable(kernel) and kernel not in names:
        raise ValueError(f"kernel must be one of {', '.join(map(repr, names))} or a callable, got {kernel!r}.")
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise ValueError(f"gamma must be 'scale', 'auto' or a positive number, got {gamma!r}.")
        spread = _variance(X, weight) if gamma == "scale" else 1.0
        gamma = 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
    elif not (isinstance(gamma, (int, float, np.number)) and np.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma must be 'scale', 'auto' or a positive number, got {gamma!r}.")
    centre = None if sparse.issparse(X) or kernel not in ("rbf", "linear") else _middle(X)
    return Kernel(kernel, float(gamma), degree, float(coef0), centre)


def _middle(X: Any) -> Float:
    """Return the median of each column of a sample: unlike a mean, it ignores outliers."""
    sample = X[:: max(1, X.shape[0] // SETTINGS.centre_rows)]
    middle = len(sample) // 2
    return np.partition(sample, middle, axis=0)[middle].astype(np.float64)


def _variance(X: Any, weight: Float) -> float:
    """Return the variance over all cells, or 0 if it is rounding error of equal cells."""
    share = weight / (weight.sum() * X.shape[1])
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        mean = float(share @ X.sum(axis=1))
        variance = float(share @ X.multiply(X).sum(axis=1) - mean**2)
    else:
        mean = float(share @ X.sum(axis=1, dtype=np.float64))
        variance = float(share @ np.square(X - mean, dtype=np.float64).sum(axis=1))
    return variance if variance > (SETTINGS.equal_deviation * mean) ** 2 else 0.0


@dataclass(frozen=True)
class PivotedCholesky:
    """``matrix[order][:, order] = upper[:rank].T @ upper[:rank]``, up to directions smaller than a tolerance."""

    order: Int
    upper: Float
    rank: int

    @property
    def pivots(self) -> Int:
        """Row numbers of the pivots, whose rows span the others."""
        return self.order[: self.rank]

    @property
    def triangle(self) -> Float:
        """The triangle R with ``matrix[pivots][:, pivots] = R'R``."""
        return self.upper[: self.rank, : self.rank]


def pivoted_cholesky(matrix: Float, tol: float) -> PivotedCholesky:
    """Factor a positive semidefinite matrix until no pivot exceeds ``tol``."""
    triangle, order, rank, _ = linalg.lapack.dpstrf(matrix, tol=tol)
    return PivotedCholesky(order.astype(np.int64) - 1, np.triu(triangle), int(rank))


def gram_matrix(kernel: Kernel, X: Any, rows: NDArray[Any]) -> Float:
    """Return the kernel matrix of the given rows; raise an error unless it is finite and symmetric."""
    gram = kernel.block(X[rows], rows if kernel.precomputed else X[rows])
    bad = np.argwhere(~np.isfinite(gram))
    if len(bad):
        row, column = (int(rows[k]) for k in bad[0])
        raise ValueError(f"The kernel of rows {row} and {column} is not a finite number.")
    uneven = float(np.abs(gram - gram.T).max())
    if uneven > SETTINGS.asymmetry * float(np.abs(gram).max()):
        raise ValueError("The kernel matrix is not symmetric.")
    return gram


def factor_gram(gram: Float) -> PivotedCholesky:
    """Factor a kernel matrix; raise an error if it is indefinite."""
    largest = float(np.diag(gram).max(initial=0.0))
    if largest <= 0:
        raise ValueError("The kernel matrix has no positive diagonal entry, so it is not positive semidefinite.")
    factor = pivoted_cholesky(gram, SETTINGS.gram_rank * largest * len(gram))
    if factor.rank < len(gram):
        left = factor.order[factor.rank :]
        top = factor.upper[: factor.rank, factor.rank :]
        rest = gram[np.ix_(left, left)] - top.T @ top
        if float(np.abs(rest).max()) > SETTINGS.indefinite * largest:
            raise ValueError(
                "The kernel matrix is not positive semidefinite, so neither a bound nor an optimum exists; use "
                "another kernel."
            )
    return factor


def check_whole_matrix(K: Any) -> None:
    """Raise an error unless a precomputed matrix is symmetric, and positive semidefinite on every pair of rows.

    The matrix is known to be finite. Each value is read once, so the check is feasible for any matrix in memory.
    """
    diagonal = np.asarray(K.diagonal(), dtype=np.float64)
    largest = float(np.abs(diagonal).max(initial=0.0))
    if (diagonal < 0).any():
        raise ValueError(
            f"The kernel matrix is not positive semidefinite: the kernel of row {int(diagonal.argmin())} with itself "
            f"is {diagonal.min():g}."
        )
    lengths = np.sqrt(diagonal)
    n, size = K.shape[0], SETTINGS.tile
    for i in range(0, n, size):
        for j in range(0, i + size, size):
            here, there = slice(i, i + size), slice(j, j + size)
            tile, mirror = (np.asarray(dense(K[at]), dtype=np.float64) for at in ((here, there), (there, here)))
            uneven = np.abs(tile - mirror.T)
            if uneven.max(initial=0.0) > SETTINGS.asymmetry * max(largest, float(np.abs(tile).max())):
                row, column = np.unravel_index(int(uneven.argmax()), uneven.shape)
                raise ValueError(f"The kernel matrix is not symmetric at rows {i + int(row)} and {j + int(column)}.")
            beyond = np.abs(tile) - lengths[here, None] * lengths[there]
            if beyond.max(initial=0.0) > SETTINGS.asymmetry * largest:
                row, column = np.unravel_index(int(beyond.argmax()), beyond.shape)
                raise ValueError(
                    f"The kernel matrix is not positive semidefinite: the kernel of rows {i + int(row)} and "
                    f"{j + int(column)} is larger than those with themselves allow."
                )
