"""Aggregated data of the semi-supervised SVM (paper, section 3.3): sums of clusters and the problem of their means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aidlearn.numerics import Float, Int
from aidlearn.semisupervised.branch_and_bound import SemiSupervisedRows


@dataclass(frozen=True)
class ClusterSums:
    """The columns of the aggregated data: sums of s_i x_i, of s_i and of s_i y_i over the entries of each cluster."""

    attributes: Float
    weight: Float
    signed: Float

    @classmethod
    def of(cls, sums: Float) -> ClusterSums:
        """Name the columns of an array of sums."""
        return cls(sums[:, :-2], sums[:, -2], sums[:, -1])

    @property
    def labels(self) -> Float:
        """Labels of the clusters, -1 or 1; 0 if unlabelled (labelled entries of two classes never share a cluster)."""
        return np.sign(self.signed)

    def means(self, which: Int) -> Float:
        """Return the mean attributes of some clusters with a positive weight."""
        return self.attributes[which] / self.weight[which, None]

    def scores(self, point: Float) -> Float:
        """Return the scores of the means of all clusters; b for clusters without weight."""
        return self.attributes @ point[:-1] / np.where(self.weight > 0, self.weight, 1.0) + point[-1]


@dataclass(frozen=True)
class Balance:
    """The balance constraint: the mean of the unlabelled entries, and its required score."""

    mean: Float
    score: float

    def point(self, w: Float) -> Float:
        """Return the balanced hyperplane with this w."""
        return np.append(w, self.score - self.mean @ w)


@dataclass(frozen=True)
class Aggregated:
    """The aggregated problem in coordinates v with ``w = basis v``, at most one per row."""

    rows: SemiSupervisedRows
    unlabelled: Int
    """Numbers of the clusters of the unlabelled rows."""
    centre: Float
    basis: Float | None

    def point(self, v: Float, b: float) -> Float:
        """Return the hyperplane of some coordinates."""
        w = v if self.basis is None else self.basis @ v
        return np.append(w, b - self.centre @ w)

    def coordinates(self, point: Float) -> tuple[Float, float]:
        """Return the coordinates of a hyperplane."""
        w = point[:-1]
        return (w if self.basis is None else self.basis.T @ w), float(point[-1] + self.centre @ w)
