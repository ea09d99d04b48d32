"""Compiled code for sparse rows of aggregated problems: Gram matrices, sums of one large factor, split columns.

Compiled code takes CSR matrices as the tuples ``(data, indices, indptr)`` of
:func:`aidlearn.data.rows.compiled.rows_of`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.data.rows.compiled import compiled, rows_of
from aidlearn.linear.rows.columns import csr, row_numbers
from aidlearn.linear.rows.matrix import in_runs
from aidlearn.numerics import Float, Int

ROWS_PER_CELL = 1 / 8
"""Rows of a block per cell of its matrix: adding a block's matrix costs one addition per cell."""
TILE = 32
"""Size of the tiles in which a matrix is mirrored."""


@compiled
def _sparse_gram(data, indices, indptr, D, G):
    """Add ``S' diag(D) S`` to the upper triangle of G; the columns of each row ascend."""
    for i in range(indptr.shape[0] - 1):
        start, stop, d = np.uintp(indptr[i]), np.uintp(indptr[i + 1]), D[i]
        if d == 0.0:
            continue
        for a in range(start, stop):
            ja, factor = np.uintp(indices[a]), d * data[a]
            for b in range(a, stop):
                G[ja, np.uintp(indices[b])] += factor * data[b]


@compiled
def mirror(G):
    """Copy the upper triangle into the lower one, by tiles that fit into cache."""
    p = G.shape[0]
    for top in range(0, p, TILE):
        for left in range(top, p, TILE):
            for i in range(top, min(p, top + TILE)):
                for j in range(max(left, i + 1), min(p, left + TILE)):
                    G[j, i] = G[i, j]


@compiled
def _mixed_gram(A, data, indices, indptr, D, G):
    """Add ``D_i data_ij A_i`` to row j of G."""
    q = A.shape[1]
    for i in range(indptr.shape[0] - 1):
        for a in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            j, factor = np.uintp(indices[a]), D[i] * data[a]
            for k in range(q):
                G[j, k] += factor * A[i, k]


@compiled
def _split(rows, factor, position, dense, out, columns, starts):
    """Scale rows; a column with position >= 0 is sparse, any other one goes to dense column ``-1 - position``."""
    data, indices, indptr = rows
    at = 0
    for i in range(indptr.shape[0] - 1):
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            place, value = position[np.uintp(indices[k])], factor[i] * data[k]
            if place >= 0:
                out[at] = value
                columns[at] = place
                at += 1
            else:
                dense[i, -1 - place] += value
        starts[i + 1] = at
    return at


@compiled
def _level_sums(level, own, weight, dense, others, target, d, with_dense, with_sparse):
    """Add, for each row, the products of its level with itself, with dense columns and with other sparse ones."""
    numbers, _, indptr = others
    q = dense.shape[1]
    for i in range(level.shape[0]):
        if level[i] < 0:
            continue
        at, signed = np.uintp(level[i]), weight[i] * own[i]
        d[at] += signed * own[i]
        for j in range(q):
            with_dense[at, j] += signed * dense[i, j]
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            with_sparse[np.uintp(target[k])] += signed * numbers[k]


@dataclass(frozen=True)
class Levels:
    """Positions of the levels of one large factor in sparse columns, and of their products with other columns.

    Fixed effects and identifiers make thousands of columns; each row has a non-zero in one of them.
    :class:`aidlearn.linear.rows.normal.ArrowNormal` eliminates them.
    """

    n_levels: int
    level: Int
    """Level of each row, -1 for rows without one."""
    place: Int
    """Position of the level's value in the data of the matrix, 0 for rows without a level."""
    others: Any
    """CSR pattern of the other columns; its values are placeholders."""
    others_place: Int
    """Positions of the other columns' values in the data of the matrix."""
    cross: Any
    """CSR pattern of levels x other columns, with room for every product."""
    target: Int
    """Position in the data of ``cross`` for each value of the other columns."""

    @classmethod
    def of(cls, S: Any, columns: range) -> Levels:
        """Find the levels in a CSR matrix whose columns ascend in every row; each row has at most one level."""
        (K, p), row = S.shape, row_numbers(S)
        own = (S.indices >= columns.start) & (S.indices < columns.stop)
        level, place = np.full(K, -1), np.zeros(K, dtype=np.int64)
        level[row[own]], place[row[own]] = S.indices[own] - columns.start, np.flatnonzero(own)
        # Number the other columns consecutively.
        number = np.delete(np.arange(p), columns)
        new = np.zeros(p, dtype=S.indices.dtype)
        new[number] = np.arange(len(number))
        starts = np.append(0, np.cumsum(~own))[S.indptr].astype(S.indptr.dtype)
        others = csr(np.zeros(starts[-1]), new[S.indices[~own]], starts, len(number))

        # A level has one product with each distinct other column of its rows, in ascending order.
        of_entry = level[row[~own]]
        found, target = np.unique(of_entry * len(number) + others.indices, return_inverse=True)
        first = np.searchsorted(found, 0)  # rows without a level have none
        found, target = found[first:], np.maximum(target - first, 0)
        bounds = np.searchsorted(found, np.arange(len(columns) + 1) * len(number))
        indices = (found % max(len(number), 1)).astype(S.indices.dtype)
        cross = csr(np.zeros(len(found)), indices, bounds, len(number))
        return cls(len(columns), level, place, others, np.flatnonzero(~own), cross, target)

    def others_of(self, data: Float) -> Any:
        """Return the other columns, with values from the data of the matrix."""
        return csr(data[self.others_place], self.others.indices, self.others.indptr, self.others.shape[1])

    def sums(self, data: Float, dense: Float, weight: Float) -> tuple[Float, Float, sparse.csr_array]:
        """Return ``a_l' W a_l`` of the levels, and ``a_l' W D`` and ``a_l' W S`` with dense and sparse columns."""
        d, with_dense = np.zeros(self.n_levels), np.zeros((self.n_levels, dense.shape[1]))
        with_sparse = np.zeros(len(self.cross.data))
        own = np.where(self.level >= 0, data[self.place], 0.0) if len(data) else np.zeros(len(weight))
        numbers, dense = rows_of(self.others_of(data)), np.ascontiguousarray(dense)
        _level_sums(self.level, own, weight, dense, numbers, self.target, d, with_dense, with_sparse)
        return d, with_dense, csr(with_sparse, self.cross.indices, self.cross.indptr, self.cross.shape[1])


def sparse_gram(S: Any, D: Float, n_jobs: int = 1) -> Float:
    """Return the upper triangle of ``S' diag(D) S`` for a CSR matrix whose columns ascend in every row."""
    p = S.shape[1]
    return _summed(lambda data, indices, indptr, rows, G: _sparse_gram(data, indices, indptr, D[rows], G), S, p, n_jobs)


def mixed_gram(A: Float, S: Any, D: Float, n_jobs: int = 1) -> Float:
    """Return ``A' diag(D) S`` of a dense array and a CSR matrix."""

    def add(data: Any, indices: Any, indptr: Any, rows: slice, G: Float) -> None:
        _mixed_gram(A[rows], data, indices, indptr, D[rows], G)

    return np.asarray(_summed(add, S, A.shape[1], n_jobs).T)


def _summed(add: Callable[[Any, Any, Any, slice, Float], None], S: Any, n_columns: int, n_jobs: int) -> Float:
    """Return the sum that ``add`` accumulates over blocks of rows; their size depends on the matrix alone."""
    (K, p), (data, indices, indptr) = S.shape, rows_of(S)
    size = max(1024, int(p * n_columns * ROWS_PER_CELL))

    def part(first: int, total: Float | None) -> Float:
        G, last = np.zeros((p, n_columns)) if total is None else total, min(first + size, K)
        add(data, indices, indptr[first : last + 1], slice(first, last), G)
        return G

    return in_runs(part, range(0, max(K, 1), size), n_jobs)


def split_columns(rows: Any, factor: Float, position: Any, n_dense: int, n_sparse: int) -> tuple[Float, Any]:
    """Return scaled rows of a canonical CSR matrix as dense columns and a CSR matrix of the others.

    ``position`` is k for the k-th sparse column and -1 - k for the k-th dense one.
    """
    dense, starts = np.zeros((rows.shape[0], n_dense)), np.zeros(rows.shape[0] + 1, dtype=rows.indptr.dtype)
    out, columns = np.empty(rows.nnz), np.empty(rows.nnz, dtype=rows.indices.dtype)
    n = _split(rows_of(rows), factor, position, dense, out, columns, starts)
    return dense, csr(out[:n], columns[:n], starts, n_sparse)
