"""The state of one run of the loop: the two sides of the gap, the records, and why the run ends.

Any partition gives a lower bound (Jensen), so ``lower_bound = max F_t`` and ``objective = min E_t`` stay valid for any
sequence of splits and merges.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aidlearn.engine.checkpoint import Checkpoint, CheckpointError, Snapshot, damaged
from aidlearn.engine.clusters import Clusters, near_and_far
from aidlearn.engine.problem import Accuracy, Incumbent, Problem, Solution, Trial
from aidlearn.engine.restored import restored
from aidlearn.engine.result import CROSSING, Iteration, Result, StartStep, Status, below, relative_gap
from aidlearn.engine.sums import Violations

logger = logging.getLogger("aidlearn")

Callback = Callable[[Iteration], bool | None]
"""Called once per iteration; a true return value stops the fit."""
Observer = Callable[[Clusters, Solution, Iteration], None]
"""Called with the clusters and the solution of every iteration, before clusters are split."""


@dataclass(frozen=True)
class LateSettings:
    """Settings of runs that are out of time."""

    at_once: float = 1e-3
    """Guess. Time budget, in seconds, of a problem that had not started when the user stopped the fit."""
    useless: float = 0.5
    """Guess. Relative gap above which the point of a late fit may be worse than a model without slopes."""


SETTINGS = LateSettings()


@dataclass(frozen=True)
class Limits:
    """Limits that end a run.

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
        """Return limits for a problem whose fit the user has stopped: one iteration from a hurried start."""
        return replace(self, max_iter=1, time_limit=min(SETTINGS.at_once, self.time_limit or SETTINGS.at_once))


class Bounds:
    """The best point with its objective on all entries, and the best proven lower bound."""

    def __init__(self, problem: Problem, incumbent: Incumbent | None = None) -> None:
        self._problem = problem
        self.incumbent: Incumbent | None = None
        self._error = 0.0
        """Rounding error of the incumbent's objective."""
        self.proven = problem.trivial_bound
        """Best bound as it was proven; ``lower_bound`` is this bound corrected for rounding of the objective."""
        self._saved = -math.inf
        """Bound of a checkpoint. Without its dual it proves nothing; the next solution has to prove it again."""
        self.take(incumbent)

    def resume(self, point: Any, objective: float, saved: Snapshot) -> None:
        """Continue with the point and the bound of a checkpoint; ``objective`` is that of the point on all entries.

        If the saved objective agrees with it up to rounding, its exact bits are kept, so that the fit continues exactly
        as it would have.
        """
        self._saved = saved.lower_bound
        if (point is None) != (saved.objective is None):
            raise damaged("it has a point or an objective, but not both")
        if saved.objective is None:
            return
        self.take(Incumbent(point, saved.objective))
        if not abs(objective - saved.objective) <= max(CROSSING * abs(objective), self._error):
            raise CheckpointError(
                f"The checkpoint holds an objective of {saved.objective:.10g}, its point has {objective:.10g}: it is "
                "damaged. Delete it to start anew, or give another file."
            )
        if not self._problem.feasible(point):
            raise damaged("its point violates the constraints")

    @property
    def objective(self) -> float:
        """Objective of the incumbent on all entries."""
        return math.inf if self.incumbent is None else self.incumbent.objective

    @property
    def lower_bound(self) -> float:
        """Best proven bound that does not exceed the objective."""
        return max(self.kept(self.proven), self.kept(self._problem.trivial_bound))

    @property
    def gap(self) -> float:
        """Relative gap between the incumbent and the best proven bound."""
        return relative_gap(self.objective, self.lower_bound)

    def gap_to(self, lower_bound: float) -> float:
        """Return the relative gap between the incumbent and a given bound."""
        return relative_gap(self.objective, self.kept(lower_bound))

    def kept(self, lower_bound: float) -> float:
        """Return the bound, lowered if rounding put it above the objective, or -inf if rounding cannot explain that."""
        return below(lower_bound, self.objective, self._error)

    def discards(self, lower_bound: float) -> bool:
        """Return whether a finite bound exceeds the objective by more than rounding explains."""
        return self.kept(lower_bound) == -math.inf < lower_bound

    def take(self, candidate: Incumbent | None) -> None:
        """Keep a point if it is better than the incumbent; a point whose objective is NaN never is."""
        if candidate is not None and candidate.objective < self.objective:
            self.incumbent, self._error = candidate, self._problem.objective_error(candidate.point)

    def improve(self, points: Iterable[Any], objectives: Iterable[float]) -> Incumbent | None:
        """Keep the best of the points as incumbent, and return the previous incumbent."""
        before = self.incumbent
        for point, objective in zip(points, objectives, strict=True):
            self.take(Incumbent(point, float(objective)))
        return before

    def prove(self, solution: Solution) -> float:
        """Keep the bound of a solution if it is the best, and return it, corrected for rounding of the objective."""
        kept = self.kept(solution.lower_bound)
        if self.discards(solution.lower_bound):
            logger.warning("bound %.17g above the objective %.17g discarded", solution.lower_bound, self.objective)
        elif self.kept(self.proven) == -math.inf or solution.lower_bound > self.proven:
            self.proven = solution.lower_bound
        if kept < self._saved <= kept + CROSSING * abs(kept):
            self.proven = max(self.proven, self._saved)  # proven again up to rounding: keep the exact bits
        return kept


class Progress:
    """Records and clock of one run, and the rule that ends it."""

    def __init__(
        self,
        problem: Problem,
        limits: Limits,
        callbacks: Sequence[Callback],
        checkpoint: Checkpoint | None,
        observer: Observer | None,
    ) -> None:
        self._started = time.monotonic()
        """Start time of the run, less the time used before it was continued; time limits exclude that time."""
        self._was_stopped = problem.run.stopped
        self.limits = limits.at_once() if self._was_stopped else limits
        limit = self.limits.time_limit
        self._run = problem.limit_time(math.inf if limit is None else self._started + limit)
        self._passes_before = self._run.n_passes
        """Number of passes that the same fit has made for other problems."""
        self._problem = problem
        self._callbacks, self._checkpoint, self._observer = callbacks, checkpoint, observer
        self.status: Status | None = None
        """Reason why the run has ended; None while it continues."""
        self._stalled = False
        """Whether only a more accurate aggregated solver can still close the gap."""
        self._late_start = self._late = self._stop = False
        self.history: list[Iteration] = []
        self._steps: Sequence[StartStep] = ()
        self._plan: Mapping[str, Any] = {}
        self.first_is_last = True
        """Whether the start expects the first aggregated solution to be the last."""
        self._solution: Solution | None = None
        """Solution of the aggregated problem of the current clusters."""

    def begin(self) -> tuple[Clusters, Bounds]:
        """Draw the initial clusters, or restore those of a saved run."""
        problem = self._problem
        saved = None if self._checkpoint is None else self._checkpoint.load()
        if saved is None:
            start = problem.start()
            self._bounds = Bounds(problem, start.incumbent)
            self._steps = [replace(step, seconds=step.seconds - self._started) for step in start.steps]
            self._plan, self.first_is_last = start.plan, start.last
            self._late_start = self._is_late
            self._save(start.clusters)
            return start.clusters, self._bounds
        logger.info("continuing from a checkpoint, after iteration %d", len(saved.history))
        n_passes = self._run.n_passes
        point = problem.resume(saved.arrays)
        clusters, objective = restored(problem, saved.arrays, point)
        self._run.add_passes(n_passes - self._run.n_passes)  # the check does not count towards the fit
        self._bounds = Bounds(problem)
        self._bounds.resume(point, objective, saved)
        self._steps, self._plan, self.first_is_last = saved.steps, saved.plan, saved.first_is_last
        self.history, self._stalled = list(saved.history), saved.stalled
        self._started -= saved.seconds
        self._run.add_passes(saved.n_passes)
        return clusters, self._bounds

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def _is_late(self) -> bool:
        return time.monotonic() >= self._run.deadline

    def solve_aggregated(self, clusters: Clusters) -> Solution:
        """Solve to a tenth of the tolerance, so that the split and not the solver determines the gap."""
        self._solution = None
        accuracy = Accuracy(0.0 if self._stalled else 0.1 * self.limits.tol, self._run.deadline)
        self._solution = self._problem.solve_aggregated(clusters, self._bounds.incumbent, accuracy)
        return self._solution

    def saves_a_pass(self, solution: Solution) -> bool:
        """Return whether the solver ran out of time at the incumbent, whose objective is known."""
        incumbent = self._bounds.incumbent
        return solution.out_of_time and incumbent is not None and solution.point is incumbent.point

    def check(self, clusters: Clusters, solution: Solution, trial: Trial) -> Violations:
        """Check all entries at a trial, in one pass unless the only point is the incumbent of a late fit."""
        if not self.saves_a_pass(solution):
            return clusters.check(trial)
        return clusters.unchecked(self._bounds.objective, met=solution.lower_bound >= self._bounds.objective)

    def resort(self, solution: Solution, before: Incumbent | None) -> None:
        """Try the problem's last resort if time or precision is exhausted and the best point is poor.

        A start that ended past the deadline has already tried it.
        """
        bounds, self._late = self._bounds, self._is_late
        tried = not self.history and self._late_start and solution.point is (before and before.point)
        enough = SETTINGS.useless if self._late else self.limits.tol
        poor = bounds.gap_to(max(bounds.proven, solution.lower_bound)) > enough
        if (self._late or self._stalled) and not tried and poor:
            bounds.take(self._problem.last_resort())

    def record(self, clusters: Clusters, solution: Solution, violations: Violations) -> None:
        """Keep the bound and the record of an iteration, and pass the record to the observer and the callbacks."""
        bounds, proven = self._bounds, self._bounds.prove(solution)
        distances = self._problem.distances(clusters, solution.point)
        near, far = (None, None) if distances is None else near_and_far(clusters.counts, distances)
        entry = Iteration(
            iteration=len(self.history) + 1,
            n_clusters=clusters.n_clusters,
            aggregation_rate=clusters.aggregation_rate,
            lower_bound=proven,
            objective=float(violations.objectives[0]),
            best_objective=bounds.objective,
            best_lower_bound=bounds.lower_bound,
            gap=bounds.gap,
            n_violated=violations.n_violated,
            seconds=self._seconds,
            near_rate=near,
            far_rate=far,
        )
        self.history.append(entry)
        logger.debug("%s", entry)
        if self._observer is not None:
            self._observer(clusters, solution, entry)
        self._stop = asks_to_stop(self._callbacks, entry)

    def judge(self, solution: Solution, violations: Violations) -> None:
        """Decide whether the run ends after an iteration."""
        self._stop = self._stop or solution.interrupted or self._run.stopped
        self.status = self._reason(solution, violations) or (Status.interrupted if self._stop else None)

    def _reason(self, solution: Solution, violations: Violations) -> Status | None:
        bounds, tol, one_region = self._bounds, self.limits.tol, violations.n_violated == 0
        if one_region and not bounds.discards(solution.lower_bound):
            status = self._problem.one_region(solution, bounds.gap, tol)
            if status is not None:
                return status
        if bounds.gap <= tol:
            return self._problem.gap_status
        if solution.out_of_time:
            return Status.time_limit
        if one_region and solution.to_split is None:
            if self._stalled:
                return Status.numerical
            self._stalled = True
        if self._late:
            return Status.time_limit
        return Status.iteration_limit if len(self.history) >= self.limits.max_iter else None

    def decluster(self, clusters: Clusters, violations: Violations) -> None:
        """Split clusters and save the run, or end the run if the new clusters would exceed the memory limit."""
        if not clusters.fit_into_memory(violations):
            self.status = Status.memory_limit
            return
        self._solution = None  # it belongs to the clusters before the split
        clusters.decluster(violations)
        self._save(clusters)

    def _save(self, clusters: Clusters) -> None:
        """Write a checkpoint if the run has a file for it."""
        if self._checkpoint is None:
            return
        incumbent = self._bounds.incumbent
        state = self._problem.state(None if incumbent is None else incumbent.point)
        self._checkpoint.save(
            Snapshot(
                arrays={**clusters.arrays(), **state},
                objective=None if incumbent is None else incumbent.objective,
                lower_bound=self._bounds.proven,
                stalled=self._stalled,
                n_passes=self._run.n_passes - self._passes_before,
                seconds=self._seconds,
                history=self.history,
                steps=self._steps,
                plan=self._plan,
                first_is_last=self.first_is_last,
            )
        )

    def interrupt(self) -> None:
        """End the run at the user's request, and keep the bound of a solution that was not recorded yet."""
        self._stop, self.status = True, self.status or Status.interrupted
        if self._solution is not None:
            self._bounds.prove(self._solution)

    def result(self, clusters: Clusters) -> Result:
        """Return the best point and what is proven about it; a stopped run also stops the fit it belongs to."""
        bounds, status = self._bounds, self.status
        assert status is not None
        if self._was_stopped and not status.reached_tolerance:
            status = Status.interrupted
        if self._stop or status is Status.interrupted:
            self._run.stop()
        if bounds.incumbent is None:
            raise ArithmeticError("No point with a finite objective was found: rescale X and y to ordinary size.")
        logger.info("%s Gap %.3g after %d iterations.", status.value, bounds.gap, len(self.history))
        return Result(
            point=bounds.incumbent.point,
            objective=bounds.incumbent.objective,
            lower_bound=bounds.lower_bound,
            status=status,
            n_clusters=clusters.n_clusters,
            aggregation_rate=clusters.aggregation_rate,
            n_passes=self._run.n_passes,
            history=self.history,
            solution=self._solution,
            clusters=clusters,
            start=list(self._steps),
            plan=self._plan,
        )


def asks_to_stop(callbacks: Sequence[Callback], record: Iteration) -> bool:
    """Call all callbacks with a record, and return whether one of them asks to stop the fit."""
    answers = [callback(record) for callback in callbacks]
    return any(answers)
