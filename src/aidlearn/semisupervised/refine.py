"""Local search on the true objective of the semi-supervised SVM (paper, section 3.3), after AID.

Smooth continuation (the losses are smoothed, less and less) leaves a poor local optimum; label switching (label every
entry by its side, solve the supervised problem exactly, repeat) ends in one. Only improvements are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from aidlearn.data.passes.run import Systematic
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.problem import Incumbent, Trial
from aidlearn.numerics import Float
from aidlearn.semisupervised.aggregated import Balance
from aidlearn.semisupervised.branch_and_bound import switch_labels
from aidlearn.semisupervised.problem import SemiSupervised

WIDTHS = (1.0, 0.3, 0.1, 0.03)
"""Smoothing widths, in units of the margin."""
MINIMISER_STEPS = 100
"""Of L-BFGS at each width: the next one starts from there."""
MINIMISER_MEMORY = 20
"""Pairs of gradients that L-BFGS keeps."""
SWITCHING_CELLS = 5_000_000
"""Up to this number of cells the supervised problems of label switching are solved (they hold all rows)."""


def refine(problem: SemiSupervised, incumbent: Incumbent, deadline: float) -> Incumbent:
    """The best of the incumbent and what local search finds from it."""
    best = incumbent
    try:
        for start in (_continued(problem, incumbent.point, deadline), incumbent.point):
            for point in (start, *_switched(problem, start, deadline)):
                best = _better(problem, best, point)
    except KeyboardInterrupt:
        pass  # what was found so far is kept
    return best


def _better(problem: SemiSupervised, best: Incumbent, point: Float) -> Incumbent:
    value = _objective(problem, point)
    return Incumbent(point, value) if value < best.objective else best


def _objective(problem: SemiSupervised, point: Float) -> float:
    total = [problem.penalty(point)]

    def evaluate(chunk: Chunk, state: Any) -> tuple[float, None]:
        return float(problem.evaluate(chunk, Trial([point])).objectives[0]), None

    problem.run.map(evaluate, collect=total.append)
    return float(sum(total))


def _continued(problem: SemiSupervised, point: Float, deadline: float) -> Float:
    """Minimise smoothed objectives, one after the other."""
    balance = problem.balance_of_source()
    to_point, x = _free_variables(balance, point)
    for width in WIDTHS:
        if time.monotonic() > deadline:
            break
        found = minimize(
            _smoothed(problem, balance, to_point, width, deadline),
            x,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": MINIMISER_STEPS, "maxcor": MINIMISER_MEMORY},
        )
        x = found.x
    return to_point(x)


def _free_variables(balance: Balance | None, point: Float) -> tuple[Callable[[Float], Float], Float]:
    """The point as a function of variables without constraint: with a balance, the intercept follows from w."""
    if balance is None:
        return (lambda x: x), point
    return balance.point, point[:-1]


def _smoothed(
    problem: SemiSupervised, balance: Balance | None, to_point: Callable[[Float], Float], h: float, deadline: float
) -> Callable[[Float], tuple[float, Float]]:
    """Value and gradient of the objective with a Huber hinge of width h and ``sqrt(z^2 + h^2)`` for ``|z|``."""
    m = problem.n_attributes

    def value_and_gradient(x: Float) -> tuple[float, Float]:
        point = to_point(x)
        total = np.zeros(m + 2)

        def evaluate(chunk: Chunk, state: Any) -> tuple[Float, None]:
            z = problem.scores(chunk, point)
            labelled = chunk.y != 0
            size = np.sqrt(z * z + h * h)
            slack = 1.0 - np.where(labelled, chunk.y * z, size)
            slope = np.clip(slack / h + 0.5, 0.0, 1.0)
            loss = np.where(slack > h / 2, slack, 0.5 * h * slope**2)
            weight = problem.loss_weights(chunk)
            pull = -weight * slope * np.where(labelled, chunk.y, z / size)
            return np.concatenate([chunk.transposed_times(pull), [pull.sum(), weight @ loss]]), None

        def collect(part: Float) -> None:
            total[:] += part

        problem.run.map(evaluate, collect=collect)
        w = point[:-1]
        gradient = total[:-1]
        gradient[:-1] += w
        if balance is not None:
            gradient = gradient[:-1] - balance.mean * gradient[-1]
        if time.monotonic() > deadline:
            gradient = np.zeros_like(gradient)  # tells the minimiser to stop here
        return 0.5 * float(w @ w) + float(total[-1]), gradient

    return value_and_gradient


def _switched(problem: SemiSupervised, point: Float, deadline: float) -> list[Float]:
    """The point that label switching ends in (none where the rows are too many to be solved together)."""
    run = problem.run
    if run.n_entries * run.n_attributes > SWITCHING_CELLS or time.monotonic() > deadline:
        return []
    entries = run.every(Systematic(1, 0))
    sums = problem.aggregate(entries, np.arange(entries.n_entries), entries.n_entries)
    small = problem.aggregated(sums)
    return [small.point(*switch_labels(small.rows, *small.coordinates(point), deadline))]
