"""The dual of a weighted kernel SVM: solved by compiled SMO, or by libsvm where numba is not installed.

A solver returns a feasible point; what it proves is computed by the caller from the kernel itself.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as LibSVC

from aidlearn.data.source import Float
from aidlearn.engine.problem import Accuracy
from aidlearn.kernels import rows as rows_module
from aidlearn.kernels.rows import CompiledRows
from aidlearn.solvers.aggregated import solve_by_interior_point
from aidlearn.solvers.certificate import balance
from aidlearn.solvers.rows import EPS, HingeRows

STEPS = 100_000
"""Steps of SMO or libsvm, and STEPS_PER_ROW more for each row: where rounding decides they may go on forever."""
STEPS_PER_ROW = 400
STEPS_AT_ONCE = 200
"""Fewest steps between two looks at the gap."""
SMALL = 1000
"""Up to this size the last digits of a solution cost next to nothing."""
POLISH_ROUNDS = 5
BEGIN_BY_LIBSVM = 2000
"""Up to this size libsvm makes a first solution where kernels need not be compiled."""
BEGIN_STEPS = 30
"""Steps per row after which it is left to SMO to go on."""
POOR = 0.1
"""Gap of a point that is no better start than none."""
COLUMNS_AT_LEAST = 64
"""Columns of the kernel matrix that are always kept."""


class Interrupted(KeyboardInterrupt):
    """The user has stopped a solver, at a feasible point that is better than nothing."""

    def __init__(self, alpha: Float) -> None:
        super().__init__("interrupted")
        self.alpha = alpha


@dataclass(frozen=True)
class KernelDual:
    """Labels and boxes of the rows, and the kernel matrix or what computes its columns.

    The last ``fixed.shape[1]`` rows are clusters, whose columns are known; the others are rows of ``rows``.
    """

    y: Float
    box: Float
    matrix: NDArray[Any] | None = None
    rows: CompiledRows | None = None
    chosen: NDArray[np.int64] | None = None
    fixed: NDArray[Any] | None = None
    n_columns: int = 0
    """Columns that may be kept at once where there is no matrix."""

    def square(self) -> Float:
        """The kernel matrix in float64."""
        assert self.matrix is not None
        return self.matrix[:, : len(self.y)].astype(np.float64, copy=False)

    def scores(self, alpha: Float) -> Float:
        """Of all rows, where the matrix is at hand."""
        return np.asarray(self.square() @ (self.y * alpha))

    def start(self, alpha: Float) -> Float:
        """The nearest simple feasible point (a feasible one is left as it is)."""
        inside = np.clip(alpha, 0.0, self.box)
        return inside if abs(self.y @ inside) <= 4 * EPS * inside.sum() else balance(self.y, inside)


def best_intercept(scores: Float, y: Float, box: Float) -> float:
    """The b that minimises ``sum box * max(0, 1 - y (scores + b))``."""
    at = y - scores
    order = np.argsort(at, kind="stable")
    slope = np.cumsum(box[order]) - box[y > 0].sum()
    k = int(np.searchsorted(slope, 0.0, side="left"))
    k = min(k, len(order) - 1)
    ties = slope[k] == 0 and k + 1 < len(order)
    return float(0.5 * (at[order[k]] + at[order[k + 1]]) if ties else at[order[k]])


def solve_smo(dual: KernelDual, alpha: Float, scores: Float, relative: float, deadline: float) -> Float:
    """SMO from a feasible point with given scores until the duality gap is ``relative`` of the primal value.

    Errors of float32 columns enter through the changes only: from exact scores it goes on to an exact solution.
    """
    solver = _WithMatrix(dual, alpha, scores) if dual.matrix is not None else _WithColumns(dual, alpha, scores)
    total, limit = 0, _step_limit(len(alpha))
    try:
        while solver.gap() > relative and total < limit and time.monotonic() < deadline:
            done = solver.round(total)
            if done == 0:
                break
            total += max(done, STEPS_AT_ONCE // 2)  # rounds of a few steps have an end too
    except KeyboardInterrupt:
        raise Interrupted(solver.alpha()) from None
    return solver.alpha()


def solve_libsvm(dual: KernelDual, alpha: Float, scores: Float, relative: float, deadline: float) -> Float:
    """The same by scikit-learn's libsvm, at ever smaller tolerances on its optimality conditions."""
    best, gap = dual.start(alpha), _values(dual.y, dual.box, alpha, scores)[1]
    for tolerance in (1e-3, 1e-5, 1e-7, 1e-9):
        if gap <= relative or time.monotonic() >= deadline:
            break
        try:
            found = _by_libsvm(dual, tolerance)
        except KeyboardInterrupt:
            raise Interrupted(best) from None
        found = _by_factor(dual, dual.square(), deadline) if found is None else polish(dual, found)
        now = _gap(dual, found)
        if now >= gap and tolerance < 1e-3:
            break  # it was out of steps, or of digits
        best, gap = (found, now) if now < gap else (best, gap)
    return best


def solve_auto(dual: KernelDual, alpha: Float, scores: Float, relative: float, deadline: float) -> Float:
    """libsvm begins with a small problem, where that is mostly enough and SMO has to be loaded; SMO goes on."""
    if not rows_module.numba_installed():
        return solve_libsvm(dual, alpha, scores, relative, deadline)
    if len(alpha) < BEGIN_BY_LIBSVM and _values(dual.y, dual.box, alpha, scores)[1] > POOR:
        try:
            found = _by_libsvm(dual, 1e-3, BEGIN_STEPS * len(alpha))
        except KeyboardInterrupt:
            raise Interrupted(dual.start(alpha)) from None
        if found is not None:
            found = polish(dual, found)
            if _gap(dual, found) <= relative:
                return found
            alpha, scores = found, dual.scores(found)
    return solve_smo(dual, alpha, scores, relative, deadline)


def _by_libsvm(dual: KernelDual, tolerance: float, steps: int | None = None) -> Float | None:
    """A solution to a tolerance on the optimality conditions, or None if it is not one of finite numbers."""
    y, box = dual.y, dual.box
    used = np.flatnonzero(box > 0)
    if len(np.unique(y[used])) < 2:
        return np.zeros_like(box)
    assert dual.matrix is not None
    square = dual.matrix[:, : len(y)]
    kernel = np.asarray(square if len(used) == len(box) else square[np.ix_(used, used)], dtype=np.float64, order="C")
    limit = _step_limit(len(used)) if steps is None else steps
    model = LibSVC(kernel="precomputed", C=1.0, tol=tolerance, cache_size=500, max_iter=limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(kernel, y[used], sample_weight=box[used])
        except ValueError:  # coefficients or intercept that are not finite: kernels without any curvature
            return None
    found = np.zeros_like(box)
    found[used[model.support_]] = np.abs(model.dual_coef_[0])
    return dual.start(found)


def _step_limit(n: int) -> int:
    """Beyond it an interior point takes over if the problem is small: n^3 / 1000 steps cost about half as much."""
    return STEPS + (STEPS_PER_ROW * n if n > SMALL else n**3 // 1000)


def polish(dual: KernelDual, alpha: Float) -> Float:
    """Newton steps on the rows strictly inside their boxes, as long as they help; only of small problems."""
    if dual.matrix is None or len(alpha) > SMALL:
        return alpha
    K = dual.square()
    gap = _gap(dual, alpha, K)
    for _ in range(POLISH_ROUNDS):
        now = _newton_step(dual, K, alpha)
        now_gap = _gap(dual, now, K)
        if now_gap >= gap:
            break
        alpha, gap = now, now_gap
    return alpha


def finish(dual: KernelDual, alpha: Float, relative: float, deadline: float) -> Float:
    """The last digits of the solution of a small problem.

    Where Newton steps fail too (SMO and libsvm hardly move in an ill-conditioned kernel matrix), an interior point on
    a factor of the matrix.
    """
    alpha = polish(dual, dual.start(alpha))
    if dual.matrix is None or len(alpha) > SMALL:
        return alpha
    gap = _gap(dual, alpha)
    if gap <= relative:
        return alpha
    by_factor = _by_factor(dual, dual.square(), deadline)
    return by_factor if _gap(dual, by_factor) < gap else alpha


def _gap(dual: KernelDual, alpha: Float, K: Float | None = None) -> float:
    scores = dual.scores(alpha) if K is None else K @ (dual.y * alpha)
    return _values(dual.y, dual.box, alpha, scores)[1]


def _newton_step(dual: KernelDual, K: Float, alpha: Float) -> Float:
    """Rows at a bound stay there; the others solve ``K_ff beta_f + b = y_f - K_fB beta_B`` and ``sum beta = 0``."""
    y, box = dual.y, dual.box
    free = np.flatnonzero((alpha > 1e-9 * box) & (alpha < (1 - 1e-9) * box))
    fixed = np.where(alpha >= 0.5 * box, box, 0.0)
    fixed[free] = 0.0
    if len(free):
        system = np.ones((len(free) + 1, len(free) + 1))
        system[:-1, :-1], system[-1, -1] = K[np.ix_(free, free)], 0.0
        beta = y * fixed
        right = np.append(y[free] - K[free] @ beta, -beta.sum())
        solved = linalg.lstsq(system, right, cond=1e-13, check_finite=False, lapack_driver="gelsy")[0]
        fixed[free] = y[free] * solved[:-1]
    return dual.start(fixed)


def _by_factor(dual: KernelDual, K: Float, deadline: float) -> Float:
    """The dual of the linear machine on a pivoted Cholesky factor of the matrix."""
    largest = float(np.diag(K).max(initial=0.0))
    triangle, order, rank, _ = linalg.lapack.dpstrf(K, tol=1e-14 * largest * len(K))
    rank = max(1, int(rank))
    features = np.empty((len(K), rank))
    features[order - 1] = np.triu(triangle)[:rank].T
    A = dual.y[:, None] * np.column_stack([features, np.ones(len(K))])
    used = dual.box > 0
    ridge = np.append(np.ones(rank), 0.0)
    rows = HingeRows(A[used], np.ones(int(used.sum())), dual.box[used], np.zeros(int(used.sum())), ridge)
    alpha = np.zeros(len(K))
    alpha[used] = solve_by_interior_point(rows, None, True, Accuracy(1e-13, deadline)).dual
    return dual.start(alpha)


def _values(y: Float, box: Float, alpha: Float, scores: Float) -> tuple[float, float]:
    """Dual value, and relative duality gap."""
    square = float((y * alpha) @ scores)
    b = best_intercept(scores, y, box)
    primal = 0.5 * square + float(box @ np.maximum(0.0, 1.0 - y * (scores + b)))
    value = float(alpha.sum()) - 0.5 * square
    return value, (primal - value) / max(primal, 1e-300)


class _Solver(ABC):
    """A point of SMO, and the gap it has reached."""

    def __init__(self, dual: KernelDual, alpha: Float, scores: Float) -> None:
        self.dual = dual
        self.beta, self.F = dual.y * alpha, dual.y - scores
        self.lower, self.upper = np.minimum(0.0, dual.y * dual.box), np.maximum(0.0, dual.y * dual.box)

    def alpha(self) -> Float:
        return np.clip(self.dual.y * self.beta, 0.0, self.dual.box)

    def gap(self) -> float:
        y, box = self.dual.y, self.dual.box
        return _values(y, box, y * self.beta, y - self.F)[1]

    @abstractmethod
    def round(self, total: int) -> int:
        """Some steps, after so many before; returns their number."""


class _WithMatrix(_Solver):
    """All columns at hand. Once few rows can still change, these are copied out and iterated alone for a while."""

    def round(self, total: int) -> int:
        from aidlearn.solvers.smo import spread, submatrix, subtract_rows

        K, n = self.dual.matrix, len(self.beta)
        assert K is not None
        lower, upper, beta, F = self.lower, self.upper, self.beta, self.F
        top, bottom = spread(F, lower, upper, beta)
        rows = np.empty(0, dtype=np.int64)
        if total > n and top > bottom:
            margin = 0.5 * max(top - bottom, 1e-3)
            rows = np.flatnonzero(
                ((beta > lower) & (beta < upper))
                | ((beta <= lower) & (bottom - margin < F))
                | ((beta >= upper) & (top + margin > F))
            )
        if not 0 < len(rows) < 0.7 * n:
            return self._steps(K, lower, upper, beta, F, max(n // 4, STEPS_AT_ONCE), 0.0)
        old, part_F = beta[rows], F[rows]
        part = old.copy()
        budget, target = max(4 * len(rows), STEPS_AT_ONCE), 0.1 * (top - bottom)
        done = self._steps(submatrix(K, rows), lower[rows], upper[rows], part, part_F, budget, target)
        beta[rows] = part
        subtract_rows(K, rows, part - old, F)
        return done

    @staticmethod
    def _steps(K: Any, lower: Float, upper: Float, beta: Float, F: Float, budget: int, target: float) -> int:
        from aidlearn.solvers.smo import steps

        n = len(F)
        everything = np.arange(n)
        nothing = np.zeros((0, 1), dtype=K.dtype)
        diagonal = K.diagonal().astype(np.float64)
        return steps(
            K, everything, everything, everything.copy(), 0, nothing, np.zeros(0), 0, 1.0, 0.0, 1,
            np.zeros((0, 0), dtype=K.dtype), diagonal, lower, upper, beta, F, budget, target,
        )  # fmt: skip


class _WithColumns(_Solver):
    """Columns computed when needed, the most recent ones kept."""

    def __init__(self, dual: KernelDual, alpha: Float, scores: Float) -> None:
        super().__init__(dual, alpha, scores)
        assert dual.rows is not None
        assert dual.chosen is not None
        assert dual.fixed is not None
        rows, chosen, fixed = dual.rows, dual.chosen, np.ascontiguousarray(dual.fixed, dtype=dual.rows.dtype)
        n, q, g = len(alpha), len(chosen), fixed.shape[1]
        self.X, self.squares = rows.working[chosen], rows.squares[chosen]
        slots = min(n, max(COLUMNS_AT_LEAST, dual.n_columns) + g)
        self.cache = np.empty((slots, n), dtype=rows.dtype)
        self.slot_of, self.row_of = np.full(n, -1), np.full(slots, -1)
        self.stamp = np.arange(slots) - slots
        self.cache[:g] = fixed.T
        self.slot_of[q:], self.row_of[:g] = np.arange(g), np.arange(q, n)
        self.stamp[:g] = np.iinfo(np.int64).max
        self.fixed = fixed
        self.diagonal = np.concatenate([rows.lengths[chosen] ** 2, fixed[q:].diagonal()])

    def round(self, total: int) -> int:
        from aidlearn.solvers.smo import steps

        rows = self.dual.rows
        assert rows is not None
        n = len(self.beta)
        return steps(
            self.cache, self.slot_of, self.row_of, self.stamp, 2 * total, self.X, self.squares, rows.kind,
            *rows.constants, self.fixed, self.diagonal, self.lower, self.upper, self.beta, self.F,
            min(n // 4 + 1, 5000), 0.0,
        )  # fmt: skip
