"""Newton steps of the sharpened start: on samples of growing size first, then on all rows."""

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
    """Numbers that decide how many Newton steps a start takes, and when they end."""

    fair: float = 1e-2
    """Guess. Accuracy of a model of rows picked by leverage, which differ from all rows by more.
    Ablation (fair=0.001): mean work 1.004, worst table 1.04."""
    most_full_steps: int = 3
    """Guess. Maximum number of steps on all rows; where they converge, more gain less than the aggregated problem.
    Ablation (most_full_steps=2): mean work 0.965, worst table 1.51."""
    damped_steps: int = 2
    """Guess. Maximum number of damped steps on all rows: an aggregated problem leads further than they do.
    Ablation (damped_steps=1e9): mean work 1.004, worst table 1.29."""
    first_steps: int = 8
    """Guess. Maximum number of steps on the smallest sample; on a larger one there is one step."""
    first_error: float = 0.25
    """Guess. Assumed error (p over rows) of a cheap starting point.
    Ablation (first_error=1): mean work 1.000, worst table 1.10."""
    sample_error: float = 4.0
    """Error of the optimum of a sample, in that of its rows (p over rows): twice the standard error, squared.
    Ablation (sample_error=1): mean work 1.002, worst table 1.34."""
    error_after_step: float = 1 / 16
    """Factor of the squared error after a Newton step: a quarter of the width, which shrinks with the error's root.
    Ablation (error_after_step=0): mean work 1.018, worst table 1.56."""
    least_contraction: float = 0.3
    """Guess. Least ratio of the next step to the present one that is assumed, whatever the last two steps were.
    Ablation (least_contraction=0): mean work 0.900, worst table 2.19."""
    short: float = 0.2
    """Guess. Steps below this part of the final accuracy end the sharpening.
    Ablation (short=0, short_uneven=0): mean work 1.091, worst table 2.37."""


SETTINGS = StartSettings()


@dataclass
class Level:
    """Rows that Newton steps are taken on: a sample that stands for all, or all of them."""

    run: Run
    leverages: list[Any] | None = None
    is_sample: bool = True


class Sharpening:
    """The Newton steps of one problem on the samples of its rows and on all rows."""

    def __init__(self, samples: Samples, run: Run, design: Design) -> None:
        self.samples, self.run, self.design = samples, run, design
        self.steps: list[StartStep] = []
        """Evaluations, for plots."""
        self._fit_steps = 0
        """Steps of the solver for the model of the picked rows."""

    def at(self, point: Float) -> View:
        """The viewed rows at a point."""
        return self.samples.at(self.design, point)

    @property
    def fitted_first(self) -> bool:
        """Whether a model of the picked rows replaces Newton steps on samples, which converge slowly there."""
        return self.samples.by_leverage and self.design.loss.classifies

    def on_samples(self, point: Float | None) -> Float:
        """Newton steps on samples of growing size, from a given point or a cheap one."""
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
        """The model of the picked rows."""
        fit = solved(self.design, self.samples.nested[-1], self.run.deadline, self.run.n_jobs, SETTINGS.fair)
        self._fit_steps = fit.n_steps
        return np.asarray(fit.point)

    def on_all_entries(self, point: Float) -> Reached:
        """Newton steps on all rows."""
        error = SETTINGS.sample_error * self._smallest_error * self.run.n_entries / self.samples.n_largest
        return replace(self._on_all_rows(point, error, SETTINGS.most_full_steps), fit_steps=self._fit_steps)

    def at_optimum(self, point: Float) -> Reached:
        """One Newton step on all rows from a point that is as good as any: more steps would only circle the optimum."""
        return self._on_all_rows(point, self._smallest_error, 1)

    @property
    def _smallest_error(self) -> float:
        """Error of the optimum on all rows."""
        return self.design.n_variables / self.design.effective

    def _on_all_rows(self, point: Float, error: float, steps: int) -> Reached:
        everything = Level(self.run, self.samples.leverages, is_sample=False)
        found = self._descend(everything, point, error, self._smallest_error, steps)
        self.samples.leverages = everything.leverages
        return found

    def _descend(self, level: Level, point: Float, error: float, smallest: float, steps: int) -> Reached:
        """Damped Newton steps on the rows of a level until the next one would be short.

        ``error`` is the assumed error of the point (p over rows), ``smallest`` that of the level's optimum: the
        smoothing width follows the length of the steps from one to the other.
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
            # Distance left after this step, if the next one shrinks as this one did.
            left = length * min(1.0, max(SETTINGS.least_contraction, length / previous))
            # The last step after one that gained is taken without evaluation: the pass that draws the clusters
            # evaluates it. With rare columns it may be far off, unless steps need no damping.
            sure = not self.fitted_first or damping.relaxed
            unseen = final and (level.is_sample or (gained and sure))
            if damping.negligible and (left <= SETTINGS.short * unit or unseen):
                return Reached(trial, max(length, unit))
            if final and steps > 1 and not level.is_sample:
                break  # damped, and no step follows it
            previous = max(length, 1e-300)  # a step of no length: constraints leave no other
            error = max(smallest, error * SETTINGS.error_after_step)
            # After an undamped step a fraction of its length is left, after a damped one as much again.
            width = max(view.width(view.fraction(error)), min(left if damping.negligible else length, kappa))
            n_damped += not damping.negligible
            there = self._model(level, trial, width, view.share(width))
            gained = there.objective < model.objective
            if there.objective <= model.objective:
                damping.less()
                point, model, kappa = trial, there, width
            else:  # or it is not a number
                damping.more()
            if final or (n_damped == SETTINGS.damped_steps and not level.is_sample):
                break
        return Reached(point, length, settled=False, objective=model.objective)

    def _model(self, level: Level, point: Float, kappa: float, fraction: float) -> LocalModel:
        """The model at a point, where about a given fraction of the rows is near a kink."""
        design, metric, passes = self.design, self.samples.metric, passes_of(level.run)
        n = level.run.n_entries
        # A Hessian may cost as much as a pass over the rows: sparse rows are hardly ever left out.
        enough = 0.0 if design.layout is None else design.layout.rows_for_passes(n, 1, steps=1)
        thin = thinning(fraction * n, design.n_variables, enough)
        total = LocalModel(0.0, np.zeros(design.n_variables), [], 0.0)

        def measure(chunk: Chunk, leverage: Any) -> tuple[LocalModel, Any]:
            if leverage is None:
                leverage = passes.leverages(design, chunk, metric)
            sums = passes.local_sums(design, chunk, point, leverage, kappa)
            return local_model(design, chunk, sums, leverage, thin), leverage

        level.leverages = level.run.map(measure, level.leverages, partial(total.add, n_jobs=metric.n_jobs))
        total.objective += design.penalty(point)
        self.note(n, total.objective)
        return total

    def note(self, n_rows: int, objective: float) -> None:
        """Record an evaluation for plots."""
        self.steps.append(StartStep(n_rows, objective, time.monotonic(), self.run.n_passes))
