"""The linear one-class SVM as a quantile regression with a ridge.

    minimise over (w, rho)   1/2 |w|^2 - rho + 1/(nu S) sum_i s_i max(0, rho - w'x_i),     S = sum_i s_i

With m the weighted mean of the rows and ``max(0, z) = nu z + max((1 - nu) z, -nu z)``, the sum of the ``nu z`` parts is
``rho - w'm``: the linear term in rho cancels, and ``1/2 |w|^2 - w'm = 1/2 |w - m|^2 - 1/2 |m|^2``. So with u = w - m
and b = |m|^2 - rho the problem is

    -1/2 |m|^2 + minimise over (u, b)   1/2 |u|^2 + 1/(nu S) sum_i s_i check(y_i - u'x_i - b),     y_i = |m|^2 - m'x_i

with the check function of the quantile 1 - nu, to which the core, its start and its certificate apply unchanged.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import _num_samples

from aidlearn.data.passes.moments import Moments
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import Projection
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import Targets
from aidlearn.data.rows.source import DataSource
from aidlearn.data.tables.conversion import is_elsewhere
from aidlearn.engine.result import Result, Status
from aidlearn.estimators.base import FITTED_ATTRIBUTES
from aidlearn.estimators.checks import check_number
from aidlearn.estimators.declared import LinearOneClassParameters
from aidlearn.estimators.fitting import Fitted
from aidlearn.estimators.linear.coordinates import MeasuredRows, Terms, as_reported, with_objective
from aidlearn.estimators.linear.template import LinearEstimator
from aidlearn.estimators.parameters import documented
from aidlearn.linear.aggregated.certificate import certify
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.linear.model.aggregated_problem import aggregated_rows
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Loss, one_class
from aidlearn.numerics import Float

ON_HYPERPLANE = 1e-10
"""Distance of a score from the hyperplane, relative to the objective, up to which a row counts as on it."""
KEPT = 10_000
"""Number of rows nearest to the hyperplane that are searched for the best offset."""
ROUNDING = 16 * EPS
"""Rounding error of a score, relative to the size of its terms."""
SAME_WEIGHT = 1e-12
"""Relative difference up to which sums of weights count as equal."""


class LinearOneClassSVM(LinearOneClassParameters, OutlierMixin, LinearEstimator):
    __doc__ = f"""Linear one-class support vector machine with a certified optimality gap.

    Minimises ``1/2 |w|^2 - rho + 1/(nu S) sum_i s_i max(0, rho - w'x_i)`` with S the sum of the weights s_i: a
    hyperplane that keeps most rows away from the origin, so the rows should lie away from it. Decision values are those
    of :class:`sklearn.svm.OneClassSVM` with a linear kernel: ``coef_`` and ``offset_`` are w and rho times ``nu S``.

    Parameters
    ----------{documented(LinearOneClassParameters)}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    offset_ : ndarray of shape (1,)
        ``decision_function = score_samples - offset_``.
    intercept_ : ndarray of shape (1,)
        ``-offset_``.{FITTED_ATTRIBUTES}

    Notes
    -----
    The optimum is not positive. If the origin lies among the rows it is 0, with w = rho = 0: the model does not
    distinguish rows, and it is certified only if the bound is 0 up to rounding. If ``nu S`` is a sum of weights, the
    optimal rho may be an interval; its middle is taken. Rows on the hyperplane are no outliers.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LinearOneClassSVM
    >>> X = np.random.default_rng(0).normal(loc=5.0, size=(2000, 2))
    >>> model = LinearOneClassSVM(nu=0.1).fit(X)
    >>> model.predict([[5.0, 5.0], [0.0, 0.0]]), bool(model.gap_ <= 1e-4)
    (array([ 1, -1]), True)
    >>> round(float((model.predict(X) == -1).mean()), 2)
    0.1
    """

    _needs_target = False
    no_bootstrap = "its loss depends on the mean of the rows"
    _drawn = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("nu", self.nu, low=0, high=1, include_high=True)

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Run:
        """Return a run over the rows; y is ignored, or names a column of a file or Dask DataFrame to leave out."""
        if not (is_elsewhere(X) or isinstance(X, DataSource)):
            y = np.zeros(_num_samples(X))
        return self._run(self._source(X, y, sample_weight), Targets(ignored=True))

    def _terms(self, moments: Moments) -> Terms:
        """Return the terms of the one-class problem up to its scale: the cost of the intercept is that of -rho."""
        return Terms(ridge=1.0, linear=np.append(np.zeros(len(moments.mean)), 1.0))

    def _designs(self, rows: MeasuredRows) -> list[Design]:
        return [_stated(self._regression(rows))]

    def _regression(self, rows: MeasuredRows) -> Design:
        """Return the design of the equivalent quantile regression."""
        moments, mean = rows.moments, rows.moments.mean
        # The targets |m|^2 - m'x have mean 0 and, if columns are uncorrelated, this standard deviation.
        spread = float(np.sqrt(mean**2 @ moments.squares / moments.weight))
        rows = replace(rows, moments=replace(moments, targets=np.array([-spread, spread])))
        terms = Terms(ridge=1.0, base=-0.5 * float(mean @ mean))
        return rows.design(one_class(float(self.nu), moments.weight), terms)

    def _solved(self, rows: MeasuredRows) -> list[Fitted]:
        """Solve the equivalent quantile regression, and convert its solution to the one-class problem."""
        mean, design = rows.moments.mean, self._regression(rows)
        projected = replace(rows, run=rows.run.changed(Projection(mean, float(mean @ mean))))
        fit = self._fit_design(projected, design, self._start_method())
        stated = replace(rows, run=rows.run.changed(Projection(np.zeros_like(mean), 0.0)))
        return [self._as_stated(stated, design, fit)]

    def _store_coefficients(self, rows: MeasuredRows, points: Float) -> None:
        self.coef_, self.intercept_ = rows.coefficients(points)
        self.offset_ = 0.0 - self.intercept_

    def _as_stated(self, rows: MeasuredRows, design: Design, fit: Fitted) -> Fitted:
        """Return the fit of the one-class problem: point ``(coef_, intercept_)``, its objective and its bound."""
        run, nu, mean, result = rows.run, float(self.nu), rows.moments.mean, fit.result
        stated, level, rounding = _stated(design), float(mean @ mean), design.objective_error(result.point)
        point = (result.point + np.append(mean, -level)) / design.loss.scale
        bound, nothing = _proven(result, stated, point, design.loss, rounding)
        if nothing:
            optimum = replace(result, point=np.zeros_like(point), objective=0.0, lower_bound=0.0, status=Status.optimal)
            return with_objective(replace(fit, result=optimum), 0.0, 0.0, self.tol)
        objective = result.objective + rounding
        if not run.stopped:
            near = ON_HYPERPLANE * abs(objective) / design.loss.scale
            point, objective = _settled(run, stated, point, nu, near)
        fit = replace(fit, result=replace(result, point=point, objective=objective, lower_bound=bound))
        fit = with_objective(fit, objective, design.trivial_bound, self.tol)
        [fit] = as_reported(rows, [stated], [fit], self.tol)
        if fit.result.objective < 0:
            return fit
        fit = replace(fit, result=replace(fit.result, point=np.zeros_like(point)))
        return with_objective(fit, 0.0, design.trivial_bound, self.tol)

    def decision_function(self, X: Any) -> Float:
        """Return the signed score of each row: negative for outliers."""
        return self._decided(X, lambda scores: scores[:, 0])

    def score_samples(self, X: Any) -> Float:
        """Return ``x'w`` of each row, without the offset."""
        offset = self.offset_ if hasattr(self, "offset_") else 0.0
        return self._decided(X, lambda scores: scores[:, 0] + offset)

    def predict(self, X: Any) -> Any:
        """Return 1 for inliers, -1 for outliers."""
        return self._decided(X, lambda scores: np.where(scores[:, 0] >= 0, 1, -1))


def _stated(design: Design) -> Design:
    """Return the one-class problem over ``(coef_, -offset_)``, in the units of the fitted rows.

    It avoids cancellation: its targets are 0, while the targets and the constant of the regression grow with the square
    of the rows. A constant column does not belong to the intercept here.
    """
    scale = design.loss.scale
    return replace(
        design,
        loss=Loss(scale**2, (0.0,), (0.0,)),
        ridge=scale**2,
        linear=np.append(np.zeros(design.n_attributes), scale),
        base=0.0,
        constant=np.zeros_like(design.constant),
    )


def _proven(result: Result, stated: Design, point: Float, loss: Loss, rounding: float) -> tuple[float, bool]:
    """Return a lower bound of the one-class problem, solved by ``point``, and whether it is 0 up to rounding.

    The dual ``a`` of the last clusters, with means x_k, proves ``-1/2 |sum_k a_k x_k|^2`` to full precision; the bound
    is 0 if the dual can be repaired to make that sum 0. ``loss`` is the loss of the regression, ``rounding``
    the rounding error of its bounds.
    """
    bound = result.lower_bound - rounding
    if result.solution is None or result.solution.dual is None:
        return bound, False
    rows = aggregated_rows(stated, result.clusters.store)
    rows = replace(rows, e=np.zeros_like(rows.e))
    # The regression lacks the terms nu z of the losses (see the head of this file): add their duals.
    dual = loss.scale * result.solution.dual + loss.tilts[0] * rows.weight
    bound = max(bound, certify(rows, dual, point, enough=bound).bound)
    if bound < -rounding:
        return bound, False
    exactly = replace(rows, ridge=np.zeros_like(rows.ridge))
    return bound, certify(exactly, dual, np.zeros_like(point)).bound > -math.inf


def _nearest(rows: Float) -> Float:
    """Return the ``KEPT`` columns whose first entries are the smallest in size."""
    if rows.shape[1] <= KEPT:
        return rows
    return rows[:, np.argpartition(np.abs(rows[0]), KEPT)[:KEPT]]


def _settled(run: Run, design: Design, point: Float, nu: float, near: float) -> tuple[Float, float]:
    """Return the point with the best rho for its w, a quantile of the scores, and its objective, by one pass.

    The objective is flat in rho between two scores if the rows below have exactly the fraction nu of the weight: rho is
    then the midpoint, as in libsvm. Rows within ``near`` below the hyperplane count as on it, not as outliers. A
    quantile beyond the nearest rows is only approached.
    """
    outliers = np.zeros(2)  # their weight, and the sum of their margins z = rho - w'x
    kept = [np.empty((3, 0))]  # margins, weights and sizes of the scores of the nearest rows

    def measure(chunk: Chunk, state: Any) -> tuple[tuple[Float, Float], None]:
        used = np.flatnonzero(chunk.weight > 0)
        z, weight = design.margins(chunk, point)[used], chunk.weight[used]
        nearest = _nearest(np.stack([z, weight, used]))
        few = chunk.select(nearest[2].astype(np.int64))
        nearest[2] = replace(few, X=abs(few.X)) @ np.abs(point[:-1])
        return (_beyond(z, weight), nearest), None

    def collect(part: tuple[Float, Float]) -> None:
        outliers[:] += part[0]
        kept[0] = _nearest(np.concatenate([kept[0], part[1]], axis=1))

    run.map(measure, collect=collect)
    z, weight, size = kept[0][:, np.argsort(-kept[0][0], kind="stable")]
    elsewhere = outliers - _beyond(z, weight)
    wanted = nu * design.weight
    reached = elsewhere[0] + np.cumsum(weight)
    last = min(int(np.searchsorted(reached, wanted * (1 - SAME_WEIGHT))), len(z) - 1)
    follows = float(z[last + 1]) if last + 1 < len(z) else -math.inf
    near = max(near, ROUNDING * float(size[last]))
    if reached[last] <= wanted * (1 + SAME_WEIGHT) and near < z[last] - follows < math.inf:
        shift = float(z[last] + follows) / 2
    else:
        tied = int(np.flatnonzero(z <= z[last] + near)[0])
        shift = float(z[tied] + ROUNDING * size[tied])
    settled = np.append(point[:-1], point[-1] + shift)
    losses = elsewhere[1] - shift * elsewhere[0] + _beyond(z - shift, weight)[1]
    return settled, design.penalty(settled) + design.loss.scale * float(losses)


def _beyond(z: Float, weight: Float) -> Float:
    """Return the weight of the outliers, and the weighted sum of their margins."""
    return np.array([weight[z > 0].sum(), weight @ np.maximum(z, 0.0)])
