"""The aggregated problem of every convex model here: a weighted sum of tilted hinges.

    minimise over v   1/2 v'Pv + sum_k s_k max((1 - c_k) z_k, -c_k z_k),     z = e - A v

with P diagonal and a tilt c_k in [0, 1]: c = 0 is the hinge of the SVM (paper, eq. for F^t), c = 1 - tau
the check function of a quantile (c = 1/2, s = 2 the absolute value of LAD). Its dual is

    maximise over p   e'p - 1/2 (A'p)' P^+ (A'p)
    subject to        -c_k s_k <= p_k <= (1 - c_k) s_k,   (A'p)_j = 0 wherever P_jj = 0

and p = 0 is always feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.data.source import Float

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class HingeRows:
    """Rows ``(a_k, e_k)`` with weight and tilt, and the diagonal of P."""

    A: Float
    e: Float
    weight: Float
    tilt: Float
    ridge: Float
    noise: Float | float = 0.0
    """Rounding error of the margins that the origin of the coordinates has left in e."""
    span: float = 0.0
    """How far an optimum may lie from the origin in a coordinate: a typical margin over the smallest
    singular value of A. What rounding leaves of the dual equalities is charged at this size."""

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

    def value(self, v: Float) -> float:
        """The primal objective at v."""
        z = self.margins(v)
        loss = np.maximum((1 - self.tilt) * z, -self.tilt * z)
        return float(self.weight @ loss + 0.5 * self.ridge @ v**2)


@dataclass(frozen=True)
class Basis:
    """Change of variables ``v = origin + T w`` that makes the columns of A comparable.

    Columns are centred through the last one when that is a free intercept (slopes stay slopes, so P
    stays diagonal), then divided by their root mean square. Only free coordinates are shifted: large
    offsets of the target cancel once, in the margins at the origin.
    """

    origin: Float
    centre: Float
    scale: Float
    weakest: float = 1.0
    """Smallest singular value (estimated) of the scaled rows, relative to the largest."""

    @classmethod
    def of(cls, rows: HingeRows, point: Float | None, has_intercept: bool) -> Basis:
        A, s = rows.A, rows.weight / rows.weight.max()
        origin = np.zeros(A.shape[1]) if point is None else np.where(rows.free, point, 0.0)
        centre = np.zeros(A.shape[1])
        largest = np.abs(A).max(axis=0)
        if has_intercept:
            one = A[:, -1]
            centre[:-1] = (s * one) @ A[:, :-1] / (s @ one**2)
        columns = _centred(A, centre)
        spread = np.abs(columns).max(axis=0)
        # Divided by the largest entry before squaring: 1e200 and 1e-200 are legitimate values.
        safe = np.where(spread > 0, spread, 1.0)
        rms = np.sqrt(s @ (columns / safe) ** 2 / s.sum())
        # A column that centring has turned into rounding noise carries nothing: scale 0 fixes its variable.
        scale = np.where(spread > 1e-14 * largest, safe * np.maximum(rms, 1e-4), 0.0)
        weakest = 1.0
        if not rows.ridge.any():
            dependent, weakest = _dependent(columns, scale)
            scale[dependent] = 0.0
        return cls(origin, centre, scale, weakest)

    def apply(self, rows: HingeRows) -> HingeRows:
        """The rows in terms of w; free coordinates have the origin's margins at w = 0."""
        inverse = np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale > 0)
        margins = rows.margins(self.origin)
        typical = float(rows.weight @ np.abs(margins) / rows.weight.sum())
        return HingeRows(
            _centred(rows.A, self.centre) * inverse,
            margins,
            rows.weight,
            rows.tilt,
            np.where(self.scale > 0, rows.ridge * inverse**2, rows.ridge),
            EPS * (np.abs(rows.e) + np.abs(rows.A) @ np.abs(self.origin)),
            typical / self.weakest,
        )

    def to_point(self, w: Float) -> Float:
        v = np.divide(w, self.scale, out=np.zeros_like(w), where=self.scale > 0)
        v[-1] -= self.centre[:-1] @ v[:-1]
        return self.origin + v

    def to_coordinates(self, point: Float) -> Float:
        v = point - self.origin
        v[-1] += self.centre[:-1] @ v[:-1]
        return v * self.scale


def _centred(A: Float, centre: Float) -> Float:
    return A - np.outer(A[:, -1], centre) if centre.any() else A


def _dependent(columns: Float, scale: Float) -> tuple[NDArray[np.intp], float]:
    """Columns that are combinations of others up to rounding, and the smallest relative pivot of the rest.

    Their variables stay at the origin. Moving them could only exploit rounding errors: with a relative pivot of
    5e-15, coefficients large enough to matter make ``x'v`` itself wrong by a percent.
    """
    used = np.flatnonzero(scale)
    scaled = columns[:, used] / scale[used]
    gram = scaled.T @ scaled
    try:
        factor = np.diag(linalg.cholesky(gram, check_finite=False))
        weakest = float(factor.min(initial=np.inf) / factor.max(initial=0.0)) if len(factor) else 1.0
        if weakest > 1e-5:
            return used[:0], weakest
    except linalg.LinAlgError:
        pass
    _, triangle, order = linalg.qr(scaled, mode="economic", pivoting=True, check_finite=False)
    pivots = np.abs(np.diag(triangle))
    rank = int((pivots > 5e-15 * len(pivots) ** 0.5 * pivots[0]).sum()) if len(pivots) else 0
    return used[order[rank:]], float(pivots[rank - 1] / pivots[0]) if rank else 1.0
