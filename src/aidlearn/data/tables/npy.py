"""Arrays in .npy files, read without memory mapping so that memory use stays small and predictable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.encoding.places import FilePlace, is_path
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import refuse_lossy
from aidlearn.data.tables.columns import Roles, choose_columns
from aidlearn.data.tables.files import FileSource


class NpySource(FileSource):
    """X in an .npy file, with the target in another file or in a column of the same one."""

    def __init__(self, place: FilePlace, asked: Roles, n_jobs: int | None) -> None:
        target, weight = asked.target, asked.weight
        others = [FilePlace(str(other), str(other)) for other in (target, weight) if is_path(other)]
        super().__init__([place, *others], n_jobs)
        self._file = NpyFile(place.path)
        if len(self._file.shape) != 2:
            raise ValueError(f"{place} holds an array of shape {self._file.shape}; rows and columns are expected.")
        n, width = self._file.shape
        inside = Roles(None if is_path(target) else target, asked.columns, None if is_path(weight) else weight)
        roles = choose_columns(list(range(width)), str(place), inside)
        self._columns: list[int] = roles.columns
        self._target = _vector(target, place, n, "target") if is_path(target) else roles.target
        self._weight = _vector(weight, place, n, "weight") if is_path(weight) else roles.weight
        if n == 0:
            raise ValueError(f"{place} has no rows.")
        self._whole = self._columns == list(range(width))
        self.names = [str(c) for c in self._columns]
        self.has_target = self._target is not None
        self.target_name = f"column {self._target}" if isinstance(self._target, int) else str(target)
        self.n_entries, self.n_attributes = n, len(self._columns)

    @property
    def width(self) -> int:
        """Number of columns of the file, including target and weight."""
        return self._file.shape[1]

    def chunk(self, k: int) -> Chunk:
        return self._chunk(k, None)

    def _read(self, held: int = 1) -> Iterator[Chunk]:
        reusable = self._whole and self._file.dtype in (np.float64, np.float32)
        buffers = self._ring(self._file.dtype, held) if reusable else repeat(None)
        return map(self._chunk, range(self.n_chunks), buffers)

    def targets(self) -> Iterator[NDArray[Any]]:
        for k in range(self.n_chunks):
            start, stop = self._bounds(k)
            within = isinstance(self._target, int)
            yield self._vector(self._target, self._file.rows(start, stop) if within else None, start, stop)

    def _bounds(self, k: int) -> tuple[int, int]:
        start = k * self.rows_per_chunk
        return start, min(start + self.rows_per_chunk, self.n_entries)

    def _chunk(self, k: int, into: NDArray[Any] | None) -> Chunk:
        start, stop = self._bounds(k)
        rows = self._file.rows(start, stop, into)
        target = np.zeros(stop - start) if self._target is None else self._vector(self._target, rows, start, stop)
        weight = np.ones(stop - start) if self._weight is None else self._vector(self._weight, rows, start, stop)
        X = rows if self._whole else np.ascontiguousarray(rows[:, self._columns])
        refuse_lossy(weight, f"The weight of {self.places[0]}", start)
        refuse_lossy(X, str(self.places[0]), start)
        X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
        return Chunk(start, stop, X, target, weight.astype(np.float64))

    @staticmethod
    def _vector(where: int | NpyFile | None, rows: Any, start: int, stop: int) -> NDArray[Any]:
        """Return the targets or weights of rows ``start:stop``: a column of ``rows``, or part of a separate file."""
        if isinstance(where, NpyFile):
            return where.rows(start, stop).reshape(-1)
        return np.ascontiguousarray(rows[:, where])


class NpyFile:
    """Rows of an .npy file, read without memory mapping."""

    def __init__(self, path: Any) -> None:
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

    def rows(self, start: int, stop: int, into: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return rows ``start:stop`` (C-ordered), in the first rows of ``into`` if given."""
        out = np.empty((stop - start, *self.shape[1:]), self.dtype) if into is None else into[: stop - start]
        width = int(np.prod(self.shape[1:]))
        with open(self.path, "rb", buffering=0) as file:
            if not self.by_columns or width == 1:
                self._fill(out, file, start * width)
            else:
                column = np.empty(stop - start, self.dtype)
                for j in range(width):
                    self._fill(column, file, j * self.shape[0] + start)
                    out[:, j] = column
        return out

    def _fill(self, values: NDArray[Any], file: Any, first: int) -> None:
        """Read consecutive values, starting at position ``first``."""
        file.seek(self.offset + first * self.dtype.itemsize)
        left = values.reshape(-1).view(np.uint8).data
        while len(left):
            count = file.readinto(left)
            if not count:
                raise ValueError(f"{self.path} was cut off while it was read.")
            left = left[count:]


def _vector(where: Any, place: FilePlace, n: int, what: str) -> NpyFile:
    """Open a target or weight in a separate .npy file."""
    if not os.path.exists(where) and os.path.splitext(where)[1] != ".npy":
        raise ValueError(f"The {what} of {place} is a column by number or an .npy file; there is no {where!r}.")
    vector = NpyFile(where)
    if vector.shape not in ((n,), (n, 1)):
        raise ValueError(f"{where} has shape {vector.shape}, but {place} has {n} rows: one {what} per row is needed.")
    return vector
