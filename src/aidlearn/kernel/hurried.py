"""A kernel machine for a fit without time: it is trained on few rows, and one product scores all others."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Accuracy, Incumbent, Start
from aidlearn.engine.sums import Assignment
from aidlearn.kernel.dual import KernelDual
from aidlearn.numerics import Float, Int

if TYPE_CHECKING:
    from aidlearn.kernel.problem import KernelHinge


@dataclass(frozen=True)
class SampleSettings:
    """Sizes and accuracies of machines of a sample."""

    gap: float = 1e-2
    """Guess. Relative gap of the solution of a sample, which describes the other rows no better."""
    least_share: int = 4
    """Guess. A class has at least this fraction (1/4) of a sample, if it has as many rows."""
    hurried_values: float = 8e6
    """Guess. Kernel values of a hurried sample with all rows."""
    fewest_rows: int = 40
    """Guess. Minimum rows of a hurried sample."""
    most_rows: int = 400
    """Guess. Maximum rows of a hurried sample."""
    hurried_seconds: float = 0.05
    """Time limit of the solver of a hurried sample."""


SETTINGS = SampleSettings()


def restored_boxes(problem: KernelHinge, sample: Int) -> Float:
    """Return the boxes of a sample, weighted such that each class has the total of all its rows."""
    box = problem.box[sample].copy()
    for label in (-1.0, 1.0):
        here = problem.y[sample] == label
        box[here] *= problem.box[problem.y == label].sum() / box[here].sum()
    return box


def sample_solution(problem: KernelHinge, sample: Int, box: Float, deadline: float) -> Float:
    """Return the dual solution of the sample alone."""
    dual = KernelDual(problem.y[sample], box, problem.edge[sample], matrix=problem.rows.block(sample, sample))
    nothing = np.zeros(len(sample))
    return problem.settings.solver(dual, nothing, nothing, Accuracy(SETTINGS.gap, deadline))


def sample_machine(problem: KernelHinge, size: int, deadline: float) -> tuple[Incumbent, Float]:
    """Train a machine on a sample; return it, or the zero machine if that is better, and the scores of all rows."""
    sample = problem.sample(size, size // SETTINGS.least_share)
    coef = np.zeros(len(problem.y))
    coef[sample] = problem.y[sample] * sample_solution(problem, sample, restored_boxes(problem, sample), deadline)
    scores = problem.rows.times(np.arange(len(problem.y)), sample, coef[sample, None])[:, 0]
    point = problem.values.point(coef, scores, feasible=False)
    known, zero = Incumbent(point, problem.objective(point)), problem.zero_machine()
    return (known if known.objective < zero.objective else zero), scores


def hurried_machine(problem: KernelHinge) -> Incumbent:
    """Train a machine on so few rows that it takes almost no time; the zero machine if the user has stopped the run."""
    if problem.run.stopped:
        return problem.zero_machine()
    size = int(min(max(SETTINGS.hurried_values / len(problem.y), SETTINGS.fewest_rows), SETTINGS.most_rows))
    return sample_machine(problem, size, time.monotonic() + SETTINGS.hurried_seconds)[0]


def hurried_start(problem: KernelHinge) -> Start:
    """Return that machine, and one cluster for each class."""
    clusters, _ = Clusters.build(problem, lambda chunk, _: Assignment((chunk.y > 0).astype(np.int32)), 2)
    return Start(clusters, hurried_machine(problem))
