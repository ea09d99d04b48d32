"""Data in files, read chunk by chunk in every pass: memory holds a few chunks, whatever the size of the file.

Rows are read in order and ahead: the next chunk is read while the current one is processed.
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
from aidlearn.data.rows.numbers import Classes, TargetCounts, count_targets
from aidlearn.data.rows.source import DataSource
from aidlearn.numerics import Float

AHEAD = 2
"""Guess. Number of chunks that are read ahead."""
WAITING = 5
"""Maximum number of chunks between the reader and the threads that hold them."""

T = TypeVar("T")


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows of a file: attributes (array or CSR), target as stored, weight."""

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
        """Record sizes and times of the files before they are read."""
        self._stamps = {path: _stamp(path) for path in paths}

    def _check_unchanged(self) -> None:
        """Refuse files that have changed: bounds of one pass do not hold for other rows."""
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

    def forget_classes(self) -> None:
        """Count the classes anew where rows are left out."""
        self._classes = None

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
        """Cycle through buffers for chunks: allocating new memory costs as much as reading.

        There are buffers for the chunks that are read ahead, waiting and held, and for the one being filled.
        """
        size = (min(self.rows_per_chunk, self.n_entries), self.n_attributes)
        return cycle([np.empty(size, dtype) for _ in range(AHEAD + held + WAITING)])

    def _chunk(self, block: RowBlock, start: int) -> Chunk:
        return Chunk(start, start + len(block.target), block.X, block.target, block.weight)

    def column_name(self, column: int) -> str:
        return f"{column} ({self.names[column]!r})"


def _stamp(path: Path | FilePlace) -> Any:
    """Size and time of the last change; None if the file is missing."""
    return path.stamp() if isinstance(path, FilePlace) else FilePlace(str(path), str(path)).stamp()


def read_ahead(parts: Iterator[T]) -> Iterator[T]:
    """Yield the parts of a file, which a separate thread reads ahead."""
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
