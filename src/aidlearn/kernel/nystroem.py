"""Nystroem's approximation of a kernel: all rows as features in the span of a few landmark rows.

It is not in the paper. The kernel SVM uses it as a start (see :mod:`aidlearn.kernel.start`), and
``SVC(approximation="nystroem")`` solves the approximated problem, for millions of rows. Features have the precision of
the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import DataSource
from aidlearn.kernel.functions import Floats
from aidlearn.kernel.matrix import pivoted_cholesky
from aidlearn.kernel.rows import KernelRows
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class NystroemSettings:
    """Sizes of the approximation."""

    negligible: float = 1e-6
    """Guess. Part of the landmarks' largest squared length above which a direction becomes a feature."""
    part_rows: int = 1 << 14
    """Rows whose kernel values with the landmarks are held at once: 39 MB of float64 for 300 landmarks."""


SETTINGS = NystroemSettings()


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
