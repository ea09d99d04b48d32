"""When a run ends: tolerance and limits, lateness, interrupts, and what is left to do when time is over."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

from aidlearn.engine.bounds import Bounds
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Accuracy, Incumbent, Problem, Solution
from aidlearn.engine.result import Status
from aidlearn.engine.splits import Violations


@dataclass(frozen=True)
class LateSettings:
    """Numbers that decide what a late run still does."""

    at_once: float = 1e-3
    """Guess. Seconds for a problem that had not begun when the user stopped the fit."""
    useless: float = 0.5
    """Guess. Relative gap above which the point of a late fit may be worse than one without slopes."""


SETTINGS = LateSettings()


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
        """Limits of a problem whose fit the user has stopped: one iteration from a hurried start."""
        return replace(self, max_iter=1, time_limit=min(SETTINGS.at_once, self.time_limit or SETTINGS.at_once))


class Watch:
    """The clock of one run, and the rule that ends it."""

    def __init__(self, problem: Problem, limits: Limits) -> None:
        self._began = self.started = time.monotonic()
        """``started`` is when the first part of a continued run started; time limits are limits of this part."""
        self._was_stopped = problem.run.stopped
        self.limits = limits.at_once() if self._was_stopped else limits
        limit = self.limits.time_limit
        self._run = problem.limit_time(math.inf if limit is None else self._began + limit)
        self._problem = problem
        self.status: Status | None = None
        """Why the run has ended; None while it continues."""
        self.stalled = False
        """Whether only the accuracy of the aggregated solver is left to improve."""
        self._late_start = self._late = self._stop = False

    def resume(self, seconds: float, stalled: bool) -> None:
        """Continue a run that was saved after some seconds."""
        self.started -= seconds
        self.stalled = stalled

    def has_started(self) -> None:
        """Note whether the start has used up the time."""
        self._late_start = self._is_late

    @property
    def seconds(self) -> float:
        """Time since the run started."""
        return time.monotonic() - self.started

    @property
    def _is_late(self) -> bool:
        return time.monotonic() >= self._run.deadline

    @property
    def accuracy(self) -> Accuracy:
        """A tenth of the tolerance, so that the split and not the solver decides the gap."""
        return Accuracy(0.0 if self.stalled else 0.1 * self.limits.tol, self._run.deadline)

    @staticmethod
    def saves_a_pass(solution: Solution, incumbent: Incumbent | None) -> bool:
        """Whether the solver ran out of time at the incumbent, whose objective is known."""
        return solution.out_of_time and incumbent is not None and solution.point is incumbent.point

    def resort(self, solution: Solution, bounds: Bounds, before: Incumbent | None, first: bool) -> None:
        """Where time or precision has ended with a poor point, try the cheap one that the problem has.

        A start that ended too late has tried it already.
        """
        self._late = self._is_late
        tried = first and self._late_start and solution.point is (before and before.point)
        enough = SETTINGS.useless if self._late else self.limits.tol
        poor = bounds.gap_to(max(bounds.proven, solution.lower_bound)) > enough
        if (self._late or self.stalled) and not tried and poor:
            bounds.take(self._problem.last_resort())

    def judge(self, solution: Solution, violations: Violations, bounds: Bounds, n_iterations: int, stop: bool) -> None:
        """Decide whether the run ends after an iteration; ``stop`` says that a callback asked for it."""
        self._stop = stop or solution.interrupted or self._run.stopped
        self.status = self._reason(solution, violations, bounds, n_iterations)
        if self.status is None and self._stop:
            self.status = Status.interrupted

    def _reason(self, solution: Solution, violations: Violations, bounds: Bounds, n_iterations: int) -> Status | None:
        tol, one_region = self.limits.tol, violations.n_violated == 0
        if one_region and not bounds.discards(solution.lower_bound):
            status = self._problem.one_region(solution, bounds.gap, tol)
            if status is not None:
                return status
        if bounds.gap <= tol:
            return self._problem.gap_status
        if solution.out_of_time:
            return Status.time_limit
        if one_region and solution.to_split is None:
            if self.stalled:
                return Status.numerical
            self.stalled = True
        if self._late:
            return Status.time_limit
        return Status.iteration_limit if n_iterations >= self.limits.max_iter else None

    def room_for(self, clusters: Clusters, violations: Violations) -> bool:
        """Whether memory has room for the split clusters; the run ends where it has not."""
        if not clusters.fit_into_memory(violations):
            self.status = Status.memory_limit
        return self.status is None

    def interrupt(self) -> None:
        """End the run because the user asked for it."""
        self.status = Status.interrupted

    def final_status(self) -> Status:
        """Why the run has ended; the problems of the same fit that follow a stopped one are to end at once."""
        assert self.status is not None
        if self._was_stopped and not self.status.reached_tolerance:
            self.status = Status.interrupted
        if self._stop or self.status is Status.interrupted:
            self._run.stop()
        return self.status
