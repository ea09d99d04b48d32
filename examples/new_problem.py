"""A problem of your own: the four components for the point with the smallest sum of Manhattan distances.

    minimise over c   sum_i |x_i1 - c_1| + |x_i2 - c_2|

An entry lies in one of four regions: left or right of c, below or above it. Within a region the loss is
linear, so a cluster inside one region may be replaced by its sum; in general the aggregated problem is a
lower bound (Jensen). Run it: python examples/new_problem.py
"""

import numpy as np

from aidlearn.data import as_source
from aidlearn.engine import Assignment, Clusters, Evaluation, Limits, Problem, Solution, Start, aid


class ManhattanMedian(Problem):
    n_regions = 4
    trivial_bound = 0.0

    def __init__(self, X):
        super().__init__(as_source(X, np.zeros(len(X))))

    # 1. What the aggregated data are: sums and sizes.
    def aggregate(self, chunk, labels, n_clusters):
        columns = [np.bincount(labels, weights=x, minlength=n_clusters) for x in chunk.X.T]
        return np.column_stack([*columns, np.bincount(labels, minlength=n_clusters)])

    # 2. How to start: a coarse grid.
    def start(self):
        def assign(chunk, state):
            cells = np.clip(np.floor(chunk.X * 3), -10, 9).astype(np.int32) + 10
            return Assignment(cells[:, 0] * 20 + cells[:, 1])

        clusters, _ = Clusters.build(self, assign, 400)
        return Start(clusters)

    # 3. The aggregated problem, solved exactly: a weighted median of the cluster means in each coordinate.
    def solve_aggregated(self, clusters, incumbent, accuracy):
        size = clusters.sums[:, 2]
        means = clusters.sums[:, :2] / size[:, None]
        centre = np.array([weighted_median(mean, size) for mean in means.T])
        value = float(size @ np.abs(means - centre).sum(axis=1))
        return Solution(centre, lower_bound=value, verified=True)

    # 4. The optimality condition: objective and region of each entry at a point.
    def evaluate(self, chunk, trial):
        objectives = np.array([np.abs(chunk.X - point).sum() for point in trial.points])
        sides = trial.points[0] < chunk.X
        return Evaluation(objectives, (sides[:, 0] * 2 + sides[:, 1]).astype(np.int8)[None])


def weighted_median(values, weights):
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return values[order][np.searchsorted(reached, reached[-1] / 2)]


if __name__ == "__main__":
    X = np.random.default_rng(0).standard_t(2, size=(200_000, 2))
    result = aid(ManhattanMedian(X), Limits(tol=1e-9))
    print(f"{result.status}: centre {result.point}, objective {result.objective:.3f}, gap {result.gap:.1e}")
    for record in result.history:
        print(f"  iteration {record.iteration}: {record.n_clusters} clusters, gap {record.gap:.2e}")
    print("difference to np.median:", result.point - np.median(X, axis=0))
