"""The aggregated problem of every convex model here: a weighted sum of tilted hinges.

    minimise over v   1/2 v'Pv + sum_k s_k max((1 - c_k) z_k, -c_k z_k),     z = e - A v

with P diagonal and a tilt c_k in [0, 1]: c = 0 is the hinge of the SVM (paper, eq. for F^t), c = 1 - tau
the check function of a quantile (c = 1/2, s = 2 the absolute value of LAD). Its dual is

    maximise over p   e'p - 1/2 (A'p)' P^+ (A'p)
    subject to        -c_k s_k <= p_k <= (1 - c_k) s_k,   (A'p)_j = 0 wherever P_jj = 0

and p = 0 is always feasible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.chunk import Float
from aidlearn.linear.matrix import Dense, Matrix
from aidlearn.linear.normal import Normal

EPS = float(np.finfo(np.float64).eps)


NO_INTERCEPT = 1e-14
"""Up to this mean of signs (of at most 1) no cluster says anything about the intercept."""


def power_of_two(size: float) -> float:
    """The power of two next below a size (1 for 0): a unit that costs no digits."""
    return math.ldexp(0.5, math.frexp(size)[1]) if size > 0 else 1.0


@dataclass(frozen=True)
class HingeRows:
    """Rows ``(a_k, e_k)`` with weight and tilt, and the diagonal of P."""

    A: Matrix
    e: Float
    weight: Float
    tilt: Float
    ridge: Float
    noise: Float | float = 0.0
    """Rounding error of the margins that the origin of the coordinates has left in e."""
    span: float = 0.0
    """How far an optimum may lie from the origin in a coordinate: a typical margin over the smallest
    singular value of A. What rounding leaves of the dual equalities is charged at this size."""
    n_jobs: int = 1
    """Threads for its Gram matrices."""

    @classmethod
    def of_array(cls, A: Float, e: Float, weight: Float, tilt: Float, ridge: Float) -> HingeRows:
        """Rows of an array."""
        return cls(Dense(A), e, weight, tilt, ridge)

    def normal(self, D: Float) -> Normal:
        """``A' diag(D) A``."""
        return self.A.normal(D, self.n_jobs)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Coordinates that P does not penalise: there the dual has an equality."""
        return self.ridge == 0

    @property
    def lower(self) -> Float:
        return -self.tilt * self.weight

    @property
    def upper(self) -> Float:
        return (1 - self.tilt) * self.weight

    def margins(self, v: Float) -> Float:
        return self.e - self.A @ v

    @property
    def rounding(self) -> float:
        """What rounding may do to a value: no solver can prove less of a gap."""
        return float(self.weight @ (EPS * np.abs(self.e) + self.noise))

    def value(self, v: Float) -> float:
        """The primal objective at v."""
        z = self.margins(v)
        loss = np.maximum((1 - self.tilt) * z, -self.tilt * z)
        return float(self.weight @ loss + 0.5 * self.ridge @ v**2)


@dataclass(frozen=True)
class Basis:
    """Change of variables ``v = origin + T w`` that makes columns comparable, and units for margins and weights.

    Columns are centred through the last one when that is a free intercept (slopes stay slopes, so P
    stays diagonal) unless they are sparse, then divided by their root mean square. Only free coordinates
    are shifted: large offsets of the target cancel once, in the margins at the origin.

    With margins in ``unit`` and weights in ``mass`` the problem is the same, its value in ``unit * mass``; solvers
    only ever see problems of ordinary size, whatever the scales of y, of the columns and of the weights.
    """

    origin: Float
    centre: Float
    scale: Float
    weakest: float = 1.0
    """Smallest singular value (estimated) of the scaled rows, relative to the largest."""
    unit: float = 1.0
    """Of margins: about their median at the origin."""
    mass: float = 1.0
    """Of weights: about their median, or where a ridge holds the coordinates, what makes it about 1."""

    @classmethod
    def of(cls, rows: HingeRows, point: Float | None, has_intercept: bool) -> Basis:
        A, s = rows.A, rows.weight / rows.weight.max()
        origin = np.zeros(A.shape[1]) if point is None else np.where(rows.free, point, 0.0)
        centre = np.zeros(A.shape[1])
        largest = A.maxima()
        if has_intercept:
            one = A.column(-1)
            # Its cells are means of signs: clusters that mix two classes evenly leave rounding errors of it at most.
            if np.abs(one).max() > NO_INTERCEPT:
                centre[:-1] = np.where(A.centrable[:-1], A.slope_products(s * one) / (s @ one**2), 0.0)
            else:
                largest[-1] = np.inf
        columns = A.centred(centre)
        spread = columns.maxima()
        # Divided by the largest entry before squaring: 1e200 and 1e-200 are legitimate values.
        safe = np.where(spread > 0, spread, 1.0)
        rms = np.sqrt(columns.weighted_squares(s, safe) / s.sum())
        # A column that centring has turned into rounding noise carries nothing: scale 0 fixes its variable.
        scale = np.where(spread > 1e-14 * largest, safe * np.maximum(rms, 1e-4), 0.0)
        weakest = 1.0
        if not rows.ridge.any():
            dependent, weakest = columns.dependent(scale)
            scale[dependent] = 0.0
        unit = _typical_margin(rows, origin)
        held = (rows.ridge > 0) & (scale > 0)
        if held.any():
            mass = unit * power_of_two(float(np.median(rows.ridge[held] / scale[held] / scale[held])))
        else:
            mass = power_of_two(float(np.median(rows.weight)))
        return cls(origin, centre, scale, weakest, unit, mass)

    def apply(self, rows: HingeRows) -> HingeRows:
        """The rows in terms of w; free coordinates have the origin's margins at w = 0."""
        inverse = np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale > 0)
        margins = rows.margins(self.origin)
        typical = float(rows.weight @ np.abs(margins) / rows.weight.sum())
        return HingeRows(
            rows.A.centred(self.centre).scaled_columns(inverse),
            margins / self.unit,
            rows.weight / self.mass,
            rows.tilt,
            np.where(self.scale > 0, rows.ridge * inverse * inverse * (self.unit / self.mass), rows.ridge),
            EPS * (np.abs(rows.e) + abs(rows.A) @ np.abs(self.origin)) / self.unit,
            typical / self.unit / self.weakest,
            rows.n_jobs,
        )

    def to_point(self, w: Float) -> Float:
        v = np.divide(w * self.unit, self.scale, out=np.zeros_like(w), where=self.scale > 0)
        v[-1] -= self.centre[:-1] @ v[:-1]
        return self.origin + v

    def to_dual(self, p: Float) -> Float:
        return p * self.mass

    def to_coordinates(self, point: Float) -> Float:
        v = point - self.origin
        v[-1] += self.centre[:-1] @ v[:-1]
        return v * (self.scale / self.unit)


def _typical_margin(rows: HingeRows, origin: Float) -> float:
    """A power of two near the median of the margins at a point that are more than rounding errors."""
    size = np.abs(rows.margins(origin))
    size = size[size > 8 * EPS * (np.abs(rows.e) + abs(rows.A) @ np.abs(origin))]
    return power_of_two(float(np.median(size))) if len(size) else 1.0
