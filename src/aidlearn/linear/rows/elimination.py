"""One large factor among sparse columns: where its levels are, and their sums with the other columns.

Fixed effects and identifiers make thousands of columns of which every row has one. :mod:`aidlearn.linear.rows.normal`
says what that is good for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class Levels:
    """Places of the levels in the data of a CSR matrix, and of their products with other columns."""

    n_levels: int
    level: Int
    """Of each row, or -1."""
    place: Int
    """Of the level's number in the data of the matrix, 0 for rows without."""
    others: Any
    """CSR matrix of the other columns (its numbers are not those of the data)."""
    others_place: Int
    """Of the numbers of other columns in the data of the matrix."""
    cross: Any
    """CSR matrix of levels x other columns, with room for every product."""
    target: Int
    """Place of each number of other columns in the data of ``cross``."""

    @classmethod
    def of(cls, S: Any, columns: range) -> Levels:
        """Those of a CSR matrix whose columns ascend in every row; each row has at most one in the range."""
        from aidlearn.linear.rows.compiled import csr, level_pattern, level_places

        K, n_levels = S.shape[0], len(columns)
        level, place, others_place, indices, indptr = level_places(S, columns.start, columns.stop)
        r = S.shape[1] - n_levels
        others = csr(np.zeros(len(indices)), indices, indptr, r)
        rows = np.argsort(level, kind="stable")
        starts = np.searchsorted(level[rows], np.arange(n_levels + 1))
        cross, target = level_pattern(rows, starts, others, K)
        return cls(n_levels, level, place, others, others_place, cross, target)

    def others_of(self, data: Float) -> Any:
        """The other columns, of the data of the matrix."""
        from aidlearn.linear.rows.compiled import csr

        return csr(data[self.others_place], self.others.indices, self.others.indptr, self.others.shape[1])

    def sums(self, data: Float, dense: Float, weight: Float) -> tuple[Float, Float, sparse.csr_array]:
        """``a_l' W a_l`` of the levels, and their ``a_l' W D`` and ``a_l' W S`` with dense and sparse columns."""
        from aidlearn.linear.rows.compiled import csr, level_sums

        d, with_dense = np.zeros(self.n_levels), np.zeros((self.n_levels, dense.shape[1]))
        with_sparse = np.zeros(len(self.cross.data))
        own = np.where(self.level >= 0, data[self.place], 0.0) if len(data) else np.zeros(len(weight))
        others = data[self.others_place], self.others.indptr
        level_sums(self.level, own, weight, dense, others, self.target, d, with_dense, with_sparse)
        return d, with_dense, csr(with_sparse, self.cross.indices, self.cross.indptr, self.cross.shape[1])
