"""Sparse rows in svmlight / libsvm text, parsed by scikit-learn one part of the file at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from aidlearn.data.encoding.places import FilePlace
from aidlearn.data.rows.chunk import Chunk
from aidlearn.data.tables.files import FileSource

PART_BYTES = 16 << 20
MOST_COLUMNS = 2**31 - 1
"""Upper bound on the number of columns, because a part of a file does not show the number of the whole."""


class SvmlightSource(FileSource):
    """Targets and ``index:value`` pairs of a file, which is read once to count rows and columns."""

    is_sparse = True
    target_name = "target"

    def __init__(self, place: FilePlace, n_jobs: int | None = None) -> None:
        super().__init__([place], n_jobs)
        self.n_entries, largest, smallest = 0, 0, 1
        for X, y in self._parts():
            self.n_entries += len(y)
            if X.nnz:
                largest, smallest = max(largest, int(X.indices.max())), min(smallest, int(X.indices.min()))
        if self.n_entries == 0:
            raise ValueError(f"{place} has no rows.")
        # Indices begin at 1 unless there is a 0.
        self._base = 0 if smallest == 0 else 1
        self.n_attributes = max(1, largest + 1 - self._base)
        self.reading_bytes = 6.0 * PART_BYTES
        self.names = [str(k + self._base) for k in range(self.n_attributes)]

    def _read(self, held: int = 1) -> Iterator[Chunk]:
        size, start = self.rows_per_chunk, 0
        X, y = sparse.csr_matrix((0, self.n_attributes)), np.zeros(0)
        for part, target in self._parts():
            part.sort_indices()
            shape = (len(target), self.n_attributes)
            rows = sparse.csr_matrix((part.data, part.indices - self._base, part.indptr), shape=shape)
            X, y = sparse.vstack([X, rows], format="csr"), np.concatenate([y, target])
            whole = len(y) // size * size
            for first in range(0, whole, size):
                yield self._chunk(start + first, X[first : first + size], y[first : first + size])
            X, y, start = X[whole:], y[whole:], start + whole
        if len(y):
            yield self._chunk(start, X, y)

    @staticmethod
    def _chunk(start: int, X: Any, y: NDArray[Any]) -> Chunk:
        return Chunk(start, start + len(y), X, y, np.ones(len(y)))

    def targets(self) -> Iterator[NDArray[Any]]:
        return (y for _, y in self._parts())

    def _parts(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        path = self.places[0].path
        size = os.path.getsize(path)
        for start in range(0, max(1, size), PART_BYTES):
            length = PART_BYTES if start + PART_BYTES < size else -1
            try:
                X, y = load_svmlight_file(path, n_features=MOST_COLUMNS, zero_based=True, offset=start, length=length)
            except ValueError as error:
                if "no rows" in str(error).lower() or "minimum" in str(error).lower():
                    continue
                raise ValueError(f"{path} cannot be read as svmlight text: {error}") from None
            if len(y):
                yield X, y
