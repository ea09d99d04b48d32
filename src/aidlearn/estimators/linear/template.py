"""What the linear models share: measuring the data, fitting one problem, scores of rows wherever they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.dask.source import lazy_scores
from aidlearn.data.passes.moments import Moments, inspect, scaled
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.sparse_copy import without_zeros
from aidlearn.data.rows.arrays import is_dask
from aidlearn.data.rows.source import DataSource
from aidlearn.estimators.base import AIDEstimator
from aidlearn.estimators.checks import check_flag, generator
from aidlearn.estimators.fitting import Fitted, checkpoint_of, fit_problem
from aidlearn.estimators.linear.constraints import check_constraints, is_constrained, region_of
from aidlearn.linear.aggregated.hinge_rows import ranked
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.constraints.region import Region
from aidlearn.linear.model.design import Design
from aidlearn.linear.picture import frame
from aidlearn.linear.problem import PiecewiseLinear, Procedure, StartMethod
from aidlearn.linear.start.methods import PAPER, start_method
from aidlearn.linear.start.sharpen import Band
from aidlearn.linear.start.warm import Warm
from aidlearn.numerics import Float

MOST_COUPLED = 16_000
"""Columns of a matrix of columns x columns: 2 GB, of which a fit holds a few."""
UNCONSTRAINED = ("libsvm", "liblinear")
"""Solvers of aggregated problems without constraints."""
LARGE_OFFSET = 100
"""Targets whose middle is this many times their spread away from 0 lose digits in sums."""


class LinearEstimator(AIDEstimator):
    """A model that is linear in the features of a row."""

    _solvers = tuple(SOLVERS)
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

    def _region(self, run: Run) -> Region | None:
        """Where the coefficients may lie, in the units of the data."""
        return region_of(self, run.source)

    def _in_units(self, region: Region | None, moments: Moments, offset: float = 0.0) -> Region | None:
        """The same for the variables of a design: columns that were scaled, targets that an offset was taken from."""
        if region is None:
            return None
        if offset and self.fit_intercept:
            region = region.moved(np.append(np.zeros(len(moments.mean)), offset))
        if moments.factors is not None:
            region = region.in_units(np.append(moments.factors, np.ones(int(self.fit_intercept))))
        return region

    def _warm_points(self, n_fits: int, moments: Moments, offset: float = 0.0) -> list[Float | None]:
        """Where an earlier fit of the same shape ended, for each of the fits."""
        nowhere: list[Float | None] = [None] * n_fits
        if not self.warm_start or not hasattr(self, "coef_"):
            return nowhere
        slopes, levels = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        if slopes.shape != (n_fits, len(moments.mean)):
            return nowhere
        if moments.factors is not None:
            slopes = slopes / moments.factors
        if not self.fit_intercept:
            return [np.array(slope) for slope in slopes]
        return [np.append(slope, level - offset) for slope, level in zip(slopes, levels, strict=True)]

    def _begin_with(self, start: StartMethod) -> None:
        """Use a start that another fit of the same rows has left."""
        self._known_start = start

    def _start_from(self, point: Float | None) -> Any:
        """The start that ``init`` asks for, sharpened from a point if it is one that can be."""
        if self._known_start is not None:
            return self._known_start
        start = self._start_method()
        return Warm(point) if point is not None and isinstance(start, Band) else start

    def _three_way(self) -> bool:
        """Whether clusters are split below, on and above the kink (the paper's dual procedure)."""
        return False

    def _measure(self, run: Run) -> tuple[Run, Moments]:
        """Validate and measure the data, in one pass that brings the start's sample along where that takes a pass.

        The run that is returned has standardized columns where the model asks for them.
        """
        sharpened = isinstance(self.init, str) and self.init in ("auto", "band")
        if sharpened:
            Band.plan_sample(run, run.n_attributes + self.fit_intercept, partial(generator, self.random_state))
        moments = inspect(run, self.fit_intercept, digest=self.checkpoint is not None)
        if not sharpened:
            # Groups of rows span levels: only a start that leaves every row alone can eliminate a factor.
            moments = replace(moments, exclusive=range(0))
        if not self.standardize:
            return run, moments
        # Without an intercept columns are scaled and not centred: a centre would be one.
        deviation = np.sqrt(moments.squares / moments.weight)
        factors = 1.0 / np.where(deviation > 0, deviation, 1.0)
        return run.scaled(factors), scaled(moments, factors)

    @staticmethod
    def _slopes(points: Float, moments: Moments) -> Float:
        """Coefficients in the units of the data."""
        slopes = points[..., : len(moments.mean)]
        return slopes if moments.factors is None else slopes * moments.factors

    def _measure_and_centre(self, run: Run) -> tuple[Run, Moments, float]:
        """The same for a regression: a large common offset of the targets belongs to the intercept alone.

        Sums of y around 1e9 lose the digits of residuals around 1; sums of y minus its median do not.
        """
        run, moments = self._measure(run)
        low, middle, high = ranked(moments.targets, 0.25, 0.5, 0.75)
        if not self.fit_intercept or abs(middle) / LARGE_OFFSET <= high - low:
            return run, moments, 0.0
        middle = float(np.median(moments.targets))
        return run.subtracted(middle), moments, middle

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
        checkpoint = checkpoint_of(self, run.source.recipe, moments.digest, number)
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
