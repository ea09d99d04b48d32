"""Solutions on samples: where those on all rows are, give or take an error that the size of the sample tells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.passes.records import Reach
from aidlearn.linear.start.samples import Samples
from aidlearn.linear.start.sharpen import Band
from aidlearn.linear.start.sharpening import Sharpening
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

    def __init__(self, samples: Samples, run: Run) -> None:
        self._samples, self._run = samples, run

    @classmethod
    def of(cls, run: Run, design: Design) -> Sampled:
        return cls(Samples(run, design, np.random.default_rng(0)), run)

    @classmethod
    def of_start(cls, start: Band, run: Run, design: Design) -> Sampled:
        """The samples of the start of a fit on the same rows."""
        return cls.of(run, design) if start.samples is None else cls(start.samples, run)

    @property
    def metric(self) -> Metric:
        return self._samples.metric

    def solution(self, design: Design, near: Float | None = None) -> SampledSolution:
        """The solution of a problem on the largest sample, from that of another one close to it."""
        point = Sharpening(self._samples, self._run, design).on_samples(near)
        return SampledSolution(point, self.error(design, point))

    def error(self, design: Design, point: Float) -> float:
        """How far the solution on the largest sample may be from a point that is one, in leverages."""
        view = self._samples.at(design, point)
        ratio = design.n_variables / design.effective * self._run.n_entries / self._samples.n_largest
        return view.width(view.fraction(ratio))

    def width(self, design: Design, point: Float, share: float) -> float:
        """The distance from a plane, in leverages, within which a part of the rows lies."""
        return self._samples.at(design, point).width(share)

    def is_tied(self, design: Design, point: Float) -> bool:
        """Whether rows are piled up on a kink at a solution, so that those in doubt are at no distance from it."""
        distance = self.error(design, point) * float(np.median(self._samples.viewed_leverage))
        return distance < TIED * design.typical_margin

    def largest_share(self, n_weights: int) -> float:
        """Part of the rows that memory has room for as near rows, with so many weights each."""
        return self._run.budget.near_rows(self._run.n_attributes, n_weights) / self._run.n_entries

    def share(self, design: Design, ends: tuple[Float, Float], reach: float) -> float:
        """Part of the rows in a corridor."""
        rows = self._samples.viewed
        found = NUMPY.between(design, rows, design.planes(*ends), self._samples.viewed_leverage, Reach(reach))
        return len(found.near) / rows.n_entries
