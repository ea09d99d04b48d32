"""Rows that neighbouring problems have in common: those whose side is in doubt, and the sums of all others.

The planes of neighbouring problems lie in a *corridor* between two points, give or take an error. A row that lies
beyond all of them on one side has the same dual in each problem, at its bound: all such rows enter through one sum.
What is left of them, the near rows, is small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.passes.run import Run
from aidlearn.data.passes.transforms import UNCHANGED, Unchanged, Weights
from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import HEAVY, Leverage, Metric
from aidlearn.linear.passes import passes_of
from aidlearn.linear.passes.records import CARRIES, Reach
from aidlearn.numerics import Float, Int

MASKED = 24
"""Replicates times regions up to which weights of 0 cost less than picking the rows of each region."""


@dataclass(frozen=True)
class Corridor:
    """Members whose planes lie between two points, in the order in which they are solved."""

    numbers: Sequence[int]
    ends: tuple[Float, Float]
    reach: float
    """How far beyond the ends rows are near, in leverages; infinite: all are."""
    error: float
    """How far the start of the first member may be from its solution, in leverages."""


Part = tuple[Chunk, Any, Float, Float, Int]
"""Near rows of a chunk, their leverages and weights, and sums and counts of the others."""


@dataclass(frozen=True)
class Rows:
    """The near rows of a corridor, and for each replicate its weights of them and the sums of the others."""

    near: Chunk
    leverage: Any
    """Of the near rows, or a single number for all."""
    weights: Float
    """Of the near rows, one row for each replicate."""
    sums: Float
    """Replicates x regions x (sum of s a, sum of s e, sum of s), in the layout of ``Design.aggregate``."""
    counts: Int
    """Rows in each region."""
    replicates: Sequence[int]

    @property
    def shared(self) -> bool:
        """Whether every member has the weights of the rows themselves."""
        return len(self.replicates) == 1


class Collecting:
    """The rows of several corridors, as a part of a pass."""

    def __init__(
        self,
        run: Run,
        design: Design,
        metric: Metric,
        corridors: Sequence[Corridor],
        replicates: Sequence[int] = (0,),
        weights: Weights = UNCHANGED,
    ) -> None:
        n_regions, width = design.loss.n_regions, design.n_variables + 2
        carries = CARRIES if design.layout is None else HEAVY
        passes = passes_of(run)
        planes = [design.planes(*_distinct(corridor.ends)) for corridor in corridors]
        reaches = [corridor.reach for corridor in corridors]
        as_given = isinstance(weights, Unchanged)

        def measure(chunk: Chunk) -> list[Part]:
            leverage = passes.leverages(design, chunk, metric)
            factors = weights(chunk.start, chunk.stop, replicates)
            factors *= chunk.weight
            parts: list[Part] = []
            for plane, reach in zip(planes, reaches, strict=True):
                if math.isinf(reach):
                    nothing = np.zeros((len(replicates), n_regions, width)), np.zeros(n_regions, dtype=np.int64)
                    own = leverage if np.ndim(leverage) == 0 else np.array(leverage)
                    parts.append((chunk.select(np.arange(chunk.n_entries)), own, factors, *nothing))
                    continue
                found = passes.between(design, chunk, plane, leverage, Reach(reach, carries=carries))
                near = found.near
                own = picked(leverage, near)
                total = found.sums[None] if as_given else _weighted_sums(design, chunk, factors, found.regions)
                parts.append((taken(chunk, near), own, factors[:, near], total, found.counts))
            return parts

        self.measure = measure
        self._replicates = replicates
        self._found: list[list[Part]] = [[] for _ in corridors]

    def keep(self, parts: list[Part]) -> None:
        for own, part in zip(self._found, parts, strict=True):
            own.append(part)

    def rows(self) -> list[Rows]:
        """After the pass."""
        return [_joined(parts, self._replicates) for parts in self._found]


def taken(chunk: Chunk, rows: Any) -> Chunk:
    """Some rows of a chunk (``take`` copies dense rows faster than indexing does)."""
    X = np.take(chunk.X, rows, axis=0) if isinstance(chunk.X, np.ndarray) else chunk.X[rows]
    return Chunk(0, len(rows), X, chunk.y[rows], chunk.weight[rows])


def picked(leverage: Leverage, rows: NDArray[np.integer]) -> Leverage:
    """Leverages of some rows."""
    return leverage[rows] if isinstance(leverage, np.ndarray) and leverage.ndim else leverage


def _distinct(ends: tuple[Float, Float]) -> list[Float]:
    return [ends[0]] if ends[0] is ends[1] else list(ends)


def _joined(parts: list[Any], replicates: Sequence[int]) -> Rows:
    chunks, leverages, weights, sums, counts = zip(*parts, strict=True)
    leverage = leverages[0] if np.ndim(leverages[0]) == 0 else np.concatenate(leverages)
    near = join(chunks)
    if not sparse.issparse(near.X):
        near = Chunk(0, near.n_entries, np.ascontiguousarray(near.X), near.y, near.weight)
    return Rows(near, leverage, np.concatenate(weights, axis=1), sum(sums), sum(counts), replicates)


def _weighted_sums(design: Design, chunk: Chunk, factors: Float, regions: Any) -> Float:
    """Sums by region with the weights of each replicate."""
    m = design.n_attributes
    sums = np.zeros((len(factors), design.loss.n_regions, design.n_variables + 2))
    sign, e = design.loss.fold(chunk.y)
    dense = not sparse.issparse(chunk.X)
    if dense and sums.shape[0] * sums.shape[1] <= MASKED:
        own = np.where(regions == np.arange(sums.shape[1])[:, None, None], factors, 0.0)
        signed = own if sign is None else own * sign
        flat = signed.reshape(-1, chunk.n_entries)
        X = chunk.X if chunk.X.dtype == np.float64 else chunk.X.astype(np.float64)
        sums[:, :, :m] = (flat @ X).reshape(*own.shape[:2], m).swapaxes(0, 1)
        if design.fit_intercept:
            sums[:, :, m] = signed.sum(axis=2).T
        sums[:, :, -2] = (own @ np.broadcast_to(e, chunk.n_entries)).T
        sums[:, :, -1] = own.sum(axis=2).T
        return sums
    for region in range(design.loss.n_regions):
        rows = np.flatnonzero(regions == region)
        if not len(rows):
            continue
        own = factors[:, rows]
        signed = own if sign is None else own * sign[rows]
        X = np.take(chunk.X, rows, axis=0) if dense else chunk.X[rows]
        slopes = signed @ X.astype(np.float64, copy=False) if dense else (X.T @ signed.T).T
        sums[:, region, :m] = np.asarray(slopes)
        if design.fit_intercept:
            sums[:, region, m] = signed.sum(axis=1)
        sums[:, region, -2] = own @ np.broadcast_to(e, chunk.n_entries)[rows]
        sums[:, region, -1] = own.sum(axis=1)
    return sums
