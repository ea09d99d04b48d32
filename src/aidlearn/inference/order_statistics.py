"""Order statistics of a number per row, by passes: exact, whatever the number of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from aidlearn.data.passes.run import Run
from aidlearn.data.rows.chunk import Chunk
from aidlearn.numerics import Float

WIDTH = 5.0
"""Half of a bracket in standard errors of a sample's quantile."""


@dataclass
class Sampled:
    """Values of every ``step``-th row: all of few rows, about 10,000 of many."""

    KEPT: ClassVar[int] = 200_000
    """Rows up to which all values are kept."""
    SOME: ClassVar[int] = 20_000

    step: int
    parts: list[Float] = field(default_factory=list)

    @classmethod
    def planned(cls, n_rows: int) -> Sampled:
        return cls(1 if n_rows <= cls.KEPT else n_rows // cls.SOME)

    def add(self, values: Float) -> None:
        self.parts.append(values)

    @property
    def values(self) -> Float:
        return np.concatenate(self.parts)

    @property
    def n(self) -> int:
        return sum(map(len, self.parts))

    def restricted(self, function: Callable[[Float], Float]) -> Sampled:
        """The same of a function of the values."""
        return Sampled(self.step, [function(self.values)])


def quantiles(run: Run, values: Callable[[Chunk], Float], some: Sampled, levels: Sequence[float]) -> list[float]:
    """Quantiles (linear between order statistics) of ``values(chunk)`` over all rows.

    Of many rows, brackets around the quantiles of ``some`` of them; one pass counts what lies below each and keeps
    what lies inside.
    """
    sample = np.sort(some.values)
    if some.step == 1:
        return [float(q) for q in np.quantile(sample, levels)]
    reach = WIDTH / math.sqrt(len(sample))
    while True:
        brackets = [
            (_edge(sample, level - reach, -math.inf), _edge(sample, level + reach, math.inf)) for level in levels
        ]
        below, total, kept = _counted(run, values, brackets)
        found = [_between(k, int(b), total, level) for k, b, level in zip(kept, below, levels, strict=True)]
        if all(value is not None for value in found):
            return [float(value) for value in found if value is not None]
        reach *= 4


def _edge(sample: Float, level: float, beyond: float) -> float:
    return float(np.quantile(sample, level)) if 0 < level < 1 else beyond


def _counted(run: Run, values: Callable[[Chunk], Float], brackets: list[tuple[float, float]]) -> tuple[Any, int, Any]:
    below, total = np.zeros(len(brackets), dtype=np.int64), 0
    kept: list[list[Float]] = [[] for _ in brackets]

    def measure(chunk: Chunk, state: Any) -> tuple[Any, None]:
        v = values(chunk)
        found = [(np.count_nonzero(v < low), v[(v >= low) & (v <= high)]) for low, high in brackets]
        return (len(v), found), None

    def collect(value: Any) -> None:
        nonlocal total
        total += value[0]
        for k, (less, inside) in enumerate(value[1]):
            below[k] += less
            kept[k].append(inside)

    run.map(measure, collect=collect)
    return below, total, [np.sort(np.concatenate(parts)) for parts in kept]


def _between(kept: Float, below: int, total: int, level: float) -> float | None:
    """The quantile from the values of a bracket, None if it lies outside."""
    place = level * (total - 1)
    first = math.floor(place)
    last = min(first + 1, total - 1)
    if first < below or last >= below + len(kept):
        return None
    low, high = kept[first - below], kept[last - below]
    return float(low + (place - first) * (high - low))


def null_loss(run: Run, targets: Float, quantile: float) -> float:
    """The smallest ``sum w_i rho_tau(y_i - b)`` over b: the loss without any column.

    The minimiser is a weighted quantile of y: a bracket from some ``targets``, then one pass that sums outside of it
    and keeps the values inside; wider brackets where it was missed.
    """
    reach = 4 / math.sqrt(len(targets))
    while True:
        low = -math.inf if quantile <= reach else float(np.quantile(targets, quantile - reach))
        high = math.inf if quantile + reach >= 1 else float(np.quantile(targets, quantile + reach))
        if run.n_entries <= Sampled.KEPT:
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
        reach *= 4


@dataclass(frozen=True)
class _Bracketed:
    total: float
    below: float
    sum_all: float
    sum_below: float
    y: Float
    w: Float


def _bracketed(run: Run, low: float, high: float) -> _Bracketed:
    """Weights and sums of targets below a bracket, and the sorted targets inside of it with their weights."""
    total = np.zeros(4)
    values: list[Float] = []
    weights: list[Float] = []

    def measure(chunk: Chunk, state: Any) -> tuple[Any, None]:
        y, w = chunk.y, chunk.weight
        below = y < low
        within = ~below & (y <= high) & (w > 0)
        sums = np.array([w.sum(), w[below].sum(), w @ y, w[below] @ y[below]])
        return (sums, y[within], w[within]), None

    def collect(value: Any) -> None:
        total[:] += value[0]
        values.append(value[1])
        weights.append(value[2])

    run.map(measure, collect=collect)
    y, w = np.concatenate(values), np.concatenate(weights)
    order = np.argsort(y, kind="stable")
    weight, below, sum_all, sum_below = map(float, total)
    return _Bracketed(weight, below, sum_all, sum_below, y[order], w[order])
