"""Coordinates in which an aggregated problem has no equations and a diagonal P.

    v = origin + T y,     E T = 0,   T'PT diagonal

Equations and a quadratic term that is no diagonal leave the solver, the polish and the certificate as they are: these
only see rows ``A T``, constraints ``G T`` and a diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from aidlearn.engine.problem import Solution
from aidlearn.linear.aggregated.hinge_rows import HingeRows
from aidlearn.linear.constraints.region import Region
from aidlearn.linear.rows.matrix import Dense
from aidlearn.numerics import EPS, Float

NO_CURVATURE = 1e-13
"""Part of the largest curvature up to which one is rounding."""
ROUNDING = 32 * EPS
"""Of a product with T, relative to the sizes of a row and of the variables."""


@dataclass(frozen=True)
class Coordinates:
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
    def of(
        cls, quadratic: Float, linear: Float | None, region: Region | None, units: Float, has_intercept: bool
    ) -> Coordinates:
        """Coordinates for a full matrix P, a linear term q and a region with equations.

        ``units`` are the sizes of the variables, so that those of small numbers keep their digits.
        """
        p = len(units)
        m = p - has_intercept
        origin = np.zeros(p) if region is None else region.centre
        E = np.zeros((0, p)) if region is None else region.E
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
        q = T.T @ pull if pull.any() else None
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
