"""Local search on the true objective of the semi-supervised SVM (paper, section 3.3), after AID.

Continuation minimises losses with less and less smoothing and can escape a poor local optimum. Label switching labels
every entry by its side, solves the supervised problem, and ends in a local optimum. Only improvements are kept.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize

from aidlearn.data.passes.run import Systematic, total
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.problem import Incumbent
from aidlearn.numerics import Float
from aidlearn.semisupervised.branch_and_bound import switch_labels
from aidlearn.semisupervised.problem import Balance, SemiSupervised


@dataclass(frozen=True)
class RefineSettings:
    """Sizes of the local search."""

    widths: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03)
    """Guess. Smoothing widths, in units of the margin."""
    minimiser_steps: int = 100
    """Guess. Steps of L-BFGS at each width; the next width continues from its result."""
    minimiser_memory: int = 20
    """Guess. Number of correction pairs that L-BFGS keeps."""
    switching_cells: int = 5_000_000
    """Maximum number of cells for label switching, whose supervised problems hold all rows: 40 MB."""


SETTINGS = RefineSettings()


def refine(problem: SemiSupervised, incumbent: Incumbent, deadline: float) -> Incumbent:
    """Return the best of the incumbent and the results of local search."""
    best = incumbent
    try:
        for start in (_continued(problem, incumbent.point, deadline), incumbent.point):
            for point in (start, *_switched(problem, start, deadline)):
                objective = problem.objective(point)
                if objective < best.objective:
                    best = Incumbent(point, objective)
    except KeyboardInterrupt:
        pass  # the best point so far is returned
    return best


def _continued(problem: SemiSupervised, point: Float, deadline: float) -> Float:
    """Minimise objectives with less and less smoothing."""
    balance = problem.balance_of_source()
    x = point if balance is None else point[:-1]  # with a balance, w determines the intercept
    for width in SETTINGS.widths:
        if time.monotonic() > deadline:
            break
        smoothed = partial(_smoothed, problem, balance, width, deadline)
        options = {"maxiter": SETTINGS.minimiser_steps, "maxcor": SETTINGS.minimiser_memory}
        x = minimize(smoothed, x, jac=True, method="L-BFGS-B", options=options).x
    return x if balance is None else balance.point(x)


def _smoothed(
    problem: SemiSupervised, balance: Balance | None, h: float, deadline: float, x: Float
) -> tuple[float, Float]:
    """Return value and gradient of the objective with a Huber hinge of width h and ``sqrt(z^2 + h^2)`` for ``|z|``."""
    point = x if balance is None else balance.point(x)

    def evaluate(chunk: Chunk) -> Float:
        z = problem.scores(chunk, point)
        labelled = chunk.y != 0
        size = np.sqrt(z * z + h * h)
        slack = 1.0 - np.where(labelled, chunk.y * z, size)
        slope = np.clip(slack / h + 0.5, 0.0, 1.0)
        loss = np.where(slack > h / 2, slack, 0.5 * h * slope**2)
        weight = problem.loss_weights(chunk)
        pull = -weight * slope * np.where(labelled, chunk.y, z / size)
        return np.concatenate([chunk.transposed_times(pull), [pull.sum(), weight @ loss]])

    sums = total(problem.run, evaluate)
    w, gradient = point[:-1], sums[:-1]
    gradient[:-1] += w
    if balance is not None:
        gradient = gradient[:-1] - balance.mean * gradient[-1]
    if time.monotonic() > deadline:
        gradient = np.zeros_like(gradient)  # ends the minimiser
    return 0.5 * float(w @ w) + float(sums[-1]), gradient


def _switched(problem: SemiSupervised, point: Float, deadline: float) -> list[Float]:
    """Return the point where label switching ends, in a list that is empty if there are too many rows."""
    run = problem.run
    if run.n_entries * run.n_attributes > SETTINGS.switching_cells or time.monotonic() > deadline:
        return []
    entries = run.every(Systematic(1, 0))
    sums = problem.aggregate(entries, np.arange(entries.n_entries), entries.n_entries)
    small = problem.aggregated(sums)
    return [small.point(*switch_labels(small.rows, *small.coordinates(point), deadline))]
