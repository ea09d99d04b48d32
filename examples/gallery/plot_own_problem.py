"""
A problem of your own
=====================

The engine does not know any model. A problem provides four components: aggregated data, initial clusters, a solution of the aggregated
problem with a proven bound, and the region of each entry. Here is the point in the plane with the smallest sum of Manhattan
distances to 100,000 others, in forty lines.
"""

# %%
# The loss of a point is linear in each of the four quadrants around the centre: four regions. A cluster inside one quadrant may be
# replaced by its sum; one that is cut is split into up to four.

import matplotlib.pyplot as plt
import numpy as np

from aidlearn.data import as_source
from aidlearn.engine import Assignment, Clusters, Evaluation, Limits, Problem, Solution, Start, aid
from aidlearn.testing import check_problem


class ManhattanMedian(Problem):
    n_regions = 4
    trivial_bound = 0.0

    def __init__(self, X):
        super().__init__(as_source(X, np.zeros(len(X))))

    def aggregate(self, chunk, labels, n_clusters):
        columns = [np.bincount(labels, weights=x, minlength=n_clusters) for x in chunk.X.T]
        return np.column_stack([*columns, np.bincount(labels, minlength=n_clusters)])

    def start(self):
        def assign(chunk, state):
            cells = np.clip(np.floor(chunk.X), -5, 4).astype(np.int32) + 5
            return Assignment(cells[:, 0] * 10 + cells[:, 1])

        return Start(Clusters.build(self, assign, 100)[0])

    def solve_aggregated(self, clusters, incumbent, accuracy):
        size = clusters.sums[:, 2]
        means = clusters.sums[:, :2] / size[:, None]
        centre = np.array([weighted_median(mean, size) for mean in means.T])
        return Solution(centre, lower_bound=float(size @ np.abs(means - centre).sum(axis=1)), verified=True)

    def evaluate(self, chunk, trial):
        objectives = np.array([np.abs(chunk.X - point).sum() for point in trial.points])
        right, above = (trial.points[0] < chunk.X).T
        return Evaluation(objectives, (2 * right + above).astype(np.int8)[None])


def weighted_median(values, weights):
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return values[order][np.searchsorted(reached, reached[-1] / 2)]


# %%
# A conformance test checks the assumptions of the proof on a small instance with a known optimum.

rng = np.random.default_rng(0)
few = rng.normal(size=(301, 2))
check_problem(ManhattanMedian(few), optimum=np.abs(few - np.median(few, axis=0)).sum())

# %%
# The full problem. The observer keeps the clusters of each iteration for the picture.

X = np.column_stack([rng.standard_t(3, 100_000), rng.gamma(2, 1, 100_000) - 2])
frames = []


def keep(clusters, solution, record):
    frames.append((clusters.sums[:, :2] / clusters.sums[:, 2:], clusters.counts.copy(), solution.point, record))


result = aid(ManhattanMedian(X), Limits(tol=0), observer=keep)
print(f"{result.status.sentence}\ncentre {result.point}, difference to np.median {result.point - np.median(X, axis=0)}")

shown = [0, 1, 3, len(frames) - 1]
figure, axes = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained", sharey=True)
for ax, k in zip(axes, shown, strict=True):
    means, sizes, centre, record = frames[k]
    ax.scatter(*means.T, s=2 + 100 * np.sqrt(sizes / len(X)), color="#0072B2", alpha=0.5, lw=0)
    ax.axvline(centre[0], color="#D55E00", lw=1)
    ax.axhline(centre[1], color="#D55E00", lw=1)
    ax.set(xlim=(-6, 6), ylim=(-3, 6))
    ax.set_title(f"{record.n_clusters} clusters, gap {record.gap:.0e}", fontsize="small", loc="left")
plt.show()
