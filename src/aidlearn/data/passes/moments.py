"""The first pass: refuse NaN and infinity, and measure the columns on all entries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.arrays import ArraySource
from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.data.rows.threads import uninterrupted
from aidlearn.numerics import Float

SMALLEST_SQUARES = 1e-290
"""Sum of squares below which the squares of a nonzero column underflow."""


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
    """Weighted sum of squares of each column about zero."""
    targets: Float
    """Targets of about ten thousand entries."""
    digest: str = ""
    """Digest of all rows in their order; empty unless requested."""
    density: Float | None = None
    """Share of stored cells of each column, if rows are sparse and passes are compiled."""
    exclusive: range = range(0)
    """Longest range of sparse columns of which no row stores two, such as the levels of a factor."""
    n_entries: int = 0
    factors: Float | None = None
    """Factors that the columns were multiplied by, if they are standardised."""


def inspect(run: Run, centred: bool = True, digest: bool = False) -> Moments:
    """Validate all entries and measure the columns, in one pass.

    With ``centred`` (the model has an intercept) columns that hardly vary are measured again about their mean.
    """
    hashed = hashlib.sha256()
    source = run.source
    m = source.n_attributes
    total = np.zeros(2 * m + 2)
    stored: Float | None = None
    before: NDArray[np.int64] | None = None
    step = max(1, source.n_entries // 10_000)
    targets: list[Float] = []

    measured, compiled = _measured_by(run), run.compiled  # the run itself stays here

    def measure(chunk: Chunk, state: Any) -> tuple[_ChunkMoments, None]:
        sums = measured(chunk)
        sound = np.isfinite(sums.unweighted_squares).all() and np.isfinite(sums.target_squares)
        if not (sound and np.isfinite(sums.weight)):
            raise ValueError(source.find_bad_cell(chunk) + ".")
        if sums.least_weight < 0:
            row = int(np.flatnonzero(chunk.weight < 0)[0])
            raise ValueError(
                f"sample_weight must be non-negative, got {chunk.weight[row]:g} at row {chunk.start + row}."
            )
        some = chunk.y[-chunk.start % step :: step].copy()
        return _ChunkMoments(sums, some, _seal(chunk) if digest else b"", *_stored(compiled, chunk)), None

    def collect(part: _ChunkMoments) -> None:
        nonlocal stored, before
        if part.stored is not None and part.before is not None:
            stored = part.stored if stored is None else stored + part.stored
            before = part.before if before is None else np.maximum(before, part.before)
        total[:m] += part.sums.sums
        total[m : 2 * m] += part.sums.squares
        total[2 * m :] += part.sums.weight, part.sums.weight_squares
        targets.append(part.targets)
        hashed.update(part.seal)

    run.map(measure, collect=collect)
    weight, weight_squares = float(total[2 * m]), float(total[2 * m + 1])
    if not 1e-100 < weight < 1e100 and weight != 0:
        raise ValueError(f"sample_weight sums to {weight:g}; divide it by a constant so that it is of ordinary size.")
    if weight == 0:
        raise ValueError("sample_weight is zero for every row; at least one must be positive.")
    mean, raw = total[:m] / weight, total[m : 2 * m]
    vanished = np.flatnonzero((raw < SMALLEST_SQUARES) & (total[:m] != 0))
    if len(vanished):
        raise ValueError(
            f"Column {source.column_name(int(vanished[0]))} of X has values so small that their squares vanish in "
            "float64; rescale it."
        )
    squares = raw - weight * mean**2
    # Where the difference has cancelled, a second pass measures the spread about the mean itself.
    suspects = np.flatnonzero(squares <= 1e-8 * raw)
    suspects = suspects[raw[suspects] > 0]
    if centred and len(suspects):
        squares[suspects] = _spread(run, suspects, mean[suspects])
    effective = weight / (weight_squares / weight)
    sampled = np.concatenate(targets)
    return Moments(
        weight,
        effective,
        mean,
        np.maximum(squares, 0.0),
        raw,
        sampled,
        hashed.hexdigest() if digest else "",
        None if stored is None else stored / source.n_entries,
        range(0) if before is None else longest_exclusive(before),
        source.n_entries,
    )


@dataclass(frozen=True)
class ChunkSums:
    """Sums of a chunk that validate it and measure its columns.

    NaN and infinity survive any sum, so a chunk is sound if these are finite; a weight of zero hides nothing in the
    sums without weights.
    """

    weight: float
    weight_squares: float
    target_squares: float
    least_weight: float
    sums: Float
    """Sum of ``s x``."""
    squares: Float
    """Sum of ``s x^2``."""
    unweighted_squares: Float


@dataclass(frozen=True)
class _ChunkMoments:
    sums: ChunkSums
    targets: Float
    """Targets of every ``step``-th entry."""
    seal: bytes
    stored: Float | None
    """Number of stored cells of each column."""
    before: NDArray[np.int64] | None
    """Largest column stored before this one in any row, or -1."""


def _measured_by(run: Run) -> Callable[[Chunk], ChunkSums]:
    """The way to measure a chunk: compiled, or NumPy for small data."""
    if run.compiled:
        with uninterrupted():
            from aidlearn.data.passes.compiled import measure
        return lambda chunk: ChunkSums(*measure(chunk.X, chunk.y, chunk.weight))
    return _measured


def _measured(chunk: Chunk) -> ChunkSums:
    plain = bool((chunk.weight == 1).all())
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        unweighted = _squares(chunk, None)
        squares = unweighted if plain else _squares(chunk, chunk.weight)
        return ChunkSums(
            weight=float(chunk.weight.sum()),
            weight_squares=float(chunk.weight @ chunk.weight),
            target_squares=float(chunk.y @ chunk.y),
            least_weight=float(chunk.weight.min(initial=np.inf)),
            sums=chunk.transposed_times(chunk.weight),
            squares=squares,
            unweighted_squares=unweighted,
        )


def _stored(compiled: bool, chunk: Chunk) -> tuple[Float, NDArray[np.int64]] | tuple[None, None]:
    """Number of stored cells of each column, and the largest column before it in a row, for sparse rows."""
    if not (compiled and sparse.issparse(chunk.X)):
        return None, None
    stored = np.bincount(chunk.X.indices, minlength=chunk.X.shape[1]).astype(np.float64)
    from aidlearn.data.passes.compiled import columns_before

    return stored, columns_before(chunk.X)


def longest_exclusive(before: NDArray[np.int64]) -> range:
    """The longest range of columns of which no row stores two.

    A range from ``first`` on is exclusive up to the first column j with ``before[j] >= first``.
    """
    best, first = range(0), 0
    for j, last in enumerate(before.tolist()):
        first = max(first, last + 1)
        if j + 1 - first > len(best):
            best = range(first, j + 1)
    return best


def _seal(chunk: Chunk) -> bytes:
    """Digest of a chunk's rows, byte by byte in their order."""
    hashed = hashlib.sha256(chunk.y.tobytes() + chunk.weight.tobytes())
    parts = [chunk.X.data, chunk.X.indices, chunk.X.indptr] if sparse.issparse(chunk.X) else [chunk.X]
    for part in parts:
        hashed.update(np.ascontiguousarray(part).data)
    return hashed.digest()


def _spread(run: Run, columns: NDArray[np.intp], mean: Float) -> Float:
    """Sums of squares about the mean of columns that hardly vary; 0 for constant columns."""
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

    run.map(measure, collect=collect)
    largest = np.maximum(np.abs(low), np.abs(high))
    lost = np.flatnonzero((high > low) & (high - low < 1e-11 * largest))
    if len(lost):
        column = lost[0]
        raise ValueError(
            f"Column {run.source.column_name(int(columns[column]))} of X varies only in its last digits, between "
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


class CheckedRows(NamedTuple):
    """Rows in memory as one array or CSR matrix without bad cells, their targets and weights."""

    X: Any
    y: Float
    weight: Float
    digest: str
    """Digest of the rows; empty unless requested."""


def checked_rows(run: Run, digest: bool = False) -> CheckedRows:
    """Rows of a source in memory, validated in one pass."""
    moments = inspect(run, centred=False, digest=digest)
    source = run.source
    if isinstance(source, ArraySource):
        return CheckedRows(source.X, source.y, source.weight, moments.digest)
    rows = join(list(source.chunks()))
    return CheckedRows(rows.X.tocsr() if sparse.issparse(rows.X) else rows.X, rows.y, rows.weight, moments.digest)


def scaled(moments: Moments, factors: Float) -> Moments:
    """The moments of columns that are multiplied by factors."""
    return replace(
        moments,
        mean=moments.mean * factors,
        squares=moments.squares * factors**2,
        raw_squares=moments.raw_squares * factors**2,
        factors=factors,
    )
