"""Primal-dual interior point for a weighted sum of tilted hinges (see :mod:`aidlearn.solvers.rows`).

With z = e - A w = xi - t, xi >= 0, t >= 0 and u = p + c s in [0, s], the optimality conditions are

    P w + q = A'u,    q = A'(c s),    u t = 0,    (s - u) xi = 0.

Mehrotra's predictor-corrector solves their perturbation with one Cholesky factor of P + A'DA per iteration.
Steps are regularised by a proximal term; bounds come from :mod:`aidlearn.solvers.certificate` alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from aidlearn.data.source import Float
from aidlearn.solvers.certificate import Certificate, certify
from aidlearn.solvers.polish import polish
from aidlearn.solvers.rows import EPS, HingeRows

MAX_ITERATIONS = 80
STEP_TO_BOUNDARY = 0.995


@dataclass(frozen=True)
class AggregatedSolution:
    """A primal point, a dual-feasible point and their values for a :class:`HingeRows` problem."""

    w: Float
    value: float
    certificate: Certificate
    verified: bool = False

    @property
    def gap(self) -> float:
        return self.value - self.certificate.bound


@dataclass
class _Iterate:
    w: Float
    u: Float
    xi: Float
    t: Float


def solve(
    rows: HingeRows,
    w: Float,
    relative: float,
    deadline: float = math.inf,
    max_iterations: int = MAX_ITERATIONS,
    gram: Callable[[Float, Float], Float] | None = None,
) -> AggregatedSolution:
    """Minimise to a proven relative gap; ``relative = 0`` asks for an optimum verified up to rounding.

    Stops early at the deadline or when precision is exhausted; whatever it returns, its bound is proven.
    """
    s, tilt, P = rows.weight, rows.tilt, rows.ridge
    gram = gram or weighted_gram
    linear = rows.A.T @ (tilt * s)
    it = _starting_point(rows, w)
    best = _certified(rows, it)
    target = max(relative, 1e-13)
    stalled = 0
    for iteration in range(max_iterations):
        v = s - it.u
        complementarity = float(it.u @ it.t + v @ it.xi)
        if complementarity <= 2 * target * max(best.value, 0.0) or stalled or iteration == max_iterations - 1:
            best = _better(best, _certified(rows, it))
            if best.gap <= target * abs(best.value) or stalled > 3:
                break
        if time.monotonic() > deadline:
            best = _better(best, _certified(rows, it))
            break
        mu = complementarity / (2 * len(s))
        primal_residual = rows.e - rows.A @ it.w - it.xi + it.t
        dual_residual = rows.A.T @ it.u - P * it.w - linear
        D = 1.0 / (it.xi / v + it.t / it.u)
        factor = _factor(gram(rows.A, D), P)
        if factor is None:
            break

        def direction(ut: Float, vxi: Float) -> _Iterate:
            """Newton step towards complementarity products ``ut`` and ``vxi``."""
            shift = primal_residual - (vxi / v - it.xi) + (ut / it.u - it.t)
            dw = linalg.cho_solve(factor, dual_residual + rows.A.T @ (D * shift), check_finite=False)
            du = D * (shift - rows.A @ dw)
            dxi = (vxi - v * it.xi + it.xi * du) / v
            dt = (ut - it.u * it.t - it.t * du) / it.u
            return _Iterate(dw, du, dxi, dt)

        zero = np.zeros_like(s)
        predictor = direction(zero, zero)
        primal, dual = _step_lengths(it, v, predictor, 1.0, P)
        mu_affine = float(
            (it.u + dual * predictor.u) @ (it.t + primal * predictor.t)
            + (v - dual * predictor.u) @ (it.xi + primal * predictor.xi)
        ) / (2 * len(s))
        centred = mu * (mu_affine / mu) ** 3
        step = direction(centred - predictor.u * predictor.t, centred + predictor.u * predictor.xi)
        primal, dual = _step_lengths(it, v, step, STEP_TO_BOUNDARY, P)
        stalled = stalled + 1 if max(primal, dual) < 1e-3 or not np.isfinite(step.w).all() else 0
        if not np.isfinite(step.w).all():
            break
        it = _Iterate(
            it.w + primal * step.w,
            np.clip(it.u + dual * step.u, EPS * EPS * s, s * (1 - EPS)),
            it.xi + primal * step.xi,
            it.t + primal * step.t,
        )
    if relative < 1e-10:
        polished = polish(rows, best.w, it.u - tilt * s)
        if polished is not None:
            candidate = AggregatedSolution(polished.w, rows.value(polished.w), polished.certificate)
            best = _better(best, candidate)
        verified = best.gap <= 1e-12 * (abs(best.value) + EPS * float(s @ np.abs(rows.e)))
        best = AggregatedSolution(best.w, best.value, best.certificate, verified)
    return best


def weighted_gram(A: Float, D: Float) -> Float:
    """``A' diag(D) A``."""
    B = A * np.sqrt(D)[:, None]
    return np.asarray(B.T @ B)


def _starting_point(rows: HingeRows, w: Float) -> _Iterate:
    """Strictly inside, around the margins at w; slacks of the size of a typical margin keep it central."""
    s = rows.weight
    z = rows.margins(w)
    typical = float(s @ np.abs(z) / s.sum())
    extra = max(typical, 1e-8 * float(np.abs(z).max(initial=0.0)), 1e-300)
    xi, t = np.maximum(z, 0) + extra, np.maximum(-z, 0) + extra
    # u = s xi / (xi + t): near s for a large positive margin, near 0 for a negative one.
    return _Iterate(w.copy(), s * np.clip(xi / (xi + t), 1e-3, 1 - 1e-3), xi, t)


def _factor(normal: Float, ridge: Float) -> tuple[Float, bool] | None:
    """Cholesky factor of P + A'DA, with a proximal term that grows until it exists."""
    diagonal = np.diag_indices_from(normal)
    base = normal[diagonal] + ridge
    floor = max(float(base.max(initial=0.0)), np.finfo(float).tiny) * 1e-14
    for relative in (1e-13, 1e-11, 1e-9, 1e-7):
        normal[diagonal] = base + relative * base + floor
        try:
            return linalg.cho_factor(normal, check_finite=False)
        except (linalg.LinAlgError, ValueError):
            continue
    return None


def _step_lengths(it: _Iterate, v: Float, step: _Iterate, fraction: float, ridge: Float) -> tuple[float, float]:
    """Longest primal and dual steps that stay inside; one common length when P couples the two."""
    primal = min(_longest(it.xi, step.xi), _longest(it.t, step.t))
    dual = min(_longest(it.u, step.u), _longest(v, -step.u))
    primal, dual = min(1.0, fraction * primal), min(1.0, fraction * dual)
    return (min(primal, dual),) * 2 if ridge.any() else (primal, dual)


def _longest(value: Float, step: Float) -> float:
    steepest = float(np.min(step / value, initial=0.0))
    return math.inf if steepest >= 0 else -1.0 / steepest


def _certified(rows: HingeRows, it: _Iterate) -> AggregatedSolution:
    certificate = certify(rows, it.u - rows.tilt * rows.weight, it.w)
    return AggregatedSolution(it.w, rows.value(it.w), certificate)


def _better(one: AggregatedSolution, two: AggregatedSolution) -> AggregatedSolution:
    """The better primal with the better dual."""
    primal = two if two.value <= one.value else one
    dual = two if two.certificate.bound >= one.certificate.bound else one
    return AggregatedSolution(primal.w, primal.value, dual.certificate)
