"""One fit over one source: its passes, threads, sample, progress, memory budget, deadline, and whether to stop.

The algorithm never needs all entries at once (paper, section 1): it reads data only in *passes*. A pass maps a function
over the chunks and folds the results in chunk order.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from aidlearn.data.passes.transforms import Scaling, Transform
from aidlearn.data.rows.chunk import Chunk, join
from aidlearn.data.rows.memory import Budget
from aidlearn.data.rows.numbers import Targets
from aidlearn.data.rows.source import DataSource, PassFunction
from aidlearn.data.rows.threads import n_threads
from aidlearn.numerics import Float


@dataclass(frozen=True)
class PassProgress:
    """Progress of a pass over the data.

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
    """Number of the pass, from 1."""
    rows: int
    """Number of rows that the pass has read."""
    n_rows: int
    seconds: float
    """Seconds since the pass began."""

    @property
    def rows_per_second(self) -> float:
        """Rows read per second so far."""
        return self.rows / max(self.seconds, 1e-9)


COMPILED_CELLS = 4_000_000
"""Minimum number of cells of X for compiled passes; at this size, a fit without them takes about as long as loading
them (0.6 s)."""


def worth_compiling(source: DataSource) -> bool:
    """Return whether passes are compiled; only the shape of the data decides, so results do not depend on any cache."""
    return source.n_entries * source.n_attributes >= COMPILED_CELLS


@dataclass(frozen=True)
class Systematic:
    """A systematic sample: the entries ``offset, offset + step, ...``."""

    step: int
    offset: int


@dataclass
class _Sample:
    """The sample of a run, shared by all runs over the same rows of one fit."""

    wanted: Systematic | None = None
    rows: Chunk | None = None


@dataclass
class _Count:
    """Number of passes of a fit so far."""

    n_passes: int = 0


class Run:
    """One fit over one source; all data are read through a run.

    A run never changes. :meth:`changed`, :meth:`subtracted` and :meth:`until` return other runs of the same fit: their
    passes are counted together, and stopping one stops all.

    Parameters
    ----------
    source : DataSource
    targets : Targets
        How the stored targets become numbers.
    n_jobs : int, optional
        Number of threads; by default that of the source.
    watch : callable, optional
        Function that receives the progress of passes.
    whole : Run, optional
        The fit that this run is a part of, such as the fit of several classes. Passes of the part count towards the
        whole, and the part ends when the whole does.
    compiled : bool, optional
        Whether passes are compiled code; by default this follows from the shape of the data.
    deadline : float
        Value of ``time.monotonic()`` after which the fit should end with its incumbent.
    """

    def __init__(
        self,
        source: DataSource,
        targets: Targets | None = None,
        n_jobs: int | None = None,
        watch: Callable[[PassProgress], None] | None = None,
        whole: Run | None = None,
        compiled: bool | None = None,
        deadline: float = math.inf,
    ) -> None:
        self.source, self.watch, self.whole = source, watch, whole
        self.compiled = worth_compiling(source) if compiled is None else compiled
        self.targets = Targets(name=source.target_name) if targets is None else targets
        self.n_jobs = n_threads(source.n_jobs if n_jobs is None else n_jobs)
        self.deadline: float = deadline if whole is None else min(deadline, whole.deadline)
        self.changes: tuple[Transform, ...] = ()
        """Transformations of every chunk, applied in this order before a pass receives it."""
        self.budget = Budget.of(source, self.n_jobs)
        """Maximum sizes of samples and clusters."""
        self._stopped: threading.Event = threading.Event() if whole is None else whole._stopped
        self._count = _Count()
        self._sample = _Sample()
        self._passes = source.passes(self.targets, self.n_jobs)

    @property
    def n_entries(self) -> int:
        return self.source.n_entries

    @property
    def n_attributes(self) -> int:
        return self.source.n_attributes

    @property
    def n_passes(self) -> int:
        """Number of passes of this fit, or of this part of a fit."""
        return self._count.n_passes

    @property
    def stopped(self) -> bool:
        """Whether the user or a callback has stopped the fit."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Stop the fit at the user's request; it ends with its incumbent."""
        self._stopped.set()

    @property
    def ended(self) -> bool:
        """Whether the deadline has passed or the user has stopped the fit."""
        return self.stopped or time.monotonic() > self.deadline

    def hold(self, n_bytes: float) -> None:
        """Leave room in the budget for results of finished models, while others are fitted."""
        self.budget = Budget.of(self.source, self.n_jobs, n_bytes)

    # Other runs of the same fit

    def of(self, source: DataSource) -> Run:
        """Return a part of this fit on other rows, with the threads of their source."""
        return Run(source, watch=self.watch, whole=self)

    def part(self) -> Run:
        """Return a part of this fit on the same rows; its passes are also counted separately."""
        run = copy.copy(self)
        run.whole, run._count, run._sample = self, _Count(), _Sample()
        return run

    def until(self, deadline: float) -> Self:
        """Return this fit with ``deadline`` or its own, whichever is earlier."""
        run = copy.copy(self)
        run.deadline = min(deadline, self.deadline)
        return run

    def changed(self, change: Transform) -> Self:
        """Return this fit over transformed rows; chunks are transformed as they are used."""
        run = copy.copy(self)
        run.changes = (*self.changes, change)
        rows = self._sample.rows
        keep = rows is not None and not change.by_row
        run._sample = _Sample(self._sample.wanted, change(rows) if keep and rows is not None else None)
        return run

    def scaled(self, factors: Float) -> Self:
        """Return this fit with columns that are multiplied by factors."""
        return self.changed(Scaling(factors))

    def unscaled(self) -> Self:
        """Return this fit with unscaled columns."""
        run = copy.copy(self)
        run.changes = tuple(change for change in self.changes if not isinstance(change, Scaling))
        run._sample = _Sample()
        return run

    def resampled(self) -> Self:
        """Return this fit without its sample, so that a new one can be chosen."""
        run = copy.copy(self)
        run._sample = _Sample()
        return run

    def subtracted(self, offset: float) -> Self:
        """Return this fit with an offset subtracted from all targets."""
        run, rows = copy.copy(self), self._sample.rows
        run.targets = replace(self.targets, offset=offset)
        run._passes = self.source.passes(run.targets, self.n_jobs)
        run._sample = _Sample(self._sample.wanted, None if rows is None else replace(rows, y=rows.y - offset))
        return run

    # Passes

    def map(
        self,
        function: PassFunction,
        states: Sequence[Any] | None = None,
        collect: Callable[[Any], None] = lambda value: None,
    ) -> list[Any]:
        """Make one pass, ``value, state = function(chunk, state)`` for every chunk.

        ``collect(value)`` is called in chunk order, so sums do not depend on the number of threads.
        The states stay with their chunks and are returned for the next pass.
        """
        given = [None] * self.source.n_chunks if states is None else states
        wanted = self._sample.wanted
        if wanted is None or self._sample.rows is not None:
            return self._map(function, given, collect)
        picked = _Picked(len(range(wanted.offset, self.n_entries, wanted.step)))

        def with_sample(chunk: Chunk, state: Any) -> tuple[Any, Any]:
            value, kept = function(chunk, state)
            return (value, chunk.every(wanted.step, wanted.offset)), kept

        def collect_both(values: tuple[Any, Chunk]) -> None:
            collect(values[0])
            picked.add(values[1])

        kept = self._map(with_sample, given, collect_both)
        self._sample.rows = picked.whole()
        return kept

    def _map(self, function: PassFunction, states: Sequence[Any], collect: Callable[[Any], None]) -> list[Any]:
        number = self.add_passes(1)
        kept: list[Any] = []
        started = time.monotonic()
        for value, state in self._passes.ordered(self.on_changed(function), states):
            collect(value)
            kept.append(state)
            if self.watch is not None:
                rows = min(len(kept) * self.source.rows_per_chunk, self.n_entries)
                self.watch(PassProgress(number, rows, self.n_entries, time.monotonic() - started))
        return kept

    def on_changed(self, function: PassFunction) -> PassFunction:
        """Return a pass function that first applies the transformations of this run to its chunk."""
        changes = self.changes
        if not changes:
            return function

        def changed(chunk: Chunk, state: Any) -> tuple[Any, Any]:
            for change in changes:
                chunk = change(chunk)
            return function(chunk, state)

        return changed

    def add_passes(self, number: int) -> int:
        """Count passes of this part and of the whole, and return the total of the whole."""
        self._count.n_passes += number
        return self.n_passes if self.whole is None else self.whole.add_passes(number)

    def map_states(self, function: Callable[[Any], Any], states: Sequence[Any]) -> Iterator[Any]:
        """Return ``function(state)`` of every chunk in order, without reading entries; states may be remote."""
        return self._passes.map_states(function, states)

    # The sample

    def plan_sample(self, wanted: Systematic) -> None:
        """Choose the sample of this fit; if reading it takes a pass, the next pass collects it."""
        self._sample.wanted, self._sample.rows = wanted, self._without_a_pass(wanted)

    def sample(self, plan: Callable[[], Systematic]) -> Chunk:
        """Return the sample of this fit, by one pass at most; ``plan`` chooses one if there is none yet."""
        if self._sample.wanted is None:
            self.plan_sample(plan())
        if self._sample.rows is None:
            self.map(lambda chunk, state: (None, None))
        assert self._sample.rows is not None
        return self._sample.rows

    def release_sample(self) -> None:
        """Free the memory of the sample; the next sample may take a pass."""
        self._sample.wanted = self._sample.rows = None

    def every(self, wanted: Systematic) -> Chunk:
        """Return another systematic sample, by one pass at most."""
        return self.resampled().sample(lambda: wanted)

    def _without_a_pass(self, wanted: Systematic) -> Chunk | None:
        """Return the sample if the source can read it directly and no transformation needs row numbers, else None."""
        if any(change.by_row for change in self.changes):
            return None
        found = self.source.every(wanted.step, wanted.offset)
        if found is None:
            return None
        rows = self.targets.code(found)
        for change in self.changes:
            rows = change(rows)
        return rows


class _Picked:
    """Rows of a sample, collected from the chunks of a pass."""

    def __init__(self, n_rows: int) -> None:
        self._rows = n_rows
        self._X: NDArray[Any] | None = None
        self._parts: list[Chunk] = []

    def add(self, part: Chunk) -> None:
        if sparse.issparse(part.X):
            self._parts.append(part)
            return
        if self._X is None:
            # Allocated once, because joining parts at the end takes the memory twice.
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


Value = TypeVar("Value")


def fold(run: Run, function: Callable[[Chunk], Value], collect: Callable[[Value], None]) -> None:
    """Call ``collect(function(chunk))`` in chunk order, by one pass."""
    run.map(lambda chunk, state: (function(chunk), None), collect=collect)


def total(run: Run, function: Callable[[Chunk], Float]) -> Float:
    """Sum an array over all chunks in chunk order, by one pass."""
    sums: list[Float] = []

    def collect(part: Float) -> None:
        sums[:] = [sums[0] + part] if sums else [0.0 + part]

    fold(run, function, collect)
    return sums[0]
