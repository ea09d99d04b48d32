"""Residuals with a gap where their density is wanted: no estimate of the density is valid there.

A fit in a gap may lie anywhere in it, tilts, and jumps from one edge to the other with the sample. A kernel then sees
one edge and estimates a large density; a difference quotient measures the width of the gap. The fits at tau - h and
tau + h lie beyond the edges. Where there is a density, about half of the 2 h n rows between these fits lie in the
middle half of the distance (a quarter of them in the tails of a Pareto distribution without a mean); in a gap almost
none do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aidlearn.data.passes.run import Run, total
from aidlearn.data.rows.chunk import Chunk
from aidlearn.inference.covariance import InferenceError, Survey
from aidlearn.linear.model.design import Design
from aidlearn.numerics import Float


@dataclass(frozen=True)
class GapSettings:
    """When residuals are said to have a gap."""

    enough_rows: int = 30
    """Expected rows between the neighbouring fits for the count to mean something: fewer than a tenth of 30 rows fall
    into the middle half with probability 1 % if a quarter is expected there, 3e-7 if half is."""
    likely_share: float = 0.45
    """Guess. The neighbouring fits are computed if less than this part of the residuals between the two quantiles lies
    in the middle half."""
    empty_share: float = 0.1
    """There is a gap if less than this part of the expected rows lies in the middle half (see ``enough_rows``)."""


SETTINGS = GapSettings()


def is_likely(seen: Survey, quantile: float, h: float) -> bool:
    """Whether the residuals of the fit itself are sparse around zero; a tilted fit hides part of a gap."""
    u = seen.residuals.values
    if 2 * h * seen.n < SETTINGS.enough_rows:
        return False
    low, high = np.quantile(u, [quantile - h, quantile + h])
    between = u[(u > low) & (u < high)]
    quarter = (high - low) / 4
    middle = np.count_nonzero((between > low + quarter) & (between < high - quarter) & (between != 0))
    return bool(middle < SETTINGS.likely_share * len(between) or len(between) == 0)


def check(run: Run, design: Design, low: Float, high: Float, seen: Survey, quantile: float, h: float) -> None:
    """Refuse a gap between the fits ``low`` and ``high`` at the quantiles ``quantile -+ h``, by one pass."""

    def in_the_middle(chunk: Chunk) -> Float:
        below, above = design.margins(chunk, low), design.margins(chunk, high)
        width = below - above
        # At an atom both planes coincide, up to rounding, and its rows lie on them: no gap.
        within = (below >= 0.25 * width - seen.zero) & (below <= 0.75 * width + seen.zero) & (chunk.weight > 0)
        return np.array([np.count_nonzero(within)], dtype=np.float64)

    middle, expected = int(total(run, in_the_middle)[0]), 2 * h * seen.n
    if middle < SETTINGS.empty_share * expected:
        raise InferenceError(
            f"The density of the residuals cannot be estimated: they leave a gap at their {quantile:g} quantile (of "
            f"{expected:.0f} rows between the fits at quantiles {quantile - h:.3g} and {quantile + h:.3g}, {middle} "
            'lie in the middle half). Use se="rank" (for few rows) or se="bootstrap", or add a jitter to rounded '
            "targets."
        )
