"""
C chosen by cross-validation
============================

:class:`~aidlearn.LinearSVCCV` fits a path of penalties over folds. Folds are row weights, not copies, neighbouring
penalties share passes, and each fit has its own certificate, so the curve shows the model and not the accuracy of a solver.
"""

# %%
# Thirty columns of which five matter, 20,000 rows, some labels wrong.

import matplotlib.pyplot as plt
import numpy as np

from aidlearn import LinearSVCCV

rng = np.random.default_rng(0)
n, m = 20_000, 30
X = rng.normal(size=(n, m))
y = X[:, :5] @ [1.0, -1.0, 1.0, 0.5, 0.5] + rng.normal(size=n) > 0
wrong = rng.uniform(size=n) < 0.05
y = y ^ wrong

model = LinearSVCCV(Cs=np.logspace(-6, 1, 15), cv=5).fit(X, y)
print(f"best C {model.C_:.2g}; {model.scores_.size} fits on folds, the largest gap is {model.gaps_.max():.1e}")

# %%
# Accuracy on held-out rows by C: mean and range over the folds.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.fill_between(model.Cs_, model.scores_.min(axis=0), model.scores_.max(axis=0), color="#0072B2", alpha=0.15, lw=0)
ax.semilogx(model.Cs_, model.scores_.mean(axis=0), "o-", color="#0072B2")
ax.axvline(model.C_, color="#D55E00", ls="--", label=f"chosen: {model.C_:.2g}")
ax.set(xlabel="C", ylabel="accuracy on the left-out fold")
ax.legend(frameon=False)
plt.show()

# %%
# The coefficients along the path (first fold). Small C shrinks all of them; beyond the chosen C they hardly change.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
path = model.coefs_paths_[0]
ax.semilogx(model.Cs_, path[:, 5:-1], color="0.75", lw=0.8)
ax.semilogx(model.Cs_, path[:, :5], color="#0072B2", lw=1.5)
ax.set(xlabel="C", ylabel="coefficient", title="blue: the five columns that matter")
plt.show()
