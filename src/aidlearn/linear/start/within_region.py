"""Newton steps and points that stay within the constraints of a model."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from aidlearn.linear.aggregated import interior_point
from aidlearn.linear.aggregated.hinge_rows import HingeRows
from aidlearn.linear.constraints.coordinates import null_space
from aidlearn.linear.constraints.region import Region
from aidlearn.linear.model.design import Design
from aidlearn.linear.rows.matrix import Dense
from aidlearn.numerics import Float, regularised_cholesky

STEP_ACCURACY = 1e-6
"""Accuracy of a Newton step within a region, relative to its gain."""


def step_within(design: Design, region: Region, hessian: Float, gradient: Float, point: Float) -> Float:
    """``argmin 1/2 d'Hd + g'd`` over steps d (in centred coordinates) that lead from a point to others of the region.

    With H = L L' on the steps that keep the equations this is a problem of the interior point without losses:
    ``1/2 x'x + q'x`` and constraints.
    """
    size = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    Z = null_space(_centred(design, region.E) / size)
    inner = Z.T @ (hessian / np.outer(size, size)) @ Z
    diagonal = np.sqrt(np.maximum(np.diag(inner), 1e-300))
    upper = regularised_cholesky(inner / np.outer(diagonal, diagonal))
    back = (Z / size[:, None]) / diagonal
    to_step = linalg.solve_triangular(upper, back.T, trans="T", check_finite=False).T  # d = to_step @ x
    linear = to_step.T @ gradient
    length = float(np.linalg.norm(linear))
    if length == 0:
        return np.zeros_like(gradient)
    slack = np.maximum(region.slack(point), 0.0)
    rows = _centred(design, region.G.toarray()) @ to_step
    if (slack - rows @ linear >= 0).all():
        return np.asarray(-to_step @ linear)
    norms = np.linalg.norm(rows, axis=1)
    used = norms > 0
    n_used = int(used.sum())
    quadratic = HingeRows(
        Dense(rows[used] / norms[used, None]),
        -slack[used] / norms[used] / length,
        np.full(n_used, np.inf),
        np.zeros(n_used),
        np.ones(len(linear)),
        linear=linear / length,
    )
    found = interior_point.solve(quadratic, np.zeros(len(linear)), STEP_ACCURACY)
    return np.asarray(to_step @ (found.w * length))


def _centred(design: Design, rows: Float) -> Float:
    """Constraints on points as those on steps in centred coordinates."""
    if not design.fit_intercept:
        return rows
    moved = rows.copy()
    moved[:, :-1] -= np.outer(rows[:, -1], design.centre)
    return moved


def nearest(design: Design, region: Region, gram: Float, point: Float) -> Float:
    """The point of a region whose predictions are closest to those of a given one."""
    if region.contains(point):
        return region.inside(point)
    away = region.centre - point
    if design.fit_intercept:
        away[-1] += design.centre @ away[:-1]
    step = step_within(design, region, gram, gram @ away, region.centre)
    return region.inside(region.centre + design.step(step))
