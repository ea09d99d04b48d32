"""Sums of clusters: dense rows for clusters of several entries, sparse ones for entries that are alone.

An entry alone never splits and its sum never changes, so it may keep the sparsity it came with. Problems that sum
densely have one array and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.chunk import Float, Int
from aidlearn.engine.checkpoint import CheckpointError

SPARSE_ARRAYS = ("single_data", "single_indices", "single_indptr", "single_first")
"""Names of what a checkpoint holds of sparse sums."""


class Sums:
    """One row of additive data for each cluster.

    Clusters ``first, first + 1, ...`` are the rows of the CSR matrix ``singles``; all others, in order, are those of
    the array ``dense``. New clusters come at the end and are dense.
    """

    def __init__(self, dense: Float, singles: Any = None, first: int = 0) -> None:
        self.dense, self.singles, self.first = dense, singles, first

    @classmethod
    def of(cls, groups: Float, singles: Sequence[Any]) -> Sums:
        """Sums of groups, then those of single entries, in parts that are arrays or CSR matrices."""
        if not any(sparse.issparse(part) for part in singles):
            return cls(np.concatenate([groups, *singles]))
        return cls(groups, stacked(singles), len(groups))

    @property
    def n_singles(self) -> int:
        """Rows that are sparse."""
        return 0 if self.singles is None else int(self.singles.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.dense) + self.n_singles, self.dense.shape[1]

    def _spread(self, dense: Float, singles: Float) -> Float:
        """Values of the dense rows and of the sparse ones, in the order of the clusters."""
        return np.concatenate([dense[: self.first], singles, dense[self.first :]])

    def _place(self, clusters: Int) -> Int:
        """Rows of ``dense`` that belong to clusters."""
        return (
            clusters if self.singles is None else np.where(clusters < self.first, clusters, clusters - self.n_singles)
        )

    # What is known of the clusters

    def column(self, number: int) -> Float:
        """One column of all clusters."""
        if self.singles is None:
            return self.dense[:, number]
        return self._spread(self.dense[:, number], self.singles[:, [number % self.shape[1]]].toarray()[:, 0])

    def times(self, vector: Float) -> Float:
        """The first ``len(vector)`` columns times a vector."""
        dense = self.dense[:, : len(vector)] @ vector
        if self.singles is None:
            return np.asarray(dense)
        padded = np.zeros(self.shape[1])
        padded[: len(vector)] = vector
        return self._spread(dense, self.singles @ padded)

    def sizes(self) -> Float:
        """Largest number in the row of each cluster."""
        sizes = _largest(self.dense)
        if self.singles is None:
            return sizes
        singles = np.zeros(self.n_singles)
        lengths = np.diff(self.singles.indptr)
        starts = self.singles.indptr[:-1][lengths > 0]
        if len(starts):
            singles[lengths > 0] = np.maximum.reduceat(np.abs(self.singles.data), starts)
        return self._spread(sizes, singles)

    def sizes_of_groups(self, clusters: Int) -> Float:
        """The same of clusters that are not alone."""
        return _largest(self.dense[self._place(clusters)])

    def array(self) -> Float:
        """All rows as one dense array (for problems that sum densely, pictures and tests)."""
        if self.singles is None:
            return self.dense
        return self._spread(self.dense, self.singles.toarray())

    # Changes, of clusters that are not alone

    def move(self, parents: Int, sums: Float) -> None:
        """Take the sums of new clusters from those they come out of, and append them."""
        np.subtract.at(self.dense, self._place(parents), sums)
        self.dense = np.concatenate([self.dense, sums])

    def clear(self, clusters: Int) -> None:
        self.dense[self._place(clusters)] = 0.0

    def add(self, clusters: Int, sums: Float) -> None:
        """Add to different clusters."""
        self.dense[self._place(clusters)] += sums

    # Checkpoints

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, to be saved."""
        if self.singles is None:
            return {"sums": self.dense}
        parts = (self.singles.data, self.singles.indices, self.singles.indptr, np.array([self.first]))
        return {"sums": self.dense, **dict(zip(SPARSE_ARRAYS, parts, strict=True))}

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], n_clusters: int) -> Sums:
        """What was saved.

        Raises
        ------
        CheckpointError
            If it is not the sums of so many clusters.
        """
        dense = arrays["sums"]
        if dense.ndim != 2:
            raise CheckpointError(f"The checkpoint is damaged: sums of shape {dense.shape}, expected two dimensions.")
        sums = cls(dense)
        if any(name in arrays for name in SPARSE_ARRAYS):
            missing = [name for name in SPARSE_ARRAYS if name not in arrays]
            if missing:
                raise CheckpointError(f"The checkpoint is incomplete: {', '.join(missing)} missing.")
            data, indices, indptr, first = (arrays[name] for name in SPARSE_ARRAYS)
            try:
                singles = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, dense.shape[1]))
                singles.check_format()
            except (ValueError, TypeError) as error:
                raise CheckpointError(f"The checkpoint is damaged: sums of single entries: {error}.") from None
            sums = cls(dense, singles, int(first[0]))
        if sums.shape[0] != n_clusters or not 0 <= sums.first <= len(dense):
            raise CheckpointError(f"The checkpoint is damaged: sums of {sums.shape[0]} clusters, not {n_clusters}.")
        return sums


def stacked(parts: Sequence[Any]) -> Any:
    """CSR matrices below each other."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=indptr[1:])
    index = parts[0].indices.dtype if indptr[-1] <= np.iinfo(np.int32).max else np.int64
    data = np.concatenate([part.data for part in parts])
    indices = np.concatenate([part.indices for part in parts]).astype(index, copy=False)
    return sparse.csr_array((data, indices, indptr.astype(index)), shape=(len(lengths), parts[0].shape[1]))


def _largest(rows: Float) -> Float:
    return np.abs(rows).max(axis=1, initial=0.0)
