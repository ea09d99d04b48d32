"""The numbers of a dense block that are not zero, as CSR rows, in one read of the block."""

from __future__ import annotations

from typing import Any

import numpy as np

from aidlearn.data.rows.compiled import compiled, plain

GROUP = 8
"""Cells that are looked at together: where all are zero, which one test tells, none is looked at alone."""


@compiled
def _store(X, bits, data, indices, indptr):
    """Number of the cells stored, or -1 where they may be more than there is room for."""
    n, m = X.shape
    whole = m // GROUP * GROUP
    room, at = data.shape[0], 0
    indptr[0] = 0
    for i in range(n):
        if at + m > room:
            return -1
        for left in range(0, whole, GROUP):
            found = bits[i, left]
            for j in range(left + 1, left + GROUP):
                found |= bits[i, j]
            if found:
                for j in range(left, left + GROUP):
                    # Always written, and kept where it is not zero: a branch would be guessed wrongly too often.
                    data[at], indices[at] = X[i, j], j
                    at += X[i, j] != 0
        for j in range(whole, m):
            data[at], indices[at] = X[i, j], j
            at += X[i, j] != 0
        indptr[i + 1] = at
    return at


def store(block: Any, data: Any, indices: Any, indptr: Any) -> int:
    """Write the numbers, columns and bounds of the rows of a C-ordered block; -1 where there is no room for them."""
    X = plain(block)
    return int(_store(X, X.view(np.int32 if X.itemsize == 4 else np.int64), data, indices, indptr))
