"""Dask arrays and DataFrames as a source: rows and labels stay on the cluster (see :mod:`aidlearn.data.remote`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.arrays import is_dask
from aidlearn.data.chunk import Chunk, Float, Int
from aidlearn.data.convert import linear_scores
from aidlearn.data.dask_backend import find_backend
from aidlearn.data.dask_input import Layout, Matrix, Partitions, Vector, check_vector, kind_of, partitions_of
from aidlearn.data.remote import Batches, RemotePasses, Sealed, StoredRows, remote_target_counts
from aidlearn.data.source import DataSource
from aidlearn.data.targets import TargetCounts, Targets
from aidlearn.data.threads import one_blas_thread

BATCH_CHUNKS = 16
"""Chunks of one task at most (64 MB of float64)."""
TASKS_PER_THREAD = 2
VECTOR_BYTES = 40
"""Of a row beside its attributes: target and weight as stored and as coded, and its label."""


class Outline(DataSource):
    """What is known of a source where its rows are: shape and names, no rows."""

    def __init__(self, n_entries: int, names: list[str], starts: Int | None) -> None:
        self.n_entries, self.n_attributes = n_entries, len(names)
        self.names, self.starts = names, starts
        """Names of the columns; first row of each partition, where that is known."""

    def chunk(self, k: int) -> Chunk:
        raise RuntimeError("This is the outline of a source; its rows are elsewhere.")

    def column_name(self, column: int) -> str:
        name = self.names[column]
        return name if name == str(column) else f"{column} ({name!r})"

    def row_name(self, row: int) -> str:
        if self.starts is None:
            return str(row)
        return f"{row} (partition {int(np.searchsorted(self.starts, row, side='right')) - 1})"


class DaskSource(Outline):
    """Rows of a Dask array or DataFrame, re-cut into the chunks that every source has.

    Parameters
    ----------
    X : Dask array or DataFrame
    target : Dask collection, array, or column of X by name or number; optional
    columns : sequence, optional
        Columns of X; all others than target and weight by default.
    weight : as target
    n_jobs : int
        Threads on this machine (for work on samples).
    """

    def __init__(
        self, X: Any, target: Any = None, columns: Any = None, weight: Any = None, n_jobs: int | None = None
    ) -> None:
        self.n_jobs = n_jobs
        inside = [value if _is_name(value) else None for value in (target, weight)]
        layout = Layout.of(X, inside[0], columns, inside[1])
        self.target_name = f"column {target!r}" if layout.target is not None else "y"
        self.has_target = target is not None
        self._backend = find_backend()
        main = partitions_of(X, "X", layout.labels, self._backend)
        if main.n_rows == 0:
            raise ValueError(f"The Dask {type(X).__name__} has no rows.")
        super().__init__(main.n_rows, layout.names, main.starts if main.as_given else None)
        everything = layout.labels is None and layout.columns == list(range(int(X.shape[1])))
        matrix = Matrix(None if everything else tuple(layout.columns), layout.dtype)
        self.named = layout.labels is not None and all(isinstance(label, str) for label in layout.labels)
        self._target_is_number = layout.target_is_number
        takes: list[tuple[Partitions, Any] | None] = [(main, matrix)]
        for value, place, what in ((target, layout.target, "y"), (weight, layout.weight, "sample_weight")):
            if value is None:
                takes.append(None)
            elif place is not None:
                takes.append((main, Vector(place, layout.target_is_number if what == "y" else True)))
            else:
                takes.append(self._beside(value, what, main.lengths))
        itemsize = 4 if layout.dtype == "float32" else 8
        self._batches = self._cut(takes, self.n_entries * (itemsize * self.n_attributes + VECTOR_BYTES))

    def _beside(self, value: Any, what: str, lengths: Int) -> tuple[Partitions, Vector]:
        """A target or weight in a collection of its own."""
        collection = value if is_dask(value) else _as_dask(value, what, lengths)
        number = check_vector(collection, what, texts=what == "y")
        if what == "y":
            self._target_is_number = number
        columns = list(collection.columns) if kind_of(collection) == "frame" else None
        found = partitions_of(collection, what, columns, self._backend)
        if found.n_rows != self.n_entries:
            raise ValueError(f"X has {self.n_entries} rows, but {what} has {found.n_rows}.")
        return found, Vector(None, number)

    def _cut(self, takes: list[tuple[Partitions, Any] | None], n_bytes: float) -> Batches:
        """One task for each run of consecutive chunks."""
        backend = self._backend
        wanted = -(-self.n_chunks // (TASKS_PER_THREAD * backend.n_threads))
        n_chunks = max(1, min(BATCH_CHUNKS, wanted))
        step = n_chunks * self.rows_per_chunk
        first_rows = list(range(0, self.n_entries, step))
        tasks = []
        for first in first_rows:
            last = min(first + step, self.n_entries)
            pieces = [None if take is None else take[0].rows(first, last) for take in takes]
            shapes = [None if take is None else take[1] for take in takes]
            tasks.append(backend.task(_assemble, *pieces, Sealed(shapes)))
        kept = backend.keeps(n_bytes)
        return Batches(
            backend.start(tasks, ours=False) if kept else tasks, first_rows, n_chunks, self.rows_per_chunk, kept
        )

    def passes(self, targets: Targets, n_jobs: int) -> RemotePasses:
        if targets.classes is None and self.has_target and not self._target_is_number:
            raise ValueError(f"The target ({self.target_name}) does not hold numbers; a regression needs them.")
        return RemotePasses(self._backend, self._batches, targets)

    def target_counts(self) -> Iterator[TargetCounts]:
        return remote_target_counts(self._backend, self._batches)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pass function may hold the source; what travels is its outline."""
        return Outline, (self.n_entries, self.names, self.starts)


def _assemble(X: list[Any], target: list[Any] | None, weight: list[Any] | None, shapes: Sealed) -> StoredRows:
    """The rows of one task out of pieces of partitions; runs where these are."""
    rows, *vectors = shapes.content
    y, s = (None if take is None else take(part) for take, part in zip(vectors, (target, weight), strict=True))
    return StoredRows(rows(X), y, s)


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int, np.integer))


def _as_dask(values: Any, what: str, lengths: Int) -> Any:
    """Values in memory beside a collection, cut as it is."""
    import dask.array as da

    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.ndim == 0 or len(array) != lengths.sum():
        raise ValueError(f"X has {lengths.sum()} rows, but {what} has shape {array.shape}.")
    return da.from_array(array, chunks=(tuple(map(int, lengths[lengths > 0])), *array.shape[1:]))


def lazy_scores(X: Any, coef: Float, intercept: Any, decide: Callable[[Float], Any], like: NDArray[Any]) -> Any:
    """``decide(X coef' + intercept)`` as a Dask array, computed block by block when it is asked for.

    ``like`` is what ``decide`` gives for no rows: its type and its columns.
    """
    import dask.array as da
    from dask import delayed

    layout = Layout.of(X, None, None, None)
    if len(layout.columns) != coef.shape[-1]:
        raise ValueError(f"X has {len(layout.columns)} features, but the model was fitted with {coef.shape[-1]}.")
    matrix = Matrix(None, layout.dtype)

    def score(block: Any) -> Any:
        with one_blas_thread():
            return decide(linear_scores(matrix([block]), coef, intercept))

    if kind_of(X) == "array":
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        chunks = (X.chunks[0], *((size,) for size in like.shape[1:]))
        return X.map_blocks(score, dtype=like.dtype, chunks=chunks, drop_axis=1 if like.ndim == 1 else None, meta=like)
    blocks = [
        da.from_delayed(delayed(score, pure=False)(part), shape=(np.nan, *like.shape[1:]), dtype=like.dtype, meta=like)
        for part in X.to_delayed()
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)
