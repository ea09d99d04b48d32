"""Kernel support vector machine (paper, appendix B)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function

from aidlearn.data.passes.moments import checked_rows
from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.numbers import Classes, check_labels
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.engine.checkpoint import Checkpoint
from aidlearn.engine.problem import Problem
from aidlearn.estimators.base import FITTED_ATTRIBUTES
from aidlearn.estimators.checks import class_of, generator
from aidlearn.estimators.declared_kernel import SVCParameters
from aidlearn.estimators.fitting import checkpoint_of
from aidlearn.estimators.kernel.machine import (
    KernelMachine,
    restored_kernel,
)
from aidlearn.estimators.kernel.one_against_one import Machine, expansion_of, lay_out, pairs_of, winners
from aidlearn.estimators.parameters import documented
from aidlearn.kernel.functions import Kernel, kernel_from
from aidlearn.kernel.problem import KernelHinge
from aidlearn.linear.svm import svm_problem
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
        Of the linear kernel only.
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
            Non-negative.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._refuse_elsewhere(X)
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
            kernel = kernel_from(self.kernel, self.gamma, self.degree, self.coef0, rows, given_weight)
            weight = given_weight if factors is None else given_weight * factors[codes]
            if not (np.isfinite(weight).all() and weight.min() >= 0):
                raise ValueError(f"class_weight must be finite and not negative, got {self.class_weight!r}.")
            for label in range(len(self.classes_)):
                if not weight[codes == label].any():
                    raise ValueError(f"All rows of class {self.classes_.tolist()[label]!r} have weight zero.")
            self._check_kernel(kernel, rows)
            self._check_init(rows.shape[0])
            pairs = pairs_of(len(self.classes_))
            machines = []
            for k, pair in enumerate(pairs):
                checkpoint = checkpoint_of(self, run.source.origin, digest, k if len(pairs) > 1 else None)
                machines.append(self._fit_pair(run, kernel, rows, codes, weight, pair, checkpoint, len(pairs) - k))
        self._store_model(kernel, rows, codes, machines)
        self.class_weight_ = np.ones(len(self.classes_)) if factors is None else factors
        self._store_certificate([machine.fit for machine in machines], len(machines) > 1, run)
        return self

    def _fit_pair(
        self,
        run: Run,
        kernel: Kernel,
        X: Any,
        codes: Int,
        weight: Float,
        pair: tuple[int, int],
        checkpoint: Checkpoint | None,
        n_left: int,
    ) -> Machine:
        """Fit the machine of two classes, one of ``n_left`` machines that are still to be fitted."""
        here = np.flatnonzero(((codes == pair[0]) | (codes == pair[1])) & (weight > 0))
        y = np.where(codes[here] == pair[1], 1.0, -1.0)
        box = float(self.C) * weight[here]
        part = kernel.training_rows(X, here)
        rows = self._rows(kernel, part, run.n_jobs, float(box.max()))
        if self.approximation:

            def problem_of(source: DataSource) -> Problem:
                return svm_problem(run.of(source), 1.0, generator(self.random_state))

            fit, coef, intercept = self._on_landmarks(rows, y, box, problem_of, checkpoint, n_left)
        else:
            rng = generator(self.random_state)
            exact = KernelHinge(run.of(ArraySource(part, y, box)), rows, y, box, self._settings(rows, here), rng)
            fit, point = self._certified(exact, checkpoint, n_left)
            coef, intercept = point.coef, point.intercept
        used = np.flatnonzero(coef)
        plane = None
        if kernel.name == "linear":
            result = None if self.approximation else fit.result
            plane = self._plane(kernel, part, coef, y, box, np.ones(len(y)), result)
        return Machine(fit, here[used], coef[used], intercept, plane)

    def _store_model(self, kernel: Kernel, X: Any, codes: Int, machines: list[Machine]) -> None:
        layout = lay_out(machines, codes, len(self.classes_))
        self._expansion, self._offsets = layout.expansion, layout.intercept
        self.support_, self.n_support_, self.dual_coef_ = layout.support, layout.n_support, layout.dual_coef
        self.intercept_ = layout.intercept
        if kernel.name == "linear":
            self.coef_ = np.array([plane.slopes for plane in layout.planes])
            self.intercept_ = np.array([plane.intercept for plane in layout.planes])
        self._store_kernel(kernel, X)

    def decision_function(self, X: Any) -> Float:
        """Return signed scores: shape (n_samples,) for two classes, else a column per class ("ovr") or pair ("ovo")."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return scores[:, 0]
        if self.decision_function_shape == "ovo":
            return scores
        return np.asarray(_ovr_decision_function(scores < 0, -scores, len(self.classes_)))

    def predict(self, X: Any) -> Any:
        """Predict the class of each row; of more than two classes the one that wins most machines."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return class_of(self.classes_, scores)
        return self.classes_[winners(scores, len(self.classes_))]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ValueError(f"decision_function_shape must be 'ovr' or 'ovo', got {self.decision_function_shape!r}.")


def restore_file_state(model: SVC, state: Mapping[str, Any]) -> None:
    """Restore the values of a file to a model that has its fitted attributes."""
    restored_kernel(model, state)
    model._expansion = expansion_of(model.dual_coef_, model.n_support_)
