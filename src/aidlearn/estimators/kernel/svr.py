"""Kernel support vector regression: the machine of the paper's appendix B on both sides of a tube."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from aidlearn.data.passes.moments import checked_rows
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.estimators.base import FITTED_ATTRIBUTES
from aidlearn.estimators.checks import check_number
from aidlearn.estimators.declared_kernel import SVRParameters
from aidlearn.estimators.fitting import checkpoint_of
from aidlearn.estimators.kernel.machine import KernelMachine, refuse_elsewhere
from aidlearn.estimators.linear.coordinates import SETTINGS as COORDINATES
from aidlearn.estimators.parameters import documented
from aidlearn.kernel.entries import KernelEntries, TubeEntries
from aidlearn.kernel.rows import KernelRows
from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float


class SVR(SVRParameters, RegressorMixin, KernelMachine):
    __doc__ = f"""Kernel support vector regression with a certified optimality gap.

    Minimises ``1/2 |w|^2 + C sum_i s_i max(0, |y_i - <w, phi(x_i)> - b| - epsilon)``, the problem of
    :class:`sklearn.svm.SVR`, by AID: both sides of the tube around a row are entries, those near the edge of the tube
    are kept, those far outside are clustered in the space of the kernel, those far inside are left out until they
    matter. ``lower_bound_`` is the value of a dual-feasible point computed in float64.

    Parameters
    ----------{documented(SVRParameters)}

    Attributes
    ----------
    support_ : ndarray of int
        Rows in the expansion of the machine.
    support_vectors_ : array of shape (n_support, n_features)
        These rows (empty for a precomputed kernel).
    n_support_ : ndarray of shape (1,)
    dual_coef_ : ndarray of shape (1, n_support)
        ``alpha_i - alpha_i*`` of these rows, a dual-feasible point, unless a limit or rounding ended the fit while the
        best machine was still that of the start.
    intercept_ : ndarray of shape (1,)
    coef_ : ndarray of shape (1, n_features)
        Slopes of the features (linear kernel only).
    shape_fit_ : tuple of int
    certified_kernel_ : str
        "exact", or which approximation of the kernel objective and bound belong to.{FITTED_ATTRIBUTES}

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import SVR
    >>> X = np.linspace(0, 6, 200).reshape(-1, 1)
    >>> model = SVR(C=10, epsilon=0.05).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.06), bool(model.gap_ <= 1e-4)
    (True, True)
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> SVR:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_samples, n_features), or (n_samples, n_samples) if precomputed
        y : array of shape (n_samples,)
            Target of each row.
        sample_weight : array of shape (n_samples,), optional
            Non-negative weight of each row.

        Returns
        -------
        self
        """
        self._check_parameters()
        refuse_elsewhere(self, X)
        self._forget()
        run = self._run(self._source(X, y, sample_weight))
        with one_blas_thread():
            given, target, weight, digest = checked_rows(run, digest=self.checkpoint is not None)
            checkpoint = checkpoint_of(self, run.source.origin, digest, None)
            kernel = self._checked_kernel(given, weight)
            here = np.flatnonzero(weight > 0)
            y_here = np.asarray(target, dtype=np.float64)[here]
            low, middle, high = (float(value) for value in np.quantile(y_here, [0.25, 0.5, 0.75]))
            offset = middle if abs(middle) > COORDINATES.large_offset * (high - low) else 0.0
            unit = float(np.abs(y_here - middle).mean()) or 1.0
            machine = self._fit_machine(run, kernel, given, y_here - offset, weight, here, checkpoint, unit=unit)
            result = machine.fit.result
            if offset and result.objective > 0 and not self.approximation:
                # The offset is added to the intercept, which rounds every prediction.
                result.objective += 2.0 * EPS * abs(offset) * float((float(self.C) * weight[here]).sum())
                self._reconsider(result)
        self.support_ = machine.rows.astype(np.int32)
        self.n_support_ = np.array([len(self.support_)], dtype=np.int32)
        self.dual_coef_ = machine.coef[None]
        self._expansion, self._offsets = machine.coef[:, None], np.array([machine.intercept + offset])
        self.intercept_ = self._offsets
        if machine.plane is not None and not self.approximation:
            self.coef_, self.intercept_ = machine.plane.slopes[None], np.array([machine.plane.intercept + offset])
        self._store_kernel(kernel, given)
        self._store_certificate([machine.fit], False, run)
        return self

    def _entries(self, rows: KernelRows, y: Float, box: Float, unit: float) -> KernelEntries:
        return TubeEntries(rows, y, box, float(self.epsilon), unit)

    def _expansion_of_dual(self) -> Float:
        return np.ascontiguousarray(self.dual_coef_.T)

    def predict(self, X: Any) -> Float:
        """Predict the target of every row."""
        return self._scores(X)[:, 0]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("epsilon", self.epsilon, low=0, include_low=True)
