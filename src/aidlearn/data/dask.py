"""Dask arrays and DataFrames as a source: rows and labels stay on the cluster.

A pass sends its function out once and runs it where the rows are; what comes back are the values it folds. Labels
stay behind as results of tasks, so rows and labels of a lost worker are computed again from the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.arrays import is_dask
from aidlearn.data.convert import linear_scores
from aidlearn.data.dask_input import Layout, Matrix, Strand, Vector, check_vector, kind_of, strand
from aidlearn.data.dask_tasks import Program, Sealed, find_runner, task
from aidlearn.data.source import Chunk, DataSource, Float, Int, PassFunction, one_blas_thread
from aidlearn.data.targets import TargetCounts, code, count_targets

BATCH_CHUNKS = 16
"""Chunks of one task at most (64 MB of float64)."""
TASKS_PER_THREAD = 2


@dataclass(frozen=True)
class Rows:
    """The rows of one task: X, the target as it is stored, and the weight."""

    X: NDArray[Any]
    target: NDArray[Any] | None
    weight: NDArray[Any] | None

    def __sizeof__(self) -> int:
        """What Dask takes as the size of a result, to leave it where it is."""
        return 64 + _n_bytes([self.X, self.target, self.weight])


@dataclass(frozen=True)
class Marks:
    """Targets as numbers and weights of the rows of one task."""

    y: Float
    weight: Float

    def __sizeof__(self) -> int:
        return 64 + _n_bytes([self.y, self.weight])


class Held:
    """The state of one chunk, which stays where the chunk is: the result of a task, and the place in it."""

    __slots__ = ("path", "task")

    def __init__(self, task: Any, path: tuple[int, ...]) -> None:
        self.task, self.path = task, path

    def __getitem__(self, place: int) -> Held:
        """A part of the state."""
        return Held(self.task, (*self.path, place))

    def __reduce__(self) -> Any:
        raise TypeError("The state of a chunk stays where the chunk is; it cannot be part of a pass function.")


@dataclass(frozen=True)
class _Place:
    """Where a task finds a state among the results it is given."""

    result: int
    path: tuple[int, ...]


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

    codes_targets = True

    def __init__(self, X: Any, target: Any = None, columns: Any = None, weight: Any = None, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        inside = [value if _is_name(value) else None for value in (target, weight)]
        layout = Layout.of(X, inside[0], columns, inside[1])
        self.target_name = f"column {target!r}" if layout.target is not None else "y"
        self.has_target = target is not None
        self._runner = find_runner()
        main = strand(X, "X", layout.labels, self._runner)
        if main.n_rows == 0:
            raise ValueError(f"The Dask {type(X).__name__} has no rows.")
        super().__init__(main.n_rows, layout.names, main.starts if main.as_given else None)
        everything = layout.labels is None and layout.columns == list(range(int(X.shape[1])))
        matrix = Matrix(None if everything else tuple(layout.columns), layout.dtype)
        self.named = layout.labels is not None and all(isinstance(label, str) for label in layout.labels)
        self._target_is_number = layout.target_is_number
        takes: list[tuple[Strand, Any] | None] = [(main, matrix)]
        for value, place, what in ((target, layout.target, "y"), (weight, layout.weight, "sample_weight")):
            if value is None:
                takes.append(None)
            elif place is not None:
                takes.append((main, Vector(place, layout.target_is_number if what == "y" else True)))
            else:
                takes.append(self._beside(value, what, main.lengths))
        itemsize = 4 if layout.dtype == "float32" else 8
        self._cut_batches(takes, self.n_entries * (itemsize * self.n_attributes + 40))
        self._marks: list[Any] | None = None

    def _beside(self, value: Any, what: str, lengths: Int) -> tuple[Strand, Vector]:
        """A target or weight in a collection of its own."""
        collection = value if is_dask(value) else _as_dask(value, what, lengths)
        number = check_vector(collection, what, texts=what == "y")
        if what == "y":
            self._target_is_number = number
        columns = list(collection.columns) if kind_of(collection) == "frame" else None
        found = strand(collection, what, columns, self._runner)
        if found.n_rows != self.n_entries:
            raise ValueError(f"X has {self.n_entries} rows, but {what} has {found.n_rows}.")
        return found, Vector(None, number)

    def _cut_batches(self, takes: list[tuple[Strand, Any] | None], n_bytes: float) -> None:
        """One task for each run of consecutive chunks."""
        wanted = -(-self.n_chunks // (TASKS_PER_THREAD * self._runner.n_threads))
        self._chunks_per_batch = max(1, min(BATCH_CHUNKS, wanted))
        step = self._chunks_per_batch * self.rows_per_chunk
        self._firsts = list(range(0, self.n_entries, step))
        batches = []
        for first in self._firsts:
            last = min(first + step, self.n_entries)
            pieces = [None if take is None else take[0].rows(first, last) for take in takes]
            shapes = [None if take is None else take[1] for take in takes]
            batches.append(task(_assemble, *pieces, Sealed(shapes)))
        self._kept = self._runner.keeps(n_bytes)
        self._rows = self._runner.start(batches, ours=False) if self._kept else batches

    def __reduce__(self) -> tuple[Any, ...]:
        """A pass function may hold the source; what travels is its outline."""
        return Outline, (self.n_entries, self.names, self.starts)

    def __copy__(self) -> DaskSource:
        """The same rows for another fit; ``__reduce__`` is for what travels."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    # Targets

    def subtract(self, offset: float) -> bool:
        self.offset, self._marks = offset, None
        return True

    def set_classes(self, classes: NDArray[Any], factors: Float | None) -> None:
        super().set_classes(classes, factors)
        self._marks = None

    def target_counts(self) -> Iterator[TargetCounts]:
        counts = [task(_count, rows) for rows in self._rows]
        return (sealed.content for sealed in self._runner.results(self._runner.start(counts)))

    def _marked(self) -> list[Any]:
        """Tasks for targets and weights as numbers; kept, because texts are slow to look up."""
        if self._marks is None:
            if self.classes is None and self.has_target and not self._target_is_number:
                raise ValueError(f"The target ({self.target_name}) does not hold numbers; a regression needs them.")
            coding = _sent(Coding(self.classes, self.class_factors, self.offset))
            marks = [task(_mark, coding, rows) for rows in self._rows]
            self._marks = self._runner.start(marks) if self._kept else marks
        return self._marks

    # Passes

    def _ordered(self, function: PassFunction, states: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        program = _sent(function)
        answers = []
        for k, (rows, marks) in enumerate(zip(self._rows, self._marked(), strict=True)):
            places, given = _found(states[k * self._chunks_per_batch : (k + 1) * self._chunks_per_batch])
            shape = (self._firsts[k], self.rows_per_chunk)
            answers.append(task(_work, program, rows, marks, shape, Sealed(places), *given))
        yield from self._answers(answers)

    def map_states(self, function: Callable[[Any], Any], states: Sequence[Any]) -> Iterator[Any]:
        program = _sent(function)
        answers = []
        for first in range(0, len(states), self._chunks_per_batch):
            places, given = _found(states[first : first + self._chunks_per_batch])
            answers.append(task(_look, program, Sealed(places), *given))
        for sealed in self._runner.results(self._runner.start(answers)):
            yield from sealed.content

    def _answers(self, answers: list[Any]) -> Iterator[tuple[Any, Any]]:
        """Values in chunk order, as they come; states as what they are kept by."""
        values = [task(_part, answer, 0) for answer in answers]
        states = [task(_part, answer, 1) for answer in answers]
        started = self._runner.start([*values, *states])
        values, states = started[: len(values)], started[len(values) :]
        for state, sealed in zip(states, self._runner.results(values), strict=True):
            for k, value in enumerate(sealed.content):
                yield value, Held(state, (k,))


@dataclass(frozen=True)
class Coding:
    """How stored targets and weights become those of the problem (see :meth:`DataSource.coded`)."""

    classes: NDArray[Any] | None
    factors: Float | None
    offset: float

    def __call__(self, rows: Rows) -> Marks:
        n = len(rows.X)
        weight = np.ones(n) if rows.weight is None else np.asarray(rows.weight, dtype=np.float64)
        target = np.zeros(n) if rows.target is None else rows.target
        y, weight = code(target, weight, self.classes, self.factors, self.offset)
        return Marks(np.ascontiguousarray(y), np.ascontiguousarray(weight))


# Tasks: these run where the rows are.


def _assemble(X: list[Any], target: list[Any] | None, weight: list[Any] | None, shapes: Sealed) -> Rows:
    rows, *vectors = shapes.content
    y, s = (None if take is None else take(part) for take, part in zip(vectors, (target, weight), strict=True))
    return Rows(rows(X), y, s)


def _mark(coding: Program, rows: Rows) -> Marks:
    return coding.function(rows)


def _count(rows: Rows) -> Sealed:
    assert rows.target is not None
    return Sealed(count_targets(rows.target))


def _work(program: Program, rows: Rows, marks: Marks, shape: tuple[int, int], places: Sealed, *given: Sealed) -> Any:
    """One pass over the chunks of one task: their values, and their states."""
    first, size = shape
    X, y, weight = steady(rows.X), steady(marks.y), steady(marks.weight)
    values, states = [], []
    with one_blas_thread():
        for place, start in zip(places.content, range(0, len(y), size), strict=True):
            part = slice(start, min(start + size, len(y)))
            chunk = Chunk(first + part.start, first + part.stop, X[part], y[part], weight[part])
            value, state = program.function(chunk, _resolved(place, given))
            values.append(value)
            states.append(state)
    return Sealed(values, _n_bytes(values)), Sealed(states, _n_bytes(states))


def _look(program: Program, places: Sealed, *given: Sealed) -> Sealed:
    values = [program.function(_resolved(place, given)) for place in places.content]
    return Sealed(values, _n_bytes(values))


def _part(answer: Any, place: int) -> Any:
    return answer[place]


def steady(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers as in memory: aligned and C-ordered.

    An array out of a network buffer may start at any byte, and products with such an array differ in their last bits.
    (Where an aligned array starts within a cache line makes no difference.)
    """
    return np.require(array, requirements=["C", "A"])


def _n_bytes(value: Any) -> int:
    """Bytes of the arrays in nested tuples, lists and data classes."""
    if isinstance(value, np.ndarray):
        return value.nbytes if 0 not in value.strides else value.itemsize
    if isinstance(value, (list, tuple)):
        return sum(map(_n_bytes, value))
    return sum(map(_n_bytes, vars(value).values())) if hasattr(value, "__dict__") else 8


def _resolved(place: Any, given: tuple[Sealed, ...]) -> Any:
    if isinstance(place, _Place):
        state = given[place.result].content
        for step in place.path:
            state = state[step]
        return state
    if isinstance(place, tuple):
        return tuple(_resolved(part, given) for part in place)
    return place


# On this side


def _found(states: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Where the states of a task's chunks are among the results it will be given, and these results."""
    given: dict[str, tuple[int, Any]] = {}
    places = [_placed(state, given) for state in states]
    return places, [task for _, task in given.values()]


def _placed(state: Any, given: dict[str, tuple[int, Any]]) -> Any:
    # No closure that calls itself: such a cycle would hold tasks until the garbage collector comes by.
    if isinstance(state, Held):
        number, _ = given.setdefault(state.task.key, (len(given), state.task))
        return _Place(number, state.path)
    return tuple(_placed(part, given) for part in state) if isinstance(state, tuple) else state


def _sent(function: Any) -> Any:
    """A function as a task of its own: it is sent once, and computed again if the worker that had it is lost."""
    import cloudpickle

    return task(Program, cloudpickle.dumps(function))


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
        da.from_delayed(task(score, part), shape=(np.nan, *like.shape[1:]), dtype=like.dtype, meta=like)
        for part in X.to_delayed()
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)
