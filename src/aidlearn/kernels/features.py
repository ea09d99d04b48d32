"""Kernels as features: a factor of the Gram matrix turns a kernel machine into a linear one.

With K = F F' the linear machine on the rows of F is the kernel machine. Pivoted Cholesky gives F = K(:, P) R^-1 for
pivots P with K(P, P) = R'R: all directions of the matrix for a few thousand rows, those of a sample of rows
(Nystroem's approximation) beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.data.source import Float, Int
from aidlearn.kernels.functions import Kernel

EXACT_ROWS = 3000
"""Up to this number of rows the whole Gram matrix is factored."""
LANDMARKS = 1000
"""Rows that represent the others beyond."""
ROUGH = 1e-6
"""Part of the largest value by which two values of a kernel matrix may differ that should be equal."""
TILE = 1024
"""Rows and columns of a matrix that are looked at together."""
INDEFINITE = 1e-6
"""Part of the largest diagonal entry that a residual of the factor may reach before the kernel is refused."""


@dataclass(frozen=True)
class KernelFeatures:
    """Features of the training rows, and what new rows need."""

    kernel: Kernel
    features: Float
    landmarks: Any
    """Rows of the pivots (their indices if the kernel is precomputed)."""
    triangle: Float

    def scores(self, X: Any, expansion: Float) -> Float:
        """``K(X, landmarks) @ expansion'``, a block of rows at a time."""
        step = 4096
        blocks = [self.kernel.block(X[k : k + step], self.landmarks) @ expansion.T for k in range(0, X.shape[0], step)]
        return np.concatenate(blocks)

    def expansion(self, w: Float) -> Float:
        """Coefficients of the landmarks: ``w'f(x) = K(x, landmarks) @ expansion``."""
        return linalg.solve_triangular(self.triangle, w, check_finite=False)


def kernel_features(
    kernel: Kernel, X: Any, n_components: int | None, rng: np.random.Generator, exact_rows: int = EXACT_ROWS
) -> KernelFeatures:
    """Factor the Gram matrix of the rows of X, or of a sample of them."""
    n = X.shape[0]
    everything = n <= exact_rows if n_components is None else n_components >= n
    rows = np.arange(n) if everything else np.sort(rng.choice(n, n_components or LANDMARKS, replace=False))
    gram = _gram(kernel, X, rows)
    pivots, triangle = _factor(gram)
    chosen = rows[pivots]
    landmarks = chosen if kernel.precomputed else X[chosen]
    if everything:
        columns = gram[:, pivots]
    else:
        columns = np.concatenate([kernel.block(X[k : k + 4096], landmarks) for k in range(0, n, 4096)])
    features = linalg.solve_triangular(triangle, columns.T, trans="T", check_finite=False).T
    return KernelFeatures(kernel, np.ascontiguousarray(features), landmarks, triangle)


def check_kernel_matrix(kernel: Kernel, X: Any, rows: NDArray[Any]) -> None:
    """Refuse a kernel whose matrix of some rows is not finite, symmetric and positive semidefinite."""
    _factor(_gram(kernel, X, rows))


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
            if uneven.max(initial=0.0) > ROUGH * max(largest, float(np.abs(tile).max())):
                row, column = np.unravel_index(int(uneven.argmax()), uneven.shape)
                raise ValueError(f"The kernel matrix is not symmetric at rows {i + int(row)} and {j + int(column)}.")
            beyond = np.abs(tile) - lengths[here, None] * lengths[there]
            if beyond.max(initial=0.0) > ROUGH * largest:
                row, column = np.unravel_index(int(beyond.argmax()), beyond.shape)
                raise ValueError(
                    f"The kernel matrix is not positive semidefinite: the kernel of rows {i + int(row)} and "
                    f"{j + int(column)} is larger than those with themselves allow."
                )


def _dense(block: Any) -> Float:
    return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)


def _gram(kernel: Kernel, X: Any, rows: NDArray[Any]) -> Float:
    gram = kernel.block(X[rows], rows if kernel.precomputed else X[rows])
    bad = np.argwhere(~np.isfinite(gram))
    if len(bad):
        row, column = (int(rows[k]) for k in bad[0])
        raise ValueError(f"The kernel of rows {row} and {column} is not a finite number.")
    uneven = float(np.abs(gram - gram.T).max())
    if uneven > ROUGH * float(np.abs(gram).max()):
        raise ValueError("The kernel matrix is not symmetric.")
    return gram


def _factor(gram: Float) -> tuple[Int, Float]:
    """Pivots and upper triangular R with ``gram[pivots][:, pivots] = R'R``; refuses an indefinite matrix."""
    largest = float(np.diag(gram).max(initial=0.0))
    if largest <= 0:
        raise ValueError("The kernel matrix has no positive diagonal entry, so it is not positive semidefinite.")
    triangle, order, rank, _ = linalg.lapack.dpstrf(gram, tol=1e-12 * largest * len(gram))
    order = order.astype(np.int64) - 1
    if rank < len(gram):
        top = np.triu(triangle)[:rank]
        rest = gram[np.ix_(order[rank:], order[rank:])] - top[:, rank:].T @ top[:, rank:]
        if float(np.abs(rest).max()) > INDEFINITE * largest:
            raise ValueError(
                "The kernel matrix is not positive semidefinite, so neither a bound nor an optimum would be true; "
                "use another kernel."
            )
    return order[:rank], np.triu(triangle)[:rank, :rank]
