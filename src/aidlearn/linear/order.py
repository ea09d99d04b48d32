"""Order statistics of a number per row, by passes: exact, whatever the number of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from aidlearn.data.chunk import Chunk, Float
from aidlearn.data.run import Run

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
