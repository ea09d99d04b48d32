"""Entries of a kernel machine, in which classification and regression (paper, appendix B) differ.

In classification every row is an entry with edge 1. In regression both sides of the tube are entries:

    max(0, |y - f(x)| - epsilon) = max(0, (y - epsilon) - f(x)) + max(0, (-y - epsilon) + f(x))

Row i is entry i with label +1 and edge ``y_i - epsilon``, and entry n + i with label -1 and edge ``-y_i - epsilon``.
Both entries share the kernel values of their row: no row is stored or evaluated twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.source import DataSource
from aidlearn.kernel.rows import KernelRows, TubeRows
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import epsilon_insensitive
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.start.sharpen import Band
from aidlearn.linear.svm import svm_problem
from aidlearn.numerics import Float, Int


class KernelEntries:
    """Labelled rows, the entries of a classification.

    Parameters
    ----------
    rows : KernelRows
        The kernel between the entries.
    y, box : arrays
        Labels, -1 or +1, and upper bounds of the dual variables: C times sample weights.
    edge : array, optional
        Value of ``y f(x)`` below which an entry has a loss; 1 by default.
    unit : float
        Typical size of the edges.
    """

    def __init__(self, rows: KernelRows, y: Float, box: Float, edge: Float | None = None, unit: float = 1.0) -> None:
        self.rows, self.y, self.box, self.unit = rows, y, box, unit
        self.edge = np.ones(len(y)) if edge is None else edge
        self.target, self.row_box = y, box
        """Targets of the rows, and upper bounds of their dual variables; a row may have several entries."""

    def source(self) -> DataSource:
        """Return a source of the entries, whose weights are their boxes."""
        return ArraySource(self.rows.X, self.y, self.box)

    def of_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Expand values of the rows to all entries."""
        return values

    def row_coef(self, coef: Float) -> Float:
        """Return the coefficients of the rows, summed over their entries."""
        return coef

    def sample(self, rng: np.random.Generator, size: int, least: int) -> Int:
        """Draw about ``size`` entries, at least ``least`` of each class that has that many."""
        parts = []
        for label in (-1.0, 1.0):
            members = np.flatnonzero((self.y == label) & (self.box > 0))
            share = max(1, least, round(size * len(members) / len(self.y)))
            parts.append(rng.choice(members, min(len(members), share), replace=False))
        return np.sort(np.concatenate(parts))

    def landmarks(self, rng: np.random.Generator, size: int, least: int) -> Int:
        """Draw the landmark rows, whose span represents the other rows."""
        return self.sample(rng, size, least)

    def position(self, scores: Float) -> Float:
        """Return the coordinate in which the paper's k-means clusters the entries of a class."""
        return scores

    def linear_problem(self, run: Run, rng: np.random.Generator) -> PiecewiseLinear:
        """Return the linear problem for a run over features of the rows."""
        return svm_problem(run, 1.0, rng)


class TubeEntries(KernelEntries):
    """Both sides of the tube of half-width ``epsilon`` around the targets; ``box`` bounds the rows' dual variables."""

    def __init__(self, rows: KernelRows, target: Float, box: Float, epsilon: float, unit: float = 1.0) -> None:
        edge = np.concatenate([target, -target]) - epsilon
        super().__init__(TubeRows(rows), np.repeat([1.0, -1.0], rows.n), np.tile(box, 2), edge, unit)
        self.target, self.row_box, self.epsilon = target, box, epsilon

    def source(self) -> DataSource:
        # Passes read only labels and boxes.
        no_columns = np.broadcast_to(np.zeros(1), (len(self.y), 1))
        return ArraySource(no_columns, self.y, self.box)

    def of_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.tile(values, 2)

    def row_coef(self, coef: Float) -> Float:
        n = len(self.target)
        return np.asarray(coef[:n] + coef[n:])

    def sample(self, rng: np.random.Generator, size: int, least: int) -> Int:
        """Draw rows, and return both sides of each."""
        used = np.flatnonzero(self.row_box > 0)
        chosen = np.sort(rng.choice(used, min(len(used), max(1, size // 2)), replace=False))
        return np.concatenate([chosen, chosen + len(self.target)])

    def landmarks(self, rng: np.random.Generator, size: int, least: int) -> Int:
        n = len(self.target)
        return np.sort(rng.choice(n, min(size, n), replace=False))

    def position(self, scores: Float) -> Float:
        return self.edge - self.y * scores

    def linear_problem(self, run: Run, rng: np.random.Generator) -> PiecewiseLinear:
        design = Design.of(epsilon_insensitive(1.0, self.epsilon), inspect(run), ridge=1.0)
        return PiecewiseLinear(run, design, Procedure(SOLVERS["auto"], Band(), rng=rng))
