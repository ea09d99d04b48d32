"""The aggregated problem of a design: from the sums of clusters to a solution in the coordinates of the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aidlearn.engine.problem import Accuracy, Solution
from aidlearn.engine.sums import Sums
from aidlearn.linear.aggregated.hinge_rows import HingeRows
from aidlearn.linear.aggregated.solvers import AggregatedSolver
from aidlearn.linear.model.aggregated_rows import aggregated_rows
from aidlearn.linear.model.design import Design
from aidlearn.numerics import EXACT_FIT, Float

NEAR_BOUND = (1e-4, 1e-6, 1e-8)
"""What a coefficient near a bound moves margins by, over a typical margin."""
NO_WORSE = 1e-12
"""Relative difference of values that is none."""


def solve_aggregated(
    design: Design, sums: Sums, point: Float | None, accuracy: Accuracy, solver: AggregatedSolver, n_jobs: int = 1
) -> Solution:
    """Solve the aggregated problem of cluster sums, around a point of the region if there is one."""
    rows = replace(aggregated_rows(design, sums, n_jobs), least_pivot=design.least_pivot)
    coordinates = design.coordinates
    if coordinates is None:
        solution = solver(rows, point, design.fit_intercept, accuracy)
    elif not len(coordinates.ridge):
        return _only_point(rows, coordinates.origin)
    else:
        start = None if point is None else coordinates.to_coordinates(point)
        solution = coordinates.to_solution(solver(rows, start, coordinates.keeps_intercept, accuracy))
    if design.region is None:
        return _exactly(rows, solution)
    return replace(solution, point=_at_bounds(design, rows, design.region.inside(solution.point)))


def _exactly(rows: HingeRows, solution: Solution) -> Solution:
    """The same, or where next to nothing is left of the loss, the point with what least squares makes of the rest.

    An interior point is right to some ten units in the last place, and an exact fit is to be seen as one.
    """
    if rows.ridge.any() or rows.linear is not None:
        return solution
    value = rows.value(solution.point)
    if not 0 < value <= EXACT_FIT * float(rows.weight @ np.abs(rows.e)):
        return solution
    point, root = solution.point, np.sqrt(rows.weight / rows.weight.max())
    for _ in range(2):
        trial = point + rows.A.least_squares(root, rows.margins(point))
        point, value = min(((point, value), (trial, rows.value(trial))), key=lambda pair: pair[1])
    return solution if point is solution.point else replace(solution, point=point)


def _only_point(rows: HingeRows, point: Float) -> Solution:
    """The solution where equations leave one point: any dual that fits its margins proves its value."""
    z, nothing = rows.margins(np.empty(0)), np.empty(0)
    dual = np.where(z > 0, rows.upper, rows.lower)
    dual[rows.n_soft :] = 0.0
    return Solution(point, rows.value(nothing) - rows.rounding, True, dual)


def _at_bounds(design: Design, rows: HingeRows, point: Float) -> Float:
    """The same with coefficients exactly at bounds that they are close to, where that costs nothing.

    An interior point never quite reaches a bound.
    """
    region, coordinates = design.region, design.coordinates
    assert region is not None
    units = design.typical_margin / np.sqrt(np.where(design.constant, 1.0, design.column_squares / design.weight))

    def value(v: Float) -> float:
        return rows.value(v if coordinates is None else coordinates.to_coordinates(v))

    limit = value(point)
    limit += NO_WORSE * abs(limit)
    for near in NEAR_BOUND:
        low, high = point - region.lower <= near * units, region.upper - point <= near * units
        moved = np.where(low, region.lower, np.where(high, region.upper, point))
        free = ~(low | high)
        if len(region.f) and free.any():
            moved[free] += np.linalg.lstsq(region.E[:, free], region.f - region.E @ moved, rcond=None)[0]
        if region.contains(moved) and (region.slack(moved) >= 0).all() and value(moved) <= limit:
            return moved
    return point
