"""Where the entries live: a source hands out row chunks and runs passes over them.

The algorithm never needs all entries at once (paper, section 1): everything it asks of the data is a
*pass*, a function mapped over the chunks whose results are folded in chunk order.
"""

from __future__ import annotations

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
    sequential: bool = False
    """Whether chunks can only be read one after the other."""
    classes: NDArray[Any] | None = None
    """Sorted class labels; if they are set, targets are their numbers."""
    recipe: dict[str, Any] | None = None
    """How the source was opened, where words can say it (see :func:`~aidlearn.open_source`)."""
    watch: Callable[[PassProgress], None] | None = None
    """Told after every chunk of a pass."""

    @abstractmethod
    def chunk(self, k: int) -> Chunk:
        """Read chunk ``k``."""

    def chunks(self) -> Iterator[Chunk]:
        """All chunks in order. A chunk may be overwritten when the pass goes on: what is kept of it is copied."""
        return (self.chunk(k) for k in range(self.n_chunks))

    def coded(self, target: NDArray[Any], weight: Float) -> tuple[Float, Float]:
        """Targets as numbers (less the offset, or the index of their class) and weights times those of the classes."""
        if self.classes is None:
            values = np.asarray(target, dtype=np.float64)
            return (values - self.offset if self.offset else values), weight
        codes = np.minimum(np.searchsorted(self.classes, target), len(self.classes) - 1)
        return codes.astype(np.float64), weight if self.class_factors is None else weight * self.class_factors[codes]

    def subtract(self, offset: float) -> bool:
        """Take an offset from all targets; False if the source cannot."""
        return False

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
        started = time.monotonic()
        for value, state in self._ordered(function, given):
            collect(value)
            kept.append(state)
            if self.watch is not None:
                rows = min(len(kept) * self.rows_per_chunk, self.n_entries)
                self.watch(PassProgress(self.n_passes, rows, self.n_entries, time.monotonic() - started))
        return kept

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

    def every(self, step: int, offset: int) -> Chunk:
        """The entries ``offset, offset + step, ...`` as one chunk (a systematic sample), by one pass."""
        parts: list[Chunk] = []

        def pick(chunk: Chunk, state: Any) -> tuple[Chunk, None]:
            # By numbers, not by a slice: a view would keep the whole chunk.
            return chunk.select(np.arange((offset - chunk.start) % step, chunk.n_entries, step)), None

        self.run(pick, collect=parts.append)
        return join(parts)

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


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Pin BLAS to one thread: threads work on chunks, and results keep their last bit."""
    with _blas().limit(limits=1):
        yield
