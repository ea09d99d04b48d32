"""Kernel support vector regression: both sides of the tube are entries of one kernel machine (paper, appendix B).

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
from aidlearn.engine.problem import Problem
from aidlearn.kernel.functions import Floats
from aidlearn.kernel.problem import KernelHinge, KernelSettings
from aidlearn.kernel.rows import KernelRows, TubeRows
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import epsilon_insensitive
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.start.sharpen import Band
from aidlearn.numerics import Float, Int


class KernelTube(KernelHinge):
    """The four components of a kernel support vector regression.

    Parameters
    ----------
    run : Run
        The fit that the problem belongs to.
    rows : KernelRows
    target, box : arrays
        Targets of the rows, and upper bounds of their dual variables.
    epsilon : float
        Half width of the tube.
    settings : KernelSettings
    rng : Generator
    unit : float
        Typical size of the targets.
    """

    def __init__(
        self,
        run: Run,
        rows: KernelRows,
        target: Float,
        box: Float,
        epsilon: float,
        settings: KernelSettings,
        rng: np.random.Generator,
        unit: float = 1.0,
    ) -> None:
        label = np.repeat([1.0, -1.0], rows.n)
        edge = np.concatenate([target, -target]) - epsilon
        boxes = np.tile(box, 2)
        # Passes read only the labels and boxes of entries.
        no_columns = np.broadcast_to(np.zeros(1), (2 * rows.n, 1))
        part = run.of(ArraySource(no_columns, label, boxes))
        super().__init__(part, TubeRows(rows), label, boxes, settings, rng, edge, unit)
        self.target, self.epsilon = target, epsilon

    @property
    def n_rows(self) -> int:
        return len(self.target)

    def of_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.tile(values, 2)

    def row_coef(self, coef: Float) -> Float:
        """Return the coefficients of the rows from those of both sides."""
        return np.asarray(coef[: self.n_rows] + coef[self.n_rows :])

    def sample(self, size: int, least: int) -> Int:
        """Draw rows; both sides of each are in the sample."""
        used = np.flatnonzero(self.box[: self.n_rows] > 0)
        size = min(len(used), max(1, size // 2))
        chosen = np.sort(self.rng.choice(used, size, replace=False))
        return np.concatenate([chosen, chosen + self.n_rows])

    def landmarks(self, size: int, least: int) -> Int:
        return np.sort(self.rng.choice(self.n_rows, min(size, self.n_rows), replace=False))

    def position(self, scores: Float) -> Float:
        return self.edge - self.y * scores

    def linear_problem(self, features: Floats) -> Problem:
        source = ArraySource(features, self.target, self.box[: self.n_rows], self.rows.n_jobs)
        return tube_problem(self.run.of(source), 1.0, self.epsilon, self.rng)


def tube_problem(run: Run, C: float, epsilon: float, rng: np.random.Generator) -> PiecewiseLinear:
    """Return the linear support vector regression with the default procedure."""
    design = Design.of(epsilon_insensitive(C, epsilon), inspect(run), ridge=1.0)
    return PiecewiseLinear(run, design, Procedure(SOLVERS["auto"], Band(), rng=rng))
