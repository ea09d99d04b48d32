"""Sparse copies of dense rows in memory that are mostly zeros, such as tables of dummies.

Passes then skip the zeros, and matrices of single rows stay sparse in the solvers (see docs/sparse.md). Results are
bitwise those of the CSR matrix with the same cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.data.passes.run import worth_compiling
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk, chunk_rows, join
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import n_threads, spread
from aidlearn.data.tables.in_memory import KeptRows, TableSource

INDEX = np.dtype(np.int32)
"""Type of the column indices and row bounds of sparse rows, which is scipy's choice."""


@dataclass(frozen=True)
class SparseCopySettings:
    """Settings for when a sparse copy pays and how it is made."""

    sampled_rows: int = 512
    """Number of rows that estimate the density, to about a tenth of itself unless few rows hold most numbers."""
    rows_together: int = 32
    """Guess. Number of sampled rows of a table read together, because each read takes a call per column."""
    most_memory: float = 0.25
    """Guess. Maximum memory of the sparse copy as a share of the dense array's."""
    row_cells: int = 34
    """Cost of a sparse row in dense cells. This and ``number_cells`` come from fits of 21,000 to 600,000 rows and 10 to
    200 columns with 2 to 16 % nonzero cells: dense and sparse took equally long with 2 nonzeros in 40 columns, 5 in 56
    and 15 in 100."""
    number_cells: int = 4
    """Cost of a stored number in dense cells (see ``row_cells``)."""
    block_cells: int = 1 << 17
    """Number of cells read and put into C order at a time (1 MB of float64)."""


SETTINGS = SparseCopySettings()


class SparseRows(ArraySource):
    """CSR copy of the rows of a source in memory; ``X`` is the dense array, or None if the source is a table.

    Parameters
    ----------
    source : ArraySource or TableSource
        Dense rows.
    n_jobs : int
        Number of threads that read it.
    """

    def __init__(self, source: Any, n_jobs: int) -> None:
        self.source, self.X = source, getattr(source, "X", None)
        self.y, self.n_jobs = source.y, source.n_jobs
        self.weight = np.broadcast_to(1.0, self.y.shape) if source.weight is None else source.weight
        self.n_entries, self.n_attributes = source.n_entries, source.n_attributes
        self.encoding, self.inputs, self.memory_limit = source.encoding, source.inputs, source.memory_limit
        self.is_sparse = True
        self._chunks = {}
        if hasattr(source, "names"):
            self.names = source.names
        self._parts: list[Any] = spread(self._stored, self.n_chunks, n_jobs)
        self.reading_bytes = sum(part.data.nbytes + part.indices.nbytes + part.indptr.nbytes for part in self._parts)

    def _stored(self, k: int) -> Any:
        """Return chunk ``k`` as a CSR matrix, made by one read of its rows in compiled code."""
        from aidlearn.data.passes.compiled import store

        m, start = self.n_attributes, k * self.rows_per_chunk
        stop = min(start + self.rows_per_chunk, self.n_entries)
        size = max(1, SETTINGS.block_cells // m)
        room = np.empty(size * m, dtype=np.float64 if self.X is None else self.X.dtype), np.empty(size * m, dtype=INDEX)
        indptr = np.zeros(stop - start + 1, dtype=INDEX)
        parts, stored = [], 0
        for first in range(start, stop, size):
            last = min(first + size, stop)
            dense = self.source.rows(first, last).X if self.X is None else self.X[first:last]
            bounds = indptr[first - start : last - start + 1]
            found = store(np.ascontiguousarray(dense), *room, bounds)
            bounds += stored
            stored += found
            parts.append([numbers[:found].copy() for numbers in room])
        data, indices = (np.concatenate(numbers) for numbers in zip(*parts, strict=True))
        return sparse.csr_array((data, indices, indptr), shape=(stop - start, m))

    def rows(self, start: int, stop: int) -> Chunk:
        size = self.rows_per_chunk
        held = range(start // size, max(start // size + 1, -(-stop // size)))
        parts = []
        for k in held:
            first, last = max(start - k * size, 0), min(stop - k * size, size)
            part = self._parts[k]
            parts.append(part if (first, last) == (0, part.shape[0]) else part[first:last])
        X, rows = parts[0] if len(parts) == 1 else sparse.vstack(parts, format="csr"), slice(start, stop)
        return Chunk(start, stop, X, self.y[rows], np.ascontiguousarray(self.weight[rows]))

    def every(self, step: int, offset: int) -> Chunk:
        return join([self.chunk(k).every(step, offset) for k in range(self.n_chunks)])

    def column_name(self, column: int) -> str:
        return str(self.source.column_name(column))


def density_of(source: Any) -> float:
    """Estimate the share of nonzero cells of a source in memory from a stratified sample of rows."""
    n, m = source.n_entries, source.n_attributes
    together = 1 if isinstance(source, ArraySource) else SETTINGS.rows_together
    strata = SETTINGS.sampled_rows // together
    bounds = np.arange(strata + 1) * (n - together + 1) // strata
    # Random within strata rather than every k-th row: rows may be periodic.
    rows = np.random.default_rng(0).integers(bounds[:-1], np.maximum(bounds[1:], bounds[:-1] + 1))
    if isinstance(source, ArraySource):
        found = int(np.count_nonzero(source.X[rows]))
    else:
        found = sum(int(np.count_nonzero(source.rows(row, row + together).X)) for row in rows.tolist())
    return float(found / (len(rows) * together * m))


def pays(m: int, itemsize: int, density: float) -> bool:
    """Return whether sparse rows take little memory and their fits take less time than those of dense rows."""
    numbers = density * m
    memory = numbers * (itemsize + INDEX.itemsize) + INDEX.itemsize
    return memory <= SETTINGS.most_memory * m * itemsize and SETTINGS.row_cells + SETTINGS.number_cells * numbers <= m


def without_zeros(source: DataSource, n_jobs: int | None = None) -> DataSource:
    """Return the source, or a sparse copy of it if it is a large array or table in memory that is mostly zeros.

    Parameters
    ----------
    source : DataSource
    n_jobs : int, optional
        Number of threads; by default that of the source.
    """
    if isinstance(source, KeptRows):
        inside = without_zeros(source.source, n_jobs)
        return source if inside is source.source else KeptRows(inside, source.keep, source.y, source.weight)
    if type(source) not in (ArraySource, TableSource) or source.is_sparse or source.encoding is not None:
        return source
    m = source.n_attributes
    # A sparse copy of few columns never pays, and an index must be able to count the cells of a chunk.
    if m < SETTINGS.row_cells or not worth_compiling(source) or chunk_rows(m, True) * m > np.iinfo(INDEX).max:
        return source
    itemsize = source.X.itemsize if isinstance(source, ArraySource) else 8
    limit = source.memory_limit
    if limit is not None and SETTINGS.most_memory * source.n_entries * m * itemsize > limit:
        return source
    if not pays(m, itemsize, density_of(source)):
        return source
    return SparseRows(source, n_threads(source.n_jobs if n_jobs is None else n_jobs))
