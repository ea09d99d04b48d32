"""Sparse rows of aggregated problems, compiled: Gram matrices, and columns split into dense and sparse ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.data.rows.compiled import compiled, vector
from aidlearn.linear.rows.gram import in_runs
from aidlearn.numerics import Float

ROWS_PER_CELL = 1 / 8
"""Rows of a block per cell of the matrix that they add to: a row takes few operations, a cell one more addition."""
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
def _split(data, indices, indptr, factor, position, dense, out, columns, starts):
    """Rows times a factor: columns with a position are sparse, others at ``-1 - position`` dense, a NaN-free copy."""
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
def _alone(data, indices, indptr, signed, offset, weight, has_intercept, m, out, columns, starts):
    """Signed and weighted rows with the intercept's column, ``s e`` and ``s`` behind."""
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
def _level_sums(level, own, weight, dense, others, indptr, target, d, with_dense, with_sparse):
    q = dense.shape[1]
    for i in range(level.shape[0]):
        if level[i] < 0:
            continue
        at, signed = np.uintp(level[i]), weight[i] * own[i]
        d[at] += signed * own[i]
        for j in range(q):
            with_dense[at, j] += signed * dense[i, j]
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            with_sparse[np.uintp(target[k])] += signed * others[k]


# For callers in Python


def level_places(S: Any, first: int, last: int) -> tuple[Any, ...]:
    """Level (-1: none) and its place in the data of each row, places and CSR structure of all other columns."""
    K, nnz = S.shape[0], S.nnz
    level, place = np.empty(K, dtype=np.int64), np.empty(K, dtype=np.int64)
    others_place, columns = np.empty(nnz, dtype=np.int64), np.empty(nnz, dtype=S.indices.dtype)
    starts = np.zeros(K + 1, dtype=S.indptr.dtype)
    n = _level_places(vector(S.indices), vector(S.indptr), first, last, level, place, others_place, columns, starts)
    return level, place, others_place[:n].copy(), columns[:n].copy(), starts


def level_pattern(rows: Any, starts: Any, others: Any, n_rows: int) -> tuple[Any, Any]:
    """CSR structure of levels x other columns, and the place there of every number of the other columns.

    ``rows[starts[l]:starts[l + 1]]`` are the rows of level l.
    """
    indices, indptr = vector(others.indices), vector(others.indptr)
    found, target = np.empty(others.nnz, dtype=indices.dtype), np.zeros(others.nnz, dtype=np.int64)
    mark = np.zeros(others.shape[1], dtype=np.int64)
    bounds = _level_pattern(rows, starts, indices, indptr, mark, found, target)
    return csr(np.zeros(bounds[-1]), found[: bounds[-1]].copy(), bounds, others.shape[1]), target


def level_sums(level: Any, own: Any, weight: Any, dense: Any, others: Any, target: Any, *sums: Any) -> None:
    """Add to three sums what every row has of its level: with itself, with dense columns, with other sparse ones.

    ``others`` are the numbers of the other columns, with the row boundaries of their CSR matrix.
    """
    data, indptr = others
    dense = np.ascontiguousarray(dense)
    _level_sums(level, own, weight, dense, data, vector(indptr), target, *sums)


def sparse_gram(rows: Any, D: Float, n_jobs: int = 1, mirrored: bool = True) -> Float:
    """``S' diag(D) S`` of a CSR matrix whose columns ascend in every row; or only what is above the diagonal."""
    K, p = rows.shape
    data, indices, indptr = vector(rows.data), vector(rows.indices), vector(rows.indptr)

    def part(first: int, last: int, total: Float | None) -> Float:
        G = np.zeros((p, p)) if total is None else total
        _sparse_gram(data, indices, indptr[first : last + 1], D[first:last], G)
        return G

    gram = _summed(part, K, p * p, n_jobs)
    if mirrored:
        mirror(gram)
    return gram


def mixed_gram(A: Float, rows: Any, D: Float, n_jobs: int = 1) -> Float:
    """``A' diag(D) S`` of a dense array and a CSR matrix."""
    (K, p), q = rows.shape, A.shape[1]
    data, indices, indptr = vector(rows.data), vector(rows.indices), vector(rows.indptr)

    def part(first: int, last: int, total: Float | None) -> Float:
        G = np.zeros((p, q)) if total is None else total
        _mixed_gram(A[first:last], data, indices, indptr[first : last + 1], D[first:last], G)
        return G

    return np.asarray(_summed(part, K, p * q, n_jobs).T)


def _summed(part: Callable[[int, int, Float | None], Float], K: int, cells: int, n_jobs: int) -> Float:
    """The sum of parts over blocks of rows whose size follows from the matrix alone."""
    size = max(1024, int(cells * ROWS_PER_CELL))
    return in_runs(lambda first, total: part(first, min(first + size, K), total), range(0, max(K, 1), size), n_jobs)


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
    K = rows.shape[0]
    dense = np.zeros((K, n_dense))
    out, columns = np.empty(rows.nnz), np.empty(rows.nnz, dtype=rows.indices.dtype)
    starts = np.zeros(K + 1, dtype=rows.indptr.dtype)
    n_out = _split(
        vector(rows.data),
        vector(rows.indices),
        vector(rows.indptr),
        factor,
        position,
        dense,
        out,
        columns,
        starts,
    )
    return dense, csr(out[:n_out], columns[:n_out], starts, n_sparse)


def sums_alone(X: Any, signed: Float, offset: Float, weight: Float, has_intercept: bool) -> Any:
    """Rows of :meth:`aidlearn.linear.model.design.Design.aggregate` for entries alone, as a CSR matrix."""
    X = canonical(X)
    K, m = X.shape
    behind = 2 + has_intercept
    size = X.nnz + behind * K
    out, columns = np.empty(size), np.empty(size, dtype=X.indices.dtype)
    starts = np.zeros(K + 1, dtype=X.indptr.dtype)
    _alone(
        vector(X.data),
        vector(X.indices),
        vector(X.indptr),
        vector(signed),
        vector(offset),
        vector(weight),
        has_intercept,
        m,
        out,
        columns,
        starts,
    )
    return csr(out, columns, starts, m + behind)


def csr(data: Any, indices: Any, indptr: Any, n_columns: int) -> Any:
    """A CSR matrix known to be canonical, which spares looking."""
    matrix = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_columns))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix
