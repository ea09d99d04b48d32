"""Newton steps on the smoothed loss, for a start on growing samples and then on all entries.

Widths and distances are in units of leverage, ``s_i = |a_i|`` in the norm of the inverse Gram matrix. This makes the
start invariant to linear transformations of the columns and lets the coefficients of rare columns move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.engine.problem import Accuracy, Solution
from aidlearn.engine.sums import Sums
from aidlearn.linear.aggregated import interior_point
from aidlearn.linear.aggregated.hinge_rows import HingeRows
from aidlearn.linear.aggregated.solvers import solve_by_interior_point
from aidlearn.linear.constraints import Region, null_space
from aidlearn.linear.model.aggregated_problem import solve_aggregated
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import GramSum, Metric
from aidlearn.linear.passes import Passes
from aidlearn.linear.passes.records import LocalSums
from aidlearn.linear.rows.matrix import Dense, Matrix
from aidlearn.numerics import Float, regularised_cholesky


@dataclass(frozen=True)
class NewtonSettings:
    """Settings of a damped Newton step on the smoothed loss."""

    first_damping: float = 1e-2
    """Damping of the first step, and least damping on samples: these contain little information about rare columns,
    so the Gram matrix keeps its weight. With more damping, a short step does not mean that the optimum is close.
    Ablation (first_damping=1e-06): mean work 1.038, worst table 2.08."""
    least_damping: float = 1e-6
    """Guess. Least damping on all rows.
    Ablation (least_damping=0.01): mean work 1.015, worst table 2.19."""
    damping_factor: float = 10.0
    """Guess. Factor by which damping grows after a step that was too long and shrinks after a good one."""
    most_damping: float = 1e6
    """Guess. Damping at which a step is accepted whatever its length."""
    trust: float = 4.0
    """Guess. Radius of the trust region, in smoothing widths.
    Ablation (trust=inf): mean work 1.034, worst table 1.95."""
    least_near: float = 1e-4
    """Guess. Least share of rows near a kink, at the typical leverage sqrt(p / n), that the damping assumes."""
    hessian_rows_per_variable: int = 40
    """Rows per variable that determine a Hessian to within about ten percent."""
    hessian_rows: int = 5000
    """Guess. Least number of rows near a kink that a Hessian uses.
    Ablation (hessian_rows=1): mean work 1.001, worst table 1.19."""


SETTINGS = NewtonSettings()


@dataclass
class LocalModel:
    """Sums over rows of the true objective and the negative gradient, and the rows that make up the Hessian."""

    objective: float
    forces: Float
    near_rows: list[Matrix]
    """Rows ``sqrt(curvature_i) a_i`` near a kink, whose Gram matrix is the Hessian."""
    curvature: float
    _gram: GramSum = field(default_factory=GramSum)

    def add(self, other: LocalModel, n_jobs: int = 1) -> None:
        """Add the model of the next chunk."""
        self.objective += other.objective
        self.forces = self.forces + other.forces
        self.curvature += other.curvature
        self._gram.add(other.near_rows, n_jobs)

    def hessian(self, n_jobs: int = 1) -> Float:
        """Return the Gram matrix of the near rows, after all of them have been added."""
        self._gram.add(self.near_rows, n_jobs)
        self.near_rows = []
        return self._gram.whole(n_jobs)


def local_model(design: Design, chunk: Chunk, sums: LocalSums, leverage: Any, thin: int, passes: Passes) -> LocalModel:
    """Return the model of one chunk; its Hessian uses about one in ``thin`` of the rows near a kink."""
    near, curvature = sums.near, sums.curvature
    if thin > 1 and len(near):
        kept, factor = _thinned(leverage if np.ndim(leverage) == 0 else leverage[near], chunk.weight[near], thin)
        near, curvature = near[kept], curvature[kept] * factor
        if len(near):
            curvature *= sums.total_curvature / curvature.sum()
    rows = passes.scaled_rows(design, chunk, near, np.sqrt(curvature))
    return LocalModel(sums.objective, design.centred_forces(sums.forces), [rows], sums.total_curvature)


def _thinned(leverage: Any, weight: Float, thin: int) -> tuple[NDArray[np.intp], Any]:
    """Return about one in ``thin`` rows, and the weight of each.

    Half of the sampling rate is uniform and half is proportional to squared leverage: a factor level of a hundred
    rows keeps its part of the matrix, whereas taking every tenth row could leave it three rows or thirty.
    """
    if np.ndim(leverage) == 0:
        return np.arange(0, len(weight), thin), 1.0
    share = weight * np.asarray(leverage, dtype=np.float64) ** 2
    rate = np.minimum(1.0, (0.5 + 0.5 * share / share.mean()) / thin)
    # A row is kept wherever the cumulative rate passes a half-integer.
    passed = np.floor(np.cumsum(rate) + 0.5)
    kept = np.flatnonzero(np.diff(passed, prepend=0.0) > 0)
    return kept, 1.0 / rate[kept]


@dataclass
class Damping:
    """The Levenberg term, relative to the norms of the columns on all rows."""

    size: float = field(default_factory=lambda: SETTINGS.first_damping)
    least: float = field(default_factory=lambda: SETTINGS.least_damping)

    def more(self) -> None:
        """Increase the damping after a step that was too long."""
        self.size *= SETTINGS.damping_factor

    def less(self) -> None:
        """Decrease the damping after a good step."""
        self.size = max(self.least, self.size / SETTINGS.damping_factor)

    @property
    def negligible(self) -> bool:
        """Whether damping is so small that a short step means a close optimum."""
        return self.size <= SETTINGS.first_damping

    @property
    def relaxed(self) -> bool:
        """Whether good steps have reduced the damping below that of the first step."""
        return self.size < SETTINGS.first_damping


def newton_step(
    design: Design, point: Float, model: LocalModel, kappa: float, damping: Damping, metric: Metric
) -> Float:
    """Solve ``(H + damping) d = -gradient`` for the smoothed objective, in centred coordinates."""
    hessian = model.hessian(metric.n_jobs).copy()
    gradient = design.penalty_gradient(point)
    if design.fit_intercept and design.linear is not None:
        gradient[:-1] -= design.centre * design.linear[-1]  # a slope moves the intercept too
    gradient -= model.forces
    # The Gram matrix covers every column, including those without a row near a kink. Its weight assumes that at least
    # a few rows in ten thousand are near a kink, at the typical leverage sqrt(p / n).
    typical = kappa * math.sqrt(len(point) / design.weight)
    curvature = max(model.curvature, SETTINGS.least_near * design.loss.scale * design.weight / typical)
    hessian += (damping.size * curvature / design.weight) * metric.gram
    diagonal = np.diag_indices_from(hessian)
    design.add_quadratic(hessian)
    if design.l1 > 0:
        m = design.n_attributes
        # |w_j| is smoothed over the width that a kink of unit leverage has in this coordinate.
        width = kappa / np.sqrt(np.maximum(design.column_squares[:m], 1e-300))
        gradient[:m] += design.l1 * np.clip(point[:m] / width, -1, 1)
        hessian[np.arange(m), np.arange(m)] += design.l1 * (np.abs(point[:m]) < width) / width
    if design.region is not None:
        return step_within(design, design.region, hessian, gradient, point)
    size = np.sqrt(np.maximum(hessian[diagonal], 1e-300))
    scaled = hessian / np.outer(size, size)
    factor = regularised_cholesky(scaled)
    return np.asarray(-linalg.cho_solve((factor, False), gradient / size, check_finite=False) / size)


def bounded_step(
    design: Design, point: Float, model: LocalModel, kappa: float, damping: Damping, metric: Metric
) -> tuple[Float, float]:
    """Return a Newton step, damped until it lies inside the trust region, and its length."""
    while True:
        step = newton_step(design, point, model, kappa, damping, metric)
        length = metric.length(step)
        if length <= SETTINGS.trust * kappa or damping.size >= SETTINGS.most_damping:
            return step, length
        damping.more()


def thinning(n_near: float, p: int, enough: float = 0.0) -> int:
    """Return the k for which every k-th near row, at least ``enough`` rows, determines the Hessian to ten percent."""
    return max(1, int(n_near / max(SETTINGS.hessian_rows_per_variable * p, SETTINGS.hessian_rows, enough)))


def quantile_width(nearness: Float, fraction: float) -> float:
    """Return the distance to a kink (in leverages) within which a given fraction of the rows lies."""
    rank = min(len(nearness) - 1, max(0, math.ceil(fraction * len(nearness)) - 1))
    return max(float(np.partition(nearness, rank)[rank]), 1e-150)


def at_quantile(design: Design, sample: Chunk, point: Float) -> Float:
    """Return the point with its intercept moved to the optimal quantile of the sample's residuals."""
    if not design.fit_intercept or len(design.loss.kinks) != 1:
        return point
    shifted = point.copy()
    residual = design.margins(sample, point)
    # There the derivative with respect to the intercept, q_b - sum_i s_i slope(z_i), is 0.
    above = design.loss.tilts[0]
    if design.linear is not None:
        above += float(design.linear[-1]) / (design.loss.scale * design.weight)
    order = np.argsort(residual)
    below = np.cumsum(sample.weight[order])
    at = np.searchsorted(below, min(max(1 - above, 0.0), 1.0) * below[-1])
    shifted[-1] += float(residual[order[min(at, len(order) - 1)]])
    return shifted


def balanced_sample(design: Design, sample: Chunk, size: int) -> Chunk:
    """Return rows of a sample with classes as balanced as possible, weighted to represent the whole sample."""
    sign, _ = design.loss.fold(sample.y)
    assert sign is not None
    classes = [np.flatnonzero(sign > 0), np.flatnonzero(sign < 0)]
    rare = min(len(rows) for rows in classes)
    parts = []
    for rows in classes:
        wanted = max(size // 2, size - rare) if len(rows) > rare else size // 2
        if len(rows) == 0:
            continue
        chosen = sample.select(rows[:: max(1, len(rows) // max(wanted, 1))])
        total = float(sample.weight[rows].sum())
        if chosen.weight.sum() > 0:
            parts.append(chosen.weighing(total))
    return join(parts)


def solved(
    design: Design, sample: Chunk, deadline: float = math.inf, n_jobs: int = 1, accuracy: float = 1e-3
) -> Solution:
    """Fit a sample with the aggregated solver, which stops at the deadline."""
    sums = Sums.of(np.zeros((0, design.n_variables + 2)), [design.sums_alone(sample)])
    wanted = Accuracy(accuracy, deadline, duals=False)
    return solve_aggregated(design, sums, None, wanted, solve_by_interior_point, n_jobs)


STEP_ACCURACY = 1e-6
"""Accuracy of a Newton step within a region, relative to its gain."""


def step_within(design: Design, region: Region, hessian: Float, gradient: Float, point: Float) -> Float:
    """Return ``argmin 1/2 d'Hd + g'd`` over the steps d (in centred coordinates) from a point that stay in the region.

    With H = L L' on the steps that satisfy the equations, the interior point solves this as a problem without losses,
    ``1/2 x'x + q'x`` subject to the inequalities.
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
    """Convert constraints on points to constraints on steps in centred coordinates."""
    if not design.fit_intercept:
        return rows
    moved = rows.copy()
    moved[:, :-1] -= np.outer(rows[:, -1], design.centre)
    return moved


def nearest(design: Design, region: Region, gram: Float, point: Float) -> Float:
    """Return the point of a region whose predictions are closest to those of a given point."""
    if region.contains(point):
        return region.inside(point)
    away = region.centre - point
    if design.fit_intercept:
        away[-1] += design.centre @ away[:-1]
    step = step_within(design, region, gram, gram @ away, region.centre)
    return region.inside(region.centre + design.step(step))
