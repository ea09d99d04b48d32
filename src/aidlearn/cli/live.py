"""What a fit shows while it runs: a live display on a terminal, lines elsewhere, or nothing.

A display is a callback of the estimator. It also carries Ctrl-C: the fit that is running ends with the best it has,
and the fits still to come end after their first iteration, so that the model is complete.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from aidlearn.cli.words import clock, console, count, duration, enclosing, gap_text, percent, short_count

if TYPE_CHECKING:
    from aidlearn import Iteration, PassProgress

SMALLEST = 1e-12
"""Gap at which the bar is full when a verified optimum (tolerance 0) is asked for."""
EVERY = 2.0
"""Seconds between two lines about the same pass."""
FARTHEST = 30
"""Times the time so far: an estimate beyond is none."""
SOLVING = 0.3
"""Seconds after a pass from which on the aggregated problem is said to be worked on."""


@dataclass
class FitProgress:
    """The gap of one fit as it closes."""

    tol: float
    records: list[Iteration] = field(default_factory=list)

    @property
    def last(self) -> Iteration:
        return self.records[-1]

    def closed(self) -> float:
        """How much of the way from the first gap to the tolerance is done, on a log scale."""
        first, now, goal = (self._logarithm(gap) for gap in (self.records[0].gap, self.last.gap, self.tol))
        if now <= goal:
            return 1.0
        return min(1.0, max(0.0, (first - now) / (first - goal))) if first > goal else 1.0

    def remaining(self) -> float | None:
        """Seconds to the tolerance if the gap goes on closing as it did; None if there is no telling."""
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


class Display:
    """Callback that keeps what there is to show; this one shows nothing."""

    def __init__(self, title: str, tol: float, n_fits: int = 1) -> None:
        self.title, self.tol, self.n_fits = title, tol, n_fits
        self.started = time.monotonic()
        self.stopping = False
        self._watched = True
        self.tracks: list[FitProgress] = []
        self.progress: PassProgress | None = None
        self._heard = self.started
        self._own: dict[int, FitProgress] = {}
        self._lock = threading.RLock()

    def __call__(self, record: Iteration) -> bool:
        with self._lock:
            # Fits of several classes run in threads, those of several quantiles one after the other.
            thread = threading.get_ident()
            track = self._own.get(thread)
            if track is None or record.iteration <= track.last.iteration:
                track = self._own[thread] = FitProgress(self.tol)
                self.tracks.append(track)
            track.records.append(record)
            self._heard = time.monotonic()
            self._show(self.on_iteration, track)
        return self.stopping

    def on_pass(self, progress: PassProgress) -> None:
        with self._lock:
            self.progress, self._heard = progress, time.monotonic()
            self._show(self.on_progress, progress)

    def _show(self, show: Callable[[Any], None], what: Any) -> None:
        """Whoever looked on may have left: that ends the display, not the fit."""
        if self._watched:
            try:
                show(what)
            except BrokenPipeError:
                self._watched = False

    def on_iteration(self, track: FitProgress) -> None:
        """A fit has ended an iteration."""

    def on_progress(self, progress: PassProgress) -> None:
        """A pass has gone on."""

    def number(self, track: FitProgress) -> str:
        return f"fit {self.tracks.index(track) + 1} of {self.n_fits}, " if self.n_fits > 1 else ""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class LineDisplay(Display):
    """A line per iteration, and one every few seconds of a long pass."""

    def __init__(self, title: str, tol: float, n_fits: int = 1) -> None:
        super().__init__(title, tol, n_fits)
        self._said = self.started

    def on_iteration(self, track: FitProgress) -> None:
        record = track.last
        low, high = enclosing(record.best_lower_bound, record.best_objective)
        self._say(
            f"{self.number(track)}iteration {record.iteration}: gap {gap_text(record.gap)}, "
            f"{low} <= optimum <= {high}, {count(record.n_clusters)} clusters "
            f"({percent(record.aggregation_rate)} of the rows), {duration(record.seconds)}"
        )

    def on_progress(self, progress: PassProgress) -> None:
        if time.monotonic() - self._said >= EVERY and progress.rows < progress.n_rows:
            part = 100 * progress.rows // progress.n_rows
            self._say(f"pass {progress.number}: {part}% of the rows, {short_count(progress.rows_per_second)} rows/s")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class LiveDisplay(Display):
    """The live display: a board of fixed height that is redrawn a few times a second."""

    def __init__(self, title: str, tol: float, n_fits: int, where: Console) -> None:
        super().__init__(title, tol, n_fits)
        self._console = where
        self._live = Live(console=where, get_renderable=self.render, refresh_per_second=8, transient=True)

    def __enter__(self) -> Display:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def render(self) -> Table:
        with self._lock:
            rows = self._rows(max(10, min(40, self._console.width - 38)))
        board = Table.grid(padding=(0, 2, 0, 0))
        board.add_column(style="dim", no_wrap=True, min_width=8)
        board.add_column(no_wrap=True, overflow="ellipsis")
        for name, what in rows:
            board.add_row(Text(name), Text(what) if isinstance(what, str) else what)
        outer = Table.grid()
        outer.add_column(no_wrap=True, overflow="ellipsis")
        outer.add_row(Text(self.title, style="bold"))
        outer.add_row(board)
        return outer

    def _rows(self, width: int) -> list[tuple[str, Any]]:
        # Of fits side by side the one that is farthest, of fits one after the other the one that runs.
        track = max(self.tracks, key=lambda t: t.last.gap, default=None)
        if len(self._own) == 1:
            track = self.tracks[-1]
        elapsed = clock(time.monotonic() - self.started)
        if track is None:
            rows: list[tuple[str, Any]] = [
                ("gap", _bar(0.0, width, f"first bound to come, goal {self.tol:g}")),
                ("optimum", "unknown"),
                ("clusters", "initial clusters are drawn"),
            ]
        else:
            record, remaining = track.last, track.remaining()
            low, high = enclosing(record.best_lower_bound, record.best_objective)
            part = f"{percent(record.aggregation_rate)} of the rows"
            rows = [
                ("gap", _bar(track.closed(), width, f"{gap_text(record.gap)}, goal {self.tol:g}")),
                ("optimum", f"{low} to {high}"),
                ("clusters", f"{count(record.n_clusters)} ({part}), {count(record.n_violated)} to split"),
            ]
            if remaining is not None and record.gap > self.tol:
                since = time.monotonic() - self.started - record.seconds
                elapsed += f", about {clock(max(0.0, remaining - since))} to the tolerance"
        iteration = "first iteration" if track is None else f"{self.number(track)}iteration {track.last.iteration}"
        name = "pass" if self.progress is None else f"pass {self.progress.number}"
        return [*rows, (name, self._pass(width)), ("elapsed", f"{elapsed}, {iteration}")]

    def _pass(self, width: int) -> Any:
        progress = self.progress
        if progress is None:
            return "none yet"
        speed = f"{short_count(progress.rows_per_second)} rows/s"
        if progress.rows == progress.n_rows and time.monotonic() - self._heard > SOLVING:
            return f"done, {speed}; now " + ("the aggregated problem" if self.tracks else "the start")
        return _bar(progress.rows / progress.n_rows, width, speed)


def _bar(fraction: float, width: int, words: str) -> Table:
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=width)
    line.add_column(no_wrap=True, overflow="ellipsis")
    line.add_row(ProgressBar(total=1.0, completed=fraction, width=width), Text(words))
    return line


@contextmanager
def watching(title: str, tol: float, n_fits: int = 1, quiet: bool = False) -> Iterator[Display]:
    """A display for the terminal, and Ctrl-C with a memory."""
    screen = console(error=True)
    if quiet:
        display = Display(title, tol, n_fits)
    elif screen.is_terminal and not screen.is_dumb_terminal:
        display = LiveDisplay(title, tol, n_fits, screen)
    else:
        display = LineDisplay(title, tol, n_fits)
    with _stopping(display), display:
        yield display


@contextmanager
def opening(name: str, quiet: bool) -> Iterator[None]:
    """While a file is looked at: text has to be read once to know its rows."""
    screen = console(error=True)
    if quiet or not screen.is_terminal or screen.is_dumb_terminal:
        yield
        return
    with screen.status(Text(f"Reading {name}")):
        yield


@contextmanager
def _stopping(display: Display) -> Iterator[None]:
    """Ctrl-C ends the fit that runs, and those that follow at once; so does SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        display.stopping = True
        raise KeyboardInterrupt

    heard = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
