"""The fit that all linear models share, from rows to a certified model, and their scores."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.dask.source import lazy_scores
from aidlearn.data.passes.moments import Moments, inspect, scaled
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.sparse_copy import without_zeros
from aidlearn.data.rows.arrays import is_dask
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import one_blas_thread, uninterrupted
from aidlearn.engine.progress import asks_to_stop
from aidlearn.engine.result import Result, Status
from aidlearn.estimators.base import AIDEstimator
from aidlearn.estimators.checks import check_flag, generator
from aidlearn.estimators.fitting import Fitted, checkpoint_of, fit_problem
from aidlearn.estimators.linear.constraints import check_constraints, is_constrained, region_of
from aidlearn.estimators.linear.coordinates import MeasuredRows, Terms, as_reported, deviation, large_offset
from aidlearn.estimators.linear.row_space import RowSpace, spans_less
from aidlearn.linear.aggregated.solvers import SOLVERS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Loss
from aidlearn.linear.model.unbounded import Unbounded
from aidlearn.linear.picture import frame
from aidlearn.linear.problem import PiecewiseLinear, Procedure, StartMethod
from aidlearn.linear.start.methods import PAPER, start_method
from aidlearn.linear.start.sharpen import Band
from aidlearn.neighbours.batch import Solved
from aidlearn.numerics import Float

MOST_COUPLED = 16_000
"""Maximum number of columns in a matrix of their cross products: 2 GB, and a fit holds a few such matrices."""
UNCONSTRAINED = ("libsvm", "liblinear")
"""Solvers that do not support constraints."""


class LinearEstimator(AIDEstimator):
    """A model that is linear in the features of a row."""

    no_bootstrap: ClassVar[str] = ""
    """Reason why this model has no bootstrap; empty if it has one."""
    _drawn: ClassVar[bool] = True
    """Whether pictures of data in a plane show the fitted problem."""
    _subtracts_offset: ClassVar[bool] = False
    """Whether a large common offset of the targets belongs to the intercept alone."""
    row_duals: bool = False
    """Whether clusters are split below, on and above the kink (the paper's dual procedure)."""
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
            Target of each row; for a classifier its class (numbers, strings or booleans). Omitted if X is a source
            that has a target.
        sample_weight : array of shape (n_samples,), optional
            Non-negative weights; an integer weight equals repeated rows.

        Returns
        -------
        self
        """
        self._check_parameters()
        run = self._opened(X, y, sample_weight)
        region = region_of(self, run.source)
        with one_blas_thread():
            rows = self._measured(run).within(region)
            fits = self._in_few_coordinates(rows)
        with uninterrupted(rows.run.stop):
            self._store_coefficients(rows, np.array([fit.result.point for fit in fits]))
            self._store_certificate(fits, self._several(), rows.run, rows.offset)
        return self

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Run:
        """Return a run over the rows, with targets as the loss takes them."""
        return self._run(self._source(X, y, sample_weight))

    def _measured(self, run: Run) -> MeasuredRows:
        """Validate and measure the rows in one pass, which also draws the start's sample if that needs a pass.

        Columns are scaled if ``standardize`` is set. A large common offset is subtracted from the targets of a
        regression: it belongs to the intercept alone, and sums of y around 1e9 lose the digits of residuals around 1.
        """
        began = time.monotonic()
        if self._sharpens:
            Band.plan_sample(run, run.n_attributes + self.fit_intercept, partial(generator, self.random_state))
        moments = inspect(run, self.fit_intercept or self.standardize, digest=self.checkpoint is not None)
        if not self._sharpens:
            # Groups of rows span factor levels: a factor can be eliminated only if the start keeps every row single.
            moments = replace(moments, exclusive=range(0))
        if self.standardize:
            # Without an intercept, columns are scaled but not centred: centring would add an intercept.
            spread = deviation(moments)
            factors = 1.0 / np.where(spread > 0, spread, 1.0)
            run, moments = run.scaled(factors), scaled(moments, factors)
        offset = large_offset(moments.targets) if self._subtracts_offset and self.fit_intercept else 0.0
        run = run.subtracted(offset) if offset else run
        return MeasuredRows(run, moments, self.fit_intercept, offset, seconds=time.monotonic() - began)

    @property
    def _sharpens(self) -> bool:
        """Whether the start is sharpened on all rows."""
        return isinstance(self.init, str) and self.init in ("auto", "band")

    def _losses(self) -> list[Loss]:
        """Return the losses to fit; none if they depend on the rows or on a penalty that is yet to be chosen."""
        return []

    def _several(self) -> bool:
        """Return whether fitted attributes have one element for each of several fits."""
        return False

    def _terms(self, moments: Moments) -> Terms:
        """Return the terms of the objective that do not depend on the rows."""
        return Terms()

    def _designs(self, rows: MeasuredRows) -> list[Design]:
        """Return the design of each loss on measured rows."""
        terms = self._terms(rows.moments) if rows.terms is None else rows.terms
        return [rows.design(loss, terms) for loss in self._losses()]

    def _in_few_coordinates(self, rows: MeasuredRows) -> list[Fitted]:
        """Fit the losses, in the space of the rows if these are fewer than the columns."""
        terms, designs = self._terms(rows.moments), self._designs(rows)
        if self.checkpoint is not None or not spans_less(rows, terms, designs[0]):
            return self._solved(rows)
        space = RowSpace.of(rows, terms)
        try:
            fits = self._solved(space.rows)
        except Unbounded:  # names a column
            return self._solved(rows)
        return space.in_original(rows, designs, fits, self.tol)

    def _solved(self, rows: MeasuredRows) -> list[Fitted]:
        """Fit the losses; the objectives are those of the returned coefficients."""
        designs = self._designs(rows)
        return as_reported(rows, designs, self._fit_all(rows, designs), self.tol)

    def _fit_all(self, rows: MeasuredRows, designs: list[Design]) -> list[Fitted]:
        """Fit each design; the objectives are those of the points in the coordinates of the rows."""
        warm = self._warm_points(rows, len(designs))
        return [self._fit_design(rows, designs[0], self._start_from(warm[0]))]

    def _store_coefficients(self, rows: MeasuredRows, points: Float) -> None:
        """Store coefficients in the units of the data, one row for each of several fits."""
        coef, intercept = rows.coefficients(points)
        self.coef_, self.intercept_ = (coef, intercept) if self._several() else (coef[0], float(intercept[0]))

    # Starts

    def _warm_points(self, rows: MeasuredRows, n_fits: int) -> list[Float | None]:
        """Return a warm start for each fit, the solution of an earlier fit of the same shape, or None."""
        fitted = self.warm_start and not rows.is_mixed and hasattr(self, "coef_")
        if not fitted or np.atleast_2d(self.coef_).shape != (n_fits, len(rows.moments.mean)):
            return [None] * n_fits
        return [*rows.points(self.coef_, self.intercept_)]

    def _begin_with(self, start: StartMethod) -> None:
        """Use the start left by another fit of the same rows."""
        self._known_start = start

    def _start_from(self, point: Float | None) -> Any:
        """Return the start that ``init`` names; it begins at the point if it sharpens one."""
        if self._known_start is not None:
            return self._known_start
        start = self._start_method()
        return Band(point) if point is not None and isinstance(start, Band) else start

    def _procedure(self, start: StartMethod) -> Procedure:
        return Procedure(
            solver=SOLVERS[self.solver],
            start=start,
            paper_split=isinstance(self.init, str) and self.init in PAPER,
            three_way=self.row_duals,
            initial_rate=self.initial_rate,
            rng=partial(generator, self.random_state),
        )

    @staticmethod
    def _is_late(run: Run, design: Design, needed: float = 0.0) -> bool:
        """Return whether fewer than ``needed`` seconds are left; False if an eliminated factor keeps rows single."""
        return time.monotonic() + needed > run.deadline and not (design.layout is not None and design.layout.levels)

    def _fit_design(
        self, rows: MeasuredRows, design: Design, start: StartMethod, number: int | None = None, n_left: int = 1
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
        run = rows.run
        checkpoint = checkpoint_of(self, run.source.origin, rows.moments.digest, number)
        if isinstance(start, Band) and number is None:
            start.serve_once()
        problem = PiecewiseLinear(run, design, self._procedure(start))
        # Pictures show the data in their own units, which scaled and mixed rows do not have.
        draw = None if self.standardize or rows.is_mixed or not self._drawn else frame
        return fit_problem(problem, self._limits(run, n_left), self._callbacks(), draw, checkpoint)

    def _at_once(self, run: Run, solved: Solved, n_open: int, seconds: float, status: Status = Status.gap) -> Fitted:
        """Return a fit without iterations, from a point that was evaluated on all rows and a proven bound."""
        result = Result.at_once(
            solved.point,
            solved.objective,
            solved.lower_bound,
            n_clusters=solved.n_clusters,
            n_open=n_open,
            n_entries=run.n_entries,
            n_passes=run.n_passes,
            seconds=seconds,
            status=status,
        )
        return Fitted(result, solved.profile, [])

    def _show(self, run: Run, fit: Fitted) -> None:
        """Call the callbacks with the only iteration of a fit; one of them may stop the run."""
        if asks_to_stop(self._callbacks(), fit.result.history[0]):
            run.stop()

    def _refit(self, rows: MeasuredRows, design: Design, point: Float | None) -> Solved:
        """Fit a neighbouring problem on all rows, from a point close to its solution if there is one."""
        start = Band()
        if point is not None:
            start.continue_from(point)
        return Solved.of(self._fit_design(rows, design, start).result)

    def _decided(self, X: Any, decide: Callable[[Float], Any] = lambda scores: scores) -> Any:
        """Apply ``decide`` to the scores; lazily, block by block, if X is a Dask collection."""
        if not is_dask(X):
            return decide(self._scores(X))
        check_is_fitted(self)
        fitted, names = getattr(self, "feature_names_in_", None), list(getattr(X, "columns", []))
        if fitted is not None and names and names != list(fitted):
            raise ValueError(f"The columns of X must be those of the fit, in their order: {list(fitted)}, got {names}.")
        like = np.asarray(decide(np.zeros((0, *self.coef_.shape[:-1]))))
        return lazy_scores(X, self.coef_, self.intercept_, decide, like, self._recipe())


class LinearRegressor(RegressorMixin, LinearEstimator):
    """A model whose scores predict the targets."""

    _subtracts_offset = True

    def predict(self, X: Any) -> Float:
        """Predict the target of every row, with one column for each of several fits.

        A Dask collection gives a lazy Dask array.
        """
        return self._decided(X)
