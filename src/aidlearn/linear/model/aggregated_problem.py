"""The aggregated problem of a design, from the sums of clusters to its rows and to a solution of the model."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.engine.problem import Accuracy, Solution
from aidlearn.engine.sums import Sums
from aidlearn.linear.aggregated.hinge_rows import NO_INTERCEPT, HingeRows, power_of_two
from aidlearn.linear.aggregated.solvers import AggregatedSolver
from aidlearn.linear.model.design import Design
from aidlearn.linear.rows.hybrid import Hybrid, joined
from aidlearn.linear.rows.matrix import Dense, Matrix
from aidlearn.numerics import EXACT_FIT, Float

NEAR_BOUND = (1e-4, 1e-6, 1e-8)
"""Distances within which a coefficient moves to its bound, as changes of margins relative to a typical margin."""
NO_WORSE = 1e-12
"""Relative difference below which two values count as equal."""


def solve_aggregated(
    design: Design, sums: Sums, point: Float | None, accuracy: Accuracy, solver: AggregatedSolver, n_jobs: int = 1
) -> Solution:
    """Solve the aggregated problem of cluster sums around ``point``, which lies in the region (None: no point yet)."""
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
    """Return the solution, corrected by least squares if its loss is almost 0.

    An interior point is accurate to about ten units in the last place; users expect an exact fit to be exact.
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
    """Return the only point that satisfies the equations: any dual that fits its margins proves its value."""
    z, nothing = rows.margins(np.empty(0)), np.empty(0)
    dual = np.where(z > 0, rows.upper, rows.lower)
    dual[rows.n_soft :] = 0.0
    return Solution(point, rows.value(nothing) - rows.rounding, True, dual)


def _at_bounds(design: Design, rows: HingeRows, point: Float) -> Float:
    """Return the point with coefficients moved to nearby bounds, if that costs nothing.

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


def aggregated_rows(design: Design, sums: Sums, n_jobs: int = 1) -> HingeRows:
    """Return the aggregated problem: one row per cluster and kink, per slope with an l1 penalty, and per constraint."""
    total = sums.column(-1)
    used = total > 0
    weight = total[used]
    means = _means(design, sums, used)
    e = sums.column(-2)[used] / weight
    blocks = [
        (means, e - kink, design.loss.scale * jump * weight, np.full(len(weight), tilt))
        for kink, tilt, jump in design.loss.parts
    ]
    if design.l1 > 0:
        # l1 |w_j| = 2 l1 max(z / 2, -z / 2) at z = 0 - w_j
        m = design.n_attributes
        # Rows are in units of the slope's effect on margins, which makes them comparable with the others.
        size = np.array([power_of_two(math.sqrt(square / design.weight)) for square in design.column_squares[:m]])
        diagonal = sparse.csr_array((size, (np.arange(m), np.arange(m))), shape=(m, design.n_variables))
        blocks.append((_extra_rows(design, diagonal, sums), np.zeros(m), 2 * design.l1 / size, np.full(m, 0.5)))
    if design.region is not None:
        n_limits = len(design.region.h)
        limits = _extra_rows(design, design.region.G, sums)
        blocks.append((limits, design.region.h, np.full(n_limits, np.inf), np.zeros(n_limits)))
    A, *others = zip(*blocks, strict=True)
    e, s, c = map(np.concatenate, others)
    rows = HingeRows(
        joined(A), e, s, c, design.ridge_diagonal, n_jobs=n_jobs, linear=design.linear, constant=design.base
    )
    return rows if design.coordinates is None else design.coordinates.apply(rows)


def _means(design: Design, sums: Sums, used: NDArray[np.bool_]) -> Matrix:
    """Return the mean rows of the clusters with positive weight."""
    layout = design.layout
    if layout is None or sums.singles is None:
        means = sums.dense[used, :-2] / sums.dense[used, -1:]
        return Dense(_with_constants(means, design.ignored, design.levels))
    from aidlearn.linear.rows.compiled import split_columns

    alone = sums.alone
    groups = sums.dense[used[~alone]]
    groups = groups[:, :-2] / groups[:, -1:]
    groups[:, design.ignored] = 0.0
    weight = sums.column(-1)[alone]
    kept = used[alone]
    position = layout.position(sums.shape[1])
    inverse = np.divide(1.0, weight, out=np.zeros_like(weight), where=kept)
    q = len(layout.dense)
    cells, others = split_columns(sums.singles, inverse, position, q + 2, len(layout.sparse))
    if not kept.all():
        cells, others = cells[kept], others[np.flatnonzero(kept)]
    dense = np.empty((int(used.sum()), q))
    here = alone[used]
    dense[here], dense[~here] = cells[:, :q], groups[:, layout.dense]
    dense = _with_constants(dense, design.ignored[layout.dense], design.levels[layout.dense])
    return Hybrid.of_parts(dense, others, groups[:, layout.sparse], np.flatnonzero(~here), layout)


def _with_constants(means: Float, ignored: NDArray[np.bool_], levels: Float) -> Float:
    """Set ignored columns of the means to 0, and restore constant ones, which sums of many rows have rounded."""
    means[:, ignored] = 0.0
    told = np.flatnonzero(levels)
    if len(told):
        one = means[:, -1] if np.abs(means[:, -1]).max() > NO_INTERCEPT else np.zeros(len(means))
        means[:, told] = np.outer(one, levels[told])
    return means


def _extra_rows(design: Design, rows: sparse.csr_array, sums: Sums) -> Matrix:
    """Return rows of penalties or constraints (a CSR matrix), stored like those of the clusters."""
    layout = design.layout
    if layout is None or sums.singles is None:
        return Dense(rows.toarray())
    others = sparse.csr_array(rows[:, layout.sparse])
    others.sort_indices()
    return Hybrid.without_sums(rows[:, layout.dense].toarray(), others, layout)
