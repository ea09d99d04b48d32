"""Arguments and results of the passes over the rows of a linear model.

They belong to :class:`aidlearn.linear.passes.in_numpy.Passes`. Arguments of compiled loops are named tuples, which
numba can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidlearn.engine.problem import Trial
from aidlearn.linear.model.losses import Loss
from aidlearn.numerics import Float, Int

WIDER_BY_LEVERAGE = 30.0
"""Widening of the band of single rows, per unit of leverage: a coefficient that few rows carry has an error larger
than the usual root-n one."""
CARRIES = 0.1
"""Leverage above which a row stays alone at any distance: at most ten rows per variable exceed it."""


@dataclass(frozen=True)
class LocalSums:
    """The loss of a chunk near a point, with every kink rounded off."""

    objective: float
    """Loss with exact kinks."""
    forces: Float
    """``sum_i slope_i sign_i (x_i, 1)``."""
    near: NDArray[np.integer]
    """Rows with weight within the width of a kink."""
    curvature: Float
    """Second derivatives of the loss at the near rows, all positive."""
    total_curvature: float
    """Sum of ``curvature``."""


@dataclass(frozen=True)
class ByColumn:
    """Groups, in each region and class, by the rarest column in which a row has a non-zero."""

    part: NDArray[np.int32]
    """Part of each column, ascending with the column's number of rows; ``n_parts`` for columns that are not rare."""
    n_parts: int
    """Number of parts."""
    first: int
    """Label of the first of these groups; groups of bins and sides come before it."""


@dataclass(frozen=True)
class Grouping:
    """Rule that groups rows by region and by distance (in leverages) from the nearest kink."""

    near: float
    """Distance up to which a row stays alone."""
    bins: float
    """Bins per unit of distance."""
    n_bins: int
    """Number of bins in each region."""
    cuts: Float
    """Margins that separate the regions; a region's index is the number of cuts below its margins."""
    n_groups: int
    """Number of groups: regions times bins times classes, doubled by each plane in ``sides``, plus those of columns."""
    carries: float = CARRIES
    """Leverage above which a row stays alone at any distance."""
    sides: Float | None = None
    """Planes (with their intercepts) that divide each bin further."""
    by_column: ByColumn | None = None
    """Separate groups for rows with non-zeros in rare columns."""


@dataclass(frozen=True)
class Groups:
    """Groups of a chunk and their sums, which exclude the rows that stay alone."""

    objective: float
    labels: NDArray[np.int32]
    alone: Int
    counts: Int
    sums: Float


@dataclass(frozen=True)
class Segment(Trial):
    """Points ``end + (1 - t)(origin - end)``; margins are affine, so all points together cost two products."""

    STEPS: ClassVar[tuple[float, ...]] = (1.0, 0.1, 0.5, 0.25, 0.03)

    origin: Float | None = None
    n_alone: float = 0.0
    """Largest fraction of a chunk's entries that may become clusters of their own."""
    dissolved: NDArray[np.bool_] | None = None
    """Clusters whose entries all become clusters of their own."""

    @classmethod
    def between(cls, origin: Float, end: Float, n_alone: float, dissolved: NDArray[np.bool_] | None = None) -> Segment:
        points = [origin + t * (end - origin) for t in cls.STEPS]
        points[0] = end
        return cls(points, n_split=2, origin=origin, n_alone=n_alone, dissolved=dissolved)


class Regions(NamedTuple):
    """Cuts and tolerance that assign margins to regions."""

    cuts: Float
    """Margins that separate the regions."""
    tolerance: float
    """Distance from a kink, relative to ``|e|``, within which an entry fits every region; if negative, none does."""

    @property
    def number(self) -> int:
        return len(self.cuts) + 1

    def of(self, z: Float) -> NDArray[np.int8]:
        """Return the region of each margin, the number of cuts below it."""
        return cuts_below(z, self.cuts)


def cuts_below(z: Float, cuts: Iterable[float]) -> NDArray[np.int8]:
    """Return the number of cuts below each margin."""
    found = np.zeros(len(z), dtype=np.int8)
    for cut in cuts:
        found += z > cut
    return found


@dataclass(frozen=True)
class RowsBetween:
    """Rows of a chunk between planes, and the sums of all others by region."""

    near: Int
    regions: NDArray[np.int8]
    """Region of each row, -1 for near rows."""
    counts: Int
    """Number of other rows in each region."""
    sums: Float
    """Sums of the other rows of each region, in the columns of ``Design.aggregate``."""


class Reach(NamedTuple):
    """Limits within which rows count as near to planes."""

    distance: float
    """Distance from the planes, in leverages."""
    wider: float = WIDER_BY_LEVERAGE
    """Widening of the distance, per unit of leverage."""
    carries: float = CARRIES
    """Leverage above which a row is near at any distance."""


class MemberLosses(NamedTuple):
    """Losses of several members with the same number of kinks: arrays of shape (kinks, members), over the scales."""

    positive: float
    """Target of the positive class, NaN for a regression."""
    scale: Float
    kinks: Float
    right: Float
    """Slope of each kink's part of the loss to the right of the kink."""
    left: Float
    """Slope of each kink's part of the loss to the left of the kink."""

    @classmethod
    def of(cls, losses: Sequence[Loss]) -> MemberLosses:
        kinks, tilts, jumps = np.ascontiguousarray(np.array([loss.parts for loss in losses]).transpose(2, 1, 0))
        scale = np.array([loss.scale for loss in losses])
        return cls(losses[0].folding, scale, kinks, (1.0 - tilts) * jumps, -tilts * jumps)


class SegmentSettings(NamedTuple):
    """Settings of the segments, shared by the members of a batch."""

    steps: Float = np.array([1.0, 0.1, 0.5, 0.0])
    """Points of the segment from a member's best point (0) to its aggregated solution (1) at which rows are evaluated
    (see :class:`Segment`). Guess."""
    n_split: int = 2
    """Number of leading steps at which rows are split off their clusters. Guess."""
    n_codes: int = 1 << 14
    """Number of codes for sets of members; a row's set has the members for which it left its cluster's region."""
    mix: Int = np.random.default_rng(0).integers(1, 1 << 40, size=4096)
    """Random numbers whose sum over members identifies the set of members."""


SEGMENTS = SegmentSettings()
