"""Arrays in .npy files, read without memory mapping, so that memory stays small and known."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.rows.numbers import refuse_lossy
from aidlearn.data.tables.columns import choose_columns
from aidlearn.data.tables.files import FileSource, RowBlock


class NpySource(FileSource):
    """X in an .npy file, the target in another one or in a column of X.

    The file is not memory-mapped, so that memory stays small and known.
    """

    def __init__(
        self,
        path: Path,
        target: Any = None,
        columns: Any = None,
        weight: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.path, self.n_jobs = path, n_jobs
        others = [Path(other) for other in (target, weight) if isinstance(other, (str, os.PathLike))]
        self._remember([path, *(other for other in others if other.exists())])
        self._file = NpyFile(path)
        if len(self._file.shape) != 2:
            raise ValueError(f"{path} holds an array of shape {self._file.shape}; rows and columns are expected.")
        n, width = self._file.shape
        inside = [None if isinstance(where, (str, os.PathLike)) else where for where in (target, weight)]
        roles = choose_columns(list(range(width)), str(path), inside[0], columns, inside[1])
        self._columns: list[int] = roles.columns
        self._target = _vector(target, path, n, "target") if inside[0] is not target else roles.target
        self._weight = _vector(weight, path, n, "weight") if inside[1] is not weight else roles.weight
        if n == 0:
            raise ValueError(f"{path} has no rows.")
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

    def blocks(self) -> Iterator[RowBlock]:
        step = self.rows_per_chunk
        return (self._block(start, min(start + step, self.n_entries)) for start in range(0, self.n_entries, step))

    def _cut(self, held: int = 1) -> Iterator[Chunk]:
        if not self._whole or self._file.by_columns or self._file.dtype not in (np.float64, np.float32):
            yield from super()._cut(held)
            return
        step, ring = self.rows_per_chunk, self._ring(self._file.dtype, held)
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

    def _block(self, start: int, stop: int) -> RowBlock:
        return self._with_vectors(self._file.rows(start, stop), start, stop)

    def _with_vectors(self, rows: NDArray[Any], start: int, stop: int) -> RowBlock:
        """The rows ``start:stop`` with their targets and weights."""

        def vector(where: Any) -> NDArray[Any]:
            return np.ascontiguousarray(rows[:, where]) if isinstance(where, int) else where.rows(start, stop)

        target = np.zeros(stop - start) if self._target is None else vector(self._target)
        weight = np.ones(stop - start) if self._weight is None else vector(self._weight)
        X = rows if self._whole else np.ascontiguousarray(rows[:, self._columns])
        refuse_lossy(weight, f"The weight of {self.path}", start)
        refuse_lossy(X, str(self.path), start)
        weight = weight.astype(np.float64)
        return RowBlock(X if X.dtype == np.float32 else X.astype(np.float64, copy=False), target, weight)


class NpyFile:
    """Rows of an .npy file, read without memory mapping."""

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


def _vector(where: Any, path: Path, n: int, what: str) -> _Flat:
    """A target or weight in a separate .npy file."""
    if not os.path.exists(where) and Path(where).suffix != ".npy":
        raise ValueError(f"The {what} of {path} is a column by number or an .npy file; there is no {where!r}.")
    vector = NpyFile(Path(where))
    if vector.shape not in ((n,), (n, 1)):
        raise ValueError(f"{where} has shape {vector.shape}, but {path} has {n} rows: one {what} per row is needed.")
    return _Flat(vector)


@dataclass(frozen=True)
class _Flat:
    file: NpyFile

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        return self.file.rows(start, stop).reshape(-1)
