"""Compiled passes of every model: validation, column sums, leverages and sparse copies of dense rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aidlearn.data.rows.compiled import (
    BLOCK,
    add_squares,
    compiled,
    count,
    plain,
    products,
    products_of_four,
    rows_of,
    vector,
)


@compiled
def _measure(rows, y, weight, scalars, sums, squares, raw):
    n = count(rows)
    total, total_squares, target_squares, least, others = 0.0, 0.0, 0.0, np.inf, 0
    for i in range(n):
        s = weight[i]
        total += s
        total_squares += s * s
        target_squares += y[i] * y[i]
        least = s if s < least else least
        others += s != 1.0
    plain = others == 0
    for first in range(0, n, BLOCK):
        add_squares(rows, first, min(n, first + BLOCK), weight, plain, sums, squares, raw)
    scalars[0] = total
    scalars[1] = total_squares
    scalars[2] = target_squares
    scalars[3] = least
    return plain


@compiled
def _scores(rows, planes, weight, least, some, out, norms):
    """Compute scores at several planes into ``out``, or, if ``norms`` has rows, :func:`leverages` into ``norms``."""
    n, n_planes = count(rows), planes.shape[0]
    for first in range(0, n, BLOCK):
        last = min(n, first + BLOCK)
        fours = n_planes // 4 * 4
        for q in range(0, fours, 4):
            products_of_four(rows, first, last, planes, q, some)
        for q in range(fours, n_planes):
            products(rows, first, last, planes, q, some, q * BLOCK)
        if norms.shape[0] == 0:
            for q in range(n_planes):
                for k in range(last - first):
                    out[q, first + k] = some[q * BLOCK + k]
        else:
            for k in range(last - first):
                square = 0.0
                for q in range(n_planes):
                    square += some[q * BLOCK + k] * some[q * BLOCK + k]
                square /= 1.0 + weight[first + k] * square
                norms[first + k] = math.sqrt(max(square, least))


def measure(X: Any, y: Any, weight: Any) -> tuple[Any, ...]:
    """Return the values of :class:`aidlearn.data.passes.moments.Measured` for a chunk, in one read."""
    scalars, sums = np.zeros(4), np.zeros((3, X.shape[1]))
    all_one = _measure(rows_of(X), vector(y), vector(weight), scalars, sums[0], sums[1], sums[2])
    return *scalars.tolist(), sums[0], sums[1], sums[1] if all_one else sums[2]


_NOTHING, _NO_SCORES, _NO_NORMS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.float32)


def leverages(X: Any, weight: Any, sketch: Any, least: float) -> Any:
    """Return the leverage (float32) of each row: its norm in the planes of a sketch, with the intercept's part last.

    The row itself counts as part of the Gram matrix, so that no leverage exceeds 1 (for weight 1).
    """
    norms = np.empty(len(weight), dtype=np.float32)
    _scores(rows_of(X), sketch, vector(weight), least, np.empty(len(sketch) * BLOCK), _NO_SCORES, norms)
    return norms


@compiled
def _columns_before(indices, indptr, before):
    m = before.shape[0]
    for i in range(indptr.shape[0] - 1):
        last = np.int64(-1)
        for k in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            j = np.int64(indices[k])
            # If the columns of a row do not ascend, no range with this column is known to be exclusive.
            before[j] = max(before[j], last if j > last else m)
            last = j


def columns_before(X: Any) -> Any:
    """Return, for each column of a CSR matrix, the largest column that precedes it in any row, or -1."""
    before = np.full(X.shape[1], -1, dtype=np.int64)
    _columns_before(vector(X.indices), vector(X.indptr), before)
    return before


GROUP = 8
"""Number of cells tested together; one test skips them all if they are zero."""


@compiled
def _store(X, bits, data, indices, indptr):
    """Store the nonzero cells and return their number."""
    n, m = X.shape
    whole = m // GROUP * GROUP
    at = 0
    indptr[0] = 0
    for i in range(n):
        for left in range(0, whole, GROUP):
            found = bits[i, left]
            for j in range(left + 1, left + GROUP):
                found |= bits[i, j]
            if found:
                for j in range(left, left + GROUP):
                    # Always written, kept only if nonzero: a branch would be mispredicted too often.
                    data[at], indices[at] = X[i, j], j
                    at += X[i, j] != 0
        for j in range(whole, m):
            data[at], indices[at] = X[i, j], j
            at += X[i, j] != 0
        indptr[i + 1] = at
    return at


def store(block: Any, data: Any, indices: Any, indptr: Any) -> int:
    """Write numbers, columns and bounds of the rows of a C-ordered block, and return the number of nonzero cells.

    ``data`` and ``indices`` must have room for all cells of the block.
    """
    X = plain(block)
    return int(_store(X, X.view(np.int32 if X.itemsize == 4 else np.int64), data, indices, indptr))
