"""Frames of a semi-supervised machine with two features (paper, figures of clusters that split)."""

from __future__ import annotations

import numpy as np

from aidlearn.engine.clusters import Clusters
from aidlearn.numerics import Float
from aidlearn.semisupervised.aggregated import ClusterSums
from aidlearn.semisupervised.problem import SemiSupervised
from aidlearn.trace import Frame, sample


def frame(clusters: Clusters, point: Float, iteration: int) -> Frame | None:
    """Draw the clusters and the hyperplane; None unless there are two features."""
    problem = clusters.problem
    assert isinstance(problem, SemiSupervised)
    if problem.n_attributes != 2:
        return None
    data = ClusterSums.of(clusters.sums)
    shown = np.flatnonzero(data.weight > 0)
    shown = shown[sample(clusters.counts[shown], problem.distances(clusters, point)[shown])]
    z, labels = data.scores(point), data.labels
    means = data.means(shown)
    slack = 1.0 - np.where(labels != 0, labels * z, np.abs(z))
    regions = (slack > 0) + 2 * ((labels == 0) & (z > 0))
    return Frame(
        iteration=iteration,
        n_clusters=clusters.n_clusters,
        x=means[:, 0],
        y=means[:, 1],
        sizes=clusters.counts[shown],
        regions=regions[shown].astype(np.int8),
        labels=labels[shown].astype(np.int8),
        line=np.array(point, dtype=np.float64),
        levels=np.array([-1.0, 1.0]),
    )
