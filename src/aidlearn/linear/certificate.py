"""Proven lower bounds: turn an approximate dual into a feasible one and take its value.

An interior-point primal value overstates the aggregated optimum; only the value of a dual-feasible point is
a bound. Regularisation and tolerances of a solver never enter here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aidlearn.data.chunk import Float
from aidlearn.linear.matrix import Matrix
from aidlearn.linear.rows import EPS, HingeRows


@dataclass(frozen=True)
class Certificate:
    """A dual-feasible point and the bound it proves."""

    dual: Float
    bound: float


def certify(rows: HingeRows, dual: Float, w: Float) -> Certificate:
    """Repair a dual so that it is feasible, and compute its value.

    ``w`` is the primal point that belongs to it. The residual of the equalities that rounding leaves is charged
    against the bound at the size of ``w`` plus the span of the rows: a bound is proven up to rounding, over
    coefficients that float64 can evaluate.
    """
    p = np.clip(dual, rows.lower, rows.upper)
    certificates = [_value(rows, _feasible(rows, p), w)]
    if rows.ridge.any():
        # The bound loses the square of what A'p misses of P w: fit it as closely as the boxes allow.
        certificates.append(_value(rows, _feasible(rows, _absorb(rows, rows.A, p, rows.ridge * w, rounds=2)), w))
    return max(certificates, key=lambda certificate: certificate.bound)


def _feasible(rows: HingeRows, p: Float) -> Float:
    """A nearby point that satisfies the equalities of the free coordinates."""
    free = rows.free
    if free.sum() == 1:
        return balance(rows.A.column(int(np.argmax(free))), p)
    return _absorb(rows, rows.A.columns(free), p, np.zeros(int(free.sum()))) if free.any() else p


def _value(rows: HingeRows, p: Float, w: Float) -> Certificate:
    """Check that p is feasible up to rounding, and compute what it proves."""
    free = rows.free
    forces = rows.A.T @ p
    sizes = _sizes(rows, rows.A, p)
    inside = ((rows.lower <= p) & (p <= rows.upper)).all()
    if not (inside and (np.abs(forces[free]) <= 64 * EPS * sizes[free]).all()):
        # Not repaired up to rounding, so it proves nothing; p = 0 is feasible and proves a bound of 0.
        return Certificate(np.zeros_like(p), 0.0)
    linear = float(rows.e @ p)
    quadratic = float(np.sum(forces[~free] ** 2 / rows.ridge[~free]))
    if quadratic > 0 and linear < quadratic:
        # Shrinking towards p = 0 stays feasible; linear / quadratic is the best multiple.
        shrink = max(linear / quadratic, 0.0)
        p, linear, quadratic, forces = p * shrink, linear * shrink, quadratic * shrink**2, forces * shrink
    rounding = float(np.abs(forces[free]) @ (np.abs(w[free]) + rows.span))
    rounding += float((EPS * np.abs(rows.e) + rows.noise) @ np.abs(p))
    return Certificate(p, linear - 0.5 * quadratic - rounding)


def _sizes(rows: HingeRows, A: Matrix, p: Float) -> Float:
    """What the rounding errors of ``A'p`` are relative to.

    A centred column has a part in every row; one that is not may have a single row, whose dual is known to the
    rounding of its box, the numbers it is the difference of.
    """
    absolute = abs(A)
    sizes = absolute.T @ np.abs(p)
    return sizes if A.centrable.all() else np.where(A.centrable, sizes, absolute.T @ rows.weight)


def balance(column: Float, p: Float) -> Float:
    """One equality ``column'p = 0``: scale down the heavier side (0 is inside every box)."""
    parts = column * p
    plus, minus = float(parts[parts > 0].sum()), float(-parts[parts < 0].sum())
    if plus > minus:
        return np.where(parts > 0, p * (minus / plus), p)
    return np.where(parts < 0, p * (plus / minus), p) if minus > plus else p


def _absorb(rows: HingeRows, A: Matrix, p: Float, target: Float, rounds: int = 6) -> Float:
    """Equalities ``A'p = target``: absorb the residual on rows strictly inside their box.

    Each row may move in proportion to its room squared, so rows at a bound stay there; what still leaves its
    box is pulled back towards the feasible p = 0.
    """
    lower, upper = rows.lower, rows.upper
    scale = _sizes(rows, A, p)
    for _ in range(rounds):
        residual = A.T @ p - target
        if (np.abs(residual) <= 4 * EPS * scale).all():
            break
        room = np.minimum(p - lower, upper - p)
        weighted = A.scaled_rows(room)
        normal = weighted.normal(n_jobs=rows.n_jobs)
        diagonal = normal.diagonal()
        factor = normal.factor(np.full(len(diagonal), 1e-13 * float(diagonal.mean()) + 1e-300))
        if factor is None:
            break
        for _ in range(3):
            step = room * (weighted @ factor.solve(residual))
            trial = p - step
            left = A.T @ trial - target
            if np.abs(left).max() >= np.abs(residual).max():
                break
            p, residual = trial, left
        p = _pull_inside(p, lower, upper)
    return p


def _pull_inside(p: Float, lower: Float, upper: Float) -> Float:
    """The multiple of p closest to it inside the box (rows whose box ends at 0 are clipped)."""
    p = np.where((lower == 0) & (p < 0) | (upper == 0) & (p > 0), 0.0, p)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(p > upper, upper / p, np.where(p < lower, lower / p, 1.0))
    factor = float(ratio.min(initial=1.0))
    return np.clip(p * factor, lower, upper) if factor < 1 else p
