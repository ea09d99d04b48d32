"""Coordinates in which an aggregated problem has no equations and a diagonal P.

    v = origin + T y,     E T = 0,   T'PT diagonal

Equations and a quadratic term that is no diagonal leave the solver, the polish and the certificate as they are: these
only see rows ``A T``, constraints ``G T`` and a diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from aidlearn.data.chunk import Float
from aidlearn.engine.problem import Solution
from aidlearn.linear import interior_point
from aidlearn.linear.matrix import Dense
from aidlearn.linear.region import Region
from aidlearn.linear.rows import EPS, HingeRows

if TYPE_CHECKING:
    from aidlearn.linear.design import Design

NO_CURVATURE = 1e-13
"""Part of the largest curvature up to which one is rounding."""
ROUNDING = 32 * EPS
"""Of a product with T, relative to the sizes of a row and of the variables."""
STEP_ACCURACY = 1e-6
"""Of a Newton step within a region, relative to what the step gains."""


@dataclass(frozen=True)
class Frame:
    """The coordinates y."""

    origin: Float
    T: Float
    inverse: Float
    """Of T, on the differences of points that meet the equations."""
    ridge: Float
    """The diagonal of T'PT."""
    linear: Float | None
    constant: float
    keeps_intercept: bool
    """Whether the last coordinate is the intercept alone."""
    units: Float
    """Size that variables have in T (without the intercept, where it is apart): T is known to the rounding of these."""

    @classmethod
    def of(cls, design: Design) -> Frame:
        """That of a design with equations or a full quadratic term."""
        p, m, region = design.n_variables, design.n_attributes, design.region
        origin = np.zeros(p) if region is None else region.centre
        E = np.zeros((0, p)) if region is None else region.E
        quadratic = np.zeros((p, p))
        design.add_quadratic(quadratic)
        # In the units of the columns, so that those of small numbers keep their digits.
        units = 1 / np.sqrt(np.where(design.column_squares > 0, design.column_squares / design.weight, 1.0))
        apart = design.fit_intercept and not E[:, m:].any()
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
        linear = force if design.linear is None else force + design.linear
        constant = 0.5 * float(origin @ force)
        constant += 0.0 if design.linear is None else float(design.linear @ origin)
        q = T.T @ linear if linear.any() else None
        return cls(origin, T, inverse, curvatures, q, constant, apart, units[:n_rotated])

    def apply(self, rows: HingeRows) -> HingeRows:
        """Rows in terms of y; P, q and the constant of the problem are those of the frame."""
        assert isinstance(rows.A, Dense)
        A = rows.A.array @ self.T
        # What is 0 but for the rounding of T must not be taken for a column of small numbers.
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
    """An orthonormal basis of the vectors that E takes to 0."""
    n = E.shape[1]
    if not len(E):
        return np.eye(n)
    return np.asarray(linalg.qr(E.T)[0][:, len(E) :])


def step_within(design: Design, region: Region, hessian: Float, gradient: Float, point: Float) -> Float:
    """``argmin 1/2 d'Hd + g'd`` over steps d (in centred coordinates) that lead from a point to others of the region.

    With H = L L' on the steps that keep the equations this is a problem of the interior point without losses:
    ``1/2 x'x + q'x`` and constraints.
    """
    from aidlearn.linear.metric import regularised_cholesky

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
