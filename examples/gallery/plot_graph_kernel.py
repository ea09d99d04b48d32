"""
Eight labels and a graph
========================

Two half-moons with 400 points, eight of them labelled. The semi-supervised SVM with a graph kernel uses the unlabelled points
to find the moons. The problem is not convex, so the certificate proves a local optimum only.
"""

# %%
# ``-1`` marks points without a label, as everywhere in scikit-learn.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from aidlearn import SVC, SemiSupervisedSVC

X, truth = make_moons(400, noise=0.09, random_state=0)
rng = np.random.default_rng(3)
y = np.full(400, -1)
for label in (0, 1):
    chosen = rng.choice(np.flatnonzero(truth == label), 4, replace=False)
    y[chosen] = label
known = y >= 0

supervised = SVC(C=10, gamma=1.0).fit(X[known], y[known])
model = SemiSupervisedSVC(
    C=10,
    C_unlabeled=0.1,
    kernel="graph",
    n_neighbors=8,
    diffusion=30,
    balance="constraint",
    max_iter=30,
    random_state=0,
).fit(X, y)
print(f"eight labels alone: {100 * np.mean(supervised.predict(X) == truth):.1f} % right")
print(f"with 392 points without labels: {100 * np.mean(model.transduction_ == truth):.1f} % right")

# %%
# What is proven: a local optimum (``one_region``), and a valid but weak bound on the global one. A better
# solution may or may not exist.

print(model.status_.sentence)
print(f"objective {model.objective_:.4f}, lower bound {model.lower_bound_:.4f}, gap {model.gap_:.2f}")

# %%
# Both classifiers over the plane.

across, up = np.meshgrid(np.linspace(-1.5, 2.5, 160), np.linspace(-1, 1.5, 120))
plane = np.column_stack([across.ravel(), up.ravel()])
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, machine, name in zip(axes, (supervised, model), ("eight labels", "eight labels and a graph"), strict=True):
    scores = machine.decision_function(plane).reshape(across.shape)
    ax.contourf(across, up, np.sign(scores), levels=[-2, 0, 2], colors=["#0072B2", "#D55E00"], alpha=0.15)
    ax.contour(across, up, scores, levels=[0], colors="0.3", linewidths=1)
    ax.scatter(*X.T, s=9, c=np.where(truth, "#D55E00", "#0072B2"), alpha=0.5, lw=0)
    ax.scatter(*X[known].T, s=90, c=np.where(y[known], "#D55E00", "#0072B2"), edgecolors="black")
    right = 100 * np.mean((machine.predict(X) if machine is supervised else model.transduction_) == truth)
    ax.set_title(f"{name}: {right:.1f} % right", loc="left", fontsize="medium")
plt.show()
