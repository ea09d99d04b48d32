"""How much to order when demand depends on features: a newsvendor with emergency orders and a budget.

    minimise over w, b   sum_i  cost(d_i - (x_i'w + b))
    subject to           w_j >= 0 for features that can only raise demand

An item left over costs ``holding``; a missing one is bought elsewhere for ``shortage``, and beyond ``express`` missing
ones every further one costs ``late``: a convex piecewise-linear cost with two kinks of different jumps. Run it:
python examples/newsvendor.py
"""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint

from aidlearn import PiecewiseLinearModel


def sales(n, seed=0):
    """Days with a temperature, a promotion and a weekend, and the demand of each."""
    rng = np.random.default_rng(seed)
    temperature, promotion, weekend = rng.normal(20, 6, n), rng.random(n) < 0.2, rng.random(n) < 2 / 7
    X = np.column_stack([temperature, promotion, weekend]).astype(float)
    demand = 40 + 1.5 * temperature + 35 * promotion + 20 * weekend + rng.gamma(3.0, 6.0, n)
    return X, np.round(demand)


def order_rule(X, demand, holding=1.0, shortage=4.0, express=15.0, late=12.0, most_on_average=None, **options):
    """The fitted model; ``predict`` says how much to order.

    ``most_on_average`` limits the mean order, a constraint on coefficients and intercept together.
    """
    m = X.shape[1]
    limits = None
    if most_on_average is not None:
        limits = LinearConstraint(np.append(X.mean(axis=0), 1.0), -np.inf, most_on_average)
    model = PiecewiseLinearModel(
        kinks=[0.0, express],
        slopes=[-holding, shortage, late],
        bounds=Bounds(np.zeros(m), np.full(m, np.inf)),
        constraints=limits,
        **options,
    )
    return model.fit(X, demand)


def cost(orders, demand, holding=1.0, shortage=4.0, express=15.0, late=12.0):
    """What orders cost, day by day."""
    missing = demand - orders
    return np.where(
        missing < 0, -holding * missing, shortage * missing + (late - shortage) * np.maximum(missing - express, 0)
    )


if __name__ == "__main__":
    X, demand = sales(200_000)
    rule = order_rule(X, demand, tol=1e-6)
    limited = order_rule(X, demand, most_on_average=90.0, tol=1e-6)
    for name, model in (("free", rule), ("90 a day on average", limited)):
        orders = model.predict(X)
        print(
            f"{name}: {model.status_}, gap {model.gap_:.1e}, mean order {orders.mean():.2f}, "
            f"mean cost {cost(orders, demand).mean():.4f}, coefficients {model.coef_.round(3)}"
        )
