"""Kernel sums of clusters (paper, appendix B): the parts of an n x n kernel matrix that the aggregated problem needs.

Single rows contribute the kernel values among them; a cluster of several rows contributes one column, its weighted
kernel sum against all rows. Both are updated when clusters split, not recomputed, and stay within a memory limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.engine.checkpoint import damaged, saved_array
from aidlearn.kernel.dual import SMALL, ColumnsOnDemand, KernelDual
from aidlearn.kernel.functions import TINY, Floats
from aidlearn.kernel.rows import KernelRows
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class ClusterSettings:
    """Sizes of kernel matrices and of their parts."""

    growth: int = 2
    """Guess. Factor by which the memory of a matrix grows."""
    least_shared: int = 8
    """Guess. Number of shared clusters allowed under any memory limit."""
    libsvm_bytes: int = 24
    """Bytes per kernel value with libsvm: the value is copied to float64, then copied again."""
    updates: float = 4.0
    """Guess. Expected errors of a kernel sum up to which the saved one, which was updated, is the same."""
    rounded: float = 1e-12
    """Guess. Error of a dual variable, over its box, that is rounding."""
    error_parts: int = 32
    """Number of parts in which a matrix is multiplied, so that it is never copied whole to another type."""


SETTINGS = ClusterSettings()


class OutOfTime(Exception):
    """The time limit passed before the kernel sums of new clusters were complete; partial sums are useless."""


class KernelClusters:
    """The members of the aggregated problem: single rows in the order in which they became single, then clusters."""

    def __init__(self, rows: KernelRows, y: Float, box: Float, edge: Float, memory_limit: float) -> None:
        n = rows.n
        self.rows, self.y, self.box, self.edge, self.limit = rows, y, box, edge, memory_limit
        self.labels = np.full(n, -1, dtype=np.int32)
        self.singles: Int = np.empty(0, dtype=np.int64)
        self.cluster_of: Int = np.empty(0, dtype=np.int64)
        """Cluster of each column of ``sums``."""
        self.sums: Float = np.zeros((n, 0), order="F")
        self.weights: Float = np.zeros(0)
        self._column_of = np.full(n, -1, dtype=np.int64)
        self._matrix: Floats | None = None
        self._filled = 0
        self._fills: list[int] = []
        """Number of single rows after each extension of the matrix."""

    @property
    def max_shared(self) -> int:
        """Number of clusters whose columns fit into a quarter of the memory limit."""
        return max(SETTINGS.least_shared, int(self.limit / 4 / (8 * self.rows.n)))

    @property
    def max_matrix(self) -> int:
        """Maximum rows of a matrix that fits into half the memory limit (a small matrix is always allowed)."""
        size = np.dtype(self.rows.dtype).itemsize if self.rows.compiled else SETTINGS.libsvm_bytes
        return max(SMALL, int(np.sqrt(self.limit / 2 / size)))

    def room(self, separate: bool) -> int:
        """Return how many more rows may become single."""
        if not separate and len(self.cluster_of) * 2 <= self.max_shared:
            return 0
        most = self.rows.n if self.rows.compiled else self.max_matrix
        return max(0, most - len(self.singles) - len(self.cluster_of))

    def update(
        self, labels: NDArray[np.int32], counts: Int, left_out: NDArray[np.bool_], deadline: float = math.inf
    ) -> None:
        """Adopt a partition; clusters that are left out do not enter the aggregated problem."""
        before, self.labels = self._column_of, labels
        single = counts[labels] == 1
        known = np.zeros(len(labels), dtype=bool)
        known[self.singles] = True
        self.singles = np.concatenate([self.singles, np.flatnonzero(single & ~known)])
        shared = np.flatnonzero((counts > 1) & ~left_out)
        position = np.full(len(counts), -1, dtype=np.int64)
        position[shared] = np.arange(len(shared))
        now = np.where(single, -1, position[labels])
        if not np.array_equal(shared, self.cluster_of):
            renumbered = position[self.cluster_of]  # new column of each old one; -1 if it is gone
            kept = renumbered >= 0
            sums = np.zeros((len(labels), len(shared)), order="F")
            sums[:, renumbered[kept]] = self.sums[:, kept]
            before = np.append(renumbered, -1)[before]
            self.sums, self.cluster_of = sums, shared
        moved = np.flatnonzero(before != now)
        self._move(moved, before[moved], now[moved], np.bincount(now[now >= 0], minlength=len(shared)), deadline)
        self._column_of = now
        self.weights = self._sums(self.box)

    def _move(self, moved: Int, before: Int, now: Int, sizes: Int, deadline: float) -> None:
        """Update the columns of the clusters that rows left or joined."""
        everything = np.arange(self.rows.n)
        for p in np.union1d(before[before >= 0], now[now >= 0]).tolist():
            if time.monotonic() > deadline:
                raise OutOfTime
            left, joined = moved[before == p], moved[now == p]
            if len(left) and len(left) + len(joined) >= sizes[p]:
                members = np.flatnonzero(self.labels == self.cluster_of[p])
                self.sums[:, p] = self.rows.times(everything, members, self.box[members, None])[:, 0]
                continue
            changed = np.concatenate([left, joined])
            weights = np.concatenate([-self.box[left], self.box[joined]])
            self.sums[:, p] += self.rows.times(everything, changed, weights[:, None])[:, 0]

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.singles) + len(self.cluster_of)

    @property
    def all_alone(self) -> bool:
        """Whether the aggregated problem is the original one."""
        return len(self.singles) == self.rows.n

    def collect(self, dual: Float) -> Float:
        """Return the aggregated dual from a dual of the rows."""
        return np.concatenate([dual[self.singles], self._sums(dual)])

    def means(self, scores: Float) -> Float:
        """Return the scores of the members from those of the rows."""
        return np.concatenate([scores[self.singles], self._weighted_means(scores)])

    def _weighted_means(self, values: Float) -> Float:
        return self._sums(self.box * values) / np.maximum(self.weights, TINY)

    def _sums(self, values: Float) -> Float:
        """Sum values over the rows of each shared cluster."""
        shared = self._column_of >= 0
        sums = np.bincount(self._column_of[shared], weights=values[shared], minlength=len(self.cluster_of))
        return np.asarray(sums, dtype=np.float64)

    def spread(self, alpha: Float) -> Float:
        """Return the signed coefficients of all rows from an aggregated dual."""
        shares = alpha[len(self.singles) :] / np.maximum(self.weights, TINY)
        coef = np.zeros(self.rows.n)
        coef[self.singles] = alpha[: len(self.singles)]
        shared = self._column_of >= 0
        coef[shared] = self.box[shared] * shares[self._column_of[shared]]
        return self.y * coef

    def scores_of_change(self, before: Float, after: Float) -> Float:
        """Return the change of the scores; coefficients of a cluster change in proportion to their boxes."""
        change = after - before
        added = self.sums @ (self._sums(change) / np.maximum(self.weights, TINY))
        changed = np.flatnonzero(change * (self._column_of < 0))
        if len(changed):
            added += self.rows.times(np.arange(self.rows.n), changed, change[changed, None])[:, 0]
        return added

    def dual(self) -> KernelDual:
        """Return the aggregated problem."""
        shared = self._column_of >= 0
        signs = np.ones(len(self.cluster_of))
        signs[self._column_of[shared]] = self.y[shared]
        y = np.concatenate([self.y[self.singles], signs])
        box = np.concatenate([self.box[self.singles], self.weights])
        at_clusters = self._at_clusters()
        edge = self.means(self.edge)
        if self.size <= self.max_matrix or not self.rows.compiled:
            return KernelDual(y, box, edge, matrix=self._whole_matrix(at_clusters))
        self._matrix, self._filled, self._fills = None, 0, []
        columns = int(self.limit / 2 / (self.size * np.dtype(self.rows.dtype).itemsize))
        return KernelDual(y, box, edge, columns=ColumnsOnDemand(self.rows, self.singles, at_clusters, columns))

    def _at_clusters(self) -> Float:
        """Return the kernel values between all members and the shared clusters."""
        weights = np.maximum(self.weights, TINY)
        g = len(self.cluster_of)
        among = np.array([self._weighted_means(column) for column in self.sums.T]).reshape(g, g)
        among = 0.5 * (among / weights[:, None] + (among / weights[:, None]).T)
        return np.concatenate([self.sums[self.singles] / weights, among])

    def _whole_matrix(self, at_clusters: Float) -> Floats:
        """Return the kernel matrix of all members, followed by unused columns; single rows keep their places."""
        q, n = len(self.singles), self.size
        if self._matrix is None or len(self._matrix) < n:
            # Memory that is never touched is never allocated.
            more = SETTINGS.growth * n if q < self.rows.n else n
            capacity = max(n, min(self.max_matrix, more, self.rows.n + SETTINGS.least_shared))
            grown = np.empty((capacity, capacity), dtype=self.rows.dtype)
            if self._matrix is not None:
                grown[: self._filled, : self._filled] = self._matrix[: self._filled, : self._filled]
            self._matrix = grown
        matrix = self._matrix
        if q > self._filled:
            self._fill(matrix, q)
        matrix[:n, q:n] = at_clusters
        matrix[q:n, :q] = at_clusters[:q].T
        return matrix[:n]

    def _fill(self, matrix: Floats, q: int) -> None:
        """Extend the kernel values to the first q single rows."""
        old = self._filled
        if old == 0:
            self.rows.square(self.singles[:q], out=matrix[:q])
        else:
            self.rows.block(self.singles[old:q], self.singles[:q], out=matrix[old:q])
        matrix[:old, old:q] = matrix[old:q, :old].T
        self._filled = q
        self._fills.append(q)
        if old == 0 and q == self.rows.n and not self.rows.compiled and np.array_equal(self.singles, np.arange(q)):
            self.rows.whole = np.asarray(matrix[:q, :q], dtype=np.float64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state for a checkpoint; ``restore`` recomputes the kernel values, in the same blocks."""
        return {
            "kernel_singles": self.singles,
            "kernel_cluster_of": self.cluster_of,
            "kernel_sums": self.sums,
            "kernel_column_of": self._column_of,
            "kernel_fills": np.array([0 if self._matrix is None else len(self._matrix), *self._fills]),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]], coef: Float) -> None:
        """Restore the state from a checkpoint; kernel sums that are not those of the rows are replaced.

        ``coef`` are the coefficients of the rows, which must be even within clusters.
        """
        n = self.rows.n
        self.cluster_of = saved_array(arrays, "kernel_cluster_of", np.int64, None)
        g = len(self.cluster_of)
        self.singles = saved_array(arrays, "kernel_singles", np.int64, None)
        self._column_of = saved_array(arrays, "kernel_column_of", np.int64, n)
        self.sums = np.asfortranarray(saved_array(arrays, "kernel_sums", np.float64, n, g))
        capacity, *fills = saved_array(arrays, "kernel_fills", np.int64, None).tolist() or [0]
        positions = ((self.singles, n), (self._column_of + 1, g + 1), (self.cluster_of, n))
        inside = all(found.min(initial=0) >= 0 and found.max(initial=0) < max(most, 1) for found, most in positions)
        counts = np.bincount(self.singles[self.singles >= 0], minlength=n) if inside else np.zeros(n)
        apart = inside and counts.max(initial=0) <= 1 and (self._column_of[self.singles] < 0).all()
        if not apart or (np.diff(self.cluster_of) <= 0).any():
            raise damaged("its kernel sums do not match its clusters")
        self.weights = self._sums(self.box)
        if not self._shares(coef):
            raise damaged("its coefficients are not those of its clusters")
        self._sum_again()
        self._matrix, self._filled, self._fills = None, 0, []
        if capacity:
            largest = min(SETTINGS.growth * n + SETTINGS.least_shared, max(self.size, self.max_matrix))
            ascending = fills == sorted(set(fills)) and min(fills, default=1) > 0
            if not ascending or max(fills, default=0) > min(len(self.singles), capacity) or capacity > largest:
                raise damaged("its kernel matrix does not match its rows")
            self._matrix = np.empty((capacity, capacity), dtype=self.rows.dtype)
            for q in fills:
                self._fill(self._matrix, q)

    def _shares(self, coef: Float) -> bool:
        """Return whether coefficients are dual feasible, and those of a cluster in proportion to their boxes."""
        dual, slack = self.y * coef, SETTINGS.rounded * self.box
        shared, share = self._column_of >= 0, self._sums(self.y * coef) / np.maximum(self.weights, TINY)
        spread = self.box[shared] * share[self._column_of[shared]]
        even = np.abs(dual[shared] - spread) <= slack[shared]
        return bool(even.all() and (dual >= -slack).all() and (dual <= self.box + slack).all())

    def _sum_again(self) -> None:
        """Compute the kernel sums again; those that agree up to rounding keep their bits."""
        lengths, rounding, everything = self.rows.lengths, self.rows.rounding(), np.arange(self.rows.n)
        for p in range(len(self.cluster_of)):
            members = np.flatnonzero(self._column_of == p)
            sums = self.rows.times(everything, members, self.box[members, None])[:, 0]
            sizes = self.box[members] * lengths[members]
            error = SETTINGS.updates * rounding * lengths * math.sqrt(sizes.max(initial=0.0) * sizes.sum())
            if not (np.abs(self.sums[:, p] - sums) <= error).all():
                self.sums[:, p] = sums

    def error(self, alpha: Float) -> float:
        """Bound the error of ``|w|^2`` at an aggregated dual, from the rounding of the kernel values of each row."""
        rounding = self.rows.rounding()
        weighted = alpha * np.concatenate([rounding[self.singles], self._weighted_means(rounding)])
        if self._matrix is not None and self.rows.kernel.name == "rbf":
            n = self.size
            parts = np.array_split(self._matrix[:n], SETTINGS.error_parts)
            products = [part[:, :n] @ alpha.astype(part.dtype) for part in parts]
            return float(weighted @ np.concatenate(products))
        lengths = np.concatenate([self.rows.lengths[self.singles], self._weighted_means(self.rows.lengths)])
        return float(weighted @ lengths) * float(alpha @ lengths)
