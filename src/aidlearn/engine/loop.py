"""Algorithm 1 of the paper: aggregate, solve, check, decluster, until the gap is closed.

Bounds, records and the end of a run live in :mod:`aidlearn.engine.progress`.
"""

from __future__ import annotations

from collections.abc import Sequence

from aidlearn.engine.checkpoint import Checkpoint
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Problem, Solution, Trial
from aidlearn.engine.progress import Bounds, Callback, Limits, Observer, Progress
from aidlearn.engine.result import Result

UNLIKELY = 10.0
"""Guess. Gap between the incumbent and the first bound, in tolerances, above which further iterations are likely."""


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
        File to which the run is saved after every iteration, and from which it continues if the file exists. A problem
        whose points are not arrays, or that has state besides its clusters, implements ``Problem.state``.
    observer : callable, optional
        Called with the clusters, solution and record of every iteration (plots use it).

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
    progress = Progress(problem, limits, callbacks, checkpoint, observer)
    clusters, bounds = progress.begin()
    try:
        while progress.status is None:
            solution = progress.solve_aggregated(clusters)
            trial, splits = _trial(problem, solution, clusters, bounds, progress)
            violations = progress.check(clusters, solution, trial)
            before = bounds.improve(trial.points, violations.objectives)
            progress.resort(solution, before)
            progress.record(clusters, solution, violations)
            progress.judge(solution, violations)
            if progress.status is None:
                elsewhere = None if splits else problem.split_trial(solution, before, clusters)
                if elsewhere:
                    violations = clusters.check(elsewhere)
                    bounds.improve(elsewhere.points, violations.objectives)
                progress.decluster(clusters, violations)
        return progress.result(clusters)
    except KeyboardInterrupt:
        if bounds.incumbent is None:
            raise
        progress.interrupt()
        return progress.result(clusters)


def _trial(
    problem: Problem, solution: Solution, clusters: Clusters, bounds: Bounds, progress: Progress
) -> tuple[Trial, bool]:
    """Return the points at which a solution is checked, and whether they are those of ``split_trial``.

    The first solution is checked alone, because it is usually the last. Later, or if the first bound is far from the
    incumbent, the same pass also finds where to split.
    """
    alone = Trial([solution.point])
    if progress.saves_a_pass(solution):
        return alone, False
    several = bool(progress.history)
    if bounds.incumbent is not None and not several:
        tolerances = UNLIKELY if progress.first_is_last else 1.0
        several = bounds.gap_to(max(solution.lower_bound, problem.trivial_bound)) > tolerances * progress.limits.tol
    trial = problem.split_trial(solution, bounds.incumbent, clusters) if several else None
    return (trial, True) if trial and trial.points[0] is solution.point else (alone, False)
