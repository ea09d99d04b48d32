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

from aidlearn.engine.checkpoint import CheckpointError
from aidlearn.numerics import Float, Int

SPARSE_ARRAYS = ("single_data", "single_indices", "single_indptr", "single_clusters")
"""Names of the arrays of sparse sums in a checkpoint."""


def numbers_of(rows: Any) -> float:
    """Size of rows in numbers of 8 bytes; each number of a sparse row is stored with its column (4 bytes)."""
    return 1.5 * rows.nnz if sparse.issparse(rows) else float(rows.size)


class Sums:
    """One row of additive data for each cluster.

    Clusters that are ``alone`` are the rows of the CSR matrix ``singles``, all others those of the array ``dense``,
    each in the order of the clusters. New clusters come at the end.
    """

    def __init__(self, dense: Float, singles: Any = None, alone: NDArray[np.bool_] | None = None) -> None:
        self.dense, self.singles = dense, singles
        self.alone = np.zeros(len(dense), dtype=bool) if alone is None else alone

    @classmethod
    def of(cls, groups: Float, singles: Sequence[Any]) -> Sums:
        """Sums of groups, then those of single entries, in parts that are arrays or CSR matrices."""
        sums = cls(groups)
        sums.append(groups[:0], singles)
        return sums

    @property
    def n_singles(self) -> int:
        """Number of sparse rows."""
        return 0 if self.singles is None else int(self.singles.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.alone), self.dense.shape[1]

    @property
    def n_numbers(self) -> float:
        """Size in numbers of 8 bytes."""
        return numbers_of(self.dense) + (0.0 if self.singles is None else numbers_of(self.singles))

    def _spread(self, dense: Float, singles: Float) -> Float:
        """Values of the dense rows and of the sparse ones, in the order of the clusters."""
        values = np.empty((len(self.alone), *dense.shape[1:]))
        values[~self.alone], values[self.alone] = dense, singles
        return values

    def _place(self, clusters: Int) -> Int:
        """Rows of ``dense`` that belong to clusters."""
        return clusters if self.singles is None else (np.cumsum(~self.alone) - 1)[clusters]

    # Reading

    def column(self, number: int) -> Float:
        """One column of all clusters."""
        if self.singles is None:
            return self.dense[:, number]
        rows, found = self.singles, np.zeros(self.n_singles)
        cells = np.flatnonzero(rows.indices == number % self.shape[1])
        found[np.searchsorted(rows.indptr, cells, side="right") - 1] = rows.data[cells]
        return self._spread(self.dense[:, number], found)

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
        """Largest number in the row of each of some clusters that are not alone."""
        return _largest(self.dense[self._place(clusters)])

    def array(self) -> Float:
        """All rows as one dense array (for problems that sum densely, pictures and tests)."""
        if self.singles is None:
            return self.dense
        return self._spread(self.dense, self.singles.toarray())

    # Changes of clusters that are not alone

    def subtract(self, clusters: Int, sums: Float) -> None:
        """Subtract sums of entries that leave clusters; a cluster may be named several times."""
        np.subtract.at(self.dense, self._place(clusters), sums)

    def append(self, groups: Float, singles: Sequence[Any]) -> None:
        """Add new clusters: groups, then single entries in parts that are arrays or CSR matrices."""
        if any(sparse.issparse(part) for part in singles):
            rows = [part for part in singles if sparse.issparse(part)]
            self.singles = stacked(rows if self.singles is None else [self.singles, *rows])
            n_groups, n_alone = len(groups), sum(part.shape[0] for part in rows)
            self.dense = np.concatenate([self.dense, groups])
        else:
            self.dense = np.concatenate([self.dense, groups, *singles])
            n_groups, n_alone = len(groups) + sum(map(len, singles)), 0
        self.alone = np.concatenate([self.alone, np.zeros(n_groups, dtype=bool), np.ones(n_alone, dtype=bool)])

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop all other clusters."""
        if not kept.all():
            self.dense, self.alone = self.dense[kept[~self.alone]], self.alone[kept]

    def clear(self, clusters: Int) -> None:
        self.dense[self._place(clusters)] = 0.0

    def add(self, clusters: Int, sums: Float) -> None:
        """Add to different clusters."""
        self.dense[self._place(clusters)] += sums

    # Checkpoints

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays, for a checkpoint."""
        if self.singles is None:
            return {"sums": self.dense}
        parts = (self.singles.data, self.singles.indices, self.singles.indptr, np.flatnonzero(self.alone))
        return {"sums": self.dense, **dict(zip(SPARSE_ARRAYS, parts, strict=True))}

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[Any]], n_clusters: int) -> Sums:
        """Restore sums from a checkpoint.

        Raises
        ------
        CheckpointError
            If the arrays are not the sums of ``n_clusters`` clusters.
        """
        dense = arrays["sums"]
        if dense.ndim != 2:
            raise CheckpointError(f"The checkpoint is damaged: sums of shape {dense.shape}, expected two dimensions.")
        sums = cls(dense)
        if any(name in arrays for name in SPARSE_ARRAYS):
            missing = [name for name in SPARSE_ARRAYS if name not in arrays]
            if missing:
                raise CheckpointError(f"The checkpoint is incomplete: {', '.join(missing)} missing.")
            data, indices, indptr, clusters = (arrays[name] for name in SPARSE_ARRAYS)
            try:
                singles = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, dense.shape[1]))
                singles.check_format()
            except (ValueError, TypeError) as error:
                raise CheckpointError(f"The checkpoint is damaged: sums of single entries: {error}.") from None
            alone = np.zeros(len(dense) + len(clusters), dtype=bool)
            inside = ((clusters >= 0) & (clusters < len(alone))).all()
            if len(clusters) != singles.shape[0] or not inside:
                raise CheckpointError("The checkpoint is damaged: its single entries are not those of its clusters.")
            alone[clusters] = True
            sums = cls(dense, singles, alone)
        if sums.shape[0] != n_clusters or sums.alone.sum() != sums.n_singles:
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
