"""Newton steps of the sharpened start, first on samples of growing size and then on all rows."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.memory import fewest_rows
from aidlearn.engine.result import StartStep
from aidlearn.linear.hurried import out_of_time
from aidlearn.linear.model.design import Design
from aidlearn.linear.passes import passes_of
from aidlearn.linear.start import newton
from aidlearn.linear.start.newton import (
    Damping,
    LocalModel,
    at_quantile,
    balanced_sample,
    bounded_step,
    local_model,
    nearest,
    solved,
    thinning,
)
from aidlearn.linear.start.plan import Reached, View
from aidlearn.linear.start.samples import Samples
from aidlearn.numerics import Float


@dataclass(frozen=True)
class StartSettings:
    """Settings that decide how many Newton steps a start takes, and when they end."""

    fair: float = 1e-2
    """Guess. Accuracy of the fit to rows picked by leverage, whose optimum differs by more from that of all rows.
    Ablation (fair=0.001): mean work 1.004, worst table 1.04."""
    most_full_steps: int = 3
    """Guess. Maximum number of steps on all rows; if they converge, more gain less than the aggregated problem.
    Ablation (most_full_steps=2): mean work 0.965, worst table 1.51."""
    steps_after_fit: int = 2
    """Guess. Maximum number of steps on all rows after a fit to rows picked by leverage, which takes a pass itself."""
    damped_steps: int = 2
    """Guess. Maximum number of damped steps on all rows: an aggregated problem makes more progress.
    Ablation (damped_steps=1e9): mean work 1.004, worst table 1.29."""
    first_steps: int = 8
    """Guess. Maximum number of steps on the smallest sample; larger ones get one step."""
    first_error: float = 0.25
    """Guess. Assumed squared error of a cheap starting point, as p / rows.
    Ablation (first_error=1): mean work 1.000, worst table 1.10."""
    sample_error: float = 4.0
    """Squared error of a sample's optimum, relative to p / rows of the sample: twice the standard error, squared.
    Ablation (sample_error=1): mean work 1.002, worst table 1.34."""
    error_after_step: float = 1 / 16
    """Factor on the squared error after a Newton step; the width, which follows its root, shrinks to a quarter.
    Ablation (error_after_step=0): mean work 1.018, worst table 1.56."""
    unsure: float = 0.3
    """Fraction of the rows in doubt at the optimum that stay in doubt after a converged step.
    Without it (1.0) dense tables keep 1.7 to 3 times as many single rows."""
    least_contraction: float = 0.3
    """Guess. Least assumed ratio of the next step to the current one, whatever the last two steps were.
    Ablation (least_contraction=0): mean work 0.900, worst table 2.19."""
    short: float = 0.2
    """Guess. Step length, relative to the final accuracy, below which the sharpening ends.
    Ablation (short=0, short_uneven=0): mean work 1.091, worst table 2.37."""


SETTINGS = StartSettings()


@dataclass
class Level:
    """The rows on which Newton steps are taken: a sample that represents all rows, or all rows."""

    run: Run
    leverages: list[Any] | None = None
    is_sample: bool = True


class Sharpening:
    """The Newton steps of one problem on the samples of its rows and on all rows."""

    def __init__(self, samples: Samples, run: Run, design: Design) -> None:
        self.samples, self.run, self.design = samples, run, design
        self.steps: list[StartStep] = []
        """Evaluations so far, for plots."""
        self._fit_steps = 0
        """Number of solver steps in the fit to the picked rows."""

    def at(self, point: Float) -> View:
        """Return the margins and leverages of the viewed rows at a point."""
        return self.samples.at(self.design, point)

    @property
    def fitted_first(self) -> bool:
        """Whether a fit to the picked rows replaces Newton steps on samples, which would converge slowly."""
        return self.samples.by_leverage and self.design.loss.classifies

    def on_samples(self, point: Float | None) -> Float:
        """Take Newton steps on samples of growing size, from a given point or a cheap one."""
        design, samples, p = self.design, self.samples, self.design.n_variables
        if self.fitted_first:
            return self._fit()
        if design.loss.classifies:
            few = balanced_sample(design, self.samples.nested[-1], fewest_rows(self.run.n_entries, p))
            point = np.asarray(solved(design, few, self.run.deadline, self.run.n_jobs).point)
        else:
            point = at_quantile(design, samples.nested[0], samples.least_squares if point is None else point)
            if design.region is not None:
                point = nearest(design, design.region, samples.metric.gram, point)
        error, steps, settled = SETTINGS.first_error, SETTINGS.first_steps, True
        for sample in samples.nested:
            if out_of_time(self.run):
                break
            rows = Run(
                ArraySource(sample.X, sample.y, sample.weight), n_jobs=self.run.n_jobs, compiled=self.run.compiled
            )
            smallest = p / design.effective * self.run.n_entries / sample.n_entries
            found = self._descend(Level(rows), point, max(error, smallest), smallest, steps)
            point, settled = found.point, found.settled
            error, steps = SETTINGS.sample_error * smallest, 1
        if settled or design.layout is None or not design.loss.classifies or out_of_time(self.run):
            return point
        samples.pick(self.run, design)
        return self._fit()

    def _fit(self) -> Float:
        """Return the solution on the picked rows."""
        fit = solved(self.design, self.samples.nested[-1], self.run.deadline, self.run.n_jobs, SETTINGS.fair)
        self._fit_steps = fit.n_steps
        return np.asarray(fit.point)

    def on_all_entries(self, point: Float) -> Reached:
        """Take Newton steps on all rows."""
        error = SETTINGS.sample_error * self._smallest_error * self.run.n_entries / self.samples.n_largest
        steps = SETTINGS.steps_after_fit if self.fitted_first else SETTINGS.most_full_steps
        return replace(self._on_all_rows(point, error, steps), fit_steps=self._fit_steps)

    def at_optimum(self, point: Float) -> Reached:
        """Take one Newton step on all rows from a near-optimal point: more steps would only circle the optimum."""
        return self._on_all_rows(point, self._smallest_error, 1)

    @property
    def _smallest_error(self) -> float:
        """Squared error of the optimum on all rows, as p / rows."""
        return self.design.n_variables / self.design.effective

    def _on_all_rows(self, point: Float, error: float, steps: int) -> Reached:
        everything = Level(self.run, self.samples.leverages, is_sample=False)
        found = self._descend(everything, point, error, self._smallest_error, steps)
        self.samples.leverages = everything.leverages
        return found

    def _descend(self, level: Level, point: Float, error: float, smallest: float, steps: int) -> Reached:
        """Take damped Newton steps on the rows of a level until the next one would be short.

        ``error`` is the assumed squared error of the point (p / rows) and ``smallest`` that of the level's optimum; the
        smoothing width shrinks from one to the other with the length of the steps.
        """
        design, previous = self.design, math.inf
        damping = Damping(least=newton.SETTINGS.first_damping) if level.is_sample else Damping()
        view = self.at(point)
        kappa = view.width(view.fraction(error))
        model = self._model(level, point, kappa, view.fraction(error))
        length = kappa
        gained, n_damped = False, 0
        for number in range(1, steps + 1):
            final = number == steps
            if time.monotonic() > self.run.deadline:
                break
            step, length = bounded_step(design, point, model, kappa, damping, self.samples.metric)
            trial = design.inside(point + design.step(step))
            view = self.at(trial)
            unit = view.width(view.fraction(smallest))
            # This is the remaining distance if the next step shrinks as this one did.
            left = length * min(1.0, max(SETTINGS.least_contraction, length / previous))
            # The last step after one that gained is not evaluated here but in the pass that draws the clusters.
            # With rare columns it may be far off, unless steps need no damping.
            sure = not self.fitted_first or damping.relaxed
            unseen = final and (level.is_sample or (gained and sure))
            if damping.negligible and (left <= SETTINGS.short * unit or unseen):
                return Reached(trial, max(length, view.width(SETTINGS.unsure * view.fraction(smallest))))
            if final and steps > 1 and not level.is_sample:
                break  # the step is damped, and no other follows
            previous = max(length, 1e-300)  # constraints may leave no step but 0
            error = max(smallest, error * SETTINGS.error_after_step)
            # The remaining distance is a fraction of an undamped step's length, or the whole length of a damped one.
            width = max(view.width(view.fraction(error)), min(left if damping.negligible else length, kappa))
            n_damped += not damping.negligible
            there = self._model(level, trial, width, view.share(width))
            gained = there.objective < model.objective
            if there.objective <= model.objective:
                damping.less()
                point, model, kappa = trial, there, width
            else:  # also if the objective is NaN
                damping.more()
            if final or (n_damped == SETTINGS.damped_steps and not level.is_sample):
                break
        return Reached(point, length, settled=False, objective=model.objective)

    def _model(self, level: Level, point: Float, kappa: float, fraction: float) -> LocalModel:
        """Return the model at a point where about a given fraction of the rows is near a kink."""
        design, metric, passes = self.design, self.samples.metric, passes_of(level.run)
        n = level.run.n_entries
        # A Hessian may cost as much as a pass over the rows, so sparse rows are hardly ever left out.
        enough = 0.0 if design.layout is None else design.layout.rows_for_passes(n, 1, steps=1)
        thin = thinning(fraction * n, design.n_variables, enough)
        total = LocalModel(0.0, np.zeros(design.n_variables), [], 0.0)

        def measure(chunk: Chunk, leverage: Any) -> tuple[LocalModel, Any]:
            if leverage is None:
                leverage = passes.leverages(design, chunk, metric)
            sums = passes.local_sums(design, chunk, point, leverage, kappa)
            return local_model(design, chunk, sums, leverage, thin, passes), leverage

        level.leverages = level.run.map(measure, level.leverages, partial(total.add, n_jobs=metric.n_jobs))
        total.objective += design.penalty(point)
        self.note(n, total.objective)
        return total

    def note(self, n_rows: int, objective: float) -> None:
        """Record an evaluation for plots."""
        self.steps.append(StartStep(n_rows, objective, time.monotonic(), self.run.n_passes))
