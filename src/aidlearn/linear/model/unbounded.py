"""Unbounded problems, as opposed to bounded ones whose aggregated problem is unbounded.

A linear term may outweigh the losses of few clusters: the aggregated objective is below the original one, and may be
unbounded although that is not. Far along a direction d the slope of an objective is

    q'd + l1 |d|_1 + sum_i s_i loss'(-a_i'd)     (P d = 0, constraints kept)

where loss' has the same hinges with all kinks at 0. A linear program finds the steepest d of the aggregated problem,
and one pass computes its slope for all entries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import optimize, sparse

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.sums import Sums
from aidlearn.linear.aggregated.hinge_rows import Basis, HingeRows
from aidlearn.linear.model.aggregated_problem import aggregated_rows
from aidlearn.linear.model.design import Design
from aidlearn.numerics import Float

FALLS = 1e-9
"""Descent along a direction, relative to the sizes of its terms, above which it is not a rounding error."""
FAR = 1e3
"""Length of a direction, in typical margins, beyond which entries no longer change sides."""


class Unbounded(ValueError):
    """The objective of a problem has no smallest value.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import PiecewiseLinearModel, Unbounded
    >>> model = PiecewiseLinearModel(linear=[-100.0], fit_intercept=False)
    >>> try:
    ...     model.fit(np.ones((3, 1)), [1.0, 2.0, 3.0])
    ... except Unbounded as error:
    ...     print("falls without end")
    falls without end
    """


def far_point(design: Design, run: Run, sums: Sums, point: Float | None) -> Float | None:
    """Return a point far along a direction in which the aggregated problem is unbounded; None if there is none.

    Raises
    ------
    Unbounded
        If the objective on all entries is unbounded, too.
    """
    rows, coordinates = aggregated_rows(design, sums, run.n_jobs), design.coordinates
    keeps = design.fit_intercept if coordinates is None else coordinates.keeps_intercept
    basis = Basis.of(rows, None, keeps)
    w = _steepest(basis.apply(rows))
    if w is None:
        return None
    direction = basis.to_point(w) - basis.origin
    start = np.zeros(design.n_variables) if point is None else point
    if coordinates is not None:
        direction, start = coordinates.T @ direction, coordinates.origin if point is None else point
    slope, size = _slope(design, run, direction)
    if slope < -FALLS * size:
        raise Unbounded(
            "The problem is unbounded: its linear term pulls further than losses, penalties and constraints hold, most "
            f"of all at {_most_pulled(design, direction)}. Add bounds or constraints, or check the sign of the term."
        )
    return design.inside(start + FAR * direction)


def _most_pulled(design: Design, direction: Float) -> str:
    """Return the name of the variable whose part of the linear term falls most along a direction."""
    assert design.linear is not None
    falls = design.linear * direction
    largest = int(np.argmin(falls))
    return "the intercept" if largest == design.n_attributes else f"the coefficient of column {largest}"


def _steepest(rows: HingeRows) -> Float | None:
    """Return the direction of at most unit length along which the objective eventually falls most, if it falls."""
    n, p = rows.n_soft, len(rows.ridge)
    assert rows.linear is not None
    A = sparse.csr_array(rows.A.transposed(np.ones(p, dtype=bool)).T)
    # t >= upper z and t >= lower z at z = -A d
    soft, own = A[:n], sparse.eye_array(n)
    sides = [sparse.hstack([sparse.diags_array(slope[:n]) @ soft, own]) for slope in (rows.upper, rows.lower)]
    limits = sparse.hstack([A[n:], sparse.csr_array((len(rows.e) - n, n))])
    matrix = sparse.csr_array(sparse.vstack([*sides, limits], format="csr"))
    longest = np.where(rows.free, 1.0, 0.0)
    bounds = optimize.Bounds(np.append(-longest, np.full(n, -np.inf)), np.append(longest, np.full(n, np.inf)))
    cost = np.append(rows.linear, np.ones(n))
    answer = optimize.milp(cost, constraints=optimize.LinearConstraint(matrix, 0.0, np.inf), bounds=bounds)
    if answer.x is None or answer.fun >= -FALLS * float(np.abs(cost) @ np.abs(answer.x)):
        return None
    return np.asarray(answer.x[:p])


def _slope(design: Design, run: Run, direction: Float) -> tuple[float, float]:
    """Return the slope of the objective on all entries far along a direction, and the size of its terms."""
    m, slopes = design.n_attributes, direction[: design.n_attributes]
    loss = replace(design.loss, kinks=(0.0,) * len(design.loss.kinks))
    level = float(direction[-1]) if design.fit_intercept else 0.0
    parts = [design.l1 * float(np.abs(slopes).sum())]
    if design.linear is not None:
        parts += [float(design.linear[:m] @ slopes), float(design.linear[m:].sum()) * level]

    def measure(chunk: Chunk, state: Any) -> tuple[float, None]:
        z = -(chunk @ slopes + level)
        sign, _ = loss.fold(chunk.y)
        return float(chunk.weight @ loss.values(z if sign is None else z * sign)), None

    run.map(measure, collect=parts.append)
    return sum(parts), sum(map(abs, parts))
