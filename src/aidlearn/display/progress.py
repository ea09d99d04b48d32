"""A live display of a running fit, for notebooks."""

from __future__ import annotations

import sys
import time
from html import escape
from importlib import import_module
from typing import Any

from aidlearn.progress import Bar, Display, FitProgress
from aidlearn.words import count

REDRAWN = 0.125
"""Minimum seconds between two updates during a pass."""


class ProgressDisplay(Display):
    """Callback that shows a running fit: gap, bounds on the optimum, clusters and passes.

    In a notebook it is a table that is updated in place, like the live display of the command line; elsewhere it writes
    one line per iteration to standard error.

    Parameters
    ----------
    title : str, optional
        Title of the display; by default the name of the estimator and the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from aidlearn import LADRegressor, ProgressDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> shown = ProgressDisplay()
    >>> model = LADRegressor(init="kmeans", callbacks=[shown]).fit(X, X.sum(axis=1) + rng.laplace(size=5000))
    >>> len(shown.tracks[0].records) == model.n_iter_
    True
    """

    def __init__(self, title: str = "") -> None:
        super().__init__(title, 0.0)
        self._given, self._drawn = title, 0.0
        self._handle: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Make copies, such as those of a grid search, start empty."""
        return type(self), (self._given,)

    def on_fit(self, name: str, tol: float, n_rows: int, n_fits: int = 1) -> None:
        """Reset the display for a new fit."""
        with self._lock:
            self.reset(self._given or f"{name} of {count(n_rows)} rows", tol, n_fits)
            self._handle, self._drawn = _board(self.html()), time.monotonic()

    def on_iteration(self, track: FitProgress) -> None:
        """Update the table, or write a line."""
        if self._handle is not None:
            self._redraw()
            return
        sys.stderr.write(self.line(track) + "\n")

    def on_progress(self, progress: Any) -> None:
        """Update the table a few times a second."""
        if self._handle is not None and time.monotonic() - self._drawn >= REDRAWN:
            self._redraw()

    def _redraw(self) -> None:
        self._drawn = time.monotonic()
        self._handle.update(_html(self.html()))

    def html(self) -> str:
        """Return the display as an HTML table."""
        rows = "".join(_row(name, what) for name, what in self.rows())
        return f"<div><b>{escape(self.title)}</b><table style='border-collapse: collapse'>{rows}</table></div>"


NAME = "text-align: left; opacity: 0.7; padding: 1px 1em 1px 0"
CELL = "text-align: left; padding: 1px 0; font-variant-numeric: tabular-nums"
BAR = "<progress value='{:.3f}' max='1' style='width: 14em; vertical-align: middle'></progress>"


def _row(name: str, what: str | Bar) -> str:
    shown = escape(what) if isinstance(what, str) else f"{BAR.format(what.fraction)} {escape(what.words)}"
    return f"<tr><td style='{NAME}'>{escape(name)}</td><td style='{CELL}'>{shown}</td></tr>"


def _board(text: str) -> Any:
    """Show the text in a notebook and return its handle; None outside notebooks."""
    if "IPython" not in sys.modules:
        return None
    shell = import_module("IPython").get_ipython()
    if not hasattr(shell, "kernel"):  # IPython in a terminal has no kernel and shows no HTML
        return None
    return import_module("IPython.display").display(_html(text), display_id=True)


def _html(text: str) -> Any:
    return import_module("IPython.display").HTML(text)
