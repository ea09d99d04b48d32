"""svmlight / libsvm text: sparse rows, parsed by scikit-learn a part of the file at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from aidlearn.data.tables.files import FileSource, RowBlock

PART_BYTES = 16 << 20
MOST_COLUMNS = 2**31 - 1
"""Upper bound on the columns: a part of a file does not show how many the whole has."""


class SvmlightSource(FileSource):
    """Targets and ``index:value`` pairs. The file is read once to count rows and columns."""

    is_sparse = True

    def __init__(self, path: Path, n_jobs: int | None = None) -> None:
        self.path, self.n_jobs = path, n_jobs
        self._remember([path])
        self.n_entries, largest, smallest = 0, 0, 1
        self._base, self.n_attributes = 0, 1
        for X, y in self._parts():
            self.n_entries += len(y)
            if X.nnz:
                largest, smallest = max(largest, int(X.indices.max())), min(smallest, int(X.indices.min()))
        if self.n_entries == 0:
            raise ValueError(f"{path} has no rows.")
        # Indices begin at 1 unless there is a 0.
        self._base = 0 if smallest == 0 else 1
        self.n_attributes = max(1, largest + 1 - self._base)
        self.reading_bytes = 6.0 * PART_BYTES
        self.names = [str(k + self._base) for k in range(self.n_attributes)]
        self.target_name = "target"

    def row_name(self, row: int) -> str:
        return f"{row} of {self.path}"

    def blocks(self) -> Iterator[RowBlock]:
        for X, y in self._parts():
            X.sort_indices()
            rows = sparse.csr_matrix((X.data, X.indices - self._base, X.indptr), shape=(len(y), self.n_attributes))
            yield RowBlock(rows, y, np.ones(len(y)))

    def targets(self) -> Iterator[NDArray[Any]]:
        return (y for _, y in self._parts())

    def _parts(self) -> Iterator[tuple[Any, NDArray[Any]]]:
        size = os.path.getsize(self.path)
        for start in range(0, max(1, size), PART_BYTES):
            length = PART_BYTES if start + PART_BYTES < size else -1
            try:
                X, y = load_svmlight_file(
                    str(self.path), n_features=MOST_COLUMNS, zero_based=True, offset=start, length=length
                )
            except ValueError as error:
                if "no rows" in str(error).lower() or "minimum" in str(error).lower():
                    continue
                raise ValueError(f"{self.path} cannot be read as svmlight text: {error}") from None
            if len(y):
                yield X, y
