"""The linear models with their penalty chosen by cross-validation."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from aidlearn.data.passes.transforms import Folds
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import Classes
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.estimators.checks import check_number
from aidlearn.estimators.declared import LinearSVCCVParameters, QuantileCVParameters
from aidlearn.estimators.linear.regression import QuantileRegressor
from aidlearn.estimators.linear.svm import LinearClassifier, LinearSVC
from aidlearn.estimators.parameters import documented
from aidlearn.estimators.paths.path import (
    CV_ATTRIBUTES,
    CrossValidated,
    FoldRows,
    checked_path,
    weighted_run,
)
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import hinge, pinball
from aidlearn.numerics import Float

SMALLEST_ALPHA = 1e-3
"""Of a path of alphas, relative to the largest, at which all slopes are 0."""


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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> LinearSVCCV:
        """Fit the model (see :meth:`LinearSVC.fit`)."""
        self._check_cv_parameters()
        values = self._values()
        probe = self._single(1.0).set_params(class_weight=None)
        run = probe._classified(X, y, sample_weight)
        classes = probe.classes_
        with one_blas_thread():
            run = probe._measured(run).run
            folds = self._weighted(self._fold_weights(run, X, classifies=True), run, classes)
            everything = weighted_run(run, folds)
            n_fits = 1 if len(classes) == 2 else len(classes)
            measured = probe._measured(everything)
            rows = FoldRows(run, folds, measured.run, measured.moments, n_fits=n_fits)
        points = self._validate(rows, values)
        self.Cs_ = np.array(values)
        self.C_ = self._finish(rows, values, points, probe, X, y, sample_weight)
        return self

    def _values(self) -> list[float]:
        if isinstance(self.Cs, Integral):
            check_number("Cs", self.Cs, low=1, include_low=True, whole=True)
            return np.logspace(-4, 4, int(self.Cs)).tolist()
        return checked_path("Cs", self.Cs)

    def _single(self, value: float) -> LinearSVC:
        shared = {k: v for k, v in self.get_params(deep=False).items() if k not in ("Cs", "cv", "scoring", "refit")}
        return LinearSVC(C=value, **shared)

    def _weighted(self, folds: Folds, run: Any, classes: Any) -> Folds:
        """The folds with the factors of classes that each of them has."""
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
            if isinstance(self.class_weight, str):  # "balanced" counts the classes that are there
                own[there] = Classes(classes[there], counts[there]).factors(self.class_weight)
            else:
                own[:] = Classes(classes, counts).factors(self.class_weight)
            factors.append(own)
        return replace(folds, codes=codes, factors=np.array(factors))

    def _design_at(self, rows: FoldRows, value: float, number: int) -> Design:
        positive = 1.0 if rows.n_fits == 1 else float(number)
        return Design.of(hinge(value, positive), rows.moments, fit_intercept=self.fit_intercept, ridge=1.0)

    def _score(self, chunk: Chunk, scores: Float) -> Float:
        decided = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
        return (decided == chunk.y).astype(np.float64)


class QuantileRegressorCV(QuantileCVParameters, RegressorMixin, CrossValidated):
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> QuantileRegressorCV:
        """Fit the model (see :meth:`QuantileRegressor.fit`)."""
        self._check_cv_parameters()
        check_number("quantile", self.quantile, low=0, high=1)
        given = None
        if isinstance(self.alphas, Integral):
            check_number("alphas", self.alphas, low=1, include_low=True, whole=True)
        else:
            given = checked_path("alphas", self.alphas)
        probe = self._single(0.0)
        run = probe._run(probe._source(X, y, sample_weight))
        with one_blas_thread():
            measured = probe._measured(run)
            run = measured.run
            rows = FoldRows(run, self._fold_weights(run, X, classifies=False), run, measured.moments, measured.offset)
            values = self._values(rows) if given is None else given
        points = self._validate(rows, values)
        self.alphas_ = np.array(values)
        self.alpha_ = self._finish(rows, values, points, probe, X, y, sample_weight)
        return self

    def _values(self, rows: FoldRows) -> list[float]:
        """A path down from about the smallest alpha at which all slopes are 0: the largest slope of the loss there."""
        moments = rows.moments
        level = float(np.quantile(moments.targets, self.quantile)) - rows.offset if self.fit_intercept else 0.0
        total = np.zeros(rows.run.n_attributes + 1)

        def measure(chunk: Chunk, state: Any) -> tuple[Float, None]:
            slope = chunk.weight * (self.quantile - (chunk.y < level))
            return np.append(np.asarray(chunk.X.T @ slope).ravel(), slope.sum()), None

        def collect(part: Float) -> None:
            total[:] += part

        rows.run.map(measure, collect=collect)
        centre = moments.mean if self.fit_intercept else np.zeros(rows.run.n_attributes)
        largest = float(np.abs(total[:-1] - total[-1] * centre).max()) / moments.weight
        return ((largest or 1.0) * np.logspace(0, np.log10(SMALLEST_ALPHA), int(self.alphas))).tolist()

    def _single(self, value: float) -> QuantileRegressor:
        shared = {k: v for k, v in self.get_params(deep=False).items() if k not in ("alphas", "cv", "scoring", "refit")}
        return QuantileRegressor(alpha=value, **shared)

    def _design_at(self, rows: FoldRows, value: float, number: int) -> Design:
        return Design.of(
            pinball(float(self.quantile)),
            rows.moments,
            fit_intercept=self.fit_intercept,
            l1=value * rows.moments.weight,
            offset=rows.offset,
        )

    def _score(self, chunk: Chunk, scores: Float) -> Float:
        return -pinball(float(self.quantile)).values(chunk.y - scores[:, 0])

    def predict(self, X: Any) -> Float:
        """Predict the quantile of every row (as a lazy Dask array for a Dask collection)."""
        return self._decided(X)
