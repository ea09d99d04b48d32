"""Initial clusters of a kernel SVM (paper, appendix B): component 2 of the problem.

"band", the default, draws them around a quick solution; "kmeans" and "kernel-kmeans" are the paper's two procedures;
"rows" does without clusters, and users may give their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.limits import Limits
from aidlearn.engine.loop import aid
from aidlearn.engine.problem import Incumbent, Start
from aidlearn.engine.splits import Assignment
from aidlearn.kernel.dual import best_intercept
from aidlearn.kernel.hasty import LEAST_SHARE, of_sample, restored, sample_solution
from aidlearn.kernel.nystroem import landmark_features, landmark_map
from aidlearn.kernel.problem import LOSS, NO_LOSS, KernelHinge, StartMethod
from aidlearn.kernel.values import KernelPoint
from aidlearn.linear.start.user_labels import cluster_codes
from aidlearn.numerics import Int

DIRECT_ROWS = 6000
"""Up to this number of rows no row is clustered: the whole kernel matrix is small."""
DIRECT_SUPPORT = 1500
"""Nor if a sample promises at most this number of support vectors: few columns of the matrix are ever needed."""
BOUNDED = 0.15
"""Nor if fewer of a sample's support vectors are at their bound: it is those that can be clustered."""
MANY_ROWS = 60_000
"""Beyond this number of rows that does not count: a cluster that is split late has still saved most of the work."""
SAMPLE = 2000
"""Rows of the sample that the paper's procedure and the choice of a start go by."""
FEWEST_LANDMARKS, MOST_LANDMARKS = 120, 300
"""Rows that span the quick solution: their product with all rows is the work of the start."""
ROWS_PER_LANDMARK = 400
"""In between one landmark stands for so many rows."""
QUICK_GAP = 1e-2
"""Relative gap of the quick solution, or what one iteration reaches: the aggregated problems go on from there."""
AT_BOUND = 1e-9
"""Part of its box within which a dual variable counts as at its bound."""
DISTANCES = 1 << 21
"""Distances to centres that are held at once."""
NEAR = 0.15
"""Part of the rows, those nearest to the margin of the start, that are not clustered."""
BINS = 4
"""Clusters per class of rows inside the margin."""
KMEANS_CLUSTERS = 50
"""Clusters per class of the paper's procedures by default."""


def automatic(problem: KernelHinge) -> Start:
    """Every row alone where that is cheap, around a quick solution otherwise."""
    n = len(problem.y)
    fits = problem.rows.compiled or n <= problem.kernels.max_matrix
    return every_row(problem) if fits and (n <= DIRECT_ROWS or not _clusters_pay(problem)) else band(problem)


def every_row(problem: KernelHinge) -> Start:
    """No aggregation: each row is a cluster."""
    n = len(problem.y)
    if not problem.rows.compiled and n > problem.kernels.max_matrix:
        raise ValueError(
            f"init='rows' needs a kernel matrix of {n} x {n} values, more than memory_limit="
            f"{problem.settings.memory_limit:.3g} bytes allows; allow more or use init='auto'."
        )
    return Start(Clusters.alone(problem))


def band(problem: KernelHinge) -> Start:
    """Around a linear SVM on Nystroem features: near rows alone, far ones with a loss binned, the others left out."""
    point = _nystroem(problem)
    y, n = problem.y, len(problem.y)
    z = problem.edge - y * (point.scores + point.intercept)
    rate = NEAR if problem.settings.initial_rate is None else problem.settings.initial_rate
    room = problem.kernels.room(True) - 2 * BINS
    n_near = min(n, max(0, min(room, round(rate * n))))
    near = np.zeros(n, dtype=bool)
    near[np.argpartition(np.abs(z), n_near - 1)[:n_near] if n_near else []] = True
    groups = np.zeros(n, dtype=np.int32)
    homes: list[int] = []
    for label in (-1.0, 1.0):
        here = (y == label) & ~near
        groups[here & (z <= 0)] = len(homes)
        homes.append(NO_LOSS)
        inside = np.flatnonzero(here & (z > 0))
        bins = np.array_split(inside[np.argsort(z[inside])], BINS)
        for members in bins:
            groups[members] = len(homes)
            homes.append(LOSS)
    incumbent = Incumbent(point, problem.objective(point))
    return Start(_build(problem, groups, len(homes), near, np.array(homes, dtype=np.int16)), incumbent)


def kmeans(problem: KernelHinge) -> Start:
    """The paper: distances to the hyperplane of a sample, one k-means iteration on them in each class."""
    sample = problem.sample(SAMPLE, SAMPLE // LEAST_SHARE)
    coef = problem.y[sample] * sample_solution(problem, sample, restored(problem, sample), problem.run.deadline)
    scores = problem.rows.times(np.arange(len(problem.y)), sample, coef[:, None])[:, 0]
    places = problem.position(scores)

    def nearest(members: Int, k: int) -> Int:
        centres = np.sort(problem.rng.choice(places[members], k, replace=False))
        return np.searchsorted(0.5 * (centres[1:] + centres[:-1]), places[members])

    start = _per_class(problem, nearest)
    if math.isinf(problem.run.deadline):
        return start
    # Of some use if the time is over before the first aggregated problem is solved.
    return Start(start.clusters, of_sample(problem, sample, coef, scores))


def kernel_kmeans(problem: KernelHinge) -> Start:
    """The paper's other way: k-means in the space of the kernel, one iteration from random rows as centres."""
    rows = problem.rows

    def nearest(members: Int, k: int) -> Int:
        centres = problem.rng.choice(members, k, replace=False)
        step = max(1, DISTANCES // k)
        parts = [
            (rows.lengths[centres] ** 2 - 2 * rows.block(members[i : i + step], centres)).argmin(axis=1)
            for i in range(0, len(members), step)
        ]
        return np.concatenate(parts)

    return _per_class(problem, nearest)


def given(labels: Any) -> StartMethod:
    """Clusters from the user; rows of different classes are never together."""

    def start(problem: KernelHinge) -> Start:
        found = labels(problem.rows.X, problem.y) if callable(labels) else labels
        codes, n_clusters = cluster_codes(np.asarray(found), problem.n_rows)
        both = problem.of_rows(codes) + np.where(problem.y > 0, n_clusters, 0).astype(np.int32)
        return Start(_build(problem, both, 2 * n_clusters))

    return start


METHODS: dict[str, StartMethod] = {
    "auto": automatic,
    "band": band,
    "kmeans": kmeans,
    "kernel-kmeans": kernel_kmeans,
    "rows": every_row,
}


def _build(
    problem: KernelHinge,
    groups: NDArray[np.int32],
    n_groups: int,
    near: NDArray[np.bool_] | None = None,
    homes: NDArray[np.int16] | None = None,
) -> Clusters:
    if homes is None:
        homes = np.full(n_groups, LOSS, dtype=np.int16)

    def assign(chunk: Chunk, state: Any) -> Assignment:
        here = slice(chunk.start, chunk.stop)
        return Assignment(groups[here], None if near is None else near[here])

    return Clusters.build(problem, assign, n_groups, homes)[0]


def _per_class(problem: KernelHinge, nearest: Callable[[Int, int], Int]) -> Start:
    """Clusters of each class, as many as the initial rate asks for."""
    y, n = problem.y, len(problem.y)
    most = min(problem.kernels.max_shared, problem.kernels.room(True))
    wanted = 2 * KMEANS_CLUSTERS if problem.settings.initial_rate is None else round(problem.settings.initial_rate * n)
    total = max(2, min(wanted, most))
    groups = np.zeros(n, dtype=np.int32)
    first = 0
    for label in (-1.0, 1.0):
        members = np.flatnonzero(y == label)
        k = min(len(members), max(1, round(total * len(members) / n)))
        groups[members] = first + nearest(members, k)
        first += k
    return Start(_build(problem, groups, first))


def _clusters_pay(problem: KernelHinge) -> bool:
    """Going by a sample: whether there are many support vectors, and many of them at their bound."""
    n = len(problem.y)
    sample = problem.sample(min(2 * SAMPLE, n), 0)
    box = problem.box[sample]
    alpha = sample_solution(problem, sample, box, problem.run.deadline)
    support = alpha > 0
    bounded = float(box[alpha >= (1 - AT_BOUND) * box].sum())
    few = n * float(support.mean()) <= DIRECT_SUPPORT
    return not few and (n > MANY_ROWS or bounded >= BOUNDED * float(box[support].sum()))


def _nystroem(problem: KernelHinge) -> KernelPoint:
    """The SVM restricted to the span of some rows: the linear machinery on features of all rows."""
    rows, n = problem.rows, problem.n_rows
    # A quarter of the memory, for the features and as much again while they are made.
    most = int(problem.settings.memory_limit / 4 / (2 * n * np.dtype(rows.dtype).itemsize))
    wanted = min(max(FEWEST_LANDMARKS, n // ROWS_PER_LANDMARK), MOST_LANDMARKS)
    n_landmarks = max(2, min(wanted, most, n))
    landmarks = problem.landmarks(n_landmarks, n_landmarks // LEAST_SHARE)
    mapping = landmark_map(rows, landmarks)
    features = landmark_features(rows, landmarks, mapping, np.arange(n))
    linear = problem.linear_problem(features)
    left = None if math.isinf(problem.run.deadline) else max(1e-3, problem.run.deadline - time.monotonic())
    w = aid(linear, Limits(QUICK_GAP, 1, left)).point[:-1]
    scores = problem.of_rows(np.asarray(features @ w.astype(rows.dtype), dtype=np.float64))
    coef = np.zeros(len(problem.y))
    coef[landmarks] = mapping @ w
    b = best_intercept(scores, problem.y, problem.box, problem.edge)
    return KernelPoint(coef, b, scores, float(w @ w), b, feasible=False)
