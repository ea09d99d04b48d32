"""Residuals with a gap where their density is wanted: no estimate of it means anything there.

A fit in a gap lies anywhere in it, tilts, and goes from one edge to the other with the sample. A kernel then sees one
edge and tells a large density, a difference quotient tells the width of the gap. The fits at tau - h and tau + h lie
beyond the edges: where there is a density, about half of the 2 h n rows between them lie in the middle half of the way
(a quarter of them in the tails of a Pareto distribution without a mean), in a gap next to none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.inference.covariance import InferenceError, Survey
from aidlearn.linear.model.design import Design
from aidlearn.numerics import Float

ENOUGH = 30
"""Rows expected between the neighbouring fits from which there is something to count: fewer than a tenth of them in the
middle half have a probability of 1 % where it is a quarter, 3e-7 where it is half."""
LIKELY = 0.45
"""Part of the residuals between two quantiles in the middle half, below which the neighbouring fits are asked."""
EMPTY = 0.1
"""Part of the rows expected between these fits in the middle half, below which there is a gap."""


def is_likely(seen: Survey, quantile: float, h: float) -> bool:
    """Whether the residuals of the fit itself are sparse around zero; they hide a gap in part where the fit tilts."""
    u = seen.residuals.values
    if 2 * h * seen.n < ENOUGH:
        return False
    low, high = np.quantile(u, [quantile - h, quantile + h])
    between = u[(u > low) & (u < high)]
    quarter = (high - low) / 4
    middle = np.count_nonzero((between > low + quarter) & (between < high - quarter) & (between != 0))
    return bool(middle < LIKELY * len(between) or len(between) == 0)


def check(run: Run, design: Design, low: Float, high: Float, seen: Survey, quantile: float, h: float) -> None:
    """Refuse a gap between the fits ``low`` and ``high`` at the quantiles ``quantile -+ h``, by one pass."""
    middle, zero = 0, seen.zero

    def measure(chunk: Chunk, state: Any) -> tuple[int, None]:
        below, above = design.margins(chunk, low), design.margins(chunk, high)
        width = below - above
        # At an atom both planes coincide, up to rounding, and its rows lie on them: no gap.
        within = (below >= 0.25 * width - zero) & (below <= 0.75 * width + zero) & (chunk.weight > 0)
        return int(np.count_nonzero(within)), None

    def collect(value: int) -> None:
        nonlocal middle
        middle += value

    run.map(measure, collect=collect)
    expected = 2 * h * seen.n
    if middle < EMPTY * expected:
        raise InferenceError(
            f"The density of the residuals cannot be estimated: they leave a gap at their {quantile:g} quantile (of "
            f"{expected:.0f} rows between the fits at quantiles {quantile - h:.3g} and {quantile + h:.3g}, {middle} "
            'lie in the middle half). Use se="rank" (of few rows) or se="bootstrap"; add a jitter to rounded targets.'
        )
