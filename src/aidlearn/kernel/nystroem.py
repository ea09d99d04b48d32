"""Nystroem's approximation of a kernel: all rows as features in the span of a few landmark rows.

Not in the paper: it is the start of the kernel SVM (see :mod:`aidlearn.kernel.start`) and, for millions of rows, what
``SVC(approximation="nystroem")`` solves in place of its appendix B. Features have the rows' own precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import DataSource
from aidlearn.kernel.matrix import pivoted_cholesky
from aidlearn.kernel.rows import KernelRows
from aidlearn.numerics import Float, Int

NEGLIGIBLE = 1e-6
"""Part of the landmarks' largest squared length that a direction must have to become a feature."""
PART_ROWS = 1 << 14
"""Rows whose kernel with the landmarks is held at once."""


def landmark_map(rows: KernelRows, landmarks: Int) -> Float:
    """The matrix M with features ``K(x, landmarks) @ M``; ``w`` on features is ``M @ w`` on landmarks.

    Features are taken about the mean landmark (the intercept of the machine takes it up), so coefficients of landmarks
    sum to zero as those of a dual do. Directions that the landmarks hardly span, because they are few or alike, are
    left out: pivoted Cholesky finds them, whatever the rank.
    """
    gram = rows.block(landmarks, landmarks).astype(np.float64)
    gram = 0.5 * (gram + gram.T)
    # Landmarks of unit length: one that is far longer than the others does not hide them.
    lengths = np.sqrt(np.maximum(gram.diagonal(), 0.0))
    scale = np.where(lengths > 0, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)
    means = gram.mean(axis=0)
    centred = (gram - means - means[:, None] + means.mean()) * scale * scale[:, None]
    factor = pivoted_cholesky(centred, NEGLIGIBLE)
    if factor.rank == 0:
        return np.zeros((len(landmarks), 1))
    mapping = np.zeros((len(landmarks), factor.rank))
    inverse = linalg.solve_triangular(factor.triangle, np.eye(factor.rank), check_finite=False)
    mapping[factor.pivots] = scale[factor.pivots, None] * inverse
    return mapping - mapping.mean(axis=0)


def landmark_features(rows: KernelRows, landmarks: Int, mapping: Float, chosen: Int) -> NDArray[Any]:
    """Features of the chosen rows."""
    typed = mapping.astype(rows.dtype)
    features = np.empty((len(chosen), mapping.shape[1]), dtype=rows.dtype)
    for k in range(0, len(chosen), PART_ROWS):
        features[k : k + PART_ROWS] = rows.block(chosen[k : k + PART_ROWS], landmarks) @ typed
    return features


class LandmarkSource(DataSource):
    """Features computed anew in every pass, for those too many to keep."""

    def __init__(self, rows: KernelRows, landmarks: Int, mapping: Float, y: Float, weight: Float) -> None:
        self.rows, self.landmarks, self.mapping = rows, landmarks, mapping
        self.y, self.weight = y, weight
        self.n_entries, self.n_attributes = rows.n, mapping.shape[1]

    def chunk(self, k: int) -> Chunk:
        start = k * self.rows_per_chunk
        stop = min(start + self.rows_per_chunk, self.n_entries)
        features = landmark_features(self.rows, self.landmarks, self.mapping, np.arange(start, stop))
        return Chunk(start, stop, features, self.y[start:stop], self.weight[start:stop])
