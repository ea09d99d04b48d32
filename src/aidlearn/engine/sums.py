"""Sums of clusters, and the results of passes over clusters: labels, first assignments, entries that leave.

Sums are dense rows for clusters of several entries and may be sparse rows for single entries: a single entry never
splits and its sum never changes, so it can keep its sparsity. Problems whose sums are all dense use a single array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.engine.checkpoint import CheckpointError, damaged, saved_array
from aidlearn.numerics import Float, Int

SPARSE_ARRAYS = ("single_data", "single_indices", "single_indptr", "single_clusters")
"""Names of the arrays of sparse sums in a checkpoint."""


def numbers_of(rows: Any) -> float:
    """Return the size of rows in numbers of 8 bytes; a sparse row stores a column (4 bytes) with each number."""
    return 1.5 * rows.nnz if sparse.issparse(rows) else float(rows.size)


class Sums:
    """One row of additive data for each cluster.

    Clusters marked ``alone`` are rows of the CSR matrix ``singles``, all others are rows of the array ``dense``, both
    in the order of the clusters. New clusters come at the end.
    """

    def __init__(self, dense: Float, singles: Any = None, alone: NDArray[np.bool_] | None = None) -> None:
        self.dense, self.singles = dense, singles
        self.alone = np.zeros(len(dense), dtype=bool) if alone is None else alone

    @classmethod
    def of(cls, groups: Float, singles: Sequence[Any]) -> Sums:
        """Return the sums of groups, followed by those of single entries, whose parts are arrays or CSR matrices."""
        sums = cls(groups)
        sums.append(groups[:0], singles)
        return sums

    @property
    def n_singles(self) -> int:
        """Number of sparse rows."""
        return 0 if self.singles is None else int(self.singles.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.alone), self.dense.shape[1]

    @property
    def n_numbers(self) -> float:
        """Size in numbers of 8 bytes."""
        return numbers_of(self.dense) + (0.0 if self.singles is None else numbers_of(self.singles))

    def _spread(self, dense: Float, singles: Float) -> Float:
        """Return the values of dense and sparse rows in the order of the clusters."""
        values = np.empty((len(self.alone), *dense.shape[1:]))
        values[~self.alone], values[self.alone] = dense, singles
        return values

    def _place(self, clusters: Int) -> Int:
        """Return the rows of ``dense`` that belong to clusters."""
        return clusters if self.singles is None else (np.cumsum(~self.alone) - 1)[clusters]

    # Reading

    def column(self, number: int) -> Float:
        """Return one column of the sums of all clusters."""
        if self.singles is None:
            return self.dense[:, number]
        singles = self.singles[:, [number % self.shape[1]]].toarray()
        return self._spread(self.dense[:, number], singles[:, 0])

    def times(self, vector: Float) -> Float:
        """Return the product of the first ``len(vector)`` columns with a vector."""
        dense = self.dense[:, : len(vector)] @ vector
        if self.singles is None:
            return np.asarray(dense)
        padded = np.zeros(self.shape[1])
        padded[: len(vector)] = vector
        return self._spread(dense, self.singles @ padded)

    def sizes(self) -> Float:
        """Return the largest absolute value in each cluster's row, with 0 for sparse rows, which never change."""
        return self._spread(_largest(self.dense), np.zeros(self.n_singles))

    def sizes_of_groups(self, clusters: Int) -> Float:
        """Return the largest absolute value in the row of each given cluster, none of which may be alone."""
        return _largest(self.dense[self._place(clusters)])

    def array(self) -> Float:
        """Return all rows as one dense array (for problems with dense sums, pictures and tests)."""
        if self.singles is None:
            return self.dense
        return self._spread(self.dense, self.singles.toarray())

    # Changes of clusters that are not alone

    def subtract(self, clusters: Int, sums: Float) -> None:
        """Subtract the sums of entries that leave clusters; a cluster may occur several times."""
        np.subtract.at(self.dense, self._place(clusters), sums)

    def append(self, groups: Float, singles: Sequence[Any]) -> None:
        """Add new clusters: groups, then single entries, whose parts are arrays or CSR matrices."""
        rows = [part for part in singles if sparse.issparse(part)]
        added = [groups, *(part for part in singles if not sparse.issparse(part))]
        if rows:
            self.singles = stacked(rows if self.singles is None else [self.singles, *rows])
        self.dense = np.concatenate([self.dense, *added])
        n_dense, n_alone = sum(map(len, added)), sum(part.shape[0] for part in rows)
        self.alone = np.concatenate([self.alone, np.zeros(n_dense, dtype=bool), np.ones(n_alone, dtype=bool)])

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all clusters that are not marked in ``kept``."""
        if not kept.all():
            self.dense, self.alone = self.dense[kept[~self.alone]], self.alone[kept]

    def replace(self, clusters: Int, sums: Float) -> None:
        """Replace the sums of clusters."""
        self.dense[self._place(clusters)] = sums

    # Checkpoints

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays, for a checkpoint."""
        if self.singles is None:
            return {"sums": self.dense}
        parts = (self.singles.data, self.singles.indices, self.singles.indptr, np.flatnonzero(self.alone))
        return {"sums": self.dense, **dict(zip(SPARSE_ARRAYS, parts, strict=True))}

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], n_clusters: int) -> Sums:
        """Restore sums from a checkpoint.

        Raises
        ------
        CheckpointError
            If the arrays are not the sums of ``n_clusters`` clusters.
        """
        dense = saved_array(arrays, "sums", np.float64, None, None)
        sums = cls(dense)
        if any(name in arrays for name in SPARSE_ARRAYS):
            missing = [name for name in SPARSE_ARRAYS if name not in arrays]
            if missing:
                raise CheckpointError(f"The checkpoint is incomplete: {', '.join(missing)} missing.")
            data, indices, indptr, clusters = (arrays[name] for name in SPARSE_ARRAYS)
            alone = np.zeros(len(dense) + len(clusters), dtype=bool)
            try:
                alone[clusters] = True
                singles = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, dense.shape[1]))
                singles.check_format()
            except (IndexError, TypeError, ValueError) as error:
                raise damaged(f"sums of single entries: {error}") from None
            if len(clusters) != singles.shape[0] or not np.array_equal(np.flatnonzero(alone), clusters):
                raise damaged("its single entries are not those of its clusters")
            sums = cls(dense, singles, alone)
        if sums.shape[0] != n_clusters:
            raise damaged(f"sums of {sums.shape[0]} clusters, not {n_clusters}")
        return sums


def stacked(parts: Sequence[Any]) -> Any:
    """Return CSR matrices stacked by rows."""
    return parts[0] if len(parts) == 1 else sparse.csr_array(sparse.vstack(parts, format="csr"))


def _largest(rows: Float) -> Float:
    return np.abs(rows).max(axis=1, initial=0.0)


@dataclass(frozen=True)
class ChunkLabels:
    """Cluster of each entry of a chunk; at the next pass, ``moved`` entries get the cluster id of their key."""

    labels: NDArray[np.int32]
    moved: Int
    keys: Int

    def current(self, renamed: Renaming) -> NDArray[np.int32]:
        if renamed.groups is not None:
            labels = renamed.groups[self.labels]
        elif len(self.moved) == 0:
            return self.labels
        else:
            labels = self.labels.copy()
        labels[self.moved] = renamed.ids[np.searchsorted(renamed.keys, self.keys)]
        return labels


@dataclass(frozen=True)
class Renaming:
    """New cluster ids of the keys (ascending) to which entries moved in the last pass."""

    keys: Int
    ids: NDArray[np.int32]
    groups: NDArray[np.int32] | None = None
    """New id of every old id, if some are no longer used."""


NOTHING = np.empty(0, dtype=np.int64)
AS_BEFORE = Renaming(NOTHING, np.empty(0, dtype=np.int32))


def numbered(used: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the position of each cluster among those that are used."""
    return np.cumsum(used, dtype=np.int32) - np.int32(1)


@dataclass(frozen=True)
class Assignment:
    """Initial group of each entry of a chunk, the entries that stay alone, and the chunk's objective.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn.engine import Assignment
    >>> groups = Assignment(np.array([0, 0, 1, 1]), single=np.array([3]))  # the last entry is a cluster of its own
    >>> groups.labels, groups.single
    (array([0, 0, 1, 1]), array([3]))
    """

    labels: NDArray[np.int32]
    single: NDArray[Any] | None = None
    """Entries that stay alone: a mask, or their numbers in the chunk."""
    objective: float = 0.0
    counts: Int | None = None
    sums: Float | None = None
    """Sums of the groups without the single entries, if ``assign`` computes them; ``counts`` holds their sizes."""


@dataclass(frozen=True)
class ChunkSums:
    """Contribution of one chunk to the first clusters: sizes and sums of its groups, and sums of its single entries."""

    groups: NDArray[np.intp]
    sizes: Int
    sums: Float
    single_sums: Any
    single: Int
    """Numbers of the entries that stay alone."""
    objective: float


@dataclass(frozen=True)
class NewClusters:
    """Clusters that a split creates: groups of entries first, then single entries."""

    keys: Int
    """Ascending keys that encode the cluster and regions of a group, or the number of a single entry."""
    parents: Int
    firsts: NDArray[np.int16]
    """Region at the first point of the trial."""
    homes: NDArray[np.int16]
    """Region at the last point of the split."""
    counts: Int
    groups: Float
    """Sums of the groups."""
    alone: list[Any]
    """Sums of the single entries, with one part per chunk."""

    @classmethod
    def joined(cls, parts: Sequence[NewClusters], n_shared: int) -> NewClusters:
        """Return the new clusters of consecutive chunks, with sums added in order; groups have keys < ``n_shared``."""
        keys = np.unique(np.concatenate([part.keys for part in parts]))
        parents, counts = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
        firsts, homes = np.zeros(len(keys), dtype=np.int16), np.zeros(len(keys), dtype=np.int16)
        groups = np.zeros((int(np.searchsorted(keys, n_shared)), parts[0].groups.shape[1]))
        for part in parts:
            at = np.searchsorted(keys, part.keys)
            parents[at], firsts[at], homes[at] = part.parents, part.firsts, part.homes
            counts[at] += part.counts
            groups[at[: len(part.groups)]] += part.groups
        return cls(keys, parents, firsts, homes, counts, groups, [rows for part in parts for rows in part.alone])

    def left(self) -> Iterator[tuple[Int, Float]]:
        """Yield parents with the sums that leaving entries take from them; a parent may occur several times."""
        first = len(self.groups)
        yield self.parents[:first], self.groups
        for rows in self.alone:
            n = rows.shape[0]
            parents, inverse = np.unique(self.parents[first : first + n], return_inverse=True)
            total = sparse.csr_array((np.ones(n), (inverse, np.arange(n))), shape=(len(parents), n)) @ rows
            yield parents, total.toarray() if sparse.issparse(total) else total
            first += n


@dataclass(frozen=True)
class Violations:
    """Results of one pass at a trial: objectives, and the clusters that violate the optimality condition."""

    objectives: Float
    n_violated: int
    """Number of clusters with entries in several regions at the first point."""
    states: list[ChunkLabels]
    renaming: Renaming = AS_BEFORE
    born: NewClusters | None = None
    """New clusters; None if no entry leaves its cluster."""
    kept: NDArray[np.bool_] | None = None
    """Mask of the clusters that keep at least one entry."""
