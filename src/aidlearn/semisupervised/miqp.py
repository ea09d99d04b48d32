"""The aggregated S3VM as a mixed-integer program (paper, section 3.3, after Bennett and Demiriz), solved by SCIP.

    minimise    t + sum_l s_l xi_l + sum_u s_u (p_u + q_u)          t >= 1/2 |v|^2,     z = A v + b
    such that   y_l z_l >= 1 - xi_l
                 z_u + p_u + M_u (1 - d_u) >= 1,     0 <= p_u <= M_u d_u
                -z_u + q_u + M_u d_u       >= 1,     0 <= q_u <= M_u (1 - d_u),     d_u in {0, 1}

with d_u = 1 for the label +. The paper does not specify the large M. A known solution of value E gives an M that
cuts off no better solution: such a solution has |v| <= sqrt(2 E), the labelled rows bound its b, and so |z_u| + 1 is
bounded for every row. SCIP's own bound is a floating-point claim, not a proof; proven bounds come from the branch and
bound.
"""

from __future__ import annotations

import importlib.util
import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from aidlearn.numerics import Float
from aidlearn.semisupervised import branch_and_bound
from aidlearn.semisupervised.branch_and_bound import Search, SearchLimits, SemiSupervisedRows

SLACK = 1e-6
"""Relative slack of the bounds from a known value, so that rounding does not cut off the optimum."""
ACCURACY = 1e-5
"""Relative accuracy of SCIP's values: it holds constraints to 1e-6."""
NO_DEADLINE = 1e20
"""SCIP's notation for an unlimited time."""


def available() -> bool:
    """Return whether SCIP is installed."""
    return importlib.util.find_spec("pyscipopt") is not None


def check_available() -> None:
    """Raise an error before any work if SCIP is missing."""
    if not available():
        raise ImportError("solver='miqp' needs SCIP: pip install \"aidlearn[miqp]\" (or use solver='auto').")


def search(rows: SemiSupervisedRows, limits: SearchLimits, known: tuple[Float, float] | None = None) -> Search:
    """Solve the aggregated problem; ``known`` is a warm start."""
    best = branch_and_bound.search(rows, replace(limits, nodes=0), known)
    if rows.n_unlabelled == 0 or best.value <= 0:
        best.bound, best.closed, best.spent = best.root_bound, True, False
        return best
    left = limits.deadline - time.monotonic()
    if left <= 0:
        best.spent = True
        return best
    program = _Program(rows, best)
    program.solve(limits, left)
    return program.read(best, limits)


class _Program:
    """The mixed-integer program of an aggregated problem."""

    def __init__(self, rows: SemiSupervisedRows, best: Search) -> None:
        from pyscipopt import Model, quicksum

        self.rows = rows
        n, d = len(rows.labels), rows.A.shape[1]
        value = best.value * (1 + SLACK)
        longest = math.sqrt(2 * value)
        b_low, b_high = _intercept_range(rows, value, longest)
        reach = longest * np.sqrt((rows.A**2).sum(axis=1)) + max(abs(b_low), abs(b_high))
        big = (1 + reach[n:]) * (1 + SLACK)
        model = Model()
        model.hideOutput()
        self.v = [model.addVar(lb=-longest, ub=longest) for _ in range(d)]
        self.b = model.addVar(lb=b_low, ub=b_high)
        t = model.addVar(lb=0.0, ub=value)
        model.addCons(quicksum(v * v for v in self.v) <= 2 * t)
        z = [self._score(quicksum, k) for k in range(len(rows.weight))]
        losses = []
        for k in range(n):
            loss = model.addVar(lb=0.0)
            model.addCons(float(rows.labels[k]) * z[k] >= 1 - loss)
            losses.append(float(rows.weight[k]) * loss)
        self.d = []
        for u, M in enumerate(big.tolist()):
            label, p, q = model.addVar(vtype="B"), model.addVar(lb=0.0), model.addVar(lb=0.0)
            model.addCons(z[n + u] + p + M * (1 - label) >= 1)
            model.addCons(q - z[n + u] + M * label >= 1)
            model.addCons(p <= M * label)
            model.addCons(q <= M * (1 - label))
            losses.append(float(rows.weight[n + u]) * (p + q))
            self.d.append(label)
        model.setObjective(t + quicksum(losses))
        self.model: Any = model
        self._give(best)

    def _score(self, quicksum: Any, k: int) -> Any:
        terms = [float(a) * v for a, v in zip(self.rows.A[k], self.v, strict=True) if a != 0]
        return quicksum(terms) + self.b

    def _give(self, best: Search) -> None:
        """Pass the known point to SCIP, which completes it."""
        solution = self.model.createPartialSol()
        for variable, value in zip((*self.v, self.b), (*best.v.tolist(), best.b), strict=True):
            self.model.setSolVal(solution, variable, float(value))
        z = self.rows.nodes.scores(best.v, best.b)[len(self.rows.labels) :]
        for label, score in zip(self.d, z.tolist(), strict=True):
            self.model.setSolVal(solution, label, float(score >= 0))
        self.model.addSol(solution)

    def solve(self, limits: SearchLimits, left: float) -> None:
        """Run SCIP within the limits."""
        self.model.setParam("limits/time", min(left, NO_DEADLINE))
        self.model.setParam("limits/gap", limits.relative)
        self.model.setParam("limits/nodes", limits.nodes)
        self.model.optimize()

    def read(self, best: Search, limits: SearchLimits) -> Search:
        """Read SCIP's point and polish it by a local search."""
        model = self.model
        if model.getNSols():
            v = np.array([model.getVal(variable) for variable in self.v])
            known = v, float(model.getVal(self.b))
            found = branch_and_bound.search(self.rows, replace(limits, nodes=0), known)
            if found.value < best.value:
                best.v, best.b, best.value, best.settled = found.v, found.b, found.value, found.settled
        best.n_nodes = int(model.getNTotalNodes())
        claimed = float(model.getDualbound())
        best.bound = max(best.root_bound, min(claimed, best.value))
        best.closed = best.value - claimed <= (limits.relative + ACCURACY) * abs(best.value)
        best.spent = not best.closed
        return best


def _intercept_range(rows: SemiSupervisedRows, value: float, longest: float) -> tuple[float, float]:
    """Bound b in solutions of at most this value, in which no labelled row loses more than the value."""
    if rows.intercept is not None:
        return rows.intercept, rows.intercept
    n = len(rows.labels)
    spread = longest * np.sqrt((rows.A[:n] ** 2).sum(axis=1))
    least = 1 - value / rows.weight[:n] - spread  # y b >= 1 - loss - |a'v|
    low = max((least[k] for k in range(n) if rows.labels[k] > 0), default=-math.inf)
    high = min((-least[k] for k in range(n) if rows.labels[k] < 0), default=math.inf)
    reach = 1 + value / float(rows.weight[:n].max()) + float(spread.max(initial=0.0))
    # Labels of one class leave b unbounded on one side, but a b beyond every margin gains nothing.
    everywhere = 1 + longest * float(np.sqrt((rows.A**2).sum(axis=1)).max(initial=0.0))
    furthest = max(reach, everywhere)
    return float(low if math.isfinite(low) else -furthest), float(high if math.isfinite(high) else furthest)
