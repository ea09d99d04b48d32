"""Consoles and tables of the command line; numbers are formatted by :mod:`aidlearn.words`."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aidlearn.words import (
    aligned,
    clock,
    count,
    duration,
    enclosing,
    enclosing_all,
    gap_text,
    percent,
    short_count,
)

__all__ = [
    "aligned",
    "clock",
    "console",
    "count",
    "duration",
    "enclosing",
    "enclosing_all",
    "facts",
    "gap_text",
    "percent",
    "short_count",
]

PIPE_WIDTH = 120
"""Width of lines that are written to a file or a pipe."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # handled by ``reported`` for all output


def console(error: bool = False) -> Console:
    """A console on standard output or error."""
    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return _Console(file=stream, highlight=False, markup=False, width=width)


def facts(rows: list[tuple[str, Any]]) -> Table:
    """Names and values in two aligned columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, what in rows:
        table.add_row(Text("  " + name), Text(what) if isinstance(what, str) else what)
    return table
