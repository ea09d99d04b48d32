"""How much more fits vary when rows come in clusters than when they are independent."""

from __future__ import annotations

from typing import Any

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.inference.covariance import ClusterCodes
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric
from aidlearn.numerics import Float


def design_effect(run: Run, design: Design, point: Float, metric: Metric, clusters: ClusterCodes) -> float:
    """``sum_g |sum_{i in g} s_i|^2 / sum_i |s_i|^2`` of the scores ``s_i = w_i loss'(z_i) a_i``, at least 1.

    It is the factor on the mean variance of a fitted value (Kish's design effect); ``|.|`` is the norm of the inverse
    Gram matrix, by the sketch of the metric, so that a cluster costs a few numbers whatever the columns.
    """
    m = design.n_attributes
    offset = -design.centre @ metric.sketch[:m]
    offset = offset + metric.sketch[m] if design.fit_intercept else offset
    sums = np.zeros((clusters.n, metric.sketch.shape[1]))
    single: list[float] = []

    def measure(chunk: Chunk, state: Any) -> tuple[Any, None]:
        slope = chunk.weight * design.loss.slopes(design.margins(chunk, point))
        sign, _ = design.loss.fold(chunk.y)
        scores = (slope if sign is None else sign * slope)[:, None] * (np.asarray(chunk.X @ metric.sketch[:m]) + offset)
        here, codes = np.unique(clusters.codes[chunk.start : chunk.stop], return_inverse=True)
        part = np.column_stack([np.bincount(codes, column, len(here)) for column in scores.T])
        return (here, part, float(np.square(scores).sum())), None

    def collect(value: Any) -> None:
        sums[value[0]] += value[1]
        single.append(value[2])

    run.map(measure, collect=collect)
    return max(1.0, float(np.square(sums).sum()) / (sum(single) or 1.0))
