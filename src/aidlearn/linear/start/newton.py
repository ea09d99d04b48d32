"""A sharp start: Newton steps on the smoothed loss, on growing samples first and then on all entries.

Every width and distance is measured in units of leverage, ``s_i = |a_i|`` in the norm of the inverse Gram
matrix, which makes the start invariant to linear changes of the columns and lets rare columns move.
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
from aidlearn.linear.aggregated.solvers import solve_by_interior_point
from aidlearn.linear.model.aggregated_problem import solve_aggregated
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import GramSum, Metric
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.passes.protocol import Passes
from aidlearn.linear.passes.records import LocalSums
from aidlearn.linear.rows.matrix import Matrix
from aidlearn.linear.start.within_region import step_within
from aidlearn.numerics import Float, regularised_cholesky

FIRST_DAMPING = 1e-2
TRUST = 4.0
"""Longest step in smoothing widths."""


@dataclass
class Model:
    """Sums over rows: true objective, minus gradient, and the rows that make up the Hessian."""

    objective: float
    forces: Float
    near_rows: list[Matrix]
    """``sqrt(curvature_i) a_i`` of the rows near a kink: the Hessian is their Gram matrix."""
    curvature: float
    _gram: GramSum = field(default_factory=GramSum)

    def add(self, other: Model, n_jobs: int = 1) -> None:
        """Add the model of the next chunk."""
        self.objective += other.objective
        self.forces = self.forces + other.forces
        self.curvature += other.curvature
        self._gram.add(other.near_rows, n_jobs)

    def hessian(self, n_jobs: int = 1) -> Float:
        """Gram matrix of the near rows, once all of them are there."""
        self._gram.add(self.near_rows, n_jobs)
        self.near_rows = []
        return self._gram.whole(n_jobs)


def local_model(
    design: Design, chunk: Chunk, sums: LocalSums, leverage: Any, thin: int, passes: Passes = NUMPY
) -> Model:
    """The model of one chunk; the Hessian uses every ``thin``-th row near a kink."""
    near, curvature = sums.near, sums.curvature
    if thin > 1 and len(near):
        kept, factor = _thinned(leverage if np.ndim(leverage) == 0 else leverage[near], chunk.weight[near], thin)
        near, curvature = near[kept], curvature[kept] * factor
        if len(near):
            curvature *= sums.total_curvature / curvature.sum()
    rows = passes.scaled_rows(design, chunk, near, np.sqrt(curvature))
    return Model(sums.objective, design.centred_forces(sums.forces), [rows], sums.total_curvature)


def _thinned(leverage: Any, weight: Float, thin: int) -> tuple[NDArray[np.intp], Any]:
    """About one of ``thin`` rows, and what each stands for.

    Rows are taken as often as they matter, half by their number and half by the square of their leverage: a level of a
    hundred rows keeps its part of the matrix where every tenth row would leave it three or thirty.
    """
    if np.ndim(leverage) == 0:
        return np.arange(0, len(weight), thin), 1.0
    share = weight * np.asarray(leverage, dtype=np.float64) ** 2
    rate = np.minimum(1.0, (0.5 + 0.5 * share / share.mean()) / thin)
    # Wherever the sum of the rates passes half a number.
    passed = np.floor(np.cumsum(rate) + 0.5)
    kept = np.flatnonzero(np.diff(passed, prepend=0.0) > 0)
    return kept, 1.0 / rate[kept]


@dataclass
class Damping:
    """Levenberg term relative to the columns' norms on all entries."""

    size: float = FIRST_DAMPING
    least: float = 1e-6

    def more(self) -> None:
        """After a step that was too long."""
        self.size *= 10

    def less(self) -> None:
        """After a good one."""
        self.size = max(self.least, self.size / 10)

    @property
    def negligible(self) -> bool:
        """Whether a short step means a close optimum rather than a damped step."""
        return self.size <= FIRST_DAMPING

    @property
    def relaxed(self) -> bool:
        """Whether steps have been good so far."""
        return self.size < FIRST_DAMPING


def newton_step(
    design: Design,
    point: Float,
    model: Model,
    kappa: float,
    damping: Damping,
    metric: Metric,
) -> Float:
    """Solve ``(H + damping) d = -gradient`` for the smoothed objective, in centred coordinates."""
    hessian = model.hessian(metric.n_jobs).copy()
    gradient = _centred_gradient(design, point) - model.forces
    # The Gram matrix has every column, also those without a row near a kink.
    # As if at least a few rows in ten thousand were near a kink, at the typical leverage sqrt(p / n).
    typical = kappa * math.sqrt(len(point) / design.weight)
    curvature = max(model.curvature, 1e-4 * design.loss.scale * design.weight / typical)
    hessian += (damping.size * curvature / design.weight) * metric.gram
    diagonal = np.diag_indices_from(hessian)
    design.add_quadratic(hessian)
    if design.l1 > 0:
        m = design.n_attributes
        # Width of the rounded |w_j|: what a kink of unit leverage would have in that coordinate.
        width = kappa / np.sqrt(np.maximum(design.column_squares[:m], 1e-300))
        gradient[:m] += design.l1 * np.clip(point[:m] / width, -1, 1)
        hessian[np.arange(m), np.arange(m)] += design.l1 * (np.abs(point[:m]) < width) / width
    if design.region is not None:
        return step_within(design, design.region, hessian, gradient, point)
    size = np.sqrt(np.maximum(hessian[diagonal], 1e-300))
    scaled = hessian / np.outer(size, size)
    factor = regularised_cholesky(scaled)
    return np.asarray(-linalg.cho_solve((factor, False), gradient / size, check_finite=False) / size)


def _centred_gradient(design: Design, point: Float) -> Float:
    """That of the quadratic and the linear term in centred coordinates, where a slope moves the intercept along."""
    gradient = design.penalty_gradient(point)
    if design.fit_intercept and design.linear is not None:
        gradient[:-1] -= design.centre * design.linear[-1]
    return gradient


def bounded_step(
    design: Design,
    point: Float,
    model: Model,
    kappa: float,
    damping: Damping,
    metric: Metric,
) -> tuple[Float, float]:
    """A Newton step and its length, damped until it stays where the smoothed model says something."""
    while True:
        step = newton_step(design, point, model, kappa, damping, metric)
        length = metric.length(step)
        if length <= TRUST * kappa or damping.size >= 1e6:
            return step, length
        damping.more()


def thinning(n_near: float, p: int, enough: float = 0.0) -> int:
    """Every how many-th near row is enough for a Hessian within some ten percent (and at least ``enough`` rows)."""
    return max(1, int(n_near / max(40 * p, 5000, enough)))


def quantile_width(nearness: Float, fraction: float) -> float:
    """Width (in leverages) within which a given fraction of the rows lies next to a kink."""
    rank = min(len(nearness) - 1, max(0, math.ceil(fraction * len(nearness)) - 1))
    # Rows tied on a kink would make the width zero; no smoothing is not a smoothing.
    return max(float(np.partition(nearness, rank)[rank]), 1e-6 * float(nearness.mean()), 1e-150)


def uncertain_fraction(design: Design, z: Float, ratio: float) -> float:
    """Fraction of rows whose side is in doubt at a point with an error of ``sqrt(ratio)`` (ratio = p / rows).

    A proportion s of rows on the smaller side of the kinks is known to ``sqrt(s (1 - s) ratio)``; at an
    extreme quantile, or for a rare class, far fewer rows are in doubt than at the median.
    """
    above = float(np.mean(z > design.loss.kinks[-1]))
    below = float(np.mean(z <= design.loss.kinks[0]))
    small = max(min(above, below), 1 / (1 + len(z)))
    return min(small, 2 * math.sqrt(small * (1 - small) * ratio))


def at_quantile(design: Design, sample: Chunk, point: Float) -> Float:
    """The same slopes with the intercept at the wanted quantile of the sample's residuals."""
    if not design.fit_intercept or len(design.loss.kinks) != 1:
        return point
    shifted = point.copy()
    residual = design.margins(sample, point)
    # Where the derivative by the intercept, q_b - sum_i s_i slope(z_i), is 0.
    above = design.loss.tilts[0]
    if design.linear is not None:
        above += float(design.linear[-1]) / (design.loss.scale * design.weight)
    order = np.argsort(residual)
    below = np.cumsum(sample.weight[order])
    at = np.searchsorted(below, min(max(1 - above, 0.0), 1.0) * below[-1])
    shifted[-1] += float(residual[order[min(at, len(order) - 1)]])
    return shifted


def balanced_sample(design: Design, sample: Chunk, size: int) -> Chunk:
    """Rows of a sample with the classes as equal in number as possible, weighted to stand for all of it."""
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
    """The model fitted to a sample by the aggregated solver, as far as it comes in time."""
    sums = Sums.of(np.zeros((0, design.n_variables + 2)), [design.sums_alone(sample)])
    wanted = Accuracy(accuracy, deadline, duals=False)
    return solve_aggregated(design, sums, None, wanted, solve_by_interior_point, n_jobs)
