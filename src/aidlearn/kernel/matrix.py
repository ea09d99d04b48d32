"""Kernel matrices: their pivoted Cholesky factor, checks that they are positive semidefinite, Nystroem features.

Bound and optimum of a kernel SVM (paper, appendix B) exist only if the kernel is positive semidefinite. Callables and
precomputed matrices are therefore checked before a fit.

Nystroem's approximation, which is not in the paper, represents all rows by features in the span of a few landmark rows.
The kernel SVM starts from it (:mod:`aidlearn.kernel.start`), and ``SVC(approximation="nystroem")`` solves the
approximated problem, for millions of rows. Features have the precision of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import DataSource
from aidlearn.kernel.functions import Floats, Kernel, dense
from aidlearn.kernel.rows import KernelRows
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class MatrixSettings:
    """Tolerances of the checks of kernel matrices, and sizes of Nystroem's approximation."""

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
    negligible: float = 1e-6
    """Guess. Part of the landmarks' largest squared length above which a direction becomes a feature."""
    part_rows: int = 1 << 14
    """Rows whose kernel values with the landmarks are held at once: 39 MB of float64 for 300 landmarks."""


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
    """Return the kernel matrix of some rows; refuse one that is not finite and symmetric."""
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
    """Factor a kernel matrix; refuse an indefinite one."""
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


def landmark_map(rows: KernelRows, landmarks: Int) -> Float:
    """Return M such that features are ``K(x, landmarks) @ M``; ``w`` on features is ``M @ w`` on landmarks.

    Features are centred at the mean landmark (the intercept of the machine absorbs it), so the coefficients of the
    landmarks sum to zero like those of a dual. Pivoted Cholesky leaves out directions that the landmarks hardly span.
    """
    gram = rows.block(landmarks, landmarks).astype(np.float64)
    gram = 0.5 * (gram + gram.T)
    # Landmarks have unit length, so that one that is far longer than the others does not hide them.
    lengths = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    scale = np.where(lengths > 0, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)
    means = gram.mean(axis=0)
    centred = (gram - means - means[:, None] + means.mean()) * scale * scale[:, None]
    factor = pivoted_cholesky(centred, SETTINGS.negligible)
    if factor.rank == 0:
        return np.zeros((len(landmarks), 1))
    mapping = np.zeros((len(landmarks), factor.rank))
    inverse = linalg.solve_triangular(factor.triangle, np.eye(factor.rank), check_finite=False)
    mapping[factor.pivots] = scale[factor.pivots, None] * inverse
    return mapping - mapping.mean(axis=0)


def landmark_features(rows: KernelRows, landmarks: Int, mapping: Float, chosen: Int) -> Floats:
    """Compute the features of the chosen rows."""
    typed = mapping.astype(rows.dtype)
    features = np.empty((len(chosen), mapping.shape[1]), dtype=rows.dtype)
    for k in range(0, len(chosen), SETTINGS.part_rows):
        part = slice(k, k + SETTINGS.part_rows)
        features[part] = rows.block(chosen[part], landmarks) @ typed
    return features


class LandmarkSource(DataSource):
    """A source whose features are computed again in every pass, because they do not fit into memory."""

    def __init__(self, rows: KernelRows, landmarks: Int, mapping: Float, y: Float, weight: Float) -> None:
        self.rows, self.landmarks, self.mapping = rows, landmarks, mapping
        self.y, self.weight = y, weight
        self.n_entries, self.n_attributes = rows.n, mapping.shape[1]

    def chunk(self, k: int) -> Chunk:
        start = k * self.rows_per_chunk
        stop = min(start + self.rows_per_chunk, self.n_entries)
        features = landmark_features(self.rows, self.landmarks, self.mapping, np.arange(start, stop))
        return Chunk(start, stop, features, self.y[start:stop], self.weight[start:stop])
