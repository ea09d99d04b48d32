"""Initial clusters around a sharpened point: rows near it alone, far rows in groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Incumbent, Start
from aidlearn.engine.result import StartStep
from aidlearn.engine.splits import Assignment
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import HEAVY, Metric
from aidlearn.linear.passes.choice import passes_of
from aidlearn.linear.passes.records import Grouping
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.plan import BINNED, Plan, Reached, View
from aidlearn.numerics import Float


class Sharpened(Protocol):
    """What is known of the rows where Newton steps have ended."""

    metric: Metric
    leverages: list[Any] | None
    viewed: Chunk
    steps: list[StartStep]

    @property
    def rare_class(self) -> float: ...

    def at(self, point: Float) -> View: ...

    def note(self, n_rows: int, objective: float) -> None: ...


def draw(problem: PiecewiseLinear, sharp: Sharpened, found: Reached) -> Start:
    """Label all rows at a point as planned; the objective there comes with the same pass."""
    design, loss, n_regions = problem.design, problem.design.loss, problem.n_regions
    point, n = found.point, problem.run.n_entries
    view = sharp.at(point)
    plan = Plan.of(problem, sharp.metric, view, found)
    if plan.all_rows:
        return replace(all_single(problem, point, found.objective), steps=sharp.steps, plan=plan.record())
    far = view.nearness[view.nearness > plan.near]
    grouping = Grouping(
        near=plan.near,
        bins=plan.n_bins / max(float(np.quantile(far, BINNED)) if len(far) else 1.0, 1e-300),
        n_bins=plan.n_bins,
        cuts=problem.regions.cuts,
        n_groups=plan.n_groups,
        carries=HEAVY,
        rare_class=sharp.rare_class,
        sides=_sides(design, sharp, plan.n_planes),
        by_column=plan.by_column(design),
    )
    passes, metric = passes_of(problem.run), sharp.metric

    def assign(chunk: Chunk, leverage: Any) -> Assignment:
        if leverage is None:
            leverage = passes.leverages(design, chunk, metric)
        found = passes.groups(design, chunk, point, leverage, grouping)
        return Assignment(found.labels, found.alone, found.objective, found.counts, found.sums)

    kinds = np.tile(np.arange(n_regions, dtype=np.int16), 2 if loss.classifies else 1)
    homes = np.concatenate([np.repeat(kinds, plan.n_bins * 2**plan.n_planes), np.repeat(kinds, plan.n_column_groups)])
    clusters, objective = Clusters.build(problem, assign, grouping.n_groups, homes, sharp.leverages)
    objective += design.penalty(point)
    sharp.note(n, objective)
    # Where leverages differ, some coefficient is seldom known as well as the others.
    last = plan.settled and metric.constant is not None
    return Start(clusters, Incumbent(point, objective), sharp.steps, plan.record(), last)


def all_single(problem: PiecewiseLinear, point: Float, objective: float | None = None) -> Start:
    """Every row its own cluster, and a point close to the optimum; a pass more where its objective is not known."""
    design = problem.design
    if objective is None:
        total: list[float] = []
        problem.run.map(
            lambda chunk, state: (design.objective_at(chunk, point, design.margins(chunk, point)), None),
            collect=total.append,
        )
        objective = sum(total) + design.penalty(point)
    return Start(Clusters.alone(problem), Incumbent(point, objective))


def _sides(design: Design, sharp: Sharpened, number: int) -> Float | None:
    """Planes through the middle of the rows, in directions drawn for the metric."""
    if number == 0:
        return None
    directions = sharp.metric.directions(design, number)[: design.n_attributes]
    middle = np.median(np.asarray(sharp.viewed.X @ directions, dtype=np.float64), axis=0)
    return np.column_stack([directions.T, -middle])
