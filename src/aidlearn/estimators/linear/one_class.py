"""The linear one-class SVM as a quantile regression with a ridge.

    minimise over (w, rho)   1/2 |w|^2 - rho + 1/(nu S) sum_i s_i max(0, rho - w'x_i),     S = sum_i s_i

With m the weighted mean of the rows and ``max(0, z) = nu z + max((1 - nu) z, -nu z)`` the sum of the ``nu z`` parts is
``rho - w'm``: the linear term in rho is gone, and ``1/2 |w|^2 - w'm = 1/2 |w - m|^2 - 1/2 |m|^2``. So with u = w - m
and b = |m|^2 - rho the problem is

    -1/2 |m|^2 + minimise over (u, b)   1/2 |u|^2 + 1/(nu S) sum_i s_i check(y_i - u'x_i - b),     y_i = |m|^2 - m'x_i

with the check function of the quantile 1 - nu: the one core, its start and its certificate serve it as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import _num_samples

from aidlearn.data.opening import is_elsewhere
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import Projection
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.targets import Targets
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.engine.result import Result, Status
from aidlearn.estimators.base import FITTED_ATTRIBUTES
from aidlearn.estimators.checks import check_number
from aidlearn.estimators.declared import LinearOneClassParameters, documented
from aidlearn.estimators.linear.template import LinearEstimator
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Loss, one_class
from aidlearn.numerics import Float

ON_HYPERPLANE = 1e-9
"""Distance from the hyperplane, relative to a typical one, at which a row counts as on it."""
ROUNDING = 16 * EPS
"""Of a score, relative to a typical one."""
SAME_WEIGHT = 1e-12
"""Relative difference up to which sums of weights are the same."""


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
    The optimum is not positive. Where the origin lies among the rows it is 0, with w = rho = 0: the model tells no rows
    apart, and it is certified only if the bound is 0 up to rounding. Where ``nu S`` is a sum of weights, the optimal
    rho may be an interval; the middle of it is taken. Rows on the hyperplane are no outliers.

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

    _solvers = ("auto", "interior-point")
    _ridge = 1.0
    _needs_target = False
    _drawn = False

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearOneClassSVM:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix, table, path of a file, Dask array or DataFrame, or DataSource
            See :func:`~aidlearn.open_source` for files and Dask collections.
        y : ignored, or name of a column that is left out if X is a path or a Dask DataFrame
        sample_weight : array of shape (n_samples,), optional
            Non-negative.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_number("nu", self.nu, low=0, high=1, include_high=True)
        if not (is_elsewhere(X) or isinstance(X, DataSource)):
            y = np.zeros(_num_samples(X))
        run = self._run(self._source(X, y, sample_weight), Targets(ignored=True))
        with one_blas_thread():
            run, moments = self._measure(run)
            mean = moments.mean
            level = float(mean @ mean)
            # Targets spread about 0 as their direction does, if columns are not too much alike.
            spread = float(np.sqrt(mean**2 @ moments.squares / moments.weight))
            moments = replace(moments, targets=np.array([-spread, spread]))
            run = run.changed(Projection(mean, level))
            loss = one_class(float(self.nu), moments.weight)
            design = Design.of(loss, moments, ridge=1.0, base=-0.5 * level)
            fit = self._fit_design(run, design, self._start_method(), moments)
            fit = replace(fit, result=_or_nothing(fit.result, design, mean, level))
            shift = 0.0
            if not (run.stopped or fit.result.objective == 0):
                shift = _settled(run, design, fit.result.point, float(self.nu), ROUNDING * level)
        point, scale = fit.result.point, float(self.nu) * moments.weight
        self.coef_ = scale * self._slopes(point[None, : run.n_attributes] + mean, moments)
        self.offset_ = np.array([scale * (level - float(point[-1]) - shift)])
        self.intercept_ = -self.offset_
        self._store_certificate([fit], False, run)
        return self

    def _fitted_losses(self) -> list[Loss]:
        raise ValueError("LinearOneClassSVM has no bootstrap: its loss depends on the mean of the rows.")

    def decision_function(self, X: Any) -> Float:
        """Signed score of each row: negative for outliers."""
        return self._decided(X, lambda scores: scores[:, 0])

    def score_samples(self, X: Any) -> Float:
        """``x'w`` of each row, without the offset."""
        offset = self.offset_ if hasattr(self, "offset_") else 0.0
        return self._decided(X, lambda scores: scores[:, 0] + offset)

    def predict(self, X: Any) -> Any:
        """1 for rows like most, -1 for outliers."""
        return self._decided(X, lambda scores: np.where(scores[:, 0] >= 0, 1, -1))


def _or_nothing(result: Result, design: Design, mean: Float, level: float) -> Result:
    """The result, or w = rho = 0 if that is no worse up to rounding: its objective is 0 exactly.

    A bound that is 0 up to the same rounding then proves it.
    """
    rounding = design.objective_error(result.point)
    if result.objective < -rounding:
        return result
    proven = result.lower_bound >= -rounding
    return replace(
        result,
        point=np.append(-mean, level),
        objective=0.0,
        lower_bound=0.0 if proven else result.lower_bound,
        status=Status.optimal if proven else result.status,
    )


def _settled(run: Run, design: Design, point: Float, nu: float, rounding: float) -> float:
    """What to take from rho where the objective leaves the choice.

    It is flat in rho between two scores if the rows below have exactly nu of the weight: then rho goes to the middle
    (as libsvm's). Otherwise rows are on the hyperplane up to rounding, and are to be no outliers. Margins
    ``z = rho - w'x`` that are nearly 0 may belong to either side.
    """
    near = ON_HYPERPLANE * design.typical_margin
    wanted, cuts = nu * design.weight, (near, -near)
    above = np.zeros(2)
    ends = np.array([[np.inf, -np.inf]] * 2)

    def measure(chunk: Chunk, state: Any) -> tuple[tuple[Float, Float], None]:
        used = chunk.weight > 0
        z, weight = design.margins(chunk, point)[used], chunk.weight[used]
        sides = [z > cut for cut in cuts]
        found = [[z[side].min(initial=np.inf), z[~side].max(initial=-np.inf)] for side in sides]
        return (np.array([weight[side].sum() for side in sides]), np.array(found)), None

    def collect(part: tuple[Float, Float]) -> None:
        above[:] += part[0]
        ends[:, 0] = np.minimum(ends[:, 0], part[1][:, 0])
        ends[:, 1] = np.maximum(ends[:, 1], part[1][:, 1])

    run.map(measure, collect=collect)
    for weight, (least, most) in zip(above, ends, strict=True):
        if abs(weight - wanted) <= SAME_WEIGHT * wanted and np.isfinite(least + most):
            return float(least + most) / 2
    furthest = float(ends[0, 1])
    return max(furthest, 0.0) + rounding if furthest >= -near else 0.0
