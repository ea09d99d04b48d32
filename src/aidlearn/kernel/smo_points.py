"""Points of SMO in Python, whose rounds of steps are compiled (:mod:`aidlearn.kernel.smo`).

A point has the whole kernel matrix, or columns that are computed when they are needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from aidlearn.kernel.dual import ColumnsOnDemand, KernelDual
from aidlearn.kernel.functions import Floats
from aidlearn.kernel.smo import KeptColumns, OnDemand, Point, spread, steps, submatrix, subtract_rows
from aidlearn.kernel.solvers import SETTINGS as SOLVERS
from aidlearn.numerics import Float


@dataclass(frozen=True)
class RoundSettings:
    """Rounds of steps between two computations of the gap."""

    most_steps_at_once: int = 5000
    """Guess. Maximum steps of a round when columns are computed: each may take as long as the gap."""
    part_steps: int = 4
    """Guess. Steps per row when a part of the rows is iterated alone."""
    part_spread: float = 0.1
    """Guess. Part of the spread of the gradient at which that iteration ends."""
    part_rows: float = 0.7
    """Guess. A part is copied only if it is smaller than this share of the rows."""
    part_margin: float = 0.5
    """Guess. A row at its bound is left out if its gradient is beyond the others' by this part of the spread."""
    least_spread: float = 1e-3
    """Guess. Smallest spread for that margin: near the optimum a row could come back at once."""
    least_columns: int = 64
    """Guess. Columns of the kernel matrix that are always kept."""


SETTINGS = RoundSettings()


class SmoPoint(ABC):
    """A point of SMO and its gap."""

    def __init__(self, dual: KernelDual, alpha: Float, scores: Float, diagonal: Float) -> None:
        y, signed = dual.y, dual.y * dual.box
        self.dual = dual
        self.point = Point(
            y * alpha, y * dual.edge - scores, np.minimum(0.0, signed), np.maximum(0.0, signed), diagonal
        )

    def alpha(self) -> Float:
        """Return the dual variables, within their boxes."""
        return np.clip(self.dual.y * self.point.beta, 0.0, self.dual.box)

    def gap(self) -> float:
        """Return the relative duality gap."""
        y = self.dual.y
        return self.dual.gap(y * self.point.beta, y * self.dual.edge - self.point.gradient)

    @abstractmethod
    def round(self, total: int, most: int) -> int:
        """Take at most ``most`` steps after ``total`` earlier ones; return their number."""


class WithMatrix(SmoPoint):
    """A point with the whole matrix. Once few rows can change, these are copied and iterated alone for a while."""

    def __init__(self, dual: KernelDual, alpha: Float, scores: Float) -> None:
        super().__init__(dual, alpha, scores, _diagonal(dual.square()))

    def round(self, total: int, most: int) -> int:
        K, n, point = self.dual.matrix, len(self.point.beta), self.point
        assert K is not None
        beta, gradient, lower, upper, _ = point
        top, bottom = spread(point)
        rows = np.empty(0, dtype=np.int64)
        if total > n and top > bottom:
            margin = SETTINGS.part_margin * max(top - bottom, SETTINGS.least_spread)
            rows = np.flatnonzero(
                ((beta > lower) & (beta < upper))
                | ((beta <= lower) & (bottom - margin < gradient))
                | ((beta >= upper) & (top + margin > gradient))
            )
        if not 0 < len(rows) < SETTINGS.part_rows * n:
            return _steps(K, point, min(max(n // 4, SOLVERS.steps_at_once), most), 0.0)
        square = submatrix(K, rows)
        part = Point(beta[rows], gradient[rows], lower[rows], upper[rows], _diagonal(square))
        budget = min(max(SETTINGS.part_steps * len(rows), SOLVERS.steps_at_once), most)
        done = _steps(square, part, budget, SETTINGS.part_spread * (top - bottom))
        change = part.beta - beta[rows]
        beta[rows] = part.beta
        subtract_rows(K, rows, change, gradient)
        return done


def _steps(K: Floats, point: Point, budget: int, target: float) -> int:
    return int(steps(point, KeptColumns.whole(K), OnDemand.nothing(K.dtype), 0, budget, target))


def _diagonal(K: Floats) -> Float:
    return K.diagonal().astype(np.float64)


class WithColumns(SmoPoint):
    """A point whose columns are computed when needed; the most recent ones and those of clusters are kept."""

    def __init__(self, dual: KernelDual, given: ColumnsOnDemand, alpha: Float, scores: Float) -> None:
        rows, singles = given.rows, given.singles
        at_clusters = np.ascontiguousarray(given.at_clusters, dtype=rows.dtype)
        n, q, g = len(alpha), len(singles), at_clusters.shape[1]
        super().__init__(dual, alpha, scores, np.concatenate([rows.lengths[singles] ** 2, at_clusters[q:].diagonal()]))
        slots = min(n, max(SETTINGS.least_columns, given.n_columns) + g)
        columns = KeptColumns(
            np.empty((slots, n), dtype=rows.dtype), np.full(n, -1), np.full(slots, -1), np.arange(slots) - slots
        )
        columns.values[:g] = at_clusters.T
        columns.slot_of[q:], columns.row_of[:g] = np.arange(g), np.arange(q, n)
        columns.last_used[:g] = np.iinfo(np.int64).max
        self.columns = columns
        self.on_demand = OnDemand(rows.function, rows.take(singles), at_clusters)

    def round(self, total: int, most: int) -> int:
        budget = min(len(self.point.beta) // 4 + 1, SETTINGS.most_steps_at_once, most)
        return int(steps(self.point, self.columns, self.on_demand, 2 * total, budget, 0.0))


def smo_point(dual: KernelDual, alpha: Float, scores: Float) -> SmoPoint:
    """Return a point of SMO that starts at ``alpha``."""
    if dual.columns is not None:
        return WithColumns(dual, dual.columns, alpha, scores)
    return WithMatrix(dual, alpha, scores)
