"""Records for plots of a fit: the final clusters by distance from their kinks, and pictures of data in a plane.

The engine does not depend on it: a :class:`Trace` is an ordinary observer of the loop.
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
"""Maximum number of clusters in a profile or picture: the largest, and a regular sample of the others."""
MOST_FRAMES = 200
"""Maximum number of pictures of a fit; beyond it, every other one is dropped."""


@dataclass(frozen=True)
class Frame:
    """The clusters and the hyperplane of one iteration, for data that can be drawn in a plane.

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
    """Number of clusters of the iteration; the arrays below hold at most ``MOST_CLUSTERS`` of them."""
    x: Float
    y: Float
    """Means of the clusters in the plane."""
    sizes: Int
    regions: NDArray[np.int8]
    """Linear piece of the loss at the mean of each cluster."""
    labels: NDArray[np.int8]
    """Class of each cluster: 1, -1, or 0 if there are no classes or it is unknown."""
    line: Float
    """``(p, q, r)``: the hyperplane is ``p x + q y + r = 0``."""
    levels: Float
    """Values of ``p x + q y + r`` on the margins (a tube around a regression line)."""

    def raised(self, offset: float, both: bool) -> Frame:
        """Return the picture with an offset added to ``y``, and to ``x`` too if these are fitted values (``both``)."""
        if both:
            return replace(self, x=self.x + offset, y=self.y + offset)
        p, q, r = self.line
        return replace(self, y=self.y + offset, line=np.array([p, q, r - q * offset]))


@dataclass(frozen=True)
class Profile:
    """Sizes of at most ``MOST_CLUSTERS`` clusters, and distances of their means from the nearest kink."""

    sizes: Int
    distances: Float

    @classmethod
    def of(cls, result: Result) -> Profile | None:
        """Return the profile of the final clusters at the best point, or None if the problem has no distances."""
        clusters: Clusters = result.clusters
        distances = clusters.problem.distances(clusters, result.point)
        if distances is None:
            return None
        shown = sample(clusters.counts, distances)
        return cls(clusters.counts[shown], distances[shown])


Draw = Callable[[Clusters, Any, int], Frame | None]
"""Function that draws the clusters and a point of an iteration, or returns None if a plane cannot show them."""


@dataclass
class Trace:
    """Observer of a fit that keeps at most ``MOST_FRAMES`` pictures of iterations."""

    draw: Draw
    frames: list[Frame] = field(default_factory=list)

    def __call__(self, clusters: Clusters, solution: Solution, record: Iteration) -> None:
        frame = self.draw(clusters, solution.point, record.iteration)
        if frame is not None:
            self.frames.append(frame)
        if len(self.frames) > MOST_FRAMES:
            del self.frames[1:-1:2]


def sample(counts: Int, distances: Float, most: int = MOST_CLUSTERS) -> Int:
    """Choose clusters to show: all, or the ``most / 2`` largest and as many evenly spread over the other distances."""
    if len(counts) <= most:
        return np.arange(len(counts))
    by_size = np.argsort(-counts, kind="stable")
    largest, rest = by_size[: most // 2], by_size[most // 2 :]
    rest = rest[np.argsort(distances[rest], kind="stable")]
    places = np.linspace(0, len(rest) - 1, most - len(largest)).astype(np.int64)
    return np.sort(np.concatenate([largest, rest[places]]))
