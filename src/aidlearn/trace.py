"""What plots of a fit need: the final clusters by distance from their kinks, and pictures of plane data.

The engine knows nothing of it: a :class:`Trace` watches a fit as any observer can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Solution
from aidlearn.engine.result import Iteration, Result
from aidlearn.numerics import Float, Int

MOST_CLUSTERS = 1500
"""Clusters that a profile or a picture keeps; the largest and a regular sample of the others stand for all."""
MOST_FRAMES = 200
"""Pictures that a run keeps; beyond, every other one is dropped."""


@dataclass(frozen=True)
class Frame:
    """The clusters and the hyperplane of one iteration, for data that a plane can show.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> model = LADRegressor(init="kmeans").fit(x[:, None], x + rng.laplace(size=2000))
    >>> frame = model.frames_[-1]  # of the last iteration
    >>> frame.iteration == model.n_iter_, int(frame.sizes.sum())
    (True, 2000)
    >>> p, q, r = frame.line  # p x + q y + r = 0
    >>> bool(abs(-p / q - 1) < 0.1)
    True
    """

    iteration: int
    n_clusters: int
    """All clusters of the iteration; those below are at most ``MOST_CLUSTERS`` of them."""
    x: Float
    y: Float
    """Means of the clusters in the plane."""
    sizes: Int
    regions: NDArray[np.int8]
    """The linear piece that the mean lies on."""
    labels: NDArray[np.int8]
    """Class of the cluster: 1, -1, or 0 where there are no classes or none is known."""
    line: Float
    """``(p, q, r)``: the hyperplane is ``p x + q y + r = 0``."""
    levels: Float
    """Values of ``p x + q y + r`` on the margins (a tube around a regression line)."""

    def raised(self, offset: float, both: bool) -> Frame:
        """The picture of targets that an offset is added to: of ``y``, or of ``both`` if x are fitted values."""
        if both:
            return replace(self, x=self.x + offset, y=self.y + offset)
        p, q, r = self.line
        return replace(self, y=self.y + offset, line=np.array([p, q, r - q * offset]))


@dataclass(frozen=True)
class Profile:
    """Clusters, ``MOST_CLUSTERS`` at most, by size and by the distance of their mean from the nearest kink."""

    sizes: Int
    distances: Float

    @classmethod
    def of(cls, result: Result) -> Profile | None:
        """Of the final clusters at the best point, if the problem can tell."""
        clusters: Clusters = result.clusters
        distances = clusters.problem.distances(clusters, result.point)
        if distances is None:
            return None
        shown = sample(clusters.counts, distances)
        return cls(clusters.counts[shown], distances[shown])


Draw = Callable[[Clusters, Any, int], Frame | None]
"""A picture of the clusters and a point in an iteration, if a plane can show them."""


@dataclass
class Trace:
    """Observer of a fit that keeps a picture of each iteration, ``MOST_FRAMES`` at most."""

    draw: Draw
    frames: list[Frame] = field(default_factory=list)

    def __call__(self, clusters: Clusters, solution: Solution, record: Iteration) -> None:
        frame = self.draw(clusters, solution.point, record.iteration)
        if frame is not None:
            self.frames.append(frame)
        if len(self.frames) > MOST_FRAMES:
            del self.frames[1:-1:2]


def sample(counts: Int, distances: Float, most: int = MOST_CLUSTERS) -> Int:
    """Clusters to show: all, or half of ``most`` the largest and half spread evenly over the distances of the rest."""
    if len(counts) <= most:
        return np.arange(len(counts))
    by_size = np.argsort(-counts, kind="stable")
    largest, rest = by_size[: most // 2], by_size[most // 2 :]
    rest = rest[np.argsort(distances[rest], kind="stable")]
    places = np.linspace(0, len(rest) - 1, most - len(largest)).astype(np.int64)
    return np.sort(np.concatenate([largest, rest[places]]))
