"""The last digits of the solution of a small dual (see :mod:`aidlearn.kernel.dual`).

SMO and libsvm hardly move in an ill-conditioned kernel matrix: Newton steps on the members strictly inside their
boxes go on from there, and where they fail too, an interior point on a factor of the matrix.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from aidlearn.engine.problem import Accuracy
from aidlearn.kernel.dual import SMALL, KernelDual
from aidlearn.kernel.matrix import pivoted_cholesky
from aidlearn.linear.aggregated.hinge_rows import HingeRows
from aidlearn.linear.aggregated.solvers import solve_by_interior_point
from aidlearn.numerics import Float, Int

NEWTON_STEPS = 5
CLOSED = 1e-13
"""Relative gap that is rounding."""
AT_BOUND = 1e-9
"""Part of its box within which a variable counts as at a bound."""
NEWTON_RANK = 1e-13
"""Relative size from which on a direction of the Newton system counts: below it is rounding."""
FACTOR_RANK = 1e-14
"""Part of the largest diagonal entry, for each row, that a direction must have to enter the factor."""
MOST_FACTORED = 3000
"""Members whose matrix is factored: a second, and 72 MB for each copy."""
MOST_WORK = 2e9
"""Members times the square of the rank: about four seconds of an interior point."""
FACTOR_ACCURACY = 1e-13
"""Relative gap that is asked of the interior point: all digits that it can have."""


def polish(dual: KernelDual, alpha: Float) -> Float:
    """Newton steps, as long as they help; only where few members are strictly inside their boxes."""
    if dual.matrix is None or len(alpha) > MOST_FACTORED or len(_inside(dual, alpha)) > SMALL:
        return alpha
    K = dual.square_float64()
    gap = dual.gap(alpha)
    for _ in range(NEWTON_STEPS):
        if gap <= CLOSED:
            break
        now = _newton_step(dual, K, alpha)
        now_gap = dual.gap(now)
        if now_gap >= gap:
            break
        alpha, gap = now, now_gap
    return alpha


def finish(dual: KernelDual, alpha: Float, accuracy: Accuracy) -> Float:
    """The best that Newton steps and, where they do not reach the accuracy, the factor make of a solution."""
    alpha = dual.start(alpha)
    if dual.matrix is None or len(alpha) > SMALL or dual.gap(alpha) <= accuracy.relative:
        return alpha
    alpha = polish(dual, alpha)
    gap = dual.gap(alpha)
    if gap <= accuracy.relative:
        return alpha
    found = solve_by_factor(dual, accuracy.deadline)
    if found is not None and dual.gap(found) > accuracy.relative:
        found = polish(dual, found)
    return found if found is not None and dual.gap(found) < gap else alpha


def _inside(dual: KernelDual, alpha: Float) -> Int:
    return np.flatnonzero((alpha > AT_BOUND * dual.box) & (alpha < (1 - AT_BOUND) * dual.box))


def _newton_step(dual: KernelDual, K: Float, alpha: Float) -> Float:
    """Members at a bound stay; the others solve ``K_ff beta_f + b = y_f e_f - K_fB beta_B`` and ``sum beta = 0``."""
    y, box = dual.y, dual.box
    free = _inside(dual, alpha)
    fixed = np.where(alpha >= 0.5 * box, box, 0.0)
    fixed[free] = 0.0
    if len(free):
        system = np.ones((len(free) + 1, len(free) + 1))
        system[:-1, :-1], system[-1, -1] = K[np.ix_(free, free)], 0.0
        beta = y * fixed
        right = np.append(y[free] * dual.edge[free] - K[free] @ beta, -beta.sum())
        solved = linalg.lstsq(system, right, cond=NEWTON_RANK, check_finite=False, lapack_driver="gelsy")[0]
        fixed[free] = y[free] * solved[:-1]
    return dual.start(fixed)


def solve_by_factor(dual: KernelDual, deadline: float) -> Float | None:
    """The dual of the linear machine on a pivoted Cholesky factor of the matrix; None where that is too much work."""
    K = dual.square_float64()
    n = len(K)
    factor = pivoted_cholesky(K, FACTOR_RANK * float(np.diag(K).max(initial=0.0)) * n)
    rank = max(1, factor.rank)
    if n * rank**2 > MOST_WORK:
        return None
    features = np.empty((n, rank))
    features[factor.order] = factor.upper[:rank].T
    A = dual.y[:, None] * np.column_stack([features, np.ones(n)])
    used = dual.box > 0
    n_used = int(used.sum())
    ridge = np.append(np.ones(rank), 0.0)
    rows = HingeRows.of_array(A[used], dual.edge[used], dual.box[used], np.zeros(n_used), ridge)
    alpha = np.zeros(n)
    alpha[used] = solve_by_interior_point(rows, None, True, Accuracy(FACTOR_ACCURACY, deadline)).dual
    return dual.start(alpha)
