"""The default initial clustering: rows near the sharpened hyperplane alone, far rows binned by distance."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Start
from aidlearn.linear.hurried import HURRY, few_rows, out_of_time
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start import plan
from aidlearn.linear.start.clusters import draw
from aidlearn.linear.start.samples import Samples, largest_sample
from aidlearn.linear.start.sharpening import Sharpening
from aidlearn.numerics import Float


class Band:
    """Sharpen a cheap start on all rows, then cluster around it.

    One object serves several problems on the same rows (quantiles, classes): samples and leverages are
    kept, and sharpening starts from the solution that :meth:`continue_from` was given last.
    """

    def __init__(self) -> None:
        self._samples: Samples | None = None
        self._point: Float | None = None
        self._once = False

    def continue_from(self, point: Float) -> None:
        """Start the next problem at a point."""
        self._point = point

    def serve_once(self) -> None:
        """Free the samples as soon as the next problem no longer needs them: it is the only one."""
        self._once = True

    @property
    def samples(self) -> Samples | None:
        """Samples and leverages of the last problem, for others on the same rows."""
        return self._samples

    @staticmethod
    def plan_sample(run: Run, n_variables: int, random: Callable[[], np.random.Generator]) -> None:
        """Choose the sample, so that the next pass can bring it along."""
        if time.monotonic() + HURRY > run.deadline:
            run.plan_sample(few_rows(run, n_variables))
        elif not few_entries(run.n_entries, n_variables):
            run.plan_sample(largest_sample(run, n_variables, random()))

    def __call__(self, problem: PiecewiseLinear) -> Start:
        layout = problem.design.layout
        if few_entries(problem.run.n_entries, problem.design.n_variables) or (layout and layout.levels):
            return Start(Clusters.alone(problem))
        sharp = self.sharpening(problem)
        point = sharp.on_samples(self._point)
        if self._once:
            self._samples = None
            sharp.samples.free(problem.run)
        if out_of_time(problem.run):
            return problem.hurried_start(point)
        found = sharp.on_all_entries(point)
        late = out_of_time(problem.run)
        return problem.hurried_start(found.point) if late else draw(problem, sharp, found)

    def sharpening(self, problem: PiecewiseLinear) -> Sharpening:
        """Newton steps of a problem on the samples of this start."""
        if self._samples is None:
            self._samples = Samples(problem.run, problem.design, problem.procedure.generator())
        return Sharpening(self._samples, problem.run, problem.design)


def few_entries(n: int, p: int) -> bool:
    """Whether every row stays single: rows in doubt are about all of them, and aggregation cannot pay."""
    return n <= max(plan.SETTINGS.free, plan.SETTINGS.near_of_all * math.sqrt(p * n))
