"""Inputs of all standard errors: residuals at a solution, and Gram matrices of centred columns, by one pass each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from scipy import sparse

from aidlearn.data.passes.run import Run, fold
from aidlearn.data.rows.chunk import Chunk
from aidlearn.inference.order_statistics import quantiles, sampling_step
from aidlearn.linear.model.design import Design
from aidlearn.linear.model.leverage import GramSum
from aidlearn.linear.rows.matrix import Matrix, weighted_gram
from aidlearn.numerics import Float

Value = TypeVar("Value")
Part = tuple[Float, Float, float]
"""Gram matrix of a chunk of dense rows, and the column sums and sum of weights that centre it."""


@dataclass(frozen=True)
class SurveySettings:
    """Tolerances for rounding errors."""

    few_digits: float = 100.0
    """Largest ratio of squared mean to variance at which columns are summed about zero, which costs two digits."""
    zero_residual: float = 1e-9
    """Guess. Residuals up to this fraction of the mean residual belong to rows that the solution interpolates."""
    exact_fit: float = 1e-10
    """Guess. Ratio of mean residual to mean target up to which all residuals are rounding errors."""


SETTINGS = SurveySettings()


class InferenceError(ValueError):
    """Error if standard errors do not exist or cannot be estimated; the message says what to do."""


def centred_gram(
    run: Run, design: Design, measure: Callable[[Chunk], tuple[Float, Value]]
) -> tuple[Float, list[Value]]:
    """Sum ``D_i w_i^2 x_i x_i'`` on centred columns, with the intercept as the last one, by one pass.

    ``measure`` returns the ``D_i`` of a chunk (rows where it is 0 are skipped) and another value; the values are
    returned in chunk order. Dense rows are summed about zero where their means allow it, which saves a copy of them,
    and the sum is centred at the end. Sparse rows are collected until there are enough for one product.
    """
    m, p, c = design.n_attributes, design.n_variables, design.centre
    # Sums about zero lose the digits of the squared means beyond those of the variances.
    about_zero = bool((c**2 * design.weight <= SETTINGS.few_digits * design.column_squares[:m]).all())
    gram = GramSum(summed=np.zeros((p, p)))
    sums, totals = np.zeros(m), [0.0]
    values: list[Value] = []

    def of_chunk(chunk: Chunk) -> tuple[Matrix | Part | None, Value]:
        density, value = measure(chunk)
        D, used = density * chunk.weight**2, np.flatnonzero(density)
        if not len(used):
            return None, value
        if len(used) < chunk.n_entries // 2:
            chunk, D = chunk.select(used), D[used]
        return _part(design, chunk, D, about_zero), value

    def collect(found: tuple[Matrix | Part | None, Value]) -> None:
        part, value = found
        values.append(value)
        if isinstance(part, Matrix):
            gram.add([part], run.n_jobs)
        elif part is not None:
            gram.add_matrix(part[0])
            sums[:] += part[1]
            totals[0] += part[2]

    fold(run, of_chunk, collect)
    out, total = gram.whole(run.n_jobs), totals[0]
    if design.fit_intercept and total:
        edge = sums - total * c
        out[:m, :m] += total * np.outer(c, c) - np.outer(c, sums) - np.outer(sums, c)
        out[m, :m] += edge
        out[:m, m] += edge
        out[m, m] += total
    return out, values


def _part(design: Design, chunk: Chunk, D: Float, about_zero: bool) -> Matrix | Part:
    """Compute the part of one chunk."""
    m, unit = design.n_attributes, bool((D == 1).all())
    if design.layout is not None:
        rows = design.rows(chunk, slice(None))
        return rows if unit else rows.scaled_rows(np.sqrt(D))
    if not about_zero or sparse.issparse(chunk.X) or chunk.X.dtype != np.float64:
        return design.rows(chunk, slice(None)).gram(None if unit else D), np.zeros(m), 0.0
    X = np.ascontiguousarray(chunk.X)  # so that the bits do not depend on the memory layout
    gram, total = np.zeros((design.n_variables, design.n_variables)), float(D.sum())
    gram[:m, :m] = weighted_gram(X, None if unit else D)
    return gram, total * design.centre if unit else D @ X, total


@dataclass(frozen=True)
class Survey:
    """The rows of a run at the solution of a quantile: residuals and sums that all methods share."""

    run: Run
    design: Design
    point: Float
    quantile: float
    n: int
    """Number of rows with a positive weight."""
    gram: Float
    """``sum w_i^2 x_i x_i'`` on centred columns."""
    loss: float
    """``sum w_i rho_tau(u_i)``."""
    mean_size: float
    """Mean of ``|w_i u_i|``."""
    deviation: float
    """Standard deviation of ``w_i u_i``."""
    fits_exactly: bool
    """Whether all residuals are rounding errors."""
    sample: Float
    """Values ``w_i u_i`` of all rows, or of a sample if there are many."""

    def __getstate__(self) -> dict[str, object]:
        """Leave out the run and the large arrays: workers of a cluster compute residuals without them."""
        return {**vars(self), "run": None, "gram": None, "sample": None}

    @property
    def zero(self) -> float:
        """Largest size of a residual that is zero up to rounding."""
        return SETTINGS.zero_residual * self.mean_size

    def nonzero(self, u: Float) -> Float:
        """Return the residuals that are not zero up to rounding."""
        return u[np.abs(u) > self.zero]

    @cached_property
    def share_of_zeros(self) -> float:
        """Fraction of the residuals that are zero up to rounding."""
        return 1 - len(self.nonzero(self.sample)) / len(self.sample)

    def residuals(self, chunk: Chunk) -> Float:
        """Return ``w_i u_i`` for all rows of a chunk."""
        return chunk.weight * self.design.margins(chunk, self.point)

    def quantiles(self, levels: Sequence[float], of: Callable[[Float], Float] = lambda u: u) -> list[float]:
        """Compute quantiles of a function of the residuals of the rows with a positive weight, usually by one pass."""
        return quantiles(self.run, lambda chunk: of(self.residuals(chunk)[chunk.weight > 0]), of(self.sample), levels)


def survey(run: Run, design: Design, point: Float, quantile: float) -> Survey:
    """Compute the residuals and sums at a solution, by one pass."""
    step = sampling_step(run.n_entries)

    def measure(chunk: Chunk) -> tuple[Float, tuple[Float, Float]]:
        u = chunk.weight * design.margins(chunk, point)
        every = slice(-chunk.start % step, None, step)
        loss = design.loss.values(u).sum()  # w rho(u) = rho(w u)
        sizes = np.abs(u).sum(), chunk.weight @ np.abs(chunk.y)
        sums = np.array([np.count_nonzero(chunk.weight), loss, u.sum(), u @ u, *sizes])
        return np.ones_like(u), (sums, u[every][chunk.weight[every] > 0])

    gram, parts = centred_gram(run, design, measure)
    count, loss, total, squares, size, target = sum((sums for sums, _ in parts), np.zeros(6)).tolist()
    mean = total / count
    variance = max(squares - count * mean * mean, 0.0) / max(count - 1, 1)
    return Survey(
        run=run,
        design=design,
        point=point,
        quantile=quantile,
        n=int(count),
        gram=gram,
        loss=loss,
        mean_size=size / count,
        deviation=math.sqrt(variance),
        fits_exactly=size <= SETTINGS.exact_fit * target,
        sample=np.concatenate([sample for _, sample in parts]),
    )
