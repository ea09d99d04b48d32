"""Chunks of consecutive entries, the units of a pass (paper, section 1: the data are never all needed at once)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.numerics import Float

CHUNK_ELEMENTS = 1 << 19
"""Cells per chunk, 4 MB of float64. Larger chunks gain a few percent and cost memory in every thread."""
FEWEST_ROWS = 256
"""Guess. Minimum number of rows in a chunk, because every chunk costs a few calls, however wide its rows are."""


SPARSE_COLUMNS = 16
"""Maximum number of columns that a sparse row counts as when chunks are sized. Small chunks cost more in calls than in
arithmetic: with 64, three million rows with six numbers each took half as long again."""
SPARSE_NUMBERS = 100
"""Guess. Maximum number of stored numbers per sparse row that memory plans assume."""


def chunk_rows(n_attributes: int, is_sparse: bool = False) -> int:
    """Return the number of rows per chunk; it depends only on the columns, so that all sources are cut alike."""
    n_attributes = min(n_attributes, SPARSE_COLUMNS) if is_sparse else n_attributes
    return max(FEWEST_ROWS, CHUNK_ELEMENTS // max(1, n_attributes))


@dataclass(frozen=True)
class Chunk:
    """Consecutive entries ``start:stop`` with their attributes, targets and weights."""

    start: int
    stop: int
    X: Any
    y: NDArray[Any]
    """Target as stored (in chunks of a source) or as numbers (in chunks of a run)."""
    weight: Float
    labels: NDArray[np.int32] | None = None
    """Cluster of each entry; only the check of a problem sets it."""

    @property
    def n_entries(self) -> int:
        return self.stop - self.start

    def __matmul__(self, vector: Float) -> Float:
        """Return ``X @ vector`` in float64."""
        return np.asarray(self.X @ vector, dtype=np.float64)

    def transposed_times(self, vector: Float) -> Float:
        """Return ``X' vector`` in float64."""
        return np.asarray(self.X.T @ vector, dtype=np.float64)

    def sums_by(self, labels: NDArray[Any], n_groups: int, weight: Float) -> Float:
        """Return the weighted sum of the rows of each group as a dense array."""
        n = self.n_entries
        if n == n_groups and np.array_equal(labels, np.arange(n)):  # every row is its own group
            return self.dense_rows(slice(None)) * weight[:, None]
        product = sparse.csc_array((weight, labels, np.arange(n + 1)), shape=(n_groups, n)) @ self.X
        return np.asarray(product.toarray() if sparse.issparse(product) else product)

    def select(self, rows: NDArray[Any] | slice) -> Chunk:
        """Return the selected entries (a slice gives views of dense rows)."""
        y = self.y[rows]
        return Chunk(0, len(y), self.X[rows], y, self.weight[rows])

    def every(self, step: int, offset: int) -> Chunk:
        """Return the entries whose numbers among all entries are ``offset, offset + step, ...``."""
        # Indexed, not sliced: a view would keep the whole chunk in memory.
        return self.select(np.arange((offset - self.start) % step, self.n_entries, step))

    def scaled(self, factors: Float) -> Chunk:
        """Return these entries with their columns multiplied by factors."""
        if sparse.issparse(self.X):
            X = type(self.X)((self.X.data * factors[self.X.indices], self.X.indices, self.X.indptr), shape=self.X.shape)
            return replace(self, X=X)
        return replace(self, X=np.multiply(self.X, factors, dtype=np.float64))

    def weighing(self, total: float) -> Chunk:
        """Return these entries with weights rescaled to sum to ``total``; equal weights if all are 0."""
        weight = self.weight if self.weight.any() else np.ones(self.n_entries)
        return replace(self, weight=weight * (total / weight.sum()))

    def dense_rows(self, rows: NDArray[Any] | slice) -> Float:
        """Return the selected rows as a dense float64 array."""
        block = self.X[rows]
        return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)

    def bad_cell(self) -> tuple[int, int] | None:
        """Return row and column of the first NaN or infinity in X; None if there is none."""
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
    """Join several chunks into one."""
    stack: Callable[..., Any] = sparse.vstack if sparse.issparse(chunks[0].X) else np.concatenate
    return Chunk(
        0,
        sum(chunk.n_entries for chunk in chunks),
        stack([chunk.X for chunk in chunks]),
        np.concatenate([chunk.y for chunk in chunks]),
        np.concatenate([chunk.weight for chunk in chunks]),
    )
