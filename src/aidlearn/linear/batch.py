"""Many neighbouring problems on the same rows for the price of a few passes.

Around a solution, rows far from every kink keep their side in all neighbouring problems (other weights, close
quantiles or penalties). The near rows and the sums of the far ones by side are a small *reduced* problem for each
member. Its optimum is a lower bound for the member on all rows (Jensen: a group is the weighted mean of its rows, with
the member's own weights), and one pass ``X @ V`` evaluates all members on all rows: their gaps are proven.

Members whose gap stays open are tried again with more near rows, and what is then left is fitted in full.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.arrays import ArraySource
from aidlearn.data.chunk import Chunk, Float, Int, join
from aidlearn.data.moments import inspect
from aidlearn.data.resampling import UNCHANGED, Unchanged, Weights
from aidlearn.data.run import Run
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.loop import Limits, aid
from aidlearn.engine.problem import Incumbent, Start
from aidlearn.engine.result import Result, relative_gap
from aidlearn.engine.splits import Assignment
from aidlearn.linear import plain
from aidlearn.linear.band import few_entries, largest_sample, singletons
from aidlearn.linear.design import Design
from aidlearn.linear.losses import Loss
from aidlearn.linear.newton import (
    HEAVY,
    Damping,
    Metric,
    Model,
    NormalEquations,
    bounded_step,
    local_model,
    quantile_width,
    thinning,
)
from aidlearn.linear.passes import CARRIES, Split, passes_of
from aidlearn.linear.problem import PiecewiseLinear, Procedure, StartMethod
from aidlearn.linear.solvers import solve_by_interior_point
from aidlearn.trace import MOST_CLUSTERS, Profile

NEAR = 3.0
"""Near rows in sqrt(p/n) of all: at the median so many standard deviations of a fitted value lie within."""
WIDER = 3.0
"""Factor on the near rows in the second attempt."""
MOST_NEAR = 0.5
"""Near rows beyond this part of all save nothing."""
MEMBERS_AT_ONCE = 256
"""Members that share passes: their weights of near rows are kept side by side."""
EVALUATED = 1 << 17
"""Margins (rows times points) that fit into a cache."""
ALL_SINGLE = 5e6
"""Rows times squared columns of a reduced problem that is cheaper solved at once than by aggregation."""
MOST_STEPS, SHORT = 6, 0.05
"""Newton steps on a reduced problem, and their length, in the distance of near rows, that ends them."""
GRAM_ROWS = 20_000
"""Of a sample whose Gram matrix measures leverages."""


@dataclass(frozen=True)
class Member:
    """One problem of a batch: its loss, and which of the batch's weights its rows have."""

    loss: Loss
    replicate: int = 0
    after: int | None = None
    """An earlier member of the batch that is closer to this one than the point of the batch is."""


@dataclass(frozen=True)
class Solved:
    """A solution of a member and what is proven of it."""

    point: Float
    objective: float
    """On all rows."""
    lower_bound: float
    profile: Profile | None = None
    """Clusters of the aggregated problem that proves the bound, where it is not that of a fit."""
    n_clusters: int = 0

    @property
    def gap(self) -> float:
        return relative_gap(self.objective, self.lower_bound)

    @classmethod
    def of(cls, result: Result) -> Solved:
        return cls(result.point, result.objective, result.lower_bound)


Refit = Callable[[Member, Float], Solved]
"""A fit of a member on all rows, from a point close to it."""


@dataclass(frozen=True)
class Batch:
    """Neighbours of a solution.

    ``design`` and ``point`` are those of a model that was fitted to the rows of ``run`` with their own weights.
    """

    run: Run
    design: Design
    point: Float
    members: Sequence[Member]
    weights: Weights = UNCHANGED
    tol: float = 1e-5
    near: float | None = None
    """Part of the rows that stay single; by default :data:`NEAR` times sqrt(p/n)."""
    given_metric: Metric | None = None
    """That of an earlier batch on the same rows, which saves measuring it again."""

    @cached_property
    def metric(self) -> Metric:
        """Leverages of the rows."""
        return _metric(self.run, self.design) if self.given_metric is None else self.given_metric

    def solve(self, refit: Refit) -> list[Solved]:
        """Solve all members to the tolerance."""
        p = self.design.n_variables
        near = NEAR * math.sqrt(p / self.design.effective) if self.near is None else self.near
        metric = self.metric
        solved: dict[int, Solved] = {}
        left = list(range(len(self.members)))
        for fraction in (near, WIDER * near):
            whole = few_entries(self.run.n_entries, p) or fraction > MOST_NEAR
            for first in range(0, len(left), MEMBERS_AT_ONCE):
                numbers = left[first : first + MEMBERS_AT_ONCE]
                reduced = _reduce(self, numbers, metric, math.inf if whole else fraction)
                points: list[Solved] = []
                for k, number in enumerate(numbers):
                    after = self.members[number].after
                    nearest = points[numbers.index(after)] if after in numbers[:k] else None
                    points.append(reduced.solve(k, solved.get(number, nearest)))
                for number, found in zip(numbers, _evaluated(self, numbers, points), strict=True):
                    solved[number] = _better(solved.get(number), found)
            left = [number for number in left if solved[number].gap > self.tol]
            if whole or not left:
                break
        for number in left:
            solved[number] = _better(solved[number], refit(self.members[number], solved[number].point))
        return [solved[number] for number in range(len(self.members))]


def _better(one: Solved | None, two: Solved) -> Solved:
    """The better point with the better bound."""
    if one is None:
        return two
    best = one if one.objective <= two.objective else two
    return replace(best, lower_bound=max(one.lower_bound, two.lower_bound))


def _view(run: Run) -> Chunk:
    """All rows of a small source."""
    return join([run.source.chunk(k) for k in range(run.source.n_chunks)])


def _metric(run: Run, design: Design) -> Metric:
    """Leverages of the rows, as in the start of a fit."""
    p = design.n_variables
    sample = run.sample(lambda: largest_sample(run, p, np.random.default_rng(0)))
    few = sample.select(slice(None, None, max(1, sample.n_entries // GRAM_ROWS))).weighing(design.weight)
    equations = NormalEquations.of(design, few, run.n_jobs)
    shown = equations.shows_all_columns(design)
    if not shown:
        equations = NormalEquations.of_all(design, run)
    metric = Metric.of(design, equations.gram, run.n_jobs)
    return metric.settled(design, few) if shown else metric


def _near_distance(batch: Batch, metric: Metric, fraction: float) -> float:
    """Distance (in leverages) within which a fraction of the rows lies."""
    if math.isinf(fraction):
        return math.inf
    run, design = batch.run, batch.design
    sample = run.sample(lambda: largest_sample(run, design.n_variables, np.random.default_rng(0)))
    z = design.margins(sample, batch.point)
    leverage = np.broadcast_to(np.asarray(metric.leverage(design, sample), dtype=np.float64), z.shape)
    return quantile_width(design, z, leverage, fraction)


@dataclass
class _Reduced:
    """The near rows of all members, and for each its weights of them and its groups."""

    batch: Batch
    numbers: Sequence[int]
    near: Chunk
    weights: Float
    """Of the near rows, one row for each member."""
    sums: Float
    """Of the groups: members x groups x (sum of s x, sum of s y, sum of s)."""
    labels: Float
    """Class of each group, where targets are classes."""
    metric: Metric
    distance: float
    """Within which rows are near, in leverages."""
    counts: Int
    """Rows in the groups."""

    def solve(self, k: int, before: Solved | None) -> Solved:
        """The reduced problem of the k-th member, with its penalty for an objective: that of the rows comes later."""
        batch, member = self.batch, self.batch.members[self.numbers[k]]
        weight = self.sums[k, :, -1]
        total = np.where(weight > 0, weight, 1.0)
        means = self.sums[k, :, :-2] / total[:, None]
        y = self.labels if member.loss.classifies else self.sums[k, :, -2] / total
        if sparse.issparse(self.near.X):
            X: Any = sparse.vstack([self.near.X, sparse.csr_array(means)], format="csr")
        else:
            X = np.concatenate([self.near.X, means])
        source = ArraySource(X, np.append(self.near.y, y), np.append(self.weights[k], weight), n_jobs=batch.run.n_jobs)
        run = Run(source, compiled=False)
        base = batch.design
        moments = inspect(run, base.fit_intercept)
        l1 = base.l1 / base.weight * moments.weight  # penalties are in units of the sum of weights
        design = Design.of(
            member.loss, moments, fit_intercept=base.fit_intercept, ridge=base.ridge, l1=l1, offset=base.offset
        )
        point = batch.point if before is None else before.point
        start: StartMethod
        if run.n_entries * design.n_variables**2 <= ALL_SINGLE:
            start = partial(all_single, point=point)
        else:
            start = partial(_sharpened, point=point, metric=self.metric, reach=self.distance)
        # To the accuracy that is asked for: verified optima of many small problems would take longer than all else.
        procedure = Procedure(partial(solve_by_interior_point, small=0), start, rng=np.random.default_rng(0))
        result = aid(PiecewiseLinear(run, design, procedure), Limits(batch.tol / 4, 100, None), [])
        n_near = self.near.n_entries
        return Solved(
            result.point,
            design.penalty(result.point),
            result.lower_bound,
            self._profile(source, design, result.point),
            n_near + len(self.counts),
        )

    def _profile(self, source: ArraySource, design: Design, point: Float) -> Profile:
        """The groups, and near rows in regular distances."""
        n_near = self.near.n_entries
        step = -(-n_near // (MOST_CLUSTERS - len(self.counts)))
        near = range(0, n_near, max(1, step))
        shown = np.array([*near, *range(n_near, n_near + len(self.counts))])
        z = design.margins(Chunk(0, len(shown), source.X[shown], source.y[shown], source.weight[shown]), point)
        sizes = np.append(np.ones(len(near), dtype=np.int64), self.counts)
        return Profile(sizes, design.loss.distance(z))


def all_single(problem: PiecewiseLinear, point: Float) -> Start:
    """Every row of a small problem its own cluster, from a point close to the optimum."""
    design = problem.design
    total: list[float] = []
    problem.run.map(
        lambda chunk, state: (design.objective_at(chunk, point, design.margins(chunk, point)), None),
        collect=total.append,
    )
    return replace(singletons(problem), incumbent=Incumbent(point, sum(total) + design.penalty(point)))


def _sharpened(problem: PiecewiseLinear, point: Float, metric: Metric, reach: float) -> Start:
    """Newton steps on the reduced rows from a point close to the optimum, then clusters around where they end.

    The metric is that of all rows: the groups, each heavier than all near rows, would spoil one of their own.
    """
    design, run = problem.design, problem.run
    view = _view(run)
    leverage = np.broadcast_to(np.asarray(metric.leverage(design, view), dtype=np.float64), view.n_entries)
    damping = Damping(size=1e-4)

    def model_at(where: Float, kappa: float) -> Model:
        sums = plain.model(design, view, where, leverage, kappa)
        model = local_model(design, view, sums, leverage, thinning(len(sums.near), design.n_variables))
        model.objective += design.penalty(where)
        return model

    # The first width is that of all near rows; each step leaves about a quarter of it to go.
    if math.isinf(reach):
        reach = float(np.median(design.loss.distance(design.margins(view, point)) / leverage))
    kappa = length = reach
    model = model_at(point, kappa)
    for _ in range(MOST_STEPS):
        step, length = bounded_step(design, point, model, kappa, damping, metric)
        trial = point + design.step(step)
        narrower = max(kappa / 4, min(kappa, length / 2))
        there = model_at(trial, narrower)
        if there.objective > model.objective:
            damping.more()
            kappa /= 2
            model = model_at(point, kappa)
            continue
        damping.less()
        point, model, kappa = trial, there, narrower
        if length <= SHORT * reach:
            break
    n, p = view.n_entries, design.n_variables
    z = design.margins(view, point)
    least, most = ((5 * p + 50) / n, 0.3)
    near = max(2 * length, quantile_width(design, z, leverage, least))
    near = min(near, quantile_width(design, z, leverage, most))
    return _clusters(problem, point, model.objective, leverage, near)


def _clusters(problem: PiecewiseLinear, point: Float, objective: float, leverage: Float, near: float) -> Start:
    """Rows within a distance alone, the others by region (and class)."""
    design = problem.design
    n_groups = problem.n_regions * (2 if design.loss.classifies else 1)
    split = Split(near, 0.0, 1, problem.cuts, n_groups, CARRIES)

    def assign(chunk: Chunk, state: Any) -> Assignment:
        found = plain.groups(design, chunk, point, leverage[chunk.start : chunk.stop], split)
        return Assignment(found.labels, found.alone, found.objective, found.counts, found.sums)

    homes = np.tile(np.arange(problem.n_regions, dtype=np.int16), 2 if design.loss.classifies else 1)
    clusters, true = Clusters.build(problem, assign, n_groups, homes)
    return Start(clusters, Incumbent(point, true + design.penalty(point)))


def _reduce(batch: Batch, numbers: Sequence[int], metric: Metric, fraction: float) -> _Reduced:
    """One pass: near rows, and the sums of the far ones by side (and class) with each member's own weights."""
    run, design, point, weights = batch.run, batch.design, batch.point, batch.weights
    loss, p = design.loss, design.n_attributes
    distance = _near_distance(batch, metric, fraction)
    n_regions = len(loss.kinks) + 1
    n_groups = n_regions * (2 if loss.classifies else 1)
    split = Split(distance, 0.0, 1, np.array(loss.kinks), n_groups, CARRIES if design.layout is None else HEAVY)
    passes, compiled = passes_of(run), run.compiled
    replicates = sorted({batch.members[number].replicate for number in numbers})
    everything = math.isinf(distance)
    as_given = isinstance(weights, Unchanged) and not loss.classifies  # then the pass has summed them already

    def measure(chunk: Chunk, state: Any) -> tuple[tuple[Chunk, Float, Float, Int], None]:
        factors = weights(chunk.start, chunk.stop, replicates)
        factors *= chunk.weight
        sums = np.zeros((len(replicates), n_groups, p + 2))
        if everything:
            return (chunk.select(slice(None)), factors, sums, np.zeros(n_groups, dtype=np.int64)), None
        leverage = metric.leverage(design, chunk, compiled)
        found = passes.groups(design, chunk, point, leverage, split)
        if as_given:
            sums[0, :, :p], sums[0, :, p:] = found.sums[:, :p], found.sums[:, -2:]
            return (chunk.select(found.alone), factors[:, found.alone], sums, found.counts), None
        far = found.labels.copy()
        far[found.alone] = -1
        for group in range(n_groups):
            rows = np.flatnonzero(far == group)
            if len(rows):
                sums[:, group] = _sums(chunk, rows, factors[:, rows])
        return (chunk.select(found.alone), factors[:, found.alone], sums, found.counts), None

    near: list[Chunk] = []
    parts: list[Float] = []
    total = np.zeros((len(replicates), n_groups, p + 2))
    counts = np.zeros(n_groups, dtype=np.int64)

    def collect(value: tuple[Chunk, Float, Float, Int]) -> None:
        near.append(value[0])
        parts.append(value[1])
        total[:] += value[2]
        counts[:] += value[3][:n_groups]

    run.map(measure, collect=collect)
    of = [replicates.index(batch.members[number].replicate) for number in numbers]
    positive = getattr(loss, "positive", 1.0)
    labels = np.repeat([positive - 1.0, positive], n_regions) if loss.classifies else np.zeros(n_groups)
    own = np.concatenate(parts, axis=1)[of]
    return _Reduced(batch, numbers, join(near), own, total[of], labels, metric, distance, counts)


def _sums(chunk: Chunk, rows: NDArray[np.intp], weight: Float) -> Float:
    """``sum s x, sum s y, sum s`` of some rows for several weights."""
    X = chunk.X[rows]
    if sparse.issparse(X):
        slopes = np.asarray((X.T @ weight.T).T)
    else:
        slopes = weight @ np.ascontiguousarray(X, dtype=np.float64)
    return np.column_stack([slopes, weight @ chunk.y[rows], weight.sum(axis=1)])


def _evaluated(batch: Batch, numbers: Sequence[int], found: Sequence[Solved]) -> list[Solved]:
    """The same points with their objectives on all rows, by one pass for all of them."""
    design, weights = batch.design, batch.weights
    members = [batch.members[number] for number in numbers]
    replicates = sorted({member.replicate for member in members})
    of = np.array([replicates.index(member.replicate) for member in members])
    losses = list(dict.fromkeys(member.loss for member in members))
    having = [np.array([k for k, member in enumerate(members) if member.loss == loss]) for loss in losses]
    # A slice where members and replicates are in the same order: picking rows would copy them.
    same = np.arange(len(replicates))
    owns: list[Any] = [slice(None) if np.array_equal(of[which], same) else of[which] for which in having]
    V = np.array([solved.point for solved in found])
    slopes = np.ascontiguousarray(V[:, : design.n_attributes].T)
    levels = np.array([design.intercept(point) for point in V]) if design.fit_intercept else np.zeros(len(V))
    total, at_once = np.zeros(len(V)), max(256, EVALUATED // len(V))

    def measure(chunk: Chunk, state: Any) -> tuple[Float, None]:
        factors = weights(chunk.start, chunk.stop, replicates)
        factors *= chunk.weight
        objectives = np.zeros(len(V))
        for first in range(0, chunk.n_entries, at_once):
            rows = slice(first, min(first + at_once, chunk.n_entries))
            scores = np.asarray(chunk.X[rows] @ slopes, dtype=np.float64).T + levels[:, None]
            for loss, which, own in zip(losses, having, owns, strict=True):
                sign, e = loss.fold(chunk.y[rows])
                some = scores if len(which) == len(V) else scores[which]
                z = e - (some if sign is None else sign * some)
                objectives[which] += np.einsum("ri,ri->r", factors[own, rows], loss.values(z))
        return objectives, None

    def collect(part: Float) -> None:
        total[:] += part

    batch.run.map(measure, collect=collect)
    return [
        replace(solved, objective=solved.objective + float(value)) for solved, value in zip(found, total, strict=True)
    ]
