"""The training rows of a kernel machine: products with blocks of their kernel matrix, addressed by row numbers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.source import Float
from aidlearn.kernels.functions import Kernel

COMPILED_ROWS = 2000
"""From this number of rows on the compiled kernels are worth loading."""
BLOCK_ELEMENTS = 1 << 21
"""Kernel values that are held at once where a product is made from blocks."""
NEW_ROWS = 1 << 14
"""New rows that are scored at once."""
SINGLE_EXPONENT = 50.0
"""Exponent of the rbf kernel that float32 represents well enough to search with."""
SINGLE_TOLERANCE = 1e-5
"""Smallest tolerance for which float32 kernel values do to search with."""

Rows = NDArray[Any]


@cache
def numba_installed() -> bool:
    return find_spec("numba") is not None


class KernelRows:
    """Rows, a kernel and the way its values are computed: here in float64, by blocks, for any kernel."""

    dtype: type[np.floating[Any]] = np.float64
    compiled = False

    def __init__(self, kernel: Kernel, X: Any, n_jobs: int = 1) -> None:
        self.kernel, self.X, self.n_jobs = kernel, X, n_jobs
        self.n = X.shape[0]
        self.lengths = np.sqrt(np.maximum(self._diagonal(), 0.0))
        """Lengths of the rows in the space of the kernel."""

    @cached_property
    def exponents(self) -> Float:
        """Of the rbf kernel of each row with the mean row; they decide how far its digits go."""
        if self.kernel.name != "rbf":
            return np.zeros(self.n)
        X, gamma = self.X, self.kernel.gamma
        centre = np.zeros(X.shape[1]) if sparse.issparse(X) else X.mean(axis=0, dtype=np.float64)
        return gamma * np.maximum(_squares(X) - 2 * (X @ centre) + centre @ centre, 0.0)

    def rounding(self, exact: bool = False) -> Float:
        """Worst relative error of the kernel values of each row, and of their sums in parts of 128 terms."""
        unit = float(np.finfo(np.float64 if exact else self.dtype).eps)
        terms = self.X.shape[1] + 4.0
        e = self.exponents
        # A value of the rbf kernel that is not tiny belongs to rows of similar exponents.
        factors = {"rbf": 2 * terms * (e + np.sqrt(e) + 1), "poly": terms * self.kernel.degree, "linear": terms}
        return np.broadcast_to(unit * (70.0 + factors.get(str(self.kernel.name), 0.0)), self.n)

    def block(self, rows: Rows, others: Rows, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Kernel values between two sets of rows, in the first columns of ``out`` if it is given."""
        X = self.X[rows]
        values = self.kernel.block(X, others if self.kernel.precomputed else self.X[others])
        if out is None:
            return values
        out[:, : len(others)] = values
        return out

    def times(self, rows: Rows, others: Rows, coef: Float, exact: bool = False) -> Float:
        """``sum_j K(i, j) coef[j, :]`` for each of the rows; ``exact`` asks for float64 throughout."""
        if len(others) == 0:
            return np.zeros((len(rows), coef.shape[1]))
        step = max(1, BLOCK_ELEMENTS // len(others))
        return self._by_parts(rows, step, lambda part: self.block(part, others) @ coef, coef.shape[1])

    def _by_parts(self, rows: Rows, step: int, function: Callable[[Rows], Float], q: int) -> Float:
        """Results of consecutive parts of the rows, on threads if asked for."""
        parts = [rows[k : k + step] for k in range(0, len(rows), step)]
        if not parts:
            return np.zeros((0, q))
        if self.n_jobs == 1 or len(parts) == 1:
            return np.concatenate([function(part) for part in parts])
        with ThreadPoolExecutor(self.n_jobs) as pool:
            return np.concatenate(list(pool.map(function, parts)))

    def _diagonal(self) -> Float:
        if self.kernel.precomputed:
            return np.asarray(self.X.diagonal(), dtype=np.float64)
        if self.kernel.name == "rbf":
            return np.ones(self.n)
        if callable(self.kernel.name):
            return np.concatenate([self.block(np.array([i]), np.array([i]))[0] for i in range(self.n)])
        return self.kernel.of_products(_squares(self.X))


class CompiledRows(KernelRows):
    """Dense rows with a kernel by name, compiled; float32 for the search where that is accurate enough."""

    compiled = True

    def __init__(self, kernel: Kernel, X: Any, n_jobs: int, tol: float) -> None:
        super().__init__(kernel, X, n_jobs)
        is_rbf = kernel.name == "rbf"
        self.centre = X.mean(axis=0, dtype=np.float64) if is_rbf else np.zeros(X.shape[1])
        if is_rbf and tol >= SINGLE_TOLERANCE and float(np.quantile(self.exponents, 0.9)) <= SINGLE_EXPONENT:
            self.dtype = np.float32
        self.working = np.empty(X.shape, dtype=self.dtype)
        for k in range(0, self.n, NEW_ROWS):
            self.working[k : k + NEW_ROWS] = X[k : k + NEW_ROWS] - self.centre
        self.squares = _squares(self.working)

    @property
    def constants(self) -> tuple[float, float, int]:
        return self.kernel.gamma, self.kernel.coef0, int(self.kernel.degree)

    @property
    def kind(self) -> int:
        from aidlearn.kernels.compiled import KINDS

        return KINDS[str(self.kernel.name)]

    def block(self, rows: Rows, others: Rows, out: NDArray[Any] | None = None) -> NDArray[Any]:
        from aidlearn.kernels.compiled import block_into

        out = np.empty((len(rows), len(others)), dtype=self.dtype) if out is None else out
        gamma, coef0, degree = self.constants
        Z, z_squares = self.working[others], self.squares[others]
        step = 4096

        def fill(first: int) -> None:
            part = rows[first : first + step]
            x, x_squares = self.working[part], self.squares[part]
            block_into(self.kind, x, x_squares, Z, z_squares, gamma, coef0, degree, out[first : first + step])

        starts = range(0, len(rows), step)
        if self.n_jobs == 1 or len(starts) <= 1:
            for first in starts:
                fill(first)
        else:
            with ThreadPoolExecutor(self.n_jobs) as pool:
                list(pool.map(fill, starts))
        return out

    def times(self, rows: Rows, others: Rows, coef: Float, exact: bool = False) -> Float:
        from aidlearn.kernels.compiled import times

        if len(others) == 0:
            return np.zeros((len(rows), coef.shape[1]))
        gamma, coef0, degree = self.constants
        double = exact and self.dtype is not np.float64
        coef = np.ascontiguousarray(coef, dtype=np.float64)

        def take(part: Rows) -> tuple[NDArray[Any], Float]:
            if double:
                x = np.ascontiguousarray(self.X[part] - self.centre, dtype=np.float64)
                return x, _squares(x)
            return self.working[part], self.squares[part]

        Z, z_squares = take(others)

        def product(part: Rows) -> Float:
            x, x_squares = take(part)
            return times(self.kind, x, x_squares, Z, z_squares, coef, gamma, coef0, degree)

        return self._by_parts(rows, 4096, product, coef.shape[1])


def kernel_rows(kernel: Kernel, X: Any, n_jobs: int, tol: float, compiled: bool | None = None) -> KernelRows:
    """The rows with the best way to compute their kernel; ``compiled`` None decides by size and what is installed."""
    if compiled is None:
        compiled = X.shape[0] >= COMPILED_ROWS and numba_installed()
    whole = kernel.name != "poly" or float(kernel.degree).is_integer()
    if compiled and not sparse.issparse(X) and kernel.name in ("rbf", "poly", "linear") and whole:
        return CompiledRows(kernel, X, n_jobs, tol)
    return KernelRows(kernel, X, n_jobs)


def expansion_scores(kernel: Kernel, X: Any, support: Any, coef: Float, n_jobs: int = 1) -> Float:
    """``K(X, support) @ coef``; ``support`` are row numbers if the kernel is precomputed."""
    if kernel.precomputed:
        step = max(1, BLOCK_ELEMENTS // max(1, len(support)))
        parts = [kernel.block(X[k : k + step], support) @ coef for k in range(0, X.shape[0], step)]
        return np.concatenate(parts)
    if sparse.issparse(support) and not sparse.issparse(X):
        support = support.toarray()
    elif sparse.issparse(X) and not sparse.issparse(support):
        support = sparse.csr_array(support)
    parts = []
    for k in range(0, X.shape[0], NEW_ROWS):
        part = X[k : k + NEW_ROWS]
        rows = kernel_rows(kernel, _stack(part, support), n_jobs, 0.0)
        parts.append(rows.times(np.arange(part.shape[0]), np.arange(part.shape[0], rows.n), coef, exact=True))
    return np.concatenate(parts)


def _stack(X: Any, Z: Any) -> Any:
    return sparse.vstack([X, Z], format="csr") if sparse.issparse(X) else np.concatenate([X, Z])


def _squares(X: Any) -> Float:
    """Squared lengths of rows, in float64."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))
