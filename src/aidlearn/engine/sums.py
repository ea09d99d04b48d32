"""Sums of clusters, and what passes over clusters return: labels, first assignments, entries that leave.

Sums are dense rows for clusters of several entries, sparse ones for entries that are alone.

An entry alone never splits and its sum never changes, so it may keep the sparsity it came with. Problems that sum
densely have one array and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.engine.checkpoint import CheckpointError
from aidlearn.numerics import Float, Int

SPARSE_ARRAYS = ("single_data", "single_indices", "single_indptr", "single_clusters")
"""Names of the arrays of sparse sums in a checkpoint."""


def numbers_of(rows: Any) -> float:
    """Size of rows in numbers of 8 bytes; each number of a sparse row is stored with its column (4 bytes)."""
    return 1.5 * rows.nnz if sparse.issparse(rows) else float(rows.size)


class Sums:
    """One row of additive data for each cluster.

    Clusters that are ``alone`` are the rows of the CSR matrix ``singles``, all others those of the array ``dense``,
    each in the order of the clusters. New clusters come at the end.
    """

    def __init__(self, dense: Float, singles: Any = None, alone: NDArray[np.bool_] | None = None) -> None:
        self.dense, self.singles = dense, singles
        self.alone = np.zeros(len(dense), dtype=bool) if alone is None else alone

    @classmethod
    def of(cls, groups: Float, singles: Sequence[Any]) -> Sums:
        """Sums of groups, then those of single entries, in parts that are arrays or CSR matrices."""
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
        """Values of the dense rows and of the sparse ones, in the order of the clusters."""
        values = np.empty((len(self.alone), *dense.shape[1:]))
        values[~self.alone], values[self.alone] = dense, singles
        return values

    def _place(self, clusters: Int) -> Int:
        """Rows of ``dense`` that belong to clusters."""
        return clusters if self.singles is None else (np.cumsum(~self.alone) - 1)[clusters]

    # Reading

    def column(self, number: int) -> Float:
        """One column of all clusters."""
        if self.singles is None:
            return self.dense[:, number]
        rows, found = self.singles, np.zeros(self.n_singles)
        cells = np.flatnonzero(rows.indices == number % self.shape[1])
        found[np.searchsorted(rows.indptr, cells, side="right") - 1] = rows.data[cells]
        return self._spread(self.dense[:, number], found)

    def times(self, vector: Float) -> Float:
        """The first ``len(vector)`` columns times a vector."""
        dense = self.dense[:, : len(vector)] @ vector
        if self.singles is None:
            return np.asarray(dense)
        padded = np.zeros(self.shape[1])
        padded[: len(vector)] = vector
        return self._spread(dense, self.singles @ padded)

    def sizes(self) -> Float:
        """Largest number in the row of each cluster."""
        sizes = _largest(self.dense)
        if self.singles is None:
            return sizes
        singles = np.zeros(self.n_singles)
        lengths = np.diff(self.singles.indptr)
        starts = self.singles.indptr[:-1][lengths > 0]
        if len(starts):
            singles[lengths > 0] = np.maximum.reduceat(np.abs(self.singles.data), starts)
        return self._spread(sizes, singles)

    def sizes_of_groups(self, clusters: Int) -> Float:
        """Largest number in the row of each of some clusters that are not alone."""
        return _largest(self.dense[self._place(clusters)])

    def array(self) -> Float:
        """All rows as one dense array (for problems that sum densely, pictures and tests)."""
        if self.singles is None:
            return self.dense
        return self._spread(self.dense, self.singles.toarray())

    # Changes of clusters that are not alone

    def subtract(self, clusters: Int, sums: Float) -> None:
        """Subtract sums of entries that leave clusters; a cluster may be named several times."""
        np.subtract.at(self.dense, self._place(clusters), sums)

    def append(self, groups: Float, singles: Sequence[Any]) -> None:
        """Add new clusters: groups, then single entries in parts that are arrays or CSR matrices."""
        if any(sparse.issparse(part) for part in singles):
            rows = [part for part in singles if sparse.issparse(part)]
            self.singles = stacked(rows if self.singles is None else [self.singles, *rows])
            n_groups, n_alone = len(groups), sum(part.shape[0] for part in rows)
            self.dense = np.concatenate([self.dense, groups])
        else:
            self.dense = np.concatenate([self.dense, groups, *singles])
            n_groups, n_alone = len(groups) + sum(map(len, singles)), 0
        self.alone = np.concatenate([self.alone, np.zeros(n_groups, dtype=bool), np.ones(n_alone, dtype=bool)])

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all other clusters."""
        if not kept.all():
            self.dense, self.alone = self.dense[kept[~self.alone]], self.alone[kept]

    def clear(self, clusters: Int) -> None:
        self.dense[self._place(clusters)] = 0.0

    def add(self, clusters: Int, sums: Float) -> None:
        """Add to different clusters."""
        self.dense[self._place(clusters)] += sums

    # Checkpoints

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, for a checkpoint."""
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
        dense = arrays["sums"]
        if dense.ndim != 2:
            raise CheckpointError(f"The checkpoint is damaged: sums of shape {dense.shape}, expected two dimensions.")
        sums = cls(dense)
        if any(name in arrays for name in SPARSE_ARRAYS):
            missing = [name for name in SPARSE_ARRAYS if name not in arrays]
            if missing:
                raise CheckpointError(f"The checkpoint is incomplete: {', '.join(missing)} missing.")
            data, indices, indptr, clusters = (arrays[name] for name in SPARSE_ARRAYS)
            try:
                singles = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, dense.shape[1]))
                singles.check_format()
            except (ValueError, TypeError) as error:
                raise CheckpointError(f"The checkpoint is damaged: sums of single entries: {error}.") from None
            alone = np.zeros(len(dense) + len(clusters), dtype=bool)
            inside = ((clusters >= 0) & (clusters < len(alone))).all()
            if len(clusters) != singles.shape[0] or not inside:
                raise CheckpointError("The checkpoint is damaged: its single entries are not those of its clusters.")
            alone[clusters] = True
            sums = cls(dense, singles, alone)
        if sums.shape[0] != n_clusters or sums.alone.sum() != sums.n_singles:
            raise CheckpointError(f"The checkpoint is damaged: sums of {sums.shape[0]} clusters, not {n_clusters}.")
        return sums


def stacked(parts: Sequence[Any]) -> Any:
    """CSR matrices below each other."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    index = parts[0].indices.dtype if indptr[-1] <= np.iinfo(np.int32).max else np.int64
    data = np.concatenate([part.data for part in parts])
    indices = np.concatenate([part.indices for part in parts]).astype(index, copy=False)
    return sparse.csr_array((data, indices, indptr.astype(index)), shape=(len(lengths), parts[0].shape[1]))


def _largest(rows: Float) -> Float:
    return np.abs(rows).max(axis=1, initial=0.0)


@dataclass(frozen=True)
class ChunkLabels:
    """Cluster of each entry of a chunk; ``moved`` entries get the id of their key at the next pass."""

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
    """New cluster id of every key (ascending) that entries moved to in the last pass."""

    keys: Int
    ids: NDArray[np.int32]
    groups: NDArray[np.int32] | None = None
    """New id of every old one, where some are no longer used."""


NOTHING = np.empty(0, dtype=np.int64)
NO_REGION = np.empty(0, dtype=np.int16)
AS_BEFORE = Renaming(NOTHING, np.empty(0, dtype=np.int32))


@dataclass(frozen=True)
class Violations:
    """What one pass at a trial found: objectives, and the clusters that violate the optimality condition."""

    objectives: Float
    n_violated: int
    """Clusters with entries in several regions at the first of the points."""
    states: list[ChunkLabels]
    renaming: Renaming = AS_BEFORE
    born: Born | None = None
    """New clusters (None: no entry leaves its cluster)."""
    kept: NDArray[np.bool_] | None = None
    """Mask of the clusters that keep at least one entry."""


@dataclass(frozen=True)
class Born:
    """Clusters that a split creates: groups first, then entries that are alone."""

    parents: Int
    homes: NDArray[np.int16]
    counts: Int
    groups: Float
    """Sums of the groups."""
    alone: list[Any]
    """Sums of the entries that are alone, in parts."""
    left: list[tuple[Int, Float]]
    """Parents, and the sums that single entries take from them."""


@dataclass(frozen=True)
class Assignment:
    """Initial group of each entry of a chunk, which entries stay alone, and the chunk's objective.

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
    """Sizes and sums of the groups without the single entries, where they come with the labels."""


@dataclass(frozen=True)
class ChunkSums:
    """One chunk of the first clusters: its groups with sizes, and sums of these and of its single entries."""

    groups: NDArray[np.intp]
    sizes: Int
    sums: Float
    single_sums: Any
    single: Int
    """Numbers of the entries that stay alone."""
    objective: float


@dataclass(frozen=True)
class ChunkMoves:
    """One chunk of a check: the clusters that its entries would leave for new ones."""

    objectives: Float
    keys: Int = field(default_factory=lambda: NOTHING)
    """Keys of the new clusters: groups by cluster and regions, then single entries by their number."""
    parents: Int = field(default_factory=lambda: NOTHING)
    firsts: NDArray[np.int16] = field(default_factory=lambda: NO_REGION)
    """Region of the new clusters at the first of the points."""
    homes: NDArray[np.int16] = field(default_factory=lambda: NO_REGION)
    """Region of the new clusters at the last of the points."""
    counts: Int = field(default_factory=lambda: NOTHING)
    groups: Float | None = None
    """Sums of the groups (None: there are none)."""
    alone: Any = None
    """Sums of the entries that are alone (None: there are none)."""


def entries_alone(found_in: list[ChunkMoves]) -> tuple[list[Any], list[tuple[Int, Float]]]:
    """Sums of entries that become clusters of their own, and the sums they take from the clusters they leave."""
    alone: list[Any] = []
    left: list[tuple[Int, Float]] = []
    for moves in found_in:
        if moves.alone is None:
            continue
        n_alone = moves.alone.shape[0]
        alone.append(moves.alone)
        parents, inverse = np.unique(moves.parents[-n_alone:], return_inverse=True)
        cells = np.ones(n_alone), (inverse, np.arange(n_alone))
        total = sparse.csr_array(cells, shape=(len(parents), n_alone)) @ moves.alone
        left.append((parents.astype(np.int64), total.toarray() if sparse.issparse(total) else total))
    return alone, left


def joined_groups(found_in: list[ChunkMoves]) -> list[ChunkMoves]:
    """The moves of consecutive chunks with the sums of each group once, added in the order of the chunks."""
    with_groups = [moves for moves in found_in if moves.groups is not None]
    sizes = [len(moves.groups) for moves in with_groups if moves.groups is not None]
    keys = np.unique(np.concatenate([moves.keys[:n] for moves, n in zip(with_groups, sizes, strict=True)]))
    first = with_groups[0]
    assert first.groups is not None
    total = ChunkMoves(
        objectives=np.zeros_like(first.objectives),
        keys=keys,
        parents=np.zeros(len(keys), dtype=first.parents.dtype),
        firsts=np.zeros(len(keys), dtype=first.firsts.dtype),
        homes=np.zeros(len(keys), dtype=first.homes.dtype),
        counts=np.zeros(len(keys), dtype=first.counts.dtype),
        groups=np.zeros((len(keys), first.groups.shape[1])),
    )
    alone = []
    for moves in found_in:
        n = 0 if moves.groups is None else len(moves.groups)
        at = np.searchsorted(keys, moves.keys[:n])
        total.parents[at], total.firsts[at], total.homes[at] = moves.parents[:n], moves.firsts[:n], moves.homes[:n]
        total.counts[at] += moves.counts[:n]
        if moves.groups is not None and total.groups is not None:
            total.groups[at] += moves.groups
        if moves.alone is not None:
            own = (moves.keys[n:], moves.parents[n:], moves.firsts[n:], moves.homes[n:], moves.counts[n:])
            alone.append(ChunkMoves(moves.objectives, *own, None, moves.alone))
    return [total, *alone]
