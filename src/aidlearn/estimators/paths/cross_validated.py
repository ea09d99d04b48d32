"""The linear models with their penalty chosen by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from aidlearn.data.passes.transforms import Folds, Reweighting
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import Classes
from aidlearn.estimators.checks import check_number
from aidlearn.estimators.declared import LinearSVCCVParameters, QuantileCVParameters
from aidlearn.estimators.linear.coordinates import MeasuredRows
from aidlearn.estimators.linear.regression import QuantileRegressor
from aidlearn.estimators.linear.svm import LinearClassifier, LinearSVC
from aidlearn.estimators.linear.template import LinearEstimator, LinearRegressor
from aidlearn.estimators.parameters import documented
from aidlearn.estimators.paths.folds import FoldRows
from aidlearn.estimators.paths.path import CrossValidated
from aidlearn.linear.model.losses import pinball
from aidlearn.numerics import Float

SMALLEST_ALPHA = 1e-3
"""Smallest alpha of a path, as a fraction of the largest; at the largest, all slopes are 0."""


CV_ATTRIBUTES = """
    gaps_ : ndarray of shape (n_folds, n_penalties)
        Certified relative gap of each point{worst}.
    n_refitted_ : int
        Number of points that had to be fitted separately, on all rows.
    n_passes_ : int
        Number of passes over the data, including those of the refit.
    coef_, intercept_, objective_, lower_bound_, gap_, status_
        Results of the refit, as in the single model.
    n_iter_, n_clusters_, aggregation_rate_, history_, start_, plan_, cluster_sizes_, cluster_distances_,
    frames_
        Also results of the refit, as are ``support_`` and ``dual_coef_`` of a classifier.
    classes_, n_features_in_, feature_names_in_, n_dropped_
        Properties of the data, as in the single model."""


class LinearSVCCV(LinearSVCCVParameters, LinearClassifier, CrossValidated):
    __doc__ = f"""Linear support vector classifier with C chosen by cross-validation, every point certified.

    Parameters
    ----------{documented(LinearSVCCVParameters)}

    Attributes
    ----------
    C_ : float
        The value with the best mean score (the first of several).
    Cs_ : ndarray of shape (n_Cs,)
    scores_ : ndarray of shape (n_folds, n_Cs)
    coefs_paths_ : ndarray of shape (n_folds, n_Cs, n_features + 1)
        Coefficients of each point, with the intercept last (if there is one); with more than two classes of shape
        (n_classes, n_folds, n_Cs, n_features + 1).{CV_ATTRIBUTES.format(worst=" (the worst of its classes)")}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LinearSVCCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = X @ [1.0, -1.0, 0.0] + 0.5 * rng.normal(size=1000) > 0
    >>> model = LinearSVCCV(Cs=[0.01, 1.0]).fit(X, y)
    >>> model.scores_.shape, bool(model.gaps_.max() <= 1e-4)
    ((5, 2), True)
    """

    _model, _penalty = LinearSVC, "C"

    def _drawn_path(self, rows: FoldRows, n: int) -> list[float]:
        return np.logspace(-4, 4, n).tolist()

    def _probe(self) -> LinearEstimator:
        """Return the model that opens the rows, without class weights: these depend on the fold."""
        return super()._probe().set_params(class_weight=None)

    def _folded(self, probe: LinearEstimator, measured: MeasuredRows, groups: Any) -> FoldRows:
        rows = super()._folded(probe, measured, groups)
        rows.folds = self._weighted(rows.folds, rows.run, probe.classes_)
        everything = rows.run
        if rows.folds.factors is not None:
            everything = rows.run.part().changed(Reweighting(rows.folds, rows.folds.n))
        rows.measured = probe._measured(everything)
        return rows

    def _weighted(self, folds: Folds, run: Any, classes: Any) -> Folds:
        """Return the folds with the class weights of each."""
        if self.class_weight is None:
            return folds
        targets: list[Float] = []
        run.map(lambda chunk, state: (np.array(chunk.y), None), collect=targets.append)
        codes = np.concatenate(targets).astype(np.int64)
        factors = []
        for mask in (*folds.training, np.ones(len(codes), dtype=bool)):
            counts = np.bincount(codes[mask], minlength=len(classes))
            there = counts > 0
            own = np.ones(len(classes))
            if isinstance(self.class_weight, str):  # "balanced" counts only the classes present
                own[there] = Classes(classes[there], counts[there]).factors(self.class_weight)
            else:
                own[:] = Classes(classes, counts).factors(self.class_weight)
            factors.append(own)
        return replace(folds, codes=codes, factors=np.array(factors))

    def _score(self, chunk: Chunk, scores: Float) -> Float:
        decided = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        return (decided == chunk.y).astype(np.float64)


class QuantileRegressorCV(QuantileCVParameters, CrossValidated, LinearRegressor):
    __doc__ = f"""Linear quantile regression with its L1 penalty chosen by cross-validation, every point certified.

    Parameters
    ----------{documented(QuantileCVParameters)}

    Attributes
    ----------
    alpha_ : float
        The value with the best mean score (the first of several).
    alphas_ : ndarray of shape (n_alphas,)
    scores_ : ndarray of shape (n_folds, n_alphas)
    coefs_paths_ : ndarray of shape (n_folds, n_alphas, n_features + 1)
        Coefficients of each point, with the intercept last (if there is one).{CV_ATTRIBUTES.format(worst="")}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import QuantileRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> y = 3 * X[:, 0] + rng.laplace(size=1000)
    >>> model = QuantileRegressorCV(quantile=0.3, alphas=[0.001, 0.1, 10.0]).fit(X, y)
    >>> model.scores_.shape, bool(model.gaps_.max() <= 1e-4), model.alpha_ < 10
    ((5, 3), True, True)
    """

    _model, _penalty = QuantileRegressor, "alpha"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("quantile", self.quantile, low=0, high=1)

    def _drawn_path(self, rows: FoldRows, n: int) -> list[float]:
        """Return alphas down from about the smallest with all slopes 0: the largest derivative of the loss there."""
        moments, level = rows.measured.moments, 0.0
        if self.fit_intercept:
            level = float(np.quantile(moments.targets, self.quantile)) - rows.measured.offset
        total = np.zeros(rows.run.n_attributes + 1)

        def measure(chunk: Chunk, state: Any) -> tuple[Float, None]:
            slope = chunk.weight * (self.quantile - (chunk.y < level))
            return np.append(np.asarray(chunk.X.T @ slope).ravel(), slope.sum()), None

        def collect(part: Float) -> None:
            total[:] += part

        rows.run.map(measure, collect=collect)
        centre = moments.mean if self.fit_intercept else np.zeros(rows.run.n_attributes)
        largest = float(np.abs(total[:-1] - total[-1] * centre).max()) / moments.weight
        return ((largest or 1.0) * np.logspace(0, np.log10(SMALLEST_ALPHA), n)).tolist()

    def _score(self, chunk: Chunk, scores: Float) -> Float:
        return -pinball(float(self.quantile)).values(chunk.y - scores[:, 0])
