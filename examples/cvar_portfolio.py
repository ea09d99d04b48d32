"""A portfolio with the smallest conditional value at risk over scenarios (Rockafellar and Uryasev 2000).

    minimise over x, a    a + 1/((1 - beta) n) sum_i max(0, -r_i'x - a)
    subject to            sum x = 1,  x >= 0,  mean'x >= target

The rows are scenarios of returns with the target 0, a is the intercept, the loss is a hinge, and a has a linear
term. Run it: python examples/cvar_portfolio.py
"""

import numpy as np
from scipy.optimize import LinearConstraint

from aidlearn import PiecewiseLinearModel


def scenarios(n, m, seed=0):
    """Heavy-tailed daily returns of m assets: five common factors, and a part of each asset's own."""
    rng = np.random.default_rng(seed)
    loadings = 0.01 * rng.normal(size=(m, 5))
    mean = rng.uniform(0.0002, 0.001, m)
    return mean + rng.standard_t(4, size=(n, 5)) @ loadings.T + 0.01 * rng.standard_t(4, size=(n, m))


def portfolio(returns, beta=0.95, target=None, **options):
    """The fitted model: ``coef_`` are the weights of the assets, ``intercept_`` the value at risk, ``objective_`` CVaR.

    Options are those of :class:`~aidlearn.PiecewiseLinearModel` (a tolerance, a checkpoint, callbacks). For scenarios
    in a file or a Dask array fit the same model to it, with a target column of zeros.
    """
    n, m = returns.shape
    mean = returns.mean(axis=0)
    least = float(np.median(mean)) if target is None else target
    budget_and_return = LinearConstraint(np.vstack([np.ones(m), mean]), [1.0, least], [1.0, np.inf])
    model = PiecewiseLinearModel(
        kinks=[0.0],
        slopes=[0.0, 1.0 / ((1.0 - beta) * n)],
        linear=np.append(np.zeros(m), 1.0),
        positive=True,
        constraints=budget_and_return,
        **options,
    )
    return model.fit(returns, np.zeros(n))


if __name__ == "__main__":
    returns = scenarios(100_000, 20)
    model = portfolio(returns, tol=1e-6)
    print(f"{model.status_}: CVaR {model.objective_:.6f}, gap {model.gap_:.1e}, value at risk {model.intercept_:.6f}")
    print("weights:", model.coef_.round(3))
    print(f"{model.n_clusters_} clusters of {len(returns)} scenarios in {model.n_iter_} iteration(s)")
