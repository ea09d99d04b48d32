"""Monotone (isotonic) quantile regression: a step function that never falls, by constraints between coefficients.

    minimise over steps f_1 <= ... <= f_k   sum_i rho_tau(y_i - f_bin(x_i)),     or with slopes: f piecewise linear

A row has a 1 in the column of its bin and the constraints are ``f_(j+1) - f_j >= 0``. Other features may come along
without constraints. Run it: python examples/monotone_quantiles.py
"""

import numpy as np
from scipy import sparse
from scipy.optimize import LinearConstraint

from aidlearn import QuantileRegressor


def steps(x, edges):
    """One column for each bin between edges (the outer bins are open), as a sparse matrix."""
    bins = np.searchsorted(edges, x, side="right")
    return sparse.csr_array((np.ones(len(x)), bins, np.arange(len(x) + 1)), shape=(len(x), len(edges) + 1))


def monotone_quantile(x, y, edges, quantile=0.5, others=None, **options):
    """The fitted model: the first ``len(edges) + 1`` coefficients are the values of the steps, which never fall."""
    X = steps(x, edges)
    if others is not None:
        X = sparse.csr_array(sparse.hstack([X, sparse.csr_array(others)], format="csr"))
    k = len(edges) + 1
    rises = sparse.eye_array(k - 1, k, k=1) - sparse.eye_array(k - 1, k)
    rises = sparse.csr_array(sparse.hstack([rises, sparse.csr_array((k - 1, X.shape[1] - k))]))
    model = QuantileRegressor(
        quantile=quantile, fit_intercept=False, constraints=LinearConstraint(rises, 0.0, np.inf), **options
    )
    return model.fit(X, y)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 100_000)
    y = np.log1p(x) + 0.3 * (1 + x / 10) * rng.standard_t(3, len(x))
    edges = np.linspace(0, 10, 41)[1:-1]
    for quantile in (0.1, 0.5, 0.9):
        model = monotone_quantile(x, y, edges, quantile, tol=1e-6)
        found = model.coef_
        print(
            f"{quantile}: {model.status_}, gap {model.gap_:.1e}, from {found[0]:.3f} to {found[-1]:.3f}, "
            f"smallest rise {np.diff(found).min():.1e}, {len(np.unique(found.round(9)))} different steps"
        )
