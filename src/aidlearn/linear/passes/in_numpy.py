"""Passes over the rows of a linear model in NumPy: for small data, and as the reference of the compiled passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.problem import Evaluation, Moved, Trial
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Leverage, Metric
from aidlearn.linear.passes.records import (
    SEGMENTS,
    WIDER_BY_LEVERAGE,
    ByColumn,
    Grouping,
    Groups,
    LocalSums,
    MemberLosses,
    Reach,
    Regions,
    RowsBetween,
    Segment,
    cuts_below,
)
from aidlearn.linear.rows.matrix import Matrix
from aidlearn.numerics import NOISE, Float, Int

SAME_PLACE = 1e-12
"""Largest relative difference of two predictions in the wrong order that does not count as a crossing."""


class Passes:
    """Passes that a fit makes over the rows of a chunk. A leverage is an array with one number per row, or one for all.

    :class:`~aidlearn.linear.passes.compiled.CompiledPasses` computes the same results, reads every row once and
    releases the interpreter lock.
    """

    # One model

    def leverages(self, design: Design, chunk: Chunk, metric: Metric) -> Leverage:
        """Return the leverages of the rows in a metric."""
        return metric.leverage(design, chunk)

    def local_sums(self, design: Design, chunk: Chunk, point: Float, leverage: Leverage, kappa: float) -> LocalSums:
        """Return loss, forces and curvature with every kink rounded off over ``kappa * leverage``."""
        z = design.margins(chunk, point)
        width = np.broadcast_to(kappa * np.asarray(leverage, dtype=np.float64), len(z))
        slope, near, curvature = design.loss.smoothed(z, width)
        slope *= chunk.weight
        curvature = curvature * chunk.weight[near]
        counted = curvature > 0  # rows without weight do not count as near
        near, curvature = near[counted], curvature[counted]
        sign, _ = design.loss.fold(chunk.y)
        signed = slope if sign is None else slope * sign
        forces = np.append(chunk.transposed_times(signed), signed.sum())
        objective = float(chunk.weight @ design.loss.values(z))
        return LocalSums(objective, forces, near, curvature, float(curvature.sum()))

    def scaled_rows(self, design: Design, chunk: Chunk, selected: NDArray[np.integer], factor: Float) -> Matrix:
        """Return the selected rows ``factor_i a_i`` (see :meth:`aidlearn.linear.model.design.Design.rows`)."""
        return design.rows(chunk, selected).scaled_rows(factor)

    def groups(self, design: Design, chunk: Chunk, point: Float, leverage: Leverage, grouping: Grouping) -> Groups:
        """Return the groups by side and distance, the rows that stay alone, and the sums of the groups.

        The group of a row combines its region with the bin of its distance in leverages; groups of the positive class
        follow those of the other. Planes divide each group further. Rows with a non-zero in a rare column form
        separate groups.
        """
        loss, n_bins, n_regions = design.loss, grouping.n_bins, len(grouping.cuts) + 1
        z = design.margins(chunk, point)
        distance = loss.distance(z) / leverage
        sign, _ = loss.fold(chunk.y)
        kind = cuts_below(z, grouping.cuts).astype(np.int32)
        if sign is not None:
            kind[sign > 0] += n_regions
        # A label is an index, so a NaN distance (from a NaN point) goes into the last bin.
        labels = kind * n_bins + np.fmin(distance * grouping.bins, n_bins - 1).astype(np.int32)
        for side in () if grouping.sides is None else grouping.sides:
            labels = 2 * labels + (chunk @ side[:-1] + side[-1] > 0)
        by = grouping.by_column
        if by is not None:
            part = rarest(chunk.X, by)
            labels = np.where(part < by.n_parts, by.first + kind * by.n_parts + part, labels)
        share = chunk.weight * np.asarray(leverage, dtype=np.float64) ** 2
        alone = (distance <= grouping.near * (1 + WIDER_BY_LEVERAGE * share)) | (share > grouping.carries)
        together = np.flatnonzero(~alone)
        sums = design.aggregate(chunk.select(together), labels[together], grouping.n_groups)
        counts = np.bincount(labels[together], minlength=grouping.n_groups)
        return Groups(design.objective_at(chunk, point, z), labels, np.flatnonzero(alone), counts, sums)

    def moves(self, design: Design, chunk: Chunk, trial: Trial, regions: Regions, homes: NDArray[np.int16]) -> Moved:
        """Return the objectives at the points of a trial, and the entries that a split takes out of their cluster.

        An entry on a kink or with weight 0 fits every region, so it stays in its cluster. ``homes`` holds the home
        region of each cluster, or -1 if the cluster cannot be split.
        """
        if not (homes >= 0).any():  # regions do not matter
            return Moved.nothing(_objectives(design, chunk, trial, _margins(design, chunk, trial)))
        return evaluation(design, chunk, trial, regions).moved(homes[chunk.labels], regions.number)

    # Many members

    def between(self, design: Design, chunk: Chunk, planes: Float, leverage: Leverage, reach: Reach) -> RowsBetween:
        """Return the rows between one or two planes (with the intercept last), and the sums of the others.

        A row is near if a kink lies between its margins at the planes, widened by the reach, or if its leverage exceeds
        ``reach.carries``.
        """
        loss, m = design.loss, design.n_attributes
        margins = [loss.margins(chunk.y, chunk @ plane[:m] + plane[m]) for plane in planes]
        low, high = np.minimum.reduce(margins), np.maximum.reduce(margins)
        spread = np.broadcast_to(np.asarray(leverage, dtype=np.float64), len(low))
        share = chunk.weight * spread**2
        width = reach.distance * spread * (1 + reach.wider * share)
        close = share > reach.carries
        for kink in loss.kinks:
            close |= (low - width <= kink) & (kink <= high + width)
        regions = np.where(close, np.int8(-1), cuts_below(low, loss.kinks))
        far = np.flatnonzero(~close)
        counts = np.bincount(regions[far], minlength=loss.n_regions)
        sums = design.aggregate(chunk.select(far), regions[far], loss.n_regions)
        return RowsBetween(np.flatnonzero(close), regions, counts, sums)

    def losses(self, scores: Float, levels: Float, y: Float, factors: Float, of: Int, losses: MemberLosses) -> Float:
        """Return ``sum_i s_ik loss_k(z_ik)`` divided by the scales; ``scores`` (rows, members) exclude the ``levels``.

        ``factors`` holds the weights of the rows for each replicate, ``of`` the replicate of each member. If ``of`` is
        empty, all members share one replicate, or member k has replicate k.
        """
        own = factors[:, of] if len(of) else factors
        sign, e = _folded(y, losses.positive)
        return _summed(e - sign * (scores + levels), own, losses)

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
        """Return the losses, divided by the scales, at the steps of each member's segment, and fill ``codes``.

        ``ends`` and ``origins`` are scores of shape (rows, members), or (rows, 1) if all origins are equal; ``weight``
        has one column per replicate. If a row lies outside the region of its cluster's mean (``homes``) for some
        members, its code identifies them.
        """
        own = weight[:, of]
        sign, e = _folded(y, losses.positive)
        origin, change = e - sign * origins, -sign * (ends - origins)
        totals, which = np.zeros((len(SEGMENTS.steps), ends.shape[1])), np.arange(ends.shape[1]) % len(SEGMENTS.mix)
        for number, step in enumerate(SEGMENTS.steps):
            z = origin + step * change
            totals[number] = _summed(z, own, losses)
            if number >= SEGMENTS.n_split or not len(homes):
                continue
            from_kinks = z[None] - losses.kinks[:, None]
            region = (from_kinks > 0).sum(axis=0)
            on_kink = np.abs(from_kinks).min(axis=0) <= NOISE * np.abs(e)
            apart = (region != homes[labels, number]) & (own > 0) & ~on_kink
            # Rows that leave their cluster for the same members get the same code.
            mixed = (apart * SEGMENTS.mix[which]).sum(axis=1) * (2 * number + 1)
            codes ^= np.where(apart.any(axis=1), (mixed % (SEGMENTS.n_codes - 1)) + 1, 0).astype(np.int16)
        return totals

    def crossings(self, scores: Float, levels: Float, weight: Float) -> int:
        """Return the number of pairs of neighbouring planes in the wrong order, over rows with weight."""
        predicted = scores + levels
        noise = SAME_PLACE * np.abs(predicted).max(axis=1, keepdims=True)
        wrong = (np.diff(predicted, axis=1) < -noise).sum(axis=1)
        return int(wrong[weight > 0].sum())


NUMPY = Passes()


def evaluation(design: Design, chunk: Chunk, trial: Trial, regions: Regions) -> Evaluation:
    """Return the objectives at the points of a trial and the region of every entry (-1: it fits every region)."""
    margins = _margins(design, chunk, trial)
    _, e = design.loss.fold(chunk.y)

    def at(z: Float) -> NDArray[np.int8]:
        found = regions.of(z)
        fits_all = chunk.weight == 0
        if regions.tolerance >= 0:
            fits_all |= design.loss.distance(z) <= regions.tolerance * np.abs(e)
        found[fits_all] = -1
        return found

    seen = np.stack([at(z) for z in margins[: trial.n_split]])
    return Evaluation(_objectives(design, chunk, trial, margins), seen)


def rarest(X: Any, by: ByColumn) -> NDArray[np.int32]:
    """Return the part of the rarest column in each row of a CSR matrix."""
    found = np.full(X.shape[0], by.n_parts, dtype=np.int32)
    filled = np.diff(X.indptr) > 0
    if filled.any():
        found[filled] = np.minimum.reduceat(by.part[X.indices], X.indptr[:-1][filled])
    return found


def _margins(design: Design, chunk: Chunk, trial: Trial) -> list[Float]:
    """Return the margins of the entries at each point of a trial."""
    end = design.margins(chunk, trial.points[0])
    if not isinstance(trial, Segment) or trial.origin is None:
        return [end]
    origin = design.margins(chunk, trial.origin)
    change = end - origin
    margins = [end] + [origin + t * change for t in Segment.STEPS[1:]]
    if design.offset:
        first, last = design.intercept(trial.origin), design.intercept(trial.points[0])
        for z, point, t in zip(margins[1:], trial.points[1:], Segment.STEPS[1:], strict=True):
            z -= design.intercept(point) - (first + t * (last - first))
    return margins


def _objectives(design: Design, chunk: Chunk, trial: Trial, margins: list[Float]) -> Float:
    end, *others = margins
    at_end = design.objective_at(chunk, trial.points[0], end)
    return np.array([at_end, *(design.losses(chunk, z) for z in others)])


def _folded(y: Float, positive: float) -> tuple[Float, Float]:
    """Return the signs and offsets e of rows, as columns."""
    one = np.ones((len(y), 1))
    return (one, y[:, None]) if np.isnan(positive) else (np.where(y == positive, 1.0, -1.0)[:, None], one)


def _summed(z: Float, weight: Float, losses: MemberLosses) -> Float:
    """Return the sums of the losses, divided by the scales, for margins of shape (rows, members)."""
    total = np.zeros(z.shape[1])
    for kink, right, left in zip(losses.kinks, losses.right, losses.left, strict=True):
        from_kink = z - kink
        total += (weight * np.maximum(right * from_kink, left * from_kink)).sum(axis=0)
    return total
