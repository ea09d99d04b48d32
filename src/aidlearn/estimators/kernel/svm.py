"""Kernel support vector machine (paper, appendix B)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function

from aidlearn.data.passes.moments import checked_rows
from aidlearn.data.rows.numbers import Classes, check_labels
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.estimators.base import FITTED_ATTRIBUTES
from aidlearn.estimators.checks import class_of
from aidlearn.estimators.declared_kernel import SVCParameters
from aidlearn.estimators.fitting import checkpoint_of
from aidlearn.estimators.kernel.machine import KernelMachine, Machine, refuse_elsewhere
from aidlearn.estimators.parameters import documented
from aidlearn.kernel.entries import KernelEntries
from aidlearn.kernel.functions import Kernel
from aidlearn.kernel.rows import KernelRows
from aidlearn.numerics import Float, Int


class SVC(SVCParameters, ClassifierMixin, KernelMachine):
    __doc__ = f"""Kernel support vector classifier with a certified optimality gap.

    Minimises ``1/2 |w|^2 + C sum_i s_i max(0, 1 - y_i (<w, phi(x_i)> + b))``, the problem of
    :class:`sklearn.svm.SVC`, by AID: rows near the margin are kept, rows far inside it are clustered in the space of
    the kernel, rows far outside are left out until they matter. ``lower_bound_`` is the value of a dual-feasible
    point computed in float64. More than two classes are fitted one against one.

    Parameters
    ----------{documented(SVCParameters)}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of int
        Rows in the expansion of the machine, grouped by class.
    support_vectors_ : array of shape (n_support, n_features)
        These rows (empty for a precomputed kernel).
    n_support_ : ndarray of shape (n_classes,)
    dual_coef_ : ndarray of shape (n_classes - 1, n_support)
        ``y_i alpha_i`` of these rows in each machine, laid out as in :class:`sklearn.svm.SVC`: a dual-feasible point,
        unless a limit or rounding ended the fit while the best machine was still that of the start.
    intercept_ : ndarray of shape (n_machines,)
    coef_ : ndarray of shape (n_machines, n_features)
        Slopes of the features (linear kernel only).
    class_weight_ : ndarray of shape (n_classes,)
    shape_fit_ : tuple of int
    certified_kernel_ : str
        "exact", or which approximation of the kernel objective and bound belong to.{FITTED_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import SVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = np.where((X**2).sum(axis=1) > 1.4, "out", "in")
    >>> model = SVC(C=10).fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]]).tolist(), bool(model.gap_ <= 1e-4)
    (['in', 'out'], True)
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SVC:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
        y : array of shape (n_samples,)
            Class of each row.
        sample_weight : array of shape (n_samples,), optional
            Non-negative weight of each row.

        Returns
        -------
        self
        """
        self._check_parameters()
        refuse_elsewhere(self, X)
        self._forget()
        codes, factors = None, None
        used = self._complete(X, y, sample_weight)
        if y is not None:
            classes, codes = Classes.of_labels(check_labels(used.y))
            self.classes_ = classes.several(type(self).__name__).labels
            factors = classes.factors(self.class_weight)
        run = self._run(self._source(X, codes, used.weight, used.rows))
        assert codes is not None
        with one_blas_thread():
            rows, _, given_weight, digest = checked_rows(run, digest=self.checkpoint is not None)
            # As in scikit-learn, class weights do not affect gamma="scale".
            kernel = self._checked_kernel(rows, given_weight)
            weight = given_weight if factors is None else given_weight * factors[codes]
            if not (np.isfinite(weight).all() and weight.min() >= 0):
                raise ValueError(f"class_weight must be finite and not negative, got {self.class_weight!r}.")
            for label in range(len(self.classes_)):
                if not weight[codes == label].any():
                    raise ValueError(f"All rows of class {self.classes_.tolist()[label]!r} have weight zero.")
            pairs = list(combinations(range(len(self.classes_)), 2))
            machines = []
            for k, pair in enumerate(pairs):
                checkpoint = checkpoint_of(self, run.source.origin, digest, k if len(pairs) > 1 else None)
                here = np.flatnonzero(np.isin(codes, pair) & (weight > 0))
                y_here = np.where(codes[here] == pair[1], 1.0, -1.0)
                left = len(pairs) - k
                machines.append(self._fit_machine(run, kernel, rows, y_here, weight, here, checkpoint, left))
        self._store_model(kernel, rows, codes, machines)
        self.class_weight_ = np.ones(len(self.classes_)) if factors is None else factors
        self._store_certificate([machine.fit for machine in machines], len(machines) > 1, run)
        return self

    def _entries(self, rows: KernelRows, y: Float, box: Float, unit: float) -> KernelEntries:
        return KernelEntries(rows, y, box, unit=unit)

    def _store_model(self, kernel: Kernel, X: Any, codes: Int, machines: list[Machine]) -> None:
        """Store the fitted machines, one per pair of classes in order, in scikit-learn's layout."""
        n_classes = len(self.classes_)
        # With several machines, scores are positive for the first class of a pair.
        sign = 1.0 if n_classes == 2 else -1.0
        support = machines[0].rows  # ascending
        if len(machines) > 1:
            support = np.unique(np.concatenate([machine.rows for machine in machines]))
        support = support[np.argsort(codes[support], kind="stable")]
        of_class = codes[support]
        place = np.full(len(codes), -1)
        place[support] = np.arange(len(support))
        self.support_ = support.astype(np.int32)
        self.n_support_ = np.bincount(of_class, minlength=n_classes).astype(np.int32)
        self._expansion = np.zeros((len(support), len(machines)))
        for k, machine in enumerate(machines):
            self._expansion[place[machine.rows], k] = sign * machine.coef
        self.dual_coef_ = np.zeros((n_classes - 1, len(support)))
        for k, row, here in _blocks(of_class, n_classes):
            self.dual_coef_[row, here] = self._expansion[here, k]
        self._offsets = self.intercept_ = sign * np.array([machine.intercept for machine in machines])
        planes = [machine.plane for machine in machines if machine.plane is not None]
        if planes:
            self.coef_ = np.array([sign * plane.slopes for plane in planes])
            self.intercept_ = np.array([sign * plane.intercept for plane in planes])
        self._store_kernel(kernel, X)

    def _expansion_of_dual(self) -> Float:
        n_classes = len(self.n_support_)
        of_class = np.repeat(np.arange(n_classes), self.n_support_)
        expansion = np.zeros((len(of_class), n_classes * (n_classes - 1) // 2))
        for k, row, here in _blocks(of_class, n_classes):
            expansion[here, k] = self.dual_coef_[row, here]
        return expansion

    def decision_function(self, X: Any) -> Float:
        """Return signed scores: shape (n_samples,) for two classes, else a column per class ("ovr") or pair ("ovo")."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return scores[:, 0]
        if self.decision_function_shape == "ovo":
            return scores
        return np.asarray(_ovr_decision_function(scores < 0, -scores, len(self.classes_)))

    def predict(self, X: Any) -> Any:
        """Predict the class of each row; of more than two classes, the one that wins the most machines."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return class_of(self.classes_, scores)
        votes = np.zeros((scores.shape[0], len(self.classes_)))
        for k, (first, second) in enumerate(combinations(range(len(self.classes_)), 2)):
            votes[:, first] += scores[:, k] > 0
            votes[:, second] += scores[:, k] <= 0
        return self.classes_[votes.argmax(axis=1)]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ValueError(f"decision_function_shape must be 'ovr' or 'ovo', got {self.decision_function_shape!r}.")


def _blocks(of_class: Int, n_classes: int) -> Iterator[tuple[int, int, NDArray[np.bool_]]]:
    """Yield, for both classes of each pair, the machine, the row of ``dual_coef_`` and the class's support vectors.

    ``dual_coef_`` has ``n_classes - 1`` rows: a support vector of class i has its coefficient against class j in row j,
    or j - 1 if j > i.
    """
    for k, (first, second) in enumerate(combinations(range(n_classes), 2)):
        yield k, second - 1, of_class == first
        yield k, first, of_class == second
