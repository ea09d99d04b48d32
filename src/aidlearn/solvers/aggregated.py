"""Solvers of the aggregated problem by name: our interior point and adapters (paper, section 4)."""

from __future__ import annotations

import math
import time

import numpy as np
from scipy import linalg, optimize

from aidlearn.data.source import Float
from aidlearn.engine.problem import Accuracy, Solution
from aidlearn.solvers import interior_point
from aidlearn.solvers.adapters import solve_by_liblinear, solve_by_libsvm
from aidlearn.solvers.certificate import certify
from aidlearn.solvers.rows import Basis, HingeRows

SMALL = 500
"""Up to this many rows the verified optimum costs next to nothing."""


MOST_ROWS_FOR_HIGHS = 20_000


def solve_by_interior_point(rows: HingeRows, point: Float | None, has_intercept: bool, accuracy: Accuracy) -> Solution:
    """Solve around ``point`` in scaled coordinates."""
    basis, scaled = _scaled(rows, point, has_intercept)
    start = np.zeros(len(basis.scale)) if point is None else basis.to_coordinates(point)
    relative = 0.0 if len(rows.e) <= SMALL else accuracy.relative
    found = interior_point.solve(scaled, start, relative, accuracy.deadline)
    if found.gap > 1e-3 * abs(found.value) and not rows.ridge.any() and len(rows.e) <= MOST_ROWS_FOR_HIGHS:
        # Nearly collinear columns: a simplex method keeps digits that normal equations lose.
        other = solve_by_highs(rows, point, has_intercept, accuracy)
        if other.lower_bound > found.certificate.bound:
            return other
    return Solution(basis.to_point(found.w), found.certificate.bound, found.verified, found.certificate.dual)


def solve_by_highs(rows: HingeRows, point: Float | None, has_intercept: bool, accuracy: Accuracy) -> Solution:
    """Solve the dual linear program with HiGHS; the bound is the value of its repaired dual."""
    if rows.ridge.any():
        raise ValueError("solver='highs' solves linear programs only; use solver='auto' for this model.")
    basis, scaled = _scaled(rows, point, has_intercept)
    left = max(accuracy.deadline - time.monotonic(), 0.01)
    used = np.abs(scaled.A).max(axis=0) > 0
    answer = optimize.linprog(
        -scaled.e,
        A_eq=scaled.A[:, used].T,
        b_eq=np.zeros(int(used.sum())),
        bounds=np.column_stack([scaled.lower, scaled.upper]),
        method="highs",
        options={"time_limit": left} if math.isfinite(left) else {},
    )
    if answer.x is None or answer.eqlin is None or len(answer.eqlin.marginals) == 0:
        return Solution(basis.to_point(np.zeros(len(used))), 0.0)
    w = np.zeros(len(used))
    w[used] = -answer.eqlin.marginals
    certificate = certify(scaled, answer.x, w)
    value = scaled.value(w)
    verified = value - certificate.bound <= interior_point.VERIFIED * abs(value)
    return Solution(basis.to_point(w), certificate.bound, verified, certificate.dual)


def _scaled(rows: HingeRows, point: Float | None, has_intercept: bool) -> tuple[Basis, HingeRows]:
    """Coordinates around the point; without one, around the weighted least squares solution."""
    if point is None and rows.free.all():
        root = np.sqrt(rows.weight / rows.weight.max())[:, None]
        size = np.abs(rows.A).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        least = linalg.lstsq(rows.A / size * root, rows.e * root[:, 0], cond=1e-11, lapack_driver="gelsy")
        point = least[0] / size
    basis = Basis.of(rows, point, has_intercept)
    return basis, basis.apply(rows)


SOLVERS = {
    "auto": solve_by_interior_point,
    "interior-point": solve_by_interior_point,
    "highs": solve_by_highs,
    "libsvm": solve_by_libsvm,
    "liblinear": solve_by_liblinear,
}
