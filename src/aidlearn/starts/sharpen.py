"""A sharp start: Newton steps on the smoothed loss, on growing samples first and then on all entries.

Every width and distance is measured in units of leverage, ``s_i = |a_i|`` in the norm of the inverse Gram
matrix, which makes the start invariant to linear changes of the columns and lets rare columns move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from aidlearn.data.source import Chunk, Float, join
from aidlearn.engine.problem import Accuracy
from aidlearn.problems.piecewise import PiecewiseLinear
from aidlearn.solvers.aggregated import solve_by_interior_point as interior_point_solution

SKETCH_COLUMNS = 8
HEAVY = 0.02
"""Leverage from which a row always counts, whatever the sample: at most 50 rows per variable have it."""
TRUST = 4.0
"""Longest step in smoothing widths."""


@dataclass(frozen=True)
class Metric:
    """Gram matrix of the (centred) rows, and from it the leverage of each row.

    Leverages come from a Gaussian sketch: ``|a_i|_{G^-1} ~ |a_i' R^-1 g| / sqrt(k)``.
    """

    gram: Float
    size: Float
    factor: Float
    sketch: Float
    constant: float | None = None
    """The leverage of every row, where rows hardly differ in it."""

    def __getstate__(self) -> dict[str, Any]:
        """What a pass needs where the entries are: leverages come from the sketch alone."""
        return {**self.__dict__, "gram": None, "factor": None}

    @classmethod
    def of(cls, problem: PiecewiseLinear, gram: Float) -> Metric:
        diagonal = np.diag_indices_from(gram)
        # A ridge holds a coefficient as rows would: about 0.3 scale per row is the loss's mean curvature.
        gram[diagonal] += problem.ridge_diagonal / (0.3 * problem.loss.scale)
        gram[diagonal] = np.maximum(gram[diagonal], 1e-12 * problem.column_squares)
        gram[problem.constant, problem.constant] = 1.0
        size = np.sqrt(gram[diagonal])
        scaled = gram / np.outer(size, size)
        factor = _regularised_cholesky(scaled)
        normal = np.random.default_rng(0).standard_normal((len(gram), SKETCH_COLUMNS))
        half = linalg.solve_triangular(factor, normal, check_finite=False)
        half[problem.constant] = 0.0
        return cls(gram, size, factor, half / (size[:, None] * math.sqrt(SKETCH_COLUMNS)))

    def solve(self, right: Float) -> Float:
        """``G^-1 right``."""
        return np.asarray(linalg.cho_solve((self.factor, False), right / self.size) / self.size)

    def settled(self, problem: PiecewiseLinear, sample: Chunk) -> Metric:
        """This metric with one leverage for all rows, if a sample shows that they hardly differ."""
        leverage = self.leverage(problem, sample)
        middle = float(np.median(leverage))
        # A sketch of k columns scatters by 1/sqrt(2k) even where the leverages are equal.
        alike = np.quantile(leverage, [0.001, 0.999]) / middle
        if alike[0] < 0.25 or alike[1] > 2.5:
            return self
        return replace(self, constant=middle)

    def leverage(self, problem: PiecewiseLinear, chunk: Chunk) -> Float:
        if self.constant is not None:
            return np.broadcast_to(self.constant, chunk.n_entries)
        m = problem.source.n_attributes
        projected = np.asarray(chunk.X @ self.sketch[:m])
        offset = -problem.centre @ self.sketch[:m]
        projected = projected + (offset + self.sketch[m] if problem.fit_intercept else offset)
        square = np.einsum("ij,ij->i", projected, projected, dtype=np.float64)
        # As if the row itself were part of the Gram matrix: no leverage exceeds 1 (for weight 1).
        square /= 1 + chunk.weight * square
        # A row of zeros moves with no coefficient; a tiny leverage keeps distances finite.
        return np.sqrt(np.maximum(square, 1e-12 / problem.weight))

    def length(self, step: Float) -> float:
        """Typical ``|a_i'd| / s_i`` of a step in centred coordinates."""
        return math.sqrt(max(float(step @ self.gram @ step), 0.0) / len(step))


def _regularised_cholesky(scaled: Float) -> Float:
    """Upper Cholesky factor of a matrix with unit diagonal, with the smallest ridge with which it exists."""
    diagonal = np.diag_indices_from(scaled)
    for ridge in (1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4):
        scaled[diagonal] = 1 + ridge
        try:
            return np.asarray(linalg.cholesky(scaled, check_finite=False))
        except linalg.LinAlgError:
            continue
    return np.eye(len(scaled))


@dataclass(frozen=True)
class NormalEquations:
    """Gram matrix of the (centred) rows and their product with the target."""

    gram: Float
    right: Float

    @classmethod
    def of(cls, problem: PiecewiseLinear, chunk: Chunk) -> NormalEquations:
        rows = problem.rows(chunk, slice(None))
        right = rows.T @ (chunk.weight * chunk.y)
        rows *= np.sqrt(chunk.weight)[:, None]
        return cls(rows.T @ rows, right)

    @classmethod
    def of_all(cls, problem: PiecewiseLinear) -> NormalEquations:
        """By one pass over all rows."""
        p = problem.n_variables
        total = cls(np.zeros((p, p)), np.zeros(p))

        def measure(chunk: Chunk, state: Any) -> tuple[NormalEquations, None]:
            return cls.of(problem, chunk), None

        def collect(part: NormalEquations) -> None:
            total.gram[:] += part.gram
            total.right[:] += part.right

        problem.source.run(measure, collect=collect)
        return total

    def shows_all_columns(self, problem: PiecewiseLinear) -> bool:
        """Whether a sample's columns have about the norm they have on all entries.

        Rare dummies and heavy tails are what a sample gets wrong.
        """
        ratio = np.diag(self.gram)[~problem.constant] / problem.column_squares[~problem.constant]
        return bool(((ratio > 0.6) & (ratio < 1.7)).all())


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

    @cached_property
    def hessian(self) -> Float:
        """Gram matrix of the near rows, once all of them are there."""
        rows = np.concatenate(self.near_rows)
        return np.asarray(rows.T @ rows)


def local_model(problem: PiecewiseLinear, chunk: Chunk, z: Float, leverage: Float, kappa: float, thin: int) -> Model:
    """The model of one chunk; the Hessian uses every ``thin``-th row near a kink."""
    slope, near, curvature = problem.loss.smoothed(z, kappa * leverage.astype(np.float64, copy=False))
    slope *= chunk.weight
    curvature *= chunk.weight[near]
    total = float(curvature.sum())
    if thin > 1:
        # Rows that carry a coefficient by themselves are never left out.
        light = chunk.weight[near] * leverage[near] ** 2 <= HEAVY
        dropped = light.copy()
        dropped[::thin] = False
        kept = float(curvature[light & ~dropped].sum())
        curvature[light] *= float(curvature[light].sum()) / kept if kept > 0 else 1.0
        near, curvature = near[~dropped], curvature[~dropped]
    rows = problem.rows(chunk, near)
    rows *= np.sqrt(curvature)[:, None]
    return Model(float(chunk.weight @ problem.loss.values(z)), problem.forces(chunk, slope), [rows], total)


@dataclass
class Damping:
    """Levenberg term relative to the columns' norms on all entries."""

    size: float = 1e-2
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
        return self.size <= 1e-2


def newton_step(
    problem: PiecewiseLinear,
    point: Float,
    model: Model,
    kappa: float,
    damping: Damping,
    metric: Metric,
) -> Float:
    """Solve ``(H + damping) d = -gradient`` for the smoothed objective, in centred coordinates."""
    ridge = problem.ridge_diagonal
    hessian = model.hessian.copy()
    gradient = ridge * point - model.forces
    # The Gram matrix has every column, also those without a row near a kink.
    # As if at least a few rows in ten thousand were near a kink, at the typical leverage sqrt(p / n).
    typical = kappa * math.sqrt(len(point) / problem.weight)
    curvature = max(model.curvature, 1e-4 * problem.loss.scale * problem.weight / typical)
    hessian += (damping.size * curvature / problem.weight) * metric.gram
    diagonal = np.diag_indices_from(hessian)
    hessian[diagonal] += ridge
    if problem.l1 > 0:
        m = problem.source.n_attributes
        # Width of the rounded |w_j|: what a kink of unit leverage would have in that coordinate.
        width = kappa / np.sqrt(np.maximum(problem.column_squares[:m], 1e-300))
        gradient[:m] += problem.l1 * np.clip(point[:m] / width, -1, 1)
        hessian[np.arange(m), np.arange(m)] += problem.l1 * (np.abs(point[:m]) < width) / width
    size = np.sqrt(np.maximum(hessian[diagonal], 1e-300))
    scaled = hessian / np.outer(size, size)
    factor = _regularised_cholesky(scaled)
    return np.asarray(-linalg.cho_solve((factor, False), gradient / size, check_finite=False) / size)


def bounded_step(
    problem: PiecewiseLinear,
    point: Float,
    model: Model,
    kappa: float,
    damping: Damping,
    metric: Metric,
) -> tuple[Float, float]:
    """A Newton step and its length, damped until it stays where the smoothed model says something."""
    while True:
        step = newton_step(problem, point, model, kappa, damping, metric)
        length = metric.length(step)
        if length <= TRUST * kappa or damping.size >= 1e6:
            return step, length
        damping.more()


def thinning(n_near: float, p: int) -> int:
    """Every how many-th near row is enough for a Hessian within some ten percent."""
    return max(1, int(n_near / max(40 * p, 5000)))


def quantile_width(problem: PiecewiseLinear, z: Float, leverage: Float, fraction: float) -> float:
    """Width (in leverages) within which a given fraction of the rows lies next to a kink."""
    nearness = problem.loss.distance(z) / leverage
    rank = min(len(z) - 1, max(0, math.ceil(fraction * len(z)) - 1))
    # Rows tied on a kink would make the width zero; no smoothing is not a smoothing.
    return max(float(np.partition(nearness, rank)[rank]), 1e-6 * float(nearness.mean()), 1e-150)


def uncertain_fraction(problem: PiecewiseLinear, z: Float, ratio: float) -> float:
    """Fraction of rows whose side is in doubt at a point with an error of ``sqrt(ratio)`` (ratio = p / rows).

    A proportion s of rows on the smaller side of the kinks is known to ``sqrt(s (1 - s) ratio)``; at an
    extreme quantile, or for a rare class, far fewer rows are in doubt than at the median.
    """
    above = float(np.mean(z > problem.loss.kinks[-1]))
    below = float(np.mean(z <= problem.loss.kinks[0]))
    small = max(min(above, below), 1 / (1 + len(z)))
    return min(small, 2 * math.sqrt(small * (1 - small) * ratio))


def at_quantile(problem: PiecewiseLinear, sample: Chunk, point: Float) -> Float:
    """The same slopes with the intercept at the wanted quantile of the sample's residuals."""
    if not problem.fit_intercept or len(problem.loss.kinks) != 1:
        return point
    shifted = point.copy()
    residual = problem.margins(sample, point)
    shifted[-1] += float(np.quantile(residual, 1 - problem.loss.tilts[0]))
    return shifted


def balanced_sample(problem: PiecewiseLinear, sample: Chunk, size: int) -> Chunk:
    """Rows of a sample with the classes as equal in number as possible, weighted to stand for all of it."""
    sign, _ = problem.loss.fold(sample.y)
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


def solved_point(problem: PiecewiseLinear, sample: Chunk) -> Float:
    """The model fitted to a sample by the aggregated solver."""
    sums = problem.aggregate(sample, np.arange(sample.n_entries), sample.n_entries)
    rows = problem.aggregated_rows(sums)
    return np.asarray(interior_point_solution(rows, None, problem.fit_intercept, Accuracy(1e-3, math.inf)).point)
