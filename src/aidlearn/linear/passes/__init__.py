"""Passes over the rows of a linear model, in NumPy and compiled; :func:`passes_of` chooses between them.

What each pass computes is described once, in :class:`~aidlearn.linear.passes.in_numpy.Passes`.
"""

from __future__ import annotations

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.threads import uninterrupted
from aidlearn.linear.passes.in_numpy import NUMPY, Passes

__all__ = ["Passes", "passes_of"]


def passes_of(run: Run) -> Passes:
    """The passes of a run: compiled ones where the shape of the data makes them pay."""
    if not run.compiled:
        return NUMPY
    with uninterrupted():
        from aidlearn.linear.passes.compiled import COMPILED
    return COMPILED
