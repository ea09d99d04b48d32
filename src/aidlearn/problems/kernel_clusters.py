"""Kernel sums of clusters: what of an n x n kernel matrix the aggregated problem needs, within a memory limit.

Rows that are alone enter with their kernel values among each other; a cluster of several rows with one column, its
weighted kernel sum against all rows. Both are updated when clusters split, never computed again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.source import Float, Int
from aidlearn.kernels.rows import CompiledRows, KernelRows
from aidlearn.solvers.kernel_dual import SMALL, KernelDual

GROWTH = 2
"""Room that a matrix gets for more rows."""


class KernelClusters:
    """The members of the aggregated problem: single rows first, in the order they came, then shared clusters."""

    def __init__(self, rows: KernelRows, y: Float, box: Float, memory_limit: float) -> None:
        n = rows.n
        self.rows, self.y, self.box, self.limit = rows, y, box, memory_limit
        self.labels = np.full(n, -1, dtype=np.int32)
        self.near: Int = np.empty(0, dtype=np.int64)
        self.ids: Int = np.empty(0, dtype=np.int64)
        """Cluster of each column of ``sums``."""
        self.sums: Float = np.zeros((n, 0), order="F")
        self.weights: Float = np.zeros(0)
        self._column_of = np.full(n, -1, dtype=np.int64)
        self._matrix: NDArray[Any] | None = None
        self._filled = 0

    @property
    def max_shared(self) -> int:
        """Clusters whose columns fit into a quarter of the memory."""
        return max(8, int(self.limit / 4 / (8 * self.rows.n)))

    @property
    def max_matrix(self) -> int:
        """Rows of the largest matrix in half of the memory (a small one is always allowed)."""
        size = np.dtype(self.rows.dtype).itemsize if self.rows.compiled else 24  # libsvm copies it to float64
        return max(SMALL, int(np.sqrt(self.limit / 2 / size)))

    def room(self, separate: bool) -> int:
        """How many more rows may become clusters of their own."""
        if not separate and len(self.ids) * 2 <= self.max_shared:
            return 0
        most = self.rows.n if self.rows.compiled else self.max_matrix
        return max(0, most - len(self.near) - len(self.ids))

    def update(self, labels: NDArray[np.int32], counts: Int, idle: NDArray[np.bool_]) -> None:
        """Take over a partition; clusters that are idle have no part in the aggregated problem."""
        before, self.labels = self._column_of, labels
        single = counts[labels] == 1
        known = np.zeros(len(labels), dtype=bool)
        known[self.near] = True
        self.near = np.concatenate([self.near, np.flatnonzero(single & ~known)])
        shared = np.flatnonzero((counts > 1) & ~idle)
        position = np.full(len(counts), -1, dtype=np.int64)
        position[shared] = np.arange(len(shared))
        now = np.where(single, -1, position[labels])
        old_position = {k: p for p, k in enumerate(self.ids.tolist())}
        if not np.array_equal(shared, self.ids):
            sums = np.zeros((len(labels), len(shared)), order="F")
            for p, k in enumerate(shared.tolist()):
                if k in old_position:
                    sums[:, p] = self.sums[:, old_position[k]]
            # Positions of the rows' columns before, in terms of the columns now.
            renumbered = np.full(len(self.ids) + 1, -1, dtype=np.int64)
            for k, p in old_position.items():
                renumbered[p] = position[k]
            before = renumbered[before]
            self.sums, self.ids = sums, shared
        moved = np.flatnonzero(before != now)
        self._move(moved, before[moved], now[moved], np.bincount(now[now >= 0], minlength=len(shared)))
        self._column_of = now
        self.weights = np.bincount(now[now >= 0], weights=self.box[now >= 0], minlength=len(shared)).astype(np.float64)

    def _move(self, moved: Int, before: Int, now: Int, sizes: Int) -> None:
        """Bring the columns up to date with the rows that left and joined."""
        everything = np.arange(self.rows.n)
        for p in np.union1d(before[before >= 0], now[now >= 0]).tolist():
            left, joined = moved[before == p], moved[now == p]
            if len(left) and len(left) + len(joined) >= sizes[p]:
                members = np.flatnonzero(self.labels == self.ids[p])
                self.sums[:, p] = self.rows.times(everything, members, self.box[members, None])[:, 0]
                continue
            changed = np.concatenate([left, joined])
            weights = np.concatenate([-self.box[left], self.box[joined]])
            self.sums[:, p] += self.rows.times(everything, changed, weights[:, None])[:, 0]

    @property
    def size(self) -> int:
        return len(self.near) + len(self.ids)

    def collect(self, dual: Float) -> Float:
        """Aggregated dual of a dual of the rows."""
        shared = self._column_of >= 0
        sums = np.bincount(self._column_of[shared], weights=dual[shared], minlength=len(self.ids))
        return np.concatenate([dual[self.near], sums])

    def means(self, scores: Float) -> Float:
        """Scores of the members from those of the rows."""
        return np.concatenate([scores[self.near], self._weighted_means(scores)])

    def _weighted_means(self, values: Float) -> Float:
        shared = self._column_of >= 0
        weighted = self.box[shared] * values[shared]
        sums = np.bincount(self._column_of[shared], weights=weighted, minlength=len(self.ids))
        return sums / np.maximum(self.weights, 1e-300)

    def spread(self, alpha: Float) -> Float:
        """Signed coefficients of all rows at an aggregated dual."""
        shares = alpha[len(self.near) :] / np.maximum(self.weights, 1e-300)
        coef = np.zeros(self.rows.n)
        coef[self.near] = alpha[: len(self.near)]
        shared = self._column_of >= 0
        coef[shared] = self.box[shared] * shares[self._column_of[shared]]
        return self.y * coef

    def scores_of_change(self, before: Float, after: Float) -> Float:
        """What a change of the coefficients of all rows, in proportion within shared clusters, adds to the scores."""
        change = after - before
        shared = self._column_of >= 0
        shares = np.bincount(self._column_of[shared], weights=change[shared], minlength=len(self.ids))
        added = self.sums @ (shares / np.maximum(self.weights, 1e-300))
        changed = np.flatnonzero(change * ~shared)
        if len(changed):
            added += self.rows.times(np.arange(self.rows.n), changed, change[changed, None])[:, 0]
        return added

    def _signs(self) -> Float:
        signs = np.ones(len(self.ids))
        shared = self._column_of >= 0
        signs[self._column_of[shared]] = self.y[shared]
        return signs

    def dual(self) -> KernelDual:
        """The aggregated problem."""
        y = np.concatenate([self.y[self.near], self._signs()])
        box = np.concatenate([self.box[self.near], self.weights])
        fixed = self._fixed()
        if self.size <= self.max_matrix or not isinstance(self.rows, CompiledRows):
            return KernelDual(y, box, matrix=self._whole_matrix(fixed))
        self._matrix, self._filled = None, 0
        columns = int(self.limit / 2 / (self.size * np.dtype(self.rows.dtype).itemsize))
        return KernelDual(y, box, rows=self.rows, chosen=self.near, fixed=fixed, n_columns=columns)

    def _fixed(self) -> Float:
        """Kernel values of the shared clusters against all members."""
        weights = np.maximum(self.weights, 1e-300)
        g = len(self.ids)
        among = np.array([self._weighted_means(column) for column in self.sums.T]).reshape(g, g)
        among = 0.5 * (among / weights[:, None] + (among / weights[:, None]).T)
        return np.concatenate([self.sums[self.near] / weights, among])

    def _whole_matrix(self, fixed: Float) -> NDArray[Any]:
        """All members; rows may be longer than their number. Single rows keep their places."""
        q, n = len(self.near), self.size
        if self._matrix is None or len(self._matrix) < n:
            # What is never touched costs no memory.
            capacity = max(n, min(self.max_matrix, GROWTH * n, self.rows.n + 8))
            grown = np.empty((capacity, capacity), dtype=self.rows.dtype)
            if self._matrix is not None:
                grown[: self._filled, : self._filled] = self._matrix[: self._filled, : self._filled]
            self._matrix = grown
        matrix, old = self._matrix, self._filled
        if q > old:
            self.rows.block(self.near[old:], self.near, out=matrix[old:q])
            for k in range(0, old, 512):
                part = slice(k, min(old, k + 512))
                matrix[part, old:q] = matrix[old:q, part].T
        self._filled = q
        matrix[:n, q:n] = fixed
        matrix[q:n, :q] = fixed[:q].T
        return matrix[:n]

    def error(self, alpha: Float) -> float:
        """A bound on the error of ``|w|^2`` at an aggregated dual, from that of the kernel values of each row."""
        rounding = self.rows.rounding()
        weighted = alpha * np.concatenate([rounding[self.near], self._weighted_means(rounding)])
        if self._matrix is not None and self.rows.kernel.name == "rbf":
            n = self.size
            products = [part[:, :n] @ alpha.astype(part.dtype) for part in np.array_split(self._matrix[:n], 32)]
            return float(weighted @ np.concatenate(products))
        lengths = np.concatenate([self.rows.lengths[self.near], self._weighted_means(self.rows.lengths)])
        return float(weighted @ lengths) * float(alpha @ lengths)
