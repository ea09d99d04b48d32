"""Pictures of a linear model's clusters and hyperplane in the plane (paper, figures of clusters splitting)."""

from __future__ import annotations

import numpy as np

from aidlearn.engine.clusters import Clusters
from aidlearn.engine.sums import Sums
from aidlearn.linear.problem import PiecewiseLinear
from aidlearn.numerics import Float
from aidlearn.trace import Frame, sample

PURE = 1e-9
"""Rounding error of sums up to which a cluster counts as pure, with entries of one class."""


def frame(clusters: Clusters, point: Float, iteration: int) -> Frame | None:
    """Return clusters and hyperplane in two features; for a regression, one feature (or the fit) and the target."""
    problem = clusters.problem
    assert isinstance(problem, PiecewiseLinear)
    design, loss = problem.design, problem.design.loss
    m = design.n_attributes
    if m > 2 or (loss.classifies and (m == 1 or not design.fit_intercept)):
        return None
    sums = clusters.sums
    weight = sums[:, -1]
    shown = np.flatnonzero(weight > 0)
    labels = np.zeros(len(sums))
    if loss.classifies:
        # The intercept's column is the sum of the signs, because rows are signed; only pure clusters are shown.
        labels = sums[:, m] / np.where(weight > 0, weight, 1.0)
        shown = shown[np.abs(np.abs(labels[shown]) - 1) < PURE]
        labels = np.sign(labels)
    distances = problem.distances(clusters, point)
    shown = shown[sample(clusters.counts[shown], distances[shown])]
    means = sums[shown, :-1] / weight[shown, None]
    intercept = float(point[m]) if design.fit_intercept else 0.0
    if loss.classifies:
        across, up = (means[:, :2] * labels[shown, None]).T
        line, levels = [point[0], point[1], intercept], [-1.0, 1.0]
    else:
        fitted = means[:, :-1] @ point
        across, up = (means[:, 0] if m == 1 else fitted), means[:, -1]
        line = [point[0], -1.0, intercept] if m == 1 else [1.0, -1.0, 0.0]
        levels = [-kink for kink in loss.kinks if kink]
    return Frame(
        iteration=iteration,
        n_clusters=clusters.n_clusters,
        x=np.array(across),
        y=np.array(up),
        sizes=clusters.counts[shown],
        regions=problem.regions.of(design.mean_margins(Sums(sums[shown]), point)),
        labels=labels[shown].astype(np.int8),
        line=np.array(line, dtype=np.float64),
        levels=np.array(levels, dtype=np.float64),
    )
