"""Several models of a fit whose time is over before the first: few passes for all of them together.

Quantiles are parallel planes. Any partition bounds every one of them (Jensen), so the groups around one plane serve
all: one pass for the groups and one for the objectives. The planes of classes have nothing in common but the rows:
one pass for their objectives, and no bound but the trivial one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.problem import Accuracy, Incumbent
from aidlearn.engine.result import Iteration, Result, Status, below, relative_gap
from aidlearn.estimators.fitting import Fitted
from aidlearn.linear.hurried import cheap_ones, levels
from aidlearn.linear.model.design import Design
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.numerics import Float
from aidlearn.trace import Profile


def hasty_quantiles(
    run: Run, problems: list[PiecewiseLinear], callbacks: list[Callable[[Iteration], Any]]
) -> list[Fitted]:
    """The plane of least squares at the level of each quantile, with what few groups prove of it."""
    began, designs = time.monotonic(), [problem.design for problem in problems]
    start = problems[0].hurried_start()
    assert start.incumbent is not None
    points = levels(run, designs, start.incumbent.point)
    objectives = _objectives(run, designs, points)
    fits = []
    for problem, point, objective in zip(problems, points, objectives, strict=True):
        incumbent = Incumbent(point, float(objective))
        solution = problem.solve_aggregated(start.clusters, incumbent, Accuracy(0.0, run.deadline))
        bound = max(below(solution.lower_bound, incumbent.objective, problem.objective_error(point)), 0.0)
        distances = problem.distances(start.clusters, point)
        result = _result(run, incumbent, bound, start.clusters.n_clusters, began, callbacks)
        fits.append(Fitted(result, Profile(start.clusters.counts, distances), []))
    return fits


def hasty_classes(run: Run, designs: list[Design], callbacks: list[Callable[[Iteration], Any]]) -> list[Fitted]:
    """The best plane of a few rows for each class against the rest."""
    began = time.monotonic()
    fits = []
    for design, incumbent in zip(designs, cheap_ones(run, designs), strict=True):
        # The trivial bound is that of the entries on either side as two clusters.
        result = _result(run, incumbent, design.trivial_bound, 2, began, callbacks)
        fits.append(Fitted(result, None, []))
    return fits


def _result(
    run: Run,
    incumbent: Incumbent,
    bound: float,
    n_clusters: int,
    began: float,
    callbacks: list[Callable[[Iteration], Any]],
) -> Result:
    """A fit of one iteration, that callbacks were told of."""
    # Clusters are not looked at for entries on both sides of a plane: all, unless the bound is met.
    record = Iteration(
        iteration=1,
        n_clusters=n_clusters,
        aggregation_rate=n_clusters / run.n_entries,
        lower_bound=bound,
        objective=incumbent.objective,
        best_objective=incumbent.objective,
        best_lower_bound=bound,
        gap=relative_gap(incumbent.objective, bound),
        n_violated=n_clusters if incumbent.objective > bound else 0,
        seconds=time.monotonic() - began,
    )
    answers = [callback(record) for callback in callbacks]
    if any(answers):
        run.stop()
    status = Status.gap if incumbent.objective == bound else Status.time_limit
    objective, rate = incumbent.objective, record.aggregation_rate
    return Result(incumbent.point, objective, bound, status, n_clusters, rate, run.n_passes, [record])


def _objectives(run: Run, designs: list[Design], points: list[Float]) -> Float:
    """Of planes that differ in their intercepts only, by one pass."""
    first, pairs = designs[0], list(zip(designs, points, strict=True))
    shifts = np.zeros(len(pairs))
    if first.fit_intercept:
        shifts[:] = [design.intercept(point) - first.intercept(points[0]) for design, point in pairs]
    total = np.array([design.penalty(point) for design, point in pairs])

    def measure(chunk: Chunk, state: Any) -> tuple[Float, None]:
        z = first.margins(chunk, points[0])
        return np.array([design.losses(chunk, z - shift) for design, shift in zip(designs, shifts, strict=True)]), None

    def collect(part: Float) -> None:
        total[:] += part

    run.map(measure, collect=collect)
    return total
