"""Many quantiles of one fit: some are fitted, and those between are their neighbours."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from aidlearn.data.chunk import Float
from aidlearn.data.moments import Moments
from aidlearn.data.run import Run
from aidlearn.engine.result import Iteration, Result, Status, below, relative_gap
from aidlearn.estimators.fitting import Fitted
from aidlearn.linear.band import Band
from aidlearn.linear.batch import NEAR, Batch, Member, Solved
from aidlearn.linear.design import Design

MOST_NEAR = 0.12
"""Part of the rows that may stay single so that more quantiles have them in common."""


def quantile_of(design: Design) -> float:
    return 1.0 - design.loss.tilts[0]


def groups_of(quantiles: list[float], doubt: float) -> list[tuple[int, list[int]]]:
    """Positions of quantiles to fit, each with those of its neighbours.

    A quantile at a distance d has its plane d of the rows away: with ``doubt`` for the error of both, twice d and the
    doubt must be near.
    """
    reach = (MOST_NEAR - doubt) / 2
    left = sorted(range(len(quantiles)), key=lambda k: quantiles[k])
    found = []
    while left:
        first = quantiles[left[0]]
        base = max((k for k in left if quantiles[k] - first <= max(reach, 0.0)), key=lambda k: quantiles[k])
        members = [k for k in left if abs(quantiles[k] - quantiles[base]) <= reach or k == base]
        if len(members) < 3:  # a batch takes two passes and the sums of all rows
            base, members = left[0], left[:1]
        found.append((base, [k for k in members if k != base]))
        left = [k for k in left if k not in members]
    return found


class ManyQuantiles:
    """The quantiles of a model on one run."""

    def __init__(self, model: Any, run: Run, designs: list[Design], moments: Moments) -> None:
        self.model, self.run, self.designs, self.moments = model, run, designs, moments
        self.start, self.started = Band(), time.monotonic()
        self.fits: dict[int, Fitted] = {}

    def solve(self) -> list[Fitted]:
        quantiles = [quantile_of(design) for design in self.designs]
        doubt = NEAR * math.sqrt(self.designs[0].n_variables / self.designs[0].effective)
        metric = None
        for base, others in groups_of(quantiles, doubt):
            point = self._fit(base)
            if self.run.stopped or not others:
                for k in others:
                    self._fit(k)
                continue
            # Outwards on either side, each from the one before it.
            higher = sorted((k for k in others if quantiles[k] >= quantiles[base]), key=lambda k: quantiles[k])
            lower = sorted((k for k in others if quantiles[k] < quantiles[base]), key=lambda k: -quantiles[k])
            order = [*higher, *lower]
            first = {0, len(higher)}
            losses = [self.designs[k].loss for k in order]
            members = [Member(loss, after=None if i in first else i - 1) for i, loss in enumerate(losses)]
            near = doubt + 2 * max(abs(quantiles[k] - quantiles[base]) for k in others)
            tol, design = self.model.tol, self.designs[base]
            batch = Batch(self.run, design, point, members, tol=tol, near=near, given_metric=metric)
            metric = batch.metric
            try:
                solved = batch.solve(lambda member, point: UNSOLVED)
            except KeyboardInterrupt:
                self.run.stop()
                solved = [UNSOLVED] * len(order)
            for k, found in zip(order, solved, strict=True):
                bound = below(found.lower_bound, found.objective)
                if relative_gap(found.objective, bound) <= tol and not self.run.stopped:
                    self._keep(k, replace(found, lower_bound=bound))
                else:
                    self._fit(k)
        return [self.fits[k] for k in range(len(self.designs))]

    def _fit(self, k: int) -> Float:
        """An ordinary fit, from the solution before it."""
        model = self.model
        self.fits[k] = model._fit_design(self.run, self.designs[k], self.start, self.moments, k)
        point: Float = self.fits[k].result.point
        self.start.continue_from(point)
        return point

    def _keep(self, k: int, solved: Solved) -> None:
        """A neighbour as the fit that it is: one aggregated problem, and its check on all rows."""
        rate = solved.n_clusters / self.run.n_entries
        record = Iteration(
            iteration=1,
            n_clusters=solved.n_clusters,
            aggregation_rate=rate,
            lower_bound=solved.lower_bound,
            objective=solved.objective,
            best_objective=solved.objective,
            best_lower_bound=solved.lower_bound,
            gap=solved.gap,
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


UNSOLVED = Solved(np.empty(0), math.inf, -math.inf)
"""What a neighbour that stays open is: an ordinary fit follows."""
