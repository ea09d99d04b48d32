"""Exact order statistics of one number per row, by passes over the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from aidlearn.data.passes.run import Run, fold
from aidlearn.data.rows.chunk import Chunk
from aidlearn.numerics import Float, Int


@dataclass(frozen=True)
class OrderStatisticSettings:
    """Sizes of samples and brackets."""

    most_kept: int = 200_000
    """Maximum number of rows of which all values are kept."""
    sample_rows: int = 20_000
    """Rows of the sample of more rows, at least."""
    bracket: float = 5.0
    """Half width of a bracket around a quantile, in units of ``1 / sqrt(n)`` of the sample (at least ten standard
    errors of its quantile)."""
    weighted_bracket: float = 4.0
    """Half width of a bracket around a weighted quantile, in the same units."""
    widening: float = 4.0
    """Factor on the width of a bracket that missed its quantile."""


SETTINGS = OrderStatisticSettings()


@dataclass
class SampledValues:
    """Values of every ``step``-th row."""

    step: int
    parts: list[Float] = field(default_factory=list)

    @classmethod
    def planned(cls, n_rows: int) -> SampledValues:
        """Return an empty sample: of every row if they are few."""
        return cls(1 if n_rows <= SETTINGS.most_kept else n_rows // SETTINGS.sample_rows)

    def add(self, values: Float) -> None:
        """Append the values of the next chunk."""
        self.parts.append(values)

    @property
    def values(self) -> Float:
        """All values, in the order of the rows."""
        return np.concatenate(self.parts)

    @property
    def n(self) -> int:
        """The number of values."""
        return sum(map(len, self.parts))

    def mapped(self, function: Callable[[Float], Float]) -> SampledValues:
        """Apply a function to the array of values."""
        return SampledValues(self.step, [function(self.values)])


def quantiles(run: Run, values: Callable[[Chunk], Float], some: SampledValues, levels: Sequence[float]) -> list[float]:
    """Quantiles (linear between order statistics) of ``values(chunk)`` over all rows.

    If ``some`` are not all rows, their quantiles give a bracket for each level; one pass counts the values below each
    bracket and keeps those inside.
    """
    sample = np.sort(some.values)
    if some.step == 1:
        return [float(q) for q in np.quantile(sample, levels)]
    reach = SETTINGS.bracket / math.sqrt(len(sample))
    while True:
        brackets = [
            (_edge(sample, level - reach, -math.inf), _edge(sample, level + reach, math.inf)) for level in levels
        ]
        counts, kept = _counted(run, values, brackets)
        found = [_between(v, int(b), int(counts[-1]), q) for v, b, q in zip(kept, counts, levels, strict=False)]
        if None not in found:
            return [value for value in found if value is not None]
        reach *= SETTINGS.widening


def _edge(sample: Float, level: float, beyond: float) -> float:
    return float(np.quantile(sample, level)) if 0 < level < 1 else beyond


def _counted(
    run: Run, values: Callable[[Chunk], Float], brackets: list[tuple[float, float]]
) -> tuple[Int, list[Float]]:
    """Count the values below each bracket and, last, all of them; sort the values inside each bracket."""
    counts = np.zeros(len(brackets) + 1, dtype=np.int64)
    kept: list[list[Float]] = []

    def measure(chunk: Chunk) -> tuple[list[int], list[Float]]:
        v = values(chunk)
        inside = [v[(v >= low) & (v <= high)] for low, high in brackets]
        return [*(int(np.count_nonzero(v < low)) for low, _ in brackets), len(v)], inside

    def collect(value: tuple[list[int], list[Float]]) -> None:
        counts[:] += value[0]
        kept.append(value[1])

    fold(run, measure, collect)
    return counts, [np.sort(np.concatenate(parts)) for parts in zip(*kept, strict=True)]


def _between(kept: Float, below: int, total: int, level: float) -> float | None:
    """Return the quantile from the values inside a bracket, None if it lies outside."""
    place = level * (total - 1)
    first = math.floor(place)
    last = min(first + 1, total - 1)
    if first < below or last >= below + len(kept):
        return None
    low, high = kept[first - below], kept[last - below]
    return float(low + (place - first) * (high - low))


def null_loss(run: Run, targets: Float, quantile: float) -> float:
    """The smallest ``sum w_i rho_tau(y_i - b)`` over b: the loss of an intercept alone.

    The minimiser is a weighted quantile of y. The sampled ``targets`` give a bracket; one pass sums the targets outside
    it and keeps those inside. A bracket that misses the quantile is widened.
    """
    reach = SETTINGS.weighted_bracket / math.sqrt(len(targets))
    while True:
        low = -math.inf if quantile <= reach else float(np.quantile(targets, quantile - reach))
        high = math.inf if quantile + reach >= 1 else float(np.quantile(targets, quantile + reach))
        if run.n_entries <= SETTINGS.most_kept:
            low, high = -math.inf, math.inf
        found = _bracketed(run, low, high)
        wanted = quantile * found.total
        y, w = found.y, found.w
        before = found.below + np.cumsum(w)
        k = int(np.searchsorted(before, wanted * (1 - 1e-15)))
        if (found.below < wanted or low == -math.inf) and k < len(y):
            b = y[k]
            under = found.sum_below - b * found.below + float(w[:k] @ (y[:k] - b))
            return quantile * (found.sum_all - b * found.total) - under
        reach *= SETTINGS.widening


@dataclass(frozen=True)
class _Bracketed:
    """Weights and weighted sums of all targets and of those below a bracket, and the sorted targets inside it."""

    total: float
    below: float
    sum_all: float
    sum_below: float
    y: Float
    w: Float


def _bracketed(run: Run, low: float, high: float) -> _Bracketed:
    """Sum and sort the targets, by one pass."""
    sums = np.zeros(4)
    values: list[Float] = []
    weights: list[Float] = []

    def measure(chunk: Chunk) -> tuple[Float, Float, Float]:
        y, w = chunk.y, chunk.weight
        below = y < low
        within = ~below & (y <= high) & (w > 0)
        return np.array([w.sum(), w[below].sum(), w @ y, w[below] @ y[below]]), y[within], w[within]

    def collect(value: tuple[Float, Float, Float]) -> None:
        sums[:] += value[0]
        values.append(value[1])
        weights.append(value[2])

    fold(run, measure, collect)
    y, w = np.concatenate(values), np.concatenate(weights)
    order = np.argsort(y, kind="stable")
    weight, below, sum_all, sum_below = sums.tolist()
    return _Bracketed(weight, below, sum_all, sum_below, y[order], w[order])
