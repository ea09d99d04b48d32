"""What plots of a run need: how far clusters are from their kinks (paper, section 5.3), and pictures of plane data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.source import Float, Int

MOST_CLUSTERS = 1500
"""Clusters that a profile or a picture keeps; the largest and a regular sample of the others stand for all."""
MOST_FRAMES = 200
"""Pictures that a run keeps; beyond, every other one is dropped."""


@dataclass(frozen=True)
class Frame:
    """The clusters and the hyperplane of one iteration, for data that a plane can show."""

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
    def of(cls, counts: Int, distances: Float | None) -> Profile | None:
        if distances is None:
            return None
        shown = sample(counts, distances)
        return cls(counts[shown], distances[shown])


def near_and_far(counts: Int, distances: Float) -> tuple[float | None, float | None]:
    """Aggregation rates of the clusters nearer to their kink than the median entry, and of the others."""
    order = np.argsort(distances, kind="stable")
    entries = np.cumsum(counts[order])
    median = distances[order[np.searchsorted(entries, entries[-1] / 2)]]
    near = distances < median

    def rate(group: NDArray[np.bool_]) -> float | None:
        return float(group.sum() / counts[group].sum()) if group.any() else None

    return rate(near), rate(~near)


def sample(counts: Int, distances: Float, most: int = MOST_CLUSTERS) -> Int:
    """Clusters to show: all, or half of ``most`` the largest and half spread evenly over the distances of the rest."""
    if len(counts) <= most:
        return np.arange(len(counts))
    by_size = np.argsort(-counts, kind="stable")
    largest, rest = by_size[: most // 2], by_size[most // 2 :]
    rest = rest[np.argsort(distances[rest], kind="stable")]
    places = np.linspace(0, len(rest) - 1, most - len(largest)).astype(np.int64)
    return np.sort(np.concatenate([largest, rest[places]]))
