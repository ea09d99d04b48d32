"""
A million rows
==============

Median regression on a million rows. Most of the work is the *start*, which uses samples and
then a few passes over all rows; one small problem then proves that the solution is optimal to six digits.
"""

# %%
# A million rows of twenty columns, with errors that have no variance (a t distribution with 1.5 degrees of freedom): least
# squares is of little use here.

import time

import matplotlib.pyplot as plt
import numpy as np

from aidlearn import ConvergenceDisplay, LADRegressor

rng = np.random.default_rng(0)
n, m = 1_000_000, 20
X = rng.normal(size=(n, m))
truth = np.linspace(-1, 1, m)
y = 3 + X @ truth + rng.standard_t(1.5, n)

LADRegressor(max_iter=1).fit(X[:250_000], y[:250_000])  # loads (the first time ever: compiles) the passes

began = time.perf_counter()
X @ truth
product = time.perf_counter() - began
began = time.perf_counter()
model = LADRegressor(tol=1e-6).fit(X, y)
spent = time.perf_counter() - began
print(f"{spent:.2f} s, {spent / product:.0f} times one product X @ b; {model.n_passes_} passes over the rows")
print(f"objective {model.objective_:.4f}, lower bound {model.lower_bound_:.4f}, gap {model.gap_:.1e}")

# %%
# The aggregated problem that proves it is small: rows near the plane are kept single, the others are a few sums.

print(f"{model.n_clusters_:,} clusters stand for {n:,} rows ({100 * model.aggregation_rate_:.2f} %)")

# %%
# True and fitted coefficients, compared with least squares.

least_squares = np.linalg.lstsq(np.column_stack([X, np.ones(n)]), y, rcond=None)[0][:m]
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.axhline(0, color="0.6", lw=0.8)
ax.plot(truth, least_squares - truth, "s", color="#D55E00", mfc="none", label="least squares")
ax.plot(truth, model.coef_ - truth, "o", color="#0072B2", label="median regression")
ax.set(xlabel="true coefficient", ylabel="error of the estimate", title="A million rows with heavy tails")
ax.legend(frameon=False)
plt.show()

# %%
# The fit over time.

ConvergenceDisplay.from_estimator(model, x="seconds")
plt.show()
