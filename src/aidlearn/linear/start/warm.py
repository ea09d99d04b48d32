"""A start from the coefficients of an earlier fit."""

from __future__ import annotations

import numpy as np

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.problem import Start
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.clusters import all_single, draw
from aidlearn.linear.start.sharpen import Band, few_entries
from aidlearn.numerics import Float


class Warm(Band):
    """Newton steps on all rows from a given point, or from that of samples, whichever is better on all rows."""

    def __init__(self, point: Float | None) -> None:
        super().__init__()
        self._given = point

    def begin_at(self, point: Float | None) -> None:
        """Start the next problem at a point (None: as :class:`Band`)."""
        self._given = point

    def __call__(self, problem: PiecewiseLinear) -> Start:
        given, self._given = self._given, None
        layout = problem.design.layout
        if given is None or (layout and layout.levels):
            return super().__call__(problem)
        if few_entries(problem.run.n_entries, problem.design.n_variables):
            return all_single(problem, given)
        sharp = self.sharpening(problem)
        sampled = sharp.on_samples(given)
        is_best = _better(problem, given, sampled) is given
        return draw(problem, sharp, sharp.at_optimum(given) if is_best else sharp.on_all_entries(sampled))


def _better(problem: PiecewiseLinear, *points: Float) -> Float:
    """The point with the lowest objective on all rows, by one pass."""
    design = problem.design
    total = np.array([design.penalty(point) for point in points])

    def measure(chunk: Chunk, state: object) -> tuple[Float, None]:
        return np.array([design.losses(chunk, design.margins(chunk, point)) for point in points]), None

    def collect(part: Float) -> None:
        total[:] += part

    problem.run.map(measure, collect=collect)
    return points[int(np.argmin(total))]
