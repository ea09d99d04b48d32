"""Proven lower bounds: turn an approximate dual into a feasible one and take its value.

An interior-point primal value overstates the aggregated optimum; only the value of a dual-feasible point is
a bound. Regularisation and tolerances of a solver never enter here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from aidlearn.linear.aggregated.hinge_rows import EPS, HingeRows
from aidlearn.linear.rows.matrix import ONE_RUN, Matrix
from aidlearn.numerics import Float

SOME_ROOM = 1e-6
"""Part of a row in a Gram matrix of squared rooms, over the largest, below which it may be left out."""
FEASIBLE = 64 * EPS
"""Residual of an equality, relative to its terms, that counts as rounding."""


@dataclass(frozen=True)
class Certificate:
    """A dual-feasible point and the bound it proves."""

    dual: Float
    bound: float


def trivial(rows: HingeRows) -> Certificate:
    """What the dual of zeros proves: nothing, where it is not feasible."""
    zeros = np.zeros_like(rows.e)
    if not rows.zero_is_feasible:
        return Certificate(zeros, -math.inf)
    if rows.linear is None:
        return Certificate(zeros, rows.constant)
    held = ~rows.free
    return Certificate(zeros, rows.constant - 0.5 * float(np.sum(rows.linear[held] ** 2 / rows.ridge[held])))


def certify(
    rows: HingeRows, dual: Float, w: Float, known: Certificate | None = None, enough: float = math.inf
) -> Certificate:
    """Repair a dual so that it is feasible, and compute its value.

    ``w`` is the primal point that belongs to it. The residual of the equalities that rounding leaves is charged
    against the bound at the size of ``w`` plus the span of the rows: a bound is proven up to rounding, over
    coefficients that float64 can evaluate.

    What leaves its box is pulled back towards a point that is known to be feasible: 0, or with a linear term that of
    ``known``, if there is one. A bound of ``enough`` is not improved upon.
    """
    p = np.clip(dual, rows.lower, rows.upper)
    anchor = None
    if rows.zero_is_feasible:
        anchor = np.zeros_like(p)
    elif known is not None and known.bound > -math.inf:
        anchor = known.dual
    certificates = [_value(rows, _feasible(rows, p, anchor), w, anchor)]
    if rows.ridge.any() and certificates[0].bound < enough:
        # The bound loses the square of what A'p misses of P w + q: fit it as closely as the boxes allow.
        force = rows.ridge * w if rows.linear is None else rows.ridge * w + rows.linear
        closer = _absorb(rows, rows.A, p, force, anchor, rounds=2)
        certificates.append(_value(rows, _feasible(rows, closer, anchor), w, anchor))
    return max(certificates, key=lambda certificate: certificate.bound)


def _feasible(rows: HingeRows, p: Float, anchor: Float | None) -> Float:
    """A nearby point that satisfies the equalities of the free coordinates."""
    free = rows.free
    if free.sum() == 1 and rows.zero_is_feasible:
        return balance(rows.A.column(int(np.argmax(free))), p)
    if not free.any():
        return p
    A = rows.A.columns(free)
    target = np.zeros(A.shape[1]) if rows.linear is None else rows.linear[free]
    found = _absorb(rows, A, p, target, anchor)
    if _is_feasible(rows, A, found, target) or math.prod(A.shape) * A.shape[1] > ONE_RUN:
        return found
    # Normal equations of nearly collinear columns lose the digits that least squares keep. If the rows inside their
    # boxes do not suffice, all rows move, and a step back towards the anchor restores the boxes.
    for reach in (np.minimum(p - rows.lower, rows.upper - p), _boxes(rows, p)):
        scaled, found = A.rows(np.arange(len(p))).T * reach, p
        for _ in range(3):
            change = linalg.lstsq(scaled, A.T @ found - target, cond=EPS, check_finite=False, lapack_driver="gelsy")[0]
            found = found - reach * change
        found = _pull_inside(found, rows.lower, rows.upper, anchor)
        if _is_feasible(rows, A, found, target):
            break
    return found


def _is_feasible(rows: HingeRows, A: Matrix, p: Float, target: Float) -> bool:
    """Return whether ``A'p = target`` up to rounding."""
    return bool((np.abs(A.T @ p - target) <= FEASIBLE * (_sizes(rows, A, p) + np.abs(target))).all())


def _value(rows: HingeRows, p: Float, w: Float, anchor: Float | None) -> Certificate:
    """Check that p is feasible up to rounding, and compute what it proves."""
    free, product = rows.free, rows.A.T @ p
    if free.sum() == 1:
        # Added up in pairs, as it was balanced: row after row, many of large weight lose more digits than are allowed.
        number = int(np.argmax(free))
        product[number] = float(np.sum(rows.A.column(number) * p))
    forces, sizes = product, _sizes(rows, rows.A, p)
    if rows.linear is not None:
        forces, sizes = forces - rows.linear, sizes + np.abs(rows.linear)
    inside = ((rows.lower <= p) & (p <= rows.upper)).all()
    if not (inside and (np.abs(forces[free]) <= FEASIBLE * sizes[free]).all()):
        return trivial(rows)  # not repaired up to rounding, so it proves nothing
    value, held = float(rows.e @ p), ~free
    if anchor is not None and held.any():
        # Between p and the anchor all is feasible: the best point of the segment, p + t (anchor - p).
        back = anchor - p
        change = rows.A.T @ anchor - product if anchor.any() else -product
        rate = float(rows.e @ back)
        curvature = float(np.sum(change[held] ** 2 / rows.ridge[held]))
        uphill = rate - float(np.sum(forces[held] * change[held] / rows.ridge[held]))
        if curvature > 0 and uphill > 0:
            t = min(uphill / curvature, 1.0)
            p, value, forces = p + t * back, value + t * rate, forces + t * change
    value -= 0.5 * float(np.sum(forces[held] ** 2 / rows.ridge[held]))
    rounding = float(np.abs(forces[free]) @ (np.abs(w[free]) + rows.span))
    rounding += float((EPS * np.abs(rows.e) + rows.noise) @ np.abs(p)) + EPS * abs(rows.constant)
    return Certificate(p, value + rows.constant - rounding)


def _sizes(rows: HingeRows, A: Matrix, p: Float) -> Float:
    """What the rounding errors of ``A'p`` are relative to.

    A centred column has a part in every row; one that is not may have a single row, whose dual is known to the
    rounding of its box, the numbers it is the difference of.
    """
    absolute = abs(A)
    sizes = absolute.T @ np.abs(p)
    if A.centrable.all():
        return sizes
    return np.where(A.centrable, sizes, absolute.T @ _boxes(rows, p))


def _boxes(rows: HingeRows, p: Float) -> Float:
    """Return the lengths of the boxes, or the sizes of duals that have no upper bound."""
    return np.where(np.isfinite(rows.weight), rows.weight, np.abs(p))


def balance(column: Float, p: Float) -> Float:
    """One equality ``column'p = 0``: scale down the heavier side (0 is inside every box)."""
    parts = column * p
    plus, minus = float(parts[parts > 0].sum()), float(-parts[parts < 0].sum())
    if plus > minus:
        return np.where(parts > 0, p * (minus / plus), p)
    return np.where(parts < 0, p * (plus / minus), p) if minus > plus else p


def _absorb(rows: HingeRows, A: Matrix, p: Float, target: Float, anchor: Float | None, rounds: int = 6) -> Float:
    """Equalities ``A'p = target``: absorb the residual on rows strictly inside their box.

    Each row may move in proportion to its room squared, so rows at a bound stay there; what still leaves its
    box is pulled back towards the anchor.
    """
    lower, upper = rows.lower, rows.upper
    scale = _sizes(rows, A, p) if rows.linear is None else _sizes(rows, A, p) + np.abs(target)
    by_all = rows.constrained
    for _ in range(rounds):
        residual = A.T @ p - target
        if (np.abs(residual) <= 4 * EPS * scale).all():
            break
        room, before = np.minimum(p - lower, upper - p), p
        # Rows with hardly any room change nothing: what a step misses shows in the residual, which decides.
        near, square = (A, room * room) if by_all else A.heaviest(room * room, SOME_ROOM)
        by_all = by_all or near is A
        normal = near.normal(square, rows.n_jobs)
        diagonal = normal.diagonal()
        factor = normal.factor(np.full(len(diagonal), 1e-13 * float(diagonal.mean()) + 1e-300))
        if factor is None:
            if by_all:
                break
            by_all = True
            continue
        for _ in range(3):
            change = factor.solve(residual)
            if not np.isfinite(change).all():  # no row has room in some direction
                break
            step = room * (room * (A @ change))
            trial = p - step
            left = A.T @ trial - target
            if np.abs(left).max() >= np.abs(residual).max():
                break
            p, residual = trial, left
        if p is before:
            if by_all:
                break
            by_all = True  # the heaviest rows leave directions of which they know too little
        p = _pull_inside(p, lower, upper, anchor)
    return p


def _pull_inside(p: Float, lower: Float, upper: Float, anchor: Float | None) -> Float:
    """The point of the segment from the anchor to p that is closest to p inside the box.

    Rows whose box ends at the anchor are clipped, and without an anchor all are.
    """
    if anchor is None:
        return np.clip(p, lower, upper)
    back = p - anchor
    back = np.where((lower >= anchor) & (back < 0) | (upper <= anchor) & (back > 0), 0.0, back)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        beyond = np.where(p < lower, (lower - anchor) / back, 1.0)
        ratio = np.where(p > upper, (upper - anchor) / back, beyond)
    ratio = np.where(back == 0, 1.0, ratio)
    factor = float(ratio.min(initial=1.0))
    if factor < 1 or (back != p - anchor).any():
        return np.clip(anchor + back * factor, lower, upper)
    return p
