"""Samples of the rows of a fit and the metric of their leverages, shared by all problems on these rows.

A systematic sample misses rare columns: it has at most one row of a factor level with a dozen rows, which leaves the
level's coefficient undetermined, and the objective on all rows may be arbitrarily large. In that case rows are picked
by weight and leverage: half of the rate is proportional to the weight and half to the squared leverage, so that all
rows that carry a coefficient are picked, and weights are divided by the rates.
On the 494,000 rows of KDD Cup 1999, the optimum on a systematic sample of 38,000 rows has 2 to 6 times the objective of
the optimum on all rows, and the optimum on 20,000 picked rows 1.02 times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.data.rows.memory import fewest_rows
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric, NormalEquations
from aidlearn.linear.passes import Passes, passes_of
from aidlearn.linear.start.plan import View
from aidlearn.numerics import Float


@dataclass(frozen=True)
class SampleSettings:
    """Settings that decide the sizes of samples."""

    view_rows: int = 10_000
    """Guess. Number of rows from which quantiles of distances are estimated.
    Ablation (view_rows=2000): mean work 1.000, worst table 1.00."""
    ratio: int = 7
    """Ratio between the sizes of nested samples: a step on the next one halves the error more than once."""
    gram_flops: float = 2e9
    """Guess. Maximum number of floating-point operations for the Gram matrix of a sample."""
    gram_rows: int = 20_000
    """Guess. Gram matrices use at most this many rows: more do not improve them."""
    picked: float = 3.0
    """Guess. Number of rows picked by leverage, in units of sqrt(p n), if a systematic sample misses rare columns.
    Ablation (picked=1): mean work 1.017, worst table 2.25."""


SETTINGS = SampleSettings()

GOLDEN = 0.6180339887498949
"""Golden ratio: the fractional parts of its multiples are spread evenly, however many there are."""


def largest_sample(run: Run, p: int, rng: np.random.Generator | None) -> Systematic:
    """Return the step (a prime) and offset of the largest sample."""
    n = run.n_entries
    step = _prime_from(n // run.budget.sample_rows(n, p))
    return Systematic(step, int((rng or np.random.default_rng()).integers(step)))


def _prime_from(number: int) -> int:
    """Return the smallest prime that is at least ``number``."""
    candidate = max(2, number)
    while any(candidate % factor == 0 for factor in range(2, math.isqrt(candidate) + 1)):
        candidate += 1
    return candidate


class Samples:
    """Nested samples, or rows picked by leverage, and the metric of the rows.

    Samples are systematic (every k-th row, k prime). Periodic data could mislead them, which costs iterations,
    never correctness.
    """

    metric: Metric
    least_squares: Float
    """Least squares solution on the rows of the metric."""
    viewed_leverage: Float
    n_largest: int
    """Number of rows in the largest sample."""

    def __init__(self, run: Run, design: Design, rng: np.random.Generator | None) -> None:
        n, p = run.n_entries, design.n_variables
        fewest = fewest_rows(n, p)
        whole = run.sample(lambda: largest_sample(run, p, rng))
        self.nested = [whole.weighing(design.weight)]
        """Samples of growing size."""
        while self.nested[0].n_entries > SETTINGS.ratio * fewest:
            self.nested.insert(0, self.nested[0].select(slice(None, None, SETTINGS.ratio)).weighing(design.weight))
        self._phase = float((rng or np.random.default_rng()).random())
        self.leverages: list[Any] | None = None
        """Leverages of all rows by chunk, once a pass has computed them."""
        self.by_leverage = False
        """Whether rows are picked by leverage: a sample misses rare columns, or steps on it do not settle."""
        # A copy, because it is read many times and single rows of every page of the sample are slow to read.
        self.viewed = whole.select(np.arange(0, whole.n_entries, max(1, whole.n_entries // SETTINGS.view_rows)))
        affordable = max(fewest, min(SETTINGS.gram_rows, int(SETTINGS.gram_flops / p**2)))
        few = whole.select(slice(None, None, max(1, whole.n_entries // affordable))).weighing(design.weight)
        equations = NormalEquations.of(design, few, run.n_jobs)
        if len(equations.unlike(design)):
            self.pick(run, design, equations)
            return
        self._measure(run, design, equations, few)

    def _measure(self, run: Run, design: Design, equations: NormalEquations, few: Chunk | None = None) -> None:
        """Set the metric from normal equations; all rows share one leverage if those of ``few`` hardly differ."""
        self.metric = Metric.of(design, equations.gram, run.n_jobs)
        self.least_squares = design.step(self.metric.solve(equations.right))
        if few is not None:
            self.metric = self.metric.settled(design, few)
        self.n_largest = self.nested[-1].n_entries
        self.viewed_leverage = np.asarray(self.metric.leverage(design, self.viewed))

    def pick(self, run: Run, design: Design, sampled: NormalEquations | None = None) -> None:
        """Replace the samples with rows picked by leverage, and the metric with that of all rows.

        A regression picks its rows in the pass that computes the normal equations, using the metric of a sample. A
        classifier takes a second pass, because it uses the leverages within each class.
        """
        p = design.n_variables
        wanted = SETTINGS.picked * math.sqrt(p * run.n_entries)
        size = min(wanted, max(self.nested[-1].n_entries, run.budget.sample / p))
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
        self.nested = [join(picked).weighing(design.weight)]  # smaller ones would mislead
        self._measure(run, design, equations)

    def free(self, run: Run) -> None:
        """Free the memory of the samples after the last step on them; the viewed rows stay."""
        self.nested = []
        run.release_sample()

    def at(self, design: Design, point: Float) -> View:
        """Return the margins and leverages of the viewed rows at a point."""
        return View(design, design.margins(self.viewed, point), self.viewed_leverage)


@dataclass(frozen=True)
class ByLeverage:
    """Picks rows from chunks at rates that grow with weight and squared leverage.

    Parameters
    ----------
    design : Design
    metrics : list of Metric
        Metrics of the leverages: one for all rows, or one for each class, because the only row of its class in a factor
        level carries the coefficient as much as the only row of a level. Rough metrics suffice: weights correct them.
    size : float
        Number of rows wanted; fewer are picked, because rates are at most 1.
    phase : float
        Offset of the cumulative rates, in [0, 1).
    passes : Passes
        The passes that compute leverages.
    """

    design: Design
    metrics: list[Metric]
    size: float
    phase: float
    passes: Passes

    def __call__(self, chunk: Chunk) -> Chunk:
        """Return the picked rows of a chunk, each with its weight divided by its rate."""
        leverage = self._leverage(self.metrics[0], chunk)
        if len(self.metrics) > 1:
            sign, _ = self.design.loss.fold(chunk.y)
            assert sign is not None
            leverage = np.where(sign > 0, self._leverage(self.metrics[1], chunk), leverage)
        by_leverage = leverage**2 / (len(self.metrics) * self.design.n_variables)
        rate = np.minimum(1.0, self.size * chunk.weight * (1.0 / self.design.weight + by_leverage) / 2)
        # A row is picked wherever the cumulative rate passes an integer, so that each level gets its share of rows.
        # Chunks start at different phases; otherwise chunks with few picked rows would all have one, or all none.
        passed = np.floor(np.cumsum(rate) + (self.phase + GOLDEN * chunk.start) % 1.0)
        rows = np.flatnonzero(np.diff(passed, prepend=0.0) > 0)
        picked = chunk.select(rows)
        return Chunk(0, len(rows), picked.X, picked.y, picked.weight / rate[rows])

    def _leverage(self, metric: Metric, chunk: Chunk) -> Float:
        return np.asarray(self.passes.leverages(self.design, chunk, metric), dtype=np.float64)
