"""Passes over the rows of a linear model, in NumPy and compiled; :func:`passes_of` chooses between them.

:class:`~aidlearn.linear.passes.in_numpy.Passes` documents what each pass computes.
"""

from __future__ import annotations

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.threads import uninterrupted
from aidlearn.linear.passes.in_numpy import NUMPY, Passes

__all__ = ["Passes", "passes_of"]


def passes_of(run: Run) -> Passes:
    """Return the passes of a run, compiled if the shape of the data makes compilation pay."""
    if not run.compiled:
        return NUMPY
    with uninterrupted():
        from aidlearn.linear.passes.compiled import COMPILED
    return COMPILED
