"""Many neighbouring problems on the same rows for the price of a few passes.

Around a solution, rows far from every kink keep their side in all neighbouring problems (with other weights, or close
quantiles or penalties). The near rows and the sums of the far ones by side form a small problem for each member. Its
optimum is a lower bound for the member on all rows (Jensen: a group is the weighted mean of its rows, with the member's
own weights), and one pass ``X @ V`` evaluates all members on all rows, which certifies their gaps.

A second attempt uses more near rows for members whose gap stays open; those still open are fitted on all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import UNCHANGED, Unchanged, Weights
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.result import CROSSING, Result, relative_gap
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric, NormalEquations
from aidlearn.linear.model.losses import Loss
from aidlearn.linear.passes import passes_of
from aidlearn.linear.start.newton import quantile_width
from aidlearn.linear.start.samples import largest_sample
from aidlearn.linear.start.sharpen import few_entries
from aidlearn.neighbours.corridors import Corridor, Near, Rows, collecting
from aidlearn.neighbours.evaluation import evaluating
from aidlearn.neighbours.member import Neighbour
from aidlearn.numerics import Float
from aidlearn.trace import Profile


@dataclass(frozen=True)
class BatchSettings:
    """Settings of a batch of neighbouring problems."""

    near: float = 3.0
    """Fraction of near rows in units of sqrt(p/n): at the median, fitted values within three standard deviations."""
    wider: float = 3.0
    """Guess. Factor on the near rows in the second attempt."""
    most_near: float = 0.5
    """Guess. Largest fraction of the rows that may be near: beyond it aggregation saves nothing."""
    most_again: float = 0.8
    """Guess. Largest fraction in a second attempt, which competes with a fit on all rows."""
    viewed: int = 5_000
    """Guess. Number of rows from which these fractions are estimated."""
    members_at_once: int = 256
    """Guess. Maximum members that share passes: each has its own weights of the near rows."""
    corridors_at_once: int = 16
    """Guess. Maximum corridors of a second attempt that share a pass."""
    gram_rows: int = 20_000
    """Guess. Number of sample rows whose Gram matrix determines leverage scores."""
    error_of_next: float = 1.5
    """Guess. Expected distance of a member's solution from its start, relative to that of the previous member."""


SETTINGS = BatchSettings()


@dataclass(frozen=True)
class Member:
    """One problem of a batch: its loss, the replicate that gives its weights, and its L1 penalty."""

    loss: Loss
    replicate: int = 0
    l1: float | None = None
    """L1 penalty over the sum of weights; by default penalties are those of the batch's design."""

    def design(self, design: Design, weight: float, sizes: Float) -> Design:
        """Return the batch's design adapted to this member's sum of weights and column sizes.

        A column of size 0, whose non-zeros all have weight 0, keeps the coefficient 0.
        """
        factor = weight / design.weight if design.weighted else 1.0
        l1 = design.l1 * factor if self.l1 is None else self.l1 * weight
        empty = np.zeros(design.n_variables, dtype=bool)
        empty[: len(sizes)] = sizes == 0
        constant = design.constant | empty
        ridge = design.ridge * factor
        return replace(design, loss=self.loss, ridge=ridge, l1=l1, weight=weight or 1.0, constant=constant)


@dataclass(frozen=True)
class Solved:
    """A solution of a member and its proven bound."""

    point: Float
    objective: float
    """Objective on all rows."""
    lower_bound: float
    profile: Profile | None = None
    """Clusters of the aggregated problem that proves the bound; None if a fit proved it."""
    n_clusters: int = 0

    @property
    def gap(self) -> float:
        return relative_gap(self.objective, self.lower_bound)

    def checked(self, objective: float, lower_bound: float) -> Solved:
        """Return the saved values where the recomputed ones confirm them, else the recomputed ones."""
        same = abs(self.objective - objective) <= CROSSING * abs(objective)
        proven = self.lower_bound <= lower_bound + CROSSING * abs(lower_bound)
        objective = self.objective if same else objective
        return replace(self, objective=objective, lower_bound=self.lower_bound if proven else lower_bound)

    @classmethod
    def of(cls, result: Result) -> Solved:
        return cls(result.point, result.objective, result.lower_bound)


Refit = Callable[[int, Member, "Float | None"], Solved]
"""Fits a member, given its number, on all rows, from a point close to the solution if there is one."""
Begin = Callable[[int, Mapping[int, Float]], Float]
"""Returns the starting point of a member, given the solutions so far."""
Done = Callable[[Mapping[int, Solved]], None]
"""Called with members that were evaluated on all rows; those with open gaps are tried again at the end."""


@dataclass
class Batch:
    """Problems on the same rows.

    ``design`` belongs to a model of these rows with their own weights; members differ from it in loss, weights and L1
    penalty.
    """

    run: Run
    design: Design
    members: Sequence[Member]
    weights: Weights = UNCHANGED
    tol: float = 1e-5
    given_metric: Metric | None = None
    """Metric of an earlier batch on the same rows, to avoid computing it again."""
    ordered: bool = False
    """Whether the members' planes should lie one above the other, in the order of the members."""
    crossings: int | None = None
    """Number of pairs of neighbouring members in the wrong order; None unless shared passes evaluated all solutions."""

    @cached_property
    def metric(self) -> Metric:
        """Metric of the leverage scores of the rows."""
        return _metric(self.run, self.design) if self.given_metric is None else self.given_metric

    def around(self, point: Float, near: float | None = None) -> list[Corridor]:
        """Return a corridor around a point to which all members are close, cut into parts that fit into memory."""
        p = self.design.n_variables
        fraction = near_share(p / self.design.effective) if near is None else near
        n, m, budget = self.run.n_entries, self.run.n_attributes, self.run.budget
        fraction = min(fraction, budget.near_rows(m) / n) if math.isfinite(budget.near) else fraction
        reach = self.distance(point, fraction)
        error = reach / SETTINGS.near if math.isfinite(reach) else self.distance(point, 0.1)
        numbers = range(len(self.members))
        # Each member has its own weights of the near rows.
        at_once = max(1, int(min(SETTINGS.members_at_once, budget.near / max(1.0, min(fraction, 1.0) * n) - m - 2)))
        parts = [numbers[k : k + at_once] for k in range(0, len(numbers), at_once)]
        return [Corridor(part, (point, point), reach, error) for part in parts]

    def distance(self, point: Float, fraction: float) -> float:
        """Return the distance (in leverages) that contains a fraction of the rows; inf if aggregation saves nothing."""
        run, design = self.run, self.design
        if few_entries(run.n_entries, design.n_variables) or fraction > SETTINGS.most_near:
            return math.inf
        distance, leverage = self._viewed(point, math.inf)
        return quantile_width(distance / leverage, fraction)

    def _share(self, point: Float, reach: float) -> float:
        """Return the fraction of the rows within a distance of a kink, estimated from a sample."""
        distance, leverage = self._viewed(point, SETTINGS.viewed)
        return float(np.mean(distance <= reach * leverage))

    def _viewed(self, point: Float, n_rows: float) -> tuple[Float, Float]:
        """Return the distances from a kink and the leverages of about ``n_rows`` rows of the sample."""
        sample = _sample(self.run, self.design)
        some = sample.select(slice(None, None, max(1, int(sample.n_entries // n_rows))))
        leverage = np.asarray(self.metric.leverage(self.design, some), dtype=np.float64)
        return self.design.loss.distance(self.design.margins(some, point)), leverage

    def solve(
        self,
        corridors: Sequence[Corridor],
        refit: Refit | None = None,
        begin: Begin | None = None,
        done: Done | None = None,
        saved: Mapping[int, Solved] | None = None,
    ) -> dict[int, Solved]:
        """Solve all members to the tolerance, or without a ``refit`` as closely as near rows and time allow.

        Parameters
        ----------
        corridors : sequence of Corridor
            Corridors that together contain each member once.
        refit : callable, optional
            Fits the members whose gaps are still open at the end.
        begin : callable, optional
            Starting point of a member; the first end of its corridor by default.
        done : callable, optional
            Called with members once they are evaluated on all rows.
        saved : mapping of Solved, optional
            Solutions of members from an earlier part of the same batch.
        """
        solved = dict(saved or {})
        waiting: list[int] = []
        hopeless = False
        self.crossings = 0 if self.ordered and not solved else None
        for corridor in corridors:
            if all(number in solved for number in corridor.numbers):
                continue
            if self.run.ended:
                break  # without another pass of corridors; waiting members are evaluated below
            rows = self._pass([corridor], waiting, solved, done)[0]
            hopeless = self._is_hopeless(corridors, waiting, solved)
            waiting = []
            if self.run.ended or hopeless:
                break
            self._in_corridor(corridor, rows, begin, solved)
            waiting = list(corridor.numbers)
        if waiting:
            self._pass([], waiting, solved, done)
        if not self.run.ended and self._open(solved):
            if not hopeless and not any(math.isinf(corridor.reach) for corridor in corridors):
                self._again(corridors, solved)
            self.crossings = None
        if refit is not None:
            for number, member in enumerate(self.members):
                before = solved.get(number)
                if before is not None and before.gap <= self.tol:
                    continue
                found = refit(number, member, None if before is None else before.point)
                solved[number] = found if before is None else better(before, found)
                self.crossings = None
        return dict(sorted(solved.items()))

    def proven_again(self, saved: Mapping[int, Solved]) -> dict[int, Solved]:
        """Return the members of a checkpoint, each evaluated on all rows and bounded in a corridor around its point.

        Saved objectives and bounds that agree with these up to rounding keep their bits; the others are replaced.
        """
        found: dict[int, Solved] = {}
        own = [replace(self.around(one.point)[0], numbers=[k]) for k, one in sorted(saved.items())]
        at_once = SETTINGS.corridors_at_once if all(math.isfinite(corridor.reach) for corridor in own) else 1
        for first in range(0, len(own), at_once):
            if self.run.ended:
                break
            part = own[first : first + at_once]
            numbers = [k for corridor in part for k in corridor.numbers]
            known = {k: replace(saved[k], objective=0.0) for k in numbers}
            for k, corridor, rows in zip(numbers, part, self._pass(part, numbers, known), strict=True):
                solved: dict[int, Solved] = {}
                self._in_corridor(corridor, rows, None, solved)
                design = self._design(self.members[k], rows.of_replicate(self.members[k].replicate))
                objective = known[k].objective + design.penalty(known[k].point)
                found[k] = saved[k].checked(objective, solved[k].lower_bound)
        return found

    def _open(self, solved: Mapping[int, Solved]) -> list[int]:
        return [number for number in solved if not solved[number].gap <= self.tol]

    def _is_hopeless(self, corridors: Sequence[Corridor], numbers: Sequence[int], solved: Mapping[int, Solved]) -> bool:
        """Return whether members failed because many rows lie on a kink, so that the others would fail, too."""
        left = set(self._open(solved))
        if not numbers or not left.issuperset(numbers):
            return False
        reach = max(SETTINGS.wider * corridor.reach for corridor in corridors if numbers[0] in corridor.numbers)
        return all(self._share(solved[k].point, reach) > SETTINGS.most_again for k in numbers)

    def _again(self, corridors: Sequence[Corridor], solved: dict[int, Solved]) -> None:
        """Solve members with open gaps again, each around its own point and with more near rows."""
        reach = {number: SETTINGS.wider * corridor.reach for corridor in corridors for number in corridor.numbers}
        most = min(SETTINGS.most_again, self.run.budget.near_rows(self.run.n_attributes) / self.run.n_entries)
        shares = {k: self._share(solved[k].point, reach[k]) for k in self._open(solved)}
        left = [k for k, share in shares.items() if share <= most]
        at_once = SETTINGS.corridors_at_once
        if most < SETTINGS.most_again and left:
            at_once = max(1, min(at_once, int(most / max(shares[k] for k in left))))
        for first in range(0, len(left), at_once):
            own = [
                Corridor([k], (solved[k].point,) * 2, reach[k], reach[k] / SETTINGS.wider**2)
                for k in left[first : first + at_once]
            ]
            found: dict[int, Solved] = {}
            for corridor, rows in zip(own, self._pass(own, [], found), strict=True):
                self._in_corridor(corridor, rows, None, found)
            self._pass([], list(found), found)
            for number, other in found.items():
                solved[number] = better(solved[number], other)

    def _pass(
        self, corridors: Sequence[Corridor], waiting: Sequence[int], solved: dict[int, Solved], done: Done | None = None
    ) -> list[Rows]:
        """Collect the rows of corridors and the losses of waiting members in one pass."""
        run, design, passes = self.run, self.design, passes_of(self.run)
        replicates = sorted({self.members[number].replicate for corridor in corridors for number in corridor.numbers})
        # Crossings of the first waiting member with the plane below it count, too.
        below = [waiting[0] - 1] if waiting and self.ordered and waiting[0] - 1 in solved else []
        shown = [*below, *waiting]
        losses, of = [self.members[k].loss for k in shown], [self.members[k].replicate for k in shown]
        points = [solved[number].point for number in shown]
        collect = collecting(run, design, self.metric, corridors, replicates, self.weights)
        evaluate = evaluating(design, losses, points, self.weights, of, passes, self.ordered)
        found: list[tuple[list[Rows], tuple[Float, int]]] = []
        run.map(lambda chunk, state: ((collect(chunk), evaluate(chunk)), None), collect=found.append)
        parts, evaluated = zip(*found, strict=True)
        totals = sum(total for total, _ in evaluated)
        for number, total in zip(waiting, totals[len(below) :], strict=True):
            solved[number] = replace(solved[number], objective=solved[number].objective + float(total))
        if self.crossings is not None:
            self.crossings += sum(number for _, number in evaluated)
        if done is not None and waiting:
            done({number: solved[number] for number in waiting})
        return [Rows.joined(own) for own in zip(*parts, strict=True)]

    def _in_corridor(self, corridor: Corridor, rows: Rows, begin: Begin | None, solved: dict[int, Solved]) -> None:
        """Solve the members of a corridor one by one; until the next pass, their objectives are only penalties."""
        error, width = corridor.error, 0.0
        for number in corridor.numbers:
            member = self.members[number]
            near = rows.of_replicate(member.replicate)
            design = self._design(member, near)
            start = corridor.ends[0]
            if begin is not None:
                start = begin(number, {k: found.point for k, found in solved.items()})
            start = np.where(design.constant, 0.0, start)
            neighbour = Neighbour(design, near, self.metric, self.tol, passes_of(self.run), self.run.n_jobs)
            found = neighbour.solve(start, error, width)
            error, width = min(corridor.error, SETTINGS.error_of_next * found.way), found.width
            penalty = design.penalty(found.point)
            solved[number] = Solved(found.point, penalty, found.lower_bound, found.profile, found.n_clusters)

    def _design(self, member: Member, near: Near) -> Design:
        """Return the batch's design adapted to the weights of a member."""
        m, weight = self.design.n_attributes, near.rows.weight
        if isinstance(self.weights, Unchanged):
            return member.design(self.design, self.design.weight, np.ones(m))
        sizes = np.asarray(abs(near.rows.X).T @ weight) + np.abs(near.sums[:, :m]).sum(axis=0)
        return member.design(self.design, float(weight.sum() + near.sums[:, -1].sum()), sizes)


def near_share(ratio: float) -> float:
    """Return the fraction of rows that may change sides if a solution moves by ``sqrt(ratio)`` standard deviations."""
    return SETTINGS.near * math.sqrt(ratio)


def better(one: Solved, two: Solved) -> Solved:
    """Return the better point with the better bound."""
    best = two if two.objective < one.objective or math.isnan(one.objective) else one
    return replace(best, lower_bound=max(one.lower_bound, two.lower_bound))


def _sample(run: Run, design: Design) -> Chunk:
    return run.sample(lambda: largest_sample(run, design.n_variables, np.random.default_rng(0)))


def _metric(run: Run, design: Design) -> Metric:
    """Return the metric of the rows' leverage scores, as in the start of a fit."""
    sample = _sample(run, design)
    few = sample.select(slice(None, None, max(1, sample.n_entries // SETTINGS.gram_rows))).weighing(design.weight)
    equations = NormalEquations.of(design, few, run.n_jobs)
    shown = len(equations.unlike(design)) == 0
    if not shown:
        equations = NormalEquations.of_all(design, run)
    metric = Metric.of(design, equations.gram, run.n_jobs)
    return metric.settled(design, few) if shown else metric
