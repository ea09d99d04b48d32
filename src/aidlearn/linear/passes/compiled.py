"""Compiled passes over the rows of a linear model; each reads its rows once (see :mod:`aidlearn.data.rows.compiled`).

The loops are in :mod:`aidlearn.linear.passes.kernels` and :mod:`aidlearn.linear.passes.member_kernels`.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.passes.compiled import leverages
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.compiled import rows_of, vector
from aidlearn.engine.problem import Moved, Trial
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import Leverage, Metric
from aidlearn.linear.passes import kernels, member_kernels
from aidlearn.linear.passes.in_numpy import SAME_PLACE, Passes, rarest
from aidlearn.linear.passes.records import (
    SEGMENTS,
    Grouping,
    Groups,
    LocalSums,
    MemberLosses,
    Reach,
    Regions,
    RowsBetween,
    Segment,
)
from aidlearn.linear.rows.matrix import Dense, Matrix
from aidlearn.numerics import NOISE, Float, Int

NO_PARTS = np.empty(0, dtype=np.int32)
"""Empty array passed to the kernel if no column is rare."""


class _Memory(threading.local):
    """Scratch memory of a thread, reused by every chunk: allocating it costs as much as a pass over narrow rows."""

    def __init__(self) -> None:
        self.block = np.zeros(kernels.SCRATCH)
        self._held: dict[str, NDArray[Any]] = {}

    def of(self, name: str, n: int, dtype: Any) -> NDArray[Any]:
        """Return an array of n numbers; callers copy the part that they keep."""
        held = self._held.get(name)
        if held is None or len(held) < n or held.dtype != dtype:
            held = self._held[name] = np.empty(n, dtype)
        return held[:n]


_memory = _Memory()


class CompiledPasses(Passes):
    """Compiled versions of the passes of the base class."""

    def leverages(self, design: Design, chunk: Chunk, metric: Metric) -> Leverage:
        if metric.constant is not None:
            return metric.constant
        planes = np.column_stack([metric.sketch[: design.n_attributes].T, metric.offset(design)])
        found: NDArray[np.float32] = leverages(chunk.X, chunk.weight, planes, metric.least(design))
        return found

    def local_sums(self, design: Design, chunk: Chunk, point: Float, leverage: Leverage, kappa: float) -> LocalSums:
        n = chunk.n_entries
        planes, loss, forces = design.planes(point), design.loss.packed(), np.zeros(design.n_attributes + 1)
        near, curvature = _memory.of("rows", n, np.int32), _memory.of("curvature", n, np.float64)
        objective, total, found = kernels.local_sums(
            *_entries(chunk), planes, loss, _spread(leverage), kappa, _memory.block, forces, near, curvature
        )
        return LocalSums(objective, forces, near[:found].copy(), curvature[:found].copy(), total)

    def scaled_rows(self, design: Design, chunk: Chunk, selected: NDArray[np.integer], factor: Float) -> Matrix:
        if sparse.issparse(chunk.X) or not chunk.X.flags.c_contiguous:
            return super().scaled_rows(design, chunk, selected, factor)
        out, used = np.empty((len(selected), design.n_variables)), 1.0 - design.constant[: design.n_attributes]
        rows, y, _ = _entries(chunk)
        kernels.scaled_rows(rows, y, selected, factor, design.loss.positive, design.centre, used, out)
        return Dense(out)

    def groups(self, design: Design, chunk: Chunk, point: Float, leverage: Leverage, grouping: Grouping) -> Groups:
        if design.offset:  # objectives are rounded up entry by entry
            return super().groups(design, chunk, point, leverage, grouping)
        sides = [] if grouping.sides is None else list(grouping.sides)
        by, n_groups, n = grouping.by_column, grouping.n_groups, chunk.n_entries
        n_kinds = (len(grouping.cuts) + 1) * (2 if design.loss.classifies else 1)
        n_binned = n_kinds * grouping.n_bins * 2 ** len(sides)
        n_needed = max(n_binned, 0 if by is None else by.first + n_kinds * by.n_parts)
        if n_needed > n_groups:
            raise ValueError(f"Rows are split into {n_needed} groups, but there are {n_groups}.")
        labels, alone = np.empty(n, dtype=np.int32), _memory.of("rows", n, np.int32)
        counts, sums = np.zeros(n_groups, dtype=np.int64), np.zeros((n_groups, design.n_attributes + 3))
        entries, loss, spread = _entries(chunk), design.loss.packed(), _spread(leverage)
        planes = np.vstack([design.planes(point), *sides])
        parts = (NO_PARTS, 0, 0) if by is None else (rarest(chunk.X, by), by.n_parts, by.first)
        limits = grouping.near, grouping.bins, float(grouping.n_bins), grouping.carries
        objective, size, found = kernels.groups(
            *entries, planes, loss, grouping.cuts, spread, limits, parts, _memory.block, labels, alone, counts, sums
        )
        if design.may_be_exact(objective, size):
            objective = design.objective_at(chunk, point, design.margins(chunk, point))
        return Groups(objective, labels, alone[:found].astype(np.int64), counts, _columns(design, sums))

    def moves(self, design: Design, chunk: Chunk, trial: Trial, regions: Regions, homes: NDArray[np.int16]) -> Moved:
        if design.offset:  # objectives are rounded up entry by entry
            return super().moves(design, chunk, trial, regions, homes)
        end = trial.points[0]
        # With several steps, the kernel also needs the origin.
        points, steps = [end], np.ones(1)
        if isinstance(trial, Segment) and trial.origin is not None:
            points, steps = [end, trial.origin], np.array(Segment.STEPS)
        n, objectives = chunk.n_entries, np.zeros(len(steps))
        moved, codes = _memory.of("rows", n, np.int32), _memory.of("codes", n, np.int16)
        assert chunk.labels is not None
        entries, planes, loss = _entries(chunk), design.planes(*points), design.loss.packed()
        labels, work, n_split = vector(chunk.labels), _memory.block, trial.n_split
        size, found = kernels.moves(
            *entries, planes, steps, n_split, loss, regions, labels, homes, work, objectives, moved, codes
        )
        if design.may_be_exact(float(objectives[0]), size):
            objectives[0] = design.objective_at(chunk, end, design.margins(chunk, end))
        return Moved(objectives, moved[:found].astype(np.int64), codes[:found].copy())

    def between(self, design: Design, chunk: Chunk, planes: Float, leverage: Leverage, reach: Reach) -> RowsBetween:
        n, loss = chunk.n_entries, design.loss
        near, regions = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int8)
        counts, sums = np.zeros(loss.n_regions, dtype=np.int64), np.zeros((loss.n_regions, design.n_attributes + 3))
        entries, kinks, spread = _entries(chunk), np.array(loss.kinks), _spread(leverage)
        found = member_kernels.between(
            *entries, planes, kinks, loss.folding, spread, reach, near, regions, counts, sums
        )
        return RowsBetween(near[:found].copy(), regions, counts, _columns(design, sums))

    def losses(self, scores: Float, levels: Float, y: Float, factors: Float, of: Int, losses: MemberLosses) -> Float:
        total = np.zeros(scores.shape[1])
        member_kernels.losses(scores, levels, vector(y), factors, of, losses, total)
        return total

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
        totals = np.zeros((len(SEGMENTS.steps), ends.shape[1]))
        member_kernels.segments(
            ends, origins, vector(y), weight, of, losses, SEGMENTS, labels, homes, NOISE, totals, codes
        )
        return totals

    def crossings(self, scores: Float, levels: Float, weight: Float) -> int:
        return int(member_kernels.crossings(scores, levels, vector(weight), SAME_PLACE))


COMPILED = CompiledPasses()


def _entries(chunk: Chunk) -> tuple[Any, Float, Float]:
    """Return the rows, targets and weights of a chunk in the form that kernels take."""
    return rows_of(chunk.X), vector(chunk.y), vector(chunk.weight)


def _spread(leverage: Leverage) -> NDArray[Any]:
    """Return an array of one leverage per row, or of the one that all rows share."""
    return np.array([leverage], dtype=np.float32) if np.ndim(leverage) == 0 else vector(leverage)


def _columns(design: Design, sums: Float) -> Float:
    """Return the sums in the columns of ``Design.aggregate``, without an intercept column if the model has none."""
    return sums if design.fit_intercept else np.delete(sums, design.n_attributes, axis=1)
