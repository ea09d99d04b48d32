"""The aggregated problem of every convex model here: a weighted sum of tilted hinges.

    minimise over v   1/2 v'Pv + q'v + sum_k s_k max((1 - c_k) z_k, -c_k z_k) + constant,     z = e - A v

with P diagonal and a tilt c_k in [0, 1]: c = 0 is the hinge of the SVM (paper, eq. for F^t), c = 1 - tau
the check function of a quantile (c = 1/2, s = 2 the absolute value of LAD). A constraint ``a_k'v >= e_k`` is a hinge of
infinite weight: z_k <= 0 costs nothing, anything else is not allowed. The dual is

    maximise over p   e'p - 1/2 (A'p - q)' P^+ (A'p - q) + constant
    subject to        -c_k s_k <= p_k <= (1 - c_k) s_k,   (A'p)_j = q_j wherever P_jj = 0

where the box of a constraint, its multiplier, is [0, inf). The point p = 0 is in every box, and feasible where q is 0
in the coordinates without P.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.linear.rows.hybrid import joined
from aidlearn.linear.rows.matrix import Dense, Matrix
from aidlearn.linear.rows.normal import Normal
from aidlearn.numerics import EPS as EPS
from aidlearn.numerics import Float

NO_INTERCEPT = 1e-14
"""Mean of signs up to which no cluster contains information about the intercept."""


@dataclass(frozen=True)
class BasisSettings:
    """Settings of the change of variables."""

    nothing_left: float = 1e-14
    """Size of a centred column, relative to the original one, up to which it is rounding error."""
    least_rms: float = 1e-4
    """Guess. Least root mean square, relative to the largest entry, by which a column is divided."""
    rounded: float = 1e-9
    """Size of a margin, relative to the larger ones, below which it is rounding error."""
    least_unit: float = 1e-4
    """Guess. Least unit of margins, relative to the room that constraints leave."""


SETTINGS = BasisSettings()


def power_of_two(size: float) -> float:
    """Return the largest power of two up to a size (1 for 0), a unit that costs no digits."""
    return math.ldexp(0.5, math.frexp(size)[1]) if size > 0 else 1.0


class NearlyCollinear(ArithmeticError):
    """The columns are so nearly collinear that the rows should be computed in other coordinates."""


@dataclass(frozen=True)
class HingeRows:
    """The rows ``(a_k, e_k)`` with their weights and tilts, and the diagonal of P."""

    A: Matrix
    e: Float
    weight: Float
    """Weights of the rows; those of constraints, which come last, are infinite."""
    tilt: Float
    ridge: Float
    noise: Float | float = 0.0
    """Rounding error of the margins in e, from the change of origin."""
    span: float = 0.0
    """Distance at which an optimum may lie from the origin in a coordinate: a typical margin over the smallest
    singular value of A. Rounding errors in the dual equalities are charged at this size."""
    n_jobs: int = 1
    """Number of threads for Gram matrices."""
    linear: Float | None = None
    """The vector q (None: 0)."""
    constant: float = 0.0
    least_pivot: float = 0.0
    """Relative pivot of the columns, below which a solver raises :class:`NearlyCollinear`."""

    @classmethod
    def of_array(cls, A: Float, e: Float, weight: Float, tilt: Float, ridge: Float) -> HingeRows:
        """Return the rows of a dense array."""
        return cls(Dense(A), e, weight, tilt, ridge)

    def normal(self, D: Float, cut: float = 0.0) -> Normal:
        """Return ``A' diag(D) A``; rows whose part is below ``cut`` times the largest may be left out."""
        if cut > 0:
            A, D = self.A.heaviest(D, cut)
            return A.normal(D, self.n_jobs)
        return self.A.normal(D, self.n_jobs)

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Mask of the coordinates that P does not penalise, for which the dual has equalities."""
        return self.ridge == 0

    @cached_property
    def n_soft(self) -> int:
        """Number of rows that are not constraints."""
        return int(np.isfinite(self.weight).sum())

    @property
    def constrained(self) -> bool:
        """Whether there are constraints or a linear term."""
        return self.linear is not None or self.n_soft < len(self.e)

    @cached_property
    def lower(self) -> Float:
        lower, n = np.zeros(len(self.weight)), self.n_soft
        np.multiply(-self.tilt[:n], self.weight[:n], out=lower[:n])
        return lower

    @property
    def upper(self) -> Float:
        return (1 - self.tilt) * self.weight

    @property
    def zero_is_feasible(self) -> bool:
        """Whether p = 0 is dual feasible."""
        return self.linear is None or not self.linear[self.free].any()

    def margins(self, v: Float) -> Float:
        return self.e - self.A @ v

    @property
    def rounding(self) -> float:
        """Rounding error of a value, below which no solver can prove a gap."""
        n = self.n_soft
        noise = self.noise[:n] if isinstance(self.noise, np.ndarray) else self.noise
        return float(self.weight[:n] @ (EPS * np.abs(self.e[:n]) + noise)) + EPS * abs(self.constant)

    def value(self, v: Float) -> float:
        """Return the primal objective at v, even if v violates constraints."""
        value = self.penalised_loss(v, self.margins(v))
        return value + self.constant + (0.0 if self.linear is None else float(self.linear @ v))

    def penalised_loss(self, v: Float, margins: Float) -> float:
        """Return the weighted losses plus the penalty at v, given its margins; the sum is never negative."""
        n = self.n_soft
        z, tilt = margins[:n], self.tilt[:n]
        loss = np.maximum((1 - tilt) * z, -tilt * z)
        return float(self.weight[:n] @ loss + 0.5 * self.ridge @ v**2)

    def violation(self, v: Float) -> float:
        """Return the largest violation of a constraint at v."""
        if self.n_soft == len(self.e):
            return 0.0
        return max(float(self.margins(v)[self.n_soft :].max()), 0.0)


@dataclass(frozen=True)
class Basis:
    """Change of variables ``v = origin + T w`` that makes columns comparable, and units for margins and weights.

    If the last column is a free intercept, it centres all columns that are not sparse (slopes stay slopes, so P stays
    diagonal). Columns are then divided by their root mean square. Only free coordinates are shifted: large offsets of
    the target cancel once, in the margins at the origin.

    Margins are in multiples of ``unit``, weights of ``mass`` and values of ``unit * mass``, so that solvers only see
    problems of ordinary size, whatever the scales of y, the columns and the weights.
    """

    origin: Float
    centre: Float
    scale: Float
    weakest: float = 1.0
    """Estimated smallest singular value of the scaled rows, relative to the largest."""
    unit: float = 1.0
    """Unit of margins: about their median at the origin."""
    mass: float = 1.0
    """Unit of weights: about their median, or with a ridge the unit in which the ridge is about 1."""
    row_units: Float | None = None
    """Factors of the constraints, which make them comparable with the other rows."""

    @classmethod
    def of(cls, rows: HingeRows, point: Float | None, has_intercept: bool) -> Basis:
        n, K = rows.n_soft, len(rows.e)
        A, weight = rows.A if n == K else rows.A.part(0, n), rows.weight[:n]
        s = weight / weight.max()
        origin = np.zeros(A.shape[1]) if point is None else np.where(rows.free, point, 0.0)
        centre = np.zeros(A.shape[1])
        largest = A.maxima()
        if has_intercept:
            one = A.column(-1)
            # Its cells are means of signs: clusters that mix two classes evenly leave at most rounding errors.
            if np.abs(one).max() > NO_INTERCEPT:
                centre[:-1] = np.where(A.centrable[:-1], A.slope_products(s * one) / (s @ one**2), 0.0)
            else:
                largest[-1] = np.inf
        columns = A.centred(centre)
        spread = columns.maxima()
        # Columns are divided by their largest entry before squaring: 1e200 and 1e-200 are legitimate values.
        safe = np.where(spread > 0, spread, 1.0)
        rms = np.sqrt(columns.weighted_squares(s, safe) / s.sum())
        # A column that centring has turned into rounding noise carries no information: scale 0 fixes its variable.
        scale = np.where(spread > SETTINGS.nothing_left * largest, safe * np.maximum(rms, SETTINGS.least_rms), 0.0)
        row_units = None
        if n < K:
            given = rows.A.part(n, K)
            limits = given.centred(centre)
            # A variable that occurs in no other row takes its scale from its constraints.
            sizes = limits.maxima()
            scale = np.where(scale > 0, scale, np.where(sizes > SETTINGS.nothing_left * given.maxima(), sizes, 0.0))
            inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
            sizes = abs(limits) @ inverse
            row_units = np.divide(1.0, sizes, out=np.ones_like(sizes), where=sizes > 0)
            columns = joined([columns, limits.scaled_rows(row_units)])
        if rows.linear is not None:
            pull, size = np.abs(rows.linear - centre * rows.linear[-1]), np.abs(rows.linear)
            pulled = pull > SETTINGS.nothing_left * (size + np.abs(centre) * size[-1])
            scale = np.where(scale > 0, scale, pulled.astype(np.float64))
        weakest = 1.0
        if not rows.ridge.any():
            dependent, weakest = columns.dependent(scale)
            if rows.linear is None:  # a linear term may distinguish columns that are equal in all rows
                scale[dependent] = 0.0
        unit = _typical_margin(A, rows.e[:n], origin)
        if rows.linear is not None and row_units is not None:
            # If margins vanish, a linear term moves the point as far as constraints allow.
            room = np.abs(rows.e[n:] - rows.A.part(n, K) @ origin) * row_units
            unit = max(unit, power_of_two(SETTINGS.least_unit * float(np.median(room)))) if room.any() else unit
        held = (rows.ridge > 0) & (scale > 0)
        if held.any():
            mass = unit * power_of_two(ranked(rows.ridge[held] / scale[held] / scale[held], 0.5))
        else:
            mass = power_of_two(ranked(weight, 0.5))
        return cls(origin, centre, scale, weakest, unit, mass, row_units)

    def apply(self, rows: HingeRows) -> HingeRows:
        """Return the rows in terms of w, whose margins at w = 0 are those at the origin."""
        inverse = np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale > 0)
        margins, n = rows.margins(self.origin), rows.n_soft
        typical = float(rows.weight[:n] @ np.abs(margins[:n]) / rows.weight[:n].sum())
        A = rows.A.centred(self.centre).scaled_columns(inverse)
        e = margins / self.unit
        noise = EPS * (np.abs(rows.e) + abs(rows.A) @ np.abs(self.origin)) / self.unit
        if self.row_units is not None:
            units = np.concatenate([np.ones(n), self.row_units])
            A, e, noise = A.scaled_rows(units), e * units, noise * units
        linear, constant = None, rows.constant
        if rows.linear is not None:
            linear = rows.linear.copy()
            linear[:-1] -= self.centre[:-1] * linear[-1]
            linear *= inverse / self.mass
            constant += float(rows.linear @ self.origin)
        return HingeRows(
            A,
            e,
            rows.weight / self.mass,
            rows.tilt,
            np.where(self.scale > 0, rows.ridge * inverse * inverse * (self.unit / self.mass), rows.ridge),
            noise,
            typical / self.unit / self.weakest,
            rows.n_jobs,
            linear,
            constant / (self.unit * self.mass),
        )

    def to_point(self, w: Float) -> Float:
        v = np.divide(w * self.unit, self.scale, out=np.zeros_like(w), where=self.scale > 0)
        v[-1] -= self.centre[:-1] @ v[:-1]
        return self.origin + v

    def to_dual(self, p: Float) -> Float:
        dual = p * self.mass
        if self.row_units is not None:
            dual[len(dual) - len(self.row_units) :] *= self.row_units
        return dual

    def to_coordinates(self, point: Float) -> Float:
        v = point - self.origin
        v[-1] += self.centre[:-1] @ v[:-1]
        return v * (self.scale / self.unit)


def _typical_margin(A: Matrix, e: Float, origin: Float) -> float:
    """Return a power of two near the median of those margins at a point that exceed rounding errors."""
    size = np.abs(e - A @ origin)
    size = size[size > 8 * EPS * (np.abs(e) + abs(A) @ np.abs(origin))]
    if len(size):
        # If the point puts most rows on their kink, up to its own errors, the other rows set the unit.
        size = size[size >= SETTINGS.rounded * ranked(size, 0.9)]
    return power_of_two(ranked(size, 0.5)) if len(size) else 1.0


def ranked(values: Float, *parts: float) -> Any:
    """Return quantiles without interpolation, in a tenth of the time."""
    ranks = [int(part * (len(values) - 1)) for part in parts]
    found = np.partition(values, ranks)[ranks].tolist()
    return found[0] if len(parts) == 1 else found
