"""Passes over the rows of a linear model, compiled: each reads its rows once (see :mod:`aidlearn.data.rows.compiled`).

The loops are in :mod:`aidlearn.linear.passes.kernels`; the NumPy twins of these passes, for small data, are in
:mod:`aidlearn.linear.passes.in_numpy`.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.compiled import rows_of, vector
from aidlearn.linear.passes import in_numpy as plain
from aidlearn.linear.passes import kernels
from aidlearn.linear.passes.records import Groups, LocalSums, Split
from aidlearn.linear.rows.matrix import Dense, Matrix
from aidlearn.numerics import Float, Int

if TYPE_CHECKING:
    from aidlearn.linear.model.design import Design


class _Memory(threading.local):
    """Memory of a thread that every chunk uses again: taking it anew costs as much as a pass over narrow rows."""

    def __init__(self) -> None:
        self.block = np.zeros(kernels.SCRATCH)
        self._held: dict[str, NDArray[Any]] = {}

    def of(self, name: str, n: int, dtype: Any) -> NDArray[Any]:
        """An array of n numbers; what is kept of it is copied."""
        held = self._held.get(name)
        if held is None or len(held) < n or held.dtype != dtype:
            held = self._held[name] = np.empty(n, dtype)
        return held[:n]


_memory = _Memory()


def _loss(design: Design) -> Float:
    """The loss of a design as the passes take it."""
    loss = design.loss
    rest = sum(jump * (0.5 - tilt) for _, tilt, jump in loss.parts)
    hinges = [(kink, (1.0 - tilt) * jump, -tilt * jump, jump) for kink, tilt, jump in loss.parts]
    return np.array(
        [loss.scale, getattr(loss, "positive", math.nan), rest, *(value for part in hinges for value in part)]
    )


def _planes(design: Design, *points: Float) -> Float:
    """Hyperplanes with an intercept, one in each row."""
    planes = np.zeros((len(points), len(design.centre) + 1))
    for plane, point in zip(planes, points, strict=True):
        plane[: len(point)] = point
        if design.offset and design.fit_intercept:
            plane[-1] = design.intercept(point)
    return planes


def model(design: Design, chunk: Chunk, point: Float, leverage: Any, kappa: float) -> LocalSums:
    """See :func:`aidlearn.linear.passes.in_numpy.model`."""
    n = chunk.n_entries
    scalars, forces = np.empty(2), np.zeros(design.n_attributes + 1)
    near, curvature = _memory.of("rows", n, np.int32), _memory.of("curvature", n, np.float64)
    found = kernels.model(
        rows_of(chunk.X),
        vector(chunk.y),
        vector(chunk.weight),
        _planes(design, point),
        _loss(design),
        _leverage(leverage),
        kappa,
        _memory.block,
        scalars,
        forces,
        near,
        curvature,
    )
    return LocalSums(float(scalars[0]), forces, near[:found].copy(), curvature[:found].copy(), float(scalars[1]))


def groups(design: Design, chunk: Chunk, point: Float, leverage: Any, split: Split) -> Groups:
    """See :func:`aidlearn.linear.passes.in_numpy.groups`."""
    if design.offset:  # objectives are rounded up entry by entry
        return plain.groups(design, chunk, point, leverage, split)
    n, n_kinds = chunk.n_entries, (len(split.cuts) + 1) * (2 if design.loss.classifies else 1)
    n_parted = n_kinds * split.n_bins * 2 ** (0 if split.sides is None else len(split.sides))
    n_rare = 0 if split.by_column is None else split.by_column.first + n_kinds * split.by_column.n_parts
    if max(n_parted, n_rare) > split.n_groups:
        raise ValueError(f"Rows are split into {max(n_parted, n_rare)} groups, but there are {split.n_groups}.")
    scalars, labels, alone = np.empty(2), np.empty(n, dtype=np.int32), _memory.of("rows", n, np.int32)
    counts, sums = np.zeros(split.n_groups, dtype=np.int64), np.zeros((split.n_groups, design.n_attributes + 3))
    planes = _planes(design, point)
    if split.sides is not None:
        planes = np.vstack([planes, split.sides])
    rows, by = rows_of(chunk.X), split.by_column
    part = np.empty(0, dtype=np.int32)
    if by is not None:
        part = np.full(n, by.n_parts, dtype=np.int32)
        kernels.rarest(rows[1], rows[2], by.part, part)
    found = kernels.assign(
        rows,
        vector(chunk.y),
        vector(chunk.weight),
        planes,
        _loss(design),
        split.cuts,
        _leverage(leverage),
        split.near,
        split.bins,
        float(split.n_bins),
        split.carries,
        split.rare_class,
        part,
        0 if by is None else by.n_parts,
        0 if by is None else by.first,
        _memory.block,
        scalars,
        labels,
        alone,
        counts,
        sums,
    )
    if not design.fit_intercept:
        sums = np.delete(sums, design.n_attributes, axis=1)
    objective = float(scalars[0])
    if design.may_be_exact(objective, float(scalars[1])):
        objective = design.objective_at(chunk, point, design.margins(chunk, point))
    return Groups(objective, labels, alone[:found].astype(np.int64), counts, sums)


def scaled_rows(design: Design, chunk: Chunk, selected: NDArray[Any], factor: Float) -> Matrix:
    """See :func:`aidlearn.linear.passes.in_numpy.scaled_rows`."""
    if sparse.issparse(chunk.X) or not chunk.X.flags.c_contiguous:
        return plain.scaled_rows(design, chunk, selected, factor)
    out = np.empty((len(selected), design.n_variables))
    positive = getattr(design.loss, "positive", math.nan)
    used = 1.0 - design.constant[: design.n_attributes]
    kernels.scaled_rows(rows_of(chunk.X), vector(chunk.y), selected, factor, positive, design.centre, used, out)
    return Dense(out)


def dual_entries(design: Design, chunk: Chunk, labels: NDArray[np.int32], share: Float) -> tuple[Int, Float]:
    """See :func:`aidlearn.linear.passes.in_numpy.dual_entries`."""
    n = chunk.n_entries
    rows, duals = _memory.of("rows", n, np.int32), _memory.of("curvature", n, np.float64)
    positive = getattr(design.loss, "positive", math.nan)
    weight, y = vector(chunk.weight), vector(chunk.y)
    found = kernels.dual_entries(vector(labels), weight, share, y, positive, rows, duals)
    return rows[:found].astype(np.int64), duals[:found].copy()


@dataclass(frozen=True)
class Check:
    """What a check looks at: points of a segment, and the regions that they put entries into."""

    steps: Float
    """Margins at step t are ``origin + t (end - origin)``; those of the first step are the end's."""
    n_split: int
    """Entries are put into regions at so many of the steps."""
    cuts: Float
    """Margins above so many of these are in the region with that number."""
    tolerance: float
    """Part of ``|e|`` within which a margin counts as on its kink; negative: none does."""
    homes: NDArray[np.int16]
    """Region of each cluster, -1 for one that cannot be split."""


@dataclass(frozen=True)
class Moves:
    """The entries of a chunk that left the home region of their cluster, with the regions they are in as digits."""

    objectives: Float
    target_size: float
    """``sum_i s_i |e_i|``: an objective that is tiny beside it may be that of an exact fit."""
    rows: Int
    codes: NDArray[np.int16]


def moves(design: Design, chunk: Chunk, points: list[Float], check: Check) -> Moves:
    """Objectives of a chunk at points of a segment, and the entries that a split would take out of their cluster.

    ``points`` are the end and, if there are several steps, the origin of the segment. An entry on a kink or of weight 0
    fits every region and counts as at home.
    """
    n = chunk.n_entries
    scalars, objectives = np.empty(1), np.zeros(len(check.steps))
    moved, codes = _memory.of("rows", n, np.int32), _memory.of("codes", n, np.int16)
    assert chunk.labels is not None
    found = kernels.check(
        rows_of(chunk.X),
        vector(chunk.y),
        vector(chunk.weight),
        _planes(design, *points),
        check.steps,
        check.n_split,
        _loss(design),
        check.cuts,
        check.tolerance,
        vector(chunk.labels),
        check.homes,
        _memory.block,
        scalars,
        objectives,
        moved,
        codes,
    )
    return Moves(objectives, float(scalars[0]), moved[:found].astype(np.int64), codes[:found].copy())


def _leverage(leverage: Any) -> Any:
    """One number for each row, or a single one for all."""
    return np.array([leverage], dtype=np.float32) if np.ndim(leverage) == 0 else vector(leverage)
