"""Many quantiles in one fit: planes of close quantiles lie in corridors bounded by sampled planes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aidlearn.estimators.fitting import BATCH, BatchRecord, Fitted, checkpoint_of, fit_problem
from aidlearn.estimators.linear.coordinates import MeasuredRows
from aidlearn.estimators.linear.template import LinearEstimator
from aidlearn.linear.hurried import Hurried
from aidlearn.linear.model.design import Design
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.linear.start.sharpen import Band
from aidlearn.neighbours.batch import Batch, Member, Solved
from aidlearn.neighbours.corridors import Corridor, Sampled, SampledSolution
from aidlearn.numerics import Float

SPAN = 0.1
"""Guess. Largest part of the rows between the planes of quantiles that share near rows."""
DOUBT = 3.0
"""Guess. Distance of a sampled plane from its solution that near rows cover, in typical distances."""


def quantile_of(design: Design) -> float:
    return 1.0 - design.loss.tilts[0]


def groups_of(quantiles: list[float], span: float = SPAN) -> list[list[int]]:
    """Positions of ascending quantiles that share near rows: no two of them further apart than the span."""
    groups: list[list[int]] = []
    for k, quantile in enumerate(quantiles):
        if groups and quantile - quantiles[groups[-1][0]] <= span * (1 + 1e-9):
            groups[-1].append(k)
        else:
            groups.append([k])
    return groups


class ManyQuantiles:
    """The quantiles of a model on one run; inside they are numbered as they ascend."""

    def __init__(self, model: LinearEstimator, rows: MeasuredRows, designs: list[Design]) -> None:
        self.model, self.rows, self.run = model, rows, rows.run
        self.order = sorted(range(len(designs)), key=lambda k: quantile_of(designs[k]))
        self.designs = [designs[k] for k in self.order]
        self.quantiles = [quantile_of(design) for design in self.designs]
        self.fits: dict[int, Fitted] = {}
        self.knots: dict[int, SampledSolution] = {}
        self.crossings: int | None = None
        """Crossings on the rows of the fit, if they were counted."""
        checkpoint = checkpoint_of(model, self.run.source.origin, rows.moments.digest, BATCH)
        self.record = BatchRecord(model, model._callbacks(), self.run, len(designs), checkpoint)
        history = iter(self.record.history)
        for k, solved in self.record.solved.items():
            if solved.gap <= model.tol:
                self._take(k, solved, next(history).seconds)

    def solve(self) -> list[Fitted]:
        """The fits, in the order of the given quantiles."""
        try:
            sampled = Sampled.of(self.run, self.designs[0])
            members = [Member(design.loss) for design in self.designs]
            tol, metric = self.model.tol, sampled.metric
            batch = Batch(self.run, self.designs[0], members, tol=tol, given_metric=metric, ordered=True)
            solved = batch.solve(self._corridors(sampled), None, self._begin, self._done, self.record.solved)
            for k, found in solved.items():
                if k not in self.fits and found.gap <= tol:
                    self._keep(k, found)
            if len(self.fits) == len(self.designs):
                self.crossings = batch.crossings
        except KeyboardInterrupt:
            self.run.stop()
        self._fit_others()
        return [self.fits[int(k)] for k in np.argsort(self.order)]

    def _fit_others(self) -> None:
        """Fit the open quantiles on all rows, each from its best point."""
        left = [k for k in range(len(self.designs)) if k not in self.fits]
        if len(left) > 1 and self.model._is_late(self.run, self.designs[0]):
            procedure = self.model._procedure(Hurried([self.designs[k] for k in left]))
            for k in left:
                problem = PiecewiseLinear(self.run, self.designs[k], procedure)
                self.fits[k] = fit_problem(problem, self.model._limits(self.run), self.model._callbacks())
                self.fits[k].result.drop_clusters()
            return
        start = Band()
        for done, k in enumerate(left):
            if k in self.record.solved:
                start.continue_from(self.record.solved[k].point)
            n_left = len(left) - done
            self.fits[k] = self.model._fit_design(self.rows, self.designs[k], start, self.order[k], n_left)
            self.fits[k].result.drop_clusters()
            start.continue_from(self.fits[k].result.point)

    def _corridors(self, sampled: Sampled) -> list[Corridor]:
        corridors: list[Corridor] = []
        for group in groups_of(self.quantiles):
            corridors += self._within_memory(sampled, group)
        return corridors

    def _within_memory(self, sampled: Sampled, group: list[int]) -> list[Corridor]:
        """One corridor for a group, or several if its near rows do not fit into memory."""
        first, last = (self._knot(sampled, k) for k in (group[0], group[-1]))
        design, ends = self.designs[group[0]], (first.point, last.point)
        reach = DOUBT * max(first.error, last.error)
        most = self.run.budget.near_rows(self.run.n_attributes) / self.run.n_entries
        if most >= 1 or sampled.share(design, ends, reach) <= most:
            return [Corridor(group, ends, reach, reach / DOUBT)]
        if len(group) > 1:
            half = len(group) // 2
            return self._within_memory(sampled, group[:half]) + self._within_memory(sampled, group[half:])
        return [Corridor(group, ends, sampled.width(design, ends[0], most), reach / DOUBT)]

    def _knot(self, sampled: Sampled, k: int) -> SampledSolution:
        """The sampled plane of a quantile, solved once."""
        if k not in self.knots:
            near = max((other for other in self.knots if other < k), default=None)
            self.knots[k] = sampled.solution(self.designs[k], None if near is None else self.knots[near].point)
        return self.knots[k]

    def _begin(self, number: int, points: Mapping[int, Float]) -> Float:
        """A starting point on the line through the two previous solutions, or a sampled plane."""
        if number - 1 not in points or (number in self.knots and number - 2 not in points):
            return self.knots[number].point
        last, step = points[number - 1], self.quantiles[number] - self.quantiles[number - 1]
        before = self.quantiles[number - 1] - self.quantiles[number - 2] if number >= 2 else 0.0
        if number - 2 not in points or max(step, before) > SPAN:
            return self.knots[number].point if number in self.knots else last
        return last + (step / before) * (last - points[number - 2]) if before > 0 else last

    def _done(self, found: Mapping[int, Solved]) -> None:
        """Make fits of certified members, and save all members."""
        for k, solved in found.items():
            if solved.gap <= self.model.tol:
                self._keep(k, solved)
        self.record.keep(found, [self.fits[k].result.history[0] for k in sorted(self.fits)])

    def _keep(self, k: int, solved: Solved) -> None:
        """Make a certified member a fit, and show it to the callbacks."""
        self._take(k, solved, self.record.seconds)
        self.model._show(self.run, self.fits[k])

    def _take(self, k: int, solved: Solved, seconds: float) -> None:
        """Make a certified member a fit of one aggregated problem and its check on all rows."""
        n_open = len(self.designs[k].loss.kinks) + 1
        self.fits[k] = self.model._at_once(self.run, solved, n_open, seconds)
