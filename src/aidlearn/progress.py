"""Progress of a fit, for displays in a terminal, in lines of text or in a notebook.

A :class:`Display` is a callback of the estimator that receives passes and iterations. Nothing here draws it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aidlearn.words import clock, count, duration, enclosing, gap_text, percent, short_count

if TYPE_CHECKING:
    from aidlearn.data.passes.run import PassProgress
    from aidlearn.engine.result import Iteration

SMALLEST = 1e-12
"""Gap at which the bar is full if the tolerance is 0."""
FARTHEST = 30
"""Guess. Multiple of the time so far beyond which an estimate of the remaining time is not shown."""
SOLVING = 0.3
"""Guess. Seconds from the end of a pass until the display says that the aggregated problem is being solved."""


@dataclass
class FitProgress:
    """The gap of one fit as it closes."""

    tol: float
    records: list[Iteration] = field(default_factory=list)

    @property
    def last(self) -> Iteration:
        return self.records[-1]

    def closed(self) -> float:
        """Return the fraction of the way from the first gap to the tolerance, on a log scale."""
        first, now, goal = (self._logarithm(gap) for gap in (self.records[0].gap, self.last.gap, self.tol))
        if now <= goal:
            return 1.0
        return min(1.0, max(0.0, (first - now) / (first - goal))) if first > goal else 1.0

    def remaining(self) -> float | None:
        """Estimate the seconds to the tolerance from the recent rate of convergence; None if that is impossible."""
        if len(self.records) < 2:
            return None
        before = self.records[max(0, len(self.records) - 4)]
        shrunk = self._logarithm(before.gap) - self._logarithm(self.last.gap)
        passed = self.last.seconds - before.seconds
        left = self._logarithm(self.last.gap) - self._logarithm(self.tol)
        if left <= 0:
            return 0.0
        seconds = left / shrunk * passed if shrunk > 0 else math.inf
        return seconds if seconds < FARTHEST * max(1.0, self.last.seconds) else None

    @staticmethod
    def _logarithm(gap: float) -> float:
        return math.log10(min(1.0, max(gap, SMALLEST))) if gap == gap else 0.0


@dataclass(frozen=True)
class Bar:
    """A completed fraction, and its label."""

    fraction: float
    words: str


class Display:
    """Callback that records the progress for subclasses to show; it shows nothing itself."""

    def __init__(self, title: str, tol: float, n_fits: int = 1) -> None:
        self.stopping = False
        self._watched = True
        self._lock = threading.RLock()
        self.reset(title, tol, n_fits)

    def reset(self, title: str, tol: float, n_fits: int = 1) -> None:
        """Start over for another fit."""
        self.title, self.tol, self.n_fits = title, tol, n_fits
        self.started = time.monotonic()
        self.tracks: list[FitProgress] = []
        self.progress: PassProgress | None = None
        self.batch: Any = None
        self.n_nodes = 0
        self._heard = self.started
        self._own: dict[int, FitProgress] = {}

    def __call__(self, record: Iteration) -> bool:
        with self._lock:
            # Fits of several classes run in threads, those of several quantiles one after the other.
            thread = threading.get_ident()
            track = self._own.get(thread)
            if track is None or record.iteration <= track.last.iteration:
                track = self._own[thread] = FitProgress(self.tol)
                self.tracks.append(track)
            track.records.append(record)
            self._heard, self.n_nodes = time.monotonic(), 0
            self._show(self.on_iteration, track)
        return self.stopping

    def on_pass(self, progress: PassProgress) -> None:
        """Receive the progress of a pass."""
        with self._lock:
            self.progress, self._heard = progress, time.monotonic()
            self._show(self.on_progress, progress)

    def on_batch(self, progress: Any) -> None:
        """Receive the progress of a batch of fits (:class:`aidlearn.estimators.fitting.BatchProgress`)."""
        with self._lock:
            self.batch, self._heard = progress, time.monotonic()
            self._show(self.on_members, progress)

    def on_search(self, n_nodes: int) -> None:
        """Receive the number of nodes of a branch and bound."""
        with self._lock:
            self.n_nodes = n_nodes
            self._show(self.on_nodes, n_nodes)

    def on_nodes(self, n_nodes: int) -> None:
        """Show the progress of a branch and bound; subclasses override it."""

    def on_members(self, progress: Any) -> None:
        """Show the progress of a batch; subclasses override it."""

    def _show(self, show: Callable[[Any], None], what: Any) -> None:
        """Call ``show``; a stream that fails ends the display, not the fit."""
        if self._watched:
            try:
                show(what)
            except OSError:
                self._watched = False

    def on_iteration(self, track: FitProgress) -> None:
        """Show a finished iteration; subclasses override it."""

    def on_progress(self, progress: PassProgress) -> None:
        """Show the progress of a pass; subclasses override it."""

    def number(self, track: FitProgress) -> str:
        """Return the number of a fit among several, as a prefix; empty for a single fit."""
        return f"fit {self.tracks.index(track) + 1} of {self.n_fits}, " if self.n_fits > 1 else ""

    def line(self, track: FitProgress) -> str:
        """Return the last iteration as one line of text."""
        record = track.last
        low, high = enclosing(record.best_lower_bound, record.best_objective)
        return (
            f"{self.number(track)}iteration {record.iteration}: gap {gap_text(record.gap)}, "
            f"{low} <= optimum <= {high}, {count(record.n_clusters)} clusters "
            f"({percent(record.aggregation_rate)} of the rows), {duration(record.seconds)}"
        )

    def rows(self) -> list[tuple[str, str | Bar]]:
        """Return the rows of the display: a name, and a text or a bar."""
        # Show the parallel fit with the largest gap, or the sequential fit that is running.
        track = max(self.tracks, key=lambda t: t.last.gap, default=None)
        if len(self._own) == 1:
            track = self.tracks[-1]
        elapsed = clock(time.monotonic() - self.started)
        if track is None:
            rows: list[tuple[str, str | Bar]] = [
                ("gap", Bar(0.0, f"no bound yet, goal {self.tol:g}")),
                ("optimum", "unknown"),
                ("clusters", "initial clusters are being built"),
            ]
        else:
            record, remaining = track.last, track.remaining()
            low, high = enclosing(record.best_lower_bound, record.best_objective)
            part = f"{percent(record.aggregation_rate)} of the rows"
            rows = [
                ("gap", Bar(track.closed(), f"{gap_text(record.gap)}, goal {self.tol:g}")),
                ("optimum", f"{low} to {high}"),
                ("clusters", f"{count(record.n_clusters)} ({part}), {count(record.n_violated)} to split"),
            ]
            if remaining is not None and record.gap > self.tol:
                since = time.monotonic() - self.started - record.seconds
                elapsed += f", about {clock(max(0.0, remaining - since))} to the tolerance"
        iteration = "first iteration" if track is None else f"{self.number(track)}iteration {track.last.iteration}"
        if self.batch is not None:
            done, n = self.batch.done, self.batch.n_members
            words = f"{count(done)} of {count(n)} done, worst gap {gap_text(self.batch.worst_gap)}"
            rows.append(("fits", Bar(done / n, words)))
        if self.n_nodes:
            rows.append(("search", f"{count(self.n_nodes)} nodes of a branch and bound"))
        name = "pass" if self.progress is None else f"pass {self.progress.number}"
        return [*rows, (name, self._pass()), ("elapsed", f"{elapsed}, {iteration}")]

    def _pass(self) -> str | Bar:
        progress = self.progress
        if progress is None:
            return "none yet"
        speed = f"{short_count(progress.rows_per_second)} rows/s"
        if progress.rows == progress.n_rows and time.monotonic() - self._heard > SOLVING:
            return f"done, {speed}; now " + ("the aggregated problem" if self.tracks else "the start")
        return Bar(progress.rows / progress.n_rows, speed)

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *error: object) -> None:
        pass
