"""Losses and crossings of many planes on all rows in one pass: ``X @ V``, by blocks that stay in cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import Weights
from aidlearn.data.rows.chunk import Chunk
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.losses import Loss
from aidlearn.linear.passes import Passes, passes_of
from aidlearn.linear.passes.records import MemberLosses
from aidlearn.numerics import Float, Int

MARGINS = 1 << 16
"""Guess. Number of margins (rows times planes) that fit into a cache: 512 kB."""


def blocks(n: int, n_planes: int) -> Iterator[slice]:
    """Yield blocks of n rows whose margins at ``n_planes`` planes fit into a cache."""
    size = max(256, MARGINS // n_planes)
    return (slice(first, min(first + size, n)) for first in range(0, n, size))


def evaluating(
    design: Design,
    losses: Sequence[Loss],
    points: Sequence[Float],
    weights: Weights,
    replicates: Sequence[int],
    passes: Passes,
    ordered: bool = False,
) -> Callable[[Chunk], tuple[Float, int]]:
    """Return a function that evaluates points on a chunk, each with its own loss and a replicate's weights.

    That function returns the losses and, if ``ordered``, the number of crossings of neighbouring planes (0 if targets
    have an offset).
    """
    if not points:
        return lambda chunk: (np.zeros(0), 0)
    used = sorted(set(replicates))
    of: Int = np.array([used.index(replicate) for replicate in replicates])
    if np.array_equal(of, np.arange(len(used))):
        of = of[:0]
    V = np.array(points)
    slopes = np.ascontiguousarray(V[:, : design.n_attributes].T)
    levels = np.array([design.intercept(point) for point in V]) if design.fit_intercept else np.zeros(len(V))
    packed = MemberLosses.of(losses)
    designs = [replace(design, loss=loss) for loss in losses]

    def rounded_up(chunk: Chunk, factors: Float) -> Float:
        own = factors[of] if len(of) else factors
        chunks = [replace(chunk, weight=weight) for weight in own]
        parts = zip(designs, chunks, points, strict=True)
        return np.array([each.losses(rows, each.margins(rows, point)) for each, rows, point in parts])

    def evaluate(chunk: Chunk) -> tuple[Float, int]:
        factors = weights(chunk.start, chunk.stop, used)
        factors *= chunk.weight
        if design.offset:  # objectives are rounded up entry by entry
            return rounded_up(chunk, factors), 0
        sums, found = np.zeros(len(V)), 0
        for rows in blocks(chunk.n_entries, len(V)):
            scores = np.asarray(chunk.X[rows] @ slopes, dtype=np.float64)
            own = np.ascontiguousarray(factors[:, rows].T)
            sums += passes.losses(scores, levels, chunk.y[rows], own, of, packed)
            if ordered:
                found += passes.crossings(scores, levels, chunk.weight[rows])
        return sums * packed.scale, found

    return evaluate


def count_crossings(run: Run, points: Float, fit_intercept: bool) -> int:
    """Count pairs of neighbouring planes in the wrong order, summed over the rows with weight, in one pass.

    ``points`` are in the order of their quantiles. Equal predictions, up to rounding, are no crossing.
    """
    m, passes = run.n_attributes, passes_of(run)
    slopes = np.ascontiguousarray(points[:, :m].T)
    levels = points[:, m] if fit_intercept else np.zeros(len(points))
    if not np.ptp(slopes, axis=1).any() and (np.diff(levels) >= 0).all():
        return 0  # parallel, and in order
    found: list[int] = []

    def measure(chunk: Chunk, state: Any) -> tuple[int, None]:
        number = 0
        for rows in blocks(chunk.n_entries, len(points)):
            scores = np.asarray(chunk.X[rows] @ slopes, dtype=np.float64)
            number += passes.crossings(scores, levels, chunk.weight[rows])
        return number, None

    run.map(measure, collect=found.append)
    return sum(found)
