"""Algorithm 1 of the paper: aggregate, solve, check, decluster, until the gap is closed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from aidlearn.engine.checkpoint import Checkpoint, Snapshot
from aidlearn.engine.clusters import Check, Clusters
from aidlearn.engine.picture import MOST_FRAMES, Frame, Profile, near_and_far
from aidlearn.engine.problem import Accuracy, Incumbent, Problem, Solution, Trial
from aidlearn.engine.result import Iteration, Result, Status, relative_gap

logger = logging.getLogger("aidlearn")

CROSSING = 1e-9
"""Relative amount by which rounding may lift a bound above the objective before it is discarded."""

Callback = Callable[[Iteration], bool | None]
"""Called once per iteration; a true return value stops the fit."""


@dataclass(frozen=True)
class Limits:
    """When a run ends."""

    tol: float = 1e-4
    max_iter: int = 100
    time_limit: float | None = None


@dataclass
class _Run:
    """Bounds and records of a run."""

    limits: Limits
    incumbent: Incumbent | None
    callbacks: Sequence[Callback]
    started: float
    """Of the first part of the run, if it was continued; limits on time are limits of this part."""
    deadline: float
    lower_bound: float
    stalled: bool = False
    checkpoint: Checkpoint | None = None
    history: list[Iteration] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)

    @property
    def objective(self) -> float:
        return math.inf if self.incumbent is None else self.incumbent.objective

    def accuracy(self) -> Accuracy:
        """A tenth of the tolerance, so that the split and not the solver decides the gap."""
        return Accuracy(0.0 if self.stalled else 0.1 * self.limits.tol, self.deadline)

    def improve(self, points: Sequence[object], check: Check) -> Incumbent | None:
        """Keep the best of the points as incumbent; returns the one before."""
        before = self.incumbent
        best = int(check.objectives.argmin())
        if check.objectives[best] < self.objective:
            self.incumbent = Incumbent(points[best], float(check.objectives[best]))
        return before

    def record(self, clusters: Clusters, solution: Solution, check: Check) -> bool:
        """Keep the iteration, tell the callbacks; whether one of them asked to stop."""
        proven = solution.lower_bound
        if proven > self.objective + CROSSING * abs(self.objective):
            # A bound above a value that was reached is none: rounding errors have exceeded their allowance.
            logger.warning("bound %.17g above the objective %.17g discarded", proven, self.objective)
            proven = -math.inf
        # At the optimum the two may cross in the last bits.
        proven = min(proven, self.objective)
        self.lower_bound = max(self.lower_bound, proven)
        distances = clusters.problem.distances(clusters, solution.point)
        near, far = (None, None) if distances is None else near_and_far(clusters.counts, distances)
        entry = Iteration(
            iteration=len(self.history) + 1,
            n_clusters=clusters.n_clusters,
            aggregation_rate=clusters.aggregation_rate,
            lower_bound=proven,
            objective=float(check.objectives[0]),
            best_objective=self.objective,
            best_lower_bound=self.lower_bound,
            gap=relative_gap(self.objective, self.lower_bound),
            n_violated=check.n_violated,
            seconds=time.monotonic() - self.started,
            near_rate=near,
            far_rate=far,
        )
        self.history.append(entry)
        self.draw(clusters, solution)
        logger.debug("%s", entry)
        answers = [callback(entry) for callback in self.callbacks]
        return any(answers)

    def draw(self, clusters: Clusters, solution: Solution) -> None:
        """Keep a picture of the iteration, if the problem has one."""
        frame = clusters.problem.frame(clusters, solution.point, len(self.history))
        if frame is not None:
            self.frames.append(frame)
        if len(self.frames) > MOST_FRAMES:
            del self.frames[1:-1:2]

    def save(self, clusters: Clusters) -> None:
        """Write a checkpoint, if there is a file for it."""
        if self.checkpoint is None:
            return
        point = {} if self.incumbent is None else {"point": np.asarray(self.incumbent.point)}
        objective = None if self.incumbent is None else self.incumbent.objective
        seconds = time.monotonic() - self.started
        arrays = {**clusters.arrays(), **point}
        passes = clusters.source.n_passes
        self.checkpoint.save(Snapshot(arrays, objective, self.lower_bound, self.stalled, passes, seconds, self.history))

    def status(self, problem: Problem, solution: Solution, check: Check) -> Status | None:
        """Why to stop after this iteration, or None to go on."""
        gap = relative_gap(self.objective, self.lower_bound)
        in_one_region = problem.one_region(solution, gap, self.limits.tol) if check.n_violated == 0 else None
        if in_one_region is not None:
            return in_one_region
        if gap <= self.limits.tol:
            return problem.gap_status
        if check.n_violated == 0 and solution.loose is None:
            if self.stalled:
                return Status.numerical
            self.stalled = True  # only the solver's accuracy is left to improve
        if time.monotonic() >= self.deadline:
            return Status.time_limit
        if len(self.history) >= self.limits.max_iter:
            return Status.iteration_limit
        return None


def _begin(
    problem: Problem, limits: Limits, callbacks: Sequence[Callback], started: float, checkpoint: Checkpoint | None
) -> tuple[_Run, Clusters]:
    """Initial clusters, or those of a run that was saved."""
    saved = None if checkpoint is None else checkpoint.load()
    if saved is None:
        start = problem.start()
        bound, deadline = problem.trivial_bound, problem.deadline
        run = _Run(limits, start.incumbent, callbacks, started, deadline, bound, checkpoint=checkpoint)
        run.save(start.clusters)
        return run, start.clusters
    clusters = Clusters.restore(problem, saved.arrays)
    incumbent = None if saved.objective is None else Incumbent(saved.arrays["point"], saved.objective)
    clusters.source.n_passes = saved.n_passes
    logger.info("going on from %s, after iteration %d", checkpoint.path if checkpoint else "", len(saved.history))
    began, deadline = started - saved.seconds, problem.deadline
    run = _Run(limits, incumbent, callbacks, began, deadline, saved.lower_bound, saved.stalled, checkpoint)
    run.history = list(saved.history)
    return run, clusters


def aid(
    problem: Problem, limits: Limits, callbacks: Sequence[Callback] = (), checkpoint: Checkpoint | None = None
) -> Result:
    """Solve a problem by Aggregate and Iterative Disaggregate.

    Parameters
    ----------
    problem : Problem
        The four components (see :mod:`aidlearn.engine.problem`).
    limits : Limits
        Tolerance on the certified gap, and limits on iterations and time.
    callbacks : sequence of callables
        Each is called with every :class:`Iteration`; a true return value stops the run.
    checkpoint : Checkpoint, optional
        Where the run is saved after every iteration, and continued from if it was saved before. Points must be arrays.

    Returns
    -------
    Result
        The best point, its objective on all entries and the proven lower bound.
    """
    started = time.monotonic()
    problem.deadline = math.inf if limits.time_limit is None else started + limits.time_limit
    run, clusters = _begin(problem, limits, callbacks, started, checkpoint)
    certified: Solution | None = None
    status = None
    try:
        while status is None:
            certified = None
            solution = problem.solve_aggregated(clusters, run.incumbent, run.accuracy())
            certified = solution
            check = clusters.check(Trial([solution.point]))
            before = run.improve([solution.point], check)
            stop = run.record(clusters, solution, check) or solution.interrupted
            status = run.status(problem, solution, check) or (Status.interrupted if stop else None)
            if status is None:
                elsewhere = problem.split_trial(solution, before)
                if elsewhere:
                    check = clusters.check(elsewhere)
                    run.improve(elsewhere.points, check)
                certified = None  # it belongs to the clusters as they were
                clusters.decluster(check)
                run.save(clusters)
    except KeyboardInterrupt:
        if run.incumbent is None:
            raise
        status = Status.interrupted
    assert run.incumbent is not None
    logger.info("%s gap %.3g after %d iterations", status, run.history[-1].gap if run.history else 1, len(run.history))
    return Result(
        point=run.incumbent.point,
        objective=run.incumbent.objective,
        lower_bound=run.lower_bound,
        status=status,
        n_clusters=clusters.n_clusters,
        aggregation_rate=clusters.aggregation_rate,
        n_passes=clusters.source.n_passes,
        history=run.history,
        solution=certified,
        clusters=clusters,
        profile=Profile.of(clusters.counts, problem.distances(clusters, run.incumbent.point)),
        frames=run.frames,
    )
