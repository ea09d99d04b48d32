"""Choice of the columns of sparse rows that are stored densely, made once per fit by the cost of a Gram matrix.

This module also builds the CSR matrices that follow from the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.numerics import Float

# Nanoseconds on one core; only their ratios matter. The costs of Gram matrices are round numbers within the ranges
# measured on one machine (AMD EPYC, 3 to 38 non-zeros a row, 150 to 2,000 columns). The costs of rows and passes and
# the numbers of steps are estimates.
DENSE_NS = 0.04
"""BLAS time per product of two dense cells: 0.06 for 50 columns, 0.02 for 1,000."""
MIXED_NS = 0.4
"""Time per product of a non-zero and a dense cell: 0.2 to 0.8."""
SPARSE_NS = 1.2
"""Time per product of two non-zeros: 0.3 to 1.5 up to 465 columns, 1.7 to 5.7 for 2,000, out of cache."""
ROW_NS = 120.0
"""Time per row of any kind: a solver step reads or writes about thirty vectors with one number per row."""
PASS_NS, PASS_NS_STORED = 40.0, 3.0
"""Time per row in a pass, and per number stored in the row."""
SOLVER_STEPS = 25
"""Number of interior-point steps, each with one Gram matrix: 8 to 45 were seen."""
START_STEPS = 10
"""Number of Newton steps in a start."""
MOSTLY_THERE = 0.5
"""Fraction of non-zero rows above which a column is dense and centred: its mean would hide its spread."""


@dataclass(frozen=True)
class SparseLayout:
    """Split of a linear model's variables into dense ones, including the intercept, and sparse ones."""

    dense: NDArray[np.intp]
    sparse: NDArray[np.intp]
    filled: float
    """Average number of non-zeros per row in sparse columns."""
    stored: float
    """Average number of non-zeros per row in all columns."""
    levels: range | None = None
    """Positions, among the sparse columns, of the levels of a factor to be eliminated."""
    density: Float | None = None
    """Fraction of rows with a non-zero in each sparse column."""

    @classmethod
    def of(cls, density: Float | None, fit_intercept: bool, factor: range | None = None) -> SparseLayout | None:
        """Return the cheapest layout for columns of these densities, or None if it is cheapest to store all densely.

        With the q fullest columns dense and k non-zeros a row in the others, a row costs
        ``DENSE q^2 + MIXED q k + SPARSE k^2``. The columns of a ``factor`` are sparse whatever they cost.
        """
        if density is None:
            return None
        if factor is not None:
            others = np.delete(density, slice(factor.start, factor.stop))
            found = cls.of(others, fit_intercept)
            m, n_levels = len(density), len(factor)
            numbers = np.delete(np.arange(m + 1), slice(factor.start, factor.stop))
            dense = np.arange(len(others) + fit_intercept) if found is None else found.dense
            sparse = np.empty(0, dtype=np.intp) if found is None else found.sparse
            before = int(np.searchsorted(numbers[sparse], factor.start))
            return cls(
                dense=numbers[dense],
                sparse=np.insert(numbers[sparse], before, np.arange(factor.start, factor.stop)),
                filled=0.0 if found is None else found.filled,
                stored=float(density.sum()),
                levels=range(before, before + n_levels),
            )
        m = len(density)
        order = np.argsort(-density, kind="stable")
        q = np.arange(m + 1) + fit_intercept
        k = np.maximum(density.sum() - np.concatenate([[0.0], np.cumsum(density[order])]), 0.0)
        cost = DENSE_NS * q**2 + MIXED_NS * q * k + SPARSE_NS * k**2
        least = int((density > MOSTLY_THERE).sum())
        n_dense = least + int(np.argmin(cost[least:]))
        if n_dense == m:
            return None
        dense = np.sort(order[:n_dense])
        intercept = [m] if fit_intercept else []
        variables = np.append(dense, intercept).astype(np.intp)
        rest = np.sort(order[n_dense:])
        return cls(variables, rest, float(k[n_dense]), float(k[0]), density=density[rest])

    @property
    def n_variables(self) -> int:
        return len(self.dense) + len(self.sparse)

    @property
    def row_cost(self) -> float:
        """Nanoseconds that a single row takes in a solver step."""
        q, k = len(self.dense), self.filled
        return ROW_NS + DENSE_NS * q**2 + MIXED_NS * q * k + SPARSE_NS * k**2

    @property
    def most_sparse(self) -> float:
        """Number of non-zeros in sparse columns up to which a sparse row takes less time in a step than a full one."""
        q, r = len(self.dense), len(self.sparse)
        half = MIXED_NS * q / (2 * SPARSE_NS)
        return math.sqrt(half**2 + DENSE_NS * r * (r + q) / SPARSE_NS) - half

    def rows_for_passes(self, n: int, n_passes: float, steps: int = SOLVER_STEPS) -> float:
        """Return the number of single rows whose solver steps take as long as ``n_passes`` passes over n rows."""
        return n * n_passes * (PASS_NS + PASS_NS_STORED * self.stored) / (steps * self.row_cost)

    def worth_eliminating(self, n: int, n_levels: int) -> bool:
        """Return whether eliminating a factor's levels from all n rows costs less than a matrix of all variables.

        A Cholesky factor of p variables costs ``DENSE p^3 / 3``; each step of the start and of two aggregated problems
        needs one.
        """
        p = self.n_variables
        others = p - n_levels
        with_all = (START_STEPS + 2 * SOLVER_STEPS) * DENSE_NS * p**3 / 3
        return n_levels > 1 and SOLVER_STEPS * (n * self.row_cost + DENSE_NS * others**3 / 3) < with_all

    def rarest_first(self, n: int, fewest: float, most: float) -> NDArray[np.intp]:
        """Return the sparse columns with between ``fewest`` and ``most`` non-zeros in n rows, rarest first."""
        if self.density is None:
            return np.empty(0, dtype=np.intp)
        found = np.flatnonzero((n * self.density > fewest) & (n * self.density < most))
        return self.sparse[found[np.argsort(self.density[found], kind="stable")]]

    def position(self, n_columns: int) -> NDArray[np.int64]:
        """Return each column's position: k for the k-th sparse column, -1 - k for the k-th dense one.

        Columns after the variables are dense too.
        """
        position = np.empty(n_columns, dtype=np.int64)
        position[self.sparse] = np.arange(len(self.sparse))
        position[self.dense] = -1 - np.arange(len(self.dense))
        position[self.n_variables :] = -1 - np.arange(len(self.dense), n_columns - len(self.sparse))
        return position


@dataclass(frozen=True)
class Costs:
    """Time that a row takes, in nanoseconds, and the memory that it needs."""

    row: float
    """Time of a single row in a solver step."""
    sum: float
    """Time of a sum of many rows, which is dense, in a solver step."""
    row_of_pass: float
    """Time of a row in a pass."""
    stored: float
    """Memory of a single row, in numbers of 8 bytes."""

    @classmethod
    def of(cls, p: int, layout: SparseLayout | None) -> Costs:
        dense = ROW_NS + DENSE_NS * p * p
        stored = p if layout is None else layout.stored
        row = dense if layout is None else layout.row_cost
        held = p + 2 if layout is None else 1.5 * (stored + 3)
        return cls(row, dense, PASS_NS + PASS_NS_STORED * stored, held)


def csr(data: Any, indices: Any, indptr: Any, n_columns: int) -> Any:
    """Return a CSR matrix marked as canonical, which saves scipy a check."""
    matrix = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_columns))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def canonical(rows: Any) -> Any:
    """Return the CSR matrix with ascending columns and no duplicates in each row."""
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def row_numbers(rows: Any) -> NDArray[np.intp]:
    """Return the row of each stored number of a CSR matrix."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def sums_alone(X: Any, signed: Float, offset: Float, weight: Float, has_intercept: bool) -> Any:
    """Return the rows of :meth:`aidlearn.linear.model.design.Design.aggregate` for single entries, as a CSR matrix."""
    X = canonical(X)
    n, row, behind = X.shape[0], row_numbers(X), [signed] * has_intercept + [weight * offset, weight]
    starts = X.indptr + np.arange(n + 1, dtype=X.indptr.dtype) * len(behind)
    data, columns = np.empty(starts[-1]), np.empty(starts[-1], dtype=X.indices.dtype)
    place = np.arange(X.nnz) + len(behind) * row
    data[place], columns[place] = signed[row] * X.data, X.indices
    for k, values in enumerate(behind):
        at = starts[1:] - len(behind) + k
        data[at], columns[at] = values, X.shape[1] + k
    return csr(data, columns, starts, X.shape[1] + len(behind))
