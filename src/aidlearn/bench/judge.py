"""The objective of a fit, recomputed from X, y and the coefficients with NumPy and scikit-learn's kernels.

The judge uses nothing that a solver reports about its result, and no code of aidlearn that could share its mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BLOCK = 1 << 24
"""Maximum number of kernel values in memory."""


@dataclass(frozen=True)
class Data:
    """The rows of one problem, the same for every solver."""

    X: Any
    """NumPy array or SciPy CSR array."""
    y: Array
    weight: Array | None = None


@dataclass(frozen=True)
class Coefficients:
    """Solution found by a solver; the judge uses nothing else from the solver.

    Parameters
    ----------
    coef : array of shape (m,)
        One entry per column; for kernel machines one per row in ``support``.
    intercept : float or None
        None means the best intercept for ``coef``.
    support : array of row numbers or None
        Support vectors of a kernel machine.
    """

    coef: Array
    intercept: float | None = None
    support: Array | None = None

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.coef).all())


def objective(problem: str, data: Data, solution: Coefficients, **settings: float) -> float:
    """Return the objective on all rows, in float64; the loss of row i is multiplied by its weight s_i.

    Parameters
    ----------
    problem : {"lad", "quantile", "svm", "svr", "kernel-svm"}
    data : Data
        Classes are -1 and 1.
    solution : Coefficients
    **settings : float
        ``quantile``, ``C``, ``epsilon`` and ``gamma`` (default: scikit-learn's "scale") where the problem has them.

    Returns
    -------
    float
        With e_i the error y_i - f(x_i) and 0 < q < 1:
        lad sum s_i |e_i|; quantile sum s_i max(q e_i, (q - 1) e_i); svm and kernel-svm
        |w|^2 / 2 + C sum s_i max(0, 1 - y_i f(x_i)); svr |w|^2 / 2 + C sum s_i max(0, |e_i| - epsilon).

    Notes
    -----
    Some programs for support vector machines penalise the intercept. The best intercept replaces that of every program.

    Examples
    --------
    >>> import numpy as np
    >>> data = Data(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 5.0]))
    >>> objective("lad", data, Coefficients(np.array([1.0]), intercept=0.0))
    3.0
    """
    weight = np.ones(len(data.y)) if data.weight is None else np.asarray(data.weight, dtype=float)
    if problem == "kernel-svm":
        scores = _expansion(data.X, solution, settings.get("gamma"))
        norm = float(solution.coef @ scores[solution.support])
    else:
        coef = np.asarray(solution.coef, dtype=float)
        scores, norm = np.asarray(data.X @ coef), float(coef @ coef)
    errors = np.asarray(data.y, dtype=float) - scores
    if problem in ("lad", "quantile"):
        q = settings["quantile"] if problem == "quantile" else 0.5
        intercept = solution.intercept
        if intercept is None:
            intercept = best_intercept(errors, weight, q * weight.sum())
        errors -= intercept
        total = float(weight @ np.maximum(q * errors, (q - 1) * errors))
        return total if problem == "quantile" else 2 * total
    if problem == "svr":
        epsilon = settings["epsilon"]
        kinks = np.concatenate([errors - epsilon, errors + epsilon])
        errors -= best_intercept(kinks, np.tile(weight, 2), float(weight.sum()))
        losses = np.maximum(np.abs(errors) - epsilon, 0.0)
    else:
        errors -= best_intercept(errors, weight, float(weight[data.y > 0].sum()))
        losses = np.maximum(data.y * errors, 0.0)  # y_i (y_i - f_i) = 1 - y_i f_i
    return 0.5 * norm + settings["C"] * float(weight @ losses)


def best_intercept(kinks: Array, jumps: Array, fall: float) -> float:
    """Return the minimiser of a sum of losses that is piecewise linear in the intercept.

    The slope of the sum is -``fall`` far to the left and rises by a jump at every kink, so it changes sign where the
    sum of jumps reaches ``fall``.
    """
    order = np.argsort(kinks)
    place = int(np.searchsorted(np.cumsum(jumps[order]), fall))
    return float(kinks[order[min(place, len(order) - 1)]])


def _expansion(X: Any, solution: Coefficients, gamma: float | None) -> Array:
    """Return sum_j coef_j k(x_i, x_j) over the support, for every row, without an intercept."""
    from sklearn.metrics.pairwise import rbf_kernel

    if gamma is None:
        mean = X.mean()
        gamma = float(1 / (X.shape[1] * ((X.multiply(X)).mean() - mean**2 if hasattr(X, "multiply") else X.var())))
    support = X[solution.support]
    step = max(1, BLOCK // max(1, support.shape[0]))
    values = [rbf_kernel(X[k : k + step], support, gamma) @ solution.coef for k in range(0, X.shape[0], step)]
    return np.concatenate(values)
