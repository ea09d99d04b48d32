"""Losses of many members along segments, and how rows lie beside their clusters (NumPy; see ``compiled_batch``)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.linear.aggregated.hinge_rows import EPS
from aidlearn.numerics import Float, Int

NOISE = 8 * EPS
"""Part of ``|e|`` within which a margin counts as on its kink."""
STEPS = np.array([1.0, 0.1, 0.5, 0.0])
"""Points of the segment from a member's best point to its aggregated solution that all rows are seen at; they are split
at the first two (see :class:`aidlearn.linear.problem.Segment`)."""
N_SPLIT = 2
CODES = 1 << 14
"""Numbers for the ways in which a row may lie beside the mean of its cluster at the solutions of all members."""
MIX = np.random.default_rng(0).integers(1, 1 << 40, size=4096)
"""Numbers whose sum over members tells which members they are."""


def segments(
    ends: Float,
    origins: Float,
    y: Any,
    weight: Float,
    of: Int,
    positive: float,
    kinks: Float,
    tilts: Float,
    labels: NDArray[np.int32],
    homes: NDArray[np.int8],
    codes: NDArray[np.int16],
) -> Float:
    """See :func:`aidlearn.neighbours.compiled.segments`."""
    sign = np.ones(len(y)) if math.isnan(positive) else np.where(y == positive, 1.0, -1.0)
    e = y if math.isnan(positive) else np.ones(len(y))
    own = weight[:, of]
    origin, change = e[:, None] - sign[:, None] * origins, -sign[:, None] * (ends - origins)
    totals = np.zeros((len(STEPS), ends.shape[1]))
    for number, step in enumerate(STEPS):
        z = origin + step * change
        for kink, tilt in zip(kinks, tilts, strict=True):
            totals[number] += (own * np.maximum((1 - tilt) * (z - kink), -tilt * (z - kink))).sum(axis=0)
        if number >= N_SPLIT or not len(homes):
            continue
        from_kinks = z[None] - kinks[:, None]
        region = (from_kinks > 0).sum(axis=0)
        on_kink = np.abs(from_kinks).min(axis=0) <= NOISE * np.abs(e)[:, None]
        apart = (region != homes[labels, number]) & (own > 0) & ~on_kink
        # Rows that are apart from their cluster for the same members have the same code.
        mixed = (apart * MIX[np.arange(ends.shape[1]) % len(MIX)]).sum(axis=1) * (2 * number + 1)
        codes ^= np.where(apart.any(axis=1), (mixed % (CODES - 1)) + 1, 0).astype(np.int16)
    return totals
