"""Clusters of entries with incremental sums (paper, section 2: declustering).

Labels stay with their chunk. A pass returns, for the entries that leave their cluster, the sums of
the new clusters; the parent's sum is the old one minus those, so nothing else is summed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.source import Chunk, DataSource, Float, Int
from aidlearn.engine.problem import Problem, Trial


@dataclass(frozen=True)
class ChunkLabels:
    """Cluster of each entry of a chunk; ``moved`` entries get the id of their key at the next pass."""

    labels: NDArray[np.int32]
    moved: NDArray[np.int64]
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

CANCELLATION = 0.01
"""A cluster whose sum has shrunk below this part of what was last summed is summed afresh."""


@dataclass(frozen=True)
class Check:
    """What one pass at a trial found: objectives, and the clusters its regions would split."""

    objectives: Float
    n_violated: int
    states: list[ChunkLabels]
    renaming: Renaming
    parents: Int
    homes: NDArray[np.int16]
    counts: Int
    sums: Float
    flipped: Int
    flipped_homes: NDArray[np.int16]


@dataclass(frozen=True)
class Assignment:
    """Initial group of each entry of a chunk, which entries stay alone, and the chunk's objective."""

    labels: NDArray[np.int32]
    single: NDArray[np.bool_] | None = None
    objective: float = 0.0


class Clusters:
    """A partition of the entries: labels by chunk, and size, sum and home region of each cluster.

    The home is the region most of a cluster's entries are expected in: entries elsewhere are the
    ones a pass has to sum. It steers the work only, never the partition.
    """

    def __init__(
        self,
        source: DataSource,
        problem: Problem,
        states: Sequence[ChunkLabels],
        renaming: Renaming,
        counts: Int,
        sums: Float,
        homes: NDArray[np.int16],
    ) -> None:
        self.source, self.problem = source, problem
        self._states, self._renaming = list(states), renaming
        self.counts, self.sums, self.homes = counts, sums, homes
        self._summed = _size(sums)

    @classmethod
    def build(
        cls,
        source: DataSource,
        problem: Problem,
        assign: Callable[[Chunk, Any], Assignment],
        n_groups: int,
        homes: NDArray[np.int16] | None = None,
        states: Sequence[Any] | None = None,
    ) -> tuple[Clusters, float]:
        """Label every entry by ``assign(chunk, state)`` and sum, in one pass.

        Entries marked ``single`` become clusters of their own behind the ``n_groups`` groups; groups
        without an entry are dropped. Returns the clusters and the total of the objectives.
        """
        objective = 0.0
        counts = np.zeros(n_groups, dtype=np.int64)
        sums: Float | None = None
        single_keys: list[Int] = []
        single_sums: list[Float] = []

        def assign_and_sum(chunk: Chunk, state: Any) -> tuple[Any, ChunkLabels]:
            given = assign(chunk, state)
            labels = given.labels
            rows = NOTHING if given.single is None else np.flatnonzero(given.single)
            here = np.flatnonzero(np.bincount(np.delete(labels, rows), minlength=n_groups))
            position = np.zeros(n_groups, dtype=np.int32)
            position[here] = np.arange(len(here), dtype=np.int32)
            local = position[labels]
            local[rows] = len(here) + np.arange(len(rows), dtype=np.int32)
            total = problem.aggregate(chunk, local, len(here) + len(rows))
            sizes = np.bincount(local, minlength=len(here))[: len(here)]
            keys = rows + chunk.start
            return (here, sizes, total, keys, given.objective), ChunkLabels(labels, rows, keys)

        def collect(value: Any) -> None:
            nonlocal sums, objective
            here, sizes, total, keys, part = value
            objective += part
            if sums is None:
                sums = np.zeros((n_groups, total.shape[1]))
            counts[here] += sizes
            sums[here] += total[: len(here)]
            single_keys.append(keys)
            single_sums.append(total[len(here) :])

        kept = source.run(assign_and_sum, states, collect)
        assert sums is not None
        used = np.flatnonzero(counts)
        position: NDArray[np.int32] | None = None
        if len(used) < n_groups:
            position = np.zeros(n_groups, dtype=np.int32)
            position[used] = np.arange(len(used), dtype=np.int32)
        keys = np.concatenate(single_keys)
        ids = (len(used) + np.arange(len(keys))).astype(np.int32)
        home = np.zeros(n_groups, dtype=np.int16) if homes is None else homes
        clusters = cls(
            source,
            problem,
            kept,
            Renaming(keys, ids, position),
            np.concatenate([counts[used], np.ones(len(keys), dtype=np.int64)]),
            np.concatenate([sums[used], *single_sums]),
            np.concatenate([home[used], np.zeros(len(keys), dtype=np.int16)]),
        )
        return clusters, objective

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything about the partition, to be saved."""
        return {
            "labels": self.labels(),
            "counts": self.counts,
            "sums": self.sums,
            "homes": self.homes,
            "summed": self._summed,
        }

    @classmethod
    def restore(cls, problem: Problem, arrays: Mapping[str, NDArray[Any]]) -> Clusters:
        """The partition that was saved."""
        source = problem.source
        size = source.rows_per_chunk
        states = [
            ChunkLabels(arrays["labels"][k * size : (k + 1) * size], NOTHING, NOTHING) for k in range(source.n_chunks)
        ]
        nothing = Renaming(NOTHING, np.empty(0, dtype=np.int32))
        clusters = cls(source, problem, states, nothing, arrays["counts"], arrays["sums"], arrays["homes"])
        clusters._summed = arrays["summed"]
        return clusters

    @property
    def n_clusters(self) -> int:
        return len(self.counts)

    @property
    def aggregation_rate(self) -> float:
        return self.n_clusters / self.source.n_entries

    def labels(self) -> NDArray[np.int32]:
        """The cluster of every entry (for tests, plots and models that need it)."""
        renaming = self._renaming

        def current(state: ChunkLabels) -> NDArray[np.int32]:
            return state.current(renaming)

        return np.concatenate(list(self.source.map_states(current, self._states)))

    def map(self, function: Callable[[Chunk, NDArray[np.int32]], Any], collect: Callable[[Any], None]) -> None:
        """One pass of ``function(chunk, labels)``."""
        renaming = self._renaming

        def with_labels(chunk: Chunk, state: ChunkLabels) -> tuple[Any, ChunkLabels]:
            return function(chunk, state.current(renaming)), state

        self.source.run(with_labels, self._states, collect)

    def check(self, trial: Trial) -> Check:
        """Evaluate a trial on all entries and find the clusters that lie in several regions.

        One pass: the sums of the clusters a split would create come back with the objectives.
        """
        problem, renaming = self.problem, self._renaming
        homes, divisible = self.homes, self.counts > 1
        base = problem.n_regions
        n_codes = base**trial.n_split
        n_shared = self.n_clusters * n_codes
        ones = sum(base**power for power in range(trial.n_split))

        def evaluate(chunk: Chunk, state: ChunkLabels) -> tuple[Any, ChunkLabels]:
            labels = state.current(renaming)
            evaluation = problem.evaluate(replace(chunk, labels=labels), trial)
            home = homes[labels]
            code = np.zeros(len(labels), dtype=np.int16)
            for region in evaluation.regions:
                code *= base
                code += np.where(region < 0, home, region) if region.min() < 0 else region
            moved = np.flatnonzero(code != home * np.int16(ones))
            moved = moved[divisible[labels[moved]]]
            keys = labels[moved].astype(np.int64) * n_codes + code[moved]
            if evaluation.alone is not None:
                alone = evaluation.alone[moved]
                keys[alone] = n_shared + chunk.start + moved[alone]
            found, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
            sums = problem.aggregate(chunk.select(moved), inverse, len(found)) if len(moved) else None
            origin = (labels[moved[first]], code[moved[first]] % base)
            value = (evaluation.objectives, found, *origin, np.bincount(inverse, minlength=len(found)), sums)
            return value, ChunkLabels(labels, moved, keys)

        objectives = np.zeros(len(trial.points))
        found_in: list[Any] = []

        def collect(value: Any) -> None:
            objectives[:] += value[0]
            if len(value[1]):
                found_in.append(value[1:])

        states = self.source.run(evaluate, self._states, collect)
        objectives += [problem.penalty(point) for point in trial.points]
        return self._violations(objectives, states, found_in)

    def _violations(self, objectives: Float, states: list[ChunkLabels], found_in: list[Any]) -> Check:
        """Join what the chunks found: key, parent, region, number and sums of entries that would leave a cluster."""
        keys = np.unique(np.concatenate([f[0] for f in found_in])) if found_in else NOTHING
        parents, homes = np.zeros(len(keys), dtype=np.int64), np.zeros(len(keys), dtype=np.int16)
        counts = np.zeros(len(keys), dtype=np.int64)
        sums = np.zeros((len(keys), self.sums.shape[1]))
        for chunk_keys, chunk_parents, chunk_homes, chunk_counts, chunk_sums in found_in:
            at = np.searchsorted(keys, chunk_keys)
            parents[at], homes[at] = chunk_parents, chunk_homes
            counts[at] += chunk_counts
            sums[at] += chunk_sums
        left = np.bincount(parents, weights=counts, minlength=self.n_clusters).astype(np.int64)
        # A parent that every entry left keeps its first new code as home: that one is no new cluster.
        first = np.zeros(len(keys), dtype=bool)
        first[np.unique(parents, return_index=True)[1]] = True
        stays = first & (left[parents] == self.counts[parents])
        born = ~stays
        ids = np.empty(len(keys), dtype=np.int32)
        ids[stays] = parents[stays]
        ids[born] = self.n_clusters + np.arange(born.sum())
        return Check(
            objectives=objectives,
            n_violated=len(np.unique(parents[born])),
            states=states,
            renaming=Renaming(keys, ids),
            parents=parents[born],
            homes=homes[born],
            counts=counts[born],
            sums=sums[born],
            flipped=parents[stays],
            flipped_homes=homes[stays],
        )

    def decluster(self, check: Check) -> None:
        """Split the clusters that a check found in several regions."""
        np.subtract.at(self.counts, check.parents, check.counts)
        np.subtract.at(self.sums, check.parents, check.sums)
        self.homes[check.flipped] = check.flipped_homes
        self.counts = np.concatenate([self.counts, check.counts])
        self.sums = np.concatenate([self.sums, check.sums])
        self.homes = np.concatenate([self.homes, check.homes])
        self._summed = np.concatenate([self._summed, _size(check.sums)])
        self._states, self._renaming = check.states, check.renaming
        parents = np.unique(check.parents)
        self._sum_again(parents[_size(self.sums[parents]) < CANCELLATION * self._summed[parents]])

    def _sum_again(self, stale: Int) -> None:
        """Sum clusters of which subtraction has left little but rounding errors."""
        if len(stale) == 0:
            return
        renaming, problem = self._renaming, self.problem
        position = np.full(self.n_clusters, -1, dtype=np.int32)
        position[stale] = np.arange(len(stale), dtype=np.int32)
        self.sums[stale] = 0.0

        def sum_stale(chunk: Chunk, state: ChunkLabels) -> tuple[Float | None, ChunkLabels]:
            place = position[state.current(renaming)]
            rows = np.flatnonzero(place >= 0)
            if len(rows) == 0:
                return None, state
            return problem.aggregate(chunk.select(rows), place[rows], len(stale)), state

        def collect(sums: Float | None) -> None:
            if sums is not None:
                self.sums[stale] += sums

        self.source.run(sum_stale, self._states, collect)
        self._summed[stale] = _size(self.sums[stale])


def _size(sums: Float) -> Float:
    """Largest entry of each cluster's sums."""
    return np.abs(sums).max(axis=1, initial=0.0)
