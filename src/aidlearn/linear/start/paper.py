"""The paper's initial clusterings (section 4): few clusters, by distance to a hyperplane fitted to a sample."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Start
from aidlearn.engine.sums import Assignment
from aidlearn.linear.hurried import out_of_time
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.newton import solved
from aidlearn.numerics import Float


@dataclass(frozen=True)
class PaperSettings:
    """Settings of the paper's initial clusterings that the paper does not specify."""

    birch_rows: int = 20_000
    """Guess. Number of rows that grow the BIRCH tree; all others join the nearest subcluster."""
    rows_per_variable: int = 10
    """Guess. Rows per variable in the sample to which the first hyperplane is fitted."""
    fewest_rows: int = 1000
    """Guess. Least number of rows in the first sample, and number of rows from which running times are extrapolated."""
    no_spread: float = 1e-12
    """Standard deviation of a coordinate, relative to its mean, below which it is rounding error."""


SETTINGS = PaperSettings()

Centres = Callable[[Float, int], Float]


def kmeans(problem: PiecewiseLinear) -> Start:
    """Run one k-means iteration on (residual, y): random rows are centres, and every row joins the nearest."""
    return _by_distance(problem, lambda points, k: points[:k])


def birch(problem: PiecewiseLinear) -> Start:
    """Assign every row to the nearest BIRCH subcluster of (residual, y)."""
    from sklearn.cluster import Birch  # eighty modules that only this start needs

    def centres(points: Float, k: int) -> Float:
        some = points[: SETTINGS.birch_rows]
        # A coordinate without spread (a constant y) is not scaled, which would divide it by almost zero.
        middle, spread = some.mean(axis=0), some.std(axis=0)
        spread[spread <= SETTINGS.no_spread * np.abs(middle)] = 1.0
        # k balls of this radius cover the bulk of standardised points.
        tree = Birch(threshold=2.0 / np.sqrt(k), n_clusters=None, compute_labels=False)
        few = ((some - middle) / spread)[: SETTINGS.fewest_rows]
        if not _in_time(problem.run, lambda: tree.fit(few), len(some) / len(few)):
            return points[:k]  # there is no time for the tree: use random centres
        tree.fit((some - middle) / spread)
        return np.asarray(tree.subcluster_centers_) * spread + middle

    return _by_distance(problem, centres)


def _by_distance(problem: PiecewiseLinear, centres: Centres) -> Start:
    run, design, procedure = problem.run, problem.design, problem.procedure
    loss, rng = design.loss, procedure.generator()
    n, m = run.n_entries, run.n_attributes
    rate = loss.paper_rate(n, m) if procedure.initial_rate is None else procedure.initial_rate
    k = max(1, min(n, round(rate * n)))
    point = _sample_solution(problem, rng)
    if out_of_time(run):
        return problem.hurried_start(point)
    drawn = rng.choice(n, min(n, max(k, SETTINGS.birch_rows)), replace=False)
    order = np.argsort(drawn)
    in_order = drawn[order]
    positions: list[Float] = []
    sizes: dict[float, int] = {}

    def locate(chunk: Chunk, state: Any) -> tuple[Any, None]:
        """Return the positions of the drawn rows, and for each group one position and the number of rows."""
        position = loss.position(chunk.y, design.margins(chunk, point))
        first, last = np.searchsorted(in_order, [chunk.start, chunk.stop])
        _, rows, counts = np.unique(position[:, 0], return_index=True, return_counts=True)
        return (position[in_order[first:last] - chunk.start], position[rows], counts), None

    examples: dict[float, Float] = {}

    def collect(value: Any) -> None:
        positions.append(value[0])
        for example, count in zip(value[1], value[2].tolist(), strict=True):
            group = float(example[0])
            sizes[group] = sizes.get(group, 0) + count
            examples.setdefault(group, example[None, 1:])

    run.map(locate, collect=collect)
    shuffled = np.concatenate(positions)[np.argsort(order)]
    if out_of_time(run):  # finding every row's nearest centre takes longer than all of the above
        return problem.hurried_start(point)
    # Entries of different groups (classes) are never clustered together.
    trees: dict[float, tuple[cKDTree, int]] = {}
    total = 0
    for group in sorted(sizes):
        members = shuffled[shuffled[:, 0] == group, 1:]
        wanted = max(1, round(k * sizes[group] / n))
        found = centres(members if len(members) else examples[group], wanted)
        trees[group] = (cKDTree(found), total)
        total += len(found)

    few = shuffled[: SETTINGS.fewest_rows, 1:]
    if not _in_time(run, lambda: [tree.query(few) for tree, _ in trees.values()], n / len(few) / len(trees)):
        return problem.hurried_start(point)

    def assign(chunk: Chunk, state: Any) -> Assignment:
        position = loss.position(chunk.y, design.margins(chunk, point))
        labels = np.empty(chunk.n_entries, dtype=np.int32)
        for group, (tree, first) in trees.items():
            here = position[:, 0] == group
            labels[here] = first + tree.query(position[here, 1:])[1]
        return Assignment(labels)

    return Start(Clusters.build(problem, assign, total)[0])


def _in_time(run: Run, work: Callable[[], Any], times: float) -> bool:
    """Return whether ``times`` as much work would end before the deadline; without one, the work is not timed."""
    if math.isinf(run.deadline):
        return True
    began = time.monotonic()
    if began > run.deadline:
        return False
    work()
    now = time.monotonic()
    return now + times * (now - began) <= run.deadline


def _sample_solution(problem: PiecewiseLinear, rng: np.random.Generator) -> Float:
    """Return the solution on a small sample."""
    step = max(
        1, problem.run.n_entries // max(SETTINGS.rows_per_variable * problem.design.n_variables, SETTINGS.fewest_rows)
    )
    sample = problem.run.every(Systematic(step, int(rng.integers(step))))
    return np.asarray(solved(problem.design, sample, problem.run.deadline).point)
