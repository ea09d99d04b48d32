"""Gram matrices ``A' diag(D) A`` on all cores, with the same bits for any number of threads.

Rows are cut into blocks whose size follows from the number of columns alone; each block's matrix is computed by one
thread with one BLAS thread, and they are added in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from aidlearn.data.rows.threads import spread
from aidlearn.numerics import Float

RUNS = 8
"""Runs of blocks, whatever the number of threads: their matrices exist side by side and are added in order."""
ONE_RUN = 1 << 22
"""Operations of a Gram matrix below which threads do not pay."""
ONE_BLOCK = 512
"""Rows that are not cut into runs: these would mostly add matrices."""
FEW_COLUMNS = 32
"""Up to which both halves of a symmetric matrix cost less than one and the roots of D."""
BLOCK_ROWS = 2048
"""Of a block at most: few enough to scale in cache."""


def block_rows(K: int, p: int) -> int:
    """Rows of a block: as many for each run, and enough that adding a p x p matrix is small beside computing it."""
    runs = RUNS if K >= RUNS * BLOCK_ROWS // 2 else RUNS // 2
    return -(-K // (runs * max(1, -(-K // (runs * max(2 * p, BLOCK_ROWS))))))


def weighted_gram(A: Float, D: Float | None = None, n_jobs: int = 1) -> Float:
    """``A' diag(D) A`` (``A'A`` without D)."""
    K, p = A.shape
    if p <= FEW_COLUMNS and D is not None and K * p * p <= ONE_RUN:
        return np.asarray((A * D[:, None]).T @ A)
    if K * p * p <= ONE_RUN or K <= ONE_BLOCK:
        B = A if D is None else A * np.sqrt(D)[:, None]
        return np.asarray(B.T @ B)
    size = block_rows(K, p)

    def part(first: int, total: Float | None) -> Float:
        rows = slice(first, first + size)
        B = A[rows] if D is None else A[rows] * np.sqrt(D[rows])[:, None]
        # By NumPy, whose products let other threads run (scipy's BLAS functions do not); B'B costs half of a product.
        block = np.asarray(B.T @ B)
        if total is None:
            return block
        total += block
        return total

    return in_runs(part, range(0, K, size), n_jobs)


def in_runs(part: Callable[[int, Float | None], Float], starts: range, n_jobs: int, one_run: bool = False) -> Float:
    """The sum of blocks: those of a run one after the other by ``part(first, sum so far)``, then the runs in order."""
    n_runs = 1 if one_run else max(1, min(RUNS, len(starts)))
    cuts = [len(starts) * run // n_runs for run in range(n_runs + 1)]

    def total_of(run: int) -> Float:
        total = None
        for first in starts[cuts[run] : cuts[run + 1]]:
            total = part(first, total)
        assert total is not None
        return total

    return sum_in_order(spread(total_of, n_runs, n_jobs))


def sum_in_order(parts: Iterable[Float]) -> Float:
    """The sum of matrices, the first of which takes it up."""
    total: Float | None = None
    for part in parts:
        if total is None:
            total = part
        else:
            total += part
    assert total is not None
    return total
