"""Clusters of a checkpoint: their labels are checked and their sums computed again before they prove anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.chunk import Chunk
from aidlearn.engine.checkpoint import damaged, saved_array
from aidlearn.engine.clusters import Clusters
from aidlearn.engine.problem import Problem, Trial
from aidlearn.engine.sums import AS_BEFORE, NOTHING, ChunkLabels, Sums, stacked
from aidlearn.numerics import EPS, Float

Labels = NDArray[np.int32]
ROUNDINGS = 64
"""Guess. Roundings, relative to the sum of a column's sizes, up to which saved and recomputed sums are the same."""


def restored(problem: Problem, arrays: Mapping[str, NDArray[Any]], point: Any) -> tuple[Clusters, float]:
    """Restore a saved partition; also return the objective of a point (None: inf), by the same pass.

    Saved sums that agree with the recomputed ones up to rounding keep their bits, so that the fit continues exactly as
    it would have; the others are replaced.
    """
    n = problem.source.n_entries
    counts = saved_array(arrays, "counts", np.int64, None)
    labels = saved_array(arrays, "labels", np.int32, n)
    homes = saved_array(arrays, "homes", np.int16, len(counts))
    summed = saved_array(arrays, "summed", np.float64, len(counts))
    inside = labels.min(initial=0) >= 0 and labels.max(initial=-1) < len(counts)
    if not inside or (counts == 0).any() or not np.array_equal(np.bincount(labels, minlength=len(counts)), counts):
        raise damaged("its labels are not those of its clusters")
    if homes.min(initial=0) < 0 or homes.max(initial=0) >= problem.n_regions:
        raise damaged("homes has regions that the problem has not")
    size = problem.source.rows_per_chunk
    states = [ChunkLabels(labels[k * size : (k + 1) * size], NOTHING, NOTHING) for k in range(problem.source.n_chunks)]
    sums = Sums.restore(arrays, len(counts))
    if sums.n_singles and (counts[sums.alone] > 1).any():
        raise damaged("a cluster of several entries is stored as a single one")
    objective = _summed_again(problem, sums, states, point)
    return Clusters(problem, states, AS_BEFORE, counts, sums, homes, summed), objective


def _summed_again(problem: Problem, sums: Sums, states: list[ChunkLabels], point: Any) -> float:
    """Compare sums with the entries in one pass and replace those that differ; return the objective of the point."""
    alone, width = sums.alone, sums.shape[1]
    position = np.cumsum(~alone) - 1
    dense = np.zeros_like(sums.dense)
    values = [math.inf if point is None else problem.penalty(point)]
    single_labels: list[Labels] = []
    singles: list[Any] = []

    def add_up(chunk: Chunk, state: ChunkLabels) -> tuple[tuple[float, Labels, Float, Labels, Any], ChunkLabels]:
        value = 0.0 if point is None else float(problem.evaluate(chunk, Trial([point])).objectives[0])
        here = np.flatnonzero(alone[state.labels])
        others = np.flatnonzero(~alone[state.labels])
        found, groups = np.unique(state.labels[others], return_inverse=True)
        together = chunk.select(others) if len(here) else chunk
        added = problem.aggregate(together, groups, len(found)) if len(found) else np.empty((0, width))
        rows = problem.sums_alone(chunk.select(here)) if len(here) else None
        return (value, found, added, state.labels[here], rows), state

    def collect(part: tuple[float, Labels, Float, Labels, Any]) -> None:
        value, found, added, labels, rows = part
        _check_width(added, width)
        values.append(value)
        dense[position[found]] += added
        if rows is not None:
            _check_width(rows, width)
            single_labels.append(labels)
            singles.append(rows)

    problem.run.map(add_up, states, collect)
    tolerance = ROUNDINGS * EPS * np.abs(dense).sum(axis=0)
    differs = ~(np.abs(sums.dense - dense) <= tolerance).all(axis=1)
    sums.dense[differs] = dense[differs]
    if singles:  # sums of single entries have no rounding to keep
        sums.singles = stacked(singles)[np.argsort(np.concatenate(single_labels), kind="stable")]
    return math.fsum(values)


def _check_width(rows: Any, width: int) -> None:
    if rows.shape[1] != width:
        raise damaged(f"sums of {width} columns, expected {rows.shape[1]}")
