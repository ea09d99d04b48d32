"""The start of a fit whose time is over: a usable point from a few rows, and a few groups around it.

It takes one pass, and the aggregated problem of its groups is tiny. So a fit ends soon after its time limit, with a
model that is better than a constant and with a proven bound.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from scipy import linalg

from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.memory import fewest_rows
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Incumbent, Problem, Start
from aidlearn.engine.splits import Assignment
from aidlearn.linear.model.design import Design
from aidlearn.linear.passes.choice import passes_of
from aidlearn.linear.passes.records import Grouping
from aidlearn.numerics import Float

HURRY = 0.05
"""Seconds left below which no start is sharpened: its sample alone takes longer."""
FLOPS = 5e8
"""Of least squares on a few rows."""
ROWS_PER_VARIABLE = 2
"""Fewest rows that least squares is worth anything with."""
LEVELS = 41
"""Intercepts that are tried."""
BINS = 16
"""Groups of a region (and class), by distance."""
LENGTHS = (0.3, 1.0, 3.0)
"""Multiples of the slopes of least squares that are tried: those of classes are too short for a hinge."""


def out_of_time(run: Run) -> bool:
    return time.monotonic() > run.deadline


def few_rows(run: Run, p: int) -> Systematic:
    """A sample that costs next to nothing."""
    return Systematic(max(1, run.n_entries // fewest_rows(run.n_entries, p)), 0)


def _sample(run: Run, design: Design) -> Chunk:
    """A few rows, weighted to stand for all."""
    p = design.n_variables
    sample = run.sample(lambda: few_rows(run, p))
    thin = max(1, sample.n_entries // fewest_rows(run.n_entries, p))
    return sample.select(slice(None, None, thin)).weighing(design.weight)


def levels(run: Run, designs: list[Design], point: Float) -> list[Float]:
    """The slopes of a point with the intercept that is best for each of several designs, on a few rows."""
    rows = _sample(run, designs[0])
    return [_levelled(design, rows, point) for design in designs]


def cheap_ones(run: Run, designs: list[Design]) -> list[Incumbent]:
    """For each of several designs the best of no slopes and least squares on a few rows, evaluated on all of them.

    One pass for all.
    """
    rows = _sample(run, designs[0])
    points = [_best(design, rows, []) for design in designs]
    total = np.array([design.penalty(point) for design, point in zip(designs, points, strict=True)])

    def measure(chunk: Chunk, state: Any) -> tuple[Float, None]:
        pairs = zip(designs, points, strict=True)
        return np.array(
            [design.objective_at(chunk, point, design.margins(chunk, point)) for design, point in pairs]
        ), None

    def collect(part: Float) -> None:
        total[:] += part

    run.map(measure, collect=collect)
    return [Incumbent(point, float(value)) for point, value in zip(points, total, strict=True)]


def hurried_start(problem: Problem, design: Design, cuts: Float, point: Float | None = None) -> Start:
    """Group all rows by region (between the cuts) and distance, around the best of a given point and cheap ones."""
    run, loss, n_regions = problem.run, design.loss, len(cuts) + 1
    rows = _sample(run, design)
    chosen = _best(design, rows, [] if point is None else [point])
    far = loss.distance(design.margins(rows, chosen))
    scale = BINS / max(float(np.quantile(far, 0.98)), 1e-300)
    n_groups = n_regions * BINS * (2 if loss.classifies else 1)
    # No distance is negative and no row carries anything: none stays alone.
    grouping = Grouping(-1.0, scale, BINS, cuts, n_groups, math.inf)
    passes = passes_of(run)

    def assign(chunk: Chunk, state: Any) -> Assignment:
        found = passes.groups(design, chunk, chosen, 1.0, grouping)
        return Assignment(found.labels, found.alone, found.objective, found.counts, found.sums)

    homes = np.tile(np.repeat(np.arange(n_regions, dtype=np.int16), BINS), 2 if loss.classifies else 1)
    clusters, objective = Clusters.build(problem, assign, n_groups, homes)
    return Start(clusters, Incumbent(chosen, objective + design.penalty(chosen)))


def _best(design: Design, rows: Chunk, points: list[Float]) -> Float:
    """The best on a few rows: of points that are given, no slopes, and least squares."""
    nothing = np.zeros(design.n_variables)
    candidates = [*points, _levelled(design, rows, nothing)]
    least = _least_squares(design, rows)
    if least is not None:
        slopes = least.copy()
        for length in LENGTHS if design.loss.classifies else (1.0,):
            slopes[: design.n_attributes] = length * least[: design.n_attributes]
            candidates.append(_levelled(design, rows, slopes))
    candidates = [design.inside(point) for point in candidates]
    values = [design.losses(rows, design.margins(rows, point)) + design.penalty(point) for point in candidates]
    return candidates[int(np.argmin(values))]


def _levelled(design: Design, rows: Chunk, point: Float) -> Float:
    """The same slopes with the best intercept: quantiles of what puts a row on its kink."""
    if not design.fit_intercept:
        return point
    sign, _ = design.loss.fold(rows.y)
    z, toward = design.margins(rows, point), 1.0 if sign is None else sign
    wanted = np.concatenate([(z - kink) * toward for kink in design.loss.kinks])
    shifts = np.quantile(wanted, np.linspace(0, 1, LEVELS))
    slope = 0.0 if design.linear is None else float(design.linear[-1])
    values = [design.losses(rows, z - shift * toward) + slope * shift for shift in shifts]
    levelled = point.copy()
    levelled[-1] += shifts[int(np.argmin(values))]
    return levelled


def _least_squares(design: Design, rows: Chunk) -> Float | None:
    """Least squares on as many rows as are affordable, if they say anything."""
    p = design.n_variables
    affordable = int(FLOPS / p**2)
    if min(affordable, rows.n_entries) < ROWS_PER_VARIABLE * p:
        return None
    some = rows.select(slice(None, None, max(1, math.ceil(rows.n_entries / affordable))))
    A = design.rows(some, slice(None))
    _, e = design.loss.fold(some.y)
    gram = A.gram(some.weight)
    size = np.sqrt(gram.diagonal()) + (gram.diagonal() == 0)
    scaled = gram / np.outer(size, size) + 1e-6 * np.eye(p)
    try:
        found = linalg.solve(scaled, (A.T @ (some.weight * e)) / size, assume_a="pos", check_finite=False) / size
    except linalg.LinAlgError:
        return None
    return design.step(np.asarray(found)) if np.isfinite(found).all() else None
