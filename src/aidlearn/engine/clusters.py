"""Clusters of entries with incremental sums (paper, section 2: declustering).

Labels stay with their chunk. For the entries that leave their cluster, a pass returns the sums of the new clusters.
These are subtracted from the parents' sums, so no other entry is summed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.problem import Problem, Trial
from aidlearn.engine.sums import (
    AS_BEFORE,
    NOTHING,
    Assignment,
    ChunkLabels,
    ChunkSums,
    NewClusters,
    Renaming,
    Sums,
    Violations,
    numbered,
    numbers_of,
)
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class ClusterSettings:
    """Settings of declustering."""

    held: int = 1 << 22
    """Guess. Maximum size, in numbers, of sums of split groups kept apart by chunk before they are added up: 32 MB."""
    cancellation: float = 0.01
    """Guess. Fraction of its last full sum below which a cluster is summed afresh: two digits are lost."""


SETTINGS = ClusterSettings()


class Clusters:
    """A partition of the entries: labels by chunk, and size, sum and home region of each cluster.

    The home is the region expected to contain most entries of a cluster: a pass sums only entries in other regions.
    It affects the work, never the partition.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn.data import as_source
    >>> from aidlearn.engine import Assignment, Clusters, Problem
    >>> class Sums(Problem):
    ...     def aggregate(self, chunk, labels, n_clusters):
    ...         return np.bincount(labels, weights=chunk.y, minlength=n_clusters)[:, None]
    ...     def start(self): ...
    ...     def solve_aggregated(self, clusters, incumbent, accuracy): ...
    ...     def evaluate(self, chunk, trial): ...
    >>> problem = Sums(as_source(np.zeros((5, 1)), np.array([1.0, 2.0, 3.0, 4.0, 5.0])))
    >>> clusters, _ = Clusters.build(problem, lambda chunk, state: Assignment(np.arange(chunk.n_entries) % 2), 2)
    >>> clusters.n_clusters, clusters.counts, clusters.sums.ravel(), clusters.aggregation_rate
    (2, array([3, 2]), array([9., 6.]), 0.4)
    """

    def __init__(
        self,
        problem: Problem,
        states: Sequence[ChunkLabels],
        renaming: Renaming,
        counts: Int,
        sums: Sums,
        homes: NDArray[np.int16],
        summed: Float | None = None,
    ) -> None:
        self.problem = problem
        self._states, self._renaming = list(states), renaming
        self.counts, self.store, self.homes = counts, sums, homes
        self._summed = sums.sizes() if summed is None else summed
        """Size of each cluster's last full sum."""

    @property
    def sums(self) -> Float:
        """Sums of all clusters as one array; problems with sparse sums of single entries use ``store`` instead."""
        return self.store.array()

    @classmethod
    def build(
        cls,
        problem: Problem,
        assign: Callable[[Chunk, Any], Assignment],
        n_groups: int,
        homes: NDArray[np.int16] | None = None,
        states: Sequence[Any] | None = None,
    ) -> tuple[Clusters, float]:
        """Label every entry by ``assign(chunk, state)`` and sum the clusters, in one pass.

        Entries marked ``single`` become clusters of their own after the ``n_groups`` groups; empty groups are dropped.
        Returns the clusters and the total of the objectives.
        """
        objective = 0.0
        counts = np.zeros(n_groups, dtype=np.int64)
        sums: Float | None = None
        single_keys: list[Int] = []
        single_sums: list[Any] = []

        def assign_and_sum(chunk: Chunk, state: Any) -> tuple[ChunkSums, ChunkLabels]:
            given = assign(chunk, state)
            labels, counts, sums = given.labels, given.counts, given.sums
            rows = NOTHING if given.single is None else given.single
            rows = np.flatnonzero(rows) if rows.dtype == bool else rows
            kept = ChunkLabels(labels, rows, rows + chunk.start)
            single = problem.sums_alone(chunk.select(rows))
            if counts is not None and sums is not None:
                here = np.flatnonzero(counts)
                sums = sums[here]
            else:
                together = chunk
                if len(rows):
                    others = np.delete(np.arange(chunk.n_entries), rows)
                    together, labels = chunk.select(others), labels[others]
                counts = np.bincount(labels, minlength=n_groups)
                here = np.flatnonzero(counts)
                sums = problem.aggregate(together, numbered(counts > 0)[labels], len(here))
            return ChunkSums(here, counts[here], sums, single, kept.keys, given.objective), kept

        def collect(part: ChunkSums) -> None:
            nonlocal sums, objective
            objective += part.objective
            if sums is None:
                sums = np.zeros((n_groups, part.sums.shape[1]))
            counts[part.groups] += part.sizes
            sums[part.groups] += part.sums
            single_keys.append(part.single)
            single_sums.append(part.single_sums)

        kept = problem.run.map(assign_and_sum, states, collect)
        assert sums is not None
        used = np.flatnonzero(counts)
        position = None if len(used) == n_groups else numbered(counts > 0)
        keys = np.concatenate(single_keys)
        ids = (len(used) + np.arange(len(keys))).astype(np.int32)
        home = np.zeros(n_groups, dtype=np.int16) if homes is None else homes
        clusters = cls(
            problem,
            kept,
            Renaming(keys, ids, position),
            np.concatenate([counts[used], np.ones(len(keys), dtype=np.int64)]),
            Sums.of(sums[used], single_sums),
            np.concatenate([home[used], np.zeros(len(keys), dtype=np.int16)]),
        )
        return clusters, objective

    @classmethod
    def alone(cls, problem: Problem) -> Clusters:
        """Return clusters of one entry each, for which the aggregated problem is the original one."""
        parts: list[Any] = []

        def sum_alone(chunk: Chunk, state: None) -> tuple[Any, ChunkLabels]:
            labels = np.arange(chunk.start, chunk.stop, dtype=np.int32)
            return problem.sums_alone(chunk), ChunkLabels(labels, NOTHING, NOTHING)

        states = problem.run.map(sum_alone, collect=parts.append)
        n = problem.run.n_entries
        sums = Sums.of(np.empty((0, parts[0].shape[1])), parts)
        return cls(problem, states, AS_BEFORE, np.ones(n, dtype=np.int64), sums, np.zeros(n, dtype=np.int16))

    def summed_for(
        self, problem: Problem, objective: Callable[[Chunk], float] = lambda chunk: 0.0
    ) -> tuple[Clusters, float]:
        """Return this partition with another problem's sums of the same entries, and its objective, in one pass."""
        renaming, alone = self._renaming, self.counts == 1
        position = numbered(~alone)

        def assign(chunk: Chunk, state: ChunkLabels) -> Assignment:
            labels = state.current(renaming)
            return Assignment(position[labels], np.flatnonzero(alone[labels]), objective(chunk))

        return Clusters.build(problem, assign, max(1, int((~alone).sum())), states=self._states)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays of the partition, for a checkpoint."""
        return {
            "labels": self.labels(),
            "counts": self.counts,
            **self.store.arrays(),
            "homes": self.homes,
            "summed": self._summed,
        }

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.counts)

    @property
    def aggregation_rate(self) -> float:
        """Number of clusters over the number of entries."""
        return self.n_clusters / self.problem.run.n_entries

    def labels(self) -> NDArray[np.int32]:
        """Return the cluster of every entry (for tests, plots and models that need it)."""
        return np.concatenate(list(self.map_labels(lambda labels: labels)))

    def map(self, function: Callable[[Chunk, NDArray[np.int32]], Any], collect: Callable[[Any], None]) -> None:
        """Call ``function(chunk, labels)`` for every chunk, in one pass."""
        renaming = self._renaming

        def with_labels(chunk: Chunk, state: ChunkLabels) -> tuple[Any, ChunkLabels]:
            return function(chunk, state.current(renaming)), state

        self.problem.run.map(with_labels, self._states, collect)

    def map_labels(self, function: Callable[[NDArray[np.int32]], Any]) -> Iterator[Any]:
        """Yield ``function(labels)`` for every chunk in order, without reading entries."""
        renaming = self._renaming
        return self.problem.run.map_states(lambda state: function(state.current(renaming)), self._states)

    def check(self, trial: Trial) -> Violations:
        """Evaluate a trial on all entries and find the clusters that lie in several regions.

        One pass returns both the objectives and the sums of the clusters that a split would create.
        """
        problem, renaming = self.problem, self._renaming
        homes = np.where(self.counts > 1, self.homes, np.int16(-1))
        base = problem.n_regions
        n_codes = base**trial.n_split
        n_shared = self.n_clusters * n_codes
        width = self.store.shape[1]

        def evaluate(chunk: Chunk, state: ChunkLabels) -> tuple[tuple[Float, NewClusters | None], ChunkLabels]:
            labels = state.current(renaming)
            moved = problem.find_moved(replace(chunk, labels=labels), trial, homes)
            rows, codes = moved.rows, moved.codes
            if not len(rows):
                return (moved.objectives, None), ChunkLabels(labels, NOTHING, NOTHING)
            keys = labels[rows].astype(np.int64) * n_codes + codes
            if moved.alone is not None:
                keys[moved.alone] = n_shared + chunk.start + rows[moved.alone]
            found, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
            n_groups = int(np.searchsorted(found, n_shared))
            groups, alone = np.empty((0, width)), []
            if n_groups:
                shared = inverse < n_groups
                together = chunk.select(rows if n_groups == len(found) else rows[shared])
                groups = problem.aggregate(together, inverse[shared], n_groups)
            if n_groups < len(found):
                alone.append(problem.sums_alone(chunk.select(rows[first[n_groups:]])))
            born = NewClusters(
                keys=found,
                parents=labels[rows[first]].astype(np.int64),
                firsts=codes[first] // (n_codes // base),
                homes=codes[first] % base,
                counts=np.bincount(inverse, minlength=len(found)),
                groups=groups,
                alone=alone,
            )
            return (moved.objectives, born), ChunkLabels(labels, rows, keys)

        objectives = np.zeros(len(trial.points))
        parts: list[NewClusters] = []
        held = 0

        def collect(found: tuple[Float, NewClusters | None]) -> None:
            nonlocal held
            objectives[:] += found[0]
            if found[1] is not None:
                parts.append(found[1])
                held += found[1].groups.size
            if held > SETTINGS.held:
                parts[:] = [NewClusters.joined(parts, n_shared)]
                held = SETTINGS.held // 2

        states = self.problem.run.map(evaluate, self._states, collect)
        objectives += [problem.penalty(point) for point in trial.points]
        if not parts:
            return Violations(objectives, 0, states)
        born = NewClusters.joined(parts, n_shared)
        left = np.bincount(born.parents, weights=born.counts, minlength=self.n_clusters).astype(np.int64)
        kept = left < self.counts
        ids = (kept.sum() + np.arange(len(born.keys))).astype(np.int32)
        renamed = Renaming(born.keys, ids, None if kept.all() else numbered(kept))
        return Violations(objectives, self._n_violated(born, kept), states, renamed, born, kept)

    def unchecked(self, objective: float, met: bool) -> Violations:
        """Return the check of a point whose objective is known, without a pass.

        If the bound is met, no cluster violates the condition; otherwise any of them may.
        """
        objectives = np.array([objective])
        return Violations(objectives, 0 if met else self.n_clusters, self._states, self._renaming)

    def _n_violated(self, born: NewClusters, kept: NDArray[np.bool_]) -> int:
        """Count the clusters in several regions at the first point; entries that stayed lie in the home region."""
        base = self.problem.n_regions
        rest = np.unique(born.parents[kept[born.parents]])
        regions = np.unique(np.concatenate([born.parents * base + born.firsts, rest * base + self.homes[rest]]))
        return int((np.unique(regions // base, return_counts=True)[1] > 1).sum())

    def fit_into_memory(self, check: Violations) -> bool:
        """Return whether the clusters that a split would create fit into memory."""
        if check.born is None:
            return True
        added = numbers_of(check.born.groups) + sum(map(numbers_of, check.born.alone))
        return self.store.n_numbers + added <= self.problem.run.budget.later

    def decluster(self, check: Violations) -> None:
        """Split the clusters that a check found in several regions."""
        self._states, self._renaming, born, kept = check.states, check.renaming, check.born, check.kept
        if born is None or kept is None:
            return
        np.subtract.at(self.counts, born.parents, born.counts)
        for parents, sums in born.left():
            self.store.subtract(parents, sums)
        self.store.keep(kept)
        self.store.append(born.groups, born.alone)
        self.counts = np.concatenate([self.counts[kept], born.counts])
        self.homes = np.concatenate([self.homes[kept], born.homes])
        self._summed = np.concatenate([self._summed[kept], Sums.of(born.groups, born.alone).sizes()])
        left = np.zeros(len(kept), dtype=bool)
        left[born.parents] = True
        parents = np.flatnonzero(left[kept])
        self._sum_again(parents[self.store.sizes_of_groups(parents) < SETTINGS.cancellation * self._summed[parents]])

    def _sum_again(self, stale: Int) -> None:
        """Sum clusters afresh whose sums have lost digits by cancellation."""
        if len(stale) == 0:
            return
        renaming, problem = self._renaming, self.problem
        position = np.full(self.n_clusters, -1, dtype=np.int32)
        position[stale] = np.arange(len(stale), dtype=np.int32)
        total = np.zeros((len(stale), self.store.shape[1]))

        def sum_stale(chunk: Chunk, state: ChunkLabels) -> tuple[Float | None, ChunkLabels]:
            place = position[state.current(renaming)]
            rows = np.flatnonzero(place >= 0)
            if len(rows) == 0:
                return None, state
            return problem.aggregate(chunk.select(rows), place[rows], len(stale)), state

        def collect(sums: Float | None) -> None:
            if sums is not None:
                total[:] += sums

        problem.run.map(sum_stale, self._states, collect)
        self.store.replace(stale, total)
        self._summed[stale] = self.store.sizes_of_groups(stale)


def near_and_far(counts: Int, distances: Float) -> tuple[float | None, float | None]:
    """Return the aggregation rates of the clusters nearer to their kink than the median entry, and of the others."""
    order = np.argsort(distances, kind="stable")
    entries = np.cumsum(counts[order])
    median = distances[order[np.searchsorted(entries, entries[-1] / 2)]]
    near = distances < median

    def rate(group: NDArray[np.bool_]) -> float | None:
        return float(group.sum() / counts[group].sum()) if group.any() else None

    return rate(near), rate(~near)
