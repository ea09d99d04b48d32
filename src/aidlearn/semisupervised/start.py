"""Initial clusters of the semi-supervised SVM: k-means on the features of the unlabelled entries (paper, section 4).

Labelled entries stay alone, unless there are many: then those near the margin of the labelled problem do, and the
others of each class are binned by their distance to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import kmeans_plusplus

from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.limits import Limits
from aidlearn.engine.loop import aid
from aidlearn.engine.problem import Incumbent, Start, Trial
from aidlearn.engine.splits import Assignment
from aidlearn.linear.start.user_labels import cluster_codes
from aidlearn.linear.svm import svm_problem
from aidlearn.numerics import Float
from aidlearn.semisupervised.aggregated import ClusterSums
from aidlearn.semisupervised.problem import SemiSupervised

MANY_LABELLED = 1000
"""Up to this number labelled entries are never clustered: ten clusters of a hundred cost 2-11 points of accuracy."""
BINS = 100
"""Clusters by distance of each class, where labelled entries are clustered."""
SEEDING = 2000
"""Entries among which the first centres are chosen."""
MANY_ENTRIES = 10_000
"""From this number on the smaller initial rate is taken."""
INITIAL_RATE, INITIAL_RATE_OF_MANY = 0.01, 0.0001
"""Initial clusters over entries, by default."""
FEWEST_CLUSTERS = 10
SUPERVISED_GAP, SUPERVISED_ITERATIONS = 1e-3, 10
"""When the labelled problem is solved well enough to cluster its entries."""

SemiSupervisedStart = Callable[[SemiSupervised], Start]


@dataclass(frozen=True)
class _Labelled:
    """Group of each labelled entry (in order) and whether it stays alone, drawn around a hyperplane if there is one."""

    groups: NDArray[np.int32]
    alone: NDArray[np.bool_]
    n_groups: int
    point: Float | None = None


@dataclass(frozen=True)
class _Gathered:
    """What the start has to see at once."""

    labelled: Chunk
    candidates: Chunk
    """A random sample of the unlabelled entries with a weight."""
    labelled_before: list[int]
    """Labelled entries before each chunk."""


def by_kmeans(iterations: int, careful: bool) -> SemiSupervisedStart:
    """K-means on the features; ``careful`` spreads the first centres (k-means++), otherwise they are random entries."""

    def start(problem: SemiSupervised) -> Start:
        gathered = _gather(problem)
        candidates = gathered.candidates
        groups = _labelled_groups(problem, gathered.labelled)
        # Unlabelled entries without weight may share any cluster.
        centres = np.zeros((1, problem.n_attributes))
        if candidates.n_entries:
            n = problem.run.n_entries
            rate = problem.settings.initial_rate or (INITIAL_RATE if n <= MANY_ENTRIES else INITIAL_RATE_OF_MANY)
            k = min(candidates.n_entries, max(FEWEST_CLUSTERS, round(rate * n)))
            late = time.monotonic() > problem.run.deadline
            centres = _first_centres(problem, candidates, min(k, FEWEST_CLUSTERS) if late else k, careful and not late)
            for _ in range(iterations - 1):
                if time.monotonic() > problem.run.deadline:
                    break
                centres = _lloyd(problem, centres)
        return _build(problem, groups, gathered.labelled_before, centres)

    return start


def from_labels(labels: Any) -> SemiSupervisedStart:
    """Clusters of the unlabelled entries as given (labels of labelled entries matter within their class)."""

    def start(problem: SemiSupervised) -> Start:
        source: Any = problem.source
        given = np.asarray(labels(source.X, source.y) if callable(labels) else labels)
        codes, n_clusters = cluster_codes(given, source.n_entries)

        def assign(chunk: Chunk, state: Any) -> Assignment:
            kind = chunk.y.astype(np.int32) + 1
            return Assignment(kind * n_clusters + codes[chunk.start : chunk.stop])

        return Start(Clusters.build(problem, assign, 3 * n_clusters)[0])

    return start


def _gather(problem: SemiSupervised) -> _Gathered:
    """In two passes: how many entries are unlabelled, then the labelled ones and the sample."""
    run = problem.run
    n_free = [0]

    def count(chunk: Chunk, state: Any) -> tuple[int, None]:
        return int(((chunk.y == 0) & (chunk.weight > 0)).sum()), None

    run.map(count, collect=lambda value: n_free.append(n_free[-1] + value))
    total = n_free[-1]
    chosen = np.sort(problem.rng.choice(total, min(total, SEEDING), replace=False))
    labelled: list[Chunk] = []
    candidates: list[Chunk] = []

    def pick(chunk: Chunk, before: int) -> tuple[tuple[Chunk, Chunk], None]:
        free = np.flatnonzero((chunk.y == 0) & (chunk.weight > 0))
        here = chosen[np.searchsorted(chosen, before) : np.searchsorted(chosen, before + len(free))] - before
        return (chunk.select(np.flatnonzero(chunk.y != 0)), chunk.select(free[here])), None

    def collect(value: tuple[Chunk, Chunk]) -> None:
        labelled.append(value[0])
        candidates.append(value[1])

    run.map(pick, n_free[:-1], collect)
    before = np.cumsum([0, *(part.n_entries for part in labelled)])[:-1].tolist()
    return _Gathered(join(labelled), join(candidates), before)


def _first_centres(problem: SemiSupervised, candidates: Chunk, k: int, careful: bool) -> Float:
    if careful and k < candidates.n_entries:
        _, chosen = kmeans_plusplus(candidates.X, k, random_state=int(problem.rng.integers(2**31)))
    else:
        chosen = problem.rng.choice(candidates.n_entries, k, replace=False)
    return candidates.dense_rows(chosen)


def _nearest(chunk: Chunk, centres: Float, squares: Float) -> NDArray[np.int32]:
    """Index of the nearest centre of each entry."""
    products = chunk @ centres.T
    return (squares - 2 * products).argmin(axis=1).astype(np.int32)


def _lloyd(problem: SemiSupervised, centres: Float) -> Float:
    """One Lloyd iteration on the unlabelled entries, in one pass; centres without entries disappear."""
    k = len(centres)
    squares = np.einsum("ij,ij->i", centres, centres)
    total = np.zeros((k, problem.n_attributes + 2))

    def measure(chunk: Chunk, state: Any) -> tuple[Float, None]:
        free = chunk.select(np.flatnonzero(chunk.y == 0))
        return problem.aggregate(free, _nearest(free, centres, squares), k), None

    def collect(value: Float) -> None:
        total[:] += value

    problem.run.map(measure, collect=collect)
    sums = ClusterSums.of(total)
    return sums.means(np.flatnonzero(sums.weight > 0))


def _labelled_groups(problem: SemiSupervised, labelled: Chunk) -> _Labelled:
    n = labelled.n_entries
    if n <= MANY_LABELLED:
        return _Labelled(np.zeros(n, dtype=np.int32), np.ones(n, dtype=bool), 1)
    rows = ArraySource(labelled.X, labelled.y, labelled.weight)
    supervised = svm_problem(problem.run.of(rows), problem.settings.C, problem.rng)
    point = aid(supervised, Limits(tol=SUPERVISED_GAP, max_iter=SUPERVISED_ITERATIONS)).point
    balance = problem.balance_of_source()
    if balance is not None:
        point = balance.point(point[:-1])
    slack = 1.0 - labelled.y * problem.scores(labelled, point)
    alone = np.zeros(n, dtype=bool)
    alone[np.argsort(np.abs(slack), kind="stable")[:MANY_LABELLED]] = True
    groups = np.zeros(n, dtype=np.int32)
    for side, positive in enumerate((False, True)):
        members = np.flatnonzero(((labelled.y > 0) == positive) & ~alone)
        order = np.argsort(slack[members], kind="stable")
        groups[members[order]] = side * BINS + (np.arange(len(members)) * BINS // max(1, len(members)))
    return _Labelled(groups, alone, 2 * BINS, point)


def _build(problem: SemiSupervised, labelled: _Labelled, before: list[int], centres: Float) -> Start:
    squares = np.einsum("ij,ij->i", centres, centres)
    point = labelled.point

    def assign(chunk: Chunk, state: int) -> Assignment:
        labels = np.empty(chunk.n_entries, dtype=np.int32)
        single = np.zeros(chunk.n_entries, dtype=bool)
        known = np.flatnonzero(chunk.y != 0)
        labels[known] = labelled.groups[state : state + len(known)]
        single[known] = labelled.alone[state : state + len(known)]
        free = np.flatnonzero(chunk.y == 0)
        if len(free):
            labels[free] = labelled.n_groups + _nearest(chunk.select(free), centres, squares)
        objective = 0.0 if point is None else float(problem.evaluate(chunk, Trial([point])).objectives[0])
        return Assignment(labels, single, objective)

    n_groups = labelled.n_groups + len(centres)
    clusters, objective = Clusters.build(problem, assign, n_groups, states=before)
    if point is None:
        return Start(clusters)
    return Start(clusters, Incumbent(point, objective + problem.penalty(point)))
