"""Training rows of a kernel machine, and products with blocks of their kernel matrix, addressed by row number.

The algorithm of the paper's appendix B needs nothing else from a kernel. Compiled code evaluates dense rows
if they are many (:mod:`aidlearn.kernel.tiles`).

Nystroem's approximation, which is not in the paper, represents all rows by features in the span of a few landmark rows.
The kernel SVM starts from it (:mod:`aidlearn.kernel.start`), and ``SVC(approximation="nystroem")`` solves the
approximated problem, for millions of rows. Features have the precision of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import spread, uninterrupted
from aidlearn.kernel.functions import SETTINGS as FUNCTIONS
from aidlearn.kernel.functions import Floats, Kernel, dense, pivoted_cholesky
from aidlearn.numerics import Float, Int

if TYPE_CHECKING:
    from aidlearn.kernel.tiles import KernelFunction, RowBlock


@dataclass(frozen=True)
class RowSettings:
    """Sizes of blocks, numbers of roundings in error bounds, and the rank of Nystroem's approximation."""

    compiled_rows: int = 2000
    """Minimum rows for which compiled kernels are loaded (0.4 s, and 15 s of compilation once)."""
    block_values: int = 1 << 21
    """Kernel values in memory at once when a product is computed by blocks: 16 MB."""
    square_rows: int = 128
    """Rows of a square matrix evaluated at once, so that values stay in cache until both copies are written."""
    blas_rows: int = 16
    """Number in whose multiples rows are scored, because BLAS then computes each row in the same way."""
    copied_rows: int = 1 << 14
    """Guess. Rows that are centred, squared or turned into features at once (300 features take 39 MB of float64)."""
    negligible: float = 1e-6
    """Guess. Squared length above which a direction becomes a feature, relative to the landmarks' largest."""
    product_roundings: float = 4.0
    """Roundings of a product or distance of two rows, in addition to one per column."""
    sum_roundings: float = 70.0
    """Roundings of the kernel function and of a sum of 128 terms: vectorised code adds at least two at once."""


SETTINGS = RowSettings()


class KernelRows:
    """Training rows with any kernel, whose values are computed in float64 by blocks."""

    dtype: type[np.floating[Any]] = np.float64
    """Type of kernel values in the search."""
    compiled = False
    far_exponent = FUNCTIONS.far_exponent
    """Exponent of the rbf kernel beyond which distances are computed from differences of rows."""
    function: KernelFunction
    """The kernel for compiled code, if the rows are compiled."""

    def __init__(self, kernel: Kernel, X: Any, n_jobs: int = 1) -> None:
        self.kernel, self.X, self.n_jobs = kernel, X, n_jobs
        self.n = X.shape[0]
        self.whole: Float | None = None
        """The kernel matrix of all rows, if it is kept in memory for products."""

    @cached_property
    def lengths(self) -> Float:
        """Lengths of the rows in the space of the kernel."""
        return np.sqrt(np.maximum(self._diagonal(), 0.0))

    @cached_property
    def exponents(self) -> Float:
        """Exponent of the rbf kernel between each row and the centre, which determines the rounding of its values."""
        if self.kernel.name != "rbf":
            return np.zeros(self.n)
        step = SETTINGS.copied_rows
        parts = [squared_lengths(self.kernel.centred(self.X[k : k + step])) for k in range(0, self.n, step)]
        return self.kernel.gamma * np.concatenate(parts)

    @cached_property
    def far(self) -> NDArray[np.bool_]:
        """Rows whose distances are computed from differences of rows, not of squares."""
        return np.zeros(self.n, dtype=bool) if sparse.issparse(self.X) else self.exponents > self.far_exponent

    def rounding(self, exact: bool = False) -> Float:
        """Return the worst relative error of the kernel values of each row, and of their sums in parts of 128 terms."""
        return float(np.finfo(np.float64 if exact else self.dtype).eps) * self._roundings

    @cached_property
    def _roundings(self) -> Float:
        """The worst relative errors, in rounding units of the type of the computation."""
        terms = self.X.shape[1] + SETTINGS.product_roundings
        e = np.where(self.far, 0.0, self.exponents)
        # Only rows of similar exponents have a value of the rbf kernel that is not tiny.
        factors = {"rbf": 2 * terms * (e + np.sqrt(e) + 1), "poly": terms * self.kernel.degree, "linear": terms}
        return np.broadcast_to(SETTINGS.sum_roundings + factors.get(str(self.kernel.name), 0.0), self.n)

    def block(self, rows: Int, others: Int, out: Floats | None = None) -> Floats:
        """Compute the kernel values between two sets of rows, in the first columns of ``out`` if it is given."""
        values = self._values(rows, others)
        if out is not None:
            out[:, : len(others)] = values
        return values if out is None else out

    def square(self, rows: Int, out: Floats) -> None:
        """Compute the kernel values among the given rows, in the first columns of ``out``.

        Each pair of rows in different parts is evaluated once.
        """
        n, step = len(rows), SETTINGS.square_rows
        for first in range(0, n, step):
            end = min(first + step, n)
            here, later = slice(first, end), slice(end, n)
            out[here, first:n] = self._values(rows[here], rows[first:])
            out[later, here] = out[here, later].T

    def take(self, rows: Int) -> RowBlock:
        """Return the given rows in the type of the search, for compiled code."""
        raise TypeError("Rows without compiled kernels have no blocks for compiled code.")

    def _values(self, rows: Int, others: Int) -> Float:
        return self.kernel.block(self.X[rows], others if self.kernel.precomputed else self.X[others])

    def times(self, rows: Int, others: Int, coef: Float, exact: bool = False) -> Float:
        """Return ``sum_j K(i, j) coef[j, :]`` for each of the rows; ``exact`` asks for float64 throughout."""
        if len(others) == 0:
            return np.zeros((len(rows), coef.shape[1]))
        if self.whole is not None:
            everywhere = np.zeros((self.n, coef.shape[1]))
            everywhere[others] = coef
            product = self.whole @ everywhere
            return product if len(rows) == self.n else product[rows]
        step = max(1, SETTINGS.block_values // len(others))
        return self._by_parts(rows, step, lambda part: self._values(part, others) @ coef, coef)

    def _by_parts(self, rows: Int, step: int, function: Callable[[Int], Float], coef: Float) -> Float:
        """Concatenate products of consecutive parts of the rows with ``coef``, on ``n_jobs`` threads."""
        parts = [rows[k : k + step] for k in range(0, len(rows), step)]
        if not parts:
            return np.zeros((0, coef.shape[1]))
        return np.concatenate(spread(lambda k: function(parts[k]), len(parts), self.n_jobs))

    def _diagonal(self) -> Float:
        if self.kernel.precomputed:
            return np.asarray(self.X.diagonal(), dtype=np.float64)
        if self.kernel.name == "rbf":
            return np.ones(self.n)
        if callable(self.kernel.name):
            return np.concatenate([self._values(np.array([i]), np.array([i]))[0] for i in range(self.n)])
        return self.kernel.of_products(squared_lengths(self.kernel.centred(self.X)))

    def scores(self, X: Any, coef: Float) -> Float:
        """Return ``sum_j K(x, j) coef[j, :]`` of new rows x, over all training rows j.

        The score of a row does not depend on the rows scored with it: the size of the parts is a multiple of BLAS's
        blocks and depends only on the training rows.
        """
        n, least = X.shape[0], SETTINGS.blas_rows
        step = max(1, SETTINGS.block_values // self.n // least) * least
        chosen = np.minimum(np.arange(-(-n // least) * least), n - 1)
        return self._by_parts(chosen, step, lambda part: self._new_scores(self._alike(X[part]), coef), coef)[:n]

    def _alike(self, X: Any) -> Any:
        """Make new rows dense or sparse like the training rows."""
        if sparse.issparse(self.X) != sparse.issparse(X) and not self.kernel.precomputed:
            return dense(X) if sparse.issparse(X) else sparse.csr_array(X)
        return X

    def _new_scores(self, X: Any, coef: Float) -> Float:
        return self.kernel.block(X, self.X) @ coef


class TubeRows(KernelRows):
    """Rows with two numbers each, one per side of the tube of a regression (:mod:`aidlearn.kernel.entries`)."""

    def __init__(self, base: KernelRows) -> None:
        super().__init__(base.kernel, base.X, base.n_jobs)
        self.base, self.n = base, 2 * base.n
        self.dtype, self.compiled = base.dtype, base.compiled
        self.lengths = np.tile(base.lengths, 2)
        if base.compiled:
            self.function = base.function

    def rounding(self, exact: bool = False) -> Float:
        return np.tile(self.base.rounding(exact), 2)

    def block(self, rows: Int, others: Int, out: Floats | None = None) -> Floats:
        return self.base.block(rows % self.base.n, others % self.base.n, out)

    def square(self, rows: Int, out: Floats) -> None:
        self.base.square(rows % self.base.n, out)

    def take(self, rows: Int) -> RowBlock:
        return self.base.take(rows % self.base.n)

    def times(self, rows: Int, others: Int, coef: Float, exact: bool = False) -> Float:
        here, place = np.unique(rows % self.base.n, return_inverse=True)
        there, which = np.unique(others % self.base.n, return_inverse=True)
        total = np.zeros((len(there), coef.shape[1]))
        np.add.at(total, which, coef)
        return self.base.times(here, there, total, exact)[place]


def kernel_rows(kernel: Kernel, X: Any, n_jobs: int, tol: float, compiled: bool | None = None) -> KernelRows:
    """Return compiled rows where possible; if ``compiled`` is None, the number of rows decides."""
    if compiled is None:
        compiled = X.shape[0] >= SETTINGS.compiled_rows
    named = kernel.name in ("rbf", "poly", "linear") and kernel.whole_degree
    if compiled and named and not sparse.issparse(X):
        with uninterrupted():  # 0.4 s that small fits do not need
            import aidlearn.kernel.smo  # noqa: F401
            from aidlearn.kernel.tiles import CompiledRows

        return CompiledRows(kernel, X, n_jobs, tol)
    return KernelRows(kernel, X, n_jobs)


def expansion_scores(
    kernel: Kernel, X: Any, support: Any, coef: Float, n_jobs: int = 1, compiled: bool | None = None
) -> Float:
    """Return ``K(X, support) @ coef``; ``support`` holds row numbers if the kernel is precomputed.

    The method does not depend on X, so a row has the same score alone and among others.
    """
    if support.shape[0] == 0:
        return np.zeros((X.shape[0], coef.shape[1]))
    if kernel.precomputed:
        return KernelRows(kernel, support, n_jobs).scores(X, coef)
    return kernel_rows(kernel, support, n_jobs, 0.0, compiled).scores(X, coef)


def squared_lengths(X: Any) -> Float:
    """Return the squared lengths of rows, in float64."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))


def landmark_map(rows: KernelRows, landmarks: Int) -> Float:
    """Return M such that features are ``K(x, landmarks) @ M``; ``w`` on features is ``M @ w`` on landmarks.

    Features are centred at the mean landmark (the intercept of the machine absorbs it), so the coefficients of the
    landmarks sum to zero like those of a dual. Pivoted Cholesky leaves out directions that the landmarks hardly span.
    """
    gram = rows.block(landmarks, landmarks).astype(np.float64)
    gram = 0.5 * (gram + gram.T)
    # Landmarks are scaled to unit length, so that a far longer one does not hide the others.
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
    for k in range(0, len(chosen), SETTINGS.copied_rows):
        part = slice(k, k + SETTINGS.copied_rows)
        features[part] = rows.block(chosen[part], landmarks) @ typed
    return features


class LandmarkSource(DataSource):
    """A source whose features are recomputed in every pass, because they do not fit into memory."""

    def __init__(self, rows: KernelRows, landmarks: Int, mapping: Float, y: Float, weight: Float) -> None:
        self.rows, self.landmarks, self.mapping = rows, landmarks, mapping
        self.y, self.weight = y, weight
        self.n_entries, self.n_attributes = rows.n, mapping.shape[1]

    def chunk(self, k: int) -> Chunk:
        start = k * self.rows_per_chunk
        stop = min(start + self.rows_per_chunk, self.n_entries)
        features = landmark_features(self.rows, self.landmarks, self.mapping, np.arange(start, stop))
        return Chunk(start, stop, features, self.y[start:stop], self.weight[start:stop])
