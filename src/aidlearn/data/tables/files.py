"""Data in files, read chunk by chunk in every pass: what is in memory is a few chunks, whatever the size of the file.

Rows are read in order and a little ahead: while one chunk is computed, the next is being read.
"""

from __future__ import annotations

import queue
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.encoding.places import FilePlace
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.targets import Classes, TargetCounts, count_targets
from aidlearn.numerics import Float

AHEAD = 2
"""Chunks read before they are asked for."""
WAITING = 5
"""Chunks between the reader and those who hold them, at most."""

T = TypeVar("T")


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows as a file gives them: attributes (array or CSR), target as it is stored, weight."""

    X: Any
    target: NDArray[Any]
    weight: Float


class FileSource(DataSource):
    """Rows from files, in order.

    Subclasses yield blocks of any size; chunks are cut from them.
    """

    sequential = True
    _stamps: dict[Any, Any]
    _classes: Classes | None = None
    """Classes of the target, once they have been counted."""

    def _remember(self, paths: Sequence[Path | FilePlace]) -> None:
        """Sizes and times of the files, before anything is read of them."""
        self._stamps = {path: _stamp(path) for path in paths}

    def _check_unchanged(self) -> None:
        """Bounds of one pass are worth nothing on the rows of another."""
        for path, stamp in self._stamps.items():
            if _stamp(path) != stamp:
                raise ValueError(f"{path} was changed or removed since it was opened: open it again for a new fit.")

    def chunk(self, k: int) -> Chunk:
        for number, chunk in enumerate(self._cut()):
            if number == k:
                return chunk
        raise IndexError(k)

    @abstractmethod
    def blocks(self) -> Iterator[RowBlock]:
        """All rows, from the first to the last."""

    @abstractmethod
    def targets(self) -> Iterator[NDArray[Any]]:
        """The targets of all rows as they are stored."""

    def target_counts(self) -> Iterator[TargetCounts]:
        self._check_unchanged()
        return map(count_targets, self.targets())

    def classes(self) -> Classes:
        self._check_unchanged()
        if self._classes is None:
            self._classes = super().classes()
        return self._classes

    def chunks(self, held: int = 1) -> Iterator[Chunk]:
        self._check_unchanged()
        yield from read_ahead(self._cut(held))
        self._check_unchanged()

    def _cut(self, held: int = 1) -> Iterator[Chunk]:
        """Chunks of the size that every source has."""
        size, start = self.rows_per_chunk, 0
        waiting: list[RowBlock] = []
        rows = 0
        for block in self.blocks():
            waiting.append(block)
            rows += len(block.target)
            if rows < size:
                continue
            joined = _joined(waiting)
            for first in range(0, rows - size + 1, size):
                yield self._chunk(_part(joined, first, first + size), start)
                start += size
            rest = _part(joined, rows - rows % size, rows)
            waiting, rows = ([rest], len(rest.target)) if rows % size else ([], 0)
        if rows:
            yield self._chunk(_joined(waiting), start)

    def _ring(self, dtype: Any, held: int) -> Iterator[NDArray[Any]]:
        """Memory for chunks that is used again for later ones: taking new memory costs as much as reading.

        There is as much as is read ahead, waited for and held at a time, and one more that is being filled.
        """
        size = (min(self.rows_per_chunk, self.n_entries), self.n_attributes)
        return cycle([np.empty(size, dtype) for _ in range(AHEAD + held + WAITING)])

    def _chunk(self, block: RowBlock, start: int) -> Chunk:
        return Chunk(start, start + len(block.target), block.X, block.target, block.weight)

    def column_name(self, column: int) -> str:
        return f"{column} ({self.names[column]!r})"


def _stamp(path: Path | FilePlace) -> Any:
    """What changes when the file does; None if it is gone."""
    return path.stamp() if isinstance(path, FilePlace) else FilePlace(str(path), str(path)).stamp()


def read_ahead(parts: Iterator[T]) -> Iterator[T]:
    """The same parts of a file, read by a thread of its own."""
    ready: queue.Queue[Any] = queue.Queue(AHEAD)
    closed = threading.Event()

    def put(item: Any) -> bool:
        while not closed.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for part in parts:
                if not put((part, None)):
                    return
            put((None, None))
        except BaseException as error:
            put((None, error))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        while True:
            part, error = ready.get()
            if error is not None:
                raise error
            if part is None:
                return
            yield part
    finally:
        closed.set()
        reader.join()


def _joined(blocks: list[RowBlock]) -> RowBlock:
    if len(blocks) == 1:
        return blocks[0]
    stack: Callable[..., Any] = np.concatenate
    if sparse.issparse(blocks[0].X):
        stack = lambda parts: sparse.vstack(parts, format="csr")  # noqa: E731
    return RowBlock(
        stack([block.X for block in blocks]),
        np.concatenate([block.target for block in blocks]),
        np.concatenate([block.weight for block in blocks]),
    )


def _part(block: RowBlock, first: int, last: int) -> RowBlock:
    return RowBlock(block.X[first:last], block.target[first:last], block.weight[first:last])
