"""The convex problem at a node of the branch and bound (paper, section 3.3): an SVM with intervals for its scores.

    minimise over v, b   1/2 |v|^2 + sum_k s_k (max(0, lower_k - z_k) + max(0, z_k - upper_k)),     z = A v + b

A row labelled + has lower = 1, one labelled - has upper = -1, and a row without bounds costs nothing. All nodes share
their rows; only the bounds change. The dual is

    maximise over p   lower'p^+ - upper'p^- - 1/2 |A'p|^2    subject to    -s <= p <= s,   sum p = 0  (b free)

and the value of any feasible p is a proven lower bound. DAQP (a dual active-set method) solves a node in about 0.1 ms;
if it is not installed, the interior-point method of this package replaces it.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aidlearn.linear.aggregated import interior_point
from aidlearn.linear.aggregated.certificate import balance
from aidlearn.linear.aggregated.hinge_rows import EPS, Basis, HingeRows
from aidlearn.numerics import Float

NEVER = 1e30
"""DAQP's notation for a missing bound."""
SOFT = 8
"""DAQP's flag of a constraint that may be violated at a price."""


@dataclass(frozen=True)
class NodeSettings:
    """Accuracies and limits of the solution of a node."""

    proximal: float = 1e-6
    """Guess. Curvature of the free intercept around its last value, which DAQP needs."""
    attempts: int = 4
    """Guess. Maximum solves of one node by DAQP: around the last intercept, or from scratch after a failure."""
    active_set_rows: int = 1000
    """Number of rows beyond which the interior-point method is faster than DAQP."""
    wanted_gap: float = 1e-8
    """Guess. Relative gap at which a node is not solved by DAQP again."""
    poor_gap: float = 1e-6
    """Guess. Relative gap of a node above which the interior-point method follows DAQP."""
    interior_point_gap: float = 1e-9
    """Guess. Relative gap of the interior-point method."""
    softness: float = 1e6
    """rho of DAQP's price, times the weight: a larger value costs DAQP digits, a smaller one overstates losses."""
    roundings: float = 4.0
    """Roundings of each term of a bound."""


SETTINGS = NodeSettings()


@dataclass(frozen=True)
class NodeRows:
    """Rows of all nodes; ``intercept`` is the value of a fixed b, or None if b is free."""

    A: Float
    weight: Float
    intercept: float | None = None

    def scores(self, v: Float, b: float) -> Float:
        """Return the scores of all rows."""
        return self.A @ v + b

    def losses(self, z: Float, lower: Float, upper: Float) -> Float:
        """Return the weighted losses of scores outside their bounds."""
        return self.weight * (np.maximum(0.0, lower - z) + np.maximum(0.0, z - upper))


@dataclass(frozen=True)
class NodeSolution:
    """A minimiser (up to the accuracy of the solver), its scores and value, and a proven bound."""

    v: Float
    b: float
    z: Float
    value: float
    bound: float


class NodeSolver(ABC):
    """Solver of nodes that share their rows."""

    def __init__(self, rows: NodeRows) -> None:
        self.rows = rows

    @abstractmethod
    def solve(self, lower: Float, upper: Float) -> NodeSolution:
        """Solve the node with these bounds on the scores."""

    def _solution(self, v: Float, b: float, dual: Float, lower: Float, upper: Float) -> NodeSolution:
        z = self.rows.scores(v, b)
        value = 0.5 * float(v @ v) + float(self.rows.losses(z, lower, upper).sum())
        return NodeSolution(v, b, z, value, proven(self.rows, dual, lower, upper, b))


def _better(one: NodeSolution, two: NodeSolution) -> NodeSolution:
    """Combine the better primal point with the better bound."""
    primal = one if one.value <= two.value else two
    return replace(primal, bound=max(one.bound, two.bound))


def proven(rows: NodeRows, dual: Float, lower: Float, upper: Float, b: float) -> float:
    """Make a dual feasible and return its value, rounded down, or 0 if that fails (losses are not negative)."""
    p = np.clip(dual, np.where(upper < np.inf, -rows.weight, 0.0), np.where(lower > -np.inf, rows.weight, 0.0))
    if rows.intercept is None:
        p = balance(np.ones(len(p)), p)
    used = p != 0
    if not used.any():
        return 0.0
    p, A = p[used], rows.A[used]
    target = np.where(p > 0, lower[used], upper[used]) - (rows.intercept or 0.0)
    force = p @ A
    linear, quadratic = float(target @ p), float(force @ force)
    if linear <= 0.0:
        return 0.0
    if linear < quadratic:
        # Shrinking towards p = 0 keeps p feasible; linear / quadratic is the best factor.
        shrink = linear / quadratic
        linear, quadratic, p, force = linear * shrink, quadratic * shrink**2, p * shrink, force * shrink
    # Rounding of the sum over targets, of the remaining sum of p (at the size of b), and of the forces.
    size = float(np.abs(p) @ (np.abs(target) + abs(b))) + float(np.abs(force) @ (np.abs(p) @ np.abs(A)))
    return linear - 0.5 * quadratic - SETTINGS.roundings * EPS * size


class ActiveSet(NodeSolver):
    """DAQP on the primal, with the bounds as soft constraints; each node starts from the last working set."""

    def __init__(self, rows: NodeRows) -> None:
        super().__init__(rows)
        n, d = rows.A.shape
        self.free = rows.intercept is None
        # The intercept is in units of a typical row, so that its proximal term is relative.
        self.unit = float(np.sqrt((rows.A**2).sum() / max(1, n))) or 1.0
        self.columns = np.hstack([rows.A, np.full((n, 1), self.unit)]) if self.free else rows.A.copy()
        self.hessian = np.eye(d + self.free)
        if self.free:
            self.hessian[-1, -1] = SETTINGS.proximal
        self.linear = np.zeros(d + self.free)
        self.model: Any = None
        self.works = True

    def solve(self, lower: Float, upper: Float) -> NodeSolution:
        fixed = self.rows.intercept or 0.0
        below, above = np.maximum(lower - fixed, -NEVER), np.minimum(upper - fixed, NEVER)
        best: NodeSolution | None = None
        for _ in range(SETTINGS.attempts if self.works else 0):
            fresh = self.model is None
            answer = self._ask(below, above)
            if answer is None:
                self.model, self.linear = None, np.zeros_like(self.linear)
                self.works = not fresh  # a failure from scratch will repeat
                if fresh:
                    break
                continue
            x, dual = answer
            v, b = (x[:-1], self.unit * x[-1]) if self.free else (x, fixed)
            found = self._solution(v.copy(), float(b), dual, lower, upper)
            best = found if best is None else _better(best, found)
            if not self.free or best.value - best.bound <= SETTINGS.wanted_gap * best.value:
                break
            # The proximal term has moved the solution: solve again around the intercept found.
            self.linear[-1] = -SETTINGS.proximal * x[-1]
        if best is None or best.value - best.bound > SETTINGS.poor_gap * best.value:
            other = InteriorPoint(self.rows).solve(lower, upper)
            return other if best is None else _better(best, other)
        return best

    def _ask(self, below: Float, above: Float) -> tuple[Float, Float] | None:
        """Return DAQP's primal and dual solution, or None if it reports a failure."""
        if self.model is None:
            import daqp

            n, weight = len(self.rows.weight), self.rows.weight
            model = daqp.Model()
            kinds = np.full(n, SOFT, dtype=np.int32)
            flag, _ = model.setup(self.hessian, self.linear, self.columns, above, below, kinds)
            if flag < 0:
                return None
            # A violation x of a bound costs weight * x + x^2 / (2 rho).
            rho = SETTINGS.softness / weight
            model.soft_weights(rho_l=rho, rho_u=rho, w_l=weight, w_u=weight)
            self.model = model
        else:
            self.model.update(f=self.linear, bupper=above, blower=below)
        x, _, flag, info = self.model.solve()
        return (x, -np.asarray(info["lam"])) if flag > 0 and np.isfinite(x).all() else None


class InteriorPoint(NodeSolver):
    """The interior-point method of the convex models, without a warm start."""

    def solve(self, lower: Float, upper: Float) -> NodeSolution:
        below, above = np.flatnonzero(lower > -np.inf), np.flatnonzero(upper < np.inf)
        A, s, free = self.rows.A, self.rows.weight, self.rows.intercept is None
        if len(below) + len(above) == 0:
            return self._solution(np.zeros(A.shape[1]), self.rows.intercept or 0.0, np.zeros(len(s)), lower, upper)
        signs = np.concatenate([np.ones(len(below)), -np.ones(len(above))])
        which = np.concatenate([below, above])
        e = np.concatenate([lower[below], -upper[above]]) - signs * (self.rows.intercept or 0.0)
        columns = signs[:, None] * (np.hstack([A[which], np.ones((len(which), 1))]) if free else A[which])
        ridge = np.ones(columns.shape[1])
        if free:
            ridge[-1] = 0.0
        given = HingeRows.of_array(columns, e, s[which], np.zeros(len(which)), ridge)
        basis = Basis.of(given, None, free)
        solved = interior_point.solve(basis.apply(given), np.zeros(columns.shape[1]), SETTINGS.interior_point_gap)
        point = basis.to_point(solved.w)
        dual = np.zeros(len(s))
        np.add.at(dual, which, signs * basis.to_dual(solved.certificate.dual))
        v, b = (point[:-1], float(point[-1])) if free else (point, self.rows.intercept or 0.0)
        return self._solution(v, b, dual, lower, upper)


def node_solver(rows: NodeRows) -> NodeSolver:
    """Return the fastest installed solver: with many rows an active set changes too slowly."""
    small = len(rows.weight) <= SETTINGS.active_set_rows
    return ActiveSet(rows) if small and importlib.util.find_spec("daqp") else InteriorPoint(rows)
