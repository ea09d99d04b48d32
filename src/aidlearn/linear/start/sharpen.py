"""The default initial clustering: rows near a sharpened hyperplane stay single, others are grouped by distance."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Incumbent, Start
from aidlearn.engine.sums import Assignment
from aidlearn.linear.hurried import HURRY, evaluated, few_rows, out_of_time
from aidlearn.linear.model.leverage import HEAVY
from aidlearn.linear.passes import passes_of
from aidlearn.linear.passes.records import Grouping
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start import plan
from aidlearn.linear.start.plan import Plan, Reached
from aidlearn.linear.start.samples import Samples, largest_sample
from aidlearn.linear.start.sharpening import Sharpening
from aidlearn.numerics import Float


class Band:
    """Takes Newton steps from a cheap point or a given one, then draws clusters around the point that they reach.

    One object serves several problems on the same rows (quantiles, classes), for which it keeps samples and leverages.

    Parameters
    ----------
    point : array, optional
        Coefficients of an earlier fit (see :meth:`begin_at`).
    """

    def __init__(self, point: Float | None = None) -> None:
        self._given = point
        self._samples: Samples | None = None
        self._point: Float | None = None
        self._once = False

    def begin_at(self, point: Float | None) -> None:
        """Start the next problem at a point (None: a cheap one), unless steps on samples find a better one."""
        self._given = point

    def continue_from(self, point: Float) -> None:
        """Warm-start the Newton steps of the next problems on samples at the solution of a similar problem."""
        self._point = point

    def serve_once(self) -> None:
        """Free the samples as soon as the next problem, which is the only one, no longer needs them."""
        self._once = True

    @property
    def samples(self) -> Samples | None:
        """Samples and leverages of the last problem, for other problems on the same rows."""
        return self._samples

    @staticmethod
    def plan_sample(run: Run, n_variables: int, random: Callable[[], np.random.Generator]) -> None:
        """Choose the sample in advance, so that the next pass can collect it."""
        if time.monotonic() + HURRY > run.deadline:
            run.plan_sample(few_rows(run, n_variables))
        elif not few_entries(run.n_entries, n_variables):
            run.plan_sample(largest_sample(run, n_variables, random()))

    def __call__(self, problem: PiecewiseLinear) -> Start:
        run, layout = problem.run, problem.design.layout
        given, self._given = self._given, None
        if layout and layout.levels:
            return Start(Clusters.alone(problem))
        if few_entries(run.n_entries, problem.design.n_variables):
            return Start(Clusters.alone(problem)) if given is None else all_single(problem, given)
        sharp = self.sharpening(problem)
        point = sharp.on_samples(self._point if given is None else given)
        if self._once:
            self._samples = None
            sharp.samples.free(run)
        if out_of_time(run):
            return problem.hurried_start(point)
        if given is not None and _is_better(problem, given, point):
            found = sharp.at_optimum(given)
        else:
            found = sharp.on_all_entries(point)
        return problem.hurried_start(found.point) if out_of_time(run) else draw(problem, sharp, found)

    def sharpening(self, problem: PiecewiseLinear) -> Sharpening:
        """Return the Newton steps of a problem on the samples of this start."""
        if self._samples is None:
            self._samples = Samples(problem.run, problem.design, problem.procedure.generator())
        return Sharpening(self._samples, problem.run, problem.design)


def few_entries(n: int, p: int) -> bool:
    """Return whether every row stays single, because rows are few or nearly all in doubt: aggregation cannot pay."""
    return n <= max(plan.SETTINGS.free, plan.SETTINGS.near_of_all * math.sqrt(p * n))


def all_single(problem: PiecewiseLinear, point: Float, objective: float | None = None) -> Start:
    """Return a start with single rows only, at a point near the optimum; an unknown objective takes another pass."""
    if objective is None:
        return Start(Clusters.alone(problem), evaluated(problem.run, [problem.design], [point])[0])
    return Start(Clusters.alone(problem), Incumbent(point, objective))


def _is_better(problem: PiecewiseLinear, one: Float, other: Float) -> bool:
    """Return whether a point is at least as good as another on all rows, which takes one pass."""
    first, second = evaluated(problem.run, [problem.design] * 2, [one, other])
    return first.objective <= second.objective


def draw(problem: PiecewiseLinear, sharp: Sharpening, found: Reached) -> Start:
    """Label all rows at a point as planned; the same pass computes the objective there."""
    design, point, metric = problem.design, found.point, sharp.samples.metric
    view = sharp.at(point)
    planned = Plan.of(problem, view, found)
    if planned.all_rows:
        return replace(all_single(problem, point, found.objective), steps=sharp.steps, plan=planned.record())
    grouping = Grouping(
        near=planned.near,
        bins=planned.bins_per_distance(view),
        n_bins=planned.n_bins,
        cuts=problem.regions.cuts,
        n_groups=planned.n_groups,
        carries=HEAVY,
        sides=_sides(sharp, planned.n_planes),
        by_column=planned.by_column(design),
    )
    passes = passes_of(problem.run)

    def assign(chunk: Chunk, leverage: Any) -> Assignment:
        if leverage is None:
            leverage = passes.leverages(design, chunk, metric)
        groups = passes.groups(design, chunk, point, leverage, grouping)
        return Assignment(groups.labels, groups.alone, groups.objective, groups.counts, groups.sums)

    kinds = np.tile(np.arange(problem.n_regions, dtype=np.int16), 2 if design.loss.classifies else 1)
    by_bin, by_column = planned.n_bins * 2**planned.n_planes, planned.n_column_groups
    homes = np.concatenate([np.repeat(kinds, by_bin), np.repeat(kinds, by_column)])
    clusters, objective = Clusters.build(problem, assign, grouping.n_groups, homes, sharp.samples.leverages)
    objective += design.penalty(point)
    sharp.note(problem.run.n_entries, objective)
    # If leverages differ, one of the coefficients is usually known less well than the others.
    last = planned.settled and metric.constant is not None
    return Start(clusters, Incumbent(point, objective), sharp.steps, planned.record(), last)


def _sides(sharp: Sharpening, number: int) -> Float | None:
    """Return planes through the median of the rows, with normals drawn in the metric."""
    if number == 0:
        return None
    directions = sharp.samples.metric.directions(sharp.design, number)[: sharp.design.n_attributes]
    middle = np.median(np.asarray(sharp.samples.viewed.X @ directions, dtype=np.float64), axis=0)
    return np.column_stack([directions.T, -middle])
