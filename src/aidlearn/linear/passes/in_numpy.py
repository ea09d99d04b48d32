"""Passes over the rows of a linear model in NumPy: for small data, and as what the compiled ones are tested against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.chunk import Chunk
from aidlearn.linear.passes.records import WIDER_BY_LEVERAGE, ByColumn, Groups, LocalSums, Split
from aidlearn.linear.rows.matrix import Matrix
from aidlearn.numerics import Float, Int

if TYPE_CHECKING:
    from aidlearn.linear.model.design import Design


def model(design: Design, chunk: Chunk, point: Float, leverage: Any, kappa: float) -> LocalSums:
    """Loss, forces and curvature of a chunk with every kink rounded off over ``kappa * leverage``.

    ``leverage`` holds one number for each row, or is a single one for all.
    """
    z = design.margins(chunk, point)
    width = np.broadcast_to(kappa * np.asarray(leverage, dtype=np.float64), len(z))
    slope, near, curvature = design.loss.smoothed(z, width)
    slope *= chunk.weight
    curvature = curvature * chunk.weight[near]
    counted = curvature > 0  # a row without weight is near nothing
    near, curvature = near[counted], curvature[counted]
    sign, _ = design.loss.fold(chunk.y)
    signed = slope if sign is None else slope * sign
    forces = np.append(chunk.transposed_times(signed), signed.sum())
    objective = float(chunk.weight @ design.loss.values(z))
    return LocalSums(objective, forces, near, curvature, float(curvature.sum()))


def scaled_rows(design: Design, chunk: Chunk, selected: NDArray[np.integer], factor: Float) -> Matrix:
    """Some rows ``factor_i a_i`` (see :meth:`aidlearn.linear.model.design.Design.rows`)."""
    return design.rows(chunk, selected).scaled_rows(factor)


def dual_entries(design: Design, chunk: Chunk, labels: NDArray[np.int32], share: Float) -> tuple[Int, Float]:
    """Entries of clusters with a dual, and their share of it times their sign."""
    alpha = chunk.weight * share[labels]
    rows = np.flatnonzero(alpha > 0)
    sign, _ = design.loss.fold(chunk.y)
    return rows, alpha[rows] if sign is None else alpha[rows] * sign[rows]


def groups(design: Design, chunk: Chunk, point: Float, leverage: Any, split: Split) -> Groups:
    """Groups of a chunk by side and distance, which rows stay alone, and the sums of the groups.

    The group of a row is its region, and in it the bin of its distance in leverages; the positive class comes behind
    the other. Each is parted further by the sides of planes. Rows with a number in a rare column are in groups of their
    own.
    """
    loss = design.loss
    z = design.margins(chunk, point)
    distance = loss.distance(z) / leverage
    labels = _regions(z, split.cuts).astype(np.int32) * split.n_bins
    # A label is an index: a distance that is not a number, of a point that is none, falls into the last bin.
    labels += np.fmin(distance * split.bins, split.n_bins - 1).astype(np.int32)
    sign, _ = loss.fold(chunk.y)
    if sign is not None:
        labels[sign > 0] += (len(split.cuts) + 1) * split.n_bins
    for side in () if split.sides is None else split.sides:
        labels = 2 * labels + (chunk @ side[:-1] + side[-1] > 0)
    if split.by_column is not None:
        part, n_parts = _rarest(chunk.X, split.by_column), split.by_column.n_parts
        kind = _regions(z, split.cuts).astype(np.int32)
        if sign is not None:
            kind[sign > 0] += len(split.cuts) + 1
        labels = np.where(part < n_parts, split.by_column.first + kind * n_parts + part, labels)
    share = chunk.weight * np.asarray(leverage, dtype=np.float64) ** 2
    alone = (distance <= split.near * (1 + WIDER_BY_LEVERAGE * share)) | (share > split.carries)
    if sign is not None:
        alone |= sign == split.rare_class
    together = np.flatnonzero(~alone)
    sums = design.aggregate(chunk.select(together), labels[together], split.n_groups)
    counts = np.bincount(labels[together], minlength=split.n_groups)
    return Groups(design.objective_at(chunk, point, z), labels, np.flatnonzero(alone), counts, sums)


def _rarest(X: Any, by: ByColumn) -> NDArray[np.int32]:
    """Part of the rarest column of each row of a CSR matrix."""
    found = np.full(X.shape[0], by.n_parts, dtype=np.int32)
    filled = np.diff(X.indptr) > 0
    if filled.any():
        found[filled] = np.minimum.reduceat(by.part[X.indices], X.indptr[:-1][filled])
    return found


def _regions(z: Float, cuts: Float) -> NDArray[np.int16]:
    """Number of cuts below each margin."""
    regions = np.zeros(len(z), dtype=np.int16)
    for cut in cuts:
        regions += z > cut
    return regions
