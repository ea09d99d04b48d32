"""Solvers of the dual of a weighted kernel SVM: compiled SMO, and libsvm for small problems or on request.

They solve the aggregated problems of the paper's appendix B. A solver continues from a feasible point and returns a
feasible point; the caller computes the bound from the kernel itself.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as LibSVC

from aidlearn.engine.problem import Accuracy
from aidlearn.kernel.dual import SETTINGS as DUAL
from aidlearn.kernel.dual import SMALL, KernelDual, polish, solve_by_factor
from aidlearn.kernel.functions import TINY
from aidlearn.linear.aggregated.adapters import step_limit, within
from aidlearn.numerics import Float


@dataclass(frozen=True)
class SolverSettings:
    """Limits on steps, and the choice of the first solver."""

    few_steps: int = 5000
    """Steps on a small problem before the interior-point method takes over, which costs about as much."""
    few_per_row: int = 30
    """Additional steps per row before an interior-point method is tried (``dual.solve_by_factor``)."""
    progress: float = 0.8
    """Fraction to which steps must reduce the gap, in units of the dual's value, to make progress."""
    patience_part: int = 3
    """Fraction of its steps (1/3) that SMO takes without progress before it stops; a dual that grows evenly makes
    progress in a quarter of them."""
    hopeless: float = 0.9
    """Guess. Gap above which SMO may stop early on a large problem, after a quarter of its steps without progress."""
    steps_at_once: int = 200
    """Guess. Minimum steps between two computations of the gap."""
    libsvm_tolerances: tuple[float, ...] = (1e-3, 1e-5, 1e-7, 1e-9)
    """Tolerances of libsvm's optimality conditions; libsvm has no warm start, so each costs a whole solve."""
    libsvm_cache: int = 500
    """Size of libsvm's cache in megabytes."""
    first_steps: int = 200
    """Guess. Steps of libsvm's first run under a time limit; their time determines how many follow."""
    values_at_once: float = 2e7
    """Kernel values used between two checks of the clock under a time limit: a few tenths of a second if they must be
    computed."""
    begin_by_libsvm: int = 2000
    """Guess. Number of members below which libsvm finds a first solution, which usually avoids compiled code."""
    begin_by_factor: int = 256
    """Maximum members for which an interior-point method precedes SMO, whose first compilation takes seconds."""
    begin_steps: int = 30
    """Guess. Steps of libsvm per row after which SMO takes over."""
    poor_gap: float = 0.1
    """Guess. Relative gap above which a warm start is no better than none."""


SETTINGS = SolverSettings()

DualSolver = Callable[[KernelDual, Float, Float, Accuracy], Float]
"""A function of a dual, a feasible point, its scores and an accuracy that returns a point with that relative gap."""


class Interrupted(KeyboardInterrupt):
    """The user stopped a solver; ``alpha`` is the feasible point reached so far."""

    def __init__(self, alpha: Float) -> None:
        super().__init__("The solver was interrupted.")
        self.alpha = alpha


def solve_smo(dual: KernelDual, alpha: Float, scores: Float, accuracy: Accuracy) -> Float:
    """Solve by SMO. Errors of float32 columns affect only changes, so a solution from exact scores is exact."""
    from aidlearn.kernel.smo import WithColumns, WithMatrix

    solver = WithMatrix(dual, alpha, scores) if dual.columns is None else WithColumns(dual, alpha, scores)
    n, total, limit = len(alpha), 0, _step_limit(len(alpha))
    few = SETTINGS.few_steps + SETTINGS.few_per_row * n
    progress = StepProgress(few // 2, 0.0) if n <= SMALL else StepProgress(limit // 4, SETTINGS.hopeless)
    # A small problem goes to the interior-point method after SMO (``dual.finish``).
    may_factor = dual.matrix is not None and SMALL < n <= DUAL.most_factored
    most = limit if math.isinf(accuracy.deadline) else int(SETTINGS.values_at_once / max(n, 1)) + 1
    try:
        while total < limit and time.monotonic() < accuracy.deadline:
            gap = solver.gap()
            if gap <= accuracy.relative or progress.stalled(gap, total):
                break
            if may_factor and total > few:
                may_factor, found = False, solve_by_factor(dual, accuracy.deadline)
                if found is not None and dual.gap(found := polish(dual, found)) < gap:
                    return found
            done = solver.round(total, most)
            if done == 0:
                break
            total += max(done, SETTINGS.steps_at_once // 2)  # short rounds count too, so that the loop ends
    except KeyboardInterrupt:
        raise Interrupted(solver.alpha()) from None
    return solver.alpha()


def solve_libsvm(dual: KernelDual, alpha: Float, scores: Float, accuracy: Accuracy) -> Float:
    """Solve by scikit-learn's libsvm, with successively smaller tolerances of its optimality conditions."""
    best, gap = dual.start(alpha), dual.gap(alpha, scores)
    for tolerance in SETTINGS.libsvm_tolerances:
        if gap <= accuracy.relative or time.monotonic() >= accuracy.deadline:
            break
        try:
            found = _by_libsvm(dual, tolerance, deadline=accuracy.deadline)
        except KeyboardInterrupt:
            raise Interrupted(best) from None
        found = solve_by_factor(dual, accuracy.deadline) if found is None else polish(dual, found)
        if found is None:
            break
        now = dual.gap(found)
        if now >= gap and tolerance < SETTINGS.libsvm_tolerances[0]:
            break  # libsvm ran out of steps or of digits
        best, gap = (found, now) if now < gap else (best, gap)
    return best


def solve_auto(dual: KernelDual, alpha: Float, scores: Float, accuracy: Accuracy) -> Float:
    """Try methods without compiled code on a small problem, where they usually suffice; otherwise continue by SMO."""
    if dual.matrix is None:
        return solve_smo(dual, alpha, scores, accuracy)
    n, classifies = len(alpha), bool((dual.edge == 1.0).all())
    try:
        if classifies and n < SETTINGS.begin_by_libsvm and dual.gap(alpha, scores) > SETTINGS.poor_gap:
            tolerance, steps = SETTINGS.libsvm_tolerances[0], SETTINGS.begin_steps * n
            found = _by_libsvm(dual, tolerance, steps, accuracy.deadline)
            if found is not None:
                alpha = polish(dual, found)
                scores = dual.scores(alpha)
        if n <= SETTINGS.begin_by_factor and dual.gap(alpha, scores) > accuracy.relative:
            found = solve_by_factor(dual, accuracy.deadline)
            if found is not None and dual.gap(found := polish(dual, found)) < dual.gap(alpha, scores):
                alpha, scores = found, dual.scores(found)
    except KeyboardInterrupt:
        raise Interrupted(dual.start(alpha)) from None
    if dual.gap(alpha, scores) <= accuracy.relative:
        return dual.start(alpha)
    return solve_smo(dual, alpha, scores, accuracy)


SOLVERS: dict[str, DualSolver] = {"auto": solve_auto, "smo": solve_smo, "libsvm": solve_libsvm}


def _by_libsvm(
    dual: KernelDual, tolerance: float, steps: int | None = None, deadline: float = math.inf
) -> Float | None:
    """Return a solution within a tolerance of the optimality conditions; None if libsvm's numbers are not finite."""
    y, box = dual.y, dual.box
    used = np.flatnonzero(box > 0)
    if len(np.unique(y[used])) < 2:
        return np.zeros_like(box)
    square = dual.square()
    kernel = np.asarray(square if len(used) == len(box) else square[np.ix_(used, used)], dtype=np.float64, order="C")
    limit = _step_limit(len(used)) if steps is None else steps

    def run(most: int) -> tuple[LibSVC | None, int]:
        model = LibSVC(kernel="precomputed", C=1.0, tol=tolerance, cache_size=SETTINGS.libsvm_cache, max_iter=most)
        # The input is known to be valid.
        with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                model.fit(kernel, y[used], sample_weight=box[used])
            except ValueError:  # a kernel without curvature: coefficients or intercept are not finite
                return None, 0
        return model, int(model.n_iter_.max())

    model = within(deadline, run, SETTINGS.first_steps, limit).found
    if model is None:
        return None
    found = np.zeros_like(box)
    found[used[model.support_]] = np.abs(model.dual_coef_[0])
    return dual.start(found)


def _step_limit(n: int) -> int:
    """Return the step limit; on a small problem an interior-point method, at about n^3 / 500 steps, takes over."""
    if n > SMALL:
        return step_limit(n)
    return SETTINGS.few_steps + SETTINGS.few_per_row * n + n**3 // 1000


class StepProgress:
    """Test of whether steps close the gap, which rounding or too little curvature of a kernel can prevent."""

    def __init__(self, patience: int, hopeless: float) -> None:
        self.patience, self.hopeless = patience, hopeless
        self.least, self.at = math.inf, 0

    def stalled(self, gap: float, total: int) -> bool:
        """Return whether too many of ``total`` steps made no progress and the relative gap is too large."""
        # With a large C the objective stays far above the optimum for a long time, and the relative gap close to 1; the
        # gap over the dual's value falls whenever the dual's value grows.
        left = gap / max(1.0 - gap, TINY)
        if left <= SETTINGS.progress * self.least:
            self.least, self.at = left, total
        return gap > self.hopeless and total - self.at > max(self.patience, total // SETTINGS.patience_part)
