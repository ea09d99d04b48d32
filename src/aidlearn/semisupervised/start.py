"""Initial clusters of the semi-supervised SVM: k-means on the features of the unlabelled entries (paper, section 4).

Labelled entries stay single, unless there are many: then only those near the margin of the labelled problem do, and
the others of each class are binned by their distance from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import kmeans_plusplus

from aidlearn.data.passes.run import fold, total
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.loop import aid
from aidlearn.engine.problem import Incumbent, Start, Trial
from aidlearn.engine.progress import Limits
from aidlearn.engine.sums import Assignment
from aidlearn.linear.start.methods import cluster_codes
from aidlearn.linear.svm import svm_problem
from aidlearn.numerics import Float
from aidlearn.semisupervised.problem import ClusterSums, SemiSupervised


@dataclass(frozen=True)
class StartSettings:
    """Numbers of initial clusters."""

    many_labelled: int = 1000
    """Maximum labelled entries that stay single: ten clusters of a hundred cost 2-11 points of accuracy."""
    bins: int = 100
    """Guess. Clusters per class, by distance, if labelled entries are clustered."""
    seeding_entries: int = 2000
    """Guess. Size of the sample from which the first centres are chosen."""
    many_entries: int = 10_000
    """Number of entries above which the smaller initial rate applies (paper, section 4)."""
    initial_rate: float = 0.01
    """Default ratio of initial clusters to entries."""
    initial_rate_of_many: float = 0.0001
    """Default ratio of initial clusters to entries above ``many_entries``."""
    fewest_clusters: int = 10
    """Guess. Minimum number of initial clusters."""
    supervised_gap: float = 1e-3
    """Guess. Relative gap of the labelled problem whose margin clusters labelled entries."""
    supervised_iterations: int = 10
    """Guess. Maximum iterations on the labelled problem."""


SETTINGS = StartSettings()

SemiSupervisedStart = Callable[[SemiSupervised], Start]


@dataclass(frozen=True)
class _Labelled:
    """The group of each labelled entry, whether it stays single, and the hyperplane around which groups are formed."""

    groups: NDArray[np.int32]
    alone: NDArray[np.bool_]
    n_groups: int
    point: Float | None = None


def by_kmeans(iterations: int, spread: bool) -> SemiSupervisedStart:
    """Cluster by k-means on the features; the first centres come from k-means++ with ``spread``, else at random."""

    def start(problem: SemiSupervised) -> Start:
        labelled, candidates, labelled_before = _gather(problem)
        groups = _labelled_groups(problem, labelled)
        # Unlabelled entries without weight may share any cluster.
        centres = np.zeros((1, problem.n_attributes))
        if candidates.n_entries:
            n = problem.run.n_entries
            default = SETTINGS.initial_rate if n <= SETTINGS.many_entries else SETTINGS.initial_rate_of_many
            rate = problem.settings.initial_rate or default
            k = min(candidates.n_entries, max(SETTINGS.fewest_clusters, round(rate * n)))
            late = time.monotonic() > problem.run.deadline
            k = min(k, SETTINGS.fewest_clusters) if late else k
            centres = _first_centres(problem, candidates, k, spread and not late)
            for _ in range(iterations - 1):
                if time.monotonic() > problem.run.deadline:
                    break
                centres = _lloyd(problem, centres)
        return _build(problem, groups, labelled_before, centres)

    return start


def from_labels(labels: Any) -> SemiSupervisedStart:
    """Take clusters from the user, split by class and into labelled and unlabelled entries."""

    def start(problem: SemiSupervised) -> Start:
        source: Any = problem.source
        given = np.asarray(labels(source.X, source.y) if callable(labels) else labels)
        codes, n_clusters = cluster_codes(given, source.n_entries)

        def assign(chunk: Chunk, state: Any) -> Assignment:
            kind = chunk.y.astype(np.int32) + 1
            return Assignment(kind * n_clusters + codes[chunk.start : chunk.stop])

        return Start(Clusters.build(problem, assign, 3 * n_clusters)[0])

    return start


def _gather(problem: SemiSupervised) -> tuple[Chunk, Chunk, list[int]]:
    """Return the labelled entries, a sample of the others, and the number of labelled entries before each chunk.

    A first pass counts the unlabelled entries with a positive weight, from which the second pass draws.
    """
    run = problem.run
    n_free = [0]

    def count(chunk: Chunk) -> int:
        return int(((chunk.y == 0) & (chunk.weight > 0)).sum())

    fold(run, count, lambda value: n_free.append(n_free[-1] + value))
    chosen = np.sort(problem.rng.choice(n_free[-1], min(n_free[-1], SETTINGS.seeding_entries), replace=False))

    def pick(chunk: Chunk, before: int) -> tuple[tuple[Chunk, Chunk], None]:
        free = np.flatnonzero((chunk.y == 0) & (chunk.weight > 0))
        here = chosen[np.searchsorted(chosen, before) : np.searchsorted(chosen, before + len(free))] - before
        return (chunk.select(np.flatnonzero(chunk.y != 0)), chunk.select(free[here])), None

    parts: list[tuple[Chunk, Chunk]] = []
    run.map(pick, n_free[:-1], parts.append)
    labelled, candidates = zip(*parts, strict=True)
    before = np.cumsum([0, *(part.n_entries for part in labelled)])[:-1].tolist()
    return join(labelled), join(candidates), before


def _first_centres(problem: SemiSupervised, candidates: Chunk, k: int, spread: bool) -> Float:
    if spread and k < candidates.n_entries:
        _, chosen = kmeans_plusplus(candidates.X, k, random_state=int(problem.rng.integers(2**31)))
    else:
        chosen = problem.rng.choice(candidates.n_entries, k, replace=False)
    return candidates.dense_rows(chosen)


def _nearest(chunk: Chunk, centres: Float) -> NDArray[np.int32]:
    """Return the number of the nearest centre of each entry."""
    squares = np.einsum("ij,ij->i", centres, centres)
    return (squares - 2 * (chunk @ centres.T)).argmin(axis=1).astype(np.int32)


def _lloyd(problem: SemiSupervised, centres: Float) -> Float:
    """Run one Lloyd iteration on the unlabelled entries, in one pass; centres without entries disappear."""

    def measure(chunk: Chunk) -> Float:
        free = chunk.select(np.flatnonzero(chunk.y == 0))
        return problem.aggregate(free, _nearest(free, centres), len(centres))

    sums = ClusterSums.of(total(problem.run, measure))
    return sums.means(np.flatnonzero(sums.weight > 0))


def _labelled_groups(problem: SemiSupervised, labelled: Chunk) -> _Labelled:
    n = labelled.n_entries
    if n <= SETTINGS.many_labelled:
        return _Labelled(np.zeros(n, dtype=np.int32), np.ones(n, dtype=bool), 1)
    rows = ArraySource(labelled.X, labelled.y, labelled.weight)
    supervised = svm_problem(problem.run.of(rows), problem.settings.C, problem.rng)
    point = aid(supervised, Limits(SETTINGS.supervised_gap, SETTINGS.supervised_iterations)).point
    balance = problem.balance_of_source()
    if balance is not None:
        point = balance.point(point[:-1])
    slack = 1.0 - labelled.y * problem.scores(labelled, point)
    alone = np.zeros(n, dtype=bool)
    alone[np.argsort(np.abs(slack), kind="stable")[: SETTINGS.many_labelled]] = True
    groups, bins = np.zeros(n, dtype=np.int32), SETTINGS.bins
    for side, positive in enumerate((False, True)):
        members = np.flatnonzero(((labelled.y > 0) == positive) & ~alone)
        order = np.argsort(slack[members], kind="stable")
        groups[members[order]] = side * bins + (np.arange(len(members)) * bins // max(1, len(members)))
    return _Labelled(groups, alone, 2 * bins, point)


def _build(problem: SemiSupervised, labelled: _Labelled, before: list[int], centres: Float) -> Start:
    point = labelled.point

    def assign(chunk: Chunk, state: int) -> Assignment:
        labels = np.empty(chunk.n_entries, dtype=np.int32)
        single = np.zeros(chunk.n_entries, dtype=bool)
        known = np.flatnonzero(chunk.y != 0)
        labels[known] = labelled.groups[state : state + len(known)]
        single[known] = labelled.alone[state : state + len(known)]
        free = np.flatnonzero(chunk.y == 0)
        if len(free):
            labels[free] = labelled.n_groups + _nearest(chunk.select(free), centres)
        objective = 0.0 if point is None else float(problem.evaluate(chunk, Trial([point])).objectives[0])
        return Assignment(labels, single, objective)

    n_groups = labelled.n_groups + len(centres)
    clusters, objective = Clusters.build(problem, assign, n_groups, states=before)
    if point is None:
        return Start(clusters)
    return Start(clusters, Incumbent(point, objective + problem.penalty(point)))
