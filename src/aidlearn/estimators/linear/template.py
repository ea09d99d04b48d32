"""The fit of every linear model, from rows to a certified model, and its scores of rows wherever they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.dask.source import lazy_scores
from aidlearn.data.passes.moments import Moments, inspect, scaled
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.sparse_copy import without_zeros
from aidlearn.data.rows.arrays import is_dask
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.estimators.base import AIDEstimator
from aidlearn.estimators.checks import check_flag, generator
from aidlearn.estimators.fitting import Fitted, checkpoint_of, fit_problem
from aidlearn.estimators.linear.constraints import check_constraints, is_constrained, region_of
from aidlearn.estimators.linear.reported import as_reported
from aidlearn.linear.aggregated.hinge_rows import ranked
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.constraints import Region
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Loss
from aidlearn.linear.picture import frame
from aidlearn.linear.problem import PiecewiseLinear, Procedure, StartMethod
from aidlearn.linear.start.methods import PAPER, start_method
from aidlearn.linear.start.sharpen import Band
from aidlearn.numerics import Float

MOST_COUPLED = 16_000
"""Columns of a matrix of columns x columns: 2 GB, of which a fit holds a few."""
UNCONSTRAINED = ("libsvm", "liblinear")
"""Solvers of aggregated problems without constraints."""
LARGE_OFFSET = 100
"""Sums lose digits of targets whose median is more than this many times their interquartile range."""


@dataclass(frozen=True)
class Terms:
    """Terms of an objective that do not depend on the rows (see :mod:`aidlearn.linear.model.design`)."""

    ridge: Float | float = 0.0
    l1: float = 0.0
    quadratic: Float | None = None
    linear: Float | None = None
    base: float = 0.0


@dataclass(frozen=True)
class MeasuredRows:
    """The rows of a fit as its designs see them, and what one pass has measured of them."""

    run: Run
    """Rows with scaled columns, and targets less the offset."""
    moments: Moments
    offset: float = 0.0
    """Number that was taken from all targets."""
    region: Region | None = None
    """Where the variables of a design may lie."""
    seconds: float = 0.0
    """Time that the pass took."""

    def design(self, loss: Loss, terms: Terms, fit_intercept: bool) -> Design:
        """The model of a loss on these rows."""
        return Design.of(
            loss,
            self.moments,
            fit_intercept=fit_intercept,
            ridge=terms.ridge,
            l1=terms.l1,
            offset=self.offset,
            base=terms.base,
            quadratic=terms.quadratic,
            linear=terms.linear,
            region=self.region,
        )

    def in_units(self, region: Region | None, has_intercept: bool) -> Region | None:
        """A region of coefficients in the units of the data as one of the variables of a design."""
        if region is None:
            return None
        if self.offset and has_intercept:
            region = region.moved(np.append(np.zeros(len(self.moments.mean)), self.offset))
        if self.moments.factors is not None:
            region = region.in_units(np.append(self.moments.factors, np.ones(int(has_intercept))))
        return region

    def slopes(self, points: Float) -> Float:
        """Coefficients in the units of the data."""
        slopes = points[..., : len(self.moments.mean)]
        return slopes if self.moments.factors is None else slopes * self.moments.factors


def large_offset(targets: Float) -> float:
    """The median of targets that lie far from 0 for their spread; else 0."""
    low, middle, high = ranked(targets, 0.25, 0.5, 0.75)
    return 0.0 if abs(middle) / LARGE_OFFSET <= high - low else float(np.median(targets))


class LinearEstimator(AIDEstimator):
    """A model that is linear in the features of a row."""

    no_bootstrap: ClassVar[str] = ""
    """Reason why replicates of this model make no sense, if there is one."""
    _drawn = True
    """Whether pictures of plane data show what is fitted."""
    warm_start: bool = False
    positive: bool = False
    bounds: Any = None
    constraints: Any = None
    _known_start: StartMethod | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_constraints(self)
        if is_constrained(self) and self.solver in UNCONSTRAINED:
            raise ValueError(f"solver={self.solver!r} knows no constraints; use solver='auto'.")
        for name in ("warm_start", "fit_intercept"):
            check_flag(name, getattr(self, name, True), numbers=True)

    def _start_method(self) -> Any:
        return start_method(self.init)

    def _source(self, X: Any, y: Any, sample_weight: Any, keep: Any = None) -> DataSource:
        return without_zeros(super()._source(X, y, sample_weight, keep), self.n_jobs)

    # One fit

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, table, path of a file, Dask array or DataFrame, or DataSource
            See :func:`~aidlearn.open_source` for files and Dask collections.
        y : array of shape (n_samples,), or name of the target's column if X is a path or a Dask DataFrame
            Target of each row; for a classifier its class (numbers, strings or booleans). Not given when X is a source
            that has a target.
        sample_weight : array of shape (n_samples,), optional
            Non-negative; an integer weight equals repeated rows.

        Returns
        -------
        self
        """
        self._check_parameters()
        run = self._opened(X, y, sample_weight)
        region = region_of(self, run.source)
        with one_blas_thread():
            rows = self._measured(run, region)
            fits = self._solved(rows)
        self._store_coefficients(rows, np.array([fit.result.point for fit in fits]))
        self._store_certificate(fits, self._several(), rows.run, rows.offset)
        return self

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Run:
        """A run over the rows, whose targets are what the loss takes."""
        return self._run(self._source(X, y, sample_weight))

    def _measured(self, run: Run, region: Region | None = None) -> MeasuredRows:
        """Validate and measure the rows, in one pass that brings the start's sample along where that takes a pass.

        Columns are scaled where the model is to standardize them, and a large common offset is taken from the targets
        of a regression: it belongs to the intercept alone, and sums of y around 1e9 lose the digits of residuals
        around 1.
        """
        began = time.monotonic()
        if self._sharpens:
            Band.plan_sample(run, run.n_attributes + self.fit_intercept, partial(generator, self.random_state))
        moments = inspect(run, self.fit_intercept, digest=self.checkpoint is not None)
        if not self._sharpens:
            # Groups of rows span levels: only a start that leaves every row alone can eliminate a factor.
            moments = replace(moments, exclusive=range(0))
        if self.standardize:
            # Without an intercept columns are scaled and not centred: a centre would be one.
            deviation = np.sqrt(moments.squares / moments.weight)
            factors = 1.0 / np.where(deviation > 0, deviation, 1.0)
            run, moments = run.scaled(factors), scaled(moments, factors)
        offset = self._offset(moments)
        run = run.subtracted(offset) if offset else run
        rows = MeasuredRows(run, moments, offset, seconds=time.monotonic() - began)
        return replace(rows, region=rows.in_units(region, self.fit_intercept))

    @property
    def _sharpens(self) -> bool:
        """Whether the start is sharpened on all rows."""
        return isinstance(self.init, str) and self.init in ("auto", "band")

    def _offset(self, moments: Moments) -> float:
        """What is taken from all targets; nothing unless the model is a regression."""
        return 0.0

    def _losses(self) -> list[Loss]:
        """The losses that are fitted; none where they depend on the rows or on a penalty that is still to be chosen."""
        return []

    def _several(self) -> bool:
        """Whether fitted attributes have one element for each of several fits."""
        return False

    def _terms(self, moments: Moments) -> Terms:
        """The terms of the objective that do not depend on the rows."""
        return Terms()

    def _design(self, rows: MeasuredRows, loss: Loss) -> Design:
        """The model of one loss on measured rows."""
        return rows.design(loss, self._terms(rows.moments), self.fit_intercept)

    def _solved(self, rows: MeasuredRows) -> list[Fitted]:
        """Fit one loss; the objective is that of the coefficients as they are returned."""
        [loss] = self._losses()
        design = self._design(rows, loss)
        start = self._start_from(self._warm_points(rows, 1)[0])
        fit = self._fit_design(rows.run, design, start, rows.moments)
        return as_reported(rows.run, rows.moments, [design], [fit], self.tol)

    def _store_coefficients(self, rows: MeasuredRows, points: Float) -> None:
        """Coefficients in the units of the data, a row for each of several fits."""
        coef = rows.slopes(points)
        intercept = points[:, coef.shape[1]] + rows.offset if self.fit_intercept else np.zeros(len(points))
        several = self._several()
        self.coef_, self.intercept_ = (coef, intercept) if several else (coef[0], float(intercept[0]))

    # Starts

    def _warm_points(self, rows: MeasuredRows, n_fits: int) -> list[Float | None]:
        """Where an earlier fit of the same shape ended, for each of the fits."""
        nowhere: list[Float | None] = [None] * n_fits
        if not self.warm_start or not hasattr(self, "coef_"):
            return nowhere
        slopes, levels = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        if slopes.shape != (n_fits, len(rows.moments.mean)):
            return nowhere
        if rows.moments.factors is not None:
            slopes = slopes / rows.moments.factors
        if not self.fit_intercept:
            return [np.array(slope) for slope in slopes]
        return [np.append(slope, level - rows.offset) for slope, level in zip(slopes, levels, strict=True)]

    def _begin_with(self, start: StartMethod) -> None:
        """Use a start that another fit of the same rows has left."""
        self._known_start = start

    def _start_from(self, point: Float | None) -> Any:
        """The start that ``init`` asks for, sharpened from a point if it is one that can be."""
        if self._known_start is not None:
            return self._known_start
        start = self._start_method()
        return Band(point) if point is not None and isinstance(start, Band) else start

    def _three_way(self) -> bool:
        """Whether clusters are split below, on and above the kink (the paper's dual procedure)."""
        return False

    def _procedure(self, start: StartMethod) -> Procedure:
        return Procedure(
            solver=SOLVERS[self.solver],
            start=start,
            paper_split=isinstance(self.init, str) and self.init in PAPER,
            three_way=self._three_way(),
            initial_rate=self.initial_rate,
            rng=partial(generator, self.random_state),
        )

    @staticmethod
    def _is_late(run: Run, design: Design, needed: float = 0.0) -> bool:
        """Whether less time is left than needed before anything was solved (and rows can be grouped)."""
        return time.monotonic() + needed > run.deadline and not (design.layout is not None and design.layout.levels)

    def _fit_design(
        self,
        run: Run,
        design: Design,
        start: StartMethod,
        moments: Moments,
        number: int | None = None,
        n_left: int = 1,
    ) -> Fitted:
        """Fit one model (the ``number``-th of several), with its share of the time for ``n_left`` of them."""
        if design.n_coupled > MOST_COUPLED:
            raise ValueError(
                f"X has {design.n_coupled} columns whose products with each other a fit keeps in memory "
                f"({8e-9 * design.n_coupled**2:.0f} GB and more), at most {MOST_COUPLED} are allowed: reduce them "
                "(hashing, a truncated SVD, fewer rare terms), or use a solver without a certificate, such as "
                "scikit-learn's LinearSVC or SGDRegressor. One factor with any number of levels may come on top of "
                "them, as adjacent columns of a sparse matrix, with init='auto'."
            )
        checkpoint = checkpoint_of(self, run.source.origin, moments.digest, number)
        if isinstance(start, Band) and number is None:
            start.serve_once()
        problem = PiecewiseLinear(run, design, self._procedure(start))
        # Pictures are of the data as they are, and scaled rows are not.
        draw = None if self.standardize or not self._drawn else frame
        return fit_problem(problem, self._limits(run, n_left), self._callbacks(), draw, checkpoint)

    def _decided(self, X: Any, decide: Callable[[Float], Any] = lambda scores: scores) -> Any:
        """``decide`` on the scores; lazy, block by block, if X is a Dask collection."""
        if not is_dask(X):
            return decide(self._scores(X))
        check_is_fitted(self)
        self._check_dask_columns(X)
        like = np.asarray(decide(np.zeros((0, *self.coef_.shape[:-1]))))
        return lazy_scores(X, self.coef_, self.intercept_, decide, like, self._recipe())

    def _check_dask_columns(self, X: Any) -> None:
        """The columns of a Dask DataFrame must be those of the fit, in the same order."""
        fitted = getattr(self, "feature_names_in_", None)
        names = list(getattr(X, "columns", []))
        if fitted is not None and names and names != list(fitted):
            raise ValueError(f"The columns of X must be those of the fit, in their order: {list(fitted)}, got {names}.")
