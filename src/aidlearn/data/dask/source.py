"""Dask arrays and DataFrames as a source: rows and labels stay on the cluster (:mod:`aidlearn.data.rows.remote`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.dask.backend import find_backend
from aidlearn.data.dask.partitions import (
    DaskLayout,
    DaskMatrix,
    DaskPartitions,
    DaskVector,
    check_vector,
    complete_partitions,
    joined_levels,
    kind_of,
    levels_of,
    partitions_of,
)
from aidlearn.data.encoding.levels import LevelsFound, make_recipe, refuse_columns
from aidlearn.data.encoding.recipe import Recipe
from aidlearn.data.encoding.rules import Rules
from aidlearn.data.rows.arrays import is_dask
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import TargetCounts, Targets, as_array, refuse_lossy
from aidlearn.data.rows.remote import Batches, RemotePasses, Sealed, StoredRows, remote_target_counts
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.data.tables.columns import EncodedSource, Roles
from aidlearn.data.tables.conversion import linear_scores
from aidlearn.numerics import Float, Int

PLAIN = Rules()


@dataclass(frozen=True)
class TaskSettings:
    """Settings for how rows on a cluster are cut into tasks."""

    most_chunks: int = 16
    """Guess. Maximum number of chunks per task (64 MB of float64)."""
    tasks_per_thread: int = 2
    """Guess. Number of tasks per thread in a pass, so that a thread that finishes early has another task."""
    vector_bytes: int = 40
    """Bytes per row without its attributes: 8 each for target and weight, stored and coded, and for its label."""


SETTINGS = TaskSettings()


class Outline(EncodedSource):
    """Shape and names of a source without its rows, which is what workers receive."""

    def __init__(self, n_entries: int, inputs: list[str], starts: Int | None, recipe: Recipe | None = None) -> None:
        self.n_entries, self.inputs = n_entries, inputs
        self.starts = starts
        """First row of each partition; None if it is not known."""
        self._encode(recipe)

    def chunk(self, k: int) -> Chunk:
        raise RuntimeError("This outline of a source has no rows.")

    def row_name(self, row: int) -> str:
        if self.starts is None:
            return str(row)
        return f"{row} (partition {int(np.searchsorted(self.starts, row, side='right')) - 1})"


class DaskSource(Outline):
    """Rows of a Dask array or DataFrame, re-cut into the chunks that every source has.

    Parameters
    ----------
    X : Dask array or DataFrame
    asked : Roles
        Columns of X by name or number; target and weight likewise, or as Dask collections or arrays.
    n_jobs : int
        Number of threads on this machine (for work on samples).
    rules : Rules
        Which columns are factors, and how missing cells are treated; an estimator's own rules take precedence.
    """

    def __init__(
        self,
        X: Any,
        asked: Roles,
        n_jobs: int | None = None,
        rules: Rules = PLAIN,
    ) -> None:
        self.n_jobs, self.rules = n_jobs, rules
        target, weight = asked.target, asked.weight
        inside = [value if isinstance(value, (str, int, np.integer)) else None for value in (target, weight)]
        layout = DaskLayout.of(X, Roles(inside[0], asked.columns, inside[1]))
        self.target_name = f"column {target!r}" if layout.target is not None else "y"
        self.has_target = target is not None
        self._backend = find_backend()
        main = partitions_of(X, "X", layout.labels, self._backend)
        if main.n_rows == 0:
            raise ValueError(f"The Dask {type(X).__name__} has no rows.")
        names = [str(name) for name in layout.outline.names]
        super().__init__(main.n_rows, names, main.starts if main.as_given else None)
        self._outline, self._drops = layout.outline, False
        self._levels: dict[tuple[int, bool], LevelsFound] = {}
        self.named = layout.labels is not None and all(isinstance(label, str) for label in layout.labels)
        self._main, self._matrix = main, DaskMatrix(layout.columns, layout.dtype)
        self._target_is_number = layout.target_is_number
        self._vectors: list[tuple[DaskPartitions, DaskVector] | None] = [
            self._vector(target, layout.target, "y"),
            self._vector(weight, layout.weight, "sample_weight"),
        ]
        """Partitions from which target and weight are extracted, with the functions that extract them."""

    def encoded(self, rules: Rules, intercept: bool) -> DaskSource:
        """Return the same rows with factors encoded by the rules of an estimator; workers find the levels."""
        rules, outline, recipe = rules.over(self.rules), self._outline, None
        factors = rules.factors(outline.names, outline.kinds, outline.where)
        refuse_columns(outline, factors)
        source = DaskSource.__new__(DaskSource)  # copy() would keep only the outline
        source.__dict__.update(vars(self))
        source._drops = rules.missing == "drop"
        if source._drops and not self._drops:
            source._leave_out_missing()
        elif self._drops and not source._drops:
            raise ValueError("These data were opened with missing='drop', and the model has another rule.")
        if factors:
            found = source._levels_of(factors)
            recipe = make_recipe(outline, rules, factors, found, source.n_entries, intercept, source.row_name)
        if recipe == self.encoding and source._drops == self._drops:
            return self
        source._encode(recipe)
        source._matrix = replace(self._matrix, recipe=recipe)
        source.__dict__.pop("_batches", None)
        return source

    def _leave_out_missing(self) -> None:
        main = self._main
        if any(take is not None and take[0] is not main for take in self._vectors):
            raise ValueError("missing='drop' needs the target and weight as columns of the Dask DataFrame.")
        self._main = complete_partitions(main)
        self._vectors = [None if take is None else (self._main, take[1]) for take in self._vectors]
        self.n_entries, self.starts = self._main.n_rows, None
        self.n_dropped = main.n_rows - self.n_entries
        if self.n_entries == 0:
            raise ValueError(f"Every row of {self._outline.where} has a missing cell, so missing='drop' leaves none.")

    def _levels_of(self, factors: Mapping[int, Any]) -> dict[int, LevelsFound]:
        wanted = [j for j in factors if (j, self._drops) not in self._levels]
        if wanted:
            backend, plan = self._backend, Sealed((replace(self._matrix, recipe=None), wanted))
            tasks = [backend.task(levels_of, part, plan) for part in self._main.parts]
            parts = [sealed.content for sealed in backend.results(backend.start(tasks, ours=False))]
            for j in wanted:
                pairs = zip(self._main.starts.tolist(), [part[j] for part in parts], strict=False)
                self._levels[j, self._drops] = joined_levels(pairs)
        return {j: self._levels[j, self._drops] for j in factors}

    @cached_property
    def _batches(self) -> Batches:
        """Tasks that assemble the rows, made when they are first needed."""
        takes: list[tuple[DaskPartitions, Any] | None] = [(self._main, self._matrix), *self._vectors]
        stored = len(self.inputs) * 1.5 if self.is_sparse else self.n_attributes
        itemsize = 4 if self._matrix.dtype == "float32" else 8
        backend, n_bytes = self._backend, self.n_entries * (itemsize * stored + SETTINGS.vector_bytes)
        wanted = -(-self.n_chunks // (SETTINGS.tasks_per_thread * backend.n_threads))
        n_chunks = max(1, min(SETTINGS.most_chunks, wanted))
        step = n_chunks * self.rows_per_chunk
        first_rows = list(range(0, self.n_entries, step))
        shapes = Sealed([None if take is None else take[1] for take in takes])
        tasks = []
        for first in first_rows:
            last = min(first + step, self.n_entries)
            pieces = [None if take is None else take[0].rows(first, last) for take in takes]
            tasks.append(backend.task(_assemble, *pieces, shapes))
        kept = backend.keeps(n_bytes)
        started = backend.start(tasks, ours=False) if kept else tasks
        return Batches(started, first_rows, n_chunks, self.rows_per_chunk, kept)

    def _vector(self, value: Any, place: int | None, what: str) -> tuple[DaskPartitions, DaskVector] | None:
        """Return how a target or weight is extracted: from a column of X, or from separate values or collections."""
        if value is None:
            return None
        if place is not None:
            return self._main, DaskVector(place, self._target_is_number or what != "y")
        collection = value if is_dask(value) else _as_dask(value, what, self._main.lengths)
        number = check_vector(collection, what, texts=what == "y")
        if what == "y":
            self._target_is_number = number
        columns = list(collection.columns) if kind_of(collection) == "frame" else None
        found = partitions_of(collection, what, columns, self._backend)
        if found.n_rows != self.n_entries:
            raise ValueError(f"X has {self.n_entries} rows, but {what} has {found.n_rows}.")
        return found, DaskVector(None, number)

    def passes(self, targets: Targets, n_jobs: int) -> RemotePasses:
        if targets.classes is None and self.has_target and not self._target_is_number:
            raise ValueError(f"The target ({self.target_name}) does not hold numbers; a regression needs them.")
        return RemotePasses(self._backend, self._batches, targets)

    def target_counts(self) -> Iterator[TargetCounts]:
        return remote_target_counts(self._backend, self._batches)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the outline, because a pass function may refer to the source."""
        return Outline, (self.n_entries, self.inputs, self.starts, self.encoding)


def _assemble(X: list[Any], target: list[Any] | None, weight: list[Any] | None, shapes: Sealed) -> StoredRows:
    """Assemble the rows of one task from pieces of partitions, on a worker."""
    rows, *vectors = shapes.content
    y, s = (None if take is None else take(part) for take, part in zip(vectors, (target, weight), strict=True))
    return StoredRows(rows(X), y, s)


def _as_dask(values: Any, what: str, lengths: Int) -> Any:
    """Return values in memory as a Dask array with the partitions of a collection."""
    import dask.array as da

    refuse_lossy(values, what, whole=False)
    array = as_array(values)
    if array.ndim == 0 or len(array) != lengths.sum():
        raise ValueError(f"X has {lengths.sum()} rows, but {what} has shape {array.shape}.")
    return da.from_array(array, chunks=(tuple(map(int, lengths[lengths > 0])), *array.shape[1:]))


def lazy_scores(
    X: Any,
    coef: Float,
    intercept: Any,
    decide: Callable[[Float], Any],
    like: NDArray[Any],
    recipe: Recipe | None = None,
) -> Any:
    """Return ``decide(X coef' + intercept)`` as a Dask array, computed lazily block by block.

    ``like`` is the result of ``decide`` for zero rows, which determines type and columns.
    """
    import dask.array as da
    from dask import delayed

    layout = DaskLayout.of(X, Roles())
    expected = coef.shape[-1] if recipe is None else len(recipe.columns)
    if len(layout.outline.names) != expected:
        raise ValueError(f"X has {len(layout.outline.names)} features, but the model was fitted with {expected}.")
    refuse_columns(layout.outline, {} if recipe is None else recipe.factor_positions)
    matrix = DaskMatrix(None, layout.dtype, recipe)

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
