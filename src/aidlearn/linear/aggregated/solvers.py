"""Solvers of the aggregated problem by name: our interior point and adapters (paper, section 4)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from aidlearn.engine.problem import Accuracy, Solution
from aidlearn.linear.aggregated import interior_point
from aidlearn.linear.aggregated.adapters import solve_by_liblinear, solve_by_libsvm
from aidlearn.linear.aggregated.certificate import Certificate, certify, trivial
from aidlearn.linear.aggregated.hinge_rows import Basis, HingeRows, NearlyCollinear
from aidlearn.numerics import Float

AggregatedSolver = Callable[[HingeRows, Float | None, bool, Accuracy], Solution]


@dataclass(frozen=True)
class SolverSettings:
    """Settings that decide how an aggregated problem is solved."""

    small: int = 500
    """Number of rows up to which a verified optimum costs next to nothing.
    Ablation (small=0): mean work 0.994, worst table 1.00."""
    grace: float = 0.05
    """Seconds granted after the deadline to a problem of at most ``small`` rows, for a useful bound."""
    hurried: float = 1e-3
    """Relative gap requested after the deadline, and above which HiGHS gives a second opinion."""
    most_rows_for_highs: int = 20_000
    """Guess. Maximum number of rows for a second opinion by HiGHS."""
    seconds_of_highs: float = 5.0
    """Time limit of a second opinion in seconds: on some nearly collinear columns HiGHS takes hours."""
    largest_cost: float = 2.0**20
    """Size, in typical margins, at which costs are clipped. HiGHS compares costs with 1e-7 and has ended the process at
    1e12; the side of a row this far from its kink is known."""


SETTINGS = SolverSettings()


def solve_by_interior_point(
    rows: HingeRows, point: Float | None, has_intercept: bool, accuracy: Accuracy, small: int | None = None
) -> Solution:
    """Solve around ``point`` in scaled coordinates; at most ``small`` rows are solved to a verified optimum."""
    small = SETTINGS.small if small is None else small
    basis, scaled = _scaled(rows, point, has_intercept)
    start = np.zeros(len(basis.scale)) if point is None else basis.to_coordinates(point)
    relative, deadline = accuracy.relative, accuracy.deadline
    if time.monotonic() > deadline:
        relative, deadline = (
            max(relative, SETTINGS.hurried),
            deadline if len(rows.e) > small else time.monotonic() + SETTINGS.grace,
        )
    elif len(rows.e) <= small:
        relative = 0.0
    found = interior_point.solve(scaled, start, relative, deadline, duals=accuracy.duals)
    unproven = found.gap > max(SETTINGS.hurried * abs(found.value), scaled.rounding)
    tractable = not rows.ridge.any() and len(rows.e) <= SETTINGS.most_rows_for_highs
    if unproven and tractable and time.monotonic() < accuracy.deadline:
        # With nearly collinear columns a simplex method keeps digits that normal equations lose.
        other = solve_by_highs(rows, point, has_intercept, accuracy, SETTINGS.seconds_of_highs)
        if other.lower_bound > found.certificate.bound:
            return other
    solution = _solution(basis, _without_dust(scaled, found), found.certificate, found.verified)
    return replace(solution, n_steps=found.n_steps)


def solve_by_highs(
    rows: HingeRows, point: Float | None, has_intercept: bool, accuracy: Accuracy, most_seconds: float = math.inf
) -> Solution:
    """Solve the dual linear program with HiGHS; the bound is the value of its repaired dual."""
    if rows.ridge.any():
        raise ValueError("solver='highs' solves linear programs only; use solver='auto' for this model.")
    basis, scaled = _scaled(rows, point, has_intercept)
    left = min(max(accuracy.deadline - time.monotonic(), 0.01), most_seconds)
    used = scaled.A.maxima() > 0
    if not used.any():  # all columns are 0, so every row has its loss
        nothing = np.zeros(len(used))
        certificate = certify(scaled, np.where(scaled.e > 0, scaled.upper, scaled.lower), nothing)
        return _solution(basis, nothing, certificate, True)
    answer = optimize.linprog(
        -np.clip(scaled.e, -SETTINGS.largest_cost, SETTINGS.largest_cost),
        A_eq=scaled.A.transposed(used),
        b_eq=np.zeros(int(used.sum())) if scaled.linear is None else scaled.linear[used],
        bounds=np.column_stack([scaled.lower, scaled.upper]),
        method="highs",
        options={"time_limit": left} if math.isfinite(left) else {},
    )
    if answer.x is None or answer.eqlin is None or len(answer.eqlin.marginals) == 0:
        return _solution(basis, np.zeros(len(used)), trivial(scaled), False)
    w = np.zeros(len(used))
    w[used] = -answer.eqlin.marginals
    certificate = certify(scaled, answer.x, w)
    value = scaled.value(w)
    verified = value - certificate.bound <= interior_point.SETTINGS.verified * abs(value)
    return _solution(basis, w, certificate, verified)


def _or_interior_point(
    borrowed: Callable[[HingeRows, Float | None, bool, Accuracy], Solution | None],
) -> AggregatedSolver:
    """Return a solver that solves by interior point where the borrowed one gives up."""

    def solve(rows: HingeRows, point: Float | None, has_intercept: bool, accuracy: Accuracy) -> Solution:
        found = borrowed(rows, point, has_intercept, accuracy)
        return solve_by_interior_point(rows, point, has_intercept, accuracy) if found is None else found

    return solve


def _without_dust(rows: HingeRows, found: interior_point.AggregatedSolution) -> Float:
    """Return the solution, without slopes if that is no worse: an interior point never quite reaches 0."""
    level = np.where(rows.free, found.w, 0.0)
    if rows.free.all() or rows.value(level) > found.value or rows.violation(level) > 0:
        return found.w
    return level


def _solution(basis: Basis, w: Float, certificate: Certificate, verified: bool) -> Solution:
    """Convert a solution in the coordinates and units of a basis to those of the problem."""
    bound = certificate.bound * basis.unit * basis.mass
    return Solution(basis.to_point(w), bound, verified, basis.to_dual(certificate.dual))


def _scaled(rows: HingeRows, point: Float | None, has_intercept: bool) -> tuple[Basis, HingeRows]:
    """Return coordinates around the point (by default the weighted least squares solution), and the rows in them."""
    if point is None and rows.free.all():
        A, weight = rows.A.part(0, rows.n_soft), rows.weight[: rows.n_soft]
        point = A.least_squares(np.sqrt(weight / weight.max()), rows.e[: rows.n_soft])
    basis = Basis.of(rows, point, has_intercept)
    if basis.weakest < rows.least_pivot:
        raise NearlyCollinear(f"{basis.weakest:.1e}")
    return basis, basis.apply(rows)


SOLVERS = {
    "auto": solve_by_interior_point,
    "interior-point": solve_by_interior_point,
    "highs": solve_by_highs,
    "libsvm": _or_interior_point(solve_by_libsvm),
    "liblinear": _or_interior_point(solve_by_liblinear),
}
