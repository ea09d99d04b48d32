"""Kernel functions by name: blocks of the Gram matrix in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial import distance
from sklearn.metrics.pairwise import pairwise_kernels

from aidlearn.data.source import Float

FAR = 1e3
"""Exponent of the rbf kernel from which on distances are computed row by row: differences of squares would cancel."""
NAMES = ("linear", "rbf", "poly", "precomputed")


@dataclass(frozen=True)
class Kernel:
    """A kernel with its constants; ``name`` may be a callable of two arrays that returns their Gram matrix."""

    name: str | Callable[[Any, Any], Any] = "rbf"
    gamma: float = 1.0
    degree: float = 3
    coef0: float = 0.0

    @property
    def precomputed(self) -> bool:
        return self.name == "precomputed"

    def of_products(self, products: Float) -> Float:
        """Values of the kernels linear and poly from inner products of rows."""
        return (self.gamma * products + self.coef0) ** self.degree if self.name == "poly" else products

    def block(self, X: Any, Z: Any) -> Float:
        """``K(x_i, z_j)``; the rows of Z are training rows (their indices if the matrix is precomputed)."""
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
        constants: dict[str, Any] = {}
        if self.name in ("rbf", "poly"):
            constants["gamma"] = self.gamma
        if self.name == "poly":
            constants |= {"degree": self.degree, "coef0": self.coef0}
        # float32 rows would give a float32 matrix, and that is not positive semidefinite to float64 rounding.
        X, Z = X.astype(np.float64, copy=False), Z.astype(np.float64, copy=False)
        if self.name == "rbf" and not sparse.issparse(X) and not sparse.issparse(Z):
            # Distances are differences of squares: without a common offset they keep their digits.
            centre = Z.mean(axis=0)
            X, Z = X - centre, Z - centre
            if self.gamma * max(_largest(X), _largest(Z)) > FAR:
                return np.exp(-self.gamma * distance.cdist(X, Z, "sqeuclidean"))
        return np.asarray(pairwise_kernels(X, Z, metric=self.name, **constants))


def _largest(X: Any) -> float:
    """Largest squared length of a row."""
    return float(np.einsum("ij,ij->i", X, X).max(initial=0.0))


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
    return Kernel(kernel, float(gamma), degree, float(coef0))


def _variance(X: Any, weight: Float) -> float:
    """Variance over all cells."""
    share = weight / (weight.sum() * X.shape[1])
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        return float(share @ X.multiply(X).sum(axis=1) - (share @ X.sum(axis=1)) ** 2)
    mean = float(share @ X.sum(axis=1, dtype=np.float64))
    return float(share @ np.square(X - mean, dtype=np.float64).sum(axis=1))
