"""One fit over one source: its passes, threads, sample, progress, memory budget, deadline, and whether to stop.

The algorithm never needs all entries at once (paper, section 1): everything it asks of the data is a *pass*, a
function mapped over the chunks whose results are folded in chunk order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.passes.mixing import Mixing
from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.data.rows.mapping import PassFunction
from aidlearn.data.rows.memory import Budget, Need
from aidlearn.data.rows.source import DataSource
from aidlearn.data.rows.targets import Targets
from aidlearn.data.rows.threads import n_threads
from aidlearn.numerics import Float


@dataclass(frozen=True)
class PassProgress:
    """How far a pass over the data has come.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor
    >>> class Watch:
    ...     rows = 0
    ...     def on_pass(self, progress):  # a PassProgress, several times in each pass
    ...         self.rows = max(self.rows, progress.rows)
    ...     def __call__(self, iteration):  # an Iteration, after each iteration
    ...         return False
    >>> watch = Watch()
    >>> model = LADRegressor(callbacks=[watch]).fit(np.random.default_rng(0).normal(size=(5000, 2)), np.arange(5000.0))
    >>> watch.rows
    5000
    """

    number: int
    """Of the pass, from 1."""
    rows: int
    """Rows it has dealt with."""
    n_rows: int
    seconds: float
    """Since the pass began."""

    @property
    def rows_per_second(self) -> float:
        """Speed of the pass so far."""
        return self.rows / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class Systematic:
    """A systematic sample: the entries ``offset, offset + step, ...``."""

    step: int
    offset: int


@dataclass(frozen=True)
class Projection:
    """Targets ``level - x'direction`` in place of the stored ones."""

    direction: Float
    level: float

    def __call__(self, chunk: Chunk) -> Chunk:
        return replace(chunk, y=self.level - (chunk @ self.direction))


COMPILED_CELLS = 4_000_000
"""Numbers in X from which on compiled passes are worth loading: there a fit without them takes about as long as
loading them does (0.6 s)."""


def worth_compiling(source: DataSource) -> bool:
    """Which path a fit takes follows from the shape of its data alone, so results do not depend on any cache."""
    return source.n_entries * source.n_attributes >= COMPILED_CELLS


class Run:
    """What belongs to one fit, handed down to everything that reads its data.

    Parameters
    ----------
    source : DataSource
    targets : Targets
        How the stored targets become numbers.
    n_jobs : int, optional
        Threads; what the source was opened with by default.
    watch : callable, optional
        Told of the progress of passes.
    whole : Run, optional
        The fit that this is a part of (one class of several, say): its passes and its end are those of the whole.
    compiled : bool, optional
        Whether passes are compiled code; by default this follows from the shape of the data.
    """

    def __init__(
        self,
        source: DataSource,
        targets: Targets | None = None,
        n_jobs: int | None = None,
        watch: Callable[[PassProgress], None] | None = None,
        whole: Run | None = None,
        compiled: bool | None = None,
    ) -> None:
        self.source, self.watch, self.whole = source, watch, whole
        self.compiled = worth_compiling(source) if compiled is None else compiled
        self.targets = Targets(name=source.target_name) if targets is None else targets
        self.n_jobs = n_threads(source.n_jobs if n_jobs is None else n_jobs)
        self.n_passes = 0
        self.deadline = math.inf
        """``time.monotonic()`` value after which the problem being solved should settle for what it has."""
        self.end: float = math.inf if whole is None else whole.end
        """The same of the whole fit, which may solve several problems."""
        limit = source.memory_limit
        need = None if limit is None else Need.of(source, self.n_jobs)
        self.budget = Budget() if limit is None or need is None else need.budget(limit)
        """Memory for what a fit may choose the size of."""
        self.classes_at_once = None if limit is None or need is None else need.classes_at_once(limit)
        """How many models of classes share passes, where memory is limited."""
        self.spare = math.inf if limit is None or need is None else need.spare(limit)
        """Bytes for what is kept of the rows in the model."""
        self._stopped = False
        self._wanted: Systematic | None = None
        self._sample: Chunk | None = None
        self._passes = source.passes(self.targets, self.n_jobs)
        self._factors: Float | None = None
        self._projection: Projection | None = None
        self._mixing: Mixing | None = None

    @property
    def n_entries(self) -> int:
        return self.source.n_entries

    @property
    def n_attributes(self) -> int:
        return self.source.n_attributes

    @property
    def stopped(self) -> bool:
        """Whether the user has stopped the fit, or a callback has."""
        return self._stopped if self.whole is None else self.whole.stopped

    def stop(self) -> None:
        """The user wants no more than what can be had at once."""
        if self.whole is None:
            self._stopped = True
        else:
            self.whole.stop()

    def of(self, source: DataSource) -> Run:
        """A part of this fit, on other rows; its threads are those of the source."""
        return Run(source, watch=self.watch, whole=self)

    def subtract(self, offset: float) -> None:
        """Take an offset from all targets from now on."""
        self.targets = replace(self.targets, offset=offset)
        self._passes = self.source.passes(self.targets, self.n_jobs)
        if self._sample is not None:
            self._sample = replace(self._sample, y=self._sample.y - offset)

    def scale(self, factors: Float) -> None:
        """Multiply the columns by factors from now on, chunk by chunk where they are used."""
        self._factors = factors
        if self._sample is not None:
            self._sample = self._sample.scaled(factors)

    def mix(self, mixing: Mixing | None) -> None:
        """Change the columns (scaled, where they are) from now on, or no longer; the sample is chosen anew."""
        self._mixing, self._sample, self._wanted = mixing, None, None

    def project(self, projection: Projection) -> None:
        """Targets are a projection of the rows (scaled, where they are) from now on."""
        self._projection = projection
        if self._sample is not None:
            self._sample = projection(self._sample)

    # Passes

    def map(
        self,
        function: PassFunction,
        states: Sequence[Any] | None = None,
        collect: Callable[[Any], None] = lambda value: None,
    ) -> list[Any]:
        """One pass: ``value, state = function(chunk, state)`` for every chunk.

        ``collect(value)`` is called in chunk order, so sums do not depend on the number of threads.
        The states stay with their chunk and are returned for the next pass.
        """
        given = [None] * self.source.n_chunks if states is None else states
        if self._wanted is None or self._sample is not None:
            return self._map(function, given, collect)
        wanted = self._wanted
        picked = _Picked(len(range(wanted.offset, self.n_entries, wanted.step)))

        def with_sample(chunk: Chunk, state: Any) -> tuple[Any, Any]:
            value, kept = function(chunk, state)
            return (value, chunk.every(wanted.step, wanted.offset)), kept

        def collect_both(values: tuple[Any, Chunk]) -> None:
            collect(values[0])
            picked.add(values[1])

        kept = self._map(with_sample, given, collect_both)
        self._sample = picked.whole()
        return kept

    def _map(self, function: PassFunction, states: Sequence[Any], collect: Callable[[Any], None]) -> list[Any]:
        number = self._count_pass()
        kept: list[Any] = []
        if self._projection is not None:
            function = _on_changed(function, self._projection)
        if self._mixing is not None:
            function = _on_changed(function, self._mixing)
        if self._factors is not None:
            function = _on_scaled(function, self._factors)
        started = time.monotonic()
        for value, state in self._passes.ordered(function, states):
            collect(value)
            kept.append(state)
            if self.watch is not None:
                rows = min(len(kept) * self.source.rows_per_chunk, self.n_entries)
                self.watch(PassProgress(number, rows, self.n_entries, time.monotonic() - started))
        return kept

    def add_passes(self, number: int) -> None:
        """Count passes that an earlier part of the same fit has made."""
        self.n_passes += number
        if self.whole is not None:
            self.whole.add_passes(number)

    def _count_pass(self) -> int:
        """One more pass of this part and of the whole; its number among those of the whole."""
        self.n_passes += 1
        return self.n_passes if self.whole is None else self.whole._count_pass()

    def map_states(self, function: Callable[[Any], Any], states: Sequence[Any]) -> Iterator[Any]:
        """``function(state)`` of every chunk in order, without its entries (states may be elsewhere, as entries)."""
        return self._passes.map_states(function, states)

    # The sample

    def plan_sample(self, wanted: Systematic) -> None:
        """Choose the sample of this fit; where it takes a pass, the next one brings it along."""
        self._wanted, self._sample = wanted, self._without_a_pass(wanted)

    def sample(self, plan: Callable[[], Systematic]) -> Chunk:
        """The sample of this fit, by one pass at the most; ``plan`` chooses it where that was not done yet."""
        if self._wanted is None:
            self.plan_sample(plan())
        if self._sample is None:
            self.map(lambda chunk, state: (None, None))
        assert self._sample is not None
        return self._sample

    def let_go_sample(self) -> None:
        """Nobody needs the sample any more (one that does takes a pass)."""
        self._wanted = self._sample = None

    def every(self, wanted: Systematic) -> Chunk:
        """Another systematic sample, by one pass at the most."""
        found = self._without_a_pass(wanted)
        if found is not None:
            return found
        picked = _Picked(len(range(wanted.offset, self.n_entries, wanted.step)))
        self.map(lambda chunk, state: (chunk.every(wanted.step, wanted.offset), None), collect=picked.add)
        return picked.whole()

    def _without_a_pass(self, wanted: Systematic) -> Chunk | None:
        found = self.source.every(wanted.step, wanted.offset)
        if found is None:
            return None
        coded = self.targets.code(found)
        coded = coded if self._factors is None else coded.scaled(self._factors)
        coded = coded if self._mixing is None else self._mixing(coded)
        return coded if self._projection is None else self._projection(coded)


def _on_scaled(function: PassFunction, factors: Float) -> PassFunction:
    """The same pass over rows whose columns are multiplied by factors."""

    def scaled(chunk: Chunk, state: Any) -> tuple[Any, Any]:
        return function(chunk.scaled(factors), state)

    return scaled


def _on_changed(function: PassFunction, change: Callable[[Chunk], Chunk]) -> PassFunction:
    """The same pass over chunks that are changed first."""

    def changed(chunk: Chunk, state: Any) -> tuple[Any, Any]:
        return function(change(chunk), state)

    return changed


class _Picked:
    """Rows of a sample, put together from the chunks of a pass."""

    def __init__(self, n_rows: int) -> None:
        self._rows = n_rows
        self._X: NDArray[Any] | None = None
        self._parts: list[Chunk] = []

    def add(self, part: Chunk) -> None:
        if sparse.issparse(part.X):
            self._parts.append(part)
            return
        if self._X is None:
            # Once, and not by joining parts at the end, which takes the memory twice.
            self._X = np.empty((self._rows, part.X.shape[1]), dtype=part.X.dtype)
        first = self._parts[-1].stop if self._parts else 0
        stop = first + part.n_entries
        self._X[first:stop] = part.X
        self._parts.append(Chunk(first, stop, None, part.y, part.weight))

    def whole(self) -> Chunk:
        if self._X is None:
            return join(self._parts)
        y = np.concatenate([part.y for part in self._parts])
        return Chunk(0, len(y), self._X, y, np.concatenate([part.weight for part in self._parts]))
