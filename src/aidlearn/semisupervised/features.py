"""Kernels as features, which turn the semi-supervised SVM (paper, section 3.3) with a kernel into a linear one.

With K = F F', the linear machine on the rows of F is the kernel machine. Pivoted Cholesky gives F = K(:, P) R^-1 for
pivots P with K(P, P) = R'R. Up to a few thousand rows F has all directions of the matrix; for more rows it has those of
a sample (Nystroem's approximation). The graph kernel is ``exp(-t L)`` with unit diagonal, the heat kernel of a graph of
nearest neighbours of all rows, labelled or not; L is the graph's normalised Laplacian, and features are eigenvectors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.neighbors import NearestNeighbors

from aidlearn.kernel.functions import TINY, Kernel, factor_gram, gram_matrix
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class FeatureSettings:
    """Sizes and accuracies of features."""

    exact_rows: int = 3000
    """Maximum rows whose whole Gram matrix is factored."""
    landmarks: int = 1000
    """Guess. Number of landmarks that represent more rows than ``exact_rows``."""
    hurried_landmarks: int = 200
    """Guess. Number of landmarks if time is short."""
    factor_seconds: float = 5e-11
    """Approximate measured time of the factorisation, in seconds per row and pair of landmarks."""
    block_rows: int = 4096
    """Rows whose kernel values with the landmarks are in memory at once: 33 MB for 1,000 landmarks."""
    tree_columns: int = 6
    """Maximum columns for which a tree finds neighbours: with more columns comparing all rows is faster (scikit-learn
    uses trees up to 15 columns)."""
    dense_rows: int = 4000
    """Maximum rows for which all eigenvectors of the graph are computed."""
    dense_seconds: float = 5e-10
    """Approximate measured seconds of the dense solver per n^3; it cannot be stopped, so it needs enough time."""
    eigenvectors: int = 300
    """Guess. Number of eigenvectors, the smoothest ones, computed for more rows than ``dense_rows``."""
    eigenvalue_accuracy: float = 1e-6
    """Relative accuracy of these eigenvalues: features need no more digits than the data."""
    decay: float = 15.0
    """Negative logarithm of the factor, relative to the largest, below which eigenvectors are left out."""
    hurried_vectors: int = 30
    """Guess. Number of approximate eigenvectors after the deadline: enough for a usable machine."""
    hurried_products: int = 30
    """Guess. Number of products with the graph that approximate these eigenvectors."""
    hurried_turns: int = 6
    """Guess. Number of products between two orthogonalisations of the subspace."""


SETTINGS = FeatureSettings()


@dataclass(frozen=True)
class RowProjection:
    """A map of rows before the kernel, which scales to unit length, subtracts a centre and multiplies by a matrix."""

    unit_length: bool
    centre: Float = field(default_factory=lambda: np.empty(0))
    """Row that is subtracted; empty if none is."""
    matrix: Float = field(default_factory=lambda: np.empty((0, 0)))
    """Matrix that multiplies the rows; empty if none does."""

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> RowProjection | None:
        """Restore a projection from the values of a file; return None if they contain none."""
        if "unit_length" not in values:
            return None
        return cls(bool(values["unit_length"]), values["projection_centre"], values["projection_matrix"])

    def values(self) -> dict[str, Any]:
        """Return the projection as values for a file."""
        return {
            "unit_length": int(self.unit_length),
            "projection_centre": self.centre,
            "projection_matrix": self.matrix,
        }

    def apply(self, X: Any) -> Any:
        """Apply the map to new rows."""
        if self.unit_length:
            X = of_unit_length(X)
        if self.matrix.size:
            rows = np.asarray(X @ self.matrix)
            return rows - self.centre @ self.matrix if self.centre.size else rows
        return X - self.centre if self.centre.size else X


def of_unit_length(X: Any) -> Any:
    """Divide rows by their norms; zero rows stay zero."""
    squares = X.multiply(X).sum(axis=1) if sparse.issparse(X) else (X**2).sum(axis=1)
    norms = np.sqrt(np.asarray(squares).ravel())
    return sparse.csr_array(sparse.diags_array(1 / np.where(norms > 0, norms, 1.0)) @ X)


@dataclass(frozen=True)
class KernelFeatures:
    """Features of the training rows from a factor of their kernel matrix, and the landmarks that score new rows."""

    kernel: Kernel
    features: Float
    landmarks: Any
    """Rows of the pivots (their numbers if the kernel is precomputed)."""
    triangle: Float
    n_sampled: int = 0
    """Number of rows whose kernel was factored; 0 if a file does not state it."""

    def scores(self, X: Any, expansion: Float) -> Float:
        """Return ``K(X, landmarks) @ expansion'``, computed in blocks of rows."""
        return np.concatenate([self.kernel.block(part, self.landmarks) @ expansion.T for part in _blocks(X)])

    def expansion(self, W: Float) -> Float:
        """Return the coefficients of the landmarks, one row per machine: ``w'f(x) = K(x, landmarks) @ expansion``."""
        return np.array([linalg.solve_triangular(self.triangle, w, check_finite=False) for w in W])

    def values(self) -> dict[str, Any]:
        """Return the values that a file needs to score new rows."""
        sampled = {"sampled": self.n_sampled} if self.n_sampled else {}
        return {**asdict(self.kernel), "landmarks": self.landmarks, **sampled}


def _blocks(X: Any) -> list[Any]:
    return [X[k : k + SETTINGS.block_rows] for k in range(0, X.shape[0], SETTINGS.block_rows)]


def kernel_features(
    kernel: Kernel, X: Any, n_components: int | None, rng: np.random.Generator, deadline: float = math.inf
) -> KernelFeatures:
    """Factor the Gram matrix of the rows of X or of a sample of them, which is small if time is short.

    The number of rows is not reduced if the caller sets it by ``n_components``.
    """
    n = X.shape[0]
    wanted = n_components or (n if n <= SETTINGS.exact_rows else SETTINGS.landmarks)
    if n_components is None and SETTINGS.factor_seconds * n * wanted**2 > deadline - time.monotonic():
        wanted = min(wanted, SETTINGS.hurried_landmarks)
    everything = wanted >= n
    rows = np.arange(n) if everything else np.sort(rng.choice(n, wanted, replace=False))
    gram = gram_matrix(kernel, X, rows)
    factor = factor_gram(gram)
    chosen = rows[factor.pivots]
    landmarks = chosen if kernel.precomputed else X[chosen]
    columns = gram[:, factor.pivots]
    if not everything:
        columns = np.concatenate([kernel.block(part, landmarks) for part in _blocks(X)])
    features = linalg.solve_triangular(factor.triangle, columns.T, trans="T", check_finite=False).T
    return KernelFeatures(kernel, np.ascontiguousarray(features), landmarks, factor.triangle, len(rows))


@dataclass(frozen=True)
class NeighbourGraph:
    """The rows of a graph of nearest neighbours, and their search index."""

    rows: Any
    index: NearestNeighbors
    width: float
    """Median distance of neighbours."""


@dataclass(frozen=True)
class GraphFeatures:
    """Features of the rows of a graph; the scores of new rows are means over their neighbours."""

    features: Float
    graph: NeighbourGraph

    def scores(self, X: Any, expansion: Float) -> Float:
        """Return weighted means of the scores of neighbours; ``expansion`` holds the scores of the graph's rows."""
        distances, rows = self.graph.index.kneighbors(X)
        # Weights are relative to the nearest neighbour, so that a row far from all others has weights too.
        squares = (distances / self.graph.width) ** 2
        weights = np.exp(squares.min(axis=1, keepdims=True) - squares)
        return np.column_stack([(weights * known[rows]).sum(axis=1) / weights.sum(axis=1) for known in expansion])

    def expansion(self, W: Float) -> Float:
        """Return the scores of the graph's rows, one row per machine."""
        return np.asarray(W @ self.features.T)

    def values(self) -> dict[str, Any]:
        """Return the values that a file needs to score new rows."""
        return {"rows": self.graph.rows, "width": self.graph.width, "neighbors": self.graph.index.n_neighbors}


def _neighbour_index(X: Any, n_neighbors: int) -> NearestNeighbors:
    algorithm = "brute" if X.shape[1] > SETTINGS.tree_columns else "auto"
    return NearestNeighbors(n_neighbors=n_neighbors, algorithm=algorithm).fit(X)


class _Late(Exception):
    """The deadline of an eigenvalue problem has passed."""


def _leading(smooth: Any, n_kept: int, deadline: float) -> tuple[Float, Float]:
    """Compute leading eigenvalues and vectors; after the deadline, approximate them in a small subspace."""
    rng = np.random.default_rng(0)
    n = smooth.shape[0]

    def product(vector: Float) -> Float:
        if time.monotonic() > deadline:
            raise _Late
        return np.asarray(smooth @ vector)

    operator = sparse.linalg.LinearOperator(smooth.shape, matvec=product, dtype=np.float64)
    v0, accuracy = rng.standard_normal(n), SETTINGS.eigenvalue_accuracy
    try:
        return sparse.linalg.eigsh(operator, n_kept, which="LA", v0=v0, tol=accuracy)
    except _Late:
        basis = rng.standard_normal((n, min(SETTINGS.hurried_vectors, n_kept)))
        for k in range(SETTINGS.hurried_products):  # (I + S) / 2 has no negative eigenvalues that could look large
            basis = 0.5 * (basis + smooth @ basis)
            if (k + 1) % SETTINGS.hurried_turns == 0:
                basis = linalg.qr(basis, mode="economic", check_finite=False)[0]
        values, turned = linalg.eigh(basis.T @ (smooth @ basis), check_finite=False)
        return values, basis @ turned


@dataclass(frozen=True)
class Spectrum:
    """Eigenvectors of a graph of nearest neighbours, shared by the heat kernels of all diffusion times."""

    eigenvalues: Float
    """Eigenvalues of I - L, in ascending order."""
    vectors: Float
    graph: NeighbourGraph

    @classmethod
    def of(cls, X: Any, n_neighbors: int, deadline: float = math.inf) -> Spectrum:
        """Compute eigenvectors of the graph of the rows of X: all of them if rows are few, fewer if time is short."""
        n = X.shape[0]
        k = min(n_neighbors, n - 1)
        index = _neighbour_index(X, max(1, k))
        graph = index.kneighbors_graph(mode="distance") if k else sparse.csr_array((n, n))
        positive = graph.data[graph.data > 0]
        width = float(np.median(positive)) if len(positive) else 1.0
        graph.data = np.exp(-((graph.data / width) ** 2))
        graph = sparse.csr_array(graph.maximum(graph.T))
        degree = np.maximum(np.asarray(graph.sum(axis=1)).ravel(), TINY)
        scaling = sparse.diags_array(1 / np.sqrt(degree))
        smooth = scaling @ graph @ scaling  # I - L
        if n <= SETTINGS.dense_rows and SETTINGS.dense_seconds * n**3 <= deadline - time.monotonic():
            values, vectors = linalg.eigh(smooth.toarray(), check_finite=False, driver="evd")
        else:
            values, vectors = _leading(smooth, min(SETTINGS.eigenvectors, n - 2), deadline)
        return cls(values, vectors, NeighbourGraph(X, index, width))

    def rows(self, chosen: Int | slice, diffusion: float) -> Float:
        """Return features of unit length for the chosen rows; their inner products are the heat kernel."""
        kept = self.eigenvalues > self.eigenvalues.max() - 2 * SETTINGS.decay / diffusion
        features = self.vectors[chosen][:, kept] * np.exp(0.5 * diffusion * (self.eigenvalues[kept] - 1))
        norms = np.sqrt(np.einsum("ij,ij->i", features, features))
        return np.asarray(features / np.where(norms > 0, norms, 1.0)[:, None])

    def features(self, diffusion: float) -> GraphFeatures:
        """Return the features of all rows."""
        return GraphFeatures(np.ascontiguousarray(self.rows(slice(None), diffusion)), self.graph)


def graph_features(X: Any, n_neighbors: int, diffusion: float, deadline: float = math.inf) -> GraphFeatures:
    """Return features whose inner products are the heat kernel after time ``diffusion``; fewer if time is short."""
    return Spectrum.of(X, n_neighbors, deadline).features(diffusion)


@dataclass(frozen=True)
class LinearFeatures:
    """The rows themselves, multiplied by a scale."""

    features: Any
    scale: float

    def scores(self, X: Any, expansion: Float) -> Float:
        """Return the scores of new rows."""
        return np.asarray(X @ expansion.T)

    def expansion(self, W: Float) -> Float:
        """Return the slopes in the units of the rows, one row per machine."""
        return W * self.scale

    def values(self) -> dict[str, Any]:
        """Return the values that a file needs to score new rows."""
        return {"linear_scale": self.scale}


Features = KernelFeatures | GraphFeatures | LinearFeatures


def features_of(values: Mapping[str, Any]) -> Features | None:
    """Restore features, without those of the training rows, from the values of a file; return None if it has none."""
    nothing = np.empty((0, 0))
    if "linear_scale" in values:
        return LinearFeatures(nothing, float(values["linear_scale"]))
    if "rows" in values:
        index = _neighbour_index(values["rows"], values["neighbors"])
        return GraphFeatures(nothing, NeighbourGraph(values["rows"], index, values["width"]))
    if "landmarks" in values:
        sampled = int(values.get("sampled", 0))
        return KernelFeatures(Kernel.of_values(values), nothing, values["landmarks"], nothing, sampled)
    return None
