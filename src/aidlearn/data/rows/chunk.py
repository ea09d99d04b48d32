"""Chunks of consecutive entries, which passes work on (paper, section 1: the data are never needed at once)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.numerics import Float

CHUNK_ELEMENTS = 1 << 19
"""Numbers in one chunk: 4 MB of float64. Larger ones gain a few percent and cost memory for every thread."""
FEWEST_ROWS = 256
"""Guess. Minimum number of rows of a chunk: a chunk costs some calls, however wide its rows are."""


SPARSE_COLUMNS = 16
"""Maximum number of columns that a sparse row counts for. Small chunks cost more calls than arithmetic: with 64, three
million rows with six numbers each took half as long again."""
SPARSE_NUMBERS = 100
"""Guess. Numbers of a sparse row for which memory is planned."""


def chunk_rows(n_attributes: int, is_sparse: bool = False) -> int:
    """Number of rows of a chunk; it depends only on the columns, so that all sources are cut alike."""
    n_attributes = min(n_attributes, SPARSE_COLUMNS) if is_sparse else n_attributes
    return max(FEWEST_ROWS, CHUNK_ELEMENTS // max(1, n_attributes))


@dataclass(frozen=True)
class Chunk:
    """Consecutive entries ``start:stop``: attributes, target and weight of each."""

    start: int
    stop: int
    X: Any
    y: NDArray[Any]
    """Target as stored in chunks of a source, as numbers in chunks of a run."""
    weight: Float
    labels: NDArray[np.int32] | None = None
    """Cluster of each entry, in the check of a problem."""

    @property
    def n_entries(self) -> int:
        return self.stop - self.start

    def __matmul__(self, vector: Float) -> Float:
        """``X @ vector`` in float64."""
        return np.asarray(self.X @ vector, dtype=np.float64)

    def transposed_times(self, vector: Float) -> Float:
        """``X' vector`` in float64."""
        return np.asarray(self.X.T @ vector, dtype=np.float64)

    def sums_by(self, labels: NDArray[Any], n_groups: int, weight: Float) -> Float:
        """Weighted sum of the rows of each group, as a dense array."""
        n = self.n_entries
        if n == n_groups and np.array_equal(labels, np.arange(n)):  # single rows: nothing to sum
            return self.dense_rows(slice(None)) * weight[:, None]
        product = sparse.csc_array((weight, labels, np.arange(n + 1)), shape=(n_groups, n)) @ self.X
        return np.asarray(product.toarray() if sparse.issparse(product) else product)

    def select(self, rows: NDArray[Any] | slice) -> Chunk:
        """The selected entries (a slice gives views of dense rows)."""
        y = self.y[rows]
        return Chunk(0, len(y), self.X[rows], y, self.weight[rows])

    def every(self, step: int, offset: int) -> Chunk:
        """The entries with the numbers ``offset, offset + step, ...`` among all entries."""
        # By index, not by a slice: a view would keep the whole chunk in memory.
        return self.select(np.arange((offset - self.start) % step, self.n_entries, step))

    def scaled(self, factors: Float) -> Chunk:
        """These entries with columns multiplied by factors."""
        if sparse.issparse(self.X):
            X = type(self.X)((self.X.data * factors[self.X.indices], self.X.indices, self.X.indptr), shape=self.X.shape)
            return replace(self, X=X)
        return replace(self, X=np.multiply(self.X, factors, dtype=np.float64))

    def weighing(self, total: float) -> Chunk:
        """These entries with weights that sum to ``total``; equal weights if all are 0."""
        weight = self.weight if self.weight.any() else np.ones(self.n_entries)
        return replace(self, weight=weight * (total / weight.sum()))

    def dense_rows(self, rows: NDArray[Any] | slice) -> Float:
        """The selected rows as a dense float64 array."""
        block = self.X[rows]
        return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)

    def bad_cell(self) -> tuple[int, int] | None:
        """Row and column of the first NaN or infinity of X."""
        if sparse.issparse(self.X):
            cells = self.X.tocoo()
            bad = ~np.isfinite(cells.data)
            rows, columns = cells.row[bad], cells.col[bad]
        else:
            rows, columns = np.nonzero(~np.isfinite(self.X))
        if len(rows) == 0:
            return None
        first = np.lexsort((columns, rows))[0]
        return int(rows[first]), int(columns[first])


def join(chunks: Sequence[Chunk]) -> Chunk:
    """Several chunks as one."""
    stack: Callable[..., Any] = sparse.vstack if sparse.issparse(chunks[0].X) else np.concatenate
    return Chunk(
        0,
        sum(chunk.n_entries for chunk in chunks),
        stack([chunk.X for chunk in chunks]),
        np.concatenate([chunk.y for chunk in chunks]),
        np.concatenate([chunk.weight for chunk in chunks]),
    )
