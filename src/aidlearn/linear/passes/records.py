"""What passes over the rows of a linear model give, and the choice between their two versions.

:mod:`aidlearn.linear.passes.in_numpy` is NumPy, for data that are not worth a compiler;
:mod:`aidlearn.linear.passes.compiled` reads every row once, without the interpreter lock. Which one a fit takes follows
from the shape of its data alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.loading import load
from aidlearn.numerics import Float, Int

WIDER_BY_LEVERAGE = 30.0
"""Where few rows carry a coefficient its error is larger than the usual root-n one: the band is wider by this factor
times the leverage."""
CARRIES = 0.1
"""Leverage from which a row (of at most ten per variable) stays alone wherever it is."""


@dataclass(frozen=True)
class LocalSums:
    """A chunk around a point, with every kink of the loss rounded off."""

    objective: float
    """The true loss."""
    forces: Float
    """``sum_i slope_i sign_i (x_i, 1)``."""
    near: NDArray[np.integer]
    """Rows with weight within the width of a kink."""
    curvature: Float
    """Of the loss at these rows: positive."""
    total_curvature: float


@dataclass(frozen=True)
class ByColumn:
    """Rows grouped, in each region and class, by the rarest column that they have a number in."""

    part: NDArray[np.int32]
    """Of each column, ascending with what it is filled; ``n_parts`` for columns that are not rare."""
    n_parts: int
    first: int
    """Of these groups: those of bins and sides come before."""


@dataclass(frozen=True)
class Split:
    """How rows are grouped by region and by distance (in leverages) from the nearest kink."""

    near: float
    """Up to this distance a row stays alone."""
    bins: float
    """Bins per distance."""
    n_bins: int
    cuts: Float
    """Margins above so many of these are in the region with that number."""
    n_groups: int
    """All of them: regions times bins, once for each class, and twice for each of the sides; then those of columns."""
    carries: float = CARRIES
    """Leverage above which a row stays alone wherever it is."""
    rare_class: float = 0.0
    """Sign of the class whose rows all stay alone (0: none)."""
    sides: Float | None = None
    """Planes (with their intercepts) that part each bin further."""
    by_column: ByColumn | None = None
    """Groups of their own for rows with numbers in rare columns."""


@dataclass(frozen=True)
class Groups:
    """The groups of a chunk, and their sums without the rows that stay alone."""

    objective: float
    labels: NDArray[np.int32]
    alone: Int
    counts: Int
    sums: Float


def passes_of(run: Run) -> ModuleType:
    """The version of the passes for a fit: a module with ``model`` and ``groups``."""
    return load("aidlearn.linear.passes.compiled" if run.compiled else "aidlearn.linear.passes.in_numpy")
