"""The first pass: refuse NaN and infinity, and measure the size of every column on all entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.data.source import Chunk, DataSource, Float


@dataclass(frozen=True)
class Moments:
    """Sums over all entries."""

    column_squares: Float
    """Weighted sum of squares of each column."""
    weight: float
    """Sum of the weights."""


def inspect(source: DataSource) -> Moments:
    """Validate all entries and sum the squares of the columns, in one pass."""
    squares = np.zeros(source.n_attributes)
    weight = 0.0

    def measure(chunk: Chunk, state: Any) -> tuple[tuple[Float, float], None]:
        # NaN and infinity survive any sum, so a finite total proves all cells finite. A weight of zero
        # must not hide a bad cell, which is why the weights do not enter here.
        with np.errstate(over="ignore", invalid="ignore"):
            if sparse.issparse(chunk.X):
                total = np.asarray(chunk.X.multiply(chunk.X).sum(axis=0), dtype=np.float64).ravel()
            else:
                total = np.einsum("ij,ij->j", chunk.X, chunk.X, dtype=np.float64)
            sound = np.isfinite(total).all() and np.isfinite(chunk.y).all()
        if not (sound and np.isfinite(chunk.weight).all()):
            raise ValueError(source.find_bad_cell(chunk) + ".")
        negative = np.flatnonzero(chunk.weight < 0)
        if len(negative):
            raise ValueError(
                f"sample_weight must be non-negative, got {chunk.weight[negative[0]]:g} "
                f"at row {chunk.start + int(negative[0])}."
            )
        if not (chunk.weight == 1).all():
            total = _weighted_squares(chunk)
        return (total, float(chunk.weight.sum())), None

    def collect(value: tuple[Float, float]) -> None:
        nonlocal weight
        squares[:] += value[0]
        weight += value[1]

    source.run(measure, collect=collect)
    if weight == 0:
        raise ValueError("sample_weight is zero for every row; at least one must be positive.")
    return Moments(squares, weight)


def _weighted_squares(chunk: Chunk) -> Float:
    if sparse.issparse(chunk.X):
        return np.asarray(chunk.X.multiply(chunk.X).T @ chunk.weight, dtype=np.float64)
    return np.einsum("i,ij,ij->j", chunk.weight, chunk.X, chunk.X, dtype=np.float64)
