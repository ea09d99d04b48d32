"""The dual of a weighted kernel SVM: what the aggregated problem of the paper's appendix B is to its solvers.

    maximise  e'a - 1/2 a'Qa,   Q_ij = y_i y_j K_ij,   0 <= a_i <= box_i,   y'a = 0

The loss of a member is ``box_i max(0, e_i - y_i f(x_i))``: e is 1 in a classification, and in a regression each side of
the tube is an entry. Its members are single rows and clusters; the kernel among them is a matrix, or columns computed
when they are needed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.kernel.functions import TINY
from aidlearn.kernel.rows import CompiledRows, SideRows
from aidlearn.linear.aggregated.certificate import balance
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float, Int

SMALL = 1000
"""Up to this size a matrix is always allowed, and the last digits of a solution cost next to nothing."""


@dataclass(frozen=True)
class ColumnsOnDemand:
    """What the columns of a kernel matrix that is too large to be kept are computed from."""

    rows: CompiledRows | SideRows
    singles: Int
    """The single rows, which are the first members."""
    at_clusters: NDArray[Any]
    """Kernel values of the other members, the clusters, against all."""
    n_columns: int
    """Columns that may be kept at once."""


@dataclass(frozen=True)
class KernelDual:
    """Labels, boxes and edges of the members, and the kernel among them in one of its two forms."""

    y: Float
    box: Float
    edge: Float
    """Up to it ``y f(x)`` has a loss."""
    matrix: NDArray[Any] | None = None
    """Its first columns; there may be room for more."""
    columns: ColumnsOnDemand | None = None
    _gaps: deque[tuple[Float, float]] = field(default_factory=lambda: deque(maxlen=2), compare=False, repr=False)
    """Of the last points: a step and where it came from."""

    def square(self) -> NDArray[Any]:
        """The kernel matrix, where it is at hand."""
        assert self.matrix is not None
        return self.matrix[:, : len(self.y)]

    def square_float64(self) -> Float:
        return self.square().astype(np.float64, copy=False)

    def scores(self, alpha: Float) -> Float:
        """Of all members, where the matrix is at hand."""
        return np.asarray(self.square_float64() @ (self.y * alpha))

    def start(self, alpha: Float) -> Float:
        """The nearest simple feasible point (a feasible one is left as it is)."""
        inside = np.minimum(np.maximum(alpha, 0.0), self.box)
        if abs(self.y @ inside) > 4 * EPS * inside.sum():
            return balance(self.y, inside)
        return alpha if (inside == alpha).all() else inside

    def gap(self, alpha: Float, scores: Float | None = None) -> float:
        """Relative duality gap at a feasible point, with its scores if they are known."""
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


def best_intercept(scores: Float, y: Float, box: Float, edge: Float) -> float:
    """The b that minimises ``sum box * max(0, edge - y (scores + b))``; 0 if there is nothing to minimise."""
    if len(scores) == 0:
        return 0.0
    at = y * edge - scores
    order = np.argsort(at, kind="stable")
    slope = np.cumsum(box[order]) - box[y > 0].sum()
    k = int(np.searchsorted(slope, 0.0, side="left"))
    k = min(k, len(order) - 1)
    ties = slope[k] == 0 and k + 1 < len(order)
    return float(0.5 * (at[order[k]] + at[order[k + 1]]) if ties else at[order[k]])
