"""Solutions on samples: where those on all rows are, give or take an error that the size of the sample tells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.start.sharpen import Band, _Sharpening
from aidlearn.numerics import Float

TIED = 1e-3
"""Distance of the rows whose side is in doubt, in typical margins: without ties it is tens of times as long."""


@dataclass(frozen=True)
class SampledSolution:
    """A point close to a solution."""

    point: Float
    error: float
    """Distance that rows near the solution have from the point, in leverages."""


class Sampled:
    """Nested samples of the rows of a run, on which neighbouring problems are solved approximately."""

    def __init__(self, sharpening: _Sharpening) -> None:
        self._sharpening = sharpening

    @classmethod
    def of(cls, run: Run, design: Design) -> Sampled:
        return cls(_Sharpening(run, design, np.random.default_rng(0)))

    @classmethod
    def of_start(cls, start: Band, run: Run, design: Design) -> Sampled:
        """The samples of the start of a fit on the same rows."""
        sharpening = start.sharpening
        if sharpening is None:
            return cls.of(run, design)
        sharpening.run = run
        return cls(sharpening)

    @property
    def metric(self) -> Metric:
        return self._sharpening.metric

    def solution(self, design: Design, near: Float | None = None) -> SampledSolution:
        """The solution of a problem on the largest sample, from that of another one close to it."""
        self._sharpening.design = design
        point = self._sharpening.on_samples(near)
        return SampledSolution(point, self.error(design, point))

    def error(self, design: Design, point: Float) -> float:
        """How far the solution on the largest sample may be from a point that is one, in leverages."""
        sharp = self._sharpening
        sharp.design = design
        view = sharp.at(point)
        ratio = design.n_variables / design.effective * sharp.run.n_entries / sharp.n_sampled
        return view.width(view.fraction(ratio))

    def width(self, design: Design, point: Float, share: float) -> float:
        """The distance from a plane, in leverages, within which a part of the rows lies."""
        self._sharpening.design = design
        return self._sharpening.at(point).width(share)

    def is_tied(self, design: Design, point: Float) -> bool:
        """Whether rows are piled up on a kink at a solution, so that those in doubt are at no distance from it."""
        distance = self.error(design, point) * float(np.median(self._sharpening.viewed_leverage))
        return distance < TIED * design.typical_margin

    def largest_share(self, n_weights: int) -> float:
        """Part of the rows that memory has room for as near rows, with so many weights each."""
        run = self._sharpening.run
        return run.budget.near_rows(run.n_attributes, n_weights) / run.n_entries

    def share(self, design: Design, ends: tuple[Float, Float], reach: float) -> float:
        """Part of the rows in a corridor."""
        sharp = self._sharpening
        rows = sharp.viewed
        found = NUMPY.between(design, rows, design.planes(*ends), sharp.viewed_leverage, reach, summed=False)
        return len(found.near) / rows.n_entries
