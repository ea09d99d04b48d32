"""Constrained piecewise-linear problems as full linear or quadratic programs, for HiGHS and Clarabel.

    minimise   1/2 v'Pv + q'v + l1 |v|_1 + sum_i s_i loss(e_i - a_i'v)     subject to   low <= G v <= high

with one epigraph row for each entry and each side of each kink. HiGHS solves it if P = 0, Clarabel in general; the
tests and ``benchmarks.constraints`` compare aidlearn with both.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FullProgram:
    """A problem with all its entries."""

    A: Array
    e: Array
    weight: Array
    kinks: list[tuple[float, float, float]]
    """(kink, slope to the left, slope to the right): the loss is ``sum max(left (z - k), right (z - k))``."""
    P: Array
    q: Array
    l1: Array
    G: Array
    low: Array
    high: Array

    @property
    def p(self) -> int:
        return self.A.shape[1]

    def value(self, v: Array) -> float:
        z = self.e - self.A @ v
        loss = sum(np.maximum(left * (z - k), right * (z - k)) for k, left, right in self.kinks)
        return float(0.5 * v @ self.P @ v + self.q @ v + self.l1 @ np.abs(v) + self.weight @ loss)

    def violation(self, v: Array) -> float:
        """Return the largest violation of a constraint, relative to the size of its terms."""
        if not len(self.low):
            return 0.0
        product, size = self.G @ v, 1.0 + np.abs(self.G) @ np.abs(v)
        return float((np.maximum(np.maximum(self.low - product, product - self.high), 0) / size).max())

    def rows(self) -> tuple[Any, Array, Array]:
        """Return M, low and cost of ``M x >= low`` in v, |v| and one epigraph variable for each entry and kink."""
        n, p, K = len(self.e), self.p, len(self.kinks)
        blocks, low = [], []
        for j, (kink, left, right) in enumerate(self.kinks):
            for slope in (left, right):
                # t >= slope (e - a'v - k)
                own = sparse.csr_array((np.ones(n), (np.arange(n), j * n + np.arange(n))), shape=(n, n * K))
                blocks.append(sparse.hstack([slope * self.A, sparse.csr_array((n, p)), own]))
                low.append(slope * (self.e - kink))
        for sign in (1.0, -1.0):
            rest = sparse.csr_array((p, n * K))
            blocks.append(sparse.hstack([sign * sparse.eye_array(p), sparse.eye_array(p), rest]))
            low.append(np.zeros(p))
        cost = np.concatenate([self.q, self.l1, np.tile(self.weight, K)])
        return sparse.csr_array(sparse.vstack(blocks, format="csr")), np.concatenate(low), cost


def solve_by_highs(program: FullProgram, time_limit: float | None = None) -> tuple[float, Array]:
    """Return the optimum and the solution of the full linear program."""
    M, low, cost = program.rows()
    n_more = M.shape[1] - program.p
    limits = [optimize.LinearConstraint(M, low, np.inf)]
    if len(program.low):
        G = sparse.hstack([sparse.csr_array(program.G), sparse.csr_array((len(program.low), n_more))])
        limits.append(optimize.LinearConstraint(sparse.csr_array(G), program.low, program.high))
    bounds = optimize.Bounds(np.full(len(cost), -np.inf), np.full(len(cost), np.inf))
    options = {} if time_limit is None else {"time_limit": time_limit}
    answer = optimize.milp(cost, constraints=limits, bounds=bounds, options=options)
    if answer.status != 0:
        raise RuntimeError(f"HiGHS: {answer.message}")
    point = answer.x[: program.p]
    return float(answer.fun), point


def solve_by_clarabel(program: FullProgram) -> tuple[float, Array]:
    """Return the optimum and the solution of the full quadratic program."""
    clarabel: Any = import_module("clarabel")

    M, low, cost = program.rows()
    p, n_more = program.p, M.shape[1] - program.p
    P = sparse.block_diag([sparse.csc_array(program.P), sparse.csc_array((n_more, n_more))], format="csc")
    G = sparse.csr_array(sparse.hstack([sparse.csr_array(program.G), sparse.csr_array((len(program.low), n_more))]))
    equal = program.low == program.high
    floor, ceiling = np.isfinite(program.low) & ~equal, np.isfinite(program.high) & ~equal
    numbers = [np.flatnonzero(part) for part in (equal, floor, ceiling)]
    # Clarabel's form: rows x + s = right with s = 0 or s >= 0.
    rows = sparse.vstack([G[numbers[0]], -G[numbers[1]], G[numbers[2]], -M], format="csc")
    right = np.concatenate([program.low[equal], -program.low[floor], program.high[ceiling], -low])
    cones = [clarabel.ZeroConeT(int(equal.sum())), clarabel.NonnegativeConeT(len(right) - int(equal.sum()))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    found = clarabel.DefaultSolver(sparse.triu(P, format="csc"), cost, rows, right, cones, settings).solve()
    if "Solved" not in str(found.status):
        raise RuntimeError(f"Clarabel: {found.status}")
    return float(found.obj_val), np.asarray(found.x)[:p]


@dataclass(frozen=True)
class GeneratedModel:
    """A generated model: the arguments of aidlearn, and the equivalent program."""

    model: str
    parameters: dict[str, Any]
    X: Array
    y: Array
    weight: Array
    program: FullProgram
    kind: str


def generated(seed: int, n: int | None = None) -> GeneratedModel:
    """Draw a constrained or elastic-net model with active bounds, equations, redundant and degenerate constraints."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 9))
    n = int(rng.choice([60, 300, 1500, 4000])) if n is None else n
    scales = 10.0 ** rng.uniform(-2, 2, m)
    X = rng.normal(size=(n, m)) * scales + rng.normal(size=m) * scales * rng.choice([0, 3])
    if rng.random() < 0.2:
        X[:, -1] = np.round(X[:, -1] / scales[-1])
        scales[-1] = 1.0
    true = rng.normal(size=m) / scales
    weight = np.ones(n) if rng.random() < 0.5 else rng.integers(0, 5, n).astype(float)
    weight[:2] = 1.0
    model = str(rng.choice(["quantile", "lad", "svc", "svr"]))
    intercept = bool(rng.random() < 0.8)
    score = X @ true + (2.0 if intercept else 0.0)
    parameters: dict[str, Any] = {"fit_intercept": intercept}
    ones = np.ones((n, 1))
    A = np.hstack([X, ones]) if intercept else X
    p = A.shape[1]
    ridge, l1 = np.zeros(p), np.zeros(p)
    if model == "svc":
        y = np.where(score - np.median(score) + rng.normal(size=n) * np.std(score) * 0.5 > 0, 1.0, -1.0)
        y[0], y[1] = 1.0, -1.0
        parameters["C"] = float(10 ** rng.uniform(-2, 1))
        A, e, kinks = A * y[:, None], np.ones(n), [(0.0, 0.0, parameters["C"])]
        ridge[:m] = 1.0
    else:
        y = score + rng.standard_t(3, n) * (1 + np.abs(score) * 0.1)
        if rng.random() < 0.2:
            y = np.round(y)
        e = y
        if model == "svr":
            C, epsilon = float(10 ** rng.uniform(-2, 1)), float(rng.choice([0.0, 0.5]))
            parameters |= {"C": C, "epsilon": epsilon}
            kinks = [(-epsilon, -C, 0.0), (epsilon, 0.0, C)]
            ridge[:m] = 1.0
        else:
            tau = 0.5
            if model == "quantile":
                tau = float(rng.uniform(0.1, 0.9))
                parameters["quantile"] = tau
            factor = 2.0 if model == "lad" else 1.0
            kinks = [(0.0, factor * (tau - 1), factor * tau)]
            if rng.random() < 0.5:
                alpha, ratio = float(10 ** rng.uniform(-3, 0)), float(rng.choice([1.0, 0.7, 0.2, 0.0]))
                parameters |= {"alpha": alpha, "l1_ratio": ratio}
                total = alpha * weight.sum()
                l1[:m], ridge[:m] = ratio * total, (1 - ratio) * total
    rows: list[tuple[Array, float, float]] = []
    kind = _constrain(rng, parameters, rows, true, scales, p)
    G = np.array([row for row, _, _ in rows]).reshape(-1, p)
    low, high = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    program = FullProgram(A, e, weight, kinks, np.diag(ridge), np.zeros(p), l1, G, low, high)
    return GeneratedModel(model, parameters, X, y, weight, program, kind)


def _constrain(
    rng: np.random.Generator,
    parameters: dict[str, Any],
    rows: list[tuple[Array, float, float]],
    true: Array,
    scales: Array,
    p: int,
) -> str:
    """Add constraints to the parameters of a model and to the rows of its program."""
    m = len(true)
    unit = np.eye(p)
    chosen = rng.choice(["none", "positive", "bounds", "inequalities", "equations", "degenerate", "monotone"], 2)
    kinds = list(dict.fromkeys(map(str, chosen)))
    # A point that satisfies all constraints and differs from the unconstrained fit.
    point = true * rng.uniform(0, 1.5, m)
    if "positive" in kinds:
        point = np.abs(point) * (rng.random(m) < 0.7)
    for kind in kinds:
        if kind == "positive":
            parameters["positive"] = True
            rows += [(unit[j], 0.0, np.inf) for j in range(m)]
        elif kind == "bounds":
            width = np.abs(true) * rng.uniform(0, 2, m) * (rng.random(m) < 0.8)
            lower, upper = point - width * rng.uniform(0, 1, m), point + width * rng.uniform(0, 1, m)
            lower[rng.random(m) < 0.3] = -np.inf
            parameters["bounds"] = optimize.Bounds(lower, upper)
            rows += [(unit[j], float(lower[j]), float(upper[j])) for j in range(m)]
        elif kind != "none":
            rows += _constraint_rows(rng, kind, parameters, point, scales, p)
    return "+".join(kinds)


def _constraint_rows(
    rng: np.random.Generator, kind: str, parameters: dict[str, Any], point: Array, scales: Array, p: int
) -> list[tuple[Array, float, float]]:
    m = len(point)
    if kind == "monotone":
        A = (np.eye(m) - np.eye(m, k=-1))[1:] * scales if m > 1 else np.eye(1)
        low, high = np.minimum(A @ point, 0), np.full(len(A), np.inf)
    else:
        k = int(rng.integers(1, 1 + max(1, m // 2)))
        A = rng.integers(-2, 3, (k, m)) * scales
        A[0] = scales
        middle = A @ point
        if kind == "equations":
            low = high = middle
        else:
            low, high = middle - rng.uniform(0, 0.3, k) * np.abs(middle), np.full(k, np.inf)
        if kind == "degenerate":
            # A duplicate row, the sum of all rows, a row that never binds and, half of the time, an equation.
            A = np.vstack([A, A[0], A.sum(axis=0), A[-1]])
            low = np.concatenate([low, [low[0]], [low.sum()], [low[-1] - 100 * np.abs(low[-1]) - 100]])
            high = np.concatenate([high, [np.inf, np.inf, np.inf]])
            if rng.random() < 0.5:
                low[0] = low[k] = high[0] = middle[0]
    constraint = optimize.LinearConstraint(A, low, high)
    parameters["constraints"] = [*parameters.get("constraints", []), constraint]
    wide = np.hstack([A, np.zeros((len(A), p - m))])
    return [(row, float(a), float(b)) for row, a, b in zip(wide, np.atleast_1d(low), np.atleast_1d(high), strict=True)]
