"""What is reported belongs to what is returned: objectives of coefficients as they are rounded, where digits are short.

A margin ``e - y (x'w + b)`` of rows around 1e9 is a small difference of large numbers: float64 keeps few digits of it.
Where that may change an objective, it is evaluated once more, exactly up to its last rounding.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.passes.mixing import EXTENDED
from aidlearn.data.passes.moments import Moments
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.result import Status, below, relative_gap
from aidlearn.estimators.fitting import Fitted
from aidlearn.linear.model.design import Design
from aidlearn.numerics import Float

DOUBTFUL = 1e-11
"""Relative error of an objective from which it is evaluated again."""
MOST_EXACT_CELLS = 5e5
"""Of rows for which this takes no time to speak of."""
HALF = 2.0**26
"""Half of the bits of a float64's mantissa."""
SIGNS = 4.0
"""Errors of many rows have both signs: this many times the root of their number times one of them is not exceeded."""


def as_reported(run: Run, moments: Moments, designs: list[Design], fits: list[Fitted], tol: float) -> list[Fitted]:
    """The fits with objectives that are those of their coefficients in the units of the data, or are no lower."""
    share = min(1.0, SIGNS / math.sqrt(run.n_entries))
    errors = [share * design.objective_error(fit.result.point) for design, fit in zip(designs, fits, strict=True)]
    doubtful = [
        k for k, fit in enumerate(fits) if fit.result.objective and errors[k] > DOUBTFUL * abs(fit.result.objective)
    ]
    if not doubtful:
        return fits
    m, found = run.n_attributes, list(fits)
    if run.n_entries * m > MOST_EXACT_CELLS:
        values = [fits[k].result.objective + errors[k] for k in doubtful]
    else:
        points = np.array([fits[k].result.point for k in doubtful])
        slopes = points[:, :m]
        if moments.factors is not None:
            run = run.unscaled()  # the slopes are rounded in the units of the data
            slopes = slopes * moments.factors
        chosen = [designs[k] for k in doubtful]
        values = objectives(run, chosen, points, slopes).tolist()
        # Beside an offset they carry what rounding makes of predictions, on whichever side, so that the gap does.
        before = [fits[k].result.objective if designs[k].offset else -math.inf for k in doubtful]
        values = list(map(max, values, before))
    for k, value in zip(doubtful, values, strict=True):
        found[k] = with_objective(fits[k], value, designs[k].trivial_bound, tol)
    return found


def with_objective(fit: Fitted, objective: float, trivial_bound: float, tol: float) -> Fitted:
    """A fit with the objective that its point has; the bound is what was proven, or a trivial one."""
    before = fit.result
    bound = max(below(before.lower_bound, objective), below(trivial_bound, objective))
    gap = relative_gap(objective, bound)
    status = before.status
    if status is Status.numerical and gap <= tol:
        status = Status.gap
    elif status.reached_tolerance and gap > tol:
        status = Status.numerical
    history = before.history
    if history:
        last = replace(history[-1], best_objective=objective, best_lower_bound=bound, gap=gap)
        history = [*history[:-1], last]
    return replace(fit, result=replace(before, objective=objective, lower_bound=bound, status=status, history=history))


def objectives(run: Run, designs: list[Design], points: Float, slopes: Float) -> Float:
    """Of points with these slopes in the units of the rows, by one pass: few rows exactly, others in long double."""
    intercepts = [float(p[-1] + d.offset) if d.fit_intercept else 0.0 for d, p in zip(designs, points, strict=True)]
    total = np.zeros(len(points), dtype=EXTENDED)
    few = run.n_entries * run.n_attributes <= MOST_EXACT_CELLS

    def measure(chunk: Chunk, state: Any) -> tuple[Any, None]:
        X = np.asarray(chunk.X.toarray() if sparse.issparse(chunk.X) else chunk.X)
        losses = []
        for design, w, intercept in zip(designs, slopes, intercepts, strict=True):
            sign, e = design.loss.fold(chunk.y)
            e = np.broadcast_to(e, len(X))
            # The offset was taken from the targets, and is part of what is returned.
            if few:
                sign = np.ones(len(X)) if sign is None else sign
                z = _exactly(e, X, sign[:, None] * w, [-sign * intercept, sign * design.offset])
            else:
                scores = X.astype(EXTENDED) @ w.astype(EXTENDED) + (EXTENDED(intercept) - EXTENDED(design.offset))
                z = e.astype(EXTENDED) - (scores if sign is None else sign * scores)
            losses.append(chunk.weight @ design.loss.values(z))
        return np.array(losses, dtype=EXTENDED), None

    def collect(part: Any) -> None:
        total[:] += part

    run.map(measure, collect=collect)
    return np.array([float(t) + d.penalty(p) for t, d, p in zip(total, designs, points, strict=True)])


def _exactly(e: Float, X: NDArray[Any], slopes: Float, others: list[Float]) -> Any:
    """``e - X slopes + others``, rounded once: products of halves of numbers are exact, and so are sums in pairs.

    See Ogita, Rump and Oishi, Accurate sum and dot product (SIAM Journal on Scientific Computing, 2005).
    """
    total, lost = e.astype(EXTENDED), np.zeros(len(e), dtype=EXTENDED)

    def add(term: Any) -> None:
        nonlocal total, lost
        together = total + term
        of_term = together - total
        lost = lost + ((total - (together - of_term)) + (term - of_term))
        total = together

    for x, w in zip(X.T, slopes.T, strict=True):
        for a in _halves(x):
            for b in _halves(w):
                add(-(a * b))
    for term in others:
        add(term.astype(EXTENDED))
    return total + lost


def _halves(x: NDArray[Any]) -> tuple[Any, Any]:
    """Two numbers of at most 27 bits each that a float64 is the sum of."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    high = np.ldexp(np.round(mantissa * HALF), exponent) / HALF
    return high.astype(EXTENDED), (x - high).astype(EXTENDED)
