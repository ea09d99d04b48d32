"""A sharp start: Newton steps on the smoothed loss, on growing samples first and then on all entries.

Every width and distance is measured in units of leverage, ``s_i = |a_i|`` in the norm of the inverse Gram
matrix, which makes the start invariant to linear changes of the columns and lets rare columns move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from aidlearn.data.source import Chunk, Float
from aidlearn.problems.piecewise import PiecewiseLinear

SKETCH_COLUMNS = 8
STEPS = (1.0, 0.5, 0.25, 0.1, 0.03)


@dataclass(frozen=True)
class Metric:
    """Leverage of rows, by a Gaussian sketch: ``|a_i|_{G^-1} ~ |a_i' R^-1 g| / sqrt(k)``."""

    gram: Float
    size: Float
    factor: Float
    sketch: Float
    missing: float
    constant: float | None = None
    """The leverage of every row, where rows hardly differ in it."""

    @classmethod
    def of(cls, problem: PiecewiseLinear, sample: Chunk, share: float) -> Metric:
        """Gram matrix of all rows, estimated from a sample that holds ``share`` of the weight.

        Columns that the sample misses (rare dummies) get their norm on all entries.
        """
        rows = problem.rows(sample, np.arange(sample.n_entries))
        rows *= np.sqrt(sample.weight)[:, None]
        gram = rows.T @ rows / share
        squares = problem.column_squares
        missing = np.maximum(squares - np.diag(gram), 0.0)
        diagonal = np.diag_indices_from(gram)
        gram[diagonal] += missing + 1e-9 * squares + 1e-300
        size = np.sqrt(gram[diagonal])
        scaled = gram / np.outer(size, size)
        scaled[diagonal] += 1e-10
        factor = linalg.cholesky(scaled, check_finite=False)
        normal = np.random.default_rng(0).standard_normal((len(gram), SKETCH_COLUMNS))
        half = linalg.solve_triangular(factor, normal, check_finite=False)
        unseen = float((missing / np.maximum(squares, 1e-300)).max())
        return cls(gram, size, factor, half / (size[:, None] * math.sqrt(SKETCH_COLUMNS)), unseen)

    def solve(self, right: Float) -> Float:
        """``G^-1 right``."""
        return np.asarray(linalg.cho_solve((self.factor, False), right / self.size) / self.size)

    def settled(self, problem: PiecewiseLinear, sample: Chunk) -> Metric:
        """This metric with one leverage for all rows, if a sample shows that they hardly differ.

        Columns whose norm the sample does not show (rare dummies) rule that out.
        """
        leverage = self.leverage(problem, sample)
        middle = float(np.median(leverage))
        rare = self.missing > 0.5
        # A sketch of k columns scatters by 1/sqrt(2k) even where the leverages are equal.
        alike = np.quantile(leverage, [0.001, 0.999]) / middle
        if rare or alike[0] < 0.25 or alike[1] > 2.5:
            return self
        return replace(self, constant=middle)

    def leverage(self, problem: PiecewiseLinear, chunk: Chunk) -> Float:
        if self.constant is not None:
            return np.full(chunk.n_entries, self.constant)
        m = problem.source.n_attributes
        projected = np.asarray(chunk.X @ self.sketch[:m])
        if problem.fit_intercept:
            projected = projected + self.sketch[m]
        norm = np.sqrt(np.einsum("ij,ij->i", projected, projected, dtype=np.float64))
        return np.maximum(norm, 1e-150)

    def length(self, step: Float) -> float:
        """Typical ``|a_i'd| / s_i`` of a step."""
        return math.sqrt(max(float(step @ self.gram @ step), 0.0) / len(step))


@dataclass
class Model:
    """Sums over rows: true objective, minus gradient, and the rows that make up the Hessian."""

    objective: float
    forces: Float
    near_rows: list[Float]
    """``sqrt(curvature_i) a_i`` of the rows near a kink: the Hessian is their Gram matrix."""
    curvature: float

    def add(self, other: Model) -> None:
        self.objective += other.objective
        self.forces = self.forces + other.forces
        self.near_rows += other.near_rows
        self.curvature += other.curvature

    def hessian(self) -> Float:
        rows = np.concatenate(self.near_rows)
        return np.asarray(rows.T @ rows)


def local_model(
    problem: PiecewiseLinear, chunk: Chunk, z: Float, leverage: Float, kappa: float, thin: int
) -> Model:
    """The model of one chunk; the Hessian uses every ``thin``-th row near a kink."""
    width = kappa * leverage
    slope = chunk.weight * problem.loss.smoothed_slope(z, width)
    curvature = chunk.weight * problem.loss.smoothed_curvature(z, width)
    total = float(curvature.sum())
    near = np.flatnonzero(curvature)[::thin]
    kept = float(curvature[near].sum())
    rows = problem.rows(chunk, near)
    rows *= np.sqrt(curvature[near] * (total / kept if kept > 0 else 1.0))[:, None]
    return Model(
        float(chunk.weight @ problem.loss.values(z)), problem.forces(chunk, slope), [rows], total
    )


@dataclass
class Damping:
    """Levenberg term relative to the columns' norms on all entries."""

    size: float = 1e-2

    def update(self, length: float) -> None:
        """More after a short step, less after a full one."""
        self.size = min(1.0, self.size * 10) if length < 0.5 else max(1e-6, self.size / 10)

    @property
    def negligible(self) -> bool:
        """Whether a short step means a close optimum rather than a damped step."""
        return self.size <= 1e-2


def newton_step(
    problem: PiecewiseLinear,
    point: Float,
    model: Model,
    kappa: float,
    damping: Damping,
    share: float = 1.0,
) -> Float:
    """Solve ``(H + damping) d = -gradient`` for the smoothed objective.

    A model of a sample stands for all rows: its sums are divided by its share of the weight.
    """
    ridge = problem.ridge_diagonal
    hessian = model.hessian() / share
    gradient = ridge * point - model.forces / share
    diagonal = np.diag_indices_from(hessian)
    hessian[diagonal] += ridge
    if problem.l1 > 0:
        m = problem.source.n_attributes
        # Width of the rounded |w_j|: what a kink of unit leverage would have in that coordinate.
        width = kappa / np.sqrt(np.maximum(problem.column_squares[:m], 1e-300))
        gradient[:m] += problem.l1 * np.clip(point[:m] / width, -1, 1)
        hessian[np.arange(m), np.arange(m)] += problem.l1 * (np.abs(point[:m]) < width) / width
    size = np.sqrt(np.maximum(problem.column_squares, 1e-300))
    scaled = hessian / np.outer(size, size)
    scaled[diagonal] += damping.size * model.curvature / (share * problem.weight)
    scaled[diagonal] += 1e-12 * float(np.abs(scaled[diagonal]).max()) + 1e-300
    factor = linalg.cho_factor(scaled, check_finite=False)
    return np.asarray(-linalg.cho_solve(factor, gradient / size, check_finite=False) / size)


def thinning(n_near: float, p: int) -> int:
    """Every how many-th near row is enough for a Hessian within some ten percent."""
    return max(1, int(n_near / max(40 * p, 5000)))


def quantile_width(problem: PiecewiseLinear, z: Float, leverage: Float, fraction: float) -> float:
    """Width (in leverages) within which a given fraction of the rows lies next to a kink."""
    nearness = problem.loss.distance(z) / leverage
    rank = min(len(z) - 1, max(0, math.ceil(fraction * len(z)) - 1))
    return max(float(np.partition(nearness, rank)[rank]), 1e-150)


def uncertain_fraction(problem: PiecewiseLinear, z: Float, ratio: float) -> float:
    """Fraction of rows whose side is in doubt at a point with an error of ``sqrt(ratio)`` (ratio = p / rows).

    A proportion s of rows on the smaller side of the kinks is known to ``sqrt(s (1 - s) ratio)``; at an
    extreme quantile, or for a rare class, far fewer rows are in doubt than at the median.
    """
    above = float(np.mean(z > problem.loss.kinks[-1]))
    below = float(np.mean(z <= problem.loss.kinks[0]))
    small = max(min(above, below), 1 / (1 + len(z)))
    return min(small, 2 * math.sqrt(small * (1 - small) * ratio))


def sharpen_on_sample(
    problem: PiecewiseLinear,
    sample: Chunk,
    metric: Metric,
    point: Float,
    errors: list[float],
    damping: Damping,
) -> Float:
    """Newton steps on a sample, each with a smoothing width that fits the error (ratio) of the point."""
    leverage = metric.leverage(problem, sample)
    share = float(sample.weight.sum()) / problem.weight
    z = problem.margins(sample, point)

    def objective(at: Float, margins: Float) -> float:
        return float(sample.weight @ problem.loss.values(margins)) / share + problem.penalty(at)

    current = objective(point, z)
    for error in errors:
        fraction = uncertain_fraction(problem, z, error)
        kappa = quantile_width(problem, z, leverage, fraction)
        model = local_model(problem, sample, z, leverage, kappa, thinning(fraction * len(z), len(point)))
        step = newton_step(problem, point, model, kappa, damping, share)
        change = problem.margins(sample, point + step) - z
        values = [objective(point + t * step, z + t * change) for t in STEPS]
        best = int(np.argmin(values))
        if not values[best] < current:
            continue  # as good as this width can make it on this sample
        damping.update(STEPS[best])
        point, z, current = point + STEPS[best] * step, z + STEPS[best] * change, values[best]
    return point


def least_squares_point(problem: PiecewiseLinear, sample: Chunk, metric: Metric) -> Float:
    """The least squares fit of the sample behind the metric."""
    share = float(sample.weight.sum()) / problem.weight
    return metric.solve(problem.forces(sample, sample.weight * sample.y) / share)


def at_quantile(problem: PiecewiseLinear, sample: Chunk, point: Float) -> Float:
    """The same slopes with the intercept at the wanted quantile of the sample's residuals."""
    if not problem.fit_intercept or len(problem.loss.kinks) != 1:
        return point
    shifted = point.copy()
    residual = problem.margins(sample, point)
    shifted[-1] += float(np.quantile(residual, 1 - problem.loss.tilts[0]))
    return shifted
