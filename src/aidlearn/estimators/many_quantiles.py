"""Many quantiles of one fit: the planes of close ones lie in corridors that sampled planes bound."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from aidlearn.data.chunk import Float
from aidlearn.data.moments import Moments
from aidlearn.data.run import Run
from aidlearn.engine.result import Iteration, Result, Status, below, relative_gap
from aidlearn.estimators.fitting import Fitted
from aidlearn.linear.band import Band
from aidlearn.linear.sampled import Sampled
from aidlearn.linear.batch import Batch, Member, Solved
from aidlearn.linear.corridor import Corridor
from aidlearn.linear.design import Design

SPAN = 0.1
"""Part of the rows between the planes of the quantiles that share near rows."""
DOUBT = 3.0
"""Distance of a sampled plane from its solution that near rows allow for, in typical ones."""


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
    """The quantiles of a model on one run."""

    def __init__(self, model: Any, run: Run, designs: list[Design], moments: Moments) -> None:
        self.model, self.run, self.moments = model, run, moments
        self.order = sorted(range(len(designs)), key=lambda k: quantile_of(designs[k]))
        self.designs = [designs[k] for k in self.order]
        self.quantiles = [quantile_of(design) for design in self.designs]
        self.start, self.started = Band(), time.monotonic()
        self.fits: dict[int, Fitted] = {}
        self.crossings: int | None = None
        """On the rows of the fit, where that is known."""

    def solve(self) -> list[Fitted]:
        """The fits, in the order in which quantiles were asked for."""
        sampled = Sampled.of(self.run, self.designs[0])
        members = [Member(design.loss) for design in self.designs]
        batch = Batch(
            self.run, self.designs[0], members, tol=self.model.tol, given_metric=sampled.metric, ordered=True
        )
        corridors = self._corridors(sampled)
        solved = batch.solve(corridors, self._refit, self._begin)
        self.crossings = batch.crossings
        for k, found in enumerate(solved):
            if k not in self.fits:
                self._keep(k, found)
        return [self.fits[k] for k in np.argsort(self.order)]

    def _corridors(self, sampled: Sampled) -> list[Corridor]:
        corridors = []
        point = None
        self.knots: dict[int, Float] = {}
        for group in groups_of(self.quantiles):
            reach = 0.0
            for k in dict.fromkeys((group[0], group[-1])):
                found = sampled.solution(self.designs[k], point)
                point = self.knots[k] = found.point
                reach = max(reach, found.error)
            ends = self.knots[group[0]], self.knots[group[-1]]
            corridors.append(Corridor(group, ends, DOUBT * reach, reach))
        return corridors

    def _begin(self, number: int, points: Mapping[int, Float]) -> Float:
        """On the line through the two solutions before it; at a sampled plane where there are none."""
        if number - 1 not in points:
            return self.knots[number]
        last, step = points[number - 1], self.quantiles[number] - self.quantiles[number - 1]
        if number - 2 in points and self.quantiles[number - 1] > self.quantiles[number - 2]:
            slope = (last - points[number - 2]) / (self.quantiles[number - 1] - self.quantiles[number - 2])
            return last + step * slope
        return last

    def _refit(self, number: int, member: Member, point: Float) -> Solved:
        """An ordinary fit."""
        model = self.model
        self.start.continue_from(point)
        self.fits[number] = model._fit_design(
            self.run, self.designs[number], self.start, self.moments, self.order[number]
        )
        return Solved.of(self.fits[number].result)

    def _keep(self, k: int, found: Solved) -> None:
        """A neighbour as the fit that it is: one aggregated problem, and its check on all rows."""
        solved = replace(found, lower_bound=below(found.lower_bound, found.objective))
        rate = solved.n_clusters / self.run.n_entries
        record = Iteration(
            iteration=1,
            n_clusters=solved.n_clusters,
            aggregation_rate=rate,
            lower_bound=solved.lower_bound,
            objective=solved.objective,
            best_objective=solved.objective,
            best_lower_bound=solved.lower_bound,
            gap=relative_gap(solved.objective, solved.lower_bound),
            # Which of the groups of far rows the solution cuts is not counted: all, unless the bound is met.
            n_violated=len(self.designs[k].loss.kinks) + 1 if solved.gap > 0 else 0,
            seconds=time.monotonic() - self.started,
        )
        answers = [callback(record) for callback in self.model._callbacks()]
        if any(answers):
            self.run.stop()
        result = Result(
            solved.point,
            solved.objective,
            solved.lower_bound,
            Status.gap,
            solved.n_clusters,
            rate,
            self.run.n_passes,
            [record],
        )
        self.fits[k] = Fitted(result, solved.profile, [])
