"""Changes of the rows of a run, applied chunk by chunk where the rows are used: no copy of X is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from aidlearn.data.passes.resampling import Weights
from aidlearn.data.rows.chunk import Chunk
from aidlearn.numerics import Float


class Transform(Protocol):
    """A change of the rows of a chunk."""

    by_row: ClassVar[bool]
    """Whether the change depends on the numbers of the rows, which a sample does not keep."""

    def __call__(self, chunk: Chunk) -> Chunk: ...


@dataclass(frozen=True)
class Scaling:
    """Columns multiplied by factors."""

    by_row: ClassVar[bool] = False
    factors: Float

    def __call__(self, chunk: Chunk) -> Chunk:
        return chunk.scaled(self.factors)


@dataclass(frozen=True)
class Projection:
    """Targets ``level - x'direction`` in place of the stored ones."""

    by_row: ClassVar[bool] = False
    direction: Float
    level: float

    def __call__(self, chunk: Chunk) -> Chunk:
        return replace(chunk, y=self.level - (chunk @ self.direction))


@dataclass(frozen=True)
class Reweighting:
    """Weights of one replicate."""

    by_row: ClassVar[bool] = True
    weights: Weights
    replicate: int

    def __call__(self, chunk: Chunk) -> Chunk:
        factor = self.weights(chunk.start, chunk.stop, [self.replicate])[0]
        return replace(chunk, weight=chunk.weight * factor)


@dataclass(frozen=True)
class SideBySide:
    """Weights of several replicates at once: the weights of a chunk have a column for each."""

    by_row: ClassVar[bool] = True
    weights: Weights
    replicates: Sequence[int]

    def __call__(self, chunk: Chunk) -> Chunk:
        factors = self.weights(chunk.start, chunk.stop, self.replicates)
        return replace(chunk, weight=(factors * chunk.weight).T)
