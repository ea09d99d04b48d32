"""Semi-supervised support vector machine (paper, section 3.3)."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from aidlearn.data.encoding.rules import Rules
from aidlearn.data.passes.moments import checked_rows
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.numbers import Classes, absent_values, as_array, check_labels
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.data.tables.conversion import feature_rows
from aidlearn.engine.checkpoint import Checkpoint
from aidlearn.engine.problem import Incumbent
from aidlearn.engine.progress import Limits
from aidlearn.engine.result import Status
from aidlearn.estimators.base import FITTED_ATTRIBUTES, AIDEstimator
from aidlearn.estimators.checks import check_number, class_of, generator
from aidlearn.estimators.declared_kernel import SemiSupervisedParameters
from aidlearn.estimators.fitting import Fitted, checkpoint_of, fit_problem, tell
from aidlearn.estimators.kernel.machine import refuse_elsewhere
from aidlearn.estimators.parameters import documented
from aidlearn.kernel.functions import NAMES, kernel_from
from aidlearn.numerics import Float, Int
from aidlearn.semisupervised import choice, miqp
from aidlearn.semisupervised.choice import Choice
from aidlearn.semisupervised.features import SETTINGS as FEATURES
from aidlearn.semisupervised.features import Features, RowProjection, features_of, graph_features, kernel_features
from aidlearn.semisupervised.problem import SemiSupervised, SemiSupervisedSettings, frame
from aidlearn.semisupervised.refine import refine
from aidlearn.semisupervised.start import by_kmeans, from_labels

UNLABELLED = -1
"""Label of unlabelled rows (scikit-learn's semi-supervised convention)."""
FEATURES_SHARE = 0.7
"""Guess. Fraction of the time limit after which incomplete features are approximated."""


class SemiSupervisedSVC(SemiSupervisedParameters, ClassifierMixin, AIDEstimator):
    __doc__ = f"""Semi-supervised support vector classifier (S3VM) with an honest certificate.

    Minimises ``1/2 |w|^2 + C sum_l s_i max(0, 1 - y_i z_i) + C_unlabeled sum_u s_i max(0, 1 - |z_i|)`` with
    ``z = x'w + b`` over labelled rows l and unlabelled rows u (those with y = -1) by AID: unlabelled rows are
    clustered, their clusters are labelled by branch and bound, and clusters that the hyperplane or its margins cut
    are split.

    The problem is not convex. Status ``one_region`` is a local optimum; ``lower_bound_`` is a true bound on the
    optimum, but often a weak one; only status ``certified`` says that the solution is the global optimum to ``tol``.
    More than two classes are fitted one against the rest.

    Parameters
    ----------{documented(SemiSupervisedParameters)}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transduction_ : ndarray of shape (n_samples,)
        Class of every training row: the given one, or the predicted one of unlabelled rows.
    choice_ : dict
        The choice of ``kernel="auto"``: kernel (in words), C, C_unlabeled, balance, and error, the mean squared
        leave-one-out error of the labelled rows.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Slopes of the features (linear kernel only).
    intercept_ : ndarray of shape (1,) or (n_classes,){FITTED_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import SemiSupervisedSVC
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-2, 1, size=(100, 2)), rng.normal(2, 1, size=(100, 2))])
    >>> y = np.full(200, -1)
    >>> y[0], y[100] = 5, 7
    >>> model = SemiSupervisedSVC(balance="constraint").fit(X, y)
    >>> model.predict([[-1.0, -1.0], [1.0, 1.0]])
    array([5, 7])
    """

    _max_iter_optional = True

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SemiSupervisedSVC:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Class of each row, or -1 ("-1" in an array of strings) if it is unknown; with ``missing="drop"`` a missing
            value also counts as unknown. Without unlabelled rows this is an ordinary SVM.
        sample_weight : array of shape (n_samples,), optional
            Non-negative weight of each row.

        Returns
        -------
        self
        """
        deadline = math.inf if self.time_limit is None else time.monotonic() + self.time_limit
        self._check_parameters()
        refuse_elsewhere(self, X)
        used = self._complete(X, y, sample_weight)
        codes = None
        if y is not None:
            self.classes_, codes = encode_labels(used.y, absent=self.missing == "drop")
        run = self._run(self._source(X, codes, used.weight, used.rows))
        assert codes is not None
        with one_blas_thread():
            rows, _, weight, digest = checked_rows(run, digest=self.checkpoint is not None)
            check_classes(self.classes_, codes, weight)
            features = self._features(rows, weight, codes, deadline)
            names = [1] if len(self.classes_) == 2 else range(len(self.classes_))
            fits = [self._fit_one(run, features, codes, k, weight, deadline, digest) for k in names]
        points = np.array([fit.result.point for fit in fits])
        self._store_model(points)
        scores = np.asarray(points[:, :-1] @ features.T + points[:, -1:]).T
        self.transduction_ = np.where(codes == UNLABELLED, class_of(self.classes_, scores), self.classes_[codes])
        self._store_certificate(fits, len(fits) > 1, run)
        return self

    def decision_function(self, X: Any) -> Float:
        """Return the signed score of each row: shape (n_samples,) for two classes, else (n_samples, n_classes)."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _scores(self, X: Any) -> Float:
        """Return scores, one column per machine."""
        check_is_fitted(self)
        if self._representation is None:
            return super()._scores(X)
        checked = self._checked(X)
        rows = checked_rows(Run(feature_rows(checked, self._recipe()))).X
        if self._projection is not None:
            rows = self._projection.apply(rows)
        return self._representation.scores(rows, self._expansion) + self.intercept_

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the rows that have a label; rows with y = -1 are ignored."""
        labels, known = known_labels(y)
        if not known.any():
            raise ValueError("No row of y has a label (-1 marks unlabelled rows), so there is nothing to score.")
        weight = None if sample_weight is None else as_array(sample_weight)[known]
        return float(accuracy_score(labels[known].tolist(), self.predict(X)[known].tolist(), sample_weight=weight))

    def predict(self, X: Any) -> Any:
        """Predict the class of each row."""
        scores = self._scores(X)
        return class_of(self.classes_, scores)

    def _rules(self) -> Rules:
        return replace(super()._rules(), unlabelled=True)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("C", self.C, low=0)
        check_number("C_unlabeled", self.C_unlabeled, low=0, include_low=True)
        if self.balance not in (None, "constraint", "cost"):
            raise ValueError(f"balance must be None, 'constraint' or 'cost', got {self.balance!r}.")
        if self.solver == "miqp":
            miqp.check_available()
        check_number("n_init", self.n_init, low=1, include_low=True, whole=True)
        check_number("n_neighbors", self.n_neighbors, low=1, include_low=True, whole=True)
        check_number("diffusion", self.diffusion, low=0)
        check_number("degree", self.degree, low=0)
        check_number("coef0", self.coef0)
        for name in ("node_limit", "n_components"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), low=1, include_low=True, whole=True)

    def _start_method(self) -> Any:
        if isinstance(self.init, str):
            if self.init == "auto":
                return by_kmeans(10, spread=True)
            if self.init == "kmeans":
                return by_kmeans(1, spread=False)
        elif callable(self.init) or np.ndim(self.init) == 1:
            return from_labels(self.init)
        raise ValueError(f"init must be 'auto', 'kmeans', an array of cluster labels or a callable, got {self.init!r}.")

    def _features(self, rows: Any, weight: Float, codes: Int, deadline: float) -> Any:
        """Return the rows of the linear machine, which are the given rows or features of their kernel."""
        deadline -= (1.0 - FEATURES_SHARE) * (self.time_limit or 0.0)
        self._representation: Features | None = None
        self._projection: RowProjection | None = None
        self._choice: Choice | None = None
        if hasattr(self, "choice_"):
            del self.choice_  # of an earlier fit
        if isinstance(self.kernel, str) and self.kernel == "auto":
            kernels = choice.CandidateKernels(rows, generator(self.random_state), deadline)
            self._choice, chosen = choice.choose(kernels, codes, weight, UNLABELLED)
            self.choice_: dict[str, Any] = asdict(self._choice)
            self._projection, self._representation = chosen.build()
            return self._representation.features
        if isinstance(self.kernel, str) and self.kernel == "linear":
            return rows
        if isinstance(self.kernel, str) and self.kernel == "graph":
            self._representation = graph_features(rows, int(self.n_neighbors), float(self.diffusion), deadline)
            return self._representation.features
        kernel = kernel_from(self.kernel, self.gamma, self.degree, self.coef0, rows, weight, (*NAMES, "graph", "auto"))
        if kernel.precomputed and rows.shape[0] != rows.shape[1]:
            raise ValueError(f"A precomputed kernel must be a square matrix, got shape {rows.shape}.")
        self._representation = kernel_features(kernel, rows, self.n_components, generator(self.random_state), deadline)
        return self._representation.features

    def _fit_one(
        self, run: Run, features: Any, codes: Int, positive: int, weight: Float, deadline: float, digest: str
    ) -> Fitted:
        """Fit one class against the rest of the labelled rows; return the best of ``n_init`` runs."""
        target = np.where(codes == UNLABELLED, 0.0, np.where(codes == positive, 1.0, -1.0))
        if self._balance == "cost":
            weight = weight * balancing(target, weight)
        source = ArraySource(features, target, weight, run.n_jobs)
        # Each run has its own generator, because a run resumed from a checkpoint does not redraw its start.
        first, n_runs = generator(self.random_state), int(self.n_init)
        several = len(self.classes_) > 2 or n_runs > 1
        best: Fitted | None = None
        for k, rng in enumerate([first, *first.spawn(n_runs - 1)]):
            number = positive * n_runs + k if several else None
            checkpoint = checkpoint_of(self, run.source.origin, digest, number)
            fit = self._fit_once(run.of(source), rng, deadline, checkpoint)
            if best is not None:
                bound = max(best.result.lower_bound, fit.result.lower_bound)
                fit.result.lower_bound = best.result.lower_bound = bound
            best = fit if best is None or fit.result.objective < best.result.objective else best
            if time.monotonic() >= deadline or run.stopped or best.result.gap <= self.tol:
                break
        assert best is not None
        if best.result.gap <= self.tol:
            best.result.status = Status.certified
        return best

    def _fit_once(self, run: Run, rng: np.random.Generator, deadline: float, checkpoint: Checkpoint | None) -> Fitted:
        settings = SemiSupervisedSettings(
            C=float(self.C if self._choice is None else self._choice.C),
            C_unlabeled=float(self.C_unlabeled if self._choice is None else self._choice.C_unlabeled),
            balance=self._balance == "constraint",
            certify=bool(self.certify),
            node_limit=None if self.node_limit is None else int(self.node_limit),
            start_method=self._start_method(),
            initial_rate=self.initial_rate,
            solver=self.solver,
            watch=partial(tell, self._callbacks(), "on_search"),
        )
        problem = SemiSupervised(run, settings, rng)
        max_iter = self.max_iter or (1000 if self.certify else 5)
        left = None if math.isinf(deadline) else max(1e-3, deadline - time.monotonic())
        limits = Limits(self.tol, int(max_iter), left)
        fit = fit_problem(problem, limits, self._callbacks(), frame, checkpoint)
        result = fit.result
        if self.refine and not run.stopped:
            better = refine(problem, Incumbent(result.point, result.objective), deadline)
            result.point, result.objective = better.point, better.objective
            result.judge()
        return fit

    @property
    def _balance(self) -> str | None:
        return self.balance if self._choice is None else self._choice.balance

    def _store_model(self, points: Float) -> None:
        self.intercept_ = points[:, -1]
        if hasattr(self, "coef_"):
            del self.coef_  # of an earlier fit, perhaps with another kernel
        if self._representation is None:
            self.coef_ = points[:, :-1]
        else:
            self._expansion = self._representation.expansion(points[:, :-1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


LABELS = (bool, np.bool_, Real)
"""Types of labels that are not texts."""


def known_labels(y: Any, absent: bool = False) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels as an array, and which of them are known; with ``absent`` they may also be missing."""
    if absent:
        missing = absent_values(y)
        y = as_array(y)
        if missing.any():
            y = np.where(missing, UNLABELLED, y if y.dtype.kind == "f" else y.astype(object))
    labels = check_labels(y, "; mark unlabelled rows with -1")
    if labels.dtype.kind in "OUS":
        return labels, np.array([str(value) != str(UNLABELLED) for value in labels.tolist()])
    return labels, np.asarray(labels != UNLABELLED)


def encode_labels(y: Any, absent: bool = False) -> tuple[Any, Int]:
    """Return the classes, and the class number of each row (-1 for unlabelled rows)."""
    labels, known = known_labels(y, absent)
    if not known.any():
        raise ValueError("Every row of y is -1, that is unlabelled; some rows of each class must have a label.")
    given = labels[known]
    if given.dtype.kind == "O" and any(all(isinstance(value, kind) for value in given) for kind in (str, LABELS)):
        given = np.array(given.tolist())  # labels that are objects only because of -1
    classes, found = Classes.of_labels(given)
    codes = np.full(len(labels), UNLABELLED)
    codes[known] = found
    return classes.labels, codes


def check_classes(classes: Any, codes: Int, weight: Float) -> None:
    """Raise an error if there are fewer than two classes among the labelled rows with a positive weight."""
    used = np.unique(codes[(codes != UNLABELLED) & (weight > 0)])
    if len(classes) < 2 or len(used) < 2:
        hint = " (-1 marks unlabelled rows; if it is a class of your data, rename it)" if (codes < 0).any() else ""
        found = f"contains only one class: {classes[used].tolist()[0]!r}" if len(used) else "has no weight on any"
        raise ValueError(f"SemiSupervisedSVC needs labelled rows of at least 2 classes, but the data {found}{hint}.")


def balancing(target: Float, weight: Float) -> Float:
    """Return factors on the weights that give the smaller labelled class the weight of the larger one."""
    positive, negative = weight[target > 0].sum(), weight[target < 0].sum()
    return np.where(target > 0, max(1.0, negative / positive), np.where(target < 0, max(1.0, positive / negative), 1.0))


def file_state(model: SemiSupervisedSVC) -> dict[str, Any]:
    """Return the values that predictions need beyond parameters and fitted attributes."""
    if model._representation is None:
        return {}
    projection = {} if model._projection is None else model._projection.values()
    return {**model._representation.values(), **projection, "expansion": model._expansion}


def restore_file_state(model: SemiSupervisedSVC, state: Mapping[str, Any]) -> None:
    """Restore the values from a file in a model that has its fitted attributes."""
    model._representation, model._projection = features_of(state), RowProjection.of_values(state)
    if model._representation is not None:
        model._expansion = state["expansion"]


def certified_kernel(model: SemiSupervisedSVC) -> str:
    """Return the kernel to which objective and bound refer: "exact", or its approximation."""
    n = len(model.transduction_)
    sampled = getattr(model._representation, "n_sampled", 0)
    n_landmarks = sampled or model.n_components or (FEATURES.landmarks if n > FEATURES.exact_rows else n)
    if model.kernel in ("linear", "graph", "auto") or n_landmarks >= n:
        return "exact"
    return f"Nystroem approximation by {n_landmarks:,} rows"
