"""Kernel SVM (paper, appendix B): clusters live in the space of the kernel and are known by kernel sums alone.

    minimise over (w, b)   1/2 |w|^2 + sum_i s_i max(0, 1 - y_i f(x_i)),     f(x) = <w, phi(x)> + b

A cluster of rows with one label has the mean image of its rows; its dual variable is shared by them in proportion to
their weights. So an aggregated dual is a dual of the original problem, and its value, computed from the kernel in
float64, is the bound. Clusters that are expected to have no loss may be left out: their dual variables are zero.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.source import Chunk, DataSource, Float, Int
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Accuracy, Evaluation, Incumbent, Problem, Solution, Start, Trial
from aidlearn.kernels.rows import KernelRows
from aidlearn.problems.kernel_clusters import KernelClusters
from aidlearn.solvers.kernel_dual import Interrupted, KernelDual, best_intercept, finish
from aidlearn.solvers.rows import EPS

NO_LOSS, LOSS = 0, 1
"""Regions of a row: outside its margin, inside or on the wrong side of it."""
STEPS = (0.1, 0.3, 0.6)
"""Where the segment from the incumbent to the aggregated solution is searched."""
ENOUGH_VIOLATORS = 0.15
"""A point on that segment is split at if it finds this part of the violators of the aggregated solution."""
CERTIFY_FROM = 1.5
"""Multiple of the tolerance from which on a gap is worth recomputing in float64."""
REFINEMENTS = 5
"""Solves of one aggregated problem, each from exact scores of the last solution."""
ROUNDING = 8.0
"""Multiple of the expected rounding error of a float32 score within which a row is evaluated again in float64."""

DualSolver = Callable[[KernelDual, Float, Float, float, float], Float]
StartMethod = Callable[["KernelHinge"], Start]


@dataclass(frozen=True)
class KernelPoint:
    """``w = sum_i coef_i phi(x_i)`` and b, with ``scores = <w, phi(x_i)>`` of all rows and ``square = |w|^2``."""

    coef: Float
    intercept: float
    scores: Float
    square: float
    cut: float
    """The intercept that regions are taken at: that of the aggregated problem, where it has one of its own."""
    exact: bool = False
    """Whether the scores of all rows that can have a loss were computed in float64."""
    feasible: bool = True
    """Whether the coefficients are a dual-feasible point. One that is not leads the way, but does not end a run."""


class KernelHinge(Problem):
    """The four components of a kernel SVM.

    Parameters
    ----------
    source : DataSource
        Entries with target -1 or +1; their weights are the boxes of the dual (C times sample weights).
    rows : KernelRows
        The kernel between them.
    y, box : arrays
        Targets and weights of all entries.
    solver : callable
        Solver of the aggregated dual.
    start_method : callable
        Draws the initial clusters.
    separate : bool
        Rows that violate the optimality condition become clusters of their own, and clusters without loss are left
        out until one of their rows violates it; otherwise clusters are split in two (the paper's rule).
    tol : float
        Gap at which the run will stop.
    memory_limit : float
        Bytes for kernel blocks.
    """

    trivial_bound = 0.0

    def __init__(
        self,
        source: DataSource,
        rows: KernelRows,
        y: Float,
        box: Float,
        *,
        solver: DualSolver,
        start_method: StartMethod,
        separate: bool = True,
        tol: float = 1e-4,
        memory_limit: float = 2e9,
        initial_rate: float | None = None,
        rng: np.random.Generator,
    ) -> None:
        self.source, self.rows, self.y, self.box = source, rows, y, box
        self.solver, self.start_method, self.separate = solver, start_method, separate
        self.tol, self.memory_limit, self.initial_rate, self.rng = tol, memory_limit, initial_rate, rng
        self.kernels = KernelClusters(rows, y, box, memory_limit)
        self._bound = 0.0
        self._hidden = 0.0
        self._coef = np.zeros(len(y))
        self._scores = np.zeros(len(y))
        self._widest: tuple[KernelPoint, float] | None = None

    def start(self) -> Start:
        """Initial clusters; the machine without any row is there from the beginning."""
        start = self.start_method(self)
        if start.incumbent is not None:
            return start
        nothing = self._point(np.zeros_like(self.y), np.zeros_like(self.y), exact=True)
        return replace(start, incumbent=Incumbent(nothing, self.objective(nothing)))

    def aggregate(self, chunk: Chunk, labels: NDArray[Any], n_clusters: int) -> Float:
        """Sum of the weights of each cluster, and of weight times label."""
        total = np.bincount(labels, weights=chunk.weight, minlength=n_clusters)
        signed = np.bincount(labels, weights=chunk.weight * chunk.y, minlength=n_clusters)
        return np.column_stack([total, signed])

    def solve_aggregated(self, clusters: Clusters, incumbent: Incumbent | None, accuracy: Accuracy) -> Solution:
        kernels = self.kernels
        idle = (clusters.counts > 1) & (clusters.homes == NO_LOSS) & self.separate
        kernels.update(clusters.labels(), clusters.counts, idle)
        self._homes, self._shared = clusters.homes.copy(), clusters.counts > 1
        self._widest = None
        dual = kernels.dual()
        alpha = dual.start(kernels.collect(np.abs(self._coef)))
        self._go_to(alpha)
        best = np.inf if incumbent is None else incumbent.objective
        point, alpha, interrupted = self._solved(dual, alpha, best, accuracy)
        self._bound = max(self._bound, float(alpha.sum()) - 0.5 * point.square)
        # A cluster that was left out and has a loss as a whole does not split, but it has to come in.
        loose = None if self._settled(point) else self._violators(point)
        return Solution(point, self._proven(point, alpha), loose=loose, interrupted=interrupted)

    def _solved(
        self, dual: KernelDual, alpha: Float, best: float, accuracy: Accuracy
    ) -> tuple[KernelPoint, Float, bool]:
        """Solve the aggregated problem from alpha; in float64 once the gap to ``best`` or to the point is small.

        Returns the point, its dual, and whether the user has stopped the solver.
        """
        relative = self._relative(best, accuracy)
        last = np.inf
        for _ in range(REFINEMENTS):
            alpha, interrupted = self._solved_dual(dual, alpha, relative, accuracy.deadline)
            self._go_to(alpha)
            point = self._solution(dual)
            done = self._settled(point)
            far = self._gap(point, alpha, best) > CERTIFY_FROM * max(self.tol, 1e-9)
            if not done and far and not interrupted:
                break
            self._scores = self.recomputed(point).scores
            point = replace(self._solution(dual), exact=True)
            gap = self._gap(point, alpha, best)
            # What rounding hides of the gap no solver can close.
            self._hidden = (self._doubt(point) + 0.5 * self.rounding(point)) / max(self.value(point), 1e-300)
            enough = gap <= max(self.tol - self._hidden, 0.3 * self._hidden)
            if not done or enough or gap > 0.5 * last or interrupted or time.monotonic() > accuracy.deadline:
                break
            # Only digits of the solution are missing: on from exact scores.
            relative, last = max(0.1 * self.tol, 0.1 * self._hidden, 1e-13), gap
        return point, alpha, interrupted

    def _solved_dual(self, dual: KernelDual, alpha: Float, relative: float, deadline: float) -> tuple[Float, bool]:
        """A solution of the aggregated dual; if the user stops the solver, what it had."""
        try:
            alpha = self.solver(dual, alpha, self.kernels.means(self._scores), relative, deadline)
            return finish(dual, alpha, relative, deadline), False
        except Interrupted as stop:
            return dual.start(stop.alpha), True
        except KeyboardInterrupt:
            return dual.start(alpha), True

    def _relative(self, best: float, accuracy: Accuracy) -> float:
        """Accuracy of the aggregated solution: far from the original optimum there is no use in a good one."""
        if accuracy.relative == 0:
            return max(1e-3 * self.tol, 0.1 * self._hidden, 1e-13)
        gap = max(0.0, (best - self._bound) / max(best, 1e-300)) if np.isfinite(best) else 1.0
        return max(accuracy.relative, min(1e-2, 0.03 * gap) if self._shared.any() else 0.0)

    def _gap(self, point: KernelPoint, alpha: Float, best: float) -> float:
        """The gap that a point and its dual show."""
        reached = min(best, self._charge(point) * self.value(point))
        return (reached - float(alpha.sum()) + 0.5 * point.square) / max(reached, 1e-300)

    def _proven(self, point: KernelPoint, alpha: Float) -> float:
        """The value of the dual, less what rounding may have added to it.

        The heavier class, times what lets the coefficients sum to zero exactly, is a feasible point nearby.
        """
        coef = point.coef
        surplus = math.fsum(coef)
        heavy = coef * np.sign(surplus) > 0
        excess = np.abs(coef[heavy]) * (abs(surplus) / max(float(np.abs(coef[heavy]).sum()), 1e-300))
        slope = abs(float(excess @ (1.0 - self.y[heavy] * point.scores[heavy])))
        shift = 2.0 * slope + 0.5 * float(excess @ self.rows.lengths[heavy]) ** 2
        total = (1.0 - 4.0 * EPS) * math.fsum(np.abs(coef))
        return total - 0.5 * point.square - 0.5 * self.rounding(point, alpha) - shift

    def rounding(self, point: KernelPoint, alpha: Float | None = None) -> float:
        """The most that rounding may have taken from ``|w|^2``."""
        if not point.exact:
            assert alpha is not None
            return self.kernels.error(alpha)
        return self._square_error(point)

    def _square_error(self, point: KernelPoint) -> float:
        """The same for scores in float64."""
        sizes = np.abs(point.coef) * self.rows.lengths
        return float(sizes.sum()) * float(self.rows.rounding(exact=True) @ sizes)

    def _go_to(self, alpha: Float) -> None:
        """Coefficients and scores of all rows at an aggregated dual; only what has changed is evaluated."""
        coef = self.kernels.spread(alpha)
        self._scores = self._scores + self.kernels.scores_of_change(self._coef, coef)
        self._coef = coef

    def _point(self, coef: Float, scores: Float, exact: bool = False, feasible: bool = True) -> KernelPoint:
        b = best_intercept(scores, self.y, self.box)
        # Sums of NumPy are pairwise: their rounding hardly grows with the number of rows.
        return KernelPoint(coef, b, scores, max(0.0, float(np.sum(coef * scores))), b, exact, feasible)

    def _solution(self, dual: KernelDual) -> KernelPoint:
        """The point reached, with regions at the intercept of the aggregated problem."""
        cut = best_intercept(self.kernels.means(self._scores), dual.y, dual.box)
        return replace(self._point(self._coef, self._scores), cut=cut)

    def recomputed(self, point: KernelPoint) -> KernelPoint:
        """The same point with the scores that matter computed in float64 from the kernel."""
        used = np.flatnonzero(point.coef)
        error = ROUNDING * self._score_errors(point)
        # Beyond the error of its score a row outside its margin has no loss, whatever the last digits are.
        at = np.flatnonzero((self._margins(point) > -error - 1e-6) | (point.coef != 0))
        scores = point.scores.copy()
        scores[at] = self.rows.times(at, used, point.coef[used, None], exact=True)[:, 0]
        if (np.abs(scores - point.scores) > 0.5 * (error + 1e-6)).any():
            everything = np.arange(len(scores))
            scores = self.rows.times(everything, used, point.coef[used, None], exact=True)[:, 0]
        return self._point(point.coef, scores, True, point.feasible)

    def _score_errors(self, point: KernelPoint) -> Float:
        """Of scores that are not exact: errors of terms are independent and add up like the root of their number."""
        sizes = np.abs(point.coef) * self.rows.lengths
        return self.rows.rounding() * self.rows.lengths * np.sqrt(sizes.max(initial=0.0) * sizes.sum())

    def _margins(self, point: KernelPoint) -> Float:
        return 1.0 - self.y * (point.scores + point.intercept)

    def _cut_margins(self, point: KernelPoint) -> Float:
        return 1.0 - self.y * (point.scores + point.cut)

    def value(self, point: KernelPoint) -> float:
        """The objective on all rows, as far as the point's scores go."""
        return 0.5 * point.square + float(np.sum(self.box * np.maximum(0.0, self._margins(point))))

    def _charge(self, point: KernelPoint) -> float:
        """Factor on the objective: with it the gap of a point that is not feasible stays above the tolerance."""
        return 1.0 if point.feasible else 1.0 + 2.0 * self.tol

    def objective(self, point: KernelPoint) -> float:
        """The value that the run compares points by."""
        return self._charge(point) * self.value(point) + self._doubt(point)

    def _doubt(self, point: KernelPoint) -> float:
        """What rounding may have taken from the value: of scores in float64 the most that it can be.

        Scores in float32, which never end a run, add a tenth of the expected errors of all rows with a loss.
        """
        z = self._margins(point)
        errors = self.rows.rounding(exact=True) * self.rows.lengths * float(np.abs(point.coef) @ self.rows.lengths)
        errors = errors + 4.0 * EPS * (1.0 + np.abs(point.scores) + abs(point.intercept))
        losses = float(np.sum(self.box * np.where(z > -errors, errors, 0.0)))
        if not point.exact:
            losses += 0.1 * float(self._score_errors(point) @ (self.box * (z > 0)))
        return losses + 0.5 * self._square_error(point) + 64.0 * EPS * self.value(point)

    def reached(self, point: KernelPoint) -> float:
        """The objective of a point, rounded up: no less than its true value."""
        return self.value(point) + self._doubt(point)

    def distances(self, clusters: Clusters, point: KernelPoint) -> Float:
        """Distance of each cluster's mean score from its margin (for plots)."""
        weight, signed = clusters.sums.T
        total = np.bincount(clusters.labels(), weights=self.box * point.scores, minlength=clusters.n_clusters)
        some = np.where(weight > 0, weight, 1.0)
        return np.abs(1.0 - signed / some * (total / some + point.intercept))

    def penalty(self, point: KernelPoint) -> float:
        return 0.5 * self._charge(point) * point.square + self._doubt(point)

    def evaluate(self, chunk: Chunk, trial: Trial) -> Evaluation:
        here = slice(chunk.start, chunk.stop)
        margins = [1.0 - chunk.y * (point.scores[here] + point.intercept) for point in trial.points]
        losses = [float(chunk.weight @ np.maximum(0.0, z)) for z in margins]
        objectives = np.array([self._charge(p) * loss for p, loss in zip(trial.points, losses, strict=True)])
        cut = 1.0 - chunk.y * (trial.points[0].scores[here] + trial.points[0].cut)
        return Evaluation(objectives, _regions(cut)[None], np.abs(cut) <= self._width(trial.points[0]))

    def _width(self, point: KernelPoint) -> float:
        """Distance from the margin up to which violating rows become clusters of their own."""
        if self._widest is None or self._widest[0] is not point:
            violators = np.abs(self._cut_margins(point)[self._violators(point)])
            room = self.kernels.room(self.separate)
            width = np.inf if len(violators) <= room else float(np.partition(violators, room)[room])
            self._widest = (point, width if room else -1.0)
        return self._widest[1]

    def _violators(self, point: KernelPoint) -> Int:
        labels = self.kernels.labels
        region = _regions(self._cut_margins(point))
        return np.flatnonzero(self._shared[labels] & (region >= 0) & (region != self._homes[labels]))

    def _settled(self, point: KernelPoint) -> bool:
        """Whether no split is left to make at this point."""
        if self.separate:
            return len(self._violators(point)) == 0
        region, labels = _regions(self._cut_margins(point)), self.kernels.labels
        size = len(self._shared)
        sides = [np.bincount(labels[region == side], minlength=size) > 0 for side in (NO_LOSS, LOSS)]
        return not (self._shared & sides[0] & sides[1]).any()

    def split_trial(self, solution: Solution, incumbent: Incumbent | None) -> Trial | None:
        """Where the solution is worse than the incumbent: the best point between them, if it finds enough violators."""
        end: KernelPoint = solution.point
        if not self.separate or incumbent is None or self.objective(end) <= incumbent.objective:
            return None
        points = [self._between(incumbent.point, end, step) for step in STEPS]
        best = min(points, key=self.objective)
        enough = ENOUGH_VIOLATORS * len(self._violators(end))
        return Trial([best]) if len(self._violators(best)) >= enough else None

    def _between(self, origin: KernelPoint, end: KernelPoint, step: float) -> KernelPoint:
        coef = (1 - step) * origin.coef + step * end.coef
        scores = (1 - step) * origin.scores + step * end.scores
        return self._point(coef, scores, feasible=origin.feasible and end.feasible)


def _regions(z: Float) -> NDArray[np.int8]:
    return np.where(z == 0, -1, z > 0).astype(np.int8)
