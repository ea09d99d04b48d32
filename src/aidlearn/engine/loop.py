"""Algorithm 1 of the paper: aggregate, solve, check, decluster, until the gap is closed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aidlearn.engine.checkpoint import Checkpoint, CheckpointError, Snapshot
from aidlearn.engine.clusters import Clusters, near_and_far
from aidlearn.engine.problem import Accuracy, Incumbent, Problem, Solution, Trial
from aidlearn.engine.result import CROSSING, Iteration, Result, StartStep, Status, below, relative_gap
from aidlearn.engine.splits import Check, Values

logger = logging.getLogger("aidlearn")

AT_ONCE = 1e-3
"""Seconds for what was not begun when the user stopped the fit."""
UNLIKELY = 10.0
"""Tolerances between the first bound and the incumbent from which on the first solution is seldom the last."""
USELESS = 0.5
"""Relative gap above which the point of a late fit may be worse than one without slopes (which takes a pass)."""

Callback = Callable[[Iteration], bool | None]
"""Called once per iteration; a true return value stops the fit."""
Observer = Callable[[Clusters, Solution, Iteration], None]
"""Shown the clusters and the solution of every iteration, before they are split."""


@dataclass(frozen=True)
class Limits:
    """When a run ends.

    Examples
    --------
    >>> from aidlearn.engine import Limits
    >>> Limits(tol=1e-6, time_limit=60)
    Limits(tol=1e-06, max_iter=100, time_limit=60)
    """

    tol: float = 1e-4
    max_iter: int = 100
    time_limit: float | None = None

    def at_once(self) -> Limits:
        """What is left for a problem of a fit that the user has stopped: one iteration from a hasty start."""
        return replace(self, max_iter=1, time_limit=min(AT_ONCE, self.time_limit or AT_ONCE))


@dataclass
class _Progress:
    """Bounds and records of a run of the loop."""

    problem: Problem
    limits: Limits
    deadline: float
    started: float
    """Of the first part of the run, if it was continued; limits on time are limits of this part."""
    callbacks: Sequence[Callback]
    observer: Observer | None
    checkpoint: Checkpoint | None
    incumbent: Incumbent | None = None
    proven: float = -math.inf
    """The best bound as it was proven; what it is worth beside the incumbent is ``lower_bound``."""
    told: float = -math.inf
    """The bound of a file, which proves nothing without its dual: the next solution of its clusters proves it again."""
    stalled: bool = False
    in_time: bool = True
    """Whether there was time left after the start."""
    late: bool = False
    """Whether time was over when the last solution was looked at."""
    passes_before: int = 0
    """Of the run, for other problems than this one."""
    history: list[Iteration] = field(default_factory=list)
    steps: list[StartStep] = field(default_factory=list)
    plan: Mapping[str, Any] = field(default_factory=dict)
    first_is_last: bool = True
    """Whether the start takes the first aggregated solution to be the last."""
    _known_error: tuple[Incumbent, float] | None = None

    @property
    def objective(self) -> float:
        return math.inf if self.incumbent is None else self.incumbent.objective

    @property
    def lower_bound(self) -> float:
        """The proven bound, below the objective."""
        return max(self.kept(self.proven), self.kept(self.problem.trivial_bound))

    def kept(self, bound: float) -> float:
        """What a bound is worth beside the incumbent."""
        return below(bound, self.objective, self._error())

    def _error(self) -> float:
        """Of the objective of the incumbent, by rounding."""
        if self.incumbent is None:
            return 0.0
        if self._known_error is None or self._known_error[0] is not self.incumbent:
            self._known_error = self.incumbent, self.problem.objective_error(self.incumbent.point)
        return self._known_error[1]

    @property
    def gap(self) -> float:
        return relative_gap(self.objective, self.lower_bound)

    def begin(self) -> Clusters:
        """Initial clusters, or those of a run that was saved."""
        problem = self.problem
        saved = None if self.checkpoint is None else self.checkpoint.load()
        if saved is None:
            start = problem.start()
            self.incumbent, self.proven = None, problem.trivial_bound
            self.take(start.incumbent)
            self.steps = [replace(step, seconds=step.seconds - self.started) for step in start.steps]
            self.plan, self.first_is_last = start.plan, start.last
            self.in_time = time.monotonic() < self.deadline
            self.save(start.clusters)
            return start.clusters
        logger.info("going on from a checkpoint, after iteration %d", len(saved.history))
        point = problem.resume(saved.arrays)
        if saved.objective is not None:
            self.incumbent = Incumbent(point, saved.objective)
            self._compare()
        self.proven, self.told, self.stalled = problem.trivial_bound, saved.lower_bound, saved.stalled
        self.steps, self.plan, self.first_is_last = saved.steps, saved.plan, saved.first_is_last
        self.history = list(saved.history)
        self.started -= saved.seconds
        problem.run.add_passes(saved.n_passes)
        return Clusters.restore(problem, saved.arrays)

    def _compare(self) -> None:
        """Evaluate the incumbent of a file on all entries, by a pass that is not one of the fit that goes on."""
        assert self.incumbent is not None
        run = self.problem.run
        n_passes = run.n_passes
        objective = self.problem.objective(self.incumbent.point)
        run.add_passes(n_passes - run.n_passes)
        # What agrees is kept to its last bits, so that the fit goes on to the same ones.
        if not abs(objective - self.objective) <= max(CROSSING * abs(objective), self._error()):
            raise CheckpointError(
                f"The checkpoint holds an objective of {self.objective:.10g}, its point has {objective:.10g}: it is "
                "damaged. Delete it to start anew, or give another file."
            )

    def accuracy(self) -> Accuracy:
        """A tenth of the tolerance, so that the split and not the solver decides the gap."""
        return Accuracy(0.0 if self.stalled else 0.1 * self.limits.tol, self.deadline)

    def trial(self, solution: Solution, clusters: Clusters) -> Trial:
        """What to check a solution at.

        The first is looked at alone, most often it is the last. Once it was not, or where that is unlikely, one pass
        also tells what to split at.
        """
        several = bool(self.history)
        if self.incumbent is not None and not several:
            gap = relative_gap(self.objective, self.kept(max(solution.lower_bound, self.problem.trivial_bound)))
            several = gap > (UNLIKELY if self.first_is_last else 1.0) * self.limits.tol
        trial = self.problem.split_trial(solution, self.incumbent, clusters) if several else None
        return trial if trial and trial.points[0] is solution.point else Trial([solution.point])

    def take(self, candidate: Incumbent | None) -> None:
        """Keep a point that is better than the incumbent; one whose objective is not a number never is."""
        if candidate is not None and candidate.objective < self.objective:
            self.incumbent = candidate

    def improve(self, points: Sequence[object], check: Check) -> Incumbent | None:
        """Keep the best of the points as incumbent; returns the one before."""
        before = self.incumbent
        for point, objective in zip(points, check.objectives.tolist(), strict=True):
            self.take(Incumbent(point, objective))
        return before

    def known(self, solution: Solution, clusters: Clusters) -> Values | None:
        """What a pass would tell of a solution that came too late to be another point than the incumbent.

        Which clusters lie in several regions is not known then: all, unless the bound is met.
        """
        if not solution.out_of_time or self.incumbent is None or solution.point is not self.incumbent.point:
            return None
        met = solution.lower_bound >= self.objective
        return Values(np.array([self.objective]), 0 if met else clusters.n_clusters)

    def settle(self, solution: Solution, before: Incumbent | None) -> None:
        """Where time or precision has ended, what there is may be worse than a point that the problem has cheaply."""
        self.late = time.monotonic() >= self.deadline
        # A start that ended too late has looked at that case.
        new = bool(self.history) or self.in_time or solution.point is not (before and before.point)
        gap = relative_gap(self.objective, self.kept(max(self.proven, solution.lower_bound)))
        enough = USELESS if self.late else self.limits.tol
        if (self.late or self.stalled) and new and gap > enough:
            self.take(self.problem.last_resort())

    def prove(self, solution: Solution) -> float:
        """Take up the bound of a solution; what it is worth beside the incumbent."""
        proven = self.kept(solution.lower_bound)
        if proven == -math.inf < solution.lower_bound:
            logger.warning("bound %.17g above the objective %.17g discarded", solution.lower_bound, self.objective)
        elif self.kept(self.proven) == -math.inf or solution.lower_bound > self.proven:
            self.proven = solution.lower_bound
        if proven < self.told <= proven + CROSSING * abs(proven):
            self.proven = max(self.proven, self.told)  # it is proven up to rounding, and kept to its last bits
        return proven

    def record(self, clusters: Clusters, solution: Solution, check: Values) -> bool:
        """Keep the iteration, tell observer and callbacks; whether one of them asked to stop."""
        proven = self.prove(solution)
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
            gap=self.gap,
            n_violated=check.n_violated,
            seconds=time.monotonic() - self.started,
            near_rate=near,
            far_rate=far,
        )
        self.history.append(entry)
        logger.debug("%s", entry)
        if self.observer is not None:
            self.observer(clusters, solution, entry)
        answers = [callback(entry) for callback in self.callbacks]
        return any(answers)

    def save(self, clusters: Clusters) -> None:
        """Write a checkpoint, if there is a file for it."""
        if self.checkpoint is None:
            return
        state = self.problem.state(None if self.incumbent is None else self.incumbent.point)
        self.checkpoint.save(
            Snapshot(
                arrays={**clusters.arrays(), **state},
                objective=None if self.incumbent is None else self.incumbent.objective,
                lower_bound=self.proven,
                stalled=self.stalled,
                n_passes=clusters.problem.run.n_passes - self.passes_before,
                seconds=time.monotonic() - self.started,
                history=self.history,
                steps=self.steps,
                plan=self.plan,
                first_is_last=self.first_is_last,
            )
        )

    def status(self, problem: Problem, solution: Solution, check: Values) -> Status | None:
        """Why to stop after this iteration, or None to go on."""
        discarded = self.kept(solution.lower_bound) == -math.inf < solution.lower_bound
        settled = check.n_violated == 0 and not discarded
        in_one_region = problem.one_region(solution, self.gap, self.limits.tol) if settled else None
        if in_one_region is not None:
            return in_one_region
        if self.gap <= self.limits.tol:
            return problem.gap_status
        if solution.out_of_time:
            return Status.time_limit
        if check.n_violated == 0 and solution.to_split is None:
            if self.stalled:
                return Status.numerical
            self.stalled = True  # only the solver's accuracy is left to improve
        if self.late:
            return Status.time_limit
        if len(self.history) >= self.limits.max_iter:
            return Status.iteration_limit
        return None


def aid(
    problem: Problem,
    limits: Limits,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    observer: Observer | None = None,
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
        Where the run is saved after every iteration, and continued from if it was saved before. A problem
        whose points are no arrays, or that keeps more than its clusters, says what in ``Problem.state``.
    observer : callable, optional
        Called with clusters, solution and record of every iteration (plots are drawn this way).

    Returns
    -------
    Result
        The best point, its objective on all entries and the proven lower bound.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn.data import as_source
    >>> from aidlearn.engine import Assignment, Clusters, Evaluation, Limits, Problem, Solution, Start, aid
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
    >>> result = aid(Median(as_source(np.zeros((201, 1)), y)), Limits(tol=1e-9))
    >>> str(result.status), bool(np.isclose(result.point[0], np.median(y)))
    ('optimal', True)
    >>> [record.n_clusters for record in result.history][0]
    5
    """
    started = time.monotonic()
    run = problem.run
    stopped_before = run.stopped
    if stopped_before:
        limits = limits.at_once()
    run = problem.limit_time(math.inf if limits.time_limit is None else started + limits.time_limit)
    progress = _Progress(
        problem, limits, run.deadline, started, callbacks, observer, checkpoint, passes_before=run.n_passes
    )
    clusters = progress.begin()
    certified: Solution | None = None
    status, stop = None, False
    try:
        while status is None:
            certified = None
            solution = problem.solve_aggregated(clusters, progress.incumbent, progress.accuracy())
            certified = solution
            known = progress.known(solution, clusters)
            if known is not None:
                progress.settle(solution, progress.incumbent)
                stop = progress.record(clusters, solution, known) or run.stopped
                status = progress.status(problem, solution, known)
                continue
            trial = progress.trial(solution, clusters)
            check = clusters.check(trial)
            before = progress.improve(trial.points, check)
            progress.settle(solution, before)
            stop = progress.record(clusters, solution, check) or solution.interrupted or run.stopped
            status = progress.status(problem, solution, check) or (Status.interrupted if stop else None)
            if status is None:
                elsewhere = problem.split_trial(solution, before, clusters)
                if elsewhere and type(elsewhere) is not type(trial):
                    check = clusters.check(elsewhere)
                    progress.improve(elsewhere.points, check)
                if not clusters.fit_into_memory(check):
                    status = Status.memory_limit
                    continue
                certified = None  # it belongs to the clusters as they were
                clusters.decluster(check)
                progress.save(clusters)
    except KeyboardInterrupt:
        if progress.incumbent is None:
            raise
        status = Status.interrupted
        if certified is not None:
            progress.prove(certified)
    if stopped_before and not status.reached_tolerance:
        status = Status.interrupted
    if stop or status is Status.interrupted:
        run.stop()  # the problems of the same fit that come after this one are to end at once
    if progress.incumbent is None:
        raise ArithmeticError("No point with a finite objective was found: rescale X and y to ordinary size.")
    logger.info("%s gap %.3g after %d iterations", status, progress.gap, len(progress.history))
    return Result(
        point=progress.incumbent.point,
        objective=progress.incumbent.objective,
        lower_bound=progress.lower_bound,
        status=status,
        n_clusters=clusters.n_clusters,
        aggregation_rate=clusters.aggregation_rate,
        n_passes=run.n_passes,
        history=progress.history,
        solution=certified,
        clusters=clusters,
        start=progress.steps,
        plan=progress.plan,
    )
