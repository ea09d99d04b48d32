"""How much more fits vary when rows come in clusters than when they are independent."""

from __future__ import annotations

import numpy as np

from aidlearn.data.passes.run import Run, fold
from aidlearn.data.rows.chunk import Chunk
from aidlearn.inference.covariance import ClusterCodes
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric
from aidlearn.numerics import Float, Int


def design_effect(run: Run, design: Design, point: Float, metric: Metric, clusters: ClusterCodes) -> float:
    """``sum_g |sum_{i in g} s_i|^2 / sum_i |s_i|^2`` of the scores ``s_i = w_i loss'(z_i) a_i``, at least 1.

    This is the factor on the mean variance of a fitted value (Kish's design effect). ``|.|`` is the norm of the inverse
    Gram matrix, computed by the sketch of the metric: a cluster costs a few numbers, however many columns there are.
    """
    m = design.n_attributes
    offset = -design.centre @ metric.sketch[:m]
    offset = offset + metric.sketch[m] if design.fit_intercept else offset
    sums = np.zeros((clusters.n, metric.sketch.shape[1]))
    squares: list[float] = []

    def scores_of(chunk: Chunk) -> tuple[Int, Float, float]:
        slope = chunk.weight * design.loss.slopes(design.margins(chunk, point))
        sign, _ = design.loss.fold(chunk.y)
        scores = (slope if sign is None else sign * slope)[:, None] * (np.asarray(chunk.X @ metric.sketch[:m]) + offset)
        here, codes = clusters.within(chunk)
        part = [np.bincount(codes, column, len(here)) for column in scores.T]
        return here, np.column_stack(part).astype(np.float64, copy=False), float(np.square(scores).sum())

    def collect(value: tuple[Int, Float, float]) -> None:
        here, part, square = value
        sums[here] += part
        squares.append(square)

    fold(run, scores_of, collect)
    return max(1.0, float(np.square(sums).sum()) / (sum(squares) or 1.0))
