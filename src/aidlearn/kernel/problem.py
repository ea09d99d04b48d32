"""Kernel SVM (paper, appendix B): clusters live in the space of the kernel and are represented by kernel sums.

    minimise over (w, b)   1/2 |w|^2 + sum_i s_i max(0, e_i - y_i f(x_i)),     f(x) = <w, phi(x)> + b

with edges e = 1 in classification; in regression each side of the tube is an entry (:mod:`aidlearn.kernel.entries`).

A cluster contains rows with one label and is the mean of their images; the rows share its dual variable in proportion
to their weights. An aggregated dual is therefore a dual of the original problem, and its value, computed from the
kernel in float64, is the lower bound. Clusters that are expected to have no loss may be left out: their dual variables
are zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.checkpoint import saved_array
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Accuracy, Evaluation, Incumbent, Problem, Solution, Start, Trial
from aidlearn.engine.sums import Assignment
from aidlearn.kernel.clusters import KernelClusters, OutOfTime
from aidlearn.kernel.dual import SETTINGS as DUAL
from aidlearn.kernel.dual import KernelDual, best_intercept, finish
from aidlearn.kernel.entries import KernelEntries
from aidlearn.kernel.functions import TINY
from aidlearn.kernel.solvers import DualSolver, Interrupted
from aidlearn.kernel.values import KernelPoint, PointValues, PreciseKernel, refined
from aidlearn.numerics import Float, Int

NO_LOSS, LOSS = 0, 1
"""Regions of a row: outside its margin, and inside it or on the wrong side."""
StartMethod = Callable[["KernelHinge"], Start]


@dataclass(frozen=True)
class ProcedureSettings:
    """Accuracy of aggregated solutions and of the steps between them, and training on samples."""

    segment_steps: tuple[float, ...] = (0.1, 0.3, 0.6)
    """Guess. Steps from the incumbent to the aggregated solution at which objectives are compared."""
    enough_violators: float = 0.15
    """Guess. Fraction of the aggregated solution's violators that a point on the way to it needs for a split."""
    certify_from: float = 1.5
    """Guess. Multiple of the tolerance up to which a gap is recomputed in float64."""
    least_tolerance: float = 1e-9
    """Guess. Minimum tolerance for ``certify_from``: with tolerance 0, gaps at the level of rounding are recomputed."""
    refinements: int = 5
    """Guess. Maximum solves of one aggregated problem, each from the exact scores of the one before."""
    worthwhile: float = 0.5
    """Guess. Fraction of the gap that a solve must not exceed for refinement to continue."""
    below_hidden: float = 0.3
    """Guess. Fraction of the hidden gap, which is due to rounding, below which a gap counts as closed."""
    solver_share: float = 0.1
    """Guess. Gap of the solver in a refinement, as a fraction of the tolerance or of the hidden gap."""
    stalled_share: float = 1e-3
    """Guess. Gap of the solver once no cluster can split, as a fraction of the tolerance."""
    rough_gap: float = 1e-2
    """Guess. Maximum relative gap of an aggregated solution far from the original optimum."""
    rough_share: float = 0.03
    """Guess. Gap of an aggregated solution far from the original optimum, as a fraction of the remaining gap."""
    sample_gap: float = 1e-2
    """Guess. Relative gap at which a sample is solved; a smaller one would not help on the other rows."""
    least_share: int = 4
    """Guess. Fraction of a sample (1/4) that each class gets at least, if it has enough rows."""
    hurried_values: float = 8e6
    """Guess. Number of kernel values between a hurried sample and all rows."""
    hurried_rows: tuple[int, int] = (40, 400)
    """Guess. Minimum and maximum rows of a hurried sample."""
    hurried_seconds: float = 0.05
    """Time limit of the solver on a hurried sample, in seconds."""


SETTINGS = ProcedureSettings()


@dataclass(frozen=True)
class KernelSettings:
    """Options for solving a kernel SVM."""

    solver: DualSolver
    start_method: StartMethod
    """Function that draws the initial clusters."""
    separate: bool = True
    """Whether rows that violate the optimality condition become single, and clusters without loss are left out until
    one of their rows violates it; otherwise clusters are split in two (the paper's rule)."""
    tol: float = 1e-4
    """Relative gap at which the run stops."""
    memory_limit: float = 2e9
    """Maximum bytes of kernel values."""
    initial_rate: float | None = None


class KernelHinge(Problem):
    """The four components of a kernel SVM, for classification and regression.

    Parameters
    ----------
    run : Run
        The fit that the problem belongs to.
    entries : KernelEntries
        Rows of a classification, or both sides of the tube of a regression.
    settings : KernelSettings
        Options for solving the problem.
    rng : Generator
        Random number generator of the start.
    """

    trivial_bound = 0.0

    def __init__(self, run: Run, entries: KernelEntries, settings: KernelSettings, rng: np.random.Generator) -> None:
        super().__init__(run.of(entries.source()))
        self.entries, self.settings, self.rng = entries, settings, rng
        rows, y, box, edge = entries.rows, entries.y, entries.box, entries.edge
        self.rows, self.y, self.box, self.edge = rows, y, box, edge
        self.values = PointValues(rows, y, box, edge, entries.unit)
        self.kernels = KernelClusters(rows, y, box, edge, settings.memory_limit)
        self._bound = 0.0
        self._hidden_gap = 0.0
        """Part of the relative gap that is due to rounding and that no solver can close."""
        self._coef = np.zeros(len(y))
        self._scores = np.zeros(len(y))
        self._width_at: tuple[KernelPoint, float] | None = None
        """A point, and the distance from its margin within which violating rows become single."""

    @cached_property
    def _precise(self) -> PreciseKernel | None:
        """The kernel in long double, or None if it is too expensive."""
        return PreciseKernel.of(self.rows)

    # 1. Aggregated data

    def aggregate(self, chunk: Chunk, labels: NDArray[Any], n_clusters: int) -> Float:
        """Sum the weights, and weights times labels, of each cluster."""
        total = np.bincount(labels, weights=chunk.weight, minlength=n_clusters)
        signed = np.bincount(labels, weights=chunk.weight * chunk.y, minlength=n_clusters)
        return np.column_stack([total, signed])

    # 2. Initial clusters

    def start(self) -> Start:
        """Draw the initial clusters; the zero machine is the incumbent if the start method has none."""
        if time.monotonic() > self.run.deadline:
            clusters, _ = Clusters.build(self, lambda chunk, _: Assignment((chunk.y > 0).astype(np.int32)), 2)
            return Start(clusters, self.last_resort())
        start = self.settings.start_method(self)
        return start if start.incumbent is not None else replace(start, incumbent=self.zero_machine())

    def zero_machine(self) -> Incumbent:
        """Return the machine with zero coefficients and the best intercept."""
        point = self.values.point(np.zeros_like(self.y), np.zeros_like(self.y), exact=True)
        return Incumbent(point, self.objective(point))

    def sample_solution(self, sample: Int, box: Float, deadline: float) -> Float:
        """Return the dual solution on the sample alone."""
        dual = KernelDual(self.y[sample], box, self.edge[sample], matrix=self.rows.block(sample, sample))
        nothing = np.zeros(len(sample))
        return self.settings.solver(dual, nothing, nothing, Accuracy(SETTINGS.sample_gap, deadline))

    def sample_machine(self, size: int, deadline: float) -> tuple[Incumbent, Float]:
        """Train a machine on a sample in which each class has the total weight of all its rows.

        Returns the machine, or the zero machine if that is better, and the scores of all rows.
        """
        sample = self.entries.sample(self.rng, size, size // SETTINGS.least_share)
        box = self.box[sample].copy()
        for label in (-1.0, 1.0):
            here = self.y[sample] == label
            box[here] *= self.box[self.y == label].sum() / box[here].sum()
        coef = np.zeros(len(self.y))
        coef[sample] = self.y[sample] * self.sample_solution(sample, box, deadline)
        scores = self.rows.times(np.arange(len(self.y)), sample, coef[sample, None])[:, 0]
        point = self.values.point(coef, scores, feasible=False)
        known, zero = Incumbent(point, self.objective(point)), self.zero_machine()
        return (known if known.objective < zero.objective else zero), scores

    def last_resort(self) -> Incumbent:
        """Train a machine on a few rows in almost no time; return the zero machine if the user stopped the run."""
        if self.run.stopped:
            return self.zero_machine()
        size = int(np.clip(SETTINGS.hurried_values / len(self.y), *SETTINGS.hurried_rows))
        return self.sample_machine(size, time.monotonic() + SETTINGS.hurried_seconds)[0]

    # 3. Aggregated problem

    def solve_aggregated(self, clusters: Clusters, incumbent: Incumbent | None, accuracy: Accuracy) -> Solution:
        kernels = self.kernels
        left_out = (clusters.counts > 1) & (clusters.homes == NO_LOSS) & self.settings.separate
        self._homes, self._shared = clusters.homes.copy(), clusters.counts > 1
        self._width_at = None
        try:
            kernels.update(clusters.labels(), clusters.counts, left_out, accuracy.deadline)
        except OutOfTime:
            assert incumbent is not None
            return Solution(incumbent.point, -np.inf, out_of_time=True)
        dual = kernels.dual()
        best = np.inf if incumbent is None else incumbent.objective
        point, alpha, interrupted = self._solved(dual, best, accuracy)
        self._bound = max(self._bound, float(dual.edge @ alpha) - 0.5 * point.square)
        square_error = self.values.square_error(point) if point.exact else kernels.error(alpha)
        lower_bound = self.values.proven(point, square_error)
        # A left-out cluster whose rows all have a loss does not split, but it must be included.
        to_split = None if self._settled(point) else self._violators(point)
        return Solution(point, lower_bound, to_split=to_split, interrupted=interrupted)

    def _solved(self, dual: KernelDual, best: float, accuracy: Accuracy) -> tuple[KernelPoint, Float, bool]:
        """Solve the aggregated problem, in float64 once the gap of ``best`` or of the point is small.

        Returns the point, its aggregated dual, and whether the user stopped the solver.
        """
        alpha = dual.start(self.kernels.collect(np.abs(self._coef)))
        self._go_to(alpha)
        tol = self.settings.tol
        relative = self._relative(best, accuracy)
        last = np.inf
        for _ in range(SETTINGS.refinements):
            alpha, interrupted = self._solved_dual(dual, alpha, Accuracy(relative, accuracy.deadline))
            self._go_to(alpha)
            point = self._solution(dual)
            done = self._settled(point)
            gain = float(dual.edge @ alpha)
            far = self._gap(point, gain, best) > SETTINGS.certify_from * max(tol, SETTINGS.least_tolerance)
            late = time.monotonic() > accuracy.deadline
            if (late or not done) and far and not interrupted:
                break
            if not self._scored_exactly:
                self._scores = self.values.recomputed(point).scores
                point = self._solution(dual)
            point = replace(point, exact=True)
            gap = self._gap(point, gain, best)
            hidden = self.values.rounding(point) + 0.5 * self.values.square_error(point)
            self._hidden_gap = hidden / max(self.values.value(point), TINY)
            enough = gap <= max(tol - self._hidden_gap, SETTINGS.below_hidden * self._hidden_gap)
            small_gain = gap > SETTINGS.worthwhile * last
            if not done or enough or small_gain or interrupted or time.monotonic() > accuracy.deadline:
                break
            # Only digits are missing, so solve again from exact scores.
            relative = max(SETTINGS.solver_share * max(tol, self._hidden_gap), DUAL.closed_gap)
            last = gap
        if done and not interrupted and time.monotonic() < accuracy.deadline:
            point = self._to_the_last_digit(point)
        return point, alpha, interrupted

    def _to_the_last_digit(self, point: KernelPoint) -> KernelPoint:
        """Refine a point in long double, if only rounding keeps its gap open and that is affordable."""
        values, tol = self.values, self.settings.tol
        if not point.exact:
            return point
        reached = values.reached(point)
        closed = reached - values.proven(point, values.square_error(point)) <= tol * reached
        if closed or self._precise is None:
            return point
        found = refined(values, self._precise, point, tol)
        return found if values.reached(found) <= reached else point

    def _solved_dual(self, dual: KernelDual, alpha: Float, accuracy: Accuracy) -> tuple[Float, bool]:
        """Solve the aggregated dual; also return whether the user stopped the solver."""
        try:
            alpha = self.settings.solver(dual, alpha, self.kernels.means(self._scores), accuracy)
            return finish(dual, alpha, accuracy), False
        except Interrupted as stop:
            return dual.start(stop.alpha), True
        except KeyboardInterrupt:
            return dual.start(alpha), True

    def _relative(self, best: float, accuracy: Accuracy) -> float:
        """Choose the accuracy of the aggregated solution, which may be rough far from the original optimum."""
        if accuracy.relative == 0:
            shares = SETTINGS.stalled_share * self.settings.tol, SETTINGS.solver_share * self._hidden_gap
            return max(*shares, DUAL.closed_gap)
        if not self._shared.any():
            return accuracy.relative
        gap = max(0.0, (best - self._bound) / max(best, TINY)) if np.isfinite(best) else 1.0
        return max(accuracy.relative, min(SETTINGS.rough_gap, SETTINGS.rough_share * gap))

    def _gap(self, point: KernelPoint, gain: float, best: float) -> float:
        """Return the relative gap, given a point and the linear term of its dual."""
        reached = min(best, self._charge(point) * self.values.value(point))
        return (reached - gain + 0.5 * point.square) / max(reached, TINY)

    def _go_to(self, alpha: Float) -> None:
        """Update the coefficients and scores of all rows to an aggregated dual, evaluating only changes."""
        coef = self.kernels.spread(alpha)
        before = np.zeros_like(coef) if self._scored_exactly else self._coef
        added = self.kernels.scores_of_change(before, coef)
        self._scores = added if self._scored_exactly else self._scores + added
        self._coef = coef

    @property
    def _scored_exactly(self) -> bool:
        """Whether scores are products with the whole kernel matrix in float64."""
        return self.rows.whole is not None and self.kernels.all_alone

    def _solution(self, dual: KernelDual) -> KernelPoint:
        """Return the current point; the intercept of the aggregated problem determines its regions."""
        point = self.values.point(self._coef, self._scores)
        if self.kernels.all_alone:
            return point
        b = best_intercept(self.kernels.means(self._scores), dual.y, dual.box, dual.edge)
        return replace(point, region_intercept=b)

    # 4. Optimality condition

    def _charge(self, point: KernelPoint) -> float:
        """Return a factor on the objective that keeps the gap of an infeasible point above the tolerance."""
        return 1.0 if point.feasible else 1.0 + 2.0 * self.settings.tol

    def objective(self, point: KernelPoint) -> float:
        """Return the value by which the run compares points."""
        return self._charge(point) * self.values.value(point) + self.values.rounding(point)

    def penalty(self, point: KernelPoint) -> float:
        return 0.5 * self._charge(point) * point.square + self.values.rounding(point)

    def evaluate(self, chunk: Chunk, trial: Trial) -> Evaluation:
        here = slice(chunk.start, chunk.stop)
        edge = self.edge[here]
        slacks = [edge - chunk.y * (point.scores[here] + point.intercept) for point in trial.points]
        losses = [float(chunk.weight @ np.maximum(0.0, z)) for z in slacks]
        objectives = np.array([self._charge(p) * loss for p, loss in zip(trial.points, losses, strict=True)])
        at = trial.points[0]
        z = edge - chunk.y * (at.scores[here] + at.region_intercept)
        return Evaluation(objectives, _regions(z)[None], np.abs(z) <= self._width(at))

    def _width(self, point: KernelPoint) -> float:
        """Return the distance from the margin within which violating rows become single."""
        if self._width_at is None or self._width_at[0] is not point:
            violators = np.abs(self.values.region_slacks(point)[self._violators(point)])
            room = self.kernels.room(self.settings.separate)
            width = np.inf if len(violators) <= room else float(np.partition(violators, room)[room])
            self._width_at = point, width if room else -1.0
        return self._width_at[1]

    def _violators(self, point: KernelPoint) -> Int:
        """Return the rows of shared clusters that lie outside the region expected of their cluster."""
        region, labels = _regions(self.values.region_slacks(point)), self.kernels.labels
        return np.flatnonzero(self._shared[labels] & (region >= 0) & (region != self._homes[labels]))

    def _settled(self, point: KernelPoint) -> bool:
        """Return whether no cluster has to be split at this point."""
        if self.settings.separate:
            return len(self._violators(point)) == 0
        region, labels = _regions(self.values.region_slacks(point)), self.kernels.labels
        lossless, losing = (np.bincount(labels[region == k], minlength=len(self._shared)) > 0 for k in (NO_LOSS, LOSS))
        return not (self._shared & lossless & losing).any()

    def split_trial(self, solution: Solution, incumbent: Incumbent | None, clusters: Clusters) -> Trial | None:
        """For a solution worse than the incumbent, try the best point between them if it has enough violators."""
        end: KernelPoint = solution.point
        if not self.settings.separate or incumbent is None or self.objective(end) <= incumbent.objective:
            return None
        points = [self._between(incumbent.point, end, step) for step in SETTINGS.segment_steps]
        best = min(points, key=self.objective)
        enough = SETTINGS.enough_violators * len(self._violators(end))
        return Trial([best]) if len(self._violators(best)) >= enough else None

    def _between(self, origin: KernelPoint, end: KernelPoint, step: float) -> KernelPoint:
        coef = (1 - step) * origin.coef + step * end.coef
        scores = (1 - step) * origin.scores + step * end.scores
        return self.values.point(coef, scores, feasible=origin.feasible and end.feasible)

    # Checkpoints

    def state(self, point: KernelPoint | None) -> dict[str, NDArray[Any]]:
        assert point is not None
        numbers = np.array([self._bound, self._hidden_gap])
        own = {"kernel_coef": self._coef, "kernel_scores": self._scores, "kernel_numbers": numbers}
        return {**point.arrays("point_"), **self.kernels.arrays(), **own}

    def resume(self, arrays: Mapping[str, NDArray[Any]]) -> KernelPoint:
        n = len(self.y)
        self._bound, self._hidden_gap = saved_array(arrays, "kernel_numbers", np.float64, 2).tolist()
        self._coef, scores = (saved_array(arrays, f"kernel_{name}", np.float64, n) for name in ("coef", "scores"))
        self.kernels.restore(arrays, self._coef)
        self._scores = self.values.verified(self.values.point(self._coef, scores)).scores
        point = self.values.restored(arrays, "point_", lambda: self._precise)
        self._width_at = point, -1.0  # evaluated once more, without clusters to split
        return point

    # For plots

    def distances(self, clusters: Clusters, point: KernelPoint) -> Float:
        """Return the distance of each cluster's mean score from its margin."""
        weight, signed = clusters.sums.T
        labels, n = clusters.labels(), clusters.n_clusters
        scores = np.bincount(labels, weights=self.box * point.scores, minlength=n)
        edges = np.bincount(labels, weights=self.box * self.edge, minlength=n)
        total = np.where(weight > 0, weight, 1.0)
        return np.abs(edges / total - signed / total * (scores / total + point.intercept))


def _regions(slacks: Float) -> NDArray[np.int8]:
    """Return the region of each row; -1 on the margin, which belongs to both."""
    return np.where(slacks == 0, -1, slacks > 0).astype(np.int8)
