"""The first pass, which refuses NaN and infinity and measures the columns on all entries."""

from __future__ import annotations

import hashlib
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
    """Moments of the columns from weighted sums over all entries."""

    weight: float
    """Sum of the weights."""
    effective: float
    """Kish's effective number of entries, ``(sum s)^2 / sum s^2``."""
    mean: Float
    """Weighted mean of each column."""
    squares: Float
    """Weighted sum of squares of each column about its mean; exactly 0 if the column is constant."""
    raw_squares: Float
    """Weighted sum of squares of each column about zero."""
    targets: Float
    """Targets of about ten thousand evenly spaced entries."""
    digest: str = ""
    """Digest of all rows in their order; empty unless requested."""
    density: Float | None = None
    """Share of stored cells of each column; None unless rows are sparse and passes are compiled."""
    exclusive: range = range(0)
    """Longest range of sparse columns of which no row stores two, such as the levels of a factor."""
    n_entries: int = 0
    factors: Float | None = None
    """Factors that the columns were multiplied by, if they are standardised."""


def inspect(run: Run, centred: bool = True, digest: bool = False) -> Moments:
    """Validate all entries and measure the columns, in one pass.

    With ``centred`` (for models with an intercept), columns that hardly vary are measured again about their mean.
    """
    if run.compiled:
        with uninterrupted():
            from aidlearn.data.passes import compiled
        measured = compiled.measure
        columns_before = compiled.columns_before if run.source.is_sparse else None
    else:
        measured, columns_before = _measured, None
    source = run.source  # pass functions may be sent to workers and must not refer to the run
    m = source.n_attributes
    sums, squares, weights = np.zeros(m), np.zeros(m), np.zeros(2)
    stored, before = np.zeros(m), np.full(m, -1)
    step = max(1, source.n_entries // 10_000)
    targets: list[Float] = []
    hashed = hashlib.sha256()

    def measure(chunk: Chunk, state: Any) -> tuple[_ChunkMoments, None]:
        found = Measured(*measured(chunk.X, chunk.y, chunk.weight))
        if not all(np.isfinite(part).all() for part in (found.unweighted_squares, found.target_squares, found.weight)):
            raise ValueError(source.find_bad_cell(chunk) + ".")
        if found.least_weight < 0:
            row = int(np.flatnonzero(chunk.weight < 0)[0])
            raise ValueError(
                f"sample_weight must be non-negative, got {chunk.weight[row]:g} at row {chunk.start + row}."
            )
        part = _ChunkMoments(found, chunk.y[-chunk.start % step :: step].copy(), _seal(chunk) if digest else b"")
        if columns_before is not None:
            part.stored = np.bincount(chunk.X.indices, minlength=m).astype(np.float64)
            part.before = columns_before(chunk.X)
        return part, None

    def collect(part: _ChunkMoments) -> None:
        sums[:] += part.measured.sums
        squares[:] += part.measured.squares
        weights[:] += part.measured.weight, part.measured.weight_squares
        targets.append(part.targets)
        hashed.update(part.seal)
        if part.stored is not None and part.before is not None:
            stored[:] += part.stored
            np.maximum(before, part.before, out=before)

    run.map(measure, collect=collect)
    weight, weight_squares = weights.tolist()
    if not 1e-100 < weight < 1e100 and weight != 0:
        raise ValueError(f"sample_weight sums to {weight:g}; divide it by a constant so that it is of ordinary size.")
    if weight == 0:
        raise ValueError("sample_weight is zero for every row; at least one must be positive.")
    mean = sums / weight
    vanished = np.flatnonzero((squares < SMALLEST_SQUARES) & (sums != 0))
    if len(vanished):
        raise ValueError(
            f"Column {source.column_name(int(vanished[0]))} of X has values so small that their squares vanish in "
            "float64; rescale it."
        )
    about_mean = squares - weight * mean**2
    # If the difference has cancelled, a second pass measures the spread about the mean itself.
    suspects = np.flatnonzero((about_mean <= 1e-8 * squares) & (squares > 0))
    if centred and len(suspects):
        about_mean[suspects] = _spread(run, suspects, mean[suspects])
    return Moments(
        weight=weight,
        effective=weight / (weight_squares / weight),
        mean=mean,
        squares=np.maximum(about_mean, 0.0),
        raw_squares=squares,
        targets=np.concatenate(targets),
        digest=hashed.hexdigest() if digest else "",
        density=None if columns_before is None else stored / source.n_entries,
        exclusive=range(0) if columns_before is None else longest_exclusive(before),
        n_entries=source.n_entries,
    )


class Measured(NamedTuple):
    """Sums over a chunk that validate it and measure its columns.

    NaN and infinity survive any sum, so a chunk is valid if these sums are finite. The unweighted sums also validate
    rows of weight 0.
    """

    weight: float
    weight_squares: float
    target_squares: float
    least_weight: float
    sums: Float
    """Sum of ``s x`` in each column."""
    squares: Float
    """Sum of ``s x^2`` in each column."""
    unweighted_squares: Float


@dataclass
class _ChunkMoments:
    measured: Measured
    targets: Float
    """Targets of every ``step``-th entry."""
    seal: bytes
    stored: Float | None = None
    """Number of stored cells of each column, for sparse rows and compiled passes."""
    before: NDArray[np.int64] | None = None
    """Largest column stored before each column in any row, or -1."""


def _measured(X: Any, y: Float, weight: Float) -> Measured:
    """Compute :func:`aidlearn.data.passes.compiled.measure` with NumPy, for small data."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        unweighted = _squares(X, None)
        return Measured(
            weight=float(weight.sum()),
            weight_squares=float(weight @ weight),
            target_squares=float(y @ y),
            least_weight=float(weight.min(initial=np.inf)),
            sums=np.asarray(X.T @ weight, dtype=np.float64),
            squares=unweighted if (weight == 1).all() else _squares(X, weight),
            unweighted_squares=unweighted,
        )


def longest_exclusive(before: NDArray[np.int64]) -> range:
    """Return the longest range of columns of which no row stores two.

    A range that starts at ``first`` is exclusive up to the first column j with ``before[j] >= first``.
    """
    best, first = range(0), 0
    for j, last in enumerate(before.tolist()):
        first = max(first, last + 1)
        if j + 1 - first > len(best):
            best = range(first, j + 1)
    return best


def _seal(chunk: Chunk) -> bytes:
    """Return a digest of the bytes of a chunk's rows, in their order."""
    hashed = hashlib.sha256(chunk.y.tobytes() + chunk.weight.tobytes())
    parts = [chunk.X.data, chunk.X.indices, chunk.X.indptr] if sparse.issparse(chunk.X) else [chunk.X]
    for part in parts:
        hashed.update(np.ascontiguousarray(part).data)
    return hashed.digest()


def _spread(run: Run, columns: NDArray[np.intp], mean: Float) -> Float:
    """Return the sums of squares about the mean of columns that hardly vary; 0 for constant columns."""
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


def _squares(X: Any, weight: Float | None) -> Float:
    if sparse.issparse(X):
        X = X.astype(np.float64)
        return np.asarray(X.multiply(X).T @ (np.ones(X.shape[0]) if weight is None else weight), dtype=np.float64)
    if weight is None:
        return np.einsum("ij,ij->j", X, X, dtype=np.float64)
    return np.einsum("i,ij,ij->j", weight, X, X, dtype=np.float64)


class CheckedRows(NamedTuple):
    """Rows in memory as one array or CSR matrix without bad cells, with their targets and weights."""

    X: Any
    y: Float
    weight: Float
    digest: str
    """Digest of the rows; empty unless requested."""


def checked_rows(run: Run, digest: bool = False) -> CheckedRows:
    """Return the rows of a source in memory, validated in one pass."""
    moments = inspect(run, centred=False, digest=digest)
    source = run.source
    if isinstance(source, ArraySource):
        return CheckedRows(source.X, source.y, source.weight, moments.digest)
    rows = join(list(source.chunks()))
    return CheckedRows(rows.X.tocsr() if sparse.issparse(rows.X) else rows.X, rows.y, rows.weight, moments.digest)


def scaled(moments: Moments, factors: Float) -> Moments:
    """Return the moments of columns that are multiplied by factors."""
    return replace(
        moments,
        mean=moments.mean * factors,
        squares=moments.squares * factors**2,
        raw_squares=moments.raw_squares * factors**2,
        factors=factors,
    )
