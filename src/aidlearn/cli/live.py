"""Progress of a fit: a live display on a terminal, lines elsewhere, or nothing.

A display is a callback of the estimator. It also handles Ctrl-C: the running fit ends with its best solution, and the
remaining fits end after their first iteration, so that the model is complete.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from aidlearn.cli.errors import interrupted_by, say
from aidlearn.cli.output import console
from aidlearn.progress import Bar, Display, FitProgress
from aidlearn.words import count, gap_text, short_count

if TYPE_CHECKING:
    from aidlearn import PassProgress

EVERY = 2.0
"""Seconds between two lines about the same pass."""


class LineDisplay(Display):
    """Display that prints a line per iteration, and one every few seconds during a long pass."""

    def __init__(self, title: str, tol: float, n_fits: int = 1) -> None:
        super().__init__(title, tol, n_fits)
        self._said = self.started

    def on_iteration(self, track: FitProgress) -> None:
        self._say(self.line(track))

    def on_progress(self, progress: PassProgress) -> None:
        if time.monotonic() - self._said >= EVERY and progress.rows < progress.n_rows:
            part = 100 * progress.rows // progress.n_rows
            self._say(f"pass {progress.number}: {part}% of the rows, {short_count(progress.rows_per_second)} rows/s")

    def on_nodes(self, n_nodes: int) -> None:
        if time.monotonic() - self._said >= EVERY:
            self._say(f"branch and bound: {count(n_nodes)} nodes")

    def on_members(self, progress: Any) -> None:
        done, n = count(progress.done), count(progress.n_members)
        self._say(f"{done} of {n} fits done, worst gap {gap_text(progress.worst_gap)}")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        say(line)


class LiveDisplay(Display):
    """Display of fixed height that is redrawn a few times a second."""

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
            rows = self.rows()
        width = max(10, min(40, self._console.width - 38))
        board = Table.grid(padding=(0, 2, 0, 0))
        board.add_column(style="dim", no_wrap=True, min_width=8)
        board.add_column(no_wrap=True, overflow="ellipsis")
        for name, what in rows:
            board.add_row(Text(name), _bar(what, width) if isinstance(what, Bar) else Text(what))
        outer = Table.grid()
        outer.add_column(no_wrap=True, overflow="ellipsis")
        outer.add_row(Text(self.title, style="bold"))
        outer.add_row(board)
        return outer


def _bar(bar: Bar, width: int) -> Table:
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=width)
    line.add_column(no_wrap=True, overflow="ellipsis")
    line.add_row(ProgressBar(total=1.0, completed=bar.fraction, width=width), Text(bar.words))
    return line


@contextmanager
def watching(title: str, tol: float, n_fits: int = 1, quiet: bool = False) -> Iterator[Display]:
    """Show progress, and let Ctrl-C end the running fit and those that follow."""
    screen = console(error=True)
    if quiet:
        display = Display(title, tol, n_fits)
    elif _is_live(screen):
        display = LiveDisplay(title, tol, n_fits, screen)
    else:
        display = LineDisplay(title, tol, n_fits)

    def stop() -> None:
        display.stopping = True

    with interrupted_by(signal.SIGINT, signal.SIGTERM, before=stop), display:
        yield display


@contextmanager
def working(text: str, quiet: bool) -> Iterator[None]:
    """Show on a terminal what a command is doing."""
    screen = console(error=True)
    with nullcontext() if quiet or not _is_live(screen) else screen.status(Text(text)):
        yield


def _is_live(screen: Console) -> bool:
    return screen.is_terminal and not screen.is_dumb_terminal
