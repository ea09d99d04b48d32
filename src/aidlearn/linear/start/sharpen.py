"""The default initial clustering: rows near the sharpened hyperplane alone, far rows binned by distance."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.data.rows.memory import fewest_rows
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Start
from aidlearn.engine.result import StartStep
from aidlearn.linear.hurried import HURRY, few_rows, out_of_time
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric, NormalEquations
from aidlearn.linear.passes.choice import passes_of
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.clusters import draw
from aidlearn.linear.start.leverage_sample import ByLeverage
from aidlearn.linear.start.newton import (
    Damping,
    Model,
    at_quantile,
    balanced_sample,
    bounded_step,
    local_model,
    solved,
    thinning,
)
from aidlearn.linear.start.plan import FREE, Reached, View
from aidlearn.linear.start.within_region import nearest
from aidlearn.numerics import Float

NEAR_OF_ALL = 4.0
"""Rows in doubt, in sqrt(p n): where these are all, there is nothing to gain from aggregation."""
VIEW_ROWS = 10_000
"""Rows that quantiles of distances are read from."""

# Samples
SAMPLE_RATIO = 7
"""Between the sizes of nested samples: a step on the next one halves the error more than once."""
GRAM_FLOPS = 2e9
"""Of the Gram matrix of a sample that is worth its accuracy."""
GRAM_ROWS = 20_000
"""More rows than this make no Gram matrix better."""
ROWS_PER_VARIABLE = 20
"""Fewest rows of a Gram matrix, for columns within some ten percent."""
PICKED = 3.0
"""Rows picked by leverage, in sqrt(p n), where a systematic sample misses rare columns."""
FAIR = 1e-2
"""Accuracy of a model of these rows, which differ from all rows by more."""
RARE_CLASS = 5
"""Rows per variable below which all rows of a class are in the sample, and single."""
BALANCED_ROWS = 2000
"""Of the sample with equal classes that a classifier is first fitted to, at least."""

# Newton steps
MAX_FULL_STEPS = 3
"""On all rows; where they converge, more gain less than the aggregated problem does."""
STEPS_AFTER_FIT = 2
"""On all rows, after a fit to rows picked by leverage, which takes a pass itself."""
DAMPED_STEPS = 2
"""On all rows: steps that have to be damped lead nowhere soon, and an aggregated problem sees further than they do."""
FIRST_STEPS = 8
"""On the smallest sample."""
MORE_STEPS = 32
"""There, as long as each gains: they cost next to nothing, and nearly separable classes take most of them."""
GAINS = 1e-2
"""Part of the objective; what gains less on a small sample says nothing of all rows."""
FIRST_ERROR = 0.25
"""Assumed error (p over rows) of a cheap starting point."""
ERROR_AFTER_STEP = 1 / 16
"""What a Newton step leaves of the squared error: a quarter of the width, which shrinks with the error's root."""
LEAST_CONTRACTION = 0.3
"""A step is not taken to shrink the next one by more than this, whatever the last two say."""
SHORT, SHORT_UNEVEN = 0.2, 0.05
"""Steps below this part of the final accuracy end sharpening. Where rows differ in leverage, some coefficients lag
behind the typical one."""
UNSURE = 0.3
"""Part of the rows in doubt at the optimum that stay in doubt after a converged step."""
DAMPED_ON_SAMPLES = 1e-2
"""Least damping on a sample, which says little of rare columns: there the Gram matrix of all rows keeps its weight."""


class Band:
    """Sharpen a cheap start on all rows, then cluster around it.

    One object serves several problems on the same entries (quantiles, classes): samples and leverages are
    kept, and sharpening starts from the solution that :meth:`continue_from` was given last.
    """

    def __init__(self) -> None:
        self._sharpening: _Sharpening | None = None
        self._point: Float | None = None
        self.once = False
        """Whether there is one problem only: samples are let go when they have served."""

    def continue_from(self, point: Float) -> None:
        self._point = point

    @property
    def sharpening(self) -> _Sharpening | None:
        """Samples and leverages of the last problem, for others on the same entries."""
        return self._sharpening

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
        if self._sharpening is None:
            self._sharpening = _Sharpening(problem.run, problem.design, problem.procedure.generator())
        sharp = self._sharpening
        sharp.design, sharp.run, sharp.steps = problem.design, problem.run, []
        try:
            point = sharp.on_samples(self._point)
            if self.once:
                self._sharpening = None
                sharp.let_go()
            if out_of_time(problem.run):
                return problem.hurried_start(point)
            found = sharp.on_all_entries(point)
            late = out_of_time(problem.run)
            return problem.hurried_start(found.point) if late else draw(problem, sharp, found)
        finally:
            # The run ends with the fit: a way back would keep its rows until the garbage collector comes.
            del sharp.run


def largest_sample(run: Run, p: int, rng: np.random.Generator | None) -> Systematic:
    """Step (a prime) and offset of the largest sample."""
    n = run.n_entries
    step = _prime_from(n // run.budget.sample_rows(n, p))
    return Systematic(step, int((rng or np.random.default_rng()).integers(step)))


def few_entries(n: int, p: int) -> bool:
    """Whether there is nothing to gain from aggregation."""
    return n <= max(FREE, NEAR_OF_ALL * math.sqrt(p * n))


def _prime_from(number: int) -> int:
    """The smallest prime that is at least ``number``."""
    candidate = max(2, number)
    while any(candidate % factor == 0 for factor in range(2, math.isqrt(candidate) + 1)):
        candidate += 1
    return candidate


@dataclass
class _Level:
    """Rows that Newton steps are taken on: a sample that stands for all, or all of them."""

    run: Run
    leverages: list[Any] | None = None
    is_sample: bool = True


class _Sharpening:
    """Nested samples, the metric, and the passes of the sharpened start.

    Samples are systematic (every k-th row, k prime). Periodic data could mislead them, which costs iterations,
    never correctness.
    """

    def __init__(self, run: Run, design: Design, rng: np.random.Generator | None) -> None:
        self.run, self.design = run, design
        self.steps: list[StartStep] = []
        p = design.n_variables
        fewest = fewest_rows(run.n_entries, p)
        whole = run.sample(lambda: largest_sample(run, p, rng))
        self._targets = whole.y.copy()
        self.samples = [whole.weighing(design.weight)]
        while self.samples[0].n_entries > SAMPLE_RATIO * fewest:
            self.samples.insert(0, self._thinned(SAMPLE_RATIO))
        self._phase = float((rng or np.random.default_rng()).random())
        self.leverages: list[Any] | None = None
        self.by_leverage = False
        """Whether rows are picked by leverage: a sample misses rare columns, or steps on it do not settle."""
        self.fit_steps = 0
        """Of the solver, for the model of the picked rows."""
        thin = max(1, whole.n_entries // VIEW_ROWS)
        # A copy: it is looked at again and again, and a part of every page of the sample is slow to read.
        self.viewed = whole.select(np.arange(0, whole.n_entries, thin))
        affordable = max(ROWS_PER_VARIABLE * p, min(GRAM_ROWS, int(GRAM_FLOPS / p**2)))
        few = whole.select(slice(None, None, max(1, whole.n_entries // affordable))).weighing(design.weight)
        equations = NormalEquations.of(design, few, run.n_jobs)
        if len(equations.unlike(design)):
            self._pick(equations)
            return
        if self.rare_class:
            self.samples = [self._with_rare_class(whole)]
        self._measure(equations, few)

    def _measure(self, equations: NormalEquations, few: Chunk | None = None) -> None:
        """The metric of normal equations; one leverage for all rows where a few show that they hardly differ."""
        design = self.design
        self.metric = Metric.of(design, equations.gram, self.run.n_jobs)
        self.least_squares = design.step(self.metric.solve(equations.right))
        if few is not None:
            self.metric = self.metric.settled(design, few)
        self.n_sampled = self.samples[-1].n_entries
        self.viewed_leverage = np.asarray(self.metric.leverage(design, self.viewed))

    def _pick(self, sampled: NormalEquations | None = None) -> None:
        """Rows picked by leverage in place of the samples, and the metric of all rows.

        Those of regressions come with the pass for the normal equations, by leverages as a sample shows them. For
        classes the leverages of each are worth another pass.
        """
        design, run, p = self.design, self.run, self.design.n_variables
        size = min(PICKED * math.sqrt(p * run.n_entries), max(self.samples[-1].n_entries, run.budget.sample / p))
        picked: list[Chunk] = []
        if sampled is not None and not design.loss.classifies:
            rough = Metric.of(design, sampled.with_all_columns(design), run.n_jobs)
            pick = ByLeverage(design, [rough], size, self._phase, passes_of(run))
            equations = NormalEquations.of_all(design, run, pick, picked.append)
        else:
            classes = NormalEquations.of_classes(design, run)
            metrics = [Metric.of(design, found.gram.copy(), run.n_jobs) for found in classes]
            pick = ByLeverage(design, metrics, size, self._phase, passes_of(run))
            run.map(lambda chunk, state: (pick(chunk), None), collect=picked.append)
            equations = classes[0] + classes[1]
        self.by_leverage = True
        self.samples = [join(picked).weighing(design.weight)]  # smaller ones would mislead
        self._measure(equations)

    def _with_rare_class(self, sample: Chunk) -> Chunk:
        """A sample with all rows of the rare class, of which it has hardly any itself."""
        design, rare, found = self.design, self.rare_class, list[Chunk]()

        def pick(chunk: Chunk, state: Any) -> tuple[Chunk, None]:
            sign, _ = design.loss.fold(chunk.y)
            return chunk.select(np.flatnonzero(sign == rare)), None

        self.run.map(pick, collect=found.append)
        sign, _ = design.loss.fold(sample.y)
        weight = design.weight - sum(float(rows.weight.sum()) for rows in found)
        return join([sample.select(np.flatnonzero(sign != rare)).weighing(weight), *found])

    def let_go(self) -> None:
        """No more steps on samples: keep the rows that are viewed."""
        self.samples = []
        self.run.release_sample()

    def _thinned(self, step: int) -> Chunk:
        return self.samples[0].select(slice(None, None, step)).weighing(self.design.weight)

    @property
    def fitted_first(self) -> bool:
        """Whether a model of the picked rows takes the place of Newton steps on samples, which lead nowhere soon."""
        return self.by_leverage and self.design.loss.classifies

    def on_samples(self, point: Float | None) -> Float:
        """Newton steps on samples of growing size, from a given point or a cheap one."""
        design, p = self.design, self.design.n_variables
        if self.fitted_first:
            return self._fit()
        if design.loss.classifies:
            few = balanced_sample(design, self.samples[-1], max(ROWS_PER_VARIABLE * p, BALANCED_ROWS))
            point = np.asarray(solved(design, few, self.run.deadline, self.run.n_jobs).point)
        else:
            point = at_quantile(design, self.samples[0], self.least_squares if point is None else point)
            if design.region is not None:
                point = nearest(design, design.region, self.metric.gram, point)
        error, steps, settled = FIRST_ERROR, FIRST_STEPS + MORE_STEPS, True
        for sample in self.samples:
            if out_of_time(self.run):
                break
            rows = Run(
                ArraySource(sample.X, sample.y, sample.weight), n_jobs=self.run.n_jobs, compiled=self.run.compiled
            )
            smallest = p / design.effective * self.run.n_entries / sample.n_entries
            found = self._descend(_Level(rows), point, max(error, smallest), smallest, steps)
            point, settled = found.point, found.settled
            error, steps = 4 * smallest, 1 if self.metric.constant is not None else 2
        if settled or design.layout is None or not design.loss.classifies or out_of_time(self.run):
            return point
        self._pick()
        return self._fit()

    def _fit(self) -> Float:
        """The model of the picked rows."""
        fit = solved(self.design, self.samples[-1], self.run.deadline, self.run.n_jobs, FAIR)
        self.fit_steps = fit.n_steps
        return np.asarray(fit.point)

    def on_all_entries(self, point: Float) -> Reached:
        """Newton steps on all rows."""
        everything = _Level(self.run, self.leverages, is_sample=False)
        smallest = self.design.n_variables / self.design.effective
        error = 4 * smallest * self.run.n_entries / self.n_sampled
        steps = STEPS_AFTER_FIT if self.fitted_first else MAX_FULL_STEPS
        found = self._descend(everything, point, error, smallest, steps)
        self.leverages = everything.leverages
        return replace(found, fit_steps=self.fit_steps)

    @property
    def rare_class(self) -> float:
        """Sign of a class with so few rows that each says more than a single one of the other (0: there is none)."""
        sign, _ = self.design.loss.fold(self._targets)
        if sign is None:
            return 0.0
        positive, p = float(np.mean(sign > 0)), self.design.n_variables
        rows = min(positive, 1 - positive) * self.run.n_entries
        room = min(self.run.budget.sample, self.run.budget.clusters) / p
        return math.copysign(1.0, 0.5 - positive) if rows < min(RARE_CLASS * p, room) else 0.0

    def at(self, point: Float) -> View:
        """A sample seen from a point."""
        return View(self.design, self.design.margins(self.viewed, point), self.viewed_leverage)

    def _descend(self, level: _Level, point: Float, error: float, smallest: float, steps: int) -> Reached:
        """Damped Newton steps on the rows of a level until the next one would be short.

        ``error`` is the assumed error of the point (p over rows), ``smallest`` that of the level's optimum: the
        smoothing width follows the length of the steps from one to the other.
        """
        design, previous = self.design, math.inf
        damping = Damping(least=DAMPED_ON_SAMPLES) if level.is_sample else Damping()
        short = SHORT if self.metric.constant is not None or design.loss.classifies else SHORT_UNEVEN
        view = self.at(point)
        kappa = view.width(view.fraction(error))
        model = self._model(level, point, kappa, view.fraction(error))
        length = unit = kappa
        gained, n_damped = math.inf, 0
        for remaining in reversed(range(steps)):
            # The first steps of a sample that may have more: those after them have to gain.
            final = remaining == 0 or (steps > FIRST_STEPS and remaining <= MORE_STEPS and gained < GAINS)
            if time.monotonic() > self.run.deadline:
                break
            step, length = bounded_step(design, point, model, kappa, damping, self.metric)
            trial = design.inside(point + design.step(step))
            view = self.at(trial)
            unit = view.width(view.fraction(smallest))
            # What is left to go after this step, if the next one shrinks as this one did.
            left = length * min(1.0, max(LEAST_CONTRACTION, length / previous))
            # The last step after one that gained is taken unseen: what draws the clusters looks there anyway. Beside
            # rare columns it may be anywhere, unless steps need no damping.
            sure = not self.fitted_first or damping.relaxed
            unseen = final and (level.is_sample or (0 < gained < math.inf and sure))
            if damping.negligible and (left <= short * unit or unseen):
                return Reached(trial, max(length, view.width(UNSURE * view.fraction(smallest))))
            if final and steps > 1 and not level.is_sample:
                break  # damped, and nobody would go on from there
            previous = max(length, 1e-300)  # a step of no length: constraints leave no other
            error = max(smallest, error * ERROR_AFTER_STEP)
            # An undamped step leaves a fraction of its length to go, a damped one as much again.
            width = max(view.width(view.fraction(error)), min(left if damping.negligible else length, kappa))
            n_damped += not damping.negligible
            there = self._model(level, trial, width, view.share(width))
            if not there.objective <= model.objective:  # or it is not a number
                damping.more()
                gained = 0.0
            else:
                damping.less()
                gained = 1 - there.objective / model.objective if model.objective > 0 else 0.0
                point, model, kappa = trial, there, width
            if final or (n_damped == DAMPED_STEPS and not level.is_sample):
                break
        return Reached(point, max(length, 2 * unit), settled=False, objective=model.objective)

    def _model(self, level: _Level, point: Float, kappa: float, fraction: float) -> Model:
        """The model at a point, where about a given fraction of the rows is near a kink."""
        design, metric, passes = self.design, self.metric, passes_of(level.run)
        n = level.run.n_entries
        # What a pass over the rows costs is worth having in the Hessian, too: sparse rows are hardly ever left out.
        enough = 0.0 if design.layout is None else design.layout.rows_for_passes(n, 1, steps=1)
        thin = thinning(fraction * n, design.n_variables, enough)
        total = Model(0.0, np.zeros(design.n_variables), [], 0.0)

        def measure(chunk: Chunk, leverage: Any) -> tuple[Model, Any]:
            if leverage is None:
                leverage = passes.leverages(design, chunk, metric)
            sums = passes.local_sums(design, chunk, point, leverage, kappa)
            return local_model(design, chunk, sums, leverage, thin, passes), leverage

        level.leverages = level.run.map(measure, level.leverages, partial(total.add, n_jobs=metric.n_jobs))
        total.objective += design.penalty(point)
        self.note(n, total.objective)
        return total

    def note(self, n_rows: int, objective: float) -> None:
        """Remember for plots what was evaluated."""
        self.steps.append(StartStep(n_rows, objective, time.monotonic(), self.run.n_passes))
