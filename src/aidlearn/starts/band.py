"""The default initial clustering: rows near the sharpened hyperplane alone, far rows binned by distance."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from aidlearn.data.arrays import ArraySource
from aidlearn.data.memory import fewest_rows
from aidlearn.data.source import Chunk, DataSource, Float, join
from aidlearn.engine.clusters import Assignment, Clusters
from aidlearn.engine.problem import Incumbent, Start
from aidlearn.problems.piecewise import PiecewiseLinear
from aidlearn.starts.sharpen import (
    HEAVY,
    Damping,
    Metric,
    Model,
    NormalEquations,
    at_quantile,
    balanced_sample,
    bounded_step,
    local_model,
    quantile_width,
    solved_point,
    thinning,
    uncertain_fraction,
)

SMALL = 1000
"""Up to this many entries there is nothing to gain from aggregation."""
MAX_FULL_STEPS = 6
VIEW_ROWS = 10_000
"""Rows that quantiles of distances are read from."""
MOST_BINS = 32
"""Far clusters of a region: their rows seldom violate, and those that do split off anyway."""


class Band:
    """Sharpen a cheap start on all rows, then cluster around it.

    One object serves several problems on the same entries (quantiles, classes): samples and leverages are
    kept, and sharpening starts from the solution that :meth:`continue_from` was given last.
    """

    def __init__(self) -> None:
        self._sharpening: _Sharpening | None = None
        self._point: Float | None = None

    def continue_from(self, point: Float) -> None:
        self._point = point

    @staticmethod
    def foresee(source: DataSource, n_variables: int, rng: np.random.Generator) -> None:
        """Ask the source to bring the sample along with the next pass."""
        if not few_entries(source.n_entries, n_variables):
            source.foresee(*systematic(source, n_variables, rng))

    def __call__(self, problem: PiecewiseLinear) -> Start:
        if few_entries(problem.source.n_entries, problem.n_variables):
            return singletons(problem)
        if self._sharpening is None:
            self._sharpening = _Sharpening(problem)
        sharp = self._sharpening
        sharp.problem, sharp.everything.source = problem, problem.source
        try:
            point, reach = sharp.on_all_entries(sharp.on_samples(self._point))
            return _cluster(problem, sharp, point, reach)
        finally:
            # The problem holds its start: a way back would keep rows and leverages until the garbage collector comes.
            del sharp.problem


def systematic(source: DataSource, p: int, rng: np.random.Generator) -> tuple[int, int]:
    """Step (a prime) and offset of the largest sample."""
    n = source.n_entries
    step = _prime_from(n // source.budget.sample_rows(n, p))
    return step, int(rng.integers(step))


def few_entries(n: int, p: int) -> bool:
    """Whether there is nothing to gain from aggregation."""
    return n <= max(SMALL, 4 * math.sqrt(p * n))


def _prime_from(number: int) -> int:
    """The smallest prime that is at least ``number``."""
    candidate = max(2, number)
    while any(candidate % factor == 0 for factor in range(2, math.isqrt(candidate) + 1)):
        candidate += 1
    return candidate


def singletons(problem: PiecewiseLinear) -> Start:
    """Every entry its own cluster: the aggregated problem is the original one."""

    def assign(chunk: Chunk, state: Any) -> Assignment:
        rows = chunk.n_entries
        return Assignment(np.zeros(rows, dtype=np.int32), np.ones(rows, dtype=bool))

    return Start(Clusters.build(problem.source, problem, assign, 1)[0])


@dataclass(frozen=True)
class _View:
    """Margins of a sample at a point, as a stand-in for those of all rows."""

    problem: PiecewiseLinear
    z: Float
    leverage: Float

    def fraction(self, ratio: float) -> float:
        """Rows in doubt, relative to all, at an error of ``sqrt(ratio)``."""
        return uncertain_fraction(self.problem, self.z, ratio)

    def width(self, fraction: float) -> float:
        """Distance (in leverages) within which a fraction of the rows lies."""
        return quantile_width(self.problem, self.z, self.leverage, fraction)

    def share(self, width: float) -> float:
        """Fraction of the rows within a distance (in leverages)."""
        return float(np.mean(self.problem.loss.distance(self.z) <= width * self.leverage))


@dataclass
class _Level:
    """Rows that Newton steps are taken on: a sample that stands for all, or all of them."""

    source: DataSource
    leverages: list[Any] | None = None
    is_sample: bool = True


class _Sharpening:
    """Nested samples, the metric, and the passes of the sharpened start.

    Samples are systematic (every k-th row, k prime). Periodic data could mislead them, which costs iterations,
    never correctness.
    """

    def __init__(self, problem: PiecewiseLinear) -> None:
        self.problem = problem
        p = problem.n_variables
        fewest = fewest_rows(problem.source.n_entries, p)
        whole = problem.source.every(*systematic(problem.source, p, problem.rng))
        self.samples = [whole.weighing(problem.weight)]
        while self.samples[0].n_entries > 7 * fewest:
            self.samples.insert(0, self._thinned(7))
        # Enough rows for a Gram matrix within some ten percent, more while that is cheap.
        affordable = max(20 * p, min(20_000, int(2e9 / p**2)))
        few = whole.select(slice(None, None, max(1, whole.n_entries // affordable))).weighing(problem.weight)
        equations = NormalEquations.of(problem, few)
        shown = equations.shows_all_columns(problem)
        if not shown:
            equations = NormalEquations.of_all(problem)
            self.samples = self.samples[-1:]  # smaller ones would mislead
        self.metric = Metric.of(problem, equations.gram)
        self.least_squares = problem.step(self.metric.solve(equations.right))
        self.everything = _Level(problem.source, is_sample=False)
        if shown:
            self.metric = self.metric.settled(problem, few)
        if self.metric.constant is None:
            self._find_leverages()
        self.largest = self.samples[-1]
        thin = max(1, self.largest.n_entries // VIEW_ROWS)
        self.viewed = self.largest.select(slice(None, None, thin))
        self.viewed_leverage = self.metric.leverage(problem, self.viewed)

    def _thinned(self, step: int) -> Chunk:
        return self.samples[0].select(slice(None, None, step)).weighing(self.problem.weight)

    def _find_leverages(self) -> None:
        """Leverage of all rows, by one pass; the few rows that carry a fit by themselves join every sample."""
        problem, metric = self.problem, self.metric
        heavy: list[Chunk] = []

        def measure(chunk: Chunk, state: Any) -> tuple[Chunk, Any]:
            leverage = metric.leverage(problem, chunk)
            return chunk.select(np.flatnonzero(chunk.weight * leverage**2 > HEAVY)), leverage.astype(np.float32)

        self.everything.leverages = problem.source.run(measure, collect=heavy.append)
        self.samples = [join([sample, *heavy]) for sample in self.samples]

    def on_samples(self, point: Float | None) -> Float:
        """Newton steps on samples of growing size, from a given point or a cheap one."""
        problem, p = self.problem, self.problem.n_variables
        if problem.loss.classifies:
            few = balanced_sample(problem, self.largest, max(20 * p, 2000))
            point = solved_point(problem, few)
        else:
            point = at_quantile(problem, self.samples[0], self.least_squares if point is None else point)
        error, steps = 0.25, 8
        for sample in self.samples:
            rows = ArraySource(sample.X, sample.y, sample.weight, problem.source.n_jobs)
            smallest = p / problem.effective * problem.source.n_entries / sample.n_entries
            point, _ = self._descend(_Level(rows), point, max(error, smallest), smallest, steps)
            error, steps = 4 * smallest, 1 if self.metric.constant is not None else 2
        return point

    def on_all_entries(self, point: Float) -> tuple[Float, float]:
        """Newton steps on all rows; the point, and a distance within which rows may still change sides."""
        problem = self.problem
        smallest = problem.n_variables / problem.effective
        error = 4 * smallest * problem.source.n_entries / self.largest.n_entries
        return self._descend(self.everything, point, error, smallest, MAX_FULL_STEPS)

    def at(self, point: Float) -> _View:
        """A sample seen from a point."""
        return _View(self.problem, self.problem.margins(self.viewed, point), self.viewed_leverage)

    def _descend(self, level: _Level, point: Float, error: float, smallest: float, steps: int) -> tuple[Float, float]:
        """Damped Newton steps on the rows of a level until the next one would be short.

        ``error`` is the assumed error of the point (p over rows), ``smallest`` that of the level's optimum: the
        smoothing width follows the length of the steps from one to the other. Returns the point and a distance
        (in leverages) within which rows may still change sides.
        """
        problem, previous = self.problem, math.inf
        # A sample says little of rare columns: there the Gram matrix of all rows keeps its weight.
        damping = Damping(least=1e-2) if level.is_sample else Damping()
        # Where rows differ in leverage, some coefficients lag behind the typical one.
        short = 0.2 if self.metric.constant is not None or problem.loss.classifies else 0.05
        view = self.at(point)
        kappa = view.width(view.fraction(error))
        model = self._model(level, point, kappa, view.fraction(error))
        length = unit = kappa
        for remaining in reversed(range(steps)):
            if time.monotonic() > problem.deadline:
                break
            step, length = bounded_step(problem, point, model, kappa, damping, self.metric)
            trial = point + problem.step(step)
            view = self.at(trial)
            unit = view.width(view.fraction(smallest))
            # What is left to go after this step, if the next one shrinks as this one did.
            left = length * min(1.0, max(0.3, length / previous))
            if damping.negligible and (left <= short * unit or (remaining == 0 and level.is_sample)):
                return trial, max(length, view.width(0.3 * view.fraction(smallest)))
            previous = length
            error = max(smallest, error / 16)
            # An undamped step leaves a fraction of its length to go, a damped one as much again.
            width = max(view.width(view.fraction(error)), min(left if damping.negligible else length, kappa))
            there = self._model(level, trial, width, view.share(width))
            if there.objective > model.objective:
                damping.more()
                continue
            damping.less()
            point, model, kappa = trial, there, width
        return point, max(length, 2 * unit)

    def _model(self, level: _Level, point: Float, kappa: float, fraction: float) -> Model:
        """The model at a point, where about a given fraction of the rows is near a kink."""
        problem, metric = self.problem, self.metric
        p = problem.n_variables
        thin = thinning(fraction * level.source.n_entries, p)
        total = Model(0.0, np.zeros(p), [], 0.0)

        def measure(chunk: Chunk, leverage: Any) -> tuple[Model, Any]:
            if leverage is None:
                leverage = metric.leverage(problem, chunk)
            z = problem.margins(chunk, point)
            return local_model(problem, chunk, z, leverage, kappa, thin), leverage

        level.leverages = level.source.run(measure, level.leverages, total.add)
        total.objective += problem.penalty(point)
        return total


def _cluster(problem: PiecewiseLinear, sharp: _Sharpening, point: Float, reach: float) -> Start:
    """Label all rows at a point; the objective there comes with the same pass."""
    loss, n_regions = problem.loss, problem.n_regions
    n, p = problem.source.n_entries, problem.n_variables
    view = sharp.at(point)
    # Newton steps end with an error of about (p/n)^(1/4) of the doubt; some coefficients err by more, the more
    # so where rows differ in leverage. K rows cost about K p / n passes to solve for.
    doubt = math.sqrt(p / n)
    margin = min(1.0, (3.0 if sharp.metric.constant is not None else 9.0) * math.sqrt(doubt))
    fewest, most = max((5 * p + 50) / n, min(margin * doubt, 5.0 / p)), min(0.5, 3 * doubt)
    most = max((5 * p + 50) / n, min(most, problem.source.budget.clusters / (p * n)))
    fewest = min(fewest, most)
    if problem.initial_rate is not None:
        fewest = most = max(p + 1, problem.initial_rate * n - n_regions * p) / n
    near = min(max(reach, view.width(fewest)), view.width(most))
    nearness = loss.distance(view.z) / view.leverage
    # Bins of equal width by distance, up to where nearly all rows are.
    far = nearness[nearness > near]
    n_bins = max(1, min(MOST_BINS, p, len(far) // 4))
    scale = n_bins / max(float(np.quantile(far, 0.98)) if len(far) else 1.0, 1e-300)

    def assign(chunk: Chunk, leverage: Any) -> Assignment:
        z = problem.margins(chunk, point)
        distance = loss.distance(z) / leverage
        labels = problem.region_of(z).astype(np.int32) * n_bins
        labels += np.minimum(distance * scale, n_bins - 1).astype(np.int32)
        sign, _ = loss.fold(chunk.y)
        if sign is not None:
            labels[sign > 0] += n_regions * n_bins
        # Where few rows carry a coefficient its error is larger than the usual root-n one; the at most
        # 10 rows per variable with a leverage above 0.1 stay alone wherever they are.
        share = chunk.weight * leverage**2
        alone = (distance <= near * (1 + 30 * share)) | (share > 0.1)
        return Assignment(labels, alone, problem.objective_at(chunk, point, z))

    homes = np.tile(np.repeat(np.arange(n_regions, dtype=np.int16), n_bins), 2 if loss.classifies else 1)
    clusters, objective = Clusters.build(problem.source, problem, assign, len(homes), homes, sharp.everything.leverages)
    return Start(clusters, Incumbent(point, objective + problem.penalty(point)))
