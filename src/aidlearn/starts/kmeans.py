"""The paper's initial clusterings (section 4): a sample's hyperplane, then few clusters by distance to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.cluster import Birch

from aidlearn.data.source import Chunk, Float
from aidlearn.engine.clusters import Assignment, Clusters
from aidlearn.engine.problem import Start
from aidlearn.problems.piecewise import PiecewiseLinear
from aidlearn.starts.sharpen import solved_point

BIRCH_ROWS = 20_000
"""Rows the BIRCH tree is grown from; all others join the nearest subcluster."""

Centres = Callable[[Float, int, np.random.Generator], Float]


def kmeans(problem: PiecewiseLinear) -> Start:
    """One k-means iteration on (residual, y): random rows as centres, every row to the nearest."""

    def centres(points: Float, k: int, rng: np.random.Generator) -> Float:
        return points[rng.choice(len(points), min(k, len(points)), replace=False)]

    return _by_distance(problem, centres)


def birch(problem: PiecewiseLinear) -> Start:
    """BIRCH subclusters of (residual, y) instead of random centres."""

    def centres(points: Float, k: int, rng: np.random.Generator) -> Float:
        some = points[rng.permutation(len(points))[:BIRCH_ROWS]]
        spread = np.maximum(some.std(axis=0), 1e-300)
        # k balls of this radius cover the bulk of standardised points.
        radius = 2.0 / np.sqrt(k)
        tree = Birch(threshold=radius, n_clusters=None, compute_labels=False).fit(some / spread)
        return np.asarray(tree.subcluster_centers_) * spread

    return _by_distance(problem, centres)


def _by_distance(problem: PiecewiseLinear, centres: Centres) -> Start:
    source, rng = problem.source, problem.rng
    n, m = source.n_entries, source.n_attributes
    rate = problem.loss.paper_rate(n, m) if problem.initial_rate is None else problem.initial_rate
    k = max(1, min(n, round(rate * n)))
    point = _sample_solution(problem)
    positions: list[Float] = []

    def locate(chunk: Chunk, state: Any) -> tuple[Float, None]:
        return problem.loss.position(chunk.y, problem.margins(chunk, point)), None

    source.run(locate, collect=positions.append)
    everywhere = np.concatenate(positions)
    # Entries of different groups (classes) are never clustered together.
    groups = everywhere[:, 0]
    trees: dict[float, tuple[cKDTree, int]] = {}
    total = 0
    for group in np.unique(groups):
        members = everywhere[groups == group, 1:]
        found = centres(members, max(1, round(k * len(members) / n)), rng)
        trees[group] = (cKDTree(found), total)
        total += len(found)

    def assign(chunk: Chunk, state: Any) -> Assignment:
        position = everywhere[chunk.start : chunk.stop]
        labels = np.empty(chunk.n_entries, dtype=np.int32)
        for group, (tree, first) in trees.items():
            here = position[:, 0] == group
            labels[here] = first + tree.query(position[here, 1:])[1]
        return Assignment(labels)

    return Start(Clusters.build(source, problem, assign, total)[0])


def _sample_solution(problem: PiecewiseLinear) -> Float:
    """The model fitted to a small sample."""
    source = problem.source
    step = max(1, source.n_entries // max(10 * problem.n_variables, 1000))
    return solved_point(problem, source.every(step, int(problem.rng.integers(step))))
