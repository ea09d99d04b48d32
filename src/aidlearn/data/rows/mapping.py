"""Functions mapped over the chunks of a source by threads of this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.targets import Targets
from aidlearn.data.rows.threads import pool

if TYPE_CHECKING:
    from aidlearn.data.rows.source import DataSource

PassFunction = Callable[[Chunk, Any], tuple[Any, Any]]
"""``value, state = function(chunk, state)``: the value is folded, the state stays with its chunk."""

MOST_CHUNKS_AT_ONCE = 64
"""Guess. Maximum number of chunks of a batch: larger batches leave threads idle at the end of a pass."""


class Passes(ABC):
    """Maps functions over the chunks of a source, whose targets it codes as numbers."""

    @abstractmethod
    def ordered(self, function: PassFunction, states: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """``function(chunk, state)`` of every chunk, in chunk order."""

    def map_states(self, function: Callable[[Any], Any], states: Sequence[Any]) -> Iterator[Any]:
        """``function(state)`` of every chunk in order, without its entries (states may be remote, as entries)."""
        return map(function, states)


class ThreadedPasses(Passes):
    """Chunks are read and computed by ``n_jobs`` threads; results do not depend on their number."""

    def __init__(self, source: DataSource, targets: Targets, n_jobs: int) -> None:
        self.source, self.targets, self.n_jobs = source, targets, n_jobs

    def ordered(self, function: PassFunction, states: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        source, targets = self.source, self.targets
        if self.n_jobs == 1 or source.n_chunks == 1:
            for chunk, state in zip(source.chunks(), states, strict=True):
                yield function(targets.code(chunk), state)
            return
        # Chunks are handed out in batches: waking a thread costs about as much as a chunk's arithmetic.
        most = min(MOST_CHUNKS_AT_ONCE, source.chunks_at_once)
        size = 1 if source.sequential else max(1, min(most, source.n_chunks // (4 * self.n_jobs)))
        loads: Iterator[Callable[[], Chunk]] = (partial(source.chunk, k) for k in range(source.n_chunks))
        numbered = enumerate(source.loads(self.n_jobs) if source.sequential else loads)
        waiting: deque[Future[list[tuple[Any, Any]]]] = deque()

        def work(batch: list[tuple[int, Callable[[], Chunk]]]) -> list[tuple[Any, Any]]:
            return [function(targets.code(load()), states[k]) for k, load in batch]

        # The same threads in every pass: allocators may never reuse the memory of a thread that has ended.
        threads = pool(self.n_jobs, "passes")
        try:
            while True:
                while len(waiting) <= 2 * self.n_jobs and (batch := list(islice(numbered, size))):
                    waiting.append(threads.submit(work, batch))
                if not waiting:
                    break
                yield from waiting.popleft().result()
        finally:
            wait([future for future in waiting if not future.cancel()])
