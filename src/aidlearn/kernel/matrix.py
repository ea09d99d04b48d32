"""Kernel matrices: their pivoted Cholesky factor, and checks that they are positive semidefinite.

Bound and optimum of a kernel SVM (paper, appendix B) exist only if the kernel is positive semidefinite. Callables and
precomputed matrices are therefore checked before a fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.kernel.functions import Kernel, dense
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class MatrixSettings:
    """Tolerances of the checks of kernel matrices."""

    checked_rows: int = 3000
    """Maximum rows of the matrix that is factored to check a kernel: their factor takes a second."""
    asymmetry: float = 1e-6
    """Guess. Part of the largest value by which two values that should be equal may differ."""
    tile: int = 1024
    """Rows and columns of a matrix that are checked together: 8 MB."""
    indefinite: float = 1e-6
    """Guess. Part of the largest diagonal entry above which a residual of the factor shows an indefinite kernel."""
    rank: float = 1e-12
    """Guess. Part of the largest diagonal entry, per row, below which a pivot ends the factor."""


SETTINGS = MatrixSettings()


@dataclass(frozen=True)
class PivotedCholesky:
    """``matrix[order][:, order] = upper[:rank].T @ upper[:rank]``, up to directions smaller than a tolerance."""

    order: Int
    upper: Float
    rank: int

    @property
    def pivots(self) -> Int:
        """Numbers of the rows that span the others."""
        return self.order[: self.rank]

    @property
    def triangle(self) -> Float:
        """R with ``matrix[pivots][:, pivots] = R'R``."""
        return self.upper[: self.rank, : self.rank]


def pivoted_cholesky(matrix: Float, tol: float) -> PivotedCholesky:
    """Factor a positive semidefinite matrix until no pivot exceeds ``tol``."""
    triangle, order, rank, _ = linalg.lapack.dpstrf(matrix, tol=tol)
    return PivotedCholesky(order.astype(np.int64) - 1, np.triu(triangle), int(rank))


def gram_matrix(kernel: Kernel, X: Any, rows: NDArray[Any]) -> Float:
    """Return the kernel matrix of some rows; refuses one that is not finite and symmetric."""
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
    """Factor a kernel matrix; refuses an indefinite one."""
    largest = float(np.diag(gram).max(initial=0.0))
    if largest <= 0:
        raise ValueError("The kernel matrix has no positive diagonal entry, so it is not positive semidefinite.")
    factor = pivoted_cholesky(gram, SETTINGS.rank * largest * len(gram))
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


def check_kernel_matrix(kernel: Kernel, X: Any, rows: NDArray[Any]) -> None:
    """Refuse a kernel whose matrix of some rows is not finite, symmetric and positive semidefinite."""
    factor_gram(gram_matrix(kernel, X, rows))


def check_whole_matrix(K: Any) -> None:
    """Refuse a precomputed matrix that is not symmetric, or not positive semidefinite in some pair of rows.

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
