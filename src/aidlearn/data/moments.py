"""The first pass: refuse NaN and infinity, and measure the columns on all entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.data.source import Chunk, DataSource, Float


@dataclass(frozen=True)
class Moments:
    """Weighted sums over all entries."""

    weight: float
    """Sum of the weights."""
    effective: float
    """Kish's effective number of entries, ``(sum s)^2 / sum s^2``."""
    mean: Float
    """Weighted mean of each column."""
    squares: Float
    """Weighted sum of squares of each column about its mean."""
    raw_squares: Float
    """The same about zero."""


def inspect(source: DataSource) -> Moments:
    """Validate all entries and measure the columns, in one pass."""
    m = source.n_attributes
    total = np.zeros(2 * m + 2)

    def measure(chunk: Chunk, state: Any) -> tuple[Float, None]:
        plain = bool((chunk.weight == 1).all())
        # NaN and infinity survive any sum, so finite sums prove all cells finite. A weight of zero
        # must not hide a bad cell: the sums of squares that are checked are unweighted.
        with np.errstate(over="ignore", invalid="ignore"):
            squares = _squares(chunk, None)
            sound = np.isfinite(squares).all() and np.isfinite(chunk.y).all()
        if not (sound and np.isfinite(chunk.weight).all()):
            raise ValueError(source.find_bad_cell(chunk) + ".")
        negative = np.flatnonzero(chunk.weight < 0)
        if len(negative):
            raise ValueError(
                f"sample_weight must be non-negative, got {chunk.weight[negative[0]]:g} "
                f"at row {chunk.start + int(negative[0])}."
            )
        if not plain:
            squares = _squares(chunk, chunk.weight)
        sums = chunk.transposed_times(chunk.weight)
        weights = [chunk.weight.sum(), chunk.weight @ chunk.weight]
        return np.concatenate([sums, squares, weights]), None

    def collect(value: Float) -> None:
        total[:] += value

    source.run(measure, collect=collect)
    weight, weight_squares = float(total[-2]), float(total[-1])
    if weight == 0:
        raise ValueError("sample_weight is zero for every row; at least one must be positive.")
    mean, raw = total[:m] / weight, total[m : 2 * m]
    # Below the rounding error of the difference a column counts as constant.
    about_mean = raw - weight * mean**2
    squares = np.where(about_mean > 1e-13 * raw, about_mean, 0.0)
    return Moments(weight, weight**2 / weight_squares, mean, squares, raw)


def _squares(chunk: Chunk, weight: Float | None) -> Float:
    if sparse.issparse(chunk.X):
        squared = chunk.X.multiply(chunk.X)
        by = np.ones(chunk.n_entries) if weight is None else weight
        return np.asarray(squared.T @ by, dtype=np.float64)
    if weight is None:
        return np.einsum("ij,ij->j", chunk.X, chunk.X, dtype=np.float64)
    return np.einsum("i,ij,ij->j", weight, chunk.X, chunk.X, dtype=np.float64)
