"""
A linear SVM and its certificate, compared with liblinear
=========================================================

scikit-learn's ``LinearSVC`` stops when its criterion is small or at its iteration limit. How far is it from the best
hyperplane? A proven lower bound answers this for any solver.
"""

# %%
# 60,000 rows, 30 columns; the classes overlap. Both machines have no intercept, which only liblinear would penalise,
# so both minimise the same function.

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC as LibLinear

from aidlearn import LinearSVC

rng = np.random.default_rng(0)
n, m, C = 60_000, 30, 1.0
X = rng.normal(size=(n, m))
y = np.where(X @ rng.normal(size=m) / 5 + rng.normal(size=n) > 0, 1, -1)


def objective(w):
    """The hinge-loss SVM on all rows."""
    return 0.5 * w @ w + C * np.maximum(0, 1 - y * (X @ w)).sum()


began = time.process_time()
ours = LinearSVC(C=C, fit_intercept=False, tol=1e-6, n_jobs=1).fit(X, y)
our_time = time.process_time() - began
print(f"aidlearn: {our_time:.2f} s, objective {ours.objective_:.4f} >= {ours.lower_bound_:.4f}, gap {ours.gap_:.0e}")

# %%
# liblinear with increasing iteration limits; every objective is computed by the same function.

theirs = []
for limit in (1, 3, 10, 30, 100, 300):
    machine = LibLinear(C=C, loss="hinge", fit_intercept=False, max_iter=limit, random_state=0)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X, y)
    spent = time.process_time() - began
    value = objective(machine.coef_[0])
    theirs.append((spent, value / ours.lower_bound_ - 1))
    print(f"liblinear, at most {limit:3d} iterations: {spent:5.2f} s, {100 * theirs[-1][1]:.4f} % above the bound")

# %%
# The distance to the proven bound over time. Without the bound, one could not know how good the last point of a curve is.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
seconds, above = np.array(theirs).T
ax.loglog(seconds, above, "s-", color="#D55E00", label="liblinear, by iterations allowed")
ax.loglog(
    [our_time], [max(ours.objective_ / ours.lower_bound_ - 1, 1e-12)], "o", ms=9, color="#0072B2", label="aidlearn"
)
ax.set(xlabel="CPU seconds", ylabel="objective / proven bound - 1")
ax.grid(alpha=0.2)
ax.legend(frameon=False)
plt.show()

# %%
# The proof can be checked without any solver: the dual coefficients are inside their box, and their dual value is the bound.

signed = np.zeros(n)
signed[ours.support_] = ours.dual_coef_[0]
bound = np.abs(signed).sum() - 0.5 * np.sum((signed @ X) ** 2)
print(f"largest dual {np.abs(signed).max():.6f} <= C, dual value {bound:.4f}")
