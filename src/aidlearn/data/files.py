"""Data in files, read chunk by chunk in every pass: what is in memory is a few chunks, whatever the size of the file.

Rows are read in order and a little ahead: while one chunk is computed, the next is being read.
"""

from __future__ import annotations

import os
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

from aidlearn.data.source import Chunk, DataSource, Float
from aidlearn.data.targets import TargetCounts, count_targets

AHEAD = 2
"""Chunks read before they are asked for."""

T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """Consecutive rows as a file gives them: attributes (array or CSR), target as it is stored, weight."""

    X: Any
    target: NDArray[Any]
    weight: Float


class FileSource(DataSource):
    """Rows from files, in order.

    Subclasses yield blocks of any size; chunks are cut from them.
    """

    sequential = True
    codes_targets = True
    names: list[str]
    target_name: str
    _stamps: dict[Path, tuple[int, int]]

    def _remember(self, paths: Sequence[Path]) -> None:
        """Sizes and times of the files, before anything is read of them."""
        self._stamps = {path: _stamp(path) for path in paths}

    def _check_unchanged(self) -> None:
        """Bounds of one pass are worth nothing on the rows of another."""
        for path, stamp in self._stamps.items():
            if not path.exists() or _stamp(path) != stamp:
                raise ValueError(f"{path} was changed or removed since it was opened: open it again for a new fit.")

    def chunk(self, k: int) -> Chunk:
        for number, chunk in enumerate(self._cut()):
            if number == k:
                return chunk
        raise IndexError(k)

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """All rows, from the first to the last."""

    @abstractmethod
    def targets(self) -> Iterator[NDArray[Any]]:
        """The targets of all rows as they are stored."""

    def target_counts(self) -> Iterator[TargetCounts]:
        self._check_unchanged()
        return map(count_targets, self.targets())

    def chunks(self) -> Iterator[Chunk]:
        self._check_unchanged()
        yield from read_ahead(self._cut())
        self._check_unchanged()

    def _cut(self) -> Iterator[Chunk]:
        """Chunks of the size that every source has."""
        size, start = self.rows_per_chunk, 0
        waiting: list[Block] = []
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

    def _ring(self, dtype: Any) -> Iterator[NDArray[Any]]:
        """Memory for chunks that is used again for later ones: taking new memory costs as much as reading.

        There is as much as is read ahead, waited for and worked on at a time, and one more that is being filled.
        """
        size = (min(self.rows_per_chunk, self.n_entries), self.n_attributes)
        return cycle([np.empty(size, dtype) for _ in range(AHEAD + self.n_jobs + 5)])

    def _chunk(self, block: Block, start: int) -> Chunk:
        if self.classes is None and block.target.dtype.kind in "OUS":
            raise ValueError(f"The target {self.target_name!r} holds texts; a regression needs numbers.")
        y, weight = self.coded(block.target, block.weight)
        return Chunk(start, start + len(y), block.X, y, weight)

    def subtract(self, offset: float) -> bool:
        self.offset = offset
        return True

    def column_name(self, column: int) -> str:
        return f"{column} ({self.names[column]!r})"


def _stamp(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


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


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    stack: Callable[..., Any] = np.concatenate
    if sparse.issparse(blocks[0].X):
        stack = lambda parts: sparse.vstack(parts, format="csr")  # noqa: E731
    return Block(
        stack([block.X for block in blocks]),
        np.concatenate([block.target for block in blocks]),
        np.concatenate([block.weight for block in blocks]),
    )


def _part(block: Block, first: int, last: int) -> Block:
    return Block(block.X[first:last], block.target[first:last], block.weight[first:last])


class NpySource(FileSource):
    """X in an .npy file, the target in another one or in a column of X.

    The file is read with plain reads, not mapped, so that memory stays small and known.
    """

    def __init__(
        self,
        path: Path,
        target: Any = None,
        columns: Any = None,
        weight: Any = None,
        n_jobs: int = 1,
    ) -> None:
        self.path, self.n_jobs = path, n_jobs
        others = [Path(other) for other in (target, weight) if isinstance(other, (str, os.PathLike))]
        self._remember([path, *(other for other in others if other.exists())])
        self._file = NpyFile(path)
        if len(self._file.shape) != 2:
            raise ValueError(f"{path} holds an array of shape {self._file.shape}; rows and columns are expected.")
        n, width = self._file.shape
        self._target = _npy_vector(target, path, n, width, "target")
        self._weight = None if weight is None else _npy_vector(weight, path, n, width, "weight")
        used = {vector for vector in (self._target, self._weight) if isinstance(vector, int)}
        chosen = range(width) if columns is None else [_column_index(c, width, path) for c in columns]
        self._columns = [c for c in chosen if c not in used] if columns is None else list(chosen)
        if set(self._columns) & used:
            raise ValueError(f"Column {(set(self._columns) & used).pop()} of {path} is target or weight, not in X.")
        if not self._columns or n == 0:
            raise ValueError(f"{path} has {n} rows and {len(self._columns)} columns for X; at least 1 is needed.")
        self._whole = self._columns == list(range(width))
        self.names = [str(c) for c in self._columns]
        self.has_target = self._target is not None
        self.target_name = f"column {self._target}" if isinstance(self._target, int) else str(target)
        self.n_entries, self.n_attributes = n, len(self._columns)

    def row_name(self, row: int) -> str:
        return f"{row} of {self.path}"

    def chunk(self, k: int) -> Chunk:
        start = k * self.rows_per_chunk
        return self._chunk(self._block(start, min(start + self.rows_per_chunk, self.n_entries)), start)

    def blocks(self) -> Iterator[Block]:
        step = self.rows_per_chunk
        return (self._block(start, min(start + step, self.n_entries)) for start in range(0, self.n_entries, step))

    def _cut(self) -> Iterator[Chunk]:
        if not self._whole or self._file.by_columns or self._file.dtype not in (np.float64, np.float32):
            yield from super()._cut()
            return
        step, ring = self.rows_per_chunk, self._ring(self._file.dtype)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self._file.offset)
            for start in range(0, self.n_entries, step):
                stop = min(start + step, self.n_entries)
                rows = next(ring)[: stop - start]
                self._file.fill(rows, file)
                yield self._chunk(self._with_vectors(rows, start, stop), start)

    def targets(self) -> Iterator[NDArray[Any]]:
        step = self.rows_per_chunk
        for start in range(0, self.n_entries, step):
            stop = min(start + step, self.n_entries)
            if isinstance(self._target, int):
                yield self._file.rows(start, stop)[:, self._target]
            else:
                assert self._target is not None
                yield self._target.rows(start, stop)

    def _block(self, start: int, stop: int) -> Block:
        return self._with_vectors(self._file.rows(start, stop), start, stop)

    def _with_vectors(self, rows: NDArray[Any], start: int, stop: int) -> Block:
        """The rows ``start:stop`` with their targets and weights."""

        def vector(where: Any) -> NDArray[Any]:
            return np.ascontiguousarray(rows[:, where]) if isinstance(where, int) else where.rows(start, stop)

        target = np.zeros(stop - start) if self._target is None else vector(self._target)
        weight = np.ones(stop - start) if self._weight is None else vector(self._weight).astype(np.float64)
        X = rows if self._whole else np.ascontiguousarray(rows[:, self._columns])
        return Block(X if X.dtype == np.float32 else X.astype(np.float64, copy=False), target, weight)


class NpyFile:
    """Rows of an .npy file by plain reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                self.shape, self.by_columns, self.dtype = read(file)
                self.offset = file.tell()
        except FileNotFoundError:
            raise FileNotFoundError(f"There is no file {path}.") from None
        except ValueError as error:
            raise ValueError(f"{path} is not a readable .npy file: {error}") from None
        if self.dtype.hasobject or self.dtype.kind not in "fiubUS":
            raise ValueError(f"{path} holds {self.dtype}, not numbers.")
        expected = self.offset + int(np.prod(self.shape)) * self.dtype.itemsize
        if os.path.getsize(path) < expected:
            raise ValueError(f"{path} is cut off: {expected} bytes are expected, {os.path.getsize(path)} are there.")

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Rows ``start:stop`` (C-ordered)."""
        width = int(np.prod(self.shape[1:]))
        size = self.dtype.itemsize
        if not self.by_columns or width == 1:
            first = self.offset + start * width * size
            flat = np.fromfile(self.path, self.dtype, (stop - start) * width, offset=first)
            return self._complete(flat, (stop - start) * width).reshape(stop - start, *self.shape[1:])
        out = np.empty((stop - start, width), dtype=self.dtype)
        with open(self.path, "rb") as file:
            for j in range(width):
                file.seek(self.offset + (j * self.shape[0] + start) * size)
                out[:, j] = self._complete(np.fromfile(file, self.dtype, stop - start), stop - start)
        return out

    def fill(self, rows: NDArray[Any], file: Any) -> None:
        """Read the next rows of the opened file into an array."""
        left = rows.reshape(-1).view(np.uint8).data
        while len(left):
            count = file.readinto(left)
            if not count:
                raise ValueError(f"{self.path} was cut off while it was read.")
            left = left[count:]

    def _complete(self, values: NDArray[Any], expected: int) -> NDArray[Any]:
        if len(values) < expected:
            raise ValueError(f"{self.path} was cut off while it was read.")
        return values


def _npy_vector(where: Any, path: Path, n: int, width: int, what: str) -> Any:
    """A column of the file by number, another .npy file, or None."""
    if where is None:
        return None
    if isinstance(where, (str, os.PathLike)):
        if not os.path.exists(where) and Path(where).suffix != ".npy":
            raise ValueError(
                f"The {what} of {path} is a column by number (0 to {width - 1}) or an .npy file; there is no {where!r}."
            )
        vector = NpyFile(Path(where))
        if vector.shape not in ((n,), (n, 1)):
            raise ValueError(
                f"{where} has shape {vector.shape}, but {path} has {n} rows: one {what} per row is needed."
            )
        return _Flat(vector)
    return _column_index(where, width, path)


@dataclass(frozen=True)
class _Flat:
    file: NpyFile

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        return self.file.rows(start, stop).reshape(-1)


def _column_index(column: Any, width: int, path: Path) -> int:
    if not isinstance(column, (int, np.integer)) or isinstance(column, bool) or not -width <= column < width:
        raise ValueError(f"{path} has columns 0 to {width - 1}, named by number; there is no column {column!r}.")
    return int(column) % width
