"""The training rows of a kernel machine: products with blocks of their kernel matrix, addressed by row numbers.

The paper's appendix B needs nothing else of a kernel. Rows that are many and dense are evaluated by compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.rows.loading import uninterrupted
from aidlearn.data.rows.threads import spread
from aidlearn.kernel.functions import FAR, TINY, Kernel
from aidlearn.numerics import Float

if TYPE_CHECKING:  # compiled code is loaded where it is called: that takes 0.4 s that small fits do not need
    from aidlearn.kernel.tiles import Block, KernelFunction

COMPILED_ROWS = 2000
"""From this number of rows on the compiled kernels are worth loading (0.4 s, and 15 s of compilation once)."""
BLOCK_ELEMENTS = 1 << 21
"""Kernel values that are held at once where a product is made from blocks."""
SQUARE_ROWS = 128
"""Rows of a square matrix that are evaluated at once: values stay in cache until they are copied to both places."""
BLAS_ROWS = 16
"""Rows that are scored together, at least: in parts of a multiple of it BLAS computes each row in the same way."""
PRODUCT_ROWS = 512
"""Rows of a compiled product that one thread takes at a time: whole tiles, and few, so that all threads end alike."""
COPIED_ROWS = 1 << 14
"""Rows that are centred or squared at once."""
FAR_SINGLE, FAR_DOUBLE = 1e4, 1e6
"""Exponents of the rbf kernel from which on the compiled kernels leave rows to the plain ones."""
SINGLE_EXPONENT = 50.0
"""Exponent of the rbf kernel that float32 represents well enough to search with."""
SINGLE_TOLERANCE = 1e-5
"""Smallest tolerance for which float32 kernel values do to search with."""
PRODUCT_ROUNDINGS = 4.0
"""Roundings of a product or distance of two rows beyond one for each column."""
SUM_ROUNDINGS = 70.0
"""Those of the kernel's own function, and of a sum of 128 terms: vectorised code adds at least two at once."""
TYPICAL_QUANTILE = 0.9
"""Of the rows' exponents: where it is small float32 does for the search (bounds count the error of each row)."""

Rows = NDArray[Any]


class KernelRows:
    """Rows, a kernel and the way its values are computed: here in float64, by blocks, for any kernel."""

    dtype: type[np.floating[Any]] = np.float64
    compiled = False
    far_from = FAR

    def __init__(self, kernel: Kernel, X: Any, n_jobs: int = 1) -> None:
        self.kernel, self.X, self.n_jobs = kernel, X, n_jobs
        self.n = X.shape[0]
        self.whole: Float | None = None
        """The kernel matrix of all rows, where it is at hand."""

    @cached_property
    def lengths(self) -> Float:
        """Of the rows in the space of the kernel."""
        return np.sqrt(np.maximum(self._diagonal(), 0.0))

    @cached_property
    def exponents(self) -> Float:
        """Of the rbf kernel of each row with the centre; they decide how far its digits go."""
        if self.kernel.name != "rbf":
            return np.zeros(self.n)
        step = COPIED_ROWS
        parts = [_squares(self.kernel.centred(self.X[k : k + step])) for k in range(0, self.n, step)]
        return self.kernel.gamma * np.concatenate(parts)

    @cached_property
    def far(self) -> NDArray[np.bool_]:
        """Rows whose distances are computed from differences of rows, not of squares."""
        return np.zeros(self.n, dtype=bool) if sparse.issparse(self.X) else self.exponents > self.far_from

    def rounding(self, exact: bool = False) -> Float:
        """Worst relative error of the kernel values of each row, and of their sums in parts of 128 terms."""
        return float(np.finfo(np.float64 if exact else self.dtype).eps) * self._roundings

    @cached_property
    def _roundings(self) -> Float:
        """The same in units of the type that is computed in."""
        terms = self.X.shape[1] + PRODUCT_ROUNDINGS
        e = np.where(self.far, 0.0, self.exponents)
        # A value of the rbf kernel that is not tiny belongs to rows of similar exponents.
        factors = {"rbf": 2 * terms * (e + np.sqrt(e) + 1), "poly": terms * self.kernel.degree, "linear": terms}
        return np.broadcast_to(SUM_ROUNDINGS + factors.get(str(self.kernel.name), 0.0), self.n)

    def block(self, rows: Rows, others: Rows, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Kernel values between two sets of rows, in the first columns of ``out`` if it is given."""
        values = self._values(rows, others)
        if out is None:
            return values
        out[:, : len(others)] = values
        return out

    def square(self, rows: Rows, out: NDArray[Any]) -> None:
        """Kernel values of rows among each other, in the first columns of ``out``.

        Pairs of rows in different parts are evaluated once.
        """
        n = len(rows)
        for first in range(0, n, SQUARE_ROWS):
            end = min(first + SQUARE_ROWS, n)
            here, later = slice(first, end), slice(end, n)
            out[here, first:n] = self._values(rows[here], rows[first:])
            out[later, here] = out[here, later].T

    def _values(self, rows: Rows, others: Rows) -> Float:
        return self.kernel.block(self.X[rows], others if self.kernel.precomputed else self.X[others])

    def times(self, rows: Rows, others: Rows, coef: Float, exact: bool = False) -> Float:
        """``sum_j K(i, j) coef[j, :]`` for each of the rows; ``exact`` asks for float64 throughout."""
        return self._plain_times(rows, others, coef)

    def _plain_times(self, rows: Rows, others: Rows, coef: Float) -> Float:
        if len(others) == 0:
            return np.zeros((len(rows), coef.shape[1]))
        if self.whole is not None:
            everywhere = np.zeros((self.n, coef.shape[1]))
            everywhere[others] = coef
            product = self.whole @ everywhere
            return product if len(rows) == self.n else product[rows]
        step = max(1, BLOCK_ELEMENTS // len(others))
        return self._by_parts(rows, step, lambda part: self._values(part, others) @ coef, coef.shape[1])

    def _by_parts(self, rows: Rows, step: int, function: Callable[[Rows], Float], q: int) -> Float:
        """Results of consecutive parts of the rows, on threads if asked for."""
        parts = [rows[k : k + step] for k in range(0, len(rows), step)]
        if not parts:
            return np.zeros((0, q))
        return np.concatenate(spread(lambda k: function(parts[k]), len(parts), self.n_jobs))

    def _diagonal(self) -> Float:
        if self.kernel.precomputed:
            return np.asarray(self.X.diagonal(), dtype=np.float64)
        if self.kernel.name == "rbf":
            return np.ones(self.n)
        if callable(self.kernel.name):
            return np.concatenate([self.block(np.array([i]), np.array([i]))[0] for i in range(self.n)])
        return self.kernel.of_products(_squares(self.kernel.centred(self.X)))

    def scores(self, X: Any, coef: Float) -> Float:
        """``sum_j K(x, j) coef[j, :]`` of new rows, over all rows here.

        The score of a row does not depend on which others come with it: they are taken in parts whose size, a
        multiple of the blocks that BLAS works in, depends on the rows here only.
        """
        n = X.shape[0]
        step = max(1, BLOCK_ELEMENTS // self.n // BLAS_ROWS) * BLAS_ROWS
        chosen = np.minimum(np.arange(-(-n // BLAS_ROWS) * BLAS_ROWS), n - 1)
        return self._by_parts(chosen, step, lambda part: self._new_scores(self._alike(X[part]), coef), coef.shape[1])[
            :n
        ]

    def _alike(self, X: Any) -> Any:
        """New rows as dense or sparse as the rows here."""
        if sparse.issparse(self.X) != sparse.issparse(X) and not self.kernel.precomputed:
            return X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
        return X

    def _new_scores(self, X: Any, coef: Float) -> Float:
        return self.kernel.block(X, self.X) @ coef


class CompiledRows(KernelRows):
    """Dense rows with a kernel by name, compiled; float32 for the search where that is accurate enough."""

    compiled = True

    def __init__(self, kernel: Kernel, X: Any, n_jobs: int, tol: float) -> None:
        super().__init__(kernel, X, n_jobs)
        with uninterrupted():
            import aidlearn.kernel.smo  # noqa: F401
        single = kernel.name == "rbf" and tol >= SINGLE_TOLERANCE
        if single and float(np.quantile(self.exponents, TYPICAL_QUANTILE)) <= SINGLE_EXPONENT:
            self.dtype = np.float32
        self.far_from = FAR_SINGLE if self.dtype is np.float32 else FAR_DOUBLE
        # Rows far out are as far from the others at a distance that the type can hold.
        shrink = np.sqrt(np.where(self.far, self.far_from / np.maximum(self.exponents, TINY), 1.0))
        self.working = np.empty(X.shape, dtype=self.dtype)
        for k in range(0, self.n, COPIED_ROWS):
            part = slice(k, k + COPIED_ROWS)
            self.working[part] = kernel.centred(X[part]) * shrink[part, None]
        self.squares = _squares(self.working)

    @cached_property
    def function(self) -> KernelFunction:
        """The kernel as compiled code takes it."""
        from aidlearn.kernel.tiles import KINDS, KernelFunction

        kernel = self.kernel
        return KernelFunction(KINDS[str(kernel.name)], kernel.gamma, kernel.coef0, int(kernel.degree))

    def square(self, rows: Rows, out: NDArray[Any]) -> None:
        self.block(rows, rows, out)

    def take(self, rows: Rows) -> Block:
        """Some rows in the type of the search."""
        from aidlearn.kernel.tiles import Block

        return Block(self.working[rows], self.squares[rows])

    def block(self, rows: Rows, others: Rows, out: NDArray[Any] | None = None) -> NDArray[Any]:
        from aidlearn.kernel.tiles import block_into

        out = np.empty((len(rows), len(others)), dtype=self.dtype) if out is None else out
        Z = self.take(others)
        far, other_far = np.flatnonzero(self.far[rows]), np.flatnonzero(self.far[others])

        def fill(k: int) -> None:
            part = slice(k * PRODUCT_ROWS, (k + 1) * PRODUCT_ROWS)
            block_into(self.function, self.take(rows[part]), Z, out[part])

        spread(fill, -(-len(rows) // PRODUCT_ROWS), self.n_jobs)
        if len(far):
            out[far, : len(others)] = self._values(rows[far], others)
        if len(other_far):
            out[:, other_far] = self._values(rows, others[other_far])
        return out

    def times(self, rows: Rows, others: Rows, coef: Float, exact: bool = False) -> Float:
        far, other_far = self.far[rows], self.far[others]
        product = self._times(rows, others[~other_far], coef[~other_far], exact)
        if other_far.any():
            product += self._plain_times(rows, others[other_far], coef[other_far])
        if far.any():
            product[far] = self._plain_times(rows[far], others, coef)
        return product

    def _times(self, rows: Rows, others: Rows, coef: Float, exact: bool) -> Float:
        if len(others) == 0:
            return np.zeros((len(rows), coef.shape[1]))
        double = exact and self.dtype is not np.float64

        def take(part: Rows) -> Block:
            return self._doubles(self.X[part]) if double else self.take(part)

        Z = take(others)
        return self._by_parts(rows, PRODUCT_ROWS, lambda part: self._product(take(part), Z, coef), coef.shape[1])

    def _doubles(self, X: Any) -> Block:
        """Any rows in float64."""
        from aidlearn.kernel.tiles import Block

        x = np.ascontiguousarray(self.kernel.centred(X), dtype=np.float64)
        return Block(x, _squares(x))

    def _new_scores(self, X: Any, coef: Float) -> Float:
        assert self.dtype is np.float64
        x = self._doubles(X)
        far = (self.kernel.name == "rbf") & (self.kernel.gamma * x.squares > self.far_from)
        near = ~self.far
        product = self._product(x, self.take(near), coef[near])
        if self.far.any():
            product += self.kernel.block(X, self.X[self.far]) @ coef[self.far]
        if far.any():
            product[far] = self.kernel.block(X[far], self.X) @ coef
        return product

    def _product(self, X: Block, Z: Block, coef: Float) -> Float:
        from aidlearn.kernel.tiles import times

        return times(self.function, X, Z, np.ascontiguousarray(coef, dtype=np.float64))


class SideRows(KernelRows):
    """Every row twice, by number: both sides of the tube of a regression (:mod:`aidlearn.kernel.sides`)."""

    def __init__(self, base: KernelRows) -> None:
        super().__init__(base.kernel, base.X, base.n_jobs)
        self.base, self.n = base, 2 * base.n
        self.dtype, self.compiled = base.dtype, base.compiled
        self.lengths = np.tile(base.lengths, 2)

    def rounding(self, exact: bool = False) -> Float:
        return np.tile(self.base.rounding(exact), 2)

    def block(self, rows: Rows, others: Rows, out: NDArray[Any] | None = None) -> NDArray[Any]:
        return self.base.block(rows % self.base.n, others % self.base.n, out)

    def square(self, rows: Rows, out: NDArray[Any]) -> None:
        self.base.square(rows % self.base.n, out)

    def times(self, rows: Rows, others: Rows, coef: Float, exact: bool = False) -> Float:
        here, place = np.unique(rows % self.base.n, return_inverse=True)
        there, which = np.unique(others % self.base.n, return_inverse=True)
        total = np.zeros((len(there), coef.shape[1]))
        np.add.at(total, which, coef)
        return self.base.times(here, there, total, exact)[place]

    @property
    def function(self) -> KernelFunction:
        assert isinstance(self.base, CompiledRows)
        return self.base.function

    def take(self, rows: Rows) -> Block:
        assert isinstance(self.base, CompiledRows)
        return self.base.take(rows % self.base.n)


def kernel_rows(kernel: Kernel, X: Any, n_jobs: int, tol: float, compiled: bool | None = None) -> KernelRows:
    """The rows with the best way to compute their kernel; ``compiled`` None decides by their number."""
    if compiled is None:
        compiled = X.shape[0] >= COMPILED_ROWS
    whole = kernel.name != "poly" or float(kernel.degree).is_integer()
    if compiled and not sparse.issparse(X) and kernel.name in ("rbf", "poly", "linear") and whole:
        return CompiledRows(kernel, X, n_jobs, tol)
    return KernelRows(kernel, X, n_jobs)


def expansion_scores(
    kernel: Kernel, X: Any, support: Any, coef: Float, n_jobs: int = 1, compiled: bool | None = None
) -> Float:
    """``K(X, support) @ coef``; ``support`` are row numbers if the kernel is precomputed.

    How they are computed does not depend on X: the score of a row is the same alone and among others.
    """
    if support.shape[0] == 0:
        return np.zeros((X.shape[0], coef.shape[1]))
    if kernel.precomputed:
        return KernelRows(kernel, support, n_jobs).scores(X, coef)
    return kernel_rows(kernel, support, n_jobs, 0.0, compiled).scores(X, coef)


def _squares(X: Any) -> Float:
    """Squared lengths of rows, in float64."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", X, X, dtype=np.float64))
