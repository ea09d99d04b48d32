"""Solutions on samples: where those on all rows are, give or take an error that the size of the sample tells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aidlearn.data.chunk import Float
from aidlearn.data.run import Run
from aidlearn.linear.band import _Sharpening
from aidlearn.linear.corridor import between, planes_of
from aidlearn.linear.design import Design
from aidlearn.linear.newton import Metric


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

    @property
    def metric(self) -> Metric:
        return self._sharpening.metric

    def solution(self, design: Design, near: Float | None = None) -> SampledSolution:
        """The solution of a problem on the largest sample, from that of another one close to it."""
        sharp = self._sharpening
        sharp.design = design
        point = sharp.on_samples(near)
        view = sharp.at(point)
        error = design.n_variables / design.effective * sharp.run.n_entries / sharp.n_sampled
        return SampledSolution(point, view.width(view.fraction(error)))

    def share(self, design: Design, ends: tuple[Float, Float], reach: float) -> float:
        """Part of the rows in a corridor."""
        sharp = self._sharpening
        rows = sharp.viewed
        planes = planes_of(design, *ends)
        near = between(design, rows, planes, sharp.viewed_leverage, reach, summed=False)[0]
        return len(near) / rows.n_entries
