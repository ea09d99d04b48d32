"""Sparse rows of aggregated problems, compiled: Gram matrices, columns split into dense and sparse ones, one factor.

CSR matrices are the tuples ``(data, indices, indptr)`` of :func:`aidlearn.data.rows.compiled.rows_of` in compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.data.rows.compiled import compiled, rows_of, vector
from aidlearn.linear.rows.matrix import in_runs
from aidlearn.numerics import Float, Int

ROWS_PER_CELL = 1 / 8
"""Rows of a block for each cell of the matrix that they add to: adding a block costs one addition per cell."""
TILE = 32
"""Rows and columns of a matrix that are mirrored at a time."""


@compiled
def _sparse_gram(data, indices, indptr, D, G):
    """Add to ``G[small, large]``; the columns of a row ascend."""
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
    """Copy what is above the diagonal below it, by tiles that fit into cache."""
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
    """Rows times a factor: columns with a position are sparse, others at ``-1 - position`` dense."""
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
def _alone(rows, signed, offset, weight, has_intercept, m, out, columns, starts):
    """Signed and weighted rows with the intercept's column, ``s e`` and ``s`` behind."""
    data, indices, indptr = rows
    at = 0
    for i in range(indptr.shape[0] - 1):
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            out[at] = signed[i] * data[k]
            columns[at] = indices[k]
            at += 1
        behind = m
        if has_intercept:
            out[at] = signed[i]
            columns[at] = behind
            at += 1
            behind += 1
        out[at] = weight[i] * offset[i]
        columns[at] = behind
        out[at + 1] = weight[i]
        columns[at + 1] = behind + 1
        at += 2
        starts[i + 1] = at


@compiled
def _level_places(indices, indptr, first, last, level, place, others_place, columns, starts):
    """Split the numbers of each row into that of a level in ``first:last`` and those of other columns."""
    at = 0
    for i in range(indptr.shape[0] - 1):
        level[i] = -1
        place[i] = 0
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            j = np.int64(indices[k])
            if first <= j < last:
                level[i] = j - first
                place[i] = k
            else:
                others_place[at] = k
                columns[at] = j if j < first else j - (last - first)
                at += 1
        starts[i + 1] = at
    return at


@compiled
def _level_pattern(rows, starts, indices, indptr, mark, found, target):
    """Different other columns of the rows of each level, ascending, into ``found``; places of all numbers there."""
    at = 0
    bounds = np.zeros(starts.shape[0], dtype=np.int64)
    for level in range(starts.shape[0] - 1):
        begin = at
        for s in range(starts[level], starts[level + 1]):
            i = rows[s]
            for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
                j = np.uintp(indices[k])
                if mark[j] < begin + 1:
                    mark[j] = begin + 1
                    found[at] = j
                    at += 1
        found[begin:at].sort()
        for f in range(begin, at):
            mark[np.uintp(found[f])] = f
        for s in range(starts[level], starts[level + 1]):
            i = rows[s]
            for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
                target[k] = mark[np.uintp(indices[k])]
        for f in range(begin, at):
            mark[np.uintp(found[f])] = 0
        bounds[level + 1] = at
    return bounds


@compiled
def _level_sums(level, own, weight, dense, others, target, d, with_dense, with_sparse):
    """Add for each row its level's products with itself, with dense columns and with other sparse ones."""
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
    """One large factor among sparse columns: places of its levels, and of their products with other columns.

    Fixed effects and identifiers make thousands of columns of which every row has one.
    :class:`aidlearn.linear.rows.normal.ArrowNormal` eliminates them.
    """

    n_levels: int
    level: Int
    """Level of each row, or -1."""
    place: Int
    """Place of the level's number in the data of the matrix, 0 for rows without one."""
    others: Any
    """CSR matrix of the other columns (its numbers are not those of the data)."""
    others_place: Int
    """Places of the numbers of other columns in the data of the matrix."""
    cross: Any
    """CSR matrix of levels x other columns, with room for every product."""
    target: Int
    """Place of each number of other columns in the data of ``cross``."""

    @classmethod
    def of(cls, S: Any, columns: range) -> Levels:
        """The levels of a CSR matrix whose columns ascend in every row; each row has at most one in the range."""
        (_, indices, indptr), (K, p), n_levels = rows_of(S), S.shape, len(columns)
        level, place = np.empty(K, dtype=np.int64), np.empty(K, dtype=np.int64)
        others_place, found = np.empty(S.nnz, dtype=np.int64), np.empty(S.nnz, dtype=indices.dtype)
        starts = np.zeros(K + 1, dtype=indptr.dtype)
        n = _level_places(indices, indptr, columns.start, columns.stop, level, place, others_place, found, starts)
        others = csr(np.zeros(n), found[:n].copy(), starts, p - n_levels)

        rows = np.argsort(level, kind="stable")
        bounds = np.searchsorted(level[rows], np.arange(n_levels + 1))
        pattern, target = np.empty(n, dtype=indices.dtype), np.zeros(n, dtype=np.int64)
        mark = np.zeros(p - n_levels, dtype=np.int64)
        ends = _level_pattern(rows, bounds, others.indices, others.indptr, mark, pattern, target)
        cross = csr(np.zeros(ends[-1]), pattern[: ends[-1]].copy(), ends, p - n_levels)
        return cls(n_levels, level, place, others, others_place[:n].copy(), cross, target)

    def others_of(self, data: Float) -> Any:
        """The other columns, from the data of the matrix."""
        return csr(data[self.others_place], self.others.indices, self.others.indptr, self.others.shape[1])

    def sums(self, data: Float, dense: Float, weight: Float) -> tuple[Float, Float, sparse.csr_array]:
        """``a_l' W a_l`` of the levels, and their ``a_l' W D`` and ``a_l' W S`` with dense and sparse columns."""
        d, with_dense = np.zeros(self.n_levels), np.zeros((self.n_levels, dense.shape[1]))
        with_sparse = np.zeros(len(self.cross.data))
        own = np.where(self.level >= 0, data[self.place], 0.0) if len(data) else np.zeros(len(weight))
        numbers, dense = rows_of(self.others_of(data)), np.ascontiguousarray(dense)
        _level_sums(self.level, own, weight, dense, numbers, self.target, d, with_dense, with_sparse)
        return d, with_dense, csr(with_sparse, self.cross.indices, self.cross.indptr, self.cross.shape[1])


def sparse_gram(S: Any, D: Float, n_jobs: int = 1) -> Float:
    """``S' diag(D) S`` above the diagonal, for a CSR matrix whose columns ascend in every row."""
    p = S.shape[1]
    return _summed(lambda data, indices, indptr, rows, G: _sparse_gram(data, indices, indptr, D[rows], G), S, p, n_jobs)


def mixed_gram(A: Float, S: Any, D: Float, n_jobs: int = 1) -> Float:
    """``A' diag(D) S`` of a dense array and a CSR matrix."""

    def add(data: Any, indices: Any, indptr: Any, rows: slice, G: Float) -> None:
        _mixed_gram(A[rows], data, indices, indptr, D[rows], G)

    return np.asarray(_summed(add, S, A.shape[1], n_jobs).T)


def _summed(add: Callable[[Any, Any, Any, slice, Float], None], S: Any, n_columns: int, n_jobs: int) -> Float:
    """The sum over blocks of rows, whose size follows from the matrix alone, of what they add to its columns."""
    (K, p), (data, indices, indptr) = S.shape, rows_of(S)
    size = max(1024, int(p * n_columns * ROWS_PER_CELL))

    def part(first: int, total: Float | None) -> Float:
        G, last = np.zeros((p, n_columns)) if total is None else total, min(first + size, K)
        add(data, indices, indptr[first : last + 1], slice(first, last), G)
        return G

    return in_runs(part, range(0, max(K, 1), size), n_jobs)


def canonical(rows: Any) -> Any:
    """The same CSR matrix with ascending columns, each once in a row."""
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def split_columns(rows: Any, factor: Float, position: Any, n_dense: int, n_sparse: int) -> tuple[Float, Any]:
    """Rows of a canonical CSR matrix times a factor each, as dense columns and a CSR matrix of the others.

    ``position`` is the number of each column among the sparse ones, or -1 minus that among the dense ones.
    """
    dense = np.zeros((rows.shape[0], n_dense))
    out, columns, starts = _empty(rows, rows.nnz)
    n = _split(rows_of(rows), factor, position, dense, out, columns, starts)
    return dense, csr(out[:n], columns[:n], starts, n_sparse)


def sums_alone(X: Any, signed: Float, offset: Float, weight: Float, has_intercept: bool) -> Any:
    """Rows of :meth:`aidlearn.linear.model.design.Design.aggregate` for entries alone, as a CSR matrix."""
    X, behind = canonical(X), 2 + has_intercept
    out, columns, starts = _empty(X, X.nnz + behind * X.shape[0])
    numbers = vector(signed), vector(offset), vector(weight)
    _alone(rows_of(X), *numbers, has_intercept, X.shape[1], out, columns, starts)
    return csr(out, columns, starts, X.shape[1] + behind)


def _empty(rows: Any, size: int) -> tuple[Float, Any, Any]:
    """Room for as many rows as a CSR matrix has, with ``size`` numbers."""
    starts = np.zeros(rows.shape[0] + 1, dtype=rows.indptr.dtype)
    return np.empty(size), np.empty(size, dtype=rows.indices.dtype), starts


def csr(data: Any, indices: Any, indptr: Any, n_columns: int) -> Any:
    """A CSR matrix known to be canonical, which spares looking."""
    matrix = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_columns))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix
