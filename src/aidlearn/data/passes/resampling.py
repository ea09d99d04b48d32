"""Random weights of the rows in replicates of a fit, from a counter-based generator.

The weight of a row depends on the seed, the number of the replicate and the number of the row alone: memory, files,
Dask and any number of threads or replicates at once give the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidlearn.numerics import Float

BLOCK = 2048
"""Rows of one state of the generator: few, so that chunks seldom need only a part of a block."""
COUNTS = 1
"""Stream of the numbers of draws per block, separate from the streams of rows."""


class Generators:
    """Generators by seed, replicate and block: one object whose state is set, which is faster than a new one."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._seed = seed

    def __call__(self, replicate: int, block: int, stream: int = 0) -> np.random.Generator:
        """The generator at the beginning of a block of a replicate, valid until the next call."""
        inner = self._state["state"]
        inner["key"][:] = self._seed, replicate
        inner["counter"][:] = 0, 0, block, stream
        self._state["buffer_pos"], self._state["has_uint32"] = 4, 0
        self._bits.state = self._state
        return self._generator


class Weights(ABC):
    """Factors on the weights of rows, one for each replicate."""

    @abstractmethod
    def __call__(self, start: int, stop: int, replicates: Sequence[int]) -> Float:
        """Factors of rows ``start:stop``, shape (replicates, rows)."""


@dataclass(frozen=True)
class Unchanged(Weights):
    """The weights as they are."""

    def __call__(self, start: int, stop: int, replicates: Sequence[int]) -> Float:
        return np.ones((len(replicates), stop - start))


UNCHANGED = Unchanged()


@dataclass(frozen=True)
class _ByBlock(Weights):
    seed: int

    @abstractmethod
    def block(self, generators: Generators, replicate: int, block: int) -> Float:
        """The factors of all rows of a block (of :data:`BLOCK` rows, also where there are fewer)."""

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
    """How often each of n rows is drawn in n draws with replacement: Efron's bootstrap.

    First how many draws fall into each block, then where in it.
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
    """One exponential factor for all rows of a cluster: dependent rows stay together."""

    seed: int
    codes: NDArray[np.int32]
    n_clusters: int

    def __call__(self, start: int, stop: int, replicates: Sequence[int]) -> Float:
        codes = self.codes[start:stop]
        factors = Exponential(self.seed)(0, self.n_clusters, replicates)
        return np.asarray(factors[:, codes])
