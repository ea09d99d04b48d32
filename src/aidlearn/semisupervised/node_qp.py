"""The convex problem at a node of the branch and bound (paper, section 3.3): an SVM with intervals for its scores.

    minimise over v, b   1/2 |v|^2 + sum_k s_k (max(0, lower_k - z_k) + max(0, z_k - upper_k)),     z = A v + b

A row labelled + has lower = 1, one labelled - has upper = -1, a row without bounds costs nothing: all nodes have
the same rows, only the bounds change. The dual is

    maximise over p   lower'p^+ - upper'p^- - 1/2 |A'p|^2    subject to    -s <= p <= s,   sum p = 0  (b free)

and the value of any feasible p is a proven lower bound. DAQP (a dual active-set method) solves a node in
about 0.1 ms; without it the interior point of this package takes its place.
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
"""How DAQP writes a bound that is not there."""
PROXIMAL = 1e-6
"""Curvature that DAQP is given for the free intercept, around its last value."""
ATTEMPTS = 4
"""Solves of one node by DAQP: around the intercept found, or from scratch after a failure."""
ACTIVE_SET_ROWS = 1000
"""Beyond this number of rows the interior point is faster."""
WANTED_GAP = 1e-8
"""Relative gap of a node at which no other attempt is made."""
POOR_GAP = 1e-6
"""Relative gap of a node above which DAQP's answer is not good enough."""
INTERIOR_POINT_GAP = 1e-9
"""Relative gap that the interior point goes on to."""
SOFT = 8
"""How DAQP marks a constraint that may be violated at a price."""
SOFTNESS = 1e6
"""rho of that price, times the weight: a larger one costs DAQP digits, a smaller one overstates losses."""
ROUNDINGS = 4
"""Of each term of a bound."""


@dataclass(frozen=True)
class NodeRows:
    """Rows of all nodes; ``intercept`` is the value of b where it is fixed, None where it is free."""

    A: Float
    weight: Float
    intercept: float | None = None

    def scores(self, v: Float, b: float) -> Float:
        return self.A @ v + b

    def losses(self, z: Float, lower: Float, upper: Float) -> Float:
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
    """Solves nodes that share their rows."""

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
    """The better primal with the better bound."""
    primal = one if one.value <= two.value else two
    return replace(primal, bound=max(one.bound, two.bound))


def proven(rows: NodeRows, dual: Float, lower: Float, upper: Float, b: float) -> float:
    """Repair a dual and take its value; 0 where that fails (losses are not negative)."""
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
        # Shrinking towards p = 0 stays feasible; linear / quadratic is the best multiple.
        shrink = linear / quadratic
        linear, quadratic, p, force = linear * shrink, quadratic * shrink**2, p * shrink, force * shrink
    # Rounding: of the sum over targets, of what is left of sum p = 0 (at the size of b), and of the forces.
    size = float(np.abs(p) @ (np.abs(target) + abs(b))) + float(np.abs(force) @ (np.abs(p) @ np.abs(A)))
    return linear - 0.5 * quadratic - ROUNDINGS * EPS * size


class ActiveSet(NodeSolver):
    """DAQP on the primal, with the bounds as soft constraints; each node starts from the last working set."""

    def __init__(self, rows: NodeRows) -> None:
        super().__init__(rows)
        n, d = rows.A.shape
        self.free = rows.intercept is None
        # The intercept in units of a typical row, so that its proximal term is relative.
        self.unit = float(np.sqrt((rows.A**2).sum() / max(1, n))) or 1.0
        self.columns = np.hstack([rows.A, np.full((n, 1), self.unit)]) if self.free else rows.A.copy()
        self.hessian = np.eye(d + self.free)
        if self.free:
            self.hessian[-1, -1] = PROXIMAL
        self.linear = np.zeros(d + self.free)
        self.fallback: NodeSolver | None = None
        self.model: Any = None
        self.works = True

    def solve(self, lower: Float, upper: Float) -> NodeSolution:
        fixed = self.rows.intercept or 0.0
        below, above = np.maximum(lower - fixed, -NEVER), np.minimum(upper - fixed, NEVER)
        best: NodeSolution | None = None
        for _ in range(ATTEMPTS if self.works else 0):
            fresh = self.model is None
            answer = self._ask(below, above)
            if answer is None:
                self.model, self.linear = None, np.zeros_like(self.linear)
                self.works = not fresh  # what fails from scratch will fail again
                if fresh:
                    break
                continue
            x, dual = answer
            v, b = (x[:-1], self.unit * x[-1]) if self.free else (x, fixed)
            found = self._solution(v.copy(), float(b), dual, lower, upper)
            best = found if best is None else _better(best, found)
            if not self.free or best.value - best.bound <= WANTED_GAP * best.value:
                break
            # The proximal term has moved the solution: solve again around the intercept found.
            self.linear[-1] = -PROXIMAL * x[-1]
        if best is None or best.value - best.bound > POOR_GAP * best.value:
            return self._by_interior_point(best, lower, upper)
        return best

    def _ask(self, below: Float, above: Float) -> tuple[Float, Float] | None:
        """DAQP's primal and dual solution; None if it reports a failure."""
        if self.model is None:
            import daqp

            n, weight = len(self.rows.weight), self.rows.weight
            model = daqp.Model()
            flag, _ = model.setup(
                self.hessian, self.linear, self.columns, above, below, np.full(n, SOFT, dtype=np.int32)
            )
            if flag < 0:
                return None
            # A violation x of a bound costs weight * x + x^2 / (2 rho).
            rho = SOFTNESS / weight
            model.soft_weights(rho_l=rho, rho_u=rho, w_l=weight, w_u=weight)
            self.model = model
        else:
            self.model.update(f=self.linear, bupper=above, blower=below)
        x, _, flag, info = self.model.solve()
        return (x, -np.asarray(info["lam"])) if flag > 0 and np.isfinite(x).all() else None

    def _by_interior_point(self, best: NodeSolution | None, lower: Float, upper: Float) -> NodeSolution:
        if self.fallback is None:
            self.fallback = InteriorPoint(self.rows)
        other = self.fallback.solve(lower, upper)
        return other if best is None else _better(best, other)


class InteriorPoint(NodeSolver):
    """The interior point of the convex models, cold at every node."""

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
        solved = interior_point.solve(basis.apply(given), np.zeros(columns.shape[1]), INTERIOR_POINT_GAP)
        point = basis.to_point(solved.w)
        dual = np.zeros(len(s))
        np.add.at(dual, which, signs * basis.to_dual(solved.certificate.dual))
        v, b = (point[:-1], float(point[-1])) if free else (point, self.rows.intercept or 0.0)
        return self._solution(v, b, dual, lower, upper)


def node_solver(rows: NodeRows) -> NodeSolver:
    """The fastest solver that is installed: one change of the working set at a time is slow with many rows."""
    small = len(rows.weight) <= ACTIVE_SET_ROWS
    return ActiveSet(rows) if small and importlib.util.find_spec("daqp") else InteriorPoint(rows)
