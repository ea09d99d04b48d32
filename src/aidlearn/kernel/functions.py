"""Kernel functions by name, the k of the paper's appendix B: blocks of the Gram matrix in float64.

A bound needs a positive semidefinite kernel, so the names are those that are; a callable is up to the user.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import distance
from sklearn.metrics.pairwise import pairwise_kernels

from aidlearn.numerics import Float, Int

FAR = 1e3
"""Exponent of the rbf kernel from which on distances are computed row by row: differences of squares would cancel."""
CENTRE_ROWS = 10_000
"""Rows that the centre of all is estimated from."""
TINY = 1e-300
"""The least divisor, where nothing divided by nothing is to be nothing."""
EQUAL = 1e-14
"""Standard deviation over mean that rounding leaves of equal values."""
NAMES = ("linear", "rbf", "poly", "precomputed")


@dataclass(frozen=True)
class Kernel:
    """A kernel with its constants; ``name`` may be a callable of two arrays that returns their Gram matrix."""

    name: str | Callable[[Any, Any], Any] = "rbf"
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0
    centre: Float | None = field(default=None, compare=False)
    """Subtracted from dense rows: a common offset takes digits. Distances are the same, and so are products in a dual
    whose coefficients sum to zero; the intercept of a linear machine belongs to the rows without it."""

    @property
    def precomputed(self) -> bool:
        return self.name == "precomputed"

    def training_rows(self, X: Any, here: Int) -> Any:
        """Those of X that a machine is fitted to; of a precomputed matrix their values with one another."""
        if len(here) == X.shape[0]:
            return X
        return X[np.ix_(here, here)] if self.precomputed else X[here]

    def centred(self, X: Any) -> Any:
        """Dense rows without the common offset."""
        return X if self.centre is None or sparse.issparse(X) else X - self.centre

    def of_products(self, products: Float) -> Float:
        """Values of the kernels linear and poly from inner products of rows; repeated products for whole degrees."""
        if self.name != "poly":
            return products
        base = self.gamma * products + self.coef0
        if not float(self.degree).is_integer() or self.degree < 1:
            return np.asarray(base**self.degree)
        power = base.copy()
        for _ in range(int(self.degree) - 1):
            power *= base
        return power

    def block(self, X: Any, Z: Any) -> Float:
        """``K(x_i, z_j)``; the rows of Z are training rows (their indices if the matrix is precomputed).

        A value depends on its two rows alone, up to rounding: not on the other rows of X and Z.
        """
        if self.precomputed:
            columns = X[:, Z]
            return np.asarray(columns.toarray() if sparse.issparse(columns) else columns, dtype=np.float64)
        if callable(self.name):
            values = np.asarray(self.name(X, Z), dtype=np.float64)
            if values.shape != (X.shape[0], Z.shape[0]):
                raise ValueError(
                    f"The kernel function must return one value per pair of rows: expected shape "
                    f"{(X.shape[0], Z.shape[0])}, got {values.shape}."
                )
            return values
        # float32 rows would give a float32 matrix, and that is not positive semidefinite to float64 rounding.
        X, Z = X.astype(np.float64, copy=False), Z.astype(np.float64, copy=False)
        if sparse.issparse(X) or sparse.issparse(Z):
            return self._sparse_block(X, Z)
        if self.name == "rbf":
            return self._rbf(X, Z)
        return self.of_products(self.centred(X) @ self.centred(Z).T)

    def _rbf(self, X: Float, Z: Float) -> Float:
        """Distances are differences of squares, of rows far out differences of rows."""
        x, z = self.centred(X), self.centred(Z)
        x_squares, z_squares = np.einsum("ij,ij->i", x, x), np.einsum("ij,ij->i", z, z)
        squares = x @ z.T
        squares *= -2.0
        squares += x_squares[:, None]
        squares += z_squares
        far_x, far_z = self.gamma * x_squares > FAR, self.gamma * z_squares > FAR
        if far_x.any():
            squares[far_x] = distance.cdist(X[far_x], Z, "sqeuclidean")
        if far_z.any():
            squares[:, far_z] = distance.cdist(X, Z[far_z], "sqeuclidean")
        np.maximum(squares, 0.0, out=squares)
        squares *= -self.gamma
        return np.exp(squares, out=squares)

    def _sparse_block(self, X: Any, Z: Any) -> Float:
        constants: dict[str, Any] = {}
        if self.name in ("rbf", "poly"):
            constants["gamma"] = self.gamma
        if self.name == "poly":
            constants |= {"degree": self.degree, "coef0": self.coef0}
        return np.asarray(pairwise_kernels(X, Z, metric=self.name, **constants))


def kernel_from(
    kernel: Any, gamma: Any, degree: float, coef0: float, X: Any, weight: Float, names: tuple[str, ...] = NAMES
) -> Kernel:
    """The kernel an estimator's parameters ask for.

    ``gamma`` may be "scale" or "auto" as in scikit-learn; the variance of "scale" is weighted, so that a weight of 2
    equals a repeated row.
    """
    if isinstance(kernel, str) and kernel == "sigmoid":
        raise ValueError("kernel='sigmoid' is not positive semidefinite, so no bound holds; use 'rbf' or 'poly'.")
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
    """Median of each column: unlike a mean, it stays among the rows when some are far out."""
    some = X[:: max(1, X.shape[0] // CENTRE_ROWS)]
    middle = len(some) // 2
    return np.partition(some, middle, axis=0)[middle].astype(np.float64)


def _variance(X: Any, weight: Float) -> float:
    """Variance over all cells; 0 if it is no more than rounding leaves of equal ones."""
    share = weight / (weight.sum() * X.shape[1])
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        mean = float(share @ X.sum(axis=1))
        variance = float(share @ X.multiply(X).sum(axis=1) - mean**2)
    else:
        mean = float(share @ X.sum(axis=1, dtype=np.float64))
        variance = float(share @ np.square(X - mean, dtype=np.float64).sum(axis=1))
    return variance if variance > (EQUAL * mean) ** 2 else 0.0
