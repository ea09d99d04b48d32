"""Sparse rows of aggregated problems, compiled: Gram matrices, and columns split into dense and sparse ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.data.chunk import Float
from aidlearn.data.compiled import compiled, vector
from aidlearn.linear.gram import in_runs

ROWS_PER_CELL = 1 / 16
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
def _mirror(G):
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


# For callers in Python


def sparse_gram(rows: Any, D: Float, n_jobs: int = 1) -> Float:
    """``S' diag(D) S`` of a CSR matrix whose columns ascend in every row."""
    K, p = rows.shape
    data, indices, indptr = vector(rows.data), vector(rows.indices), vector(rows.indptr)

    def part(first: int, last: int, total: Float | None) -> Float:
        G = np.zeros((p, p)) if total is None else total
        _sparse_gram(data, indices, indptr[first : last + 1], D[first:last], G)
        return G

    gram = _summed(part, K, p * p, n_jobs)
    _mirror(gram)
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
    """Rows of :meth:`aidlearn.linear.design.Design.aggregate` for entries alone, as a CSR matrix."""
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
