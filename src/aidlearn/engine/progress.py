"""The records of a run: history, observer, callbacks and checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aidlearn.engine.bounds import Bounds
from aidlearn.engine.checkpoint import Checkpoint, Snapshot
from aidlearn.engine.clusters import Clusters, near_and_far
from aidlearn.engine.limits import Watch
from aidlearn.engine.problem import Problem, Solution
from aidlearn.engine.result import Iteration, Result, StartStep
from aidlearn.engine.splits import Violations

logger = logging.getLogger("aidlearn")

Callback = Callable[[Iteration], bool | None]
"""Called once per iteration; a true return value stops the fit."""
Observer = Callable[[Clusters, Solution, Iteration], None]
"""Called with the clusters and the solution of every iteration, before clusters are split."""


class Progress:
    """What one run has recorded so far."""

    def __init__(
        self,
        problem: Problem,
        watch: Watch,
        callbacks: Sequence[Callback],
        checkpoint: Checkpoint | None,
        observer: Observer | None,
    ) -> None:
        self._problem, self._watch = problem, watch
        self._callbacks, self._checkpoint, self._observer = callbacks, checkpoint, observer
        self._passes_before = problem.run.n_passes
        """Passes of the same fit for other problems."""
        self.history: list[Iteration] = []
        self._steps: list[StartStep] = []
        self._plan: Mapping[str, Any] = {}
        self.first_is_last = True
        """Whether the start expects the first aggregated solution to be the last."""
        self.solution: Solution | None = None
        """Solution of the aggregated problem of the current clusters."""

    def begin(self) -> tuple[Clusters, Bounds]:
        """Draw the initial clusters, or restore those of a run that was saved."""
        problem, watch = self._problem, self._watch
        saved = None if self._checkpoint is None else self._checkpoint.load()
        if saved is None:
            start = problem.start()
            bounds = Bounds(problem, start.incumbent)
            self._steps = [replace(step, seconds=step.seconds - watch.started) for step in start.steps]
            self._plan, self.first_is_last = start.plan, start.last
            watch.has_started()
            self.save(start.clusters, bounds)
            return start.clusters, bounds
        logger.info("continuing from a checkpoint, after iteration %d", len(saved.history))
        bounds = Bounds.restored(problem, problem.resume(saved.arrays), saved.objective, saved.lower_bound)
        self._steps, self._plan, self.first_is_last = saved.steps, saved.plan, saved.first_is_last
        self.history = list(saved.history)
        watch.resume(saved.seconds, saved.stalled)
        problem.run.add_passes(saved.n_passes)
        return Clusters.restore(problem, saved.arrays), bounds

    def solve_aggregated(self, clusters: Clusters, bounds: Bounds) -> Solution:
        """Solve the aggregated problem of the clusters."""
        self.solution = None
        self.solution = self._problem.solve_aggregated(clusters, bounds.incumbent, self._watch.accuracy)
        return self.solution

    def record(self, clusters: Clusters, solution: Solution, violations: Violations, bounds: Bounds) -> bool:
        """Keep the bound and the record of an iteration; returns whether a callback asked to stop."""
        proven = bounds.prove(solution)
        distances = clusters.problem.distances(clusters, solution.point)
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
            seconds=self._watch.seconds,
            near_rate=near,
            far_rate=far,
        )
        self.history.append(entry)
        logger.debug("%s", entry)
        if self._observer is not None:
            self._observer(clusters, solution, entry)
        return asks_to_stop(self._callbacks, entry)

    def decluster(self, clusters: Clusters, violations: Violations, bounds: Bounds) -> None:
        """Split clusters, and save the run."""
        self.solution = None  # it belongs to the clusters as they were
        clusters.decluster(violations)
        self.save(clusters, bounds)

    def save(self, clusters: Clusters, bounds: Bounds) -> None:
        """Write a checkpoint, if there is a file for it."""
        if self._checkpoint is None:
            return
        incumbent = bounds.incumbent
        state = self._problem.state(None if incumbent is None else incumbent.point)
        self._checkpoint.save(
            Snapshot(
                arrays={**clusters.arrays(), **state},
                objective=None if incumbent is None else incumbent.objective,
                lower_bound=bounds.proven,
                stalled=self._watch.stalled,
                n_passes=clusters.problem.run.n_passes - self._passes_before,
                seconds=self._watch.seconds,
                history=self.history,
                steps=self._steps,
                plan=self._plan,
                first_is_last=self.first_is_last,
            )
        )

    def interrupt(self, bounds: Bounds) -> None:
        """End the run with the bound of a solution that was not recorded yet."""
        self._watch.interrupt()
        if self.solution is not None:
            bounds.prove(self.solution)

    def result(self, clusters: Clusters, bounds: Bounds) -> Result:
        """The best point and what is proven about it."""
        status = self._watch.final_status()
        if bounds.incumbent is None:
            raise ArithmeticError("No point with a finite objective was found: rescale X and y to ordinary size.")
        logger.info("%s gap %.3g after %d iterations", status, bounds.gap, len(self.history))
        return Result(
            point=bounds.incumbent.point,
            objective=bounds.incumbent.objective,
            lower_bound=bounds.lower_bound,
            status=status,
            n_clusters=clusters.n_clusters,
            aggregation_rate=clusters.aggregation_rate,
            n_passes=self._problem.run.n_passes,
            history=self.history,
            solution=self.solution,
            clusters=clusters,
            start=self._steps,
            plan=self._plan,
        )


def asks_to_stop(callbacks: Sequence[Callback], record: Iteration) -> bool:
    """Call all callbacks with a record; whether one of them asks to stop the fit."""
    answers = [callback(record) for callback in callbacks]
    return any(answers)
