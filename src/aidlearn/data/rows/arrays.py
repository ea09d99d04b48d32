"""Sources of rows in memory: NumPy arrays and scipy CSR matrices, sliced without copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import refuse_lossy
from aidlearn.data.rows.source import DataSource
from aidlearn.numerics import Float


class ArraySource(DataSource):
    """A dense array (C or F ordered, float32 or float64) or a CSR matrix, sliced by rows."""

    def __init__(self, X: Any, y: NDArray[Any], weight: Float, n_jobs: int | None = None) -> None:
        self.X, self.y, self.weight = X, y, weight
        self.n_entries, self.n_attributes = X.shape
        self.n_jobs = n_jobs
        self.is_sparse = bool(sparse.issparse(X))
        self._chunks: dict[int, Chunk] = {}

    def chunk(self, k: int) -> Chunk:
        start = k * self.rows_per_chunk
        stop = min(start + self.rows_per_chunk, self.n_entries)
        if not self.is_sparse:
            return self.rows(start, stop)
        # Cached, because scipy takes as long to make a view of sparse rows as a pass takes over thousands of them.
        found = self._chunks.get(k)
        if found is None or found.stop != stop:
            found = self._chunks[k] = self.rows(start, stop)
        return found

    def rows(self, start: int, stop: int) -> Chunk:
        """Return the rows ``start:stop`` as one chunk."""
        rows = slice(start, stop)
        X = csr_rows(self.X, start, stop) if self.is_sparse else self.X[rows]
        # Weights may be one broadcast number, but a chunk needs a contiguous array.
        return Chunk(start, stop, X, self.y[rows], np.ascontiguousarray(self.weight[rows]))

    def every(self, step: int, offset: int) -> Chunk:
        # Indexed, not sliced: products with a strided view differ in their last bits from those with a copy.
        rows = np.arange(offset, self.n_entries, step)
        return Chunk(0, len(rows), self.X[rows], self.y[rows], self.weight[rows])


def csr_rows(X: Any, start: int, stop: int) -> Any:
    """Return rows ``start:stop`` of a CSR matrix; values and indices are views (scipy's own slices are copies)."""
    first, last = X.indptr[start], X.indptr[stop]
    parts = (X.data[first:last], X.indices[first:last], X.indptr[start : stop + 1] - first)
    return type(X)(parts, shape=(stop - start, X.shape[1]), copy=False)


def is_dask(X: Any) -> bool:
    """Return whether ``X`` is a Dask collection, without importing Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def homogeneous(table: Any) -> Any | None:
    """Return the array behind a pandas frame of one float type (a view, not a copy), else None."""
    if not hasattr(table, "iloc"):
        return None
    kinds = set(table.dtypes)
    if len(kinds) != 1 or kinds.pop() not in (np.dtype(np.float64), np.dtype(np.float32)):
        return None
    array = table.to_numpy(copy=False)
    same_memory = table.shape[0] == 0 or np.shares_memory(array, table.iloc[:, 0].to_numpy(copy=False))
    return array if same_memory else None


def to_csr(X: Any) -> Any:
    """Return a sparse matrix as CSR with float64 or float32 data (CSR input is not copied)."""
    csr = sparse.csr_array(X) if X.format != "csr" else X
    # Compiled code does not check bounds.
    bounds, stored = csr.indptr, min(len(csr.indices), len(csr.data))
    if len(bounds) != csr.shape[0] + 1 or bounds[0] != 0 or bounds[-1] > stored or (bounds[1:] < bounds[:-1]).any():
        raise ValueError(f"X is a damaged sparse matrix: its indptr does not split {stored} numbers into rows.")
    if csr.nnz and not (csr.indices.min() >= 0 and csr.indices.max() < csr.shape[1]):
        raise ValueError(f"X is a damaged sparse matrix: it has column indices outside 0 to {csr.shape[1] - 1}.")
    refuse_lossy(csr.data, "X", first=None)
    if not csr.has_canonical_format:  # duplicate or unsorted cells
        csr = csr.copy()
        csr.sum_duplicates()
    return csr if csr.dtype in (np.float32, np.float64) else csr.astype(np.float64)
