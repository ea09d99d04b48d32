"""User-defined piecewise-linear problems (paper, section 5), as an estimator like the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from aidlearn.data.passes.moments import Moments
from aidlearn.data.passes.run import Run
from aidlearn.estimators.base import FITTED_ATTRIBUTES
from aidlearn.estimators.checks import check_number
from aidlearn.estimators.declared import PiecewiseParameters
from aidlearn.estimators.linear.constraints import each
from aidlearn.estimators.linear.coordinates import Terms
from aidlearn.estimators.linear.template import LinearRegressor
from aidlearn.estimators.parameters import documented
from aidlearn.linear.model.losses import Loss, piecewise_linear
from aidlearn.numerics import Float

NEGATIVE = 1e-10
"""Size of a negative eigenvalue of ``quadratic``, relative to the largest, that counts as rounding."""


class PiecewiseLinearModel(PiecewiseParameters, LinearRegressor):
    __doc__ = f"""A convex piecewise-linear problem over rows, solved to a certified optimality gap.

    Minimises over ``v = (coef_, intercept_)``::

        1/2 coef'P coef + q'v + l1 |coef|_1 + sum_i sample_weight_i loss(z_i),     z_i = y_i - x_i'coef - intercept

    where the loss is convex and piecewise linear with the given kinks and slopes, subject to bounds and linear
    constraints. Rows come from anywhere (arrays, files, Dask), are aggregated and split as in all models, and the lower
    bound is proven. See the guide "A problem of your own" for how to put a problem into this form.

    Parameters
    ----------{documented(PiecewiseParameters)}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float{FITTED_ATTRIBUTES}

    Examples
    --------
    How much to order where an item left over costs 1, a missing one 4, and every one beyond ten missing 9:

    >>> import numpy as np
    >>> from aidlearn import PiecewiseLinearModel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(5000, 2))
    >>> demand = 50 + 30 * X[:, 0] + rng.gamma(4.0, 3.0, size=5000)
    >>> model = PiecewiseLinearModel(kinks=[0, 10], slopes=[-1, 4, 9], positive=True).fit(X, demand)
    >>> bool(model.gap_ <= 1e-4), bool((model.predict(X) > demand).mean() > 0.8)
    (True, True)
    """

    _subtracts_offset = False
    no_bootstrap = "its terms do not grow with the weights of the rows"

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Run:
        if getattr(X, "ndim", 0) == 2 and X.shape[1] == 0:
            raise ValueError(
                f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required: for the intercept "
                f"alone, give a column of zeros, np.zeros(({X.shape[0]}, 1))."
            )
        run = super()._opened(X, y, sample_weight)
        self._stated_terms(run.n_attributes)  # refused before long work starts
        return run

    def _terms(self, moments: Moments) -> Terms:
        return self._stated_terms(len(moments.mean))

    def _stated_terms(self, m: int) -> Terms:
        ridge, quadratic = self._quadratic_term(m)
        linear = self._linear_term(m, m + bool(self.fit_intercept))
        return Terms(ridge, float(self.l1), quadratic, linear)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("l1", self.l1, low=0, include_low=True)
        self._losses()
        if self.solver == "highs" and self.quadratic is not None:
            raise ValueError("solver='highs' solves linear programs only; use solver='auto' with a quadratic term.")

    def _losses(self) -> list[Loss]:
        kinks = _numbers("kinks", self.kinks)
        slopes = _numbers("slopes", self.slopes)
        if len(kinks) == 0 or len(slopes) != len(kinks) + 1:
            raise ValueError(f"slopes must have one number more than kinks, got {len(slopes)} and {len(kinks)}.")
        if (np.diff(kinks) <= 0).any():
            raise ValueError(f"kinks must ascend, got {kinks.tolist()}.")
        if (np.diff(slopes) <= 0).any():
            raise ValueError(f"slopes must ascend, or the loss is not convex; got {slopes.tolist()}.")
        if slopes[0] > 0 or slopes[-1] < 0:
            raise ValueError(
                f"slopes must go from at most 0 to at least 0, got {slopes.tolist()}: take a linear part out of the "
                "loss, and give its sum over the rows as linear."
            )
        return [piecewise_linear(kinks.tolist(), slopes.tolist())]

    def _linear_term(self, m: int, p: int) -> Float | None:
        if self.linear is None:
            return None
        term = each(self.linear, np.zeros(p), m, p, "linear")
        if not np.isfinite(term).all():
            raise ValueError("linear contains infinity.")
        return term if term.any() else None

    def _quadratic_term(self, m: int) -> tuple[Float | float, Float | None]:
        """Return P as a diagonal or, if it has other entries, as a matrix."""
        if self.quadratic is None:
            return 0.0, None
        P = np.asarray(self.quadratic, dtype=np.float64)
        if P.ndim > 2 or P.shape not in ((), (m,), (m, m)):
            raise ValueError(f"quadratic must be a number or of shape ({m},) or ({m}, {m}), got {P.shape}.")
        if not np.isfinite(P).all():
            raise ValueError("quadratic contains NaN or infinity.")
        if P.ndim == 2:
            if not np.allclose(P, P.T, rtol=1e-10, atol=1e-12 * np.abs(P).max(initial=0.0)):
                raise ValueError("quadratic must be symmetric; (P + P.T) / 2 has the same quadratic form.")
            P = (P + P.T) / 2
            if np.count_nonzero(P - np.diag(P.diagonal())):
                values = np.linalg.eigvalsh(P)
                if values[0] < -NEGATIVE * max(values[-1], 0.0):
                    raise ValueError(
                        f"quadratic must be positive semidefinite, its smallest eigenvalue is {values[0]:g}: the "
                        "problem would not be convex."
                    )
                return 0.0, P
            P = P.diagonal()
        if (P < 0).any():
            raise ValueError(
                f"quadratic must not be negative, got {float(P.min()):g}: the problem would not be convex."
            )
        return (P.copy() if P.ndim else float(P)), None


def _numbers(name: str, values: Any) -> Float:
    try:
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a sequence of numbers, got {values!r}.") from None
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be a sequence of finite numbers, got {values!r}.")
    return numbers
