"""
A CVaR portfolio over scenarios
===============================

Conditional value at risk is the mean of the worst losses of a portfolio. Its minimum over 100,000 scenarios is a linear program with a
row for each; only the scenarios near the border of the tail determine the solution, and the others can be aggregated. As for every
fit, there is a proof: no feasible portfolio has less risk than the bound.
"""

# %%
# Daily returns of fifteen assets: five common heavy-tailed factors, and an individual part of each asset.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import LinearConstraint

from aidlearn import PiecewiseLinearModel

rng = np.random.default_rng(0)
n, m, beta = 100_000, 15, 0.95
loadings = 0.01 * rng.normal(size=(m, 5))
returns = rng.uniform(0.0002, 0.001, m) + rng.standard_t(4, size=(n, 5)) @ loadings.T
returns += 0.01 * rng.standard_t(4, size=(n, m))
mean = returns.mean(axis=0)


def portfolio(target):
    """Smallest CVaR with the whole budget spent, no short sales and a mean return of at least ``target``."""
    budget_and_return = LinearConstraint(np.vstack([np.ones(m), mean]), [1.0, target], [1.0, np.inf])
    model = PiecewiseLinearModel(
        kinks=[0.0],
        slopes=[0.0, 1 / ((1 - beta) * n)],  # max(0, -r'x - a), over the worst 5 %
        linear=np.append(np.zeros(m), 1.0),  # + a, the value at risk
        positive=True,
        constraints=budget_and_return,
        tol=1e-5,
    )
    return model.fit(returns, np.zeros(n))


model = portfolio(float(np.median(mean)))
print(f"CVaR {100 * model.objective_:.4f} %, not below {100 * model.lower_bound_:.4f} %: gap {model.gap_:.0e}")
print(f"value at risk {100 * model.intercept_:.3f} %; {model.n_clusters_} clusters stand for {n:,} scenarios")

# %%
# Checked by hand: the mean of the worst 5 % of the days.

losses = -returns @ model.coef_
worst = np.sort(losses)[-int((1 - beta) * n) :]
print(f"mean of the {len(worst):,} worst days: {100 * worst.mean():.4f} %")

# %%
# More return costs more risk: the frontier, with a proof for each point, compared with equal weights.

targets = np.linspace(np.quantile(mean, 0.3), 0.98 * mean.max(), 7)
frontier = [portfolio(target) for target in targets]
print(f"largest gap on the frontier {max(each.gap_ for each in frontier):.0e}")
equal = -returns.mean(axis=1)
equal_risk = np.sort(equal)[-int((1 - beta) * n) :].mean()

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].plot([100 * each.objective_ for each in frontier], 100 * targets, "o-", color="#0072B2", label="smallest CVaR")
axes[0].plot(100 * equal_risk, 100 * mean.mean(), "D", color="#D55E00", label="equal weights")
axes[0].set(xlabel="CVaR of a day (%)", ylabel="mean return of a day (%)")
axes[0].legend(frameon=False)
axes[1].stackplot(100 * targets, np.array([each.coef_ for each in frontier]).T, alpha=0.8)
axes[1].set(
    xlabel="mean return asked for (%)", ylabel="weights of the assets", ylim=(0, 1), title="Portfolios of the frontier"
)
plt.show()

# %%
# The two portfolios on their worst days.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
bins = np.linspace(-4, 10, 120)
ax.hist(100 * equal, bins, histtype="step", color="#D55E00", label="equal weights")
ax.hist(100 * losses, bins, histtype="step", color="#0072B2", label="smallest CVaR")
ax.axvline(100 * model.intercept_, color="#0072B2", ls="--", lw=1, label="value at risk")
ax.set(xlabel="loss of a day (%)", ylabel="scenarios", yscale="log")
ax.legend(frameon=False)
plt.show()
