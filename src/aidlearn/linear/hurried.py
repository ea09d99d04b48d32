"""The start of a fit that is out of time: a usable point from a few rows, and a few groups around it.

It takes one pass, and the aggregated problem of its groups is tiny. A fit therefore ends soon after its time limit,
with a model that is better than a constant and with a proven bound. Quantiles are parallel planes, and any partition
gives each of them a bound (Jensen): they share the groups around one plane, and one more pass evaluates all of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.memory import fewest_rows
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Incumbent, Problem, Start
from aidlearn.engine.sums import Assignment
from aidlearn.linear.model.design import Design
from aidlearn.linear.passes import passes_of
from aidlearn.linear.passes.records import Grouping, Regions
from aidlearn.numerics import Float

HURRY = 0.05
"""Guess. Remaining seconds below which a start is not sharpened: its sample alone takes longer."""


@dataclass(frozen=True)
class HurrySettings:
    """Settings of the hurried start."""

    flops: float = 5e8
    """Guess. Maximum number of floating-point operations for least squares on a few rows."""
    rows_per_variable: int = 2
    """Guess. Minimum number of rows per variable for least squares."""
    levels: int = 41
    """Guess. Number of intercepts tried: quantiles at steps of 1/40."""
    bins: int = 16
    """Guess. Number of groups by distance in each region (and class)."""
    lengths: tuple[float, ...] = (0.3, 1.0, 3.0)
    """Guess. Multiples of the least-squares slopes tried for classes: those slopes are too short for a hinge."""


SETTINGS = HurrySettings()


class LinearProblem(Problem):
    """A problem that has a design."""

    design: Design
    regions: Regions
    """Regions into which margins are divided."""


def out_of_time(run: Run) -> bool:
    """Return whether the deadline of a run has passed."""
    return time.monotonic() > run.deadline


def few_rows(run: Run, p: int) -> Systematic:
    """Return a systematic sample of the fewest rows."""
    return Systematic(max(1, run.n_entries // fewest_rows(run.n_entries, p)), 0)


class Hurried:
    """Groups all rows around the best of a given point and cheap ones.

    One object serves designs on the same rows that differ only in their losses and have the same kinks (quantiles).
    """

    def __init__(self, designs: Sequence[Design], point: Float | None = None) -> None:
        self._designs, self._point = designs, point
        self._starts: list[Start] = []

    def __call__(self, problem: LinearProblem) -> Start:
        if not self._starts:
            self._starts = self._all(problem)
        number = next(k for k, design in enumerate(self._designs) if design is problem.design)
        return self._starts[number]

    def _all(self, problem: LinearProblem) -> list[Start]:
        rows, designs = _sample(problem.run, self._designs[0]), self._designs
        point = _best(designs[0], rows, [] if self._point is None else [self._point])
        clusters, objective = _grouped(problem, designs[0], rows, point)
        if len(designs) == 1:
            return [Start(clusters, Incumbent(point, objective + designs[0].penalty(point)))]
        points = [_levelled(design, rows, point) for design in designs]
        return [Start(clusters, incumbent) for incumbent in evaluated(problem.run, designs, points)]


def cheap_points(run: Run, designs: Sequence[Design]) -> list[Incumbent]:
    """Return the better of no slopes and least squares on a few rows for each design, evaluated by one pass."""
    rows = _sample(run, designs[0])
    return evaluated(run, designs, [_best(design, rows, []) for design in designs])


def _sample(run: Run, design: Design) -> Chunk:
    """Return a few rows, weighted to represent all rows."""
    p = design.n_variables
    sample = run.sample(lambda: few_rows(run, p))
    thin = max(1, sample.n_entries // fewest_rows(run.n_entries, p))
    return sample.select(slice(None, None, thin)).weighing(design.weight)


def _grouped(problem: LinearProblem, design: Design, rows: Chunk, point: Float) -> tuple[Clusters, float]:
    """Group all rows by region, distance and class; also return the losses at the point."""
    loss, n_regions, bins = design.loss, problem.regions.number, SETTINGS.bins
    far = loss.distance(design.margins(rows, point))
    scale = bins / max(float(np.quantile(far, 0.98)), 1e-300)
    homes = np.tile(np.repeat(np.arange(n_regions, dtype=np.int16), bins), 2 if loss.classifies else 1)
    # No distance is negative, so no row becomes a cluster of its own.
    grouping = Grouping(-1.0, scale, bins, problem.regions.cuts, len(homes), math.inf)
    passes = passes_of(problem.run)

    def assign(chunk: Chunk, state: object) -> Assignment:
        found = passes.groups(design, chunk, point, 1.0, grouping)
        return Assignment(found.labels, found.alone, found.objective, found.counts, found.sums)

    return Clusters.build(problem, assign, len(homes), homes)


def evaluated(run: Run, designs: Sequence[Design], points: Sequence[Float]) -> list[Incumbent]:
    """Evaluate a point of each design on all rows, by one pass; parallel planes share their margins."""
    first, m, planes = designs[0], designs[0].n_attributes, list(zip(designs, points, strict=True))
    parallel = not first.loss.classifies and all(np.array_equal(point[:m], points[0][:m]) for point in points)
    levels = [design.intercept(point) if first.fit_intercept else 0.0 for design, point in planes]
    total = np.array([design.penalty(point) for design, point in planes])

    def measure(chunk: Chunk, state: object) -> tuple[Float, None]:
        z = first.margins(chunk, points[0])
        found = []
        for (design, point), level in zip(planes, levels, strict=True):
            margins = z - (level - levels[0]) if parallel else design.margins(chunk, point)
            found.append(design.objective_at(chunk, point, margins))
        return np.array(found), None

    def collect(part: Float) -> None:
        total[:] += part

    run.map(measure, collect=collect)
    return [Incumbent(point, float(value)) for point, value in zip(points, total, strict=True)]


def _best(design: Design, rows: Chunk, points: list[Float]) -> Float:
    """Return the best point on a few rows, among given points, no slopes and least squares."""
    candidates = [*points, _levelled(design, rows, np.zeros(design.n_variables))]
    least = _least_squares(design, rows)
    if least is not None:
        slopes = least.copy()
        for length in SETTINGS.lengths if design.loss.classifies else (1.0,):
            slopes[: design.n_attributes] = length * least[: design.n_attributes]
            candidates.append(_levelled(design, rows, slopes))
    candidates = [design.inside(point) for point in candidates]
    values = [design.losses(rows, design.margins(rows, point)) + design.penalty(point) for point in candidates]
    return candidates[int(np.argmin(values))]


def _levelled(design: Design, rows: Chunk, point: Float) -> Float:
    """Return a point with its best intercept, among quantiles of the shifts that put a row on its kink."""
    if not design.fit_intercept:
        return point
    sign, _ = design.loss.fold(rows.y)
    z, toward = design.margins(rows, point), 1.0 if sign is None else sign
    wanted = np.concatenate([(z - kink) * toward for kink in design.loss.kinks])
    shifts = np.quantile(wanted, np.linspace(0, 1, SETTINGS.levels))
    slope = 0.0 if design.linear is None else float(design.linear[-1])
    values = [design.losses(rows, z - shift * toward) + slope * shift for shift in shifts]
    levelled = point.copy()
    levelled[-1] += shifts[int(np.argmin(values))]
    return levelled


def _least_squares(design: Design, rows: Chunk) -> Float | None:
    """Return the least squares point on as many rows as are affordable; None if these are too few."""
    p = design.n_variables
    affordable = int(SETTINGS.flops / p**2)
    if min(affordable, rows.n_entries) < SETTINGS.rows_per_variable * p:
        return None
    some = rows.select(slice(None, None, max(1, math.ceil(rows.n_entries / affordable))))
    _, e = design.loss.fold(some.y)
    found = design.rows(some, slice(None)).least_squares(np.sqrt(some.weight), np.broadcast_to(e, some.n_entries))
    return design.step(found) if np.isfinite(found).all() else None
