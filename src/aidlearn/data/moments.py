"""The first pass: refuse NaN and infinity, and measure the columns on all entries."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.arrays import ArraySource, TableSource, table_to_array
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
    """Weighted sum of squares of each column about its mean; 0 exactly if the column is constant."""
    raw_squares: Float
    """The same about zero."""
    targets: Float
    """Targets of about ten thousand entries."""
    digest: str = ""
    """Of every chunk, if it was asked for: other rows, or the same in another order, have another one."""


def inspect(source: DataSource, centred: bool = True, digest: bool = False) -> Moments:
    """Validate all entries and measure the columns, in one pass.

    ``centred`` says that columns will be centred (there is an intercept): then one that hardly varies is looked at
    again.
    """
    hashed = hashlib.sha256()
    m = source.n_attributes
    total = np.zeros(2 * m + 2)
    step = max(1, source.n_entries // 10_000)
    targets: list[Float] = []

    def measure(chunk: Chunk, state: Any) -> tuple[tuple[Float, Float, bytes], None]:
        plain = bool((chunk.weight == 1).all())
        # NaN and infinity survive any sum, so finite sums prove all cells finite. A weight of zero
        # must not hide a bad cell: the sums of squares that are checked are unweighted.
        with np.errstate(over="ignore", invalid="ignore"):
            squares = _squares(chunk, None)
            sound = np.isfinite(squares).all() and np.isfinite(chunk.y @ chunk.y)
        if not (sound and np.isfinite(chunk.weight).all()):
            raise ValueError(source.find_bad_cell(chunk) + ".")
        negative = np.flatnonzero(chunk.weight < 0)
        if len(negative):
            raise ValueError(
                f"sample_weight must be non-negative, got {chunk.weight[negative[0]]:g} "
                f"at row {chunk.start + int(negative[0])}."
            )
        if not plain:
            with np.errstate(over="ignore", under="ignore"):
                squares = _squares(chunk, chunk.weight)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            sums = chunk.transposed_times(chunk.weight)
            scalars = [chunk.weight.sum(), chunk.weight @ chunk.weight]
            seal = _seal(chunk) if digest else b""
        measured = np.concatenate([sums, squares, scalars])
        return (measured, chunk.y[-chunk.start % step :: step].copy(), seal), None

    def collect(value: tuple[Float, Float, bytes]) -> None:
        total[:] += value[0]
        targets.append(value[1])
        hashed.update(value[2])

    source.run(measure, collect=collect)
    weight, weight_squares = float(total[2 * m]), float(total[2 * m + 1])
    if not 1e-100 < weight < 1e100 and weight != 0:
        raise ValueError(f"sample_weight sums to {weight:g}; divide it by a constant so that it is of ordinary size.")
    if weight == 0:
        raise ValueError("sample_weight is zero for every row; at least one must be positive.")
    mean, raw = total[:m] / weight, total[m : 2 * m]
    squares = raw - weight * mean**2
    # Where the difference has cancelled, a second pass measures the spread about the mean itself.
    suspects = np.flatnonzero(squares <= 1e-8 * raw)
    suspects = suspects[raw[suspects] > 0]
    if centred and len(suspects):
        squares[suspects] = _spread(source, suspects, mean[suspects])
    effective = weight / (weight_squares / weight)
    sampled = np.concatenate(targets)
    return Moments(
        weight, effective, mean, np.maximum(squares, 0.0), raw, sampled, hashed.hexdigest() if digest else ""
    )


def _seal(chunk: Chunk) -> bytes:
    """Digest of a chunk's rows, byte by byte in their order."""
    hashed = hashlib.sha256(chunk.y.tobytes() + chunk.weight.tobytes())
    parts = [chunk.X.data, chunk.X.indices, chunk.X.indptr] if sparse.issparse(chunk.X) else [chunk.X]
    for part in parts:
        hashed.update(np.ascontiguousarray(part).data)
    return hashed.digest()


def _spread(source: DataSource, columns: NDArray[np.intp], mean: Float) -> Float:
    """Squares about the mean of columns that hardly vary; 0 for those that do not vary at all."""
    squares = np.zeros(len(columns))
    low, high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)

    def measure(chunk: Chunk, state: Any) -> tuple[tuple[Float, Float, Float], None]:
        values = chunk.X[:, columns]
        values = np.asarray(values.toarray() if sparse.issparse(values) else values, dtype=np.float64)
        used = values[chunk.weight > 0] if (chunk.weight == 0).any() else values
        if len(used) == 0:
            return (np.zeros(len(columns)), low.copy(), high.copy()), None
        about = chunk.weight @ (values - mean) ** 2
        return (about, used.min(axis=0), used.max(axis=0)), None

    def collect(value: tuple[Float, Float, Float]) -> None:
        squares[:] += value[0]
        np.minimum(low, value[1], out=low)
        np.maximum(high, value[2], out=high)

    source.run(measure, collect=collect)
    largest = np.maximum(np.abs(low), np.abs(high))
    lost = np.flatnonzero((high > low) & (high - low < 1e-11 * largest))
    if len(lost):
        column = lost[0]
        raise ValueError(
            f"Column {source.column_name(int(columns[column]))} of X varies only in its last digits, between "
            f"{float(low[column])!r} and {float(high[column])!r}: subtract an offset from it, or drop it."
        )
    return np.where(high > low, squares, 0.0)


def _squares(chunk: Chunk, weight: Float | None) -> Float:
    if sparse.issparse(chunk.X):
        X = chunk.X.astype(np.float64)
        squared = X.multiply(X)
        by = np.ones(chunk.n_entries) if weight is None else weight
        return np.asarray(squared.T @ by, dtype=np.float64)
    if weight is None:
        return np.einsum("ij,ij->j", chunk.X, chunk.X, dtype=np.float64)
    return np.einsum("i,ij,ij->j", weight, chunk.X, chunk.X, dtype=np.float64)


def checked_rows(source: DataSource) -> tuple[Any, Float]:
    """Rows in memory as one array or CSR matrix without bad cells, and their weights."""
    inspect(source, centred=False)
    if isinstance(source, TableSource):
        return table_to_array(source.table), source.weight
    assert isinstance(source, ArraySource)
    return source.X, source.weight
