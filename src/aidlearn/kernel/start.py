"""Initial clusters of a kernel SVM (paper, appendix B): component 2 of the problem.

"band", the default, clusters rows by their distance from the margin of a quick solution; "kmeans" and "kernel-kmeans"
are the paper's two procedures; "rows" makes every row its own cluster; users may pass labels of their own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.loop import aid
from aidlearn.engine.problem import Incumbent, Start
from aidlearn.engine.progress import Limits
from aidlearn.engine.sums import Assignment
from aidlearn.kernel.dual import SETTINGS as DUAL
from aidlearn.kernel.dual import best_intercept
from aidlearn.kernel.problem import LOSS, NO_LOSS, KernelHinge, StartMethod
from aidlearn.kernel.problem import SETTINGS as PROCEDURE
from aidlearn.kernel.rows import landmark_features, landmark_map
from aidlearn.kernel.values import KernelPoint
from aidlearn.linear.start.methods import cluster_codes
from aidlearn.numerics import Int


@dataclass(frozen=True)
class StartSettings:
    """Limits and sizes of the initial clusters."""

    direct_rows: int = 6000
    """Maximum rows for which every row is its own cluster, because the whole kernel matrix is small."""
    direct_support: int = 1500
    """Guess. Number of support vectors predicted by a sample up to which rows are not clustered: they need few columns
    of the kernel matrix."""
    bounded_share: float = 0.15
    """Guess. Fraction of a sample's support vectors at their bound below which rows are not clustered: only those
    cluster well."""
    many_rows: int = 60_000
    """Guess. Beyond this number of rows ``bounded_share`` is ignored: even clusters that split late save most work."""
    sample_rows: int = 2000
    """Guess. Sample size in the paper's procedure; the choice of a start uses twice as many rows."""
    fewest_landmarks: int = 120
    """Guess. Minimum landmarks of the quick solution."""
    most_landmarks: int = 300
    """Guess. Maximum landmarks of the quick solution: their product with all rows is the cost of the start."""
    rows_per_landmark: int = 400
    """Guess. Rows per landmark, between the minimum and the maximum of landmarks."""
    quick_gap: float = 1e-2
    """Guess. Relative gap of the quick solution (at most one iteration), from which aggregated problems continue."""
    distances: int = 1 << 21
    """Distances to centres in memory at once: 16 MB."""
    near_share: float = 0.15
    """Guess. Fraction of the rows, nearest to the margin of the quick solution, that stay single."""
    bins: int = 4
    """Guess. Clusters per class of rows inside the margin."""
    kmeans_clusters: int = 50
    """Guess. Default number of clusters per class in the paper's procedures."""


SETTINGS = StartSettings()


def automatic(problem: KernelHinge) -> Start:
    """Choose "rows" where that is cheap, "band" otherwise."""
    n = len(problem.y)
    fits = problem.rows.compiled or n <= problem.kernels.max_matrix
    return every_row(problem) if fits and (n <= SETTINGS.direct_rows or not _clusters_pay(problem)) else band(problem)


def every_row(problem: KernelHinge) -> Start:
    """Make each row its own cluster, without aggregation."""
    n = len(problem.y)
    if not problem.rows.compiled and n > problem.kernels.max_matrix:
        raise ValueError(
            f"init='rows' needs a kernel matrix of {n} x {n} values, more than memory_limit="
            f"{problem.settings.memory_limit:.3g} bytes allows; raise memory_limit or use init='auto'."
        )
    return Start(Clusters.alone(problem))


def band(problem: KernelHinge) -> Start:
    """Cluster around a linear SVM on Nystroem features: near rows stay single, far rows with a loss are binned, and far
    rows without a loss form one cluster per class."""
    point = _nystroem(problem)
    y, n = problem.y, len(problem.y)
    z = problem.edge - y * (point.scores + point.intercept)
    rate = SETTINGS.near_share if problem.settings.initial_rate is None else problem.settings.initial_rate
    room = problem.kernels.room(True) - 2 * SETTINGS.bins
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
        for members in np.array_split(inside[np.argsort(z[inside])], SETTINGS.bins):
            groups[members] = len(homes)
            homes.append(LOSS)
    incumbent = Incumbent(point, problem.objective(point))
    return Start(_build(problem, groups, len(homes), near, np.array(homes, dtype=np.int16)), incumbent)


def kmeans(problem: KernelHinge) -> Start:
    """Cluster by one k-means iteration, per class, on the distances to the hyperplane of a sample (as in the paper)."""
    machine, scores = problem.sample_machine(SETTINGS.sample_rows, problem.run.deadline)
    places = problem.entries.position(scores)

    def nearest(members: Int, k: int) -> Int:
        centres = np.sort(problem.rng.choice(places[members], k, replace=False))
        return np.searchsorted(0.5 * (centres[1:] + centres[:-1]), places[members])

    # The machine of the sample is the incumbent if time runs out before the first aggregated problem is solved.
    return Start(_per_class(problem, nearest), None if math.isinf(problem.run.deadline) else machine)


def kernel_kmeans(problem: KernelHinge) -> Start:
    """Cluster by one k-means iteration in the space of the kernel, from random rows as centres (as in the paper)."""
    rows = problem.rows

    def nearest(members: Int, k: int) -> Int:
        centres = problem.rng.choice(members, k, replace=False)
        step = max(1, SETTINGS.distances // k)
        parts = [
            (rows.lengths[centres] ** 2 - 2 * rows.block(members[i : i + step], centres)).argmin(axis=1)
            for i in range(0, len(members), step)
        ]
        return np.concatenate(parts)

    return Start(_per_class(problem, nearest))


def given(labels: Any) -> StartMethod:
    """Take clusters from the user, split by class."""

    def start(problem: KernelHinge) -> Start:
        found = labels(problem.rows.X, problem.y) if callable(labels) else labels
        codes, n_clusters = cluster_codes(np.asarray(found), len(problem.entries.target))
        both = problem.entries.of_rows(codes) + np.where(problem.y > 0, n_clusters, 0).astype(np.int32)
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
    """Build clusters of groups of rows; rows that are ``near`` stay single."""
    homes = np.full(n_groups, LOSS, dtype=np.int16) if homes is None else homes

    def assign(chunk: Chunk, state: Any) -> Assignment:
        here = slice(chunk.start, chunk.stop)
        return Assignment(groups[here], None if near is None else near[here])

    return Clusters.build(problem, assign, n_groups, homes)[0]


def _per_class(problem: KernelHinge, nearest: Callable[[Int, int], Int]) -> Clusters:
    """Cluster each class separately; the initial rate determines the number of clusters."""
    y, n = problem.y, len(problem.y)
    most = min(problem.kernels.max_shared, problem.kernels.room(True))
    rate = problem.settings.initial_rate
    total = max(2, min(2 * SETTINGS.kmeans_clusters if rate is None else round(rate * n), most))
    groups = np.zeros(n, dtype=np.int32)
    first = 0
    for label in (-1.0, 1.0):
        members = np.flatnonzero(y == label)
        k = min(len(members), max(1, round(total * len(members) / n)))
        groups[members] = first + nearest(members, k)
        first += k
    return _build(problem, groups, first)


def _clusters_pay(problem: KernelHinge) -> bool:
    """Return whether a sample predicts many support vectors, and many of them at their bound."""
    n = len(problem.y)
    sample = problem.entries.sample(problem.rng, min(2 * SETTINGS.sample_rows, n), 0)
    box = problem.box[sample]
    alpha = problem.sample_solution(sample, box, problem.run.deadline)
    support = alpha > 0
    bounded = float(box[alpha >= (1 - DUAL.at_bound) * box].sum())
    few = n * float(support.mean()) <= SETTINGS.direct_support
    return not few and (n > SETTINGS.many_rows or bounded >= SETTINGS.bounded_share * float(box[support].sum()))


def _nystroem(problem: KernelHinge) -> KernelPoint:
    """Solve the SVM restricted to the span of landmark rows, as a linear SVM on features of all rows."""
    entries, rows = problem.entries, problem.rows
    n = len(entries.target)
    # Features and a copy of them may take a quarter of the memory limit.
    most = int(problem.settings.memory_limit / 4 / (2 * n * np.dtype(rows.dtype).itemsize))
    wanted = min(max(SETTINGS.fewest_landmarks, n // SETTINGS.rows_per_landmark), SETTINGS.most_landmarks)
    n_landmarks = max(2, min(wanted, most, n))
    landmarks = entries.landmarks(problem.rng, n_landmarks, n_landmarks // PROCEDURE.least_share)
    mapping = landmark_map(rows, landmarks)
    features = landmark_features(rows, landmarks, mapping, np.arange(n))
    source = ArraySource(features, entries.target, entries.row_box, rows.n_jobs)
    linear = entries.linear_problem(problem.run.of(source), problem.rng)
    left = None if math.isinf(problem.run.deadline) else max(1e-3, problem.run.deadline - time.monotonic())
    w = aid(linear, Limits(SETTINGS.quick_gap, 1, left)).point[:-1]
    scores = entries.of_rows(np.asarray(features @ w.astype(rows.dtype), dtype=np.float64))
    coef = np.zeros(len(problem.y))
    coef[landmarks] = mapping @ w
    b = best_intercept(scores, problem.y, problem.box, problem.edge)
    return KernelPoint(coef, b, scores, float(w @ w), b, feasible=False)
