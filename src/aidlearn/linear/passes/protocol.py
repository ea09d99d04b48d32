"""The passes over the rows of a linear model: what each computes from a chunk.

There are two implementations. :class:`~aidlearn.linear.passes.in_numpy.NumpyPasses` is for data that are not worth a
compiler; :class:`~aidlearn.linear.passes.compiled.CompiledPasses` reads every row once, without the interpreter lock.
:func:`aidlearn.linear.passes.choice.passes_of` chooses between them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.problem import Moved, Trial
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Leverage, Metric
from aidlearn.linear.passes.records import (
    CARRIES,
    WIDER_BY_LEVERAGE,
    Grouping,
    Groups,
    LocalSums,
    MemberLosses,
    Regions,
    RowsBetween,
)
from aidlearn.linear.rows.matrix import Matrix
from aidlearn.numerics import Float, Int


class Passes(Protocol):
    """What a fit computes from the rows of a chunk. A leverage is one number for each row, or one for all."""

    # One model

    def leverages(self, design: Design, chunk: Chunk, metric: Metric) -> Leverage:
        """Leverages of the rows in a metric."""

    def local_sums(self, design: Design, chunk: Chunk, point: Float, leverage: Leverage, kappa: float) -> LocalSums:
        """Loss, forces and curvature with every kink rounded off over ``kappa * leverage``."""

    def scaled_rows(self, design: Design, chunk: Chunk, selected: NDArray[np.integer], factor: Float) -> Matrix:
        """Selected rows ``factor_i a_i`` (see :meth:`aidlearn.linear.model.design.Design.rows`)."""

    def groups(self, design: Design, chunk: Chunk, point: Float, leverage: Leverage, grouping: Grouping) -> Groups:
        """Groups by side and distance, the rows that stay alone, and the sums of the groups.

        The group of a row is its region, and in it the bin of its distance in leverages; groups of the positive class
        come behind those of the other. Planes divide each group further. Rows with a number in a rare column are in
        separate groups.
        """

    def moves(self, design: Design, chunk: Chunk, trial: Trial, regions: Regions, homes: NDArray[np.int16]) -> Moved:
        """Objectives at the points of a trial, and the entries that a split takes out of their cluster.

        An entry on a kink or with weight 0 fits every region and counts as at home. ``homes`` has the region of each
        cluster, -1 for one that cannot be split.
        """

    def dual_entries(self, design: Design, chunk: Chunk, labels: NDArray[np.int32], share: Float) -> tuple[Int, Float]:
        """Entries of clusters with a dual, and their share of it times their sign."""

    # Many members

    def between(
        self,
        design: Design,
        chunk: Chunk,
        planes: Float,
        leverage: Leverage,
        reach: float,
        wider: float = WIDER_BY_LEVERAGE,
        carries: float = CARRIES,
        summed: bool = True,
    ) -> RowsBetween:
        """Rows between planes (with the intercept last), and without ``summed`` no sums of the others.

        A row is near if its margins at the planes, widened by ``reach`` leverages, have a kink between them, or if it
        carries a coefficient by itself.
        """

    def losses(self, scores: Float, levels: Float, y: Float, factors: Float, of: Int, losses: MemberLosses) -> Float:
        """``sum_i s_ik loss_k(z_ik)`` over the scales, for scores of shape (rows, members) without their ``levels``.

        ``factors`` are the weights of the rows for each replicate; ``of`` has the replicate of each member (empty: one
        replicate for all, or the k-th for the k-th member).
        """

    def segments(
        self,
        ends: Float,
        origins: Float,
        y: Float,
        weight: Float,
        of: Int,
        losses: MemberLosses,
        labels: NDArray[np.int32],
        homes: NDArray[np.int8],
        codes: NDArray[np.int16],
    ) -> Float:
        """Losses over the scales at the steps of a segment of each member; fills ``codes``.

        ``ends`` and ``origins`` are scores of shape (rows, members; one column if all origins are equal), ``weight``
        has a column for each replicate. A row that for some members is not in the region of its cluster's mean
        (``homes``) gets a code that identifies these members.
        """

    def crossings(self, scores: Float, levels: Float, weight: Float) -> int:
        """Number of pairs of neighbouring planes in the wrong order, over rows with weight."""
