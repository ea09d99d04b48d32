"""Bounds and linear constraints on the variables of a linear model (the paper's form (1) allows them).

Only the aggregated problems and their certificates involve constraints; entries do not. A region is made once, before
the fit: this names constraints that contradict each other, turns those without room into equations, and finds a point
with room in all the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

from aidlearn.engine.problem import Solution
from aidlearn.linear.aggregated.hinge_rows import HingeRows
from aidlearn.linear.rows.matrix import Dense
from aidlearn.numerics import EPS, Float

ROUNDS = 12
"""Rounds of scaling rows and columns by the roots of their largest numbers, before a linear program is solved."""
RANK = 1e-11
"""Relative pivot up to which an equation follows from others."""
BOUND_COST = 1000.0
"""Cost of violating a bound, relative to that of another constraint, when an error has to name one."""
MET = 1e-9
"""Violation, relative to the numbers of a constraint, up to which the constraint counts as met."""


class Infeasible(ValueError):
    """No point meets all constraints; the message names those that contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import Bounds, LinearConstraint
    >>> from aidlearn import Infeasible, LADRegressor
    >>> model = LADRegressor(bounds=Bounds(0, 1), constraints=LinearConstraint([1, 1], 3, np.inf))
    >>> try:
    ...     model.fit(np.eye(2), [1.0, 2.0])
    ... except Infeasible as error:
    ...     print("no such coefficients")
    no such coefficients
    """


@dataclass(frozen=True)
class Region:
    """The region of points v with ``G v >= h`` and ``E v = f``."""

    G: Any
    """CSR matrix of the inequalities; those of bounds come first."""
    h: Float
    E: Float
    """Matrix of the equations, whose rows are independent."""
    f: Float
    lower: Float
    upper: Float
    """Upper bounds, which points meet exactly like the lower ones."""
    centre: Float
    """Point that meets the equations and has room in all inequalities."""

    @classmethod
    def of(
        cls,
        lower: Float,
        upper: Float,
        A: Any,
        low: Float,
        high: Float,
        name: Callable[[int], str] = lambda row: f"constraint {row}",
    ) -> Region:
        """Return the region of points with ``lower <= v <= upper`` and ``low <= A v <= high``.

        ``name`` names a row in errors; the bounds come first, then the rows of A.
        """
        p = len(lower)
        everything = sparse.csr_array(sparse.vstack([sparse.eye_array(p), sparse.csr_array(A)], format="csr"))
        least, most = np.append(lower, low), np.append(upper, high)
        empty = np.flatnonzero((least > most) | np.isnan(least) | np.isnan(most))
        if len(empty):
            k = int(empty[0])
            raise Infeasible(f"{name(k)} has no values between {least[k]:g} and {most[k]:g}.")
        equal = least == most
        floors = np.flatnonzero(np.isfinite(least) & ~equal)
        ceilings = np.flatnonzero(np.isfinite(most) & ~equal)
        rows = np.concatenate([floors, ceilings])
        G = sparse.csr_array(sparse.vstack([everything[floors], -everything[ceilings]], format="csr"))
        h = np.concatenate([least[floors], -most[ceilings]])
        fixed = np.flatnonzero(equal)
        E, f = everything[fixed].toarray(), least[fixed]
        if (rows >= p).any() or (fixed >= p).any():
            found = _inside(G, h, E, f, lambda k: name(int(np.append(rows, fixed)[k])))
            centre, tight = found.point, found.tight
            E, f = np.concatenate([E, G[np.flatnonzero(tight)].toarray()]), np.append(f, h[tight])
            G, h = G[np.flatnonzero(~tight)], h[~tight]
        else:
            centre = _middle(lower, upper)
        E, f = _independent(E, f)
        if len(f):
            centre = centre - linalg.lstsq(E, E @ centre - f)[0]
        return cls(G, h, E, f, lower, upper, np.clip(centre, lower, upper))

    def slack(self, point: Float) -> Float:
        return np.asarray(self.G @ point - self.h)

    def violation(self, point: Float) -> float:
        """Return the largest violation of a constraint by a point, relative to the size of the constraint's numbers."""
        size = abs(self.G) @ np.abs(point) + np.abs(self.h)
        missed = np.maximum(-self.slack(point), 0.0) / np.where(size > 0, size, 1.0)
        worst = float(missed.max(initial=0.0))
        if len(self.f):
            size = np.abs(self.E) @ np.abs(point) + np.abs(self.f)
            worst = max(worst, float((np.abs(self.E @ point - self.f) / np.where(size > 0, size, 1.0)).max()))
        return worst

    def contains(self, point: Float) -> bool:
        return self.violation(point) <= MET

    def inside(self, point: Float) -> Float:
        """Return the nearest point on the equations, moved towards the centre until it meets the inequalities."""
        if len(self.f):
            point = point - linalg.lstsq(self.E, self.E @ point - self.f, check_finite=False)[0]
        slack = self.slack(point)
        missed = slack < 0
        if missed.any():
            room = self.slack(self.centre)[missed]
            part = float((-slack[missed] / (room - slack[missed])).max())
            point = point + min(part, 1.0) * (self.centre - point)
        return np.clip(point, self.lower, self.upper)

    def in_units(self, factors: Float) -> Region:
        """Return this region for variables u with ``v = factors * u``."""
        G = sparse.csr_array(self.G.multiply(factors[None, :]))
        ends = self.lower / factors, self.upper / factors, self.centre / factors
        return Region(G, self.h, self.E * factors, self.f, *ends)

    def moved(self, shift: Float) -> Region:
        """Return this region for variables u with ``v = u + shift``."""
        ends = self.lower - shift, self.upper - shift, self.centre - shift
        return Region(self.G, self.h - self.G @ shift, self.E, self.f - self.E @ shift, *ends)


@dataclass(frozen=True)
class _Inside:
    point: Float
    tight: NDArray[np.bool_]
    """Mask of the inequalities that no point meets with room."""


def _inside(G: Any, h: Float, E: Float, f: Float, name: Callable[[int], str]) -> _Inside:
    """Find a point with room in every inequality that allows any, by one linear program.

    It maximises the sum of t plus min(r, 1) in the cone ``G v >= h r + t, E v = f r, 0 <= t <= 1, r >= 0``. The
    maximiser has t_j = 1 wherever any point has room, because it can be scaled up (Freund, Roundy and Todd).
    """
    k, p = G.shape
    system = sparse.csr_array(sparse.vstack([sparse.hstack([G, -h[:, None]]), np.column_stack([E, -f])], format="csr"))
    scaled, columns = _equilibrated(system)
    n_equal = len(f)
    room = sparse.vstack([-sparse.eye_array(k), sparse.csr_array((n_equal, k))])
    cone = sparse.csr_array(sparse.hstack([scaled, room], format="csr"))
    # The length r counts up to 1, like the room of an inequality: r >= t_r.
    length = np.zeros((1, p + 2 + k))
    length[0, p], length[0, -1] = 1.0, -1.0
    cone = sparse.csr_array(sparse.vstack([sparse.hstack([cone, sparse.csr_array((k + n_equal, 1))]), length]))
    cost = np.concatenate([np.zeros(p + 1), -np.ones(k + 1)])
    limits = np.concatenate([np.zeros(k), np.zeros(n_equal), [0.0]])
    upper = np.concatenate([np.full(k, np.inf), np.zeros(n_equal), [np.inf]])
    variables = optimize.Bounds(
        np.concatenate([np.full(p, -np.inf), np.zeros(k + 2)]),
        np.concatenate([np.full(p + 1, np.inf), np.ones(k + 1)]),
    )
    answer = optimize.milp(cost, constraints=optimize.LinearConstraint(cone, limits, upper), bounds=variables)
    if answer.x is None or answer.x[-1] < 0.5:
        raise Infeasible(_contradiction(system, n_equal, name))
    v = answer.x[: p + 1] * columns
    return _Inside(v[:p] / v[p], answer.x[p + 1 : p + 1 + k] < 0.5)


def _contradiction(system: Any, n_equal: int, name: Callable[[int], str]) -> str:
    """Return the sentence that names contradictory constraints: those violated at the least sum of violations."""
    K, p = system.shape[0], system.shape[1] - 1
    sizes = np.maximum(abs(system).max(axis=1).toarray().ravel(), 1e-300)
    rows = sparse.csr_array(sparse.diags_array(1 / sizes) @ system)
    G, h = sparse.csr_array(rows[:, :p]), -rows[:, [p]].toarray().ravel()
    equal = np.arange(K) >= K - n_equal
    matrix = sparse.hstack([G, sparse.eye_array(K), -sparse.diags_array(equal.astype(float))], format="csr")
    limits = optimize.LinearConstraint(matrix, h, np.where(equal, h, np.inf))
    bounds = optimize.Bounds(np.append(np.full(p, -np.inf), np.zeros(2 * K)), np.full(p + 2 * K, np.inf))
    # Bounds are seldom wrong: name another constraint if there is one.
    dear = np.where(np.diff(G.indptr) == 1, BOUND_COST, 1.0)
    cost = np.concatenate([np.zeros(p), dear, dear])
    answer = optimize.milp(cost, constraints=limits, bounds=bounds)
    named: list[str] = []
    if answer.x is not None:
        missed = answer.x[p : p + K] + answer.x[p + K :]
        named = [name(int(row)) for row in np.flatnonzero(missed > 1e-7)[:3]]
    which = " and ".join(dict.fromkeys(named)) or "they"
    return f"No coefficients meet all bounds and constraints: {which} cannot be met together with the others."


def _equilibrated(matrix: Any) -> tuple[Any, Float]:
    """Return the matrix scaled to rows and columns of about the same size, and the factors of its columns.

    A row with a single number, such as a bound, fits any factor of its column, so it does not determine one.
    """
    scaled, columns = matrix, np.ones(matrix.shape[1])
    several = sparse.diags_array(((abs(matrix) > 0).sum(axis=1) > 1).astype(float))
    for _ in range(ROUNDS):
        absolute = abs(scaled)
        rows = _roots(absolute.max(axis=1).toarray().ravel())
        factors = _roots((several @ absolute).max(axis=0).toarray().ravel())
        scaled = sparse.diags_array(rows) @ scaled @ sparse.diags_array(factors)
        columns = columns * factors
    return scaled, columns


def _roots(sizes: Float) -> Float:
    return np.asarray(1 / np.sqrt(np.where(sizes > 0, sizes, 1.0)))


def _middle(lower: Float, upper: Float) -> Float:
    """Return a point between bounds: their midpoint, or one step of ordinary size from a single bound."""
    both = np.isfinite(lower) & np.isfinite(upper)
    middle = np.where(both, (np.where(both, lower, 0.0) + np.where(both, upper, 0.0)) / 2, 0.0)
    above = np.isfinite(lower) & ~both
    below = np.isfinite(upper) & ~both
    middle[above] = np.maximum(lower[above] + np.maximum(np.abs(lower[above]), 1.0), 0.0)
    middle[below] = np.minimum(upper[below] - np.maximum(np.abs(upper[below]), 1.0), 0.0)
    return middle


def _independent(E: Float, f: Float) -> tuple[Float, Float]:
    """Return the equations without those that follow from others; contradictions were ruled out before."""
    if not len(f):
        return E, f
    sizes = np.abs(E).max(axis=1)
    E, f, sizes = E[sizes > 0], f[sizes > 0], sizes[sizes > 0]
    E, f = E / sizes[:, None], f / sizes
    _, triangle, order = linalg.qr(E.T, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    kept = np.sort(order[: int((pivots > RANK * pivots[0]).sum())]) if len(pivots) else order[:0]
    return E[kept], f[kept]


NO_CURVATURE = 1e-13
"""Curvature, relative to the largest one, up to which it is rounding error."""
ROUNDING = 32 * EPS
"""Rounding error of a product with T, relative to the sizes of a row and of the variables."""


@dataclass(frozen=True)
class Coordinates:
    """The coordinates y of points ``v = origin + T y``, in which P is diagonal and the equations hold."""

    origin: Float
    T: Float
    inverse: Float
    """Inverse of T on differences of points that meet the equations."""
    ridge: Float
    """Diagonal of T'PT."""
    linear: Float | None
    constant: float
    keeps_intercept: bool
    """Whether the last coordinate is the intercept alone."""
    units: Float
    """Sizes of the variables in T, without a separate intercept: T is known to the rounding of these sizes."""

    @classmethod
    def of(
        cls, quadratic: Float, linear: Float | None, region: Region | None, units: Float, has_intercept: bool
    ) -> Coordinates:
        """Return coordinates for a full matrix P, a linear term q and a region with equations.

        ``units`` are the sizes of the variables, so that small ones keep their digits.
        """
        p = len(units)
        m = p - has_intercept
        E, f = (np.zeros((0, p)), np.zeros(0)) if region is None else (region.E, region.f)
        # The smallest point that meets the equations: terms of a large one would cancel.
        origin = units * linalg.lstsq(E * units, f)[0] if len(f) else np.zeros(p)
        apart = has_intercept and not E[:, m:].any()
        n_rotated = m if apart else p
        Z = null_space(E[:, :n_rotated] * units[:n_rotated])
        T = Z * units[:n_rotated, None]
        curvatures, turned = np.linalg.eigh(T.T @ quadratic[:n_rotated, :n_rotated] @ T)
        curvatures[curvatures <= NO_CURVATURE * max(float(curvatures.max(initial=0.0)), 1e-300)] = 0.0
        if curvatures.any():
            T, Z = T @ turned, Z @ turned
        inverse = (Z / units[:n_rotated, None]).T
        if apart:
            T, inverse, curvatures = (
                linalg.block_diag(T, 1.0),
                linalg.block_diag(inverse, 1.0),
                np.append(curvatures, 0),
            )
        force = quadratic @ origin
        pull = force if linear is None else force + linear
        constant = 0.5 * float(origin @ force)
        constant += 0.0 if linear is None else float(linear @ origin)
        size = float(np.abs(origin) @ np.abs(quadratic) @ np.abs(origin))
        size += 0.0 if linear is None else float(np.abs(linear) @ np.abs(origin))
        constant -= ROUNDING * size  # a bound is not lifted by what has cancelled
        q = T.T @ pull if pull.any() else None
        return cls(origin, T, inverse, curvatures, q, constant, apart, units[:n_rotated])

    def apply(self, rows: HingeRows) -> HingeRows:
        """Return the rows in terms of y, with P, q and the constant of these coordinates."""
        assert isinstance(rows.A, Dense)
        A = rows.A.array @ self.T
        # A column that is 0 up to the rounding of T must not be taken for a column of small numbers.
        noise = ROUNDING * (np.abs(rows.A.array[:, : len(self.units)]) @ self.units)
        turned = A[:, : A.shape[1] - self.keeps_intercept]
        turned[np.abs(turned) <= noise[:, None]] = 0.0
        return replace(
            rows,
            A=Dense(A),
            e=rows.margins(self.origin),
            ridge=self.ridge,
            linear=self.linear,
            constant=rows.constant + self.constant,
        )

    def to_coordinates(self, point: Float) -> Float:
        return np.asarray(self.inverse @ (point - self.origin))

    def to_solution(self, solution: Solution) -> Solution:
        return replace(solution, point=self.origin + self.T @ solution.point)


def null_space(E: Float) -> Float:
    """Return an orthonormal basis of the null space of E."""
    n = E.shape[1]
    if not len(E):
        return np.eye(n)
    return np.asarray(linalg.qr(E.T)[0][:, len(E) :])
