"""Initial clusters around a sharpened point: rows near it alone, far rows in groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Incumbent, Start
from aidlearn.engine.sums import Assignment
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import HEAVY
from aidlearn.linear.passes import passes_of
from aidlearn.linear.passes.records import Grouping
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.plan import Plan, Reached
from aidlearn.linear.start.sharpening import Sharpening
from aidlearn.numerics import Float


def draw(problem: PiecewiseLinear, sharp: Sharpening, found: Reached) -> Start:
    """Label all rows at a point as planned; the same pass computes the objective there."""
    design, loss, n_regions = problem.design, problem.design.loss, problem.n_regions
    point, n = found.point, problem.run.n_entries
    view, metric = sharp.at(point), sharp.samples.metric
    plan = Plan.of(problem, view, found)
    if plan.all_rows:
        return replace(all_single(problem, point, found.objective), steps=sharp.steps, plan=plan.record())
    grouping = Grouping(
        near=plan.near,
        bins=plan.bins_per_distance(view),
        n_bins=plan.n_bins,
        cuts=problem.regions.cuts,
        n_groups=plan.n_groups,
        carries=HEAVY,
        rare_class=sharp.rare_class,
        sides=_sides(design, sharp, plan.n_planes),
        by_column=plan.by_column(design),
    )
    passes = passes_of(problem.run)

    def assign(chunk: Chunk, leverage: Any) -> Assignment:
        if leverage is None:
            leverage = passes.leverages(design, chunk, metric)
        found = passes.groups(design, chunk, point, leverage, grouping)
        return Assignment(found.labels, found.alone, found.objective, found.counts, found.sums)

    kinds = np.tile(np.arange(n_regions, dtype=np.int16), 2 if loss.classifies else 1)
    homes = np.concatenate([np.repeat(kinds, plan.n_bins * 2**plan.n_planes), np.repeat(kinds, plan.n_column_groups)])
    clusters, objective = Clusters.build(problem, assign, grouping.n_groups, homes, sharp.samples.leverages)
    objective += design.penalty(point)
    sharp.note(n, objective)
    # Where leverages differ, some coefficient is seldom known as well as the others.
    last = plan.settled and metric.constant is not None
    return Start(clusters, Incumbent(point, objective), sharp.steps, plan.record(), last)


def all_single(problem: PiecewiseLinear, point: Float, objective: float | None = None) -> Start:
    """Every row its own cluster, and a point close to the optimum; another pass if its objective is not known."""
    design = problem.design
    if objective is None:
        total: list[float] = []
        problem.run.map(
            lambda chunk, state: (design.objective_at(chunk, point, design.margins(chunk, point)), None),
            collect=total.append,
        )
        objective = sum(total) + design.penalty(point)
    return Start(Clusters.alone(problem), Incumbent(point, objective))


def _sides(design: Design, sharp: Sharpening, number: int) -> Float | None:
    """Planes through the middle of the rows, in directions drawn for the metric."""
    if number == 0:
        return None
    directions = sharp.samples.metric.directions(design, number)[: design.n_attributes]
    middle = np.median(np.asarray(sharp.samples.viewed.X @ directions, dtype=np.float64), axis=0)
    return np.column_stack([directions.T, -middle])
