"""Data in files, read chunk by chunk in every pass, so that memory holds a few chunks whatever the size of the file.

Rows are read in order and ahead: the next chunk is read while the current one is processed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.places import FilePlace
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import Classes, TargetCounts, count_targets
from aidlearn.data.rows.source import DataSource

AHEAD = 2
"""Guess. Number of chunks read ahead."""

T = TypeVar("T")


class FileSource(DataSource):
    """Base of sources that read the rows of files in order; messages name rows by the first file."""

    sequential = True
    found_classes: Classes | None = None
    """Classes of the target, once they have been counted."""

    def __init__(self, places: Sequence[FilePlace], n_jobs: int | None) -> None:
        self.places, self.n_jobs = places, n_jobs
        self._stamps = [place.stamp() for place in places]

    def _check_unchanged(self) -> None:
        """Refuse files that have changed, because bounds from one pass do not hold for other rows."""
        for place, stamp in zip(self.places, self._stamps, strict=True):
            if place.stamp() != stamp:
                raise ValueError(f"{place} was changed or removed since it was opened: open it again for a new fit.")

    @abstractmethod
    def _read(self, held: int = 1) -> Iterator[Chunk]:
        """Yield all chunks in order; a chunk may be overwritten as described in :meth:`chunks`."""

    @abstractmethod
    def targets(self) -> Iterator[NDArray[Any]]:
        """Yield the targets of all rows as stored, part by part."""

    def chunk(self, k: int) -> Chunk:
        return next(islice(self._read(), k, None))

    def chunks(self, held: int = 1) -> Iterator[Chunk]:
        return self._ahead(self._read(held))

    def _ahead(self, parts: Iterator[T]) -> Iterator[T]:
        self._check_unchanged()
        yield from read_ahead(parts)
        self._check_unchanged()

    def target_counts(self) -> Iterator[TargetCounts]:
        self._check_unchanged()
        return map(count_targets, self.targets())

    def classes(self) -> Classes:
        self._check_unchanged()
        if self.found_classes is None:
            self.found_classes = super().classes()
        return self.found_classes

    def _ring(self, dtype: Any, held: int) -> Iterator[NDArray[Any]]:
        """Cycle through buffers for chunks, because allocating new memory costs as much as reading.

        The buffers are for the chunks that are held and read ahead, and for the one being filled.
        """
        size = (min(self.rows_per_chunk, self.n_entries), self.n_attributes)
        return cycle([np.empty(size, dtype) for _ in range(held + AHEAD + 1)])

    def row_name(self, row: int) -> str:
        return f"{row} of {self.places[0]}"

    def column_name(self, column: int) -> str:
        return f"{column} ({self.names[column]!r})"


def read_ahead(parts: Iterator[T]) -> Iterator[T]:
    """Yield the parts of a file while a separate thread reads ahead."""
    end: Any = object()
    reader = ThreadPoolExecutor(1)
    try:
        waiting = deque(reader.submit(next, parts, end) for _ in range(AHEAD))
        while (part := waiting.popleft().result()) is not end:
            waiting.append(reader.submit(next, parts, end))
            yield part
    finally:
        reader.shutdown(cancel_futures=True)
