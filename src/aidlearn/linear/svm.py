"""The linear SVM inside other fits: on the features of a kernel, or on the labelled rows alone."""

from __future__ import annotations

import numpy as np

from aidlearn.data.passes.moments import inspect
from aidlearn.data.passes.run import Run
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import hinge
from aidlearn.linear.problem import PiecewiseLinear, Procedure
from aidlearn.linear.start.sharpen import Band


def svm_problem(run: Run, C: float, rng: np.random.Generator) -> PiecewiseLinear:
    """Return the SVM problem that separates target 1 from all others, with the default procedure."""
    design = Design.of(hinge(C), inspect(run), ridge=1.0)
    return PiecewiseLinear(run, design, Procedure(SOLVERS["auto"], Band(), rng=rng))
