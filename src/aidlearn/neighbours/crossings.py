"""Planes of several quantiles that cross at rows of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.linear.passes import passes_of
from aidlearn.numerics import Float

AT_ONCE = 1 << 17
"""Predictions (rows times planes) that fit into a cache."""


def count_crossings(run: Run, points: Float, fit_intercept: bool) -> int:
    """Pairs of neighbouring planes in the wrong order, summed over the rows with weight, by one pass.

    ``points`` are in the order of their quantiles. Two planes in the same place do not cross; rounding decides neither.
    """
    m = run.n_attributes
    slopes = np.ascontiguousarray(points[:, :m].T)
    levels = points[:, m] if fit_intercept else np.zeros(len(points))
    rows = max(1, AT_ONCE // len(points))
    if not np.ptp(slopes, axis=1).any() and (np.diff(levels) >= 0).all():
        return 0  # parallel, and in order
    passes = passes_of(run)
    found: list[int] = []

    def measure(chunk: Chunk, state: Any) -> tuple[int, None]:
        number = 0
        for first in range(0, chunk.n_entries, rows):
            part = slice(first, min(first + rows, chunk.n_entries))
            scores = np.asarray(chunk.X[part] @ slopes, dtype=np.float64)
            number += passes.crossings(scores, levels, chunk.weight[part])
        return number, None

    run.map(measure, collect=found.append)
    return sum(found)
