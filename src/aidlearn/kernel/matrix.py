"""Kernel matrices: their pivoted Cholesky factor, and whether a matrix is that of a kernel at all.

A bound or an optimum of a kernel SVM (paper, appendix B) is true only if the kernel is positive semidefinite, so what
is not known to be (a callable, a precomputed matrix) is looked at before a fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.kernel.functions import Kernel
from aidlearn.numerics import Float, Int

CHECKED_ROWS = 3000
"""Rows on which a kernel is found positive semidefinite or not: their factor takes a second."""
ASYMMETRY = 1e-6
"""Part of the largest value by which two values of a kernel matrix may differ that should be equal."""
TILE = 1024
"""Rows and columns of a matrix that are looked at together."""
INDEFINITE = 1e-6
"""Part of the largest diagonal entry that a residual of the factor may reach before the kernel is refused."""
RANK = 1e-12
"""Part of the largest diagonal entry, for each row, that a direction must have to belong to the factor."""


@dataclass(frozen=True)
class PivotedCholesky:
    """``matrix[order][:, order] = upper[:rank].T @ upper[:rank]``, up to directions smaller than a tolerance."""

    order: Int
    upper: Float
    rank: int

    @property
    def pivots(self) -> Int:
        """The rows that span the others."""
        return self.order[: self.rank]

    @property
    def triangle(self) -> Float:
        """R with ``matrix[pivots][:, pivots] = R'R``."""
        return self.upper[: self.rank, : self.rank]


def pivoted_cholesky(matrix: Float, tol: float) -> PivotedCholesky:
    """Factor a positive semidefinite matrix until no pivot is larger than ``tol``."""
    triangle, order, rank, _ = linalg.lapack.dpstrf(matrix, tol=tol)
    return PivotedCholesky(order.astype(np.int64) - 1, np.triu(triangle), int(rank))


def gram_matrix(kernel: Kernel, X: Any, rows: NDArray[Any]) -> Float:
    """The kernel matrix of some rows; refuses one that is not finite and symmetric."""
    gram = kernel.block(X[rows], rows if kernel.precomputed else X[rows])
    bad = np.argwhere(~np.isfinite(gram))
    if len(bad):
        row, column = (int(rows[k]) for k in bad[0])
        raise ValueError(f"The kernel of rows {row} and {column} is not a finite number.")
    uneven = float(np.abs(gram - gram.T).max())
    if uneven > ASYMMETRY * float(np.abs(gram).max()):
        raise ValueError("The kernel matrix is not symmetric.")
    return gram


def factor_gram(gram: Float) -> PivotedCholesky:
    """The factor of a kernel matrix; refuses an indefinite one."""
    largest = float(np.diag(gram).max(initial=0.0))
    if largest <= 0:
        raise ValueError("The kernel matrix has no positive diagonal entry, so it is not positive semidefinite.")
    factor = pivoted_cholesky(gram, RANK * largest * len(gram))
    if factor.rank < len(gram):
        left = factor.order[factor.rank :]
        top = factor.upper[: factor.rank, factor.rank :]
        rest = gram[np.ix_(left, left)] - top.T @ top
        if float(np.abs(rest).max()) > INDEFINITE * largest:
            raise ValueError(
                "The kernel matrix is not positive semidefinite, so neither a bound nor an optimum would be true; "
                "use another kernel."
            )
    return factor


def check_kernel_matrix(kernel: Kernel, X: Any, rows: NDArray[Any]) -> None:
    """Refuse a kernel whose matrix of some rows is not finite, symmetric and positive semidefinite."""
    factor_gram(gram_matrix(kernel, X, rows))


def check_whole_matrix(K: Any) -> None:
    """Refuse a precomputed matrix that is not symmetric, or not positive semidefinite in any two rows.

    Finite it is already. Both take one look at each value, so that they are feasible for any matrix that is there.
    """
    diagonal = np.asarray(K.diagonal(), dtype=np.float64)
    largest = float(np.abs(diagonal).max(initial=0.0))
    if (diagonal < 0).any():
        raise ValueError(
            f"The kernel matrix is not positive semidefinite: that of row {int(diagonal.argmin())} with itself is "
            f"{diagonal.min():g}."
        )
    lengths = np.sqrt(diagonal)
    n = K.shape[0]
    for i in range(0, n, TILE):
        for j in range(0, i + TILE, TILE):
            here, there = slice(i, i + TILE), slice(j, j + TILE)
            tile, mirror = _dense(K[here, there]), _dense(K[there, here])
            uneven = np.abs(tile - mirror.T)
            if uneven.max(initial=0.0) > ASYMMETRY * max(largest, float(np.abs(tile).max())):
                row, column = np.unravel_index(int(uneven.argmax()), uneven.shape)
                raise ValueError(f"The kernel matrix is not symmetric at rows {i + int(row)} and {j + int(column)}.")
            beyond = np.abs(tile) - lengths[here, None] * lengths[there]
            if beyond.max(initial=0.0) > ASYMMETRY * largest:
                row, column = np.unravel_index(int(beyond.argmax()), beyond.shape)
                raise ValueError(
                    f"The kernel matrix is not positive semidefinite: the kernel of rows {i + int(row)} and "
                    f"{j + int(column)} is larger than those with themselves allow."
                )


def _dense(block: Any) -> Float:
    return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)
