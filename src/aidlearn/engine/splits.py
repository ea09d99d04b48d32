"""What passes over clusters hand on: labels of a chunk, the first assignment, and what a check found to be split."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.numerics import Float, Int


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
