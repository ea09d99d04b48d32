"""Many problems on one partition of the rows: Algorithm 1 for a batch.

If many rows lie on a kink, or members differ by more than near rows allow for, members share the clusters of one fit,
summed with each member's weights. A member's aggregated optimum is a lower bound for it (Jensen), and one pass
evaluates the solutions of all members on all rows. Rows that lie on another side than the mean of their cluster, for a
member whose gap is open, are split off for all members at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import SideBySide, Weights
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Accuracy, Evaluation, Incumbent, Moved, Problem, Solution, Start, Trial
from aidlearn.engine.progress import Bounds
from aidlearn.engine.sums import Sums, Violations
from aidlearn.linear.aggregated.certificate import certify
from aidlearn.linear.aggregated.hinge_rows import Basis
from aidlearn.linear.aggregated.solvers import solve_by_interior_point
from aidlearn.linear.model.aggregated_problem import aggregated_rows, solve_aggregated
from aidlearn.linear.model.design import Design
from aidlearn.linear.passes import passes_of
from aidlearn.linear.passes.records import SEGMENTS, MemberLosses
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.neighbours.batch import Done, Member, Solved
from aidlearn.neighbours.evaluation import blocks
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class SharedSettings:
    """Settings of a batch on shared clusters."""

    most_rounds: int = 8
    """Guess. Maximum rounds of splits: members still open after them are solved faster alone."""
    kept: float = 0.5
    """Guess. Largest gap, as a fraction of the tolerance, at which another member's aggregated solution is reused."""


SETTINGS = SharedSettings()


@dataclass(frozen=True)
class MemberPoint:
    """A point of a member."""

    member: int
    point: Float


@dataclass(frozen=True)
class Segments(Trial):
    """One segment for each of several members; ``points`` are ordered by step, then by member."""

    members: Sequence[int] = ()
    origins: Sequence[Float] = ()
    homes: NDArray[np.int8] | None = None
    """Region of each cluster's mean at the split points, of shape (clusters, splits, members); None for no split."""
    n_alone: float = 0.0
    """Largest fraction of a chunk's entries that may become clusters of their own."""

    @classmethod
    def of(cls, members: Sequence[int], origins: Sequence[Float], ends: Sequence[Float], **others: Any) -> Segments:
        pairs = list(zip(members, origins, ends, strict=True))
        places = [
            MemberPoint(k, end if t == 1 else origin + t * (end - origin))
            for t in SEGMENTS.steps
            for k, origin, end in pairs
        ]
        return cls(places, members=members, origins=origins, **others)

    @property
    def ends(self) -> list[Float]:
        return [place.point for place in self.points[: len(self.members)]]


class Together(Problem):
    """Members of a batch as one problem of the engine, whose clusters hold the sums of all replicates side by side.

    ``design`` belongs to a model of these rows with their own weights, ``partition`` to a fit of that model.
    """

    n_regions = SEGMENTS.n_codes

    def __init__(
        self, run: Run, design: Design, members: Sequence[Member], weights: Weights, partition: Clusters
    ) -> None:
        self.replicates = sorted({member.replicate for member in members})
        super().__init__(run.part().changed(SideBySide(weights, self.replicates)))
        self.design, self.members, self.partition = design, members, partition
        self.of = [self.replicates.index(member.replicate) for member in members]
        self.passes = passes_of(run)
        self.designs: list[Design] = []
        """Designs of the members; empty until their weights are summed."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that is sent to workers."""
        return {**self.__dict__, "run": None, "partition": None, "designs": []}

    # The four components

    def aggregate(self, chunk: Chunk, labels: NDArray[Any], n_clusters: int) -> Float:
        parts = [self.design.aggregate(own, labels, n_clusters) for own in _each_weight(chunk)]
        return np.concatenate(parts, axis=1)

    def sums_alone(self, chunk: Chunk) -> Any:
        parts = [self.design.sums_alone(own) for own in _each_weight(chunk)]
        return np.concatenate(parts, axis=1) if self.design.layout is None else sparse.hstack(parts, format="csr")

    def start(self) -> Start:
        """Return the clusters of the partition with the sums of these members."""
        clusters, _ = self.partition.summed_for(self)
        known = [self._weighted(self._sums(clusters, k)) for k in range(len(self.replicates))]
        self.designs = [member.design(self.design, *known[k]) for member, k in zip(self.members, self.of, strict=True)]
        return Start(clusters)

    def _weighted(self, sums: Sums) -> tuple[float, Float]:
        """Return the weight of a replicate and the sizes of its columns."""
        m = self.design.n_attributes
        sizes = np.abs(sums.dense[:, :m]).sum(axis=0)
        if sums.singles is not None:
            sizes = sizes + np.asarray(abs(sums.singles[:, :m]).sum(axis=0)).ravel()
        return float(sums.column(-1).sum()), sizes

    def _sums(self, clusters: Clusters, replicate: int) -> Sums:
        store, width = clusters.store, self.design.n_variables + 2
        columns = slice(replicate * width, (replicate + 1) * width)
        singles = None if store.singles is None else store.singles[:, columns]
        return Sums(store.dense[:, columns], singles, store.alone)

    def solve_aggregated(self, clusters: Clusters, incumbent: Incumbent | None, accuracy: Accuracy) -> Solution:
        """Solve the aggregated problem of the member to which the incumbent's point belongs."""
        assert incumbent is not None
        place: MemberPoint = incumbent.point
        design, sums = self.designs[place.member], self._sums(clusters, self.of[place.member])
        start = np.where(design.constant, 0.0, place.point)
        return solve_aggregated(design, sums, start, accuracy, solve_by_interior_point, self.run.n_jobs)

    def still_good(
        self, clusters: Clusters, number: int, other: int, solution: Solution, tol: float
    ) -> Solution | None:
        """Return the solution of another member with the same weights if it also solves this one closely enough.

        Duals are proportional to the scale of the loss, so those of the other member are scaled by the ratio of scales.
        """
        design, sums = self.designs[number], self._sums(clusters, self.of[number])
        rows = aggregated_rows(design, sums, self.run.n_jobs)
        basis = Basis.of(rows, solution.point, design.fit_intercept)
        dual = solution.dual * (design.loss.scale / self.designs[other].loss.scale)
        value = rows.value(solution.point)
        enough = value - SETTINGS.kept * tol * abs(value)
        w, unit = basis.to_coordinates(solution.point), basis.unit * basis.mass
        proven = certify(basis.apply(rows), dual / basis.mass, w, enough=enough / unit)
        bound = proven.bound * unit
        return Solution(solution.point, bound, False, basis.to_dual(proven.dual)) if bound >= enough else None

    def evaluate(self, chunk: Chunk, trial: Trial) -> Evaluation:
        """Return the objectives at all points; regions encode the members for which an entry leaves its cluster."""
        assert isinstance(trial, Segments)
        design, m = self.design, self.design.n_attributes
        members = [self.members[number] for number in trial.members]
        ends, origins = design.planes(*trial.ends), design.planes(*trial.origins)
        if (origins == origins[0]).all():
            origins = origins[:1]
        of: Int = np.array([self.of[number] for number in trial.members])
        losses = MemberLosses.of([member.loss for member in members])
        homes = np.zeros((0, SEGMENTS.n_split, len(members)), dtype=np.int8) if trial.homes is None else trial.homes
        totals, codes = np.zeros((len(SEGMENTS.steps), len(members))), np.zeros(chunk.n_entries, dtype=np.int16)
        for rows in blocks(chunk.n_entries, len(members)):
            X = chunk.X[rows]
            at_end, at_origin = (
                np.asarray(X @ planes[:, :m].T, dtype=np.float64) + planes[:, m] for planes in (ends, origins)
            )
            weight = np.ascontiguousarray(chunk.weight[rows])
            labels = np.zeros(0, dtype=np.int32) if chunk.labels is None else chunk.labels[rows]
            targets, here = chunk.y[rows], codes[rows]
            totals += self.passes.segments(at_end, at_origin, targets, weight, of, losses, labels, homes, here)
        return Evaluation((totals * losses.scale).ravel(), codes[None])

    def find_moved(self, chunk: Chunk, trial: Trial, homes: NDArray[np.int16]) -> Moved:
        assert isinstance(trial, Segments)
        assert chunk.labels is not None
        found = self.evaluate(chunk, trial)
        codes = found.regions[0]
        rows = np.flatnonzero((codes != 0) & (homes[chunk.labels] >= 0))
        few = len(rows) <= math.ceil(trial.n_alone * chunk.n_entries)
        return Moved(found.objectives, rows, codes[rows], np.full(len(rows), few))

    def penalty(self, point: MemberPoint) -> float:
        return self.designs[point.member].penalty(point.point)

    def homes(self, clusters: Clusters, trial: Segments) -> NDArray[np.int8]:
        """Return the regions of all clusters' means at the points of a split."""
        n = len(trial.members)
        homes = np.empty((clusters.n_clusters, SEGMENTS.n_split, n), dtype=np.int8)
        for k, number in enumerate(trial.members):
            design, sums = self.designs[number], self._sums(clusters, self.of[number])
            for split in range(SEGMENTS.n_split):
                z = design.mean_margins(sums, trial.points[split * n + k].point)
                homes[:, split, k] = np.searchsorted(design.loss.kinks, z, side="left")
        return homes


@dataclass(frozen=True)
class SamePartition:
    """A start from the clusters of another problem on the same entries, at a point close to the solution."""

    partition: Clusters
    point: Float

    def __call__(self, problem: PiecewiseLinear) -> Start:
        design, point = problem.design, self.point

        def objective(chunk: Chunk) -> float:
            return design.objective_at(chunk, point, design.margins(chunk, point))

        clusters, total = self.partition.summed_for(problem, objective)
        return Start(clusters, Incumbent(point, total + design.penalty(point)))


def solve_together(
    problem: Together,
    numbers: Sequence[int],
    points: Mapping[int, Float],
    tol: float,
    done: Done | None = None,
) -> dict[int, Solved]:
    """Solve members to the tolerance, or as closely as rounds and time allow; ``points`` are their starting points.

    This is Algorithm 1 (:func:`aidlearn.engine.loop.aid`) with separate bounds for each member on shared clusters.
    """
    run, clusters = problem.run, problem.start().clusters
    states = {k: _MemberState(k, points[k], Bounds(problem)) for k in numbers}
    left = list(states.values())
    for attempt in range(SETTINGS.most_rounds):
        left = _solve_aggregated(problem, clusters, left, tol)
        if not left:
            break
        # The first check does not split, because most first solutions are the last.
        violations = _check(problem, clusters, left, split=attempt > 0)
        closed = [state for state in left if state.bounds.gap <= tol]
        if done is not None and closed:
            done({state.number: state.solved for state in closed})
        left = [state for state in left if state not in closed]
        if not left or run.ended:
            break
        if attempt == 0:
            violations = _check(problem, clusters, left, split=True)
        clusters.decluster(violations)
    return {k: state.solved for k, state in states.items()}


@dataclass(eq=False)
class _MemberState:
    """State of an unfinished member: its best (or starting) point, its bounds and its last aggregated solution."""

    number: int
    begin: Float
    bounds: Bounds
    end: Float | None = None
    n_clusters: int = 0

    @property
    def point(self) -> Float:
        incumbent = self.bounds.incumbent
        return self.begin if incumbent is None else np.asarray(incumbent.point)

    @property
    def solved(self) -> Solved:
        return Solved(self.point, self.bounds.objective, self.bounds.proven, n_clusters=self.n_clusters)

    def reached(self, solution: Solution, n_clusters: int) -> None:
        """Take the bound of an aggregated solution; its point is evaluated later."""
        self.bounds.prove(solution)
        self.end, self.n_clusters = solution.point, n_clusters


def _solve_aggregated(
    problem: Together, clusters: Clusters, states: Sequence[_MemberState], tol: float
) -> list[_MemberState]:
    """Solve the aggregated problem of each member until time runs out; return the members that were solved."""
    run, solved = problem.run, list[_MemberState]()
    latest: dict[int, tuple[int, Solution]] = {}
    for state in states:
        if run.ended:
            break
        k, replicate, solution = state.number, problem.members[state.number].replicate, None
        if replicate in latest:
            solution = problem.still_good(clusters, k, *latest[replicate], tol)
        if solution is None:
            begin = Incumbent(MemberPoint(k, state.point), state.bounds.objective)
            solution = problem.solve_aggregated(clusters, begin, Accuracy(0.1 * tol, run.deadline, duals=False))
        latest[replicate] = k, solution
        state.reached(solution, clusters.n_clusters)
        solved.append(state)
    return solved


def _check(problem: Together, clusters: Clusters, states: Sequence[_MemberState], split: bool) -> Violations:
    """Evaluate the segments of members on all rows in one pass, and keep the best point of each."""
    ends = [state.point if state.end is None else state.end for state in states]
    trial = Segments.of([state.number for state in states], [state.point for state in states], ends)
    if split:
        numbers = problem.design.n_variables * len(problem.replicates)
        spare = problem.run.budget.clusters / numbers - clusters.n_clusters
        # Entries that become clusters of their own at most double the number of clusters.
        n_alone = max(0.0, min(clusters.n_clusters, spare)) / problem.run.n_entries
        trial = replace(trial, homes=problem.homes(clusters, trial), n_alone=n_alone)
    violations = clusters.check(trial)
    n = len(states)
    for k, state in enumerate(states):
        state.bounds.improve([place.point for place in trial.points[k::n]], violations.objectives[k::n])
    return violations


def _each_weight(chunk: Chunk) -> list[Chunk]:
    """Return one copy of the chunk per replicate, with the replicate's weights."""
    return [replace(chunk, weight=weight) for weight in np.ascontiguousarray(chunk.weight.T)]
