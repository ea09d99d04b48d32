"""The choice between NumPy and compiled passes, which follows from the shape of the data alone."""

from __future__ import annotations

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.threads import uninterrupted
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.passes.protocol import Passes


def passes_of(run: Run) -> Passes:
    """The passes of a run."""
    if not run.compiled:
        return NUMPY
    with uninterrupted():
        from aidlearn.linear.passes.compiled import COMPILED
    return COMPILED
