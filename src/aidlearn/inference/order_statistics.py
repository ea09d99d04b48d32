"""Exact order statistics of one number per row, by passes over the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aidlearn.data.passes.run import Run, fold
from aidlearn.data.rows.chunk import Chunk
from aidlearn.numerics import Float


@dataclass(frozen=True)
class OrderStatisticSettings:
    """Sizes of samples and brackets."""

    most_kept: int = 200_000
    """Maximum number of rows for which all values are kept."""
    sample_rows: int = 20_000
    """Minimum number of rows of a sample, if not all values are kept."""
    bracket: float = 5.0
    """Half width of a bracket around a quantile, in units of ``1 / sqrt(n)`` of the sample (at least ten standard
    errors of its quantile)."""
    weighted_bracket: float = 4.0
    """Half width of a bracket around a weighted quantile, in the same units."""
    widening: float = 4.0
    """Factor on the width of a bracket that missed its quantile."""


SETTINGS = OrderStatisticSettings()


def sampling_step(n_rows: int) -> int:
    """Return k if a sample should hold every k-th row: 1 if there are few rows."""
    return 1 if n_rows <= SETTINGS.most_kept else n_rows // SETTINGS.sample_rows


def _bracket(sample: Float, level: float, reach: float) -> tuple[float, float]:
    """Return the sample quantiles at ``level -+ reach``, infinite where these levels are outside 0 to 1."""
    low, high = level - reach, level + reach
    return (
        float(np.quantile(sample, low)) if low > 0 else -math.inf,
        float(np.quantile(sample, high)) if high < 1 else math.inf,
    )


def _inside(
    run: Run, weighted: Callable[[Chunk], tuple[Float, Float]], brackets: Sequence[tuple[float, float]]
) -> list[tuple[Float, Float, Float]]:
    """Sort the values inside each bracket, by one pass; ``weighted(chunk)`` returns values and their weights.

    For each bracket, return four sums (weights of all values and of those below it, weighted values of all and of those
    below it), the sorted values inside and their weights.
    """
    parts: list[list[tuple[Float, Float, Float]]] = []

    def measure(chunk: Chunk) -> list[tuple[Float, Float, Float]]:
        v, w = weighted(chunk)
        found = []
        for low, high in brackets:
            below = v < low
            within = ~below & (v <= high) & (w > 0)
            found.append((np.array([w.sum(), w[below].sum(), w @ v, w[below] @ v[below]]), v[within], w[within]))
        return found

    fold(run, measure, parts.append)
    found = []
    for of_chunks in zip(*parts, strict=True):
        sums, values, weights = zip(*of_chunks, strict=True)
        v, w = np.concatenate(values), np.concatenate(weights)
        order = np.argsort(v, kind="stable")
        found.append((sum(sums, np.zeros(4)), v[order], w[order]))
    return found


def quantiles(run: Run, values: Callable[[Chunk], Float], sample: Float, levels: Sequence[float]) -> list[float]:
    """Compute quantiles (linear between order statistics) of ``values(chunk)`` over all rows.

    ``sample`` holds the values of every k-th row (see :func:`sampling_step`). If these are not all rows, their
    quantiles give brackets, and one pass sorts the values inside them.
    """
    if sampling_step(run.n_entries) == 1:
        return [float(q) for q in np.quantile(sample, levels)]

    def weighted(chunk: Chunk) -> tuple[Float, Float]:
        v = values(chunk)
        return v, np.ones_like(v)

    reach, found = SETTINGS.bracket / math.sqrt(len(sample)), list[float]()
    while len(found) < len(levels):
        brackets, found = [_bracket(sample, level, reach) for level in levels], []
        for level, (sums, kept, _) in zip(levels, _inside(run, weighted, brackets), strict=True):
            last, below = int(sums[0]) - 1, int(sums[1])
            first = math.floor(level * last)
            second = min(first + 1, last)
            if below <= first and second < below + len(kept):
                low, high = kept[first - below], kept[second - below]
                found.append(float(low + (level * last - first) * (high - low)))
        reach *= SETTINGS.widening  # a bracket may have missed its quantile
    return found


def null_loss(run: Run, targets: Float, quantile: float) -> float:
    """Compute the smallest ``sum w_i rho_tau(y_i - b)`` over b: the loss of an intercept alone.

    The minimiser is a weighted quantile of y. The sampled ``targets`` give a bracket that is widened if it misses it.
    """
    few = sampling_step(run.n_entries) == 1
    reach = math.inf if few else SETTINGS.weighted_bracket / math.sqrt(len(targets))
    while True:
        bracket = _bracket(targets, quantile, reach)
        [(sums, y, w)] = _inside(run, lambda chunk: (chunk.y, chunk.weight), [bracket])
        total, below, sum_all, sum_below = sums.tolist()
        wanted = quantile * total
        k = int(np.searchsorted(below + np.cumsum(w), wanted * (1 - 1e-15)))
        if below < wanted and k < len(y):
            b = y[k]
            under = sum_below - b * below + float(w[:k] @ (y[:k] - b))
            return quantile * (sum_all - b * total) - under
        reach *= SETTINGS.widening
