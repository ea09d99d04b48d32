"""The dual of a weighted kernel SVM, the form in which solvers receive the aggregated problem (paper, appendix B).

    maximise  e'a - 1/2 a'Qa,   Q_ij = y_i y_j K_ij,   0 <= a_i <= box_i,   y'a = 0

The loss of a member is ``box_i max(0, e_i - y_i f(x_i))``, with e = 1 in classification; in regression each side of the
tube is an entry. Members are single rows and clusters. Their kernel is a matrix, or columns computed on demand.

:func:`finish` adds the last digits to the solution of a small dual. SMO and libsvm make little progress on an
ill-conditioned kernel matrix, so Newton steps on the members strictly inside their boxes follow; if these fail too, an
interior-point method works on a factor of the matrix.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.engine.problem import Accuracy
from aidlearn.kernel.functions import TINY, Floats, pivoted_cholesky
from aidlearn.kernel.rows import KernelRows
from aidlearn.linear.aggregated.certificate import balance
from aidlearn.linear.aggregated.hinge_rows import EPS, HingeRows
from aidlearn.linear.aggregated.solvers import solve_by_interior_point
from aidlearn.numerics import Float, Int

SMALL = 1000
"""Number of members up to which a matrix is always allowed and the last digits of a solution cost little."""


@dataclass(frozen=True)
class DualSettings:
    """Limits and tolerances of Newton steps and of the interior-point method."""

    newton_steps: int = 5
    """Guess. Maximum number of Newton steps."""
    closed_gap: float = 1e-13
    """Relative gap below which float64 has no digits; the interior-point method aims at it."""
    at_bound: float = 1e-9
    """Guess. Fraction of its box within which a variable counts as at a bound."""
    newton_rank: float = 1e-13
    """Relative size below which a direction of the Newton system is rounding error."""
    factor_rank: float = 1e-14
    """Guess. Pivot at which the factorisation ends, as a fraction of its own diagonal entry, per row."""
    most_factored: int = 3000
    """Maximum members of a matrix that is factored: that takes a second, and 72 MB per copy."""
    most_work: float = 2e9
    """Maximum of members times squared rank: about four seconds of the interior-point method."""


SETTINGS = DualSettings()


@dataclass(frozen=True)
class ColumnsOnDemand:
    """A kernel matrix that is too large to keep; its columns are computed on demand."""

    rows: KernelRows
    singles: Int
    """Row numbers of the single rows, which are the first members."""
    at_clusters: Floats
    """Kernel values between all members and the clusters, which are the last members."""
    n_columns: int
    """Maximum number of computed columns in memory."""


@dataclass(frozen=True)
class KernelDual:
    """Labels, boxes and edges of the members, and the kernel among them in one of its two forms."""

    y: Float
    box: Float
    edge: Float
    """Value of ``y f(x)`` below which a member has a loss."""
    matrix: Floats | None = None
    """The kernel matrix, possibly followed by unused columns."""
    columns: ColumnsOnDemand | None = None
    _gaps: deque[tuple[Float, float]] = field(default_factory=lambda: deque(maxlen=2), compare=False, repr=False)
    """Gaps of the last two points: a step and its origin."""

    def square(self) -> Floats:
        """Return the kernel matrix without unused columns."""
        assert self.matrix is not None
        return self.matrix[:, : len(self.y)]

    def square_float64(self) -> Float:
        """Return the kernel matrix in float64."""
        return self.square().astype(np.float64, copy=False)

    def scores(self, alpha: Float) -> Float:
        """Return the scores of all members, which requires the matrix."""
        return np.asarray(self.square_float64() @ (self.y * alpha))

    def start(self, alpha: Float) -> Float:
        """Return a feasible point close to ``alpha``; a feasible ``alpha`` is returned as it is."""
        inside = np.minimum(np.maximum(alpha, 0.0), self.box)
        if abs(self.y @ inside) > 4 * EPS * inside.sum():
            return balance(self.y, inside)
        return alpha if (inside == alpha).all() else inside

    def gap(self, alpha: Float, scores: Float | None = None) -> float:
        """Return the relative duality gap of a feasible point, from its scores if they are given."""
        for point, known in self._gaps:
            if point is alpha:
                return known
        scores = self.scores(alpha) if scores is None else scores
        square = float((self.y * alpha) @ scores)
        b = best_intercept(scores, self.y, self.box, self.edge)
        primal = 0.5 * square + float(self.box @ np.maximum(0.0, self.edge - self.y * (scores + b)))
        value = float(self.edge @ alpha) - 0.5 * square
        gap = (primal - value) / max(primal, TINY)
        self._gaps.append((alpha, gap))
        return gap


def best_intercept(scores: Floats, y: Float, box: Float, edge: Float) -> float:
    """Return the b that minimises ``sum box * max(0, edge - y (scores + b))``; 0 without members."""
    if len(scores) == 0:
        return 0.0
    at = y * edge - scores
    order = np.argsort(at, kind="stable")
    slope = np.cumsum(box[order]) - box[y > 0].sum()
    k = int(np.searchsorted(slope, 0.0, side="left"))
    k = min(k, len(order) - 1)
    ties = slope[k] == 0 and k + 1 < len(order)
    return float(0.5 * (at[order[k]] + at[order[k + 1]]) if ties else at[order[k]])


def strictly_inside(alpha: Float, box: Float) -> NDArray[np.bool_]:
    """Return whether each variable lies strictly inside its box."""
    return (alpha > SETTINGS.at_bound * box) & (alpha < (1 - SETTINGS.at_bound) * box)


def bordered_solution(K: Float, right: Float) -> Float:
    """Solve ``K x + b = right[:-1]`` and ``sum x = right[-1]`` for x, without directions that are rounding error."""
    system = np.ones((len(right), len(right)))
    system[:-1, :-1], system[-1, -1] = K, 0.0
    found = linalg.lstsq(system, right, cond=SETTINGS.newton_rank, check_finite=False, lapack_driver="gelsy")[0]
    return np.asarray(found[:-1])


def polish(dual: KernelDual, alpha: Float) -> Float:
    """Take Newton steps while they reduce the gap, if few members are strictly inside their boxes."""
    n_inside = np.count_nonzero(strictly_inside(alpha, dual.box))
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
    """Improve a solution by Newton steps and, if they miss the accuracy, by an interior-point method on a factor."""
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
    free = np.flatnonzero(strictly_inside(alpha, box))
    fixed = np.where(alpha >= 0.5 * box, box, 0.0)
    fixed[free] = 0.0
    if len(free):
        beta = y * fixed
        right = np.append(y[free] * dual.edge[free] - K[free] @ beta, -beta.sum())
        fixed[free] = y[free] * bordered_solution(K[np.ix_(free, free)], right)
    return dual.start(fixed)


def solve_by_factor(dual: KernelDual, deadline: float) -> Float | None:
    """Solve the linear SVM on a pivoted Cholesky factor of the matrix; return None if that is too much work."""
    K = dual.square_float64()
    n = len(K)
    # Rounding errors are relative to the rows: those of polynomial kernels differ by many decades.
    lengths = np.sqrt(np.maximum(np.diag(K), 0.0))
    lengths[lengths == 0] = 1.0
    scaled = K / lengths
    scaled /= lengths[:, None]
    factor = pivoted_cholesky(scaled, SETTINGS.factor_rank * n)
    rank = max(1, factor.rank)
    if n * rank**2 > SETTINGS.most_work:
        return None
    features = np.empty((n, rank))
    features[factor.order] = factor.upper[:rank].T
    features *= lengths[:, None]
    A = dual.y[:, None] * np.column_stack([features, np.ones(n)])
    used = dual.box > 0
    ridge = np.append(np.ones(rank), 0.0)
    rows = HingeRows.of_array(A[used], dual.edge[used], dual.box[used], np.zeros(int(used.sum())), ridge)
    alpha = np.zeros(n)
    alpha[used] = solve_by_interior_point(rows, None, True, Accuracy(SETTINGS.closed_gap, deadline)).dual
    return dual.start(alpha)
