"""Kernels as features: what turns the semi-supervised SVM (paper, section 3.3) with a kernel into a linear one.

With K = F F' the linear machine on the rows of F is the kernel machine. Pivoted Cholesky gives F = K(:, P) R^-1 for
pivots P with K(P, P) = R'R: all directions of the matrix for a few thousand rows, those of a sample of rows
(Nystroem's approximation) beyond. The graph kernel is ``exp(-t L)`` with unit diagonal, the heat kernel of a graph of
nearest neighbours of all rows, labelled or not; L is its normalised Laplacian, and its features are eigenvectors.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.neighbors import NearestNeighbors

from aidlearn.kernel.functions import TINY, Kernel
from aidlearn.kernel.matrix import factor_gram, gram_matrix
from aidlearn.numerics import Float

EXACT_ROWS = 3000
"""Up to this number of rows the whole Gram matrix is factored."""
LANDMARKS = 1000
"""Rows that represent the others beyond."""
BLOCK_ROWS = 4096
"""Rows whose kernel with the landmarks is held at once."""
HURRIED_VECTORS, HURRIED_PRODUCTS = 30, 30
"""Eigenvectors, roughly, where time is over: enough for a usable machine."""
HURRIED_LANDMARKS = 200
"""Rows that represent the others then."""
FACTOR_SECONDS = 5e-11
"""Of features, for each row and pair of landmarks, about."""
HURRIED_TURNS = 6
"""Products after which the subspace is made orthogonal again."""
TREE_COLUMNS = 6
"""Most columns of rows whose neighbours are found by a tree."""
DENSE_ROWS = 4000
"""Up to this number of rows all eigenvectors of the graph are computed."""
DENSE_SECONDS = 5e-10
"""Per n^3, about: nothing can stop a dense solver, so it is not begun where time is short."""
EIGENVECTORS = 300
"""Smoothest eigenvectors that are kept beyond."""
EIGENVALUE_ACCURACY = 1e-6
"""Relative accuracy of these: features need no more digits than data have."""
DECAY = 15
"""Eigenvectors with a factor of less than exp(-15) times the largest are left out."""


@dataclass(frozen=True)
class KernelFeatures:
    """Features of the training rows, and what new rows need."""

    kernel: Kernel
    features: Float
    landmarks: Any
    """Rows of the pivots (their indices if the kernel is precomputed)."""
    triangle: Float
    n_sampled: int = 0
    """Rows that the kernel was factored of; 0 in files that do not say so."""

    def scores(self, X: Any, expansion: Float) -> Float:
        """``K(X, landmarks) @ expansion'``, a block of rows at a time."""
        parts = [X[k : k + BLOCK_ROWS] for k in range(0, X.shape[0], BLOCK_ROWS)]
        return np.concatenate([self.kernel.block(part, self.landmarks) @ expansion.T for part in parts])

    def expansion(self, w: Float) -> Float:
        """Coefficients of the landmarks: ``w'f(x) = K(x, landmarks) @ expansion``."""
        return linalg.solve_triangular(self.triangle, w, check_finite=False)


def kernel_features(
    kernel: Kernel, X: Any, n_components: int | None, rng: np.random.Generator, deadline: float = math.inf
) -> KernelFeatures:
    """Factor the Gram matrix of the rows of X, or of a sample of them: a small one once the deadline is over.

    What the caller asks for by ``n_components`` is not made smaller.
    """
    n = X.shape[0]
    wanted = n_components or (n if n <= EXACT_ROWS else LANDMARKS)
    if n_components is None and FACTOR_SECONDS * n * wanted**2 > deadline - time.monotonic():
        wanted = min(wanted, HURRIED_LANDMARKS)
    everything = wanted >= n
    rows = np.arange(n) if everything else np.sort(rng.choice(n, wanted, replace=False))
    gram = gram_matrix(kernel, X, rows)
    factor = factor_gram(gram)
    pivots, triangle = factor.pivots, factor.triangle
    chosen = rows[pivots]
    landmarks = chosen if kernel.precomputed else X[chosen]
    if everything:
        columns = gram[:, pivots]
    else:
        parts = [X[k : k + BLOCK_ROWS] for k in range(0, n, BLOCK_ROWS)]
        columns = np.concatenate([kernel.block(part, landmarks) for part in parts])
    features = linalg.solve_triangular(triangle, columns.T, trans="T", check_finite=False).T
    return KernelFeatures(kernel, np.ascontiguousarray(features), landmarks, triangle, len(rows))


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


def neighbour_index(X: Any, n_neighbors: int) -> NearestNeighbors:
    """Trees of more than a few columns take longer than to compare all rows (scikit-learn's choice: up to 15)."""
    algorithm = "brute" if X.shape[1] > TREE_COLUMNS else "auto"
    return NearestNeighbors(n_neighbors=n_neighbors, algorithm=algorithm).fit(X)


class _Late(Exception):
    """The deadline of an eigenvalue problem has passed."""


def _leading(smooth: Any, n_kept: int, deadline: float) -> tuple[Float, Float]:
    """Leading eigenvalues and vectors; at the deadline those of a small subspace, which a few products give."""
    rng = np.random.default_rng(0)
    n = smooth.shape[0]

    def product(vector: Float) -> Float:
        if time.monotonic() > deadline:
            raise _Late
        return np.asarray(smooth @ vector)

    operator = sparse.linalg.LinearOperator(smooth.shape, matvec=product, dtype=np.float64)
    try:
        return sparse.linalg.eigsh(operator, n_kept, which="LA", v0=rng.standard_normal(n), tol=EIGENVALUE_ACCURACY)
    except _Late:
        basis = rng.standard_normal((n, min(HURRIED_VECTORS, n_kept)))
        for k in range(HURRIED_PRODUCTS):  # (I + S) / 2 has no negative eigenvalues to be mistaken for large ones
            basis = 0.5 * (basis + smooth @ basis)
            if (k + 1) % HURRIED_TURNS == 0:
                basis = linalg.qr(basis, mode="economic", check_finite=False)[0]
        values, turned = linalg.eigh(basis.T @ (smooth @ basis), check_finite=False)
        return values, basis @ turned


@dataclass(frozen=True)
class Spectrum:
    """Eigenvectors of a graph of nearest neighbours: the heat kernels of all times have the same."""

    values: Float
    """Of I - L, rising."""
    vectors: Float
    index: NearestNeighbors
    width: float
    n_neighbors: int

    @classmethod
    def of(cls, X: Any, n_neighbors: int, deadline: float = math.inf, least_diffusion: float = 0.0) -> Spectrum:
        """Of the rows of X, as far as times of at least ``least_diffusion`` need it; less once the deadline is over."""
        n = X.shape[0]
        k = min(n_neighbors, n - 1)
        index = neighbour_index(X, max(1, k))
        graph = index.kneighbors_graph(mode="distance") if k else sparse.csr_array((n, n))
        positive = graph.data[graph.data > 0]
        width = float(np.median(positive)) if len(positive) else 1.0
        graph.data = np.exp(-((graph.data / width) ** 2))
        graph = sparse.csr_array(graph.maximum(graph.T))
        degree = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), TINY)
        scaling = sparse.diags_array(1 / np.sqrt(degree))
        smooth = scaling @ graph @ scaling  # I - L
        if n <= DENSE_ROWS and DENSE_SECONDS * n**3 <= deadline - time.monotonic():
            values, vectors = linalg.eigh(smooth.toarray(), check_finite=False, driver="evd")
            if least_diffusion:
                kept = values > values[-1] - 2 * DECAY / least_diffusion
                values, vectors = values[kept], vectors[:, kept]
        else:
            values, vectors = _leading(smooth, min(EIGENVECTORS, n - 2), deadline)
        return cls(values, vectors, index, width, max(1, k))

    def rows(self, chosen: Any, diffusion: float) -> Float:
        """Features of some rows: of unit length, inner products are the heat kernel."""
        kept = self.values > self.values.max() - 2 * DECAY / diffusion
        features = self.vectors[chosen][:, kept] * np.exp(0.5 * diffusion * (self.values[kept] - 1))
        norms = np.sqrt(np.einsum("ij,ij->i", features, features))
        return np.asarray(features / np.where(norms > 0, norms, 1.0)[:, None])

    def features(self, diffusion: float) -> GraphFeatures:
        """Of all rows."""
        return GraphFeatures(
            np.ascontiguousarray(self.rows(slice(None), diffusion)), self.index, self.width, self.n_neighbors
        )


def graph_features(X: Any, n_neighbors: int, diffusion: float, deadline: float = math.inf) -> GraphFeatures:
    """Features whose inner products are the heat kernel after time ``diffusion``; fewer once the deadline is over."""
    return Spectrum.of(X, n_neighbors, deadline, diffusion).features(diffusion)


@dataclass(frozen=True)
class LinearFeatures:
    """The rows themselves in other units."""

    features: Any
    scale: float

    def scores(self, X: Any, expansion: Float) -> Float:
        return np.asarray(X @ expansion.T)

    def expansion(self, w: Float) -> Float:
        """Slopes in the units of the rows."""
        return w * self.scale
