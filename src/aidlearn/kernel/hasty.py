"""A kernel machine for a fit whose time is over: that of a few rows, and one product of them with all others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Accuracy, Incumbent, Start
from aidlearn.engine.splits import Assignment
from aidlearn.kernel.dual import KernelDual
from aidlearn.numerics import Float, Int

if TYPE_CHECKING:
    from aidlearn.kernel.problem import KernelHinge

SAMPLE_GAP = 1e-2
"""Relative gap at which a sample is solved: it tells no more than that about the other rows."""
LEAST_SHARE = 4
"""A class has at least one row in four of a sample, if it has as many."""
VALUES, FEWEST_ROWS, MOST_ROWS = 8e6, 40, 400
"""Kernel values of the sample with all rows, and its rows."""
SECONDS = 0.05
"""For its solver."""


def restored(problem: KernelHinge, sample: Int) -> Float:
    """Boxes of a sample with weights that restore the totals of the classes."""
    box = problem.box[sample].copy()
    for label in (-1.0, 1.0):
        here = problem.y[sample] == label
        box[here] *= problem.box[problem.y == label].sum() / box[here].sum()
    return box


def sample_solution(problem: KernelHinge, sample: Int, box: Float, deadline: float) -> Float:
    """The dual solution of some rows alone."""
    dual = KernelDual(problem.y[sample], box, problem.edge[sample], matrix=problem.rows.block(sample, sample))
    nothing = np.zeros(len(sample))
    return problem.settings.solver(dual, nothing, nothing, Accuracy(SAMPLE_GAP, deadline))


def of_sample(problem: KernelHinge, sample: Int, coef: Float, scores: Float) -> Incumbent:
    """The machine of a sample with the best intercept, or the one without any row if that is better."""
    everywhere = np.zeros(len(problem.y))
    everywhere[sample] = coef
    found = problem.values.point(everywhere, scores, feasible=False)
    known, nothing = Incumbent(found, problem.objective(found)), problem.nothing()
    return known if known.objective < nothing.objective else nothing


def cheap(problem: KernelHinge) -> Incumbent:
    """The machine of as few rows as take next to no time; that of none, if the user wants no more to be done."""
    if problem.run.stopped:
        return problem.nothing()
    n = len(problem.y)
    size = int(min(max(VALUES / n, FEWEST_ROWS), MOST_ROWS))
    sample = problem.sample(size, size // LEAST_SHARE)
    alpha = sample_solution(problem, sample, restored(problem, sample), time.monotonic() + SECONDS)
    coef = problem.y[sample] * alpha
    scores = problem.rows.times(np.arange(n), sample, coef[:, None])[:, 0]
    return of_sample(problem, sample, coef, scores)


def hasty(problem: KernelHinge) -> Start:
    """That machine, beside a cluster of each class."""

    def assign(chunk: Chunk, state: Any) -> Assignment:
        return Assignment((chunk.y > 0).astype(np.int32))

    return Start(Clusters.build(problem, assign, 2)[0], cheap(problem))
