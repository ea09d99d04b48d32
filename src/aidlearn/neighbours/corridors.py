"""Corridors of neighbouring problems: the rows whose side is in doubt, and the sums of all others.

The planes of neighbouring problems lie in a *corridor* between two points, up to an error. A row on one side of all of
them has its dual at the same bound in each problem, so all such rows enter through one sum per side. Only the few near
rows remain. Solutions on samples locate the corridor: solutions on all rows differ from them by an error that follows
from the size of the sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from aidlearn.linear.passes.in_numpy import NUMPY
from aidlearn.linear.passes.records import CARRIES, Reach
from aidlearn.linear.start.samples import Samples
from aidlearn.linear.start.sharpen import Band
from aidlearn.linear.start.sharpening import Sharpening
from aidlearn.numerics import Float, Int

MASKED = 24
"""Largest product of replicates and regions for which weights of 0 cost less than picking the rows of each region."""
TIED = 1e-3
"""Distance of the rows in doubt, in typical margins, that indicates ties: without ties it is tens of times longer."""


@dataclass(frozen=True)
class Corridor:
    """Members whose planes lie between two points, in the order in which they are solved."""

    numbers: Sequence[int]
    ends: tuple[Float, Float]
    reach: float
    """Distance beyond the ends within which rows are near, in leverages; if infinite, all rows are."""
    error: float
    """Expected distance of the first member's start from its solution, in leverages."""


@dataclass(frozen=True)
class Near:
    """Near rows with the weights of one member, and the sums of all others by region."""

    rows: Chunk
    leverage: Any
    sums: Float
    counts: Int


@dataclass(frozen=True)
class Rows:
    """Near rows of a corridor with each replicate's weights, and each replicate's sums of the other rows."""

    near: Chunk
    leverage: Any
    """Leverages of the near rows, or one number for all."""
    weights: Float
    """Weights of the near rows, with one row per replicate."""
    sums: Float
    """Replicates x regions x (sum of s a, sum of s e, sum of s), in the layout of ``Design.aggregate``."""
    counts: Int
    """Number of other rows in each region."""
    replicates: Sequence[int]

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the rows of all chunks."""
        first, near = parts[0], join([part.near for part in parts])
        if not sparse.issparse(near.X):
            near = replace(near, X=np.ascontiguousarray(near.X))
        return cls(
            near,
            first.leverage if np.ndim(first.leverage) == 0 else np.concatenate([part.leverage for part in parts]),
            np.concatenate([part.weights for part in parts], axis=1),
            np.asarray(sum(part.sums for part in parts)),
            np.asarray(sum(part.counts for part in parts)),
            first.replicates,
        )

    def of_replicate(self, replicate: int) -> Near:
        """Return the rows with the weights of a replicate."""
        k = self.replicates.index(replicate)
        return Near(replace(self.near, weight=self.weights[k]), self.leverage, self.sums[k], self.counts)


def collecting(
    run: Run,
    design: Design,
    metric: Metric,
    corridors: Sequence[Corridor],
    replicates: Sequence[int] = (0,),
    weights: Weights = UNCHANGED,
) -> Callable[[Chunk], list[Rows]]:
    """Return a function that collects the rows of each corridor from a chunk, as a part of a pass."""
    if not corridors:
        return lambda chunk: []
    n_regions, width = design.loss.n_regions, design.n_variables + 2
    carries = CARRIES if design.layout is None else HEAVY
    passes = passes_of(run)
    planes = [design.planes(*ends[: 1 if ends[0] is ends[1] else 2]) for ends in (each.ends for each in corridors)]
    reaches = [corridor.reach for corridor in corridors]

    def collect(chunk: Chunk) -> list[Rows]:
        leverage = passes.leverages(design, chunk, metric)
        factors = weights(chunk.start, chunk.stop, replicates)
        factors *= chunk.weight
        parts: list[Rows] = []
        for plane, reach in zip(planes, reaches, strict=True):
            if math.isinf(reach):
                near = np.arange(chunk.n_entries)
                sums, counts = np.zeros((len(replicates), n_regions, width)), np.zeros(n_regions, dtype=np.int64)
            else:
                found = passes.between(design, chunk, plane, leverage, Reach(reach, carries=carries))
                near, counts, sums = found.near, found.counts, found.sums[None]
                if not isinstance(weights, Unchanged):
                    sums = _weighted_sums(design, chunk, factors, found.regions)
            own = picked(leverage, near)
            parts.append(Rows(taken(chunk, near), own, factors[:, near], sums, counts, replicates))
        return parts

    return collect


def taken(chunk: Chunk, rows: NDArray[np.integer]) -> Chunk:
    """Return the selected rows of a chunk (``take`` copies dense rows faster than indexing does)."""
    X = np.take(chunk.X, rows, axis=0) if isinstance(chunk.X, np.ndarray) else chunk.X[rows]
    return Chunk(0, len(rows), X, chunk.y[rows], chunk.weight[rows])


def picked(leverage: Leverage, rows: NDArray[np.integer]) -> Leverage:
    """Return the leverages of the selected rows."""
    return leverage[rows] if isinstance(leverage, np.ndarray) and leverage.ndim else leverage


def _weighted_sums(design: Design, chunk: Chunk, factors: Float, regions: Any) -> Float:
    """Return the sums by region with the weights of each replicate."""
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


@dataclass(frozen=True)
class SampledSolution:
    """A point close to a solution."""

    point: Float
    error: float
    """Distance of the solution on all rows from the point, in leverages."""


class Sampled:
    """Nested samples of the rows of a run, on which neighbouring problems are solved approximately."""

    def __init__(self, samples: Samples, run: Run) -> None:
        self._samples, self._run = samples, run

    @classmethod
    def of(cls, run: Run, design: Design, start: Band | None = None) -> Sampled:
        """Return new samples, or those of the start of a fit on the same rows."""
        found = None if start is None else start.samples
        return cls(Samples(run, design, np.random.default_rng(0)) if found is None else found, run)

    @property
    def metric(self) -> Metric:
        return self._samples.metric

    def solution(self, design: Design, near: Float | None = None) -> SampledSolution:
        """Return the solution on the largest sample, from a solution ``near`` of a similar problem if given."""
        point = Sharpening(self._samples, self._run, design).on_samples(near)
        return SampledSolution(point, self.error(design, point))

    def error(self, design: Design, point: Float) -> float:
        """Return the distance, in leverages, of the solution on all rows from one on the largest sample."""
        view = self._samples.at(design, point)
        ratio = design.n_variables / design.effective * self._run.n_entries / self._samples.n_largest
        return view.width(view.fraction(ratio))

    def width(self, design: Design, point: Float, share: float) -> float:
        """Return the distance from a plane, in leverages, within which the given share of the rows lies."""
        return self._samples.at(design, point).width(share)

    def is_tied(self, design: Design, point: Float) -> bool:
        """Return whether many rows lie on a kink at a solution, so that rows in doubt are at almost no distance."""
        distance = self.error(design, point) * float(np.median(self._samples.viewed_leverage))
        return distance < TIED * design.typical_margin

    def largest_share(self, n_weights: int) -> float:
        """Return the fraction of rows that fit into memory as near rows with ``n_weights`` weights each."""
        return self._run.budget.near_rows(self._run.n_attributes, n_weights) / self._run.n_entries

    def share(self, design: Design, ends: tuple[Float, Float], reach: float) -> float:
        """Return the fraction of rows that are near in a corridor."""
        rows = self._samples.viewed
        found = NUMPY.between(design, rows, design.planes(*ends), self._samples.viewed_leverage, Reach(reach))
        return len(found.near) / rows.n_entries
