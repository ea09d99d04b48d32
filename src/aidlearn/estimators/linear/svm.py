"""Linear support vector machines (paper, section 3.2) and epsilon-insensitive regression."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.passes.moments import Moments
from aidlearn.data.passes.run import Run
from aidlearn.data.passes.sharing import run_together
from aidlearn.data.rows.numbers import Classes, Targets, check_labels
from aidlearn.data.rows.source import DataSource
from aidlearn.data.tables.conversion import check_weight, is_elsewhere
from aidlearn.engine.result import Result, Status
from aidlearn.estimators.base import FITTED_ATTRIBUTES
from aidlearn.estimators.checks import check_flag, check_number, class_of
from aidlearn.estimators.declared import LinearSVCParameters, LinearSVRParameters
from aidlearn.estimators.fitting import Fitted
from aidlearn.estimators.linear.coordinates import MeasuredRows, Terms
from aidlearn.estimators.linear.template import LinearEstimator, LinearRegressor
from aidlearn.estimators.parameters import documented
from aidlearn.linear.hurried import cheap_points
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Loss, epsilon_insensitive, hinge
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.neighbours.batch import Solved
from aidlearn.numerics import Float, Int

PASSES = 2
"""Minimum number of passes over the rows for the fit of a class."""
DUAL_BYTES = 16
"""Bytes of a dual variable with its row number."""


def batched(items: list[Any], size: int) -> list[list[Any]]:
    """Split the items into groups of the given size."""
    return [items[first : first + size] for first in range(0, len(items), size)]


def _held(duals: list[tuple[Int, Float]] | None) -> float:
    """Return the bytes of the duals of finished classes."""
    return float(DUAL_BYTES * sum(len(entries) for entries, _ in duals or ()))


class LinearClassifier(ClassifierMixin, LinearEstimator):
    """Base class of the classifiers by linear scores."""

    classes_: Any

    def decision_function(self, X: Any) -> Float:
        """Return the signed score of each row: shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        return self._decided(X, lambda scores: scores[:, 0] if scores.shape[1] == 1 else scores)

    def predict(self, X: Any) -> Any:
        """Return the class of each row (a lazy Dask array for a Dask collection)."""
        check_is_fitted(self)
        classes = self.classes_
        return self._decided(X, lambda scores: class_of(classes, scores))


class LinearSVC(LinearSVCParameters, LinearClassifier):
    __doc__ = f"""Linear support vector classifier with a certified optimality gap.

    Minimises ``1/2 |w|^2 + C sum_i s_i max(0, 1 - y_i (x_i'w + b))`` by AID. The intercept b is not penalised (that
    of :class:`sklearn.svm.LinearSVC` is; :class:`sklearn.svm.SVC` with a linear kernel solves the problem solved
    here). More than two classes are fitted one against the rest, in shared passes over the data.

    Parameters
    ----------{documented(LinearSVCParameters)}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    support_ : ndarray of int
        Rows with a dual variable that is not zero (for any class).
    dual_coef_ : ndarray of shape (1, n_support) or (n_classes, n_support)
        ``y_i alpha_i`` of these rows: a feasible dual of the original problem.{FITTED_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    >>> model = LinearSVC(C=10).fit(X, y)
    >>> model.predict([[1.0, 1.0]]), bool(model.gap_ <= 1e-4)
    (array(['up'], dtype='<U4'), True)
    """

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("C", self.C, low=0)
        check_flag("row_duals", self.row_duals)

    def _losses(self) -> list[Loss]:
        """Return a hinge loss for each class against the rest; a single one for two classes."""
        n_classes = len(self.classes_)
        return [hinge(float(self.C), float(k)) for k in ([1] if n_classes == 2 else range(n_classes))]

    def _several(self) -> bool:
        return len(self.classes_) > 2

    def _terms(self, moments: Moments) -> Terms:
        return Terms(ridge=1.0)

    def _fit_all(self, rows: MeasuredRows, designs: list[Design]) -> list[Fitted]:
        """Fit all classes in shared passes, with the duals of their rows."""
        run, n_fits = rows.run, len(designs)
        fits: list[Fitted] = []
        numbers = list(range(n_fits)) if self._several() else [None]
        to_fit = list(zip(numbers, designs, self._warm_points(rows, n_fits), strict=True))
        if n_fits > 1 and self.checkpoint is None and self._is_late(run, designs[0], PASSES * n_fits * rows.seconds):
            fits, to_fit = self._hurried(run, designs), []
        whole = run.budget
        duals = self._with_duals(whole.spare, run, [], fits, n_fits)
        for group in batched(to_fit, whole.classes):
            found = run_together(run, [self._one(rows, *problem) for problem in group])
            fits += found
            duals = self._with_duals(whole.spare, run, duals, found, n_fits)
            if len(fits) < n_fits:  # samples, clusters and labels of other classes follow
                duals = None if _held(duals) > whole.held else duals
                run.hold(_held(duals))
        self._store_duals(duals, n_fits, run)
        return fits

    def _store_coefficients(self, rows: MeasuredRows, points: Float) -> None:
        """Store one row for each fit, even for a single one, as scikit-learn's classifiers do."""
        self.coef_, self.intercept_ = rows.coefficients(points)

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Run:
        """Return a run over the data, with class numbers as targets."""
        before = getattr(self, "classes_", None)
        run = self._classified(X, y, sample_weight)
        if before is not None and not np.array_equal(before, self.classes_):
            self.__dict__.pop("coef_", None)  # no warm start from other classes
        return run

    def _classified(self, X: Any, y: Any, sample_weight: Any) -> Run:
        name = type(self).__name__
        if is_elsewhere(X) or isinstance(X, DataSource):
            source = self._source(X, y, sample_weight)
            classes = source.classes().several(name)
            self.classes_ = classes.labels
            return self._run(source, Targets(classes.labels, classes.factors(self.class_weight)))
        codes, used = None, self._complete(X, y, sample_weight)
        if y is not None:
            classes, codes = Classes.of_labels(check_labels(used.y))
            self.classes_ = classes.several(name).labels
            factors = classes.factors(self.class_weight)
            if factors is not None:
                sample_weight = check_weight(used.weight, len(codes)) * factors[codes]
            else:
                sample_weight = used.weight
        return self._run(self._source(X, codes, sample_weight, used.rows))

    def _one(
        self, rows: MeasuredRows, number: int | None, design: Design, point: Float | None
    ) -> Callable[[Run], Fitted]:
        """Return a function that fits one class against the rest."""

        def fit(run: Run) -> Fitted:
            return self._fit_design(replace(rows, run=run), design, self._start_from(point), number)

        return fit

    def _hurried(self, run: Run, designs: list[Design]) -> list[Fitted]:
        """Return a cheap plane for each class, by one pass; the rows on its two sides are two clusters with bound 0."""
        fits, began = list[Fitted](), time.monotonic()
        for design, found in zip(designs, cheap_points(run, designs), strict=True):
            solved = Solved(found.point, found.objective, design.trivial_bound, n_clusters=2)
            fit = self._at_once(run, solved, 2, time.monotonic() - began, Status.time_limit)
            self._show(run, fit)
            fits.append(fit)
        return fits

    @staticmethod
    def _duals(run: Run, result: Result) -> tuple[Int, Float]:
        """Return the rows with nonzero duals and these duals, and free the labels of the rows.

        If the user stops the fit here, the model has no duals.
        """
        clusters = result.drop_clusters()
        nothing = np.empty(0, dtype=np.int64), np.empty(0)
        if run.stopped or result.solution is None or result.solution.dual is None:
            return nothing
        problem: PiecewiseLinear = clusters.problem
        try:
            return problem.entry_duals(clusters, result.solution.dual)
        except KeyboardInterrupt:
            run.stop()
            return nothing

    def _with_duals(
        self, room: float, run: Run, duals: list[tuple[Int, Float]] | None, fits: list[Fitted], n_fits: int
    ) -> list[tuple[Int, Float]] | None:
        """Append the duals of more classes; return None once they exceed ``room`` bytes."""
        for fit in fits:
            if duals is None:
                fit.result.drop_clusters()
                continue
            duals = [*duals, self._duals(run, fit.result)]
            kept, n = _held(duals), run.n_entries
            needed = kept + 8.0 * (n_fits + 2) * min(kept / DUAL_BYTES, n) + n
            duals = duals if needed <= room else None
        return duals

    def _store_duals(self, found: list[tuple[Int, Float]] | None, n_fits: int, run: Run) -> None:
        if found is None:
            warnings.warn(
                f"dual_coef_ of {n_fits} models and {run.n_entries} rows does not fit into the memory limit of the "
                "source: the model has neither dual_coef_ nor support_. Raise memory_limit to have them.",
                stacklevel=5,
            )
            for name in ("support_", "dual_coef_"):
                self.__dict__.pop(name, None)
            return
        supports = np.zeros(run.n_entries, dtype=bool)
        for entries, _ in found:
            supports[entries] = True
        self.support_ = np.flatnonzero(supports)
        self.dual_coef_ = np.zeros((len(found), len(self.support_)))
        for row, (entries, duals) in zip(self.dual_coef_, found, strict=True):
            row[np.searchsorted(self.support_, entries)] = duals


class LinearSVR(LinearSVRParameters, LinearRegressor):
    __doc__ = f"""Linear support vector regression with a certified optimality gap.

    Minimises ``1/2 |w|^2 + C sum_i s_i max(0, |y_i - x_i'w - b| - epsilon)`` by AID; the intercept b is not penalised.

    Parameters
    ----------{documented(LinearSVRParameters)}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float{FITTED_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LinearSVR
    >>> X = np.arange(20.0).reshape(-1, 1)
    >>> model = LinearSVR(epsilon=0.5, C=100).fit(X, 2 * X[:, 0])
    >>> bool(abs(model.predict(X) - 2 * X[:, 0]).max() <= 0.5 + 1e-6)
    True
    """

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("C", self.C, low=0)
        check_number("epsilon", self.epsilon, low=0, include_low=True)

    def _losses(self) -> list[Loss]:
        return [epsilon_insensitive(float(self.C), float(self.epsilon))]

    def _terms(self, moments: Moments) -> Terms:
        return Terms(ridge=1.0)
