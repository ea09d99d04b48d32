"""Solvers of the dual of a weighted kernel SVM: compiled SMO, and libsvm for small problems or where it is asked for.

The aggregated problems of the paper's appendix B come here. A solver goes on from a feasible point and returns a
feasible point; what it proves is computed by the caller from the kernel itself.
"""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as LibSVC

from aidlearn.engine.problem import Accuracy
from aidlearn.kernel.dual import SMALL, ColumnsOnDemand, KernelDual
from aidlearn.kernel.functions import TINY
from aidlearn.kernel.polish import MOST_FACTORED, polish, solve_by_factor
from aidlearn.linear.aggregated.borrowed import within
from aidlearn.numerics import Float

if TYPE_CHECKING:  # loaded where it is called, see aidlearn.kernel.rows
    from aidlearn.kernel.smo import Point

STEPS = 100_000
"""Steps of SMO or libsvm, and STEPS_PER_ROW more for each row: where rounding decides they may go on forever."""
STEPS_PER_ROW = 400
FEW_STEPS = 5000
"""The same of a small problem, where an interior point takes over: no more than that costs."""
FEW_PER_ROW = 30
"""For each row, before an interior point on a factor of the matrix is tried (:mod:`aidlearn.kernel.polish`)."""
PROGRESS = 0.8
"""Part of the gap, in units of the dual's value, that a patience of steps must leave less than."""
PATIENCE_PART = 3
"""Steps without progress, as part of those before: where the dual grows evenly, progress takes a fourth of them."""
HOPELESS = 0.9
"""Gap from which on the steps of a large problem may end early: a fourth of them without progress."""
STEPS_AT_ONCE = 200
"""Fewest steps between two looks at the gap."""
MOST_STEPS_AT_ONCE = 5000
"""Most steps between two looks where columns are computed: each may take as long as a look."""
PART_STEPS = 4
"""Steps per row that a part of the rows is iterated alone."""
PART_SPREAD = 0.1
"""Part of the spread of the gradient at which such an iteration ends."""
PART_ROWS = 0.7
"""A part must be smaller than this share of the rows to be worth a copy."""
PART_MARGIN = 0.5
"""Part of the spread by which the gradient of a row at its bound must be beyond that of the others to be left out."""
LEAST_SPREAD = 1e-3
"""The spread, at least, that this margin is taken from: near the optimum a row could come back at once."""
LIBSVM_TOLERANCES = (1e-3, 1e-5, 1e-7, 1e-9)
"""On libsvm's optimality conditions; it cannot go on from a solution, so each costs a whole one."""
LIBSVM_CACHE = 500
"""Megabytes."""
FIRST_STEPS = 200
"""Of libsvm, where a time limit decides how many more there will be."""
VALUES_AT_ONCE = 2e6
"""Of kernels that the first of these steps compute, two columns each."""
SECONDS_AT_ONCE = 0.1
"""Between two looks at the clock, about, where there is a time limit."""
BEGIN_BY_LIBSVM = 2000
"""Up to this size libsvm makes a first solution where kernels need not be compiled."""
BEGIN_BY_FACTOR = 256
"""Up to this size an interior point is tried before SMO, which takes seconds to be compiled once."""
BEGIN_STEPS = 30
"""Steps per row after which it is left to SMO to go on."""
POOR = 0.1
"""Gap of a point that is no better start than none."""
COLUMNS_AT_LEAST = 64
"""Columns of the kernel matrix that are always kept."""

DualSolver = Callable[[KernelDual, Float, Float, Accuracy], Float]
"""From a feasible point with its scores to one whose duality gap is small enough, relative to the primal value."""


class Interrupted(KeyboardInterrupt):
    """The user has stopped a solver, at a feasible point that is better than nothing."""

    def __init__(self, alpha: Float) -> None:
        super().__init__("interrupted")
        self.alpha = alpha


def solve_smo(dual: KernelDual, alpha: Float, scores: Float, accuracy: Accuracy) -> Float:
    """SMO. Errors of float32 columns enter through the changes only: from exact scores on to an exact solution."""
    solver = _SMO.of(dual, alpha, scores)
    n, total, limit = len(alpha), 0, _step_limit(len(alpha))
    few = FEW_STEPS + FEW_PER_ROW * n
    progress = _Progress(few // 2, 0.0) if n <= SMALL else _Progress(limit // 4, HOPELESS)
    # A small problem goes to the interior point when this has ended (``polish.finish``).
    may_factor = dual.matrix is not None and SMALL < n <= MOST_FACTORED
    hurried = math.isfinite(accuracy.deadline)
    most = limit
    if hurried:
        most = STEPS_AT_ONCE if dual.columns is None else min(STEPS_AT_ONCE, int(VALUES_AT_ONCE / n) + 1)
    try:
        while total < limit and time.monotonic() < accuracy.deadline:
            gap = solver.gap()
            if gap <= accuracy.relative or progress.stalled(gap, total):
                break
            if may_factor and total > few:
                may_factor, found = False, solve_by_factor(dual, accuracy.deadline)
                if found is not None and dual.gap(found := polish(dual, found)) < gap:
                    return found
            began = time.monotonic()
            done = solver.round(total, most)
            if done == 0:
                break
            if hurried:
                faster = SECONDS_AT_ONCE / max(time.monotonic() - began, 1e-4)
                most = min(limit, max(1, int(most * min(4.0, faster))))
            total += max(done, STEPS_AT_ONCE // 2)  # rounds of a few steps have an end too
    except KeyboardInterrupt:
        raise Interrupted(solver.alpha()) from None
    return solver.alpha()


def solve_libsvm(dual: KernelDual, alpha: Float, scores: Float, accuracy: Accuracy) -> Float:
    """The same by scikit-learn's libsvm, at ever smaller tolerances on its optimality conditions."""
    best, gap = dual.start(alpha), dual.gap(alpha, scores)
    for tolerance in LIBSVM_TOLERANCES:
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
        if now >= gap and tolerance < LIBSVM_TOLERANCES[0]:
            break  # it was out of steps, or of digits
        best, gap = (found, now) if now < gap else (best, gap)
    return best


def solve_auto(dual: KernelDual, alpha: Float, scores: Float, accuracy: Accuracy) -> Float:
    """What needs no compiled code begins with a small problem, and that is mostly enough; SMO goes on."""
    if dual.matrix is None:
        return solve_smo(dual, alpha, scores, accuracy)
    n, classifies = len(alpha), bool((dual.edge == 1.0).all())
    try:
        if classifies and n < BEGIN_BY_LIBSVM and dual.gap(alpha, scores) > POOR:
            found = _by_libsvm(dual, LIBSVM_TOLERANCES[0], BEGIN_STEPS * n, accuracy.deadline)
            if found is not None:
                alpha = polish(dual, found)
                scores = dual.scores(alpha)
        if n <= BEGIN_BY_FACTOR and dual.gap(alpha, scores) > accuracy.relative:
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
    """A solution to a tolerance on the optimality conditions, or None if it is not one of finite numbers."""
    y, box = dual.y, dual.box
    used = np.flatnonzero(box > 0)
    if len(np.unique(y[used])) < 2:
        return np.zeros_like(box)
    square = dual.square()
    kernel = np.asarray(square if len(used) == len(box) else square[np.ix_(used, used)], dtype=np.float64, order="C")
    limit = _step_limit(len(used)) if steps is None else steps

    def run(most: int) -> tuple[LibSVC | None, int]:
        model = LibSVC(kernel="precomputed", C=1.0, tol=tolerance, cache_size=LIBSVM_CACHE, max_iter=most)
        # What is handed over is known to be sound.
        with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                model.fit(kernel, y[used], sample_weight=box[used])
            except ValueError:  # coefficients or intercept that are not finite: kernels without any curvature
                return None, 0
        return model, int(model.n_iter_.max())

    model = within(deadline, run, FIRST_STEPS, limit).found
    if model is None:
        return None
    found = np.zeros_like(box)
    found[used[model.support_]] = np.abs(model.dual_coef_[0])
    return dual.start(found)


def _step_limit(n: int) -> int:
    """Beyond it an interior point takes over if the problem is small: n^3 / 1000 steps cost about half as much."""
    return STEPS + STEPS_PER_ROW * n if n > SMALL else FEW_STEPS + FEW_PER_ROW * n + n**3 // 1000


class _Progress:
    """Whether steps lead anywhere: they do not where rounding decides, nor where a kernel has too little curvature."""

    def __init__(self, patience: int, hopeless: float) -> None:
        self.patience, self.hopeless = patience, hopeless
        self.least, self.at = math.inf, 0

    def stalled(self, gap: float, total: int) -> bool:
        """Whether a relative gap after so many steps is too large, after too many of them."""
        # Where losses are dear the objective is far above the optimum for long, and the relative gap close to 1; its
        # ratio to the dual's value falls whenever that grows.
        left = gap / max(1.0 - gap, TINY)
        if left <= PROGRESS * self.least:
            self.least, self.at = left, total
        return gap > self.hopeless and total - self.at > max(self.patience, total // PATIENCE_PART)


class _SMO(ABC):
    """A point of SMO, and the gap it has reached."""

    def __init__(self, dual: KernelDual, alpha: Float, scores: Float, diagonal: Float) -> None:
        from aidlearn.kernel.smo import Point

        y, signed = dual.y, dual.y * dual.box
        self.dual = dual
        self.point = Point(
            y * alpha, y * dual.edge - scores, np.minimum(0.0, signed), np.maximum(0.0, signed), diagonal
        )

    @staticmethod
    def of(dual: KernelDual, alpha: Float, scores: Float) -> _SMO:
        if dual.columns is not None:
            return _WithColumns(dual, dual.columns, alpha, scores)
        return _WithMatrix(dual, alpha, scores)

    def alpha(self) -> Float:
        return np.clip(self.dual.y * self.point.beta, 0.0, self.dual.box)

    def gap(self) -> float:
        y = self.dual.y
        return self.dual.gap(y * self.point.beta, y * self.dual.edge - self.point.gradient)

    @abstractmethod
    def round(self, total: int, most: int) -> int:
        """Some steps, at most so many and after so many before; returns their number."""


class _WithMatrix(_SMO):
    """All columns at hand. Once few rows can still change, these are copied out and iterated alone for a while."""

    def __init__(self, dual: KernelDual, alpha: Float, scores: Float) -> None:
        super().__init__(dual, alpha, scores, _diagonal(dual.square()))

    def round(self, total: int, most: int) -> int:
        from aidlearn.kernel.smo import Point, spread, submatrix, subtract_rows

        K, n, point = self.dual.matrix, len(self.point.beta), self.point
        assert K is not None
        beta, gradient, lower, upper, _ = point
        top, bottom = spread(point)
        rows = np.empty(0, dtype=np.int64)
        if total > n and top > bottom:
            margin = PART_MARGIN * max(top - bottom, LEAST_SPREAD)
            rows = np.flatnonzero(
                ((beta > lower) & (beta < upper))
                | ((beta <= lower) & (bottom - margin < gradient))
                | ((beta >= upper) & (top + margin > gradient))
            )
        if not 0 < len(rows) < PART_ROWS * n:
            return _steps(K, point, min(max(n // 4, STEPS_AT_ONCE), most), 0.0)
        square = submatrix(K, rows)
        part = Point(beta[rows], gradient[rows], lower[rows], upper[rows], _diagonal(square))
        budget = min(max(PART_STEPS * len(rows), STEPS_AT_ONCE), most)
        done = _steps(square, part, budget, PART_SPREAD * (top - bottom))
        change = part.beta - beta[rows]
        beta[rows] = part.beta
        subtract_rows(K, rows, change, gradient)
        return done


def _steps(K: NDArray[Any], point: Point, budget: int, target: float) -> int:
    from aidlearn.kernel.smo import Columns, OnDemand, steps

    return int(steps(point, Columns.whole(K), OnDemand.nothing(K.dtype), 0, budget, target))


def _diagonal(K: NDArray[Any]) -> Float:
    return K.diagonal().astype(np.float64)


class _WithColumns(_SMO):
    """Columns computed when needed, the most recent ones kept; those of clusters always."""

    def __init__(self, dual: KernelDual, given: ColumnsOnDemand, alpha: Float, scores: Float) -> None:
        from aidlearn.kernel.smo import Columns, OnDemand

        rows, singles = given.rows, given.singles
        at_clusters = np.ascontiguousarray(given.at_clusters, dtype=rows.dtype)
        n, q, g = len(alpha), len(singles), at_clusters.shape[1]
        super().__init__(dual, alpha, scores, np.concatenate([rows.lengths[singles] ** 2, at_clusters[q:].diagonal()]))
        slots = min(n, max(COLUMNS_AT_LEAST, given.n_columns) + g)
        columns = Columns(
            np.empty((slots, n), dtype=rows.dtype), np.full(n, -1), np.full(slots, -1), np.arange(slots) - slots
        )
        columns.values[:g] = at_clusters.T
        columns.slot_of[q:], columns.row_of[:g] = np.arange(g), np.arange(q, n)
        columns.last_used[:g] = np.iinfo(np.int64).max
        self.columns = columns
        self.on_demand = OnDemand(rows.function, rows.take(singles), at_clusters)

    def round(self, total: int, most: int) -> int:
        from aidlearn.kernel.smo import steps

        budget = min(len(self.point.beta) // 4 + 1, MOST_STEPS_AT_ONCE, most)
        return int(steps(self.point, self.columns, self.on_demand, 2 * total, budget, 0.0))
