"""One problem on the near rows of a corridor: Newton steps on the smoothed loss, and a dual that proves a bound.

With every kink rounded off over ``+- h_i``, the optimum of the smoothed problem is dual feasible: the slopes of the
losses, ``p_i = s_i ((1/2 - c) + clip(z_i / h_i) / 2)``, satisfy ``A'p = P v``. Its duality gap is the cost of the
smoothing,

    sum over |z_i| < h_i of   s_i |z_i| / 2 (1 - |z_i| / h_i),

so the width follows from the tolerance. If too few rows lie within this width, an interior-point method takes over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from aidlearn.engine.problem import Accuracy
from aidlearn.engine.sums import Sums
from aidlearn.linear.aggregated.certificate import certify
from aidlearn.linear.aggregated.hinge_rows import Basis, HingeRows
from aidlearn.linear.aggregated.solvers import solve_by_interior_point
from aidlearn.linear.model.aggregated_problem import aggregated_rows
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric
from aidlearn.linear.passes import Passes
from aidlearn.linear.passes.records import Reach, RowsBetween
from aidlearn.linear.start.newton import Damping, LocalModel, bounded_step, local_model, thinning
from aidlearn.neighbours.corridors import Near, picked, taken
from aidlearn.numerics import Float, Int
from aidlearn.trace import MOST_CLUSTERS, Profile


@dataclass(frozen=True)
class MemberSettings:
    """Settings of a member's problem on near rows."""

    smoothed: float = 0.3
    """Guess. Fraction of the tolerance that smoothing may cost."""
    enough: float = 0.6
    """Guess. Fraction of the tolerance for the gap on near rows; the rest is for far rows that change sides."""
    fewest: tuple[int, int] = (4, 50)
    """Guess. Minimum rows within the width: per variable, and in addition."""
    most: tuple[int, int] = (40, 500)
    """Guess. Maximum rows within the width, per variable and in addition: more only make the bound cost more."""
    finer: float = 20.0
    """Guess. Largest factor by which the width shrinks to meet the maximum of rows."""
    most_steps: int = 20
    """Guess. Maximum number of Newton steps."""
    close: float = 0.05
    """Guess. Step length, in widths, at which Newton steps end: the dual then needs only a small repair."""
    narrow: float = 6.0
    """Guess. Distance within which rows enter a step, in expected distances from the solution."""
    widths: float = 3.0
    """Guess. Least distance within which rows enter a step, in widths of the smoothing."""
    enough_rows: int = 2
    """Guess. Minimum rows in a step, as a multiple of the maximum rows within the width."""
    exact_attempts: int = 4
    """Guess. Maximum number of solutions by an interior-point method."""
    most_exact: int = 20_000
    """Guess. Number of rows beyond which another interior-point solution costs more than a fit on all rows."""
    narrowed: int = 4
    """Guess. Maximum number of starts of a member, each on more rows."""
    worth_narrowing: float = 0.7
    """Guess. Largest fraction of the rows for which leaving out the others pays."""


SETTINGS = MemberSettings()


@dataclass(frozen=True)
class NearSolution:
    """A solution of a member on near rows, with its proven bound."""

    point: Float
    lower_bound: float
    way: float
    """Distance from the start, in leverages."""
    width: float
    """Width of the smoothing, in leverages."""
    n_clusters: int
    profile: Profile


class Neighbour:
    """A member of a batch on the near rows of its corridor."""

    def __init__(self, design: Design, near: Near, metric: Metric, tol: float, passes: Passes, n_jobs: int) -> None:
        self.design, self.whole, self.metric, self.tol = design, near, metric, tol
        self.passes, self.n_jobs = passes, n_jobs
        loss = design.loss
        regions = np.arange(loss.n_regions)[:, None]
        above = np.arange(len(loss.kinks))[None, :] < regions
        _, tilts, jumps = np.array(loss.parts).T
        self.sides = jumps * np.where(above, 1 - tilts, -tilts)
        """Slope of each kink's part of the loss (over the scale) in each region."""

    def solve(self, point: Float, error: float, width: float = 0.0) -> NearSolution:
        """Solve from a start that is about ``error`` leverages away from the solution.

        ``width`` is the smoothing width of a similar problem, if one was solved.
        """
        start, reach = point, max(SETTINGS.narrow * error, SETTINGS.widths * width)
        near, reach = self.narrowed(point, reach)
        for attempt in range(SETTINGS.narrowed):
            width, exact = self._width(near, point, reach / SETTINGS.widths)
            point, length = self._descend(near, point, max(width, error / 2), width)
            way = self.metric.length(self._centred(point - start))
            if near is self.whole or way <= reach / 3 or attempt == SETTINGS.narrowed - 1:
                break
            error = 2 * way
            near, reach = self.narrowed(point, max(SETTINGS.narrow * error, SETTINGS.widths * width))
        found = None if exact else self._smoothed(near, point, width)
        if found is None:
            found = self._exact(near, point, max(width, 2 * length))
        return replace(found, way=way, width=width)

    def _centred(self, change: Float) -> Float:
        """Return a change of the point in centred coordinates."""
        if not self.design.fit_intercept:
            return change
        centred = change.copy()
        centred[-1] += self.design.centre @ change[:-1]
        return centred

    # Rows

    def narrowed(self, point: Float, reach: float) -> tuple[Near, float]:
        """Return the rows within a distance with sums of the others, and the distance; all if that saves too little."""
        near = self.whole
        enough = SETTINGS.enough_rows * (SETTINGS.most[0] * self.design.n_variables + SETTINGS.most[1])
        for _ in range(3):
            if not math.isfinite(reach) or near.rows.n_entries <= enough:
                break
            found = self._within(near, point, reach)
            n_kept = len(found.near)
            if n_kept > SETTINGS.worth_narrowing * near.rows.n_entries:
                break
            if n_kept >= enough:
                return _kept(near, found), reach
            reach *= min(1.5 * enough / max(n_kept, 1), 100.0)
        return near, math.inf

    def _within(self, near: Near, point: Float, reach: float) -> RowsBetween:
        """Return the rows within a distance of a kink, and the sums of all others."""
        limits = Reach(reach, wider=0.0, carries=math.inf)
        return self.passes.between(self.design, near.rows, self.design.planes(point), near.leverage, limits)

    # Groups

    def _value(self, sums: Float, point: Float) -> float:
        """Return the loss of the groups, each on its side."""
        loss, p = self.design.loss, self.design.n_variables
        value = 0.0
        for side, kink in zip(self.sides.T, loss.kinks, strict=True):
            value += float(side @ (sums[:, p] - sums[:, :p] @ point - kink * sums[:, -1]))
        return loss.scale * value

    def _forces(self, sums: Float) -> Float:
        """Return the negative gradient of the loss of the groups, in centred coordinates."""
        p = self.design.n_variables
        forces = self.design.loss.scale * (self.sides.sum(axis=1) @ sums[:, :p])
        return self.design.centred_forces(forces if self.design.fit_intercept else np.append(forces, 0.0))

    def objective(self, near: Near, point: Float) -> float:
        """Return the objective on near rows and groups, with the penalty."""
        z = self.design.margins(near.rows, point)
        return self.design.losses(near.rows, z) + self._value(near.sums, point) + self.design.penalty(point)

    # Newton steps

    def _width(self, near: Near, point: Float, widest: float) -> tuple[float, bool]:
        """Return the smoothing width that the tolerance allows, and whether an interior-point method must follow."""
        design, n_least = self.design, SETTINGS.fewest[0] * self.design.n_variables + SETTINGS.fewest[1]
        z = design.margins(near.rows, point)
        objective = design.losses(near.rows, z) + self._value(near.sums, point) + design.penalty(point)
        spread = np.asarray(near.leverage, dtype=np.float64)
        used = near.rows.weight > 0
        distance = design.loss.distance(z) / spread
        distance = distance[used]
        weight = (near.rows.weight * spread)[used] * design.loss.scale
        if len(distance) <= n_least:
            return max(float(distance.max(initial=0.0)), 1e-150), True
        allowed = SETTINGS.smoothed * self.tol * abs(objective)
        least = max(float(np.partition(distance, n_least)[n_least]), 1e-9 * float(distance.mean()), 1e-150)
        width, widest, cost = least, max(least, widest), 0.0
        for _ in range(20):
            inside = distance < width
            part = distance[inside]
            cost = float(weight[inside] @ (0.5 * part * (1 - part / width)))
            factor = math.sqrt(allowed / cost) if cost > 0 else 10.0
            width = min(max(width * min(factor, 10.0), least), widest)
            if width in (least, widest) or 0.8 < factor < 1.25:
                break
        n_most = SETTINGS.most[0] * design.n_variables + SETTINGS.most[1]
        if np.count_nonzero(distance < width) > n_most:
            # Ties at a kink say nothing about the width.
            width = max(float(np.partition(distance, n_most)[n_most]), width / SETTINGS.finer, least)
        few = width <= least and cost > allowed
        return width, few or design.l1 > 0

    def _model(self, near: Near, point: Float, kappa: float, smooth: bool) -> LocalModel:
        """Return the model at a point; with ``smooth``, its objective is that of the smoothed loss."""
        design = self.design
        sums = self.passes.local_sums(design, near.rows, point, near.leverage, kappa)
        thin = thinning(len(sums.near), design.n_variables)
        model = local_model(design, near.rows, sums, near.leverage, thin, self.passes)
        model.objective += self._value(near.sums, point) + design.penalty(point)
        model.forces = model.forces + self._forces(near.sums)
        if smooth:
            inside = taken(near.rows, sums.near)
            z = design.margins(inside, point)
            h = kappa * np.asarray(picked(near.leverage, sums.near), dtype=np.float64)
            for kink, _, jump in design.loss.parts:
                missing = np.maximum(h - np.abs(z - kink), 0.0)
                model.objective += design.loss.scale * jump * float(inside.weight @ (missing**2 / (4 * h)))
        return model

    def _descend(self, near: Near, point: Float, kappa: float, final: float) -> tuple[Float, float]:
        """Take Newton steps while the width shrinks to the final one; return the point and the last step's length."""
        design, damping = self.design, Damping(size=1e-6, least=1e-9)
        model, length = self._model(near, point, kappa, kappa == final), kappa
        for _ in range(SETTINGS.most_steps):
            step, length = bounded_step(design, point, model, kappa, damping, self.metric)
            if kappa == final and length <= SETTINGS.close * final and damping.negligible:
                return point + design.step(step), length
            trial = point + design.step(step)
            narrower = max(final, kappa / 4, min(kappa, length / 2))
            there = self._model(near, trial, narrower, narrower == final)
            # Objectives of different widths are not comparable, so a step that narrows the width is always accepted.
            if kappa == narrower and not there.objective <= model.objective * (1 + 1e-13):
                damping.more()
                continue
            damping.less()
            point, model, kappa = trial, there, narrower
        return point, max(length, kappa)

    # Bounds

    def _aggregated(self, near: Near, point: Float, reach: float) -> tuple[HingeRows, Near]:
        """Return the aggregated rows and their sources: single rows within a distance, sums of the others by region."""
        kept = _kept(near, self._within(near, point, reach))
        sums = Sums.of(kept.sums, [self.design.sums_alone(kept.rows)])
        return aggregated_rows(self.design, sums, self.n_jobs), kept

    def _smoothed(self, near: Near, point: Float, kappa: float) -> NearSolution | None:
        """Return the solution with the bound that the slopes of the smoothed losses prove; None if it is too low."""
        design, loss = self.design, self.design.loss
        rows, kept = self._aggregated(near, point, kappa)
        z = design.margins(kept.rows, point)
        h = kappa * np.asarray(kept.leverage, dtype=np.float64)
        weight = np.append(kept.sums[:, -1], kept.rows.weight)
        used = weight > 0
        dual = []
        for k, (kink, tilt, jump) in enumerate(loss.parts):
            slopes = jump * (0.5 - tilt + 0.5 * np.clip((z - kink) / h, -1, 1))
            dual.append(loss.scale * weight[used] * np.append(self.sides[:, k], slopes)[used])
        basis = Basis.of(rows, point, design.fit_intercept)
        scaled = basis.apply(rows)
        proven = certify(scaled, np.concatenate(dual) / basis.mass, basis.to_coordinates(point))
        bound = proven.bound * basis.unit * basis.mass
        value = self.objective(near, point)
        if value - bound > SETTINGS.enough * self.tol * abs(value):
            return None
        return self._found(point, bound, z, kept.counts)

    def _exact(self, near: Near, point: Float, reach: float) -> NearSolution:
        """Solve the aggregated problem by an interior-point method, on more rows until the gap is small enough."""
        design = self.design
        bound, found = -math.inf, None
        for attempt in range(SETTINGS.exact_attempts):
            rows, kept = self._aggregated(near, point, reach)
            if attempt and len(rows.e) > SETTINGS.most_exact:
                break
            accuracy = Accuracy(0.1 * self.tol, math.inf, duals=False)
            solution = solve_by_interior_point(rows, point, design.fit_intercept, accuracy, small=0)
            bound = max(bound, solution.lower_bound)
            value, before = self.objective(near, solution.point), self.objective(near, point)
            if value <= before:
                point, before = solution.point, value
            found = self._found(point, bound, design.margins(kept.rows, point), kept.counts)
            closed = before - bound <= SETTINGS.enough * self.tol * abs(before)
            if closed or kept.rows.n_entries == near.rows.n_entries:
                break
            reach *= 3
        assert found is not None
        return found

    def _found(self, point: Float, bound: float, z: Float, counts: Int) -> NearSolution:
        """Return the solution with a profile of its clusters; the caller adds ``way`` and ``width``."""
        far = counts[counts > 0]
        step = max(1, -(-len(z) // (MOST_CLUSTERS - len(far))))
        shown = self.design.loss.distance(z[::step])
        sizes = np.append(far, np.ones(len(shown), dtype=np.int64))
        furthest = float(np.abs(z).max(initial=0.0))
        profile = Profile(sizes, np.append(np.full(len(far), furthest), shown))
        return NearSolution(point, bound, 0.0, 0.0, len(z) + len(far), profile)


def _kept(near: Near, found: RowsBetween) -> Near:
    """Return the rows that were found near, with the others added to the sums."""
    rows, leverage = taken(near.rows, found.near), picked(near.leverage, found.near)
    return Near(rows, leverage, near.sums + found.sums, near.counts + found.counts)
