"""Where the entries live: a source hands out row chunks and runs passes over them.

The algorithm never needs all entries at once (paper, section 1): everything it asks of the data is a
*pass*, a function mapped over the chunks whose results are folded in chunk order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
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


class DataSource(ABC):
    """Entries cut into chunks, and the passes over them.

    Subclasses say how many entries and attributes there are and how to read chunk ``k``.
    """

    n_entries: int
    n_attributes: int
    n_jobs: int = 1
    n_passes: int = 0

    @abstractmethod
    def chunk(self, k: int) -> Chunk:
        """Read chunk ``k``."""

    @property
    def rows_per_chunk(self) -> int:
        return chunk_rows(self.n_attributes)

    @property
    def n_chunks(self) -> int:
        return -(-self.n_entries // self.rows_per_chunk)

    def run(
        self,
        function: Callable[[Chunk, Any], tuple[Any, Any]],
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
        for value, state in self._ordered(lambda k: function(self.chunk(k), given[k])):
            collect(value)
            kept.append(state)
        return kept

    def _ordered(self, task: Callable[[int], tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        if self.n_jobs == 1 or self.n_chunks == 1:
            yield from map(task, range(self.n_chunks))
            return
        # Chunks are handed out in batches: waking a thread costs about as much as a chunk's arithmetic.
        size = max(1, min(64, self.n_chunks // (4 * self.n_jobs)))
        batches = deque(range(0, self.n_chunks, size))
        waiting: deque[Future[list[tuple[Any, Any]]]] = deque()

        def work(first: int) -> list[tuple[Any, Any]]:
            return [task(k) for k in range(first, min(first + size, self.n_chunks))]

        pool = ThreadPoolExecutor(self.n_jobs)
        try:
            while batches or waiting:
                while batches and len(waiting) <= self.n_jobs:
                    waiting.append(pool.submit(work, batches.popleft()))
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def every(self, step: int, offset: int) -> Chunk:
        """The entries ``offset, offset + step, ...`` as one chunk (a systematic sample), by one pass."""
        parts: list[Chunk] = []

        def pick(chunk: Chunk, state: Any) -> tuple[Chunk, None]:
            return chunk.select(slice((offset - chunk.start) % step, None, step)), None

        self.run(pick, collect=parts.append)
        return join(parts)

    def find_bad_cell(self, chunk: Chunk) -> str:
        """Where the first NaN or infinity of a chunk is, as words for an error message."""
        for name, values in (("y", chunk.y), ("sample_weight", chunk.weight)):
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad):
                what = "NaN" if np.isnan(values[bad[0]]) else "infinity"
                return f"Input {name} contains {what} at row {chunk.start + int(bad[0])}"
        rows, columns = self._bad_positions(chunk)
        if len(rows) == 0:
            return "Input X or y has finite entries too large for float64 sums of squares; rescale it"
        first = np.lexsort((columns, rows))[0]
        row, column = int(rows[first]), int(columns[first])
        cell = chunk.dense_rows(np.array([row]))[0, column]
        what = "NaN" if np.isnan(cell) else "infinity"
        return f"Input X contains {what} at row {chunk.start + row}, column {self.column_name(column)}"

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


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Pin BLAS to one thread: threads work on chunks, and results keep their last bit."""
    with _blas().limit(limits=1):
        yield
