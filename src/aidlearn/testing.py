"""A conformance test for problems of your own: it checks what the engine assumes (paper, section 2).

:func:`check_problem` runs AID step by step on a small instance and checks the assumptions of the proof of optimality
after each step. A failure is an ``AssertionError`` whose message names the broken law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Accuracy, Incumbent, Problem, Solution, Trial
from aidlearn.engine.result import Status
from aidlearn.numerics import Float

STEPS = (1.0, 0.25)
"""Sizes of perturbations, relative to the solution, at which regions and bounds are also checked."""


def check_problem(
    problem: Problem, *, optimum: float | None = None, rtol: float = 1e-6, max_iter: int = 50, random_state: int = 0
) -> None:
    """Check the four components of a problem on a small instance.

    It aggregates, solves, checks and declusters like :func:`aidlearn.engine.aid`, and checks after every step:

    - **partition**: every entry is in one cluster, cluster sizes and sums match the entries, and sums are additive;
    - **bounds**: no bound exceeds the optimum or the objective of any evaluated point;
    - **monotonicity**: bounds of verified aggregated solutions do not decrease when clusters are split;
    - **regions**: codes are in range; the loss of entries is linear between two points at which they are in the same
      region (checked if points are arrays); a verified solution without violated clusters has the aggregated value as
      its objective, if :meth:`~aidlearn.engine.Problem.one_region` calls it optimal;
    - **objective**: it is finite, never below the optimum, and the same alone and in a trial of
      :meth:`~aidlearn.engine.Problem.split_trial`.

    Parameters
    ----------
    problem : Problem
        A small instance of at most a few thousand entries that has not been solved before. Check several, with ties and
        weights.
    optimum : float, optional
        Optimal objective from an independent solver. Without it, bounds are compared with objectives only.
    rtol : float, default=1e-6
        Accuracy of ``optimum`` and of the problem's own solver, relative to the objective.
    max_iter : int, default=50
        Maximum number of iterations.
    random_state : int, default=0
        Seed of the perturbed points.

    Raises
    ------
    AssertionError
        If a law is broken; the message says which one and where.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn.data import as_source
    >>> from aidlearn.engine import Assignment, Clusters, Evaluation, Problem, Solution, Start
    >>> from aidlearn.testing import check_problem
    >>> class Median(Problem):
    ...     def aggregate(self, chunk, labels, n_clusters):
    ...         total = np.bincount(labels, weights=chunk.y, minlength=n_clusters)
    ...         return np.column_stack([total, np.bincount(labels, minlength=n_clusters)])
    ...     def start(self):
    ...         def assign(chunk, state):
    ...             return Assignment(np.arange(chunk.n_entries) % 5)
    ...         return Start(Clusters.build(self, assign, 5)[0])
    ...     def solve_aggregated(self, clusters, incumbent, accuracy):
    ...         means, size = clusters.sums[:, 0] / clusters.sums[:, 1], clusters.sums[:, 1]
    ...         values = np.abs(means[:, None] - means) @ size
    ...         return Solution(means[[values.argmin()]], lower_bound=values.min(), verified=True)
    ...     def evaluate(self, chunk, trial):
    ...         objectives = np.array([np.abs(chunk.y - point).sum() for point in trial.points])
    ...         return Evaluation(objectives, (chunk.y > trial.points[0]).astype(np.int8)[None])
    >>> y = np.random.default_rng(0).normal(size=201)
    >>> check_problem(Median(as_source(np.zeros((201, 1)), y)), optimum=np.abs(y - np.median(y)).sum())
    """
    _Conformance(problem, optimum, rtol, np.random.default_rng(random_state)).run(max_iter)


@dataclass
class _Conformance:
    """One run of the check."""

    problem: Problem
    optimum: float | None
    rtol: float
    rng: np.random.Generator
    best: float = math.inf
    """Lowest objective reached."""
    highest: float = -math.inf
    """Highest bound reported."""

    def run(self, max_iter: int) -> None:
        problem = self.problem
        start = problem.start()
        clusters, incumbent = start.clusters, start.incumbent
        self.check_partition(clusters)
        self.bound(problem.trivial_bound, "trivial_bound")
        verified = -math.inf
        for _ in range(max_iter):
            solution = problem.solve_aggregated(clusters, incumbent, Accuracy(0.0, math.inf))
            if incumbent is start.incumbent and incumbent is not None:
                self.check_incumbent(clusters, incumbent)
            _require(
                problem.feasible(solution.point), "solve_aggregated: the point violates the problem's constraints."
            )
            objective = self.objective(clusters, solution.point)
            self.bound(solution.lower_bound, "solve_aggregated: lower_bound")
            if solution.verified:
                _require(
                    solution.lower_bound >= verified - self.slack(verified),
                    f"solve_aggregated: the bound fell from {verified:.10g} to {solution.lower_bound:.10g} though "
                    "clusters were only split and both solutions are verified.",
                )
                verified = max(verified, solution.lower_bound)
            self.check_regions(clusters, solution.point)
            check = clusters.check(Trial([solution.point]))
            _require(
                self.equal(float(check.objectives[0]), objective),
                f"find_moved gives the objective {check.objectives[0]:.10g} and evaluate {objective:.10g}.",
            )
            if check.n_violated == 0:
                self.check_stop(solution, objective)
            before = incumbent
            if incumbent is None or objective < incumbent.objective:
                incumbent = Incumbent(solution.point, objective)
            elsewhere = problem.split_trial(solution, before, clusters)
            if elsewhere is not None:
                check = clusters.check(elsewhere)
                self.check_trial(clusters, elsewhere, check.objectives)
            clusters.decluster(check)
            self.check_partition(clusters)
            if check.born is None:
                break

    def slack(self, value: float) -> float:
        """Return the error of a value that rounding and the accuracy of the solvers explain."""
        return self.rtol * max(abs(value), 1e-9) if math.isfinite(value) else 0.0

    def equal(self, one: float, two: float) -> bool:
        return abs(one - two) <= self.slack(max(abs(one), abs(two)))

    def bound(self, bound: float, name: str) -> None:
        """Check that a bound is neither NaN nor infinity, and does not exceed the optimum or any objective."""
        _require(not (math.isnan(bound) or bound == math.inf), f"{name} is {bound}; use -inf if there is no bound.")
        self.highest = max(self.highest, bound)
        known = self.best if self.optimum is None else self.optimum
        what = "the objective of an evaluated point" if self.optimum is None else "the optimum"
        _require(
            bound <= known + self.slack(known),
            f"{name} is {bound:.10g}, above {what}, {known:.10g}: it proves nothing.",
        )

    def objective(self, clusters: Clusters, point: Any) -> float:
        """Return the objective of a point on all entries; check that it is finite and not below a proven bound."""
        parts: list[float] = []

        def evaluate(chunk: Chunk, labels: NDArray[np.int32]) -> Float:
            return self.problem.evaluate(chunk, Trial([point])).objectives

        def collect(found: Float) -> None:
            _require(found.shape == (1,), f"evaluate gives objectives of shape {found.shape} at one point.")
            parts.append(float(found[0]))

        clusters.map(evaluate, collect)
        value = sum(parts) + self.problem.penalty(point)
        _require(math.isfinite(value), f"evaluate: an objective of {value} is not finite.")
        if self.optimum is not None:
            _require(
                value >= self.optimum - self.slack(self.optimum),
                f"evaluate: the objective {value:.10g} of a point is below the optimum {self.optimum:.10g}.",
            )
        _require(
            self.highest <= value + self.slack(value),
            f"A bound of {self.highest:.10g} was reported, and a point has the objective {value:.10g}: "
            "it proves nothing.",
        )
        self.best = min(self.best, value)
        return value

    def check_incumbent(self, clusters: Clusters, incumbent: Incumbent) -> None:
        given, reached = incumbent.objective, self.objective(clusters, incumbent.point)
        _require(
            abs(given - reached) <= self.slack(reached) + self.problem.objective_error(incumbent.point),
            f"start: the incumbent comes with the objective {given:.10g}, and evaluate gives {reached:.10g}.",
        )

    def check_trial(self, clusters: Clusters, trial: Trial, objectives: Float) -> None:
        """Check that points of the problem's own trial have the same objectives as alone."""
        for point, among in zip(trial.points, objectives, strict=True):
            alone = self.objective(clusters, point)
            _require(
                self.equal(alone, float(among)),
                f"evaluate: a point has the objective {alone:.10g} alone and {among:.10g} among others.",
            )

    def check_partition(self, clusters: Clusters) -> None:
        """Check that sizes and sums of the clusters match those of the entries with their labels."""
        n = clusters.n_clusters
        labels = clusters.labels()
        entries = self.problem.run.n_entries
        _require(len(labels) == entries, f"There are labels of {len(labels)} entries, and {entries} entries.")
        inside = labels.min(initial=0) >= 0 and labels.max(initial=-1) < n
        _require(inside, f"Labels go from {labels.min()} to {labels.max()}, and there are {n} clusters.")
        sizes = np.bincount(labels, minlength=n)
        wrong = np.flatnonzero(sizes != clusters.counts)
        _require(
            len(wrong) == 0,
            "Clusters are not a partition: "
            + (
                f"cluster {wrong[0]} has {sizes[wrong[0]]} entries and counts {clusters.counts[wrong[0]]}."
                if len(wrong)
                else ""
            ),
        )
        _require(sizes.min(initial=1) > 0, f"Cluster {int(sizes.argmin())} has no entry.")
        sums, sizes_of_terms = np.zeros(clusters.store.shape), np.zeros(clusters.store.shape)

        def add(chunk: Chunk, given: NDArray[np.int32]) -> tuple[Float, Float]:
            # Entries are aggregated one by one and added up here: aggregate must be additive.
            alone = self.problem.aggregate(chunk, np.arange(chunk.n_entries), chunk.n_entries)
            other = self.problem.sums_alone(chunk)
            other = other.toarray() if sparse.issparse(other) else other
            _require(
                alone.shape == other.shape and np.allclose(alone, other, rtol=1e-9, atol=0),
                "sums_alone differs from aggregate on entries that are clusters of their own.",
            )
            total, size = np.zeros_like(sums), np.zeros_like(sums)
            np.add.at(total, given, alone)
            np.add.at(size, given, np.abs(alone))
            return total, size

        def collect(part: tuple[Float, Float]) -> None:
            sums[:] += part[0]
            sizes_of_terms[:] += part[1]

        clusters.map(add, collect)
        off = np.abs(clusters.sums - sums) > 1e-9 * (sizes_of_terms + sizes_of_terms.mean(axis=0))
        where = np.argwhere(off)
        _require(
            len(where) == 0,
            "Sums of the clusters are not those of their entries (clusters overlap, or aggregate is not additive): "
            + (
                f"cluster {where[0][0]}, column {where[0][1]} has {clusters.sums[tuple(where[0])]:.10g}, "
                f"its entries {sums[tuple(where[0])]:.10g}."
                if len(where)
                else ""
            ),
        )

    def check_regions(self, clusters: Clusters, point: Any) -> None:
        """Check that codes are in range at a point, and losses linear along segments on which regions do not change."""
        problem = self.problem
        points = [point]
        numeric = isinstance(point, np.ndarray) and point.dtype.kind == "f"
        if numeric:
            _require(bool(np.isfinite(point).all()), "solve_aggregated: the point is not finite.")
            size = np.abs(point) + np.abs(point).mean() + 1e-3
            points += [point + step * size * self.rng.normal(size=point.shape) for step in STEPS]
        for other in points[1:]:
            if problem.feasible(other):  # an infeasible point may have a smaller objective than the optimum
                self.objective(clusters, other)

        def check(chunk: Chunk, labels: NDArray[np.int32]) -> None:
            regions = [self.regions(chunk, one) for one in points]
            for other, there in zip(points[1:], regions[1:], strict=True):
                for region in range(problem.n_regions):
                    rows = np.flatnonzero((regions[0] == region) & (there == region))
                    if len(rows):
                        self.check_linear(chunk.select(rows), point, other, region)

        clusters.map(check, lambda _: None)

    def regions(self, chunk: Chunk, point: Any) -> NDArray[np.int8]:
        regions = self.problem.evaluate(chunk, Trial([point])).regions
        _require(
            regions.shape == (1, chunk.n_entries),
            f"evaluate gives regions of shape {regions.shape} at one point, not {(1, chunk.n_entries)}.",
        )
        low, high = int(regions.min()), int(regions.max())
        _require(
            low >= -1 and high < self.problem.n_regions,
            f"evaluate gives regions from {low} to {high}; they go from 0 to n_regions - 1 = "
            f"{self.problem.n_regions - 1}, and -1 on a kink.",
        )
        return regions[0]

    def check_linear(self, chunk: Chunk, one: Float, two: Float, region: int) -> None:
        """Check that the sum of the losses is linear in the point if no entry changes its region."""
        # One evaluation each: a problem may treat the first point of a trial differently.
        ends, middle = (
            [float(self.problem.evaluate(chunk, Trial([point])).objectives[0]) for point in points]
            for points in ([one, two], [(one + two) / 2])
        )
        _require(
            self.equal(sum(ends) / 2, middle[0]),
            f"evaluate: a wrong region. Losses of entries that are in region {region} at two points are not linear "
            f"between them ({ends[0]:.10g}, {middle[0]:.10g} in the middle, {ends[1]:.10g}).",
        )

    def check_stop(self, solution: Solution, objective: float) -> None:
        """Check that the aggregated problem is exact at the solution if no cluster lies in two regions."""
        claims = self.problem.one_region(solution, 0.0, 0.0) is Status.optimal
        if solution.verified and claims:
            _require(
                self.equal(objective, solution.lower_bound),
                "evaluate: a wrong region. No cluster lies in two regions at a verified solution, yet its objective is "
                f"{objective:.10g} and the aggregated value {solution.lower_bound:.10g}.",
            )


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)
