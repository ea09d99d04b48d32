"""Transformations of the rows of a run, applied chunk by chunk as the rows are used, without a copy of X.

Weights of replicates come from a counter-based generator: the weight of a row depends only on the seed and on the
numbers of the replicate and the row. It is therefore the same for memory, files and Dask, and for any number of threads
or simultaneous replicates. Folds of cross-validation are weights, too: a row that a fold leaves out has weight 0.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from aidlearn.data.rows.chunk import Chunk
from aidlearn.numerics import Float


class Transform(Protocol):
    """A transformation of the rows of a chunk."""

    by_row: ClassVar[bool]
    """Whether the transformation depends on row numbers, which a sample does not keep."""

    def __call__(self, chunk: Chunk) -> Chunk: ...


@dataclass(frozen=True)
class Scaling:
    """Multiplication of the columns by factors."""

    by_row: ClassVar[bool] = False
    factors: Float

    def __call__(self, chunk: Chunk) -> Chunk:
        return chunk.scaled(self.factors)


@dataclass(frozen=True)
class Projection:
    """Replacement of the targets by ``level - x'direction``."""

    by_row: ClassVar[bool] = False
    direction: Float
    level: float

    def __call__(self, chunk: Chunk) -> Chunk:
        return replace(chunk, y=self.level - (chunk @ self.direction))


@dataclass(frozen=True)
class Reweighting:
    """Multiplication of the weights by the factors of one replicate."""

    by_row: ClassVar[bool] = True
    weights: Weights
    replicate: int

    def __call__(self, chunk: Chunk) -> Chunk:
        factor = self.weights(chunk.start, chunk.stop, [self.replicate])[0]
        return replace(chunk, weight=chunk.weight * factor)


@dataclass(frozen=True)
class SideBySide:
    """Weights of several replicates at once, with one column of weights for each replicate."""

    by_row: ClassVar[bool] = True
    weights: Weights
    replicates: Sequence[int]

    def __call__(self, chunk: Chunk) -> Chunk:
        factors = self.weights(chunk.start, chunk.stop, self.replicates)
        return replace(chunk, weight=(factors * chunk.weight).T)


BLOCK = 2048
"""Number of rows per state of the generator; few, so that chunks seldom need only a part of a block."""
COUNTS = 1
"""Stream that gives the number of draws in each block, separate from the streams of rows."""


class Generators:
    """Generators by seed, replicate and block, as one object whose state is set: new objects would be slower."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._seed = seed

    def __call__(self, replicate: int, block: int, stream: int = 0) -> np.random.Generator:
        """Return the generator at the beginning of a block of a replicate, valid until the next call."""
        inner = self._state["state"]
        inner["key"][:] = self._seed, replicate
        inner["counter"][:] = 0, 0, block, stream
        self._state["buffer_pos"], self._state["has_uint32"] = 4, 0
        self._bits.state = self._state
        return self._generator


class Weights(ABC):
    """Factors on the weights of rows, with one factor per replicate."""

    @abstractmethod
    def __call__(self, start: int, stop: int, replicates: Sequence[int]) -> Float:
        """Return the factors of rows ``start:stop``, of shape (replicates, rows)."""


@dataclass(frozen=True)
class Unchanged(Weights):
    """Factors of 1, which leave the weights unchanged."""

    def __call__(self, start: int, stop: int, replicates: Sequence[int]) -> Float:
        return np.ones((len(replicates), stop - start))


UNCHANGED = Unchanged()


@dataclass(frozen=True)
class _ByBlock(Weights):
    seed: int

    @abstractmethod
    def block(self, generators: Generators, replicate: int, block: int) -> Float:
        """Return the factors of a block, always for :data:`BLOCK` rows even if the last block has fewer."""

    def __call__(self, start: int, stop: int, replicates: Sequence[int]) -> Float:
        generators = Generators(self.seed)  # one per thread
        out = np.empty((len(replicates), stop - start))
        for block in range(start // BLOCK, -(-stop // BLOCK)):
            first, last = max(start, block * BLOCK), min(stop, (block + 1) * BLOCK)
            inside, here = slice(first - block * BLOCK, last - block * BLOCK), slice(first - start, last - start)
            for row, replicate in zip(out, replicates, strict=True):
                row[here] = self.block(generators, replicate, block)[inside]
        return out


@dataclass(frozen=True)
class Exponential(_ByBlock):
    """Standard exponential factors: the weighted bootstrap (Rubin 1981; Bose and Chatterjee 2003)."""

    def block(self, generators: Generators, replicate: int, block: int) -> Float:
        return generators(replicate, block).standard_exponential(BLOCK)


@dataclass(frozen=True)
class Multinomial(_ByBlock):
    """Counts of each of n rows in n draws with replacement (Efron's bootstrap).

    The number of draws in each block is drawn first, then the rows within the block.
    """

    n_rows: int

    def block(self, generators: Generators, replicate: int, block: int) -> Float:
        size = min(BLOCK, self.n_rows - block * BLOCK)
        n_draws = int(self._draws(generators, replicate)[block])
        drawn = generators(replicate, block).integers(size, size=n_draws)
        return np.bincount(drawn, minlength=BLOCK).astype(np.float64)

    def _draws(self, generators: Generators, replicate: int) -> NDArray[np.int64]:
        sizes = np.full(-(-self.n_rows // BLOCK), BLOCK)
        sizes[-1] = self.n_rows - BLOCK * (len(sizes) - 1)
        draws = generators(replicate, 0, COUNTS).multinomial(self.n_rows, sizes / self.n_rows)
        return np.asarray(draws, dtype=np.int64)


@dataclass(frozen=True)
class ByCluster(Weights):
    """One exponential factor for all rows of a cluster, so that dependent rows stay together."""

    seed: int
    codes: NDArray[np.int32]
    n_clusters: int

    def __call__(self, start: int, stop: int, replicates: Sequence[int]) -> Float:
        codes = self.codes[start:stop]
        factors = Exponential(self.seed)(0, self.n_clusters, replicates)
        return np.asarray(factors[:, codes])


@dataclass(frozen=True)
class Folds(Weights):
    """Training and test rows of each fold; the replicate after the last fold trains on all rows."""

    training: NDArray[np.bool_]
    """Mask (folds x rows) of the training rows."""
    testing: NDArray[np.bool_]
    codes: NDArray[np.integer] | None = None
    """Class of each row, if classes have weights."""
    factors: Float | None = None
    """Class weights in each fold, followed by those in all rows."""

    @classmethod
    def of(cls, splits: Iterable[tuple[Any, Any]], n_rows: int) -> Folds:
        """Make folds from the indices or masks of their rows."""
        training: list[NDArray[np.bool_]] = []
        testing: list[NDArray[np.bool_]] = []
        for train, test in splits:
            for rows, masks in ((train, training), (test, testing)):
                mask = np.zeros(n_rows, dtype=bool)
                try:
                    mask[np.asarray(rows) if len(rows) else slice(0)] = True
                except IndexError as error:
                    raise ValueError(f"cv gives rows that X, which has {n_rows}, does not have: {error}.") from None
                if not mask.any():
                    raise ValueError(f"cv gives a fold without rows to {'train' if masks is training else 'test'} on.")
                masks.append(mask)
        if not training:
            raise ValueError("cv gives no folds.")
        return cls(np.array(training), np.array(testing))

    def weighing(self, weight: Float) -> Folds:
        """Return these folds after checking that each trains, and one or more test, on a row of positive weight."""
        for fold, mask in enumerate(self.training):
            if not weight[mask].any():
                raise ValueError(
                    f"Fold {fold} of cv trains on rows of weight 0 only: leave these rows out, or choose other folds."
                )
        if not any(weight[mask].any() for mask in self.testing):
            raise ValueError("All folds of cv are tested on rows of weight 0 only: choose other folds.")
        return self

    @property
    def n(self) -> int:
        return len(self.training)

    @property
    def digest(self) -> str:
        """Digest of the folds."""
        parts = np.packbits(self.training), np.packbits(self.testing)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]

    def __call__(self, start: int, stop: int, replicates: Sequence[int]) -> Float:
        out = np.ones((len(replicates), stop - start))
        for row, k in zip(out, replicates, strict=True):
            if k < self.n:
                row[:] = self.training[k, start:stop]
            if self.factors is not None and self.codes is not None:
                row *= self.factors[k][self.codes[start:stop]]
        return out
