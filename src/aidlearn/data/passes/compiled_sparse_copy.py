"""CSR rows of the nonzero numbers of a dense block, in one read of the block."""

from __future__ import annotations

from typing import Any

import numpy as np

from aidlearn.data.rows.compiled import compiled, plain

GROUP = 8
"""Cells that are tested together: one test skips them all if they are zero."""


@compiled
def _store(X, bits, data, indices, indptr):
    """Store the nonzero cells and return their number, or -1 if they may exceed the room."""
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
                    # Written always, kept if nonzero: a branch would be mispredicted too often.
                    data[at], indices[at] = X[i, j], j
                    at += X[i, j] != 0
        for j in range(whole, m):
            data[at], indices[at] = X[i, j], j
            at += X[i, j] != 0
        indptr[i + 1] = at
    return at


def store(block: Any, data: Any, indices: Any, indptr: Any) -> int:
    """Write numbers, columns and bounds of the rows of a C-ordered block; return -1 if there is no room."""
    X = plain(block)
    return int(_store(X, X.view(np.int32 if X.itemsize == 4 else np.int64), data, indices, indptr))
