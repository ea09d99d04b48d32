"""The last digits of the solution of a small dual (see :mod:`aidlearn.kernel.dual`).

SMO and libsvm make little progress with an ill-conditioned kernel matrix. Newton steps on the members strictly inside
their boxes follow; if they fail too, an interior point works on a factor of the matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.engine.problem import Accuracy
from aidlearn.kernel.dual import SMALL, KernelDual
from aidlearn.kernel.matrix import pivoted_cholesky
from aidlearn.linear.aggregated.hinge_rows import HingeRows
from aidlearn.linear.aggregated.solvers import solve_by_interior_point
from aidlearn.numerics import Float


@dataclass(frozen=True)
class PolishSettings:
    """Limits and tolerances of Newton steps and of the interior point."""

    newton_steps: int = 5
    """Guess. Maximum number of Newton steps."""
    closed_gap: float = 1e-13
    """Relative gap that is rounding, and that the interior point aims at."""
    at_bound: float = 1e-9
    """Guess. Part of its box within which a variable is at a bound."""
    newton_rank: float = 1e-13
    """Relative size below which a direction of the Newton system is rounding."""
    factor_rank: float = 1e-14
    """Guess. Part of the largest diagonal entry, per row, below which a pivot ends the factor."""
    most_factored: int = 3000
    """Maximum members whose matrix is factored: it takes a second, and 72 MB for each copy."""
    most_work: float = 2e9
    """Maximum of members times squared rank: about four seconds of an interior point."""

    def inside(self, alpha: Float, box: Float) -> NDArray[np.bool_]:
        """Whether each variable lies strictly inside its box."""
        return (alpha > self.at_bound * box) & (alpha < (1 - self.at_bound) * box)


SETTINGS = PolishSettings()


def polish(dual: KernelDual, alpha: Float) -> Float:
    """Take Newton steps while they help, if few members are strictly inside their boxes."""
    n_inside = np.count_nonzero(SETTINGS.inside(alpha, dual.box))
    if dual.matrix is None or len(alpha) > SETTINGS.most_factored or n_inside > SMALL:
        return alpha
    K = dual.square_float64()
    gap = dual.gap(alpha)
    for _ in range(SETTINGS.newton_steps):
        if gap <= SETTINGS.closed_gap:
            break
        now = _newton_step(dual, K, alpha)
        now_gap = dual.gap(now)
        if now_gap >= gap:
            break
        alpha, gap = now, now_gap
    return alpha


def finish(dual: KernelDual, alpha: Float, accuracy: Accuracy) -> Float:
    """Improve a solution by Newton steps and, if they do not reach the accuracy, by an interior point on the factor."""
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


def _newton_step(dual: KernelDual, K: Float, alpha: Float) -> Float:
    """Fix members at a bound; the others solve ``K_ff beta_f + b = y_f e_f - K_fB beta_B`` and ``sum beta = 0``."""
    y, box = dual.y, dual.box
    free = np.flatnonzero(SETTINGS.inside(alpha, box))
    fixed = np.where(alpha >= 0.5 * box, box, 0.0)
    fixed[free] = 0.0
    if len(free):
        system = np.ones((len(free) + 1, len(free) + 1))
        system[:-1, :-1], system[-1, -1] = K[np.ix_(free, free)], 0.0
        beta = y * fixed
        right = np.append(y[free] * dual.edge[free] - K[free] @ beta, -beta.sum())
        solved = linalg.lstsq(system, right, cond=SETTINGS.newton_rank, check_finite=False, lapack_driver="gelsy")[0]
        fixed[free] = y[free] * solved[:-1]
    return dual.start(fixed)


def solve_by_factor(dual: KernelDual, deadline: float) -> Float | None:
    """Solve the linear machine on a pivoted Cholesky factor of the matrix; None if that is too much work."""
    K = dual.square_float64()
    n = len(K)
    factor = pivoted_cholesky(K, SETTINGS.factor_rank * float(np.diag(K).max(initial=0.0)) * n)
    rank = max(1, factor.rank)
    if n * rank**2 > SETTINGS.most_work:
        return None
    features = np.empty((n, rank))
    features[factor.order] = factor.upper[:rank].T
    A = dual.y[:, None] * np.column_stack([features, np.ones(n)])
    used = dual.box > 0
    ridge = np.append(np.ones(rank), 0.0)
    rows = HingeRows.of_array(A[used], dual.edge[used], dual.box[used], np.zeros(int(used.sum())), ridge)
    alpha = np.zeros(n)
    alpha[used] = solve_by_interior_point(rows, None, True, Accuracy(SETTINGS.closed_gap, deadline)).dual
    return dual.start(alpha)
