"""A fit as it runs, in a notebook."""

from __future__ import annotations

import sys
import time
from html import escape
from importlib import import_module
from typing import Any

from aidlearn.progress import Bar, Display, FitProgress
from aidlearn.words import count

REDRAWN = 0.125
"""Seconds between two pictures of the same pass."""


class ProgressDisplay(Display):
    """Callback that shows a fit as it runs: the gap closing, the optimum enclosed, clusters, passes.

    In a notebook it is a board that is redrawn in place, as the command line has it on a terminal; elsewhere a line on
    standard error for each iteration.

    Parameters
    ----------
    title : str, optional
        Above the board; by default the name of the estimator and the number of rows.

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
        """Copies, as searches make them, begin anew."""
        return type(self), (self._given,)

    def on_fit(self, name: str, tol: float, n_rows: int, n_fits: int = 1) -> None:
        """A fit begins."""
        with self._lock:
            self.reset(self._given or f"{name} of {count(n_rows)} rows", tol, n_fits)
            self._handle, self._drawn = _board(self.html()), time.monotonic()

    def on_iteration(self, track: FitProgress) -> None:
        """Draw the board anew, or write a line."""
        if self._handle is not None:
            self._redraw()
            return
        sys.stderr.write(self.line(track) + "\n")

    def on_progress(self, progress: Any) -> None:
        """Draw the board anew, a few times a second."""
        if self._handle is not None and time.monotonic() - self._drawn >= REDRAWN:
            self._redraw()

    def _redraw(self) -> None:
        self._drawn = time.monotonic()
        self._handle.update(_html(self.html()))

    def html(self) -> str:
        """The board."""
        rows = "".join(_row(name, what) for name, what in self.rows())
        return f"<div><b>{escape(self.title)}</b><table style='border-collapse: collapse'>{rows}</table></div>"


NAME = "text-align: left; opacity: 0.7; padding: 1px 1em 1px 0"
CELL = "text-align: left; padding: 1px 0; font-variant-numeric: tabular-nums"
BAR = "<progress value='{:.3f}' max='1' style='width: 14em; vertical-align: middle'></progress>"


def _row(name: str, what: str | Bar) -> str:
    shown = escape(what) if isinstance(what, str) else f"{BAR.format(what.fraction)} {escape(what.words)}"
    return f"<tr><td style='{NAME}'>{escape(name)}</td><td style='{CELL}'>{shown}</td></tr>"


def _board(text: str) -> Any:
    """Where to draw in a notebook; None where this is none."""
    if "IPython" not in sys.modules:
        return None
    shell = import_module("IPython").get_ipython()
    if not hasattr(shell, "kernel"):  # a terminal of IPython has no kernel, and no pictures
        return None
    return import_module("IPython.display").display(_html(text), display_id=True)


def _html(text: str) -> Any:
    return import_module("IPython.display").HTML(text)
