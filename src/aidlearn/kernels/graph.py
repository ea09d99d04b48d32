"""Heat kernel of a nearest-neighbour graph of all rows, labelled or not: ``exp(-t L)`` with unit diagonal.

L is the normalised Laplacian. Scores of rows outside the graph are means over their nearest rows in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.neighbors import NearestNeighbors

from aidlearn.data.source import Float

DENSE_ROWS = 4000
"""Up to this number of rows all eigenvectors are computed."""
EIGENVECTORS = 300
"""Smoothest eigenvectors that are kept beyond."""


@dataclass(frozen=True)
class GraphFeatures:
    """Features of the rows of the graph, and its index of neighbours."""

    features: Float
    index: NearestNeighbors
    width: float
    n_neighbors: int

    def extend(self, X: Any, values: Float) -> Float:
        """Values of new rows from those of the rows of the graph: weighted means over neighbours."""
        distances, rows = self.index.kneighbors(X, self.n_neighbors)
        # Relative to the nearest, so that a row far from all others has weights too.
        squares = (distances / self.width) ** 2
        weights = np.exp(squares.min(axis=1, keepdims=True) - squares)
        return np.asarray((weights * values[rows]).sum(axis=1) / weights.sum(axis=1))


def graph_features(X: Any, n_neighbors: int, diffusion: float) -> GraphFeatures:
    """Features whose inner products are the heat kernel after time ``diffusion``."""
    n = X.shape[0]
    k = min(n_neighbors, n - 1)
    index = NearestNeighbors(n_neighbors=max(1, k)).fit(X)
    graph = index.kneighbors_graph(mode="distance") if k else sparse.csr_array((n, n))
    positive = graph.data[graph.data > 0]
    width = float(np.median(positive)) if len(positive) else 1.0
    graph.data = np.exp(-((graph.data / width) ** 2))
    graph = sparse.csr_array(graph.maximum(graph.T))
    degree = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1e-300)
    scaling = sparse.diags_array(1 / np.sqrt(degree))
    smooth = scaling @ graph @ scaling  # I - L
    if n <= DENSE_ROWS:
        values, vectors = linalg.eigh(smooth.toarray(), check_finite=False, driver="evd")
        kept = values > values[-1] - 30 / diffusion  # the others have a factor below exp(-15)
        values, vectors = values[kept], vectors[:, kept]
    else:
        start = np.random.default_rng(0).standard_normal(n)
        values, vectors = sparse.linalg.eigsh(smooth, min(EIGENVECTORS, n - 2), which="LA", v0=start, tol=1e-6)
    features = vectors * np.exp(0.5 * diffusion * (values - 1))
    norms = np.sqrt(np.einsum("ij,ij->i", features, features))
    features /= np.where(norms > 0, norms, 1.0)[:, None]
    return GraphFeatures(np.ascontiguousarray(features), index, width, max(1, k))
