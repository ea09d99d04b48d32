"""How much a report shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReportSettings:
    """Largest numbers of items in the sections of a report. All are guesses of what a reader wants to see."""

    coefficients: int = 30
    """Coefficients listed by size."""
    iterations: int = 200
    """Iterations listed; of more, the first and the last half of this number."""
    clusters: int = 700
    """Clusters in the plot of sizes."""
    bands: int = 8
    """Charts over quantiles: the intercept and the coefficients with the largest statistics."""
    intervals: int = 40
    """Confidence intervals drawn, those with the largest statistics."""


SETTINGS = ReportSettings()
