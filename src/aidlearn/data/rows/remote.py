"""Passes over rows on other machines, for any backend that runs tasks (:mod:`aidlearn.data.dask.backend` for Dask).

A pass sends its function once and runs it where the rows are; only the values to be folded come back. Labels stay
there as results of tasks, so that rows and labels of a lost worker are recomputed from their tasks.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.rows.arrays import csr_rows
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import TargetCounts, Targets, count_targets, refuse_lossy
from aidlearn.data.rows.source import Passes, PassFunction
from aidlearn.data.rows.threads import one_blas_thread
from aidlearn.numerics import Float


class Backend(ABC):
    """Base of backends, which run tasks where the rows are. A task is an opaque object of its backend."""

    n_threads: int

    @abstractmethod
    def task(self, function: Any, *arguments: Any) -> Any:
        """Return a task that calls a function where the rows are; arguments may be tasks or lists of them."""

    @abstractmethod
    def key(self, task: Any) -> str:
        """Return the unique key of a task."""

    @abstractmethod
    def start(self, tasks: Sequence[Any], ours: bool = True) -> list[Any]:
        """Start tasks; their results are kept as long as the returned tasks.

        ``ours`` marks tasks that hold what a pass sends and not the user's data; their size needs no warning.
        """

    @abstractmethod
    def results(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of started tasks in order."""

    @abstractmethod
    def keeps(self, n_bytes: float) -> bool:
        """Return whether data of this size are kept between passes."""

    def sent(self, function: Any) -> Any:
        """Return a task that sends a function once, and again if its worker is lost."""
        import cloudpickle

        pickled = cloudpickle.dumps(function)
        return self.task(_unsealed, pickled, len(pickled))


class Sealed:
    """An object that is sent as one pickle.

    Buffers sent outside a pickle arrive at arbitrary addresses, and products with unaligned arrays differ in their
    last bits. Arrays inside a pickle are copied when it is loaded, and are thus aligned.
    """

    def __init__(self, content: Any, n_bytes: int = 0) -> None:
        self.content, self.n_bytes = content, n_bytes

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        return _unsealed, (cloudpickle.dumps(self.content), self.n_bytes)

    def __sizeof__(self) -> int:
        """Return the size that the scheduler assumes for the result."""
        return 64 + self.n_bytes


def _unsealed(data: bytes, n_bytes: int) -> Sealed:
    return Sealed(pickle.loads(data), n_bytes)


class _Sized:
    """A result that reports its size, so that the scheduler leaves it on its worker."""

    def __sizeof__(self) -> int:
        return 64 + _n_bytes(list(vars(self).values()))


@dataclass(frozen=True)
class StoredRows(_Sized):
    """Rows of one task: X, the target as stored, and the weight."""

    X: Any
    """An array or a CSR matrix."""
    target: NDArray[Any] | None
    weight: NDArray[Any] | None


@dataclass(frozen=True)
class CodedTargets(_Sized):
    """Targets as numbers, and weights, of the rows of one task."""

    y: Float
    weight: Float


@dataclass(frozen=True)
class Batches:
    """Tasks whose results are the rows (:class:`StoredRows`) of consecutive chunks."""

    tasks: list[Any]
    first_rows: list[int]
    """First row of each task."""
    n_chunks: int
    """Number of chunks per task (the last task may have fewer)."""
    rows_per_chunk: int
    kept: bool
    """Whether the tasks are started and their results kept between passes."""


class RemoteState:
    """The state of a chunk, given as a task and a position in its result; it stays where the chunk is."""

    __slots__ = ("path", "task")

    def __init__(self, task: Any, path: tuple[int, ...]) -> None:
        self.task, self.path = task, path

    def __getitem__(self, place: int) -> RemoteState:
        """Return a part of the state."""
        return RemoteState(self.task, (*self.path, place))

    def __reduce__(self) -> Any:
        raise TypeError("The state of a chunk stays where the chunk is; it cannot be part of a pass function.")


@dataclass(frozen=True)
class _Place:
    """Position of a state among the results that a task receives."""

    result: int
    path: tuple[int, ...]


class RemotePasses(Passes):
    """Passes that run one task for each batch of chunks."""

    def __init__(self, backend: Backend, batches: Batches, targets: Targets) -> None:
        self._backend, self._batches, self._targets = backend, batches, targets
        self._coded: list[Any] | None = None

    def ordered(self, function: PassFunction, states: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        backend, batches = self._backend, self._batches
        sent = backend.sent(function)
        answers = []
        for k, (rows, coded) in enumerate(zip(batches.tasks, self._coded_targets(), strict=True)):
            places, given = self._located(states[k * batches.n_chunks : (k + 1) * batches.n_chunks])
            shape = (batches.first_rows[k], batches.rows_per_chunk)
            answers.append(backend.task(_work, sent, rows, coded, shape, Sealed(places), *given))
        yield from self._answers(answers)

    def map_states(self, function: Callable[[Any], Any], states: Sequence[Any]) -> Iterator[Any]:
        backend, size = self._backend, self._batches.n_chunks
        sent = backend.sent(function)
        answers = []
        for first in range(0, len(states), size):
            places, given = self._located(states[first : first + size])
            answers.append(backend.task(_look, sent, Sealed(places), *given))
        for sealed in backend.results(backend.start(answers)):
            yield from sealed.content

    def _coded_targets(self) -> list[Any]:
        """Return the tasks that code targets and weights; they are kept, because looking up texts is slow."""
        if self._coded is None:
            coding = self._backend.sent(self._targets)
            tasks = [self._backend.task(_code, coding, rows) for rows in self._batches.tasks]
            self._coded = self._backend.start(tasks) if self._batches.kept else tasks
        return self._coded

    def _answers(self, answers: list[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield values in chunk order as they arrive, with references to the states."""
        backend = self._backend
        values = [backend.task(getitem, answer, 0) for answer in answers]
        states = [backend.task(getitem, answer, 1) for answer in answers]
        started = backend.start([*values, *states])
        values, states = started[: len(values)], started[len(values) :]
        for state, sealed in zip(states, backend.results(values), strict=True):
            for k, value in enumerate(sealed.content):
                yield value, RemoteState(state, (k,))

    def _located(self, states: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the positions of the states of a task's chunks among the results it receives, and these results."""
        given: dict[str, tuple[int, Any]] = {}
        places = [self._place(state, given) for state in states]
        return places, [task for _, task in given.values()]

    def _place(self, state: Any, given: dict[str, tuple[int, Any]]) -> Any:
        # Not a recursive closure, whose reference cycle would hold tasks until the garbage collector runs.
        if isinstance(state, RemoteState):
            number, _ = given.setdefault(self._backend.key(state.task), (len(given), state.task))
            return _Place(number, state.path)
        return tuple(self._place(part, given) for part in state) if isinstance(state, tuple) else state


def remote_target_counts(backend: Backend, batches: Batches) -> Iterator[TargetCounts]:
    """Return the counts of the stored targets, task by task."""
    counts = [backend.task(_count, rows) for rows in batches.tasks]
    return (sealed.content for sealed in backend.results(backend.start(counts)))


# The functions below run as tasks, where the rows are.


def _code(coding: Sealed, rows: StoredRows) -> CodedTargets:
    n = rows.X.shape[0]
    if rows.weight is not None:
        refuse_lossy(rows.weight, "sample_weight", first=None)
    weight = np.ones(n) if rows.weight is None else np.asarray(rows.weight, dtype=np.float64)
    target = np.zeros(n) if rows.target is None else rows.target
    y, weight = coding.content(target, weight)
    return CodedTargets(np.ascontiguousarray(y), np.ascontiguousarray(weight))


def _count(rows: StoredRows) -> Sealed:
    assert rows.target is not None
    return Sealed(count_targets(rows.target))


def _work(
    sent: Sealed, rows: StoredRows, coded: CodedTargets, shape: tuple[int, int], places: Sealed, *given: Sealed
) -> Any:
    """Run a pass over the chunks of one task, and return their values and their states."""
    first, size = shape
    X, y, weight = steady(rows.X), steady(coded.y), steady(coded.weight)
    values, states = [], []
    with one_blas_thread():
        for place, start in zip(places.content, range(0, len(y), size), strict=True):
            part = slice(start, min(start + size, len(y)))
            rows_here = csr_rows(X, part.start, part.stop) if sparse.issparse(X) else X[part]
            chunk = Chunk(first + part.start, first + part.stop, rows_here, y[part], weight[part])
            value, state = sent.content(chunk, _resolved(place, given))
            values.append(value)
            states.append(state)
    return Sealed(values, _n_bytes(values)), Sealed(states, _n_bytes(states))


def _look(sent: Sealed, places: Sealed, *given: Sealed) -> Sealed:
    values = [sent.content(_resolved(place, given)) for place in places.content]
    return Sealed(values, _n_bytes(values))


def steady(array: Any) -> Any:
    """Return the array aligned and C-ordered, as arrays of this process are.

    An array from a network buffer may start at any byte, and products with such an array differ in their last bits.
    (The position of an aligned array within a cache line makes no difference.)
    """
    if sparse.issparse(array):
        parts = tuple(map(steady, (array.data, array.indices, array.indptr)))
        return type(array)(parts, shape=array.shape, copy=False)
    return np.require(array, requirements=["C", "A"])


def _n_bytes(value: Any) -> int:
    """Return the bytes of the arrays in nested tuples, lists and data classes."""
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
