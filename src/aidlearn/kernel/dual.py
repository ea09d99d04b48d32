"""The dual of a weighted kernel SVM: the form in which solvers get the aggregated problem of the paper's appendix B.

    maximise  e'a - 1/2 a'Qa,   Q_ij = y_i y_j K_ij,   0 <= a_i <= box_i,   y'a = 0

The loss of a member is ``box_i max(0, e_i - y_i f(x_i))``: e is 1 in classification; in regression each side of the
tube is an entry. The members are single rows and clusters; the kernel among them is a matrix, or columns that are
computed when they are needed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from aidlearn.kernel.functions import TINY, Floats
from aidlearn.kernel.rows import KernelRows
from aidlearn.linear.aggregated.certificate import balance
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float, Int

SMALL = 1000
"""Up to this size a matrix is always allowed, and the last digits of a solution cost little."""


@dataclass(frozen=True)
class ColumnsOnDemand:
    """A kernel matrix that is too large to be kept: its columns are computed when they are needed."""

    rows: KernelRows
    singles: Int
    """Numbers of the single rows, which are the first members."""
    at_clusters: Floats
    """Kernel values of the clusters, which are the other members, against all members."""
    n_columns: int
    """Maximum number of columns that are kept."""


@dataclass(frozen=True)
class KernelDual:
    """Labels, boxes and edges of the members, and the kernel among them in one of its two forms."""

    y: Float
    box: Float
    edge: Float
    """Value of ``y f(x)`` below which a member has a loss."""
    matrix: Floats | None = None
    """The kernel matrix; it may have further, unused columns."""
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
        """Return the scores of all members (a matrix is needed)."""
        return np.asarray(self.square_float64() @ (self.y * alpha))

    def start(self, alpha: Float) -> Float:
        """Return a feasible point close to ``alpha``; a feasible ``alpha`` is returned as it is."""
        inside = np.minimum(np.maximum(alpha, 0.0), self.box)
        if abs(self.y @ inside) > 4 * EPS * inside.sum():
            return balance(self.y, inside)
        return alpha if (inside == alpha).all() else inside

    def gap(self, alpha: Float, scores: Float | None = None) -> float:
        """Return the relative duality gap of a feasible point, from its scores if they are known."""
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
