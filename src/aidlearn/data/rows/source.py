"""Sources of rows: a source describes its rows, reads them chunk by chunk, and never changes.

The state of a fit (passes, threads, samples, progress, memory) belongs to :class:`~aidlearn.data.passes.run.Run`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from aidlearn.data.rows.chunk import Chunk, chunk_rows
from aidlearn.data.rows.numbers import Classes, TargetCounts, Targets, count_targets
from aidlearn.data.rows.threads import pool

if TYPE_CHECKING:
    from aidlearn.data.encoding.recipe import Recipe
    from aidlearn.data.encoding.rules import Rules


class DataSource(ABC):
    """Base of data sources, whose entries are cut into chunks.

    Subclasses define the numbers of entries and attributes, and how to read chunk ``k``. The targets of a chunk are as
    stored (numbers, or class labels of any kind).

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import as_source
    >>> source = as_source(np.ones((1000, 3)), np.zeros(1000))
    >>> source.n_entries, source.n_attributes, source.n_chunks
    (1000, 3, 1)
    >>> source.chunk(0).X.shape
    (1000, 3)
    """

    n_entries: int
    n_attributes: int
    names: list[str]
    """Names of the columns."""
    named: bool = False
    """Whether columns have names other than their numbers."""
    has_target: bool = True
    target_name: str = "y"
    n_jobs: int | None = None
    """Number of threads of passes, unless the fit has its own ``n_jobs``."""
    memory_limit: float | None = None
    """Maximum memory of a fit in bytes; None for no limit."""
    is_sparse: bool = False
    """Whether chunks are CSR matrices."""
    chunks_at_once: int = 64
    """Maximum chunks per batch of a thread (guess): larger batches leave threads idle at the end of a pass."""
    sequential: bool = False
    """Whether chunks can only be read in order."""
    reading_bytes: float = 0.0
    """Bytes of the buffers for reading rows."""
    is_decoded: bool = False
    """Whether chunks wait as decoded columns until a thread makes rows of them."""
    encoding: Recipe | None = None
    """Recipe that encoded the columns of a table, if some are factors."""
    inputs: list[str] | None = None
    """Names of the input columns, if they differ from those of the rows."""
    n_dropped: int = 0
    """Number of rows left out because of missing cells."""
    origin: dict[str, Any] | None = None
    """Arguments of :func:`~aidlearn.open_source` that open the same data again; None if JSON cannot hold them."""

    @abstractmethod
    def chunk(self, k: int) -> Chunk:
        """Read chunk ``k``."""

    def chunks(self, held: int = 1) -> Iterator[Chunk]:
        """Return all chunks in order.

        A chunk may be overwritten once ``held`` further chunks have been taken, so copy what you keep.
        """
        return (self.chunk(k) for k in range(self.n_chunks))

    def loads(self, held: int) -> Iterator[Callable[[], Chunk]]:
        """Return functions that make the chunks in order, so that several threads can convert what was read."""

        def ready(chunk: Chunk) -> Callable[[], Chunk]:
            return lambda: chunk

        return map(ready, self.chunks(held))

    def every(self, step: int, offset: int) -> Chunk | None:
        """Return the entries ``offset, offset + step, ...`` as one chunk, or None if this takes a pass."""
        return None

    def passes(self, targets: Targets, n_jobs: int) -> Passes:
        """Return passes over the chunks, made by threads of this process unless the rows are remote."""
        return ThreadedPasses(self, targets, n_jobs)

    def target_counts(self) -> Iterator[TargetCounts]:
        """Return the counts of the stored targets, part by part from the first entry to the last."""
        return (count_targets(chunk.y) for chunk in self.chunks())

    def classes(self) -> Classes:
        """Return the classes of the target, found by one pass over it."""
        return Classes.of_parts(self.target_counts(), self.row_name)

    @property
    def rows_per_chunk(self) -> int:
        """Number of entries of every chunk but the last."""
        return chunk_rows(self.n_attributes, self.is_sparse)

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.n_entries // self.rows_per_chunk)

    def find_bad_cell(self, chunk: Chunk) -> str:
        """Return the part of an error message that locates the first NaN or infinity of a chunk."""
        for name, values in (("y", chunk.y), ("sample_weight", chunk.weight)):
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad):
                what = "NaN" if np.isnan(values[bad[0]]) else "infinity"
                return f"Input {name} contains {what} at row {self.row_name(chunk.start + int(bad[0]))}"
        found = chunk.bad_cell()
        if found is None:
            return "Input X or y has finite entries too large for float64 sums of squares; rescale it"
        row, column = found
        what = "NaN" if np.isnan(chunk.dense_rows(np.array([row]))[0, column]) else "infinity"
        return f"Input X contains {what} at row {self.row_name(chunk.start + row)}, column {self.column_name(column)}"

    def encoded(self, rules: Rules, intercept: bool) -> DataSource:
        """Return these rows encoded by the rules of an estimator; a source of numbers has nothing to encode."""
        if not rules.by_dtype and rules.categorical is not None and len(list(rules.categorical)):
            raise ValueError("categorical_features is for tables with named columns, which these data are not.")
        if rules.missing == "drop":
            raise ValueError("missing='drop' is for tables and for arrays in memory: leave such rows out beforehand.")
        return self

    def column_name(self, column: int) -> str:
        """Return the name of a column for messages."""
        return str(column)

    def row_name(self, row: int) -> str:
        """Return the name of a row for messages."""
        return str(row)


PassFunction = Callable[[Chunk, Any], tuple[Any, Any]]
"""Function of a pass, ``value, state = function(chunk, state)``; values are folded, states stay with their chunk."""


class Passes(ABC):
    """Base of classes that map functions over the chunks of a source and code its targets as numbers."""

    @abstractmethod
    def ordered(self, function: PassFunction, states: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield ``function(chunk, state)`` of every chunk, in chunk order."""

    def map_states(self, function: Callable[[Any], Any], states: Sequence[Any]) -> Iterator[Any]:
        """Return ``function(state)`` of every chunk in order, without reading entries; states may be remote."""
        return map(function, states)


class ThreadedPasses(Passes):
    """Passes whose chunks are read and processed by ``n_jobs`` threads; results do not depend on their number."""

    def __init__(self, source: DataSource, targets: Targets, n_jobs: int) -> None:
        self.source, self.targets, self.n_jobs = source, targets, n_jobs

    def ordered(self, function: PassFunction, states: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        source, targets = self.source, self.targets
        if self.n_jobs == 1 or source.n_chunks == 1:
            for chunk, state in zip(source.chunks(), states, strict=True):
                yield function(targets.code(chunk), state)
            return
        # Chunks are handed out in batches: waking a thread costs about as much as a chunk's arithmetic.
        size = 1 if source.sequential else max(1, min(source.chunks_at_once, source.n_chunks // (4 * self.n_jobs)))
        loads: Iterator[Callable[[], Chunk]] = (partial(source.chunk, k) for k in range(source.n_chunks))
        most = 2 * self.n_jobs + 1
        numbered = enumerate(source.loads(most) if source.sequential else loads)
        waiting: deque[Future[list[tuple[Any, Any]]]] = deque()

        def work(batch: list[tuple[int, Callable[[], Chunk]]]) -> list[tuple[Any, Any]]:
            return [function(targets.code(load()), states[k]) for k, load in batch]

        # Threads are reused in every pass: allocators may never reuse the memory of a thread that has ended.
        threads = pool(self.n_jobs, "passes")
        try:
            while True:
                while len(waiting) < most and (batch := list(islice(numbered, size))):
                    waiting.append(threads.submit(work, batch))
                if not waiting:
                    break
                yield from waiting.popleft().result()
        finally:
            wait([future for future in waiting if not future.cancel()])
