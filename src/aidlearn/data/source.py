"""Where the entries live: a source hands out row chunks and runs passes over them.

The algorithm never needs all entries at once (paper, section 1): everything it asks of the data is a
*pass*, a function mapped over the chunks whose results are folded in chunk order.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

from aidlearn.data.memory import Budget, Need
from aidlearn.data.targets import TargetCounts, code, count_targets

Float = NDArray[np.float64]
Int = NDArray[np.int64]

CHUNK_ELEMENTS = 1 << 19
"""Numbers in one chunk: 4 MB of float64, so that several products with a chunk read it from cache."""


def chunk_rows(n_attributes: int) -> int:
    """Rows of one chunk; it depends on the number of columns only, so every source cuts alike."""
    return max(256, CHUNK_ELEMENTS // max(1, n_attributes))


@dataclass(frozen=True)
class Chunk:
    """Consecutive entries ``start:stop``: attributes, target and weight of each."""

    start: int
    stop: int
    X: Any
    y: Float
    weight: Float
    labels: NDArray[np.int32] | None = None
    """Cluster of each entry, where a check hands the chunk to a problem."""

    @property
    def n_entries(self) -> int:
        return self.stop - self.start

    def __matmul__(self, vector: Float) -> Float:
        """``X @ vector`` in float64."""
        return np.asarray(self.X @ vector, dtype=np.float64)

    def transposed_times(self, vector: Float) -> Float:
        """``X' vector`` in float64."""
        return np.asarray(self.X.T @ vector, dtype=np.float64)

    def sums_by(self, labels: NDArray[Any], n_groups: int, weight: Float) -> Float:
        """Weighted sum of the rows of each group, as a dense array."""
        n = self.n_entries
        product = sparse.csc_array((weight, labels, np.arange(n + 1)), shape=(n_groups, n)) @ self.X
        return np.asarray(product.toarray() if sparse.issparse(product) else product)

    def select(self, rows: NDArray[Any] | slice) -> Chunk:
        """The selected entries (a slice gives views of dense rows)."""
        y = self.y[rows]
        return Chunk(0, len(y), self.X[rows], y, self.weight[rows])

    def weighing(self, total: float) -> Chunk:
        """The same entries with weights that sum to ``total``."""
        return replace(self, weight=self.weight * (total / self.weight.sum()))

    def dense_rows(self, rows: NDArray[Any] | slice) -> Float:
        """The selected rows as a dense float64 array."""
        block = self.X[rows]
        return np.asarray(block.toarray() if sparse.issparse(block) else block, dtype=np.float64)


def join(chunks: Sequence[Chunk]) -> Chunk:
    """Several chunks as one."""
    stack: Callable[..., Any] = sparse.vstack if sparse.issparse(chunks[0].X) else np.concatenate
    return Chunk(
        0,
        sum(chunk.n_entries for chunk in chunks),
        stack([chunk.X for chunk in chunks]),
        np.concatenate([chunk.y for chunk in chunks]),
        np.concatenate([chunk.weight for chunk in chunks]),
    )


PassFunction = Callable[[Chunk, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class PassProgress:
    """How far a pass over the data has come."""

    number: int
    """Of the pass, from 1."""
    rows: int
    """Rows it has dealt with."""
    n_rows: int
    seconds: float
    """Since the pass began."""

    @property
    def rows_per_second(self) -> float:
        return self.rows / max(self.seconds, 1e-9)


class Sample:
    """The entries ``offset, offset + step, ...`` (a systematic sample), put together from the chunks of a pass."""

    def __init__(self, step: int, offset: int, n_entries: int) -> None:
        self.step, self.offset = step, offset
        self._rows = len(range(offset, n_entries, step))
        self._X: NDArray[Any] | None = None
        self._parts: list[Chunk] = []

    def pick(self, chunk: Chunk) -> Chunk:
        # By numbers, not by a slice: a view would keep the whole chunk.
        return chunk.select(np.arange((self.offset - chunk.start) % self.step, chunk.n_entries, self.step))

    def add(self, part: Chunk) -> None:
        if sparse.issparse(part.X):
            self._parts.append(part)
            return
        if self._X is None:
            # Once, and not by joining parts at the end, which takes the memory twice.
            self._X = np.empty((self._rows, part.X.shape[1]), dtype=part.X.dtype)
        first = self._parts[-1].stop if self._parts else 0
        stop = first + part.n_entries
        self._X[first:stop] = part.X
        self._parts.append(Chunk(first, stop, None, part.y, part.weight))

    def whole(self) -> Chunk:
        if self._X is None:
            return join(self._parts)
        y = np.concatenate([part.y for part in self._parts])
        return Chunk(0, len(y), self._X, y, np.concatenate([part.weight for part in self._parts]))


class DataSource(ABC):
    """Entries cut into chunks, and the passes over them.

    Subclasses say how many entries and attributes there are and how to read chunk ``k``.
    """

    n_entries: int
    n_attributes: int
    n_jobs: int = 1
    n_passes: int = 0
    offset: float = 0.0
    """Taken from every target: what an intercept will give back."""
    class_factors: Float | None = None
    """Factors on the weights of the entries of each class."""
    has_target: bool = True
    names: list[str]
    named: bool = False
    """Whether columns have names that are more than their numbers."""
    sequential: bool = False
    """Whether chunks can only be read one after the other."""
    classes: NDArray[Any] | None = None
    """Sorted class labels; if they are set, targets are their numbers."""
    recipe: dict[str, Any] | None = None
    """How the source was opened, where words can say it (see :func:`~aidlearn.open_source`)."""
    watch: Callable[[PassProgress], None] | None = None
    """Told after every chunk of a pass."""
    budget: Budget = Budget()
    """Memory for what a fit may choose the size of."""
    reading_bytes: float = 0.0
    """Of the buffers that rows are read with."""
    classes_at_once: int | None = None
    """How many models of classes share passes, where memory is limited."""
    _foreseen: tuple[int, int] | None = None
    _brought: tuple[tuple[int, int], Chunk] | None = None
    codes_targets: bool = False
    """Whether the source itself turns stored targets into the numbers of their classes."""

    @abstractmethod
    def chunk(self, k: int) -> Chunk:
        """Read chunk ``k``."""

    def chunks(self) -> Iterator[Chunk]:
        """All chunks in order. A chunk may be overwritten when the pass goes on: what is kept of it is copied."""
        return (self.chunk(k) for k in range(self.n_chunks))

    def coded(self, target: NDArray[Any], weight: Float) -> tuple[Float, Float]:
        """Targets as numbers (less the offset, or the index of their class) and weights times those of the classes."""
        return code(target, weight, self.classes, self.class_factors, self.offset)

    def subtract(self, offset: float) -> bool:
        """Take an offset from all targets; False if the source cannot."""
        return False

    def limit_memory(self, limit: float, named: str = "") -> None:
        """Make fits keep to a limit (bytes), or refuse it with the amount needed."""
        need = Need(self.n_entries, self.n_attributes, self.rows_per_chunk, self.n_jobs, self.reading_bytes)
        if need.least() > limit:
            raise ValueError(
                f"A fit of {self.n_entries} rows x {self.n_attributes} columns needs about "
                f"{math.ceil(need.least() / 1e6)} MB, more than memory_limit={named or limit}."
            )
        self.budget, self.classes_at_once = need.budget(limit), need.classes_at_once(limit)

    def set_classes(self, classes: NDArray[Any], factors: Float | None) -> None:
        """From now on targets are classes, and weights are multiplied by the factors of their classes."""
        self.classes, self.class_factors = classes, factors

    def target_counts(self) -> Iterator[TargetCounts]:
        """The values of the stored targets, part by part from the first entry to the last."""
        return (count_targets(chunk.y) for chunk in self.chunks())

    @property
    def rows_per_chunk(self) -> int:
        return chunk_rows(self.n_attributes)

    @property
    def n_chunks(self) -> int:
        return -(-self.n_entries // self.rows_per_chunk)

    def run(
        self,
        function: PassFunction,
        states: Sequence[Any] | None = None,
        collect: Callable[[Any], None] = lambda value: None,
    ) -> list[Any]:
        """One pass: ``value, state = function(chunk, state)`` for every chunk.

        ``collect(value)`` is called in chunk order, so sums do not depend on the number of threads.
        The states stay with their chunk and are returned for the next pass.
        """
        self.n_passes += 1
        given = [None] * self.n_chunks if states is None else states
        kept: list[Any] = []
        foreseen, self._foreseen = self._foreseen, None
        sample = None if foreseen is None else Sample(*foreseen, self.n_entries)
        started = time.monotonic()
        for value, state in self._ordered(function if sample is None else _with_sample(function, sample), given):
            if sample is None:
                collect(value)
            else:
                collect(value[0])
                sample.add(value[1])
            kept.append(state)
            if self.watch is not None:
                rows = min(len(kept) * self.rows_per_chunk, self.n_entries)
                self.watch(PassProgress(self.n_passes, rows, self.n_entries, time.monotonic() - started))
        if foreseen is not None and sample is not None:
            self._brought = foreseen, sample.whole()
        return kept

    def foresee(self, step: int, offset: int) -> None:
        """Let the next pass bring a sample along, so that :meth:`every` needs no pass of its own."""
        self._foreseen = step, offset

    def _ordered(self, function: PassFunction, states: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        if self.n_jobs == 1 or self.n_chunks == 1:
            for chunk, state in zip(self.chunks(), states, strict=True):
                yield function(chunk, state)
            return
        # Chunks are handed out in batches: waking a thread costs about as much as a chunk's arithmetic.
        size = 1 if self.sequential else max(1, min(64, self.n_chunks // (4 * self.n_jobs)))
        numbered: Iterator[tuple[int, Chunk | None]] = ((k, None) for k in range(self.n_chunks))
        if self.sequential:
            numbered = enumerate(self.chunks())
        waiting: deque[Future[list[tuple[Any, Any]]]] = deque()

        def work(batch: list[tuple[int, Chunk | None]]) -> list[tuple[Any, Any]]:
            return [function(self.chunk(k) if chunk is None else chunk, states[k]) for k, chunk in batch]

        pool = ThreadPoolExecutor(self.n_jobs)
        try:
            while True:
                while len(waiting) <= self.n_jobs and (batch := list(islice(numbered, size))):
                    waiting.append(pool.submit(work, batch))
                if not waiting:
                    break
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def map_states(self, function: Callable[[Any], Any], states: Sequence[Any]) -> Iterator[Any]:
        """``function(state)`` of every chunk in order, without its entries (states may be elsewhere, as entries)."""
        return map(function, states)

    def every(self, step: int, offset: int) -> Chunk:
        """The entries ``offset, offset + step, ...`` as one chunk (a systematic sample), by one pass at the most."""
        if self._brought is not None and self._brought[0] == (step, offset):
            chunk = self._brought[1]
            return replace(chunk, y=chunk.y - self.offset) if self.offset else chunk
        sample = Sample(step, offset, self.n_entries)
        self.run(lambda chunk, state: (sample.pick(chunk), None), collect=sample.add)
        return sample.whole()

    def find_bad_cell(self, chunk: Chunk) -> str:
        """Where the first NaN or infinity of a chunk is, as words for an error message."""
        for name, values in (("y", chunk.y), ("sample_weight", chunk.weight)):
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad):
                what = "NaN" if np.isnan(values[bad[0]]) else "infinity"
                return f"Input {name} contains {what} at row {self.row_name(chunk.start + int(bad[0]))}"
        rows, columns = self._bad_positions(chunk)
        if len(rows) == 0:
            return "Input X or y has finite entries too large for float64 sums of squares; rescale it"
        first = np.lexsort((columns, rows))[0]
        row, column = int(rows[first]), int(columns[first])
        cell = chunk.dense_rows(np.array([row]))[0, column]
        what = "NaN" if np.isnan(cell) else "infinity"
        return f"Input X contains {what} at row {self.row_name(chunk.start + row)}, column {self.column_name(column)}"

    @staticmethod
    def _bad_positions(chunk: Chunk) -> tuple[NDArray[Any], NDArray[Any]]:
        if sparse.issparse(chunk.X):
            cells = chunk.X.tocoo()
            bad = ~np.isfinite(cells.data)
            return cells.row[bad], cells.col[bad]
        rows, columns = np.nonzero(~np.isfinite(chunk.X))
        return rows, columns

    def column_name(self, column: int) -> str:
        return str(column)

    def row_name(self, row: int) -> str:
        return str(row)


def _with_sample(function: PassFunction, sample: Sample) -> PassFunction:
    def both(chunk: Chunk, state: Any) -> tuple[Any, Any]:
        value, kept = function(chunk, state)
        return (value, sample.pick(chunk)), kept

    return both


@cache
def _blas() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  (its BLAS has to be loaded to be found)

    return ThreadpoolController()


class _Limit:
    """The limit on BLAS threads of this process, for as long as anyone needs it."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.limiter: Any = None


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Pin BLAS to one thread: threads work on chunks, and results keep their last bit.

    The limit belongs to the process. It is lifted by the last one that leaves, not by the first.
    """
    with _limit.lock:
        if _limit.users == 0:
            _limit.limiter = _blas().limit(limits=1)
        _limit.users += 1
    try:
        yield
    finally:
        with _limit.lock:
            _limit.users -= 1
            if _limit.users == 0:
                _limit.limiter.restore_original_limits()
