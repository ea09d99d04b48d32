"""Nystroem's approximation: all rows as features in the span of a few landmark rows, in the rows' own precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.data.source import Chunk, DataSource, Float, Int
from aidlearn.kernels.rows import KernelRows

RIDGE = 1e-6
"""Added to the landmarks' kernel matrix, relative to its mean diagonal."""
PART = 1 << 14


def landmark_map(rows: KernelRows, landmarks: Int) -> Float:
    """The matrix M with features ``K(x, landmarks) @ M``; ``w`` on features is ``M @ w`` on landmarks."""
    gram = rows.block(landmarks, landmarks).astype(np.float64)
    gram = 0.5 * (gram + gram.T)
    gram[np.diag_indices_from(gram)] += RIDGE * max(float(np.trace(gram)) / len(gram), 1e-300)
    triangle = linalg.cholesky(gram, check_finite=False)
    return np.asarray(linalg.solve_triangular(triangle, np.eye(len(gram)), check_finite=False))


def landmark_features(rows: KernelRows, landmarks: Int, mapping: Float, chosen: Int) -> NDArray[Any]:
    """Features of the chosen rows."""
    typed = mapping.astype(rows.dtype)
    features = np.empty((len(chosen), mapping.shape[1]), dtype=rows.dtype)
    for k in range(0, len(chosen), PART):
        features[k : k + PART] = rows.block(chosen[k : k + PART], landmarks) @ typed
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
