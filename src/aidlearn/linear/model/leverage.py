"""The metric of a start, which measures leverages by the Gram matrix of the columns, and the normal equations.

Leverages are ``s_i = |a_i|`` in the norm of the inverse Gram matrix. Gram matrices of many rows are summed in parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.linear.model.design import Design
from aidlearn.linear.rows.hybrid import joined
from aidlearn.linear.rows.matrix import Matrix, block_rows, in_runs
from aidlearn.numerics import Float, regularised_cholesky

Leverage = float | NDArray[np.float32] | Float
"""One leverage per row, or a single one for all rows."""

SKETCH_COLUMNS = 8
HEAVY = 0.02
"""Squared leverage, times weight, above which a row always stays single: at most 50 rows per variable exceed it."""
MOST_HELD = 1 << 20
"""Maximum count of stored numbers (8 MB) in rows that wait to be summed into a Gram matrix."""
LOOKED_AT = 4000
"""Number of rows that decide whether leverages differ."""
SMALLEST = 1e-12
"""Least squared leverage of a row, before division by the sum of weights."""


@dataclass(frozen=True)
class Metric:
    """The Gram matrix of the (centred) rows, which determines the leverage of each row.

    Leverages come from a Gaussian sketch: ``|a_i|_{G^-1} ~ |a_i' R^-1 g| / sqrt(k)``.
    """

    gram: Float
    size: Float
    factor: Float
    sketch: Float
    constant: float | None = None
    """Leverage of every row, if rows hardly differ in it."""
    n_jobs: int = 1
    """Number of threads for matrices of this size."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the Gram matrix and its factor: passes compute leverages from the sketch."""
        return {**self.__dict__, "gram": None, "factor": None}

    @classmethod
    def of(cls, design: Design, gram: Float, n_jobs: int = 1) -> Metric:
        diagonal = np.diag_indices_from(gram)
        # A ridge holds a coefficient as rows do: the loss's curvature is about 0.3 scale per row and typical margin.
        design.add_quadratic(gram, design.typical_margin / (0.3 * design.loss.scale))
        gram[diagonal] = np.maximum(gram[diagonal], 1e-12 * design.column_squares)
        gram[design.constant, design.constant] = 1.0
        size = np.sqrt(gram[diagonal])
        scaled = gram / np.outer(size, size)
        factor = regularised_cholesky(scaled)
        metric = cls(gram, size, factor, np.empty((len(gram), 0)), n_jobs=n_jobs)
        return replace(metric, sketch=metric.directions(design, SKETCH_COLUMNS) / math.sqrt(SKETCH_COLUMNS))

    def directions(self, design: Design, number: int) -> Float:
        """Return columns ``R^-1 g`` with normal g, along each of which rows scatter as far as their leverages allow."""
        normal = np.random.default_rng(0).standard_normal((len(self.gram), number))
        half = linalg.solve_triangular(self.factor, normal, check_finite=False)
        half[design.constant] = 0.0
        return np.asarray(half / self.size[:, None])

    def solve(self, right: Float) -> Float:
        """Return ``G^-1 right``."""
        return np.asarray(linalg.cho_solve((self.factor, False), right / self.size) / self.size)

    def settled(self, design: Design, sample: Chunk) -> Metric:
        """Return this metric, with one leverage for all rows if a sample shows that they hardly differ."""
        some = sample.select(slice(None, None, max(1, sample.n_entries // LOOKED_AT)))
        leverage = np.asarray(self.leverage(design, some))
        middle = float(np.median(leverage))
        # A sketch of k columns scatters by 1/sqrt(2k) even where the leverages are equal.
        alike = np.quantile(leverage, [0.001, 0.999]) / middle
        if alike[0] < 0.25 or alike[1] > 2.5:
            return self
        return replace(self, constant=middle)

    def offset(self, design: Design) -> Float:
        """Return the part of a row's sketch that comes from centring and the intercept."""
        offset = -design.centre @ self.sketch[: design.n_attributes]
        return offset + self.sketch[-1] if design.fit_intercept else offset

    def least(self, design: Design) -> float:
        """Return the least squared leverage, which keeps distances finite even for a row of zeros."""
        return SMALLEST / design.weight

    def leverage(self, design: Design, chunk: Chunk) -> float | Float:
        """Return the leverages of the rows of a chunk, computed in NumPy, or the single leverage of all rows."""
        if self.constant is not None:
            return self.constant
        projected = np.asarray(chunk.X @ self.sketch[: design.n_attributes]) + self.offset(design)
        square = np.einsum("ij,ij->i", projected, projected, dtype=np.float64)
        # The row itself counts as part of the Gram matrix, so that no leverage exceeds 1 (for weight 1).
        square /= 1 + chunk.weight * square
        return np.sqrt(np.maximum(square, self.least(design)))

    def length(self, step: Float) -> float:
        """Return the typical ``|a_i'd| / s_i`` of a step d in centred coordinates."""
        with np.errstate(over="ignore", invalid="ignore"):  # a step from a Hessian of no rows may be of any size
            square = float(step @ self.gram @ step)
        return math.sqrt(max(square, 0.0) / len(step)) if math.isfinite(square) else math.inf


@dataclass
class GramSum:
    """The Gram matrix of rows that arrive in parts, of which few are held at a time."""

    held: list[Matrix] = field(default_factory=list)
    summed: Float | None = None
    _n_held: int = 0

    def add(self, parts: Sequence[Matrix], n_jobs: int = 1) -> None:
        """Add rows; their order alone decides which are summed together, which makes results bitwise reproducible."""
        self.held += parts
        self._n_held += sum(rows.stored for rows in parts)
        # Blocks of a dense Gram matrix have 2 p rows, and there have to be enough blocks for all threads.
        if self._n_held > max([MOST_HELD, *(16 * rows.n_dense**2 for rows in parts)]):
            self._sum(n_jobs)

    def add_matrix(self, gram: Float) -> None:
        """Add the Gram matrix of further rows."""
        self.summed = gram if self.summed is None else np.add(self.summed, gram, out=self.summed)

    def whole(self, n_jobs: int = 1) -> Float:
        """Return the matrix of all rows, after all of them have been added."""
        if self.held:
            self._sum(n_jobs)
        assert self.summed is not None
        return self.summed

    def _sum(self, n_jobs: int) -> None:
        self.add_matrix(joined(self.held).gram(n_jobs=n_jobs))
        self.held, self._n_held = [], 0


@dataclass(frozen=True)
class NormalEquations:
    """The Gram matrix of the (centred) rows and their product with the target."""

    gram: Float
    right: Float

    @classmethod
    def of(cls, design: Design, chunk: Chunk, n_jobs: int = 1) -> NormalEquations:
        if design.layout is not None:
            rows = design.rows(chunk, slice(None))
            right = rows.T @ (chunk.weight * chunk.y)
            return cls(rows.gram(chunk.weight, n_jobs), right)
        n, p = chunk.n_entries, design.n_variables
        if n == 0:  # the chunk has no row of a class
            return cls(np.zeros((p, p)), np.zeros(p))
        size, root = block_rows(n, p), np.sqrt(chunk.weight)

        def part(first: int, total: Float | None) -> Float:
            # The target is one more column, so that the same product yields its products with the others.
            here = slice(first, first + size)
            rows = np.column_stack([design.dense_rows(chunk, here), chunk.y[here]])
            rows *= root[here, None]
            gram = rows.T @ rows
            return gram if total is None else np.add(total, gram, out=total)

        total = in_runs(part, range(0, n, size), n_jobs)
        return cls(total[:p, :p].copy(), total[:p, p].copy())

    @classmethod
    def of_all(
        cls,
        design: Design,
        run: Run,
        pick: Callable[[Chunk], Chunk] | None = None,
        take: Callable[[Chunk], None] = lambda picked: None,
    ) -> NormalEquations:
        """Return the equations of all rows, by one pass that may also pick rows from each chunk."""
        return cls._of_parts(design, run, 1, lambda chunk: [slice(None)], pick, take)[0]

    @classmethod
    def of_classes(cls, design: Design, run: Run) -> list[NormalEquations]:
        """Return the equations of the negative class and of the positive class, by one pass."""
        return cls._of_parts(design, run, 2, partial(_classes, design))

    def __add__(self, other: NormalEquations) -> NormalEquations:
        return NormalEquations(self.gram + other.gram, self.right + other.right)

    @classmethod
    def _of_parts(
        cls,
        design: Design,
        run: Run,
        n_parts: int,
        parts: Callable[[Chunk], list[Any]],
        pick: Callable[[Chunk], Chunk] | None = None,
        take: Callable[[Chunk], None] = lambda picked: None,
    ) -> list[NormalEquations]:
        """Return one set of equations for each of the parts into which every chunk is divided."""
        p = design.n_variables
        grams, right = [GramSum() for _ in range(n_parts)], np.zeros((n_parts, p))

        def rows_of(chunk: Chunk, select: Any) -> tuple[Any, Float]:
            if design.layout is None:
                found = cls.of(design, chunk.select(select))
                return found.gram, found.right
            # A Gram matrix for every chunk would take more memory than its rows.
            root = np.sqrt(chunk.weight[select])
            rows = design.rows(chunk, select).scaled_rows(root)
            return rows, rows.T @ (root * chunk.y[select])

        def measure(chunk: Chunk, state: Any) -> tuple[tuple[list[tuple[Any, Float]], Chunk | None], None]:
            found = [rows_of(chunk, select) for select in parts(chunk)]
            return (found, None if pick is None else pick(chunk)), None

        def collect(value: tuple[list[tuple[Any, Float]], Chunk | None]) -> None:
            for k, (rows, product) in enumerate(value[0]):
                if design.layout is None:
                    grams[k].add_matrix(rows)
                else:
                    grams[k].add([rows], run.n_jobs)
                right[k] += product
            if value[1] is not None:
                take(value[1])

        run.map(measure, collect=collect)
        return [cls(gram.whole(run.n_jobs), right[k]) for k, gram in enumerate(grams)]

    def unlike(self, design: Design) -> NDArray[np.intp]:
        """Return the columns of a sample whose norms are far from those on all entries: rare dummies, heavy tails."""
        ratio = np.diag(self.gram) / np.where(design.constant, 1.0, design.column_squares)
        return np.flatnonzero(~((ratio > 0.6) & (ratio < 1.7)) & ~design.constant)

    def with_all_columns(self, design: Design) -> Float:
        """Return the Gram matrix of a sample, in which no column has less than its norm on all entries."""
        gram = self.gram.copy()
        diagonal = np.diag_indices_from(gram)
        gram[diagonal] = np.maximum(gram[diagonal], design.column_squares)
        return gram


def _classes(design: Design, chunk: Chunk) -> list[NDArray[np.intp]]:
    """Return the rows of the negative class and those of the positive class."""
    sign, _ = design.loss.fold(chunk.y)
    assert sign is not None
    return [np.flatnonzero(sign < 0), np.flatnonzero(sign > 0)]
