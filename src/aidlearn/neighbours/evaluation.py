"""Losses of many planes over all rows, as a part of one pass: ``X @ V``, block by block while it is in cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aidlearn.data.passes.transforms import Weights
from aidlearn.data.rows.chunk import Chunk
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Loss
from aidlearn.linear.passes import Passes
from aidlearn.linear.passes.records import MemberLosses
from aidlearn.numerics import Float, Int

EVALUATED = 1 << 16
"""Margins (rows times points) that fit into a cache."""


class Evaluating:
    """Losses of points, each with a loss and with the weights of a replicate.

    With ``ordered`` also how often neighbouring planes cross (not beside an offset of the targets).
    """

    def __init__(
        self,
        design: Design,
        losses: Sequence[Loss],
        points: Sequence[Float],
        weights: Weights,
        replicates: Sequence[int],
        passes: Passes,
        ordered: bool = False,
    ) -> None:
        used = sorted(set(replicates))
        of: Int = np.array([used.index(replicate) for replicate in replicates])
        if np.array_equal(of, np.arange(len(used))):
            of = of[:0]
        V = np.array(points)
        slopes = np.ascontiguousarray(V[:, : design.n_attributes].T)
        levels = np.array([design.intercept(point) for point in V]) if design.fit_intercept else np.zeros(len(V))
        packed = MemberLosses.of(losses)
        at_once = max(256, EVALUATED // len(V))
        designs = [replace(design, loss=loss) for loss in losses]

        def rounded_up(chunk: Chunk, factors: Float) -> Float:
            own = factors[of] if len(of) else factors
            chunks = [replace(chunk, weight=weight) for weight in own]
            parts = zip(designs, chunks, points, strict=True)
            return np.array([each.losses(rows, each.margins(rows, point)) for each, rows, point in parts])

        def measure(chunk: Chunk) -> tuple[Float, int]:
            factors = weights(chunk.start, chunk.stop, used)
            factors *= chunk.weight
            if design.offset:  # objectives are rounded up entry by entry
                return rounded_up(chunk, factors), 0
            sums, found = np.zeros(len(V)), 0
            for first in range(0, chunk.n_entries, at_once):
                rows = slice(first, min(first + at_once, chunk.n_entries))
                scores = np.asarray(chunk.X[rows] @ slopes, dtype=np.float64)
                own = np.ascontiguousarray(factors[:, rows].T)
                sums += passes.losses(scores, levels, chunk.y[rows], own, of, packed)
                if ordered:
                    found += passes.crossings(scores, levels, chunk.weight[rows])
            return sums * packed.scale, found

        self.measure = measure
        self.total, self.crossings = np.zeros(len(V)), 0

    def keep(self, part: tuple[Float, int]) -> None:
        self.total += part[0]
        self.crossings += part[1]
