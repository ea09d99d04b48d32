"""Symmetric positive matrices ``A' diag(D) A`` of normal equations: dense, or with one large factor eliminated.

Every row of a factor (fixed effects, an identifier) has a number in at most one of its columns, its levels, so their
block is diagonal. With d that diagonal, B (levels x others) and C the matrix of the other columns,

    [ diag(d)  B ] [x]   [f]          S = C - B' diag(d)^-1 B,     S y = g - B'(f / d),     x = (f - B y) / d
    [   B'     C ] [y] = [g]

is solved exactly with a matrix S as small as the number of other columns, in time and memory linear in the levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.numerics import Float

if TYPE_CHECKING:
    from aidlearn.linear.rows.matrix import Matrix

LEAST_LEVEL = 1e-30
"""Part of the largest number on the diagonal that every level has at least."""


class Factor(ABC):
    """What a matrix was factored into."""

    @abstractmethod
    def solve(self, right: Float) -> Float: ...


class Normal(ABC):
    """A symmetric positive semidefinite matrix."""

    @abstractmethod
    def diagonal(self) -> Float: ...

    @abstractmethod
    def factor(self, extra: Float) -> Factor | None:
        """A factor of the matrix with ``extra`` added to its diagonal; None where rounding has left none."""


@dataclass(frozen=True)
class _Cholesky(Factor):
    lower: Float

    @classmethod
    def of(cls, array: Float) -> _Cholesky | None:
        """Of what a C-ordered array has above its diagonal, which LAPACK reads without a copy in its own order."""
        lower, failed = linalg.lapack.dpotrf(array.T, lower=1, clean=0)
        return None if failed else cls(np.asarray(lower))

    def solve(self, right: Float) -> Float:
        return np.asarray(linalg.lapack.dpotrs(self.lower, right, lower=1)[0])


@dataclass(frozen=True)
class _Ordered(Factor):
    """A factor of variables in another order."""

    factor: _Cholesky
    order: NDArray[np.intp]

    def solve(self, right: Float) -> Float:
        found = np.empty(len(right))
        found[self.order] = self.factor.solve(right[self.order])
        return found


class DenseNormal(Normal):
    """An array of which the part above the diagonal counts, and whose diagonal is written to.

    ``order`` are the numbers of its variables, if they are not 0, 1, 2...
    """

    def __init__(self, array: Float, order: NDArray[np.intp] | None = None) -> None:
        self.array, self.order, self._diagonal = array, order, array.diagonal().copy()

    def diagonal(self) -> Float:
        if self.order is None:
            return self._diagonal
        values = np.empty(len(self.order))
        values[self.order] = self._diagonal
        return values

    def factor(self, extra: Float) -> Factor | None:
        extra = extra if self.order is None else extra[self.order]
        self.array.flat[:: len(extra) + 1] = self._diagonal + extra
        factor = _Cholesky.of(self.array)
        return factor if self.order is None or factor is None else _Ordered(factor, self.order)


@dataclass(frozen=True)
class ArrowNormal(Normal):
    """A diagonal block for the levels of a factor, bordered by the other columns."""

    levels: NDArray[np.intp]
    """Numbers of the levels among all variables."""
    others: NDArray[np.intp]
    d: Float
    B: Matrix
    """Levels x others."""
    C: Float
    n_jobs: int = 1

    def diagonal(self) -> Float:
        values = np.empty(len(self.levels) + len(self.others))
        values[self.levels], values[self.others] = self.d, self.C.diagonal()
        return values

    def schur(self, extra: Float) -> tuple[Float, Float]:
        """The diagonal of the levels, and what their elimination leaves of the other columns."""
        d = self.d + extra[self.levels]
        d = np.maximum(d, LEAST_LEVEL * max(float(d.max(initial=0.0)), 1e-200))
        S = self.C - self.B.gram(1.0 / d, self.n_jobs)
        S[np.diag_indices_from(S)] += extra[self.others]
        return d, S

    def factor(self, extra: Float) -> Factor | None:
        d, S = self.schur(extra)
        if not len(S):
            return _Arrow(self, d, None)
        border = _Cholesky.of(S)
        return None if border is None else _Arrow(self, d, border)


@dataclass(frozen=True)
class _Arrow(Factor):
    normal: ArrowNormal
    d: Float
    border: _Cholesky | None

    def solve(self, right: Float) -> Float:
        levels, others, B = self.normal.levels, self.normal.others, self.normal.B
        found = np.empty(len(right))
        first = right[levels]
        if self.border is None:
            found[levels] = first / self.d
            return found
        rest = self.border.solve(right[others] - B.T @ (first / self.d))
        found[others] = rest
        found[levels] = (first - B @ rest) / self.d
        return found
