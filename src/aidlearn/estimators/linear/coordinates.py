"""The rows of a fit in coordinates that keep digits, and objectives of coefficients in the units of the data.

Columns are scaled if the model standardizes them, and a large offset is subtracted from the targets. Regressions on
badly conditioned columns are fitted on mixed columns.

A margin ``e - y (x'w + b)`` of rows around 1e9 is a small difference of large numbers, of which float64 keeps few
digits. If that may change an objective, it is evaluated again, with a single rounding at the end.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.passes.mixing import EXTENDED, Mixing, centring, leaving_out, orthogonalising
from aidlearn.data.passes.moments import Moments, inspect
from aidlearn.data.passes.run import Run, Systematic
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.threads import uninterrupted
from aidlearn.engine.result import Status, below, relative_gap
from aidlearn.estimators.fitting import Fitted
from aidlearn.linear.aggregated.hinge_rows import NearlyCollinear, ranked
from aidlearn.linear.constraints import Region
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Loss
from aidlearn.numerics import Float

logger = logging.getLogger("aidlearn")

Extended = NDArray[np.longdouble]

HALF = 2.0**26
"""Factor that splits a float64's mantissa into halves."""


@dataclass(frozen=True)
class CoordinateSettings:
    """Thresholds for the loss of digits in a fit."""

    large_offset: float = 100.0
    """Ratio of the median of the targets to their interquartile range above which sums lose too many digits."""
    least_pivot: float = 1e-5
    """Smallest fraction of a column unexplained by the others; below it, columns are mixed."""
    sample_rows: int = 10
    """Rows per column of the sample that detects nearly collinear columns; the sample has at least 2000 rows."""
    most_sampled_cells: float = 2e7
    """Maximum number of cells of that sample."""
    doubtful: float = 1e-11
    """Relative error of an objective above which it is evaluated again."""
    exact_cells: float = 5e5
    """Maximum number of cells for which an exact evaluation takes negligible time."""
    signs: float = 4.0
    """Largest sum of the errors of n rows, in units of sqrt(n) times one of them: errors have both signs."""


SETTINGS = CoordinateSettings()


@dataclass(frozen=True)
class Terms:
    """Terms of an objective that do not depend on the rows (see :mod:`aidlearn.linear.model.design`)."""

    ridge: Float | float = 0.0
    l1: float = 0.0
    quadratic: Float | None = None
    linear: Float | None = None
    base: float = 0.0
    weighted: bool = False
    """Whether ridge and l1 are proportional to the sum of the weights."""


@dataclass(frozen=True)
class MeasuredRows:
    """The rows of a fit as its designs see them, and their moments from one pass."""

    run: Run
    """Run over rows with scaled columns, and targets less the offset."""
    moments: Moments
    fit_intercept: bool
    offset: float = 0.0
    """Number that was subtracted from all targets."""
    region: Region | None = None
    """Feasible region of the variables of a design."""
    seconds: float = 0.0
    """Duration of the pass in seconds."""
    is_mixed: bool = False
    """Whether the columns are mixtures of those of the data."""
    terms: Terms | None = None
    """Terms of the objective in these coordinates, if they differ from those of the model."""

    def design(self, loss: Loss, terms: Terms) -> Design:
        """Return the design of a loss on these rows."""
        return Design.of(
            loss,
            self.moments,
            fit_intercept=self.fit_intercept,
            ridge=terms.ridge,
            l1=terms.l1,
            offset=self.offset,
            base=terms.base,
            quadratic=terms.quadratic,
            linear=terms.linear,
            weighted=terms.weighted,
            region=self.region,
        )

    def within(self, region: Region | None) -> MeasuredRows:
        """Return the rows with a feasible region, which is given in the units of the data."""
        if region is not None and self.offset and self.fit_intercept:
            region = region.moved(np.append(np.zeros(len(self.moments.mean)), self.offset))
        if region is not None and self.moments.factors is not None:
            region = region.in_units(np.append(self.moments.factors, np.ones(int(self.fit_intercept))))
        return replace(self, region=region)

    def slopes(self, points: Float) -> Float:
        """Return the slopes of points in the units of the data."""
        slopes = points[..., : len(self.moments.mean)]
        return slopes if self.moments.factors is None else slopes * self.moments.factors

    def coefficients(self, points: Float) -> tuple[Float, Float]:
        """Return slopes and intercepts of points in the units of the data, one row for each."""
        slopes = self.slopes(points)
        return slopes, points[:, slopes.shape[1]] + self.offset if self.fit_intercept else np.zeros(len(points))

    def points(self, coef: Float, intercept: Float | float) -> list[Float]:
        """Return the points that have these coefficients in the units of the data."""
        slopes, levels = np.atleast_2d(coef), np.atleast_1d(intercept)
        if self.moments.factors is not None:
            slopes = slopes / self.moments.factors
        if not self.fit_intercept:
            return [np.array(slope) for slope in slopes]
        return [np.append(slope, level - self.offset) for slope, level in zip(slopes, levels, strict=True)]


def large_offset(targets: Float) -> float:
    """Return the median of targets that are far from 0 relative to their spread; else 0."""
    low, middle, high = ranked(targets, 0.25, 0.5, 0.75)
    return 0.0 if abs(middle) / SETTINGS.large_offset <= high - low else float(np.median(targets))


def deviation(moments: Moments) -> Float:
    """Return the standard deviations of the columns."""
    return np.asarray(np.sqrt(moments.squares / moments.weight))


# Mixed columns


@dataclass(frozen=True)
class Attempt:
    """The fits of a model in one choice of coordinates."""

    fits: list[Fitted]
    designs: list[Design]
    crossings: int | None = None
    """Number of crossings of several quantiles, if the fits counted them."""


Solve = Callable[[MeasuredRows, float], Attempt]
"""Function that fits rows; it raises :class:`NearlyCollinear` if the pivot of a column is below the given one."""


def in_good_coordinates(rows: MeasuredRows, solve: Solve, has_penalty: bool, tol: float) -> Attempt:
    """Fit an unconstrained model, on mixed columns if offsets or near collinearity would spoil the certificate."""
    if rows.moments.factors is not None:  # mixing is for unscaled columns only
        found = solve(rows, 0.0)
        return replace(found, fits=as_reported(rows, found.designs, found.fits, tol))
    mixing = centring(rows.moments.mean, deviation(rows.moments)) if rows.fit_intercept else None
    try:  # a penalty holds for the columns of the data: they are not orthogonalised
        found = solve(_mixed(rows, mixing), 0.0 if has_penalty else SETTINGS.least_pivot)
    except NearlyCollinear:
        mixing = _independent(rows) or mixing
        found = solve(_mixed(rows, mixing), 0.0)
    if mixing is None:
        fits = as_reported(rows, found.designs, found.fits, tol)
    else:
        fits = _in_original(rows.run, mixing, found, tol)
    if any(fit.result.status is Status.numerical for fit in fits):
        fits = _no_worse(rows, solve, fits, tol)
    return replace(found, fits=fits)


def _no_worse(rows: MeasuredRows, solve: Solve, fits: list[Fitted], tol: float) -> list[Fitted]:
    """Return fits that ended without a proof, at points without nearly collinear columns if these are better.

    The slopes of such columns are large, and rounding them may cost more than they gain.
    """
    sample = _sample(rows.run)
    if sample is None or time.monotonic() > rows.run.deadline:
        return fits
    mixing = leaving_out(sample, rows.moments.mean, deviation(rows.moments), rows.fit_intercept)
    if mixing is None:
        return fits
    found = []
    for fit, other in zip(fits, _in_original(rows.run, mixing, solve(_mixed(rows, mixing), 0.0), tol), strict=True):
        if other.result.objective < fit.result.objective:  # the bound for all columns remains valid
            fit = replace(fit, result=replace(fit.result, point=other.result.point), frames=[])
            fit = with_objective(fit, other.result.objective, 0.0, tol)
        found.append(fit)
    return found


def _mixed(rows: MeasuredRows, mixing: Mixing | None) -> MeasuredRows:
    """Return rows with mixed columns and unchanged targets; the start's sample is drawn anew."""
    if mixing is None:
        return rows
    run = rows.run.resampled().changed(mixing)
    moments = replace(inspect(run, rows.fit_intercept), targets=rows.moments.targets, exclusive=range(0))
    return replace(rows, run=run, moments=moments, is_mixed=True)


def _independent(rows: MeasuredRows) -> Mixing | None:
    """Return a mixing that removes near collinearity, if a sample shows which columns cause it."""
    sample = _sample(rows.run)
    if sample is None:
        return None
    found = orthogonalising(sample, rows.moments.mean, deviation(rows.moments), rows.fit_intercept)
    if found is not None:
        logger.info("columns %s are nearly collinear with others: fitted by what those leave of them", found.weak)
    return found


def _sample(run: Run) -> Chunk | None:
    """Return a sample of the unmixed rows; None if there are too many columns to sample enough rows."""
    m = run.n_attributes
    wanted = max(SETTINGS.sample_rows * m, 2000)
    if wanted * m > SETTINGS.most_sampled_cells:
        return None
    return run.every(Systematic(max(1, run.n_entries // wanted), 0))


def _in_original(run: Run, mixing: Mixing, found: Attempt, tol: float) -> list[Fitted]:
    """Return the fits with points in the coordinates of the data, and with the objectives of these points.

    Coefficients of 1e9 have rounding errors of 1e-7, which change objectives; the proven bounds remain.
    """
    points = mixing.to_original(np.array([fit.result.point for fit in found.fits]), found.designs[0].fit_intercept)
    reached = objectives(run, found.designs, points, points[:, : run.n_attributes])
    fits = []
    for fit, point, value in zip(found.fits, points, reached, strict=True):
        moved = replace(fit, result=replace(fit.result, point=point), frames=[])
        fits.append(with_objective(moved, float(value), 0.0, tol))
    return fits


# Objectives of the returned coefficients


def as_reported(rows: MeasuredRows, designs: list[Design], fits: list[Fitted], tol: float) -> list[Fitted]:
    """Return the fits with the objectives of their coefficients in the units of the data, or upper bounds of these."""
    with uninterrupted(rows.run.stop):
        return _as_reported(rows, designs, fits, tol)


def _as_reported(rows: MeasuredRows, designs: list[Design], fits: list[Fitted], tol: float) -> list[Fitted]:
    run, moments = rows.run, rows.moments
    share = min(1.0, SETTINGS.signs / math.sqrt(run.n_entries))
    errors = [share * design.objective_error(fit.result.point) for design, fit in zip(designs, fits, strict=True)]
    reached = [fit.result.objective for fit in fits]
    doubtful = [k for k, value in enumerate(reached) if value and errors[k] > SETTINGS.doubtful * abs(value)]
    if not doubtful:
        return fits
    m, found = run.n_attributes, list(fits)
    if run.n_entries * m > SETTINGS.exact_cells:
        values = [reached[k] + errors[k] for k in doubtful]
    else:
        points = np.array([fits[k].result.point for k in doubtful])
        slopes = points[:, :m]
        if moments.factors is not None:
            run = run.unscaled()  # the slopes are rounded in the units of the data
            slopes = slopes * moments.factors
        values = objectives(run, [designs[k] for k in doubtful], points, slopes).tolist()
        # With an offset, predictions are rounded too: the gap covers that rounding, whatever its sign.
        least = [reached[k] if designs[k].offset else -math.inf for k in doubtful]
        values = list(map(max, values, least))
    for k, value in zip(doubtful, values, strict=True):
        found[k] = with_objective(fits[k], value, designs[k].trivial_bound, tol)
    return found


def with_objective(fit: Fitted, objective: float, trivial_bound: float, tol: float) -> Fitted:
    """Return a fit with the objective of its point, and the better of its proven bound and the trivial one."""
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
    """Compute objectives of points with these slopes in the units of the rows, by one pass; exactly for few rows."""
    intercepts = [float(p[-1] + d.offset) if d.fit_intercept else 0.0 for d, p in zip(designs, points, strict=True)]
    total = np.zeros(len(points), dtype=EXTENDED)
    few = run.n_entries * run.n_attributes <= SETTINGS.exact_cells

    def measure(chunk: Chunk, state: Any) -> tuple[Extended, None]:
        X = np.asarray(chunk.X.toarray() if sparse.issparse(chunk.X) else chunk.X)
        losses = []
        for design, w, intercept in zip(designs, slopes, intercepts, strict=True):
            sign, e = design.loss.fold(chunk.y)
            e = np.broadcast_to(e, len(X))
            # The offset was subtracted from the targets and is part of the intercept.
            if few:
                sign = np.ones(len(X)) if sign is None else sign
                z = _exactly(e, X, sign[:, None] * w, [-sign * intercept, sign * design.offset])
            else:
                scores = X.astype(EXTENDED) @ w.astype(EXTENDED) + (EXTENDED(intercept) - EXTENDED(design.offset))
                z = e.astype(EXTENDED) - (scores if sign is None else sign * scores)
            losses.append(chunk.weight @ design.loss.values(z))
        return np.array(losses, dtype=EXTENDED), None

    def collect(part: Extended) -> None:
        total[:] += part

    run.map(measure, collect=collect)
    return np.array([float(t) + d.penalty(p) for t, d, p in zip(total, designs, points, strict=True)])


def _exactly(e: Float, X: NDArray[Any], slopes: Float, others: list[Float]) -> Any:
    """Compute ``e - X slopes + others`` with one rounding: products of halves are exact, as are sums with their errors.

    See Ogita, Rump and Oishi, Accurate sum and dot product (SIAM Journal on Scientific Computing, 2005).
    """
    total, lost = e.astype(EXTENDED), np.zeros(len(e), dtype=EXTENDED)

    def add(term: Extended) -> None:
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


def _halves(x: NDArray[Any]) -> tuple[Extended, Extended]:
    """Split float64 numbers into sums of two numbers of at most 27 bits each."""
    mantissa, exponent = np.frexp(x.astype(np.float64))
    high = np.ldexp(np.round(mantissa * HALF), exponent) / HALF
    return high.astype(EXTENDED), (x - high).astype(EXTENDED)
