"""Regressions on badly conditioned columns: fitted in better coordinates, evaluated in those of the data."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aidlearn.data.passes.mixing import Mixing, centring, leaving_out, orthogonalising
from aidlearn.data.passes.moments import Moments, inspect
from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.result import Status
from aidlearn.estimators.fitting import Fitted
from aidlearn.estimators.linear.reported import as_reported, objectives, with_objective
from aidlearn.linear.aggregated.hinge_rows import NearlyCollinear
from aidlearn.linear.model.design import Design
from aidlearn.numerics import Float

logger = logging.getLogger("aidlearn")

LEAST_PIVOT = 1e-5
"""What others leave of a column below which other coordinates are tried."""
SAMPLE_ROWS = 10
"""For each column, of the sample that shows what others leave of it; and 2000 at least."""
MOST_SAMPLED_CELLS = 2e7
"""Of that sample."""


@dataclass(frozen=True)
class Attempt:
    """The fits of a model in some coordinates."""

    fits: list[Fitted]
    designs: list[Design]
    crossings: int | None = None
    """Of several quantiles, where they were counted on the way."""


Solve = Callable[[Run, Moments, float, bool], Attempt]
"""Fits of columns with these moments, nearly collinear ones below a pivot refused; whether columns are as given."""


def in_good_coordinates(run: Run, moments: Moments, solve: Solve, model: Any) -> Attempt:
    """Fit columns as they are, unless offsets or near dependencies would leave nothing to prove (no constraints)."""
    if moments.factors is not None:
        found = solve(run, moments, 0.0, True)  # a mixing is one of the columns as they are
        return replace(found, fits=as_reported(run, moments, found.designs, found.fits, model.tol))
    mixing = centring(moments.mean, _deviation(moments)) if model.fit_intercept else None
    free = not model.alpha  # a penalty is one of the columns as they are
    try:
        found = solve(*_mixed(run, mixing, moments, model), LEAST_PIVOT if free else 0.0, mixing is None)
    except NearlyCollinear:
        better = _independent(run, moments, model.fit_intercept)
        mixing = mixing if better is None else better
        found = solve(*_mixed(run, mixing, moments, model), 0.0, mixing is None)
    if mixing is None:
        fits = as_reported(run, moments, found.designs, found.fits, model.tol)
    else:
        fits = _in_original(run, mixing, found.fits, found.designs, model.tol)
    if any(fit.result.status is Status.numerical for fit in fits):
        fits = _no_worse(run, moments, solve, model, fits)
    return replace(found, fits=fits)


def _no_worse(run: Run, moments: Moments, solve: Solve, model: Any, fits: list[Fitted]) -> list[Fitted]:
    """Fits that ended without a proof, or the points without nearly collinear columns where these are better.

    The slopes of such columns are large, and rounding them may cost more than they gain.
    """
    sample = _sample(run)
    if sample is None or time.monotonic() > run.deadline:
        return fits
    mixing = leaving_out(sample, moments.mean, _deviation(moments), model.fit_intercept)
    if mixing is None:
        return fits
    others = solve(*_mixed(run, mixing, moments, model), 0.0, False)
    found = []
    for fit, other in zip(fits, _in_original(run, mixing, others.fits, others.designs, model.tol), strict=True):
        if other.result.objective < fit.result.objective:
            # The bound is one of all columns.
            fit = replace(fit, result=replace(fit.result, point=other.result.point), frames=[])
            fit = with_objective(fit, other.result.objective, 0.0, model.tol)
        found.append(fit)
    return found


def _deviation(moments: Moments) -> Float:
    return np.asarray(np.sqrt(moments.squares / moments.weight))


def _mixed(run: Run, mixing: Mixing | None, moments: Moments, model: Any) -> tuple[Run, Moments]:
    """The run and the moments of mixed columns, with the targets of those before; the sample is chosen anew."""
    if mixing is None:
        return run, moments
    mixed = run.resampled().changed(mixing)
    found = inspect(mixed, model.fit_intercept)
    return mixed, replace(found, targets=moments.targets, exclusive=range(0))


def _independent(run: Run, moments: Moments, fit_intercept: bool) -> Mixing | None:
    """A change of columns that leaves none nearly collinear, if a sample shows which are (of the rows as they are)."""
    sample = _sample(run)
    if sample is None:
        return None
    found = orthogonalising(sample, moments.mean, _deviation(moments), fit_intercept)
    if found is not None:
        logger.info("columns %s are nearly collinear with others: fitted by what those leave of them", found.weak)
    return found


def _sample(run: Run) -> Chunk | None:
    """Rows as they are, if enough of them are not too much."""
    m = run.n_attributes
    wanted = max(SAMPLE_ROWS * m, 2000)
    if wanted * m > MOST_SAMPLED_CELLS:
        return None
    return run.every(Systematic(max(1, run.n_entries // wanted), 0))


def _in_original(run: Run, mixing: Mixing, fits: list[Fitted], designs: list[Design], tol: float) -> list[Fitted]:
    """The fits with points in the coordinates of the data, and with the objectives that these points have.

    Coefficients of 1e9 are rounded by 1e-7, which objectives show; bounds are what was proven.
    """
    points = mixing.to_original(np.array([fit.result.point for fit in fits]), designs[0].fit_intercept)
    reached = objectives(run, designs, points, points[:, : run.n_attributes])
    found = [replace(fit, result=replace(fit.result, point=p), frames=[]) for fit, p in zip(fits, points, strict=True)]
    return [with_objective(fit, float(value), 0.0, tol) for fit, value in zip(found, reached, strict=True)]
