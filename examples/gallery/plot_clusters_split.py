"""
Clusters splitting in the plane
===============================

The paper's procedure step by step: a line is fitted to 5,000 points by least absolute deviation. Points are grouped
into clusters, a small weighted problem is solved on the cluster means, and every cluster that the line cuts is split
along it. The bound rises and the objective falls until they meet.
"""

# %%
# Two columns are enough for a picture: one feature and the target. ``init="kmeans"`` starts as the paper does, from a
# sample's line and one k-means step; the default start is so good that there would be little to see.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

from aidlearn import ClusterDisplay, ConvergenceDisplay, LADRegressor

rng = np.random.default_rng(3)
x = rng.uniform(-3, 3, 5_000)
y = 0.5 + 1.2 * x + rng.standard_t(2, 5_000)
model = LADRegressor(init="kmeans", initial_rate=0.002, tol=1e-9).fit(x[:, None], y)
print(f"{model.n_iter_} iterations, {model.n_clusters_} clusters of {len(x):,} points at the end, gap {model.gap_:.1e}")

# %%
# The fitted model kept a picture of each iteration (``frames_``). Circles are clusters, their area grows with their
# number of points; the line is the solution of the aggregated problem.

figure, ax = plt.subplots(figsize=(7, 4.5))


def draw(k):
    frame = model.frames_[k]
    record = model.history_[k]
    ax.clear()
    ax.scatter(x, y, s=2, color="0.85", zorder=0)
    colours = np.where(frame.regions > 0, "#D55E00", "#0072B2")
    ax.scatter(frame.x, frame.y, s=6 + 60 * np.sqrt(frame.sizes / frame.sizes.max()), c=colours, alpha=0.7, lw=0)
    p, q, r = frame.line
    ends = np.array([-3.2, 3.2])
    ax.plot(ends, -(p * ends + r) / q, color="black", lw=1.5)
    ax.set(xlim=(-3.2, 3.2), ylim=(-9, 10), xlabel="x", ylabel="y")
    ax.set_title(f"iteration {frame.iteration}: {frame.n_clusters} clusters, gap {record.gap:.1e}", loc="left")


animation = FuncAnimation(figure, draw, frames=len(model.frames_), interval=900)
plt.show()

# %%
# Bound and objective, iteration by iteration.

ConvergenceDisplay.from_estimator(model)
plt.show()

# %%
# Most clusters at the end lie along the line, where it matters on which side a point is. Far away a few clusters
# stand for thousands of points.

ClusterDisplay.from_estimator(model)
plt.show()
