"""Clusters of dependent rows: their codes, their scores and their design effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aidlearn.data.passes.run import Run, fold
from aidlearn.data.rows.chunk import Chunk
from aidlearn.inference.survey import Survey
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Metric
from aidlearn.numerics import Float, Int

Value = TypeVar("Value")


@dataclass(frozen=True)
class ClusterCodes:
    """Clusters of dependent rows: the cluster number of each row, counted from 0."""

    codes: NDArray[np.int32]
    n: int

    @classmethod
    def of(cls, labels: ArrayLike) -> ClusterCodes:
        """Number the clusters of the given labels."""
        found, codes = np.unique(labels, return_inverse=True)
        return cls(codes.astype(np.int32), len(found))

    def sums(
        self, run: Run, width: int, scores: Callable[[Chunk, Int, int], tuple[Float, Value]]
    ) -> tuple[Float, list[Value]]:
        """Sum scores by cluster, by one pass.

        ``scores(chunk, places, n)`` returns the sums for the n clusters that occur in a chunk, given the place of each
        row's cluster among them, and another value; the values are returned in chunk order.
        """
        out = np.zeros((self.n, width))
        values: list[Value] = []

        def measure(chunk: Chunk) -> tuple[Int, tuple[Float, Value]]:
            here, places = np.unique(self.codes[chunk.start : chunk.stop], return_inverse=True)
            return here.astype(np.int64), scores(chunk, places, len(here))

        def collect(found: tuple[Int, tuple[Float, Value]]) -> None:
            here, (part, value) = found
            out[here] += part
            values.append(value)

        fold(run, measure, collect)
        return out, values


def cluster_scores(seen: Survey, clusters: ClusterCodes) -> Float:
    """Compute ``M = sum_g s_g s_g'``; ``s_g`` sums ``w_i x_i (tau - 1(u_i <= 0))`` over the rows of cluster g.

    The residuals of the p rows that the solution interpolates are rounding errors, which count as 0.
    """
    design = seen.design
    m = design.n_attributes

    def scores(chunk: Chunk, places: Int, n: int) -> tuple[Float, None]:
        score = chunk.weight * (seen.quantile - (seen.residuals(chunk) <= seen.zero))
        total = np.bincount(places, weights=score, minlength=n)
        part = np.empty((n, design.n_variables))
        part[:, :m] = chunk.sums_by(places, n, score) - np.outer(total, design.centre)
        if design.fit_intercept:
            part[:, -1] = total
        return part, None

    sums, _ = clusters.sums(seen.run, design.n_variables, scores)
    return np.asarray(sums.T @ sums)


def design_effect(run: Run, design: Design, point: Float, metric: Metric, clusters: ClusterCodes) -> float:
    """Return ``sum_g |sum_{i in g} s_i|^2 / sum_i |s_i|^2`` of scores ``s_i = w_i loss'(z_i) a_i``, at least 1.

    This is the factor on the mean variance of a fitted value (Kish's design effect). ``|.|`` is the norm of the inverse
    Gram matrix, computed by the sketch of the metric: a cluster takes a few numbers, whatever the number of columns.
    """
    m, sketch = design.n_attributes, metric.sketch
    offset = -design.centre @ sketch[:m]
    offset = offset + sketch[m] if design.fit_intercept else offset

    def scores(chunk: Chunk, places: Int, n: int) -> tuple[Float, float]:
        slope = chunk.weight * design.loss.slopes(design.margins(chunk, point))
        sign, _ = design.loss.fold(chunk.y)
        s = (slope if sign is None else sign * slope)[:, None] * (np.asarray(chunk.X @ sketch[:m]) + offset)
        return np.column_stack([np.bincount(places, column, n) for column in s.T]), float(np.square(s).sum())

    sums, squares = clusters.sums(run, sketch.shape[1], scores)
    return max(1.0, float(np.square(sums).sum()) / (sum(squares) or 1.0))
